//! The `anabranch` program: the whole command line for the NF library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let library = anabranch::Library::new(anabranch_nfs::functions!(anabranch::entries))
        .without(anabranch_nfs::ABSENT);
    anabranch::program("anabranch", library)
}

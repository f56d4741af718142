//! The program that the tests of this crate run: the whole command line for the NF library, as
//! `anabranch` itself has it.

use std::process::ExitCode;

fn main() -> ExitCode {
    let library = anabranch::Library::new(anabranch_nfs::functions!(anabranch::entries))
        .without(anabranch_nfs::ABSENT);
    anabranch::program("anabranch", library)
}

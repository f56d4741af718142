//! The `anabranch` program: the whole command line for the NF library.

use std::process::ExitCode;

fn main() -> ExitCode {
    anabranch::program("anabranch", anabranch::Library::new(Vec::new()))
}

//! Functions of the library on one core and on many. One program, since each of them is compiled for
//! every way to run it.
#![cfg(not(shuttle))]
#![allow(missing_docs, clippy::unwrap_used)]

mod balance;
mod ends;
mod fragments;
mod homes;
mod kept;
mod lending;
mod profile;
mod restart;
mod runs;
mod sharing;

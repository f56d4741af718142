//! Parsing, and every accessor and setter by right and by wrong layouts.
#![no_main]

use anabranch_packet::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzing::read(bytes));

//! Setters against checksums computed anew.
#![no_main]

use anabranch_packet::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &[u8])| fuzzing::checksums(input.1, input.0));

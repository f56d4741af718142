//! Translating what an ICMP error quotes, against quoting what was translated.
#![no_main]

use anabranch_packet::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &[u8])| fuzzing::embedded(input.1, input.0));

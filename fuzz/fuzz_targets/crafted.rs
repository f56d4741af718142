//! What is answered to any packet.
#![no_main]

use anabranch_packet::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzing::crafted(bytes));

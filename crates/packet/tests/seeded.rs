//! The fuzz targets' bodies over seeded mutations of well-formed packets, on a stable compiler and
//! in bounded time.

use anabranch_packet::{Layout, fuzzing, parse};

const ROUNDS: u64 = 2_000;

fn mutations(mut run: impl FnMut(&[u8], u64)) {
    let samples = fuzzing::samples();
    for round in 0..ROUNDS {
        for (number, sample) in samples.iter().enumerate() {
            let mut seeds = fuzzing::Seeds::new(round << 16 | number as u64);
            let mut bytes = sample.clone();
            if round > 0 {
                seeds.mutate(&mut bytes);
            }
            run(&bytes, seeds.draw());
        }
    }
}

#[test]
fn samples_are_well_formed_and_of_every_kind() {
    let samples = fuzzing::samples();
    let layouts: Vec<_> = samples.iter().map(|s| parse(s, s.len() as u32)).collect();
    for (sample, layout) in samples.iter().zip(&layouts) {
        assert_eq!(layout.malformed(), None, "{sample:02x?}");
        assert!(sample.len() >= 42);
    }
    assert!(samples.len() > 80, "{}", samples.len());
    let kinds: [fn(&Layout) -> bool; 6] = [
        |l| l.has_tcp() && l.has_ipv6() && l.vlan_tags() == 2,
        |l| l.has_udp() && l.has_ipv4() && l.vlan_tags() == 1,
        |l| l.is_fragment() && !l.is_first_fragment() && l.has_ipv6(),
        |l| l.is_first_fragment() && l.has_icmpv4(),
        |l| l.is_routed() && l.has_icmpv6(),
        |l| l.has_arp(),
    ];
    for present in kinds {
        assert!(layouts.iter().any(present));
    }
}

#[test]
fn reading_never_panics() {
    mutations(|bytes, _| fuzzing::read(bytes));
}

#[test]
fn random_bytes_never_panic() {
    let mut seeds = fuzzing::Seeds::new(1);
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..seeds.below(120)).map(|_| seeds.draw() as u8).collect();
        fuzzing::read(&bytes);
        fuzzing::crafted(&bytes);
    }
}

#[test]
fn setters_give_what_computing_anew_gives() {
    mutations(fuzzing::checksums);
}

#[test]
fn embedded_setters_give_what_translating_before_quoting_gives() {
    mutations(fuzzing::embedded);
}

#[test]
fn answers_are_well_formed() {
    mutations(|bytes, _| fuzzing::crafted(bytes));
}

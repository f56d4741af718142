//! Packets that nobody here made.

use anabranch_packet::{
    Frame, Ipv4Addr, Ipv6Addr, Malformed, Meta, Packet,
    checksum::{Check, ChecksumReport, verify},
    fuzzing, parse,
};
use std::collections::BTreeMap;

mod capture;

fn with_packet<T>(captured: &capture::Captured, use_of: impl FnOnce(Packet<'_>) -> T) -> T {
    let (mut bytes, wire_len) = (captured.bytes.clone(), captured.wire_len);
    let (len, meta) = (bytes.len(), Meta { wire_len, ..Meta::default() });
    let layout = parse(&bytes, wire_len);
    use_of(Packet::new(&mut Frame::new(&mut bytes, 0, len, 0, meta), layout))
}

#[test]
fn nearly_all_are_well_formed_and_none_panics() {
    let mut reasons: BTreeMap<Option<Malformed>, usize> = BTreeMap::new();
    for capture in capture::ethernet() {
        for captured in &capture {
            fuzzing::read(&captured.bytes);
            fuzzing::crafted(&captured.bytes);
            let malformed = parse(&captured.bytes, captured.wire_len).malformed();
            *reasons.entry(malformed).or_default() += 1;
        }
    }
    let all: usize = reasons.values().sum();
    let fine = reasons.get(&None).copied().unwrap_or_default();
    assert!(fine >= all * 99 / 100, "{fine} of {all}: {reasons:?}");
}

fn translate(packet: &mut Packet<'_>) {
    let (v4, v6) = (Ipv4Addr::new(198, 51, 100, 7), Ipv6Addr::new(0x2001, 0xdb8, 7, 6, 5, 4, 3, 2));
    if let Some(mut ipv4) = packet.ipv4_mut() {
        ipv4.set_src(v4);
        ipv4.set_ttl(ipv4.ttl().wrapping_sub(1));
    }
    if let Some(mut ipv6) = packet.ipv6_mut() {
        ipv6.set_dst(v6);
    }
    packet.set_src_port(50_001);
    packet.set_dst_port(53);
    if let Some(mut icmp) = packet.icmpv4_mut() {
        icmp.set_id(4_242);
    }
    if let Some(mut inner) = packet.embedded_mut() {
        inner.set_dst(v4);
        inner.set_dst_port(50_001);
        inner.set_id(4_242);
    }
}

/// Captured on the sending host, many a checksum is not yet computed: what was wrong stays wrong.
#[test]
fn setters_keep_checksums_as_right_as_they_were() {
    let mut counts = [0_usize; 3];
    for capture in capture::ethernet() {
        for captured in &capture {
            let (before, after) = with_packet(captured, |mut packet| {
                let before = verify(&packet);
                translate(&mut packet);
                (before, verify(&packet))
            });
            assert_eq!(before, after);
            count(&mut counts, before);
        }
    }
    let [valid, invalid, other] = counts;
    assert!(valid >= invalid, "{valid} valid, {invalid} invalid, {other} not to be checked");
}

fn count(counts: &mut [usize; 3], report: ChecksumReport) {
    match report.transport {
        Check::Valid => counts[0] += 1,
        Check::Invalid => counts[1] += 1,
        Check::Absent | Check::Unverifiable => counts[2] += 1,
    }
}

#[test]
fn setters_give_what_computing_anew_gives() {
    let mut seeds = fuzzing::Seeds::new(2);
    for captured in capture::ethernet().iter().flatten() {
        fuzzing::checksums(&captured.bytes, seeds.draw());
        fuzzing::embedded(&captured.bytes, seeds.draw());
    }
}

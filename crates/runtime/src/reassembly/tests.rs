//! Fragments in, datagrams out.

use super::pool::UNDER_WAY;
use super::*;
use crate::mailbox::Again;
use anabranch_packet::checksum::Sum;
use anabranch_packet::craft::{Link, udp};
use anabranch_packet::fragment::cut;
use anabranch_packet::{MacAddr, Port};

/// What became of fragments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Account {
    held: u64,
    discarded: u64,
    reassembled: u64,
    incomplete: u64,
}

impl Release for Account {
    fn forward(&mut self, _: &Frame<'_>, _: Port) {}
    fn flood(&mut self, _: &Frame<'_>) {}
    fn discard(&mut self, _: &Frame<'_>, _: DropReason) {
        self.discarded += 1;
    }
    fn hand_over(&mut self, _: &Frame<'_>, _: u16, _: Again) {}
    fn emit(&mut self, _: &Meta, _: Port, _: &[u8]) {}
    fn hold(&mut self, _: &Frame<'_>) {
        self.held += 1;
    }
    fn settle(&mut self, reason: DropReason, held: &[u64]) {
        let reassembled = DropReason::from(Builtin::Reassembled);
        let place =
            if reason == reassembled { &mut self.reassembled } else { &mut self.incomplete };
        *place += held.len() as u64;
    }
}

/// A UDP packet over IPv4 with a payload of `len` bytes.
fn packet(id: u16, len: usize) -> Vec<u8> {
    let mac = |last| MacAddr::new(2, 0, 0, 0, 0, last);
    let link = Link { src: mac(1), dst: mac(2), tags: [None; 2] };
    let payload: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let mut frame = vec![0; 70_000];
    let (src, dst) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
    let written = udp(&mut frame, &link, src, dst, &payload).unwrap();
    frame.truncate(written);
    frame[18..20].copy_from_slice(&id.to_be_bytes());
    frame[20] &= 0x40;
    mend(&mut frame);
    frame
}

/// Computes the checksum of the IPv4 header.
fn mend(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let checksum = Sum::new().bytes(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&checksum);
}

fn pieces(frame: &[u8], longest: usize) -> Vec<Vec<u8>> {
    let (mut all, mut scratch) = (Vec::new(), vec![0; 70_000]);
    let layout = parse(frame, frame.len() as u32);
    cut(frame, layout, longest, &mut scratch, |piece| all.push(piece.to_vec())).unwrap();
    all
}

/// Gives a fragment that came at `second`; what it completes.
fn give(
    reassembly: &mut Reassembly,
    account: &mut Account,
    second: u64,
    fragment: &[u8],
) -> Option<Vec<u8>> {
    let mut bytes = fragment.to_vec();
    let (len, arrival_ns) = (bytes.len(), second * 1_000_000_000);
    let meta = Meta { arrival_ns, wire_len: len as u32, ..Meta::default() };
    let frame = Frame::new(&mut bytes, 0, len, 0, meta);
    let layout = parse(frame.bytes(), len as u32);
    let mut whole = reassembly.add(&frame, layout, account)?;
    let bytes = whole.frame().bytes().to_vec();
    assert_eq!(whole.frame().meta().wire_len as usize, bytes.len());
    reassembly.forget(whole);
    Some(bytes)
}

/// What the worker keeps itself.
fn pool(reassembly: &Reassembly) -> &Pool {
    match reassembly {
        Reassembly::Here(pool) => pool,
        Reassembly::Before(_) => unreachable!("nobody gives it datagrams"),
    }
}

/// Fragments may be shorter than a TCP header.
#[test]
fn a_tcp_header_in_parts_is_put_together() {
    let mut whole = packet(3, 48);
    whole[23] = 6;
    whole[46] = 7 << 4;
    mend(&mut whole);
    let (mut reassembly, mut account) = (Reassembly::default(), Account::default());
    let fragments = pieces(&whole, 20 + 16);
    assert_eq!(fragments.len(), 4);
    let came = fragments.iter().filter_map(|one| give(&mut reassembly, &mut account, 0, one));
    assert_eq!(came.collect::<Vec<_>>(), [whole]);
    assert_eq!(account, Account { held: 3, reassembled: 3, ..Account::default() });
}

#[test]
fn any_order_makes_the_packet_that_was_cut() {
    let mut chance = 7_u64;
    let mut next = |below: usize| {
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) as usize % below
    };
    let (mut reassembly, mut account) = (Reassembly::default(), Account::default());
    for round in 0..300_u16 {
        let whole = packet(round, 1_600 + next(8_000));
        let mut fragments = pieces(&whole, 68 + next(1_400).max(whole.len() / 100));
        // Now and then one comes twice.
        if next(3) == 0 && fragments.len() > 1 {
            let twice = fragments[next(fragments.len())].clone();
            fragments.insert(0, twice);
        }
        let mut came = Vec::new();
        while !fragments.is_empty() {
            let one = fragments.swap_remove(next(fragments.len()));
            came.extend(give(&mut reassembly, &mut account, 0, &one));
            if !came.is_empty() {
                break;
            }
        }
        assert_eq!(came, [whole], "round {round}");
        // One that came twice begins anew, and is given up in the end.
        for one in fragments {
            assert_eq!(give(&mut reassembly, &mut account, 0, &one), None);
        }
    }
    let left: u64 = pool(&reassembly).under_way.iter().map(|one| one.held.len() as u64).sum();
    reassembly.end(&mut account);
    assert_eq!(account.incomplete, left);
    // Each fragment but those that completed something was held, and all have been settled.
    assert_eq!(account.held, account.reassembled + account.incomplete);
    assert_eq!(account.discarded, 0);
}

#[test]
fn what_comes_too_late_begins_anew() {
    let (mut reassembly, mut account) = (Reassembly::default(), Account::default());
    let fragments = pieces(&packet(1, 2_000), 1_280);
    assert_eq!(give(&mut reassembly, &mut account, 0, &fragments[0]), None);
    assert_eq!(give(&mut reassembly, &mut account, 30, &fragments[1]), None);
    assert_eq!(account, Account { held: 2, incomplete: 1, ..Account::default() });
    assert!(give(&mut reassembly, &mut account, 59, &fragments[0]).is_some());
    assert_eq!(account, Account { held: 2, incomplete: 1, reassembled: 1, ..Account::default() });
}

#[test]
fn what_contradicts_itself_is_dropped_with_all_that_came() {
    let (mut reassembly, mut account) = (Reassembly::default(), Account::default());
    let fragments = pieces(&packet(1, 3_001), 1_280);
    let place = |at: usize, field: u16| {
        let mut fragment = fragments[at].clone();
        fragment[20..22].copy_from_slice(&field.to_be_bytes());
        mend(&mut fragment);
        fragment
    };
    for wrong in [
        place(0, 0x2001), // overlaps the first
        place(1, 0x2001),
        place(2, 0x0001), // the end within the first
        place(1, 0x3fff), // past the longest packet
    ] {
        let before = account.discarded;
        assert_eq!(give(&mut reassembly, &mut account, 0, &fragments[0]), None);
        assert_eq!(give(&mut reassembly, &mut account, 0, &wrong), None);
        assert_eq!(account.discarded, before + 1);
        reassembly.end(&mut account);
    }
    // Two ends.
    assert_eq!(give(&mut reassembly, &mut account, 0, &fragments[2]), None);
    assert_eq!(give(&mut reassembly, &mut account, 0, &place(2, 0x0200)), None);
    assert_eq!((pool(&reassembly).under_way.len(), account.discarded), (0, 5));
    // Not a multiple of eight bytes, with more to come.
    assert_eq!(give(&mut reassembly, &mut account, 0, &place(2, 0x2200)), None);
    assert_eq!((pool(&reassembly).under_way.len(), account.discarded), (0, 6));
}

#[test]
fn a_flood_of_fragments_takes_bounded_memory_and_spares_the_latest() {
    let (mut reassembly, mut account) = (Reassembly::default(), Account::default());
    for id in 0..10_000 {
        give(&mut reassembly, &mut account, 0, &pieces(&packet(id, 2_000), 1_280)[0]);
    }
    assert_eq!(pool(&reassembly).under_way.len(), UNDER_WAY);
    assert!(pool(&reassembly).spare.len() <= 2 * UNDER_WAY);
    let last = packet(9_999, 2_000);
    let rest = &pieces(&last, 1_280)[1];
    assert_eq!(give(&mut reassembly, &mut account, 1, rest), Some(last));
    assert_eq!(account.incomplete, 10_000 - UNDER_WAY as u64);
}

/// The header that all of them have is made anew: what it said wrong is not to be believed then.
#[test]
fn a_wrong_header_is_not_mended() {
    let (mut reassembly, mut account) = (Reassembly::default(), Account::default());
    let mut fragments = pieces(&packet(1, 2_000), 1_280);
    fragments[1][22] ^= 1;
    for fragment in &fragments {
        assert_eq!(give(&mut reassembly, &mut account, 0, fragment), None);
    }
    assert_eq!((account.held, account.discarded), (1, 1));
}

/// RFC 3168, 5.3.
#[test]
fn congestion_that_one_fragment_met_the_datagram_has_met() {
    for (codepoints, expected) in [([1, 3], Some(3)), ([2, 2], Some(2)), ([0, 3], None)] {
        let (mut reassembly, mut account) = (Reassembly::default(), Account::default());
        let mut came = None;
        for (fragment, codepoint) in pieces(&packet(1, 2_000), 1_280).iter_mut().zip(codepoints) {
            fragment[15] = codepoint;
            mend(fragment);
            came = give(&mut reassembly, &mut account, 0, fragment);
        }
        assert_eq!(came.map(|whole| whole[15]), expected);
    }
}

/// What the length of the whole says is wrong is seen when there is a whole.
#[test]
fn a_datagram_that_is_malformed_is_dropped() {
    let (mut reassembly, mut account) = (Reassembly::default(), Account::default());
    let mut whole = packet(1, 2_000);
    whole[38..40].copy_from_slice(&9_000_u16.to_be_bytes());
    for fragment in pieces(&whole, 1_280) {
        assert_eq!(give(&mut reassembly, &mut account, 0, &fragment), None);
    }
    assert_eq!(account, Account { held: 1, discarded: 1, reassembled: 1, ..Account::default() });
}

/// An IPv6 packet with so many bytes of destination options, a fragment header, and UDP.
fn ipv6(options: usize, offset: u16, more: bool, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 14];
    frame[12..].copy_from_slice(&[0x86, 0xdd]);
    let len = (options + 8 + payload.len()) as u16;
    let first = if options == 0 { 44 } else { 60 };
    frame.extend([0x60, 0, 0, 0, (len >> 8) as u8, len as u8, first, 64]);
    frame.extend([7; 32]);
    if options > 0 {
        frame.extend([44, (options / 8 - 1) as u8, 1, (options - 4) as u8]);
        frame.resize(frame.len() + options - 4, 0);
    }
    let field = offset | u16::from(more);
    frame.extend([next, 0, (field >> 8) as u8, field as u8, 0, 0, 0, 9]);
    frame.extend(payload);
    frame
}

#[test]
fn ipv6_comes_together_and_hides_nothing() {
    const UDP: u8 = 17;
    let (mut reassembly, mut account) = (Reassembly::default(), Account::default());
    let header = [0, 1, 0, 2, 0, 64, 0, 0];
    let first = [&header[..], &[3; 24]].concat();
    assert_eq!(give(&mut reassembly, &mut account, 0, &ipv6(0, 32, false, UDP, &[4; 32])), None);
    let whole = give(&mut reassembly, &mut account, 0, &ipv6(0, 0, true, UDP, &first)).unwrap();
    assert_eq!(whole, ipv6(0, 0, false, UDP, &[&first[..], &[4; 32]].concat()));
    // Options of one of them alone would make many short fragments of it.
    assert_eq!(give(&mut reassembly, &mut account, 0, &ipv6(0, 32, false, UDP, &[4; 32])), None);
    assert_eq!(give(&mut reassembly, &mut account, 0, &ipv6(16, 0, true, UDP, &first)), None);
    assert_eq!(account.incomplete, 1);
    // A fragment within a fragment.
    let inner = [&[UDP, 0, 0, 1, 0, 0, 0, 1][..], &first].concat();
    let before = account.discarded;
    assert_eq!(give(&mut reassembly, &mut account, 0, &ipv6(0, 0, false, 44, &inner)), None);
    assert_eq!(account.discarded, before + 1);
}

/// Whoever looks at the clock has what is late given up, though nothing else comes in fragments.
#[test]
fn what_is_late_is_given_up_without_another_fragment() {
    let (mut reassembly, mut account) = (Reassembly::default(), Account::default());
    for (second, id) in [(0, 1), (1, 2)] {
        let fragment = &pieces(&packet(id, 2_000), 1_280)[0];
        assert_eq!(give(&mut reassembly, &mut account, second, fragment), None);
    }
    let told = |reassembly: &mut Reassembly, account: &mut Account, second: u64| {
        reassembly.give_up_late(second * 1_000_000_000, account);
        account.incomplete
    };
    assert_eq!(told(&mut reassembly, &mut account, 29), 0);
    assert_eq!(told(&mut reassembly, &mut account, 30), 1);
    assert_eq!(told(&mut reassembly, &mut account, 31), 2);
    assert_eq!(pool(&reassembly).under_way.len(), 0);
}

/// Whoever sends one fragment again and again fills nothing.
#[test]
fn what_comes_again_and_again_is_given_up() {
    let (mut reassembly, mut account) = (Reassembly::default(), Account::default());
    let fragment = &pieces(&packet(1, 2_000), 1_280)[0];
    for _ in 0..1_000 {
        assert_eq!(give(&mut reassembly, &mut account, 0, fragment), None);
        assert!(pool(&reassembly).under_way.iter().all(|one| one.held.len() <= 256));
    }
    reassembly.end(&mut account);
    assert_eq!(account.held, account.incomplete);
    assert_eq!(account.held + account.discarded, 1_000);
}

//! DPDK's virtual devices as live ports: packets in its memory, how they leave, and what is said where they cannot.
//! Compiled with the feature `dpdk`; skipped, with the reason printed, where DPDK does not start.
#![cfg(feature = "dpdk")]
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use anabranch_io::live::{LivePort, LiveSpec, Queue, QueueStatistics, Sent, open};
use anabranch_packet::{Frame, Port};
use proptest::prelude::*;

/// Packets handled at once.
const BATCH: usize = 32;

/// `None`, with the reason printed: DPDK does not start here.
fn try_open(device: &str, workers: usize) -> Option<Result<LivePort, String>> {
    let spec: LiveSpec = format!("dpdk:{device}").parse().unwrap();
    let opened = open(&spec, Port::new(3), workers).map_err(|error| error.to_string());
    if let Some(why) = opened.as_ref().err().filter(|why| why.contains("DPDK does not start")) {
        println!("skipped: {why}");
        return None;
    }
    Some(opened)
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    for (device, workers, parts) in [
        ("net_nosuch0", 1, ["cannot take", "pmds-*"]),
        ("net_null7,nonsense=1", 1, ["does not take these arguments", "doc.dpdk.org"]),
        ("net_af_packet7", 1, ["these arguments", "iface=INTERFACE,qpairs=WORKERS"]),
        ("net_af_packet7,iface=no-such-one", 1, ["no such interface", "`ip link`"]),
        ("net_pcap7,rx_pcap=/nowhere/a.pcap", 1, ["/nowhere/a.pcap: No such file", "rx_pcap=FILE"]),
        ("net_pcap7,rx_iface=no-such-one", 1, ["no-such-one", "rx_pcap=FILE"]),
        ("net_pcap7,tx_pcap=/dev/null,tx_pcap=/dev/null", 1, ["queues are 2", "1 times"]),
        ("net_ring7", 20, ["queues are 16", "fewer `--workers`"]),
        ("0000:ff:1f.6", 1, ["no such device on the PCI bus", "dpdk-devbind.py --status"]),
    ] {
        let Some(opened) = try_open(device, workers) else { return };
        let why = opened.err().unwrap();
        assert!(parts.iter().all(|part| why.contains(part)), "{device}: {why}");
        assert!(
            why.contains(device.split(',').next().unwrap()) || why.contains("no-such"),
            "{why}"
        );
    }
}

#[test]
fn a_device_that_was_closed_can_be_opened_again() {
    for workers in [1, 3, 2] {
        let Some(opened) = try_open("net_null6", workers) else { return };
        let port = opened.unwrap();
        assert_eq!(port.queues.len(), workers);
        assert!(port.about.contains("net_null") && port.about.contains("polled"), "{}", port.about);
    }
}

/// Sends packets by one end of a ring and gives what comes out of it.
fn round_trip<'m>(queue: &mut dyn Queue<'m>, packets: &[&[u8]]) -> Vec<Frame<'m>> {
    let sent = queue.send(packets);
    assert_eq!(sent.packets, packets.len() as u64, "{sent:?}");
    assert_eq!(sent.bytes, packets.iter().map(|packet| packet.len() as u64).sum::<u64>());
    let mut frames = Vec::new();
    while queue.receive(&mut frames, BATCH) > 0 {}
    frames
}

fn bytes<'f>(frames: &'f [Frame<'_>]) -> Vec<&'f [u8]> {
    frames.iter().map(Frame::bytes).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// What a function does to a packet's ends and bytes is what leaves, from the memory where it arrived.
    #[test]
    fn packets_leave_as_they_were_left_and_from_where_they_lie(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 14..600), 1..80),
        more in 0_usize..100,
        less in 0_usize..14,
        whole in any::<bool>(),
    ) {
        let Some(a) = try_open("net_ring0", 1) else { return Ok(()) };
        let Some(b) = try_open("net_ring1", 1) else { return Ok(()) };
        let (mut a, mut b) = (a.unwrap(), b.unwrap());
        let (mut a, mut b) = (a.queues[0].queue(), b.queues[0].queue());
        let given: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let mut frames = round_trip(&mut *a, &given);
        prop_assert_eq!(bytes(&frames), given);
        for frame in &mut frames {
            prop_assert!(frame.meta().port == Port::new(3));
            prop_assert_eq!(frame.meta().wire_len as usize, frame.captured_len());
            prop_assert!(frame.push_front(more) && frame.pull_front(less));
            if let Some(first) = frame.bytes_mut().first_mut() { *first ^= 0xff; }
        }
        let expected: Vec<(Vec<u8>, usize)> =
            frames.iter().map(|frame| (frame.bytes().to_vec(), frame.bytes().as_ptr() as usize)).collect();
        let mut arrived = Vec::new();
        if frames.len() <= BATCH && whole {
            prop_assert_eq!(b.forward_all(&mut frames).packets as usize, expected.len());
            prop_assert!(frames.is_empty());
            while b.receive(&mut arrived, BATCH) > 0 {}
        }
        let places: Vec<u8> = (0..frames.len() as u8).collect();
        for places in places.chunks(BATCH) {
            let sent = b.forward(&mut frames, places);
            prop_assert_eq!(sent.packets as usize, places.len());
            while b.receive(&mut arrived, BATCH) > 0 {}
        }
        let left: Vec<_> = arrived.iter().map(|frame| (frame.bytes().to_vec(), frame.bytes().as_ptr() as usize)).collect();
        prop_assert_eq!(left, expected);
        prop_assert!(frames.iter().all(|frame| frame.bytes().is_empty()));
        a.release(&mut frames);
        b.release(&mut arrived);
    }
}

#[test]
fn every_buffer_comes_back() {
    let (Some(a), Some(b)) = (try_open("net_ring2", 1), try_open("net_ring3", 1)) else { return };
    let (mut a, mut b) = (a.unwrap(), b.unwrap());
    let (mut a, mut b) = (a.queues[0].queue(), b.queues[0].queue());
    let packet = [5; 60];
    let packets: Vec<&[u8]> = vec![&packet; BATCH];
    // Many times as many as a pool has: sent and dropped, forwarded and dropped, forwarded and sent in vain.
    for round in 0..2_000 {
        let mut frames = round_trip(&mut *a, &packets);
        assert_eq!(frames.len(), BATCH, "{round}");
        let places: Vec<u8> = (0..BATCH as u8).filter(|place| place % 3 > 0).collect();
        assert_eq!(b.forward(&mut frames, &places).packets as usize, places.len(), "{round}");
        a.release(&mut frames);
        assert!(frames.is_empty());
        while b.receive(&mut frames, BATCH) > 0 {}
        assert_eq!(frames.len(), places.len(), "{round}");
        b.release(&mut frames);
    }
    // A ring that nobody empties is full, and refuses at once.
    let sent = (0..2_000).map(|_| b.send(&packets)).reduce(|mut all, sent| {
        all.add(sent);
        all
    });
    let sent = sent.unwrap();
    assert!(sent.full > 0 && sent.packets > 0, "{sent:?}");
    assert_eq!(sent.packets + sent.full, 2_000 * BATCH as u64);
    assert_eq!(sent.bytes, sent.packets * 60);
    assert_eq!(round_trip(&mut *a, &packets).len(), BATCH);
}

#[test]
fn who_holds_packets_back_receives_no_more_until_they_come_back() {
    let Some(port) = try_open("net_null4", 1) else { return };
    let mut port = port.unwrap();
    let mut queue = port.queues[0].queue();
    let mut held = Vec::new();
    while queue.receive(&mut held, 1) > 0 {}
    assert!((2_000..10_000).contains(&held.len()), "{}", held.len());
    // And sends nothing: there is no memory to copy into.
    assert_eq!(queue.send(&[&[1; 60]]), Sent { full: 1, ..Sent::default() });
    let before = held.len();
    queue.release(&mut held);
    assert_eq!(queue.send(&[&[1; 60]]).packets, 1);
    while queue.receive(&mut held, 1) > 0 {}
    assert_eq!(held.len(), before);
    queue.release(&mut held);
}

#[test]
fn packets_of_other_memory_are_copied_and_too_long_ones_refused() {
    let (mut memory, mut forged, long) = ([7; 100], [9; 100], [0; 1_519]);
    let Some(port) = try_open("net_ring5", 1) else { return };
    let mut port = port.unwrap();
    let mut queue = port.queues[0].queue();
    let meta = anabranch_packet::Meta::default();
    // A token that is none of DPDK's makes no frame one of DPDK's.
    let mut frames =
        vec![Frame::new(&mut memory, 10, 60, 0, meta), Frame::new(&mut forged, 0, 64, 99, meta)];
    assert_eq!(queue.forward(&mut frames, &[0, 77]).packets, 1);
    assert_eq!(queue.forward_all(&mut frames).packets, 2);
    assert_eq!(bytes(&frames), [&[7; 60][..], &[9; 64]], "they stay where they are");
    queue.release(&mut frames);
    let sent = queue.send(&[&long, &[1; 60]]);
    assert_eq!((sent.too_big, sent.packets, sent.bytes), (1, 1, 60));
    while queue.receive(&mut frames, BATCH) > 0 {}
    assert_eq!(bytes(&frames), [&[7; 60][..], &[7; 60], &[9; 64], &[1; 60]]);
    queue.release(&mut frames);
    assert_eq!(queue.statistics(), QueueStatistics::default());
}

#[test]
fn workers_have_queues_of_their_own() {
    let Some(port) = try_open("net_ring8", 2) else { return };
    let mut port = port.unwrap();
    std::thread::scope(|threads| {
        for (number, opened) in port.queues.iter_mut().enumerate() {
            threads.spawn(move || {
                let mut queue = opened.queue();
                let packet = [number as u8; 60];
                for _ in 0..500 {
                    let mut frames = round_trip(&mut *queue, &[&packet[..]; BATCH]);
                    assert!(
                        frames.len() == BATCH && frames.iter().all(|frame| frame.bytes() == packet)
                    );
                    queue.release(&mut frames);
                }
            });
        }
    });
}

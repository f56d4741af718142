//! No frame panics, whatever is in it, and every one gets a verdict.

use anabranch_packet::craft::Echo;
use proptest::prelude::*;

use super::*;

/// Frames that reach every part of L3.
fn samples() -> Vec<Vec<u8>> {
    let link = Link { src: HOST_MAC, dst: LAN_MAC, tags: [None; 2] };
    let all = Link { dst: MacAddr::BROADCAST, ..link };
    let echo = Echo { is_reply: false, id: 7, sequence: 9 };
    let mut frames = vec![
        outbound("10.0.0.7", "203.0.113.5", 1_300),
        outbound("10.0.0.7", "10.0.0.9", 9),
        outbound("10.0.0.7", "10.0.0.1", 9),
        outbound("2001:db8:1::7", "2001:db8:9::5", 1_300),
        outbound("2001:db8:1::7", "2001:db8:1::9", 9),
        with_hops(&outbound("10.0.0.7", "203.0.113.5", 9), 1),
        with_hops(&outbound("2001:db8:1::7", "2001:db8:9::5", 9), 1),
    ];
    let mut add = |write: &dyn Fn(&mut [u8]) -> Option<usize>| frames.push(made(write));
    let v4 = |text: &str| text.parse().unwrap();
    let v6 = |text: &str| text.parse().unwrap();
    add(&|out| craft::arp_request(out, HOST_MAC, v4("10.0.0.7"), v4("10.0.0.1")));
    let query = craft::ListenerQuery { group: None, is_version_1: false };
    add(&|out| craft::listener_query(out, HOST_MAC, v6("fe80::7"), query));
    add(&|out| {
        craft::neighbour_solicitation(out, HOST_MAC, v6("fe80::7"), v6("2001:db8:1::1"), None)
    });
    for (src, dst) in [("10.0.0.7", "10.0.0.1"), ("fe80::7", "2001:db8:1::1")] {
        let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
        add(&|out| craft::echo(out, &link, src, dst, echo, b"payload"));
        add(&|out| craft::echo(out, &all, src, dst, echo, b"payload"));
    }
    frames
}

/// A sample with some bytes overwritten, cut, on one of three ports, so much later.
fn sample() -> impl Strategy<Value = (u8, Vec<u8>, u64)> {
    let samples = samples();
    let changes = prop::collection::vec((0..80_usize, any::<u8>()), 0..6);
    let bytes = (prop::sample::select(samples), changes, 0..1_400_usize).prop_map(
        |(mut frame, changes, cut)| {
            for (at, byte) in changes {
                if let Some(place) = frame.get_mut(at) {
                    *place = byte;
                }
            }
            frame.truncate(if cut < 100 { cut } else { frame.len() });
            frame
        },
    );
    (0..3_u8, bytes, 0..2 * SECOND)
}

proptest! {
    #[test]
    fn every_frame_gets_a_verdict(frames in prop::collection::vec(sample(), 1..40), promiscuous: bool) {
        let setting = if promiscuous { "promiscuous = true\naddresses" } else { "addresses" };
        let mut router = Router::new(&NETWORK.replacen("addresses", setting, 1));
        router.checks_output = false;
        for (port, frame, later) in frames {
            router.now += later;
            let outcome = router.send(Port::new(port), &frame);
            prop_assert!(matches!(outcome.verdict, Verdict::Forward(_) | Verdict::Discard(_)));
            prop_assert!(outcome.emitted.len() <= 80);
            prop_assert_eq!(outcome.bytes.len(), frame.len());
        }
    }

    #[test]
    fn raw_bytes_get_a_verdict(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut router = Router::new(NETWORK);
        let mut frame = LAN_MAC.octets().to_vec();
        frame.extend(&bytes);
        router.send(LAN, &frame);
        router.send(LAN, &bytes);
    }
}

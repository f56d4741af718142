//! Captures that begin before the ones before them have ended: what a function keeps of times stays in the past, since
//! its clock goes on.

use std::net::SocketAddr;

use anabranch_nf::prelude::network_function;
use anabranch_nfs::policer;
use anabranch_packet::craft::{Link, udp};
use anabranch_plan::Strategy;

use super::case::{Case, Sent, planned};

const START_NS: u64 = 1_767_225_600_000_000_000;
const MS: u64 = 1_000_000;
const HOUR_NS: u64 = 3_600_000 * MS;

/// Two seconds of packets that come by `port` from `start_ns` on, of 5 flows that each have a destination.
fn packets(port: usize, start_ns: u64) -> Sent {
    let packet = |number: u64| {
        let to: SocketAddr = format!("10.0.0.{}:5", 1 + number % 5).parse().unwrap();
        let mut bytes = [0; 256];
        let from = "198.51.100.1:53".parse().unwrap();
        let len = udp(&mut bytes, &Link::default(), from, to, &[0; 150]).unwrap();
        (port, start_ns + number * 2 * MS, bytes[..len].to_vec())
    };
    (0..=1_000).map(packet).collect()
}

/// What was sent, each packet at a time as much earlier.
fn earlier(sent: &[(usize, u64, Vec<u8>)], by_ns: u64) -> Sent {
    sent.iter().map(|(port, at_ns, bytes)| (*port, at_ns - by_ns, bytes.clone())).collect()
}

/// Of twice as much as its destinations may receive, the policer lets through after a start what it would have without
/// one, whether the same capture is played again or the clock has gone back by an hour. Workers that share state have
/// the time of the one that is ahead, here and there by another packet: they give something, and not too much.
#[test]
fn a_policer_whose_clock_has_gone_back_gives_no_more_and_no_less() {
    let length_ns = 2_000 * MS;
    for (strategy, workers) in [
        (None, 1),
        (Some(Strategy::SharedNothing), 2),
        (Some(Strategy::Lock), 2),
        (Some(Strategy::Transactional), 2),
    ] {
        let is_exact = !matches!(strategy, Some(Strategy::Lock | Strategy::Transactional));
        for back_ns in [length_ns, HOUR_NS] {
            let mut case = Case::of::<policer::Function>("rate_bps = 80000\nburst_bytes = 4000");
            case.plan = strategy.map(|strategy| planned::<policer::Function>(Some(strategy)));
            let first = packets(1, START_NS);
            let then = packets(1, START_NS + length_ns);
            let early = earlier(&then, back_ns);
            case.write_packets::<policer::Function>(&[&first[..], &then[..]].concat(), 1);
            let (_, whole) = case.run::<policer::Function>(0, 1, false);
            let limited = whole.len() * 10 / (first.len() + then.len());
            assert!((4..9).contains(&limited), "{limited} tenths");
            case.write_packets::<policer::Function>(&[&first[..], &early[..]].concat(), 2);
            let (_, mut sent) = case.run::<policer::Function>(1, workers, true);
            let sent_first = sent.len();
            let (report, more) = case.run::<policer::Function>(2, workers, true);
            if !is_exact {
                let range = 60..=whole.len();
                assert!(range.contains(&more.len()), "{}: {}", report.strategy, more.len());
                continue;
            }
            sent.extend(more);
            let (begins, goes_on) = whole.split_at(sent_first.min(whole.len()));
            let expected = [begins.to_vec(), earlier(goes_on, back_ns)].concat();
            let differs = sent.iter().zip(&expected).position(|(a, b)| a != b);
            let what = format!("{} by {back_ns} ns", report.strategy);
            assert_eq!(
                (differs, sent.len()),
                (None, expected.len()),
                "{what}, from {sent_first} on"
            );
        }
    }
}

/// Says at the end by what clock it has worked.
#[network_function(ports(inside, outside))]
pub mod parting {
    pub struct Parting {
        seen: Counter,
    }
    impl Parting {
        fn packet(&mut self, pkt: &mut Packet, _cx: &mut Context) -> Verdict {
            self.seen.add(1);
            Forward(pkt.port().other())
        }
        fn shutdown(&mut self, cx: &mut Context) {
            let now = cx.now().to_be_bytes();
            cx.emit(OUTSIDE, &now);
        }
    }
}

/// The clock of the function goes on; captures have the times of captures.
#[test]
fn what_is_sent_at_the_end_has_the_time_of_the_capture() {
    let mut case = Case::of::<parting::Function>("");
    case.plan = None;
    case.write_packets::<parting::Function>(&packets(0, START_NS), 1);
    let last_ns = START_NS + 2_000 * MS;
    for played in 1..4u64 {
        let (_, sent) = case.run::<parting::Function>(1, 1, true);
        let now_ns = START_NS + played * 2_000 * MS;
        assert_eq!(sent.last().unwrap(), &(1, last_ns, now_ns.to_be_bytes().to_vec()), "{played}");
    }
}

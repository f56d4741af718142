//! Several workers route as one would.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_packet::craft;
use proptest::prelude::*;

use super::*;
use crate::l3::Learned;
use crate::l3::neighbours::LEARNED;

/// Routers that tell each other what they learn.
fn workers(text: &str, count: usize) -> Vec<Router> {
    let learned = Arc::new(Learned::default());
    let worker = |_| Router { l3: read_with(text, &learned).unwrap(), ..Router::new(text) };
    (0..count).map(worker).collect()
}

/// One of eight hosts on the LAN.
fn host4(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 7 + number % 8)
}

fn host6(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 7 + u16::from(number % 8))
}

/// A frame and the port it comes by: something that `host` or somebody far away has to say, or an answer of `host`
/// to a question of ours.
fn frame(kind: u8, host: u8, moved: bool) -> (Port, Vec<u8>) {
    let mac = MacAddr::new(2, 0, 0, u8::from(moved), 1, host % 8);
    let (v4, v6) = (host4(host), host6(host));
    let (ours4, ours6) = (Ipv4Addr::new(10, 0, 0, 1), host6(0).segments());
    let ours6 = Ipv6Addr::from([&ours6[..7], &[1]].concat().first_chunk::<8>().copied().unwrap());
    match kind % 9 {
        0 => (LAN, made(|out| craft::arp_request(out, mac, v4, ours4))),
        1 => (LAN, made(|out| craft::neighbour_solicitation(out, mac, v6, ours6, None))),
        2 => (LAN, answer(&made(|out| craft::arp_request(out, LAN_MAC, ours4, v4)), mac)),
        3 => {
            let asked = made(|out| craft::neighbour_solicitation(out, LAN_MAC, ours6, v6, None));
            (LAN, answer(&asked, mac))
        }
        4 => (WAN, with_hops(&inbound("203.0.113.5", &v4.to_string(), 9), 1)),
        5 | 6 => (WAN, inbound("203.0.113.5", &v4.to_string(), 9)),
        7 => (WAN, inbound("2001:db8:9::5", &v6.to_string(), 9)),
        _ => (LAN, outbound(&v4.to_string(), "203.0.113.5", 1_300)),
    }
}

/// What a host at `mac` answers.
fn answer(question: &[u8], mac: MacAddr) -> Vec<u8> {
    with_packet(question, |packet| {
        made(|out| match packet.arp() {
            Some(_) => craft::arp_reply(out, packet, mac),
            None => craft::neighbour_advertisement(out, packet, mac, true),
        })
    })
}

/// Does what is due by `now` at any of the workers, in the order of time; what was sent.
fn wait(workers: &mut [Router], now: u64) -> Vec<(Port, Vec<u8>)> {
    let mut emitted = Vec::new();
    workers.iter_mut().for_each(|worker| worker.now = now);
    while let Some(first) = workers.iter_mut().min_by_key(|worker| worker.environment.due())
        && first.environment.due() <= now
    {
        first.follow_up(&mut emitted);
    }
    emitted
}

proptest! {
    /// Verdicts, bytes, questions, answers, errors and what was held, to the byte.
    #[test]
    fn workers_route_as_one(
        packets in prop::collection::vec(
            (any::<u8>(), any::<u8>(), any::<bool>(), 0..3_usize, prop_oneof![
                8 => Just(0), 4 => 0..2 * SECOND, 1 => 20 * SECOND..40 * SECOND
            ]),
            1..200,
        )
    ) {
        let mut one = Router::new(NETWORK);
        let mut several = workers(NETWORK, 3);
        let mut now = one.now;
        for (number, (kind, host, moved, worker, later)) in packets.into_iter().enumerate() {
            let (port, frame) = frame(kind, host, moved);
            now += later;
            one.now = now;
            prop_assert_eq!(wait(&mut several, now), one.wait(0), "before packet {}", number);
            let (expected, found) = (one.send(port, &frame), several[worker].send(port, &frame));
            prop_assert_eq!(found, expected, "packet {}, kind {}", number, kind % 9);
        }
    }
}

/// Over captures, where one worker is hours ahead of another: an error a second is due, and sent by whoever has it.
#[test]
fn who_is_ahead_uses_up_nobodys_errors() {
    let mut several = workers(NETWORK, 3);
    let expired = with_hops(&outbound("10.0.0.7", "203.0.113.5", 9), 1);
    let start = several[0].now;
    for second in 0..200 {
        for (worker, ahead) in [(2, 7_200), (0, 0), (1, 60)] {
            several[worker].now = start + (ahead + second) * SECOND;
            let outcome = several[worker].send(LAN, &expired);
            assert_eq!(outcome.emitted.len(), 1, "worker {worker}, second {second}");
        }
    }
}

/// More hosts than the table has room for, and more changes than are remembered before a worker looks again.
#[test]
fn a_full_table_is_everybodys() {
    let text = NETWORK.replacen("10.0.0.1/24", "10.0.0.1/16", 1);
    let mut one = Router::new(&text);
    let mut several = workers(&text, 3);
    let host = |number: u32| Ipv4Addr::from(0x0a00_1000 + number);
    let mac = |number: u32| {
        let [.., high, low] = number.to_be_bytes();
        MacAddr::new(2, 1, 0, 0, high, low)
    };
    let ours = Ipv4Addr::new(10, 0, 0, 1);
    for number in 0..2 * LEARNED {
        let request = made(|out| craft::arp_request(out, mac(number), host(number), ours));
        let worker = &mut several[if number % 1_000 == 0 { 1 } else { 0 }];
        assert_eq!(worker.send(LAN, &request), one.send(LAN, &request));
    }
    let mut known = [0; 3];
    for number in 0..2 * LEARNED {
        let frame = inbound("203.0.113.5", &host(number).to_string(), 9);
        let worker = number as usize % 3;
        let outcome = several[worker].send(WAN, &frame);
        assert_eq!(outcome, one.send(WAN, &frame), "{number}");
        if outcome.verdict == Verdict::Forward(LAN) {
            assert_eq!(macs(&outcome.bytes), (mac(number), LAN_MAC));
            known[worker] += 1;
        }
    }
    assert!(known.iter().all(|known| *known > LEARNED / 8), "{known:?}");
}

/// Hosts move again and again, as one worker hears; packets to them pass by three others, on threads of their own:
/// none goes to where a host was before it had said where it is, and no other host's packet.
#[test]
fn what_one_worker_has_heard_all_know() {
    const GENERATIONS: u64 = 2_000;
    let mut all = workers(NETWORK, 4);
    let (teller, readers) = all.split_first_mut().unwrap();
    let mac = |generation: u64, host: u8| {
        let [.., high, low] = generation.to_be_bytes();
        MacAddr::new(2, 1, high, low, 0, host)
    };
    let said = AtomicU64::new(0);
    let read = |router: &mut Router| {
        let mut passed = 0;
        for host in (0..8).cycle() {
            let before = said.load(Ordering::Acquire);
            let frame = inbound("203.0.113.5", &host4(host).to_string(), 9);
            let outcome = router.send(WAN, &frame);
            if before > 0 {
                assert_eq!(outcome.verdict, Verdict::Forward(LAN), "{before}");
                let [.., high, low, _, to] = macs(&outcome.bytes).0.octets();
                assert_eq!(to, host);
                assert!(u64::from(u16::from_be_bytes([high, low])) >= before, "{before}");
                passed += 1;
            }
            if before == GENERATIONS {
                break;
            }
        }
        passed
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            readers.iter_mut().map(|router| scope.spawn(|| read(router))).collect();
        for generation in 1..=GENERATIONS {
            for host in 0..8 {
                let (mac, ours) = (mac(generation, host), Ipv4Addr::new(10, 0, 0, 1));
                teller.send(LAN, &made(|out| craft::arp_request(out, mac, host4(host), ours)));
            }
            said.store(generation, Ordering::Release);
        }
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() > 0));
    });
}

//! State that all workers share, behind the lock or in transactions: what they do together is what one
//! would do in the order of their commits; ages are those of all workers together; nothing is erased
//! that is alive for one of them.

use anabranch_nf::prelude::*;
use anabranch_packet::Port;
use anabranch_plan::Options;
use anabranch_rss::Nic;
use anabranch_runtime::deployment::{Deployment, plan_of};
use anabranch_runtime::testing::{Arrived, Done, Sharing, SideBySide};

/// Lets a host through as long as it is heard at least every second: the published case of an entry
/// that is over on one core and alive on another.
#[network_function(ports(inside, outside))]
pub mod presence {
    pub enum Reason {
        /// The host has not been heard for a second.
        Absent,
    }
    pub struct Presence {
        #[capacity(64)]
        hosts: Map<Ipv4Addr, u32>,
        #[capacity(64)]
        #[expired(gone)]
        ages: Allocator<Ipv4Addr>,
        arrived: Counter,
        left: Cell<u64>,
    }
    const SECOND_NS: u64 = 1_000_000_000;
    impl Presence {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Drop(Builtin::UnsupportedProtocol) };
            let (src, dst) = (ip.src(), ip.dst());
            self.arrived.add(1);
            if pkt.port() == OUTSIDE {
                return match self.hosts.get(&dst) {
                    Some(index) if self.ages.is_allocated(index, cx) => Forward(INSIDE),
                    _ => Drop(Reason::Absent),
                };
            }
            if let Some(mut ip) = pkt.ipv4_mut() {
                let ttl = ip.ttl();
                ip.set_ttl(ttl - 1);
            }
            let known = self.hosts.get(&src);
            if let Some(index) = known
                && self.ages.touch(index, cx).is_some()
            {
                return Forward(OUTSIDE);
            }
            if let Some(index) = known {
                self.ages.free(index);
                self.hosts.remove(&src);
            }
            if let Some(index) = self.ages.allocate(src, SECOND_NS, cx) {
                self.hosts.insert(src, index);
                cx.emit(pkt.port(), b"0123456789abcdef");
            }
            Forward(OUTSIDE)
        }
        fn gone(&mut self, index: u32, host: Ipv4Addr, cx: &mut Context) {
            self.hosts.remove(&host);
            self.left.update(|left| *left += 1);
            log!(cx, info, "{} left", self.left.get());
        }
    }
}

/// Writes into each packet how many there have been, as far as it is known.
#[network_function(ports(inside, outside))]
pub mod tally {
    pub struct Settings {
        /// How old the count of others may be.
        #[setting(default = 0, max = 1_000)]
        pub staleness_ms: u64,
    }
    pub struct Tally {
        settings: Settings,
        #[merge(sum)]
        #[staleness_ms(settings.staleness_ms)]
        packets: Distributed<u64>,
    }
    fn sum(one: u64, other: u64) -> u64 {
        one + other
    }
    impl Tally {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            self.packets.update(|packets| *packets += 1);
            let packets = self.packets.read();
            if let Some(mut ip) = pkt.ipv4_mut() {
                ip.set_ttl(packets as u8);
            }
            Forward(OUTSIDE)
        }
    }
}

/// Counts packets by destination; what goes to an even host goes to the odd one after it too.
#[network_function(ports(inside, outside))]
pub mod twice {
    #[packet_set(ipv4(ip.dst), capacity = 4_096, expires_s = 1)]
    pub struct Host {
        packets: u8,
    }
    pub struct Twice {
        hosts: Cell<u64>,
    }
    impl Twice {
        fn packet_set_opened(
            &mut self,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Result<Host, Verdict> {
            self.hosts.update(|hosts| *hosts += 1);
            Ok(Host { packets: 0 })
        }
        fn packet(&mut self, host: &mut Host, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            host.packets += 1;
            let Some(mut ip) = pkt.ipv4_mut() else { return Forward(OUTSIDE) };
            let dst = u32::from(ip.dst());
            ip.set_ttl(host.packets);
            if dst % 2 == 0 {
                ip.set_dst(Ipv4Addr::from(dst + 1));
                return Recirculate(INSIDE);
            }
            Forward(OUTSIDE)
        }
        fn orphan(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Drop(Builtin::UnsupportedProtocol)
        }
    }
}

/// Counts packets by destination, from 100 on; those without room have 200.
#[network_function(ports(inside, outside))]
pub mod crowded {
    #[packet_set(ipv4(ip.dst), capacity = 16, expires_s = 1)]
    pub struct Host {
        packets: u8,
    }
    pub struct Crowded {
        refused: Cell<u64>,
    }
    fn mark(pkt: &mut Packet, number: u8) -> Verdict {
        if let Some(mut ip) = pkt.ipv4_mut() {
            ip.set_ttl(number);
        }
        Forward(OUTSIDE)
    }
    impl Crowded {
        fn packet_set_opened(
            &mut self,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Result<Host, Verdict> {
            Ok(Host { packets: 100 })
        }
        fn packet_set_full(&mut self, host: &Host, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            self.refused.update(|refused| *refused += 1);
            mark(pkt, host.packets + 100)
        }
        fn packet(&mut self, host: &mut Host, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            host.packets += 1;
            mark(pkt, host.packets)
        }
        fn orphan(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Drop(Builtin::UnsupportedProtocol)
        }
    }
}

const MS: u64 = 1_000_000;
/// In a frame without a VLAN tag.
const TTL: usize = 22;

fn packet(port: u8, after_ns: u64, host: u8) -> Arrived {
    let mut bytes = vec![0; 64];
    bytes[12] = 8;
    bytes[14..34]
        .copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes[if port == 0 { 29 } else { 33 }] = host;
    bytes[39] = 30;
    Arrived { port, after_ns, wire_len: 64, bytes }
}

/// Numbers below a bound, the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

const BOTH: [Sharing<'static>; 2] = [Sharing::Locked, Sharing::Tracked];

fn run(
    sharing: Sharing<'_>,
    packets: &[Arrived],
    shares: &[Vec<usize>],
    batch: usize,
) -> SideBySide {
    let settings = toml::Table::new();
    let run = SideBySide::run::<presence::Function>(sharing, &settings, packets, shares, batch);
    assert_as_one(&run, packets);
    run
}

fn assert_as_one(run: &SideBySide, packets: &[Arrived]) {
    let settings = toml::Table::new();
    let replayed = run.replay::<presence::Function>(&settings, packets);
    for commit in &run.order {
        let (one, other) = (&run.done.outcomes[&commit.number], &replayed.outcomes[&commit.number]);
        assert_eq!(one, other, "{commit:?} of {packets:?}");
    }
    assert_eq!(run.done.counters, replayed.counters);
    assert_eq!(run.done.logged, replayed.logged);
    let used = |done: &Done| done.tables.iter().map(|table| table.used).collect::<Vec<_>>();
    assert_eq!(used(&run.done), used(&replayed));
}

/// Worker 0 opens the entry and is silent; worker 1 refreshes it at 0.9 s as a reader. Worker 0 then
/// comes back at 1.5 s: by its own packets alone the entry ended at 1 s.
#[test]
fn what_is_alive_on_another_core_is_neither_erased_nor_looked_for_for_ever() {
    let packets = [
        packet(0, 0, 7),
        packet(0, 900 * MS, 7),
        packet(1, 1_500 * MS, 7),
        packet(0, 1_550 * MS, 7),
        packet(1, 2_560 * MS, 7),
        packet(1, 9_000 * MS, 7),
    ];
    // One thread after the other would not meet; the packets' own times do: every division is right.
    for sharing in BOTH {
        for cut in 1..packets.len() {
            let shares = [(0..cut).collect(), (cut..packets.len()).collect::<Vec<_>>()];
            run(sharing, &packets, &shares, 1);
        }
        let one = run(sharing, &packets, &[(0..packets.len()).collect()], 32);
        let dropped: Vec<_> = one.done.outcomes.values().map(|outcome| outcome.dropped()).collect();
        assert_eq!(dropped, [None, None, None, None, Some("absent"), Some("absent")]);
        assert_eq!(one.done.outcomes[&0].emitted().len(), 1);
        assert_eq!(one.done.logged.len(), 1, "it went once");
    }
}

#[test]
fn a_refresh_is_not_a_write() {
    let packets: Vec<_> =
        (0..1_000).map(|n| packet(0, n * 900 * MS / 1_000, n as u8 % 8)).collect();
    let one = run(Sharing::Locked, &packets, &[(0..1_000).collect()], 32);
    // Eight hosts are opened, and 13 turns of the wheels fall into 0.9 s.
    assert!(one.sides.upgraded <= 8 + 14, "{:?}", one.sides);
    assert_eq!(one.sides.readers + one.sides.upgraded, 1_000);
    assert_eq!(one.done.counters, [("arrived", 1_000)]);
    let one = run(Sharing::Tracked, &packets, &[(0..1_000).collect()], 32);
    let transactions = one.transactions;
    assert!(transactions.alone <= 8 + 14, "{transactions:?}");
    assert!(transactions.turns > 0 && transactions.commits > 0, "{transactions:?}");
    assert_eq!(transactions.items + transactions.alone + transactions.turn_items, 1_000);
    assert_eq!(one.done.counters, [("arrived", 1_000)]);
}

/// Each host is heard just before it would be forgotten and asked for just after: whoever is ahead of
/// the other must not take it for gone, or put it off less than it was. Workers are up to a second
/// apart.
#[test]
fn however_far_one_is_ahead_of_another_they_are_as_one() {
    const HOSTS: u64 = 40;
    let mut numbers = Numbers(9);
    let mut upgraded = 0;
    for _ in 0..if cfg!(miri) { 1 } else { 60 } {
        let mut packets = Vec::new();
        for turn in 0..if cfg!(miri) { 2 } else { 20 } {
            for host in 0..HOSTS {
                let at = turn * 998 * MS + host * 20 * MS;
                packets.push(packet(0, at, host as u8));
                packets.push(packet(1, at + (2 + numbers.below(4)) * MS, host as u8));
                packets.push(packet(0, at + (6 + numbers.below(4)) * MS, 200));
            }
        }
        let mut shares: [Vec<usize>; 3] = std::array::from_fn(|_| Vec::new());
        (0..packets.len()).for_each(|number| shares[numbers.below(3) as usize].push(number));
        let mut turns = Vec::new();
        while shares.iter().any(|share| !share.is_empty()) {
            let worker = numbers.below(3) as usize;
            let count = (1 + numbers.below(40) as usize).min(shares[worker].len());
            turns.push((worker, shares[worker].drain(..count).collect()));
        }
        let settings = toml::Table::new();
        for sharing in BOTH {
            let run = SideBySide::take_turns::<presence::Function>(
                sharing, &settings, &packets, 3, &turns,
            );
            assert_as_one(&run, &packets);
            if matches!(sharing, Sharing::Locked) {
                assert!(run.sides.readers > run.sides.upgraded, "{:?}", run.sides);
                upgraded += run.sides.upgraded;
            }
        }
    }
    assert!(upgraded > 0);
}

/// Hosts talk and fall silent for about as long as they live, and each worker is somewhere else in
/// time.
#[test]
fn expiry_under_stress_is_that_of_one_core() {
    let mut numbers = Numbers(5);
    let mut upgraded = 0;
    for round in 0..if cfg!(miri) { 1 } else { 24 } {
        let count = if cfg!(miri) { 60 } else { 20_000 };
        let mut now = 0;
        let packets: Vec<_> = (0..count)
            .map(|_| {
                now += numbers.below(60) * MS / (1 + round % 3);
                packet(u8::from(numbers.below(3) == 0), now, numbers.below(24) as u8)
            })
            .collect();
        let threads = 2 + (round as usize) % 3;
        let mut shares = vec![Vec::new(); threads];
        for number in 0..packets.len() {
            shares[numbers.below(threads as u64) as usize].push(number);
        }
        for sharing in BOTH {
            let run = run(sharing, &packets, &shares, 1 + numbers.below(32) as usize);
            upgraded += run.sides.upgraded;
            assert!(run.done.outcomes.values().any(|outcome| outcome.dropped() == Some("absent")));
            assert_eq!(run.done.counters, [("arrived", count)]);
        }
    }
    assert!(upgraded > 0);
}

/// Where the order of commits is kept, values in parts are read as they are, whatever staleness they declare.
#[test]
fn values_in_parts_are_as_one_core_has_them() {
    let times = [0, 1, 2, 5, 10, 11, 15, 25];
    let workers = [0, 1, 1, 0, 0, 1, 0, 0];
    let packets: Vec<_> = times.iter().map(|at| packet(0, at * MS, 1)).collect();
    let turns: Vec<_> = workers.iter().zip(0..).map(|(&worker, at)| (worker, vec![at])).collect();
    let counted = |staleness_ms: i64| -> Vec<u8> {
        let settings = toml::Table::from_iter([("staleness_ms".to_owned(), staleness_ms.into())]);
        let run = SideBySide::take_turns::<tally::Function>(
            Sharing::Tracked,
            &settings,
            &packets,
            2,
            &turns,
        );
        run.done.outcomes.values().map(|outcome| outcome.forwarded()[0].1[TTL]).collect()
    };
    assert_eq!(counted(0), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(counted(10), [1, 2, 3, 4, 5, 6, 7, 8]);
}

/// What re-enters does so on the packet sets of the worker whose it then is.
#[test]
fn packets_that_reenter_find_the_sets_of_another_worker() {
    let mut numbers = Numbers(5);
    let packets: Vec<_> =
        (0..600).map(|at| packet(1, at * 7 * MS, numbers.below(40) as u8)).collect();
    let plan = plan_of::<twice::Function>(&Options::new(Nic::named("e810").unwrap())).unwrap();
    let (settings, ports) = (toml::Table::new(), ["inside".to_owned(), "outside".to_owned()]);
    let deployment = Deployment::mixed::<twice::Function>(&plan, &ports, 3).unwrap();
    let worker = |one: &Arrived| {
        let shard = deployment.steering.shard(Port::new(one.port), &one.bytes, one.wire_len);
        usize::from(deployment.table.worker(shard))
    };
    let mut shares = vec![Vec::new(); 3];
    packets.iter().enumerate().for_each(|(at, one)| shares[worker(one)].push(at));
    assert!(shares.iter().all(|share| share.len() > 50), "{shares:?}");
    let sharing = Sharing::Divided(&deployment);
    let run = SideBySide::run::<twice::Function>(sharing, &settings, &packets, &shares, 32);
    let alone = run.replay::<twice::Function>(&settings, &packets);
    assert_eq!(run.done.outcomes, alone.outcomes);
    let used = |done: &Done| done.tables.iter().map(|table| table.used).collect::<Vec<_>>();
    assert_eq!(used(&run.done), used(&alone));
    let forwarded = alone.outcomes.values().filter(|outcome| outcome.dropped().is_none()).count();
    let alone = run.transactions.alone + run.transactions.turn_items;
    assert_eq!((forwarded, alone > 200), (600, true));
}

#[test]
fn what_finds_no_room_is_told_so_by_every_way_of_sharing() {
    let mut numbers = Numbers(9);
    let packets: Vec<_> =
        (0..600).map(|at| packet(1, at * 7 * MS, numbers.below(40) as u8)).collect();
    let shares = [0, 1].map(|odd| (0..packets.len()).filter(|at| at % 2 == odd).collect());
    let settings = toml::Table::new();
    for sharing in BOTH {
        let run = SideBySide::run::<crowded::Function>(sharing, &settings, &packets, &shares, 32);
        let alone = run.replay::<crowded::Function>(&settings, &packets);
        assert_eq!(run.done.outcomes, alone.outcomes);
        let marks = alone.outcomes.values().map(|outcome| outcome.forwarded()[0].1[TTL]);
        let (refused, counted): (Vec<_>, Vec<_>) = marks.partition(|mark| *mark == 200);
        assert!(refused.len() > 200 && counted.len() > 200, "{} refused", refused.len());
    }
}

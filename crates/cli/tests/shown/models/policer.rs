//! A token bucket per destination (RFC 2697 with one rate and one burst), kept in exact fractions.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use anabranch_io::traffic::Random;
use anabranch_nfs::policer;
use anabranch_runtime::testing::Harness;

use super::packets::udp_between;
use super::{Departed, SECOND, one, pause};

/// A bucket that has ended is collected within two steps of the wheel of 2^26 ns.
const COLLECTED_NS: u64 = 1 << 27;

struct Bucket {
    /// Billionths of a bit.
    tokens: u128,
    at_ns: u64,
}

struct Model {
    rate_bps: u64,
    burst_bytes: u64,
    destinations: usize,
    buckets: HashMap<IpAddr, Bucket>,
    departed: Departed,
}

impl Model {
    fn burst(&self) -> u128 {
        u128::from(self.burst_bytes) * 8 * u128::from(SECOND)
    }

    /// How long a bucket that nobody uses is kept.
    fn lifetime_ns(&self) -> u64 {
        (self.burst_bytes * 8 / self.rate_bps + 10) * SECOND
    }

    /// Whether there is no room for `to`; `None` where that depends on what has been collected.
    fn is_full(&mut self, to: IpAddr, now_ns: u64) -> Option<bool> {
        let (lifetime_ns, departed) = (self.lifetime_ns(), &mut self.departed);
        self.buckets.retain(|_, bucket| {
            let until_ns = bucket.at_ns + lifetime_ns;
            if now_ns >= until_ns {
                departed.add(until_ns);
            }
            now_ns < until_ns
        });
        let departed = departed.count(now_ns, COLLECTED_NS, 4 * self.destinations as u64);
        let of_version = self.buckets.keys().filter(|key| key.is_ipv4() == to.is_ipv4()).count();
        let is_full = |stored| !self.buckets.contains_key(&to) && stored >= self.destinations;
        let (least, most) = (is_full(of_version), is_full(of_version + departed));
        (least == most).then_some(least)
    }

    /// What becomes of a packet of `len` bytes to `to`, that arrives on `wan` at `now_ns`.
    fn verdict(&mut self, to: IpAddr, len: u32, now_ns: u64) -> Option<&'static str> {
        let full = self.burst();
        let bucket = self.buckets.entry(to).or_insert(Bucket { tokens: full, at_ns: now_ns });
        let earned = u128::from(now_ns - bucket.at_ns) * u128::from(self.rate_bps);
        bucket.tokens = full.min(bucket.tokens + earned);
        bucket.at_ns = now_ns;
        let cost = u128::from(len) * 8 * u128::from(SECOND);
        if cost > bucket.tokens {
            return Some("over-rate");
        }
        bucket.tokens -= cost;
        None
    }
}

/// A few destinations of both versions.
fn destination(random: &mut Random, hosts: u32) -> IpAddr {
    let host = random.below(hosts);
    match random.chance(0.3) {
        true => format!("fd00::{host:x}").parse().unwrap(),
        false => format!("10.0.0.{host}").parse().unwrap(),
    }
}

fn compare(seed: u64, destinations: usize, hosts: u32) -> [u32; 3] {
    let mut random = Random::new(seed);
    let (rate_bps, burst_bytes) = (one(&mut random, &[1_000, 1_003, 7_777]), 2_000);
    let (buckets, departed) = Default::default();
    let mut model = Model { rate_bps, burst_bytes, destinations, buckets, departed };
    let settings = [
        format!("rate_bps={rate_bps}"),
        format!("burst_bytes={burst_bytes}"),
        format!("destinations={destinations}"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut nf = Harness::<policer::Function>::new(&settings);
    let lifetime_s = model.lifetime_ns() / SECOND;
    let (mut now_ns, mut seen) = (0, [0; 3]);
    for number in 0..2_000 {
        now_ns += pause(&mut random, &[1, 1, 1, lifetime_s]);
        nf.at(now_ns);
        let to = destination(&mut random, hosts);
        let len = 60 + random.below(1_440);
        let src: IpAddr = if to.is_ipv4() { [198, 51, 100, 1].into() } else { [1; 16].into() };
        let mut frame = udp_between(SocketAddr::new(src, 9), SocketAddr::new(to, 9));
        frame.resize(frame.len().max(60), 0);
        let outcome = nf.send_cut(1, &frame, len.max(frame.len() as u32));
        let was_full = outcome.dropped() == Some("packet-sets-full");
        let is_full = model.is_full(to, now_ns).unwrap_or(was_full);
        let expected = match is_full {
            true => Some("packet-sets-full"),
            false => model.verdict(to, len.max(frame.len() as u32), now_ns),
        };
        assert_eq!(outcome.dropped(), expected, "seed {seed}, packet {number} at {now_ns} ns");
        assert_eq!(outcome.forwarded().len(), usize::from(expected.is_none()));
        seen[expected.map_or(0, |word| 1 + usize::from(word == "packet-sets-full"))] += 1;
    }
    seen
}

/// Passed, over the rate, and without room, of many seeds.
fn compare_all(seeds: std::ops::Range<u64>, destinations: usize, hosts: u32) -> [u32; 3] {
    let mut total = [0; 3];
    for seed in seeds {
        let seen = compare(seed, destinations, hosts);
        total.iter_mut().zip(seen).for_each(|(all, one)| *all += one);
    }
    total
}

#[test]
fn the_policer_keeps_its_accounts() {
    let [passed, over, full] = compare_all(0..40, 1_000, 2);
    assert!(passed > 20_000 && over > 10_000 && full == 0, "{passed} {over} {full}");
}

#[test]
fn the_policer_is_full_when_it_says_so() {
    let total = compare_all(100..140, 4, 12);
    assert!(total.iter().all(|&one| one > 1_000), "{total:?}");
}

//! What traffic is led by: what left, what lasts how long, where a setting would have been met, and what is looked for
//! in payloads.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use anabranch_analysis::{Budget, Verdict};
use anabranch_nf::NetworkFunction;
use anabranch_nf::prelude::network_function;
use anabranch_plan::Options;
use anabranch_rss::Nic;
use anabranch_runtime::deployment::{paths_of, plan_of};
use anabranch_verify::{Effort, Setup, Subject, verify};

/// Drops packets for reasons that chance does not come upon.
#[network_function(ports(lan, wan))]
mod led {
    pub struct Settings {
        /// Packets of this weight are dropped.
        #[setting(default = 50_000, min = 20_000, max = 60_000)]
        pub weight: u32,
    }

    pub enum Command {
        /// Closes an address.
        Close { address: Ipv4Addr, port: u16 },
        /// Opens one that was closed.
        Open { address: Ipv4Addr, port: u16 },
    }

    pub enum Reason {
        /// It goes to an address that was closed and opened again.
        Opened,
        /// The time of its host is just over.
        Over,
        /// It weighs as much as is set.
        Weighty,
    }

    const LIFETIME_NS: u64 = 777_000_000_000;

    pub struct Led {
        settings: Settings,
        #[capacity(1_000)]
        closed: Map<Ipv4Addr, u8>,
        #[capacity(1_000)]
        opened: Map<Ipv4Addr, u8>,
        #[capacity(1_000)]
        hosts: Map<Ipv4Addr, u32>,
        #[capacity(1_000)]
        #[expired(over)]
        times: Allocator<Ipv4Addr>,
    }

    /// Where what is sent to an address goes instead.
    #[opaque]
    fn instead(address: u32) -> u32 {
        address.wrapping_mul(0x9e37_79b1) >> 8
    }

    #[opaque]
    fn weight(port: u16) -> u32 {
        30_000 + u32::from(port)
    }

    impl Led {
        fn control(&mut self, command: Command, cx: &mut Context) -> Result<(), &'static str> {
            match command {
                Command::Close { address, port } => {
                    self.closed.insert(address, 1);
                }
                Command::Open { address, port } => {
                    if !self.closed.contains(&address) {
                        return Err("not closed");
                    }
                    self.opened.insert(address, 1);
                }
            }
            Ok(())
        }

        fn over(&mut self, index: u32, address: Ipv4Addr, cx: &mut Context) {
            self.hosts.remove(&address);
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let (Some(ip), Some(udp)) = (pkt.ipv4(), pkt.udp()) else { return Flood };
            if pkt.port() == WAN {
                return Forward(LAN);
            }
            let (src, dst) = (ip.src(), ip.dst());
            if weight(udp.dst()) == self.settings.weight {
                return Drop(Reason::Weighty);
            }
            match self.hosts.get(&src) {
                Some(index) => {
                    if !self.times.is_allocated(index, cx) {
                        return Drop(Reason::Over);
                    }
                }
                None => {
                    if let Some(index) = self.times.allocate(src, LIFETIME_NS, cx) {
                        self.hosts.insert(src, index);
                    }
                }
            }
            let to = Ipv4Addr::from(instead(u32::from(dst)));
            if self.opened.contains(&to) {
                return Drop(Reason::Opened);
            }
            pkt.set_destination(to, udp.dst());
            Forward(WAN)
        }
    }
}

/// Drops packets of hosts that have said all words to another.
#[network_function(ports(lan, wan))]
mod heard {
    pub enum Reason {
        /// All words have been said.
        Said,
    }

    pub struct Pair {
        src: Ipv4Addr,
        dst: Ipv4Addr,
    }

    pub struct Heard {
        /// Words that have been said, one bit each.
        #[capacity(1_000)]
        said: Map<Pair, u8>,
    }

    /// The bit of a word.
    #[opaque]
    fn word(payload: &[u8]) -> u8 {
        if payload.get(0) != Some(&b'w') {
            return 0;
        }
        match payload.get(1) {
            Some(&b'0') => 1,
            Some(&b'1') => 2,
            Some(&b'2') => 4,
            Some(&b'3') => 8,
            Some(&b'4') => 16,
            Some(&b'5') => 32,
            _ => 0,
        }
    }

    impl Heard {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let (Some(ip), Some(udp)) = (pkt.ipv4(), pkt.udp()) else { return Flood };
            if udp.dst() != 21 {
                return Forward(pkt.port().other());
            }
            let pair = Pair { src: ip.src(), dst: ip.dst() };
            let said = self.said.get(&pair).unwrap_or(0);
            let all = said | word(pkt.payload());
            if all == 63 {
                return Drop(Reason::Said);
            }
            if all != said {
                self.said.insert(pair, all);
            }
            Forward(pkt.port().other())
        }
    }
}

/// Why packets were dropped on the call paths that were taken.
fn dropped<N: NetworkFunction>(setup: &Setup, effort: Effort) -> BTreeSet<String> {
    let budget = Budget { unsolved: true, ..Budget::default() };
    let paths = paths_of(&N::SOURCE, budget).unwrap();
    let plan = plan_of::<N>(&Options::new(Nic::named("e810").unwrap())).unwrap();
    let (workers, mutation, programs) = (4, None, &[]);
    let subject = Subject { setup, plan: &plan, workers, mutation, programs, paths: Some(&paths) };
    let found = verify::<N>(&subject, effort, &mut |_| {}).unwrap();
    if let Some(difference) = &found.difference {
        panic!("{}", difference.to_text());
    }
    assert_eq!(found.taken.disagreements, Vec::<String>::new());
    let reached = paths.paths.iter().filter(|path| found.taken.reached.contains(&path.number));
    let dropped = reached.filter_map(|path| match &path.verdict {
        Verdict::Drop(word) => Some(word.clone()),
        _ => None,
    });
    dropped.collect()
}

#[test]
fn traffic_is_led_by_what_packets_left_gave_and_were_compared_with() {
    let setup = Setup::new::<led::Function>(toml::Table::new());
    let mut all = BTreeSet::new();
    for first_seed in [1, 3, 5] {
        let effort = Effort { packets: 20_000, seeds: 2, first_seed, rest: 20_000 };
        all.extend(dropped::<led::Function>(&setup, effort));
    }
    assert_eq!(all, BTreeSet::from(["opened", "over", "weighty"].map(str::to_owned)));
}

/// Words that chance says each to somebody else.
#[test]
fn traffic_is_led_by_what_is_looked_for_in_payloads() {
    let known_payloads: Vec<&[u8]> = vec![b"w0", b"w1", b"w2", b"w3", b"w4", b"w5"];
    let setup = Setup {
        known_payloads,
        known_ports: vec![21],
        ..Setup::new::<heard::Function>(toml::Table::new())
    };
    let effort = Effort { packets: 10_000, seeds: 1, first_seed: 1, rest: 0 };
    let dropped = dropped::<heard::Function>(&setup, effort);
    assert_eq!(dropped, BTreeSet::from(["said".to_owned()]));
}

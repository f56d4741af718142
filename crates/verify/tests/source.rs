//! A function with public addresses that nobody sets: one stands in its source, one is a default. A port of theirs is
//! one for TCP and UDP.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use anabranch_analysis::{Budget, Paths};
use anabranch_nf::NetworkFunction;
use anabranch_nf::prelude::network_function;
use anabranch_plan::{Options, Plan};
use anabranch_rss::Nic;
use anabranch_runtime::deployment::{paths_of, plan_of};
use anabranch_verify::{Effort, Fault, Mutation, Setup, Subject, verify};

/// Translates TCP and UDP, both to the same port, what even ports send to one public address and what odd ones send to
/// another.
#[network_function(ports(lan, wan))]
mod fixed {
    pub struct Settings {
        /// The other address.
        #[setting(default = "198.51.100.7")]
        pub other: Ipv4Addr,
        /// Ports that are given out.
        #[setting(default = 64_512, min = 1, max = 64_512)]
        pub ports: u32,
    }

    pub enum Reason {
        NoPort,
        NoSession,
    }

    pub struct Inside {
        address: Ipv4Addr,
        port: u16,
    }

    const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
    const FIRST: u32 = 1_024;
    const LIFETIME_NS: u64 = 60_000_000_000;

    pub struct Fixed {
        settings: Settings,
        #[capacity(settings.ports)]
        #[expired(over)]
        ports: Allocator<Inside>,
        #[capacity(settings.ports)]
        inside: Map<Inside, u32>,
    }

    impl Fixed {
        fn over(&mut self, index: u32, it: Inside, cx: &mut Context) {
            if self.inside.get(&it) == Some(index) {
                self.inside.remove(&it);
            }
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Drop(Builtin::UnsupportedProtocol) };
            let (src, dst) = (ip.src(), ip.dst());
            let (Some(from), Some(to)) = (pkt.src_port(), pkt.dst_port()) else {
                return Drop(Builtin::UnsupportedProtocol);
            };
            if pkt.port() == WAN {
                let index = u32::from(to).wrapping_sub(FIRST);
                if (dst != PUBLIC && dst != self.settings.other) || index >= self.settings.ports {
                    return Drop(Reason::NoSession);
                }
                let Some(it) = self.ports.touch(index, cx) else { return Drop(Reason::NoSession) };
                pkt.set_destination(it.address, it.port);
                return Forward(LAN);
            }
            let it = Inside { address: src, port: from };
            let found =
                self.inside.get(&it).filter(|index| self.ports.refresh(*index, LIFETIME_NS, cx));
            let index = match found {
                Some(index) => index,
                None => {
                    let Some(index) = self.ports.allocate(it, LIFETIME_NS, cx) else {
                        return Drop(Reason::NoPort);
                    };
                    self.inside.insert(it, index);
                    index
                }
            };
            let public = if from % 2 == 0 { PUBLIC } else { self.settings.other };
            pkt.set_source(public, (index + FIRST) as u16);
            Forward(WAN)
        }
    }
}

type N = fixed::Function;

fn planned() -> Plan {
    let plan = plan_of::<N>(&Options::new(Nic::named("e810").unwrap())).unwrap();
    assert!(!plan.steered.is_empty(), "{}", plan.to_text());
    plan
}

/// Seeds that differ on four workers, under these settings.
fn differences(settings: &str, mutation: Option<&Mutation>, paths: Option<&Paths>) -> u64 {
    let setup = Setup::new::<N>(settings.parse().unwrap());
    let (plan, workers, programs) = (&planned(), 4, &[]);
    let subject = Subject { setup: &setup, plan, workers, mutation, programs, paths };
    let effort = Effort { packets: 10_000, seeds: 4, first_seed: 1, rest: 0 };
    let found = verify::<N>(&subject, effort, &mut |_| {}).unwrap();
    assert_eq!(found.seeds, 4);
    if let Some(difference) = &found.difference {
        println!("{settings} seed {}\n{}", difference.seed, difference.to_text());
    }
    found.differences
}

fn paths() -> Paths {
    paths_of(&N::SOURCE, Budget { unsolved: true, ..Budget::default() }).unwrap()
}

/// What an allocator gives out under such addresses is not asked for unasked, as under those that are set.
#[test]
fn addresses_that_nobody_sets_are_known() {
    let (paths, setup) = (paths(), Setup::new::<N>(toml::Table::new()));
    let setup = setup.under::<N>(&planned(), Some(&paths));
    let known = ["198.51.100.7", "203.0.113.1"].map(|text| text.parse().unwrap());
    assert_eq!(setup.known_addresses, known);
    assert_eq!(setup.allocated.map(|allocated| allocated.addresses.clone()), Some(known.to_vec()));
    assert_eq!(differences("", None, Some(&paths)), 0);
}

/// What is allocated for a packet of TCP shows in one of UDP. That is no difference, and hides none.
#[test]
fn a_port_may_be_one_for_all_protocols() {
    let paths = paths();
    assert_eq!(differences("", None, Some(&paths)), 0);
    for planted in [Mutation::Unsteered(0), Mutation::Base(0, 1)] {
        assert!(differences("", Some(&planted), Some(&paths)) > 0, "{planted}");
    }
}

/// With so few ports that shards find none, also of the others, where one core does: the plan says that pools are
/// divided.
#[test]
fn a_pool_that_only_many_use_up_is_no_difference() {
    let paths = paths();
    for ports in ["ports = 16", "ports = 40"] {
        assert_eq!(differences(ports, None, Some(&paths)), 0, "{ports}");
    }
    let planted = Mutation::Runtime(Fault::MovesShards);
    assert!(differences("ports = 40", Some(&planted), Some(&paths)) > 0, "{planted}");
}

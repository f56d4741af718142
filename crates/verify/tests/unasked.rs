//! A function that does not ask whether its table has had room: each worker has one of the size that is set, one core
//! has one in all, and what it has not kept nobody hears of.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use anabranch_analysis::{Budget, Paths};
use anabranch_nf::NetworkFunction;
use anabranch_nf::prelude::network_function;
use anabranch_plan::Options;
use anabranch_rss::Nic;
use anabranch_runtime::deployment::{paths_of, plan_of};
use anabranch_verify::{Effort, Fault, Mutation, Setup, Subject, verify};

/// Lets in what has been answered from within.
#[network_function(ports(inside, outside))]
mod known {
    pub struct Settings {
        /// Hosts that are remembered.
        #[setting(default = 3, min = 1)]
        pub hosts: u32,
    }

    pub enum Reason {
        Unknown,
        Other,
    }

    pub struct Known {
        settings: Settings,
        #[capacity(settings.hosts)]
        hosts: Map<Ipv4Addr, u8>,
    }

    impl Known {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Drop(Reason::Other) };
            if pkt.port() == INSIDE {
                self.hosts.insert(ip.src(), 1);
                return Forward(OUTSIDE);
            }
            match self.hosts.get(&ip.dst()) {
                Some(_) => Forward(INSIDE),
                None => Drop(Reason::Unknown),
            }
        }
    }
}

/// Makes two entries with each packet, and looks one of them up.
#[network_function(ports(inside, outside))]
mod twice {
    pub struct Settings {
        /// Entries that are kept.
        #[setting(default = 3, min = 1)]
        pub hosts: u32,
    }

    pub enum Reason {
        Unknown,
        Other,
    }

    pub struct Twice {
        settings: Settings,
        #[capacity(settings.hosts)]
        hosts: Map<(Ipv4Addr, u8), u8>,
    }

    impl Twice {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Drop(Reason::Other) };
            self.hosts.insert((ip.src(), 0), 1);
            self.hosts.insert((ip.src(), 1), 1);
            match self.hosts.get(&(ip.src(), ip.ttl() % 2)) {
                Some(_) => Forward(pkt.port().other()),
                None => Drop(Reason::Unknown),
            }
        }
    }
}

type N = known::Function;

fn differences<N: NetworkFunction>(
    settings: &str,
    mutation: Option<&Mutation>,
    paths: Option<&Paths>,
) -> u64 {
    let plan = plan_of::<N>(&Options::new(Nic::named("e810").unwrap())).unwrap();
    assert_eq!(plan.strategy.name(), "shared-nothing");
    let setup = Setup::new::<N>(settings.parse().unwrap());
    let (workers, programs) = (4, &[]);
    let subject = Subject { setup: &setup, plan: &plan, workers, mutation, programs, paths };
    let effort = Effort { packets: 10_000, seeds: 2, first_seed: 1, rest: 0 };
    let found = verify::<N>(&subject, effort, &mut |_| {}).unwrap();
    if let Some(difference) = &found.difference {
        println!("{settings} seed {}\n{}", difference.seed, difference.to_text());
    }
    found.differences
}

/// What one core has had no room for is no difference; a bug beside it is one.
#[test]
fn a_table_that_only_one_core_fills_is_no_difference() {
    let paths = paths_of(&N::SOURCE, Budget { unsolved: true, ..Budget::default() }).unwrap();
    assert_eq!(differences::<N>("hosts = 3", None, None), 2, "it fills up");
    assert_eq!(differences::<N>("hosts = 3", None, Some(&paths)), 0);
    assert_eq!(differences::<N>("hosts = 4096", None, Some(&paths)), 0);
    let planted = Mutation::Runtime(Fault::MovesShards);
    assert!(differences::<N>("hosts = 4096", Some(&planted), Some(&paths)) > 0, "{planted}");
    assert!(differences::<N>("hosts = 16", Some(&planted), Some(&paths)) > 0, "before it is full");
}

/// Nor is what a packet meets that itself fills the table, and has no room for its second entry.
#[test]
fn the_packet_that_fills_a_table_is_no_difference() {
    type N = twice::Function;
    let paths = paths_of(&N::SOURCE, Budget { unsolved: true, ..Budget::default() }).unwrap();
    assert!(differences::<N>("hosts = 3", None, None) > 0, "it fills up");
    assert_eq!(differences::<N>("hosts = 3", None, Some(&paths)), 0);
}

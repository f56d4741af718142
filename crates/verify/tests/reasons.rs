//! Why call paths are not taken: a function in which each reason stands for one path.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use anabranch_analysis::{Budget, Verdict};
use anabranch_nf::NetworkFunction;
use anabranch_nf::prelude::network_function;
use anabranch_plan::Options;
use anabranch_rss::Nic;
use anabranch_runtime::deployment::{paths_of, plan_of};
use anabranch_verify::{Effort, Setup, Subject, verify};

/// Drops a packet of each kind for a reason of its own, where something is so that is not.
#[network_function(ports(lan, wan))]
mod reasons {
    pub struct Settings {
        /// What the operator has set.
        #[setting(default = 3)]
        pub given: u32,
    }

    pub enum Reason {
        Years,
        Full,
        History,
        Init,
        Setting,
        Opaque,
        Packet,
        Routing,
        Uncounted,
    }

    pub struct Reasons {
        settings: Settings,
        #[capacity(4)]
        seen: Vector<u64>,
        #[capacity(1_000_000)]
        hosts: Map<Ipv4Addr, u8>,
        sum: Cell<u32>,
        begun: Cell<u32>,
        l3: L3,
    }

    #[opaque]
    fn mixed(word: u16) -> u16 {
        word % 50
    }

    impl Reasons {
        fn init(&mut self, cx: &mut Context) {
            self.begun.set(self.settings.given);
        }

        fn timer(&mut self, token: u64, cx: &mut Context) {
            self.sum.set(0);
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let (Some(ip), Some(udp)) = (pkt.ipv4(), pkt.udp()) else { return Flood };
            if pkt.port() == WAN {
                return Forward(LAN);
            }
            match udp.dst() {
                1 => {
                    self.seen.update(1, |seen| *seen += 1);
                    if self.seen.read(1) == u64::MAX {
                        return Drop(Reason::Years);
                    }
                }
                2 => {
                    if !self.hosts.insert(ip.src(), 1) {
                        return Drop(Reason::Full);
                    }
                }
                3 => {
                    let sum = self.sum.get().wrapping_mul(5).wrapping_add(1);
                    self.sum.set(sum);
                    if sum == 0x1234_5678 {
                        return Drop(Reason::History);
                    }
                }
                4 => {
                    if self.begun.get() == 9 {
                        return Drop(Reason::Init);
                    }
                }
                5 => {
                    if self.settings.given == 4 {
                        return Drop(Reason::Setting);
                    }
                }
                6 => {
                    if mixed(udp.src()) == 77 {
                        return Drop(Reason::Opaque);
                    }
                }
                7 => {
                    if cx.random() == 1 {
                        return Drop(Reason::Packet);
                    }
                }
                8 => {
                    if !self.l3.enabled() {
                        return Drop(Reason::Routing);
                    }
                }
                9 => return Drop(Reason::Uncounted),
                _ => {}
            }
            Forward(WAN)
        }
    }
}

const SETTINGS: &str = r#"
    given = 3
    [interfaces.lan]
    mac = "02:00:00:00:00:02"
    addresses = ["10.0.0.1/24"]
"#;

/// Each path that is not taken is told for what it wants; one that is told as a disagreement wants nothing.
#[test]
fn what_a_path_wants_is_told() {
    type N = reasons::Function;
    let budget = Budget { unsolved: true, ..Budget::default() };
    let mut paths = paths_of(&N::SOURCE, budget).unwrap();
    let dropped = |verdict: &Verdict| match verdict {
        Verdict::Drop(word) => Some(word.clone()),
        _ => None,
    };
    let mut words = BTreeMap::new();
    for path in &mut paths.paths {
        let word = dropped(&path.verdict).unwrap_or_else(|| path.handler.clone());
        if word == "uncounted" {
            path.verdict = Verdict::Flood;
        }
        words.insert(path.number, word);
    }
    let plan = plan_of::<N>(&Options::new(Nic::named("e810").unwrap())).unwrap();
    let setup = Setup::new::<N>(SETTINGS.parse().unwrap());
    let (workers, mutation, programs) = (4, None, &[]);
    let subject =
        Subject { setup: &setup, plan: &plan, workers, mutation, programs, paths: Some(&paths) };
    let effort = Effort { packets: 8_000, seeds: 1, first_seed: 1, rest: 0 };
    let taken = verify::<N>(&subject, effort, &mut |_| {}).unwrap().taken;
    let told: Vec<(&str, &str)> =
        taken.missing.iter().map(|(number, why)| (&*words[number], why.word())).collect();
    let wanted = [
        ("years", "years"),
        ("full", "full"),
        ("history", "history"),
        ("init", "init"),
        ("setting", "setting"),
        ("opaque", "opaque"),
        ("packet", "packet"),
        ("routing", "routing"),
        ("uncounted", "uncounted"),
        ("timer", "handler"),
    ];
    assert_eq!(told, wanted);
    let is_told = |why: &String| why.contains("Drop(uncounted), not") || why.contains("Flood, not");
    assert!(!taken.disagreements.is_empty() && taken.disagreements.iter().all(is_told));
}

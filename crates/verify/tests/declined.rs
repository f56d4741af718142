//! A function that declines all packet sets of a class: there is none of them.

#![allow(clippy::unwrap_used)]

use anabranch_analysis::Budget;
use anabranch_nf::prelude::network_function;
use anabranch_plan::Options;
use anabranch_rss::Nic;
use anabranch_runtime::deployment::{paths_of, plan_of};
use anabranch_verify::{Effort, Setup, Subject, verify};

/// Counts what flows of IPv4 send, and lets nothing else through.
#[network_function(ports(lan, wan))]
mod picky {
    pub struct Settings {
        /// The most that a flow may send.
        #[setting(default = 8, min = 1)]
        pub most: u32,
    }

    pub enum Reason {
        Other,
        TooMuch,
    }

    #[packet_set(udp(ip.src, udp.src, ip.dst, udp.dst), capacity = 1024, expires_s = 30)]
    pub struct Flow {
        known: bool,
        sent: u32,
    }

    pub struct Picky {
        settings: Settings,
    }

    impl Picky {
        fn packet_set_opened(
            &mut self,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Result<Flow, Verdict> {
            if pkt.ipv4().is_none() {
                return Err(Drop(Reason::Other));
            }
            Ok(Flow { known: true, sent: 0 })
        }

        fn packet(&mut self, flow: &mut Flow, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if !flow.known || flow.sent >= self.settings.most {
                return Drop(Reason::TooMuch);
            }
            flow.sent += 1;
            Forward(pkt.port().other())
        }
    }
}

/// What is proved of the sets that there are is not held against those that are not.
#[test]
fn a_set_that_is_declined_holds_nothing() {
    type N = picky::Function;
    let budget = Budget { unsolved: true, ..Budget::default() };
    let paths = paths_of(&<N as anabranch_nf::NetworkFunction>::SOURCE, budget).unwrap();
    let plan = plan_of::<N>(&Options::new(Nic::named("e810").unwrap())).unwrap();
    let setup = Setup::new::<N>(toml::Table::new());
    let (workers, mutation, programs) = (4, None, &[]);
    let subject =
        Subject { setup: &setup, plan: &plan, workers, mutation, programs, paths: Some(&paths) };
    let effort = Effort { packets: 4_000, seeds: 2, first_seed: 1, rest: 0 };
    let found = verify::<N>(&subject, effort, &mut |_| {}).unwrap();
    assert_eq!(found.taken.disagreements, Vec::<String>::new());
    assert_eq!(found.differences, 0);
}

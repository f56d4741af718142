//! A function that declares of an `#[opaque]` function what is not so.

#![allow(clippy::unwrap_used)]

use anabranch_analysis::Budget;
use anabranch_nf::NetworkFunction;
use anabranch_nf::prelude::network_function;
use anabranch_plan::Options;
use anabranch_rss::Nic;
use anabranch_runtime::deployment::{paths_of, plan_of};
use anabranch_verify::{Effort, Setup, Subject, verify};

/// Counts packets by the element that a source port stands for: of these one is past the end.
#[network_function(ports(lan, wan))]
mod spots {
    pub struct Settings {
        /// Elements.
        #[setting(default = 8, min = 1)]
        pub elements: u32,
    }

    pub enum Reason {
        Other,
    }

    pub struct Spots {
        settings: Settings,
        #[capacity(settings.elements)]
        counts: Vector<u64>,
    }

    #[opaque(below = limit)]
    fn spot(word: u16, limit: u32) -> u32 {
        u32::from(word) % (limit + 1)
    }

    impl Spots {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(udp) = pkt.udp() else { return Drop(Reason::Other) };
            let at = spot(udp.src(), self.settings.elements);
            self.counts.update(at, |count| *count += 1);
            Forward(pkt.port().other())
        }
    }
}

/// It is taken to be so by the analysis, and told where it is not.
#[test]
fn a_limit_that_a_result_exceeds_is_a_disagreement() {
    type N = spots::Function;
    let budget = Budget { unsolved: true, ..Budget::default() };
    let paths = paths_of(&N::SOURCE, budget).unwrap();
    assert!(!paths.to_text().contains("past its end"), "what is declared is believed");
    let plan = plan_of::<N>(&Options::new(Nic::named("e810").unwrap())).unwrap();
    let setup = Setup::new::<N>(toml::Table::new());
    let (workers, mutation, programs) = (4, None, &[]);
    let subject =
        Subject { setup: &setup, plan: &plan, workers, mutation, programs, paths: Some(&paths) };
    let effort = Effort { packets: 4_000, seeds: 1, first_seed: 1, rest: 0 };
    let found = verify::<N>(&subject, effort, &mut |_| {}).unwrap();
    let told = found.taken.disagreements;
    let is_of_spot =
        |why: &String| why.starts_with("spot, given [") && why.contains("is not below");
    assert!(!told.is_empty() && told.iter().all(is_of_spot), "{told:?}");
    let of_default = |why: &String| why.ends_with(", 8], returns 8, which is not below 8");
    assert!(told.iter().any(of_default), "{told:?}");
    assert_eq!(found.differences, 0, "one core does as many do");
}

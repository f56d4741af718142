//! Functions of the library on many cores.

#![allow(clippy::unwrap_used)]

use anabranch_nf::NetworkFunction;
use anabranch_nfs::{firewall, policer};
use anabranch_rss::IndirectionTable;
use anabranch_runtime::steer::Steerer;
use anabranch_verify::{Arrival, Effort, Parallel, Placement, Setup, verify};

struct BySet(Steerer, IndirectionTable, bool);
impl Placement for BySet {
    fn place(&self, arrival: &Arrival) -> (u32, usize) {
        let hash = self.0.hash(&arrival.bytes, arrival.wire_len);
        let hash = if self.2 { hash.wrapping_add(u32::from(arrival.port)) } else { hash };
        (hash % 512, self.1.worker(hash).into())
    }
    fn workers(&self) -> usize {
        self.1.workers()
    }
}

fn check<N: NetworkFunction>(wrong: bool) {
    let setup = Setup::new::<N>(toml::Table::new());
    let placement = BySet(Steerer::new::<N>(), IndirectionTable::new(512, 512, 4).unwrap(), wrong);
    let parallel = Parallel { placement: &placement, making: &|_, making| making };
    let start = std::time::Instant::now();
    let found = verify::<N>(&setup, &parallel, Effort { packets: 20_000, seeds: 2, first_seed: 1 })
        .unwrap();
    println!("{} {:?} {}", N::NAME, start.elapsed(), found.packets);
    if let Some(d) = &found.difference {
        println!("{} steps, at {}: {}", d.program.steps.len(), d.at, d.what);
        for (i, s) in d.program.steps.iter().enumerate() {
            println!("{s:?}\n  {:?}\n  {:?}", d.one[i].outcome.refused, d.many[i].outcome.refused);
        }
    }
    assert_eq!(found.difference.is_some(), wrong);
}

#[test]
fn one() {
    check::<policer::Function>(false);
    check::<firewall::Function>(false);
    check::<firewall::Function>(true);
}

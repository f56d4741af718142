//! How long a choice takes, for what network functions ask for: a millisecond is aimed at, in a release build.

#![allow(clippy::unwrap_used)]

use anabranch_rss::{Nic, Problem, needs_of, ports_of, solve};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// What is compiled for tests is slower, and so may the machine be.
const LONGEST: Duration = Duration::from_millis(2);
/// The best of these counts, so that what else the machine does is left out.
const REPETITIONS: usize = 100;

const ASKED: [(&str, &str); 4] = [
    ("policer", "p0.dst = p0.dst"),
    (
        "firewall",
        "p0.src = p1.dst && p0.dst = p1.src && p0.sport = p1.dport && p0.dport = p1.sport",
    ),
    ("hosts both ways", "p0.src = p0.src || p0.src = p1.dst || p1.dst = p1.dst"),
    ("port of the reply", "p0.ipv4.src = p0.ipv4.src || p1.tcp.dst = p1.tcp.dst"),
];

#[test]
fn the_choice_takes_no_longer_than_is_aimed_at() {
    for (name, text) in ASKED {
        let nics = vec![Nic::named("e810").unwrap(); ports_of(text).unwrap()];
        let needs = needs_of(text, &nics).unwrap();
        let problem = Problem { needs, ..Problem::new(&nics) };
        let once = |_| {
            let start = Instant::now();
            black_box(solve(&problem)).unwrap();
            start.elapsed()
        };
        let best = (0..REPETITIONS).map(once).min().unwrap();
        eprintln!("{name}: {} needs, {best:?}", problem.needs.len());
        assert!(best < LONGEST, "{name}: {best:?}");
    }
}

//! Rows of a run, one a line.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
use anabranch_bench::*;
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers = |of: &str| {
        words
            .iter()
            .filter_map(|w| w.strip_prefix(of))
            .flat_map(|w| w.split(','))
            .map(|n| n.parse().unwrap())
            .collect::<Vec<usize>>()
    };
    let mut flows = numbers("f=");
    if flows.is_empty() {
        flows = vec![1000, 65536, 1000000];
    }
    let nfs = words.iter().filter(|w| !w.contains('=')).cloned().collect();
    let plan = Plan { nfs, flows, workers: numbers("w=") };
    let document = run(&plan, &mut |step| eprintln!("{step:?}")).unwrap();
    println!("{:?}", document.machine);
    for r in document.results {
        println!(
            "{:9} {:16} w{} {:8} pre={:5} hash={:9} distinct={:8} tsc={:7.1} i={:?} mpps={:6.1} ratio={:5.2} /1w={:?} spread={:4.2} n={} B={:?} rss={:?}",
            r.nf,
            r.strategy,
            r.workers,
            r.flows,
            r.prefetch,
            r.steering_hash,
            r.distinct_flows,
            r.tsc_per_packet,
            r.instructions_per_packet,
            r.mpps,
            r.ratio_to_handwritten,
            r.ratio_to_one_worker,
            r.spread,
            r.repetitions,
            r.bytes_per_flow,
            r.resident_bytes_per_flow
        );
    }
}

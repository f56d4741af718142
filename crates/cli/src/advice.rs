//! What a run's figures suggest that its user do.

use anabranch_runtime::balance::WINDOW;
use anabranch_runtime::report::{RunReport, WorkerReport};

use crate::figures::{percent, rate};

/// How many times its equal share the busiest worker may have before there is a word about it.
const UNEVEN: f64 = 1.25;

/// Why one worker has more packets than others, and what helps; nothing where load is even.
pub(crate) fn uneven(report: &RunReport) -> Option<String> {
    let workers = report.workers.len();
    let by_share = |one: &(usize, &WorkerReport), other: &(usize, &WorkerReport)| {
        one.1.share.total_cmp(&other.1.share)
    };
    let (number, busiest) = report.workers.iter().enumerate().max_by(by_share)?;
    let much = UNEVEN / workers as f64;
    // Of fewer packets than load is looked at over chance explains much.
    if workers < 2 || report.packets_read < WINDOW * workers as u64 || busiest.share < much {
        return None;
    }
    let why = heavy_entry(report, much).or_else(|| shards_as_they_lie(report))?;
    Some(format!("worker {number} has {} of the packets: {why}", percent(busiest.share)))
}

/// That one entry of the indirection table has more packets than a worker's share.
fn heavy_entry(report: &RunReport, much: f64) -> Option<String> {
    let heaviest = report.shards.as_ref()?.heaviest.first().filter(|entry| entry.share >= much)?;
    let why = match report.strategy.as_str() {
        "shared-nothing" | "mixed" => {
            format!("`plan {}` says which packets have to meet", report.nf)
        }
        _ => "the packets of a flow stay together, in their order".to_owned(),
    };
    Some(format!(
        "entry {} of the indirection table has {}, and an entry is one worker's ({why}). Such traffic is at most {} \
         times as fast as on one worker, however many there are",
        heaviest.entry,
        percent(heaviest.share),
        rate(1.0 / heaviest.share)
    ))
}

/// What else keeps shards from being divided evenly.
fn shards_as_they_lie(report: &RunReport) -> Option<String> {
    let why = match (&report.balance, report.strategy == "shared-nothing") {
        (Some(balance), _) if balance.busiest_last < UNEVEN => return None,
        (Some(balance), _) if balance.best_last >= UNEVEN => {
            "some entries of the indirection table have more than a worker's share, and an entry is one worker's"
        }
        (Some(_), _) => "which shards have most packets changes faster than shards move",
        (None, true) => {
            "shards have stayed where they are, by `--no-balance` or for what the first line says"
        }
        (None, false) => {
            "shards stay where they are, as state is shared; another number of workers divides them otherwise"
        }
    };
    Some(why.to_owned())
}

#[cfg(test)]
mod tests {
    use anabranch_runtime::report::{BalanceReport, ShardsReport};

    use super::*;

    /// A run of so many packets by each worker, and of these entries.
    fn report(strategy: &str, workers: &[u64], entries: &[u64]) -> RunReport {
        let mut report = RunReport::new("policer");
        report.strategy = strategy.to_owned();
        report.packets_read = workers.iter().sum();
        let all = report.packets_read as f64;
        let worker = |&packets: &u64| WorkerReport {
            packets,
            share: packets as f64 / all,
            ..Default::default()
        };
        report.workers = workers.iter().map(worker).collect();
        report.shards = Some(ShardsReport::new(
            entries.iter().map(|packets| (*packets, 0)).collect::<Vec<_>>().into_iter(),
        ));
        report
    }

    #[test]
    fn even_load_and_few_packets_are_no_matter() {
        assert_eq!(uneven(&RunReport::new("nop")), None);
        assert_eq!(uneven(&report("shared-nothing", &[100_000], &[100_000])), None);
        assert_eq!(uneven(&report("mixed", &[55_000, 45_000], &[50_000; 2])), None);
        assert_eq!(uneven(&report("mixed", &[9_000, 1_000], &[5_000; 2])), None);
    }

    #[test]
    fn an_entry_that_is_more_than_a_share_is_named() {
        let mut run = report("shared-nothing", &[75_000, 25_000], &[10, 75_000, 24_990]);
        let said = "worker 0 has 75.0 % of the packets: entry 1 of the indirection table has 75.0 %, and an entry is \
                    one worker's (`plan policer` says which packets have to meet). Such traffic is at most 1.33 times \
                    as fast as on one worker, however many there are";
        assert_eq!(uneven(&run).as_deref(), Some(said));
        run.strategy = "lock".to_owned();
        assert!(uneven(&run).unwrap().contains("the packets of a flow stay together"));
    }

    #[test]
    fn what_keeps_shards_from_moving_is_told() {
        let mut run = report("shared-nothing", &[75_000, 25_000], &[20_000; 5]);
        assert!(uneven(&run).unwrap().ends_with("for what the first line says"));
        run.strategy = "transactional".to_owned();
        assert!(
            uneven(&run).unwrap().ends_with("another number of workers divides them otherwise")
        );
        run.strategy = "shared-nothing".to_owned();
        for (busiest_last, best_last, said) in [
            (1.01, 1.0, None),
            (1.5, 1.0, Some("faster than shards move")),
            (1.5, 1.5, Some("an entry is one worker's")),
        ] {
            run.balance = Some(BalanceReport { busiest_last, best_last, ..Default::default() });
            let told = uneven(&run);
            assert_eq!(told.is_some(), said.is_some(), "{told:?}");
            assert!(told.unwrap_or_default().ends_with(said.unwrap_or_default()));
        }
    }
}

//! Whether a driver is right: every call against a plain oracle, every error, several connections at
//! once. For your own driver:
//!
//! ```
//! use anabranch_store::{Memory, conformance};
//!
//! let store = Memory::default(); // yours here
//! let settings = conformance::Settings { sequences: 20, ..Default::default() };
//! let report = conformance::check(|| Ok(Box::new(store.clone())), &settings);
//! println!("{} calls", report.expect("the driver is right").calls);
//! ```
//!
//! It writes under NF names that begin with `conformance` and removes them again. A failure names
//! the seed that shows it again.

mod examples;
mod generate;
mod oracle;
mod together;

use std::fmt;

use crate::call::{Call, Operation};
use crate::driver::{Answer, Driver};
use crate::error::Error;
use crate::key::{Key, prefix};
use generate::Generator;
pub use generate::Random;
use oracle::Oracle;

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The first seed; each sequence takes the next.
    pub seed: u64,
    /// Generated sequences of calls.
    pub sequences: u32,
    /// Calls in each.
    pub calls: u32,
    /// Connections that are at work at once.
    pub connections: u32,
    /// Milliseconds that values are kept which end; several calls must be answered within.
    pub ends_ms: u64,
}

impl Default for Settings {
    /// 100 sequences of 200 calls from seed 1; 4 connections; values that end after 300 ms.
    fn default() -> Self {
        Self { seed: 1, sequences: 100, calls: 200, connections: 4, ends_ms: 300 }
    }
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Calls whose answers were compared with the oracle's.
    pub calls: u64,
    /// Of them, those that were to be refused.
    pub refused: u64,
}

/// Where the driver is not right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

/// Opens one more connection to the same store.
pub trait Open: Fn() -> Result<Box<dyn Driver>, Error> + Sync {}
impl<F: Fn() -> Result<Box<dyn Driver>, Error> + Sync> Open for F {}

/// Tries everything. Takes a few seconds with a store on the same machine.
pub fn check(open: impl Open, settings: &Settings) -> Result<Report, Failure> {
    let mut report = Report::default();
    let mut driver = open()?;
    remove(&mut *driver, "conformance")?;
    examples::check(&mut *driver, settings.ends_ms)?;
    for seed in (settings.seed..).take(settings.sequences as usize) {
        let (nf, calls) = (format!("conformance-{seed}"), settings.calls);
        let one = sequence(&mut *driver, &nf, seed, calls);
        let one = one.map_err(|failure| Failure(format!("seed {seed}: {failure}")))?;
        report.calls += one.calls;
        report.refused += one.refused;
    }
    together::check(&open, settings)?;
    remove(&mut *driver, "conformance")?;
    Ok(report)
}

/// One generated sequence, in the objects of `nf`, which are gone afterwards.
fn sequence(driver: &mut dyn Driver, nf: &str, seed: u64, calls: u32) -> Result<Report, Failure> {
    let mut generator = Generator::new(seed, nf)?;
    let mut oracle = Oracle::default();
    let mut report = Report::default();
    while report.calls < u64::from(calls) {
        let together = generator.calls();
        let answers = driver.run(&together)?;
        compare(&mut oracle, &together, answers, &mut report)?;
    }
    same_keys(driver, &oracle, nf)?;
    let all: Vec<Key> = oracle.keys().cloned().collect();
    for operation in [Operation::Read, Operation::Delete, Operation::Read] {
        let calls: Vec<Call> = all.iter().map(|key| Call::new(key, operation.clone())).collect();
        let answers = driver.run(&calls)?;
        compare(&mut oracle, &calls, answers, &mut report)?;
    }
    same_keys(driver, &oracle, nf)?;
    Ok(report)
}

fn compare(
    oracle: &mut Oracle,
    calls: &[Call],
    answers: Vec<Answer>,
    report: &mut Report,
) -> Result<(), Failure> {
    if calls.len() != answers.len() {
        let (calls, answers) = (calls.len(), answers.len());
        return Err(Failure(format!("{answers} answers to {calls} calls")));
    }
    for (call, answer) in calls.iter().zip(answers) {
        let expected = oracle.answer(call);
        report.calls += 1;
        report.refused += u64::from(expected.is_err());
        if !oracle::same(&expected, &answer) {
            let Call { key, operation } = call;
            return Err(Failure(format!(
                "call {}, `{operation:?}` of `{key}`: {answer:?}, not {expected:?}",
                report.calls
            )));
        }
    }
    Ok(())
}

fn same_keys(driver: &mut dyn Driver, oracle: &Oracle, nf: &str) -> Result<(), Failure> {
    let mut found = driver.keys(&prefix(nf, None)?)?;
    found.sort();
    found.dedup();
    let expected: Vec<Key> = oracle.keys().cloned().collect();
    if found == expected {
        return Ok(());
    }
    Err(Failure(format!("the keys of `{nf}` are {found:?}, not {expected:?}")))
}

fn equal<T: PartialEq + fmt::Debug>(what: &str, found: T, is: T) -> Result<(), Failure> {
    match found == is {
        true => Ok(()),
        false => Err(Failure(format!("{what}: {found:?}, not {is:?}"))),
    }
}

/// Removes what other runs may have left under names that begin so.
fn remove(driver: &mut dyn Driver, names: &str) -> Result<(), Failure> {
    let calls: Vec<Call> =
        driver.keys(names)?.iter().map(|key| Call::new(key, Operation::Delete)).collect();
    driver.run(&calls)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Reply;
    use crate::content::Content;
    use crate::{Durability, Memory, memory};

    #[test]
    fn memory_is_right() {
        let store = Memory::default();
        let report = check(|| Ok(Box::new(store.clone())), &Settings::default()).unwrap();
        assert!(report.calls > 20_000 && report.refused > 500, "{report:?}");
        assert_eq!(store.clone().keys("").unwrap(), [], "it tidies up");
    }

    #[test]
    fn durable_memory_is_right() {
        let directory = tempfile::tempdir().unwrap();
        let durability = Durability { sync: memory::Sync::Never, checkpoint_bytes: 20_000 };
        let store = Memory::open(directory.path(), durability).unwrap();
        let settings = Settings { sequences: 20, ..Settings::default() };
        check(|| Ok(Box::new(store.clone())), &settings).unwrap();
    }

    /// A driver that answers something else now and then.
    struct Wrong {
        driver: Memory,
        spoil: fn(&Call, &mut Answer),
        plain_batches: bool,
    }

    impl Driver for Wrong {
        fn name(&self) -> &str {
            "wrong"
        }
        fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
            let mut answers = self.driver.run(calls)?;
            calls.iter().zip(&mut answers).for_each(|(call, answer)| (self.spoil)(call, answer));
            Ok(answers)
        }
        fn commit(&mut self, batches: &[crate::Batch]) -> Result<Vec<crate::Outcome>, Error> {
            if self.plain_batches {
                for batch in batches {
                    self.driver.run(&batch.calls)?;
                }
                return Ok(vec![crate::Outcome::Committed; batches.len()]);
            }
            self.driver.commit(batches)
        }
        fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
            self.driver.keys(prefix)
        }
    }

    fn is_found(spoil: fn(&Call, &mut Answer), plain_batches: bool) -> bool {
        let driver = Memory::default();
        let open = || {
            let driver = driver.clone();
            Ok(Box::new(Wrong { driver, spoil, plain_batches }) as Box<dyn Driver>)
        };
        check(open, &Settings { sequences: 20, ..Settings::default() }).is_err()
    }

    #[test]
    fn a_wrong_driver_is_found() {
        assert!(!is_found(|_, _| {}, false), "nothing is wrong with it");
        assert!(is_found(|_, _| {}, true), "batches without their marks");
        let spoils: [fn(&Call, &mut Answer); 6] = [
            |_, answer| {
                if let Ok(Reply::Was(was)) = answer {
                    *was = true;
                }
            },
            |_, answer| {
                if let Ok(Reply::Page(entries, _)) = answer {
                    entries.pop();
                }
            },
            |_, answer| {
                if let Err(Error::OutOfRange(_)) = answer {
                    *answer = Ok(Reply::Number(i64::MIN));
                }
            },
            |_, answer| {
                if let Ok(Reply::Content(Some(Content::List(elements)))) = answer {
                    elements.reverse();
                }
            },
            |_, answer| {
                if let Ok(Reply::TimeLeft(Some(_))) = answer {
                    *answer = Ok(Reply::TimeLeft(None));
                }
            },
            |call, answer| {
                if let (Operation::Create(_), Err(_)) = (&call.operation, &answer) {
                    *answer = Ok(Reply::Done);
                }
            },
        ];
        for (number, spoil) in spoils.into_iter().enumerate() {
            assert!(is_found(spoil, false), "mistake {number}");
        }
    }
}

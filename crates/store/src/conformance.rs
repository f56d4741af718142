//! Whether a driver is right: every call against a plain oracle, every error, several connections at
//! once. For your own driver:
//!
//! ```
//! use anabranch_store::{Memory, conformance};
//!
//! let store = Memory::default(); // yours here
//! let settings = conformance::Settings { sequences: 20, ..Default::default() };
//! let report = conformance::check(|| Ok(Box::new(store.clone())), &settings);
//! println!("{} calls", report.expect("the driver is right").calls());
//! ```
//!
//! It writes under NF names that begin with `conformance` and removes them again. A failure names
//! the seed that shows it again.

mod coverage;
mod examples;
mod generate;
mod locks;
mod oracle;
mod refusals;
mod together;

use std::fmt;

use crate::call::{Call, Operation, Reply};
use crate::driver::{Answer, Driver, only};
use crate::error::Error;
use crate::key::{Key, prefix};
pub use coverage::{Came, Cell, Report};
pub use generate::Random;
use generate::{Generator, HOUR_MS};
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
    /// Whether `commit` compares a mark and takes effect in one step, which the default of
    /// [`Driver`] does not: several write by one mark at once.
    pub atomic_commits: bool,
}

impl Default for Settings {
    /// 100 sequences of 200 calls from seed 1; 4 connections; values that end after 300 ms.
    fn default() -> Self {
        Self {
            seed: 1,
            sequences: 100,
            calls: 200,
            connections: 4,
            ends_ms: 300,
            atomic_commits: true,
        }
    }
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

/// Tries everything. Takes a few seconds with a store on the same machine. An error too where the
/// settings are too small to try everything.
pub fn check(open: impl Open, settings: &Settings) -> Result<Report, Failure> {
    let mut report = Report::default();
    let mut driver = open()?;
    remove(&mut *driver, "conformance")?;
    for seed in (settings.seed..).take(settings.sequences as usize) {
        let nf = format!("conformance-{seed}");
        let one = sequence(&mut *driver, &nf, seed, settings.calls);
        report.add(one.map_err(|failure| Failure(format!("seed {seed}: {failure}")))?);
    }
    examples::check(&mut *driver, settings.ends_ms)?;
    refusals::check(&mut *driver)?;
    together::check(&open, settings)?.into_iter().for_each(|one| report.add(one));
    locks::check(&open, settings)?;
    remove(&mut *driver, "conformance")?;
    report.is_complete()?;
    Ok(report)
}

/// One generated sequence, in the objects of `nf`, which are gone afterwards.
fn sequence(driver: &mut dyn Driver, nf: &str, seed: u64, calls: u32) -> Result<Report, Failure> {
    let mut generator = Generator::new(seed, nf)?;
    let (mut oracle, mut report) = (Oracle::default(), Report::default());
    let mut made = 0;
    while made < calls as usize {
        let together = (0..generator.together()).map(|_| {
            let call = generator.call(|call| report.tried(oracle.cell(call)));
            expect(&mut oracle, call, &mut report)
        });
        let together = together.collect();
        made += compare(driver, together, made)?;
    }
    same_keys(driver, &oracle, nf)?;
    let all: Vec<Key> = oracle.keys().cloned().collect();
    for operation in [Operation::Read, Operation::Delete, Operation::Read] {
        let calls = all.iter().map(|key| Call::new(key, operation.clone()));
        let calls = calls.map(|call| expect(&mut oracle, call, &mut report)).collect();
        made += compare(driver, calls, made)?;
    }
    same_keys(driver, &oracle, nf)?;
    Ok(report)
}

/// A call, counted, with the answer that it should have.
fn expect(oracle: &mut Oracle, call: Call, report: &mut Report) -> (Call, Answer) {
    report.count(oracle.cell(&call));
    let answer = oracle.answer(&call);
    (call, answer)
}

/// Makes these calls, before which `made` were made; how many they are.
fn compare(
    driver: &mut dyn Driver,
    calls: Vec<(Call, Answer)>,
    made: usize,
) -> Result<usize, Failure> {
    let (calls, expected): (Vec<Call>, Vec<Answer>) = calls.into_iter().unzip();
    let answers = driver.run(&calls)?;
    equal("answers", answers.len(), calls.len())?;
    for (number, (expected, answer)) in expected.iter().zip(&answers).enumerate() {
        if !oracle::same(expected, answer) {
            let Call { key, operation } = &calls[number];
            let number = made + number + 1;
            return Err(Failure(format!(
                "call {number}, `{operation:?}` of `{key}`: {answer:?}, not {expected:?}"
            )));
        }
    }
    Ok(calls.len())
}

fn ask(driver: &mut dyn Driver, key: &Key, operation: Operation) -> Result<Reply, Error> {
    only(driver.run(&[Call::new(key, operation)])?)
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
mod tests;

//! Taking over what an instance has in a store, from whoever writes it.
//!
//! ```text
//! claimer   keys ─▶ marks: mine ────────────────▶ all state ─▶ marks: still mine
//! earlier          │ batch on the mark before it: takes effect, and the claim is made on top of it
//! writer                       │ batch on the mark before it: refused, it stops
//! ```

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use super::state;
use crate::behind::{Claimed, Mark};
use crate::call::{Call, Operation};
use crate::content::Bytes;
use crate::driver::{Batch, Driver, Outcome, value_of};
use crate::error::Error;
use crate::key::{Key, Place, Scope, prefix};

/// How often a claim is made of which nobody knows what became, that is refused, or that the store loses.
const CLAIMS: u32 = 8;
/// How often on top of what a writer has written meanwhile: he writes once a period, and is ahead now and then.
const RACES: u32 = 64;
/// How long to wait after the first claim that is not answered; after others longer.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes over the state of an instance for a writer of [this epoch](Mark::epoch_at), or a later one: the
/// writer's epoch, and the scopes of its cores and shards with what they hold. Whoever wrote there
/// before is told so with his next batch, and stops. Each scope's mark has the latest clock of all.
pub fn claim(
    driver: &mut (impl Driver + ?Sized),
    nf: &str,
    instance: &str,
    epoch: u64,
) -> Result<(u64, Vec<Claimed>), Error> {
    let name = format!("{nf}@{instance}");
    let mut claim = Claim { name, epoch, clock_ns: 0, marks: BTreeMap::new(), unanswered: 0 };
    let mut keys = driver.keys(&prefix(nf, Some(instance))?)?;
    for _ in 0..CLAIMS {
        claim.take(driver, &keys)?;
        // Read when nobody else writes any more: what is claimed does not change.
        let mut state = state(driver, nf, Some(instance))?;
        keys = state.keys().cloned().collect();
        if !claim.holds(driver)? || !claim.unclaimed(&keys).is_empty() {
            continue;
        }
        let claimed = claim.marks.into_iter().map(|(scope, mark)| {
            let content = state.extract_if(.., |key, _| key.scope_str() == scope.as_str());
            let content = content.collect();
            Claimed { scope, mark, content }
        });
        return Ok((claim.epoch, claimed.collect()));
    }
    Err(Error::Contended(claim.name))
}

struct Claim {
    name: String,
    epoch: u64,
    /// The latest that was found.
    clock_ns: u64,
    /// What was claimed, and what its mark holds.
    marks: BTreeMap<Scope, Mark>,
    unanswered: u32,
}

impl Claim {
    /// The scopes of cores and shards among these that are not claimed.
    fn unclaimed(&self, keys: &[Key]) -> Vec<Scope> {
        let mut scopes: Vec<Scope> = keys.iter().map(Key::scope).collect();
        scopes.retain(|scope| scope.place() != Place::Instance && !self.marks.contains_key(scope));
        scopes.sort();
        scopes.dedup();
        scopes
    }

    /// Claims the scopes of these keys, whatever is written there meanwhile.
    fn take(&mut self, driver: &mut (impl Driver + ?Sized), keys: &[Key]) -> Result<(), Error> {
        let mut scopes = self.unclaimed(keys);
        let marks: Vec<Key> = scopes.iter().map(Mark::key).collect::<Result<_, _>>()?;
        let reads: Vec<Call> = marks.iter().map(|mark| Call::new(mark, Operation::Read)).collect();
        let mut found = Vec::new();
        for (mark, answer) in marks.iter().zip(driver.run(&reads)?) {
            found.push(value_of(mark, vec![answer])?);
        }
        for _ in 0..RACES {
            for (scope, found) in scopes.iter().zip(&found) {
                self.note(scope, found.as_ref())?;
            }
            let mark = Mark { epoch: self.epoch, batch: 1, clock_ns: self.clock_ns };
            let outcomes = self.commit(driver, &scopes, found, mark)?;
            (scopes, found) = outcomes.into_iter().unzip();
            if scopes.is_empty() {
                return Ok(());
            }
        }
        Err(Error::Contended(self.name.clone()))
    }

    /// Somebody has written this mark: the claim is later.
    fn note(&mut self, scope: &Scope, found: Option<&Bytes>) -> Result<(), Error> {
        let Some(bytes) = found else { return Ok(()) };
        let mark = Mark::decode(&Mark::key(scope)?, bytes)?;
        self.epoch = self.epoch.max(mark.epoch.saturating_add(1));
        self.clock_ns = self.clock_ns.max(mark.clock_ns);
        Ok(())
    }

    /// Whether the store still has what was claimed, as it was claimed; what it has not is to be claimed anew. An
    /// error where another claim is later.
    fn holds(&mut self, driver: &mut (impl Driver + ?Sized)) -> Result<bool, Error> {
        let (scopes, known): (Vec<Scope>, Vec<_>) =
            self.marks.iter().map(|(scope, mark)| (scope.clone(), Some(mark.encode()))).unzip();
        let mark = Mark { epoch: self.epoch, batch: 2, clock_ns: self.clock_ns };
        let others = self.commit(driver, &scopes, known, mark)?;
        for (scope, found) in &others {
            self.marks.remove(scope);
            let found = found.as_ref().map(|bytes| Mark::decode(&Mark::key(scope)?, bytes));
            if found.transpose()?.is_some_and(|found| found.is_later_than(mark)) {
                return Err(Error::Fenced(self.name.clone()));
            }
        }
        Ok(others.is_empty())
    }

    /// Has the marks of `scopes`, which hold what is `expected`, hold `mark`: those that held something else, and what.
    fn commit(
        &mut self,
        driver: &mut (impl Driver + ?Sized),
        scopes: &[Scope],
        expected: Vec<Option<Bytes>>,
        mark: Mark,
    ) -> Result<Vec<(Scope, Option<Bytes>)>, Error> {
        let batch = |(scope, expected)| {
            let (mark, next) = (Mark::key(scope)?, mark.encode());
            Ok(Batch { mark, expected, next, present: Vec::new(), calls: Vec::new() })
        };
        let batches: Vec<Batch> =
            scopes.iter().zip(expected).map(batch).collect::<Result<_, Error>>()?;
        let (outcomes, is_known) = self.answers(driver, &batches)?;
        let mut others = Vec::new();
        for (scope, (outcome, batch)) in scopes.iter().zip(outcomes.into_iter().zip(batches)) {
            match outcome {
                // One of those that were not answered has taken effect.
                Outcome::Found(Some(found)) if !is_known && found == batch.next => {}
                Outcome::Found(found) => {
                    others.push((scope.clone(), found));
                    continue;
                }
                // Nothing is to be there beside the mark.
                Outcome::Committed | Outcome::Lacks | Outcome::Refused(_) => {}
            }
            self.marks.insert(scope.clone(), mark);
        }
        Ok(others)
    }

    /// What becomes of batches, asked until it is known and none is refused; whether all was known at once.
    fn answers(
        &mut self,
        driver: &mut (impl Driver + ?Sized),
        batches: &[Batch],
    ) -> Result<(Vec<Outcome>, bool), Error> {
        let mut is_known = true;
        loop {
            let refused = |outcome: &Outcome| match outcome {
                Outcome::Refused(error) => Some(error.clone()),
                _ => None,
            };
            let error = match driver.commit(batches) {
                Ok(outcomes) => match outcomes.iter().find_map(refused) {
                    None => return Ok((outcomes, is_known)),
                    Some(error) => error,
                },
                // It has just answered: a long pause of the store, or one of its nodes is gone.
                Err(late) if late.is_unavailable() => late,
                Err(error) => return Err(error),
            };
            self.unanswered += 1;
            if self.unanswered == CLAIMS {
                return Err(error);
            }
            is_known = false;
            thread::sleep(PAUSE * self.unanswered);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::content::{Content, Kind};
    use crate::driver::Answer;
    use crate::memory::Memory;

    /// Two shards of one instance, and one of others.
    fn store() -> Memory {
        let mut store = Memory::default();
        for (instance, shard) in [("a", 1), ("a", 2), ("b", 1), ("a2", 1)] {
            let scope = Scope::new("nat", instance, Place::Shard(shard)).unwrap();
            let key = scope.key(Kind::Counter, "x").unwrap();
            store.run(&[Call::new(&key, Operation::Add(1))]).unwrap();
        }
        store
    }

    /// A store of which each commit is handed to this, while it lasts.
    type Fault = fn(&mut Memory, &[Batch]) -> Result<Vec<Outcome>, Error>;

    struct Failing(Memory, VecDeque<Fault>);

    impl Driver for Failing {
        fn name(&self) -> &str {
            "failing"
        }

        fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
            self.0.run(calls)
        }

        fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
            match self.1.pop_front() {
                Some(fault) => fault(&mut self.0, batches),
                None => self.0.commit(batches),
            }
        }

        fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
            self.0.keys(prefix)
        }
    }

    fn refuses(_: &mut Memory, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        let refused = Outcome::Refused(Error::unavailable("failing", "it moves"));
        Ok(batches.iter().map(|_| refused.clone()).collect())
    }

    fn is_silent(store: &mut Memory, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        store.commit(batches)?;
        Err(Error::unavailable("failing", "it takes too long to answer"))
    }

    fn is_silent_half_way(store: &mut Memory, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        is_silent(store, &batches[..1])
    }

    /// What was claimed is gone when it is looked whether it is there.
    fn loses(store: &mut Memory, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        store.run(&[Call::new(&batches[1].mark, Operation::Delete)])?;
        store.commit(batches)
    }

    /// Somebody else claims it all.
    fn is_overtaken(store: &mut Memory, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        claim(store, "nat", "a", 900)?;
        store.commit(batches)
    }

    fn claimed(faults: &[Fault]) -> Result<(u64, usize), Error> {
        let mut store = Failing(store(), faults.iter().copied().collect());
        let (epoch, claimed) = claim(&mut store, "nat", "a", 500)?;
        assert!(claimed.iter().all(|one| one.content.len() == 1 && one.mark.epoch == epoch));
        for one in &claimed {
            let mark = Mark::key(&one.scope)?;
            let there = value_of(&mark, store.run(&[Call::new(&mark, Operation::Read)])?)?;
            assert_eq!(there, Some(one.mark.encode()));
        }
        Ok((epoch, claimed.len()))
    }

    #[test]
    fn what_becomes_of_a_claim_is_found_out() {
        assert_eq!(claimed(&[refuses]), Ok((500, 2)));
        assert_eq!(claimed(&[is_silent, is_silent_half_way, is_silent]), Ok((500, 2)));
        assert_eq!(claimed(&[is_silent_half_way, Memory::commit, is_silent]), Ok((500, 2)));
        assert_eq!(claimed(&[Memory::commit, loses]), Ok((500, 2)));
        let text = |faults: &[Fault]| claimed(faults).unwrap_err().to_string();
        assert!(text(&[refuses as Fault; CLAIMS as usize]).contains("it moves"));
        assert!(text(&[is_silent as Fault; CLAIMS as usize]).contains("too long"));
        assert!(text(&[Memory::commit, is_overtaken]).contains("started later"));
    }

    #[test]
    fn a_claim_is_of_one_instance_and_later_than_any_before() {
        let mut store = store();
        let (first, claimed) = claim(&mut store, "nat", "a", 500).unwrap();
        let scopes: Vec<&str> = claimed.iter().map(|one| one.scope.as_str()).collect();
        assert_eq!((first, scopes), (500, vec!["nat@a@s1", "nat@a@s2"]));
        let (second, again) = claim(&mut store, "nat", "a", 7).unwrap();
        assert_eq!((second, again[0].content.clone()), (501, claimed[0].content.clone()));
    }

    /// A store in which somebody writes whenever it is asked for something, and is ahead of all claims but each third.
    struct Busy {
        store: Memory,
        shards: Vec<(Scope, Mark)>,
        commits: u32,
    }

    impl Busy {
        fn write(&mut self) {
            for (scope, mark) in &mut self.shards {
                let next = Mark { batch: mark.batch + 1, clock_ns: mark.clock_ns + 1, ..*mark };
                let count = scope.key(Kind::Counter, "x").unwrap();
                let put = Operation::Put(Content::Counter(next.batch as i64));
                let batch = Batch {
                    mark: Mark::key(scope).unwrap(),
                    expected: Some(mark.encode()),
                    next: next.encode(),
                    present: Vec::new(),
                    calls: vec![Call::new(&count, put)],
                };
                if self.store.commit(&[batch]).unwrap() == [Outcome::Committed] {
                    *mark = next;
                }
            }
        }
    }

    impl Driver for Busy {
        fn name(&self) -> &str {
            "busy"
        }

        fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
            self.write();
            self.store.run(calls)
        }

        fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
            self.commits += 1;
            if !self.commits.is_multiple_of(3) {
                self.write();
            }
            self.store.commit(batches)
        }

        fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
            self.write();
            self.store.keys(prefix)
        }
    }

    #[test]
    fn what_somebody_writes_all_the_time_is_claimed_and_he_writes_no_more() {
        let mut store = store();
        let (_, earlier) = claim(&mut store, "nat", "a", 500).unwrap();
        let shards = earlier.into_iter().map(|one| (one.scope, one.mark)).collect();
        let mut store = Busy { store, shards, commits: 0 };
        store.write();
        let (epoch, claimed) = claim(&mut store, "nat", "a", 7).unwrap();
        assert_eq!((epoch, claimed.len()), (501, 2));
        store.write();
        for (one, (scope, mark)) in claimed.iter().zip(&store.shards) {
            let count = Content::Counter(mark.batch as i64);
            assert_eq!((&one.scope, one.content.values().next()), (scope, Some(&count)));
            assert!(mark.batch > 3 && one.mark.clock_ns >= mark.clock_ns, "{mark:?}");
        }
        let after = state(&mut store, "nat", Some("a")).unwrap();
        assert!(claimed.iter().flat_map(|one| &one.content).eq(after.iter()), "{after:?}");
    }
}

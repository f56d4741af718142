//! Right drivers pass, wrong ones are found.

use std::thread;
use std::time::Duration;

use super::*;
use crate::call::{End, Reply};
use crate::content::{Content, Entry};
use crate::driver::{Batch, Outcome};
use crate::{Durability, Memory, memory};

#[test]
fn memory_is_right() {
    let store = Memory::default();
    let report = check(|| Ok(Box::new(store.clone())), &Settings::default()).unwrap();
    assert!(report.calls() > 20_000 && report.refused() > 500, "{report:?}");
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

/// A store without transactions, and a driver that makes nothing of them.
#[derive(Clone)]
struct Plain {
    store: Memory,
    /// How long each answer takes.
    takes: Duration,
}

impl Driver for Plain {
    fn name(&self) -> &str {
        "plain"
    }
    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        thread::sleep(self.takes);
        self.store.run(calls)
    }
    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        self.store.keys(prefix)
    }
}

#[test]
fn commits_in_steps_are_right_for_one_writer_only() {
    let store = Plain { store: Memory::default(), takes: Duration::ZERO };
    let settings = Settings { atomic_commits: false, ..FEW };
    check(|| Ok(Box::new(store.clone())), &settings).unwrap();
    let slow = Plain { takes: Duration::from_micros(100), ..store };
    let failure = check(|| Ok(Box::new(slow.clone())), &FEW).unwrap_err().to_string();
    assert!(failure.contains("batches that a mark let through"), "{failure}");
}

#[test]
fn too_few_calls_are_told() {
    let store = Memory::default();
    let settings = Settings { sequences: 1, calls: 20, connections: 1, ..FEW };
    let failure = check(|| Ok(Box::new(store.clone())), &settings).unwrap_err().to_string();
    assert!(failure.contains("have not tried: `"), "{failure}");
    assert!(failure.contains("`compare_and_insert` of a map that finds it"), "{failure}");
}

#[test]
fn a_seed_tries_the_same_again() {
    let report = |seed| sequence(&mut Memory::default(), "conformance", seed, 160).unwrap();
    assert_eq!(report(5), report(5));
    assert_ne!(report(5), report(6));
}

/// As few calls as a slow store is tried with.
const FEW: Settings = Settings {
    seed: 1,
    sequences: 2,
    calls: 160,
    connections: 3,
    ends_ms: 300,
    atomic_commits: true,
};

/// A driver with a mistake.
#[derive(Clone)]
struct Wrong {
    driver: Memory,
    /// What is done in place of an operation.
    instead: fn(&Operation) -> Option<Operation>,
    /// What becomes of the answer to one.
    spoil: fn(&Operation, &mut Answer),
    /// Batches without their marks.
    plain_batches: bool,
}

impl Wrong {
    fn answers(spoil: fn(&Operation, &mut Answer)) -> Self {
        Self { driver: Memory::default(), instead: |_| None, spoil, plain_batches: false }
    }
}

impl Driver for Wrong {
    fn name(&self) -> &str {
        "wrong"
    }
    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        let instead =
            |call: &Call| match call.check().ok().and_then(|()| (self.instead)(&call.operation)) {
                Some(operation) => Call::new(&call.key, operation),
                None => call.clone(),
            };
        let mut answers = self.driver.run(&calls.iter().map(instead).collect::<Vec<_>>())?;
        let each = calls.iter().zip(&mut answers);
        each.for_each(|(call, answer)| (self.spoil)(&call.operation, answer));
        Ok(answers)
    }
    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        if self.plain_batches {
            for batch in batches {
                self.driver.run(&batch.calls)?;
            }
            return Ok(vec![Outcome::Committed; batches.len()]);
        }
        self.driver.commit(batches)
    }
    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        self.driver.keys(prefix)
    }
}

/// By the comparison of answers, not because something was not tried.
fn is_found(wrong: Wrong) -> bool {
    let found = check(|| Ok(Box::new(wrong.clone())), &FEW);
    found.is_err_and(|failure| !failure.to_string().contains("have not tried"))
}

#[test]
fn a_wrong_driver_is_found() {
    let right = Wrong::answers(|_, _| {});
    let report = check(|| Ok(Box::new(right.clone())), &FEW);
    report.expect("nothing is wrong with it");
    let plain = Wrong { plain_batches: true, ..Wrong::answers(|_, _| {}) };
    assert!(is_found(plain), "batches without their marks");
    for (mistake, spoil) in WRONG_ANSWERS {
        assert!(is_found(Wrong::answers(*spoil)), "{mistake}");
    }
    for (mistake, instead, spoil) in WRONG_DEEDS {
        assert!(is_found(Wrong { instead: *instead, ..Wrong::answers(*spoil) }), "{mistake}");
    }
}

type Spoil = fn(&Operation, &mut Answer);
type Instead = fn(&Operation) -> Option<Operation>;

const WRONG_ANSWERS: &[(&str, Spoil)] = &[
    ("everything was there", |_, answer| {
        if let Ok(Reply::Was(was)) = answer {
            *was = true;
        }
    }),
    ("pages leave one out", |_, answer| {
        if let Ok(Reply::Page(entries, _)) = answer {
            entries.pop();
        }
    }),
    ("sums have no range", |_, answer| {
        if let Err(Error::OutOfRange(_)) = answer {
            *answer = Ok(Reply::Number(i64::MIN));
        }
    }),
    ("lists are read from the back", |_, answer| {
        if let Ok(Reply::Content(Some(Content::List(elements)))) = answer {
            elements.reverse();
        }
    }),
    ("nothing ends", |_, answer| {
        if let Ok(Reply::TimeLeft(Some(_))) = answer {
            *answer = Ok(Reply::TimeLeft(None));
        }
    }),
    ("what exists is created", |operation, answer| {
        if let (Operation::Create(_), Err(_)) = (operation, &answer) {
            *answer = Ok(Reply::Done);
        }
    }),
    ("what is not there is updated", |_, answer| {
        if let Err(Error::Missing(_)) = answer {
            *answer = Ok(Reply::Done);
        }
    }),
    ("nothing is found in a map", |operation, answer| {
        if let (Operation::Find(_), Ok(Reply::Found(Some(Entry::Pair(..))))) = (operation, &answer)
        {
            *answer = Ok(Reply::Found(None));
        }
    }),
    ("another count is found", |operation, answer| {
        if let (Operation::Find(_), Ok(Reply::Found(Some(Entry::Count(_, count))))) =
            (operation, answer)
        {
            *count ^= 1;
        }
    }),
    ("nothing is contained", |operation, answer| {
        if let Operation::Contains(_) = operation {
            *answer = answer.clone().map(|_| Reply::Was(false));
        }
    }),
    ("sizes are one more", |operation, answer| {
        if let (Operation::Size, Ok(Reply::Size(size))) = (operation, answer) {
            *size += 1;
        }
    }),
    ("nothing is too long", |_, answer| {
        if let Err(Error::TooLong { .. }) = answer {
            *answer = Ok(Reply::Done);
        }
    }),
];

const WRONG_DEEDS: &[(&str, Instead, Spoil)] = &[
    (
        "erase does nothing",
        |operation| match operation {
            Operation::Erase(key) => Some(Operation::Contains(key.clone())),
            _ => None,
        },
        |_, _| {},
    ),
    (
        "add_to puts in place of what is there",
        |operation| match operation {
            Operation::AddTo(key, by) => Some(Operation::Insert(Entry::Count(key.clone(), *by))),
            _ => None,
        },
        |operation, answer| {
            if let Operation::AddTo(_, by) = operation {
                *answer = answer.clone().map(|_| Reply::Number(*by));
            }
        },
    ),
    (
        "compare_and_insert does not compare",
        |operation| match operation {
            Operation::CompareAndInsert { key, to, .. } => {
                Some(Operation::Insert(Entry::Pair(key.clone(), to.clone())))
            }
            _ => None,
        },
        |operation, answer| {
            if let Operation::CompareAndInsert { .. } = operation {
                *answer = answer.clone().map(|_| Reply::Was(true));
            }
        },
    ),
    (
        "compare_and_insert overwrites what it should not, and owns up to it",
        |operation| match operation {
            Operation::CompareAndInsert { key, from: None, to } => {
                Some(Operation::Insert(Entry::Pair(key.clone(), to.clone())))
            }
            _ => None,
        },
        |operation, answer| {
            if let (Operation::CompareAndInsert { from: None, .. }, Ok(Reply::Was(was))) =
                (operation, answer)
            {
                *was = !*was;
            }
        },
    ),
    (
        "a list is pushed at its back only",
        |operation| match operation {
            Operation::Push(End::Front, element) => {
                Some(Operation::Push(End::Back, element.clone()))
            }
            _ => None,
        },
        |_, _| {},
    ),
];

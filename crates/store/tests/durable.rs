//! A durable store opens to a state that was once true, whatever was cut off, damaged or killed.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use anabranch_store::memory::Sync;
use anabranch_store::{
    Batch, Call, Content, Driver, Durability, End, Entry, Error, Key, Kind, Memory, Operation,
    Outcome, Place, Reply, Scope,
};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

const NEVER: Durability = Durability { sync: Sync::Never, checkpoint_bytes: u64::MAX };

type State = BTreeMap<Key, Content>;

fn state(store: &mut Memory) -> State {
    let keys = store.keys("").unwrap();
    let reads: Vec<Call> = keys.iter().map(|key| Call::new(key, Operation::Read)).collect();
    let contents = store.run(&reads).unwrap().into_iter().map(|answer| match answer {
        Ok(Reply::Content(Some(content))) => content,
        other => panic!("{other:?}"),
    });
    keys.into_iter().zip(contents).collect()
}

fn key(kind: Kind) -> Key {
    Scope::new("nat", "edge", Place::Shard(3)).unwrap().key(kind, "x").unwrap()
}

/// One step: a run of calls or a batch, of all types in turn.
fn step(store: &mut Memory, number: u64) {
    let byte = vec![number as u8];
    let calls = [
        Call::new(&key(Kind::Counter), Operation::Add(1)),
        Call::new(&key(Kind::List), Operation::Push(End::Front, byte.clone())),
        Call::new(&key(Kind::Map), Operation::Insert(Entry::Pair(byte.clone(), byte.clone()))),
        Call::new(&key(Kind::CounterMap), Operation::AddTo(vec![number as u8 % 3], 7)),
        Call::new(&key(Kind::Set), Operation::Insert(Entry::Member(byte.clone()))),
        Call::new(&key(Kind::List), Operation::Pop(End::Back)),
        Call::new(&key(Kind::Map), Operation::Delete),
    ];
    if number.is_multiple_of(5) {
        let mark = key(Kind::Value);
        let (expected, next) = (None, number.to_be_bytes().to_vec());
        let insert = Operation::Insert(Entry::Member(b"batch".to_vec()));
        let calls = vec![Call::new(&key(Kind::Set), insert)];
        let batch = Batch { mark: mark.clone(), expected, next, present: Vec::new(), calls };
        store.run(&[Call::new(&mark, Operation::Delete)]).unwrap();
        assert_eq!(store.commit(&[batch]).unwrap(), [Outcome::Committed]);
    } else {
        let count = 1 + number as usize % calls.len();
        store.run(&calls[..count]).unwrap().into_iter().for_each(|answer| drop(answer.unwrap()));
    }
}

/// What a log of as many bytes comes to, for every length at which the store was between two steps.
fn write(directory: &Path, steps: u64) -> Vec<(u64, State)> {
    let mut store = Memory::open(directory, NEVER).unwrap();
    let log = directory.join("log-00000000");
    let mut truths = vec![(0, State::new())];
    for number in 0..steps {
        // A batch's step is two writes: what is between them was true as well.
        if number.is_multiple_of(5) {
            store.run(&[Call::new(&key(Kind::Value), Operation::Delete)]).unwrap();
            truths.push((fs::metadata(&log).unwrap().len(), state(&mut store)));
            let next = number.to_be_bytes().to_vec();
            let insert = Operation::Insert(Entry::Member(b"batch".to_vec()));
            let calls = vec![Call::new(&key(Kind::Set), insert)];
            let batch =
                Batch { mark: key(Kind::Value), expected: None, next, present: Vec::new(), calls };
            assert_eq!(store.commit(&[batch]).unwrap(), [Outcome::Committed]);
        } else {
            step(&mut store, number);
        }
        truths.push((fs::metadata(&log).unwrap().len(), state(&mut store)));
    }
    truths
}

#[test]
fn cut_at_every_byte_it_opens_to_what_was_true_then() {
    let directory = tempfile::tempdir().unwrap();
    let truths = write(directory.path(), 30);
    let log = fs::read(directory.path().join("log-00000000")).unwrap();
    assert!(log.len() > 1_500, "{}", log.len());
    for cut in 0..=log.len() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("log-00000000"), &log[..cut]).unwrap();
        let truth = truths.iter().rev().find(|(len, _)| *len <= cut as u64).unwrap();
        assert_eq!(state(&mut Memory::look(directory.path()).unwrap()), truth.1, "cut at {cut}");
        let mut store = Memory::open(directory.path(), NEVER).unwrap();
        assert_eq!(state(&mut store), truth.1, "cut at {cut}");
        // It goes on from there, and what it does then is kept.
        step(&mut store, 1);
        let after = state(&mut store);
        drop(store);
        assert_eq!(state(&mut Memory::open(directory.path(), NEVER).unwrap()), after);
    }
}

proptest! {
    #[test]
    fn damaged_anywhere_it_opens_to_what_was_true_once(
        at in 10usize..1_500, bytes in prop::collection::vec(any::<u8>(), 1..40), cut in any::<bool>(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let truths = write(directory.path(), 30);
        let path = directory.path().join("log-00000000");
        let mut log = fs::read(&path).unwrap();
        for (place, byte) in log[at..].iter_mut().zip(&bytes) {
            *place = *byte;
        }
        log.truncate(if cut { at + bytes.len() } else { log.len() });
        fs::write(&path, &log).unwrap();
        let found = state(&mut Memory::open(directory.path(), NEVER).unwrap());
        prop_assert!(truths.iter().any(|(_, truth)| *truth == found), "{found:?}");
    }
}

/// No kill damages what is whole further on: it is said, and nothing is thrown away.
#[test]
fn a_log_that_is_damaged_before_its_end_is_kept_and_told_of() {
    let directory = tempfile::tempdir().unwrap();
    let truths = write(directory.path(), 30);
    let path = directory.path().join("log-00000000");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(Memory::open(directory.path(), NEVER).unwrap().remark(), None, "it is torn");
    let mut log = whole;
    let middle = log.len() / 2;
    log[middle] ^= 1;
    fs::write(&path, &log).unwrap();
    let said = Memory::look(directory.path()).unwrap().remark().map(str::to_owned).unwrap();
    assert!(said.contains("is damaged at byte") && said.contains("are left out"), "{said}");
    let mut store = Memory::open(directory.path(), NEVER).unwrap();
    let said = store.remark().unwrap();
    let copy = said.split('`').nth(3).unwrap().to_owned();
    assert!(copy.contains("damaged-log-00000000-") && fs::read(copy).unwrap() == log, "{said}");
    let found = state(&mut store);
    assert!(truths.iter().any(|(_, truth)| *truth == found), "{found:?}");
    drop(store);
    assert_eq!(Memory::open(directory.path(), NEVER).unwrap().remark(), None, "it was told");
}

#[test]
fn files_are_their_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("state");
    let mut store = Memory::open(&folder, NEVER).unwrap();
    step(&mut store, 1);
    store.checkpoint().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn a_tail_of_zeroes_is_torn_too() {
    let directory = tempfile::tempdir().unwrap();
    let truths = write(directory.path(), 9);
    let path = directory.path().join("log-00000000");
    let mut log = fs::read(&path).unwrap();
    log.extend([0; 4096]);
    fs::write(&path, &log).unwrap();
    let found = state(&mut Memory::open(directory.path(), NEVER).unwrap());
    assert_eq!(Some(&found), truths.last().map(|(_, truth)| truth));
}

#[test]
fn killed_at_any_stage_of_a_checkpoint_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let mut truths = write(directory.path(), 12);
    let truth = truths.pop().unwrap().1;
    let before = fs::read(directory.path().join("log-00000000")).unwrap();
    let store = Memory::open(directory.path(), NEVER).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    let files = |name: &str| fs::read(directory.path().join(name)).unwrap();
    let (checkpoint, log) = (files("checkpoint-00000001"), files("log-00000001"));
    assert!(!directory.path().join("log-00000000").exists(), "what is over is removed");
    type Stage<'a> = Vec<(&'a str, &'a [u8])>;
    let stages: [Stage; 6] = [
        vec![("log-00000000", &before), ("checkpoint.unfinished", &checkpoint[..40])],
        vec![
            ("log-00000000", &before),
            ("checkpoint.unfinished", &checkpoint),
            ("log.unfinished", &log[..4]),
        ],
        vec![("log-00000000", &before), ("checkpoint-00000001", &checkpoint)],
        vec![
            ("log-00000000", &before),
            ("checkpoint-00000001", &checkpoint),
            ("log.unfinished", &log),
        ],
        vec![
            ("log-00000000", &before),
            ("checkpoint-00000001", &checkpoint),
            ("log-00000001", &log[..4]),
        ],
        vec![("checkpoint-00000001", &checkpoint), ("log-00000001", &log)],
    ];
    for (number, stage) in stages.iter().enumerate() {
        let directory = tempfile::tempdir().unwrap();
        for (name, bytes) in stage {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
        let mut store = Memory::open(directory.path(), NEVER).unwrap();
        assert_eq!((state(&mut store), store.remark()), (truth.clone(), None), "stage {number}");
        let left = |name: &str| directory.path().join(name).exists();
        assert!(!left("checkpoint.unfinished") && !left("log.unfinished"), "stage {number}");
        step(&mut store, 2);
        store.checkpoint().unwrap();
        let after = state(&mut store);
        drop(store);
        assert_eq!(state(&mut Memory::open(directory.path(), NEVER).unwrap()), after);
    }
}

#[test]
fn damage_that_no_crash_does_is_said() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 12);
    Memory::open(directory.path(), NEVER).unwrap().checkpoint().unwrap();
    let path = directory.path().join("checkpoint-00000001");
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let opened = Memory::open(directory.path(), NEVER).err().unwrap();
        assert!(matches!(opened, Error::Damaged { .. }), "cut at {cut}: {opened}");
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        let opened = Memory::open(directory.path(), NEVER).err().unwrap();
        assert!(
            matches!(opened, Error::Damaged { .. } | Error::LaterFormat { .. }),
            "{at}: {opened}"
        );
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(Memory::open(directory.path(), NEVER), Err(Error::Damaged { .. })));
}

/// A log of format 1 as it was written then: what a step with number 4 does first.
const FORMAT_1: &str = "\
     616e61622d6c6f670100810000005dea3c75d8958695a03405156e6174406564676540733340636f\
     756e74657240780802126e61744065646765407333406c697374407809000104116e617440656467\
     65407333406d617040780b0101040104186e6174406564676540733340636f756e7465726d617040\
     780f01010e116e617440656467654073334073657440780b000104";

#[test]
fn what_an_earlier_release_wrote_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let digits: Vec<u32> = FORMAT_1.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let log: Vec<u8> = digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect();
    fs::write(directory.path().join("log-00000000"), log).unwrap();
    let expected = [
        (Kind::Counter, Content::Counter(1)),
        (Kind::CounterMap, Content::CounterMap([(vec![1], 7)].into())),
        (Kind::List, Content::List(vec![vec![4]])),
        (Kind::Map, Content::Map([(vec![4], vec![4])].into())),
        (Kind::Set, Content::Set([vec![4]].into())),
    ];
    let expected: State = expected.map(|(kind, content)| (key(kind), content)).into();
    assert_eq!(state(&mut Memory::look(directory.path()).unwrap()), expected);
}

#[test]
fn what_a_later_release_wrote_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("log-00000000"), b"anab-log\x02\x00").unwrap();
    let refused = Memory::open(directory.path(), NEVER).err().unwrap();
    assert!(matches!(refused, Error::LaterFormat { found: 2, known: 1, .. }), "{refused}");
}

/// Puts another byte behind a name in a frame, and makes its checksum right.
fn forge(frame: &mut [u8], name: &str, byte: u8) {
    let at = frame.windows(name.len()).position(|part| part == name.as_bytes()).unwrap();
    frame[at + name.len()] = byte;
    let sum = crc32fast::hash(&[&frame[..4], &frame[8..]].concat());
    frame[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// A format may get another variant: who lacks it loses nothing of what was written.
#[test]
fn what_is_whole_and_not_known_is_refused_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let truths = write(directory.path(), 9);
    let path = directory.path().join("log-00000000");
    let refused = |file: &Path, bytes: &[u8], at: usize| {
        for opened in [Memory::look(directory.path()), Memory::open(directory.path(), NEVER)] {
            let said = opened.err().unwrap().to_string();
            let expected = format!("byte {at} is whole, but not known");
            assert!(said.contains(&expected) && said.contains("the later release"), "{said}");
            assert_eq!(fs::read(file).unwrap(), bytes);
        }
    };
    let whole = fs::read(&path).unwrap();
    let [from, to] = [truths[5].0 as usize, truths[6].0 as usize];
    let mut log = whole.clone();
    forge(&mut log[from..to], "@counter@x", 60);
    fs::write(&path, &log).unwrap();
    refused(&path, &log, from);
    fs::write(&path, &whole).unwrap();
    Memory::open(directory.path(), NEVER).unwrap().checkpoint().unwrap();
    let path = directory.path().join("checkpoint-00000001");
    let mut checkpoint = fs::read(&path).unwrap();
    let len = 8 + u32::from_le_bytes(checkpoint[10..14].try_into().unwrap()) as usize;
    forge(&mut checkpoint[10..10 + len], "@counter@x", 60);
    fs::write(&path, &checkpoint).unwrap();
    refused(&path, &checkpoint, 10);
}

#[test]
fn what_follows_a_hole_is_kept_and_told_of_however_long_the_hole_is() {
    let directory = tempfile::tempdir().unwrap();
    let truths = write(directory.path(), 9);
    let path = directory.path().join("log-00000000");
    let mut log = fs::read(&path).unwrap();
    let last = log.split_off(truths[truths.len() - 2].0 as usize);
    log.extend(vec![0; 3 << 20]);
    log.extend(last);
    fs::write(&path, &log).unwrap();
    let store = Memory::open(directory.path(), NEVER).unwrap();
    assert!(store.remark().unwrap().contains("all of it is kept"), "{:?}", store.remark());
}

/// As of a function whose entries are large, or of a disk that has other bytes in their place.
#[test]
fn what_follows_a_long_damaged_frame_is_kept_and_told_of() {
    let directory = tempfile::tempdir().unwrap();
    let truths = write(directory.path(), 9);
    let path = directory.path().join("log-00000000");
    let whole = fs::read(&path).unwrap();
    let (before, after) = whole.split_at(truths[truths.len() - 2].0 as usize);
    let long = 3u32 << 20;
    let noise = (0..long).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8);
    let frame: Vec<u8> = long.to_le_bytes().into_iter().chain([7; 4]).chain(noise).collect();
    let log = [before, &frame, after].concat();
    fs::write(&path, &log).unwrap();
    let store = Memory::open(directory.path(), NEVER).unwrap();
    let said = store.remark().expect("a whole frame follows");
    assert_eq!(fs::read(said.split('`').nth(3).unwrap()).unwrap(), log);
}

#[test]
fn what_is_damaged_twice_at_the_same_place_is_kept_twice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log-00000000");
    let damaged = || {
        let mut store = Memory::open(directory.path(), NEVER).unwrap();
        (0..9).for_each(|number| step(&mut store, number));
        drop(store);
        let mut log = fs::read(&path).unwrap();
        log[30] ^= 1;
        fs::write(&path, &log).unwrap();
        let store = Memory::open(directory.path(), NEVER).unwrap();
        let copy = store.remark().unwrap().split('`').nth(3).unwrap().to_owned();
        (log, copy)
    };
    for (log, copy) in [damaged(), damaged(), damaged()] {
        assert_eq!(fs::read(&copy).unwrap(), log, "{copy}");
    }
}

#[test]
fn what_follows_a_header_of_zeroes_is_kept_and_told_of() {
    for hole in [10, 4096] {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), 200);
        let path = directory.path().join("log-00000000");
        let mut log = fs::read(&path).unwrap();
        log[..hole].fill(0);
        fs::write(&path, &log).unwrap();
        let store = Memory::open(directory.path(), NEVER).unwrap();
        let said = store.remark().expect("whole frames follow");
        let copy = said.split('`').nth(3).unwrap();
        assert!(copy.ends_with("damaged-log-00000000-0"), "{said}");
        assert_eq!(fs::read(copy).unwrap(), log);
    }
}

/// The writer makes a checkpoint while somebody reads the one before.
#[test]
fn files_that_are_replaced_while_they_are_looked_at_are_looked_at_again() {
    let [directory, aside] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut store = Memory::open(directory.path(), NEVER).unwrap();
    step(&mut store, 4);
    store.checkpoint().unwrap();
    let earlier = directory.path().join("checkpoint-00000001");
    let bytes = fs::read(&earlier).unwrap();
    store.checkpoint().unwrap();
    step(&mut store, 3);
    let later = ["checkpoint-00000002", "log-00000002"];
    let rename = |from: &Path, to: &Path| {
        later.iter().for_each(|name| fs::rename(from.join(name), to.join(name)).unwrap());
    };
    rename(directory.path(), aside.path());
    // Read to its end when the test says so.
    mknodat(CWD, &earlier, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    std::thread::scope(|threads| {
        let look = threads.spawn(|| Memory::look(directory.path()).unwrap());
        let mut read = OpenOptions::new().write(true).open(&earlier).unwrap();
        rename(aside.path(), directory.path());
        fs::remove_file(&earlier).unwrap();
        read.write_all(&bytes).unwrap();
        drop(read);
        assert_eq!(state(&mut look.join().unwrap()), state(&mut store));
    });
}

#[test]
fn a_directory_has_one_writer_and_may_be_looked_at_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Memory::open(directory.path(), NEVER).unwrap();
    step(&mut store, 3);
    assert!(matches!(Memory::open(directory.path(), NEVER), Err(Error::Configuration { .. })));
    let mut reader = Memory::look(directory.path()).unwrap();
    assert_eq!(state(&mut reader), state(&mut store));
    let put = Call::new(&key(Kind::Counter), Operation::Add(1));
    assert!(reader.run(&[put]).unwrap_err().is_unavailable());
}

/// What is left was once true, and is older than what was there: nobody goes on with it unawares.
#[test]
fn a_log_that_somebody_has_removed_is_told_of() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let open = || Memory::open(directory.path(), NEVER).unwrap();
    let told = |store: &Memory| store.remark().map(str::to_owned);
    fs::write(path("lock"), "").unwrap();
    let mut store = open();
    assert_eq!(told(&store), None, "it was killed before its log began");
    step(&mut store, 3);
    drop(store);
    fs::remove_file(path("log-00000000")).unwrap();
    assert!(told(&Memory::look(directory.path()).unwrap()).unwrap().contains("log-00000000"));
    let mut store = open();
    assert!(state(&mut store).is_empty());
    assert!(told(&store).unwrap().contains("all state is lost"), "{:?}", store.remark());
    step(&mut store, 3);
    store.checkpoint().unwrap();
    let before = state(&mut store);
    step(&mut store, 4);
    drop(store);
    assert_eq!(told(&open()), None, "nothing more has gone");
    fs::remove_file(path("log-00000001")).unwrap();
    let mut store = open();
    assert_eq!(state(&mut store), before);
    let says = "log-00000001` was removed: the state is that of the checkpoint before it";
    assert!(told(&store).unwrap().contains(says), "{:?}", store.remark());
    drop(store);
    assert_eq!(told(&open()), None, "it was told once");
}

#[test]
fn a_log_that_is_removed_while_it_is_written_takes_nothing_along() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Memory::open(directory.path(), NEVER).unwrap();
    step(&mut store, 3);
    for written in [true, false] {
        let log = if written { "log-00000000" } else { "log-00000001" };
        fs::remove_file(directory.path().join(log)).unwrap();
        if written {
            step(&mut store, 4);
        }
    }
    let truth = state(&mut store);
    store.close().unwrap();
    drop(store);
    let mut store = Memory::open(directory.path(), NEVER).unwrap();
    assert_eq!((state(&mut store), store.remark()), (truth.clone(), None));
    // With its lock gone the directory may be another's.
    fs::read_dir(directory.path())
        .unwrap()
        .for_each(|file| fs::remove_file(file.unwrap().path()).unwrap());
    let add = Call::new(&key(Kind::Counter), Operation::Add(1));
    let refused = store.run(&[add]).unwrap_err().to_string();
    assert!(refused.contains("removed while it was in use"), "{refused}");
    assert_eq!((state(&mut store), fs::read_dir(directory.path()).unwrap().count()), (truth, 0));
}

#[test]
fn checkpoints_are_written_while_it_runs_and_keep_everything() {
    let directory = tempfile::tempdir().unwrap();
    let durability = Durability { sync: Sync::Every(Duration::ZERO), checkpoint_bytes: 2_000 };
    let mut store = Memory::open(directory.path(), durability).unwrap();
    (0..200).for_each(|number| step(&mut store, number));
    let truth = state(&mut store);
    drop(store);
    let names: Vec<String> = fs::read_dir(directory.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(!names.contains(&"log-00000000".to_string()));
    assert_eq!(state(&mut Memory::open(directory.path(), durability).unwrap()), truth);
}

#[test]
fn what_is_written_is_half_checkpoints_at_most_however_much_state_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let durability = Durability { sync: Sync::Never, checkpoint_bytes: 1_000 };
    let mut store = Memory::open(directory.path(), durability).unwrap();
    let map = key(Kind::Map);
    for round in 0..3u8 {
        for entry in 0..1_000u32 {
            let pair = Entry::Pair(entry.to_be_bytes().to_vec(), vec![round; 100]);
            store.run(&[Call::new(&map, Operation::Insert(pair))]).unwrap();
        }
        // Opened anew it goes on as before.
        drop(store);
        store = Memory::open(directory.path(), durability).unwrap();
    }
    let names = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name());
    let generation = names.filter_map(|name| name.to_str()?.strip_prefix("log-")?.parse().ok());
    let checkpoints: Vec<u32> = generation.collect();
    // Doubling from 1 kB to the 110 kB of all entries, then as often as these are written.
    assert!((7..16).contains(&checkpoints[0]), "{checkpoints:?}");
}

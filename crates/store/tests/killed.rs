//! A process that writes a durable store is killed, again and again. Apart from the other tests: what a
//! process has locked, a child that is about to start holds for a moment too.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anabranch_store::memory::Sync;
use anabranch_store::{
    Call, Content, Driver, Durability, End, Key, Kind, Memory, Operation, Place, Reply, Scope,
};

fn key(kind: Kind) -> Key {
    Scope::new("nat", "edge", Place::Core(0)).unwrap().key(kind, "x").unwrap()
}

fn read(store: &mut Memory, kind: Kind) -> Option<Content> {
    match store.run(&[Call::new(&key(kind), Operation::Read)]).unwrap().remove(0) {
        Ok(Reply::Content(content)) => content,
        other => panic!("{other:?}"),
    }
}

/// Where the process that is to be killed writes the last count that it was answered.
fn answered(directory: &Path) -> PathBuf {
    directory.with_extension("answered")
}

/// Set where this test runs as the process that is to be killed.
const VICTIM: &str = "ANABRANCH_STORE_VICTIM";

#[test]
fn a_killed_process_leaves_what_was_true() {
    if let Some(directory) = std::env::var_os(VICTIM) {
        let durability = Durability { sync: Sync::Never, checkpoint_bytes: 30_000 };
        let mut store = Memory::open(Path::new(&directory), durability).unwrap();
        let answered = File::create(answered(Path::new(&directory))).unwrap();
        loop {
            let calls = [
                Call::new(&key(Kind::Counter), Operation::Add(1)),
                Call::new(&key(Kind::CounterMap), Operation::AddTo(b"n".to_vec(), 1)),
                Call::new(&key(Kind::List), Operation::Push(End::Back, vec![0; 20])),
                Call::new(&key(Kind::List), Operation::Pop(End::Front)),
            ];
            let Ok(Reply::Number(count)) = store.run(&calls).unwrap().remove(0) else { continue };
            answered.write_all_at(&count.to_ne_bytes(), 0).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("store");
    let (mut last, mut rounds) = (0, 0);
    for round in 0..12u64 {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_process_leaves_what_was_true"])
            .env(VICTIM, &directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(40 + round * 7));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let store = &mut Memory::open(&directory, Durability::default()).unwrap();
        let Some(Content::Counter(count)) = read(store, Kind::Counter) else { continue };
        let in_map = BTreeMap::from([(b"n".to_vec(), count)]);
        assert_eq!(read(store, Kind::CounterMap), Some(Content::CounterMap(in_map)));
        assert!(count >= last, "{count} after {last}");
        last = count;
        // The victim of this round may have answered nothing before its end.
        let Ok(answered) = fs::read(answered(&directory)).unwrap_or_default().try_into() else {
            continue;
        };
        let answered = i64::from_ne_bytes(answered);
        assert!(
            (answered..=answered + 1).contains(&count),
            "{count}, and {answered} were answered"
        );
        rounds += 1;
    }
    assert!(last > 100 && rounds > 0, "it counted to {last}, and answered in {rounds} rounds");
}

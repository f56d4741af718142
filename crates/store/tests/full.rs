//! A durable store on a disk that is full for a while. Takes a small file system of its own, and so the right to
//! mount one. Apart from the other tests: what a process has locked, a child that is about to start holds too.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_store::memory::Sync;
use anabranch_store::{
    Call, Content, Driver, Durability, Entry, Error, Key, Kind, Memory, Operation, Place, Reply,
    Scope,
};

const PAGE: usize = 4096;

/// A file system of 64 pages.
struct Disk {
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Disk {
    #[allow(clippy::explicit_write)] // what a test prints otherwise is shown only where it fails
    fn new() -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=256k", "tmpfs"];
        let mounted = Command::new("mount").args(mount).arg(folder.path()).output();
        if mounted.is_ok_and(|done| done.status.success()) {
            return Some(Self { folder, _alone: alone });
        }
        let why = "no file system may be mounted here (that takes CAP_SYS_ADMIN)";
        writeln!(std::io::stderr(), "skipped: a disk that is full: {why}").unwrap();
        None
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Somebody else takes all room but as many pages.
    fn fill(&self, but_pages: usize) {
        let (path, mut all) = (self.folder.path().join("else"), vec![0; 64 * PAGE]);
        while fs::write(&path, &all).is_err() {
            all.truncate(all.len() - PAGE);
        }
        fs::write(&path, &all[..all.len() - but_pages * PAGE]).unwrap();
    }

    fn make_room(&self) {
        fs::remove_file(self.folder.path().join("else")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).output();
    }
}

fn key() -> Key {
    Scope::new("nat", "edge", Place::Core(0)).unwrap().key(Kind::Map, "flows").unwrap()
}

fn insert(store: &mut Memory, entry: u32) -> Result<(), Error> {
    let pair = Entry::Pair(entry.to_be_bytes().to_vec(), vec![entry as u8; 500]);
    store.run(&[Call::new(&key(), Operation::Insert(pair))]).map(drop)
}

fn entries(store: &mut Memory) -> Content {
    match store.run(&[Call::new(&key(), Operation::Read)]).unwrap().remove(0) {
        Ok(Reply::Content(Some(content))) => content,
        other => panic!("{other:?}"),
    }
}

fn assert_a_restart_finds_all(mut store: Memory, directory: &Path, durability: Durability) {
    let told = entries(&mut store);
    drop(store);
    let mut again = Memory::open(directory, durability).unwrap();
    assert_eq!((entries(&mut again) == told, again.remark()), (true, None));
}

fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_answered_after_the_disk_was_full_is_found_by_a_restart() {
    let durability = Durability { sync: Sync::Never, checkpoint_bytes: u64::MAX };
    // The log that was opened, and the one that a checkpoint has begun.
    for with_checkpoint in [false, true] {
        let Some(disk) = Disk::new() else { return };
        let mut store = Memory::open(&disk.store(), durability).unwrap();
        if with_checkpoint {
            store.checkpoint().unwrap();
        }
        (0..10).for_each(|entry| insert(&mut store, entry).unwrap());
        disk.fill(1);
        let refused = (10..40).filter_map(|entry| insert(&mut store, entry).err());
        let refused: Vec<String> = refused.map(|error| error.to_string()).collect();
        assert!(refused.len() > 10, "{refused:?}");
        assert!(refused.iter().all(|error| error.contains("make room on the disk")), "{refused:?}");
        disk.make_room();
        (40..50).for_each(|entry| insert(&mut store, entry).unwrap());
        assert_a_restart_finds_all(store, &disk.store(), durability);
    }
}

#[test]
fn a_checkpoint_without_room_is_given_up_and_made_after_as_much_log_again() {
    let Some(disk) = Disk::new() else { return };
    let directory = disk.store();
    let durability = Durability { sync: Sync::Never, checkpoint_bytes: 60_000 };
    let mut store = Memory::open(&directory, durability).unwrap();
    // Room for the log and half of a checkpoint.
    disk.fill(23);
    let told: Vec<String> =
        (0..130).filter_map(|entry| Some(insert(&mut store, entry).err()?.to_string())).collect();
    assert!(told.len() == 1 && told[0].contains("checkpoint.unfinished"), "{told:?}");
    assert_eq!(names(&directory), ["lock", "log-00000000"]);
    disk.make_room();
    (130..180).for_each(|entry| insert(&mut store, entry).unwrap());
    assert_eq!(names(&directory), ["lock", "log-00000000"], "not as much log again");
    (180..250).for_each(|entry| insert(&mut store, entry % 180).unwrap());
    assert_eq!(names(&directory), ["checkpoint-00000001", "lock", "log-00000001"]);
    assert_a_restart_finds_all(store, &directory, durability);
}

/// A damaged log is kept before anything is cut off; what there is no room for leaves no part of itself behind.
#[test]
fn there_is_a_whole_copy_of_a_damaged_log_or_none() {
    let durability = Durability { sync: Sync::Never, checkpoint_bytes: u64::MAX };
    let Some(disk) = Disk::new() else { return };
    let mut store = Memory::open(&disk.store(), durability).unwrap();
    (0..100).for_each(|entry| insert(&mut store, entry).unwrap());
    drop(store);
    let log = disk.store().join("log-00000000");
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&log, &bytes).unwrap();
    disk.fill(3);
    for _ in 0..2 {
        let error = Memory::open(&disk.store(), durability).err().unwrap().to_string();
        assert!(error.contains("make room on the disk"), "{error}");
        let left = names(&disk.store());
        assert!(left.iter().all(|name| !name.starts_with("damaged-")), "{left:?}");
    }
    assert!(fs::read(&log).unwrap() == bytes);
    disk.make_room();
    let store = Memory::open(&disk.store(), durability).unwrap();
    assert!(store.remark().unwrap().contains("all of it is kept as"), "{:?}", store.remark());
}

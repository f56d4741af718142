//! Captures of real traffic: each reads fully or fails with a typed error, and counts agree with
//! other tools.

#![allow(clippy::unwrap_used)]

mod common;

use anabranch_io::capture::{CaptureError, CaptureReader, CaptureWriter};
use anabranch_io::traffic::Random;
use common::{read_all, real_captures};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many packets Wireshark's `capinfos` finds in each capture; `None` where it is not installed.
fn capinfos(files: &[PathBuf]) -> Option<HashMap<PathBuf, u64>> {
    let output = Command::new("capinfos").args(["-c", "-M", "-T", "-r"]).args(files).output();
    let Ok(output) = output else {
        eprintln!("skipped: capinfos is not installed, counts are not compared");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let (file, count) = line.split_once('\t')?;
        Some((PathBuf::from(file), count.trim().parse().ok()?))
    };
    Some(text.lines().filter_map(line).collect())
}

#[test]
fn every_capture_reads_fully_or_fails_with_a_typed_error() {
    let files = real_captures();
    let counts = capinfos(&files).unwrap_or_default();
    let (mut full, mut unsupported, mut packets) = (0, 0, 0);
    for file in &files {
        let bytes = fs::read(file).unwrap();
        let (read, error) = read_all(&bytes);
        packets += read.len();
        match error {
            None => {
                full += 1;
                let expected = counts.get(file).copied().unwrap_or(read.len() as u64);
                assert_eq!(read.len() as u64, expected, "{}", file.display());
            }
            Some(CaptureError::UnsupportedLinkType { .. }) => unsupported += 1,
            Some(error) => panic!("{}: {error}", file.display()),
        }
    }
    eprintln!("{full} captures, {packets} packets; {unsupported} of other link types");
    assert!(files.is_empty() || full > 200);
    assert!(files.is_empty() || counts.is_empty() || counts.len() >= full);
}

#[test]
fn rewriting_keeps_every_packet() {
    let folder = tempfile::tempdir().unwrap();
    for (n, file) in real_captures().iter().enumerate() {
        let Ok(reader) = CaptureReader::open(file) else { continue };
        let name = if n % 2 == 0 { "copy.pcap" } else { "copy.pcapng" };
        let copy = folder.path().join(name);
        let Some(count) = rewrite(reader, &copy) else { continue };
        let (original, _) = read_all(&fs::read(file).unwrap());
        let (copied, error) = read_all(&fs::read(&copy).unwrap());
        assert!(error.is_none());
        assert_eq!(copied.len() as u64, count);
        assert!(copied == original, "{}", file.display());
    }
}

/// `None` when the capture's link type is not supported.
fn rewrite(mut reader: CaptureReader, copy: &Path) -> Option<u64> {
    let mut writer = CaptureWriter::create(copy).unwrap();
    while let Some(record) = reader.next_record().ok()? {
        writer.write(&record).unwrap();
    }
    Some(writer.finish().unwrap())
}

#[test]
fn damaged_real_captures_never_panic() {
    let mut random = Random::new(5);
    for file in real_captures().iter().filter(|file| fs::metadata(file).unwrap().len() < 20_000) {
        let original = fs::read(file).unwrap();
        for _ in 0..30 {
            let mut damaged = original.clone();
            for _ in 0..random.below(8) {
                let at = random.below(damaged.len() as u32) as usize;
                damaged[at] ^= 1 << random.below(8);
            }
            damaged.truncate(random.below(damaged.len() as u32 + 1) as usize);
            let (packets, error) = read_all(&damaged);
            let before = error.map_or(packets.len() as u64, |error| match error {
                CaptureError::UnsupportedLinkType { .. } => packets.len() as u64,
                error => error.records_before(),
            });
            assert_eq!(before, packets.len() as u64);
        }
    }
}

//! What is written reads back the same, and nothing half-written has its final name.

#![allow(clippy::unwrap_used)]

mod common;

use anabranch_io::capture::{CaptureFormat, CaptureWriter, Record, WriteError};
use common::{Packet, read_all};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

fn packets() -> Vec<Packet> {
    let lengths = [0, 1, 59, 60, 61, 62, 1_514, 65_549];
    let packet = |(n, &len): (usize, &usize)| {
        let time = 1_700_000_000_123_456_789 + n as u64;
        (time, len as u32 + n as u32, vec![n as u8; len])
    };
    lengths.iter().enumerate().map(packet).collect()
}

fn write(path: &Path, packets: &[Packet]) -> Result<u64, WriteError> {
    let mut writer = CaptureWriter::create(path)?;
    for (timestamp_ns, wire_len, bytes) in packets {
        writer.write(&Record { timestamp_ns: *timestamp_ns, wire_len: *wire_len, bytes })?;
    }
    writer.finish()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn all_formats_read_back_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.pcap", "a.pcapng", "a.cap", "a"] {
        let path = folder.path().join(name);
        assert_eq!(write(&path, &packets()).unwrap(), 8);
        let (read, error) = read_all(&fs::read(&path).unwrap());
        assert!(error.is_none());
        assert_eq!(read, packets(), "{name}");
        let again = folder.path().join(format!("again-{name}"));
        write(&again, &read).unwrap();
        assert_eq!(fs::read(&again).unwrap(), fs::read(&path).unwrap());
    }
}

#[test]
fn microseconds_are_rounded_down() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let mut writer = CaptureWriter::create_as(&path, CaptureFormat::PcapMicroseconds).unwrap();
    writer.write(&Record { timestamp_ns: 1_999_999, wire_len: 60, bytes: &[0; 60] }).unwrap();
    writer.finish().unwrap();
    assert_eq!(read_all(&fs::read(&path).unwrap()).0[0].0, 1_999_000);
}

#[test]
fn the_final_name_appears_only_when_all_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcap");
    let writer = CaptureWriter::create(&path).unwrap();
    assert_eq!(names(folder.path()), ["out.pcap.part"]);
    drop(writer);
    assert!(names(folder.path()).is_empty());
    fs::write(&path, "what was there before").unwrap();
    drop(CaptureWriter::create(&path).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"what was there before");
    write(&path, &packets()).unwrap();
    assert_eq!(names(folder.path()), ["out.pcap"]);
}

#[test]
fn leftovers_are_taken_over_and_writers_at_work_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcap");
    fs::write(folder.path().join("out.pcap.part"), vec![1; 1_000_000]).unwrap();
    let first = CaptureWriter::create(&path).unwrap();
    let error = CaptureWriter::create(&path).unwrap_err();
    assert!(matches!(error, WriteError::InUse { .. }), "{error}");
    first.finish().unwrap();
    assert_eq!(read_all(&fs::read(&path).unwrap()).0, []);
}

#[test]
fn what_is_replaced_passes_on_its_permissions_and_links_lead_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let [path, link] = ["kept.pcap", "link.pcap"].map(|name| folder.path().join(name));
    fs::write(&path, "what was there before").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    symlink("kept.pcap", &link).unwrap();
    let writer = CaptureWriter::create(&link).unwrap();
    let error = CaptureWriter::create(&path).unwrap_err();
    assert!(matches!(error, WriteError::InUse { .. }), "{error}");
    writer.finish().unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(read_all(&fs::read(&path).unwrap()).0, []);
}

#[test]
fn unwritable_outputs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |path: &Path| CaptureWriter::create(path).unwrap_err();
    let nowhere = folder.path().join("missing/out.pcap");
    assert!(matches!(refusal(&nowhere), WriteError::Create { .. }));
    assert!(matches!(
        refusal(folder.path()),
        WriteError::UnknownFormat { .. } | WriteError::NotAFile { .. }
    ));
    assert!(matches!(refusal(Path::new("/dev/null")), WriteError::NotAFile { .. }));
    assert!(matches!(refusal(Path::new("out.txt")), WriteError::UnknownFormat { .. }));
}

#[test]
fn times_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let late = Record { timestamp_ns: u64::MAX, wire_len: 60, bytes: &[0; 60] };
    let mut pcap = CaptureWriter::create(folder.path().join("a.pcap")).unwrap();
    assert!(matches!(pcap.write(&late), Err(WriteError::TimestampTooLate { .. })));
    let mut pcapng = CaptureWriter::create(folder.path().join("a.pcapng")).unwrap();
    pcapng.write(&late).unwrap();
    pcapng.finish().unwrap();
    let file = fs::read(folder.path().join("a.pcapng")).unwrap();
    assert_eq!(read_all(&file).0[0].0, u64::MAX);
}

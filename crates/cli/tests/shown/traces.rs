//! The real captures, in memory.

use std::path::{Path, PathBuf};

use anabranch_io::capture::{CaptureError, CaptureReader};
use anabranch_runtime::testing::START_NS;

/// One packet of a capture, or one made by a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When it arrived, nanoseconds since the Unix epoch.
    pub at_ns: u64,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// Bytes captured.
    pub bytes: Vec<u8>,
}

/// One capture file.
pub struct Capture {
    pub name: String,
    /// Its packets, in the order of the file. The first arrives at [`START_NS`], and none before,
    /// so that a harness can keep the same clock.
    pub packets: Vec<Captured>,
}

/// What became of reading a file.
pub enum Read {
    Ethernet(Capture),
    /// Of a link type that is not supported.
    Other(PathBuf),
}

/// The capture files, in order of their names; empty, with a word about it, where there are none.
pub fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: there are no captures in ../shared/traces");
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_capture = |path: &PathBuf| path.extension().is_some_and(|end| end != "md");
    let mut files: Vec<PathBuf> = paths.filter(is_capture).collect();
    files.sort();
    files
}

/// The Ethernet captures.
pub fn captures() -> Vec<Capture> {
    let read = files().into_iter().map(|file| read(&file));
    let ethernet = read.filter_map(|read| match read {
        Read::Ethernet(capture) => Some(capture),
        Read::Other(_) => None,
    });
    ethernet.filter(|capture| !capture.packets.is_empty()).collect()
}

/// Reads one file to its end.
pub fn read(file: &Path) -> Read {
    let name = file.file_stem().unwrap().to_string_lossy().into_owned();
    match packets(file) {
        Ok(packets) => Read::Ethernet(Capture { name, packets: from_start(packets) }),
        Err(CaptureError::UnsupportedLinkType { .. }) => Read::Other(file.to_owned()),
        Err(error) => panic!("{error}"),
    }
}

fn packets(file: &Path) -> Result<Vec<Captured>, CaptureError> {
    let mut reader = CaptureReader::open(file)?;
    let mut packets = Vec::new();
    while let Some(record) = reader.next_record()? {
        packets.push(Captured {
            at_ns: record.timestamp_ns,
            wire_len: record.wire_len.max(record.bytes.len() as u32),
            bytes: record.bytes.to_vec(),
        });
    }
    Ok(packets)
}

/// Moves times so that the first packet arrives at [`START_NS`], and none earlier.
fn from_start(mut packets: Vec<Captured>) -> Vec<Captured> {
    let first = packets.first().map_or(0, |packet| packet.at_ns);
    for packet in &mut packets {
        packet.at_ns = START_NS + packet.at_ns.saturating_sub(first);
    }
    packets
}

/// All captures as one, each beginning where the one before ends. Steps of time, forwards and
/// backwards, are cut to an hour, so that the whole lasts days and not years.
pub fn merged(captures: &[Capture]) -> Vec<Captured> {
    const HOUR_NS: i64 = 3_600_000_000_000;
    let mut all: Vec<Captured> = Vec::new();
    let mut now_ns = START_NS + HOUR_NS as u64;
    for capture in captures {
        let mut before_ns = START_NS;
        for packet in &capture.packets {
            let step = packet.at_ns.wrapping_sub(before_ns).cast_signed();
            now_ns = now_ns.saturating_add_signed(step.clamp(-HOUR_NS, HOUR_NS)).max(START_NS);
            before_ns = packet.at_ns;
            all.push(Captured { at_ns: now_ns, ..packet.clone() });
        }
    }
    all
}

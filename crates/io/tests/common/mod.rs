//! Captures built by hand, in either byte order.

#![allow(dead_code)] // Each test crate uses its own part.

use anabranch_io::capture::{CaptureError, CaptureReader};
use std::path::PathBuf;

/// One packet as read: time, length on the wire, bytes.
pub type Packet = (u64, u32, Vec<u8>);

/// Writes numbers in one byte order.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub big: bool,
}

impl Order {
    pub fn word(self, word: u32) -> [u8; 4] {
        if self.big { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    pub fn half(self, half: u16) -> [u8; 2] {
        if self.big { half.to_be_bytes() } else { half.to_le_bytes() }
    }

    pub fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|&word| self.word(word)).collect()
    }

    /// A pcap file header.
    pub fn pcap_header(self, magic: u32, link_type: u32) -> Vec<u8> {
        let mut file = self.word(magic).to_vec();
        file.extend(self.half(2));
        file.extend(self.half(4));
        file.extend(self.words(&[0, 0, 65_535, link_type]));
        file
    }

    /// A pcap record.
    pub fn pcap_record(self, seconds: u32, fraction: u32, wire_len: u32, bytes: &[u8]) -> Vec<u8> {
        let mut record = self.words(&[seconds, fraction, bytes.len() as u32, wire_len]);
        record.extend_from_slice(bytes);
        record
    }

    /// A pcapng block.
    pub fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let total = self.word(body.len() as u32 + 12);
        [&self.word(kind)[..], &total, &body, &total].concat()
    }

    /// A section header of unknown length.
    pub fn section(self) -> Vec<u8> {
        let mut body = self.word(0x1a2b_3c4d).to_vec();
        body.extend(self.half(1));
        body.extend(self.half(0));
        body.extend(self.words(&[u32::MAX, u32::MAX]));
        self.block(0x0a0d_0d0a, &body)
    }

    /// An interface description with options.
    pub fn interface(self, link_type: u16, snap_len: u32, options: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut body = self.half(link_type).to_vec();
        body.extend(self.half(0));
        body.extend(self.word(snap_len));
        for (code, value) in options {
            body.extend(self.half(*code));
            body.extend(self.half(value.len() as u16));
            body.extend(value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &body)
    }

    /// An enhanced packet.
    pub fn packet(self, interface: u32, ticks: u64, wire_len: u32, bytes: &[u8]) -> Vec<u8> {
        let (high, low) = ((ticks >> 32) as u32, ticks as u32);
        let mut body = self.words(&[interface, high, low, bytes.len() as u32, wire_len]);
        body.extend_from_slice(bytes);
        self.block(6, &body)
    }
}

/// Reads a capture to its end or first error.
pub fn read_all(file: &[u8]) -> (Vec<Packet>, Option<CaptureError>) {
    let mut packets = Vec::new();
    let mut reader = match CaptureReader::from_stream(file, "test") {
        Ok(reader) => reader,
        Err(error) => return (packets, Some(error)),
    };
    loop {
        match reader.next_record() {
            Ok(Some(r)) => packets.push((r.timestamp_ns, r.wire_len, r.bytes.to_vec())),
            Ok(None) => return (packets, None),
            Err(error) => return (packets, Some(error)),
        }
    }
}

/// The real captures, where a checkout has them.
pub fn real_captures() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: no real captures at ../shared/traces");
        return Vec::new();
    };
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_capture = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "pcap" || extension == "pcapng")
    };
    let mut files: Vec<PathBuf> = files.filter(is_capture).collect();
    files.sort();
    files
}

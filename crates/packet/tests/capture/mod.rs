//! The real captures beside the workspace, those in classic pcap.

use std::{fs, path::PathBuf};

const ETHERNET: u32 = 1;

/// One packet of a capture.
pub struct Captured {
    pub bytes: Vec<u8>,
    pub wire_len: u32,
}

/// The packets of every capture of Ethernet; none, and it says so, where there are no captures.
pub fn ethernet() -> Vec<Vec<Captured>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("skipped: no captures in ../shared/traces");
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let read = |path| read(&fs::read(path).expect("a readable capture"));
    paths.iter().filter_map(read).collect()
}

/// `None` where it is no pcap, or not of Ethernet.
fn read(file: &[u8]) -> Option<Vec<Captured>> {
    let little = match file.first_chunk()? {
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => true,
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => false,
        _ => return None,
    };
    let u32_at = |at: usize| {
        let word = *file.get(at..)?.first_chunk()?;
        Some(if little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) })
    };
    if u32_at(20)? & 0xffff != ETHERNET {
        return None;
    }
    let (mut at, mut packets) = (24, Vec::new());
    while let (Some(len), Some(wire_len)) = (u32_at(at + 8), u32_at(at + 12)) {
        at += 16;
        let Some(bytes) = file.get(at..at + len as usize) else { break };
        packets.push(Captured { bytes: bytes.to_vec(), wire_len });
        at += bytes.len();
    }
    Some(packets)
}

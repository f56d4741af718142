//! Receive-side scaling by DPDK: key, fields and indirection table of a device.

use super::ffi::{self, Description};
use super::memory::Started;
use crate::live::ethtool::{Driver, Spreading};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Fields of ethtool's (`RXH_…`, linux/ethtool.h).
const SOURCE: u64 = 1 << 4;
const DESTINATION: u64 = 1 << 5;
const SOURCE_PORT: u64 = 1 << 6;
const DESTINATION_PORT: u64 = 1 << 7;
const ADDRESSES: u64 = SOURCE | DESTINATION;
const PORTS: u64 = SOURCE_PORT | DESTINATION_PORT;

/// Kinds of packets as ethtool numbers them, with what DPDK calls their fields (`RTE_ETH_RSS_…`): by addresses and
/// ports, and by addresses alone.
const KINDS: [(u32, u64, u64); 8] = [
    (0x01, 1 << 4, IPV4),
    (0x02, 1 << 5, IPV4),
    (0x03, 1 << 6, IPV4),
    (0x05, 1 << 10, IPV6),
    (0x06, 1 << 11, IPV6),
    (0x07, 1 << 12, IPV6),
    (0x10, 0, IPV4),
    (0x11, 0, IPV6),
];
/// Whole packets, fragments, and what is neither TCP nor UDP nor SCTP.
const IPV4: u64 = 1 << 2 | 1 << 3 | 1 << 7;
const IPV6: u64 = 1 << 8 | 1 << 9 | 1 << 13;
/// Parts of the fields, of all kinds at once (`RTE_ETH_RSS_L3_SRC_ONLY` and its like).
const ONLY: [(u64, u64); 4] = [
    (1 << 63, DESTINATION),
    (1 << 62, SOURCE),
    (1 << 61, DESTINATION_PORT),
    (1 << 60, SOURCE_PORT),
];

/// Bytes of a key, for two IPv6 addresses, two ports, and the width of the hash.
const USUAL_KEY: u8 = 40;

/// The spreading of a device, put back as it was when this is dropped.
pub(super) struct Hash {
    started: Arc<Started>,
    table: u16,
    key: u8,
    before: u64,
    /// Fields that it can hash.
    able: u64,
    /// What has been set, by kind.
    chosen: BTreeMap<u32, u64>,
}

impl Hash {
    /// That of a device that is described so.
    pub(super) fn of(started: &Arc<Started>, seen: &Description) -> Self {
        // A device that has a table and does not say how long its key is has one of the usual length.
        let key = if seen.key_size == 0 { USUAL_KEY } else { seen.key_size.min(255) as u8 };
        let table = seen.reta_size.min(512) as u16;
        let before = ffi::hash(started.port(), key).map_or(0, |(_, fields)| fields);
        let (started, chosen) = (Arc::clone(started), BTreeMap::new());
        Self { started, table, key, before, able: seen.rss, chosen }
    }

    fn hash(&self) -> io::Result<(Vec<u8>, u64)> {
        if self.table == 0 || self.able == 0 {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        ffi::hash(self.started.port(), self.key)
    }
}

/// By which fields of ethtool's packets of a kind are hashed where DPDK's fields are `fields`.
fn meaning(kind: u32, fields: u64) -> io::Result<u64> {
    let unknown = || io::Error::from_raw_os_error(libc::EINVAL);
    let (_, all, addresses) = KINDS.iter().find(|one| one.0 == kind).ok_or_else(unknown)?;
    let hashed = match fields {
        fields if fields & all != 0 => ADDRESSES | PORTS,
        fields if fields & addresses != 0 => ADDRESSES,
        _ => 0,
    };
    // One end only and the other end only: both.
    let is_one = |(only, _): &&(u64, u64)| {
        let pair = if *only >> 62 != 0 { 3 << 62 } else { 3 << 60 };
        fields & pair == *only
    };
    let left_out = ONLY.iter().filter(is_one);
    Ok(left_out.fold(hashed, |hashed, (_, field)| hashed & !field))
}

/// DPDK's fields with which packets of each of `chosen` are hashed by theirs. `None`: it has none such, as what it
/// leaves out of one kind it leaves out of all.
fn fields(chosen: &BTreeMap<u32, u64>) -> Option<u64> {
    let mut fields = 0;
    for (kind, wanted) in chosen.iter().filter(|(_, wanted)| **wanted != 0) {
        let (_, all, addresses) = KINDS.iter().find(|one| one.0 == *kind)?;
        let by_ports = wanted & PORTS != 0;
        fields |= if by_ports { *all } else { *addresses };
        let left_out = ONLY
            .iter()
            .filter(|(_, field)| wanted & field == 0 && (by_ports || ADDRESSES & field != 0));
        fields |= left_out.fold(0, |bits, (only, _)| bits | only);
    }
    let is_so = |(kind, wanted): (&u32, &u64)| meaning(*kind, fields).is_ok_and(|is| is == *wanted);
    chosen.iter().all(is_so).then_some(fields)
}

impl Driver for Hash {
    fn spreading(&mut self) -> io::Result<Spreading> {
        let (key, _) = self.hash()?;
        let table = ffi::table(self.started.port(), self.table)?;
        let table = table.into_iter().map(u32::from).collect();
        // DPDK does not name it; Toeplitz's is what devices have unless told otherwise.
        Ok(Spreading { table, key, function: 0 })
    }

    fn set_spreading(&mut self, spreading: &Spreading) -> io::Result<()> {
        let (_, fields) = self.hash()?;
        ffi::set_hash(self.started.port(), &spreading.key, fields)?;
        let table: Vec<u16> = spreading.table.iter().map(|queue| *queue as u16).collect();
        ffi::set_table(self.started.port(), &table)
    }

    fn fields(&mut self, kind: u32) -> io::Result<u64> {
        meaning(kind, self.hash()?.1)
    }

    /// Kinds that nobody has asked for stay as they are where they can.
    fn set_fields(&mut self, kind: u32, wanted: u64) -> io::Result<()> {
        let (key, now) = self.hash()?;
        self.chosen.insert(kind, wanted);
        let unsupported = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        let mut all = self.chosen.clone();
        for (other, ..) in KINDS.iter().filter(|one| !self.chosen.contains_key(&one.0)) {
            all.insert(*other, meaning(*other, now)?);
            if fields(&all).is_none() {
                all.remove(other);
            }
        }
        let fields = fields(&all).ok_or_else(unsupported)? & self.able;
        ffi::set_hash(self.started.port(), &key, fields)
    }
}

impl Drop for Hash {
    fn drop(&mut self) {
        if let (false, Ok((key, _))) = (self.chosen.is_empty(), self.hash()) {
            // A device that takes nothing now has taken nothing before.
            let _ = ffi::set_hash(self.started.port(), &key, self.before);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::print_stdout)]
mod tests {
    use super::super::device::Device;
    use super::*;

    const TCP4: u32 = 0x01;
    const UDP4: u32 = 0x02;
    const OTHER4: u32 = 0x10;

    fn of(kinds: &[(u32, u64)]) -> Option<u64> {
        fields(&kinds.iter().copied().collect())
    }

    #[test]
    fn what_is_asked_for_is_what_is_meant() {
        let every = ADDRESSES | PORTS;
        assert_eq!(of(&[(TCP4, every), (OTHER4, ADDRESSES)]), Some(1 << 4 | IPV4));
        assert_eq!(of(&[(TCP4, ADDRESSES), (UDP4, every)]), Some(1 << 5 | IPV4));
        // By destinations alone; TCP as any other packet.
        let by_destination = of(&[(TCP4, DESTINATION), (OTHER4, DESTINATION)]);
        assert_eq!(by_destination, Some(1 << 62 | IPV4));
        let by_source_port = of(&[(UDP4, ADDRESSES | SOURCE_PORT)]);
        assert_eq!(by_source_port, Some(1 << 61 | 1 << 5));
        for kind in [TCP4, UDP4, OTHER4] {
            assert_eq!(meaning(kind, 1 << 63 | 1 << 2).ok(), Some(SOURCE));
            assert_eq!(meaning(kind, 1 << 8).ok(), Some(0), "IPv6 alone");
        }
    }

    #[test]
    fn what_dpdk_has_no_fields_for_is_refused() {
        // Both ends of one kind and one of another.
        assert_eq!(of(&[(TCP4, ADDRESSES | PORTS), (UDP4, DESTINATION)]), None);
        // What is hashed by addresses is so of every kind above them.
        assert_eq!(of(&[(TCP4, 0), (OTHER4, ADDRESSES)]), None);
        // Ports without addresses.
        assert_eq!(of(&[(TCP4, PORTS)]), None);
        assert!(meaning(0x99, 1).is_err());
    }

    /// `net_null` hashes nothing, and takes every key and table as a NIC would.
    #[test]
    fn a_device_is_told_read_and_put_back() {
        use crate::live::{Spread, Wanted};
        let Ok((device, seats)) = Device::start("net_null90", 2) else {
            println!("skipped: DPDK does not start here");
            return;
        };
        drop(seats);
        let port = device.started.port();
        let (before, table) = (ffi::hash(port, 40).unwrap(), ffi::table(port, 128).unwrap());
        let (both, all) =
            (&["ipv4.src", "ipv4.dst"], &["ipv4.src", "ipv4.dst", "udp.src", "udp.dst"]);
        let classes = [("ipv4-udp", &all[..]), ("ipv4-tcp", both), ("ipv4", both)];
        let owned = |fields: &[&str]| fields.iter().map(|field| field.to_string()).collect();
        let wanted = |classes: &[(&str, &[&str])]| Wanted {
            key: (0..52).collect(),
            queues: (0..512).map(|entry| entry % 2).collect(),
            classes: classes.iter().map(|(class, by)| (class.to_string(), owned(by))).collect(),
        };
        let told =
            |wanted: &Wanted| Spread::by(Hash::of(&device.started, &device.description), wanted);
        let spread = told(&wanted(&classes)).map_err(|why| panic!("{why}")).ok();
        let (key, fields) = ffi::hash(port, 40).unwrap();
        assert_eq!(key, (0..40).collect::<Vec<u8>>());
        assert_eq!(ffi::table(port, 128).unwrap()[..4], [0, 1, 0, 1]);
        assert_eq!(meaning(UDP4, fields).unwrap(), ADDRESSES | PORTS);
        assert_eq!(
            (meaning(TCP4, fields).unwrap(), meaning(OTHER4, fields).unwrap()),
            (ADDRESSES, ADDRESSES)
        );
        drop(spread);
        assert_eq!(ffi::hash(port, 40).unwrap(), before);
        assert_eq!(ffi::table(port, 128).unwrap(), table);
        let why = |classes: &[(&str, &[&str])]| told(&wanted(classes)).err().unwrap();
        assert!(
            why(&[("ipv4-tcp", &["ipv4.src"]), ("ipv4-udp", &["ipv4.dst"])])
                .contains("by other fields")
        );
        // It has no fields of one end only, and takes them all the same.
        assert!(why(&[("ipv4-tcp", &["ipv4.src"])]).contains("and has others"));
        assert_eq!(ffi::hash(port, 40).unwrap(), before);
    }
}

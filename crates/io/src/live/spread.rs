//! Receive-side scaling as a plan has it: written to the driver, read back, and put back at the end.

use super::ethtool::{Driver, Interface, Spreading};
use std::io;

/// A part of the fields that packets of a kind are hashed by (`RXH_…`, linux/ethtool.h).
const SOURCE: u64 = 1 << 4;
const DESTINATION: u64 = 1 << 5;
const SOURCE_PORT: u64 = 1 << 6;
const DESTINATION_PORT: u64 = 1 << 7;

/// Kinds of packets that drivers tell apart (`TCP_V4_FLOW` and others), by the name of their class.
const KINDS: [(&str, u32); 8] = [
    ("ipv4-tcp", 0x01),
    ("ipv4-udp", 0x02),
    ("ipv4-sctp", 0x03),
    ("ipv6-tcp", 0x05),
    ("ipv6-udp", 0x06),
    ("ipv6-sctp", 0x07),
    ("ipv4", 0x10),
    ("ipv6", 0x11),
];

/// How packets are to be spread over receive queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The key of the Toeplitz hash.
    pub key: Vec<u8>,
    /// The queue of each value of the low bits of the hash; a power of two of them.
    pub queues: Vec<u16>,
    /// The fields of each class that a NIC hashes: `ipv4-tcp`, and `ipv4.src` among its fields.
    pub classes: Vec<(String, Vec<String>)>,
}

/// A driver that spreads as was wanted; what was there before is put back when this is dropped.
pub struct Spread<D: Driver = Interface> {
    driver: D,
    before: Spreading,
    fields_before: Vec<(u32, u64)>,
}

impl<D: Driver> Spread<D> {
    /// Has a driver spread packets as `wanted`.
    ///
    /// # Errors
    /// Why it cannot, in words; nothing has changed then.
    pub fn by(mut driver: D, wanted: &Wanted) -> Result<Self, String> {
        let before = driver.spreading().map_err(|cause| refusal(&cause))?;
        let spreading = spreading(&before, wanted)?;
        // From here on, what has been changed is put back by dropping it.
        let mut spread = Self { driver, before, fields_before: Vec::new() };
        for (class, fields) in &wanted.classes {
            spread.set_fields(class, fields)?;
        }
        let set = spread.driver.set_spreading(&spreading);
        set.map_err(|cause| format!("its driver takes no key or table: {cause}"))?;
        // What a driver does with one kind may change another.
        for (class, fields) in &wanted.classes {
            spread.compare_fields(class, fields)?;
        }
        match spread.driver.spreading() {
            Ok(read) if read == spreading => Ok(spread),
            Ok(read) if read.key != spreading.key => {
                Err("its driver says that it took the key, and has another one".to_owned())
            }
            Ok(_) => Err("its driver says that it took the table, and has another one".to_owned()),
            Err(cause) => Err(refusal(&cause)),
        }
    }

    fn set_fields(&mut self, class: &str, fields: &[String]) -> Result<(), String> {
        let Some((kind, wanted)) = fields_of(class, fields)? else { return Ok(()) };
        let cannot =
            |cause: io::Error| format!("its driver hashes {class} by other fields: {cause}");
        let before = self.driver.fields(kind).map_err(cannot)?;
        if before == wanted {
            return Ok(());
        }
        self.fields_before.push((kind, before));
        self.driver.set_fields(kind, wanted).map_err(cannot)
    }

    fn compare_fields(&mut self, class: &str, fields: &[String]) -> Result<(), String> {
        let Some((kind, wanted)) = fields_of(class, fields)? else { return Ok(()) };
        match self.driver.fields(kind).map_err(|cause| refusal(&cause))? {
            read if read == wanted => Ok(()),
            _ => Err(format!("its driver says that it took the fields of {class}, and has others")),
        }
    }
}

/// A class as drivers number it, and its fields. `None`: drivers do not tell it apart.
fn fields_of(class: &str, fields: &[String]) -> Result<Option<(u32, u64)>, String> {
    let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == class) else { return Ok(None) };
    let wanted = fields.iter().try_fold(0, |all, field| Some(all | bit(field)?));
    let wanted = wanted.ok_or_else(|| format!("no driver hashes {class} by {fields:?}"))?;
    Ok(Some((*kind, wanted)))
}

impl<D: Driver> Drop for Spread<D> {
    fn drop(&mut self) {
        // The interface may be gone by now.
        for (kind, fields) in self.fields_before.drain(..).rev() {
            let _ = self.driver.set_fields(kind, fields);
        }
        let _ = self.driver.set_spreading(&self.before);
    }
}

/// What the driver is to be told, which has tables and keys of the lengths that it has now.
fn spreading(now: &Spreading, wanted: &Wanted) -> Result<Spreading, String> {
    if now.table.is_empty() {
        return Err("its driver has no indirection table".to_owned());
    }
    if now.function != 0 && now.function & Spreading::TOEPLITZ == 0 {
        return Err("its driver hashes by another function than Toeplitz's".to_owned());
    }
    // A longer key serves as well where its end is never reached, a shorter one does not.
    let key = wanted.key.get(..now.key.len()).ok_or_else(|| {
        format!("its key has {} bytes, and that of the plan {}", now.key.len(), wanted.key.len())
    })?;
    if key.is_empty() || wanted.queues.is_empty() {
        return Err("its driver takes no key".to_owned());
    }
    let queue = |entry: usize| wanted.queues.get(entry % wanted.queues.len()).copied();
    let table: Vec<u32> = (0..now.table.len()).filter_map(queue).map(u32::from).collect();
    let differs = |(entry, queue): (usize, &u16)| {
        table.get(entry % table.len()).is_none_or(|chosen| *chosen != u32::from(*queue))
    };
    if wanted.queues.iter().enumerate().any(differs) {
        let (has, needs) = (now.table.len(), wanted.queues.len());
        return Err(format!("its table has {has} entries, too few for the {needs} of the plan"));
    }
    let function = if now.function == 0 { 0 } else { Spreading::TOEPLITZ };
    Ok(Spreading { table, key: key.to_vec(), function })
}

fn bit(field: &str) -> Option<u64> {
    match field.split_once('.')? {
        ("ipv4" | "ipv6", "src") => Some(SOURCE),
        ("ipv4" | "ipv6", "dst") => Some(DESTINATION),
        ("tcp" | "udp" | "sctp", "src") => Some(SOURCE_PORT),
        ("tcp" | "udp" | "sctp", "dst") => Some(DESTINATION_PORT),
        _ => None,
    }
}

fn refusal(cause: &io::Error) -> String {
    match cause.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "its driver spreads packets as it likes".to_owned(),
        Some(libc::EPERM) => "that takes CAP_NET_ADMIN".to_owned(),
        _ => format!("its driver does not say how it spreads packets: {cause}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A driver in memory, whose state outlives it.
    #[derive(Clone, Default)]
    struct Fake(Arc<Mutex<State>>);

    #[derive(Clone, Debug, Default, PartialEq)]
    struct State {
        spreading: Spreading,
        fields: BTreeMap<u32, u64>,
        /// It takes everything, and does nothing.
        lies: bool,
        fixed_fields: bool,
    }

    impl Driver for Fake {
        fn spreading(&mut self) -> io::Result<Spreading> {
            Ok(self.0.lock().unwrap().spreading.clone())
        }

        fn set_spreading(&mut self, spreading: &Spreading) -> io::Result<()> {
            let mut state = self.0.lock().unwrap();
            if !state.lies {
                state.spreading = spreading.clone();
            }
            Ok(())
        }

        fn fields(&mut self, kind: u32) -> io::Result<u64> {
            Ok(self.0.lock().unwrap().fields.get(&kind).copied().unwrap_or_default())
        }

        fn set_fields(&mut self, kind: u32, fields: u64) -> io::Result<()> {
            let mut state = self.0.lock().unwrap();
            if state.fixed_fields {
                return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
            }
            state.fields.insert(kind, fields);
            Ok(())
        }
    }

    fn nic(entries: usize, key: usize) -> Fake {
        let spreading = Spreading { table: vec![0; entries], key: vec![1; key], function: 1 };
        Fake(Arc::new(Mutex::new(State { spreading, ..State::default() })))
    }

    fn wanted() -> Wanted {
        let both = ["ipv4.src", "ipv4.dst", "udp.src", "udp.dst"].map(str::to_owned).to_vec();
        Wanted {
            key: (0..52).collect(),
            queues: (0..512).map(|entry| entry % 2).collect(),
            classes: vec![
                ("ipv4-udp".to_owned(), both),
                ("ipv4-fragment".to_owned(), Vec::new()),
                ("ipv6".to_owned(), vec!["ipv6.src".to_owned()]),
            ],
        }
    }

    #[test]
    fn what_is_wanted_is_set_and_put_back() {
        let nic = nic(128, 40);
        let before = nic.0.lock().unwrap().clone();
        let spread = Spread::by(nic.clone(), &wanted()).map_err(|why| panic!("{why}")).unwrap();
        let set = nic.0.lock().unwrap().clone();
        assert_eq!(set.spreading.key, (0..40).collect::<Vec<u8>>());
        assert_eq!(set.spreading.table[..4], [0, 1, 0, 1]);
        assert_eq!(set.fields, BTreeMap::from([(0x02, 0xf0), (0x11, 0x10)]));
        drop(spread);
        let after = nic.0.lock().unwrap().clone();
        assert_eq!(after.spreading, before.spreading);
        assert!(after.fields.values().all(|fields| *fields == 0), "{after:?}");
    }

    #[test]
    fn what_cannot_be_is_told_and_nothing_changes() {
        let refused = |nic: Fake, wanted: Wanted| {
            let before = nic.0.lock().unwrap().clone();
            let why = Spread::by(nic.clone(), &wanted).err().unwrap();
            let after = nic.0.lock().unwrap().clone();
            assert_eq!(after.spreading, before.spreading, "{why}");
            assert!(after.fields.values().all(|fields| *fields == 0), "{why}");
            why
        };
        let uneven = Wanted { queues: (0..512).map(|entry| entry / 256).collect(), ..wanted() };
        let odd = vec![("ipv4-tcp".to_owned(), vec!["ipv4.ttl".to_owned()])];
        assert!(refused(nic(0, 40), wanted()).contains("no indirection table"));
        assert!(refused(nic(128, 64), wanted()).contains("64 bytes"));
        assert!(refused(nic(128, 0), wanted()).contains("no key"));
        assert!(refused(nic(128, 40), uneven).contains("128 entries"));
        assert!(refused(nic(128, 40), Wanted { classes: odd, ..wanted() }).contains("ipv4.ttl"));
        let (liar, fixed, other) = (nic(128, 40), nic(128, 40), nic(128, 40));
        liar.0.lock().unwrap().lies = true;
        fixed.0.lock().unwrap().fixed_fields = true;
        other.0.lock().unwrap().spreading.function = 2;
        assert!(refused(liar, wanted()).contains("has another one"));
        assert!(refused(fixed, wanted()).contains("ipv4-udp by other fields"));
        assert!(refused(other, wanted()).contains("another function"));
    }

    #[test]
    fn an_interface_without_receive_side_scaling_says_so() {
        let why = Spread::by(Interface::named("lo").unwrap(), &wanted()).err().unwrap();
        assert_eq!(why, "its driver spreads packets as it likes");
    }
}

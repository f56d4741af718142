//! What the nodes of a cluster say of where keys are.

use std::collections::BTreeMap;
use std::fmt::Display;

use redis::Value;

/// How a node begins its answer to a command with several keys in a slot that moves, if it has not got all of them.
pub(super) const SPLIT: &str = "TRYAGAIN";

/// Where a node sends a command on to that it has not carried out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirection {
    /// That node has the slot.
    Moved(String),
    /// The slot is on its way to that node, and these keys have arrived, or are nowhere.
    Ask(String),
    /// The slot is on its way, some of the keys have arrived, and others have not or are nowhere.
    Split,
}

impl Redirection {
    /// What an error of `asked` says, if it is a redirection: `MOVED SLOT HOST:PORT`, where no host is the one that
    /// was asked (Redis cluster specification, "Redirection and resharding").
    pub(super) fn read(code: &str, details: &str, asked: &str) -> Option<Self> {
        let to = || {
            let (host, port) = details.split(' ').nth(1)?.rsplit_once(':')?;
            let host = if host.is_empty() { asked.rsplit_once(':')?.0 } else { host };
            Some(node_at(host, port))
        };
        match code {
            "MOVED" => to().map(Self::Moved),
            "ASK" => to().map(Self::Ask),
            SPLIT => Some(Self::Split),
            _ => None,
        }
    }
}

/// The last slot of each range and its node, as `CLUSTER SLOTS` says. A node without an address is
/// the one that was asked.
pub(super) fn slots(answer: Value, asked: &str) -> Option<BTreeMap<u16, String>> {
    let Value::Array(ranges) = answer else { return None };
    let mut slots = BTreeMap::new();
    for range in ranges {
        let Value::Array(parts) = range else { return None };
        let [_, Value::Int(last), Value::Array(master), ..] = &parts[..] else { return None };
        let [host, Value::Int(port), ..] = &master[..] else { return None };
        let host = match host {
            Value::BulkString(host) if !host.is_empty() => String::from_utf8_lossy(host),
            _ => asked.rsplit_once(':')?.0.into(),
        };
        slots.insert(u16::try_from(*last).ok()?, node_at(&host, port));
    }
    Some(slots)
}

/// The masters without a slot, as `CLUSTER NODES` says: a line of words for each node, its address
/// (`HOST:PORT@BUS`) the second, what it is the third, its slots from the ninth on.
pub(super) fn without_slots(answer: Value) -> Vec<String> {
    let Value::BulkString(text) = answer else { return Vec::new() };
    let text = String::from_utf8_lossy(&text);
    let read = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, address, flags, _, _, _, _, _] = words[..] else { return None };
        let is = |flag| flags.split(',').any(|one| one == flag);
        // One that has failed stays in the list when another has its slots.
        if !is("master") || ["fail", "handshake", "noaddr"].into_iter().any(is) {
            return None;
        }
        let (host, port) = address.split('@').next()?.rsplit_once(':')?;
        (!host.is_empty()).then(|| node_at(host, port))
    };
    text.lines().filter_map(read).collect()
}

/// `HOST:PORT`, an IPv6 address in brackets.
pub(super) fn node_at(host: &str, port: impl Display) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// The hash slot of a key: CRC-16 (XMODEM) of what stands in its first braces, else of all of it,
/// modulo 16384 (Redis cluster specification, "Hash tags").
pub(super) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then_some(&rest[..close])
    });
    let mut sum: u16 = 0;
    for byte in tag.unwrap_or(key) {
        sum ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 };
        }
    }
    sum % 16384
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        // The check value of CRC-16/XMODEM is 0x31c3.
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"a{}b"), slot(b"a{}b"));
        assert_ne!(slot(b"a{}b"), slot(b""));
    }

    #[test]
    fn redirections_are_read_and_other_errors_are_none() {
        let read = |code, details| Redirection::read(code, details, "[::1]:7000");
        let node = |node: &str| node.to_string();
        assert_eq!(read("MOVED", "3999 h:6381"), Some(Redirection::Moved(node("h:6381"))));
        assert_eq!(read("ASK", "3999 ::1:6381"), Some(Redirection::Ask(node("[::1]:6381"))));
        assert_eq!(read("MOVED", "3999 :6381"), Some(Redirection::Moved(node("[::1]:6381"))));
        let split = read("TRYAGAIN", "Multiple keys request during rehashing of slot");
        assert_eq!(split, Some(Redirection::Split));
        assert_eq!(read("MOVED", "3999"), None);
        assert_eq!(read("WRONGTYPE", "3999 h:6381"), None);
    }

    #[test]
    fn masters_without_slots_are_found() {
        let line = |address: &str, flags: &str, slots: &str| {
            format!("id {address} {flags} - 0 1700000000000 2 connected{slots}\n")
        };
        let text = [
            line("10.0.0.1:7000@17000", "myself,master", " 0-16382"),
            line("10.0.0.2:7000@17000,host", "master", " 16383 [7->-id]"),
            line("10.0.0.3:7000@17000,host", "master", ""),
            line("::1:7000@17000", "myself,master", ""),
            line("10.0.0.4:7000@17000", "master,fail?", ""),
            line("10.0.0.5:7000@17000", "master,fail", ""),
            line("10.0.0.6:7000@17000", "slave", ""),
            line(":0@0", "master,noaddr", ""),
        ];
        let found = without_slots(Value::BulkString(text.concat().into_bytes()));
        assert_eq!(found, ["10.0.0.3:7000", "[::1]:7000", "10.0.0.4:7000"]);
    }
}

//! How live ports are written on the command line: `afpacket:eth0`, `tap:tap0`, `xdp:eth0`.

use crate::spec::SpecError;
use std::fmt;
use std::str::FromStr;

/// How an interface is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveKind {
    /// Packet sockets on any Ethernet interface.
    AfPacket,
    /// A TAP interface, made where there is none.
    Tap,
    /// AF_XDP sockets on any Ethernet interface.
    Xdp,
}

impl LiveKind {
    const ALL: [Self; 3] = [Self::AfPacket, Self::Tap, Self::Xdp];

    /// The word before the colon.
    pub const fn word(self) -> &'static str {
        match self {
            Self::AfPacket => "afpacket",
            Self::Tap => "tap",
            Self::Xdp => "xdp",
        }
    }
}

/// A live port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSpec {
    /// How the interface is used.
    pub kind: LiveKind,
    /// The interface's name.
    pub interface: String,
}

/// Bytes of an interface's name at most (`IFNAMSIZ` less the final zero).
const LONGEST_NAME: usize = 15;

impl FromStr for LiveSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let expected = "afpacket:INTERFACE, tap:NAME or xdp:INTERFACE";
        let (word, name) = text.split_once(':').unwrap_or((text, ""));
        let kind = LiveKind::ALL.into_iter().find(|kind| kind.word() == word);
        let Some(kind) = kind else {
            return Err(SpecError::Contradiction(format!(
                "{text}: this is no live port; write {expected}"
            )));
        };
        let fits = (1..=LONGEST_NAME).contains(&name.len()) && name != "." && name != "..";
        if !fits || name.bytes().any(|byte| byte == b'/' || byte == b':' || byte <= b' ') {
            return Err(SpecError::Contradiction(format!(
                "{text}: `{name}` is no interface's name; it has 1 to {LONGEST_NAME} letters, and no \
                 blank, slash or colon"
            )));
        }
        Ok(Self { kind, interface: name.to_owned() })
    }
}

impl fmt::Display for LiveSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.word(), self.interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for text in ["afpacket:veth1", "tap:t0", "xdp:eth0", "afpacket:enp3s0f1"] {
            assert_eq!(text.parse::<LiveSpec>().map(|spec| spec.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let error = |text: &str| text.parse::<LiveSpec>().map_err(|error| error.to_string());
        for wrong in ["veth1", "dpdk:0", ""] {
            assert!(error(wrong).is_err_and(|text| text.contains("write afpacket:")), "{wrong}");
        }
        for wrong in ["afpacket:", "tap:a b", "tap:sixteen-letters-", "tap:a/b", "afpacket:.."] {
            assert!(
                error(wrong).is_err_and(|text| text.contains("no interface's name")),
                "{wrong}"
            );
        }
    }
}

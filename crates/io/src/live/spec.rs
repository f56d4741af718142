//! How live ports are written on the command line: `afpacket:eth0`, `tap:tap0`, `xdp:eth0`,
//! `dpdk:0000:03:00.0`, `dpdk:net_af_packet0,iface=eth0,qpairs=2`.

use super::{interface, xdp};
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
    /// Devices of DPDK's, on the PCI bus or virtual.
    Dpdk,
}

impl LiveKind {
    const ALL: [Self; 4] = [Self::AfPacket, Self::Tap, Self::Xdp, Self::Dpdk];

    /// The word before the colon.
    pub const fn word(self) -> &'static str {
        match self {
            Self::AfPacket => "afpacket",
            Self::Tap => "tap",
            Self::Xdp => "xdp",
            Self::Dpdk => "dpdk",
        }
    }
}

/// A live port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSpec {
    /// How the interface is used.
    pub kind: LiveKind,
    /// The interface's name; of a device of DPDK's, its address or name, and its arguments.
    pub interface: String,
}

impl LiveSpec {
    /// The kernel's interface, also that which a device of DPDK's is on; another device as it is written.
    pub fn kernel_interface(&self) -> &str {
        let device = (self.kind == LiveKind::Dpdk).then_some(self.interface.as_str());
        device.and_then(on_interface).unwrap_or(&self.interface)
    }

    /// Bytes of the longest IP packet that the interface carries now; `None` where it says nothing of that, or has yet
    /// to be made.
    pub fn mtu(&self) -> Option<usize> {
        match self.kind {
            LiveKind::AfPacket | LiveKind::Tap => interface::mtu(&self.interface),
            LiveKind::Xdp => interface::mtu(&self.interface).map(|mtu| mtu.min(xdp::LARGEST)),
            LiveKind::Dpdk => on_interface(&self.interface).and_then(interface::mtu),
        }
    }
}

/// Drivers of DPDK's that are on an interface of the kernel's, which must be there.
const ON_INTERFACES: [&str; 2] = ["net_af_packet", "net_af_xdp"];

/// The kernel's interface that a device of DPDK's is on.
pub(super) fn on_interface(devargs: &str) -> Option<&str> {
    let name = devargs.split(',').next().unwrap_or_default();
    let interface = argument(devargs, "iface").filter(|interface| !interface.is_empty());
    interface.filter(|_| ON_INTERFACES.contains(&driver_of(name)))
}

/// The driver of a virtual device: `net_tap` of `net_tap0`.
pub(super) fn driver_of(name: &str) -> &str {
    name.trim_end_matches(|digit: char| digit.is_ascii_digit())
}

/// The value of an argument: of `iface` in `net_af_packet0,iface=eth0`.
pub(super) fn argument<'a>(devargs: &'a str, name: &str) -> Option<&'a str> {
    devargs.split(',').skip(1).find_map(|one| one.strip_prefix(name)?.strip_prefix('='))
}

/// Bytes of an interface's name at most (`IFNAMSIZ` less the final zero).
const LONGEST_NAME: usize = 15;

impl FromStr for LiveSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let expected = "afpacket:INTERFACE, tap:NAME, xdp:INTERFACE or dpdk:DEVICE";
        let (word, name) = text.split_once(':').unwrap_or((text, ""));
        let kind = LiveKind::ALL.into_iter().find(|kind| kind.word() == word);
        let Some(kind) = kind else {
            return Err(SpecError::Contradiction(format!(
                "this is no live port; write {expected}"
            )));
        };
        if kind == LiveKind::Dpdk {
            check_device(name)?;
            return Ok(Self { kind, interface: name.to_owned() });
        }
        let fits = (1..=LONGEST_NAME).contains(&name.len()) && name != "." && name != "..";
        if !fits || name.bytes().any(|byte| byte == b'/' || byte == b':' || byte <= b' ') {
            return Err(SpecError::Contradiction(format!(
                "`{name}` is no interface's name; it has 1 to {LONGEST_NAME} letters, and no \
                 blank, slash or colon"
            )));
        }
        Ok(Self { kind, interface: name.to_owned() })
    }
}

/// Whether this is how DPDK's devices are written; what follows the first comma is their driver's business.
fn check_device(device: &str) -> Result<(), SpecError> {
    let name = device.split(',').next().unwrap_or_default();
    let is_virtual = name.strip_prefix("net_").is_some_and(|rest| !rest.is_empty());
    let is_pci = {
        let parts: Vec<&str> = name.split([':', '.']).collect();
        let is_hex = |part: &&str| {
            (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        matches!(parts.len(), 3 | 4) && name.contains(':') && parts.iter().all(is_hex)
    };
    match (is_virtual || is_pci) && !device.bytes().any(|byte| byte <= b' ') {
        true => Ok(()),
        false => Err(SpecError::Contradiction(format!(
            "`{device}` is no device of DPDK's; write an address on the PCI bus (dpdk:0000:03:00.0) or a \
             virtual device and its arguments (dpdk:net_af_packet0,iface=eth0,qpairs=2)"
        ))),
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
        for text in [
            "afpacket:veth1",
            "tap:t0",
            "xdp:eth0",
            "afpacket:enp3s0f1",
            "dpdk:0000:03:00.0",
            "dpdk:3b:00.1,a=b",
            "dpdk:net_null0",
            "dpdk:net_af_packet0,iface=eth2,qpairs=2",
        ] {
            assert_eq!(text.parse::<LiveSpec>().map(|spec| spec.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let error = |text: &str| text.parse::<LiveSpec>().map_err(|error| error.to_string());
        for wrong in ["veth1", "ena:0", ""] {
            assert!(error(wrong).is_err_and(|text| text.contains("write afpacket:")), "{wrong}");
        }
        for wrong in ["afpacket:", "tap:a b", "tap:sixteen-letters-", "tap:a/b", "afpacket:.."] {
            assert!(
                error(wrong).is_err_and(|text| text.contains("no interface's name")),
                "{wrong}"
            );
        }
        for wrong in [
            "dpdk:",
            "dpdk:eth0",
            "dpdk:net_",
            "dpdk:net_pcap0,rx_pcap=a b",
            "dpdk:0",
            "dpdk:x:y.z",
        ] {
            assert!(
                error(wrong).is_err_and(|text| text.contains("no device of DPDK's")),
                "{wrong}"
            );
        }
    }
}

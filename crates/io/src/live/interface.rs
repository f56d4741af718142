//! What is asked of an interface before and while it is used.

use super::error::{Capability, OpenError};
use super::ethtool::Interface;
use super::system::{Ask, InterfaceRequest, ask, socket};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

/// Hardware type of Ethernet (RFC 826).
const ETHERNET: u16 = 1;

/// A socket over which interfaces are asked.
pub(super) fn control() -> io::Result<OwnedFd> {
    socket(libc::AF_INET, libc::SOCK_DGRAM, 0)
}

fn answer(about: &str, question: Ask) -> io::Result<InterfaceRequest> {
    let mut request = InterfaceRequest::new(about);
    ask(control()?.as_fd(), question, &mut request)?;
    Ok(request)
}

/// The number of the interface `name`, if there is one.
pub(super) fn index(name: &str) -> Option<i32> {
    number(name).ok()
}

fn number(name: &str) -> io::Result<i32> {
    answer(name, Ask::Index).map(|request| request.number())
}

/// Whether it exists and is up.
pub(super) fn is_up(name: &str) -> bool {
    has_flag(name, libc::IFF_UP)
}

/// Whether it is up and its link is: nothing is sent by an interface whose cable is out, or whose peer is down. A
/// driver that does not tell is believed to have a link.
pub(super) fn has_link(name: &str) -> bool {
    let link = Interface::named(name).and_then(|driver| driver.has_link());
    is_up(name) && link.unwrap_or(true)
}

/// Whether it is a TAP that somebody has open: one that nobody has open has no link.
pub(super) fn is_tap_in_use(name: &str) -> bool {
    let Ok(interface) = Interface::named(name) else { return false };
    interface.driver().is_ok_and(|driver| driver == "tun")
        && interface.has_link().is_ok_and(|link| link)
}

/// Bytes of the longest packet that it sends, without the Ethernet header.
pub(super) fn mtu(name: &str) -> Option<usize> {
    let request = answer(name, Ask::Mtu).ok()?;
    usize::try_from(request.number()).ok()
}

/// Bytes of an Ethernet header.
pub(super) const HEADER: usize = 14;

/// Bytes of the longest packet that it sends, with the Ethernet header.
pub(super) fn longest(name: &str) -> Option<usize> {
    mtu(name).map(|mtu| mtu + HEADER)
}

/// Whether a packet fits an interface that sends `longest` bytes, the Ethernet header among them; a VLAN tag, of a
/// customer or a provider (IEEE 802.1Q), does not count.
#[inline(always)]
pub(super) fn fits(packet: &[u8], longest: usize) -> bool {
    const TAG: usize = 4;
    let is_tagged = || matches!(packet.get(12..14), Some(&[0x81, 0] | &[0x88, 0xa8]));
    packet.len() <= longest || packet.len() <= longest + TAG && is_tagged()
}

/// Whether it has been told to receive what is for other stations, by whoever has set its flags.
#[cfg(feature = "dpdk")]
pub(super) fn is_promiscuous(name: &str) -> bool {
    has_flag(name, libc::IFF_PROMISC)
}

fn has_flag(name: &str, flag: i32) -> bool {
    let flags = answer(name, Ask::Flags).map(|request| i32::from(request.short()));
    flags.is_ok_and(|flags| flags & flag != 0)
}

/// Its IPv4 address (`struct sockaddr_in`), if it has one.
pub(super) fn address(name: &str) -> Option<Ipv4Addr> {
    let request = answer(name, Ask::Address).ok()?;
    request.value.get(4..)?.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes))
}

/// Sets it up.
pub(super) fn set_up(name: &str) -> Result<(), OpenError> {
    let step = OpenError::of(name, "setting the interface up", Capability::NetAdmin);
    let up = || {
        let mut request = answer(name, Ask::Flags)?;
        let flags = request.short() | libc::IFF_UP as u16;
        request.value[..2].copy_from_slice(&flags.to_ne_bytes());
        ask(control()?.as_fd(), Ask::SetFlags, &mut request)
    };
    up().map_err(step)
}

/// The number of an interface that is up and carries Ethernet.
pub(super) fn usable(name: &str) -> Result<i32, OpenError> {
    let interface = || name.to_owned();
    let index =
        number(name).map_err(OpenError::of(name, "asking for its number", Capability::NetAdmin))?;
    let hardware = answer(name, Ask::Hardware).map_err(OpenError::of(
        name,
        "asking for its hardware address",
        Capability::NetAdmin,
    ))?;
    if hardware.short() != ETHERNET {
        let hardware = hardware.short();
        return Err(OpenError::NotEthernet { interface: interface(), hardware });
    }
    if !is_up(name) {
        return Err(OpenError::Down { interface: interface() });
    }
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_told() {
        let error = |name| usable(name).map_err(|error| error.to_string());
        assert!(error("no-such-one").is_err_and(|text| text.contains("no such interface")));
        assert!(address("no-such-one").is_none() && mtu("no-such-one").is_none());
        assert!(!has_link("no-such-one"));
        // The loopback interface has a hardware type of its own; where there is none, it is missing.
        assert!(
            error("lo")
                .is_err_and(|text| text.contains("not an Ethernet") || text.contains("no such"))
        );
    }
}

//! Whole packets, built into bytes of the caller: for generators, tests, and what a network
//! function answers itself (ICMP errors, echo, ARP, neighbour discovery).
//!
//! Each function gives the length of the packet it wrote, or `None` where `out` is too short, the
//! two addresses are not of one version, or the standards forbid the answer. Checksums are right;
//! frames are not padded to Ethernet's least length.

mod answer;
mod listener;
mod neighbour;
mod transport;
mod writer;

pub use answer::{IcmpError, echo_reply, icmp_error};
pub use listener::{
    ListenerQuery, MOST_GROUPS, listener_asked, listener_query, listener_report,
    listener_report_version_1,
};
pub use neighbour::{
    NeighbourMessage, arp_reply, arp_request, neighbour_advertisement, neighbour_message,
    neighbour_solicitation,
};
pub use transport::{Echo, Segment, echo, tcp, tcp_flags, udp};

use crate::MacAddr;

/// The Ethernet header to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Source address.
    pub src: MacAddr,
    /// Destination address.
    pub dst: MacAddr,
    /// VLAN identifiers, outermost first. Two make a double tag (IEEE 802.1ad, type 0x88a8).
    pub tags: [Option<u16>; 2],
}

#[cfg(test)]
mod tests;

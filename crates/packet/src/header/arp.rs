//! ARP for Ethernet and IPv4 (RFC 826): table of fields.

use super::view;
use crate::MacAddr;
use std::net::Ipv4Addr;

view! {
    /// An ARP packet for Ethernet and IPv4 (RFC 826).
    arp: Arp, 28 bytes {
        /// 1: request, 2: reply.
        operation: u16 = 16 bits at 48;
        /// The sender's Ethernet address.
        sender_mac: MacAddr = 48 bits at 64;
        /// The sender's IPv4 address.
        sender_ip: Ipv4Addr = 32 bits at 112;
        /// The Ethernet address asked for; zeros in a request.
        target_mac: MacAddr = 48 bits at 144;
        /// The IPv4 address asked for.
        target_ip: Ipv4Addr = 32 bits at 192;
    } derived {
    }
}

//! Packets: views over the bytes of Ethernet frames, wherever their memory is.
//!
//! Every other crate may depend on this one; it depends on nothing. One table of header fields per
//! protocol ([`header`]) gives the views that handlers use and the metadata from which the analysis
//! builds its symbolic packets.
//!
//! ```text
//!  port's pool (heap, mapped ring, AF_XDP frame, DPDK mbuf)
//!  ┌──────────┬──────────────────────────────┬──────────┐
//!  │ headroom │ Ethernet  IP  TCP  payload …  │ tailroom │   lent to a Frame<'m>, with a token
//!  └──────────┴──────────────────────────────┴──────────┘   that says which buffer to give back
//!               ▲         ▲   ▲    ▲
//!               └ Layout: offsets, found once by parse(), 16 bytes by value
//!  Packet<'a> = the frame's bytes + Layout + Meta; pkt.ipv4(), pkt.tcp_mut(), … are views into them
//! ```
//!
//! **No panics.** No function here panics, for any bytes and any [`Layout`], even one that was
//! parsed from other bytes: a view is handed out only when its whole fixed header lies in the
//! bytes. Nothing allocates.

pub mod checksum;
pub mod craft;
mod embedded;
pub mod fragment;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod header;
mod layout;
mod mac;
mod malformed;
mod packet;
mod port;

pub use embedded::{Embedded, EmbeddedMut};
pub use frame::{Frame, Meta};
pub use header::{Field, Kind, fields};
pub use layout::{Layout, parse, parse_any, parse_common, parse_common_word, parse_other};
pub use mac::{InvalidMacAddr, MacAddr};
pub use malformed::Malformed;
pub use packet::{Common, Hollow, Mode, Packet, Real};
pub use port::Port;
pub use std::net::{Ipv4Addr, Ipv6Addr};

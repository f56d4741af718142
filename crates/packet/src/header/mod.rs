//! One table of fields per header, from which come the views and what the analysis knows of them.
//!
//! A table says where each field lies, what type it has, and which checksums its setter updates.
//! [`Field`] is the same knowledge as data; a symbolic packet is built from [`fields`] and nothing
//! else, so that the native and the symbolic packet cannot disagree. Derived fields are computed
//! from several places; the analysis gives them a meaning of its own.

mod arp;
mod ethernet;
mod icmpv4;
mod icmpv6;
mod ipv4;
mod ipv6;
mod options;
mod read;
mod tcp;
mod udp;
mod value;
mod vlan;

use crate::{Layout, checksum::Delta, packet::chunk_mut};

pub use arp::Arp;
pub use ethernet::{Ethernet, EthernetMut};
pub use icmpv4::{Icmpv4, Icmpv4Mut};
pub use icmpv6::{Icmpv6, Icmpv6Mut};
pub use ipv4::{Ipv4, Ipv4Mut};
pub use ipv6::{Ipv6, Ipv6Mut};
pub use options::{HeaderOption, Options};
pub use read::quoted_protocol;
pub use tcp::{Tcp, TcpMut};
pub use udp::{Udp, UdpMut};
pub use vlan::{Vlan, VlanMut};

pub(crate) use value::{Value, checked_words};

/// What values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An unsigned integer: `u8`, `u16` or `u32`, the smallest that holds the bits.
    Uint,
    /// One bit.
    Bool,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// An Ethernet address.
    Mac,
}

/// One field of a header: a method of its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The header: the method of [`Packet`](crate::Packet) that gives the view, such as `ipv4`.
    /// `packet` for what the packet itself is asked.
    pub header: &'static str,
    /// The method of the view.
    pub name: &'static str,
    /// How many bits its values have.
    pub bits: u16,
    /// Its first bit, counted from the header's first; 0 where derived.
    pub offset_bits: u16,
    /// Whether the `_mut` view has a `set_` method for it.
    pub settable: bool,
    /// What values it has.
    pub kind: Kind,
    /// Whether it is computed rather than read at one place.
    pub derived: bool,
}

/// Every field of every header, in the order of the layers. Names are unique within a header.
pub fn fields() -> impl Iterator<Item = &'static Field> {
    let tables: [&'static [Field]; 11] = [
        crate::packet::FIELDS,
        ethernet::FIELDS,
        vlan::FIELDS,
        arp::FIELDS,
        ipv4::FIELDS,
        ipv6::FIELDS,
        tcp::FIELDS,
        udp::FIELDS,
        icmpv4::FIELDS,
        icmpv6::FIELDS,
        crate::embedded::FIELDS,
    ];
    tables.into_iter().flatten()
}

/// Updates the transport checksum that has a pseudo header, if there is one: `rest` is what follows
/// the IP header's first `header_len` bytes.
#[inline(always)]
fn update_transport(rest: &mut [u8], layout: Layout, header_len: usize, delta: Delta) {
    // No checksum is offset 0, which wraps to past 4 billion. In 32 bits, so that the end of the
    // range cannot wrap as well, and one comparison does.
    let start = (layout.l3_offset() + header_len) as u32;
    let at = (layout.checksum_offset() as u32).wrapping_sub(start) as usize;
    if let Some(checksum) = chunk_mut(rest, at) {
        delta.apply_transport(checksum, layout.has_udp());
    }
}

/// The read view of a header and its `FIELDS`. A derived field may name its setter, which stands beside the table.
macro_rules! view {
    (
        $(#[$doc:meta])*
        $name:ident: $View:ident $(/ $ViewMut:ident)?, $len:literal bytes {
            $($(#[$field_doc:meta])* $field:ident: $ty:ident = $bits:literal bits at $offset:literal
                $(, $setter:ident updates $cover:ident $(if $guard:ident)?)?;)*
        } derived {
            $($(#[$derived_doc:meta])* $derived:ident: $derived_ty:ident = $derived_bits:literal bits
                $(, $by_hand:ident)?,
                |$header:pat_param, $rest:pat_param, $layout:pat_param| $body:expr;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $View<'a> {
            header: &'a [u8; $len],
            #[allow(dead_code, reason = "all views have one shape, not all need all of it")]
            rest: &'a [u8],
            #[allow(dead_code, reason = "all views have one shape, not all need all of it")]
            layout: $crate::Layout,
        }

        impl<'a> $View<'a> {
            /// The view of the header at `at`, if all of it is there.
            #[inline(always)]
            pub(crate) fn at(bytes: &'a [u8], at: usize, layout: $crate::Layout) -> Option<Self> {
                if bytes.len() < at + $len {
                    return None;
                }
                let (header, rest) = bytes.get(at..)?.split_first_chunk()?;
                Some(Self { header, rest, layout })
            }

            $($(#[$field_doc])*
            #[inline(always)]
            pub fn $field(&self) -> $ty {
                const { assert!($len * 8 - $offset >= $bits, "the field is in the header") };
                <$ty as $crate::header::Value>::read(self.header, $offset, $bits)
            })*

            $($(#[$derived_doc])*
            #[inline(always)]
            pub fn $derived(&self) -> $derived_ty {
                let ($header, $rest, $layout) = (self.header, self.rest, self.layout);
                $body
            })*
        }

        pub(crate) static FIELDS: &[$crate::header::Field] = &[
            $($crate::header::Field {
                header: stringify!($name),
                name: stringify!($field),
                bits: $bits,
                offset_bits: $offset,
                settable: false $(|| !stringify!($setter).is_empty())?,
                kind: <$ty as $crate::header::Value>::KIND,
                derived: false,
            },)*
            $($crate::header::Field {
                header: stringify!($name),
                name: stringify!($derived),
                bits: $derived_bits,
                offset_bits: 0,
                settable: false $(|| !stringify!($by_hand).is_empty())?,
                kind: <$derived_ty as $crate::header::Value>::KIND,
                derived: true,
            },)*
        ];
    };
}

/// The `_mut` view of a header: the reads of its view, and the setters.
macro_rules! view_mut {
    (
        $(#[$doc:meta])*
        $name:ident: $View:ident / $ViewMut:ident, $len:literal bytes {
            $($(#[$field_doc:meta])* $field:ident: $ty:ident = $bits:literal bits at $offset:literal
                $(, $setter:ident updates $cover:ident $(if $guard:ident)?)?;)*
        } derived {
            $($(#[$derived_doc:meta])* $derived:ident: $derived_ty:ident = $derived_bits:literal bits
                $(, $by_hand:ident)?,
                |$header:pat_param, $rest:pat_param, $layout:pat_param| $body:expr;)*
        }
    ) => {
        $(#[$doc])*
        ///
        /// To be written: setters keep every checksum right that covers their field.
        #[derive(Debug)]
        pub struct $ViewMut<'a, M: $crate::Mode> {
            /// `None` only in an Ethernet view of a frame that is shorter than its header.
            header: Option<&'a mut [u8; $len]>,
            rest: &'a mut [u8],
            layout: $crate::Layout,
            mode: std::marker::PhantomData<M>,
        }

        impl<'a, M: $crate::Mode> $ViewMut<'a, M> {
            /// The view of the header at `at`, if all of it is there.
            #[inline(always)]
            pub(crate) fn at(
                bytes: &'a mut [u8],
                at: usize,
                layout: $crate::Layout,
            ) -> Option<Self> {
                if bytes.len() < at + $len {
                    return None;
                }
                let (header, rest) = bytes.get_mut(at..)?.split_first_chunk_mut()?;
                let mode = std::marker::PhantomData;
                Some(Self { header: Some(header), rest, layout, mode })
            }

            #[inline(always)]
            fn view(&self) -> $View<'_> {
                let header = self.header.as_deref().unwrap_or(&[0; $len]);
                $View { header, rest: self.rest, layout: self.layout }
            }

            $($(#[$field_doc])*
            #[inline(always)]
            pub fn $field(&self) -> $ty {
                self.view().$field()
            }

            $(
            #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ") and keeps checksums right.")]
            $(#[doc = concat!("No effect unless [`", stringify!($guard), "`](Self::", stringify!($guard), ").")])?
            #[inline(always)]
            pub fn $setter(&mut self, value: $ty) {
                if M::HOLLOW $(|| !self.view().$guard())? {
                    return;
                }
                let Some(header) = self.header.as_deref_mut() else { return };
                let old = $crate::header::checked_words!(header, $offset, $bits);
                <$ty as $crate::header::Value>::write(value, header, $offset, $bits);
                let new = $crate::header::checked_words!(header, $offset, $bits);
                self.$cover($crate::checksum::Delta::of(&old, &new));
            })?)*

            $($(#[$derived_doc])*
            #[inline(always)]
            pub fn $derived(&self) -> $derived_ty {
                self.view().$derived()
            })*
        }
    };
}

/// A header that can be written: both views and `FIELDS`, from one table.
macro_rules! header {
    ($($table:tt)*) => {
        $crate::header::view! { $($table)* }
        $crate::header::view_mut! { $($table)* }
    };
}

pub(crate) use {header, view, view_mut};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_widths_fit_their_kind() {
        let mut seen = HashSet::new();
        for field in fields() {
            assert!(seen.insert((field.header, field.name)), "{field:?} twice");
            let fits = match field.kind {
                Kind::Uint => field.bits >= 2 && field.bits <= 32,
                Kind::Bool => field.bits == 1,
                Kind::Ipv4 => field.bits == 32,
                Kind::Ipv6 => field.bits == 128,
                Kind::Mac => field.bits == 48,
            };
            assert!(fits, "{field:?}");
        }
        assert!(seen.contains(&("ipv6", "protocol")) && seen.contains(&("embedded", "src6")));
    }

    /// The table in the language page is this one.
    #[test]
    fn settable_fields_are_those_of_the_language() {
        let settable: Vec<_> =
            fields().filter(|f| f.settable).map(|f| format!("{}.{}", f.header, f.name)).collect();
        let language = "ethernet.dst ethernet.src vlan.priority vlan.id ipv4.dscp ipv4.ecn ipv4.ttl \
            ipv4.src ipv4.dst ipv6.traffic_class ipv6.hop_limit ipv6.src ipv6.dst tcp.src tcp.dst \
            tcp.sequence tcp.acknowledgement tcp.window tcp.mss udp.src udp.dst icmpv4.id icmpv6.id \
            embedded.src embedded.dst embedded.src6 embedded.dst6 embedded.src_port embedded.dst_port embedded.id";
        assert_eq!(settable, language.split_whitespace().collect::<Vec<_>>());
    }
}

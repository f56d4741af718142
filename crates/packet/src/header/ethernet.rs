//! Ethernet (IEEE 802.3): table of fields.

use super::header;
use crate::{Layout, MacAddr, Mode, checksum::Delta, layout::chunk};
use std::marker::PhantomData;

header! {
    /// The Ethernet header (IEEE 802.3).
    ethernet: Ethernet / EthernetMut, 14 bytes {
        /// Destination address.
        dst: MacAddr = 48 bits at 0, set_dst updates nothing;
        /// Source address.
        src: MacAddr = 48 bits at 48, set_src updates nothing;
    } derived {
        /// The Ethernet type, that of the innermost tag; under 0x600 it is the length of an IEEE
        /// 802.3 frame.
        ethertype: u16 = 16 bits, |header, rest, layout| innermost(header, rest, layout);
    }
}

/// With tags, the type lies past the 14 bytes of the header.
#[inline(always)]
fn innermost(header: &[u8; 14], rest: &[u8], layout: Layout) -> u16 {
    let outermost = [header[12], header[13]];
    match layout.has_vlan() {
        false => u16::from_be_bytes(outermost),
        true => {
            let at = layout.l3_offset().saturating_sub(header.len() + 2);
            u16::from_be_bytes(*chunk(rest, at).unwrap_or(&outermost))
        }
    }
}

impl<'a> Ethernet<'a> {
    /// The header of `bytes`; zeros where there is none.
    #[inline(always)]
    pub(crate) fn of(bytes: &'a [u8], layout: Layout) -> Self {
        Self::at(bytes, 0, layout).unwrap_or(Self { header: &[0; 14], rest: &[], layout })
    }
}

impl<'a, M: Mode> EthernetMut<'a, M> {
    /// The header of `bytes`; one that swallows what is written where there is none.
    #[inline(always)]
    pub(crate) fn of(bytes: &'a mut [u8], layout: Layout) -> Self {
        let none = Self { header: None, rest: &mut [], layout, mode: PhantomData };
        Self::at(bytes, 0, layout).unwrap_or(none)
    }

    #[inline(always)]
    fn nothing(&mut self, _: Delta) {}
}

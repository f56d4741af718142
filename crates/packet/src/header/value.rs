//! The types that fields have, and how they are read and written at a bit offset.
//!
//! Offsets and widths are constants of the tables: after inlining, each read is one load, and no
//! bounds are left to check. A field spans at most four bytes unless it is an address, which begins
//! at a byte.

use super::Kind;
use crate::MacAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A type of fields.
pub(crate) trait Value: Copy {
    /// What values it has.
    const KIND: Kind;

    /// The `bits` bits at bit `offset` of the header.
    fn read<const N: usize>(header: &[u8; N], offset: usize, bits: usize) -> Self;

    /// Writes the `bits` bits at bit `offset`; bits of `self` above those are ignored.
    fn write<const N: usize>(self, header: &mut [u8; N], offset: usize, bits: usize);
}

#[inline(always)]
fn copy<const N: usize, const W: usize>(header: &[u8; N], at: usize) -> [u8; W] {
    let mut bytes = [0; W];
    bytes.copy_from_slice(&header[at..at + W]);
    bytes
}

/// The bytes from `first` to `last`, as one number.
#[inline(always)]
fn read_bits<const N: usize>(header: &[u8; N], offset: usize, bits: usize) -> u32 {
    let (first, last) = (offset / 8, (offset + bits - 1) / 8);
    let mut window = 0;
    let mut at = first;
    while at <= last {
        window = window << 8 | u32::from(header[at]);
        at += 1;
    }
    (window >> (7 - (offset + bits - 1) % 8)) & mask(bits)
}

#[inline(always)]
fn write_bits<const N: usize>(value: u32, header: &mut [u8; N], offset: usize, bits: usize) {
    let (first, last) = (offset / 8, (offset + bits - 1) / 8);
    let shift = 7 - (offset + bits - 1) % 8;
    let (set, cleared) = ((value & mask(bits)) << shift, mask(bits) << shift);
    let mut at = first;
    while at <= last {
        let down = 8 * (last - at);
        header[at] = header[at] & !((cleared >> down) as u8) | (set >> down) as u8;
        at += 1;
    }
}

#[inline(always)]
fn mask(bits: usize) -> u32 {
    u32::MAX >> (32 - bits)
}

macro_rules! uint {
    ($($ty:ident)*) => {
        $(impl Value for $ty {
            const KIND: Kind = Kind::Uint;

            #[inline(always)]
            fn read<const N: usize>(header: &[u8; N], offset: usize, bits: usize) -> Self {
                if offset % 8 == 0 && bits == $ty::BITS as usize {
                    return $ty::from_be_bytes(copy(header, offset / 8));
                }
                read_bits(header, offset, bits) as $ty
            }

            #[inline(always)]
            fn write<const N: usize>(self, header: &mut [u8; N], offset: usize, bits: usize) {
                if offset % 8 == 0 && bits == $ty::BITS as usize {
                    let at = offset / 8;
                    header[at..at + size_of::<$ty>()].copy_from_slice(&self.to_be_bytes());
                    return;
                }
                write_bits(u32::from(self), header, offset, bits);
            }
        })*
    };
}

uint! { u8 u16 u32 }

impl Value for bool {
    const KIND: Kind = Kind::Bool;

    #[inline(always)]
    fn read<const N: usize>(header: &[u8; N], offset: usize, bits: usize) -> Self {
        read_bits(header, offset, bits) != 0
    }

    #[inline(always)]
    fn write<const N: usize>(self, header: &mut [u8; N], offset: usize, bits: usize) {
        write_bits(u32::from(self), header, offset, bits);
    }
}

macro_rules! address {
    ($($ty:ident: $kind:ident, $len:literal bytes;)*) => {
        $(impl Value for $ty {
            const KIND: Kind = Kind::$kind;

            #[inline(always)]
            fn read<const N: usize>(header: &[u8; N], offset: usize, _: usize) -> Self {
                Self::from(copy::<N, $len>(header, offset / 8))
            }

            #[inline(always)]
            fn write<const N: usize>(self, header: &mut [u8; N], offset: usize, _: usize) {
                let at = offset / 8;
                header[at..at + $len].copy_from_slice(&self.octets());
            }
        })*
    };
}

address! {
    Ipv4Addr: Ipv4, 4 bytes;
    Ipv6Addr: Ipv6, 16 bytes;
    MacAddr: Mac, 6 bytes;
}

/// The 16-bit words of a header that a field is in, as a checksum sees them.
macro_rules! checked_words {
    ($header:expr, $offset:expr, $bits:expr) => {{
        const FIRST: usize = $offset / 16 * 2;
        const LEN: usize = usize::div_ceil($offset + $bits, 16) * 2 - FIRST;
        let mut words = [0_u8; LEN];
        words.copy_from_slice(&$header[FIRST..FIRST + LEN]);
        words
    }};
}

pub(crate) use checked_words;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bit by bit.
    fn plain(header: &[u8; 8], offset: usize, bits: usize) -> u32 {
        (offset..offset + bits)
            .fold(0, |value, bit| value << 1 | u32::from(header[bit / 8] >> (7 - bit % 8) & 1))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn bits_are_read_and_written_in_place(header: [u8; 8], value: u32, offset in 0_usize..32, bits in 1_usize..=25) {
            prop_assert_eq!(read_bits(&header, offset, bits), plain(&header, offset, bits));
            let mut written = header;
            write_bits(value, &mut written, offset, bits);
            prop_assert_eq!(plain(&written, offset, bits), value & mask(bits));
            write_bits(plain(&header, offset, bits), &mut written, offset, bits);
            prop_assert_eq!(written, header, "nothing else has changed");
        }
    }

    #[test]
    fn whole_words_are_in_network_order() {
        let mut header = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(u16::read(&header, 8, 16), 0x0203);
        assert_eq!(u32::read(&header, 32, 32), 0x0506_0708);
        0xaabb_u16.write(&mut header, 16, 16);
        assert_eq!(header, [1, 2, 0xaa, 0xbb, 5, 6, 7, 8]);
        assert_eq!(MacAddr::read(&header, 16, 48), MacAddr::new(0xaa, 0xbb, 5, 6, 7, 8));
    }
}

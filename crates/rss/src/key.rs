//! RSS keys.

use std::error::Error;
use std::fmt;

/// Bytes of the longest key any supported NIC takes (Intel X710 and E810).
const MAX_LEN: usize = 52;

/// A Toeplitz key of 40 bytes (most NICs) or 52 bytes (Intel X710 and E810).
///
/// A key of `n` bytes hashes inputs of up to `n - 4` bytes: 40 bytes are enough for an IPv6
/// 4-tuple (36 bytes).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    bytes: [u8; MAX_LEN],
    len: u8,
}

impl Key {
    /// The key of Microsoft's RSS verification suite, and the default of most drivers.
    pub const MICROSOFT: Self = Self::of_40([
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ]);

    /// `0x6d5a` repeated: a packet and its reply hash alike, because the key has a period of 16
    /// bits and source and destination fields lie a multiple of 16 bits apart (Woo and Park,
    /// "Scalable TCP Session Monitoring with Symmetric Receive-side Scaling", 2012).
    pub const SYMMETRIC: Self = Self::repeated_40(0x6d5a);

    /// A key of 40 bytes.
    pub const fn of_40(key: [u8; 40]) -> Self {
        let mut bytes = [0; MAX_LEN];
        let mut at = 0;
        while at < key.len() {
            bytes[at] = key[at];
            at += 1;
        }
        Self { bytes, len: 40 }
    }

    /// A key of 52 bytes.
    pub const fn of_52(bytes: [u8; 52]) -> Self {
        Self { bytes, len: 52 }
    }

    /// A key of 40 bytes in which two bytes repeat: symmetric, like [`Key::SYMMETRIC`].
    pub const fn repeated_40(pattern: u16) -> Self {
        let mut key = [0; 40];
        let mut at = 0;
        while at < key.len() {
            key[at] = pattern.to_be_bytes()[at % 2];
            at += 1;
        }
        Self::of_40(key)
    }

    /// The key's bytes, as a NIC takes them: 40 or 52.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Bytes of the longest input this key can hash: 36 or 48.
    pub const fn max_input_len(&self) -> usize {
        self.len as usize - 4
    }

    /// The 32 key bits that start `bit` bits into the key; bits past its end are zero.
    pub(crate) fn window(&self, bit: usize) -> u32 {
        (self.five_bytes(bit / 8) >> (8 - bit % 8)) as u32
    }

    /// The [`window`](Self::window) of each key bit, in order.
    pub(crate) fn windows(&self) -> impl Iterator<Item = u32> {
        let mut five = 0;
        (0..self.as_bytes().len() * 8).map(move |bit| {
            if bit % 8 == 0 {
                five = self.five_bytes(bit / 8);
            }
            (five >> (8 - bit % 8)) as u32
        })
    }

    /// The 40 key bits from the byte `first` on.
    fn five_bytes(&self, first: usize) -> u64 {
        let byte = |at: usize| u64::from(self.as_bytes().get(at).copied().unwrap_or(0));
        (first..first + 5).fold(0, |bits, at| bits << 8 | byte(at))
    }
}

impl TryFrom<&[u8]> for Key {
    type Error = KeyError;

    /// Fails unless `key` has 40 or 52 bytes.
    fn try_from(key: &[u8]) -> Result<Self, KeyError> {
        if let Ok(bytes) = <[u8; 40]>::try_from(key) {
            return Ok(Self::of_40(bytes));
        }
        match <[u8; 52]>::try_from(key) {
            Ok(bytes) => Ok(Self::of_52(bytes)),
            Err(_) => Err(KeyError { len: key.len() }),
        }
    }
}

impl fmt::Display for Key {
    /// Hexadecimal with colons, as `ethtool -X … hkey` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.as_bytes().iter().enumerate() {
            let colon = if at == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// A key of a length that no NIC takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyError {
    /// Bytes that were given.
    pub len: usize,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an RSS key of {} bytes: write one of 40 or 52 bytes", self.len)
    }
}

impl Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_other_than_40_and_52_are_refused() {
        assert_eq!(Key::try_from(&[1; 40][..]).unwrap().max_input_len(), 36);
        assert_eq!(Key::try_from(&[1; 52][..]).unwrap().max_input_len(), 48);
        assert_eq!(Key::try_from(&[1; 41][..]), Err(KeyError { len: 41 }));
    }

    #[test]
    fn windows_slide_by_one_bit_and_end_in_zeros() {
        assert_eq!(Key::MICROSOFT.window(0), 0x6d5a_56da);
        assert_eq!(Key::MICROSOFT.window(8), 0x5a56_da25);
        assert_eq!(Key::MICROSOFT.window(1), 0xdab4_adb4);
        assert_eq!(Key::MICROSOFT.window(40 * 8 - 8), 0xfa00_0000);
        let windows: Vec<u32> = (0..40 * 8).map(|bit| Key::MICROSOFT.window(bit)).collect();
        assert!(Key::MICROSOFT.windows().eq(windows));
    }

    #[test]
    fn a_key_is_written_as_ethtool_takes_it() {
        let text = Key::SYMMETRIC.to_string();
        assert_eq!(text.len(), 40 * 3 - 1);
        assert!(text.starts_with("6d:5a:6d:5a:"));
    }
}

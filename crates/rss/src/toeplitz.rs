//! The Toeplitz hash: for each input bit that is set, the 32 key bits that start at that bit's
//! position are added (exclusive or). Being linear, it can be tabulated byte by byte.

use crate::key::Key;
use std::error::Error;
use std::fmt;

/// The Toeplitz hash of `input` under `key`, bit by bit as Microsoft's RSS specification defines
/// it. The reference; packets are hashed with [`ToeplitzTable`].
///
/// Input bytes past [`Key::max_input_len`] meet key bits that are taken as zero.
pub fn toeplitz(key: &Key, input: &[u8]) -> u32 {
    input.iter().enumerate().fold(0, |hash, (at, &byte)| hash ^ byte_hash(key, at, byte))
}

/// What the byte at position `at` of the input contributes to the hash.
fn byte_hash(key: &Key, at: usize, byte: u8) -> u32 {
    (0..8)
        .filter(|bit| byte & (0x80 >> bit) != 0)
        .fold(0, |hash, bit| hash ^ key.window(at * 8 + bit))
}

/// The contribution of each value of one input byte.
pub type ByteTable = [u32; 256];

/// A key expanded to one table of 256 words per input byte (1 KiB each): a hash is one look-up per
/// byte.
#[derive(Clone)]
pub struct ToeplitzTable {
    tables: Box<[ByteTable]>,
}

impl ToeplitzTable {
    /// Expands `key` for inputs of up to `input_len` bytes.
    ///
    /// Fails when the key is too short for inputs of that length.
    pub fn new(key: &Key, input_len: usize) -> Result<Self, InputTooLong> {
        if input_len > key.max_input_len() {
            return Err(InputTooLong { input_len, max: key.max_input_len() });
        }
        Ok(Self::expand(key, input_len))
    }

    /// Expands `key` for the longest inputs it can hash.
    pub fn full(key: &Key) -> Self {
        Self::expand(key, key.max_input_len())
    }

    fn expand(key: &Key, input_len: usize) -> Self {
        let table = |at| std::array::from_fn(|byte| byte_hash(key, at, byte as u8));
        Self { tables: (0..input_len).map(table).collect() }
    }

    /// Bytes of the longest input this table hashes.
    pub fn input_len(&self) -> usize {
        self.tables.len()
    }

    /// What `input` contributes to the hash when it stands at byte `at`: the hash is the sum
    /// (exclusive or) of its parts. Bytes past [`input_len`](Self::input_len) do not count.
    #[inline]
    pub fn part(&self, at: usize, input: &[u8]) -> u32 {
        sum(self.tables.get(at..).unwrap_or_default().iter().zip(input))
    }

    /// What each value of the byte at `at` contributes to the hash; `None`: it does not count.
    pub fn of_byte(&self, at: usize) -> Option<&ByteTable> {
        self.tables.get(at)
    }

    /// The Toeplitz hash of `input`; bytes past [`input_len`](Self::input_len) do not count.
    #[inline]
    pub fn hash(&self, input: &[u8]) -> u32 {
        sum(self.tables.iter().zip(input))
    }

    /// The hash of an input whose length the compiler knows: no loop, no bounds checks.
    #[inline]
    pub fn hash_array<const N: usize>(&self, input: &[u8; N]) -> u32 {
        match self.tables.first_chunk::<N>() {
            Some(tables) => sum(tables.iter().zip(input)),
            None => self.hash(input),
        }
    }

    /// The hash of one IPv4 address.
    #[inline]
    pub fn hash_4(&self, input: &[u8; 4]) -> u32 {
        self.hash_array(input)
    }

    /// The hash of an IPv4 address pair.
    #[inline]
    pub fn hash_8(&self, input: &[u8; 8]) -> u32 {
        self.hash_array(input)
    }

    /// The hash of an IPv4 4-tuple.
    #[inline]
    pub fn hash_12(&self, input: &[u8; 12]) -> u32 {
        self.hash_array(input)
    }

    /// The hash of an IPv6 address pair.
    #[inline]
    pub fn hash_32(&self, input: &[u8; 32]) -> u32 {
        self.hash_array(input)
    }

    /// The hash of an IPv6 4-tuple.
    #[inline]
    pub fn hash_36(&self, input: &[u8; 36]) -> u32 {
        self.hash_array(input)
    }
}

#[inline(always)]
fn sum<'a>(bytes: impl Iterator<Item = (&'a ByteTable, &'a u8)>) -> u32 {
    bytes.fold(0, |hash, (table, &byte)| hash ^ table[usize::from(byte)])
}

impl fmt::Debug for ToeplitzTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToeplitzTable({} bytes of input)", self.input_len())
    }
}

/// An input longer than the key can hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputTooLong {
    /// Bytes of input that were asked for.
    pub input_len: usize,
    /// Bytes of input the key can hash.
    pub max: usize,
}

impl fmt::Display for InputTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input_len, max } = self;
        write!(
            f,
            "{input_len} bytes of fields to hash, but this RSS key is long enough for {max}: "
        )?;
        write!(f, "hash fewer fields or give a key of 52 bytes")
    }
}

impl Error for InputTooLong {}

//! How the entries of a [`Table`](super::table::Table) lie in one of its buckets.
//!
//! ```text
//! as they are:  header | key value | key value | …        keys and values with the gaps of their types
//! packed:       header | key key … | value value …        keys of 128 bits at most, bytes without gaps
//! ```
//!
//! They are packed where more of them fit into a line that way: an IPv4 address, a port and a protocol are
//! seven bytes, which Rust makes eight, and with a number of four bytes there are five in a line instead of
//! four. A packed key is one word or two, which are read and compared as such.

use std::marker::PhantomData;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::NonNull;

use crate::key::Key;
use crate::memory::ZeroValid;
use crate::pack::{Pack, Unpack};

/// One cache line of a table.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line([MaybeUninit<u64>; 8]);

// SAFETY: no word of a line is assumed initialised but the bucket's header, for which zero is
// "all slots free", and packed keys, which are bytes.
unsafe impl ZeroValid for Line {}

const LINE: usize = size_of::<Line>();
const HEADER: usize = 8;
/// Tags in a header.
const MOST_SLOTS: usize = 7;

#[derive(Clone, Copy)]
#[repr(C)]
struct Slot<K, V> {
    key: K,
    value: V,
}

/// The layout of buckets of entries `K`, `V`, and access to them by the bucket's address.
pub(super) struct Bucket<K, V>(PhantomData<(K, V)>);

impl<K: Key, V> Bucket<K, V> {
    const SLOT: usize = size_of::<Slot<K, V>>();
    /// Where the first entry lies that is as it is.
    const FIRST: usize =
        if align_of::<Slot<K, V>>() > HEADER { align_of::<Slot<K, V>>() } else { HEADER };
    /// Lines of a bucket of entries as they are: one, unless that would leave a third of it empty or the
    /// entry is larger.
    const LINES_AS_IS: usize = match Self::SLOT {
        0..=28 | 41..=56 => 1,
        29..=40 => 2,
        size => (Self::FIRST + size).div_ceil(LINE),
    };
    const SLOTS_AS_IS: usize = {
        let room = match Self::SLOT {
            0 => MOST_SLOTS,
            size => (Self::LINES_AS_IS * LINE - Self::FIRST) / size,
        };
        if room > MOST_SLOTS { MOST_SLOTS } else { room }
    };

    /// Bytes of a packed key.
    const KEY: usize = (K::BITS as usize).div_ceil(8);
    const CAN_BE_PACKED: bool = 1 <= Self::KEY && Self::KEY <= 16 && size_of::<V>() > 0;
    /// Where the values lie behind so many packed keys.
    const fn values_behind(keys: usize) -> usize {
        (HEADER + keys * Self::KEY).next_multiple_of(align_of::<V>())
    }
    const SLOTS_PACKED: usize = {
        let mut slots = if Self::CAN_BE_PACKED { MOST_SLOTS } else { 0 };
        while slots > 0 && Self::values_behind(slots) + slots * size_of::<V>() > LINE {
            slots -= 1;
        }
        slots
    };
    const IS_PACKED: bool = Self::SLOTS_PACKED * Self::LINES_AS_IS > Self::SLOTS_AS_IS;

    /// Lines per bucket.
    pub(super) const LINES: usize = if Self::IS_PACKED { 1 } else { Self::LINES_AS_IS };
    /// Entries per bucket.
    pub(super) const SLOTS: usize =
        if Self::IS_PACKED { Self::SLOTS_PACKED } else { Self::SLOTS_AS_IS };
    /// Where the first value lies, and how far the next is from it.
    const VALUES: (usize, usize) = if Self::IS_PACKED {
        (Self::values_behind(Self::SLOTS), size_of::<V>())
    } else {
        (Self::FIRST + offset_of!(Slot<K, V>, value), Self::SLOT)
    };

    /// A key as it is packed; its second word is 0 where it has one only.
    #[inline(always)]
    fn words(key: &K) -> [u64; 2] {
        let mut words = [0; 2];
        key.pack(&mut Pack::new(&mut words));
        words
    }

    /// Where the key of a slot lies that is as it is.
    ///
    /// # Safety
    /// `bucket` is one of this layout, and `slot` one of it.
    #[inline(always)]
    unsafe fn key_as_is(bucket: *mut u8, slot: usize) -> *mut K {
        const { assert!(align_of::<Slot<K, V>>() <= LINE) }
        debug_assert!(slot < Self::SLOTS);
        // SAFETY: `SLOTS` slots lie behind the first `FIRST` bytes of a bucket.
        unsafe { bucket.add(Self::FIRST + offset_of!(Slot<K, V>, key) + slot * Self::SLOT).cast() }
    }

    /// The packed key of a slot. Its last word is in eight bytes that end with it, without those of the header or
    /// of the key before it that they begin with.
    ///
    /// # Safety
    /// As in [`key_as_is`](Self::key_as_is).
    #[inline(always)]
    unsafe fn key_words(bucket: *mut u8, slot: usize) -> [u64; 2] {
        debug_assert!(slot < Self::SLOTS);
        // SAFETY: they lie in the bucket, and all up to the values is bytes that are initialised, zero from
        // the start.
        let word = |at: usize| unsafe { bucket.add(at).cast::<u64>().read_unaligned() };
        let last = u64::from_le(word((slot + 1) * Self::KEY));
        if Self::KEY <= 8 {
            return [last >> (64 - 8 * Self::KEY as u32), 0];
        }
        let first = u64::from_le(word(HEADER + slot * Self::KEY));
        [first, last >> (128 - 8 * Self::KEY as u32)]
    }

    /// Whether the entry of a slot has this key.
    ///
    /// # Safety
    /// As in [`key_as_is`](Self::key_as_is), and the slot is occupied.
    #[inline(always)]
    pub(super) unsafe fn has_key(bucket: *mut u8, slot: usize, key: &K) -> bool {
        if Self::IS_PACKED {
            // SAFETY: the caller's.
            let (own, words) = (unsafe { Self::key_words(bucket, slot) }, Self::words(key));
            // Word by word: the compiler would load both into vectors.
            return own[0] == words[0] && own[1] == words[1];
        }
        // SAFETY: the caller's; an occupied slot is initialised.
        unsafe { (*Self::key_as_is(bucket, slot)).is(key) }
    }

    /// The key of the entry of a slot.
    ///
    /// # Safety
    /// As in [`has_key`](Self::has_key).
    #[inline(always)]
    pub(super) unsafe fn key(bucket: *mut u8, slot: usize) -> K {
        if Self::IS_PACKED {
            // SAFETY: the caller's.
            let words = unsafe { Self::key_words(bucket, slot) };
            return K::unpack(&mut Unpack::new(&words));
        }
        // SAFETY: the caller's; an occupied slot is initialised.
        unsafe { *Self::key_as_is(bucket, slot) }
    }

    /// Where the value of a slot lies; initialised if the slot is occupied.
    ///
    /// # Safety
    /// As in [`key_as_is`](Self::key_as_is).
    #[inline(always)]
    pub(super) unsafe fn value(bucket: *mut u8, slot: usize) -> NonNull<V> {
        debug_assert!(slot < Self::SLOTS);
        let (first, step) = Self::VALUES;
        // SAFETY: as many values as slots lie in a bucket, which is not at address 0. Said apart, since what is
        // made of the pointer would be held against 0 otherwise.
        unsafe {
            let value: *mut V = bucket.add(first + slot * step).cast();
            std::hint::assert_unchecked(!value.is_null());
            NonNull::new_unchecked(value)
        }
    }

    /// The bucket and the slot whose value lies so many bytes behind the begin of the first bucket.
    #[inline]
    pub(super) fn whose_value(at: usize) -> (usize, usize) {
        let (first, step) = Self::VALUES;
        let at = at.wrapping_sub(first);
        let bucket = Self::LINES * LINE;
        (at / bucket, at % bucket / if step == 0 { 1 } else { step })
    }

    /// Writes the entry of a slot.
    ///
    /// # Safety
    /// As in [`key_as_is`](Self::key_as_is), and nobody else accesses the bucket.
    pub(super) unsafe fn write(bucket: *mut u8, slot: usize, key: K, value: V) {
        // SAFETY: the caller's; key and value lie in the bucket.
        unsafe {
            if Self::IS_PACKED {
                let bytes = Self::words(&key).map(u64::to_le_bytes);
                let at = bucket.add(HEADER + slot * Self::KEY);
                at.copy_from_nonoverlapping(bytes.as_flattened().as_ptr(), Self::KEY);
            } else {
                Self::key_as_is(bucket, slot).write(key);
            }
            Self::value(bucket, slot).write(value);
        }
    }
}

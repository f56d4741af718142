//! The memory of an AF_XDP socket: chunks, and the rings over which they change hands (Documentation/
//! networking/af_xdp.rst). This is why there is `unsafe` here: the kernel writes into the same memory.
//!
//! ```text
//!  free ──fill──▶ kernel ──receive──▶ lend(): &'m mut [u8] ──give()──▶ free
//!  free ──write, transmit──▶ kernel ──completion──▶ free
//! ```
//!
//! **Invariant**: a chunk is the kernel's, lent or free; what is not known to be in the state that a step begins with
//! takes no step. A chunk that is lent is free again only when the whole of it is given back, and a mutable slice
//! cannot be copied.

use super::super::system::Mapping;
use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a chunk: a page.
pub(super) const CHUNK: usize = 4_096;
/// Chunks of a socket: 24 MiB.
pub(super) const CHUNKS: usize = 6_144;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Free,
    Kernel,
    Lent,
}

/// The chunks of one socket.
pub(super) struct Chunks<'m> {
    mapping: &'m mut Mapping,
    holders: Vec<Holder>,
    free: Vec<u32>,
}

impl<'m> Chunks<'m> {
    /// Chunks in `mapping`, all free.
    pub(super) fn new(mapping: &'m mut Mapping) -> Self {
        let count = mapping.len() / CHUNK;
        let free = (0..count as u32).rev().collect();
        Self { mapping, holders: vec![Holder::Free; count], free }
    }

    /// Puts other memory of the same length in the place of this one, all of it free, if nothing is lent.
    pub(super) fn replace(&mut self, mapping: Mapping) -> Result<(), Mapping> {
        if self.holders.contains(&Holder::Lent) || mapping.len() != self.mapping.len() {
            return Err(mapping);
        }
        *self.mapping = mapping;
        self.holders.fill(Holder::Free);
        self.free.clear();
        self.free.extend((0..self.holders.len() as u32).rev());
        Ok(())
    }

    /// Chunks that are free.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// A free chunk becomes the kernel's; its address.
    pub(super) fn give_to_kernel(&mut self) -> Option<u64> {
        let chunk = self.free.pop()?;
        *self.holders.get_mut(chunk as usize)? = Holder::Kernel;
        Some(u64::from(chunk) * CHUNK as u64)
    }

    /// Writes `packet` into a free chunk, which becomes the kernel's; its address. `None`: there is none, or
    /// the packet is longer than a chunk.
    pub(super) fn write(&mut self, packet: &[u8]) -> Option<u64> {
        if packet.len() > CHUNK {
            return None;
        }
        let chunk = self.free.pop()?;
        let holder = self.holders.get_mut(chunk as usize)?;
        *holder = Holder::Kernel;
        let address = chunk as usize * CHUNK;
        // SAFETY: the chunk lies in the mapping and was free: nobody else reads or writes it until its
        // address is put into a ring.
        unsafe {
            let to = self.mapping.start().add(address);
            std::ptr::copy_nonoverlapping(packet.as_ptr(), to, packet.len());
        }
        Some(address as u64)
    }

    /// The kernel is done with the chunk at `address`, which is free.
    pub(super) fn take_back(&mut self, address: u64) {
        let chunk = (address as usize) / CHUNK;
        if let Some(holder) = self.holders.get_mut(chunk).filter(|one| **one == Holder::Kernel) {
            *holder = Holder::Free;
            self.free.push(chunk as u32);
        }
    }

    /// Lends the chunk of `address`, which the kernel has filled.
    pub(super) fn lend(&mut self, address: u64) -> Option<&'m mut [u8]> {
        let chunk = (address as usize) / CHUNK;
        let holder = self.holders.get_mut(chunk).filter(|one| **one == Holder::Kernel)?;
        *holder = Holder::Lent;
        // SAFETY: the chunk lies in the mapping, which is borrowed for 'm; the kernel has given it up, and it
        // is lent once until the whole of it is given back.
        Some(unsafe {
            std::slice::from_raw_parts_mut(self.mapping.start().add(chunk * CHUNK), CHUNK)
        })
    }

    /// Whether the byte at this address is one of theirs.
    pub(super) fn holds(&self, address: usize) -> bool {
        address.wrapping_sub(self.mapping.start() as usize) < self.mapping.len()
    }

    /// Takes a chunk back that was lent. Parts of one, and what is of other memory, are not taken.
    pub(super) fn give(&mut self, part: &'m mut [u8]) {
        let at = (part.as_ptr() as usize).wrapping_sub(self.mapping.start() as usize);
        if at >= self.mapping.len() || !at.is_multiple_of(CHUNK) || part.len() != CHUNK {
            return;
        }
        if let Some(holder) = self.holders.get_mut(at / CHUNK).filter(|one| **one == Holder::Lent) {
            *holder = Holder::Free;
            self.free.push((at / CHUNK) as u32);
        }
    }
}

/// An entry of a ring.
///
/// # Safety
/// Any bytes are a value, and there is no padding.
pub(super) unsafe trait Entry: Copy {}
// SAFETY: an integer.
unsafe impl Entry for u64 {}
// SAFETY: integers without padding.
unsafe impl Entry for libc::xdp_desc {}

/// A ring with one producer and one consumer, of which one is the kernel.
pub(super) struct Ring<T> {
    mapping: Mapping,
    offsets: libc::xdp_ring_offset,
    size: u32,
    entries: PhantomData<T>,
}

impl<T: Entry> Ring<T> {
    /// Maps the ring of `size` entries, a power of two, that `socket` has at `page`.
    pub(super) fn map(
        socket: &OwnedFd,
        offsets: libc::xdp_ring_offset,
        size: u32,
        page: i64,
    ) -> io::Result<Self> {
        let len = offsets.desc as usize + size as usize * size_of::<T>();
        let word = size_of::<u32>() as u64;
        let fits = |at: u64| at.is_multiple_of(word) && (at as usize) < len - 3;
        let sound = fits(offsets.producer) && fits(offsets.consumer) && fits(offsets.flags);
        if !sound || !size.is_power_of_two() || !offsets.desc.is_multiple_of(8) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mapping = Mapping::new(socket, len, page)?;
        Ok(Self { mapping, offsets, size, entries: PhantomData })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the offsets lie in the mapping and are aligned (checked by `map`); the words are touched by
        // atomic operations only.
        unsafe { AtomicU32::from_ptr(self.mapping.start().add(offset as usize).cast()) }
    }

    fn entry(&self, index: u32) -> *mut T {
        let place = (index & (self.size - 1)) as usize * size_of::<T>();
        // The mapping ends after `size` entries, which are aligned (checked by `map`).
        self.mapping.start().wrapping_add(self.offsets.desc as usize + place).cast()
    }

    /// Entries between producer and consumer.
    pub(super) fn len(&self) -> u32 {
        let consumer = self.word(self.offsets.consumer).load(Ordering::Acquire);
        self.word(self.offsets.producer).load(Ordering::Acquire).wrapping_sub(consumer)
    }

    /// Room for entries.
    pub(super) fn room(&self) -> u32 {
        self.size.saturating_sub(self.len())
    }

    /// Puts an entry into a ring that is ours to fill, if there is room.
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.room() == 0 {
            return false;
        }
        let producer = self.word(self.offsets.producer);
        let index = producer.load(Ordering::Relaxed);
        // SAFETY: the place is in the mapping, and ours until the producer's index passes it.
        unsafe { self.entry(index).write(entry) };
        producer.store(index.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes the next entry of a ring that the kernel fills.
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.len() == 0 {
            return None;
        }
        let consumer = self.word(self.offsets.consumer);
        let index = consumer.load(Ordering::Relaxed);
        // SAFETY: the place is in the mapping, and the kernel has written it; any bytes are an entry.
        let entry = unsafe { self.entry(index).read() };
        consumer.store(index.wrapping_add(1), Ordering::Release);
        Some(entry)
    }

    /// Whether the kernel has to be told that there is something for it.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & 1 != 0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_has_one_holder() {
        let mut elsewhere = vec![0; CHUNK];
        let mut mapping = Mapping::anonymous(3 * CHUNK).unwrap();
        let mut chunks = Chunks::new(&mut mapping);
        assert!(chunks.lend(0).is_none(), "it is free");
        let address = chunks.give_to_kernel().unwrap();
        let chunk = chunks.lend(address + 256).unwrap();
        assert!(chunks.lend(address).is_none(), "it is lent");
        chunks.take_back(address);
        assert_eq!(chunks.free(), 2, "the kernel has not got it");
        let (half, other) = chunk.split_at_mut(CHUNK / 2);
        half[0] = other[0];
        chunks.give(half);
        chunks.give(other);
        chunks.give(&mut elsewhere);
        assert_eq!(chunks.free(), 2, "parts are not taken");
        let written = chunks.write(b"packet").unwrap();
        assert_ne!(written, address);
        assert!(chunks.write(&[0; CHUNK + 1]).is_none());
        chunks.take_back(written);
        chunks.take_back(written);
        assert_eq!(chunks.free(), 2, "once is once");
        let other = Mapping::anonymous(3 * CHUNK).unwrap();
        assert!(chunks.replace(other).is_err(), "one is lent, in parts");
        chunks.take_back(1 << 40);
        assert!(chunks.lend(1 << 40).is_none());
    }

    #[test]
    fn what_is_lent_is_what_was_written_and_goes_back() {
        let mut mapping = Mapping::anonymous(2 * CHUNK).unwrap();
        let mut chunks = Chunks::new(&mut mapping);
        let address = chunks.write(b"packet").unwrap();
        let chunk = chunks.lend(address).unwrap();
        assert_eq!(&chunk[..6], b"packet");
        chunks.give(chunk);
        assert_eq!(chunks.free(), 2);
        assert!(chunks.replace(Mapping::anonymous(CHUNK).unwrap()).is_err(), "it is shorter");
        assert!(chunks.replace(Mapping::anonymous(2 * CHUNK).unwrap()).is_ok());
        assert!(chunks.free() == 2 && chunks.lend(0).is_none());
    }
}

//! Zeroed memory for tables: cache-line aligned, mapped as it is touched, on huge pages where the
//! kernel grants them.
//!
//! State objects of one worker (`anabranch-nf`) and of all (`anabranch-txn`) are made of it.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

const CACHE_LINE: usize = 64;
const HUGE_PAGE: usize = 2 << 20;

/// A fixed array of `T` that starts as all zero bytes.
///
/// A table sized for a million flows costs memory only where flows have been: the kernel maps
/// zeroed pages on first touch. Blocks of 2 MiB and more ask for huge pages, since at that size the
/// look-up in the page tables costs as much as the look-up in the table.
pub struct Zeroed<T> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: `Zeroed` owns its elements as `Box<[T]>` does.
unsafe impl<T: Send> Send for Zeroed<T> {}
// SAFETY: as above; shared access gives only `&T`.
unsafe impl<T: Sync> Sync for Zeroed<T> {}

/// Types for which a pattern of all zero bytes is a valid value, and which need no drop. They need
/// not be `Copy`: a deadline that several workers move forward is not.
///
/// # Safety
/// The implementor asserts both.
pub unsafe trait ZeroValid {}
// SAFETY: zero is a valid integer.
unsafe impl ZeroValid for u16 {}
// SAFETY: zero is a valid integer.
unsafe impl ZeroValid for u32 {}
// SAFETY: zero is a valid integer.
unsafe impl ZeroValid for u64 {}
// SAFETY: of what zero is valid for, any number.
unsafe impl<T: ZeroValid, const N: usize> ZeroValid for [T; N] {}
// SAFETY: zero is a valid integer, and the layout that of `u16`.
unsafe impl ZeroValid for AtomicU16 {}
// SAFETY: zero is a valid integer, and the layout that of `u32`.
unsafe impl ZeroValid for AtomicU32 {}
// SAFETY: zero is a valid integer, and the layout that of `u64`.
unsafe impl ZeroValid for AtomicU64 {}
// SAFETY: no byte of it is ever assumed to be initialised.
unsafe impl<T: Copy> ZeroValid for std::mem::MaybeUninit<T> {}

impl<T: ZeroValid> Zeroed<T> {
    /// An array of `len` elements. Aborts as `Vec` does when there is no memory.
    pub fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        let block = match layout.size() {
            0 => NonNull::<T>::dangling().as_ptr().cast(),
            size if mapped(size) => map_huge(size),
            // SAFETY: the layout's size is not zero.
            _ => unsafe { alloc_zeroed(layout) },
        };
        match NonNull::new(block.cast::<T>()) {
            Some(start) => Self { start, len },
            None => handle_alloc_error(layout),
        }
    }
}

impl<T> Zeroed<T> {
    /// The first element. The pointer may be written through under `&mut self`: unlike one made from
    /// the slice it does not pass through a shared reference.
    #[inline(always)]
    pub fn start(&self) -> *mut T {
        self.start.as_ptr()
    }

    fn layout(len: usize) -> Layout {
        let align = CACHE_LINE.max(align_of::<T>());
        match len.checked_mul(size_of::<T>()).map(|size| Layout::from_size_align(size, align)) {
            Some(Ok(layout)) => layout,
            _ => panic!("a table of {len} elements exceeds the address space"),
        }
    }
}

/// Whether a block of `size` bytes is mapped by itself rather than taken from the heap.
fn mapped(size: usize) -> bool {
    size >= HUGE_PAGE && !cfg!(miri)
}

/// Maps `size` bytes of zeroes at a multiple of 2 MiB; null when there is no memory.
fn map_huge(size: usize) -> *mut u8 {
    let length = size.next_multiple_of(HUGE_PAGE);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh anonymous mapping touches no memory of ours.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), length + HUGE_PAGE, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return std::ptr::null_mut();
    }
    let start = start.cast::<u8>();
    let before = start.align_offset(HUGE_PAGE);
    // SAFETY: `before` is below `HUGE_PAGE`, so both cut-off ends lie inside the mapping just made;
    // the advice is advice only.
    unsafe {
        let aligned = start.add(before);
        if before > 0 {
            libc::munmap(start.cast(), before);
        }
        libc::munmap(aligned.add(length).cast(), HUGE_PAGE - before);
        libc::madvise(aligned.cast(), length, libc::MADV_HUGEPAGE);
        aligned
    }
}

impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        let layout = Self::layout(self.len);
        let block = self.start.as_ptr();
        match layout.size() {
            0 => {}
            // SAFETY: mapped in `map_huge` with this very length.
            size if mapped(size) => unsafe {
                libc::munmap(block.cast(), size.next_multiple_of(HUGE_PAGE));
            },
            // SAFETY: allocated in `new` with this very layout.
            _ => unsafe { dealloc(block.cast(), layout) },
        }
    }
}

impl<T> Deref for Zeroed<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` points to `len` elements that are valid from their first byte on.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Zeroed<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// Asks the core to fetch the cache line at `address`; no effect on meaning.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_zeroed_and_keeps_what_is_written() {
        let mut block = Zeroed::<u64>::new(1 << 12);
        assert!(block.iter().all(|&word| word == 0));
        block[4_095] = 9;
        assert_eq!(block[4_095], 9);
        assert_eq!(block.as_ptr() as usize % CACHE_LINE, 0);
        assert!(Zeroed::<u32>::new(0).is_empty());
        let mut large = Zeroed::<u64>::new(3 << 18);
        let last = large.len() - 1;
        large[last] = 1;
        assert_eq!(large.iter().sum::<u64>(), 1);
    }
}

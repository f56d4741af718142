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
/// look-up in the page tables costs as much as the look-up in the table; but not where they are used here
/// and there only, since a huge page is there as a whole or not at all.
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
        Self::mapped_huge(len, usize::MAX)
    }

    /// The same, of which the first `dense` elements will be used throughout and the rest here and there: huge
    /// pages are asked for where they lie within the former.
    pub fn sparse(len: usize, dense: usize) -> Self {
        let whole = dense.saturating_mul(size_of::<T>()) / HUGE_PAGE * HUGE_PAGE;
        Self::mapped_huge(len, whole)
    }

    /// An array of `len` elements, with huge pages for the first `huge` bytes.
    fn mapped_huge(len: usize, huge: usize) -> Self {
        let layout = Self::layout(len);
        let block = match layout.size() {
            0 => NonNull::<T>::dangling().as_ptr().cast(),
            size if mapped(size) => map(size, huge),
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

/// Maps `size` bytes of zeroes at a multiple of 2 MiB, the first `huge` of them with huge pages; null when
/// there is no memory.
fn map(size: usize, huge: usize) -> *mut u8 {
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
    let huge = huge.min(length);
    // SAFETY: `before` is below `HUGE_PAGE`, so both cut-off ends lie inside the mapping just made, and
    // `huge` is at most `length`; the advice is advice only.
    unsafe {
        let aligned = start.add(before);
        if before > 0 {
            libc::munmap(start.cast(), before);
        }
        libc::munmap(aligned.add(length).cast(), HUGE_PAGE - before);
        if huge > 0 {
            libc::madvise(aligned.cast(), huge, libc::MADV_HUGEPAGE);
        }
        if huge < length {
            libc::madvise(aligned.add(huge).cast(), length - huge, libc::MADV_NOHUGEPAGE);
        }
        aligned
    }
}

impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        let layout = Self::layout(self.len);
        let block = self.start.as_ptr();
        match layout.size() {
            0 => {}
            // SAFETY: mapped in `map` with this very length.
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

    /// Bytes of `block` that are there.
    #[cfg(target_os = "linux")]
    fn resident<T>(block: &Zeroed<T>) -> usize {
        let page = 4_096;
        let bytes = size_of_val(&**block);
        let mut there = vec![0u8; bytes.div_ceil(page)];
        // SAFETY: `block` starts at a page, and `there` has a byte for each page of it.
        let rc = unsafe { libc::mincore(block.start().cast(), bytes, there.as_mut_ptr()) };
        assert_eq!(rc, 0);
        there.iter().filter(|page| **page & 1 != 0).count() * page
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn what_is_used_here_and_there_takes_a_small_page_each() {
        const WORDS: usize = HUGE_PAGE / size_of::<u64>();
        let mut scattered = Zeroed::<u64>::sparse(4 * WORDS, 0);
        for at in (0..4 * WORDS).step_by(WORDS / 2) {
            scattered[at] = 1;
        }
        assert_eq!(resident(&scattered), 8 * 4_096);
        let mut mixed = Zeroed::<u64>::sparse(4 * WORDS, WORDS + WORDS / 2);
        mixed[WORDS] = 1;
        mixed[3 * WORDS] = 1;
        assert_eq!(resident(&mixed), 2 * 4_096, "no huge page that is not dense as a whole");
    }
}

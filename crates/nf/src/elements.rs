//! What `a[i]` becomes: access to elements that is defined for every index.
//!
//! An index past the end reads zero and writes nothing, alike in every world and build profile, and
//! is counted: a wrong index is the author's mistake and must not end the worker. In the hollow
//! worlds, where what is looked up is zero, it is not even a mistake.

use std::cell::Cell;
use std::slice::SliceIndex;

use crate::key::Value;
use crate::settings::List;

/// Things with elements, read. The names are out of an author's reach.
pub trait Elements {
    /// `usize`, or `u32` for what counts its elements so.
    type Index;
    /// What is in it.
    type Element: Value;
    /// `self[index]`.
    fn __at(&self, index: Self::Index) -> Self::Element;
}

/// Arrays and slices, written, and parts of them.
pub trait Places {
    /// What is in it.
    type Element: Value;
    /// `self[index]` as a place; `spare`, which nobody reads, where there is no such element.
    fn __place<'a>(
        &'a mut self,
        index: usize,
        spare: &'a mut Self::Element,
    ) -> &'a mut Self::Element;
    /// All places.
    fn __all(&mut self) -> &mut Self;
}

/// Elements of which parts are taken.
pub trait Seen {
    /// `usize`, or `u32` for what counts its elements so.
    type Index;
    /// What is in it.
    type Element: Value;
    /// `self[index]`, not copied; `spare`, made zero, where there is no such element.
    fn __seen<'a>(&'a self, index: Self::Index, spare: &'a mut Self::Element) -> &'a Self::Element;
}

/// Slices of slices.
pub trait Parts<T> {
    /// `self[range]`; empty where that ends past the end.
    fn __part<R: SliceIndex<[T], Output = [T]>>(&self, range: R) -> &[T];
    /// As [`__part`](Self::__part), to change it.
    fn __part_mut<R: SliceIndex<[T], Output = [T]>>(&mut self, range: R) -> &mut [T];
}

impl<T: Value> Elements for [T] {
    type Index = usize;
    type Element = T;
    #[inline(always)]
    fn __at(&self, index: usize) -> T {
        self.get(index).copied().unwrap_or_else(fault)
    }
}

impl<T: Value> Elements for List<T> {
    type Index = u32;
    type Element = T;
    #[inline(always)]
    fn __at(&self, index: u32) -> T {
        self.get(index).unwrap_or_else(fault)
    }
}

impl<T: Value> Places for [T] {
    type Element = T;
    #[inline(always)]
    fn __place<'a>(&'a mut self, index: usize, spare: &'a mut T) -> &'a mut T {
        self.get_mut(index).unwrap_or_else(|| {
            *spare = fault();
            spare
        })
    }
    #[inline(always)]
    fn __all(&mut self) -> &mut Self {
        self
    }
}

/// [`Places::__place`] of `places`, its index computed before they are borrowed.
#[inline(always)]
pub fn place<'a, T: Value>(index: usize, places: &'a mut [T], spare: &'a mut T) -> &'a mut T {
    places.__place(index, spare)
}

impl<T: Value> Seen for [T] {
    type Index = usize;
    type Element = T;
    #[inline(always)]
    fn __seen<'a>(&'a self, index: usize, spare: &'a mut T) -> &'a T {
        self.get(index).unwrap_or_else(|| {
            *spare = fault();
            spare
        })
    }
}

impl<T: Value> Seen for List<T> {
    type Index = u32;
    type Element = T;
    #[inline(always)]
    fn __seen<'a>(&'a self, index: u32, spare: &'a mut T) -> &'a T {
        *spare = self.__at(index);
        spare
    }
}

impl<T> Parts<T> for [T] {
    #[inline(always)]
    fn __part<R: SliceIndex<[T], Output = [T]>>(&self, range: R) -> &[T] {
        self.get(range).unwrap_or_else(|| {
            count();
            &[]
        })
    }
    #[inline(always)]
    fn __part_mut<R: SliceIndex<[T], Output = [T]>>(&mut self, range: R) -> &mut [T] {
        self.get_mut(range).unwrap_or_else(|| {
            count();
            &mut []
        })
    }
}

thread_local! {
    static FAULTS: Cell<u64> = const { Cell::new(0) };
}

#[cold]
#[inline(never)]
pub(crate) fn count() {
    FAULTS.set(FAULTS.get().wrapping_add(1));
}

#[cold]
#[inline(never)]
fn fault<T: Value>() -> T {
    count();
    T::zero()
}

/// Indices past the end that this thread has met so far.
pub fn faults() -> u64 {
    FAULTS.get()
}

/// Forgets what was met since [`faults`] was `before`: it is done once more.
#[inline(always)]
pub fn forget_since(before: u64) {
    FAULTS.set(before);
}

/// Runs `act` in a hollow world: what goes wrong there is not counted.
#[inline(always)]
pub fn hollow<R>(act: impl FnOnce() -> R) -> R {
    let before = FAULTS.get();
    let done = act();
    forget_since(before);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_defined_and_wrong_ones_are_counted() {
        let before = faults();
        let mut table = [[1u8, 2], [3, 4]];
        assert_eq!((table.__at(1).__at(0), table.__at(2), table.__at(0).__at(2)), (3, [0, 0], 0));
        *table.__place(0, &mut [9; 2]).__place(1, &mut 9) = 7;
        let mut spare = [9; 2];
        let place = table.__place(usize::MAX, &mut spare);
        assert_eq!(*place, [0, 0], "a place past the end is zero too");
        *place = [5, 5];
        assert_eq!(table, [[1, 7], [3, 4]]);
        assert_eq!((table.__part(1..), table.__part(1..3)), (&[[3, 4]][..], &[][..]));
        table.__part_mut(3..).iter_mut().for_each(|row| *row = [0, 0]);
        let list = List::from(vec![5u16]);
        assert_eq!((list.__at(0), list.__at(1)), (5, 0));
        assert_eq!(faults() - before, 6);
        hollow(|| assert_eq!(list.__at(1), 0));
        assert_eq!(faults() - before, 6);
    }

    #[test]
    fn what_is_borrowed_past_the_end_is_zero_and_nobody_elses() {
        let before = faults();
        let mut table = [3usize, 1];
        *place(table.__at(1), table.__all(), &mut 9) += 5;
        assert_eq!(table, [3, 6], "the index first");
        let mut spare = 9;
        *place(2, table.__all(), &mut spare) += 5;
        assert_eq!((table, spare), ([3, 6], 5));
        assert_eq!((*table.__seen(0, &mut spare), *table.__seen(7, &mut 9)), (3, 0));
        let list = List::from(vec![5u16]);
        assert_eq!((*list.__seen(0, &mut 9), *list.__seen(1, &mut 9)), (5, 0));
        assert_eq!(faults() - before, 3);
    }
}

//! Values by index.

use crate::key::Value;
use crate::memory::{Zeroed, prefetch};
use crate::state::journal::{self, Journal, Journaled, Moment, Sink, Steps};
use crate::state::shards::{Bundle, Movable, Scope, Shift, Tag, Tags, Ward};
use crate::state::shared::Count;
use std::mem::MaybeUninit;

/// A vector of fixed length, all elements zero at first; see
/// [`VectorOperations`](crate::world::VectorOperations) for what an author calls.
pub struct Vector<T: Value> {
    elements: Zeroed<Element<T>>,
    faults: Count,
    /// What is noted of its elements.
    notes: Option<Box<Notes>>,
}

/// Which shards elements belong to, where these may move to other workers; which were written, where a
/// store keeps them.
#[derive(Default)]
struct Notes {
    tags: Option<Tags>,
    /// Each shard has its part: nothing tells them apart.
    parts: bool,
    journal: Option<Journal<u32>>,
}

/// Written or still zero: the zero of `T` need not be zero bytes.
#[derive(Clone, Copy)]
struct Element<T: Value> {
    value: MaybeUninit<T>,
    written: bool,
}

// SAFETY: `written` is false when zero, and then `value` is not read.
unsafe impl<T: Value> crate::memory::ZeroValid for Element<T> {}

#[allow(clippy::len_without_is_empty, reason = "no operation of the language asks it")]
impl<T: Value> Vector<T> {
    /// `len` zeroes.
    pub fn new(len: u32) -> Self {
        Self { elements: Zeroed::new(len as usize), faults: Count::default(), notes: None }
    }

    /// From now on it is known which shard each element belongs to. Nothing has been written yet.
    pub fn divide(&mut self, ward: &Ward) {
        let parts = matches!(ward.scope, Scope::PerShard);
        let (len, dense) = (self.len(), ward.dense(self.len()));
        let tags = (!parts).then(|| Tags::new(len, dense, &ward.here));
        // Where each shard has its part of every element, all are used.
        if !parts {
            self.elements = Zeroed::sparse(len as usize, dense as usize);
        }
        self.notes = Some(Box::new(Notes { tags, parts, journal: None }));
    }

    #[inline(always)]
    fn note(&mut self, index: u32) {
        if let Some(notes) = &mut self.notes {
            notes.note(index);
        }
    }

    /// Elements.
    pub fn len(&self) -> u32 {
        self.elements.len() as u32
    }

    /// Elements: a vector is always full.
    pub fn capacity(&self) -> u32 {
        self.len()
    }

    /// Bytes of memory when every element has been written.
    pub fn bytes(&self) -> usize {
        self.elements.len() * size_of::<Element<T>>()
    }

    /// Accesses past the end so far.
    pub fn faults(&self) -> u64 {
        self.faults.read()
    }

    #[cold]
    fn fault(&self) {
        self.faults.add(1);
    }

    /// Element `index`; zero past the end.
    #[inline(always)]
    pub fn read(&self, index: u32) -> T {
        match self.elements.get(index as usize) {
            // SAFETY: `written` says that `write` has stored a value.
            Some(element) if element.written => unsafe { element.value.assume_init() },
            Some(_) => T::zero(),
            None => {
                self.fault();
                T::zero()
            }
        }
    }

    /// Sets element `index`; nothing past the end.
    #[inline(always)]
    pub fn write(&mut self, index: u32, value: T) {
        self.note(index);
        self.put(index, value);
    }

    #[inline(always)]
    fn put(&mut self, index: u32, value: T) {
        match self.elements.get_mut(index as usize) {
            Some(element) => *element = Element { value: MaybeUninit::new(value), written: true },
            None => self.fault(),
        }
    }

    /// Changes element `index` in place; nothing past the end.
    #[inline(always)]
    pub fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) {
        self.note(index);
        let Some(element) = self.elements.get_mut(index as usize) else {
            self.fault();
            return;
        };
        if !element.written {
            *element = Element { value: MaybeUninit::new(T::zero()), written: true };
        }
        // SAFETY: written just now, or before.
        change(unsafe { element.value.assume_init_mut() });
    }

    /// Fetches the element's line.
    #[inline(always)]
    pub fn prefetch(&self, index: u32) {
        prefetch(self.elements.as_ptr().wrapping_add(index as usize));
    }
}

impl Notes {
    #[inline(never)]
    fn note(&mut self, index: u32) {
        let lost = self.tags.as_mut().and_then(|tags| tags.note(index));
        if let Some(journal) = &mut self.journal {
            journal.change(index, lost, || index);
        }
    }
}

impl<T: Value> Journaled for Vector<T> {
    fn layout(&self) -> journal::Layout {
        journal::layout::<u32, T>()
    }

    fn keep(&mut self, steps: &Steps) {
        let journal = Some(Journal::new(self.len(), steps));
        self.notes.get_or_insert_default().journal = journal;
    }

    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        let Some(notes) = self.notes.as_deref() else { return };
        let Some(journal) = &notes.journal else { return };
        let shard_of = |index| notes.tags.as_ref().and_then(|tags| tags.get(index).shard());
        for (index, step) in journal.take_divided(name, moment, shard_of, journal::at_once, sink) {
            sink.at(Some(step));
            let Some(element) = self.elements.get(index as usize).filter(|one| one.written) else {
                continue;
            };
            // SAFETY: it is `written`.
            let value = unsafe { element.value.assume_init() };
            moment.put(sink, (name, shard_of(index)), &index, &value);
        }
    }

    fn restore(&mut self, key: &[u8], value: &[u8], _: &Moment) -> bool {
        match (journal::loaded::<u32>(key), journal::loaded(value)) {
            (Some(index), Some(value)) if index < self.len() => {
                self.write(index, value);
                true
            }
            _ => false,
        }
    }
}

impl<T: Value> Movable for Vector<T> {
    fn take_shards(&mut self, bundle: &mut Bundle) {
        let Some(tags) = self.notes.as_mut().and_then(|notes| notes.tags.as_mut()) else { return };
        let places = tags.places(bundle.shards());
        for &(index, _) in &places {
            tags.release(index);
        }
        bundle.pack(places.iter().map(|&(index, tag)| (index, tag, self.read(index))).collect());
    }

    fn put_shards(&mut self, bundle: &mut Bundle, _: Shift) {
        if self.notes.as_ref().is_none_or(|notes| notes.tags.is_none()) {
            return;
        }
        for (index, tag, value) in bundle.unpack::<(u32, Tag, T)>() {
            // It is told already.
            self.put(index, value);
            let Some(notes) = self.notes.as_mut() else { continue };
            notes.tags.iter_mut().for_each(|tags| tags.set(index, tag));
            notes.journal.iter().for_each(|journal| journal.arrive(index, false));
        }
    }

    fn immovable(&self) -> Option<&'static str> {
        let parts = self.notes.as_ref().is_some_and(|notes| notes.parts);
        parts.then_some("each shard has its part of it")
    }
}

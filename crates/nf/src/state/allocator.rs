//! Objects with a lifetime, found by the index that names them.

use std::sync::Arc;

use crate::context::{Environment, ends, to_ticks};
use crate::key::Value;
use crate::memory::{ZeroValid, Zeroed, prefetch};
use crate::state::indices::{Indices, Within};
use crate::state::journal::{self, Journal, Moment, Refreshing, Sink, Steps};
use crate::state::loans::Loans;
use crate::state::shards::{Bundle, Movable, Scope, Shift, Tag, Tags, Ward};
use crate::state::shared::{Commons, Deadline, Lifetime, Whereabouts};
use crate::state::wheel::{Tick, Wheel, rebased};

/// An object: alive while `deadline` lies ahead. A deadline of zero marks a free one.
#[repr(C)]
struct Object<T: Value> {
    deadline: Deadline,
    lifetime: Lifetime,
    value: std::mem::MaybeUninit<T>,
}

// SAFETY: zero deadline and lifetime are valid and say that `value` is not there.
unsafe impl<T: Value> ZeroValid for Object<T> {}

/// An object as a worker sees it that shares the allocator with others and writes nothing: alive, or
/// over and not yet collected.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a, T> {
    /// When it ends.
    pub deadline: &'a Deadline,
    /// Its lifetime as it was last given, in ticks.
    pub lifetime: u32,
    /// Its value.
    pub value: T,
}

/// Hands out indices `0 .. capacity`, each with a value and a lifetime; see
/// [`AllocatorOperations`](crate::world::AllocatorOperations) for what an author calls.
///
/// The deadline stands beside the value, in the same cache line, so that an established flow
/// touches one line here.
pub struct Allocator<T: Value> {
    objects: Zeroed<Object<T>>,
    indices: Indices,
    wheel: Wheel,
    cursor: u32,
    /// Which indices a shard may give out, where values are steered.
    loans: Option<Arc<Loans>>,
    /// Objects here under indices that their shards have borrowed.
    borrowed: u32,
    /// Which shards its objects belong to, where these may move to other workers.
    shards: Option<Box<Shards>>,
    /// Some objects were given out in all shards alike: whose they are shows when they are touched.
    has_common: bool,
    /// Objects that are touched are looked at more closely: some are common or under borrowed indices.
    watches: bool,
    /// The same, or a store keeps them.
    notes: bool,
    /// Which objects were written, where a store keeps them.
    journal: Option<Box<Journal<u32>>>,
}

struct Shards {
    tags: Tags,
    leases: Option<Leases>,
    /// Objects that every worker had and a packet of this shard has freed.
    freed: Vec<(u16, u32)>,
    /// Each shard has its part of every object: nothing tells them apart.
    parts: bool,
}

/// Indices leased from the stock of all workers. What nobody has leased, or others have, counts as
/// in use.
struct Leases {
    commons: Arc<Commons>,
    /// Indices leased at a time.
    block: u32,
    /// Those that came in blocks and stay when they are given back, a bit each.
    blocks: Box<[u64]>,
    /// Indices leased.
    count: u32,
}

/// An object that leaves with its shard.
enum Moved<T> {
    Object {
        tag: Tag,
        index: u32,
        deadline: Tick,
        lifetime: u32,
        /// Since it was told to a store.
        is_refreshed: bool,
        value: T,
    },
    /// One that every worker had, and which is to be freed there too.
    Freed(u16, u32),
}

/// Whether an object of that tag is under a borrowed index.
fn is_borrowed(loans: Option<&Loans>, index: u32, tag: Tag) -> bool {
    let loans = loans.filter(|_| !tag.is_common()).zip(tag.shard());
    loans.is_some_and(|(loans, shard)| !loans.is_home(index, shard))
}

#[allow(clippy::len_without_is_empty, reason = "no operation of the language asks it")]
impl<T: Value> Allocator<T> {
    /// All of `capacity` indices free.
    pub fn new(capacity: u32) -> Self {
        Self {
            objects: Zeroed::new(capacity as usize),
            indices: Indices::new(capacity),
            wheel: Wheel::new(capacity),
            cursor: 0,
            loans: None,
            borrowed: 0,
            shards: None,
            has_common: false,
            watches: false,
            notes: false,
            journal: None,
        }
    }

    /// From now on it is known which shard each object belongs to. Nothing has been given out yet.
    pub fn divide(&mut self, ward: &Ward) {
        let len = self.capacity();
        let dense = ward.dense(len);
        self.objects = Zeroed::sparse(len as usize, dense as usize);
        self.wheel = Wheel::sparse(len, dense);
        let leases = match &ward.scope {
            Scope::Leased(commons) => Some(Leases::new(commons, len, ward.workers)),
            _ => None,
        };
        if leases.is_some() {
            self.indices = Indices::all_used(len);
        }
        let (tags, parts) =
            (Tags::new(len, dense, &ward.here), matches!(ward.scope, Scope::PerShard));
        self.shards = Some(Box::new(Shards { tags, leases, freed: Vec::new(), parts }));
    }

    /// From now on each shard is given indices that are at home there, or lent to it.
    pub fn steer(&mut self, loans: Arc<Loans>) {
        self.loans = Some(loans);
    }

    /// Objects handed out, those included whose end has not been noticed yet.
    pub fn len(&self) -> u32 {
        let leases = self.shards.as_ref().and_then(|shards| shards.leases.as_ref());
        let not_leased = leases.map_or(0, |leases| self.capacity() - leases.count);
        self.indices.used() - not_leased
    }

    /// Objects in all.
    pub fn capacity(&self) -> u32 {
        self.indices.len()
    }

    /// Whether all workers have its indices together: each is given out by one of them.
    pub fn is_common(&self) -> bool {
        let leases = self.shards.as_ref().and_then(|shards| shards.leases.as_ref());
        self.loans.is_some() || leases.is_some()
    }

    /// Bytes of memory when every object has been in use.
    pub fn bytes(&self) -> usize {
        self.objects.len() * size_of::<Object<T>>() + self.indices.bytes() + self.wheel.bytes()
    }

    /// Takes any free index; consecutive calls go round, so that an index rests before it is used
    /// again.
    pub fn allocate(&mut self, value: T, lifetime_ns: u64, env: &Environment) -> Option<u32> {
        let within = Within { first: 0, count: self.capacity(), step: 1, start: self.cursor };
        let index = self.take_within(within, env)?;
        self.cursor = index + 1;
        self.start(index, value, lifetime_ns, env);
        Some(index)
    }

    /// Takes `index`; false when it is in use.
    pub fn allocate_at(
        &mut self,
        index: u32,
        value: T,
        lifetime_ns: u64,
        env: &Environment,
    ) -> bool {
        let taken = self.take_for(index, env.whereabouts());
        if taken {
            self.start(index, value, lifetime_ns, env);
        }
        taken
    }

    /// Takes the first free index of a range.
    pub fn allocate_within(
        &mut self,
        within: Within,
        value: T,
        lifetime_ns: u64,
        env: &Environment,
    ) -> Option<u32> {
        let index = self.take_within(within, env)?;
        self.start(index, value, lifetime_ns, env);
        Some(index)
    }

    /// Whether the store that keeps the objects takes nothing new.
    fn refuses_new(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.refuses_new())
    }

    fn take_for(&mut self, index: u32, whereabouts: Whereabouts) -> bool {
        if self.refuses_new() {
            return false;
        }
        let Some(loans) = &self.loans else { return self.take(index) };
        let len = self.indices.len();
        match whereabouts {
            Whereabouts::Everywhere => loans.claim_common(len, index) && self.take(index),
            Whereabouts::NoShard => false,
            Whereabouts::Shard(shard) => loans.take(len, index, shard) && self.take_claimed(index),
        }
    }

    /// Takes `index`, which nobody else has, unless it is in use here all the same.
    fn take_claimed(&mut self, index: u32) -> bool {
        let taken = self.indices.take(index);
        if let (false, Some(loans)) = (taken, &self.loans) {
            loans.give_back(self.indices.len(), index);
        }
        taken
    }

    fn take(&mut self, index: u32) -> bool {
        let leases = self.shards.as_mut().and_then(|shards| shards.leases.as_mut());
        if let Some(leases) = leases
            && leases.lease_one(index, self.indices.len())
        {
            self.indices.give(index);
        }
        self.indices.take(index)
    }

    fn take_within(&mut self, within: Within, env: &Environment) -> Option<u32> {
        if self.refuses_new() {
            return None;
        }
        match (&self.loans, env.whereabouts()) {
            (None, _) => self.take_any_within(within),
            (_, Whereabouts::NoShard) => None,
            (Some(loans), Whereabouts::Everywhere) => {
                let index = self.indices.take_within(within)?;
                let free = loans.claim_common(self.indices.len(), index);
                if !free {
                    self.indices.give(index);
                }
                free.then_some(index)
            }
            (Some(loans), Whereabouts::Shard(shard)) => {
                let index = loans.take_within(self.capacity(), within, shard)?;
                self.take_claimed(index).then_some(index)
            }
        }
    }

    fn take_any_within(&mut self, within: Within) -> Option<u32> {
        let taken = self.indices.take_within(within);
        let leases = self.shards.as_mut().and_then(|shards| shards.leases.as_mut());
        match (taken, leases) {
            (None, Some(leases)) => {
                let leased = leases.lease(within, &mut self.indices);
                leased.then(|| self.indices.take_within(within)).flatten()
            }
            _ => taken,
        }
    }

    fn start(&mut self, index: u32, value: T, lifetime_ns: u64, env: &Environment) {
        env.count_allocation();
        let lifetime = to_ticks(lifetime_ns);
        let deadline = ends(env.tick(), lifetime);
        self.objects[index as usize] = Object {
            deadline: Deadline::new(deadline),
            lifetime: Lifetime::new(lifetime),
            value: std::mem::MaybeUninit::new(value),
        };
        self.wheel.queue(index, deadline);
        self.note_change(index);
        self.note_owner(index);
    }

    /// `index` has been given out, by the shard that is being worked for or in all.
    fn note_owner(&mut self, index: u32) {
        let Some(shards) = &mut self.shards else { return };
        shards.tags.clear(index);
        shards.tags.note(index);
        let tag = shards.tags.get(index);
        if shards.tags.is_everywhere() {
            self.has_common = true;
            shards.freed.retain(|(_, freed)| *freed != index);
        }
        self.borrowed += u32::from(is_borrowed(self.loans.as_deref(), index, tag));
        self.look_closely();
    }

    /// What is touched is looked at more closely from now on, or no more.
    fn look_closely(&mut self) {
        self.watches = self.borrowed > 0 || self.has_common;
        self.notes = self.watches || self.journal.is_some();
    }

    /// Gives `index` back before its time; false when it was free.
    pub fn free(&mut self, index: u32) -> bool {
        if self.alive(index, 0).is_none() || self.is_anothers(index) {
            self.missed(index);
            return false;
        }
        let tag = self.shards.as_mut().map_or_else(Tag::default, |one| one.tags.clear(index));
        if let Some(shards) = &mut self.shards
            && let (true, Some(shard)) = (tag.is_common(), shards.tags.here())
        {
            shards.freed.push((shard, index));
        }
        if let Some(journal) = &mut self.journal {
            journal.clear(index, tag.shard(), index);
        }
        self.borrowed -= u32::from(is_borrowed(self.loans.as_deref(), index, tag));
        self.look_closely();
        self.clear(index);
        // What all workers have is in use in some shard as long as the run goes on.
        if let Some(loans) = self.loans.as_ref().filter(|_| !tag.is_common()) {
            loans.give_back(self.capacity(), index);
        }
        true
    }

    /// Forgets the object under `index`, and has the index be free, or somebody else's.
    fn clear(&mut self, index: u32) {
        *self.objects[index as usize].deadline.tick_mut() = 0;
        let leases = self.shards.as_mut().and_then(|shards| shards.leases.as_mut());
        if leases.is_none_or(|leases| leases.keeps(index)) {
            self.indices.give(index);
        }
    }

    /// An object is touched while something may be to be noted. False: another shard has borrowed the index, and
    /// to this one there is nothing under it.
    #[inline(always)]
    fn note_touch(&mut self, index: u32) -> bool {
        if self.watches && !self.watch(index) {
            return false;
        }
        let object = self.objects.get(index as usize);
        if object.is_some_and(|object| !object.lifetime.is_noted()) {
            self.note_refresh(index);
        }
        true
    }

    /// What a store keeps was refreshed for the first time since it was told of it.
    #[cold]
    #[inline(never)]
    fn note_refresh(&mut self, index: u32) {
        let (Some(journal), Some(object)) =
            (&mut self.journal, self.objects.get_mut(index as usize))
        else {
            return;
        };
        journal.touch(index, false);
        object.lifetime.note(true);
    }

    /// An object is touched that may have been given out in all shards alike, or be another's; false: it is.
    #[cold]
    #[inline(never)]
    fn watch(&mut self, index: u32) -> bool {
        if self.is_anothers(index) {
            return false;
        }
        if let Some(shards) = self.shards.as_mut().filter(|s| s.tags.get(index).is_common()) {
            shards.tags.note(index);
        }
        true
    }

    /// Whether a shard of this worker that is not being worked for has borrowed `index`.
    #[inline(always)]
    fn is_anothers(&self, index: u32) -> bool {
        self.borrowed > 0 && self.is_borrowed_beside(index)
    }

    #[cold]
    #[inline(never)]
    fn is_borrowed_beside(&self, index: u32) -> bool {
        let Some(shards) = &self.shards else { return false };
        let tag = shards.tags.get(index);
        let here = shards.tags.here();
        here.is_some() && here != tag.shard() && is_borrowed(self.loans.as_deref(), index, tag)
    }

    /// A handler has found nothing under `index`: a packet that brings an index which another shard has
    /// borrowed belongs there.
    #[cold]
    #[inline(never)]
    fn missed(&self, index: u32) {
        let borrower = self.loans.as_ref().and_then(|loans| loans.borrower(index));
        if let (Some(borrower), Some(shards)) = (borrower, &self.shards)
            && shards.tags.here().is_some_and(|here| here != borrower)
        {
            shards.tags.stray(borrower);
        }
    }

    /// Takes `index` for what a store has kept under it; false: somebody else has it, as where a run was
    /// killed between telling the store of one's end and of the other's beginning. One that `init` has
    /// given out is in use already.
    fn take_restored(&mut self, index: u32) -> bool {
        let here = self.shards.as_ref().map(|shards| &shards.tags);
        let is_common = here.is_some_and(|tags| tags.get(index).is_common());
        let shard = here.and_then(Tags::here);
        let is_free = match (&self.loans, shard) {
            (Some(loans), Some(shard)) => loans.claim(self.capacity(), index, shard),
            (Some(loans), None) => loans.claim_common(self.capacity(), index),
            (None, _) => true,
        };
        // Nothing is kept here of what is somebody else's.
        let is_taken = is_free && self.take(index);
        let is_leased = self.shards.as_ref().is_some_and(|shards| shards.leases.is_some());
        is_common || if is_leased { is_taken } else { is_free }
    }

    fn note_change(&mut self, index: u32) {
        if let Some(journal) = &mut self.journal {
            journal.note(index);
        }
    }

    #[inline(always)]
    fn alive(&self, index: u32, now: Tick) -> Option<&Object<T>> {
        self.objects.get(index as usize).filter(|object| object.deadline.tick() > now)
    }

    /// As [`alive`](Self::alive), for the shard that is being worked for.
    #[inline(always)]
    fn find(&self, index: u32, now: Tick) -> Option<&Object<T>> {
        let found = self.alive(index, now).filter(|_| !self.is_anothers(index));
        if found.is_none() {
            self.missed(index);
        }
        found
    }

    #[inline(always)]
    fn find_mut(&mut self, index: u32, now: Tick) -> Option<&mut Object<T>> {
        let is_here = !self.notes || self.note_touch(index);
        if !is_here || self.alive(index, now).is_none() {
            self.missed(index);
            return None;
        }
        self.objects.get_mut(index as usize)
    }

    /// Gives the object `lifetime_ns` more from now; false when it does not exist.
    #[inline(always)]
    pub fn refresh(&mut self, index: u32, lifetime_ns: u64, env: &Environment) -> bool {
        let now = env.tick();
        let Some(object) = self.find_mut(index, now) else { return false };
        let lifetime = to_ticks(lifetime_ns);
        if lifetime == object.lifetime.ticks() {
            object.deadline.prolong(now.saturating_add(lifetime));
        } else {
            object.lifetime.set(lifetime);
            *object.deadline.tick_mut() = ends(now, lifetime);
            if self.notes {
                self.note_change(index);
            }
        }
        true
    }

    /// The object's value, its lifetime restarted as it was last given; `None` when it does not
    /// exist. What an established flow needs: one load, one comparison and one store, all in the
    /// object's line.
    #[inline(always)]
    pub fn touch(&mut self, index: u32, env: &Environment) -> Option<T> {
        let now = env.tick();
        let object = self.find_mut(index, now)?;
        object.deadline.prolong(now.saturating_add(object.lifetime.ticks()));
        // SAFETY: as in `get`.
        Some(unsafe { object.value.assume_init() })
    }

    /// Whether the object exists now.
    #[inline(always)]
    pub fn is_allocated(&self, index: u32, env: &Environment) -> bool {
        self.find(index, env.tick()).is_some()
    }

    /// The object's value, if it exists now.
    #[inline(always)]
    pub fn get(&self, index: u32, env: &Environment) -> Option<T> {
        // SAFETY: `start` has initialised the value of every object whose deadline is not zero.
        self.find(index, env.tick()).map(|object| unsafe { object.value.assume_init() })
    }

    /// Changes the value in place; false when the object was never allocated or is free.
    #[inline(always)]
    pub fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) -> bool {
        let Some(object) = self.find_mut(index, 0) else { return false };
        // SAFETY: as in `get`.
        change(unsafe { object.value.assume_init_mut() });
        if self.notes {
            self.note_change(index);
        }
        true
    }

    /// Replaces the value; false when the object is free.
    #[inline(always)]
    pub fn set(&mut self, index: u32, value: T) -> bool {
        self.update(index, |old| *old = value)
    }

    /// The object under `index`, alive or not yet collected; `None`: the index is free.
    #[inline(always)]
    pub fn kept(&self, index: u32) -> Option<Kept<'_, T>> {
        let Object { deadline, lifetime, value } = self.alive(index, 0)?;
        // SAFETY: as in `get`.
        Some(Kept { deadline, lifetime: lifetime.ticks(), value: unsafe { value.assume_init() } })
    }

    /// Where it is noted, for a store, that the object under `index` was refreshed.
    #[inline]
    pub fn refreshing(&self, index: u32) -> Option<Refreshing<'_>> {
        self.journal.as_ref().map(|journal| journal.refreshing(index))
    }

    /// Fetches the object's line.
    #[inline(always)]
    pub fn prefetch(&self, index: u32) {
        prefetch(self.objects.start().wrapping_add(index as usize));
    }

    /// Ticks are counted from an origin `by` later.
    pub fn rebase(&mut self, by: Tick) {
        self.wheel.rebase(by);
        let count = self.len() as usize;
        let all = self.objects.iter_mut().filter(|object| object.deadline.tick() != 0);
        for object in all.take(count) {
            let deadline = object.deadline.tick_mut();
            *deadline = rebased(*deadline, by);
        }
    }

    /// The next object whose end has come, already free, with its value; `env` is in its shard
    /// then, where that is known. `budget` counts down the objects looked at.
    pub fn expire(&mut self, env: &Environment, budget: &mut u32) -> Option<(u32, T)> {
        let now = env.tick();
        while *budget > 0 {
            let index = self.wheel.pop(now)?;
            *budget -= 1;
            let object = &self.objects[index as usize];
            let value = object.value;
            match object.deadline.tick() {
                0 => {}
                deadline if deadline > now => self.wheel.queue(index, deadline),
                _ => {
                    let tag = self.shards.as_ref().map_or_else(Tag::default, |s| s.tags.get(index));
                    tag.shard().map_or_else(|| env.leave(), |shard| env.enter_shard(shard.into()));
                    self.free(index);
                    // SAFETY: as in `get`.
                    return Some((index, unsafe { value.assume_init() }));
                }
            }
        }
        None
    }
}

impl Leases {
    fn new(commons: &Arc<Commons>, len: u32, workers: u32) -> Self {
        let blocks = vec![0; (len as usize).div_ceil(64)].into();
        Self { commons: Arc::clone(commons), block: Commons::block(len, workers), blocks, count: 0 }
    }

    /// Leases some more of a block within the range, and has its indices be free.
    fn lease(&mut self, within: Within, indices: &mut Indices) -> bool {
        let to = within.first.saturating_add(within.count).min(indices.len());
        let Some((start, got)) = self.commons.lease(indices.len(), within.first, to, self.block)
        else {
            return false;
        };
        self.blocks[(start / 64) as usize] |= got;
        self.count += got.count_ones();
        for at in (0..64).filter(|at| got >> at & 1 != 0) {
            indices.give(start + at);
        }
        true
    }

    fn lease_one(&mut self, index: u32, len: u32) -> bool {
        let leased = self.commons.lease_one(len, index);
        self.count += u32::from(leased);
        leased
    }

    /// Whether an index that is in use no more stays here; if not, it goes back to the stock.
    fn keeps(&mut self, index: u32) -> bool {
        let kept = self.blocks[(index / 64) as usize] >> (index % 64) & 1 != 0;
        if !kept {
            self.commons.give_back(self.blocks.len() as u32 * 64, index);
            self.count -= 1;
        }
        kept
    }

    /// `index` leaves with its object.
    fn hand_over(&mut self, index: u32) {
        self.blocks[(index / 64) as usize] &= !(1 << (index % 64));
        self.count -= 1;
    }
}

impl<T: Value> journal::Journaled for Allocator<T> {
    fn layout(&self) -> journal::Layout {
        journal::layout::<u32, (u64, u32, T)>()
    }

    fn keep(&mut self, steps: &Steps) {
        self.journal = Some(Box::new(Journal::new(self.capacity(), steps)));
        self.look_closely();
    }

    fn drain(&mut self, name: &'static str, moment: &Moment, sink: &mut dyn Sink) {
        let Some(journal) = &self.journal else { return };
        let shards = self.shards.as_ref();
        let shard_of = |index| shards.and_then(|shards| shards.tags.get(index).shard());
        // Of a stock of all workers none has what they have alike.
        let leases = shards.is_some_and(|shards| shards.leases.is_some());
        let ends = |index| {
            self.objects.get(index as usize).map_or(0, |object: &Object<T>| object.deadline.tick())
        };
        for (index, step) in journal.take_divided(name, moment, shard_of, ends, sink) {
            sink.at(Some(step));
            if let Some(object) = self.objects.get_mut(index as usize) {
                object.lifetime.note(false);
            }
            let Some(Kept { deadline, lifetime, value }) = self.kept(index) else { continue };
            let entry = (moment.absolute(deadline.tick()), lifetime, value);
            let shard = shard_of(index);
            if leases && shard.is_none() {
                continue;
            }
            moment.put(sink, (name, shard), &index, &entry);
        }
    }

    fn restore(&mut self, key: &[u8], value: &[u8], moment: &Moment) -> bool {
        let index = journal::loaded::<u32>(key).filter(|index| *index < self.capacity());
        let (Some(index), Some(entry)) = (index, journal::loaded::<(u64, u32, T)>(value)) else {
            return false;
        };
        let (absolute, lifetime, value) = entry;
        if !self.take_restored(index) {
            return false;
        }
        let deadline = moment.deadline(absolute, lifetime);
        let (lifetime, value) = (Lifetime::new(lifetime), std::mem::MaybeUninit::new(value));
        let object = Object { deadline: Deadline::new(deadline), lifetime, value };
        self.objects[index as usize] = object;
        self.wheel.queue(index, deadline);
        match &mut self.shards {
            // What `init` has given out in all of them is still theirs.
            Some(shards) if !shards.tags.is_everywhere() => {
                shards.tags.note(index);
                let tag = shards.tags.get(index);
                self.borrowed += u32::from(is_borrowed(self.loans.as_deref(), index, tag));
                self.look_closely();
            }
            _ => self.note_owner(index),
        }
        true
    }
}

impl<T: Value> Movable for Allocator<T> {
    fn take_shards(&mut self, bundle: &mut Bundle) {
        let Some(shards) = &mut self.shards else { return };
        let mut moved = Vec::new();
        let leave = shards.freed.extract_if(.., |(shard, _)| bundle.shards().contains(*shard));
        moved.extend(leave.map(|(shard, index)| Moved::Freed(shard, index)));
        for (index, tag) in shards.tags.places(bundle.shards()) {
            let object = &mut self.objects[index as usize];
            let deadline = object.deadline.tick();
            // SAFETY: a tag marks an object that has been given out, and `start` has initialised it.
            let value = unsafe { object.value.assume_init() };
            let lifetime = object.lifetime.ticks();
            object.lifetime.note(false);
            let is_refreshed = self.journal.as_mut().is_some_and(|journal| journal.leave(index));
            moved.push(Moved::Object { tag, index, deadline, lifetime, is_refreshed, value });
            self.borrowed -= u32::from(is_borrowed(self.loans.as_deref(), index, tag));
            if shards.tags.release(index) {
                continue;
            }
            *object.deadline.tick_mut() = 0;
            match &mut shards.leases {
                Some(leases) => leases.hand_over(index),
                None => {
                    self.indices.give(index);
                }
            }
        }
        self.look_closely();
        bundle.pack(moved);
    }

    fn put_shards(&mut self, bundle: &mut Bundle, shift: Shift) {
        let Some(shards) = &mut self.shards else { return };
        for one in bundle.unpack() {
            match one {
                Moved::Object { tag, index, deadline, lifetime, is_refreshed, value } => {
                    let mut lifetime = Lifetime::new(lifetime);
                    if let Some(journal) = self.journal.as_deref() {
                        journal.arrive(index, is_refreshed);
                        lifetime.note(is_refreshed);
                    }
                    let deadline = shift.of(deadline);
                    let value = std::mem::MaybeUninit::new(value);
                    let object = Object { deadline: Deadline::new(deadline), lifetime, value };
                    self.objects[index as usize] = object;
                    self.wheel.queue(index, deadline);
                    shards.tags.set(index, tag);
                    self.borrowed += u32::from(is_borrowed(self.loans.as_deref(), index, tag));
                    match &mut shards.leases {
                        Some(leases) => leases.count += 1,
                        // One that all workers had from the start is there already.
                        None => {
                            self.indices.take(index);
                        }
                    }
                }
                Moved::Freed(shard, index) => {
                    shards.tags.clear(index);
                    shards.freed.push((shard, index));
                    if self.indices.give(index) {
                        *self.objects[index as usize].deadline.tick_mut() = 0;
                    }
                }
            }
        }
        self.look_closely();
    }

    fn immovable(&self) -> Option<&'static str> {
        let shards = self.shards.as_ref()?;
        if shards.parts {
            return Some("each shard has its part of its objects");
        }
        let differs = shards.leases.is_some() && self.has_common;
        differs.then_some("what it gave out in all shards alike has another index on each worker")
    }
}

#[cfg(test)]
mod tests;

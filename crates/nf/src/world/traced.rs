//! The world whose state objects say what is asked of them: as plain as Solo otherwise.

use std::ops::{Deref, DerefMut};

use anabranch_packet::{Mode, Packet};

use super::{
    AllocatorOperations, CellOperations, CounterOperations, DistributedOperations, L3Operations,
    MapOperations, Owned, VectorOperations, World,
};
use crate::context::Context;
use crate::function::Occupancy;
use crate::key::{Key, Value};
use crate::l3::L3;
use crate::state::{Allocator, Cell, Counter, Distributed, Map, TableUse, Vector};
use crate::trace::{Call, Event, Parts, hears, note};
use crate::verdict::Verdict;

/// Owned state that leaves a [trace](crate::trace).
pub enum Traced {}

impl World for Traced {
    const HOLLOW: bool = false;
    const TRACED: bool = true;
    type Fixed<S: 'static> = Owned<S>;
    type Map<K: Key, V: Value> = Told<Map<K, V>>;
    type Vector<T: Value> = Told<Vector<T>>;
    type Allocator<T: Value> = Told<Allocator<T>>;
    type Distributed<T: Value> = Told<Distributed<T>>;
    type Cell<T: Value> = Told<Cell<T>>;
    type Counter = Told<Counter>;
    type L3 = Told<L3>;
}

/// A state object that tells what is asked of it.
pub struct Told<T> {
    object: T,
    name: &'static str,
}

impl<T> Told<T> {
    /// `object`, the field `name` of the NF struct.
    pub fn new(name: &'static str, object: T) -> Self {
        Self { object, name }
    }

    fn call(&self, operation: &'static str) -> Call {
        Call { object: self.name, operation, is_noted: hears(), ..Call::default() }
    }
}

impl<T> Deref for Told<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T> DerefMut for Told<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.object
    }
}

impl<T: Occupancy> Occupancy for Told<T> {
    fn table_use(&self, name: &str) -> TableUse {
        self.object.table_use(name)
    }
}

impl Call {
    fn key(mut self, key: &impl Value) -> Self {
        if self.is_noted {
            self.key = Parts::of(key);
        }
        self
    }

    fn stored(mut self, value: &impl Value) -> Self {
        if self.is_noted {
            self.stored = Parts::of(value);
        }
        self
    }

    fn result(mut self, value: &impl Value) -> Self {
        if self.is_noted {
            self.result = Parts::of(value);
        }
        self
    }

    fn outcome(mut self, outcome: bool) -> Self {
        self.outcome = Some(outcome);
        self
    }

    fn found<V: Value>(self, value: Option<V>) -> Self {
        let call = self.outcome(value.is_some());
        match value {
            Some(value) => call.result(&value),
            None => call,
        }
    }

    /// Found `before` and left `after`.
    fn changed<V: Value>(self, change: Option<(V, V)>) -> Self {
        match change {
            Some((before, after)) => self.found(Some(before)).stored(&after),
            None => self.outcome(false),
        }
    }

    fn note(self) {
        if self.is_noted {
            note(Event::Call(self));
        }
    }
}

/// Runs `change` and keeps what it was given and what it left.
fn watched<V: Value>(
    change: impl FnOnce(&mut V),
    seen: &mut Option<(V, V)>,
) -> impl FnOnce(&mut V) {
    move |value| {
        let before = *value;
        change(value);
        *seen = Some((before, *value));
    }
}

impl<K: Key, V: Value> MapOperations<K, V> for Told<Map<K, V>> {
    fn get(&self, key: &K) -> Option<V> {
        let found = self.object.get(key);
        self.call("get").key(key).found(found).note();
        found
    }
    fn contains(&self, key: &K) -> bool {
        let found = self.object.get(key);
        self.call("contains").key(key).found(found).note();
        found.is_some()
    }
    fn insert(&mut self, key: K, value: V) -> bool {
        let stored = self.object.insert(key, value);
        self.call("insert").key(&key).stored(&value).outcome(stored).note();
        stored
    }
    fn remove(&mut self, key: &K) -> Option<V> {
        let found = self.object.remove(key);
        self.call("remove").key(key).found(found).note();
        found
    }
    fn update(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        let mut seen = None;
        let found = self.object.update(key, watched(change, &mut seen));
        self.call("update").key(key).changed(seen).note();
        found
    }
    fn len(&self) -> u32 {
        let len = self.object.len();
        self.call("len").result(&len).note();
        len
    }
}

impl<T: Value> VectorOperations<T> for Told<Vector<T>> {
    fn read(&self, index: u32) -> T {
        let value = self.object.read(index);
        self.call("read").key(&index).result(&value).note();
        value
    }
    fn write(&mut self, index: u32, value: T) {
        self.object.write(index, value);
        self.call("write").key(&index).stored(&value).note();
    }
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) {
        let mut seen = None;
        self.object.update(index, watched(change, &mut seen));
        let call = self.call("update").key(&index);
        match seen {
            Some((before, after)) => call.result(&before).stored(&after).note(),
            None => call.note(),
        }
    }
    /// Its capacity, which the settings say.
    fn len(&self) -> u32 {
        self.object.len()
    }
}

/// What `allocate_within` is asked, as the analysis names it.
fn within([first, count, step, start]: [u32; 4]) -> Parts {
    let mut parts = Parts::default();
    for (name, number) in [("first", first), ("count", count), ("step", step), ("start", start)] {
        parts.field(name, &number);
    }
    parts
}

impl<T: Value> Told<Allocator<T>> {
    fn allocated(call: Call, value: &T, index: Option<u32>) -> Option<u32> {
        let mut call = call.stored(value).outcome(index.is_some());
        if let Some(index) = &index {
            call.result.field("index", index);
        }
        call.note();
        index
    }

    /// The object, whether or not its time is over.
    fn held(&self, index: u32) -> Option<T> {
        self.object.kept(index).map(|kept| kept.value)
    }
}

impl<T: Value> AllocatorOperations<T> for Told<Allocator<T>> {
    fn allocate<W: World>(
        &mut self,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> Option<u32> {
        let index = AllocatorOperations::allocate(&mut self.object, value, lifetime_ns, cx);
        Self::allocated(self.call("allocate"), &value, index)
    }
    fn allocate_at<W: World>(
        &mut self,
        index: u32,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> bool {
        let allocated =
            AllocatorOperations::allocate_at(&mut self.object, index, value, lifetime_ns, cx);
        self.call("allocate_at").key(&index).stored(&value).outcome(allocated).note();
        allocated
    }
    fn allocate_within<W: World>(
        &mut self,
        first: u32,
        count: u32,
        step: u32,
        start: u32,
        value: T,
        lifetime_ns: u64,
        cx: &Context<'_, W>,
    ) -> Option<u32> {
        let object = &mut self.object;
        let index = AllocatorOperations::allocate_within(
            object,
            first,
            count,
            step,
            start,
            value,
            lifetime_ns,
            cx,
        );
        let call =
            Call { key: within([first, count, step, start]), ..self.call("allocate_within") };
        Self::allocated(call, &value, index)
    }
    fn free(&mut self, index: u32) -> bool {
        let call = self.call("free").key(&index).found(self.held(index));
        let found = self.object.free(index);
        call.outcome(found).note();
        found
    }
    fn refresh<W: World>(&mut self, index: u32, lifetime_ns: u64, cx: &Context<'_, W>) -> bool {
        let call = self.call("refresh").key(&index).found(self.held(index));
        let found = AllocatorOperations::refresh(&mut self.object, index, lifetime_ns, cx);
        call.outcome(found).note();
        found
    }
    fn touch<W: World>(&mut self, index: u32, cx: &Context<'_, W>) -> Option<T> {
        let found = AllocatorOperations::touch(&mut self.object, index, cx);
        self.call("touch").key(&index).found(found).note();
        found
    }
    fn is_allocated<W: World>(&self, index: u32, cx: &Context<'_, W>) -> bool {
        let found = AllocatorOperations::get(&self.object, index, cx);
        self.call("is_allocated").key(&index).found(found).note();
        found.is_some()
    }
    fn get<W: World>(&self, index: u32, cx: &Context<'_, W>) -> Option<T> {
        let found = AllocatorOperations::get(&self.object, index, cx);
        self.call("get").key(&index).found(found).note();
        found
    }
    fn set(&mut self, index: u32, value: T) -> bool {
        let call = self.call("set").key(&index).found(self.held(index));
        let found = self.object.set(index, value);
        call.stored(&value).outcome(found).note();
        found
    }
    fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) -> bool {
        let mut seen = None;
        let found = self.object.update(index, watched(change, &mut seen));
        self.call("update").key(&index).changed(seen).note();
        found
    }
    fn len(&self) -> u32 {
        let len = self.object.len();
        self.call("len").result(&len).note();
        len
    }
}

impl<T: Value> DistributedOperations<T> for Told<Distributed<T>> {
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        let mut seen = None;
        self.object.update(watched(change, &mut seen));
        self.whole("update", seen);
    }
    fn read(&self) -> T {
        let value = self.object.read();
        self.call("read").result(&value).note();
        value
    }
}

impl<T> Told<T> {
    fn whole<V: Value>(&self, operation: &'static str, seen: Option<(V, V)>) {
        if let Some((before, after)) = seen {
            self.call(operation).result(&before).stored(&after).note();
        }
    }
}

impl<T: Value> CellOperations<T> for Told<Cell<T>> {
    fn get(&self) -> T {
        let value = self.object.get();
        self.call("get").result(&value).note();
        value
    }
    fn set(&mut self, value: T) {
        self.object.set(value);
        self.call("set").stored(&value).note();
    }
    fn update(&mut self, change: impl FnOnce(&mut T)) {
        let mut seen = None;
        self.object.update(watched(change, &mut seen));
        self.whole("update", seen);
    }
}

impl CounterOperations for Told<Counter> {
    fn add(&mut self, n: u64) {
        self.object.add(n);
        self.call("add").stored(&n).note();
    }
    fn read(&self) -> u64 {
        let count = self.object.read();
        self.call("read").result(&count).note();
        count
    }
}

impl L3Operations for Told<L3> {
    fn enabled(&self) -> bool {
        let enabled = self.object.enabled();
        self.call("enabled").outcome(enabled).note();
        enabled
    }
    fn admit<W: World, M: Mode>(
        &self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        let verdict = self.object.admit(packet, cx);
        self.call("admit").outcome(verdict.is_some()).note();
        verdict
    }
    fn leads_nowhere<M: Mode>(&self, packet: &Packet<'_, M>) -> bool {
        let back = self.object.leads_nowhere(packet);
        self.call("leads_nowhere").outcome(back).note();
        back
    }
    fn receive<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Option<Verdict> {
        let verdict = self.object.receive(packet, cx);
        self.call("receive").outcome(verdict.is_some()).note();
        verdict
    }
    fn forward<W: World, M: Mode>(
        &mut self,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, W>,
    ) -> Verdict {
        let verdict = self.object.forward(packet, cx);
        let mut call = self.call("forward").outcome(matches!(verdict, Verdict::Forward(_)));
        if let Verdict::Forward(port) = verdict {
            call.result.field("port", &port);
        }
        call.note();
        verdict
    }
    fn follow_up<W: World>(&mut self, cx: &mut Context<'_, W>) {
        self.object.follow_up(cx);
    }
}

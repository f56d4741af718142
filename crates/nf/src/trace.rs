//! What handlers of the [`Traced`](crate::world::Traced) world do, operation by operation: which call
//! path a packet takes follows from it, and nothing has to be guessed from outside.
//!
//! A trace belongs to the thread: instances that are traced take turns.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, Ipv6Addr};

use anabranch_packet::{MacAddr, Mode, Packet};

use crate::key::Value;
use crate::verdict::Verdict;

/// The numbers that a value is made of, by name: empty for the whole value, `.port` for a field of it,
/// `.value` for what an `Option` holds. Booleans are 0 and 1, variants count from 0, signed integers are
/// two's complement in their width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    all: Vec<(String, u128)>,
    /// Of those among them that are written in a form of their own, by their places, in which.
    forms: Vec<(usize, Form)>,
    within: String,
}

/// How a number is written that is not one to who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    V4,
    V6,
    Mac,
    /// The variant of this name.
    Variant(&'static str),
}

impl Parts {
    /// Those of `value`.
    pub fn of<V: Value>(value: &V) -> Self {
        let mut parts = Self::default();
        value.parts(&mut parts);
        parts
    }

    /// Takes the number of the part that is being described.
    pub fn leaf(&mut self, number: u128) {
        self.all.push((self.within.clone(), number));
    }

    /// The same of a number that is written in a form of its own.
    pub(crate) fn formed(&mut self, number: u128, form: Form) {
        self.forms.push((self.all.len(), form));
        self.leaf(number);
    }

    /// The same of the variant `name`, the `number`th from 0.
    pub fn variant(&mut self, number: u128, name: &'static str) {
        self.formed(number, Form::Variant(name));
    }

    /// Describes the part `name` of it.
    pub fn field(&mut self, name: &str, part: &impl Value) {
        let before = self.within.len();
        self.within.push('.');
        self.within.push_str(name);
        part.parts(self);
        self.within.truncate(before);
    }

    /// Each by its name, in order.
    pub fn all(&self) -> &[(String, u128)] {
        &self.all
    }

    /// How the part at `place` in [`all`](Self::all) is written, if not as a number.
    pub fn written(&self, place: usize) -> Option<String> {
        let (_, number) = self.all.get(place)?;
        let (_, form) = self.forms.iter().find(|(at, _)| *at == place)?;
        Some(match form {
            Form::V4 => Ipv4Addr::from_bits(*number as u32).to_string(),
            Form::V6 => Ipv6Addr::from_bits(*number).to_string(),
            Form::Variant(name) => (*name).to_owned(),
            Form::Mac => {
                let [.., a, b, c, d, e, f] = number.to_be_bytes();
                MacAddr::from([a, b, c, d, e, f]).to_string()
            }
        })
    }
}

/// A packet at the beginning or the end of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Number of the port at which it arrived.
    pub port: u8,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Bytes on the wire.
    pub wire_len: u32,
}

impl Seen {
    fn of<M: Mode>(packet: &Packet<'_, M>) -> Self {
        let (port, wire_len) = (packet.port().index(), packet.len());
        Self { port, bytes: packet.bytes().to_vec(), wire_len }
    }
}

/// An operation of a state object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The field of the NF struct.
    pub object: &'static str,
    /// The operation.
    pub operation: &'static str,
    /// The key or the index.
    pub key: Parts,
    /// What was stored.
    pub stored: Parts,
    /// Whether there was an entry, or whether it was stored or allocated; `None`: the operation does not
    /// say.
    pub outcome: Option<bool>,
    /// What was read, and the index that was allocated.
    pub result: Parts,
    /// Whether it is noted: a handler's first [`CALLS`] are.
    pub(crate) is_noted: bool,
}

/// Calls of one handler that are noted; the rest of a long loop is not.
pub const CALLS: usize = 256;

/// Something that a handler does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A handler begins.
    Enter {
        /// Its name.
        handler: &'static str,
        /// The time, nanoseconds since the Unix epoch.
        now_ns: u64,
        /// What it is given besides a packet: the state of a packet set, a token, an object.
        given: Parts,
        /// Its packet.
        packet: Option<Seen>,
    },
    /// It asks a state object.
    Call(Call),
    /// It draws a number.
    Random(u64),
    /// It ends.
    Leave {
        /// What becomes of its packet.
        verdict: Option<Verdict>,
        /// The state that it leaves its packet set in.
        set: Parts,
        /// Its packet.
        packet: Option<Seen>,
    },
}

thread_local! {
    static TRACE: RefCell<Vec<Event>> = const { RefCell::new(Vec::new()) };
    /// Calls that the handler may still have noted.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// What has happened on this thread since the last call.
pub fn take() -> Vec<Event> {
    TRACE.take()
}

/// Whether the next call is noted.
pub(crate) fn hears() -> bool {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(1));
    left > 0
}

pub(crate) fn note(event: Event) {
    TRACE.with_borrow_mut(|trace| trace.push(event));
}

/// Runs a handler of a packet; `set` is the state of its packet set.
pub fn packet<S: Value, M: Mode>(
    handler: &'static str,
    now_ns: u64,
    set: &mut S,
    packet: &mut Packet<'_, M>,
    run: impl FnOnce(&mut S, &mut Packet<'_, M>) -> Verdict,
) -> Verdict {
    enter(handler, now_ns, &*set, Some(Seen::of(packet)));
    let verdict = run(set, packet);
    leave(Some(verdict), &*set, Some(Seen::of(packet)));
    verdict
}

/// Runs `packet_set_opened`; a set is opened in the state that is left.
///
/// # Errors
/// The verdict of a handler that declines.
pub fn opened<S: Value, M: Mode>(
    now_ns: u64,
    packet: &mut Packet<'_, M>,
    run: impl FnOnce(&mut Packet<'_, M>) -> Result<S, Verdict>,
) -> Result<S, Verdict> {
    enter("packet_set_opened", now_ns, &(), Some(Seen::of(packet)));
    let opened = run(packet);
    match &opened {
        Ok(state) => leave(None, state, Some(Seen::of(packet))),
        Err(verdict) => leave(Some(*verdict), &(), Some(Seen::of(packet))),
    }
    opened
}

/// Runs a handler without a packet, which is given `given`.
pub fn other<R>(
    handler: &'static str,
    now_ns: u64,
    given: &impl Value,
    run: impl FnOnce() -> R,
) -> R {
    enter(handler, now_ns, given, None);
    let result = run();
    leave(None, &(), None);
    result
}

fn enter(handler: &'static str, now_ns: u64, given: &impl Value, packet: Option<Seen>) {
    LEFT.set(CALLS);
    note(Event::Enter { handler, now_ns, given: Parts::of(given), packet });
}

fn leave(verdict: Option<Verdict>, set: &impl Value, packet: Option<Seen>) {
    LEFT.set(0);
    note(Event::Leave { verdict, set: Parts::of(set), packet });
}

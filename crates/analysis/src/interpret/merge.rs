//! Branches that only compute or set header fields are not paths of their own: their outcomes are joined into one
//! value each, `if condition then … else …`. A branch becomes a path where it touches state, decides the verdict,
//! or asks which headers the packet has.

use std::rc::Rc;

use super::packet::FieldName;
use super::place::choose;
use super::types::Scalar;
use super::value::{Slot, Value};
use super::{Eval, Exit, Interpreter, Stop, exit};
use crate::access::Part;
use crate::expr::{Kind, Node, Sort, Term};

/// Outcomes joined into one value at most; more become paths.
const OUTCOMES: usize = 64;

/// Decisions taken inside something that only computes, so far.
#[derive(Default)]
pub(crate) struct Layer {
    decisions: Vec<Decision>,
    next: usize,
    written: Vec<Written>,
    set: Vec<(FieldName, FieldNow)>,
}

/// A header field's value and the line that set it; `None`: as it arrived.
type FieldNow = Option<(Term, u32)>;

#[derive(Clone, Copy)]
struct Decision {
    condition: Term,
    taken: bool,
    open: bool,
}

/// A local as it was before the first write to it.
struct Written {
    slot: Slot,
    before: Value,
    line_before: u32,
}

/// One way through: what was decided, the value, the locals and the header fields it left changed.
struct Outcome {
    decisions: Vec<(Term, bool)>,
    value: Value,
    changes: Vec<(Slot, Value, u32)>,
    fields: Vec<(FieldName, (Term, u32))>,
}

enum Outcomes {
    All(Vec<Outcome>),
    TooMany,
    Impure,
}

impl<'p> Interpreter<'p> {
    /// The value of a computation with all its outcomes joined; `None` where it does more than
    /// compute, or its outcomes have no common form.
    pub(crate) fn merged(&mut self, body: impl Fn(&mut Self) -> Eval) -> Eval<Option<Value>> {
        if !self.explorer.explores() {
            return Ok(None);
        }
        let ahead = std::mem::replace(&mut self.ahead, false);
        let (here, verdict_line) = (self.here, self.run.verdict_line);
        self.layers.push(Layer::default());
        let outcomes = self.outcomes(&body);
        self.layers.pop();
        self.ahead = ahead;
        let joined = match outcomes? {
            Outcomes::All(outcomes) => self.join(&outcomes)?,
            Outcomes::TooMany => None,
            // What is around it only computes, or is evaluated ahead: it fails at once, not after
            // another try.
            Outcomes::Impure if self.ahead || !self.layers.is_empty() => {
                return Err(exit(Stop::Impure));
            }
            Outcomes::Impure => None,
        };
        if joined.is_none() {
            (self.here, self.run.verdict_line) = (here, verdict_line);
        }
        Ok(joined)
    }

    fn outcomes(&mut self, body: &impl Fn(&mut Self) -> Eval) -> Eval<Outcomes> {
        let mut outcomes = Vec::new();
        loop {
            match self.outcome(body) {
                Ok(outcome) => outcomes.push(outcome),
                Err(stopped) if matches!(*stopped, Exit::Stop(Stop::Solver(_))) => {
                    return Err(stopped);
                }
                Err(_) => return Ok(Outcomes::Impure),
            }
            if outcomes.len() > OUTCOMES {
                return Ok(Outcomes::TooMany);
            }
            if !self.layers.last_mut().is_some_and(Layer::advance) {
                return Ok(Outcomes::All(outcomes));
            }
        }
    }

    /// One way through the body; locals and header fields are put back as they were.
    fn outcome(&mut self, body: &impl Fn(&mut Self) -> Eval) -> Eval<Outcome> {
        let frames = self.frames.len();
        let locals = self.frame().locals.len();
        let result = body(self);
        self.frames.truncate(frames);
        self.frame().locals.truncate(locals);
        let Some(layer) = self.layers.last_mut() else {
            return super::stop(Stop::Impure);
        };
        let taken = layer.decisions[..layer.next].iter();
        let decisions = taken.map(|made| (made.condition, made.taken)).collect();
        layer.next = 0;
        let changes = std::mem::take(&mut layer.written).into_iter().rev().map(undone).collect();
        let set = std::mem::take(&mut layer.set);
        let fields = set.into_iter();
        let fields =
            fields.filter_map(|(field, before)| Some((field, self.put_back(field, before)?)));
        let fields = fields.collect();
        Ok(Outcome { decisions, value: result?, changes, fields })
    }

    /// Which way a condition goes inside something that only computes.
    pub(crate) fn decide_locally(&mut self, condition: Term) -> Eval<bool> {
        if self.asks_for_headers(condition) {
            return super::stop(Stop::Impure);
        }
        let negated = self.terms.not(condition);
        for layer in self.layers.iter().rev() {
            for made in &layer.decisions[..layer.next] {
                if made.condition == condition {
                    return Ok(made.taken);
                }
                if made.condition == negated {
                    return Ok(!made.taken);
                }
            }
        }
        match self.layers.last_mut() {
            Some(layer) => Ok(layer.decide(condition)),
            None => super::stop(Stop::Impure),
        }
    }

    /// Conditions on headers are packet classes: each is a path of its own.
    fn asks_for_headers(&self, condition: Term) -> bool {
        let unknowns = self.terms.unknowns(condition);
        unknowns.iter().any(|id| self.terms.symbol_of(*id).kind == Kind::Presence)
    }

    /// Makes paths of a choice between values, where the value names an entry: keys are plain.
    pub(crate) fn split(&mut self, mut term: Term) -> Eval<Term> {
        while let Node::Ite(condition, one, other) = *self.terms.node(term) {
            term = if self.decide(condition)? { one } else { other };
        }
        Ok(term)
    }

    /// [`split`](Self::split) for each part of a key.
    pub(crate) fn split_parts(&mut self, parts: Vec<Part>) -> Eval<Vec<Part>> {
        let split = |part: Part| Ok(Part { term: self.split(part.term)?, ..part });
        parts.into_iter().map(split).collect()
    }

    /// What has been decided inside computations in progress.
    pub(crate) fn local_conditions(&mut self) -> Term {
        let made: Vec<(Term, bool)> = self
            .layers
            .iter()
            .flat_map(|layer| &layer.decisions[..layer.next])
            .map(|made| (made.condition, made.taken))
            .collect();
        let mut all = self.terms.bool(true);
        for (condition, taken) in made {
            let held = if taken { condition } else { self.terms.not(condition) };
            all = self.terms.both(all, held);
        }
        all
    }

    /// Notes a local about to be written, so that another outcome starts from what it was.
    pub(crate) fn note_write(&mut self, slot: &Slot) {
        let Some(layer) = self.layers.last_mut() else {
            return;
        };
        if !layer.written.iter().any(|written| Rc::ptr_eq(&written.slot, slot)) {
            layer.written.push(Written {
                slot: slot.clone(),
                before: slot.value.borrow().clone(),
                line_before: slot.written_at.get(),
            });
        }
    }

    /// The same of a header field about to be set.
    pub(crate) fn note_field(&mut self, field: FieldName) {
        let before = self.run.fields.get(&field).copied();
        if let Some(layer) = self.layers.last_mut()
            && !layer.set.iter().any(|(known, _)| *known == field)
        {
            layer.set.push((field, before));
        }
    }

    /// Puts a header field back as it was; returns what it had become.
    fn put_back(&mut self, field: FieldName, before: FieldNow) -> FieldNow {
        match before {
            Some(before) => self.run.fields.insert(field, before),
            None => self.run.fields.remove(&field),
        }
    }

    /// Header fields that outcomes set, each with the joined value and the line; `None`: no common form.
    fn joined_fields(&mut self, outcomes: &[Outcome]) -> Option<Vec<(FieldName, (Term, u32))>> {
        let mut names: Vec<FieldName> =
            outcomes.iter().flat_map(|outcome| &outcome.fields).map(|(field, _)| *field).collect();
        names.sort_unstable();
        names.dedup();
        let mut joined = Vec::new();
        for field in names {
            let before = self.field_now(field);
            let set: Vec<_> = outcomes.iter().map(|outcome| outcome.field(field)).collect();
            let line = set.iter().flatten().last().map_or(0, |(_, line)| *line);
            let values = set.iter().map(|now| self.as_value(now.map_or(before, |(term, _)| term)));
            let values: Vec<Value> = values.collect();
            match self.joined(outcomes, &values, 0)? {
                Value::Bool(term) | Value::Scalar(_, term) => joined.push((field, (term, line))),
                _ => return None,
            }
        }
        Some(joined)
    }

    fn as_value(&self, term: Term) -> Value {
        match self.terms.sort(term) {
            Sort::Bool => Value::Bool(term),
            Sort::Bits(width) => Value::Scalar(Scalar::Unsigned(width), term),
        }
    }

    fn join(&mut self, outcomes: &[Outcome]) -> Eval<Option<Value>> {
        let slots = changed_slots(outcomes);
        let mut writes = Vec::new();
        for slot in slots {
            let before = slot.value.borrow().clone();
            let values: Vec<Value> =
                outcomes.iter().map(|outcome| outcome.value_of(&slot, &before)).collect();
            let Some(value) = self.joined(outcomes, &values, 0) else {
                return Ok(None);
            };
            let line = outcomes.iter().find_map(|outcome| outcome.line_of(&slot));
            writes.push((slot, value, line.unwrap_or(0)));
        }
        let values: Vec<Value> = outcomes.iter().map(|outcome| outcome.value.clone()).collect();
        let Some(value) = self.joined(outcomes, &values, 0) else {
            return Ok(None);
        };
        let Some(fields) = self.joined_fields(outcomes) else {
            return Ok(None);
        };
        if self.ahead && !(writes.is_empty() && fields.is_empty()) {
            return Err(exit(Stop::Impure));
        }
        for (field, joined) in fields {
            self.note_field(field);
            self.run.fields.insert(field, joined);
        }
        for (slot, value, line) in writes {
            self.note_write(&slot);
            if slot.written_at.get() == 0 {
                slot.written_at.set(line);
            }
            *slot.value.borrow_mut() = value;
        }
        Ok(Some(value))
    }

    /// The values of outcomes that agree on their first `depth` decisions, as one.
    fn joined(&mut self, outcomes: &[Outcome], values: &[Value], depth: usize) -> Option<Value> {
        let first = outcomes.first()?;
        if outcomes.len() == 1 {
            return values.first().cloned();
        }
        let (condition, _) = *first.decisions.get(depth)?;
        let split = outcomes.iter().take_while(|outcome| {
            outcome
                .decisions
                .get(depth)
                .is_some_and(|(_, taken)| *taken == first.decisions[depth].1)
        });
        let split = split.count();
        let one = self.joined(&outcomes[..split], &values[..split], depth + 1)?;
        let other = self.joined(&outcomes[split..], &values[split..], depth + 1)?;
        let (one, other) = match first.decisions[depth].1 {
            true => (one, other),
            false => (other, one),
        };
        choose(condition, &one, &other, &mut self.terms)
    }
}

impl Layer {
    fn decide(&mut self, condition: Term) -> bool {
        if self.next == self.decisions.len() {
            self.decisions.push(Decision { condition, taken: true, open: true });
        }
        self.next += 1;
        self.decisions[self.next - 1].taken
    }

    fn advance(&mut self) -> bool {
        while let Some(last) = self.decisions.last_mut() {
            if last.open {
                last.open = false;
                last.taken = false;
                return true;
            }
            self.decisions.pop();
        }
        false
    }
}

/// Puts a local back as it was; returns what it had become.
fn undone(written: Written) -> (Slot, Value, u32) {
    let Written { slot, before, line_before } = written;
    let after = slot.value.replace(before);
    let line = slot.written_at.replace(line_before);
    (slot, after, line)
}

/// Locals changed by any outcome that something else still sees.
fn changed_slots(outcomes: &[Outcome]) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::new();
    for (slot, _, _) in outcomes.iter().flat_map(|outcome| &outcome.changes) {
        if !slots.iter().any(|known| Rc::ptr_eq(known, slot)) {
            slots.push(slot.clone());
        }
    }
    let holders = |slot: &Slot| {
        let changes = outcomes.iter().flat_map(|outcome| &outcome.changes);
        changes.filter(|(changed, ..)| Rc::ptr_eq(changed, slot)).count() + 1
    };
    let seen: Vec<bool> = slots.iter().map(|slot| Rc::strong_count(slot) > holders(slot)).collect();
    slots.into_iter().zip(seen).filter(|(_, seen)| *seen).map(|(slot, _)| slot).collect()
}

impl Outcome {
    fn value_of(&self, slot: &Slot, before: &Value) -> Value {
        let mut changes = self.changes.iter();
        let changed = changes.find(|(changed, ..)| Rc::ptr_eq(changed, slot));
        changed.map_or_else(|| before.clone(), |(_, value, _)| value.clone())
    }

    /// What it has set a header field to, and the line.
    fn field(&self, field: FieldName) -> FieldNow {
        self.fields.iter().find(|(set, _)| *set == field).map(|(_, now)| *now)
    }

    fn line_of(&self, slot: &Slot) -> Option<u32> {
        let mut changes = self.changes.iter();
        changes.find(|(changed, ..)| Rc::ptr_eq(changed, slot)).map(|(.., line)| *line)
    }
}

//! Loops.

mod alike;

use std::rc::Rc;

pub(crate) use alike::Alike;

use super::types::{Scalar, Type};
use super::value::{List, Place, Range, Slot, Step, Value, Window};
use super::{Eval, Exit, Interpreter, Stop};
use crate::access::Mode;
use crate::expr::{Kind, Sort, TURN, Term};
use crate::hash::FastMap;
use crate::proofs::{LOCAL, Values};

/// How an iteration ended.
enum Turn {
    Next,
    Left(Value),
}

/// A local: how many calls its frame is from the innermost, its place there, its name.
type Local = (usize, usize, String);

/// What turns of loops leave to the next ones, where any turn is a path of its own: locals, which may hold anything
/// of their type when a turn begins.
#[derive(Default)]
pub(crate) struct Carried {
    /// By line of the loop.
    locals: FastMap<(u32, Local), Type>,
    /// What is proved of them.
    pub(crate) values: Vec<Values>,
    /// More of them, which what has been followed did not know of.
    found: FastMap<(u32, Local), Type>,
}

impl Carried {
    /// Takes in what has been found; whether that is anything.
    pub(crate) fn grow(&mut self) -> bool {
        let before = self.locals.len();
        self.locals.extend(self.found.drain());
        self.locals.len() > before
    }
}

/// What a carried local is called, as if it were a state object.
fn carried(line: u32, (frame, at, name): &Local) -> String {
    format!("{name} {frame} {at} on {line}")
}

/// Has no slot be written so far, and returns where they had been.
fn unmarked(slots: &[(Local, Slot)]) -> Vec<u32> {
    slots.iter().map(|(_, slot)| slot.written_at.replace(0)).collect()
}

/// Slots that had been written before are marked as they were.
fn marked_again(slots: &[(Local, Slot)], marks: &[u32]) {
    for ((_, slot), line) in slots.iter().zip(marks).filter(|(_, line)| **line != 0) {
        slot.written_at.set(*line);
    }
}

/// The slots that a value refers to.
fn referred(value: &Value) -> Vec<Slot> {
    match value {
        Value::Reference(place) => vec![place.slot.clone()],
        Value::Tuple(parts)
        | Value::Array(parts)
        | Value::Struct(_, parts)
        | Value::Items(parts) => parts.iter().flat_map(referred).collect(),
        Value::Enum(value) => {
            let payloads = value.payloads.iter().flatten();
            payloads.flatten().flat_map(referred).collect()
        }
        _ => Vec::new(),
    }
}

/// A loop whose end is unknown.
enum Endless<'p, 's> {
    For(&'p syn::ExprForLoop, &'s Sequence),
    While(&'p syn::ExprWhile),
}

/// What a `for` goes over.
enum Sequence {
    Known(Rc<Vec<Value>>),
    Range { start: Term, end: Term, scalar: Option<Scalar>, inclusive: bool, step: u64 },
    List(Rc<List>),
    Payload(Window),
}

impl<'p> Interpreter<'p> {
    pub(crate) fn forever(&mut self, forever: &'p syn::ExprLoop) -> Eval {
        let own = forever.label.as_ref();
        for _ in 0..self.explorer.budget.iterations {
            match self.turn(&forever.body, own)? {
                Turn::Next => {}
                Turn::Left(value) => return Ok(value),
            }
        }
        self.at(forever.loop_token.span);
        let limit = self.explorer.budget.iterations;
        self.error(format!(
            "this loop goes on after {limit} iterations: give it a smaller bound; where its end is unknown, \
             write `while condition {{ … }}`"
        ))
    }

    pub(crate) fn repeat_while(&mut self, repeated: &'p syn::ExprWhile) -> Eval {
        let mut unknown = 0;
        for _ in 0..=self.explorer.budget.iterations {
            let depth = self.frame().locals.len();
            let condition = self.condition_of(repeated)?;
            self.at(repeated.while_token.span);
            if self.loops_apart && self.known(condition).is_none() {
                self.frame().locals.truncate(depth);
                return self.any_turn(&Endless::While(repeated));
            }
            if self.known(condition).is_none()
                && self.are_alike(&repeated.body, Some(&repeated.cond))
            {
                self.frame().locals.truncate(depth);
                return self.last_turn(&Endless::While(repeated), condition);
            }
            let turn = match self.goes_on(condition, &mut unknown)? {
                true => self.turn(&repeated.body, repeated.label.as_ref())?,
                false => Turn::Left(Value::Unit),
            };
            self.frame().locals.truncate(depth);
            if let Turn::Left(value) = turn {
                return Ok(value);
            }
        }
        self.at(repeated.while_token.span);
        self.too_long()
    }

    /// The condition of a turn; where any turn is a path of its own it is asked once more there, so that it must
    /// not change what it looks at.
    fn condition_of(&mut self, repeated: &'p syn::ExprWhile) -> Eval<Term> {
        if !self.loops_apart {
            return self.condition(&repeated.cond);
        }
        let slots = self.slots();
        let marks = unmarked(&slots);
        let condition = self.condition(&repeated.cond);
        let changes = slots.iter().any(|(_, slot)| slot.written_at.get() != 0);
        marked_again(&slots, &marks);
        match changes {
            true => self.error("the condition of this loop changes what it looks at"),
            false => condition,
        }
    }

    pub(crate) fn for_each(&mut self, each: &'p syn::ExprForLoop) -> Eval {
        let over = self.value(&each.expr)?;
        self.at(each.for_token.span);
        let sequence = self.sequence(over)?;
        if self.loops_apart && !matches!(sequence, Sequence::Known(_)) {
            return self.any_turn(&Endless::For(each, &sequence));
        }
        let mut unknown = 0;
        for position in 0..=self.explorer.budget.iterations {
            let here = self.here;
            if let Some(inside) = self.inside(&sequence, position)
                && self.known(inside).is_none()
                && self.are_alike(&each.body, None)
            {
                return self.last_turn(&Endless::For(each, &sequence), inside);
            }
            let Some(item) = self.item(&sequence, position, &mut unknown)? else {
                return Ok(Value::Unit);
            };
            let turn = self.scoped(|this| {
                let matched = this.match_value(&each.pat, item)?;
                this.implied(matched)?;
                this.turn(&each.body, each.label.as_ref())
            })?;
            self.here = here;
            if let Turn::Left(value) = turn {
                return Ok(value);
            }
        }
        self.too_long()
    }

    /// Paths up to a loop, of any one turn of it, and of what comes after it, each from whatever state and locals
    /// the turns before have left; refused where a turn leaves more.
    fn any_turn(&mut self, endless: &Endless<'p, '_>) -> Eval {
        self.effect()?;
        if self.run.open > 0 {
            return self.error("what a turn of this loop writes is perhaps not seen");
        }
        self.run.loops += 1;
        let line = self.line();
        let slots = self.slots();
        if self.chosen("begins")? {
            self.leave_to_next(line, &slots)?;
            return super::stop(Stop::Cut);
        }
        self.run.memory.clear();
        self.run.cut = self.run.accesses.len();
        self.carry(line, &slots)?;
        let goes_round = self.chosen("goes round")?;
        if let (Endless::While(repeated), false) = (endless, goes_round) {
            return self.ends(repeated);
        }
        if !goes_round {
            return Ok(Value::Unit);
        }
        let marks = unmarked(&slots);
        let fields = self.run.fields.clone();
        let turn = self.one_turn(endless);
        // Also where a turn leaves for a loop around this one, which has to see what has been written.
        self.carried_by(line, &slots);
        marked_again(&slots, &marks);
        match turn? {
            Turn::Left(value) => Ok(value),
            Turn::Next if fields != self.run.fields => {
                self.error("a turn of this loop changes the packet")
            }
            Turn::Next => {
                self.leave_to_next(line, &slots)?;
                super::stop(Stop::Cut)
            }
        }
    }

    /// A turn with any element of what the loop goes over, or in which its condition holds.
    fn one_turn(&mut self, endless: &Endless<'p, '_>) -> Eval<Turn> {
        match *endless {
            Endless::For(each, sequence) => {
                let item = self.any_item(sequence)?;
                self.scoped(|this| {
                    let matched = this.match_value(&each.pat, item)?;
                    this.implied(matched)?;
                    this.turn(&each.body, each.label.as_ref())
                })
            }
            Endless::While(repeated) => self.scoped(|this| {
                let condition = this.condition(&repeated.cond)?;
                this.implied(condition)?;
                this.turn(&repeated.body, repeated.label.as_ref())
            }),
        }
    }

    /// After the last turn of a `while`.
    fn ends(&mut self, repeated: &'p syn::ExprWhile) -> Eval {
        let depth = self.frame().locals.len();
        let condition = self.condition(&repeated.cond)?;
        self.frame().locals.truncate(depth);
        let ends = self.terms.not(condition);
        self.implied(ends)?;
        Ok(Value::Unit)
    }

    /// All that a turn of a loop can change besides state: locals, and the state of the packet's set.
    fn slots(&self) -> Vec<(Local, Slot)> {
        let mut all = Vec::new();
        for (frame, of) in self.frames.iter().rev().enumerate() {
            let locals = of.locals.iter().map(|(name, slot)| (name.to_string(), slot));
            let receiver = of.receiver.iter().map(|slot| ("self".to_owned(), slot));
            let named = locals.chain(receiver).enumerate();
            all.extend(named.map(|(at, (name, slot))| ((frame, at, name), slot.clone())));
        }
        let set = self.run.set.iter();
        all.extend(set.map(|set| ((usize::MAX, 0, String::new()), set.clone())));
        // What locals refer to, if it is no local itself.
        let mut at = 0;
        while let Some(((frame, place, name), slot)) = all.get(at).cloned() {
            for target in referred(&slot.value.borrow()) {
                if !all.iter().any(|(_, known)| Rc::ptr_eq(known, &target)) {
                    let number = all.len();
                    all.push(((frame, place, format!("{name}, referred to, {number}")), target));
                }
            }
            at += 1;
        }
        all
    }

    /// What turns of the loop on this line change may be anything.
    fn carry(&mut self, line: u32, slots: &[(Local, Slot)]) -> Eval<()> {
        for (local, slot) in slots {
            let known = self.carried.locals.get(&(line, local.clone()));
            let Some(of) = known.cloned() else { continue };
            let before = slot.value.borrow().clone();
            if !referred(&before).is_empty() || !self.type_of(&before).may_be(&of) {
                return self.error("what a turn of this loop changes is not known");
            }
            let object = carried(line, local);
            let any = self.unknown(&format!("{object}, {}th", self.run.loops), &of, &[])?;
            let parts = self.parts(&any, "")?;
            self.assume_own(&object, None, &parts)?;
            let access = self.record_of((object, LOCAL), "get", Mode::Read, Vec::new());
            self.run.accesses[access].result = parts;
            slot.value.replace(any);
            if slot.written_at.get() == 0 {
                slot.written_at.set(line);
            }
        }
        Ok(())
    }

    /// Notes what locals hold when the next turn begins, as accesses to state of which there is one.
    fn leave_to_next(&mut self, line: u32, slots: &[(Local, Slot)]) -> Eval<()> {
        for (local, slot) in slots {
            if self.carried.locals.contains_key(&(line, local.clone())) {
                let value = slot.value.borrow().clone();
                let parts = self.parts(&value, "")?;
                let of = (carried(line, local), LOCAL);
                let access = self.record_of(of, "set", Mode::Write, Vec::new());
                self.run.accesses[access].value = parts;
            }
        }
        Ok(())
    }

    /// Notes what a turn of the loop on this line has changed.
    fn carried_by(&mut self, line: u32, slots: &[(Local, Slot)]) {
        for (local, slot) in slots.iter().filter(|(_, slot)| slot.written_at.get() != 0) {
            let local = (line, local.clone());
            if !self.carried.locals.contains_key(&local) {
                let of = self.type_of(&slot.value.borrow());
                self.carried.found.insert(local, of);
            }
        }
    }

    /// Whether this path is the one that stops where the loop `does` so.
    fn chosen(&mut self, does: &str) -> Eval<bool> {
        let name = format!("loop {} {does}, the {}th", self.line(), self.run.loops);
        let chosen = self.terms.symbol(&name, Sort::Bool, Kind::Number);
        self.decide(chosen)
    }

    /// Any element of a sequence.
    fn any_item(&mut self, sequence: &Sequence) -> Eval {
        let name = format!("{TURN}{} ({})", self.line(), self.run.loops);
        let mut any = |width| self.terms.symbol(&name, Sort::Bits(width), Kind::Number);
        match sequence {
            Sequence::Range { start, end, scalar: Some(scalar), inclusive, .. } => {
                let here = any(scalar.width());
                let inside = self.less_terms(!inclusive, scalar.is_signed(), here, *end);
                let begun = self.less_terms(false, scalar.is_signed(), *start, here);
                self.assume(inside)?;
                self.assume(begun)?;
                Ok(Value::Scalar(*scalar, here))
            }
            Sequence::List(list) => {
                let index = any(32);
                let inside = self.less_terms(true, false, index, list.length);
                self.assume(inside)?;
                self.list_element(list, index)
            }
            Sequence::Payload(window) => {
                let index = any(64);
                Ok(self.payload_byte(*window, index))
            }
            _ => self.error("the elements of this loop are not of one kind"),
        }
    }

    fn too_long(&self) -> Eval {
        let limit = self.explorer.budget.iterations;
        self.error(format!("this loop goes on after {limit} iterations: give it a smaller bound"))
    }

    fn turn(&mut self, body: &'p syn::Block, own: Option<&syn::Label>) -> Eval<Turn> {
        let ours = |named: &Option<String>| match (named, own) {
            (None, _) => true,
            (Some(named), Some(own)) => own.name.ident == named.as_str(),
            (Some(_), None) => false,
        };
        match self.block(body, &Type::Unknown) {
            Ok(_) => Ok(Turn::Next),
            Err(exit) => match *exit {
                Exit::Break(named, value) if ours(&named) => Ok(Turn::Left(value)),
                Exit::Continue(named) if ours(&named) => Ok(Turn::Next),
                other => Err(Box::new(other)),
            },
        }
    }

    /// Whether a loop goes on; one whose end is unknown is cut off after a few iterations, and
    /// the output says so.
    fn goes_on(&mut self, condition: Term, unknown: &mut usize) -> Eval<bool> {
        if self.known(condition).is_none() {
            if *unknown >= self.explorer.budget.unrolled {
                return self.cut_off(condition);
            }
            *unknown += 1;
        }
        self.decide(condition)
    }

    fn cut_off(&mut self, condition: Term) -> Eval<bool> {
        self.effect()?;
        self.unroll_around()?;
        let leaves = self.terms.not(condition);
        if self.possible(condition)? {
            let limit = self.explorer.budget.unrolled;
            let message = format!(
                "the number of iterations is unknown: only paths with at most {limit} are listed"
            );
            self.warn(message);
            if !self.possible(leaves)? {
                return super::stop(Stop::Infeasible);
            }
            // Whoever follows a packet along the paths has to know that it goes round no more. To what is
            // touched it says nothing: those that do touch the same.
            match self.explorer.budget.routed_apart {
                true => self.rule_out(condition)?,
                false => self.assume(leaves)?,
            }
        }
        Ok(false)
    }

    fn sequence(&mut self, over: Value) -> Eval<Sequence> {
        Ok(match over {
            Value::Reference(place) => self.sequence_of_places(place)?,
            Value::Array(items) | Value::Items(items) => Sequence::Known(items),
            Value::Range(range) => self.sequence_of_range(&range)?,
            Value::List(list) => Sequence::List(list),
            Value::Payload(window) => Sequence::Payload(window),
            Value::Enum(value) if value.shape.name == "Option" => {
                let some = value.is_variant(1, &mut self.terms);
                let items = match self.decide(some)? {
                    true => vec![self.payload(&value, 1)?],
                    false => Vec::new(),
                };
                Sequence::Known(Rc::new(items))
            }
            other => return self.error(format!("`for` can't go over {}", other.describe())),
        })
    }

    /// `&mut array`: references to its elements.
    fn sequence_of_places(&mut self, place: Place) -> Eval<Sequence> {
        match self.read(&place)? {
            Value::Array(items) => {
                let elements =
                    (0..items.len()).map(|n| Value::Reference(place.then(Step::Index(n))));
                Ok(Sequence::Known(Rc::new(elements.collect())))
            }
            other => self.sequence(other),
        }
    }

    fn sequence_of_range(&mut self, range: &Range) -> Eval<Sequence> {
        let (Some(start), Some(end)) = (range.start.clone(), range.end.clone()) else {
            return self.error("a range without an end: write the end, or `loop`");
        };
        let (start, end) = self.unified(start, end)?;
        let (start, end) = (self.one(start)?, self.one(end)?);
        if let (Some(first), Some(end)) = (self.known_signed(&start), self.known_signed(&end)) {
            return self.known_range(range, &start, (first, end));
        }
        if range.reversed {
            return self.error("a reversed range of unknown length: count down with `while`");
        }
        let Value::Scalar(scalar, from) = start else {
            return self.error(format!("a range can't start at {}", start.describe()));
        };
        let to = self.scalar(end, scalar)?;
        Ok(Sequence::Range {
            start: from,
            end: to,
            scalar: Some(scalar),
            inclusive: range.inclusive,
            step: range.step,
        })
    }

    /// The value of a constant integer, with its sign.
    pub(crate) fn known_signed(&self, value: &Value) -> Option<i128> {
        match value {
            Value::Literal(number) => Some(*number),
            Value::Scalar(scalar, term) if scalar.is_signed() => {
                let bits = self.terms.constant_of(*term)?;
                let shift = 128 - u32::from(scalar.width());
                Some(((bits << shift) as i128) >> shift)
            }
            Value::Scalar(_, term) => self.terms.constant_of(*term).map(|bits| bits as i128),
            _ => None,
        }
    }

    fn known_range(&mut self, range: &Range, like: &Value, ends: (i128, i128)) -> Eval<Sequence> {
        let (first, mut end) = ends;
        end += i128::from(range.inclusive);
        let step = usize::try_from(range.step).unwrap_or(1).max(1);
        let limit = self.explorer.budget.iterations + 1;
        let numbers = (first..end).step_by(step).take(limit);
        let like = like.clone();
        let mut items: Vec<Value> = Vec::new();
        for number in numbers {
            items.push(self.like(Value::Literal(number), &like)?);
        }
        if range.reversed {
            if items.len() == limit {
                return match self.too_long() {
                    Err(exit) => Err(exit),
                    Ok(_) => Ok(Sequence::Known(Rc::default())),
                };
            }
            items.reverse();
        }
        Ok(Sequence::Known(Rc::new(items)))
    }

    /// Whether there is an iteration, where that is not known from the start.
    fn inside(&mut self, sequence: &Sequence, position: usize) -> Option<Term> {
        Some(match sequence {
            Sequence::Known(_) => return None,
            Sequence::Range { end, scalar, inclusive, .. } => {
                let here = self.place_of_turn(sequence, position);
                let signed = scalar.is_some_and(Scalar::is_signed);
                self.less_terms(!inclusive, signed, here, *end)
            }
            Sequence::List(list) => {
                let index = self.place_of_turn(sequence, position);
                self.less_terms(true, false, index, list.length)
            }
            Sequence::Payload(window) => {
                let index = self.place_of_turn(sequence, position);
                let left = self.payload_left(*window);
                self.less_terms(true, false, index, left)
            }
        })
    }

    /// Where an iteration is: the number of a range, or an index.
    fn place_of_turn(&mut self, sequence: &Sequence, position: usize) -> Term {
        match sequence {
            Sequence::Range { start, step, .. } => {
                let width = self.terms.width(*start);
                let offset = self.terms.constant(position as u128 * u128::from(*step), width);
                self.terms.binary(crate::expr::Binary::Add, *start, offset)
            }
            Sequence::Payload(_) => self.terms.constant(position as u128, 64),
            Sequence::List(_) | Sequence::Known(_) => self.terms.constant(position as u128, 32),
        }
    }

    /// The element of an iteration; `None` after the last.
    fn item(
        &mut self,
        sequence: &Sequence,
        position: usize,
        unknown: &mut usize,
    ) -> Eval<Option<Value>> {
        if let Some(inside) = self.inside(sequence, position)
            && !self.goes_on(inside, unknown)?
        {
            return Ok(None);
        }
        let here = self.place_of_turn(sequence, position);
        Ok(match sequence {
            Sequence::Known(items) => items.get(position).cloned(),
            Sequence::Range { scalar, .. } => scalar.map(|scalar| Value::Scalar(scalar, here)),
            Sequence::List(list) => Some(self.list_element(list, here)?),
            Sequence::Payload(window) => Some(self.payload_byte(*window, here)),
        })
    }

    /// The elements of a sequence whose number is known, as `iter` and its companions give them.
    pub(crate) fn known_items(&mut self, over: Value) -> Eval<Rc<Vec<Value>>> {
        match self.sequence(over)? {
            Sequence::Known(items) => Ok(items),
            _ => self.error("the number of elements is unknown here: write a `for` loop"),
        }
    }
}

//! Operations of state objects: each is recorded, and its result is unknown but for what the path
//! already knows.

use anabranch_language::StateKind;
use syn::Ident;

use super::bounds::Reach;
use super::fresh::zero_like;
use super::types::{Scalar, Type};
use super::value::{LocalCell, Place, Value};
use super::{Eval, Interpreter};
use crate::access::{Access, Mode, Part};
use crate::expr::{Kind, Sort, Term};
use crate::path::Memory;

/// An operation being interpreted.
pub(crate) struct Operation<'p> {
    /// Position of the object among the fields of the NF.
    pub(crate) object: usize,
    pub(crate) name: String,
    pub(crate) arguments: Vec<Value>,
    /// The type of stored values.
    pub(crate) of: Option<&'p syn::Type>,
}

impl<'p> Interpreter<'p> {
    /// `self.field` of the NF.
    pub(crate) fn nf_field(&mut self, name: &Ident) -> Eval {
        let program = self.program;
        let fields = &program.module.nf.fields;
        match fields.iter().position(|field| field.ident == *name) {
            Some(at) if matches!(fields[at].kind, StateKind::Settings) => self.settings(),
            Some(at) => Ok(Value::State(at)),
            None => self.error(format!("the network function has no field `{name}`")),
        }
    }

    pub(crate) fn state_method(&mut self, object: usize, call: &'p syn::ExprMethodCall) -> Eval {
        let program = self.program;
        let field = &program.module.nf.fields[object];
        let mut arguments = Vec::new();
        for argument in &call.args {
            arguments.push(self.value(argument)?);
        }
        self.at(call.method.span());
        self.effect()?;
        let of = match &field.kind {
            StateKind::Map(_, of)
            | StateKind::Vector(of)
            | StateKind::Allocator(of)
            | StateKind::Distributed(of)
            | StateKind::Cell(of) => Some(of),
            StateKind::Settings | StateKind::Counter | StateKind::L3 => None,
        };
        let operation = Operation { object, name: call.method.to_string(), arguments, of };
        match &field.kind {
            StateKind::Map(key, _) => self.map_operation(operation, key),
            StateKind::Vector(_) => self.vector_operation(operation),
            StateKind::Allocator(_) => self.allocator_operation(operation),
            StateKind::Counter => self.counter_operation(operation),
            StateKind::Cell(_) | StateKind::Distributed(_) => self.whole_operation(operation),
            StateKind::L3 => self.l3_operation(operation),
            StateKind::Settings => self.error("settings are read by field"),
        }
    }

    /// Records an access; returns its position on the path.
    pub(crate) fn record(
        &mut self,
        object: usize,
        name: &str,
        mode: Mode,
        key: Vec<Part>,
    ) -> usize {
        let field = &self.program.module.nf.fields[object];
        self.record_of((field.ident.to_string(), field.kind.name()), name, mode, key)
    }

    /// As [`record`](Self::record), of an object of this name and kind.
    pub(crate) fn record_of(
        &mut self,
        (object, kind): (String, &'static str),
        operation: &str,
        mode: Mode,
        key: Vec<Part>,
    ) -> usize {
        self.run.accesses.push(Access {
            object,
            kind,
            operation: operation.to_owned(),
            mode,
            key,
            symmetric: false,
            value: Vec::new(),
            result: Vec::new(),
            lifetime: None,
            outcome: None,
            number: self.run.accesses.len() + 1,
            line: self.line(),
        });
        self.run.accesses.len() - 1
    }

    /// What results of an access are called.
    pub(crate) fn result_name(&self, access: usize) -> String {
        let access = &self.run.accesses[access];
        format!("{}.{}#{}", access.object, access.operation, access.number)
    }

    pub(crate) fn no_operation(&self, operation: &Operation) -> Eval {
        let field = &self.program.module.nf.fields[operation.object];
        let (kind, name) = (field.kind.name(), &operation.name);
        self.error(format!("a `{kind}` has no operation `{name}`: see docs/nf-language.md"))
    }

    pub(crate) fn argument_at(&self, operation: &Operation<'p>, at: usize) -> Eval {
        match operation.arguments.get(at) {
            Some(value) => Ok(value.clone()),
            None => self.error(format!("`{}` needs more arguments", operation.name)),
        }
    }

    /// A stored value given as an argument.
    pub(crate) fn stored_argument(&mut self, operation: &Operation<'p>, at: usize) -> Eval {
        let value = self.argument_at(operation, at)?;
        match operation.of {
            Some(of) => self.stored(value, of),
            None => self.settled(value),
        }
    }

    /// Whether an entry exists and what it holds, known or not.
    pub(crate) fn look_up(
        &mut self,
        operation: &Operation<'p>,
        access: usize,
        key: &[Term],
        outcomes: (&'static str, &'static str),
    ) -> Eval<(Term, Option<Value>)> {
        self.look_up_as(operation.object, operation, access, key, outcomes)
    }

    /// As [`look_up`](Self::look_up), of what the path knows under the number `object`.
    pub(crate) fn look_up_as(
        &mut self,
        object: usize,
        operation: &Operation<'p>,
        access: usize,
        key: &[Term],
        outcomes: (&'static str, &'static str),
    ) -> Eval<(Term, Option<Value>)> {
        let name = self.result_name(access);
        if let Some(known) = self.recall(object, key) {
            let (present, value) = (known.present, known.value.clone());
            self.run.accesses[access].outcome = Some(present);
            let is_gone = self.terms.bool_of(present) == Some(false);
            let (None, false, Some(of)) = (&value, is_gone, operation.of) else {
                return Ok((present, value));
            };
            let of = self.resolve(of)?;
            let value = self.value_left(object, key, &format!("{name}.value"), &of)?;
            self.assume_values(access, present, &value, false)?;
            self.remember(object, key.to_vec(), present, Some(value.clone()));
            return Ok((present, Some(value)));
        }
        let kind = Kind::Outcome(outcomes.0, outcomes.1);
        let is_named = self.follow_link(operation.object, key, &name);
        // Held under a number of its own: asked for without the time, so that it is there.
        let is_held = object != operation.object;
        let is_there = is_named && (is_held || self.never_ends(operation.object, &name));
        let is_counted = self.is_counted(operation.object, key)?;
        let present = match is_there || is_counted || self.is_held(operation.object, key) {
            true => self.terms.bool(true),
            false => self.terms.symbol(&name, Sort::Bool, kind),
        };
        let value = match operation.of {
            Some(of) => {
                let of = self.resolve(of)?;
                Some(self.unknown(&format!("{name}.value"), &of, &[])?)
            }
            None => None,
        };
        self.aliases.clear();
        if let Some(value) = &value {
            let has_ended = is_held && self.has_ended(operation.object, key);
            self.assume_values(access, present, value, has_ended)?;
        }
        if let (true, Some(Value::Scalar(_, count))) = (is_counted, &value) {
            let none = self.terms.constant(0, 32);
            let is_none = self.terms.equal(*count, none);
            let some = self.terms.not(is_none);
            self.assume(some)?;
        }
        self.run.accesses[access].outcome = Some(present);
        self.remember(object, key.to_vec(), present, value.clone());
        Ok((present, value))
    }

    /// The value of an entry that may have been forgotten.
    pub(crate) fn known_value(
        &mut self,
        operation: &Operation<'p>,
        access: usize,
        value: Option<Value>,
    ) -> Eval {
        match (value, operation.of) {
            (Some(value), _) => Ok(value),
            (None, Some(of)) => {
                let name = format!("{}.value", self.result_name(access));
                let of = self.resolve(of)?;
                self.unknown(&name, &of, &[])
            }
            (None, None) => Ok(Value::Unit),
        }
    }

    fn map_operation(&mut self, operation: Operation<'p>, of_key: &'p syn::Type) -> Eval {
        if operation.name == "len" {
            return self.length_of(&operation);
        }
        let key = self.argument_at(&operation, 0)?;
        let key = self.stored(key, of_key)?;
        let parts = self.parts(&key, "")?;
        let parts = self.split_parts(parts)?;
        let terms: Vec<Term> = parts.iter().map(|part| part.term).collect();
        let mode = match operation.name.as_str() {
            "get" | "contains" => Mode::Read,
            _ => Mode::Write,
        };
        let access = self.record(operation.object, &operation.name, mode, parts);
        match operation.name.as_str() {
            "get" => self.get_entry(&operation, access, &terms),
            "contains" => {
                let (present, _) = self.look_up(&operation, access, &terms, FOUND)?;
                Ok(Value::Bool(present))
            }
            "insert" => self.insert_entry(&operation, access, terms),
            "remove" => self.remove_entry(&operation, access, terms),
            "update" => self.update_entry(&operation, access, terms, 1),
            _ => self.no_operation(&operation),
        }
    }

    /// `get`: `Some` where the entry exists.
    pub(crate) fn get_entry(
        &mut self,
        operation: &Operation<'p>,
        access: usize,
        key: &[Term],
    ) -> Eval {
        let (present, value) = self.look_up(operation, access, key, FOUND)?;
        let value = self.known_value(operation, access, value)?;
        self.run.accesses[access].result = self.parts(&value, "")?;
        Ok(self.option(present, value))
    }

    fn insert_entry(&mut self, operation: &Operation<'p>, access: usize, key: Vec<Term>) -> Eval {
        let value = self.stored_argument(operation, 1)?;
        self.run.accesses[access].value = self.parts(&value, "")?;
        let known = self.recall(operation.object, &key).map(|known| known.present);
        let stored = match known {
            Some(present) if self.holds(present) => self.terms.bool(true),
            _ if self.has_room(operation.object)? => self.terms.bool(true),
            _ => {
                let name = self.result_name(access);
                self.terms.symbol(&name, Sort::Bool, Kind::Outcome("stored", "full"))
            }
        };
        self.run.accesses[access].outcome = Some(stored);
        self.forget(operation.object, &key);
        // A full table refuses only keys it does not hold, so the key is there iff it was stored.
        self.remember(operation.object, key, stored, Some(value));
        Ok(Value::Bool(stored))
    }

    /// Whether the path already implies a condition.
    pub(crate) fn holds(&mut self, condition: Term) -> bool {
        let negated = self.terms.not(condition);
        self.terms.bool_of(condition) == Some(true)
            || self.explorer.already(condition, negated) == Some(true)
    }

    fn remove_entry(&mut self, operation: &Operation<'p>, access: usize, key: Vec<Term>) -> Eval {
        let result = self.get_entry(operation, access, &key)?;
        self.forget(operation.object, &key);
        let absent = self.terms.bool(false);
        self.remember(operation.object, key, absent, None);
        Ok(result)
    }

    /// `update`: the closure, in argument `closure`, runs where the entry exists.
    pub(crate) fn update_entry(
        &mut self,
        operation: &Operation<'p>,
        access: usize,
        key: Vec<Term>,
        closure: usize,
    ) -> Eval {
        let held = self.held(operation.object, &key);
        let (present, value) = self.look_up_as(held, operation, access, &key, FOUND)?;
        let found = self.decide(present)?;
        if found {
            let value = self.known_value(operation, access, value)?;
            self.run.accesses[access].result = self.parts(&value, "")?;
            let new = self.updated(operation, value, closure)?;
            self.run.accesses[access].value = self.parts(&new, "")?;
            self.forget_changed(held, &key, &new);
            let present = self.terms.bool(true);
            self.remember(held, key, present, Some(new));
        }
        Ok(Value::Bool(self.terms.bool(found)))
    }

    /// What the closure makes of a stored value.
    pub(crate) fn updated(
        &mut self,
        operation: &Operation<'p>,
        value: Value,
        closure: usize,
    ) -> Eval {
        let change = self.argument_at(operation, closure)?;
        let slot = LocalCell::new(value);
        self.run.open += 1;
        self.invoke(&change, vec![Value::Reference(Place::of(slot.clone()))])?;
        self.run.open -= 1;
        let new = slot.value.borrow().clone();
        self.settled(new)
    }

    /// `len`.
    pub(crate) fn length_of(&mut self, operation: &Operation<'p>) -> Eval {
        let access = self.record(operation.object, "len", Mode::Read, Vec::new());
        let name = self.result_name(access);
        let length = self.terms.symbol(&name, Sort::Bits(32), Kind::Number);
        self.run.accesses[access].result = Part::whole(length);
        Ok(Value::Scalar(Scalar::Unsigned(32), length))
    }

    fn vector_operation(&mut self, operation: Operation<'p>) -> Eval {
        if operation.name == "len" {
            let capacity = self.capacity(operation.object)?;
            let capacity = self.terms.extend(capacity, 32, false);
            return Ok(Value::Scalar(Scalar::Unsigned(32), capacity));
        }
        let index = self.argument_at(&operation, 0)?;
        let index = self.scalar(index, Scalar::Unsigned(32))?;
        let index = self.split(index)?;
        let reach = self.index_reach(operation.object, index)?;
        let mode = if operation.name == "read" { Mode::Read } else { Mode::Write };
        let key = Part::whole(index);
        let access = self.record(operation.object, &operation.name, mode, key);
        if operation.name == "update" {
            return match self.is_inside(&reach)? {
                true => self.single_operation(&operation, access, vec![index], 1),
                false => Ok(Value::Unit),
            };
        }
        let value = self.single_operation(&operation, access, vec![index], 1)?;
        match (mode, reach) {
            (Mode::Write, reach) => self.remember_within(operation.object, index, &reach)?,
            (Mode::Read, Reach::Outside) => {
                let of = self.type_of(&value);
                return self.zero(&of);
            }
            (Mode::Read, Reach::Perhaps(inside)) => self.zero_unless(inside, &value)?,
            (Mode::Read, Reach::Inside) => {}
        }
        Ok(value)
    }

    /// Takes it as given that an element is zero unless it is `inside`; its wide parts are left open.
    fn zero_unless(&mut self, inside: Term, value: &Value) -> Eval<()> {
        let mut zeros = Vec::new();
        for part in self.parts(value, "")? {
            let sort = self.terms.sort(part.term);
            if sort.width() <= 8 {
                let zero = self.terms.zero(sort);
                zeros.push(self.terms.equal(part.term, zero));
            }
        }
        let (outside, zero) = (self.terms.not(inside), self.terms.all(&zeros));
        self.assume_where(outside, zero)
    }

    /// Where an index into an object lies: one past the end reads zero and writes nothing, and is
    /// rarely meant.
    pub(crate) fn index_reach(&mut self, object: usize, index: Term) -> Eval<Reach> {
        let capacity = self.capacity(object)?;
        let wide = self.terms.extend(index, 64, false);
        let inside = self.less_terms(true, false, wide, capacity);
        let name = &self.program.module.nf.fields[object].ident;
        self.reach(inside, || format!("the index into `{name}` can be past its end"))
    }

    /// What has been written past the end is zero when it is read.
    fn remember_within(&mut self, object: usize, index: Term, reach: &Reach) -> Eval<()> {
        if matches!(reach, Reach::Inside) {
            return Ok(());
        }
        let Some(Memory { key, present, value: Some(value), .. }) =
            self.recall(object, &[index]).cloned()
        else {
            return Ok(());
        };
        let kept = match zero_like(&value, &mut self.terms) {
            Some(zero) => Some(self.or_zero(reach, value, zero)?),
            None => None,
        };
        self.remember(object, key, present, kept);
        Ok(())
    }

    /// Elements that always exist: of a vector, or the one of a `Cell` or `Distributed`.
    fn single_operation(
        &mut self,
        operation: &Operation<'p>,
        access: usize,
        key: Vec<Term>,
        next: usize,
    ) -> Eval {
        match operation.name.as_str() {
            "read" | "get" => {
                let value = self.current(operation, access, &key)?;
                self.run.accesses[access].result = self.parts(&value, "")?;
                Ok(value)
            }
            "write" | "set" => {
                let value = self.stored_argument(operation, next)?;
                self.overwrite(operation, access, key, value)
            }
            "update" => {
                let value = self.current(operation, access, &key)?;
                self.run.accesses[access].result = self.parts(&value, "")?;
                let new = self.updated(operation, value, next)?;
                self.overwrite(operation, access, key, new)
            }
            _ => self.no_operation(operation),
        }
    }

    fn current(&mut self, operation: &Operation<'p>, access: usize, key: &[Term]) -> Eval {
        if let Some(value) = self.recall_value(operation.object, key) {
            return Ok(value);
        }
        let of = match operation.of {
            Some(of) => self.resolve(of)?,
            None => Type::Scalar(Scalar::Unsigned(64)),
        };
        let value = self.value_left(operation.object, key, &self.result_name(access), &of)?;
        let present = self.terms.bool(true);
        self.assume_values(access, present, &value, false)?;
        self.remember(operation.object, key.to_vec(), present, Some(value.clone()));
        Ok(value)
    }

    fn overwrite(
        &mut self,
        operation: &Operation<'p>,
        access: usize,
        key: Vec<Term>,
        value: Value,
    ) -> Eval {
        self.run.accesses[access].value = self.parts(&value, "")?;
        self.forget_changed(operation.object, &key, &value);
        let present = self.terms.bool(true);
        self.remember(operation.object, key, present, Some(value));
        Ok(Value::Unit)
    }

    fn whole_operation(&mut self, operation: Operation<'p>) -> Eval {
        let mode = match operation.name.as_str() {
            "get" | "read" => Mode::Read,
            _ => Mode::Write,
        };
        let access = self.record(operation.object, &operation.name, mode, Vec::new());
        self.single_operation(&operation, access, Vec::new(), 0)
    }

    fn counter_operation(&mut self, operation: Operation<'p>) -> Eval {
        let object = operation.object;
        match operation.name.as_str() {
            "add" => {
                let amount = self.argument_at(&operation, 0)?;
                let amount = self.scalar(amount, Scalar::Unsigned(64))?;
                let access = self.record(object, "add", Mode::Write, Vec::new());
                self.run.accesses[access].value = Part::whole(amount);
                self.forget_all(object);
                Ok(Value::Unit)
            }
            "read" => {
                let access = self.record(object, "read", Mode::Read, Vec::new());
                self.single_operation(&operation, access, Vec::new(), 0)
            }
            _ => self.no_operation(&operation),
        }
    }
}

/// Outcomes of a look-up.
pub(crate) const FOUND: (&str, &str) = ("found", "absent");

//! Operations of allocators, and of `L3`, whose inside is opaque.

use std::rc::Rc;

use anabranch_language::StateKind;

use super::state::{FOUND, Operation};
use super::types::Scalar;
use super::value::{EnumValue, Tag, Value};
use super::{Eval, Interpreter};
use crate::access::{Mode, Part};
use crate::expr::{Binary, Kind, Node, Sort, Term};

fn terms_of(parts: &[Part]) -> Vec<Term> {
    parts.iter().map(|part| part.term).collect()
}

/// How the name ends of a verdict that no path has asked for.
const UNSETTLED: &str = ".verdict";

impl<'p> Interpreter<'p> {
    pub(crate) fn allocator_operation(&mut self, operation: Operation<'p>) -> Eval {
        match operation.name.as_str() {
            "len" => self.length_of(&operation),
            "allocate" => self.allocate(&operation),
            "allocate_within" => self.allocate_within(&operation),
            _ => self.indexed_operation(operation),
        }
    }

    fn indexed_operation(&mut self, operation: Operation<'p>) -> Eval {
        let index = self.argument_at(&operation, 0)?;
        let index = self.scalar(index, Scalar::Unsigned(32))?;
        let index = self.split(index)?;
        let mode = match operation.name.as_str() {
            "is_allocated" | "get" => Mode::Read,
            _ => Mode::Write,
        };
        let key = Part::whole(index);
        let access = self.record(operation.object, &operation.name, mode, key);
        let key = vec![index];
        match operation.name.as_str() {
            "get" | "touch" => self.get_entry(&operation, access, &key),
            "refresh" => {
                self.note_lifetime(&operation, access, 1)?;
                let (present, _) = self.look_up(&operation, access, &key, FOUND)?;
                Ok(Value::Bool(present))
            }
            "is_allocated" => {
                let (present, _) = self.look_up(&operation, access, &key, FOUND)?;
                Ok(Value::Bool(present))
            }
            "free" => {
                let held = self.held(operation.object, &key);
                let (present, _) = self.look_up_as(held, &operation, access, &key, FOUND)?;
                self.forget(operation.object, &key);
                let absent = self.terms.bool(false);
                self.remember(operation.object, key, absent, None);
                Ok(Value::Bool(present))
            }
            "set" => self.set_object(&operation, access, key),
            "update" => self.update_entry(&operation, access, key, 1),
            "allocate_at" => self.allocate_at(&operation, access, key),
            _ => self.no_operation(&operation),
        }
    }

    /// Under which number operations that do not ask the time know the entry: an object that has been
    /// found absent may be over without having been collected, and is theirs until it is freed.
    pub(crate) fn held(&mut self, object: usize, key: &[Term]) -> usize {
        let fields = &self.program.module.nf.fields;
        let after = fields.len();
        if !matches!(fields[object].kind, StateKind::Allocator(_)) {
            return object;
        }
        match self.recall(object, key).map(|known| known.present) {
            Some(present) if self.terms.bool_of(present).is_none() && !self.holds(present) => {
                after + object
            }
            _ => object,
        }
    }

    fn set_object(&mut self, operation: &Operation<'p>, access: usize, key: Vec<Term>) -> Eval {
        let held = self.held(operation.object, &key);
        let (present, _) = self.look_up_as(held, operation, access, &key, FOUND)?;
        let value = self.stored_argument(operation, 1)?;
        self.run.accesses[access].value = self.parts(&value, "")?;
        self.forget_changed(held, &key, &value);
        self.remember(held, key, present, Some(value));
        Ok(Value::Bool(present))
    }

    /// An index that is taken, or past the end, is refused.
    fn allocate_at(&mut self, operation: &Operation<'p>, access: usize, key: Vec<Term>) -> Eval {
        let value = self.stored_argument(operation, 1)?;
        self.run.accesses[access].value = self.parts(&value, "")?;
        self.note_lifetime(operation, access, 2)?;
        let known = self.recall(operation.object, &key).map(|known| known.present);
        let allocated = match known {
            Some(present) if self.holds(present) => self.terms.bool(false),
            _ if self.has_freed_index(operation.object, key[0]) => self.terms.bool(true),
            _ => {
                let name = self.result_name(access);
                self.terms.symbol(&name, Sort::Bool, Kind::Outcome("allocated", "taken"))
            }
        };
        self.run.accesses[access].outcome = Some(allocated);
        if self.decide(allocated)? {
            self.forget(operation.object, &key);
            self.remember(operation.object, key, allocated, Some(value));
        }
        Ok(Value::Bool(allocated))
    }

    fn allocate(&mut self, operation: &Operation<'p>) -> Eval {
        let access = self.record(operation.object, "allocate", Mode::Write, Vec::new());
        let value = self.stored_argument(operation, 0)?;
        self.note_lifetime(operation, access, 1)?;
        self.allocated(operation, access, value)
    }

    fn allocate_within(&mut self, operation: &Operation<'p>) -> Eval {
        let mut key = Vec::new();
        for (at, name) in ["first", "count", "step", "start"].into_iter().enumerate() {
            let argument = self.argument_at(operation, at)?;
            let term = self.scalar(argument, Scalar::Unsigned(32))?;
            key.push(Part { name: name.to_owned(), term, kind: Kind::Number });
        }
        let (first, count) = (key[0].term, key[1].term);
        let is_full = self.was_full(operation.object, &key)?;
        let access = self.record(operation.object, "allocate_within", Mode::Write, key);
        let value = self.stored_argument(operation, 4)?;
        self.note_lifetime(operation, access, 5)?;
        let result = self.allocated(operation, access, value)?;
        let index = self.index_of(access);
        let (first, count) =
            (self.terms.extend(first, 64, false), self.terms.extend(count, 64, false));
        let index = self.terms.extend(index, 64, false);
        let end = self.terms.binary(Binary::Add, first, count);
        let above = self.less_terms(false, false, first, index);
        let below = self.less_terms(true, false, index, end);
        let within = self.terms.both(above, below);
        let failed = self.not_allocated(access);
        let rule = self.terms.either(failed, within);
        self.assume(rule)?;
        if is_full {
            self.assume(failed)?;
        }
        Ok(result)
    }

    fn note_lifetime(&mut self, operation: &Operation<'p>, access: usize, at: usize) -> Eval<()> {
        let lifetime = self.argument_at(operation, at)?;
        let lifetime = self.scalar(lifetime, Scalar::Unsigned(64))?;
        self.run.accesses[access].lifetime = Some(lifetime);
        Ok(())
    }

    /// Whether the same was asked for in vain before on this path, and nothing has been freed since.
    fn was_full(&mut self, object: usize, key: &[Part]) -> Eval<bool> {
        if !self.explorer.budget.routed_apart {
            return Ok(false);
        }
        let name = &self.program.module.nf.fields[object].ident;
        // What a loop has done before its turn is not known.
        let known = self.run.accesses.get(self.run.cut..).unwrap_or_default();
        let before = known.iter().rev().filter(|access| *name == access.object);
        let before: Vec<(Term, Vec<Term>)> = before
            .take_while(|access| access.operation != "free")
            .filter(|access| access.operation == "allocate_within")
            .filter_map(|access| Some((access.outcome?, terms_of(&access.key))))
            .collect();
        for (allocated, asked) in before {
            let failed = self.terms.not(allocated);
            let mut same = self.terms.bool(true);
            for (part, term) in key.iter().zip(asked) {
                let equal = self.terms.equal(part.term, term);
                same = self.terms.both(same, equal);
            }
            let other = self.terms.not(same);
            if self.holds(failed) && !self.possible(other)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn index_of(&mut self, access: usize) -> Term {
        let name = format!("{}.index", self.result_name(access));
        self.terms.symbol(&name, Sort::Bits(32), Kind::Number)
    }

    fn not_allocated(&mut self, access: usize) -> Term {
        let outcome = self.run.accesses[access].outcome;
        match outcome {
            Some(allocated) => self.terms.not(allocated),
            None => self.terms.bool(false),
        }
    }

    /// A free index below the capacity, where there is one.
    fn allocated(&mut self, operation: &Operation<'p>, access: usize, value: Value) -> Eval {
        self.run.accesses[access].value = self.parts(&value, "")?;
        let name = self.result_name(access);
        let kind = Kind::Outcome("allocated", "full");
        let is_any = self.run.accesses[access].operation == "allocate";
        let allocated = match is_any && self.has_freed(operation.object) {
            true => self.terms.bool(true),
            false => self.terms.symbol(&name, Sort::Bool, kind),
        };
        self.run.accesses[access].outcome = Some(allocated);
        let index = self.index_of(access);
        self.run.accesses[access].result = Part::whole(index);
        let capacity = self.capacity(operation.object)?;
        let wide = self.terms.extend(index, 64, false);
        let below = self.less_terms(true, false, wide, capacity);
        let failed = self.terms.not(allocated);
        let rule = self.terms.either(failed, below);
        self.assume(rule)?;
        self.forget(operation.object, &[index]);
        self.remember(operation.object, vec![index], allocated, Some(value));
        Ok(self.option(allocated, Value::Scalar(Scalar::Unsigned(32), index)))
    }

    pub(crate) fn l3_operation(&mut self, operation: Operation<'p>) -> Eval {
        let object = operation.object;
        match operation.name.as_str() {
            "enabled" => {
                let access = self.record(object, "enabled", Mode::Read, Vec::new());
                let name = format!("{}.enabled", self.run.accesses[access].object);
                let kind = Kind::Outcome("yes", "no");
                let enabled = self.terms.symbol(&name, Sort::Bool, kind);
                self.run.accesses[access].outcome = Some(enabled);
                Ok(Value::Bool(enabled))
            }
            "leads_nowhere" => {
                let kind = Kind::Outcome("back", "on");
                let (_, back) = self.l3_outcome(object, "leads_nowhere", Mode::Read, kind);
                Ok(Value::Bool(back))
            }
            "admit" => self.l3_admit(object),
            "receive" => {
                let kind = Kind::Outcome("handled", "passed");
                let (_, handled) = self.l3_outcome(object, "receive", Mode::Write, kind);
                self.passes_ip(object, handled)?;
                self.l3_handled(object, handled)
            }
            "forward" => self.l3_forward(object),
            _ => self.no_operation(&operation),
        }
    }

    fn l3_outcome(&mut self, object: usize, name: &str, mode: Mode, kind: Kind) -> (usize, Term) {
        let access = self.record(object, name, mode, Vec::new());
        let result = self.result_name(access);
        let outcome = self.terms.symbol(&result, Sort::Bool, kind);
        self.run.accesses[access].outcome = Some(outcome);
        (access, outcome)
    }

    /// What has been admitted is admitted again: nothing but the packet and the interfaces decides it.
    fn l3_admit(&mut self, object: usize) -> Eval {
        let kind = Kind::Outcome("refused", "admitted");
        let is_same = self.run.fields.is_empty();
        let (access, mut refused) = self.l3_outcome(object, "admit", Mode::Read, kind);
        if is_same {
            refused = *self.run.refused.get_or_insert(refused);
            self.run.accesses[access].outcome = Some(refused);
        }
        self.l3_handled(object, refused)
    }

    /// What is no IP it handles itself, where it is enabled.
    fn passes_ip(&mut self, object: usize, handled: Term) -> Eval<()> {
        let name = format!("{}.enabled", self.program.module.nf.fields[object].ident);
        let enabled = self.terms.symbol(&name, Sort::Bool, Kind::Outcome("yes", "no"));
        if !self.explorer.budget.routed_apart || !self.holds(enabled) {
            return Ok(());
        }
        let (ipv4, ipv6) = (self.presence("ipv4"), self.presence("ipv6"));
        let is_ip = self.terms.either(ipv4, ipv6);
        let rule = self.terms.either(handled, is_ip);
        self.assume(rule)
    }

    /// What it handles itself ends there; its verdict and reason are its own.
    fn l3_handled(&mut self, object: usize, handled: Term) -> Eval {
        if !self.decide(handled)? {
            return Ok(self.none());
        }
        let own = self.own_verdict(object)?;
        Ok(self.some(own))
    }

    fn own_verdict(&mut self, object: usize) -> Eval {
        let name = self.program.module.nf.fields[object].ident.to_string();
        self.verdict("Drop", vec![Value::OwnReason(name.into())])
    }

    /// Forwarded or dropped, which a path only asks if the handler does; what it rewrites is unknown.
    fn unsettled_verdict(&mut self, object: usize, access: usize) -> Eval {
        let name = self.result_name(access);
        for (header, field, width) in [
            ("ipv4", "ttl", 8),
            ("ipv6", "hop_limit", 8),
            ("ethernet", "dst", 48),
            ("ethernet", "src", 48),
        ] {
            let unknown = format!("{name}.{header}.{field}");
            let unknown = self.terms.symbol(&unknown, Sort::Bits(width), Kind::Number);
            self.run.fields.insert((header, field), (unknown, self.line()));
        }
        let number = self.terms.symbol(&format!("{name}{UNSETTLED}"), Sort::Bits(8), Kind::Number);
        let port = self.terms.symbol(&format!("{name}.port"), Sort::Bits(8), Kind::Port);
        self.run.accesses[access].result = Part::whole(port);
        let own = self.program.module.nf.fields[object].ident.to_string();
        let shape = self.prelude.verdict.clone();
        let mut possible = self.terms.bool(false);
        let mut payloads = Vec::new();
        for (position, variant) in shape.variants.iter().enumerate() {
            let payload = match variant.name.as_str() {
                "Forward" => Some(vec![Value::Scalar(Scalar::Port, port)]),
                "Drop" => Some(vec![Value::OwnReason(own.as_str().into())]),
                _ => None,
            };
            if payload.is_some() {
                let this = self.terms.constant(position as u128, 8);
                let this = self.terms.equal(number, this);
                possible = self.terms.either(possible, this);
            }
            payloads.push(payload);
        }
        self.assume(possible)?;
        Ok(Value::Enum(EnumValue { shape, tag: Tag::Number(number), payloads: Rc::new(payloads) }))
    }

    /// The object that has decided a verdict which no path asks for.
    pub(crate) fn unsettled_by(&self, value: &EnumValue) -> Option<String> {
        let Tag::Number(number) = value.tag else { return None };
        let Node::Symbol(id) = *self.terms.node(number) else { return None };
        let name = self.terms.symbol_of(id).name.strip_suffix(UNSETTLED)?;
        name.split('.').next().map(str::to_owned)
    }

    /// A routed packet has a hop left, its addresses rewritten and its lifetime decremented.
    fn l3_forward(&mut self, object: usize) -> Eval {
        let (access, routed) =
            self.l3_outcome(object, "forward", Mode::Write, Kind::Outcome("routed", "not routed"));
        if !self.explorer.budget.routed_apart {
            return self.unsettled_verdict(object, access);
        }
        let hops = [("ipv4", "ttl"), ("ipv6", "hop_limit")];
        if hops.iter().all(|(header, _)| self.has(header) == Some(false)) {
            let dropped = self.terms.not(routed);
            self.assume(dropped)?;
        }
        let one = self.terms.constant(1, 8);
        for field in hops {
            if self.has(field.0) != Some(true) {
                continue;
            }
            let now = self.field_now(field);
            let lives = self.less_terms(true, false, one, now);
            let not = self.terms.not(routed);
            let rule = self.terms.either(not, lives);
            self.assume(rule)?;
        }
        if !self.decide(routed)? {
            return self.own_verdict(object);
        }
        for (header, field) in hops {
            if self.has(header) == Some(true) {
                let now = self.field_now((header, field));
                let less = self.terms.binary(Binary::Sub, now, one);
                self.run.fields.insert((header, field), (less, self.line()));
            }
        }
        let name = self.result_name(access);
        for field in ["dst", "src"] {
            let name = format!("{name}.{field}");
            let address = self.terms.symbol(&name, Sort::Bits(48), Kind::Mac);
            self.run.fields.insert(("ethernet", field), (address, self.line()));
        }
        let port = self.terms.symbol(&format!("{name}.port"), Sort::Bits(8), Kind::Port);
        self.run.accesses[access].result = Part::whole(port);
        self.verdict("Forward", vec![Value::Scalar(Scalar::Port, port)])
    }
}

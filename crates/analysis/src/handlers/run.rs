//! One run of a handler, from what is known at its start to the path it has taken.

use anabranch_language::{PacketSet, kebab};

use super::class::Class;
use super::entry::Entry;
use crate::access::{Mode, Part};
use crate::expr::{Binary, Kind, Sort, Term};
use crate::interpret::types::{Scalar, Type};
use crate::interpret::value::{LocalCell, Place, Slot, Value};
use crate::interpret::{Eval, Exit, Here, Interpreter, Stop, VERDICTS, stop};
use crate::path::{CallPath, Condition, Rewrite, Verdict, Warning};

impl<'p> Interpreter<'p> {
    /// Runs an entry with the decisions so far.
    pub(crate) fn run_entry(&mut self, entry: &Entry) -> Result<CallPath, Stop> {
        let verdict = match self.enter(entry).map_err(|exit| *exit) {
            Ok(verdict) => verdict,
            Err(Exit::Stop(Stop::Cut)) => Verdict::Done,
            Err(Exit::Stop(stop)) => return Err(stop),
            Err(_) => return Err(Stop::Error(self.line(), "this leaves no function".to_owned())),
        };
        Ok(self.finish(entry, verdict))
    }

    fn enter(&mut self, entry: &Entry) -> Eval<Verdict> {
        if let Entry::Packet { port } | Entry::SetPacket { port, .. } | Entry::Orphan { port, .. } =
            entry
        {
            self.arrive(*port)?;
        }
        match entry {
            Entry::Check => self.enter_check(),
            Entry::Init => self.without_packet("init", vec![Value::Context]),
            Entry::Packet { .. } => {
                let value = self.handler("packet", vec![Value::Packet, Value::Context])?;
                self.verdict_of(value)
            }
            Entry::SetPacket { class, opened, .. } => self.enter_set(*class, *opened),
            Entry::Orphan { unclassed, .. } => self.enter_orphan(*unclassed),
            Entry::SetExpired => self.enter_set_expired(),
            Entry::Control(at) => self.enter_control(*at),
            Entry::Timer => {
                let token = self.terms.symbol("token", Sort::Bits(64), Kind::Number);
                let token = Value::Scalar(Scalar::Unsigned(64), token);
                self.without_packet("timer", vec![token, Value::Context])
            }
            Entry::Periodic => self.without_packet("periodic", vec![Value::Context]),
            Entry::Shutdown => self.without_packet("shutdown", vec![Value::Context]),
            Entry::ObjectExpired(object) => self.enter_object_expired(*object),
        }
    }

    /// A packet is there.
    pub(crate) fn arrive(&mut self, port: Option<usize>) -> Eval<()> {
        let port = match port {
            Some(port) => self.terms.constant(port as u128, 8),
            None => self.terms.symbol("port", Sort::Bits(8), Kind::Port),
        };
        self.run.port = Some(port);
        self.assume_headers()
    }

    fn handler(&mut self, name: &str, arguments: Vec<Value>) -> Eval {
        let nf = self.program.module.nf.ident.to_string();
        let Some(function) = self.method_named(&nf, name) else {
            return self.error(format!("`{nf}` has no method `{name}`"));
        };
        self.at(function.signature.ident.span());
        self.run.verdict_line = self.line();
        self.run_body(function, name, Some((Value::Nf, Type::Unknown)), &arguments, Vec::new())
    }

    fn without_packet(&mut self, name: &str, arguments: Vec<Value>) -> Eval<Verdict> {
        self.handler(name, arguments)?;
        Ok(Verdict::Done)
    }

    fn enter_check(&mut self) -> Eval<Verdict> {
        let Some(function) = self.function_named("check") else {
            return Ok(Verdict::Done);
        };
        let settings = self.settings()?;
        let value = self.run_body(function, "check", None, &[settings], Vec::new())?;
        self.outcome_of(value)
    }

    fn packet_set(&self) -> Eval<&'p PacketSet> {
        let program = self.program;
        match &program.module.packet_set {
            Some(set) => Ok(set),
            None => self.error("this network function has no packet set"),
        }
    }

    fn enter_orphan(&mut self, unclassed: bool) -> Eval<Verdict> {
        if unclassed {
            let set = self.packet_set()?;
            self.assume_no_class(set)?;
        }
        if !self.program.module.handlers.orphan {
            return Ok(Verdict::Drop("no-packet-set".to_owned()));
        }
        let value = self.handler("orphan", vec![Value::Packet, Value::Context])?;
        self.verdict_of(value)
    }

    fn enter_set(&mut self, class: Class, opened: bool) -> Eval<Verdict> {
        let set = self.packet_set()?;
        self.assume_class(set, class)?;
        let key = self.class_key(set, class);
        self.here = Here::Line(set.line);
        let find = self.record_set(set, "find", Mode::Read, key.clone());
        let found = self.terms.bool(!opened);
        self.run.accesses[find].outcome = Some(found);
        let state = match opened {
            true => match self.open_set(set, key.clone())? {
                Ok(state) => state,
                Err(verdict) => return Ok(verdict),
            },
            false => {
                let state = self.set_state(set)?;
                let parts = self.parts(&state, "")?;
                let (name, of) = (set.ident.to_string(), class.name(set));
                self.assume_own(&name, Some(&of), &parts)?;
                self.run.accesses[find].result = parts;
                state
            }
        };
        let before = self.parts(&state, "")?;
        let slot = LocalCell::new(state);
        self.run.set = Some(slot.clone());
        let reference = Value::Reference(Place::of(slot.clone()));
        let value = self.handler("packet", vec![reference, Value::Packet, Value::Context])?;
        self.record_change(set, key, &before, &slot)?;
        self.verdict_of(value)
    }

    fn set_state(&mut self, set: &'p PacketSet) -> Eval {
        let name = set.ident.to_string();
        let of = self.named_type(&name, Vec::new())?;
        self.unknown(&name, &of, &[])
    }

    /// The state of a new packet set, or the verdict that takes its place.
    fn open_set(&mut self, set: &'p PacketSet, key: Vec<Part>) -> Eval<Result<Value, Verdict>> {
        let state = match self.program.module.handlers.packet_set_opened {
            false => {
                let of = self.named_type(&set.ident.to_string(), Vec::new())?;
                self.zero(&of)?
            }
            true => {
                let arguments = vec![Value::Packet, Value::Context];
                let answer = self.handler("packet_set_opened", arguments)?;
                match self.result_of(answer)? {
                    Ok(state) => state,
                    Err(verdict) => return Ok(Err(self.verdict_of(verdict)?)),
                }
            }
        };
        self.here = Here::Line(set.line);
        let insert = self.record_set(set, "insert", Mode::Write, key);
        self.run.accesses[insert].value = self.parts(&state, "")?;
        let name = format!("{}.insert", set.ident);
        let stored = self.terms.symbol(&name, Sort::Bool, Kind::Outcome("stored", "full"));
        self.run.accesses[insert].outcome = Some(stored);
        match self.decide(stored)? {
            true => Ok(Ok(state)),
            false => Ok(Err(self.set_full(state)?)),
        }
    }

    /// The verdict on a packet whose new set found no room.
    fn set_full(&mut self, state: Value) -> Eval<Verdict> {
        if !self.program.module.handlers.packet_set_full {
            self.run.verdict_line = 0;
            return Ok(Verdict::Drop("packet-sets-full".to_owned()));
        }
        let arguments = vec![state, Value::Packet, Value::Context];
        let value = self.handler("packet_set_full", arguments)?;
        self.verdict_of(value)
    }

    /// Which way a `Result` went, and what it holds.
    fn result_of(&mut self, value: Value) -> Eval<Result<Value, Value>> {
        let Value::Enum(value) = self.settled(value)? else {
            return self.error("this handler returns a `Result`");
        };
        let good = value.is_variant(1, &mut self.terms);
        match self.decide(good)? {
            true => Ok(Ok(self.payload(&value, 1)?)),
            false => Ok(Err(self.payload(&value, 0)?)),
        }
    }

    fn record_set(
        &mut self,
        set: &PacketSet,
        operation: &str,
        mode: Mode,
        key: Vec<Part>,
    ) -> usize {
        let access = self.record_of((set.ident.to_string(), "PacketSet"), operation, mode, key);
        self.run.accesses[access].symmetric = set.bidirectional;
        access
    }

    /// The handler's writes to the state of its set, as one access.
    fn record_change(
        &mut self,
        set: &PacketSet,
        key: Vec<Part>,
        before: &[Part],
        slot: &Slot,
    ) -> Eval<()> {
        let after = slot.value.borrow().clone();
        let after = self.parts(&after, "")?;
        let changed: Vec<Part> = after.into_iter().filter(|part| !before.contains(part)).collect();
        if !changed.is_empty() {
            self.here = Here::Line(slot.written_at.get().max(1));
            let access = self.record_set(set, "update", Mode::Write, key);
            self.run.accesses[access].value = changed;
        }
        Ok(())
    }

    fn enter_set_expired(&mut self) -> Eval<Verdict> {
        let set = self.packet_set()?;
        self.here = Here::Line(set.line);
        let access = self.record_set(set, "expire", Mode::Write, Vec::new());
        let state = self.set_state(set)?;
        let parts = self.parts(&state, "")?;
        self.assume_own(&set.ident.to_string(), None, &parts)?;
        self.run.accesses[access].result = parts;
        self.without_packet("packet_set_expired", vec![state, Value::Context])
    }

    fn enter_control(&mut self, at: usize) -> Eval<Verdict> {
        let program = self.program;
        let Some(commands) = &program.module.commands else {
            return self.error("this network function has no commands");
        };
        let name = commands.item.ident.to_string();
        let Type::Enum(shape) = self.named_type(&name, Vec::new())? else {
            return self.error("`Command` isn't an enum");
        };
        let mut fields = Vec::new();
        for (field, of) in &shape.variants[at].fields {
            fields.push(self.unknown(&format!("command.{field}"), of, &[])?);
        }
        for (setting, value) in commands.variants[at].fields.iter().zip(&fields) {
            self.bound_setting(setting, value)?;
        }
        let command = Value::variant(&shape, at, fields);
        let value = self.handler("control", vec![command, Value::Context])?;
        self.outcome_of(value)
    }

    /// What a handler that may refuse has answered.
    fn outcome_of(&mut self, value: Value) -> Eval<Verdict> {
        match self.result_of(value)? {
            Ok(_) => Ok(Verdict::Done),
            Err(Value::Text(text)) => Ok(Verdict::Refused(text.to_string())),
            Err(_) => Ok(Verdict::Refused(String::new())),
        }
    }

    fn enter_object_expired(&mut self, object: usize) -> Eval<Verdict> {
        let program = self.program;
        let field = &program.module.nf.fields[object];
        let (Some(method), anabranch_language::StateKind::Allocator(of)) =
            (&field.expired, &field.kind)
        else {
            return self.error("only objects of an allocator expire");
        };
        let index = self.terms.symbol("index", Sort::Bits(32), Kind::Number);
        self.here = Here::Line(field.line);
        let access = self.record(object, "expire", Mode::Write, Part::whole(index));
        let of = self.resolve(of)?;
        let value = self.unknown("object", &of, &[])?;
        self.run.accesses[access].result = self.parts(&value, "")?;
        let capacity = self.capacity(object)?;
        let wide = self.terms.extend(index, 64, false);
        let inside = self.terms.binary(Binary::LessUnsigned, wide, capacity);
        self.assume(inside)?;
        let always = self.terms.bool(true);
        self.assume_values(access, always, &value, true)?;
        let free = self.terms.bool(false);
        self.remember(object, vec![index], free, None);
        let index = Value::Scalar(Scalar::Unsigned(32), index);
        self.without_packet(&method.to_string(), vec![index, value, Value::Context])
    }

    /// The verdict a value stands for.
    fn verdict_of(&mut self, value: Value) -> Eval<Verdict> {
        let Value::Enum(value) = self.settled(value)? else {
            return self.error("this isn't a verdict");
        };
        if let Some(object) = self.unsettled_by(&value) {
            return Ok(Verdict::Object(object));
        }
        for (position, variant) in VERDICTS.iter().enumerate() {
            let here = value.is_variant(position, &mut self.terms);
            if self.decide(here)? {
                let fields = value.payloads[position].as_ref();
                let field = fields.and_then(|fields| fields.first()).cloned();
                return self.verdict_with(variant.0, field);
            }
        }
        stop(Stop::Infeasible)
    }

    fn verdict_with(&mut self, name: &str, field: Option<Value>) -> Eval<Verdict> {
        match (name, field) {
            ("Flood", _) => Ok(Verdict::Flood),
            ("Drop", Some(reason)) => self.drop_of(reason),
            (name, Some(Value::Scalar(_, port))) => {
                let port = self.split(port)?;
                Ok(match name {
                    "Forward" => Verdict::Forward(port),
                    _ => Verdict::Recirculate(port),
                })
            }
            _ => self.error("this isn't a verdict"),
        }
    }

    fn drop_of(&mut self, reason: Value) -> Eval<Verdict> {
        match self.settled(reason)? {
            Value::Reason(reason) => Ok(Verdict::Drop(reason.to_string())),
            Value::OwnReason(object) => Ok(Verdict::Object(object.to_string())),
            Value::Enum(value) => {
                for (position, variant) in value.shape.variants.iter().enumerate() {
                    let here = value.is_variant(position, &mut self.terms);
                    if self.decide(here)? {
                        return Ok(Verdict::Drop(kebab(&variant.name)));
                    }
                }
                stop(Stop::Infeasible)
            }
            other => self.error(format!("{} isn't a reason to drop", other.describe())),
        }
    }

    fn finish(&mut self, entry: &Entry, verdict: Verdict) -> CallPath {
        let module = &self.program.module;
        let class = entry.class().zip(module.packet_set.as_ref());
        let conditions = self.explorer.conditions(&mut self.terms);
        CallPath {
            number: 0,
            handler: entry.name(module),
            port: entry.port(),
            class: class.map(|(class, set)| class.name(set)),
            conditions: conditions
                .into_iter()
                .map(|(term, line)| Condition { term, line })
                .collect(),
            holds: self.explorer.assertions().to_vec(),
            rewrites: self.rewrites(),
            accesses: std::mem::take(&mut self.run.accesses).split_off(self.run.cut),
            effects: std::mem::take(&mut self.run.effects),
            verdict,
            line: self.run.verdict_line,
            cut_off: self.run.warnings.iter().any(Warning::is_cut_off),
            before_loops: self.run.before_loops,
        }
    }

    /// Fields that differ from how they arrived.
    fn rewrites(&mut self) -> Vec<Rewrite> {
        let fields = std::mem::take(&mut self.run.fields);
        let mut rewrites = Vec::new();
        for ((header, field), (term, line)) in fields {
            let arrived: Term = self.arrived((header, field));
            if arrived != term {
                rewrites.push(Rewrite { header, field, term, line });
            }
        }
        rewrites
    }
}

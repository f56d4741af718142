//! The interpreter: runs the author's functions on values whose leaves are terms.
//!
//! Concrete values are constant terms, so that one interpreter serves exploration and the
//! differential tests against native code. A branch on an unknown asks the explorer.

mod address;
mod allocator;
mod array;
mod assign;
mod bounds;
pub(crate) mod call;
mod choice;
mod construct;
mod context;
mod control;
mod convert;
mod expression;
mod fresh;
mod integer;
mod literals;
mod loops;
mod memory;
mod merge;
mod operators;
pub(crate) mod packet;
mod pattern;
mod payload;
mod place;
pub(crate) mod program;
mod proofs;
mod purity;
mod resolve;
mod state;
pub(crate) mod types;
pub(crate) mod value;

use std::collections::HashMap;
use std::rc::Rc;

use syn::Ident;
use syn::spanned::Spanned;

use crate::explore::Explorer;
use crate::expr::{Term, Terms};
use crate::hash::FastMap;
use crate::path::Run;
use crate::proofs::{Counted, Link, Pairing, Values};
use crate::solver::Answer;
use program::Program;
use types::{EnumShape, StructShape, Type};
use value::{LocalCell, Slot, Value};

/// Calls nested deeper than this are refused.
const DEEPEST: usize = 64;

/// Why an expression has no value.
#[derive(Debug)]
pub(crate) enum Exit {
    Break(Option<String>, Value),
    Continue(Option<String>),
    Return(Value),
    Stop(Stop),
}

/// Why a run ends before its handler does.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The author's line, and what is wrong there.
    Error(u32, String),
    /// No packet takes this path, or none within the limits already reported.
    Infeasible,
    /// The expression does more than compute, so it cannot be evaluated ahead of its condition.
    Impure,
    /// The solver cannot be run.
    Solver(String),
    /// A loop begins or goes round: what comes then is a path of its own.
    Cut,
    /// What was taken for granted of a loop is not so: the handler is followed again from the start.
    Again,
}

/// The value of an expression, or why there is none.
pub(crate) type Eval<T = Value> = Result<T, Box<Exit>>;

/// What a function body sees.
#[derive(Clone)]
pub(crate) struct Frame<'p> {
    pub(crate) locals: Vec<(&'p Ident, Slot)>,
    pub(crate) receiver: Option<Slot>,
    pub(crate) generics: Rc<Vec<(String, Type)>>,
    pub(crate) self_type: Type,
    pub(crate) returns: Type,
}

impl Frame<'_> {
    pub(crate) fn empty() -> Self {
        Self {
            locals: Vec::new(),
            receiver: None,
            generics: Rc::default(),
            self_type: Type::Unknown,
            returns: Type::Unknown,
        }
    }
}

/// A closure and what it sees.
#[derive(Clone)]
pub(crate) struct Closure<'p> {
    pub(crate) code: &'p syn::ExprClosure,
    pub(crate) frame: Frame<'p>,
}

/// Shapes of the prelude's enums.
pub(crate) struct Prelude {
    pub(crate) option: Rc<EnumShape>,
    pub(crate) result: Rc<EnumShape>,
    pub(crate) verdict: Rc<EnumShape>,
}

impl Prelude {
    fn new() -> Self {
        Self {
            option: EnumShape::option(),
            result: EnumShape::built_in("Result", &[("Err", 1), ("Ok", 1)]),
            verdict: EnumShape::built_in("Verdict", &VERDICTS),
        }
    }
}

/// Variants of `Verdict`, and how many fields each has.
pub(crate) const VERDICTS: [(&str, usize); 4] =
    [("Forward", 1), ("Drop", 1), ("Flood", 0), ("Recirculate", 1)];

/// Where execution is. Most of it is never asked which line that is: looking it up waits until then.
#[derive(Clone, Copy)]
pub(crate) enum Here<'p> {
    Line(u32),
    Span(proc_macro2::Span),
    /// Its span is made by printing it to tokens.
    Operator(&'p syn::BinOp),
}

/// Runs functions of one program.
pub(crate) struct Interpreter<'p> {
    pub(crate) program: &'p Program,
    pub(crate) terms: Terms,
    pub(crate) explorer: Explorer,
    /// What the current run has done so far.
    pub(crate) run: Run,
    pub(crate) prelude: Prelude,
    frames: Vec<Frame<'p>>,
    closures: Vec<Closure<'p>>,
    constants: HashMap<String, Value>,
    structs: HashMap<String, Rc<StructShape>>,
    enums: HashMap<String, Rc<EnumShape>>,
    /// What is true of all settings that `check` of the module accepts.
    pub(crate) accepted: Vec<Term>,
    /// What is proved of state objects.
    pub(crate) links: Vec<Link>,
    pub(crate) pairings: Vec<Pairing>,
    pub(crate) counted: Vec<Counted>,
    pub(crate) values: Vec<Values>,
    /// Whether any turn of a loop whose end is unknown is a path of its own, and what comes after it.
    pub(crate) loops_apart: bool,
    /// What turns of such loops leave to the next ones.
    pub(crate) carried: loops::Carried,
    /// What is known of loops any turn of which stands for all.
    pub(crate) alike: loops::Alike,
    /// What parts of the next unknown value are known to be, by the names that they would have.
    aliases: Vec<(String, Term)>,
    /// What is being executed.
    pub(crate) here: Here<'p>,
    /// Whether the expression is evaluated ahead of the condition that guards it.
    ahead: bool,
    /// Whether a pattern has alternatives that bind, of which the first that matches is taken.
    has_chosen: bool,
    /// How often each line has been asked for faults.
    pub(crate) faults: HashMap<u32, u32>,
    /// Computations in progress whose outcomes will be joined.
    layers: Vec<merge::Layer>,
    purity: purity::Purity,
    arrivals: FastMap<packet::FieldName, Term>,
}

impl<'p> Interpreter<'p> {
    pub(crate) fn new(program: &'p Program, explorer: Explorer) -> Self {
        Self {
            program,
            terms: Terms::new(),
            explorer,
            run: Run::default(),
            prelude: Prelude::new(),
            frames: Vec::new(),
            closures: Vec::new(),
            constants: HashMap::new(),
            structs: HashMap::new(),
            enums: HashMap::new(),
            accepted: Vec::new(),
            links: Vec::new(),
            pairings: Vec::new(),
            counted: Vec::new(),
            values: Vec::new(),
            loops_apart: false,
            carried: loops::Carried::default(),
            alike: loops::Alike::default(),
            aliases: Vec::new(),
            here: Here::Line(0),
            ahead: false,
            has_chosen: false,
            faults: HashMap::new(),
            layers: Vec::new(),
            purity: purity::Purity::default(),
            arrivals: FastMap::default(),
        }
    }

    /// Forgets the last run; terms and what the solver said are kept.
    pub(crate) fn restart(&mut self) {
        self.run = Run::default();
        self.frames.clear();
        self.frames.push(Frame::empty());
        self.closures.clear();
        self.ahead = false;
        self.layers.clear();
        self.explorer.restart();
    }

    /// Notes what is being executed.
    pub(crate) fn at(&mut self, span: proc_macro2::Span) {
        self.here = Here::Span(span);
    }

    /// The same of a node that begins with this path, whose own span would be made by printing it to tokens.
    pub(crate) fn at_path(&mut self, path: &syn::Path) {
        if let Some(first) = path.segments.first() {
            self.at(first.ident.span());
        }
    }

    /// The line being executed.
    pub(crate) fn line(&self) -> u32 {
        match self.here {
            Here::Line(line) => line,
            Here::Span(span) => self.program.module.line(span),
            Here::Operator(operator) => self.program.module.line(operator.span()),
        }
    }

    /// An error on the line being executed.
    pub(crate) fn error<T>(&self, message: impl Into<String>) -> Eval<T> {
        stop(Stop::Error(self.line(), message.into()))
    }

    /// Refuses what is more than computing, where only that may happen.
    pub(crate) fn effect(&self) -> Eval<()> {
        if self.layers.is_empty() { self.guarded() } else { stop(Stop::Impure) }
    }

    /// Refuses what must not happen ahead of the condition that guards it.
    pub(crate) fn guarded(&self) -> Eval<()> {
        if self.ahead { stop(Stop::Impure) } else { Ok(()) }
    }

    /// Which way a condition goes on this path.
    pub(crate) fn decide(&mut self, condition: Term) -> Eval<bool> {
        if let Some(known) = self.known(condition) {
            return Ok(known);
        }
        self.guarded()?;
        if !self.layers.is_empty() {
            return self.decide_locally(condition);
        }
        let condition = self.explorer.reduced(condition, &mut self.terms);
        if let Some(known) = self.known(condition) {
            return Ok(known);
        }
        let line = self.line();
        let holds = self.explorer.decide(condition, line, &mut self.terms).map_err(exit)?;
        if holds {
            self.learn_absent(condition);
        }
        Ok(holds)
    }

    /// What is known of a condition without asking the solver.
    pub(crate) fn known(&mut self, condition: Term) -> Option<bool> {
        if let Some(known) = self.terms.bool_of(condition) {
            return Some(known);
        }
        let negated = self.terms.not(condition);
        self.explorer.already(condition, negated)
    }

    /// Takes a fact as given for the rest of the path.
    pub(crate) fn assume(&mut self, condition: Term) -> Eval<()> {
        self.explorer.assume(condition, &mut self.terms).map_err(exit)
    }

    /// Has a condition not hold on this path, and none listed where it does.
    pub(crate) fn rule_out(&mut self, condition: Term) -> Eval<()> {
        let line = self.line();
        self.explorer.rule_out(condition, line, &mut self.terms).map_err(exit)
    }

    /// Takes as given what the branch taken implies: the last arm of a `match` matches.
    pub(crate) fn implied(&mut self, condition: Term) -> Eval<()> {
        match self.terms.bool_of(condition) {
            Some(true) => Ok(()),
            Some(false) => stop(Stop::Infeasible),
            None if self.layers.is_empty() => self.assume(condition),
            None => Ok(()),
        }
    }

    /// Whether some packet on this path meets the condition.
    pub(crate) fn possible(&mut self, condition: Term) -> Eval<bool> {
        let here = self.local_conditions();
        let both = self.terms.both(here, condition);
        let answer = self.explorer.possible(both, &mut self.terms).map_err(exit)?;
        Ok(answer != Answer::No)
    }

    /// Whether some packet on this path is known to meet the condition: an undecided question
    /// counts as no.
    pub(crate) fn certainly_possible(&mut self, condition: Term) -> Eval<bool> {
        let here = self.local_conditions();
        let both = self.terms.both(here, condition);
        let answer = self.explorer.possible(both, &mut self.terms).map_err(exit)?;
        Ok(answer == Answer::Yes)
    }

    pub(crate) fn frame(&mut self) -> &mut Frame<'p> {
        if self.frames.is_empty() {
            self.frames.push(Frame::empty());
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    /// Evaluates `body` in its own scope of locals.
    pub(crate) fn scoped<T>(&mut self, body: impl FnOnce(&mut Self) -> Eval<T>) -> Eval<T> {
        let depth = self.frame().locals.len();
        let result = body(self);
        self.frame().locals.truncate(depth);
        result
    }

    /// Evaluates `body` in a new frame.
    pub(crate) fn in_frame<T>(
        &mut self,
        frame: Frame<'p>,
        body: impl FnOnce(&mut Self) -> Eval<T>,
    ) -> Eval<T> {
        if self.frames.len() >= DEEPEST {
            return self.error("calls are nested too deep: write a loop");
        }
        self.frames.push(frame);
        let result = body(self);
        self.frames.pop();
        result
    }

    pub(crate) fn bind(&mut self, name: &'p Ident, value: Value) {
        let slot = LocalCell::new(value);
        self.frame().locals.push((name, slot));
    }

    pub(crate) fn local(&mut self, name: &Ident) -> Option<Slot> {
        let frame = self.frame();
        if name == "self" {
            return frame.receiver.clone();
        }
        let found = frame.locals.iter().rev().find(|(known, _)| *known == name);
        found.map(|(_, slot)| slot.clone())
    }
}

/// Ends the run.
pub(crate) fn stop<T>(stop: Stop) -> Eval<T> {
    Err(exit(stop))
}

pub(crate) fn exit(stop: Stop) -> Box<Exit> {
    Box::new(Exit::Stop(stop))
}

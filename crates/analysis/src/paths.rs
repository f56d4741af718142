//! All call paths of a network function.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use crate::access::{Access, Part};
use crate::error::AnalysisError;
use crate::explore::{Budget, Explorer};
use crate::expr::{Term, Terms, Words};
use crate::handlers::{Entry, entries};
use crate::interpret::call::parameters;
use crate::interpret::program::Program;
use crate::interpret::{Interpreter, Stop};
use crate::objects::{StateObject, objects};
use crate::path::{CallPath, Verdict, Warning};
use crate::proofs::{self, Counted, Link, Pairing, Stepped, Values};
use crate::solver::Absence;

/// Stack of the thread that interprets: nested expressions nest calls.
pub(crate) const STACK: usize = 256 << 20;

/// The author's text, as `#[network_function]` embeds it.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The module with its attribute.
    pub text: &'a str,
    /// The file it stands in.
    pub file: &'a str,
    /// Line of the text's first line in the file, from 1.
    pub line: u32,
}

/// All call paths of a network function, and what finding them took.
#[derive(Debug)]
pub struct Paths {
    /// The network function's name.
    pub name: String,
    /// The author's file.
    pub file: String,
    /// Whether fragments come to it; else they are put together first.
    pub fragments: bool,
    /// Its call paths, handler by handler.
    pub paths: Vec<CallPath>,
    /// What can go wrong, and where the list is not complete; by line.
    pub warnings: Vec<Warning>,
    /// Functions taken as unknown (`#[opaque]`), trusted.
    pub opaque: Vec<String>,
    /// What is declared of their results, in words; trusted too.
    pub declared: Vec<String>,
    /// Whether runs were given up in a loop that no path leaves in time: what is touched after it is
    /// not listed at all.
    pub given_up: bool,
    /// What `init` leaves in a `Cell`, of the parts that are the same on all its paths; known only
    /// within [`Budget::for_accesses`].
    pub left_by_init: Vec<Left>,
    /// Its state objects, and where the text touches them.
    pub objects: Vec<StateObject>,
    /// What is proved of its state objects, and known on every path.
    pub links: Vec<Link>,
    /// Keys and objects that go in pairs.
    pub pairings: Vec<Pairing>,
    /// Numbers that count objects.
    pub counted: Vec<Counted>,
    /// Which values its state objects can hold, where that is not any, and known on every path.
    pub values: Vec<Values>,
    /// Numbers in state objects that grow by one at a time, where paths need one of them to be large.
    pub stepped: Vec<Stepped>,
    /// Numbers of the paths on which one of these has to be 2^60 or more, which takes 36 years at a billion steps a
    /// second.
    pub distant: BTreeSet<usize>,
    /// What it took.
    pub statistics: Statistics,
    /// The arena the paths' terms live in.
    pub terms: Terms,
    /// What constants are called.
    pub words: Words,
}

/// A part of a `Cell` as `init` leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The object.
    pub object: String,
    /// The part of its value.
    pub part: String,
    /// What it is: over settings alone.
    pub term: Term,
}

/// Paths of `init` that are followed at most.
const OF_INIT: usize = 256;

/// What finding the paths took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Statistics {
    /// Call paths found.
    pub paths: usize,
    /// Call paths that there would be without what is proved of state objects.
    pub unlinked: usize,
    /// Branches that no packet takes.
    pub pruned: u64,
    /// Questions put to the solver.
    pub solver_calls: u64,
    /// Questions it could not decide within its effort; their branches are listed.
    pub undecided: u64,
    /// Whether there was no solver to put questions to.
    pub unsolved: bool,
    /// Wall clock, milliseconds.
    pub time_ms: u64,
}

/// Every call path of a network function, within the default [`Budget`].
///
/// # Errors
/// The module is not in the language, cannot be interpreted, exceeds a budget, or the solver
/// cannot be run; each with the author's line where there is one.
pub fn paths(source: &Source<'_>) -> Result<Paths, AnalysisError> {
    paths_within(source, Budget::default())
}

/// Every call path of a network function, within `budget`.
///
/// # Errors
/// As [`paths`].
pub fn paths_within(source: &Source<'_>, budget: Budget) -> Result<Paths, AnalysisError> {
    on_a_deep_stack(|| {
        let started = Instant::now();
        let program = Program::read(source.text, source.file, source.line)?;
        let mut found = Search::new(&program, budget).all()?;
        found.statistics.time_ms = milliseconds(started.elapsed());
        Ok(found)
    })
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Spans and the interpreter belong to one thread; it gets a stack of its own.
pub(crate) fn on_a_deep_stack<T: Send>(
    work: impl FnOnce() -> Result<T, AnalysisError> + Send,
) -> Result<T, AnalysisError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("analysis".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, work);
        let thread = thread.map_err(|error| {
            AnalysisError::Solver(format!(
                "no thread for the analysis: {error}: the system limits those of a user (`ulimit -u`) and of a service \
                 (TasksMax= of systemd): raise that limit"
            ))
        })?;
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

struct Search<'p> {
    interpreter: Interpreter<'p>,
    paths: Vec<CallPath>,
    warnings: BTreeSet<Warning>,
    given_up: bool,
    /// Ways in with a loop that was cut off.
    cut_off: Vec<Entry>,
    /// Paths found before links were known.
    unlinked: usize,
    /// Numbers that grow by one at a time, and the paths on which one of them has to be large.
    stepped: Vec<Stepped>,
    distant: BTreeSet<usize>,
}

impl<'p> Search<'p> {
    fn new(program: &'p Program, budget: Budget) -> Self {
        Self {
            interpreter: Interpreter::new(program, Explorer::new(budget)),
            paths: Vec::new(),
            warnings: BTreeSet::new(),
            given_up: false,
            cut_off: Vec::new(),
            unlinked: 0,
            stepped: Vec::new(),
            distant: BTreeSet::new(),
        }
    }

    fn all(mut self) -> Result<Paths, AnalysisError> {
        self.validate_settings()?;
        self.explore_all()?;
        self.unlinked = self.paths.len();
        self.prove()?;
        if self.interpreter.knows_of_state() {
            self.forget();
            self.explore_all()?;
        }
        let Interpreter { terms, explorer, .. } = &mut self.interpreter;
        let distant = proofs::distant(&self.stepped, &self.paths, terms, &mut explorer.solver);
        self.distant = distant.map_err(AnalysisError::Solver)?;
        if self.distant.is_empty() {
            self.stepped.clear();
        }
        let left = self.left_by_init();
        Ok(Paths { left_by_init: left, ..self.finish() })
    }

    fn explore_all(&mut self) -> Result<(), AnalysisError> {
        let mut entries = entries(&self.interpreter.program.module).into_iter();
        entries.try_for_each(|entry| self.explore(&entry))
    }

    /// Forgets what has been found.
    fn forget(&mut self) {
        self.paths.clear();
        self.warnings.clear();
        self.interpreter.faults.clear();
        (self.given_up, self.interpreter.explorer.pruned) = (false, 0);
    }

    /// Proves what it can of state objects, where all is looked at closely: on the paths found, with `init` and
    /// what has loops that were cut off followed once more, one turn at a time. Nothing where that cannot be
    /// followed.
    fn prove(&mut self) -> Result<(), AnalysisError> {
        if !self.interpreter.explorer.budget.routed_apart {
            return Ok(());
        }
        let Some(mut all) = self.prove_values()? else { return Ok(()) };
        // What is so of objects says more of locals that are made of them, and so of what is made of these.
        if !self.interpreter.values.is_empty() && !self.interpreter.carried.values.is_empty() {
            match self.prove_values()? {
                Some(paths) => all = paths,
                None => return Ok(()),
            }
        }
        let Interpreter { program, terms, explorer, links, pairings, counted, values, .. } =
            &mut self.interpreter;
        self.stepped = proofs::stepped(&all, terms);
        let fields = &program.module.nf.fields;
        let solver = &mut explorer.solver;
        let told = fields.iter().filter(|field| field.expired.is_some());
        let told: Vec<String> = told.map(|field| field.ident.to_string()).collect();
        for link in proofs::candidates(&all, &told, terms) {
            let of = values.iter().find(|values| values.object == link.allocator);
            let proved = proofs::prove(link, of, &all, terms, solver);
            links.extend(proved.map_err(AnalysisError::Solver)?);
        }
        for pairing in proofs::pairings(&all, &told, terms) {
            let kept = proofs::is_kept(&pairing, &all, terms, solver);
            pairings.extend(kept.map_err(AnalysisError::Solver)?.then_some(pairing));
        }
        for count in proofs::counts(&all, &told, terms) {
            if counted.iter().any(|known| known.map == count.map) {
                continue;
            }
            let of = values.iter().find(|values| values.object == count.allocator);
            let kept = proofs::is_counted(&count, (links, of), &all, terms, solver);
            counted.extend(kept.map_err(AnalysisError::Solver)?.then_some(count));
        }
        Ok(())
    }

    /// Proves what it can of the values of locals and objects, given what has been proved of them; the paths on which
    /// it has. `None`: they cannot be followed.
    fn prove_values(&mut self) -> Result<Option<Vec<CallPath>>, AnalysisError> {
        let Some(mut all) = self.turn_by_turn() else { return Ok(None) };
        let given = self.interpreter.given();
        if self.prove_locals(&all, &given)? {
            match self.turn_by_turn() {
                Some(paths) => all = paths,
                None => return Ok(None),
            }
        }
        all.extend(self.paths.iter().cloned());
        let Interpreter { program, terms, explorer, values, .. } = &mut self.interpreter;
        let fields = &program.module.nf.fields;
        let set = program.module.packet_set.iter().map(|set| set.ident.to_string());
        for object in fields.iter().map(|field| field.ident.to_string()).chain(set) {
            let given = (&*given, &**values, &[][..]);
            let found = proofs::reached(&object, &all, given, terms, &mut explorer.solver);
            if let Some(found) = found.map_err(AnalysisError::Solver)? {
                values.retain(|known| known.object != object);
                values.push(found);
            }
        }
        Ok(Some(all))
    }

    /// Proves what it can of locals that turns of loops leave to the next ones; whether that is anything.
    fn prove_locals(&mut self, all: &[CallPath], given: &[Term]) -> Result<bool, AnalysisError> {
        let Interpreter { terms, explorer, carried, values, .. } = &mut self.interpreter;
        let accesses = || all.iter().flat_map(|path| &path.accesses);
        // Those of which something that is stored is made.
        let stored = accesses().filter(|access| access.kind != proofs::LOCAL);
        let stored = stored.flat_map(|access| &access.value);
        let stored: BTreeSet<_> = stored.flat_map(|it| terms.unknowns(it.term).to_vec()).collect();
        let is_stored =
            |part: &Part| terms.unknowns(part.term).iter().any(|id| stored.contains(id));
        let locals = accesses().filter(|access| access.kind == proofs::LOCAL);
        let locals = locals.filter(|access| access.result.iter().any(is_stored));
        let locals: BTreeSet<&String> = locals.map(|access| &access.object).collect();
        let objects = accesses().filter(|access| access.kind != proofs::LOCAL);
        let objects: BTreeSet<&str> = objects.map(|access| access.object.as_str()).collect();
        let limits = proofs::limits(objects.into_iter(), all, terms);
        let known = &**values;
        for local in locals {
            let given = (given, known, &*limits);
            let found = proofs::reached(local, all, given, terms, &mut explorer.solver);
            if let Some(found) = found.map_err(AnalysisError::Solver)? {
                carried.values.retain(|known| known.object != *local);
                carried.values.push(found);
            }
        }
        Ok(!carried.values.is_empty())
    }

    /// Paths of `init` and of what was cut off, in which any turn of a loop is a path of its own.
    fn turn_by_turn(&mut self) -> Option<Vec<CallPath>> {
        let mut entries = self.cut_off.clone();
        entries.extend(self.interpreter.program.module.handlers.init.then_some(Entry::Init));
        let before = self.paths.len();
        let (warnings, given_up) = (self.warnings.clone(), self.given_up);
        self.interpreter.loops_apart = true;
        let followed = loop {
            let followed = entries.iter().try_for_each(|entry| self.explore(entry));
            if followed.is_err() || !self.interpreter.carried.grow() {
                break followed;
            }
            self.paths.truncate(before);
        };
        self.interpreter.loops_apart = false;
        self.interpreter.explorer.abandon();
        (self.warnings, self.given_up) = (warnings, given_up);
        let paths = self.paths.split_off(before);
        followed.is_ok().then_some(paths)
    }

    /// Follows `init` last of all, with loops cut off after one turn; nothing is known of what it
    /// leaves where it cannot be followed.
    fn left_by_init(&mut self) -> Vec<Left> {
        let budget = self.interpreter.explorer.budget;
        if budget.routed_apart || !self.interpreter.program.module.handlers.init {
            return Vec::new();
        }
        let before = self.paths.len();
        self.interpreter.explorer.budget.paths = before + OF_INIT;
        let (warnings, given_up) = (self.warnings.clone(), self.given_up);
        let followed = self.explore(&Entry::Init);
        (self.warnings, self.given_up) = (warnings, given_up);
        let paths = self.paths.split_off(before);
        if followed.is_ok() { left(&paths, &self.interpreter.terms) } else { Vec::new() }
    }

    /// Settings that `check` refuses never reach a handler: what all those that it accepts have in
    /// common is given to the others.
    fn validate_settings(&mut self) -> Result<(), AnalysisError> {
        if !self.interpreter.program.module.handlers.check {
            return Ok(());
        }
        self.explore(&Entry::Check)?;
        self.warnings.clear();
        self.given_up = false;
        let mut accepted: Option<Vec<Term>> = None;
        for path in self.paths.drain(..).filter(|path| path.verdict == Verdict::Done) {
            let conditions = path.conditions.iter().map(|made| made.term);
            // What was asked in one turn of a loop is not so in any.
            let conditions: Vec<Term> =
                conditions.filter(|one| !self.interpreter.terms.is_of_loop(*one)).collect();
            accepted = Some(match accepted {
                None => conditions,
                Some(known) => known.into_iter().filter(|one| conditions.contains(one)).collect(),
            });
        }
        self.interpreter.accepted = accepted.unwrap_or_default();
        Ok(())
    }

    fn explore(&mut self, entry: &Entry) -> Result<(), AnalysisError> {
        let before = self.paths.len();
        let mut accesses = 0;
        loop {
            self.interpreter.restart();
            let end = self.interpreter.run_entry(entry);
            let cut_off = self.interpreter.run.warnings.iter().any(Warning::is_cut_off);
            self.given_up |= cut_off && matches!(end, Err(Stop::Infeasible));
            if cut_off && !self.cut_off.contains(entry) {
                self.cut_off.push(entry.clone());
            }
            self.warnings.append(&mut self.interpreter.run.warnings);
            if self.is_followed_again(&end, accesses) {
                accesses = 0;
                self.paths.truncate(before);
                self.interpreter.explorer.abandon();
                continue;
            }
            match end {
                Ok(path) => {
                    accesses += path.accesses.len();
                    self.add(path, accesses)?;
                }
                Err(Stop::Infeasible | Stop::Impure | Stop::Cut | Stop::Again) => {}
                Err(Stop::Solver(message)) => return Err(AnalysisError::Solver(message)),
                Err(Stop::Error(line, message)) => return Err(self.error(line, message)),
            }
            if !self.interpreter.explorer.advance() {
                return Ok(());
            }
        }
    }

    /// Whether an entry is followed from the start, after a run that has ended so: it has found out something about
    /// a loop, or went where any turn of a loop cannot be followed, but its first ones may be.
    fn is_followed_again(&mut self, end: &Result<CallPath, Stop>, accesses: usize) -> bool {
        match end {
            Err(Stop::Again) => true,
            Err(Stop::Error(..)) => self.interpreter.unroll_all(),
            Ok(path) => {
                let Budget { paths, accesses: most, .. } = self.interpreter.explorer.budget;
                let is_full = self.paths.len() >= paths || accesses + path.accesses.len() > most;
                is_full && self.interpreter.unroll_all()
            }
            Err(_) => false,
        }
    }

    /// `accesses`: of all paths of its handler so far.
    fn add(&mut self, mut path: CallPath, accesses: usize) -> Result<(), AnalysisError> {
        let Budget { paths: limit, accesses: most, .. } = self.interpreter.explorer.budget;
        if accesses > most {
            let line = self.interpreter.explorer.busiest_line();
            let message = format!(
                "{} call paths so far touch state more than {most} times, and there are more, most of them from \
                 here: look fewer things up in one handler, or give the loop a smaller bound",
                self.paths.len()
            );
            return Err(self.error(line, message));
        }
        if self.paths.len() >= limit {
            let line = self.interpreter.explorer.busiest_line();
            let message = format!(
                "more than {limit} call paths, most of them from here: decide fewer things in one \
                 handler, or bound the loop more tightly"
            );
            return Err(self.error(line, message));
        }
        path.number = self.paths.len() + 1;
        self.paths.push(path);
        Ok(())
    }

    fn error(&self, line: u32, message: String) -> AnalysisError {
        AnalysisError::At { file: self.interpreter.program.file.clone(), line, message }
    }

    fn finish(self) -> Paths {
        let program = self.interpreter.program;
        let explorer = &self.interpreter.explorer;
        Paths {
            name: program.module.ident.to_string().replace('_', "-"),
            file: program.file.clone(),
            statistics: Statistics {
                paths: self.paths.len(),
                unlinked: self.unlinked,
                pruned: explorer.pruned,
                solver_calls: explorer.solver.calls,
                undecided: explorer.solver.undecided,
                unsolved: explorer.solver.absence == Absence::Found,
                time_ms: 0,
            },
            fragments: program.module.packets != anabranch_language::Packets::Datagrams,
            paths: self.paths,
            warnings: self.warnings.into_iter().collect(),
            opaque: opaque(program),
            declared: declared(program),
            objects: objects(&program.module),
            given_up: self.given_up,
            left_by_init: Vec::new(),
            links: self.interpreter.links,
            pairings: self.interpreter.pairings,
            counted: self.interpreter.counted,
            values: self.interpreter.values,
            stepped: self.stepped,
            distant: self.distant,
            words: program.words(),
            terms: self.interpreter.terms,
        }
    }
}

pub(crate) fn opaque(program: &Program) -> Vec<String> {
    let functions = program.module.fns.iter();
    functions
        .filter(|item| anabranch_language::opaque(&item.attrs, &item.sig).is_some())
        .map(|item| item.sig.ident.to_string())
        .collect()
}

/// What opaque functions declare of their results.
fn declared(program: &Program) -> Vec<String> {
    let below = |item: &syn::ItemFn| {
        let position = anabranch_language::opaque(&item.attrs, &item.sig)?.below?;
        let limit = match &*parameters(&item.sig).nth(position)?.pat {
            syn::Pat::Ident(limit) => limit.ident.to_string(),
            _ => return None,
        };
        Some(format!("`{}` returns less than `{limit}`", item.sig.ident))
    };
    program.module.fns.iter().filter_map(below).collect()
}

/// Parts that every path leaves the same, over settings alone.
fn left(paths: &[CallPath], terms: &Terms) -> Vec<Left> {
    let mut common: Option<Vec<Left>> = None;
    for path in paths {
        let mut own: Vec<Left> = Vec::new();
        for access in path.accesses.iter().filter(|access| access.kind == "Cell") {
            for part in &access.value {
                let (object, name) = (access.object.clone(), part.name.clone());
                own.retain(|known| (&known.object, &known.part) != (&object, &name));
                own.push(Left { object, part: name, term: part.term });
            }
        }
        common = Some(match common {
            None => own,
            Some(known) => known.into_iter().filter(|left| own.contains(left)).collect(),
        });
    }
    let common = common.unwrap_or_default().into_iter();
    common.filter(|left| terms.is_of_settings(left.term)).collect()
}

impl Paths {
    /// What is proved of state, in words.
    pub fn proved(&self) -> Vec<String> {
        let values = self.values.iter().map(ToString::to_string);
        let links = self.links.iter().map(ToString::to_string);
        let pairings = self.pairings.iter().map(ToString::to_string);
        let counted = self.counted.iter().map(ToString::to_string);
        let stepped = self.stepped.iter().map(ToString::to_string);
        values.chain(links).chain(pairings).chain(counted).chain(stepped).collect()
    }

    /// Lines of the loops that were cut off: paths with more iterations are not listed.
    pub fn cut_off(&self) -> impl Iterator<Item = u32> {
        let cut = self.warnings.iter().filter(|warning| warning.is_cut_off());
        cut.map(|warning| warning.line)
    }

    /// Accesses of all paths, with the number of the path each stands on.
    pub fn accesses(&self) -> impl Iterator<Item = (usize, &Access)> {
        self.paths
            .iter()
            .flat_map(|path| path.accesses.iter().map(move |access| (path.number, access)))
    }
}

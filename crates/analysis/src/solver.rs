//! Z3, run as a system program: one process, asked only what slicing and the cache cannot answer.

use std::io;

use easy_smt::{Context, ContextBuilder, Response, SExpr};

use crate::bounds::Bounds;
use crate::canonical::canonical;
use crate::example::Examples;
use crate::expr::{Binary, Node, Sort, SymbolId, Term, Terms, operands};
use crate::hash::{FastMap, FastSet};

/// Resource units one question may use. Deterministic, unlike a time limit: the same module gives
/// the same paths on every machine. Some 10 ms of a bit-vector problem.
const EFFORT: u64 = 20_000;

/// Of what is to be proved, or to be given values, of which there is less.
const THOROUGH: u64 = 50 * EFFORT;

/// Whether conditions can hold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
    /// Too hard to tell. Branches go that way too: a path too many is shown, never one too few.
    Unknown,
}

/// Answers whether conditions can hold together.
#[derive(Default)]
pub(crate) struct Solver {
    process: Option<Process>,
    answers: FastMap<Vec<Term>, Answer>,
    /// What the process has said, by what the question and the effort are, whatever unknowns are called.
    told: FastMap<Vec<u64>, Answer>,
    examples: Examples,
    /// Questions put to the process.
    pub(crate) calls: u64,
    /// Questions it could not decide within its effort; taken as satisfiable.
    pub(crate) undecided: u64,
    /// What to do where the system has no z3.
    pub(crate) absence: Absence,
}

/// What to do where the system has no z3.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Absence {
    /// Ask for it to be installed.
    #[default]
    Refused,
    /// Every question counts as undecided: paths that cannot be taken are not pruned.
    Allowed,
    /// As `Allowed`, and it is known by now.
    Found,
}

struct Process {
    context: Context,
    encoded: FastMap<Term, SExpr>,
    declared: FastSet<SymbolId>,
    /// Resource units that a question may use.
    effort: u64,
    /// `(check-sat-using …)`: unconstrained parts go first, which the plain command leaves out.
    question: SExpr,
}

impl Solver {
    /// A solver that has been asked nothing.
    pub(crate) fn new(absence: Absence) -> Self {
        Self { absence, ..Self::default() }
    }

    /// Whether `conditions` (sorted, without repetition) can hold together.
    pub(crate) fn satisfiable(
        &mut self,
        conditions: Vec<Term>,
        terms: &Terms,
    ) -> Result<Answer, String> {
        if let [single] = conditions[..]
            && is_free(single, terms)
        {
            return Ok(Answer::Yes);
        }
        if let Some(answer) = self.answers.get(&conditions) {
            return Ok(*answer);
        }
        let answer = match self.guess(&conditions, terms) {
            Some(answer) => answer,
            None => self.ask(&conditions, terms, EFFORT)?,
        };
        // It is told of paths alone, not of what is to be proved.
        self.undecided += u64::from(answer == Answer::Unknown);
        self.answers.insert(conditions, answer);
        Ok(answer)
    }

    /// What bounds refute and what an example shows.
    fn guess(&mut self, conditions: &[Term], terms: &Terms) -> Option<Answer> {
        let Some(bounds) = Bounds::under(conditions, terms) else { return Some(Answer::No) };
        self.examples.find(conditions, &bounds, terms).then_some(Answer::Yes)
    }

    /// As [`satisfiable`](Self::satisfiable), by example only: for conditions too slow to decide.
    pub(crate) fn exemplified(&mut self, conditions: Vec<Term>, terms: &Terms) -> Answer {
        if let Some(answer) = self.answers.get(&conditions) {
            return *answer;
        }
        let answer = self.guess(&conditions, terms).unwrap_or(Answer::Unknown);
        self.undecided += u64::from(answer == Answer::Unknown);
        self.answers.insert(conditions, answer);
        answer
    }

    /// Whether `conditions` cannot hold together, for certain.
    pub(crate) fn refutes(
        &mut self,
        mut conditions: Vec<Term>,
        terms: &Terms,
    ) -> Result<bool, String> {
        if conditions.iter().any(|one| terms.bool_of(*one) == Some(false)) {
            return Ok(true);
        }
        conditions.retain(|one| terms.bool_of(*one).is_none());
        conditions.sort_unstable();
        conditions.dedup();
        // What was too hard with less effort is asked again.
        let known = self.answers.get(&conditions).filter(|answer| **answer != Answer::Unknown);
        if let Some(answer) = known {
            return Ok(*answer == Answer::No);
        }
        if Bounds::under(&conditions, terms).is_none() {
            self.answers.insert(conditions, Answer::No);
            return Ok(true);
        }
        let answer = self.ask(&conditions, terms, THOROUGH)?;
        self.answers.insert(conditions, answer);
        Ok(answer == Answer::No)
    }

    /// Whether the system has a solver.
    #[cfg(test)]
    pub(crate) fn is_there(&mut self) -> bool {
        self.process().is_ok()
    }

    /// The solver, started by the first question; `None` where it is missing and may be.
    fn process(&mut self) -> Result<Option<&mut Process>, String> {
        if self.process.is_none() && self.absence != Absence::Found {
            match Process::start() {
                Ok(process) => self.process = Some(process),
                Err(_) if self.absence == Absence::Allowed => self.absence = Absence::Found,
                Err(why) => return Err(why),
            }
        }
        self.calls += u64::from(self.process.is_some());
        Ok(self.process.as_mut())
    }

    /// Values of `wanted` under which `conditions` hold and the symbols of `fixed` have theirs; `None`
    /// where there are none, none is found, or there is no solver.
    pub(crate) fn model(
        &mut self,
        conditions: &[Term],
        fixed: &[(Term, u128)],
        wanted: &[Term],
        terms: &Terms,
    ) -> Option<Vec<u128>> {
        let process = self.process().ok().flatten()?;
        let found = process.model(conditions, fixed, wanted, terms);
        if found.is_err() {
            self.process = None;
        }
        found.ok().flatten()
    }

    /// What the process says of conditions, if it has not said so of others that are the same.
    fn ask(&mut self, conditions: &[Term], terms: &Terms, effort: u64) -> Result<Answer, String> {
        let mut question = canonical(conditions, terms);
        question.push(effort);
        if let Some(answer) = self.told.get(&question) {
            return Ok(*answer);
        }
        let mut answer = self.put(conditions, terms, effort)?;
        // Of what is asked with less effort there is more, and time for it is short.
        if answer == Answer::Unknown && effort == THOROUGH && self.process.is_some() {
            answer = self.afresh(|solver| solver.put(conditions, terms, effort))?;
        }
        self.told.insert(question, answer);
        Ok(answer)
    }

    /// What a process says that has been asked nothing else: how far one comes depends on what it was asked before,
    /// and so on every line of the source.
    pub(crate) fn afresh<R>(&mut self, ask: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.process.take();
        let answer = ask(self);
        self.process = before;
        answer
    }

    fn put(&mut self, conditions: &[Term], terms: &Terms, effort: u64) -> Result<Answer, String> {
        let Some(process) = self.process()? else { return Ok(Answer::Unknown) };
        match process.check(conditions, terms, effort) {
            Ok(Response::Sat) => Ok(Answer::Yes),
            Ok(Response::Unsat) => Ok(Answer::No),
            Ok(Response::Unknown) => Ok(Answer::Unknown),
            Err(error) => {
                // What it still has to say would be taken for the next answer.
                self.process = None;
                Err(broken(error))
            }
        }
    }
}

fn broken(error: io::Error) -> String {
    format!("the solver z3 stopped answering: {error}")
}

/// A condition that holds for some value of its one unknown whatever that is.
fn is_free(term: Term, terms: &Terms) -> bool {
    let is_symbol = |term: Term| matches!(terms.node(term), Node::Symbol(_));
    match *terms.node(term) {
        Node::Symbol(_) => true,
        Node::Not(inner) => match *terms.node(inner) {
            Node::Symbol(_) => true,
            Node::Binary(Binary::Equal, a, _) => is_symbol(a),
            _ => false,
        },
        Node::Binary(Binary::Equal, a, b) => is_symbol(a) || is_symbol(b),
        Node::Binary(Binary::LessEqualUnsigned, a, b) => is_symbol(a) || is_symbol(b),
        // `x < 0` and `ones < x` are folded away when the term is made.
        Node::Binary(Binary::LessUnsigned, a, b) => {
            (is_symbol(a) && terms.known_value(b).is_some())
                || (is_symbol(b) && terms.known_value(a).is_some())
        }
        _ => false,
    }
}

impl Process {
    fn start() -> Result<Self, String> {
        let mut builder = ContextBuilder::new();
        builder.with_z3_defaults();
        let context = builder.build().map_err(missing)?;
        let question = question(&context);
        let (encoded, declared) = (FastMap::default(), FastSet::default());
        let mut process = Self { context, encoded, declared, effort: 0, question };
        let no = process.context.false_();
        process
            .tell("set-option", [process.context.atom(":print-success"), no])
            .map_err(missing)?;
        Ok(process)
    }

    /// Sends a command that is not answered. There are some forty to a question, and a `success` waited for
    /// after each took as long as all the rest; what it says against one is read in place of the next answer.
    fn tell<const N: usize>(&mut self, command: &str, operands: [SExpr; N]) -> io::Result<()> {
        let command = std::iter::once(self.context.atom(command)).chain(operands).collect();
        self.context.raw_send(self.context.list(command))
    }

    /// Asserts conditions until [`retract`](Self::retract).
    fn assert(&mut self, conditions: impl IntoIterator<Item = SExpr>) -> io::Result<()> {
        self.tell("push", [self.context.numeral(1)])?;
        conditions.into_iter().try_for_each(|condition| self.tell("assert", [condition]))
    }

    fn retract(&mut self) -> io::Result<()> {
        self.tell("pop", [self.context.numeral(1)])
    }

    fn check(&mut self, conditions: &[Term], terms: &Terms, effort: u64) -> io::Result<Response> {
        let encoded: io::Result<Vec<SExpr>> =
            conditions.iter().map(|condition| self.encode(*condition, terms)).collect();
        self.assert(encoded?)?;
        let answer = self.answer(effort)?;
        self.retract()?;
        Ok(answer)
    }

    fn model(
        &mut self,
        conditions: &[Term],
        fixed: &[(Term, u128)],
        wanted: &[Term],
        terms: &Terms,
    ) -> io::Result<Option<Vec<u128>>> {
        let all: io::Result<Vec<SExpr>> =
            conditions.iter().chain(wanted).map(|term| self.encode(*term, terms)).collect();
        let (conditions, wanted) = {
            let mut all = all?;
            let wanted = all.split_off(conditions.len());
            (all, wanted)
        };
        let mut known = Vec::new();
        for (term, value) in fixed {
            let encoded = self.encode(*term, terms)?;
            let value = match terms.sort(*term) {
                Sort::Bool if *value == 0 => self.context.false_(),
                Sort::Bool => self.context.true_(),
                Sort::Bits(width) => self.bits(*value, width),
            };
            known.push(self.context.eq(encoded, value));
        }
        self.assert(conditions.into_iter().chain(known))?;
        let values = match self.answer(THOROUGH)? {
            Response::Sat => self.values(wanted)?,
            _ => None,
        };
        self.retract()?;
        Ok(values)
    }

    /// What terms are in the model that has been found; `None`: one has no number. They are asked for one by one:
    /// a list (`get-value`) that the limit cuts short has no end, and would be waited for.
    fn values(&mut self, wanted: Vec<SExpr>) -> io::Result<Option<Vec<u128>>> {
        let context = &mut self.context;
        let mut values = Vec::new();
        for term in wanted {
            let [command, whole, yes] = ["eval", ":completion", "true"].map(|it| context.atom(it));
            context.raw_send(context.list(vec![command, term, whole, yes]))?;
            let answer = context.raw_recv()?;
            let answer = context.display(answer).to_string();
            if answer.starts_with("(error") {
                return Err(io::Error::other(answer));
            }
            values.push(number(&answer));
        }
        Ok(values.into_iter().collect())
    }

    fn answer(&mut self, effort: u64) -> io::Result<Response> {
        if std::mem::replace(&mut self.effort, effort) != effort {
            let effort = self.context.numeral(effort);
            self.tell("set-option", [self.context.atom(":rlimit"), effort])?;
        }
        self.context.raw_send(self.question)?;
        let answer = self.context.raw_recv()?;
        match self.context.get_atom(answer) {
            Some("sat") => Ok(Response::Sat),
            Some("unsat") => Ok(Response::Unsat),
            Some("unknown") => Ok(Response::Unknown),
            _ => Err(io::Error::other(self.context.display(answer).to_string())),
        }
    }

    /// The term as the solver reads it. Every compound term is defined once, by name, so that
    /// shared parts are sent once.
    fn encode(&mut self, term: Term, terms: &Terms) -> io::Result<SExpr> {
        if let Some(known) = self.encoded.get(&term) {
            return Ok(*known);
        }
        let parts: io::Result<Vec<SExpr>> = operands(terms.node(term))
            .into_iter()
            .map(|operand| self.encode(operand, terms))
            .collect();
        let body = self.body(term, &parts?, terms)?;
        let encoded = match terms.node(term) {
            Node::Bool(_) | Node::Constant { .. } | Node::Symbol(_) => body,
            _ => {
                let sort = self.sort(terms.sort(term));
                let name = self.context.atom(format!("t{}", self.encoded.len()));
                self.tell("define-fun", [name, self.context.list(Vec::new()), sort, body])?;
                name
            }
        };
        self.encoded.insert(term, encoded);
        Ok(encoded)
    }

    fn sort(&self, sort: Sort) -> SExpr {
        match sort {
            Sort::Bool => self.context.bool_sort(),
            Sort::Bits(width) => self.context.bit_vec_sort(self.context.numeral(width)),
        }
    }

    fn body(&mut self, term: Term, parts: &[SExpr], terms: &Terms) -> io::Result<SExpr> {
        let context = &self.context;
        Ok(match (terms.node(term), parts) {
            (Node::Bool(true), _) => context.true_(),
            (Node::Bool(false), _) => context.false_(),
            (Node::Constant { value, width }, _) => self.bits(*value, *width),
            (Node::Symbol(id), _) => self.declare(*id, &[], terms)?,
            (Node::Not(_), [a]) => context.not(*a),
            (Node::Binary(operator, left, _), [a, b]) => {
                self.binary(*operator, *a, *b, terms.width(*left))
            }
            (Node::Ite(..), [c, a, b]) => context.ite(*c, *a, *b),
            (Node::Concat(..), [a, b]) => context.concat(*a, *b),
            (Node::Extract { high, low, .. }, [a]) => {
                context.extract(i32::from(*high), i32::from(*low), *a)
            }
            (Node::Extend { signed, width, of }, [a]) => {
                self.extend(*signed, *width - terms.width(*of), *a)
            }
            (Node::Apply(id, arguments), parts) => {
                let function = self.declare(*id, arguments, terms)?;
                let mut list = vec![function];
                list.extend_from_slice(parts);
                self.context.list(list)
            }
            _ => return Err(io::Error::other("a term without its operands")),
        })
    }

    fn bits(&self, value: u128, width: u8) -> SExpr {
        let digits: String =
            (0..width).rev().map(|bit| if value >> bit & 1 == 1 { '1' } else { '0' }).collect();
        self.context.atom(format!("#b{digits}"))
    }

    fn declare(&mut self, id: SymbolId, arguments: &[Term], terms: &Terms) -> io::Result<SExpr> {
        let name = self.context.atom(format!("|{}.{id:?}|", terms.symbol_of(id).name));
        if self.declared.insert(id) {
            let sorts: Vec<SExpr> =
                arguments.iter().map(|argument| self.sort(terms.sort(*argument))).collect();
            let sort = self.sort(terms.symbol_of(id).sort);
            self.tell("declare-fun", [name, self.context.list(sorts), sort])?;
        }
        Ok(name)
    }

    fn extend(&self, signed: bool, by: u8, a: SExpr) -> SExpr {
        let context = &self.context;
        let name = if signed { "sign_extend" } else { "zero_extend" };
        let operator = [context.atom("_"), context.atom(name), context.numeral(by)];
        context.list(vec![context.list(operator.to_vec()), a])
    }

    fn binary(&self, operator: Binary, a: SExpr, b: SExpr, width: u8) -> SExpr {
        use Binary::*;
        let context = &self.context;
        let plain = |name: &str| context.list(vec![context.atom(name), a, b]);
        match operator {
            Add => plain("bvadd"),
            Sub => plain("bvsub"),
            Mul => plain("bvmul"),
            DivUnsigned => self.divided("bvudiv", a, b, width),
            DivSigned => self.divided("bvsdiv", a, b, width),
            RemUnsigned => self.divided("bvurem", a, b, width),
            RemSigned => self.divided("bvsrem", a, b, width),
            And => plain("bvand"),
            Or => plain("bvor"),
            Xor => plain("bvxor"),
            ShiftLeft => self.shifted("bvshl", a, b, width),
            ShiftRight => self.shifted("bvlshr", a, b, width),
            ShiftRightSigned => self.shifted("bvashr", a, b, width),
            Equal => plain("="),
            LessUnsigned => plain("bvult"),
            LessEqualUnsigned => plain("bvule"),
            LessSigned => plain("bvslt"),
            LessEqualSigned => plain("bvsle"),
            Both => plain("and"),
            Either => plain("or"),
        }
    }

    /// Division by zero yields zero in the NF language, and something else in SMT-LIB.
    fn divided(&self, name: &str, a: SExpr, b: SExpr, width: u8) -> SExpr {
        let context = &self.context;
        let zero = self.bits(0, width);
        let quotient = context.list(vec![context.atom(name), a, b]);
        context.ite(context.eq(b, zero), zero, quotient)
    }

    /// Shifts are modulo the width.
    fn shifted(&self, name: &str, a: SExpr, b: SExpr, width: u8) -> SExpr {
        let context = &self.context;
        let by = context.list(vec![
            context.atom("bvurem"),
            b,
            self.bits(u128::from(width), width.max(8)),
        ]);
        context.list(vec![context.atom(name), a, by])
    }
}

/// A value as the solver writes it.
fn number(text: &str) -> Option<u128> {
    match text {
        "true" => Some(1),
        "false" => Some(0),
        _ => match text.strip_prefix("#x") {
            Some(digits) => u128::from_str_radix(digits, 16).ok(),
            None => u128::from_str_radix(text.strip_prefix("#b")?, 2).ok(),
        },
    }
}

fn question(context: &Context) -> SExpr {
    let tactics = ["then", "simplify", "elim-uncnstr", "smt"].map(|name| context.atom(name));
    context.list(vec![context.atom("check-sat-using"), context.list(tactics.to_vec())])
}

fn missing(error: io::Error) -> String {
    format!(
        "the solver z3 cannot be run ({error}): install it, `apt-get install z3` on Debian or \
         Ubuntu, `dnf install z3` on Fedora, `brew install z3` on macOS"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Kind;

    #[test]
    fn what_is_said_against_a_command_is_an_error_and_no_answer_to_another_question() {
        let mut solver = Solver::new(Absence::Allowed);
        if !solver.is_there() {
            eprintln!("skipped: the system has no z3");
            return;
        }
        let mut terms = Terms::new();
        let a = terms.symbol("a", Sort::Bits(8), Kind::Number);
        let three = terms.constant(3, 8);
        let below = terms.binary(Binary::LessUnsigned, a, three);
        let not_below = terms.not(below);
        assert_eq!(solver.put(&[below], &terms, EFFORT), Ok(Answer::Yes));
        assert_eq!(solver.put(&[below, not_below], &terms, EFFORT), Ok(Answer::No));

        let say_nonsense = |solver: &mut Solver| {
            let process = solver.process.as_mut().expect("a process that has been asked");
            process.tell("assert", [process.context.atom("nobody")]).expect("it is written");
        };
        say_nonsense(&mut solver);
        let why =
            solver.put(&[below], &terms, EFFORT).expect_err("an error in place of the answer");
        assert!(why.contains("nobody"), "{why}");

        assert_eq!(
            solver.model(&[below], &[], &[a], &terms).map(|values| values[0] < 3),
            Some(true)
        );
        say_nonsense(&mut solver);
        assert_eq!(solver.model(&[below], &[], &[a], &terms), None);
        assert_eq!(
            solver.model(&[not_below], &[], &[a], &terms).map(|values| values[0] < 3),
            Some(false)
        );
    }
}

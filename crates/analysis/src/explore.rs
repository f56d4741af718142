//! Enumerates the paths of a handler: it is run again and again, each time with the next prefix
//! of decisions, until every feasible one has been taken.

use crate::bounds::Bounds;
use crate::expr::{Binary, Node, SymbolId, Term, Terms};
use crate::hash::FastSet;
use crate::interpret::Stop;
use crate::solver::{Absence, Answer, Solver};

/// Limits of one exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Paths of one network function.
    pub paths: usize,
    /// Accesses to state on all paths of one handler: each is compared with those before it on its path, so that
    /// few long paths take as long as many short ones.
    pub accesses: usize,
    /// Iterations of one loop on one path.
    pub iterations: usize,
    /// Iterations of a loop whose end is unknown (a list of the settings, a bound read from
    /// state); paths that go on are cut off and the output says so.
    pub unrolled: usize,
    /// Whether a packet that `L3` routes and one that it does not are two paths.
    pub routed_apart: bool,
    /// Whether any one turn of a loop that touches nothing stands for the others, so that such a loop has no limit.
    pub turns_alike: bool,
    /// Whether the system may lack the solver: paths that only it could rule out are shown then.
    pub unsolved: bool,
}

impl Budget {
    /// What is enough to see which state is touched: loops without a known end once, or any turn of
    /// them, what `L3` makes of a packet at the end of its path as one, and where need be without a
    /// solver: a path too many makes more packets meet, never fewer.
    pub fn for_accesses() -> Self {
        let default = Self::default();
        Self { unrolled: 1, routed_apart: false, turns_alike: true, unsolved: true, ..default }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            paths: 16_384,
            accesses: 262_144,
            iterations: 4_096,
            unrolled: 3,
            routed_apart: true,
            turns_alike: false,
            unsolved: false,
        }
    }
}

/// A condition taken one way on the current path.
#[derive(Debug, Clone, Copy)]
struct Decision {
    condition: Term,
    taken: bool,
    /// The other way is feasible and not yet explored.
    open: bool,
    /// The other way is infeasible.
    forced: bool,
    line: u32,
}

/// Answers the branches of one run, and knows which run comes next.
pub(crate) struct Explorer {
    pub(crate) budget: Budget,
    pub(crate) solver: Solver,
    /// Branches that no packet takes.
    pub(crate) pruned: u64,
    decisions: Vec<Decision>,
    next: usize,
    assertions: Vec<Term>,
    known: FastSet<Term>,
    /// Concrete execution: no branch may depend on an unknown.
    concrete: bool,
}

impl Explorer {
    pub(crate) fn new(budget: Budget) -> Self {
        let absence = if budget.unsolved { Absence::Allowed } else { Absence::Refused };
        Self {
            budget,
            solver: Solver::new(absence),
            pruned: 0,
            decisions: Vec::new(),
            next: 0,
            assertions: Vec::new(),
            known: FastSet::default(),
            concrete: false,
        }
    }

    /// An explorer for concrete execution.
    pub(crate) fn concrete() -> Self {
        Self { concrete: true, ..Self::new(Budget::default()) }
    }

    /// Whether there are packets to choose from: not in concrete execution.
    pub(crate) fn explores(&self) -> bool {
        !self.concrete
    }

    /// Begins a run with the decisions so far.
    pub(crate) fn restart(&mut self) {
        self.next = 0;
        self.assertions.clear();
        self.known.clear();
    }

    /// Leaves an exploration that has not come to its end.
    pub(crate) fn abandon(&mut self) {
        self.decisions.clear();
    }

    /// Moves on to the next prefix; false when all have been taken.
    pub(crate) fn advance(&mut self) -> bool {
        while let Some(last) = self.decisions.last_mut() {
            if last.open {
                last.open = false;
                last.taken = !last.taken;
                return true;
            }
            self.decisions.pop();
        }
        false
    }

    /// Which way `condition` goes on this run.
    pub(crate) fn decide(
        &mut self,
        condition: Term,
        line: u32,
        terms: &mut Terms,
    ) -> Result<bool, Stop> {
        if self.concrete {
            let message = "this depends on something unknown: give it as an argument";
            return Err(Stop::Error(line, message.to_owned()));
        }
        let negated = terms.not(condition);
        if let Some(known) = self.already(condition, negated) {
            return Ok(known);
        }
        let decision = match self.decided(condition, line)? {
            Some(decision) => decision,
            None => self.decide_anew(condition, negated, line, terms)?,
        };
        self.take(decision, terms);
        Ok(decision.taken)
    }

    fn take(&mut self, decision: Decision, terms: &mut Terms) {
        self.next += 1;
        let Decision { condition, taken, forced, .. } = decision;
        let outcome = if taken { condition } else { terms.not(condition) };
        self.learn_parts(outcome, terms);
        if !forced {
            self.assertions.push(outcome);
        }
    }

    /// What was decided on the run before, as long as this one follows it.
    fn decided(&self, condition: Term, line: u32) -> Result<Option<Decision>, Stop> {
        match self.decisions.get(self.next) {
            Some(decision) if decision.condition == condition => Ok(Some(*decision)),
            Some(_) => {
                let message = "a run differs from the one before it: a fault of the analysis";
                Err(Stop::Error(line, message.to_owned()))
            }
            None => Ok(None),
        }
    }

    /// Has `condition` not hold on this run, though it could, and nothing explored where it does. The caller
    /// knows that it need not hold.
    pub(crate) fn rule_out(
        &mut self,
        condition: Term,
        line: u32,
        terms: &mut Terms,
    ) -> Result<(), Stop> {
        let negated = terms.not(condition);
        if self.already(condition, negated) == Some(false) {
            return Ok(());
        }
        let left = Decision { condition, taken: false, open: false, forced: false, line };
        if self.decided(condition, line)?.is_none() {
            self.decisions.push(left);
        }
        self.take(left, terms);
        Ok(())
    }

    fn decide_anew(
        &mut self,
        condition: Term,
        negated: Term,
        line: u32,
        terms: &Terms,
    ) -> Result<Decision, Stop> {
        let yes = self.ask(condition, terms)? != Answer::No;
        let no = !yes || self.ask(negated, terms)? != Answer::No;
        let forced = !(yes && no);
        self.pruned += u64::from(forced);
        let decision = Decision { condition, taken: yes, open: !forced, forced, line };
        self.decisions.push(decision);
        Ok(decision)
    }

    /// What earlier decisions of this run say of a condition, without asking the solver.
    pub(crate) fn already(&self, condition: Term, negated: Term) -> Option<bool> {
        if self.known.contains(&condition) {
            return Some(true);
        }
        self.known.contains(&negated).then_some(false)
    }

    /// Takes a condition as given for the rest of the run. The caller knows that it can hold.
    pub(crate) fn assume(&mut self, condition: Term, terms: &mut Terms) -> Result<(), Stop> {
        match terms.bool_of(condition) {
            Some(true) => return Ok(()),
            Some(false) => return Err(Stop::Infeasible),
            None => {}
        }
        if self.known.insert(condition) {
            self.assertions.push(condition);
        }
        Ok(())
    }

    /// Notes what holds, and with `a && b` both of them, with `!(a || b)` neither.
    fn learn_parts(&mut self, holds: Term, terms: &mut Terms) {
        self.known.insert(holds);
        match *terms.node(holds) {
            Node::Binary(Binary::Both, a, b) => {
                self.learn_parts(a, terms);
                self.learn_parts(b, terms);
            }
            Node::Not(inner) => {
                if let Node::Binary(Binary::Either, a, b) = *terms.node(inner) {
                    let (a, b) = (terms.not(a), terms.not(b));
                    self.learn_parts(a, terms);
                    self.learn_parts(b, terms);
                }
            }
            _ => {}
        }
    }

    /// The condition without the parts that this run already knows.
    pub(crate) fn reduced(&self, condition: Term, terms: &mut Terms) -> Term {
        let negated = terms.not(condition);
        if let Some(known) = self.already(condition, negated) {
            return terms.bool(known);
        }
        match *terms.node(condition) {
            Node::Not(inner) => {
                let inner = self.reduced(inner, terms);
                terms.not(inner)
            }
            Node::Binary(operator @ (Binary::Both | Binary::Either), a, b) => {
                let (a, b) = (self.reduced(a, terms), self.reduced(b, terms));
                terms.binary(operator, a, b)
            }
            _ => condition,
        }
    }

    /// Notes a condition that earlier ones imply, so that no branch on it needs the solver.
    pub(crate) fn learn(&mut self, condition: Term) {
        self.known.insert(condition);
    }

    /// Whether a condition can hold on this run.
    pub(crate) fn possible(&mut self, condition: Term, terms: &mut Terms) -> Result<Answer, Stop> {
        let known = match terms.bool_of(condition) {
            Some(known) => Some(known),
            None => {
                let negated = terms.not(condition);
                self.already(condition, negated)
            }
        };
        match known {
            Some(true) => Ok(Answer::Yes),
            Some(false) => Ok(Answer::No),
            None => self.ask(condition, terms),
        }
    }

    /// Whether the bounds of what holds on this run rule a condition out.
    pub(crate) fn refutes(&self, condition: Term, terms: &Terms) -> bool {
        Bounds::under(&self.relevant(condition, terms), terms).is_none()
    }

    /// What is impossible without products and quotients is so with them; beyond that they are
    /// too slow to decide, and an example has to do.
    fn ask(&mut self, condition: Term, terms: &Terms) -> Result<Answer, Stop> {
        let relevant = self.relevant(condition, terms);
        let easy: Vec<Term> = relevant.iter().copied().filter(|one| !terms.is_hard(*one)).collect();
        if easy.len() == relevant.len() {
            return self.solver.satisfiable(relevant, terms).map_err(Stop::Solver);
        }
        let simpler = match easy.is_empty() {
            true => Answer::Yes,
            false => self.solver.satisfiable(easy, terms).map_err(Stop::Solver)?,
        };
        match simpler {
            Answer::No => Ok(Answer::No),
            _ => Ok(self.solver.exemplified(relevant, terms)),
        }
    }

    /// The condition and the assertions that share unknowns with it, directly or through others:
    /// the rest is satisfiable by itself and cannot change the answer.
    fn relevant(&self, condition: Term, terms: &Terms) -> Vec<Term> {
        let mut unknowns: FastSet<SymbolId> = terms.unknowns(condition).iter().copied().collect();
        let mut chosen = vec![condition];
        let mut others: Vec<Term> = self.assertions.clone();
        loop {
            let before = chosen.len();
            others.retain(|assertion| {
                let its = terms.unknowns(*assertion);
                let shares = its.iter().any(|unknown| unknowns.contains(unknown));
                if shares {
                    unknowns.extend(its.iter().copied());
                    chosen.push(*assertion);
                }
                !shares
            });
            if chosen.len() == before {
                break;
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    /// All that holds on this run: decisions that could have gone the other way, and what was taken
    /// as given.
    pub(crate) fn assertions(&self) -> &[Term] {
        &self.assertions
    }

    /// The decisions of this run that could have gone the other way: condition as it held, line.
    pub(crate) fn conditions(&self, terms: &mut Terms) -> Vec<(Term, u32)> {
        let taken = self.decisions[..self.next].iter().filter(|decision| !decision.forced);
        taken
            .map(|decision| match decision.taken {
                true => (decision.condition, decision.line),
                false => (terms.not(decision.condition), decision.line),
            })
            .collect()
    }

    /// The line with most decisions on this run: where a budget is spent.
    pub(crate) fn busiest_line(&self) -> u32 {
        let lines = self.decisions.iter().map(|decision| decision.line);
        let count = |line: u32| self.decisions.iter().filter(|made| made.line == line).count();
        lines.max_by_key(|line| count(*line)).unwrap_or(0)
    }
}

//! Which values a state object can hold: of the parts that are one of few (variants, booleans, bytes), the
//! combinations that come about.
//!
//! They are found as what can be reached: from empty state, whatever a path stores is added, as long as a path
//! that finds nothing but what has been added can store something else. What is left then is kept by every
//! path, and is the smallest such set of combinations.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use super::limits::{self, Limit, Small};
use super::state::{
    CLASS, ENDLESS, Entries, Layout, Object, PartType, Write, outcome, relevant, softened,
};
use crate::access::Part;
use crate::expr::{Binary, Kind, Sort, SymbolId, Term, Terms, Words};
use crate::hash::{FastMap, FastSet};
use crate::path::CallPath;
use crate::solver::Solver;

/// Combinations that are looked for at most; a part that makes for more is left out.
const MOST: usize = 64;
/// Of a byte so many values.
const BYTES: usize = 8;

/// The combinations of small parts that entries of a state object can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// The object.
    pub object: String,
    /// Of all parts at once, or, where that would be too many combinations, of some and of others.
    groups: Vec<Group>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    /// The parts: of the key (`key.protocol`) and of the value (`it.state`).
    parts: Vec<Small>,
    /// Each row allows one of some for each part.
    rows: Vec<Row>,
}

/// What entries of `object` can hold, as all `paths` keep it. `None`: nothing that would rule anything out, or
/// something is done with it that is not understood.
///
/// `given` is what is so of all settings, `known` what other objects can hold, `more` what a local is asked
/// besides.
pub(crate) fn reached(
    object: &str,
    paths: &[CallPath],
    (given, known, more): (&[Term], &[Values], &[Limit]),
    terms: &mut Terms,
    solver: &mut Solver,
) -> Result<Option<Values>, String> {
    let mut asked = limits::asked(object, paths, terms);
    let Some(mut layout) = Layout::of(object, paths, terms, |_| true) else { return Ok(None) };
    asked.extend(limits::of_local(&layout, more));
    layout.parts.retain(|part| part.is_small() || asked.iter().any(|(name, _)| *name == part.name));
    layout.without_variants();
    let limits: Vec<Term> = asked.iter().filter_map(|(_, limit)| limit.term()).collect();
    let Some(mut steps) = steps((object, &layout, &limits), known, paths, terms) else {
        return Ok(None);
    };
    let small = smalls(&layout, &asked, terms);
    let given = about(&limits, given, terms);
    if layout.entries == Entries::Fixed {
        steps.insert(at_first(&layout, terms), FastSet::from_iter([Vec::new()]));
    }
    let (layout, steps, given) = (&layout, &steps, &*given);
    let mut groups = Vec::new();
    let mut open = vec![small];
    while let Some(mut small) = open.pop().filter(|small| !small.is_empty()) {
        let search = Search { object, layout, small: &small, steps, given };
        match search.run(terms, solver)? {
            Found::All(all) => groups.extend(Group::of(small, all)),
            Found::TooMany(_) if open.is_empty() && small.iter().any(|one| one.limit.is_some()) => {
                open = apart(&small);
            }
            Found::TooMany(part) => {
                small.remove(part);
                open.push(small);
            }
            Found::Undecided => {}
        }
    }
    Ok((!groups.is_empty()).then(|| Values { object: object.to_owned(), groups }))
}

/// What of all that is given has to do with these terms, be it by way of other settings.
fn about(terms: &[Term], given: &[Term], all: &Terms) -> Vec<Term> {
    let mut near: FastSet<SymbolId> = FastSet::default();
    near.extend(terms.iter().flat_map(|term| all.unknowns(*term).iter().copied()));
    loop {
        let is_near = |one: &&Term| all.unknowns(**one).iter().any(|id| near.contains(id));
        let about: Vec<Term> = given.iter().filter(is_near).copied().collect();
        let before = near.len();
        near.extend(about.iter().flat_map(|one| all.unknowns(*one).iter().copied()));
        if near.len() == before {
            return about;
        }
    }
}

/// What is asked of each wide part, with the parts that are one of few apart from bytes; and all that are.
fn apart(small: &[Small]) -> Vec<Vec<Small>> {
    let (asked, few): (Vec<Small>, Vec<Small>) =
        small.iter().cloned().partition(|one| one.limit.is_some());
    let with_few = asked.into_iter().map(|one| {
        let others = few.iter().filter(|part| !part.is_byte()).cloned();
        others.chain([one]).collect()
    });
    with_few.chain([few.clone()]).collect()
}

/// The small parts of keys and values, with what each is a part of before its name, and what is asked of others.
fn smalls(layout: &Layout, asked: &[(String, Limit)], terms: &Terms) -> Vec<Small> {
    let named = |of: &str, part: &PartType| {
        let name = format!("{of}.{}", part.name);
        PartType { name, ..part.clone() }
    };
    let of_key = layout.key.iter().filter(|part| part.is_small()).map(|part| named("key", part));
    let of_value = layout.parts.iter().filter(|part| part.is_small()).map(|part| named("it", part));
    let mut all: Vec<Small> = of_key.chain(of_value).map(Small::of).collect();
    for (name, limit) in asked {
        let part = layout.parts.iter().find(|part| part.name == *name && !part.is_small());
        all.extend(part.map(|part| Small::asked(&named("it", part), *limit, terms)));
    }
    all
}

/// That elements are all zero before anything is stored.
fn at_first(layout: &Layout, terms: &mut Terms) -> Step {
    let value = layout.parts.iter().map(|part| terms.zero(part.sort)).collect();
    let (when, key) = (terms.bool(true), layout.any_key(terms));
    Step { when, key, value, keys: Vec::new(), facts: Vec::new() }
}

/// What one access stores, and what its path has asked by then.
#[derive(PartialEq, Eq, Hash)]
struct Step {
    when: Term,
    key: Vec<Term>,
    value: Vec<Term>,
    /// Keys that were asked for.
    keys: Vec<Vec<Term>>,
    /// What the answers say.
    facts: Vec<Term>,
}

/// Steps, with what else holds, of what has to do with each, on the paths that take it.
type Steps = FastMap<Step, FastSet<Vec<Term>>>;

fn steps(
    (name, layout, limits): (&str, &Layout, &[Term]),
    known: &[Values],
    paths: &[CallPath],
    terms: &mut Terms,
) -> Option<Steps> {
    let mut steps = Steps::default();
    for path in paths {
        let accesses = path.accesses.iter().filter(|access| access.object == name);
        if accesses.clone().all(|access| access.value.is_empty() && access.lifetime.is_none()) {
            continue;
        }
        let mut object = Object::new(name, layout);
        let mut stored = Vec::new();
        for access in accesses {
            let before = object.writes.len();
            object.access(access, terms)?;
            object.facts.extend(outcome(access, path, terms));
            object.facts.extend(layout.is_of_class(path, terms));
            if let Some(last) = object.writes.get(before) {
                // The one entry of the path: nobody sees what it was in between.
                if layout.is_of_packet() && terms.bool_of(last.when) == Some(true) {
                    stored.clear();
                }
                stored.extend(step(&object, last, terms));
            }
        }
        for step in stored {
            let about = step.value.iter().chain(&step.key).chain(&step.facts).chain(limits);
            let mut about: Vec<Term> = about.copied().collect();
            let told = told(known, &about, path, terms);
            about.extend(&told);
            let mut conditions = relevant(&about, path, terms);
            conditions.extend(told);
            let conditions = softened(&conditions, terms);
            steps.entry(step).or_default().insert(conditions);
        }
    }
    Some(steps)
}

/// What is known of what other objects have answered on `path`, as far as `about` has to do with it.
fn told(known: &[Values], about: &[Term], path: &CallPath, terms: &mut Terms) -> Vec<Term> {
    let unknowns: FastSet<SymbolId> =
        about.iter().flat_map(|term| terms.unknowns(*term).to_vec()).collect();
    let mut all = Vec::new();
    for access in &path.accesses {
        let Some(values) = known.iter().find(|values| values.object == access.object) else {
            continue;
        };
        // Not what it holds, but how much, or where.
        if access.operation == "len" || access.operation.starts_with("alloc") {
            continue;
        }
        let is_near =
            |part: &Part| terms.unknowns(part.term).iter().any(|id| unknowns.contains(id));
        if !access.result.iter().any(is_near) {
            continue;
        }
        let mut part = |name: &str, _: &mut Terms| {
            let (of, name) = name.split_once('.')?;
            let all = if of == "it" { &access.result } else { &access.key };
            all.iter().find(|part| part.name == name).map(|part| part.term)
        };
        let holds = values.holds(&mut part, terms);
        let always = terms.bool(true);
        let absent = terms.not(access.outcome.unwrap_or(always));
        all.push(terms.either(absent, holds));
    }
    all
}

/// The last write of an object as a step; `None`: it only takes something away.
fn step(object: &Object<'_>, last: &Write, terms: &mut Terms) -> Option<Step> {
    let value = softened(last.value.as_ref()?, terms);
    let mut facts = softened(&object.facts, terms);
    facts.sort_unstable();
    let (key, when) = (softened(&last.key, terms), terms.softened(last.when));
    let keys = object.keys.iter().map(|key| softened(key, terms)).collect();
    Some(Step { when, key, value, keys, facts })
}

/// Whether it cannot be, whatever products of settings come to, or what they do come to: solvers of bit-vectors are
/// slow at that.
fn is_refuted(asked: Vec<Term>, terms: &mut Terms, solver: &mut Solver) -> Result<bool, String> {
    let soft = softened(&asked, terms);
    let is_exact = soft == asked;
    Ok(solver.refutes(soft, terms)? || !is_exact && solver.refutes(asked, terms)?)
}

enum Found {
    All(BTreeSet<Vec<u128>>),
    /// Most of all by the part at this place.
    TooMany(usize),
    Undecided,
}

struct Search<'l> {
    object: &'l str,
    layout: &'l Layout,
    small: &'l [Small],
    steps: &'l Steps,
    given: &'l [Term],
}

impl Search<'_> {
    fn run(&self, terms: &mut Terms, solver: &mut Solver) -> Result<Found, String> {
        let mut all: BTreeSet<Vec<u128>> = BTreeSet::new();
        let mut open: Vec<(&Step, Vec<Term>)> = Vec::new();
        for (step, each) in self.steps {
            // What they have in common often does for all of them.
            let mut all = each.iter();
            let first = all.next().cloned().unwrap_or_default();
            let common = all.fold(first, |common, other| {
                common.into_iter().filter(|one| other.contains(one)).collect()
            });
            open.push((step, common));
        }
        open.sort_unstable_by_key(|(step, _)| (step.when, &step.value, &step.facts));
        loop {
            let before = all.len();
            for (step, common) in &open {
                let asked = self.question(step, common, &all, terms);
                if is_refuted(asked, terms, solver)? {
                    continue;
                }
                let mut each: Vec<&Vec<Term>> = self.steps[*step].iter().collect();
                each.sort_unstable();
                for conditions in each {
                    if let Some(end) = self.follow(step, conditions, &mut all, terms, solver)? {
                        return Ok(end);
                    }
                }
            }
            if all.len() == before {
                return Ok(Found::All(all));
            }
        }
    }

    /// What would hold if the step stored something else.
    fn question(
        &self,
        step: &Step,
        conditions: &[Term],
        all: &BTreeSet<Vec<u128>>,
        terms: &mut Terms,
    ) -> Vec<Term> {
        let mut asked = step.facts.clone();
        asked.push(step.when);
        asked.extend(self.given);
        asked.extend(conditions);
        for key in &step.keys {
            let entry = Object::new(self.object, self.layout).at_first(key, terms);
            let holds = self.combination(key, &entry.value, terms);
            let known = self.is_one_of(all, &holds, terms);
            let absent = terms.not(entry.present);
            asked.push(terms.either(absent, known));
        }
        let stored = self.combination(&step.key, &step.value, terms);
        let known = self.is_one_of(all, &stored, terms);
        asked.push(terms.not(known));
        asked
    }

    /// Adds what the step can store; how the search ends, if it does.
    fn follow(
        &self,
        step: &Step,
        conditions: &[Term],
        all: &mut BTreeSet<Vec<u128>>,
        terms: &mut Terms,
        solver: &mut Solver,
    ) -> Result<Option<Found>, String> {
        let stored = self.combination(&step.key, &step.value, terms);
        loop {
            let asked = self.question(step, conditions, all, terms);
            if is_refuted(asked.clone(), terms, solver)? {
                return Ok(None);
            }
            let model = |solver: &mut Solver| solver.model(&asked, &[], &stored, terms);
            let Some(new) = model(solver).or_else(|| solver.afresh(model)) else {
                return Ok(Some(Found::Undecided));
            };
            if !all.insert(new) {
                return Ok(Some(Found::Undecided));
            }
            if let Some(part) = self.too_many(all) {
                return Ok(Some(Found::TooMany(part)));
            }
        }
    }

    /// The part with most values, where there are more combinations than are looked for.
    fn too_many(&self, all: &BTreeSet<Vec<u128>>) -> Option<usize> {
        let values = |at: usize| all.iter().map(|one| one[at]).collect::<BTreeSet<_>>().len();
        let widest = (0..self.small.len()).max_by_key(|at| (values(*at), *at))?;
        let is_byte = matches!(self.small[widest].part.kind, Kind::Number);
        (all.len() > MOST || is_byte && values(widest) > BYTES).then_some(widest)
    }

    /// The small parts of an entry.
    fn combination(&self, key: &[Term], value: &[Term], terms: &mut Terms) -> Vec<Term> {
        let Layout { key: of_key, parts, .. } = self.layout;
        let part = |small: &Small| {
            let (of, name) = small.part.name.split_once('.')?;
            let (types, all) = if of == "key" { (of_key, key) } else { (parts, value) };
            let found = types.iter().zip(all).find(|(part, _)| part.name == name);
            found.map(|(_, term)| small.answer(*term, terms))
        };
        self.small.iter().filter_map(part).collect()
    }

    fn is_one_of(&self, all: &BTreeSet<Vec<u128>>, parts: &[Term], terms: &mut Terms) -> Term {
        let known: Vec<Option<Term>> = parts.iter().copied().map(Some).collect();
        in_a_row(&merged(all), &known, self.small, terms)
    }
}

/// What each part may be, given the others of its row.
type Row = Vec<BTreeSet<u128>>;

/// That the parts that are known are those of one of the rows.
fn in_a_row(rows: &[Row], parts: &[Option<Term>], small: &[Small], terms: &mut Terms) -> Term {
    let rows = rows.iter().map(|row| {
        let known = row.iter().zip(parts).zip(small);
        let known = known
            .filter_map(|((values, part), small)| Some(is_among((*part)?, values, small, terms)));
        let known: Vec<Term> = known.collect();
        terms.all(&known)
    });
    let rows: Vec<Term> = rows.collect();
    terms.any(&rows)
}

fn is_among(part: Term, values: &BTreeSet<u128>, small: &Small, terms: &mut Terms) -> Term {
    if values.len() >= small.room() {
        return terms.bool(true);
    }
    if small.sort() == Sort::Bool {
        return if values.contains(&1) { part } else { terms.not(part) };
    }
    let each: Vec<Term> = values
        .iter()
        .map(|value| {
            let value = terms.constant(*value, small.sort().width());
            terms.equal(part, value)
        })
        .collect();
    terms.any(&each)
}

/// Rows that differ in one part only are one.
fn merged(all: &BTreeSet<Vec<u128>>) -> Vec<Row> {
    let one = |values: &Vec<u128>| values.iter().map(|value| BTreeSet::from([*value])).collect();
    let mut rows: Vec<Row> = all.iter().map(one).collect();
    loop {
        let pair = (0..rows.len()).find_map(|a| {
            let other = (a + 1..rows.len()).find(|b| differing(&rows[a], &rows[*b]).is_some());
            other.map(|b| (a, b))
        });
        let Some((a, b)) = pair else { return rows };
        let other = rows.remove(b);
        if let Some(at) = differing(&rows[a], &other) {
            rows[a][at].extend(&other[at]);
        }
    }
}

/// The one part in which two rows differ.
fn differing(a: &[BTreeSet<u128>], b: &[BTreeSet<u128>]) -> Option<usize> {
    let mut all = (0..a.len()).filter(|at| a[*at] != b[*at]);
    all.next().filter(|_| all.next().is_none())
}

impl Values {
    /// That an entry is one that can be, whose parts are those that `part` knows.
    pub(crate) fn holds(
        &self,
        part: &mut dyn FnMut(&str, &mut Terms) -> Option<Term>,
        terms: &mut Terms,
    ) -> Term {
        let each = self.groups.iter().map(|group| group.holds(part, terms));
        let each: Vec<Term> = each.collect();
        terms.all(&each)
    }

    /// Of packet sets, which number the class `name` has as the part `key.#class`.
    pub fn class_number(&self, name: &str) -> Option<u128> {
        let class = self.parts().find(|part| part.name.strip_prefix("key.") == Some(CLASS))?;
        let Kind::Variants(names) = &class.kind else { return None };
        names.iter().position(|known| known == name).map(|at| at as u128)
    }

    /// Whether entries with these parts never end.
    pub(crate) fn never_ends(&self, known: &dyn Fn(&str) -> Option<u128>) -> bool {
        let is_endless = |name: &str| name.strip_prefix("it.") == Some(ENDLESS);
        let ending = |name: &str| if is_endless(name) { Some(0) } else { known(name) };
        self.parts().any(|part| is_endless(&part.name)) && !self.allows(&ending, &mut |_| None)
    }

    /// Whether an entry can have the parts that `part` knows, under settings of which `settings` knows what terms
    /// come to.
    pub fn allows(
        &self,
        part: &dyn Fn(&str) -> Option<u128>,
        settings: &mut dyn FnMut(Term) -> Option<u128>,
    ) -> bool {
        self.groups.iter().all(|group| group.allows(part, settings))
    }

    /// The parts of values, as they are called there, that it is about.
    pub(super) fn is_about(&self, part: &str) -> bool {
        self.parts().any(|known| known.name.strip_prefix("it.") == Some(part))
    }

    fn parts(&self) -> impl Iterator<Item = &PartType> {
        self.groups.iter().flat_map(|group| &group.parts).map(|small| &small.part)
    }
}

impl Group {
    /// `None`: each part may be anything. That all objects have an end is no news.
    fn of(parts: Vec<Small>, all: BTreeSet<Vec<u128>>) -> Option<Self> {
        let rows = merged(&all);
        let mut limits = rows.iter().flat_map(|row| row.iter().zip(&parts));
        let rules_out = limits.any(|(values, small)| {
            values.len() < small.room() && !small.part.name.ends_with(ENDLESS)
        });
        (rules_out && !rows.is_empty()).then_some(Self { parts, rows })
    }

    fn holds(
        &self,
        part: &mut dyn FnMut(&str, &mut Terms) -> Option<Term>,
        terms: &mut Terms,
    ) -> Term {
        let mut known = |small: &Small| {
            let known = part(&small.part.name, terms)?;
            (terms.sort(known) == small.part.sort).then(|| small.answer(known, terms))
        };
        let known: Vec<Option<Term>> = self.parts.iter().map(&mut known).collect();
        let mut all = vec![in_a_row(&self.rows, &known, &self.parts, terms)];
        for small in &self.parts {
            let less = self.one_less(small).zip(part(&small.part.name, terms));
            if let Some((limit, number)) = less.filter(|(_, it)| terms.sort(*it) == small.part.sort)
            {
                let one = terms.constant(1, terms.width(number));
                let less = terms.binary(Binary::Sub, number, one);
                all.push(limit.of(less, terms));
            }
        }
        terms.all(&all)
    }

    /// What one less than a number that is never zero is below: what it is no more than itself. That follows, but is
    /// hard on solvers.
    fn one_less(&self, small: &Small) -> Option<Limit> {
        let Some((Limit::AtMost(limit), _)) = small.limit else { return None };
        let is_always = |small: &Small, answer: u128| {
            let at = self.parts.iter().position(|part| part == small);
            at.is_some_and(|at| self.rows.iter().all(|row| row[at] == BTreeSet::from([answer])))
        };
        let is_zero =
            |it: &&Small| it.part == small.part && matches!(it.limit, Some((Limit::IsZero, _)));
        let zero = self.parts.iter().find(is_zero)?;
        (is_always(small, 1) && is_always(zero, 0)).then_some(Limit::Below(limit))
    }

    fn allows(
        &self,
        part: &dyn Fn(&str) -> Option<u128>,
        settings: &mut dyn FnMut(Term) -> Option<u128>,
    ) -> bool {
        self.rows.iter().any(|row| {
            let mut parts = row.iter().zip(&self.parts);
            parts.all(|(values, small)| {
                let answer = part(&small.part.name).and_then(|part| small.known(part, settings));
                answer.is_none_or(|answer| values.contains(&answer))
            })
        })
    }

    /// Whether the part is said to be less than what it is no more than.
    fn goes_without_saying(&self, small: &Small, row: &Row) -> bool {
        let Some((Limit::AtMost(limit), _)) = small.limit else { return false };
        self.parts.iter().zip(row).any(|(other, values)| {
            let is_below = matches!(other.limit, Some((Limit::Below(less), _)) if less == limit);
            is_below && other.part == small.part && !values.contains(&0)
        })
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", self.object)?;
        for (at, group) in self.groups.iter().enumerate() {
            f.write_str(if at > 0 { "; " } else { "" })?;
            group.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, row) in self.rows.iter().enumerate() {
            if at > 0 {
                f.write_str(" or ")?;
            }
            f.write_char('`')?;
            let limits = row.iter().zip(&self.parts);
            let limits = limits.filter(|(values, small)| values.len() < small.room());
            let limits = limits.filter(|(_, small)| !self.goes_without_saying(small, row));
            for (nth, (values, small)) in limits.enumerate() {
                f.write_str(if nth > 0 { " && " } else { "" })?;
                small.write(values, f)?;
            }
            f.write_char('`')?;
        }
        Ok(())
    }
}

impl Small {
    /// Whether it is a number of few bits that nobody has given names.
    fn is_byte(&self) -> bool {
        self.part.kind == Kind::Number && self.part.sort != Sort::Bool
    }

    /// How many values it can have.
    fn room(&self) -> usize {
        match (&self.limit, &self.part.kind) {
            (None, Kind::Variants(names)) => names.len(),
            _ => 1 << self.sort().width(),
        }
    }

    fn write(&self, values: &BTreeSet<u128>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((_, [no, yes])) = &self.limit {
            return f.write_str(if values.contains(&0) { no } else { yes });
        }
        let Self { part, .. } = self;
        let name = part.name.trim_end_matches(".variant").trim_end_matches('.').replace('#', "");
        if part.sort == Sort::Bool && part.kind == Kind::Number && name == "it" {
            return write!(f, "{name} = {}", !values.contains(&0));
        }
        if part.sort == Sort::Bool && part.kind == Kind::Number {
            return write!(f, "{}{name}", if values.contains(&0) { "!" } else { "" });
        }
        let words = Words::default();
        let values: Vec<String> =
            values.iter().map(|value| words.constant(*value, &part.kind)).collect();
        write!(f, "{name} = {}", values.join(" | "))
    }
}

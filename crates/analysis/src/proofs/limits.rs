//! What is asked of numbers that state objects hold: whether they are within what the settings say, or zero.
//! The answer is one of two, so that a proof can go through them ([`super::values`]).

use super::find::distinct;
use super::state::{Layout, PartType};
use crate::expr::{Binary, Node, Sort, Term, Terms, Words};
use crate::hash::{FastMap, FastSet};
use crate::path::CallPath;

/// Of an object so many are asked at most.
const MOST: usize = 6;

/// Something that is asked of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Whether it is zero.
    IsZero,
    /// Whether it is less than this, which settings alone decide.
    Below(Term),
    /// Whether it is no more than this.
    AtMost(Term),
}

impl Limit {
    /// That it is so of `number`.
    pub(super) fn of(self, number: Term, terms: &mut Terms) -> Term {
        let width = terms.width(number);
        let (operator, limit) = match self {
            Limit::IsZero => {
                let zero = terms.zero(terms.sort(number));
                return terms.equal(number, zero);
            }
            Limit::Below(limit) => (Binary::LessUnsigned, limit),
            Limit::AtMost(limit) => (Binary::LessEqualUnsigned, limit),
        };
        let width = width.max(terms.width(limit));
        let (number, limit) =
            (terms.extend(number, width, false), terms.extend(limit, width, false));
        terms.binary(operator, number, limit)
    }

    /// Whether it is so of a known number, where `settings` says what a term over them is.
    fn known(self, number: u128, settings: &mut dyn FnMut(Term) -> Option<u128>) -> Option<bool> {
        match self {
            Limit::IsZero => Some(number == 0),
            Limit::Below(limit) => Some(number < settings(limit)?),
            Limit::AtMost(limit) => Some(number <= settings(limit)?),
        }
    }

    /// What settings say.
    pub(super) fn term(self) -> Option<Term> {
        match self {
            Limit::IsZero => None,
            Limit::Below(limit) | Limit::AtMost(limit) => Some(limit),
        }
    }

    /// How it is written of `name` that it is not so, and that it is.
    pub(super) fn written(self, name: &str, terms: &Terms) -> [String; 2] {
        let print = |limit: Term| terms.print(limit, &Words::default());
        match self {
            Limit::IsZero => [format!("{name} != 0"), format!("{name} = 0")],
            Limit::Below(limit) => {
                let limit = print(limit);
                [format!("{name} >= {limit}"), format!("{name} < {limit}")]
            }
            Limit::AtMost(limit) => {
                let limit = print(limit);
                [format!("{name} > {limit}"), format!("{name} <= {limit}")]
            }
        }
    }
}

/// What `paths` ask of wide parts of `object`, once they are there or before they are stored, each with the name of
/// the part.
pub(super) fn asked(object: &str, paths: &[CallPath], terms: &Terms) -> Vec<(String, Limit)> {
    let accesses = paths.iter().flat_map(|path| &path.accesses);
    let (mut found, mut stored) = (FastMap::default(), FastMap::default());
    for access in accesses.filter(|access| access.object == object) {
        for (into, parts) in [(&mut found, &access.result), (&mut stored, &access.value)] {
            let wide = parts.iter().filter(|part| !PartType::of(part, terms).is_small());
            let unknown = wide.filter(|part| terms.constant_of(part.term).is_none());
            into.extend(unknown.map(|part| (part.term, part.name.clone())));
        }
    }
    let compared = atoms(paths, terms).into_iter().filter_map(|term| compared(term, terms));
    let asked = compared.flat_map(|(number, limit)| {
        let of = |parts: &FastMap<Term, String>| Some((parts.get(&number)?.clone(), limit));
        // What a path finds again once it has stored it may be one less than what it found first.
        let asked = [of(&found), asked_of_more((number, limit), &found, terms)];
        let before = if asked == [None, None] { of(&stored) } else { None };
        asked.into_iter().chain([before]).flatten()
    });
    let mut all: Vec<(String, Limit)> = asked.collect();
    // One less of none is most of all.
    let at_most = all.iter().filter(|(_, limit)| matches!(limit, Limit::AtMost(_)));
    let limited: Vec<String> = at_most.map(|(name, _)| name.clone()).collect();
    all.extend(limited.into_iter().map(|name| (name, Limit::IsZero)));
    let mut all = distinct(all.into_iter());
    all.truncate(MOST);
    all
}

/// What settings say that any of these objects is asked about.
pub(crate) fn limits<'o>(
    objects: impl Iterator<Item = &'o str>,
    paths: &[CallPath],
    terms: &Terms,
) -> Vec<Limit> {
    let all = objects.flat_map(|object| asked(object, paths, terms));
    distinct(all.map(|(_, limit)| limit).filter(|limit| limit.term().is_some()))
}

/// What else is asked of a local that holds one number: what loops look for is asked about after them, when it
/// goes by another name.
pub(super) fn of_local(layout: &Layout, limits: &[Limit]) -> Vec<(String, Limit)> {
    let wide: Vec<&PartType> = layout.parts.iter().filter(|part| !part.is_small()).collect();
    let [one] = &*wide else { return Vec::new() };
    limits.iter().map(|limit| (one.name.clone(), *limit)).collect()
}

/// What is asked of a part that has been found, where a number that is one less is compared: one less is below where
/// it is not more.
fn asked_of_more(
    (number, limit): (Term, Limit),
    parts: &FastMap<Term, String>,
    terms: &Terms,
) -> Option<(String, Limit)> {
    let (term, before) = (limit.term()?, one_more(number, terms)?);
    Some((part_of(before, parts, terms)?.clone(), Limit::AtMost(term)))
}

/// The part that a number is, or is where something was found.
fn part_of<'p>(
    number: Term,
    parts: &'p FastMap<Term, String>,
    terms: &Terms,
) -> Option<&'p String> {
    match (parts.get(&number), terms.node(number)) {
        (Some(part), _) => Some(part),
        (None, Node::Ite(_, a, b)) => {
            part_of(*a, parts, terms).or_else(|| part_of(*b, parts, terms))
        }
        _ => None,
    }
}

/// What all that holds on `paths` is made of, each once.
fn atoms(paths: &[CallPath], terms: &Terms) -> Vec<Term> {
    let (mut known, mut all) = (FastSet::default(), Vec::new());
    let mut open: Vec<Term> = paths.iter().flat_map(|path| &path.holds).copied().collect();
    open.reverse();
    while let Some(term) = open.pop() {
        if !known.insert(term) {
            continue;
        }
        match *terms.node(term) {
            Node::Not(inner) => open.push(inner),
            Node::Binary(Binary::Both | Binary::Either, a, b) => open.extend([b, a]),
            _ => all.push(term),
        }
    }
    all
}

/// A number, and the limit that settings set it, or that it is zero.
fn compared(term: Term, terms: &Terms) -> Option<(Term, Limit)> {
    let is_zero = |term: Term| terms.constant_of(term) == Some(0);
    let (a, b, is_less) = match *terms.node(term) {
        Node::Binary(Binary::Equal, a, b) if is_zero(a) || is_zero(b) => {
            return Some((narrow(if is_zero(a) { b } else { a }, terms), Limit::IsZero));
        }
        Node::Binary(Binary::LessUnsigned, a, b) => (a, b, true),
        Node::Binary(Binary::LessEqualUnsigned, a, b) => (a, b, false),
        _ => return None,
    };
    let is_limit = |term: Term| !terms.unknowns(term).is_empty() && terms.is_of_settings(term);
    let (number, limit, is_below) = match (is_limit(a), is_limit(b)) {
        (false, true) => (a, b, is_less),
        // That the limit is less is that the number is not no more.
        (true, false) => (b, a, !is_less),
        _ => return None,
    };
    let (number, limit) = (narrow(number, terms), narrow(limit, terms));
    Some((number, if is_below { Limit::Below(limit) } else { Limit::AtMost(limit) }))
}

fn narrow(term: Term, terms: &Terms) -> Term {
    match *terms.node(term) {
        Node::Extend { signed: false, of, .. } => of,
        _ => term,
    }
}

/// What a number is one less than.
fn one_more(number: Term, terms: &Terms) -> Option<Term> {
    let Node::Binary(operator, a, b) = *terms.node(number) else { return None };
    let all_ones = crate::expr::mask(terms.width(number));
    let (of, by) = if terms.constant_of(a).is_some() { (b, a) } else { (a, b) };
    let is_one_less = match operator {
        Binary::Sub => of == a && terms.constant_of(b) == Some(1),
        Binary::Add => terms.constant_of(by) == Some(all_ones),
        _ => false,
    };
    is_one_less.then_some(of)
}

/// A part that is one of few, or what is asked of one that is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Small {
    /// The part itself, of the key (`key.protocol`) or of the value (`it.state`).
    pub(super) part: PartType,
    /// What is asked of it, and how the answers no and yes are written.
    pub(super) limit: Option<(Limit, [String; 2])>,
}

impl Small {
    pub(super) fn of(part: PartType) -> Self {
        Self { part, limit: None }
    }

    pub(super) fn asked(part: &PartType, limit: Limit, terms: &Terms) -> Self {
        let written = limit.written(part.name.trim_end_matches('.'), terms);
        Self { part: part.clone(), limit: Some((limit, written)) }
    }

    /// The part, or the answer.
    pub(super) fn answer(&self, part: Term, terms: &mut Terms) -> Term {
        match &self.limit {
            Some((limit, _)) => limit.of(part, terms),
            None => part,
        }
    }

    pub(super) fn sort(&self) -> Sort {
        if self.limit.is_some() { Sort::Bool } else { self.part.sort }
    }

    /// The answer of a part that is known; `None`: it depends on settings that are not.
    pub(super) fn known(
        &self,
        part: u128,
        settings: &mut dyn FnMut(Term) -> Option<u128>,
    ) -> Option<u128> {
        match &self.limit {
            Some((limit, _)) => limit.known(part, settings).map(u128::from),
            None => Some(part),
        }
    }
}

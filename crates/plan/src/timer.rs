//! Timers go off in the shard of the packet that has set them, and bring what it gave them: an index, or fields of
//! that packet.

use std::collections::{BTreeSet, HashMap};

use anabranch_analysis::expr::{Binary, Node, Term};
use anabranch_analysis::{CallPath, Effect};

use crate::filter::{Caller, caller};
use crate::left::is_endless;
use crate::touch::{Context, Part, Touches, narrow};
use crate::word::{FieldId, Fields, Sum, Word, word};

/// What a timer is given, by the name that the analysis has for it.
const TOKEN: &str = "token";
const TOKEN_BITS: u16 = 64;

/// What every timer brings.
#[derive(Debug)]
pub(crate) enum Brought {
    /// An index that this allocator had just given to whoever set it.
    Index(usize),
    /// Fields of the packet that set it: of one of these.
    Fields(BTreeSet<(Context, Word)>),
}

/// One way to come to a path.
#[derive(Debug, Default)]
pub(crate) struct Arrival {
    /// The packet, of a timer the one that has set it.
    pub(crate) context: Option<Context>,
    /// What is known of terms of this path alone.
    pub(crate) own: HashMap<Term, Part>,
    /// What a timer is given, in fields of that packet.
    pub(crate) token: Option<Word>,
}

impl Touches<'_> {
    /// What timers bring, where that is the same of all. One that a timer sets with its own token brings what that
    /// one did.
    pub(crate) fn brought_by_timers(&mut self) -> Option<Brought> {
        let (mut allocators, mut words) = (BTreeSet::new(), BTreeSet::new());
        let paths = self.paths;
        for (number, path) in paths.paths.iter().enumerate() {
            let caller = caller(path);
            let sets = |effect: &Effect| matches!(effect, Effect::SetTimer { .. });
            if path.effects.iter().any(sets) && self.is_unlisted(path) {
                return None;
            }
            for effect in &path.effects {
                let Effect::SetTimer { token, .. } = effect else { continue };
                if caller == Caller::Timer && self.is_token(*token) {
                    continue;
                }
                let context = self.contexts[number].filter(|_| caller == Caller::Packet)?;
                match self.part(narrow(*token, &paths.terms), &HashMap::new()) {
                    Part::Fresh(allocator) => allocators.insert(allocator),
                    _ => words.insert((context, word(*token, &paths.terms, &mut self.fields)?)),
                };
            }
        }
        match (allocators.first(), allocators.len(), words.is_empty()) {
            (Some(allocator), 1, true) => {
                self.is_out_until_then(*allocator).then_some(Brought::Index(*allocator))
            }
            (None, _, false) => Some(Brought::Fields(words)),
            _ => None,
        }
    }

    /// Whether an index that a timer brings is still that of whoever set it: indices are given for ever, none is freed but
    /// by the timer that brings it, and there is one timer for each.
    fn is_out_until_then(&self, allocator: usize) -> bool {
        let (paths, terms) = (self.paths, &self.paths.terms);
        let pool = &paths.objects[allocator].name;
        paths.paths.iter().all(|path| {
            let of_timer = caller(path) == Caller::Timer;
            let tokens = path.effects.iter().filter_map(|effect| match effect {
                Effect::SetTimer { token, .. } => Some(narrow(*token, terms)),
                _ => None,
            });
            let mut tokens: Vec<Term> = tokens.collect();
            let sets = tokens.len();
            tokens.sort_unstable();
            tokens.dedup();
            let mut own = path.accesses.iter().filter(|one| one.object == *pool);
            sets == tokens.len()
                && own.all(|one| {
                    let is_of_token = || one.key.iter().all(|part| self.is_of_token(part.term));
                    let frees = one.operation == "free";
                    one.lifetime.is_none_or(|lifetime| is_endless(lifetime, terms))
                        && (!frees || of_timer && sets == 0 && is_of_token())
                })
        })
    }

    /// Whether turns of a loop that are not listed may set timers that bring something else.
    fn is_unlisted(&self, path: &CallPath) -> bool {
        let of_handler = |one: &&CallPath| caller(one) == caller(path);
        self.paths.given_up || self.paths.paths.iter().filter(of_handler).any(|one| one.cut_off)
    }

    fn is_token(&self, term: Term) -> bool {
        let terms = &self.paths.terms;
        matches!(*terms.node(term), Node::Symbol(id) if terms.symbol_of(id).name == TOKEN)
    }

    /// The ways to come to a timer's path: one where an index is brought, else one for each packet that sets timers,
    /// unless the path asks the token for what that packet does not give.
    pub(crate) fn arrivals_of_timer(&mut self, path: &CallPath, brought: &Brought) -> Vec<Arrival> {
        match brought {
            Brought::Index(allocator) => {
                let own = self.brought_index(path, *allocator);
                vec![Arrival { own, ..Arrival::default() }]
            }
            Brought::Fields(all) => {
                let given = all.iter().filter(|(_, token)| self.may_be_given(path, token));
                let given: Vec<_> = given.cloned().collect();
                let arrival = |(context, token)| Arrival {
                    context: Some(context),
                    own: HashMap::new(),
                    token: Some(token),
                };
                given.into_iter().map(arrival).collect()
            }
        }
    }

    /// The index that a timer brings, wherever it is a key.
    fn brought_index(&self, path: &CallPath, allocator: usize) -> HashMap<Term, Part> {
        let keys = path.accesses.iter().flat_map(|access| &access.key).map(|part| part.term);
        let brings = |term: &Term| self.is_of_token(*term);
        keys.filter(brings).map(|term| (term, Part::Fresh(allocator))).collect()
    }

    /// Whether a term is the token, or the bits of it that an index has.
    fn is_of_token(&self, term: Term) -> bool {
        let terms = &self.paths.terms;
        self.is_token(match *terms.node(term) {
            Node::Extract { low: 0, of, .. } if terms.width(term) >= 32 => of,
            _ => term,
        })
    }

    /// Whether bits of the token that the path asks for may be those of `token`.
    fn may_be_given(&self, path: &CallPath, token: &Word) -> bool {
        let terms = &self.paths.terms;
        path.conditions.iter().all(|made| {
            let (term, holds) = match *terms.node(made.term) {
                Node::Not(inner) => (inner, false),
                _ => (made.term, true),
            };
            let Node::Binary(Binary::Equal, a, b) = *terms.node(term) else { return true };
            let mut fields = self.fields.clone();
            let id = fields.id(TOKEN, TOKEN_BITS);
            let mut side =
                |term| word(term, terms, &mut fields).map(|word| with_token(&word, id, token));
            let (Some(a), Some(b)) = (side(a), side(b)) else { return true };
            let known = |sum: &Sum| sum.bits.is_empty().then_some(sum.constant);
            let mut pairs = a.iter().zip(b.iter()).map(|(a, b)| (known(a), known(b)));
            match holds {
                true => !pairs.any(|(a, b)| a.is_some() && b.is_some() && a != b),
                false => !pairs.all(|(a, b)| a.is_some() && a == b),
            }
        })
    }
}

/// A part of a timer's path in fields of the packet that has set it.
pub(crate) fn in_fields(part: Part, token: &Word, fields: &mut Fields) -> Part {
    let id = fields.id(TOKEN, TOKEN_BITS);
    match part {
        Part::Word(word) => Part::Word(with_token(&word, id, token)),
        Part::Shifted { base, by } => Part::Shifted { base: with_token(&base, id, token), by },
        other => other,
    }
}

/// The number under which a timer's token is a field, where `name` is its symbol.
pub(crate) fn token_field(name: &str, fields: &mut Fields) -> Option<FieldId> {
    (name == TOKEN).then(|| fields.id(TOKEN, TOKEN_BITS))
}

fn with_token(word: &Word, id: FieldId, token: &Word) -> Word {
    let bit = |(field, bit): (FieldId, u16)| match token.get(usize::from(bit)) {
        Some(sum) if field == id => sum.clone(),
        _ => Sum { bits: vec![(field, bit)], constant: false },
    };
    let sum = |sum: &Sum| {
        let constant = Sum { bits: Vec::new(), constant: sum.constant };
        sum.bits.iter().fold(constant, |all, one| all.plus(&bit(*one)))
    };
    word.iter().map(sum).collect()
}

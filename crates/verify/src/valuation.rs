//! Terms evaluated on one passage of a handler, as far as what they are about is known.

use std::collections::HashMap;

use anabranch_analysis::Opaque;
use anabranch_analysis::expr::{Binary, Node, SymbolId, Term, Terms};

use crate::field::{Parsed, Property};

/// Where the value of a symbol comes from.
#[derive(Clone, Debug)]
enum Origin {
    Now,
    Packet(Property),
    /// What the passage was given and told.
    Passage,
    Setting,
}

/// Values of terms on one passage after the other.
pub(crate) struct Valuation<'t> {
    terms: &'t Terms,
    origins: Vec<Origin>,
    ids: HashMap<&'t str, Vec<usize>>,
    /// What is known of each symbol of its own, and in which passage that was.
    known: Vec<(u32, u128)>,
    memo: Vec<(u32, Option<u128>)>,
    passage: u32,
    /// Settings that stand in conditions, by symbol.
    settings: HashMap<usize, u128>,
    /// Elements of lists, by function and position.
    elements: HashMap<(usize, u128), u128>,
    /// Functions that paths know nothing of.
    opaque: Option<Opaque>,
}

/// What a passage is about, besides what it was given and told.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'p> {
    pub(crate) now_ns: u64,
    pub(crate) packet: Option<Parsed<'p>>,
}

impl<'t> Valuation<'t> {
    pub(crate) fn new(terms: &'t Terms, opaque: Option<Opaque>) -> Self {
        let symbols = terms.symbols();
        let mut ids: HashMap<&str, Vec<usize>> = HashMap::new();
        for (id, symbol) in symbols.iter().enumerate() {
            ids.entry(symbol.name.as_str()).or_default().push(id);
        }
        Self {
            terms,
            origins: symbols.iter().map(|symbol| Origin::of(&symbol.name)).collect(),
            ids,
            known: vec![(0, 0); symbols.len()],
            memo: vec![(0, None); terms.len()],
            passage: 0,
            settings: HashMap::new(),
            elements: HashMap::new(),
            opaque,
        }
    }

    /// The values of settings, by the names of symbols.
    pub(crate) fn set(&mut self, setting: impl Fn(&str) -> Option<u128>) {
        self.settings.clear();
        for (id, symbol) in self.terms.symbols().iter().enumerate() {
            let name = symbol.name.strip_prefix("settings.");
            if let Some(value) = name.and_then(&setting) {
                self.settings.insert(id, value);
            }
        }
    }

    /// The values of lists: element `position` of what the analysis calls `name`.
    pub(crate) fn set_elements(&mut self, element: impl Fn(&str, u128) -> Option<u128>) {
        self.elements.clear();
        for (id, symbol) in self.terms.symbols().iter().enumerate() {
            let Some(name) = symbol.name.strip_prefix("settings.") else { continue };
            if !name.contains("[]") {
                continue;
            }
            for position in 0.. {
                let Some(value) = element(name, position) else { break };
                self.elements.insert((id, position), value);
            }
        }
    }

    /// Begins a seed: what others have found is not known.
    pub(crate) fn begin_seed(&mut self) {
        self.opaque.iter_mut().for_each(Opaque::begin);
    }

    /// Results of opaque functions that are not what these declare, in words.
    pub(crate) fn take_wrong(&mut self) -> Vec<String> {
        self.opaque.as_mut().map(Opaque::take_wrong).unwrap_or_default()
    }

    /// Begins a passage of which `symbols` are known.
    pub(crate) fn begin(&mut self, symbols: impl Iterator<Item = (String, u128)>) {
        self.passage = self.passage.wrapping_add(1);
        for (name, value) in symbols {
            for id in self.ids.get(name.as_str()).into_iter().flatten() {
                if let Some(known) = self.known.get_mut(*id) {
                    *known = (self.passage, value);
                }
            }
        }
    }

    /// The value of `term`; `None`: not known.
    pub(crate) fn value(&mut self, term: Term, scene: &Scene<'_>) -> Option<u128> {
        match self.memo.get(term.index()) {
            Some((passage, value)) if *passage == self.passage => return *value,
            _ => {}
        }
        let value = self.node(term, scene);
        if let Some(memo) = self.memo.get_mut(term.index()) {
            *memo = (self.passage, value);
        }
        value
    }

    /// The value of a symbol; `None`: not known.
    pub(crate) fn symbol(&self, id: SymbolId, scene: &Scene<'_>) -> Option<u128> {
        match self.origins.get(id.index())? {
            Origin::Now => Some(scene.now_ns.into()),
            Origin::Packet(property) => property.of(scene.packet.as_ref()?),
            Origin::Setting => self.settings.get(&id.index()).copied(),
            Origin::Passage => {
                let (passage, value) = self.known.get(id.index())?;
                (*passage == self.passage).then_some(*value)
            }
        }
    }

    fn node(&mut self, term: Term, scene: &Scene<'_>) -> Option<u128> {
        let terms = self.terms;
        let width = terms.width(term);
        match terms.node(term) {
            Node::Bool(value) => Some((*value).into()),
            Node::Constant { value, .. } => Some(*value),
            Node::Symbol(id) => self.symbol(*id, scene).map(|value| value & ones(width)),
            Node::Not(a) => Some(1 ^ self.value(*a, scene)?),
            Node::Binary(operator, a, b) => self.binary(*operator, [*a, *b], scene),
            Node::Ite(condition, a, b) => match self.value(*condition, scene) {
                Some(0) => self.value(*b, scene),
                Some(_) => self.value(*a, scene),
                None => {
                    let (a, b) = (self.value(*a, scene), self.value(*b, scene));
                    a.filter(|_| a == b)
                }
            },
            Node::Concat(high, low) => {
                let (high, shift) = (self.value(*high, scene)?, terms.width(*low));
                Some(high << shift | self.value(*low, scene)?)
            }
            Node::Extract { low, of, .. } => Some(self.value(*of, scene)? >> low & ones(width)),
            Node::Extend { signed, of, .. } => {
                let (value, from) = (self.value(*of, scene)?, terms.width(*of));
                let negative = *signed && value >> (from - 1) & 1 == 1;
                Some(if negative { value | (ones(width) & !ones(from)) } else { value })
            }
            Node::Apply(function, arguments) => self.applied(*function, arguments, scene),
        }
    }

    /// An element of a list, a byte of the payload, or what an opaque function returns.
    fn applied(&mut self, of: SymbolId, arguments: &[Term], scene: &Scene<'_>) -> Option<u128> {
        let arguments = arguments.iter().map(|argument| self.value(*argument, scene));
        let arguments = arguments.collect::<Option<Vec<u128>>>()?;
        let name = &self.terms.symbol_of(of).name;
        if let [at] = arguments[..] {
            if name == "payload[]" {
                return scene.packet?.payload(at as usize).map(u128::from);
            }
            if let Some(element) = self.elements.get(&(of.index(), at)) {
                return Some(*element);
            }
        }
        let opaque = self.opaque.as_mut()?;
        let payload = || scene.packet.map_or(Vec::new(), |packet| packet.whole_payload());
        opaque.value(name, &arguments, payload)
    }

    fn binary(&mut self, operator: Binary, [a, b]: [Term; 2], scene: &Scene<'_>) -> Option<u128> {
        let width = self.terms.width(a);
        let (a, b) = (self.value(a, scene), self.value(b, scene));
        match (operator, a, b) {
            (Binary::Both, Some(0), _) | (Binary::Both, _, Some(0)) => Some(0),
            (Binary::Either, Some(1), _) | (Binary::Either, _, Some(1)) => Some(1),
            (_, Some(a), Some(b)) => Some(operator.of(a, b, width)),
            _ => None,
        }
    }
}

impl Origin {
    fn of(name: &str) -> Self {
        if name == "now" {
            return Self::Now;
        }
        if name.starts_with("settings.") {
            return Self::Setting;
        }
        Property::named(name).map_or(Self::Passage, Self::Packet)
    }
}

fn ones(width: u8) -> u128 {
    u128::MAX.checked_shr(128 - u32::from(width)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_analysis::expr::{Kind, Sort};

    #[test]
    fn what_follows_from_what_is_known_is_known() {
        let mut terms = Terms::new();
        let a = terms.symbol("a", Sort::Bits(16), Kind::Number);
        let b = terms.symbol("b", Sort::Bits(16), Kind::Number);
        let limit = terms.constant(10, 16);
        let low = terms.binary(Binary::LessUnsigned, a, limit);
        let other = terms.binary(Binary::LessUnsigned, b, limit);
        let (both, either) = (terms.both(low, other), terms.either(low, other));
        let scene = Scene { now_ns: 0, packet: None };
        let mut valuation = Valuation::new(&terms, None);
        let mut values = |known: &[(&str, u128)]| {
            valuation.begin(known.iter().map(|(name, value)| ((*name).to_owned(), *value)));
            [low, both, either].map(|term| valuation.value(term, &scene))
        };
        assert_eq!(values(&[("a", 3)]), [Some(1), None, Some(1)]);
        assert_eq!(values(&[("a", 3), ("b", 11)]), [Some(1), Some(0), Some(1)]);
        assert_eq!(values(&[("a", 3), ("b", 9)]), [Some(1), Some(1), Some(1)]);
        assert_eq!(values(&[("b", 11)]), [None, Some(0), None], "nothing is kept");
    }
}

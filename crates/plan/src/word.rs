//! Words of bits, each the sum over GF(2) of bits of packet fields: what a hash that is linear can
//! follow. Masks, prefixes, shifts, concatenations and exclusive ors stay linear; sums do not.

use std::collections::BTreeMap;
use std::rc::Rc;

use anabranch_analysis::expr::{Binary, Node, Symbol, SymbolId, Term, Terms};

use crate::timer::token_field;

/// A header field, by its number in [`Fields`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FieldId(pub(crate) u16);

/// A bit of a field, 0 the most significant.
pub(crate) type Bit = (FieldId, u16);

/// Header fields that keys speak of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    all: Vec<(String, u16)>,
    numbers: BTreeMap<String, FieldId>,
}

/// Headers of a packet, outermost first, as the analysis names them.
pub(crate) const HEADERS: [&str; 10] =
    ["ethernet", "vlan", "arp", "ipv4", "ipv6", "tcp", "udp", "icmpv4", "icmpv6", "embedded"];

impl Fields {
    /// The number of a field of `width` bits.
    pub(crate) fn id(&mut self, name: &str, width: u16) -> FieldId {
        if let Some(known) = self.numbers.get(name) {
            return *known;
        }
        let id = FieldId(self.all.len() as u16);
        self.all.push((name.to_owned(), width));
        self.numbers.insert(name.to_owned(), id);
        id
    }

    pub(crate) fn name(&self, id: FieldId) -> &str {
        self.all.get(usize::from(id.0)).map_or("", |(name, _)| name)
    }

    pub(crate) fn width(&self, id: FieldId) -> u16 {
        self.all.get(usize::from(id.0)).map_or(0, |(_, width)| *width)
    }

    /// The header a field belongs to.
    pub(crate) fn header(&self, id: FieldId) -> &str {
        self.name(id).split('.').next().unwrap_or_default()
    }

    /// The field that holds in a reply what this one holds in a request.
    pub(crate) fn swapped(&mut self, id: FieldId) -> FieldId {
        let name = self.name(id).to_owned();
        let width = self.width(id);
        match name.rsplit_once('.') {
            Some((header, "src")) => self.id(&format!("{header}.dst"), width),
            Some((header, "dst")) => self.id(&format!("{header}.src"), width),
            _ => id,
        }
    }

    /// The field behind a symbol, if it is one; what a timer is given is one of whoever has set it.
    pub(crate) fn of_symbol(&mut self, symbol: &Symbol) -> Option<FieldId> {
        if let Some(token) = token_field(&symbol.name, self) {
            return Some(token);
        }
        let (header, rest) = symbol.name.split_once('.')?;
        let field = HEADERS.contains(&header) && !rest.contains(['#', '.']);
        field.then(|| self.id(&symbol.name, u16::from(symbol.sort.width())))
    }
}

/// A sum of bits of one packet's fields, and of a constant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sum {
    /// In order, each once.
    pub(crate) bits: Vec<Bit>,
    pub(crate) constant: bool,
}

impl Sum {
    fn known(constant: bool) -> Self {
        Self { bits: Vec::new(), constant }
    }

    fn is_zero(&self) -> bool {
        self.bits.is_empty() && !self.constant
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut bits: Vec<Bit> =
            self.bits.iter().filter(|bit| !other.bits.contains(bit)).copied().collect();
        bits.extend(other.bits.iter().filter(|bit| !self.bits.contains(bit)));
        bits.sort_unstable();
        Self { bits, constant: self.constant ^ other.constant }
    }
}

/// A value, its most significant bit first; shared, since keys are copied far more often than made.
pub(crate) type Word = Rc<[Sum]>;

/// The word of a term, where it is linear in bits of packet fields.
pub(crate) fn word(term: Term, terms: &Terms, fields: &mut Fields) -> Option<Word> {
    sums(term, terms, fields).map(Word::from)
}

fn sums(term: Term, terms: &Terms, fields: &mut Fields) -> Option<Vec<Sum>> {
    let width = usize::from(terms.width(term));
    match *terms.node(term) {
        Node::Bool(value) => Some(vec![Sum::known(value)]),
        Node::Constant { value, .. } => Some(constant(value, width)),
        Node::Symbol(id) => of_field(id, terms, fields),
        Node::Not(a) => sums(a, terms, fields).map(complement),
        Node::Concat(a, b) => {
            let mut high = sums(a, terms, fields)?;
            high.extend(sums(b, terms, fields)?);
            Some(high)
        }
        Node::Extract { low, of, .. } => {
            let whole = sums(of, terms, fields)?;
            let end = whole.len().checked_sub(usize::from(low))?;
            Some(whole.get(end.checked_sub(width)?..end)?.to_vec())
        }
        Node::Extend { signed, of, .. } => {
            let low = sums(of, terms, fields)?;
            let fill = if signed { low.first()?.clone() } else { Sum::default() };
            let mut all = vec![fill; width.checked_sub(low.len())?];
            all.extend(low);
            Some(all)
        }
        Node::Binary(operator, a, b) => binary(operator, a, b, terms, fields),
        Node::Ite(..) | Node::Apply(..) => None,
    }
}

fn constant(value: u128, width: usize) -> Vec<Sum> {
    (0..width).rev().map(|bit| Sum::known(value >> bit & 1 == 1)).collect()
}

fn of_field(id: SymbolId, terms: &Terms, fields: &mut Fields) -> Option<Vec<Sum>> {
    let field = fields.of_symbol(terms.symbol_of(id))?;
    let bits = 0..fields.width(field);
    Some(bits.map(|bit| Sum { bits: vec![(field, bit)], constant: false }).collect())
}

fn complement(word: Vec<Sum>) -> Vec<Sum> {
    word.into_iter().map(|sum| Sum { constant: !sum.constant, ..sum }).collect()
}

fn binary(
    operator: Binary,
    a: Term,
    b: Term,
    terms: &Terms,
    fields: &mut Fields,
) -> Option<Vec<Sum>> {
    let left = sums(a, terms, fields)?;
    if let Some(value) = terms.constant_of(b) {
        return with_constant(operator, left, value);
    }
    let right = sums(b, terms, fields)?;
    let pairs = left.iter().zip(&right);
    let disjoint = pairs.clone().all(|(x, y)| x.is_zero() || y.is_zero());
    match operator {
        Binary::Xor => Some(pairs.map(|(x, y)| x.plus(y)).collect()),
        // Where no bit is set in both, nothing is carried.
        Binary::Or | Binary::Add if disjoint => Some(pairs.map(|(x, y)| x.plus(y)).collect()),
        _ => None,
    }
}

fn with_constant(operator: Binary, left: Vec<Sum>, value: u128) -> Option<Vec<Sum>> {
    let width = left.len();
    let bits = constant(value, width);
    let power = value.is_power_of_two().then(|| value.trailing_zeros() as usize);
    match operator {
        Binary::Xor => Some(left.iter().zip(&bits).map(|(x, y)| x.plus(y)).collect()),
        Binary::And => Some(choose(left, &bits, |sum, set| if set { sum } else { Sum::default() })),
        Binary::Or => {
            Some(choose(left, &bits, |sum, set| if set { Sum::known(true) } else { sum }))
        }
        Binary::ShiftLeft => Some(shifted_left(left, (value % width.max(1) as u128) as usize)),
        Binary::ShiftRight => Some(shifted_right(left, (value % width.max(1) as u128) as usize)),
        Binary::Mul => Some(shifted_left(left, power?)),
        Binary::DivUnsigned => Some(shifted_right(left, power?)),
        Binary::RemUnsigned => {
            let kept = power?;
            let zeros = width.checked_sub(kept)?;
            let low = left.into_iter().skip(zeros);
            Some(constant(0, zeros).into_iter().chain(low).collect())
        }
        Binary::Add if left.iter().zip(&bits).all(|(x, y)| x.is_zero() || y.is_zero()) => {
            Some(left.iter().zip(&bits).map(|(x, y)| x.plus(y)).collect())
        }
        _ => None,
    }
}

fn choose(word: Vec<Sum>, bits: &[Sum], pick: impl Fn(Sum, bool) -> Sum) -> Vec<Sum> {
    word.into_iter().zip(bits).map(|(sum, bit)| pick(sum, bit.constant)).collect()
}

fn shifted_left(word: Vec<Sum>, by: usize) -> Vec<Sum> {
    let width = word.len();
    word.into_iter().skip(by).chain(constant(0, by.min(width))).collect()
}

fn shifted_right(word: Vec<Sum>, by: usize) -> Vec<Sum> {
    let width = word.len();
    let kept = width.saturating_sub(by);
    constant(0, by.min(width)).into_iter().chain(word.into_iter().take(kept)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_analysis::expr::{Kind, Sort};

    fn field(terms: &mut Terms, name: &str, width: u8) -> Term {
        terms.symbol(name, Sort::Bits(width), Kind::Number)
    }

    /// The value of a word on packets whose fields are given.
    fn value(word: &Word, fields: &Fields, packet: &[(&str, u128)]) -> u128 {
        let bit = |(field, bit): Bit| {
            let known = packet.iter().find(|(name, _)| *name == fields.name(field));
            known.map_or(0, |(_, value)| value >> (fields.width(field) - 1 - bit)) & 1 == 1
        };
        let sum = |sum: &Sum| sum.bits.iter().fold(sum.constant, |all, one| all ^ bit(*one));
        word.iter().fold(0, |all, one| all << 1 | u128::from(sum(one)))
    }

    #[test]
    fn masks_shifts_and_sums_without_carry_are_followed() {
        let (mut terms, mut fields) = (Terms::new(), Fields::default());
        let src = field(&mut terms, "ipv4.src", 32);
        let port = field(&mut terms, "tcp.src", 16);
        let mask = terms.constant(0xffff_ff00, 32);
        let prefix = terms.binary(Binary::And, src, mask);
        let sixteen = terms.constant(16, 32);
        let high = terms.binary(Binary::ShiftLeft, src, sixteen);
        let wide = terms.extend(port, 32, false);
        let joined = terms.binary(Binary::Add, high, wide);
        let mixed = terms.binary(Binary::Xor, prefix, wide);
        let packet = [("ipv4.src", 0xc0a8_0164), ("tcp.src", 0x1234)];
        for (term, expected) in
            [(prefix, 0xc0a8_0100u128), (joined, 0x0164_1234), (mixed, 0xc0a8_0100 ^ 0x1234)]
        {
            let word = word(term, &terms, &mut fields).expect("linear");
            assert_eq!(value(&word, &fields, &packet), expected);
        }
    }

    #[test]
    fn sums_that_carry_and_choices_are_not() {
        let (mut terms, mut fields) = (Terms::new(), Fields::default());
        let src = field(&mut terms, "ipv4.src", 32);
        let dst = field(&mut terms, "ipv4.dst", 32);
        let sum = terms.binary(Binary::Add, src, dst);
        let one = terms.constant(1, 32);
        let next = terms.binary(Binary::Add, src, one);
        let less = terms.binary(Binary::LessUnsigned, src, dst);
        let lower = terms.ite(less, src, dst);
        for term in [sum, next, lower] {
            assert_eq!(word(term, &terms, &mut fields), None);
        }
    }

    #[test]
    fn replies_have_their_fields_the_other_way_round() {
        let mut fields = Fields::default();
        let src = fields.id("tcp.src", 16);
        let dst = fields.swapped(src);
        assert_eq!((fields.name(dst), fields.width(dst)), ("tcp.dst", 16));
        let id = fields.id("icmpv4.id", 16);
        assert_eq!(fields.swapped(id), id);
    }
}

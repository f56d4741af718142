//! Equations of bits as equalities of ranges: for readers, and for the solver of keys.

use std::collections::BTreeSet;

use anabranch_rss::{Bits, Equality, Field, Which};

use crate::constraint::{Constraint, Equation};
use crate::word::{FieldId, Fields, HEADERS};

/// Equations of bits that follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    terms: Vec<(Which, FieldId, u16)>,
    len: u16,
    constant: u128,
}

/// The equations as ranges, in order.
pub(crate) fn ranges(equations: &BTreeSet<Equation>) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for equation in equations {
        let bit = u128::from(equation.constant);
        match ranges.last_mut().filter(|range| range.goes_on(equation)) {
            Some(range) => {
                range.len += 1;
                range.constant = range.constant << 1 | bit;
            }
            None => ranges.push(Range {
                terms: equation
                    .terms
                    .iter()
                    .map(|(which, (field, at))| (*which, *field, *at))
                    .collect(),
                len: 1,
                constant: bit,
            }),
        }
    }
    ranges
}

impl Range {
    fn goes_on(&self, equation: &Equation) -> bool {
        let next =
            self.terms.iter().map(|(which, field, first)| (*which, (*field, first + self.len)));
        self.len < 128 && next.eq(equation.terms.iter().copied())
    }

    /// Whether it equates whole fields, all of which are meant.
    pub(crate) fn is_of_whole(
        &self,
        fields: &Fields,
        is_meant: impl Fn(Which, FieldId) -> bool,
    ) -> bool {
        let is_whole = |field: FieldId| self.len == fields.width(field);
        self.terms.iter().all(|(which, field, _)| is_whole(*field) && is_meant(*which, *field))
    }

    /// Only its first `bits` equations, which more packets fulfil.
    pub(crate) fn first_bits(self, bits: u16) -> Self {
        let len = self.len.min(bits);
        Self { len, constant: self.constant >> (self.len - len), ..self }
    }

    /// As the solver of keys takes it.
    pub(crate) fn equality(&self, fields: &Fields) -> Equality {
        let bits =
            |field: FieldId, first| Bits { field: hashed(field, fields), first, len: self.len };
        let terms = self.terms.iter().map(|(which, field, first)| (*which, bits(*field, *first)));
        Equality { terms: terms.collect(), constant: self.constant }
    }

    /// Where its first field stands in a packet.
    fn layer(&self, fields: &Fields) -> (usize, bool, u16) {
        let Some((_, field, first)) = self.terms.first() else { return (0, false, 0) };
        let header = HEADERS.iter().position(|header| *header == fields.header(*field));
        (header.unwrap_or(HEADERS.len()), fields.name(*field).ends_with(".dst"), *first)
    }

    /// `lan.ipv4.src = wan.ipv4.dst`; a dash marks the second packet of one port.
    fn text(&self, names: [&str; 2], fields: &Fields) -> String {
        let term = |(which, field, first): &(Which, FieldId, u16)| {
            let name = format!("{}.{}", names[which.index()], fields.name(*field));
            let end = first + self.len;
            match (*first, self.len == fields.width(*field)) {
                (_, true) => name,
                (0, _) => format!("{name}/{}", self.len),
                _ => format!("{name}[{first}..{end}]"),
            }
        };
        let terms: Vec<String> = self.terms.iter().map(term).collect();
        match (&terms[..], self.constant) {
            ([a, b], 0) => format!("{a} = {b}"),
            _ => format!("{} = {:#x}", terms.join(" ^ "), self.constant),
        }
    }
}

/// The field as the solver of keys names it.
pub(crate) fn hashed(field: FieldId, fields: &Fields) -> Field {
    Field::named(fields.name(field)).unwrap_or(Field::Other(field.0))
}

/// The equalities of a constraint in words.
pub(crate) fn equalities(
    constraint: &Constraint,
    ports: &[String],
    fields: &Fields,
) -> Vec<String> {
    let [first, second] = constraint.sides.map(|(port, _)| port);
    let name = |port: usize| ports.get(port).map_or("port", String::as_str);
    let dashed = format!("{}'", name(second));
    let names = [name(first), if first == second { &dashed } else { name(second) }];
    let mut ranges = ranges(&constraint.equations);
    ranges.sort_by_key(|range| range.layer(fields));
    ranges.iter().map(|range| range.text(names, fields)).collect()
}

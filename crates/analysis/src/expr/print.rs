//! Terms in the field's words: `ipv4.ttl <= 1`, `no tcp`, `by_inside.get#3 found`.

use super::{Binary, Kind, Node, SymbolId, Term, Terms, fold, mask};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Terms written out in full before the rest becomes `…`, so that a hash over a payload stays one
/// line.
const LONGEST: usize = 120;

/// What constants are called in one network function.
#[derive(Debug, Clone, Default)]
pub struct Words {
    /// Names of the ports, in order.
    pub ports: Vec<String>,
}

impl Words {
    /// A port by name, or by number where it has none.
    pub fn port(&self, number: u128) -> String {
        let named = usize::try_from(number).ok().and_then(|n| self.ports.get(n));
        named.cloned().unwrap_or_else(|| format!("port {number}"))
    }

    /// A constant as its kind is written.
    pub fn constant(&self, value: u128, kind: &Kind) -> String {
        match kind {
            Kind::Ipv4 => Ipv4Addr::from_bits(value as u32).to_string(),
            Kind::Ipv6 => Ipv6Addr::from_bits(value).to_string(),
            Kind::Mac => mac(value),
            Kind::Port => self.port(value),
            Kind::Variants(names) => variant(names, value),
            _ => value.to_string(),
        }
    }
}

fn mac(value: u128) -> String {
    let bytes = &value.to_be_bytes()[10..];
    let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    parts.join(":")
}

fn variant(names: &[String], value: u128) -> String {
    let named = usize::try_from(value).ok().and_then(|n| names.get(n));
    named.cloned().unwrap_or_else(|| value.to_string())
}

impl Terms {
    /// The term as text.
    pub fn print(&self, term: Term, words: &Words) -> String {
        self.print_as(term, &self.kind_of(term), words)
    }

    /// The term as text, its constants written as `kind`.
    pub fn print_as(&self, term: Term, kind: &Kind, words: &Words) -> String {
        let mut printer = Printer { terms: self, words, left: LONGEST };
        printer.term(term, kind, 0)
    }

    /// How constants that stand beside this term are written.
    pub fn kind_of(&self, term: Term) -> Kind {
        match self.node(term) {
            Node::Symbol(id) | Node::Apply(id, _) => self.symbol_of(*id).kind.clone(),
            Node::Ite(_, a, b) => match self.kind_of(*a) {
                Kind::Number => self.kind_of(*b),
                kind => kind,
            },
            _ => Kind::Number,
        }
    }
}

/// Names of the TCP flags, from the lowest bit.
const FLAGS: [&str; 6] = ["fin", "syn", "rst", "psh", "ack", "urg"];

struct Printer<'a> {
    terms: &'a Terms,
    words: &'a Words,
    left: usize,
}

/// What holds where a condition does not.
enum Opposite {
    /// What it denies.
    Inside(Term),
    /// A comparison: its sign, the operands, whether they are signed.
    Comparison(&'static str, Term, Term, bool),
}

/// Binding strength: `||` 1, `&&` 2, comparisons 3, then the bit operators as in Rust.
fn strength(operator: Binary) -> u8 {
    use Binary::*;
    match operator {
        Either => 1,
        Both => 2,
        Equal | LessUnsigned | LessEqualUnsigned | LessSigned | LessEqualSigned => 3,
        Or => 4,
        Xor => 5,
        And => 6,
        ShiftLeft | ShiftRight | ShiftRightSigned => 7,
        Add | Sub => 8,
        Mul | DivUnsigned | DivSigned | RemUnsigned | RemSigned => 9,
    }
}

fn sign(operator: Binary) -> &'static str {
    use Binary::*;
    match operator {
        Either => "||",
        Both => "&&",
        Equal => "==",
        LessUnsigned | LessSigned => "<",
        LessEqualUnsigned | LessEqualSigned => "<=",
        Or => "|",
        Xor => "^",
        And => "&",
        ShiftLeft => "<<",
        ShiftRight | ShiftRightSigned => ">>",
        Add => "+",
        Sub => "-",
        Mul => "*",
        DivUnsigned | DivSigned => "/",
        RemUnsigned | RemSigned => "%",
    }
}

/// The sign when the operands change places.
fn mirrored(operator: Binary) -> &'static str {
    match sign(operator) {
        "<" => ">",
        "<=" => ">=",
        same => same,
    }
}

impl Printer<'_> {
    fn term(&mut self, term: Term, kind: &Kind, outer: u8) -> String {
        if self.left == 0 {
            return "…".to_owned();
        }
        self.left -= 1;
        if let Some(text) = self.call(term, kind) {
            return text;
        }
        match self.terms.node(term) {
            Node::Bool(value) => value.to_string(),
            Node::Constant { value, .. } => self.words.constant(*value, kind),
            Node::Symbol(id) => self.symbol(*id),
            Node::Not(inner) => self.negation(*inner, outer),
            Node::Binary(operator, a, b) => self.binary(*operator, *a, *b, outer),
            Node::Ite(condition, a, b) => self.choice(*condition, *a, *b, kind),
            Node::Concat(a, b) => self.concat(*a, *b),
            Node::Extract { high, low, of } => {
                let of = self.term(*of, &Kind::Number, 10);
                match (low, high) {
                    (0, 7 | 15 | 31 | 63) => enclose(format!("{of} as u{}", high + 1), outer > 9),
                    _ => format!("{of}[{high}:{low}]"),
                }
            }
            Node::Extend { of, .. } => self.term(*of, kind, outer),
            Node::Apply(function, arguments) => self.apply(*function, arguments),
        }
    }

    /// `now.saturating_sub(heard)` for the choice it stands for.
    fn call(&mut self, term: Term, kind: &Kind) -> Option<String> {
        let (method, operands) = self.terms.calls.get(&term)?;
        let (receiver, arguments) = operands.split_first()?;
        let receiver = self.term(*receiver, kind, 10);
        let arguments: Vec<String> = arguments.iter().map(|a| self.term(*a, kind, 0)).collect();
        Some(format!("{receiver}.{method}({})", arguments.join(", ")))
    }

    fn symbol(&self, id: SymbolId) -> String {
        let symbol = self.terms.symbol_of(id);
        match &symbol.kind {
            Kind::Presence => format!("{} present", symbol.name),
            Kind::Outcome(yes, _) => format!("{} {yes}", symbol.name),
            _ => symbol.name.clone(),
        }
    }

    fn negation(&mut self, inner: Term, outer: u8) -> String {
        if let Some(text) = self.call(inner, &Kind::Number) {
            return format!("!{text}");
        }
        if let Some(one) = self.one_of(inner) {
            return enclose(one.join(" || "), outer > 1);
        }
        match self.terms.node(inner) {
            Node::Symbol(id) => {
                let symbol = self.terms.symbol_of(*id);
                match &symbol.kind {
                    Kind::Presence => format!("no {}", symbol.name),
                    Kind::Outcome(_, no) => format!("{} {no}", symbol.name),
                    _ => format!("!{}", symbol.name),
                }
            }
            Node::Binary(Binary::Equal, a, b) => match self.bit(Binary::Equal, *a, *b) {
                Some(text) => format!("!{text}"),
                None => self.operands("!=", *a, *b, 3, false),
            },
            _ => format!("!{}", self.term(inner, &Kind::Number, 10)),
        }
    }

    /// `!(!a && b < c)` is `a || b >= c` to whoever reads it: one of these, where nothing is negated then.
    fn one_of(&mut self, all: Term) -> Option<Vec<String>> {
        let mut conditions = vec![all];
        let mut at = 0;
        while let Some(&term) = conditions.get(at) {
            match *self.terms.node(term) {
                Node::Binary(Binary::Both, a, b) => drop(conditions.splice(at..=at, [a, b])),
                _ => at += 1,
            }
        }
        let opposites: Vec<Opposite> =
            conditions.into_iter().map(|term| self.opposite(term)).collect::<Option<_>>()?;
        let is_negated = |one: &Opposite| matches!(one, Opposite::Inside(_));
        if opposites.len() < 2 || !opposites.iter().any(is_negated) {
            return None;
        }
        let denied = opposites.into_iter().map(|one| match one {
            Opposite::Inside(term) => self.term(term, &Kind::Number, 1),
            Opposite::Comparison(sign, a, b, signed) => self.operands(sign, a, b, 3, signed),
        });
        Some(denied.collect())
    }

    /// What holds where a condition does not, of those that are written no longer for it.
    fn opposite(&self, term: Term) -> Option<Opposite> {
        let (operator, a, b) = match *self.terms.node(term) {
            Node::Not(inner) => return Some(Opposite::Inside(inner)),
            Node::Binary(operator, a, b) => (operator, a, b),
            _ => return None,
        };
        let sign = match sign(operator) {
            "<" => ">=",
            "<=" => ">",
            _ => return None,
        };
        Some(Opposite::Comparison(sign, a, b, is_signed(operator)))
    }

    fn binary(&mut self, operator: Binary, a: Term, b: Term, outer: u8) -> String {
        let strength = strength(operator);
        if let Some(text) = self.bit(operator, a, b) {
            return text;
        }
        if let Some(text) = self.subtraction(operator, a, b) {
            return enclose(text, strength < outer);
        }
        let flip = strength == 3 && self.terms.known_value(a).is_some();
        let text = match flip {
            true => self.operands(mirrored(operator), b, a, strength, is_signed(operator)),
            false => self.operands(sign(operator), a, b, strength, is_signed(operator)),
        };
        enclose(text, strength < outer)
    }

    fn operands(&mut self, sign: &str, a: Term, b: Term, strength: u8, signed: bool) -> String {
        let kind = match self.terms.kind_of(a) {
            Kind::Number => self.terms.kind_of(b),
            kind => kind,
        };
        let left = self.term(a, &kind, strength);
        let right = match (signed, self.terms.constant_of(b)) {
            (true, Some(value)) => fold::signed(value, self.terms.width(b)).to_string(),
            // `a && (b && c)` needs no brackets.
            _ if strength < 3 => self.term(b, &kind, strength),
            _ => self.term(b, &kind, strength + 1),
        };
        format!("{left} {sign} {right}")
    }

    /// `tcp.flags` with bit 1 set is `tcp.syn` (RFC 9293); of anything else, `x.bit(1)`.
    fn bit(&mut self, operator: Binary, a: Term, b: Term) -> Option<String> {
        let set = operator == Binary::Equal && self.terms.constant_of(b) == Some(1);
        let Node::Extract { high, low, of } = *self.terms.node(a) else {
            return None;
        };
        if !set || high != low {
            return None;
        }
        let of = self.term(of, &Kind::Number, 10);
        Some(match (of.as_str(), FLAGS.get(usize::from(low))) {
            ("tcp.flags", Some(flag)) => format!("tcp.{flag}"),
            _ => format!("{of}.bit({low})"),
        })
    }

    /// `x + 0xffff` on 16 bits is written `x - 1`.
    fn subtraction(&mut self, operator: Binary, a: Term, b: Term) -> Option<String> {
        let value = self.terms.constant_of(b)?;
        let width = self.terms.width(b);
        let negative = operator == Binary::Add && value > mask(width) / 2 && width > 1;
        negative.then(|| {
            let less = value.wrapping_neg() & mask(width);
            format!("{} - {less}", self.term(a, &Kind::Number, 8))
        })
    }

    fn choice(&mut self, condition: Term, a: Term, b: Term, kind: &Kind) -> String {
        let condition = self.term(condition, &Kind::Number, 0);
        let (a, b) = (self.term(a, kind, 0), self.term(b, kind, 0));
        format!("(if {condition} then {a} else {b})")
    }

    fn concat(&mut self, a: Term, b: Term) -> String {
        let a = self.term(a, &Kind::Number, 10);
        let b = self.term(b, &Kind::Number, 10);
        format!("({a} ++ {b})")
    }

    fn apply(&mut self, function: SymbolId, arguments: &[Term]) -> String {
        let symbol = self.terms.symbol_of(function);
        let kind = Kind::Number;
        let name = symbol.name.clone();
        let arguments: Vec<String> = arguments.iter().map(|a| self.term(*a, &kind, 0)).collect();
        let arguments = arguments.join(", ");
        match name.contains("[]") {
            true => name.replacen("[]", &format!("[{arguments}]"), 1),
            false => format!("{name}({arguments})"),
        }
    }
}

fn is_signed(operator: Binary) -> bool {
    matches!(operator, Binary::LessSigned | Binary::LessEqualSigned)
}

fn enclose(text: String, needed: bool) -> String {
    if needed { format!("({text})") } else { text }
}

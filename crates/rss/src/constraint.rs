//! Constraints as text: `p0.src = p1.dst && p0.dst = p1.src`.

mod lexer;
mod parser;

use std::error::Error;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::class::Class;
use crate::field::{Bits, Field};
use crate::need::{Equality, Need, Side, Which};
use crate::nic::Nic;
use crate::solve::{contradict, low};

/// Reads a constraint between packets and makes needs of it, one for each pair of classes that
/// have the fields it names.
///
/// ```text
/// constraint = case { "||" case }                 any of the cases
/// case       = equality { "&&" equality }         all of the equalities
/// equality   = sum "=" sum                        bits of one length
/// sum        = term { "^" term }                  exclusive or, bit by bit
/// term       = packet "." field [ range ] | constant
/// packet     = "p" number [ "'" ]                 of that port; with ' the second one there
/// field      = "ipv4.src" | "tcp.dst" | …         as in the network function language
///            | "src" | "dst"                      the addresses, IPv4 and IPv6
///            | "sport" | "dport"                  the ports, TCP and UDP
/// range      = "/" bits                           the first ones
///            | "[" first ".." end "]"             counted from the most significant one, 0
/// constant   = 80 | 0x1f | 10.0.0.0 | 2001:db8::1 | 02:00:00:00:00:01
/// ```
///
/// A case is about two packets. If it names two ports, one arrives at each. If it names one port
/// and no packet has a `'`, what stands left of `=` is of the first packet and what stands right of
/// the second, and an equality with a constant is about both.
///
/// `nics` are the NICs of the ports, by number.
///
/// # Errors
/// [`ConstraintError`] with the place in the text, and what to write instead.
///
/// ```
/// use anabranch_rss::{Nic, Problem, needs_of, solve};
///
/// let nic = Nic::named("e810").ok_or("no such model")?;
/// let needs = needs_of("p0.src = p0.src && p0.sport = p0.sport", &[nic])?;
/// let problem = needs.into_iter().fold(Problem::new(&[nic]), Problem::need);
/// println!("{}", solve(&problem)?.ports[0].key);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn needs_of(text: &str, nics: &[&'static Nic]) -> Result<Vec<Need>, ConstraintError> {
    let mut needs = Vec::new();
    for case in parser::parse(text)? {
        for need in case.needs(nics)? {
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
    }
    Ok(needs)
}

/// The ports that a constraint names: the highest number and one.
///
/// # Errors
/// As [`needs_of`], as far as that does not depend on NICs.
pub fn ports_of(text: &str) -> Result<usize, ConstraintError> {
    let cases = parser::parse(text)?;
    let packets = cases.iter().flat_map(|case| case.packets());
    Ok(packets.map(|packet| packet.port + 1).max().unwrap_or(0))
}

/// What is wrong with the text of a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstraintError {
    /// What is wrong, and what to write instead.
    pub message: String,
    /// Where, in bytes of the text.
    pub span: Range<usize>,
    text: String,
}

impl ConstraintError {
    fn new(text: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { message: message.into(), span, text: text.to_string() }
    }
}

impl fmt::Display for ConstraintError {
    /// The message with the column, the text, and a mark under the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = |bytes: Range<usize>| self.text.get(bytes).map_or(0, |t| t.chars().count());
        let column = letters(0..self.span.start);
        let marks = letters(self.span.clone()).max(1);
        writeln!(f, "column {}: {}", column + 1, self.message)?;
        writeln!(f, "  {}", self.text)?;
        write!(f, "  {}{}", " ".repeat(column), "^".repeat(marks))
    }
}

impl Error for ConstraintError {}

/// A packet that a case names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    port: usize,
    second: bool,
}

/// A field as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Field(Field),
    Src,
    Dst,
    SrcPort,
    DstPort,
}

/// Some bits of a field of a packet.
#[derive(Clone, Debug)]
struct Term {
    packet: Packet,
    named: Named,
    /// First bit and bit after the last one; `None`: all.
    range: Option<(u16, u16)>,
    span: Range<usize>,
}

/// A constant, with the bits that its notation says it has.
#[derive(Clone, Debug)]
struct Constant {
    value: u128,
    bits: Option<u16>,
    span: Range<usize>,
}

/// One side of an equality.
#[derive(Clone, Debug, Default)]
struct Sum {
    terms: Vec<Term>,
    constants: Vec<Constant>,
}

#[derive(Clone, Debug)]
struct Equation {
    sides: [Sum; 2],
    span: Range<usize>,
}

/// The side of the equation that a term stands on, the term, and its bits in one variant.
type Summand<'a> = (usize, &'a Term, Bits);

/// Equations that hold together.
#[derive(Debug)]
struct Case<'t> {
    text: &'t str,
    equations: Vec<Equation>,
}

/// What the short names stand for.
#[derive(Clone, Copy, Debug)]
struct Variant {
    addresses: [Field; 2],
    ports: [Field; 2],
}

const VARIANTS: [Variant; 4] = [
    variant([Field::Ipv4Src, Field::Ipv4Dst], [Field::TcpSrc, Field::TcpDst]),
    variant([Field::Ipv4Src, Field::Ipv4Dst], [Field::UdpSrc, Field::UdpDst]),
    variant([Field::Ipv6Src, Field::Ipv6Dst], [Field::TcpSrc, Field::TcpDst]),
    variant([Field::Ipv6Src, Field::Ipv6Dst], [Field::UdpSrc, Field::UdpDst]),
];

const fn variant(addresses: [Field; 2], ports: [Field; 2]) -> Variant {
    Variant { addresses, ports }
}

impl Variant {
    fn field(self, named: Named) -> Field {
        match named {
            Named::Field(field) => field,
            Named::Src => self.addresses[0],
            Named::Dst => self.addresses[1],
            Named::SrcPort => self.ports[0],
            Named::DstPort => self.ports[1],
        }
    }
}

impl Term {
    /// The bits that are meant; `None` when the field is too short for them.
    fn bits(&self, variant: Variant) -> Option<Bits> {
        let field = variant.field(self.named);
        let (first, end) = self.range.unwrap_or((0, field.width()));
        let bits = Bits { field, first, len: end.saturating_sub(first) };
        bits.fits().then_some(bits)
    }
}

impl Case<'_> {
    fn error(&self, span: &Range<usize>, message: impl Into<String>) -> ConstraintError {
        ConstraintError::new(self.text, span.clone(), message)
    }

    fn terms(&self) -> impl Iterator<Item = &Term> {
        let sums = self.equations.iter().flat_map(|equation| &equation.sides);
        sums.flat_map(|sum| &sum.terms)
    }

    /// The packets, without repetition.
    fn packets(&self) -> Vec<Packet> {
        let mut packets: Vec<Packet> = self.terms().map(|term| term.packet).collect();
        packets.sort();
        packets.dedup();
        packets
    }

    /// The needs of all classes, in all variants of the short names.
    fn needs(&self, nics: &[&'static Nic]) -> Result<Vec<Need>, ConstraintError> {
        let ports = self.ports(nics)?;
        let mut needs = Vec::new();
        let mut wrong = None;
        for variant in VARIANTS {
            match self.equalities(variant) {
                Ok(equalities) => self.add_needs(&equalities, ports, nics, &mut needs),
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
        match wrong {
            // A length may suit one variant only: `p0.src/64` is about IPv6.
            Some(error) if needs.is_empty() => Err(error),
            _ if needs.is_empty() => Err(self.error(
                &(0..self.text.len()),
                "no packet has all of these fields: name fields of one protocol",
            )),
            _ => Ok(needs),
        }
    }

    /// The ports of the two packets.
    fn ports(&self, nics: &[&'static Nic]) -> Result<[usize; 2], ConstraintError> {
        if let Some(term) = self.terms().find(|term| term.packet.port >= nics.len()) {
            let ports = nics.len();
            return Err(self.error(&term.span, format!("there are {ports} ports, from p0 on")));
        }
        match self.packets()[..] {
            [] => Err(self.error(&(0..self.text.len()), "name a field: `p0.src = 10.0.0.1`")),
            [one] => Ok([one.port; 2]),
            [first, second] => Ok([first.port, second.port]),
            _ => Err(self.error(
                &self.equations.last().map_or(0..0, |equation| equation.span.clone()),
                "a constraint is about two packets: write `||` between what is about others",
            )),
        }
    }

    /// The equalities in one variant.
    fn equalities(&self, variant: Variant) -> Result<Vec<Equality>, ConstraintError> {
        let of = |equation| self.equalities_of(equation, variant);
        let all = self.equations.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        let of_all =
            |kept: &[usize]| kept.iter().flat_map(|at| all[*at].clone()).collect::<Vec<_>>();
        let mut kept: Vec<usize> = (0..all.len()).collect();
        if !contradict(&of_all(&kept)) {
            return Ok(of_all(&kept));
        }
        for at in 0..all.len() {
            let others: Vec<usize> = kept.iter().copied().filter(|other| *other != at).collect();
            if contradict(&of_all(&others)) {
                kept = others;
            }
        }
        Err(self.contradiction(&kept))
    }

    /// That the equations of these numbers hold between no two packets, and each is needed for that.
    fn contradiction(&self, numbers: &[usize]) -> ConstraintError {
        let spans: Vec<&Range<usize>> =
            numbers.iter().map(|number| &self.equations[*number].span).collect();
        let texts: Vec<&str> = spans.iter().map(|span| &self.text[(*span).clone()]).collect();
        let message = match texts[..] {
            [_] => "this holds between no two packets: leave it away".to_owned(),
            _ => format!(
                "`{}` never hold together: leave one of them away, or write `||` between them",
                texts.join("`, `")
            ),
        };
        let start = spans.first().map_or(0, |span| span.start);
        self.error(&(start..spans.last().map_or(start, |span| span.end)), message)
    }

    /// What one equation says, in one variant.
    fn equalities_of(
        &self,
        equation: &Equation,
        variant: Variant,
    ) -> Result<Vec<Equality>, ConstraintError> {
        let packets = self.packets();
        let (sum, constant) = self.sum(equation, variant)?;
        let which = |(side, term, bits): &Summand| match &packets[..] {
            [_] if *side == 1 => (Which::Second, *bits),
            [_, second] if *second == term.packet => (Which::Second, *bits),
            _ => (Which::First, *bits),
        };
        let terms: Vec<(Which, Bits)> = sum.iter().map(which).collect();
        let of_one_side = equation.sides.iter().any(|side| side.terms.is_empty());
        if packets.len() > 1 || !of_one_side {
            return Ok(vec![Equality { terms, constant }]);
        }
        let both = [Which::First, Which::Second].map(|which| {
            let terms = terms.iter().map(|(_, bits)| (which, *bits)).collect();
            Equality { terms, constant }
        });
        Ok(both.to_vec())
    }

    /// The terms of an equation with the side they stand on, and the constants added up.
    fn sum<'a>(
        &self,
        equation: &'a Equation,
        variant: Variant,
    ) -> Result<(Vec<Summand<'a>>, u128), ConstraintError> {
        let mut sum: Vec<Summand> = Vec::new();
        let mut constant = 0;
        for (side, part) in equation.sides.iter().enumerate() {
            for term in &part.terms {
                let field = variant.field(term.named);
                let bits = term.bits(variant).ok_or_else(|| {
                    let width = field.width();
                    let last = width - 8;
                    let message = format!(
                        "`{field}` has {width} bits: write `/{width}` at most for its first ones, or a range \
                         within them, such as `[{last}..{width}]`"
                    );
                    self.error(&term.span, message)
                })?;
                sum.push((side, term, bits));
            }
        }
        let Some(&(_, _, Bits { len, .. })) = sum.first() else {
            return Err(self.error(&equation.span, "name a field: `p0.src = 10.0.0.1`"));
        };
        if let Some((_, term, bits)) = sum.iter().find(|(_, _, bits)| bits.len != len) {
            let message =
                format!("{} bits are compared with {len}: write ranges of one length", bits.len);
            return Err(self.error(&term.span, message));
        }
        for part in equation.sides.iter().flat_map(|side| &side.constants) {
            constant ^= self.value(part, len)?;
        }
        Ok((sum, constant))
    }

    /// The value that `len` bits are compared with: of an address, its first ones; the others are zero.
    fn value(&self, constant: &Constant, len: u16) -> Result<u128, ConstraintError> {
        let Constant { value, bits, span } = constant;
        match *bits {
            Some(bits) if bits >= len && value & low(bits - len) != 0 => {
                let first = address(value & !low(bits - len), bits);
                let message = format!(
                    "this has bits set after the first {len}, which are compared: write `{first}`"
                );
                Err(self.error(span, message))
            }
            Some(bits) if bits >= len => Ok(value >> (bits - len)),
            None if len == 128 || value >> len == 0 => Ok(*value),
            Some(bits) => {
                let message = format!(
                    "this has {bits} bits, and is compared with {len}: write a value of {len} bits"
                );
                Err(self.error(span, message))
            }
            None => {
                let most = (1u128 << len) - 1;
                let message = format!(
                    "this is too large for the {len} bits it is compared with: write 0 to {most}"
                );
                Err(self.error(span, message))
            }
        }
    }

    /// Adds a need for each pair of classes that have the fields, as the NICs treat them.
    fn add_needs(
        &self,
        equalities: &[Equality],
        ports: [usize; 2],
        nics: &[&'static Nic],
        needs: &mut Vec<Need>,
    ) {
        let template = Need {
            sides: ports.map(|port| Side { port, class: Class::NonIp }),
            equalities: equalities.to_vec(),
        };
        let classes = [Which::First, Which::Second].map(|which| {
            let fields = template.fields(which);
            let nic = nics[ports[which.index()]];
            let classes = Class::ALL.into_iter().filter(|class| has(*class, &fields));
            classes.map(|class| nic.seen_as(class)).collect::<Vec<Class>>()
        });
        for &first in &classes[0] {
            for &second in &classes[1] {
                let [one, other] = ports;
                let sides = [Side { port: one, class: first }, Side { port: other, class: second }];
                let need = Need { sides, equalities: equalities.to_vec() };
                if !needs.contains(&need) {
                    needs.push(need);
                }
            }
        }
    }
}

/// An address of 32, 48 or 128 bits as it is written.
fn address(value: u128, bits: u16) -> String {
    match bits {
        32 => Ipv4Addr::from_bits(value as u32).to_string(),
        48 => {
            let octets = value.to_be_bytes().map(|octet| format!("{octet:02x}"));
            octets[10..].join(":")
        }
        _ => Ipv6Addr::from_bits(value).to_string(),
    }
}

/// Whether packets of `class` have all of `fields`.
fn has(class: Class, fields: &[Field]) -> bool {
    fields.iter().all(|field| class.has(*field))
}

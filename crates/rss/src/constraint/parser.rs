//! From words to equations.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use super::lexer::{Kind, Token, tokens};
use super::{Case, Constant, ConstraintError, Equation, Named, Packet, Sum, Term};
use crate::field::Field;

/// Ports that a constraint may name.
const MAX_PORTS: usize = 256;

/// The cases of a constraint.
pub(super) fn parse(text: &str) -> Result<Vec<Case<'_>>, ConstraintError> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0 };
    let mut cases = vec![parser.case()?];
    while parser.take(Kind::Or) {
        cases.push(parser.case()?);
    }
    match parser.next().kind {
        Kind::End => Ok(cases),
        _ => Err(parser.wrong("write `&&` or `||` before more")),
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
}

impl<'t> Parser<'t> {
    /// The next token; the last one is never passed.
    fn next(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn take(&mut self, kind: Kind) -> bool {
        let found = self.next().kind == kind;
        self.at += usize::from(found);
        found
    }

    fn wrong(&self, message: impl Into<String>) -> ConstraintError {
        ConstraintError::new(self.text, self.next().span.clone(), message)
    }

    fn case(&mut self) -> Result<Case<'t>, ConstraintError> {
        let mut equations = vec![self.equation()?];
        while self.take(Kind::And) {
            equations.push(self.equation()?);
        }
        Ok(Case { text: self.text, equations })
    }

    fn equation(&mut self) -> Result<Equation, ConstraintError> {
        let start = self.next().span.start;
        let left = self.sum()?;
        if !self.take(Kind::Equal) {
            return Err(self.wrong("write `=` and what it is to equal"));
        }
        let right = self.sum()?;
        let end = self.tokens[self.at.saturating_sub(1)].span.end;
        Ok(Equation { sides: [left, right], span: start..end })
    }

    fn sum(&mut self) -> Result<Sum, ConstraintError> {
        let mut sum = Sum::default();
        loop {
            self.operand(&mut sum)?;
            if !self.take(Kind::Xor) {
                return Ok(sum);
            }
        }
    }

    fn operand(&mut self, sum: &mut Sum) -> Result<(), ConstraintError> {
        let span = self.next().span.clone();
        if !self.take(Kind::Word) {
            return Err(self.wrong("write a packet's field, as in `p0.src`, or a constant"));
        }
        let word = &self.text[span.clone()];
        if let Some((value, bits)) = constant(word) {
            sum.constants.push(Constant { value, bits, span });
            return Ok(());
        }
        let Some((packet, name)) = packet(word) else {
            return Err(ConstraintError::new(self.text, span, no_packet(word)));
        };
        let named = named(name).ok_or_else(|| {
            let start = span.end - name.len();
            ConstraintError::new(self.text, start..span.end, no_field(name))
        })?;
        let range = self.range()?;
        let span = span.start..self.tokens[self.at - 1].span.end;
        sum.terms.push(Term { packet, named, range, span });
        Ok(())
    }

    /// `/24` or `[8..16]`.
    fn range(&mut self) -> Result<Option<(u16, u16)>, ConstraintError> {
        if self.take(Kind::Slash) {
            let span = self.word("a number of bits after `/`")?;
            let len = self.text[span.clone()].parse().ok().filter(|len| (1..=128).contains(len));
            let message = "write a number of bits after `/`, at least 1";
            let len = len.ok_or_else(|| ConstraintError::new(self.text, span, message))?;
            return Ok(Some((0, len)));
        }
        if !self.take(Kind::Open) {
            return Ok(None);
        }
        let message =
            "write a range of bits, as in `[8..16]`: the first one and the one after the last";
        let span = self.word(message)?;
        let (first, end) = self.text[span.clone()].split_once("..").unwrap_or_default();
        let range = first.parse().ok().zip(end.parse().ok());
        let range = range.filter(|(first, end): &(u16, u16)| first < end && *end <= 128);
        let range = range.ok_or_else(|| ConstraintError::new(self.text, span, message))?;
        if !self.take(Kind::Close) {
            return Err(self.wrong("write `]` after the range"));
        }
        Ok(Some(range))
    }

    fn word(&mut self, what: &str) -> Result<Range<usize>, ConstraintError> {
        let span = self.next().span.clone();
        if self.take(Kind::Word) { Ok(span) } else { Err(self.wrong(what)) }
    }
}

/// A number or address with the bits it has.
fn constant(word: &str) -> Option<(u128, Option<u16>)> {
    if let Some(digits) = word.strip_prefix("0x") {
        return u128::from_str_radix(digits, 16).ok().map(|value| (value, None));
    }
    if let Ok(number) = word.parse::<u128>() {
        return Some((number, None));
    }
    if let Ok(address) = word.parse::<Ipv4Addr>() {
        return Some((u128::from(address.to_bits()), Some(32)));
    }
    if let Some(address) = mac(word) {
        return Some((address, Some(48)));
    }
    word.parse::<Ipv6Addr>().ok().map(|address| (address.to_bits(), Some(128)))
}

fn mac(word: &str) -> Option<u128> {
    let octet = |octet: &str| match octet.len() {
        2 => u128::from_str_radix(octet, 16).ok(),
        _ => None,
    };
    let octets: Vec<u128> = word.split(':').map(octet).collect::<Option<_>>()?;
    (octets.len() == 6).then(|| octets.iter().fold(0, |all, octet| all << 8 | octet))
}

/// The packet of `p0.src`, and what follows the first dot.
fn packet(word: &str) -> Option<(Packet, &str)> {
    let (packet, name) = word.strip_prefix('p')?.split_once('.')?;
    let number = packet.strip_suffix('\'').unwrap_or(packet);
    let port = number.parse().ok().filter(|port| *port < MAX_PORTS)?;
    Some((Packet { port, second: number != packet }, name))
}

fn named(name: &str) -> Option<Named> {
    Some(match name {
        "src" | "ip.src" => Named::Src,
        "dst" | "ip.dst" => Named::Dst,
        "sport" | "src_port" => Named::SrcPort,
        "dport" | "dst_port" => Named::DstPort,
        _ => Named::Field(Field::named(name)?),
    })
}

fn no_packet(word: &str) -> String {
    format!(
        "`{word}` is neither a constant nor a packet's field: write one like `p0.src`, for port 0"
    )
}

fn no_field(name: &str) -> String {
    let all: Vec<&str> = Field::HASHED.iter().map(|field| field.name()).collect();
    format!("`{name}` is no field that is hashed: write src, dst, sport, dport, {}", all.join(", "))
}

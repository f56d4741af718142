//! What values are made of: noted beside state in a store, so that no release of a function takes what another has
//! written for something else.

use std::fmt;
use std::str::FromStr;

use crate::pack::{Pack, Unpack, words};

/// Shapes within shapes that are read: those of others may be anything.
const DEEPEST: u32 = 64;

/// How a value lies in its bits, the lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One number of so many bits, and what it is.
    Number(String, u32),
    /// One after the other, by their names.
    Fields(Vec<(String, Shape)>),
    /// Which one it is, in so many bits, and that one; as many bits as the widest takes.
    Choice(u32, Vec<(String, Shape)>),
    /// So many of the same.
    Array(u32, Box<Shape>),
}

impl Shape {
    /// Of a number of so many bits, and what it is: no digit is the last letter of `word`.
    pub fn number(word: &str, bits: u32) -> Self {
        Self::Number(word.to_owned(), bits)
    }

    /// Of these fields.
    pub fn fields<const N: usize>(fields: [(&str, Self); N]) -> Self {
        Self::Fields(named(fields))
    }

    /// Of one of these, which one in `bits` bits.
    pub fn choice<const N: usize>(bits: u32, choices: [(&str, Self); N]) -> Self {
        Self::Choice(bits, named(choices))
    }

    fn bits(&self) -> u32 {
        let of = |(_, shape): &(String, Self)| shape.bits();
        match self {
            Self::Number(_, bits) => *bits,
            Self::Fields(fields) => fields.iter().map(of).fold(0, u32::saturating_add),
            Self::Choice(bits, choices) => {
                bits.saturating_add(choices.iter().map(of).max().unwrap_or(0))
            }
            Self::Array(len, one) => len.saturating_mul(one.bits()),
        }
    }

    /// Whether a value of this shape can be read as one of shape `to`, and what changes by it: fields that are new are
    /// zero, those that are no more are left out, and a number may have become wider. Variants are found by their names.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn becomes(&self, to: &Self) -> Result<Vec<String>, String> {
        let mut changes = Vec::new();
        self.compare(to, "", &mut changes)?;
        Ok(changes)
    }

    fn compare(&self, to: &Self, name: &str, changes: &mut Vec<String>) -> Result<(), String> {
        let within = |part: &str| format!("{name}.{part}");
        match (self, to) {
            (Self::Number(word, bits), Self::Number(other, wider))
                if word == other && (bits == wider || bits < wider && word == "u") => {}
            (Self::Fields(fields), Self::Fields(others)) => {
                for (part, shape) in fields {
                    match find(others, part) {
                        Some((_, other)) => shape.compare(other, &within(part), changes)?,
                        None => changes.push(format!("`{}` is no more", within(part))),
                    }
                }
                let new = others.iter().filter(|(part, _)| find(fields, part).is_none());
                changes.extend(new.map(|(part, _)| format!("`{}` is new, and zero", within(part))));
            }
            (Self::Choice(_, choices), Self::Choice(_, others)) => {
                for (part, shape) in choices {
                    let gone = || format!("there is no `{}` any more", within(part));
                    let (_, other) = find(others, part).ok_or_else(gone)?;
                    shape.compare(other, &within(part), changes)?;
                }
            }
            (Self::Array(len, one), Self::Array(other, another)) if len == other => {
                one.compare(another, name, changes)?;
            }
            _ => return Err(format!("`{name}` was {self} and is {to}")),
        }
        Ok(())
    }

    /// The value of this shape that `bytes` are, as one of shape `to`, which it [can be](Self::becomes); `None`: they are
    /// none.
    pub fn converted(&self, to: &Self, bytes: &[u8]) -> Option<Vec<u8>> {
        if bytes.len() != self.bits().div_ceil(8) as usize {
            return None;
        }
        let mut from = vec![0; words(self.bits())];
        for (at, byte) in bytes.iter().enumerate() {
            from[at / 8] |= u64::from(*byte) << (8 * (at % 8));
        }
        let mut into = vec![0; words(to.bits())];
        self.convert(to, &mut Unpack::new(&from), &mut Pack::new(&mut into))?;
        let mut bytes: Vec<u8> = into.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(to.bits().div_ceil(8) as usize);
        Some(bytes)
    }

    fn convert(&self, to: &Self, from: &mut Unpack<'_>, into: &mut Pack<'_>) -> Option<()> {
        let ends = (from.at() + self.bits(), into.at() + to.bits());
        match (self, to) {
            (Self::Number(_, bits), Self::Number(..)) => {
                for part in (0..*bits).step_by(64) {
                    let width = (bits - part).min(64);
                    into.put(from.take(width), width);
                }
            }
            (Self::Fields(fields), Self::Fields(others)) => {
                let (mut at, mut other_at) = (from.at(), into.at());
                let mut places = Vec::new();
                for (part, shape) in fields {
                    places.push((part, shape, at));
                    at += shape.bits();
                }
                for (part, other) in others {
                    if let Some((_, shape, at)) = places.iter().find(|(name, ..)| *name == part) {
                        from.seek(*at);
                        into.seek(other_at);
                        shape.convert(other, from, into)?;
                    }
                    other_at += other.bits();
                }
            }
            (Self::Choice(bits, choices), Self::Choice(others_bits, others)) => {
                let (name, shape) = choices.get(from.take(*bits) as usize)?;
                let (at, other) = find(others, name)?;
                into.put(at as u64, *others_bits);
                shape.convert(other, from, into)?;
            }
            (Self::Array(len, one), Self::Array(_, another)) => {
                (0..*len).try_for_each(|_| one.convert(another, from, into))?;
            }
            _ => return None,
        }
        from.seek(ends.0);
        into.seek(ends.1);
        Some(())
    }
}

fn find<'s>(shapes: &'s [(String, Shape)], name: &str) -> Option<(usize, &'s Shape)> {
    let (at, (_, shape)) = shapes.iter().enumerate().find(|(_, (other, _))| other == name)?;
    Some((at, shape))
}

/// As it is written.
impl FromStr for Shape {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut rest = text;
        let shape = read(&mut rest, DEEPEST).ok_or(())?;
        if rest.is_empty() { Ok(shape) } else { Err(()) }
    }
}

/// The shape that `text` begins with, which is taken off; in no more than so many others.
fn read(text: &mut &str, deepest: u32) -> Option<Shape> {
    let deepest = deepest.checked_sub(1)?;
    if let Some(rest) = text.strip_prefix('(') {
        *text = rest;
        return Some(Shape::Fields(read_all(text, ')', deepest)?));
    }
    let token = taken(text, |letter| letter.is_ascii_alphanumeric() || letter == '.');
    let word = token.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = token[word.len()..].parse().ok()?;
    if !word.is_empty() {
        return Some(Shape::number(word, number));
    }
    let (first, rest) = (text.chars().next()?, text.get(1..)?);
    *text = rest;
    match first {
        '*' => Some(Shape::Array(number, Box::new(read(text, deepest)?))),
        '<' if number <= u64::BITS => Some(Shape::Choice(number, read_all(text, '>', deepest)?)),
        _ => None,
    }
}

/// Shapes with their names up to `end`, which is taken off too.
fn read_all(text: &mut &str, end: char, deepest: u32) -> Option<Vec<(String, Shape)>> {
    let mut all = Vec::new();
    loop {
        *text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix(end) {
            *text = rest;
            return Some(all);
        }
        let name = taken(text, |letter| !matches!(letter, ' ' | ',' | ')' | '>'));
        if name.is_empty() {
            return None;
        }
        let shape = match text.strip_prefix(' ') {
            Some(rest) => {
                *text = rest;
                read(text, deepest)?
            }
            None => Shape::fields([]),
        };
        all.push((name.to_owned(), shape));
    }
}

/// The letters that `text` begins with and that are such, which are taken off.
fn taken<'t>(text: &mut &'t str, is_such: impl Fn(char) -> bool) -> &'t str {
    let (first, rest) = text.split_at(text.find(|letter| !is_such(letter)).unwrap_or(text.len()));
    *text = rest;
    first
}

fn named<const N: usize>(shapes: [(&str, Shape); N]) -> Vec<(String, Shape)> {
    shapes.into_iter().map(|(name, shape)| (name.to_owned(), shape)).collect()
}

/// `(port u16, state 2<new, open (since u64)>, hops 4*u8)`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |f: &mut fmt::Formatter<'_>, shapes: &[(String, Self)]| {
            for (at, (name, shape)) in shapes.iter().enumerate() {
                f.write_str(if at > 0 { ", " } else { "" })?;
                match shape {
                    Self::Fields(none) if none.is_empty() => f.write_str(name)?,
                    _ => write!(f, "{name} {shape}")?,
                }
            }
            Ok(())
        };
        match self {
            Self::Number(word, bits) => write!(f, "{word}{bits}"),
            Self::Fields(fields) => {
                f.write_str("(")?;
                all(f, fields)?;
                f.write_str(")")
            }
            Self::Choice(bits, choices) => {
                write!(f, "{bits}<")?;
                all(f, choices)?;
                f.write_str(">")
            }
            Self::Array(len, shape) => write!(f, "{len}*{shape}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use anabranch_packet::{MacAddr, Port};

    use super::*;
    use crate::Value;
    use crate::state::journal::{loaded, stored};

    fn shape<T: Value>() -> String {
        let shape = T::shape();
        assert_eq!((shape.bits(), shape.to_string().parse()), (T::BITS, Ok(shape.clone())));
        shape.to_string()
    }

    #[test]
    fn it_says_what_is_where() {
        assert_eq!(shape::<(u16, i64, bool)>(), "(0 u16, 1 i64, 2 bool1)");
        assert_eq!(shape::<[Option<u8>; 3]>(), "3*1<none, some (value u8)>");
        assert_eq!(shape::<Result<u8, ()>>(), "1<err (value), ok (value u8)>");
        assert_ne!(shape::<(u16, u32)>(), shape::<(u32, u16)>());
        assert_eq!(shape::<(Ipv4Addr, MacAddr, Port)>().split(' ').nth(1), Some("ipv4.32,"));
        assert_eq!(shape::<[Ipv6Addr; 4]>(), "4*ipv6.128");
    }

    /// Whatever a store holds is a shape or none.
    #[test]
    fn a_shape_that_nobody_has_written_is_refused() {
        for hostile in [
            "1*".repeat(500_000),
            "(a ".repeat(500_000),
            "200<new, known>".to_owned(),
            "u99999999999".to_owned(),
            "(a ipv4.32".to_owned(),
            "(a ipv4.)".to_owned(),
        ] {
            assert!(hostile.parse::<Shape>().is_err(), "{:.40}", hostile);
        }
        let wide: Shape = "(gone 4294967295*u64, more 4294967295*u64)".parse().unwrap();
        assert_eq!(wide.converted(&u8::shape(), &[1]), None);
    }

    fn converted<T: Value, U: Value>(from: T) -> Result<U, String> {
        T::shape().becomes(&U::shape())?;
        let bytes = T::shape().converted(&U::shape(), &stored(&from)).ok_or("not read")?;
        loaded(&bytes).ok_or_else(|| "no value".to_owned())
    }

    #[test]
    fn values_are_read_as_what_has_grown() {
        assert_eq!(converted((7u8, true)), Ok((7u8, true, [0u16; 3])));
        assert_eq!(converted((7u8, true, 5u64)), Ok((7u32, true)));
        assert_eq!(converted([(1u16, Some(2u8)); 2]), Ok([(1u64, Some(2u16)); 2]));
        assert_eq!(converted((-1i64, u128::MAX)), Ok((-1i64, u128::MAX, 0u8)));
        for refused in [
            converted::<u32, u16>(1).map(drop),
            converted::<i16, i32>(1).map(drop),
            converted::<u32, Ipv4Addr>(1).map(drop),
            converted::<[u8; 2], [u8; 3]>([1, 2]).map(drop),
            converted::<Option<u8>, Result<u8, u8>>(None).map(drop),
        ] {
            assert!(refused.is_err());
        }
        let changes = <(u8, (u8, u8, u8))>::shape().becomes(&<(u16, (u8, u8), bool)>::shape());
        assert_eq!(changes, Ok(vec!["`.1.2` is no more".into(), "`.2` is new, and zero".into()]));
        assert_eq!(<(u8, u8)>::shape().converted(&u8::shape(), &[1, 2, 3]), None);
    }

    #[test]
    fn variants_are_found_by_their_names() {
        let fields = |shape| Shape::fields([("since", shape)]);
        let none = || Shape::fields([]);
        let old = Shape::choice(2, [("new", none()), ("open", fields(u16::shape()))]);
        let open = ("open", fields(u32::shape()));
        let new =
            Shape::choice(3, [("new", none()), ("half", none()), open.clone(), ("shut", none())]);
        assert_eq!(old.becomes(&new), Ok(vec![]));
        let value = (1u32 | 500 << 2).to_le_bytes();
        let expected = (2u64 | 500 << 3).to_le_bytes();
        assert_eq!(old.converted(&new, &value[..3]).as_deref(), Some(&expected[..5]));
        assert_eq!(old.converted(&new, &[3, 0, 0]), None, "there is no such variant");
        assert!(old.becomes(&Shape::choice(1, [open])).unwrap_err().contains(".new"));
    }
}

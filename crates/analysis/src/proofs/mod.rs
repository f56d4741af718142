//! What is proved of state: which values an object can hold and within which limits ([`values`]), and what
//! look-ups in two of them have to do with each other: a map whose values name objects of an allocator
//! (`inside[key] = i`, and `mappings[i].inside` is that key again).
//!
//! Such a link is found where handlers store both, and is one only if it is proved: it holds of empty
//! state, and every path of every handler, `init` and expiry included, keeps it, whatever else is stored
//! ([`prove`]). What is proved is then known on every path ([`crate::interpret`]), which rules out many.

mod counted;
mod distant;
mod find;
mod limits;
mod pairing;
mod prove;
mod state;
mod values;

use std::fmt;

use crate::access::{Access, Part};
use crate::expr::{Kind, Sort, Term, Terms, Words};
use crate::path::CallPath;

pub use counted::Counted;
pub(crate) use counted::{counts, is_counted};
pub use distant::Stepped;
pub(crate) use distant::{distant, stepped};
pub(crate) use find::candidates;
pub(crate) use limits::limits;
pub use pairing::Pairing;
pub(crate) use pairing::{is_kept, pairings};
pub(crate) use prove::prove;
use state::Layout;
pub(crate) use state::{ENDLESS, LOCAL};
pub use values::Values;
pub(crate) use values::reached;

/// Of all keys: what the map has under a key is or has the index of an object that is there, and these parts of
/// the object equal these parts of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The map.
    pub map: String,
    /// Which part of its values is the index; empty where they are nothing else.
    pub index: String,
    /// The allocator.
    pub allocator: String,
    /// Parts of the object, each with the part of the key that it equals.
    pub equal: Vec<(String, String)>,
    /// Parts of the object that are the same of all keys.
    pub fixed: Vec<Fixed>,
    /// Whether they are the whole key, so that no two keys name one object.
    pub is_whole: bool,
}

/// A small part of an object that has one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixed {
    /// The part.
    pub part: String,
    /// Its value; of a boolean 0 or 1.
    pub value: u128,
    sort: Sort,
    /// How that is written.
    pub kind: Kind,
}

impl Fixed {
    /// Of a part that has one value.
    fn of(part: &Part, terms: &Terms) -> Option<Self> {
        let (value, sort) = (terms.known_value(part.term)?, terms.sort(part.term));
        Some(Self { part: part.name.clone(), value, sort, kind: part.kind.clone() })
    }

    /// The value.
    pub(crate) fn term(&self, terms: &mut Terms) -> Term {
        match self.sort {
            Sort::Bool => terms.bool(self.value != 0),
            Sort::Bits(width) => terms.constant(self.value, width),
        }
    }
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = self.part.trim_end_matches("variant").trim_end_matches('.');
        match &self.kind {
            Kind::Number if self.sort == Sort::Bool => {
                write!(f, "`{}it.{part}`", if self.value == 0 { "!" } else { "" })
            }
            kind => write!(f, "`it.{part} = {}`", Words::default().constant(self.value, kind)),
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { map, allocator, .. } = self;
        let index = named("", &self.index);
        write!(f, "`{map}[key]{index} = i`: `{allocator}[i]` is there, ")?;
        // That of a variant says it of what is in it.
        let is_in = |part: &str, tag: &str| {
            let of = tag.strip_suffix("variant");
            part != tag && of.is_some_and(|of| part.starts_with(of))
        };
        let is_said = |(part, of): &&(String, String)| {
            self.equal.iter().any(|(tag, key)| is_in(part, tag) && is_in(of, key))
        };
        let equal = self.equal.iter().filter(|pair| !is_said(pair));
        let equal = equal.map(|(part, of)| equality(part, of));
        let all: Vec<String> = equal.chain(self.fixed.iter().map(ToString::to_string)).collect();
        f.write_str(&all.join(", "))
    }
}

/// A part of `object`, or all of it.
pub(crate) fn named(object: &str, part: &str) -> String {
    let part = part.strip_suffix("variant").map_or(part, |of| of.trim_end_matches('.'));
    let dot = if part.is_empty() { "" } else { "." };
    format!("{object}{dot}{part}")
}

fn equality(part: &str, of: &str) -> String {
    format!("`{} = {}`", named("it", part), named("key", of))
}

impl Link {
    /// Whether an operation changes what is in the map, or which objects there are and what they hold.
    pub fn is_changed_by(operation: &str) -> bool {
        !matches!(operation, "get" | "contains" | "len" | "touch" | "refresh" | "is_allocated")
    }

    pub(crate) fn changed_by(&self, access: &Access) -> bool {
        self.concerns(access) && Self::is_changed_by(&access.operation)
    }

    fn concerns(&self, access: &Access) -> bool {
        access.object == self.map || access.object == self.allocator
    }

    /// Of what the map has under a key, which object it names.
    fn layout_of_map(&self, paths: &[CallPath], terms: &Terms) -> Option<Layout> {
        let map = Layout::of(&self.map, paths, terms, |part| part.name == self.index)?;
        let is_index = matches!(&*map.parts, [index] if index.sort == Sort::Bits(32));
        is_index.then_some(map)
    }
}

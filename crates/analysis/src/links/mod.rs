//! What look-ups in two state objects have to do with each other: a map whose values name objects of an
//! allocator (`inside[key] = i`, and `mappings[i].inside` is that key again).
//!
//! Such a link is found where handlers store both, and is one only if it is proved: it holds of empty
//! state, and every path of every handler, `init` and expiry included, keeps it, whatever else is stored
//! ([`prove`]). What it says is then known on every path ([`crate::interpret`]), which rules out many.

mod find;
mod prove;
mod state;

use std::fmt;

use crate::access::Access;

pub(crate) use find::candidates;
pub(crate) use prove::holds;

/// Of all keys: what the map has under a key is the index of an object that is there, and these parts of
/// the object equal these parts of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The map.
    pub map: String,
    /// The allocator.
    pub allocator: String,
    /// Parts of the object, each with the part of the key that it equals.
    pub equal: Vec<(String, String)>,
    /// Whether they are the whole key, so that no two keys name one object.
    pub is_whole: bool,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { map, allocator, .. } = self;
        write!(f, "`{map}[key] = i`: `{allocator}[i]` is there, ")?;
        let equal: Vec<String> = self.equal.iter().map(|(part, of)| equality(part, of)).collect();
        f.write_str(&equal.join(", "))
    }
}

fn equality(part: &str, of: &str) -> String {
    let named = |object: &str, part: &str| match part.is_empty() {
        true => object.to_owned(),
        false => format!("{object}.{part}"),
    };
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
}

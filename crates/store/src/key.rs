//! Keys: `nf@instance@core@type@id`, as in FlexState (§3.2.2), escaped so that no name can reach into
//! another's.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::content::Kind;
use crate::error::Error;

/// Bytes of the longest name of an NF or an instance, before escaping.
pub const MOST_NAME_BYTES: usize = 128;
/// Bytes of the longest id of an object, before escaping.
pub const MOST_ID_BYTES: usize = 255;

/// Which part of an instance's state it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// What all cores of the instance have in common; written `-`.
    Instance,
    /// One core's part; written as its number.
    Core(u16),
    /// One shard's part, where state moves between cores; written as `s` and its number.
    Shard(u16),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance => f.write_str("-"),
            Self::Core(core) => write!(f, "{core}"),
            Self::Shard(shard) => write!(f, "s{shard}"),
        }
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why| Error::BadKey { text: text.to_string(), why };
        let number = |digits: &str| {
            let number = digits.parse::<u16>().map_err(|_| bad("no number of a core or shard"))?;
            let same = number.to_string() == digits;
            same.then_some(number).ok_or(bad("write the number without signs or leading zeroes"))
        };
        match (text, text.strip_prefix('s')) {
            ("-", _) => Ok(Self::Instance),
            (_, Some(shard)) => number(shard).map(Self::Shard),
            _ => number(text).map(Self::Core),
        }
    }
}

/// Where a writer's objects lie: its NF, its instance, and its core or shard. Only one writer at a
/// time has a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(Arc<str>);

impl Scope {
    /// The scope of `place` of `instance` of `nf`; an error if a name is empty or too long.
    pub fn new(nf: &str, instance: &str, place: Place) -> Result<Self, Error> {
        let nf = escaped(nf, MOST_NAME_BYTES)?;
        let instance = escaped(instance, MOST_NAME_BYTES)?;
        Ok(Self(format!("{nf}@{instance}@{place}").into()))
    }

    /// The key of object `id` of type `kind`; an error if the id is empty or too long.
    pub fn key(&self, kind: Kind, id: &str) -> Result<Key, Error> {
        let id = escaped(id, MOST_ID_BYTES)?;
        let (text, scope) = (format!("{}@{}@{id}", self.0, kind.word()), self.0.len());
        Ok(Key { text: text.into(), kind, scope: scope as u16 })
    }

    /// As it stands in keys.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Which part of the instance's state it is.
    pub fn place(&self) -> Place {
        let place = self.0.rsplit('@').next();
        place.and_then(|place| place.parse().ok()).unwrap_or(Place::Instance)
    }
}

impl std::borrow::Borrow<str> for Scope {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of one object in a store. Cheap to copy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key {
    text: Arc<str>,
    kind: Kind,
    /// Bytes of `text` that are its scope.
    scope: u16,
}

impl Key {
    /// As the store has it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Type of the object.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The part that says whose it is.
    pub fn scope(&self) -> Scope {
        Scope(self.scope_str().into())
    }

    /// As [`scope`](Self::scope), as text.
    pub fn scope_str(&self) -> &str {
        &self.text[..usize::from(self.scope)]
    }

    /// Name of the network function.
    pub fn nf(&self) -> String {
        unescaped(self.field(0)).unwrap_or_default()
    }

    /// Name of its instance.
    pub fn instance(&self) -> String {
        unescaped(self.field(1)).unwrap_or_default()
    }

    /// Which part of the instance's state it is in.
    pub fn place(&self) -> Place {
        self.field(2).parse().unwrap_or(Place::Instance)
    }

    /// Name of the object.
    pub fn id(&self) -> String {
        unescaped(self.field(4)).unwrap_or_default()
    }

    fn field(&self, number: usize) -> &str {
        self.text.split('@').nth(number).unwrap_or_default()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.text)
    }
}

impl FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why| Error::BadKey { text: text.to_string(), why };
        let fields: Vec<&str> = text.split('@').collect();
        let [nf, instance, place, kind, id] = fields[..] else {
            return Err(bad("a key is nf@instance@core@type@id"));
        };
        let name = |field: &str| unescaped(field).ok_or(bad("a part that no name is written as"));
        let scope = Scope::new(&name(nf)?, &name(instance)?, place.parse()?)?;
        let kind = Kind::from_word(kind).ok_or(bad("no type of this name"))?;
        scope.key(kind, &name(id)?)
    }
}

impl TryFrom<String> for Key {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.text.to_string()
    }
}

/// What the keys that are looked for begin with: an NF, and perhaps an instance.
pub fn prefix(nf: &str, instance: Option<&str>) -> Result<String, Error> {
    let nf = escaped(nf, MOST_NAME_BYTES)?;
    Ok(match instance {
        None => format!("{nf}@"),
        Some(instance) => format!("{nf}@{}@", escaped(instance, MOST_NAME_BYTES)?),
    })
}

/// Letters, digits, `_`, `.`, `:` and `-` stand for themselves, any other byte is `%` and two capital
/// hexadecimal digits: what separates fields, what stores read as a pattern or hash tag, and what a
/// terminal would obey cannot be in a name.
fn escaped(name: &str, most: usize) -> Result<String, Error> {
    let bad = |why| Error::BadKey { text: name.to_string(), why };
    match name.len() {
        0 => return Err(bad("a name may not be empty")),
        bytes if bytes > most => {
            return Err(Error::TooLong { what: "a name", bytes, limit: most });
        }
        _ => {}
    }
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            byte if is_plain(byte) => escaped.push(char::from(byte)),
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(escaped)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte)
}

/// The name that is written so; `None` if none is.
fn unescaped(field: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let byte = (digit(rest.next()?)? << 4 | digit(rest.next()?)?) as u8;
                if is_plain(byte) {
                    return None;
                }
                byte
            }
            byte if is_plain(byte) => byte,
            _ => return None,
        });
    }
    let name = String::from_utf8(bytes).ok()?;
    (escaped(&name, usize::MAX).as_deref() == Ok(field)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place() -> impl Strategy<Value = Place> {
        prop_oneof![
            Just(Place::Instance),
            any::<u16>().prop_map(Place::Core),
            any::<u16>().prop_map(Place::Shard),
        ]
    }

    proptest! {
        #[test]
        fn a_key_is_read_as_it_was_written(
            nf in "\\PC{1,20}", instance in "[@%{}*a-c]{1,9}", place in place(), id in "\\PC{1,40}",
        ) {
            let scope = Scope::new(&nf, &instance, place).unwrap();
            let key = scope.key(Kind::Map, &id).unwrap();
            prop_assert_eq!((key.nf(), key.instance(), key.place(), key.id()), (nf, instance, place, id));
            prop_assert_eq!(key.scope(), scope);
            prop_assert_eq!(key.to_string().parse::<Key>(), Ok(key));
        }

        #[test]
        fn different_names_are_different_keys_and_no_prefix_reaches_another(
            a in prop::array::uniform3("[a@%s1-]{1,4}"), b in prop::array::uniform3("[a@%s1-]{1,4}"),
        ) {
            let key = |names: &[String; 3]| {
                let scope = Scope::new(&names[0], &names[1], Place::Core(1)).unwrap();
                scope.key(Kind::Set, &names[2]).unwrap()
            };
            prop_assert_eq!(key(&a) == key(&b), a == b);
            let begins = key(&b).as_str().starts_with(&prefix(&a[0], Some(&a[1])).unwrap());
            prop_assert_eq!(begins, a[..2] == b[..2]);
        }

        #[test]
        fn each_key_has_one_spelling(text in "[ab@%0-9A-Fs-]{0,30}") {
            if let Ok(key) = text.parse::<Key>() {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }

    #[test]
    fn keys_look_as_in_the_paper() {
        let scope = Scope::new("nf1", "ins1", Place::Core(1)).unwrap();
        let key = scope.key(Kind::Counter, "counter_id").unwrap();
        assert_eq!(key.to_string(), "nf1@ins1@1@counter@counter_id");
        assert!("nf1@ins1@01@counter@x".parse::<Key>().is_err());
        assert!("nf1@ins1@1@counter@%61".parse::<Key>().is_err(), "an `a` is not escaped");
        assert!("nf1@ins1@1@counter@x@y".parse::<Key>().is_err());
    }

    #[test]
    fn names_have_limits() {
        let long = "n".repeat(MOST_NAME_BYTES + 1);
        assert!(matches!(Scope::new(&long, "i", Place::Instance), Err(Error::TooLong { .. })));
        assert!(matches!(Scope::new("n", "", Place::Instance), Err(Error::BadKey { .. })));
        let scope = Scope::new("n", "i", Place::Instance).unwrap();
        assert!(scope.key(Kind::Map, &"i".repeat(MOST_ID_BYTES)).is_ok());
        assert!(scope.key(Kind::Map, &"i".repeat(MOST_ID_BYTES + 1)).is_err());
    }
}

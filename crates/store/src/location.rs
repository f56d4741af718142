//! Which store: the word in a configuration, and the driver that it stands for.

use std::path::PathBuf;
use std::str::FromStr;

#[cfg(feature = "cassandra")]
use crate::cassandra::{self, Cassandra};
use crate::driver::Driver;
use crate::error::Error;
use crate::memory::{Durability, Memory, Sync};
#[cfg(feature = "redis")]
use crate::redis::{Address, Redis};

/// A store, as a configuration names it.
///
/// | word | store |
/// |---|---|
/// | `memory` | in this process; ends with it |
/// | `memory:DIRECTORY` | in this process, durable; on the disk itself after 100 ms |
/// | `memory:DIRECTORY?sync=always`, `=never`, `=MILLISECONDS` | the same, on the disk itself before each answer, when the system likes, after as long |
/// | `redis://…` | Redis or Valkey, as docs/stores.md lists them (feature `redis`) |
/// | `cassandra://…`, `cassandra+tls://…` | Apache Cassandra (feature `cassandra`, with TLS `cassandra-tls`) |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In this process.
    Memory,
    /// In this process, with its files in a directory.
    Durable(PathBuf, Sync),
    /// Redis or Valkey.
    #[cfg(feature = "redis")]
    Redis(Address),
    /// Apache Cassandra.
    #[cfg(feature = "cassandra")]
    Cassandra(cassandra::Address),
}

impl FromStr for Location {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| Error::configuration(text, why);
        match text.split_once(':') {
            None if text == "memory" => Ok(Self::Memory),
            Some(("memory", directory)) if directory.is_empty() || directory.starts_with('?') => {
                Err(bad("name a directory after the colon"))
            }
            Some(("memory", directory)) if directory.starts_with("//") => Err(bad(
                "name a directory after the colon: of one from the root the first / stands alone",
            )),
            Some(("memory", directory)) => durable(directory).map_err(|why| bad(&why)),
            #[cfg(feature = "redis")]
            Some((scheme, _)) if scheme.starts_with("redis") => {
                Address::parse(text).map(Self::Redis)
            }
            #[cfg(not(feature = "redis"))]
            Some((scheme, _)) if scheme.starts_with("redis") => {
                Err(bad("this program was built without Redis: build it with the feature `redis`"))
            }
            #[cfg(feature = "cassandra")]
            Some((scheme, _)) if scheme.starts_with("cassandra") => {
                cassandra::Address::parse(text).map(Self::Cassandra)
            }
            #[cfg(not(feature = "cassandra"))]
            Some((scheme, _)) if scheme.starts_with("cassandra") => Err(bad(
                "this program was built without Cassandra: build it with the feature `cassandra`",
            )),
            _ => Err(bad(
                "a store is memory, memory:DIRECTORY, redis://HOST:PORT or cassandra://HOST:PORT/KEYSPACE",
            )),
        }
    }
}

/// `DIRECTORY` or `DIRECTORY?sync=WHEN`.
fn durable(text: &str) -> Result<Location, String> {
    let (directory, sync) = match text.split_once('?') {
        None => (text, Durability::default().sync),
        Some((directory, option)) => (directory, option.parse()?),
    };
    Ok(Location::Durable(directory.into(), sync))
}

impl Location {
    /// Opens it for its writer.
    pub fn open(&self) -> Result<Box<dyn Driver>, Error> {
        Ok(match self {
            Self::Memory => Box::new(Memory::default()),
            Self::Durable(directory, sync) => {
                let durability = Durability { sync: *sync, ..Durability::default() };
                Box::new(Memory::open(directory, durability)?)
            }
            #[cfg(feature = "redis")]
            Self::Redis(address) => Box::new(Redis::open(address.clone())),
            #[cfg(feature = "cassandra")]
            Self::Cassandra(address) => Box::new(Cassandra::new(address.clone())),
        })
    }

    /// Opens it to be looked at, perhaps while somebody writes.
    pub fn look(&self) -> Result<Box<dyn Driver>, Error> {
        match self {
            Self::Durable(directory, _) => Ok(Box::new(Memory::look(directory)?)),
            _ => self.open(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn words_stand_for_stores_and_others_are_told() {
        assert_eq!("memory".parse(), Ok(Location::Memory));
        let every = |ms| Sync::Every(Duration::from_millis(ms));
        for (word, sync) in [
            ("memory:state/nat", every(100)),
            ("memory:state/nat?sync=always", Sync::Always),
            ("memory:state/nat?sync=never", Sync::Never),
            ("memory:state/nat?sync=2500", every(2_500)),
        ] {
            assert_eq!(word.parse(), Ok(Location::Durable("state/nat".into(), sync)));
        }
        for (word, hint) in [
            ("memory:", "directory"),
            ("memory:?sync=never", "directory"),
            ("memory://state", "stands alone"),
            ("memory:state?sync=0", "1 to 60000"),
            ("memory:state?sync=soon", "sync=always"),
            ("memory:state?timeout_ms=9", "sync=always"),
            ("disk", "memory:DIRECTORY"),
            ("etcd:x", "redis://"),
        ] {
            let error = word.parse::<Location>().unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
        // Whatever was built in, and whatever is wrong.
        for word in [
            "cassandra://me:s3cret@",
            "cassandra+tls://me:s3cret@",
            "rediss://me:s3cret@",
            "casandra://me:s3cret@h/k",
            "me:s3cret@h",
            "redis://me:s3cret",
            "redis://me:s3cret/3",
            "redis+cluster://me:s3cret,b:1",
            "cassandra://me:s3cret/k",
            "casandra://me:s3cret",
        ] {
            let error = word.parse::<Location>().unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        assert_eq!("redis://h".parse::<Location>().is_ok(), cfg!(feature = "redis"));
        assert_eq!("cassandra://h/k".parse::<Location>().is_ok(), cfg!(feature = "cassandra"));
    }
}

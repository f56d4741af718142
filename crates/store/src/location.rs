//! Which store: the word in a configuration, and the driver that it stands for.

use std::path::PathBuf;
use std::str::FromStr;

#[cfg(feature = "cassandra")]
use crate::cassandra::{self, Cassandra};
use crate::driver::Driver;
use crate::error::Error;
use crate::memory::{Durability, Memory};
#[cfg(feature = "redis")]
use crate::redis::{Address, Redis};

/// A store, as a configuration names it.
///
/// | word | store |
/// |---|---|
/// | `memory` | in this process; ends with it |
/// | `memory:DIRECTORY` | in this process, durable |
/// | `redis://…` | Redis or Valkey, as docs/stores.md lists them (feature `redis`) |
/// | `cassandra://…`, `cassandra+tls://…` | Apache Cassandra (feature `cassandra`, with TLS `cassandra-tls`) |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In this process.
    Memory,
    /// In this process, with its files in a directory.
    Durable(PathBuf),
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
            Some(("memory", "")) => Err(bad("name a directory after the colon")),
            Some(("memory", directory)) => Ok(Self::Durable(directory.into())),
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

impl Location {
    /// Opens it for its writer.
    pub fn open(&self) -> Result<Box<dyn Driver>, Error> {
        Ok(match self {
            Self::Memory => Box::new(Memory::default()),
            Self::Durable(directory) => Box::new(Memory::open(directory, Durability::default())?),
            #[cfg(feature = "redis")]
            Self::Redis(address) => Box::new(Redis::new(address.clone())),
            #[cfg(feature = "cassandra")]
            Self::Cassandra(address) => Box::new(Cassandra::new(address.clone())),
        })
    }

    /// Opens it to be looked at, perhaps while somebody writes.
    pub fn look(&self) -> Result<Box<dyn Driver>, Error> {
        match self {
            Self::Durable(directory) => Ok(Box::new(Memory::look(directory)?)),
            _ => self.open(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_stores_and_others_are_told() {
        assert_eq!("memory".parse(), Ok(Location::Memory));
        assert_eq!("memory:state/nat".parse(), Ok(Location::Durable("state/nat".into())));
        for (word, hint) in
            [("memory:", "directory"), ("disk", "memory:DIRECTORY"), ("etcd:x", "redis://")]
        {
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
        ] {
            let error = word.parse::<Location>().unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        assert_eq!("redis://h".parse::<Location>().is_ok(), cfg!(feature = "redis"));
        assert_eq!("cassandra://h/k".parse::<Location>().is_ok(), cfg!(feature = "cassandra"));
    }
}

//! The driver `redis`: Redis 7 and Valkey, one server, Sentinel or Cluster, by their own types and
//! commands.

mod address;
mod command;
mod link;

pub use address::Address;

use address::Servers;
use command::Spelling;
use link::{Link, Routed};

use redis::Value;

use crate::call::Call;
use crate::driver::{Answer, Batch, Driver, Outcome};
use crate::error::Error;
use crate::key::Key;

/// A connection to Redis. It connects when first used and again when the connection breaks.
pub struct Redis {
    link: Link,
    spelling: Spelling,
}

impl Redis {
    /// A connection to the servers at `address`; none need be there yet.
    pub fn new(address: Address) -> Self {
        let spelling = match address.servers {
            Servers::Cluster(_) => Spelling::Tagged,
            _ => Spelling::Plain,
        };
        Self { link: Link::new(address), spelling }
    }

    /// Sends the calls that are right, and answers for the others.
    fn ask(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        let mut answers = Vec::with_capacity(calls.len());
        let mut routed = Vec::new();
        for call in calls {
            answers.push(call.check().err());
            if answers.last().is_some_and(Option::is_none) {
                let command = command::of_call(call, self.spelling);
                routed.push(Routed { key: self.spelling.of(&call.key), command });
            }
        }
        let mut values = self.link.ask(&routed)?.into_iter();
        let answers = calls.iter().zip(answers).map(|(call, refused)| match refused {
            Some(error) => Err(error),
            None => command::reply(call, values.next().unwrap_or_default()),
        });
        Ok(answers.collect())
    }

    fn scan(&mut self, node: &str, pattern: &str, keys: &mut Vec<Key>) -> Result<(), Error> {
        let mut cursor = b"0".to_vec();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1000);
            let answer = self.link.ask_node(node, &scan)?;
            let page = redis::from_redis_value::<(Vec<u8>, Vec<Vec<u8>>)>(answer);
            let (next, names) = page.map_err(|error| self.link.failed(error))?;
            keys.extend(names.iter().filter_map(|name| self.spelling.read(name)));
            if next == b"0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}

impl Driver for Redis {
    fn name(&self) -> &str {
        self.link.name()
    }

    fn run(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        match self.ask(calls) {
            // A server that was started anew closed the connection: no reason to fail.
            Err(error) if error.is_unavailable() && calls.iter().all(may_be_repeated) => {
                self.ask(calls)
            }
            answers => answers,
        }
    }

    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        batches.iter().try_for_each(Batch::check)?;
        let routed = batches.iter().map(|batch| Routed {
            key: self.spelling.of(&batch.mark),
            command: command::of_batch(batch, self.spelling),
        });
        let routed: Vec<Routed> = routed.collect();
        let answers: Vec<Value> = self.link.ask(&routed)?;
        batches.iter().zip(answers).map(|(batch, answer)| command::outcome(batch, answer)).collect()
    }

    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        let pattern = self.spelling.pattern(prefix);
        let mut keys = Vec::new();
        for node in self.link.nodes()? {
            self.scan(&node, &pattern, &mut keys)?;
        }
        keys.retain(|key| key.as_str().starts_with(prefix));
        keys.sort();
        keys.dedup();
        Ok(keys)
    }
}

fn may_be_repeated(call: &Call) -> bool {
    call.operation.may_be_repeated()
}

//! The driver `redis`: Redis 7 and Valkey, one server, Sentinel or Cluster, by their own types and
//! commands.

mod address;
mod cluster;
mod command;
mod link;
mod wire;

pub use address::Address;

use address::Servers;
use command::Spelling;
use link::{Answered, Link, Patience, Routed};

use crate::call::Call;
use crate::driver::{Answer, Batch, Driver, Outcome};
use crate::error::Error;
use crate::key::Key;

/// A connection to Redis. It connects when first used and again when the connection breaks.
pub struct Redis {
    link: Link,
    spelling: Spelling,
    remark: Option<String>,
}

impl Redis {
    /// A connection to the servers at `address`; none need be there yet.
    pub fn new(address: Address) -> Self {
        let spelling = match address.servers {
            Servers::Cluster(_) => Spelling::Tagged,
            _ => Spelling::Plain,
        };
        Self { link: Link::new(address), spelling, remark: None }
    }

    /// The same, looked at what it is: whether its servers keep what they are given, where they are there and say so.
    pub fn open(address: Address) -> Self {
        let mut redis = Self::new(address);
        redis.remark = redis.evicts().ok().flatten();
        redis
    }

    /// What to say of a server that throws keys away when its memory is full. It takes those that nobody has used for
    /// long; what is gone is written again only while the run lasts.
    fn evicts(&mut self) -> Result<Option<String>, Error> {
        for node in self.link.nodes()? {
            let told = self.link.ask_node(&node, redis::cmd("INFO").arg("memory"))?;
            let told: String =
                redis::from_redis_value(told).map_err(|error| self.link.failed(error))?;
            if let Some(policy) = command::eviction(&told) {
                return Ok(Some(format!(
                    "the store `{}` loses state when its memory is full: {node} evicts keys then \
                     (maxmemory-policy {policy}); set it to noeviction, and keep caches on another server",
                    self.name()
                )));
            }
        }
        Ok(None)
    }

    /// Sends the calls that are right, and answers for the others.
    fn ask(&mut self, calls: &[Call]) -> Result<Vec<Answer>, Error> {
        let refused: Vec<Option<Error>> = calls.iter().map(|call| call.check().err()).collect();
        let right = || calls.iter().zip(&refused).filter(|(_, error)| error.is_none());
        let routed: Vec<Routed> = right().map(|(call, _)| self.routed(call)).collect();
        let mut answered = self.link.ask(&routed, Patience::Timeout)?;
        let stale: Vec<(usize, Call)> = right()
            .zip(&answered)
            .enumerate()
            .filter_map(|(at, ((call, _), answer))| Some((at, command::anew(call, answer.by)?)))
            .collect();
        if !stale.is_empty() {
            let routed: Vec<Routed> = stale.iter().map(|(_, call)| self.routed(call)).collect();
            let anew = self.link.ask(&routed, Patience::Timeout)?;
            stale.iter().zip(anew).for_each(|((at, _), answer)| answered[*at] = answer);
        }
        let mut answered = answered.into_iter();
        let answers = calls.iter().zip(refused).map(|(call, refused)| match refused {
            Some(error) => Err(error),
            None => {
                let Answered { value, by } = answered.next().unwrap_or_default();
                match command::refusal(self.link.name(), &value) {
                    Some(error) => Err(error),
                    None => command::reply(call, value, by),
                }
            }
        });
        Ok(answers.collect())
    }

    fn routed(&self, call: &Call) -> Routed {
        let command = command::of_call(call, self.spelling);
        let may_wait = command::may_wait(call, self.spelling);
        Routed { key: self.spelling.of(&call.key), command, may_wait }
    }

    fn scan(&mut self, node: &str, pattern: &str, keys: &mut Vec<Key>) -> Result<(), Error> {
        let mut cursor = b"0".to_vec();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1000);
            let answer = self.link.ask_node(node, &scan)?;
            let page = answer.extract_error().map_err(|error| {
                Error::refused(self.link.name(), format!("SCAN: {error}"), link::STATE)
            })?;
            let page = redis::from_redis_value::<(Vec<u8>, Vec<Vec<u8>>)>(page);
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

    fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
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
            may_wait: false,
        });
        let routed: Vec<Routed> = routed.collect();
        // Whoever writes behind asks again, and others need not wait for it.
        let answers = self.link.ask_each(&routed, Patience::None);
        if self.link.is_alone() && answers.iter().all(Result::is_err) {
            return answers.into_iter().map(|answer| answer.map(|_| Outcome::Committed)).collect();
        }
        let outcome = |(batch, answer)| match answer {
            Ok(Answered { value, .. }) => match command::refusal(self.name(), &value) {
                Some(error) => Outcome::Refused(error),
                None => command::outcome(batch, value),
            },
            Err(error) => Outcome::Refused(error),
        };
        Ok(batches.iter().zip(answers).map(outcome).collect())
    }

    fn keys(&mut self, prefix: &str) -> Result<Vec<Key>, Error> {
        let pattern = self.spelling.pattern(prefix);
        let mut keys = Vec::new();
        for _ in 0..2 {
            let nodes = self.link.nodes()?;
            for node in &nodes {
                self.scan(node, &pattern, &mut keys)?;
            }
            // A key that meanwhile moves to a node that was asked before is there the second time.
            if nodes.len() == 1 {
                break;
            }
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

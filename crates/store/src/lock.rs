//! Locks, with a lease and a fencing token. They exist; `docs/stores.md` says why not to use them:
//! state that has one writer needs none, and a lock in a store costs round trips for each use.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::client::{Blocking, Client, Object, Value};
use crate::error::Error;

/// A lock held until it is released or its lease ends.
#[derive(Debug, PartialEq, Eq)]
pub struct Lease {
    id: String,
    holder: Vec<u8>,
    /// Larger than that of any earlier holder: what the lock protects refuses a smaller one than it
    /// has seen, since a holder that was stopped does not know that its lease is over.
    pub token: i64,
}

/// Takes the lock `id` for `lease_ms` milliseconds; `None`: somebody has it.
pub fn acquire(client: &Client, id: &str, lease_ms: u64) -> Result<Option<Lease>, Error> {
    let holder = nonce();
    let lock = lock(client, id)?;
    if !lock.compare_and_update(None, holder.clone(), Some(lease_ms))? {
        return Ok(None);
    }
    let token = client.counter(&format!("{id}:fence"))?.add(1)?;
    // The lease may have ended meanwhile, and somebody else have a larger token already: held from
    // then until now only if it is still ours.
    let kept = lock.compare_and_update(Some(holder.clone()), holder.clone(), Some(lease_ms))?;
    Ok(kept.then(|| Lease { id: id.to_string(), holder, token }))
}

impl Lease {
    /// Begins the lease anew; false: it is over, and somebody else may hold the lock.
    pub fn renew(&self, client: &Client, lease_ms: u64) -> Result<bool, Error> {
        let (from, to) = (Some(self.holder.clone()), self.holder.clone());
        lock(client, &self.id)?.compare_and_update(from, to, Some(lease_ms))
    }

    /// Gives the lock back; false: the lease was over.
    pub fn release(self, client: &Client) -> Result<bool, Error> {
        // There is no call that compares and deletes: what ends at once is as good.
        let from = Some(self.holder.clone());
        lock(client, &self.id)?.compare_and_update(from, Vec::new(), Some(1))
    }
}

fn lock<'a>(client: &'a Client, id: &str) -> Result<Object<'a, Value, Blocking>, Error> {
    client.value(&format!("{id}:lock"))
}

/// Sixteen bytes that nobody else has: `RandomState` draws its keys from the system.
fn nonce() -> Vec<u8> {
    let word = || RandomState::new().build_hasher().finish().to_be_bytes();
    [word(), word()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, Place, Scope};
    use std::time::Duration;

    fn clients() -> (Client, Client) {
        let scope = Scope::new("nf", "i", Place::Instance).unwrap();
        let store = Memory::default();
        (Client::new(store.clone(), scope.clone(), 8), Client::new(store, scope, 8))
    }

    #[test]
    fn one_holds_it_and_tokens_grow() {
        let (a, b) = clients();
        let first = acquire(&a, "pool", 60_000).unwrap().unwrap();
        assert_eq!(acquire(&b, "pool", 60_000), Ok(None));
        assert_eq!(first.renew(&a, 60_000), Ok(true));
        let token = first.token;
        assert_eq!(first.release(&a), Ok(true));
        std::thread::sleep(Duration::from_millis(5));
        let second = acquire(&b, "pool", 60_000).unwrap().unwrap();
        assert!(second.token > token);
    }

    #[test]
    fn a_lease_that_is_over_is_not_renewed() {
        let (a, b) = clients();
        let stopped = acquire(&a, "pool", 60_000).unwrap().unwrap();
        // A lease as short from the start may be over before it is taken, on a busy machine.
        assert_eq!(stopped.renew(&a, 5), Ok(true));
        std::thread::sleep(Duration::from_millis(20));
        let next = acquire(&b, "pool", 60_000).unwrap().unwrap();
        assert_eq!(stopped.renew(&a, 60_000), Ok(false));
        assert!(next.token > stopped.token);
        assert_eq!(stopped.release(&a), Ok(false));
        assert_eq!(next.renew(&b, 60_000), Ok(true));
    }
}

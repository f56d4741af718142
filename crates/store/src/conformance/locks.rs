//! Locks: one has it, nobody else gets it before its end, and tokens grow.

use std::thread;
use std::time::{Duration, Instant};

use super::together::every;
use super::{Failure, HOUR_MS, Open, Settings, equal};
use crate::client::Client;
use crate::error::Error;
use crate::key::{Place, Scope};
use crate::lock::{Lease, acquire};

pub(super) fn check(open: &impl Open, settings: &Settings) -> Result<(), Failure> {
    let scope = Scope::new("conformance", "locks", Place::Instance)?;
    let client = || Ok::<_, Error>(Client::new(open()?, scope.clone(), 8));
    let (a, b) = (client()?, client()?);
    let Some(first) = acquire(&a, "pool", HOUR_MS)? else {
        return Err(Failure("nobody has the lock, and it is refused".to_string()));
    };
    let token = first.token;
    equal("a lock that another has", acquire(&b, "pool", HOUR_MS)?, None)?;
    equal("a lease is renewed", first.renew(&a, HOUR_MS)?, true)?;
    equal("a lock is released", first.release(&a)?, true)?;

    let second = acquire_within(&b, settings.ends_ms)?;
    equal("a token after a release is larger", second.token > token, true)?;
    // Renewed, since a lease as short from the start may be over before it is taken.
    equal("a lease is made short", second.renew(&b, 1)?, true)?;
    let third = acquire_within(&a, settings.ends_ms)?;
    equal("a token after a lease's end is larger", third.token > second.token, true)?;
    equal("a lease that is over is renewed", second.renew(&b, HOUR_MS)?, false)?;
    equal("a lease that is over is released", second.release(&b)?, false)?;
    equal("a lease that began after another's end", third.renew(&a, HOUR_MS)?, true)?;

    let held = every(open, settings.connections, |driver, _| {
        let client = Client::new(driver, scope.clone(), 8);
        Ok(acquire(&client, "contended", HOUR_MS)?.is_some())
    })?;
    equal("holders of a lock", held.into_iter().filter(|held| *held).count(), 1)
}

/// The lock, which ends soon.
fn acquire_within(client: &Client, most_ms: u64) -> Result<Lease, Failure> {
    let began = Instant::now();
    loop {
        if let Some(lease) = acquire(client, "pool", HOUR_MS)? {
            return Ok(lease);
        }
        if began.elapsed() > Duration::from_millis(most_ms) {
            return Err(Failure(format!("a lock that was to end still holds after {most_ms} ms")));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

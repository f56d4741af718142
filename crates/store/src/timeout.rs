//! How long a server is waited for, as addresses say it.

use std::time::Duration;

/// What may be waited, milliseconds.
const LEAST: u64 = 1;
const MOST: u64 = 60_000;

/// What stands behind `timeout_ms=`.
///
/// # Errors
/// It is none, in words.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(ms @ LEAST..=MOST) => Ok(Duration::from_millis(ms)),
        _ => Err(format!("timeout_ms={text}: write {LEAST} to {MOST}")),
    }
}

//! What a signal does: a command that it ends takes away first what it has made outside of itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::error::Error;
use crate::live::speaker::last_words;

/// What a program ends with that a signal has ended at once.
pub(crate) const INTERRUPTED: i32 = 130;
/// Time between two looks whether a signal has come.
const LOOKING: Duration = Duration::from_millis(50);

/// Set when SIGINT or SIGTERM comes, or SIGHUP because the terminal has gone, unless `nohup` has it ignored; a second
/// one ends the program at once.
pub(crate) fn stop_signal() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    let is_ignored = ignored >> (SIGHUP - 1) & 1 == 1;
    let hangup = (!is_ignored).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        // In this order: the first signal finds the flag unset. Only signals that nobody may handle are
        // refused, and these are none.
        let _ = flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop));
        let _ = flag::register(signal, Arc::clone(&stop));
    }
    stop
}

/// Has a first signal end the command `what` when all [`Leaving`]s have gone.
///
/// # Errors
/// [`Error::Input`]: there is no thread for it.
pub(crate) fn end_by_signal(what: &'static str) -> Result<(), Error> {
    let stop = stop_signal();
    let wait = move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOKING);
        }
        // Held until the end: nobody makes anything more.
        let mut there = there();
        while let Some((_, remove)) = there.left.pop() {
            remove();
        }
        last_words(format!("{what}: ended by a signal"));
        low_level::exit(INTERRUPTED);
    };
    beside(wait)
}

/// Has what waits for a signal done beside the command.
///
/// # Errors
/// [`Error::Input`]: there is no thread for it.
pub(crate) fn beside(wait: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let waits = Builder::new().name("signals".to_owned()).spawn(wait);
    waits.map(drop).map_err(|cause| Error::no_thread("signals", &cause))
}

/// What there is, in the order in which it was made.
static THERE: Mutex<There> = Mutex::new(There { made: 0, left: Vec::new() });

struct There {
    made: u64,
    left: Vec<(u64, Box<dyn FnOnce() + Send>)>,
}

fn there() -> MutexGuard<'static, There> {
    THERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something outside of the program that goes when this goes, or a signal ends the program before: see
/// [`end_by_signal`].
pub(crate) struct Leaving(u64);

impl Leaving {
    /// To be had before it is made: `remove` takes away what there is of it, perhaps nothing.
    pub(crate) fn new(remove: impl FnOnce() + Send + 'static) -> Self {
        let mut there = there();
        there.made += 1;
        let number = there.made;
        there.left.push((number, Box::new(remove)));
        Self(number)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut there = there();
        if let Some(at) = there.left.iter().position(|(number, _)| *number == self.0) {
            let (_, remove) = there.left.remove(at);
            remove();
        }
    }
}

/// Does `make`, during which no signal has anything taken away. It may neither make a [`Leaving`] nor drop one.
pub(crate) fn undisturbed<T>(make: impl FnOnce() -> T) -> T {
    let _there = there();
    make()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_goes_once_and_alone() {
        let gone = Arc::new(Mutex::new(Vec::new()));
        let leaving = |name: &'static str| {
            let gone = Arc::clone(&gone);
            Leaving::new(move || gone.lock().unwrap().push(name))
        };
        let (first, second, third) = (leaving("first"), leaving("second"), leaving("third"));
        drop(second);
        assert_eq!(*gone.lock().unwrap(), ["second"]);
        drop(first);
        undisturbed(|| assert_eq!(*gone.lock().unwrap(), ["second", "first"]));
        drop(third);
        assert_eq!(*gone.lock().unwrap(), ["second", "first", "third"]);
    }
}

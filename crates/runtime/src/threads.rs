//! Threads that a crew works on: all of them, or none.

use std::io;

use crate::sync::mpsc::channel;
use crate::sync::thread::{Scope, ScopedJoinHandle};

/// A thread for each of `works`, which begin when all threads are there. Each ends with what its work returns.
///
/// # Errors
/// One cannot be had: then no work has begun, and the threads that are there end with `None`.
pub fn spawn_all<'s, 'e, T: Send + 's>(
    threads: &'s Scope<'s, 'e>,
    works: impl IntoIterator<Item = impl FnOnce() -> T + Send + 's>,
) -> io::Result<Vec<ScopedJoinHandle<'s, Option<T>>>> {
    let (mut gates, mut spawned) = (Vec::new(), Vec::new());
    for work in works {
        let (open, gate) = channel::<()>();
        spawned.push(spawn(threads, move || gate.recv().ok().map(|()| work()))?);
        gates.push(open);
    }
    for gate in gates {
        // Each waits for it.
        let _ = gate.send(());
    }
    Ok(spawned)
}

#[cfg(not(shuttle))]
fn spawn<'s, 'e, T: Send + 's>(
    threads: &'s Scope<'s, 'e>,
    work: impl FnOnce() -> T + Send + 's,
) -> io::Result<ScopedJoinHandle<'s, T>> {
    std::thread::Builder::new().spawn_scoped(threads, work)
}

#[cfg(shuttle)]
fn spawn<'s, 'e, T: Send + 's>(
    threads: &'s Scope<'s, 'e>,
    work: impl FnOnce() -> T + Send + 's,
) -> io::Result<ScopedJoinHandle<'s, T>> {
    Ok(threads.spawn(work))
}

/// What to know where a thread cannot be had for `what`.
pub fn no_thread(what: &str, cause: &io::Error) -> String {
    format!(
        "no thread for {what}: {cause}: the system limits those of a user (`ulimit -u`) and of a service (TasksMax= of \
         systemd): raise that limit, or take fewer --workers"
    )
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::scope;

    use super::*;

    #[test]
    fn all_work_or_none_does() {
        let begun = AtomicUsize::new(0);
        let work = |number: usize| {
            let begun = &begun;
            move || begun.fetch_add(number, Ordering::Relaxed)
        };
        scope(|threads| {
            let spawned = spawn_all(threads, [1, 2, 4].map(work)).unwrap();
            let ends = spawned.into_iter().map(|one| one.join().unwrap());
            assert!(ends.into_iter().all(|end| end.is_some()));
        });
        assert_eq!(begun.load(Ordering::Relaxed), 7);
        // As where the third cannot be had: those before it go without work.
        scope(|threads| {
            let (open, gate) = channel::<()>();
            let waits = spawn(threads, move || gate.recv().ok().map(|()| work(8)())).unwrap();
            drop(open);
            assert_eq!(waits.join().unwrap(), None);
        });
        assert_eq!(begun.load(Ordering::Relaxed), 7);
    }
}

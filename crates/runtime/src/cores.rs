//! Which core each worker has.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where Linux says which of its processors are threads of one core
/// (`Documentation/ABI/stable/sysfs-devices-system-cpu`).
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// What workers are pinned to, the first worker's first.
#[derive(Clone, Debug)]
pub struct Cores(Vec<usize>);

impl Cores {
    /// Processors that this thread may use, in the order of their numbers, except that those that share a core
    /// with one before (hyper-threads) come when every core has one.
    ///
    /// Threads of a pinned one may use its processor alone: ask before.
    pub fn allowed() -> Self {
        Self::of(allowed())
    }

    /// The same from the last processor down: the first ones have most of the system's own work.
    pub fn from_the_last() -> Self {
        let mut allowed = allowed();
        allowed.reverse();
        Self::of(allowed)
    }

    fn of(processors: Vec<usize>) -> Self {
        Self(in_order(processors, |processor| first_of_core(Path::new(PROCESSORS), processor)))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Has this thread, which is worker `number`, stay on its processor. A worker beyond the last one stays where
    /// the system puts it.
    pub fn pin(&self, number: usize) {
        if let Some(processor) = self.0.get(number) {
            stay_on(&[*processor]);
        }
    }

    /// What `start` comes to. Threads that it starts leave the processors of the first `workers` workers alone, where
    /// there are others: by itself the system puts them there too when the others are busy, and packets wait.
    pub fn beside<T>(&self, workers: usize, start: impl FnOnce() -> T) -> T {
        stay_on(self.0.get(workers..).unwrap_or_default());
        let started = start();
        stay_on(&self.0);
        started
    }
}

/// The processors that this thread may use, in the order of their numbers.
fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect()
}

/// Has this thread, and those that it starts from now on, stay on `processors`; where there are none, or the system
/// refuses, on those that it has. A model checker's threads have no processors.
fn stay_on(processors: &[usize]) {
    if processors.is_empty() || cfg!(shuttle) {
        return;
    }
    let mut set = CpuSet::new();
    processors.iter().for_each(|processor| set.set(*processor));
    // A worker that may be moved is slower, and as right.
    let _ = sched_setaffinity(None, &set);
}

/// The first processor of the core that processor `number` belongs to; itself where the system does not say.
fn first_of_core(processors: &Path, number: usize) -> usize {
    let list = processors.join(format!("cpu{number}/topology/thread_siblings_list"));
    let list = fs::read_to_string(list).unwrap_or_default();
    let first = list.trim().split([',', '-']).next();
    first.and_then(|first| first.parse().ok()).unwrap_or(number)
}

/// `processors` in their order, but the first of each core before the second of any.
fn in_order<P: Copy>(processors: Vec<P>, core_of: impl Fn(P) -> usize) -> Vec<P> {
    let mut met = BTreeMap::<usize, usize>::new();
    let mut ranked = Vec::with_capacity(processors.len());
    for processor in processors {
        let before = met.entry(core_of(processor)).or_default();
        ranked.push((*before, processor));
        *before += 1;
    }
    ranked.sort_by_key(|(before, _)| *before);
    ranked.into_iter().map(|(_, processor)| processor).collect()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_core_is_shared_when_every_core_has_a_worker() {
        let order = |processors: &[usize], core_of: fn(usize) -> usize| {
            in_order(processors.to_vec(), core_of)
        };
        assert_eq!(order(&[0, 1, 2, 3, 4, 5], |number| number / 2), [0, 2, 4, 1, 3, 5]);
        assert_eq!(order(&[5, 4, 3, 2, 1, 0], |number| number / 2), [5, 3, 1, 4, 2, 0]);
        assert_eq!(order(&[0, 1, 2, 3], |number| number % 2), [0, 1, 2, 3]);
        assert_eq!(order(&[3, 5, 7], |number| number), [3, 5, 7]);
        assert!(order(&[], |number| number).is_empty());
    }

    #[test]
    fn cores_are_read_from_sysfs() {
        let directory = tempfile::tempdir().unwrap();
        for (number, list) in [(0, "0,8\n"), (1, "1-2\n"), (2, "1-2\n"), (8, "0,8\n"), (9, "")] {
            let topology = directory.path().join(format!("cpu{number}/topology"));
            fs::create_dir_all(&topology).unwrap();
            fs::write(topology.join("thread_siblings_list"), list).unwrap();
        }
        let of = |number| first_of_core(directory.path(), number);
        assert_eq!([0, 8, 1, 2, 9, 10].map(of), [0, 0, 1, 1, 9, 10]);
    }

    #[test]
    fn what_may_be_used_is_there_once() {
        for cores in [Cores::allowed(), Cores::from_the_last()] {
            let mut found = cores.0.clone();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found, allowed());
            assert_eq!(found.len(), cores.count());
        }
    }

    #[test]
    fn what_is_started_beside_workers_leaves_their_processors_alone() {
        let cores = Cores::allowed();
        let all = allowed();
        for workers in 0..=cores.count() {
            let started = cores.beside(workers, || thread::spawn(allowed).join().unwrap());
            let mut left = cores.0[workers..].to_vec();
            left.sort_unstable();
            assert_eq!(started, if left.is_empty() { all.clone() } else { left });
            assert_eq!(allowed(), all, "who started it has all again");
        }
    }
}

//! Many cores in one thread: which one goes on next is drawn from a seed, so that every interleaving
//! can happen and each happens again.
//!
//! Packets wait in the queue of the worker that they are steered to. An answer is made when the step
//! that it answers has been handled; before a pause and a command everything has been. A packet that
//! re-enters in a shard of another worker is handed over, and waits there among packets that came
//! later.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use anabranch_nf::NetworkFunction;
use anabranch_nf::state::ShardSet;
use anabranch_packet::Meta;
use anabranch_packet::fuzzing::Seeds;
use anabranch_runtime::instance::{Instance, Making};
use anabranch_runtime::mailbox::Again;

use crate::error::VerifyError;
use crate::parallel::{Fault, Parallel};
use crate::program::{Act, Arrival, Program};
use crate::run::{
    Handled, Kept, Outcome, Positions, Record, START_NS, command, meta, times, with_frame,
};

/// Workers, each with an instance of its own or all with one.
pub struct Simulation<N: NetworkFunction> {
    parallel: Parallel,
    instances: Vec<Instance<N>>,
    queues: Vec<VecDeque<Job>>,
    ports: u8,
    chance: Seeds,
    /// Before one packet in so many a shard moves to another worker with its state.
    moves_once_in: Option<usize>,
}

/// A packet on its way.
struct Job {
    at: usize,
    frame: Arrival,
    meta: Meta,
    /// Handed over to re-enter.
    again: Option<Again>,
}

/// What a simulation did.
pub struct Course {
    /// What became of each step.
    pub record: Record,
    /// The steps in the order of a single core that would do the same.
    pub order: Vec<usize>,
    /// How much allocators had given out in all when each step was done, by position.
    pub given_out: Vec<u64>,
}

impl Course {
    /// Whether there was a packet at the step at `at`.
    pub fn sent(&self, at: usize) -> bool {
        self.record.get(at).is_some_and(|handled| handled.arrival.is_some())
    }
}

/// A run of a program that goes on.
struct Progress<'a> {
    program: &'a Program,
    times: Vec<u64>,
    record: Record,
    given_out: Vec<u64>,
    done: Vec<bool>,
    /// Which steps touched which shard, in order.
    touched: BTreeMap<u32, Vec<usize>>,
}

impl<N: NetworkFunction> Simulation<N> {
    /// Workers as `parallel` says, interleaved as `seed` says.
    ///
    /// # Errors
    /// [`VerifyError::Settings`].
    pub fn new(parallel: &Parallel, making: &Making, seed: u64) -> Result<Self, VerifyError> {
        let mut instances = parallel.instances(making)?;
        instances.iter_mut().for_each(|instance| instance.start(START_NS));
        let queues = (0..parallel.workers).map(|_| VecDeque::new()).collect();
        let (ports, chance) = (making.ports.len() as u8, Seeds::new(seed));
        let first = instances.first();
        let is_movable = first.is_some_and(|instance| instance.immovable().is_none());
        let moves_once_in = parallel.moves_once_in.filter(|_| instances.len() > 1 && is_movable);
        Ok(Self { parallel: parallel.clone(), instances, queues, ports, chance, moves_once_in })
    }

    /// Runs `program`.
    pub fn run(mut self, program: &Program) -> Course {
        let steps = program.steps.len();
        let mut progress = Progress {
            program,
            times: times(program),
            record: vec![Handled::default(); steps],
            given_out: vec![0; steps],
            done: vec![false; steps],
            touched: BTreeMap::new(),
        };
        let positions = Positions::of(program);
        for (at, step) in program.steps.iter().enumerate() {
            if at == steps / 2 {
                self.move_shard();
            }
            match &step.act {
                Act::Pause(_) => self.finish(&mut progress),
                Act::Command(text) => self.command(at, text, &mut progress),
                Act::Packet(_) => {
                    if self.moves_once_in.is_some_and(|packets| self.chance.below(packets) == 0) {
                        self.change_hands(at, &progress);
                    }
                    self.receive(at, &positions, &mut progress);
                }
            }
        }
        self.finish(&mut progress);
        let causes: Vec<_> = (0..steps).map(|at| positions.cause(program, at)).collect();
        let order = order(&causes, &progress.touched);
        Course { record: progress.record, order, given_out: progress.given_out }
    }

    /// Queues the packet of step `at` once there is one.
    fn receive(&mut self, at: usize, positions: &Positions, progress: &mut Progress<'_>) {
        if let Some(cause) = positions.cause(progress.program, at) {
            while !progress.done.get(cause).copied().unwrap_or(true) && self.go_on(progress) {}
        }
        let arrival = positions.arrival(progress.program, at, &progress.record);
        let Some(arrival) = arrival.filter(|arrival| !progress.is_stale(at, arrival, positions))
        else {
            progress.finish(at);
            return;
        };
        let shard = self.parallel.shard(&arrival);
        let now_ns = progress.times.get(at).copied().unwrap_or(START_NS);
        let meta = meta(at, now_ns, &arrival, shard);
        if let Some(handled) = progress.record.get_mut(at) {
            handled.arrival = Some(arrival.clone());
        }
        self.queue(self.parallel.worker(shard), Job { at, frame: arrival, meta, again: None });
        for _ in 0..self.chance.below(3) {
            self.go_on(progress);
        }
    }

    /// All workers get a command; it is refused where all refuse it, who have to agree why.
    fn command(&mut self, at: usize, text: &str, progress: &mut Progress<'_>) {
        self.finish(progress);
        let now_ns = progress.times.get(at).copied().unwrap_or(START_NS);
        let instances = self.instances.iter_mut();
        let answers: BTreeSet<_> =
            instances.map(|instance| command(instance, now_ns, text).outcome.refused).collect();
        let refused = match answers.len() {
            _ if answers.contains(&None) => None,
            1 => answers.into_iter().next().flatten(),
            _ => Some("workers disagree"),
        };
        if let Some(handled) = progress.record.get_mut(at) {
            handled.outcome = Outcome { refused, ..Outcome::default() };
        }
        progress.finish(at);
    }

    /// Handles all that is queued.
    fn finish(&mut self, progress: &mut Progress<'_>) {
        while self.go_on(progress) {}
    }

    /// A shard for which a packet waits, or in which something has happened, or any, goes to another
    /// worker, with its state and the packets that wait for it there.
    fn change_hands(&mut self, at: usize, progress: &Progress<'_>) {
        let Some(deployment) = &mut self.parallel.deployment else { return };
        let table = Arc::make_mut(&mut deployment.table);
        let waiting = self.queues.iter().flatten().map(|job| job.meta.steering_hash);
        let waiting = waiting.collect::<Vec<_>>();
        let waiting = waiting.get(self.chance.below(2 * waiting.len() + 1)).copied();
        let touched = self.chance.below(progress.touched.len().max(1));
        let wanted = waiting.or(progress.touched.keys().nth(touched).copied());
        // Fragments are in no shard.
        let shard = match wanted.filter(|shard| (*shard as usize) < table.shards()) {
            Some(shard) => shard as u16,
            None => self.chance.below(table.shards()) as u16,
        };
        let owner = usize::from(table.worker_of_shard(shard).unwrap_or(0));
        let next = (owner + 1 + self.chance.below(self.queues.len() - 1)) % self.queues.len();
        // The shard exists, and the worker.
        let _ = table.move_shard(shard, next as u16);
        let table = Arc::clone(&deployment.table);
        let now_ns = progress.times.get(at).copied().unwrap_or(START_NS);
        let meta = Meta { arrival_ns: now_ns, number: at as u64, ..Meta::default() };
        for instance in &mut self.instances {
            instance.advance(&meta, &mut Kept::<N>::new(self.ports));
            instance.adopt(Arc::clone(&table), ShardSet::default());
        }
        let old = self.instances.get_mut(owner);
        let bundle = old.map(|instance| instance.take_shards([shard].into_iter().collect()));
        if let (Some(bundle), Some(instance)) = (bundle, self.instances.get_mut(next)) {
            instance.put_shards(bundle);
        }
        if self.parallel.fault != Some(Fault::MovesUndrained) {
            let waiting = self.queues.get_mut(owner).map(std::mem::take).unwrap_or_default();
            for job in waiting {
                let moves = job.meta.steering_hash == u32::from(shard);
                self.queue(if moves { next } else { owner }, job);
            }
        }
    }

    /// Plants the fault of a shard that moves without its state.
    fn move_shard(&mut self) {
        if let (Some(Fault::MovesShards), Some(deployment)) =
            (self.parallel.fault, &mut self.parallel.deployment)
        {
            let table = Arc::make_mut(&mut deployment.table);
            for shard in 0..table.shards() as u16 {
                let owner = table.worker_of_shard(shard).unwrap_or(0);
                let next = (usize::from(owner) + 1) % self.parallel.workers;
                // Every worker exists, and every shard.
                let _ = table.move_shard(shard, next as u16);
            }
        }
    }

    /// Puts a job behind those of earlier packets.
    fn queue(&mut self, worker: usize, job: Job) {
        let Some(queue) = self.queues.get_mut(worker) else { return };
        let place = queue.iter().position(|other| other.at > job.at).unwrap_or(queue.len());
        queue.insert(place, job);
    }

    /// Some worker handles its next packet; false: none has one.
    fn go_on(&mut self, progress: &mut Progress<'_>) -> bool {
        let busy = self.queues.iter().enumerate().filter(|(_, queue)| !queue.is_empty());
        let busy: Vec<usize> = busy.map(|(number, _)| number).collect();
        let Some(worker) = busy.get(self.chance.below(busy.len())).copied() else { return false };
        let Some(job) = self.queues.get_mut(worker).and_then(VecDeque::pop_front) else {
            return false;
        };
        let shard = if self.instances.len() == 1 { 0 } else { job.meta.steering_hash };
        progress.touched.entry(shard).or_default().push(job.at);
        let mut kept = Kept::<N>::new(self.ports);
        self.handle(worker, &job, &mut kept);
        if let Some(last) = kept.ended_in.filter(|last| *last != shard && self.instances.len() > 1)
        {
            progress.touched.entry(last).or_default().push(job.at);
        }
        if let Some(handled) = progress.record.get_mut(job.at) {
            handled.outcome.add(kept.outcome);
        }
        let given_out = self.given_out();
        progress.given_out.get_mut(job.at).into_iter().for_each(|place| *place = given_out);
        match kept.handed_over {
            Some((owner, frame, meta, again)) => {
                let stays = self.parallel.fault == Some(Fault::KeepsHandOvers);
                let (owner, again) =
                    if stays { (worker, None) } else { (owner.into(), Some(again)) };
                self.queue(owner, Job { at: job.at, frame, meta, again });
            }
            None => progress.finish(job.at),
        }
        true
    }

    /// How much allocators have given out so far, in all.
    fn given_out(&mut self) -> u64 {
        self.instances.iter_mut().map(|instance| instance.environment().allocations()).sum()
    }

    fn handle(&mut self, worker: usize, job: &Job, kept: &mut Kept<N>) {
        let worker = worker.min(self.instances.len().saturating_sub(1));
        let Some(instance) = self.instances.get_mut(worker) else { return };
        let before = instance.environment().allocations();
        with_frame(&job.frame, job.meta, |mut frame| match job.again {
            None => {
                instance.handle(&mut [frame], kept);
            }
            Some(again) => instance.accept(&mut frame, again, kept),
        });
        kept.outcome.allocated = instance.environment().allocations() > before;
    }
}

/// What an allocator has given out lives for this long at least, in nanoseconds.
const SURELY_ALIVE_NS: u64 = 1_000_000_000;

impl Progress<'_> {
    /// Whether a packet goes to what was given out so long ago that it may have been given out again,
    /// in one run and not in the other: by what came before it, or, where it may be overtaken, comes after
    /// it and before the next pause.
    fn is_stale(&self, at: usize, arrival: &Arrival, positions: &Positions) -> bool {
        let Some(allocated) = &self.program.avoid else { return false };
        if !allocated.is_to(arrival) {
            return false;
        }
        let mut seen = at;
        while let Some(cause) = positions.cause(self.program, seen) {
            seen = cause;
            let arrival = self.record.get(seen).and_then(|handled| handled.arrival.as_ref());
            if !arrival.is_some_and(|arrival| allocated.is_to(arrival)) {
                break;
            }
        }
        let since = self.times.get(seen).map_or(0, |time| time.saturating_add(SURELY_ALIVE_NS));
        let next = self.program.steps.get(at + 1).map(|step| &step.act);
        let may_be_overtaken = allocated.lends && matches!(next, Some(Act::Packet(_)));
        if may_be_overtaken && self.times.get(at).is_some_and(|now| *now >= since) {
            return true;
        }
        let steps = self.times.iter().zip(&self.record).take(at).rev();
        let mut later = steps.take_while(|(time, _)| **time >= since);
        later.any(|(_, handled)| {
            handled.arrival.as_ref().is_some_and(|arrival| arrival.port != allocated.port)
        })
    }

    fn finish(&mut self, at: usize) {
        if let Some(done) = self.done.get_mut(at) {
            *done = true;
        }
    }
}

/// An order of all steps in which the steps of each shard keep theirs and each comes after its cause,
/// nearest to that of the program. Where packets have passed each other twice there is none: the program's
/// first of them then waits in no shard.
fn order(causes: &[Option<usize>], touched: &BTreeMap<u32, Vec<usize>>) -> Vec<usize> {
    let mut released = BTreeSet::new();
    loop {
        let after = edges(causes, touched, &released);
        let (order, stuck) = sorted(&after);
        match stuck.iter().copied().find(|at| waits_for_itself(*at, &after, &stuck)) {
            Some(first) => released.insert(first),
            None => return order,
        };
    }
}

/// Which steps come after each: its answers, and in each shard the next ones, where who is `released` waits for
/// nobody.
fn edges(
    causes: &[Option<usize>],
    touched: &BTreeMap<u32, Vec<usize>>,
    released: &BTreeSet<usize>,
) -> Vec<Vec<usize>> {
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); causes.len()];
    let mut comes_after = |first: usize, second: usize| {
        if first != second && first.max(second) < causes.len() {
            after[first].push(second);
        }
    };
    for (at, cause) in causes.iter().enumerate() {
        cause.iter().for_each(|cause| comes_after(*cause, at));
    }
    for steps in touched.values() {
        let (mut before, mut waiting) = (None, None);
        for &at in steps {
            if !released.contains(&at) {
                before.into_iter().chain(waiting).for_each(|before| comes_after(before, at));
                waiting = Some(at);
            }
            before = Some(at);
        }
    }
    after
}

/// Whether a step is to come after itself, by way of others that are `stuck`.
fn waits_for_itself(at: usize, after: &[Vec<usize>], stuck: &BTreeSet<usize>) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![at]);
    while let Some(here) = next.pop() {
        for &there in after[here].iter().filter(|there| stuck.contains(there)) {
            if there == at {
                return true;
            }
            if seen.insert(there) {
                next.push(there);
            }
        }
    }
    false
}

/// The steps, none before one that it is `after`, the smallest first; and those that wait for each other.
fn sorted(after: &[Vec<usize>]) -> (Vec<usize>, BTreeSet<usize>) {
    let mut before = vec![0; after.len()];
    after.iter().flatten().for_each(|next| before[*next] += 1);
    let free = before.iter().enumerate().filter(|(_, count)| **count == 0);
    let mut free: BTreeSet<usize> = free.map(|(at, _)| at).collect();
    let mut order = Vec::with_capacity(after.len());
    let mut stuck: BTreeSet<usize> = (0..after.len()).collect();
    while let Some(at) = free.pop_first() {
        order.push(at);
        stuck.remove(&at);
        for next in &after[at] {
            before[*next] -= 1;
            if before[*next] == 0 {
                free.insert(*next);
            }
        }
    }
    (order, stuck)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_program_but_where_a_shard_had_another() {
        let none = [None; 4];
        assert_eq!(order(&none, &BTreeMap::new()), [0, 1, 2, 3]);
        let late = BTreeMap::from([(7, vec![0, 3]), (8, vec![2, 0])]);
        assert_eq!(order(&none, &late), [1, 2, 0, 3]);
        assert_eq!(order(&[None, Some(0), None, None], &late), [2, 0, 1, 3]);
        let crossed = BTreeMap::from([(7, vec![0, 1]), (8, vec![1, 0])]);
        assert_eq!(order(&none[..2], &crossed), [0, 1]);
        let elsewhere = BTreeMap::from([(9, vec![3, 2]), (7, vec![0, 1]), (8, vec![1, 0])]);
        assert_eq!(order(&none, &elsewhere), [0, 1, 3, 2], "the others as they were");
        let behind = BTreeMap::from([(9, vec![3, 0]), (7, vec![2, 3]), (8, vec![3, 2])]);
        assert_eq!(order(&none, &behind), [1, 2, 3, 0], "who waits for them goes on waiting");
        let through = BTreeMap::from([(7, vec![3, 0, 2, 1]), (8, vec![1, 0])]);
        assert_eq!(order(&none, &through), [0, 3, 2, 1], "3 is before 2, without 0 between them");
        let between = BTreeMap::from([
            (7, vec![3, 4]),
            (8, vec![4, 3]),
            (9, vec![3, 0]),
            (10, vec![0, 5]),
            (11, vec![5, 6]),
            (12, vec![6, 5]),
        ]);
        assert_eq!(order(&[None; 7], &between), [1, 2, 3, 0, 4, 5, 6], "0 has passed nobody");
    }
}

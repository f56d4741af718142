//! What an NF does besides packets, and when: commands, timers, periods, expiry.
//!
//! The same for state of one worker and state that all workers share: who has it for itself at the
//! moment keeps the agenda. What is due is done when the first packet at or after its time is about to
//! be handled, or when no packet comes.

use anabranch_nf::state::journal::Steps;
use anabranch_nf::state::wheel::Tick;
use anabranch_nf::{Context, Environment, NetworkFunction};
use anabranch_packet::Meta;

use crate::events::{Event, Events};
use crate::handlers::{Handler, measured};
use crate::instance::Release;

/// Sets, and objects of each allocator, looked at for expiry before a packet: more than a packet can
/// open, so that collection keeps up, and enough that where workers share state few packets run alone for it.
const EXPIRY_BUDGET: u32 = 16;
/// Steps of collecting what has expired at one go; more is left to the next call.
const STEPS: u64 = 64;
/// How long collecting may wait where no packet comes: an entry that is over is found so in any case.
pub(crate) const COLLECTION_NS: u64 = 20_000_000;

/// Packet sets that expire.
pub(crate) trait Expiring<S> {
    /// The next set whose time has run out at `now`, removed, with its shard where that is known.
    /// `budget` counts down the sets looked at.
    fn expire(&mut self, now: Tick, budget: &mut u32) -> Option<(Option<u16>, S)>;
    /// Ticks are counted from an origin `by` later.
    fn rebase(&mut self, by: Tick);
}

/// Runs what calls `handler` once.
fn once<N: NetworkFunction, R>(handler: Handler, run: impl FnOnce() -> R) -> R {
    measured::<N, _>(handler, |_| 1, run)
}

/// The clock, the events and the expiry of an NF.
pub(crate) struct Agenda<N: NetworkFunction> {
    pub(crate) environment: Environment,
    pub(crate) events: Events<N>,
    /// When something may have expired.
    collects_ns: u64,
    steps: Option<Steps>,
}

impl<N: NetworkFunction> Agenda<N> {
    /// Of an NF whose chance is drawn from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let (environment, events) = (Environment::new(seed), Events::default());
        Self { environment, events, collects_ns: 0, steps: None }
    }

    /// Starts the clock at `now_ns` and runs `init`.
    pub(crate) fn start(&mut self, nf: &mut N, now_ns: u64) {
        self.environment.set_origin(now_ns);
        self.events.set_clock_end(self.environment.last_ns());
        self.events.start(now_ns);
        self.plan();
        self.environment.begin_event(now_ns);
        self.environment.begin_init();
        nf.init(&mut Context::new(&mut self.environment));
        self.environment.end_event();
    }

    /// Has `command` carried out when the clock reaches `at_ns`.
    pub(crate) fn schedule(&mut self, at_ns: u64, command: N::Command) {
        self.events.schedule(at_ns, command);
        self.plan();
    }

    /// Carries out `command` at `now_ns`.
    pub(crate) fn control(
        &mut self,
        nf: &mut N,
        sets: &mut impl Expiring<N::Set>,
        now_ns: u64,
        command: N::Command,
    ) -> Result<(), &'static str> {
        self.keep_in_reach(nf, sets, now_ns);
        self.environment.begin_event(now_ns);
        self.environment.enter_every_shard();
        self.set_event(true);
        let cx = &mut Context::new(&mut self.environment);
        let done = once::<N, _>(Handler::Control, || nf.control(command, cx));
        self.set_event(false);
        done
    }

    /// The steps in which state is written that a store keeps.
    pub(crate) fn keep(&mut self, steps: &Steps) {
        self.environment.keep_timers(steps);
        self.steps = Some(steps.clone());
    }

    fn set_event(&self, is_event: bool) {
        self.steps.iter().for_each(|steps| steps.set_event(is_event));
    }

    /// Carries out `command` now, at the time of `cause`, after all that is due.
    pub(crate) fn carry_out(
        &mut self,
        nf: &mut N,
        sets: &mut impl Expiring<N::Set>,
        cause: &Meta,
        command: N::Command,
        release: &mut impl Release,
    ) -> Result<(), &'static str> {
        self.run_due(nf, sets, cause, release);
        let done = self.control(nf, sets, cause.arrival_ns, command);
        self.emit(cause, release);
        self.plan();
        done
    }

    /// Does what is due at the time of `cause`; what the NF sends is caused by it.
    pub(crate) fn run_due(
        &mut self,
        nf: &mut N,
        sets: &mut impl Expiring<N::Set>,
        cause: &Meta,
        release: &mut impl Release,
    ) {
        self.run_due_in(STEPS, nf, sets, cause, release);
    }

    /// The same, with at most so many steps of collecting what has expired.
    pub(crate) fn run_due_in(
        &mut self,
        steps: u64,
        nf: &mut N,
        sets: &mut impl Expiring<N::Set>,
        cause: &Meta,
        release: &mut impl Release,
    ) {
        for _ in 0..steps {
            if cause.arrival_ns < self.environment.due() {
                break;
            }
            self.run_events(nf, sets, cause, release);
        }
    }

    /// Whether the clock stands at `now_ns` or later, and no command and no period is due by then.
    pub(crate) fn has_come_to(&self, now_ns: u64) -> bool {
        self.environment.now() >= now_ns && self.events.next() > now_ns
    }

    /// When something is to be done without a packet, as seen at `now_ns`.
    pub(crate) fn next_due_ns(&self, now_ns: u64) -> u64 {
        let collection_ns = match self.collects_ns {
            // There was more than one call may do.
            0 if self.environment.due() == 0 => now_ns,
            other => other.max(now_ns.saturating_add(COLLECTION_NS)),
        };
        let own = self.environment.next_timer().min(self.environment.next_routing());
        self.events.next().min(own).min(collection_ns)
    }

    /// Does what is due before the packet of `cause`: all events, and a step of collecting what has
    /// expired.
    #[cold]
    #[inline(never)]
    pub(crate) fn run_events(
        &mut self,
        nf: &mut N,
        sets: &mut impl Expiring<N::Set>,
        cause: &Meta,
        release: &mut impl Release,
    ) {
        let now_ns = cause.arrival_ns;
        self.set_event(true);
        while let Some((at_ns, event)) = self.events.take(&mut self.environment, now_ns) {
            // A timer of an earlier run may be due before this one began.
            let at_ns = at_ns.max(self.environment.origin());
            self.keep_in_reach(nf, sets, at_ns);
            self.environment.begin_event(at_ns);
            match event {
                Event::Command(_) => self.environment.enter_every_shard(),
                Event::Timer(timer) => self.environment.go_off_for(timer.setter),
                Event::Period | Event::Routing => {}
            }
            let cx = &mut Context::new(&mut self.environment);
            match event {
                Event::Timer(timer) => once::<N, _>(Handler::Timer, || nf.timer(timer.token, cx)),
                Event::Period => once::<N, _>(Handler::Periodic, || nf.periodic(cx)),
                Event::Routing => nf.follow_up(cx),
                Event::Command(command) => {
                    let answer = once::<N, _>(Handler::Control, || nf.control(command, cx));
                    self.events.answer(answer);
                }
            }
            self.environment.end_event();
            self.emit(cause, release);
        }
        self.keep_in_reach(nf, sets, now_ns);
        if cause.arrival_ns >= self.collects_ns {
            once::<N, _>(Handler::Expired, || self.collect(nf, sets, cause));
            self.emit(cause, release);
        }
        self.set_event(false);
        self.plan();
    }

    /// Has the next packet at or after the time at which there is something to do come here.
    fn plan(&mut self) {
        let has_state = N::SET.is_some() || N::OBJECTS;
        let collects_ns = if has_state { self.collects_ns } else { u64::MAX };
        self.environment.set_next_event(self.events.next().min(collects_ns));
    }

    /// Something may have expired: state came from elsewhere.
    pub(crate) fn collect_soon(&mut self) {
        self.collects_ns = 0;
        self.plan();
    }

    /// Collects what has expired, a bounded amount: from when timer wheels turn, before each packet
    /// until nothing is left, so that it does not matter how packets are batched.
    fn collect(&mut self, nf: &mut N, sets: &mut impl Expiring<N::Set>, cause: &Meta) {
        self.environment.begin_expiry(cause.arrival_ns, cause.number);
        let now = self.environment.tick();
        let mut budget = EXPIRY_BUDGET;
        while let Some((shard, state)) = sets.expire(now, &mut budget) {
            if let Some(shard) = shard {
                self.environment.enter_shard(shard.into());
            }
            nf.packet_set_expired(&state, &mut Context::new(&mut self.environment));
        }
        let done = nf.expire(&mut self.environment, EXPIRY_BUDGET) && budget > 0;
        self.collects_ns = if done { self.environment.next_turn_ns() } else { 0 };
    }

    /// Has ticks counted from a later origin where they would run out at `now_ns`: once in 26 days
    /// of the NF's time, the one occasion on which tables are walked, as far as there are entries.
    pub(crate) fn keep_in_reach(
        &mut self,
        nf: &mut N,
        sets: &mut impl Expiring<N::Set>,
        now_ns: u64,
    ) {
        if now_ns < self.environment.last_ns() {
            return;
        }
        let by = self.environment.rebase(now_ns);
        sets.rebase(by);
        nf.rebase(by);
        self.events.set_clock_end(self.environment.last_ns());
        self.plan();
    }

    /// Lets go what the NF made while it handled the packet of `cause`.
    #[cold]
    #[inline(never)]
    pub(crate) fn emit(&mut self, cause: &Meta, release: &mut impl Release) {
        self.environment.emitted().drain(|port, bytes| release.emit(cause, port, bytes));
    }

    /// Runs `shutdown`; what it emits is caused by the last packet.
    pub(crate) fn shut_down(
        &mut self,
        nf: &mut N,
        sets: &mut impl Expiring<N::Set>,
        last: &Meta,
        release: &mut impl Release,
    ) {
        self.keep_in_reach(nf, sets, last.arrival_ns);
        self.environment.begin(last.arrival_ns, last.number);
        nf.shutdown(&mut Context::new(&mut self.environment));
        self.emit(last, release);
    }
}

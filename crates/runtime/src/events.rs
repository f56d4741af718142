//! What happens to an NF besides packets: commands, timers, periods.

use anabranch_nf::state::timers::Timer;
use anabranch_nf::{Environment, NetworkFunction};
use std::collections::VecDeque;

/// What an NF says to a command: nothing, or why it refuses it.
pub type Answer = Result<(), &'static str>;

/// What it says to a command that all who have state of their own were given. Whoever has nothing of what it is
/// about refuses it: it is refused where all do, for the reason of the first.
pub fn of_all(answers: impl IntoIterator<Item = Answer>) -> Answer {
    let both = |first: Answer, next: Answer| first.or_else(|why| next.map_err(|_| why));
    answers.into_iter().reduce(both).unwrap_or(Ok(()))
}

/// Commands still to come, and the next period.
///
/// Events run when the first packet that arrives at their time or later is about to be handled, so
/// that they fall between the same packets however the packets are batched.
pub struct Events<N: NetworkFunction> {
    commands: VecDeque<(u64, N::Command)>,
    next_period: u64,
    /// When the clock has to be set anew.
    clock_ends: u64,
    next: u64,
    answers: Vec<Answer>,
}

/// What is due.
pub enum Event<C> {
    /// A timer.
    Timer(Timer),
    /// Routing has something to do.
    Routing,
    /// A period has passed.
    Period,
    /// A command from outside.
    Command(C),
}

/// The time of what never happens.
const NEVER: u64 = u64::MAX;

impl<N: NetworkFunction> Default for Events<N> {
    fn default() -> Self {
        Self {
            commands: VecDeque::new(),
            next_period: NEVER,
            clock_ends: NEVER,
            next: NEVER,
            answers: Vec::new(),
        }
    }
}

impl<N: NetworkFunction> Events<N> {
    const PERIOD_NS: u64 = N::PERIOD_MS.saturating_mul(1_000_000);

    /// The clock starts at `now_ns`.
    pub fn start(&mut self, now_ns: u64) {
        if N::PERIOD_MS > 0 {
            self.next_period = now_ns.saturating_add(Self::PERIOD_NS);
        }
        self.plan();
    }

    /// The clock has to be set anew at `at_ns`.
    pub fn set_clock_end(&mut self, at_ns: u64) {
        self.clock_ends = at_ns;
        self.plan();
    }

    /// Has `command` carried out at `at_ns`.
    pub fn schedule(&mut self, at_ns: u64, command: N::Command) {
        let at = self.commands.partition_point(|&(other, _)| other <= at_ns);
        self.commands.insert(at, (at_ns, command));
        self.plan();
    }

    fn next_command(&self) -> u64 {
        self.commands.front().map_or(NEVER, |&(at, _)| at)
    }

    fn plan(&mut self) {
        self.next = self.next_command().min(self.next_period).min(self.clock_ends);
    }

    /// When something is to be done next, timers apart.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The next event that is due at `now_ns`, with its time; they come in the order of time.
    pub fn take(
        &mut self,
        environment: &mut Environment,
        now_ns: u64,
    ) -> Option<(u64, Event<N::Command>)> {
        self.skip_periods(now_ns);
        let own = environment.next_timer().min(environment.next_routing());
        let at = self.next_command().min(self.next_period).min(own);
        if at > now_ns || at == NEVER {
            return None;
        }
        let event = if let Some(timer) = environment.take_timer(at) {
            Event::Timer(timer)
        } else if environment.take_routing(at) {
            Event::Routing
        } else if self.next_period == at {
            self.next_period = at.saturating_add(Self::PERIOD_NS);
            Event::Period
        } else {
            Event::Command(self.commands.pop_front()?.1)
        };
        self.plan();
        Some((at, event))
    }

    /// Periods that passed without a packet are made up for by the last of them.
    fn skip_periods(&mut self, now_ns: u64) {
        if self.next_period < now_ns {
            self.next_period += (now_ns - self.next_period) / Self::PERIOD_NS * Self::PERIOD_NS;
        }
    }

    /// What the NF said to a command.
    pub fn answer(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    /// Commands whose time has not come.
    pub fn commands_left(&self) -> usize {
        self.commands.len()
    }

    /// What the NF said to commands since the last call, in their order.
    pub fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }
}

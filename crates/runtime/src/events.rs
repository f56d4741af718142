//! What happens to an NF besides packets: commands, timers, periods.

use anabranch_nf::{Context, Environment, NetworkFunction};
use anabranch_packet::Port;
use std::collections::VecDeque;

/// Commands still to come, and the next period.
///
/// Events run when the first packet that arrives at their time or later is about to be handled, so
/// that they fall between the same packets however the packets are batched.
pub struct Events<N: NetworkFunction> {
    commands: VecDeque<(u64, N::Command)>,
    next_period: u64,
    next: u64,
    refused: Vec<&'static str>,
}

impl<N: NetworkFunction> Default for Events<N> {
    fn default() -> Self {
        let never = u64::MAX;
        Self { commands: VecDeque::new(), next_period: never, next: never, refused: Vec::new() }
    }
}

const PERIOD_NS: u64 = 1_000_000;

impl<N: NetworkFunction> Events<N> {
    /// The clock starts at `now_ns`.
    pub fn start(&mut self, now_ns: u64) {
        if N::PERIOD_MS > 0 {
            self.next_period = now_ns + N::PERIOD_MS * PERIOD_NS;
        }
        self.plan();
    }

    /// Has `command` carried out at `at_ns`.
    pub fn schedule(&mut self, at_ns: u64, command: N::Command) {
        let at = self.commands.partition_point(|&(other, _)| other <= at_ns);
        self.commands.insert(at, (at_ns, command));
        self.plan();
    }

    fn plan(&mut self) {
        let command = self.commands.front().map_or(u64::MAX, |&(at, _)| at);
        self.next = command.min(self.next_period);
    }

    /// When the next event is due.
    #[inline(always)]
    pub fn due(&self, environment: &Environment) -> u64 {
        self.next.min(environment.next_timer())
    }

    /// Runs what is due at `now_ns`, in the order of time; what handlers emit goes to `release`.
    #[cold]
    #[inline(never)]
    pub fn run(
        &mut self,
        nf: &mut N,
        environment: &mut Environment,
        now_ns: u64,
        mut release: impl FnMut(Port, &[u8]),
    ) {
        loop {
            let at = self.due(environment);
            if at > now_ns {
                return;
            }
            environment.begin(at, 0);
            if let Some(token) = environment.take_timer(at) {
                nf.timer(token, &mut Context::new(environment));
            } else if self.next_period == at {
                self.period(nf, environment, now_ns);
            } else if let Some((_, command)) = self.commands.pop_front() {
                self.refused.extend(nf.control(command, &mut Context::new(environment)).err());
            }
            self.plan();
            environment.emitted().drain(&mut release);
        }
    }

    /// One period; those that passed without a packet are made up for by this one.
    fn period(&mut self, nf: &mut N, environment: &mut Environment, now_ns: u64) {
        nf.periodic(&mut Context::new(environment));
        let period = N::PERIOD_MS * PERIOD_NS;
        let passed = (now_ns - self.next_period) / period;
        self.next_period += period * (passed.saturating_sub(1) + 1);
    }

    /// Commands whose time has not come.
    pub fn commands_left(&self) -> usize {
        self.commands.len()
    }

    /// Commands that the NF refused since the last call, with its reasons.
    pub fn take_refused(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.refused)
    }
}

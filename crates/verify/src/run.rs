//! One instance of a network function that handles one packet at a time and tells what became of it.

use std::collections::BTreeSet;

use anabranch_nf::settings::Command as _;
use anabranch_nf::state::TableUse;
use anabranch_nf::{DropReason, NetworkFunction};
use anabranch_packet::{Frame, Meta, Port};
use anabranch_runtime::instance::{Instance, Making, Release};
use anabranch_runtime::mailbox::Again;
pub use anabranch_runtime::testing::START_NS;

use crate::error::VerifyError;
use crate::program::{Act, Arrival, Program};
use crate::simulate::Course;

/// Room before and after a frame.
const ROOM: usize = 128;

/// What became of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What left, by port number: the packet, once a port where it was flooded, and packets that the
    /// function made.
    pub sent: Vec<(u8, Vec<u8>)>,
    /// The word for why it was dropped, or why a command was refused.
    pub refused: Option<&'static str>,
    /// Whether an allocator gave something out.
    pub allocated: bool,
}

impl Outcome {
    /// What became of the packet after it re-entered.
    pub(crate) fn add(&mut self, later: Outcome) {
        self.sent.extend(later.sent);
        self.refused = later.refused.or(self.refused);
        self.allocated |= later.allocated;
    }
}

/// A step that is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// The packet as it arrived; `None`: a command, a pause, or nothing was sent because nothing had
    /// come out of the step it depends on.
    pub arrival: Option<Arrival>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What a run made of each step, by position.
pub type Record = Vec<Handled>;

/// Where the names of a program's steps stand in it.
pub(crate) struct Positions(std::collections::HashMap<u32, usize>);

impl Positions {
    /// Of the steps of `program`.
    pub(crate) fn of(program: &Program) -> Self {
        let names = program.steps.iter().enumerate().map(|(at, step)| (step.name, at));
        Self(names.collect())
    }

    /// The packet of the step at `at`, in the run that `record` is of.
    pub(crate) fn arrival(&self, program: &Program, at: usize, record: &Record) -> Option<Arrival> {
        let Act::Packet(template) = &program.steps.get(at)?.act else { return None };
        let cause = template.origin.cause().and_then(|name| self.0.get(&name));
        program.arrival(template, cause.and_then(|cause| record.get(*cause)))
    }

    /// The position of the step that the one at `at` depends on.
    pub(crate) fn cause(&self, program: &Program, at: usize) -> Option<usize> {
        self.0.get(&program.steps.get(at)?.cause()?).copied()
    }
}

/// One core with all state.
pub struct Sequential<N: NetworkFunction> {
    instance: Instance<N>,
    ports: u8,
}

impl<N: NetworkFunction> Sequential<N> {
    /// An instance made as `making` says.
    ///
    /// # Errors
    /// [`VerifyError::Settings`].
    pub fn new(making: &Making) -> Result<Self, VerifyError> {
        let mut instance = Instance::new(making).map_err(|why| VerifyError::Settings(why.0))?;
        instance.start(START_NS);
        Ok(Self { instance, ports: making.ports.len() as u8 })
    }

    /// Runs `program`, its steps in the order of `course` (positions), as numbers of packets their
    /// positions. What is not sent there is not sent here.
    pub fn run(&mut self, program: &Program, course: &Course) -> Record {
        self.watched(program, course, &mut |_| {})
    }

    /// As [`run`](Self::run); `watch` is told each step, by position, when it is done.
    pub fn watched(
        &mut self,
        program: &Program,
        course: &Course,
        watch: &mut dyn FnMut(usize),
    ) -> Record {
        self.each(program, course, &mut |at, _| watch(at))
    }

    /// The first step of `course`, by position in `program`, after which one of these tables has no room.
    pub(crate) fn fills(
        &mut self,
        program: &Program,
        course: &Course,
        tables: &BTreeSet<String>,
    ) -> Option<usize> {
        let mut first = None;
        self.each(program, course, &mut |at, instance| {
            let is_full = |table: &TableUse| {
                tables.contains(&table.name) && !table.whole && table.used >= table.capacity
            };
            if first.is_none() && instance.tables().iter().any(is_full) {
                first = Some(at);
            }
        });
        first
    }

    /// Runs `program`; `watch` is told each step when it is done, and what state there is then.
    fn each(
        &mut self,
        program: &Program,
        course: &Course,
        watch: &mut dyn FnMut(usize, &Instance<N>),
    ) -> Record {
        let positions = Positions::of(program);
        let times = times(program);
        let mut record = vec![Handled::default(); program.steps.len()];
        for at in &course.order {
            let (Some(step), Some(now_ns)) = (program.steps.get(*at), times.get(*at)) else {
                continue;
            };
            let handled = match &step.act {
                Act::Pause(_) => Handled::default(),
                Act::Command(text) => command(&mut self.instance, *now_ns, text),
                Act::Packet(_) => match positions.arrival(program, *at, &record) {
                    Some(arrival) if course.sent(*at) => self.handle(*at, *now_ns, arrival),
                    _ => Handled::default(),
                },
            };
            if let Some(place) = record.get_mut(*at) {
                *place = handled;
            }
            watch(*at, &self.instance);
        }
        record
    }

    fn handle(&mut self, at: usize, now_ns: u64, arrival: Arrival) -> Handled {
        let mut kept = Kept::<N>::new(self.ports);
        let before = self.instance.environment().allocations();
        with_frame(&arrival, meta(at, now_ns, &arrival, 0), |frame| {
            self.instance.handle(&mut [frame], &mut kept)
        });
        kept.outcome.allocated = self.instance.environment().allocations() > before;
        Handled { arrival: Some(arrival), outcome: kept.outcome }
    }
}

/// When each step happens.
pub(crate) fn times(program: &Program) -> Vec<u64> {
    let mut now_ns = START_NS;
    let steps = program.steps.iter();
    steps
        .map(|step| {
            if let Act::Pause(ns) = step.act {
                now_ns = now_ns.saturating_add(ns);
            }
            now_ns
        })
        .collect()
}

/// What is known of the packet of step `at`.
pub(crate) fn meta(at: usize, now_ns: u64, arrival: &Arrival, steering_hash: u32) -> Meta {
    Meta {
        arrival_ns: now_ns,
        number: at as u64,
        steering_hash,
        wire_len: arrival.wire_len,
        port: Port::new(arrival.port),
        ..Meta::default()
    }
}

/// Runs `act` on the packet in memory with room around it.
pub(crate) fn with_frame<R>(arrival: &Arrival, meta: Meta, act: impl FnOnce(Frame<'_>) -> R) -> R {
    let len = arrival.bytes.len();
    let mut buffer = vec![0; ROOM + len + ROOM];
    if let Some(place) = buffer.get_mut(ROOM..ROOM + len) {
        place.copy_from_slice(&arrival.bytes);
    }
    act(Frame::new(&mut buffer, ROOM, len, 0, meta))
}

/// Gives `instance` a command.
pub(crate) fn command<N: NetworkFunction>(
    instance: &mut Instance<N>,
    now_ns: u64,
    text: &str,
) -> Handled {
    let refused = match N::Command::read(text) {
        Ok(command) => instance.control(now_ns, command).err(),
        Err(_) => Some("not a command"),
    };
    Handled { arrival: None, outcome: Outcome { refused, ..Outcome::default() } }
}

/// Keeps what leaves.
pub(crate) struct Kept<N> {
    pub(crate) outcome: Outcome,
    /// A packet for another worker, to re-enter there.
    pub(crate) handed_over: Option<(u16, Arrival, Meta, Again)>,
    /// The shard in which a packet has come to its end, after it re-entered here.
    pub(crate) ended_in: Option<u32>,
    ports: u8,
    of: std::marker::PhantomData<fn() -> N>,
}

impl<N: NetworkFunction> Kept<N> {
    pub(crate) fn new(ports: u8) -> Self {
        let (outcome, of) = (Outcome::default(), std::marker::PhantomData);
        Self { outcome, handed_over: None, ended_in: None, ports, of }
    }
}

impl<N: NetworkFunction> Release for Kept<N> {
    fn forward(&mut self, frame: &Frame<'_>, port: Port) {
        self.ended_in = Some(frame.meta().steering_hash);
        self.outcome.sent.push((port.index(), frame.bytes().to_vec()));
    }

    fn flood(&mut self, frame: &Frame<'_>) {
        self.ended_in = Some(frame.meta().steering_hash);
        let arrival = frame.meta().port.index();
        for port in (0..self.ports).filter(|port| *port != arrival) {
            self.outcome.sent.push((port, frame.bytes().to_vec()));
        }
    }

    fn discard(&mut self, frame: &Frame<'_>, reason: DropReason) {
        self.ended_in = Some(frame.meta().steering_hash);
        self.outcome.refused = Some(reason.word(N::REASONS));
    }

    fn hand_over(&mut self, frame: &Frame<'_>, worker: u16, again: Again) {
        let meta = *frame.meta();
        let (port, bytes) = (meta.port.index(), frame.bytes().to_vec());
        let arrival = Arrival { port, bytes, wire_len: meta.wire_len };
        self.handed_over = Some((worker, arrival, meta, again));
    }

    fn emit(&mut self, _: &Meta, port: Port, frame: &[u8]) {
        self.outcome.sent.push((port.index(), frame.to_vec()));
    }
}

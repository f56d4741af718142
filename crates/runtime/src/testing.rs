//! Running an NF packet by packet, for its tests.

mod side_by_side;

pub use side_by_side::{Arrived, Done, Sharing, SideBySide};

use std::collections::BTreeMap;

use anabranch_nf::settings::{Command as _, set};
use anabranch_nf::state::TableUse;
use anabranch_nf::{DropReason, NetworkFunction};
use anabranch_packet::{Frame, Meta, Port};

use crate::instance::{Instance, Making, Release};
use crate::mailbox::Again;

/// Time at which a harness starts: some day in 2026, nanoseconds since the Unix epoch.
pub const START_NS: u64 = 1_767_225_600_000_000_000;

/// The seed of every instance here.
const SEED: u64 = 1;

/// One NF on one core, driven by a test. Every packet is a batch of its own.
pub struct Harness<N: NetworkFunction> {
    instance: Instance<N>,
    now_ns: u64,
    number: u64,
    ports: usize,
}

/// What became of one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    forwarded: Vec<(u8, Vec<u8>)>,
    emitted: Vec<(u8, Vec<u8>)>,
    dropped: Option<&'static str>,
    waits: bool,
}

impl Outcome {
    /// Whether it is a fragment that waits for others.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// The packet as it left: port number and bytes, once per port where it was flooded.
    pub fn forwarded(&self) -> &[(u8, Vec<u8>)] {
        &self.forwarded
    }

    /// Packets that the NF made: port number and bytes.
    pub fn emitted(&self) -> &[(u8, Vec<u8>)] {
        &self.emitted
    }

    /// The word for why it was dropped.
    pub fn dropped(&self) -> Option<&'static str> {
        self.dropped
    }
}

impl<N: NetworkFunction> Harness<N> {
    /// An NF with these settings, written as for `--set`. Ports beyond the NF's own: up to 4.
    ///
    /// # Panics
    /// If the settings are wrong: tests of wrong settings use [`try_new`](Self::try_new).
    pub fn new(settings: &[&str]) -> Self {
        match Self::try_new(settings) {
            Ok(harness) => harness,
            Err(why) => panic!("{why}"),
        }
    }

    /// As [`new`](Self::new), with the mistakes found in the settings.
    pub fn try_new(settings: &[&str]) -> Result<Self, String> {
        let mut table = toml::Table::new();
        settings.iter().try_for_each(|assignment| set(&mut table, assignment))?;
        Self::with_table(table)
    }

    /// An NF configured by `table`, which may hold the tables of `L3` too.
    pub fn with_table(settings: toml::Table) -> Result<Self, String> {
        let (instance, ports) = started::<N>(settings)?;
        Ok(Self { instance, now_ns: START_NS, number: 0, ports })
    }

    /// Sets the time to `after_ns` after the start.
    pub fn at(&mut self, after_ns: u64) {
        self.now_ns = START_NS + after_ns;
    }

    /// Receives `frame` on port number `port`.
    pub fn send(&mut self, port: u8, frame: &[u8]) -> Outcome {
        self.send_cut(port, frame, frame.len() as u32)
    }

    /// As [`send`](Self::send), of a packet that was `wire_len` bytes long before it was cut.
    pub fn send_cut(&mut self, port: u8, frame: &[u8], wire_len: u32) -> Outcome {
        const HEADROOM: usize = 128;
        let mut buffer = vec![0; HEADROOM + frame.len() + HEADROOM];
        buffer[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
        let meta = Meta {
            arrival_ns: self.now_ns,
            number: self.number,
            wire_len,
            port: Port::new(port),
            ..Meta::default()
        };
        self.number += 1;
        let mut record = Record::new::<N>(self.ports);
        let frame = Frame::new(&mut buffer, HEADROOM, frame.len(), 0, meta);
        self.instance.handle(&mut [frame], &mut record);
        std::mem::take(record.of(&meta))
    }

    /// Gives the NF a command, written as for `--control` without its time.
    pub fn control(&mut self, command: &str) -> Result<(), String> {
        let command = N::Command::read(command)?;
        self.instance.control(self.now_ns, command).map_err(str::to_owned)
    }

    /// How full the state object or packet set of this name is.
    ///
    /// # Panics
    /// If there is none.
    pub fn table(&self, name: &str) -> TableUse {
        let tables = self.instance.tables();
        match tables.iter().find(|table| table.name == name) {
            Some(table) => table.clone(),
            None => panic!("no table `{name}` among {tables:?}"),
        }
    }

    /// What the state object `name` of type `Counter` has counted.
    ///
    /// # Panics
    /// If there is none.
    pub fn counter(&self, name: &str) -> u64 {
        let counters = self.instance.counters();
        match counters.iter().find(|(counter, _)| *counter == name) {
            Some((_, count)) => *count,
            None => panic!("no counter `{name}` among {counters:?}"),
        }
    }

    /// Lines that the NF has logged since the last call.
    pub fn logged(&mut self) -> Vec<String> {
        self.instance.environment().log().take().into_iter().map(|line| line.text).collect()
    }
}

/// An instance configured by `settings` whose clock has started, and the number of its ports.
fn started<N: NetworkFunction>(settings: toml::Table) -> Result<(Instance<N>, usize), String> {
    let making = making::<N>(settings);
    let mut instance = Instance::new(&making).map_err(|error| error.to_string())?;
    instance.start(START_NS);
    Ok((instance, making.ports.len()))
}

fn making<N: NetworkFunction>(settings: toml::Table) -> Making {
    let named = N::PORTS.iter().map(|&name| name.to_owned());
    let ports: Vec<String> = if N::PORTS.is_empty() {
        (0..4).map(|n| format!("p{n}")).collect()
    } else {
        named.collect()
    };
    Making { seed: SEED, settings, ports, ..Making::default() }
}

/// What became of each packet, by its number.
struct Record {
    outcomes: BTreeMap<u64, Outcome>,
    ports: u8,
    word: fn(DropReason) -> &'static str,
}

impl Record {
    fn new<N: NetworkFunction>(ports: usize) -> Self {
        let word = |reason: DropReason| reason.word(N::REASONS);
        Self { outcomes: BTreeMap::new(), ports: ports as u8, word }
    }

    fn of(&mut self, meta: &Meta) -> &mut Outcome {
        self.outcomes.entry(meta.number).or_default()
    }
}

impl Release for Record {
    fn forward(&mut self, frame: &Frame<'_>, port: Port) {
        self.of(frame.meta()).forwarded.push((port.index(), frame.bytes().to_vec()));
    }

    fn flood(&mut self, frame: &Frame<'_>) {
        let others = (0..self.ports).filter(|&port| port != frame.meta().port.index());
        let copies = others.map(|port| (port, frame.bytes().to_vec()));
        self.of(frame.meta()).forwarded.extend(copies);
    }

    fn discard(&mut self, frame: &Frame<'_>, reason: DropReason) {
        self.of(frame.meta()).dropped = Some((self.word)(reason));
    }

    fn hand_over(&mut self, _: &Frame<'_>, _: u16, _: Again) {
        unreachable!("there is one worker");
    }

    fn hold(&mut self, frame: &Frame<'_>) {
        self.of(frame.meta()).waits = true;
    }

    fn emit(&mut self, cause: &Meta, port: Port, frame: &[u8]) {
        self.of(cause).emitted.push((port.index(), frame.to_vec()));
    }
}

//! A network function at work: its state, its packet sets, its clock.

use anabranch_nf::packet_set::{Entry, SetKey, SetKey4, SetKey6, SetTable};
use anabranch_nf::settings::Settings as _;
use anabranch_nf::state::TableUse;
use anabranch_nf::{
    BuildError, Builder, Builtin, Context, Drop, DropReason, Environment, Hash, Key,
    NetworkFunction, Value, Verdict,
};
use anabranch_packet::{Frame, Layout, Malformed, Meta, Packet, Port, parse};

use crate::events::Events;
use crate::tuner::{Pass, Tuner};

/// Most packets of a batch.
pub const BATCH: usize = 32;

/// Shards: the low bits of the steering hash.
pub const SHARDS: usize = 512;

/// How often a packet may re-enter.
const RECIRCULATIONS: u32 = 4;

/// Sets and objects looked at for expiry per packet handled: more than can be opened per packet, so
/// that collection keeps up.
const EXPIRY_BUDGET: u32 = 2;

/// Where packets go when they leave the NF. Called in the order of the packets.
pub trait Release {
    /// `frame` leaves through `port`.
    fn forward(&mut self, frame: &Frame<'_>, port: Port);
    /// `frame` leaves through every port but the one it came in by.
    fn flood(&mut self, frame: &Frame<'_>);
    /// `frame` goes nowhere.
    fn discard(&mut self, frame: &Frame<'_>, reason: DropReason);
    /// The NF made this frame while it handled the packet of `cause`.
    fn emit(&mut self, cause: &Meta, port: Port, frame: &[u8]);
}

/// One NF with all its state, owned by one worker (or, where state is shared, behind one lock).
pub struct Instance<N: NetworkFunction> {
    nf: N,
    sets: Sets<N::Set>,
    environment: Environment,
    events: Events<N>,
    tuner: Tuner,
}

struct Sets<S> {
    v4: SetTable<SetKey4, S>,
    v6: SetTable<SetKey6, S>,
}

/// How to make an [`Instance`].
#[derive(Clone, Debug, Default)]
pub struct Making {
    /// Hashes and chance are drawn from it.
    pub seed: u64,
    /// The operator's settings, and the tables `interfaces`, `routes` and `neighbours`.
    pub settings: toml::Table,
    /// Names of the ports of the run.
    pub ports: Vec<String>,
    /// The prefetch pass; `None`: measured while running.
    pub pass: Option<Pass>,
}

/// Tables of the configuration that belong to routing, not to the NF's settings.
const L3_TABLES: [&str; 3] = ["interfaces", "routes", "neighbours"];

impl<N: NetworkFunction> Instance<N> {
    /// Reads the settings and makes the state objects.
    pub fn new(making: &Making) -> Result<Self, BuildError> {
        let in_l3 = |name: &str| L3_TABLES.contains(&name);
        let (l3, own): (toml::Table, toml::Table) =
            making.settings.clone().into_iter().partition(|(name, _)| in_l3(name));
        let settings = N::Settings::read(&own).map_err(|errors| BuildError(errors.to_string()))?;
        let mut builder = Builder::new(making.seed, making.ports.clone(), l3);
        let nf = N::build(settings, &mut builder)?;
        let mut shape = nf.set_shape();
        shape.capacity = match N::SET {
            Some(spec) => builder.capacity(spec.name, shape.capacity.into())?,
            None => 1,
        };
        let sets = Sets {
            v4: SetTable::new(shape, making.seed ^ 0x4444),
            v6: SetTable::new(shape, making.seed ^ 0x6666),
        };
        Ok(Self {
            nf,
            sets,
            environment: Environment::new(making.seed),
            events: Events::default(),
            tuner: Tuner::new(making.pass),
        })
    }

    /// Starts the clock at `now_ns` (the first packet's arrival, the same for every worker) and
    /// runs `init`.
    pub fn start(&mut self, now_ns: u64) {
        self.environment.set_origin(now_ns);
        self.environment.begin(now_ns, 0, 0);
        self.events.start(now_ns);
        self.nf.init(&mut Context::new(&mut self.environment));
    }

    /// Has `command` carried out when the clock reaches `at_ns`.
    pub fn schedule(&mut self, at_ns: u64, command: N::Command) {
        self.events.schedule(at_ns, command);
    }

    /// Carries out `command` at `now_ns`.
    pub fn control(&mut self, now_ns: u64, command: N::Command) -> Result<(), &'static str> {
        self.environment.begin(now_ns, 0, 0);
        self.nf.control(command, &mut Context::new(&mut self.environment))
    }

    /// Handles a batch, of which at most [`BATCH`] packets are looked at, and returns how many
    /// were.
    pub fn handle(&mut self, frames: &mut [Frame<'_>], release: &mut impl Release) -> usize {
        let count = frames.len().min(BATCH);
        let frames = &mut frames[..count];
        let mut layouts = [Layout::default(); BATCH];
        let mut hashes = [Hash(0); BATCH];
        for (frame, layout) in frames.iter().zip(&mut layouts) {
            *layout = parse(frame.bytes(), frame.meta().wire_len);
        }
        let pass = self.tuner.begin_batch();
        if pass != Pass::Off {
            self.look_ahead(frames, &layouts, &mut hashes, pass);
        }
        self.collect(frames);
        for ((frame, layout), hash) in frames.iter_mut().zip(layouts).zip(hashes) {
            let hash = (pass != Pass::Off).then_some(hash);
            self.step(frame, layout, hash, release);
        }
        count
    }

    /// The pass before the handlers: hashes the batch and fetches the lines it will touch.
    #[inline(always)]
    fn look_ahead(
        &mut self,
        frames: &mut [Frame<'_>],
        layouts: &[Layout; BATCH],
        hashes: &mut [Hash; BATCH],
        pass: Pass,
    ) {
        if N::SET.is_some() {
            for ((frame, &layout), hash) in frames.iter_mut().zip(layouts).zip(hashes) {
                *hash = self.sets.fetch(N::set_key(&Packet::new(frame, layout)));
            }
        }
        if N::OBJECTS {
            for (frame, &layout) in frames.iter_mut().zip(layouts) {
                self.nf.prefetch(&mut Packet::new(frame, layout), &mut self.environment);
            }
        }
        if N::OBJECTS && pass == Pass::Two {
            for (frame, &layout) in frames.iter_mut().zip(layouts) {
                self.nf.peek(&mut Packet::new(frame, layout), &mut self.environment);
            }
        }
    }

    /// Collects what has expired, a bounded amount.
    #[inline(always)]
    fn collect(&mut self, frames: &[Frame<'_>]) {
        let Some(first) = frames.first() else { return };
        self.environment.begin(first.meta().arrival_ns, first.meta().number, 0);
        let mut budget = EXPIRY_BUDGET * frames.len() as u32;
        if N::SET.is_some() {
            let now = self.environment.tick();
            while let Some((_, state)) = self.sets.expire(now, &mut budget) {
                self.nf.packet_set_expired(&state, &mut Context::new(&mut self.environment));
            }
        }
        if N::OBJECTS {
            self.nf.expire(&mut self.environment, budget);
        }
    }

    /// Handles one packet, as often as it re-enters.
    #[inline(always)]
    fn step(
        &mut self,
        frame: &mut Frame<'_>,
        layout: Layout,
        hash: Option<Hash>,
        release: &mut impl Release,
    ) {
        if let Some(reason) = refused::<N>(layout) {
            return release.discard(frame, reason.into());
        }
        let mut verdict = self.enter(frame, layout, hash, release);
        let mut entries = 1;
        while let Verdict::Recirculate(port) = verdict {
            if entries > RECIRCULATIONS {
                verdict = Drop(Builtin::RecirculationLimit);
                break;
            }
            entries += 1;
            frame.meta_mut().port = port;
            verdict = self.enter(frame, parse_again(frame), None, release);
        }
        match verdict {
            Verdict::Forward(port) => release.forward(frame, port),
            Verdict::Discard(reason) => release.discard(frame, reason),
            Verdict::Flood => release.flood(frame),
            Verdict::Recirculate(_) => unreachable!("handled by the loop above"),
        }
    }

    #[inline(always)]
    fn enter(
        &mut self,
        frame: &mut Frame<'_>,
        layout: Layout,
        hash: Option<Hash>,
        release: &mut impl Release,
    ) -> Verdict {
        let meta = *frame.meta();
        if meta.arrival_ns >= self.events.due(&self.environment) {
            self.events.run(&mut self.nf, &mut self.environment, meta.arrival_ns, |port, bytes| {
                release.emit(&meta, port, bytes);
            });
        }
        let shard = (meta.steering_hash as usize % SHARDS) as u16;
        self.environment.begin(meta.arrival_ns, meta.number, shard);
        let verdict = self.handler(&mut Packet::new(frame, layout), hash, shard);
        let emitted = self.environment.emitted();
        if !emitted.is_empty() {
            emitted.drain(|port, bytes| release.emit(&meta, port, bytes));
        }
        verdict
    }

    #[inline(always)]
    fn handler(&mut self, packet: &mut Packet<'_>, hash: Option<Hash>, shard: u16) -> Verdict {
        let environment = &mut self.environment;
        if N::SET.is_none() {
            return self.nf.packet(&mut N::Set::zero(), packet, &mut Context::new(environment));
        }
        match N::set_key(packet) {
            SetKey::V4(key) => {
                let hash = hash.unwrap_or_else(|| self.sets.v4.hash(&key));
                in_set(&mut self.nf, &mut self.sets.v4, environment, (hash, key, shard), packet)
            }
            SetKey::V6(key) => {
                let hash = hash.unwrap_or_else(|| self.sets.v6.hash(&key));
                in_set(&mut self.nf, &mut self.sets.v6, environment, (hash, key, shard), packet)
            }
            SetKey::None => self.nf.orphan(packet, &mut Context::new(environment)),
        }
    }

    /// Runs `shutdown`; what it emits is caused by `last`.
    pub fn shut_down(&mut self, last: &Meta, release: &mut impl Release) {
        self.environment.begin(last.arrival_ns, last.number, 0);
        self.nf.shutdown(&mut Context::new(&mut self.environment));
        self.environment.emitted().drain(|port, bytes| release.emit(last, port, bytes));
    }

    /// How full each state object is.
    pub fn tables(&self) -> Vec<TableUse> {
        let mut tables = Vec::new();
        if let Some(spec) = N::SET {
            tables.push(self.sets.v4.table_use(&format!("{} (IPv4)", spec.name)));
            tables.push(self.sets.v6.table_use(&format!("{} (IPv6)", spec.name)));
        }
        tables.extend(self.nf.tables());
        tables
    }

    /// The environment, for its log.
    pub fn environment(&mut self) -> &mut Environment {
        &mut self.environment
    }

    /// Commands that the NF refused so far, with its reasons.
    pub fn refused_commands(&mut self) -> Vec<&'static str> {
        self.events.take_refused()
    }
}

/// Why the packet is not even shown to the NF.
#[inline(always)]
fn refused<N: NetworkFunction>(layout: Layout) -> Option<Malformed> {
    let reason = layout.malformed()?;
    (N::LAYER > 2 || reason == Malformed::EthernetHeaderTruncated).then_some(reason)
}

#[cold]
#[inline(never)]
fn parse_again(frame: &Frame<'_>) -> Layout {
    parse(frame.bytes(), frame.meta().wire_len)
}

/// Handles a packet of the set `key`.
#[inline(always)]
fn in_set<N: NetworkFunction, K: Key>(
    nf: &mut N,
    sets: &mut SetTable<K, N::Set>,
    environment: &mut Environment,
    (hash, key, shard): (Hash, K, u16),
    packet: &mut Packet<'_>,
) -> Verdict {
    let now = environment.tick();
    if let Some(id) = sets.find(hash, &key) {
        let entry = sets.entry_mut(id);
        if entry.is_alive(now) {
            return packet_of(nf, entry, environment, packet);
        }
        if let Some(state) = sets.close(hash, id) {
            nf.packet_set_expired(&state, &mut Context::new(environment));
        }
    }
    open(nf, sets, environment, (hash, key, shard), packet)
}

#[inline(always)]
fn packet_of<N: NetworkFunction>(
    nf: &mut N,
    entry: &mut Entry<N::Set>,
    environment: &mut Environment,
    packet: &mut Packet<'_>,
) -> Verdict {
    let verdict = nf.packet(&mut entry.state, packet, &mut Context::new(environment));
    entry.refresh(environment.tick(), environment.expiry());
    verdict
}

/// Opens the set `key` and handles its first packet.
#[cold]
#[inline(never)]
fn open<N: NetworkFunction, K: Key>(
    nf: &mut N,
    sets: &mut SetTable<K, N::Set>,
    environment: &mut Environment,
    (hash, key, shard): (Hash, K, u16),
    packet: &mut Packet<'_>,
) -> Verdict {
    let state = match nf.packet_set_opened(packet, &mut Context::new(environment)) {
        Ok(state) => state,
        Err(declined) => return declined,
    };
    match sets.open(hash, key, shard, state, environment.tick()) {
        Some(id) => packet_of(nf, sets.entry_mut(id), environment, packet),
        None => Drop(Builtin::PacketSetsFull),
    }
}

impl<S: Value> Sets<S> {
    /// Fetches the bucket of `key`, and returns its hash.
    #[inline(always)]
    fn fetch(&self, key: SetKey) -> Hash {
        match key {
            SetKey::V4(key) => {
                let hash = self.v4.hash(&key);
                self.v4.prefetch(hash);
                hash
            }
            SetKey::V6(key) => {
                let hash = self.v6.hash(&key);
                self.v6.prefetch(hash);
                hash
            }
            SetKey::None => Hash(0),
        }
    }

    #[inline(always)]
    fn expire(&mut self, now: u32, budget: &mut u32) -> Option<(u16, S)> {
        self.v4.expire(now, budget).or_else(|| self.v6.expire(now, budget))
    }
}

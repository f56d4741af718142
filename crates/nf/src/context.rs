//! What a handler may ask of the world around it: time, chance, packets of its own, a log.

use std::hint::cold_path;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use anabranch_packet::{Mode, Packet, Port};

use crate::l3::Arrival;
use crate::log::{Level, Log};
use crate::state::journal::{Moment, Sink, Steps};
use crate::state::timers::{Setter, Timer, Timers};
use crate::state::wheel::{self, Tick, next_step};
use crate::state::{Bundle, Count, Here, Whereabouts};
use crate::tracked::causes::{Operation, Site};
use crate::world::World;

pub(crate) const TICK_BITS: u32 = 20;

/// Ticks after which they are counted from a later origin, and the longest lifetime: 26 days.
const LONGEST: u32 = 1 << 31;
/// Where counting goes on after that: wheels have come round by then.
const REBASED: u32 = 1 << 16;
/// Where the number of a packet's re-entries lies in that of its draws.
const REENTRY_SHIFT: u32 = 16;
/// Marks the numbers that chance is drawn by outside packets.
const EVENT: u64 = 1 << 63;
const EXPIRY: u64 = 1 << 62;
/// A timer that set itself for now would never let packets go on: what is due before one goes off at its own time.
const LEAST_PAUSE_NS: u64 = 100_000;
/// The clock stands nowhere.
const NEVER: u64 = u64::MAX;

/// The lifetime, in ticks, of what does not end: of all that would be longer than 26 days.
pub(crate) const FOREVER: u32 = LONGEST - 1;

/// A lifetime in ticks of 2^20 ns, rounded up; from 26 days on it is for ever.
#[inline(always)]
pub fn to_ticks(ns: u64) -> u32 {
    let ticks = (ns >> TICK_BITS) + u64::from(ns & ((1 << TICK_BITS) - 1) != 0);
    if ticks >= u64::from(FOREVER) { FOREVER } else { ticks as u32 }
}

/// When an entry ends that begins to live so long. Later refreshes may add the two numbers: what never
/// ends ends later than that.
#[inline(always)]
pub(crate) fn ends(now: Tick, lifetime: u32) -> Tick {
    // Both are at most 2^31: the clock is set anew before, and no lifetime is longer.
    if lifetime == FOREVER { wheel::NEVER } else { now.wrapping_add(lifetime) }
}

/// The nanoseconds of so many ticks.
pub fn to_ns(ticks: u64) -> u64 {
    ticks << TICK_BITS
}

/// What a worker keeps for its handlers, from packet to packet.
pub struct Environment {
    now: u64,
    tick: Tick,
    /// The time at which the last packet began, with nothing due; [`NEVER`]: the clock may stand anywhere.
    stands_at: u64,
    origin: u64,
    seed: u64,
    number: u64,
    draws: u32,
    events: u64,
    expiry: u32,
    emitted: Emitted,
    timers: Timers,
    /// `init` runs, or a timer that it has set.
    initial: bool,
    /// State is divided among shards.
    divided: bool,
    next_event: u64,
    /// When routing has something to do.
    routing: u64,
    /// When the first of these is, or the next timer is due.
    due: u64,
    log: Log,
    here: Arc<Here>,
    allocations: Count,
    /// A packet was made, or a speculative handler asked for what only a writer may do.
    more: bool,
    /// A speculative handler set a timer or wrote to the log.
    asked: bool,
    /// What it asked for and where, where it is watched.
    asked_at: Option<Site>,
    /// Nobody else is at work on the same state.
    alone: bool,
    /// The packet as it arrived, where routing has seen it.
    arrival: Arrival,
}

/// Packets that handlers made, until they are released with the verdict.
#[derive(Default)]
pub struct Emitted {
    bytes: Vec<u8>,
    packets: Vec<(Port, usize)>,
}

impl Emitted {
    fn push(&mut self, port: Port, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.packets.push((port, self.bytes.len()));
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// The packet number `at`, in the order in which they were made.
    pub fn get(&self, at: usize) -> Option<(Port, &[u8])> {
        let &(port, end) = self.packets.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.packets[before].1);
        Some((port, &self.bytes[start..end]))
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.bytes.clear();
    }

    /// Hands each packet to `release`, in order, and forgets it.
    pub fn drain(&mut self, mut release: impl FnMut(Port, &[u8])) {
        let mut start = 0;
        for (port, end) in self.packets.drain(..) {
            release(port, &self.bytes[start..end]);
            start = end;
        }
        self.bytes.clear();
    }
}

impl Environment {
    /// An environment whose chance is drawn from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            now: 0,
            tick: 1,
            stands_at: NEVER,
            origin: 0,
            seed,
            number: 0,
            draws: 0,
            events: 0,
            expiry: 0,
            emitted: Emitted::default(),
            timers: Timers::default(),
            initial: false,
            divided: false,
            next_event: u64::MAX,
            routing: u64::MAX,
            due: u64::MAX,
            log: Log::default(),
            here: Arc::default(),
            allocations: Count::default(),
            more: false,
            asked: false,
            asked_at: None,
            alone: false,
            arrival: Arrival::default(),
        }
    }

    /// Says whether anybody else is at work on the same state: if not, a speculative handler sets
    /// timers and writes to the log at once.
    pub fn set_alone(&mut self, alone: bool) {
        self.alone = alone;
    }

    /// Fixes the time, in nanoseconds since the Unix epoch, from which ticks are counted. All
    /// workers of a run are given the same. Packets that are older happen at it.
    pub fn set_origin(&mut self, now_ns: u64) {
        self.stands_at = NEVER;
        self.origin = now_ns;
    }

    /// When, in nanoseconds since the Unix epoch, ticks run out: [`rebase`](Self::rebase) before.
    pub fn last_ns(&self) -> u64 {
        self.origin.saturating_add(u64::from(LONGEST) << TICK_BITS)
    }

    /// Counts ticks from a later origin, so that `now_ns` is early again, and returns how many
    /// ticks later it is. Every deadline is to be moved by as many.
    pub fn rebase(&mut self, now_ns: u64) -> Tick {
        let ticks = now_ns.saturating_sub(self.origin) >> TICK_BITS;
        let by = ticks.saturating_sub(REBASED.into()) / u64::from(REBASED) * u64::from(REBASED);
        self.stands_at = NEVER;
        self.origin += by << TICK_BITS;
        // What lies further back than ticks reach has expired, however far that is.
        u32::try_from(by).unwrap_or(u32::MAX / REBASED * REBASED)
    }

    /// The packet re-enters for the `turn`th time: its chance goes on.
    pub fn reenter(&mut self, turn: u32) {
        self.draws = turn << REENTRY_SHIFT;
    }

    /// The packet as it arrived, where routing has seen it: it goes with the packet to another worker.
    pub fn arrival(&self) -> &Arrival {
        &self.arrival
    }

    /// The packet that is about to begin arrived so, at another worker.
    pub fn set_arrival(&mut self, arrival: Arrival) {
        self.arrival = arrival;
    }

    /// An event of its own begins: a timer, a period, a command.
    pub fn begin_event(&mut self, now_ns: u64) {
        self.begin(now_ns, EVENT | self.events);
        self.here.leave();
        self.events = (self.events + 1) & !(EVENT | EXPIRY);
    }

    /// What expires is collected before packet `number`, arrived at `now_ns`.
    #[inline(always)]
    pub fn begin_expiry(&mut self, now_ns: u64, number: u64) {
        self.begin(now_ns, EXPIRY | number);
        self.here.leave();
    }

    /// A packet begins: number `number`, arrived at `now_ns`.
    #[inline(always)]
    pub fn begin(&mut self, now_ns: u64, number: u64) {
        self.set_clock(now_ns);
        self.begin_at_once(number);
    }

    /// Whether the clock stands at `now_ns` and nothing is due: whoever arrives then can
    /// [`begin_at_once`](Self::begin_at_once).
    #[inline(always)]
    pub fn stands_at(&self, now_ns: u64) -> bool {
        self.stands_at == now_ns && now_ns != NEVER
    }

    /// The clock comes to `now_ns`, by when all has been done that was to be done.
    #[inline(always)]
    pub fn advance(&mut self, now_ns: u64) {
        self.set_clock(now_ns);
        if now_ns < self.due {
            self.stands_at = now_ns;
        }
    }

    #[inline(always)]
    fn set_clock(&mut self, now_ns: u64) {
        let ticks = now_ns.checked_sub(self.origin).unwrap_or_else(|| {
            cold_path();
            0
        });
        self.stands_at = NEVER;
        self.now = now_ns;
        self.tick = ((ticks >> TICK_BITS) as u32).wrapping_add(1);
    }

    /// The tick at `time_ns`, in nanoseconds since the Unix epoch, or the last there is.
    #[inline]
    pub fn tick_at(&self, time_ns: u64) -> Tick {
        let ticks = time_ns.saturating_sub(self.origin) >> TICK_BITS;
        u32::try_from(ticks).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Packet `number` begins, now.
    #[inline(always)]
    pub fn begin_at_once(&mut self, number: u64) {
        self.number = number;
        self.draws = 0;
        self.expiry = 0;
    }

    /// The packet that has begun belongs to `shard`.
    #[inline(always)]
    pub fn enter_shard(&self, shard: u32) {
        self.here.enter(shard);
    }

    /// What begins is done in every shard alike: `init`, and commands.
    pub fn enter_every_shard(&mut self) {
        self.here.enter_every_shard();
    }

    /// What follows belongs to no shard.
    pub fn leave(&self) {
        self.here.leave();
    }

    /// In which shard the handler runs.
    pub fn whereabouts(&self) -> Whereabouts {
        self.here.whereabouts()
    }

    /// The shard that what the packet asked for is in, where that is another one.
    #[inline]
    pub fn astray(&self) -> Option<u16> {
        self.here.astray()
    }

    /// What state objects look at to know the same.
    pub fn here(&self) -> &Arc<Here> {
        &self.here
    }

    /// Time from which ticks are counted, nanoseconds since the Unix epoch.
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// Objects that allocators have given out so far.
    pub fn allocations(&self) -> u64 {
        self.allocations.read()
    }

    pub(crate) fn count_allocation(&self) {
        self.allocations.add(1);
    }

    /// Now, in ticks.
    #[inline(always)]
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// When, in nanoseconds since the Unix epoch, timer wheels turn next.
    pub fn next_turn_ns(&self) -> u64 {
        let ticks = u64::from(next_step(self.tick)) - 1;
        self.origin.saturating_add(ticks << TICK_BITS)
    }

    /// Now, in nanoseconds since the Unix epoch.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The lifetime in ticks that the handler gave the current packet's set, 0 for none.
    #[inline(always)]
    pub fn expiry(&self) -> u32 {
        self.expiry
    }

    /// Packets that the handler made.
    #[inline(always)]
    pub fn emitted(&mut self) -> &mut Emitted {
        &mut self.emitted
    }

    /// When the next timer or event is due; `u64::MAX`: there is none.
    #[inline(always)]
    pub fn due(&self) -> u64 {
        self.due
    }

    /// When the next timer is due; `u64::MAX`: there is none.
    pub fn next_timer(&self) -> u64 {
        self.timers.next_ns()
    }

    /// The runtime has something to do at `at_ns`.
    pub fn set_next_event(&mut self, at_ns: u64) {
        self.next_event = at_ns;
        self.look_at_timers();
    }

    /// Routing has something to do at `at_ns`, if not before.
    pub(crate) fn expect_routing(&mut self, at_ns: u64) {
        self.routing = self.routing.min(at_ns);
        self.look_at_timers();
    }

    /// When routing has something to do; `u64::MAX`: never.
    pub fn next_routing(&self) -> u64 {
        self.routing
    }

    /// Whether that is due at `now_ns`; if so it is done now.
    pub fn take_routing(&mut self, now_ns: u64) -> bool {
        let is_due = self.routing <= now_ns;
        if is_due {
            self.routing = u64::MAX;
            self.look_at_timers();
        }
        is_due
    }

    /// Takes the next timer, if it is due at `now_ns`.
    pub fn take_timer(&mut self, now_ns: u64) -> Option<Timer> {
        let timer = self.timers.take(now_ns)?;
        self.look_at_timers();
        Some(timer)
    }

    fn look_at_timers(&mut self) {
        self.due = self.next_timer().min(self.next_event).min(self.routing);
        self.stands_at = NEVER;
    }

    /// The event that has begun is over.
    pub fn end_event(&mut self) {
        self.initial = false;
    }

    /// The event that has begun is a timer of `setter`, who sets what it sets in turn.
    pub fn go_off_for(&mut self, setter: Setter) {
        self.initial = setter == Setter::Init;
        if let Setter::Shard(shard) = setter {
            self.enter_shard(shard.into());
        }
    }

    /// The event that has begun is `init`.
    pub fn begin_init(&mut self) {
        self.enter_every_shard();
        self.initial = true;
    }

    /// From now on a timer belongs to the shard that has set it.
    pub fn divide_timers(&mut self) {
        self.divided = true;
    }

    /// Remembers from now on which timers change, for a store that has those that are set.
    pub fn keep_timers(&mut self, steps: &Steps) {
        self.timers.keep(steps);
    }

    /// Tells which timers have changed.
    pub fn drain_timers(&mut self, moment: &Moment, sink: &mut dyn Sink) {
        self.timers.drain(moment, sink);
    }

    /// Sets timers that a store has kept, of a shard or of all; false when they cannot be read. What should
    /// have gone off meanwhile does so first of all.
    pub fn restore_timers(&mut self, key: &[u8], value: &[u8], shard: Option<u16>) -> bool {
        let shard = shard.filter(|_| self.divided);
        let is_set = self.timers.restore(key, value, shard.map_or(Setter::All, Setter::Shard));
        self.look_at_timers();
        is_set
    }

    /// Takes out the timers of the shards that leave.
    pub fn take_timers(&mut self, bundle: &mut Bundle) {
        self.timers.take_shards(bundle);
        self.look_at_timers();
    }

    /// Puts in those that have come with their shards.
    pub fn put_timers(&mut self, bundle: &mut Bundle) {
        self.timers.put_shards(bundle);
        self.look_at_timers();
    }

    fn setter(&self) -> Setter {
        match self.here.shard().filter(|_| self.divided) {
            _ if self.initial => Setter::Init,
            Some(shard) => Setter::Shard(shard),
            None => Setter::All,
        }
    }

    /// The log of this worker.
    pub fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Takes the time from which ticks are counted from `other`, whose state is worked on.
    #[inline(always)]
    pub fn follow(&mut self, other: &Self) {
        self.stands_at = NEVER;
        self.origin = other.origin;
    }

    /// Whether a handler has made a packet, or has [asked](Self::take_asked), since the last `take_asked`.
    #[inline(always)]
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// Whether a speculative handler asked for what only a writer may do, a timer or a line of the log, since the
    /// last call.
    pub fn take_asked(&mut self) -> bool {
        self.more = false;
        std::mem::take(&mut self.asked)
    }

    /// What it asked for last, and where, since the last call; known where it is watched.
    pub fn take_asked_at(&mut self) -> Option<Site> {
        self.asked_at.take()
    }

    /// A speculative handler asks for what can be done only alone.
    fn ask(&mut self) {
        (self.more, self.asked) = (true, true);
    }

    /// A watched one says what and where.
    fn ask_at(&mut self, operation: Operation, line: u32) {
        self.asked_at = Some(Site { operation, object: None, line });
    }

    /// Chance that depends on the seed, the packet and the draw alone, so that any division of the
    /// packets among workers draws the same.
    fn random(&mut self) -> u64 {
        self.draws += 1;
        let mut word = self.seed ^ self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = word.wrapping_add(u64::from(self.draws).wrapping_mul(0xd1b5_4a32_d192_ed03));
        // The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

/// What a handler is given beside the packet.
pub struct Context<'a, W: World> {
    environment: &'a mut Environment,
    world: PhantomData<W>,
}

impl<'a, W: World> Context<'a, W> {
    /// A context over `environment`.
    #[inline(always)]
    pub fn new(environment: &'a mut Environment) -> Self {
        Self { environment, world: PhantomData }
    }

    /// Arrival of the current packet, or time of the current event: nanoseconds since the Unix
    /// epoch.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.environment.now
    }

    /// Has routing called at `at_ns`, if not before.
    pub(crate) fn expect_routing(&mut self, at_ns: u64) {
        if !W::HOLLOW {
            self.environment.expect_routing(at_ns);
        }
    }

    /// The packet as it arrived.
    pub(crate) fn arrival(&self) -> &Arrival {
        &self.environment.arrival
    }

    /// The packet has arrived, unless it re-enters: then it is noted as it did.
    #[inline(always)]
    pub(crate) fn note_arrival<M: Mode>(&mut self, packet: &Packet<'_, M>) {
        let Environment { draws, arrival, .. } = &mut *self.environment;
        if *draws >> REENTRY_SHIFT == 0 || !arrival.is_of(packet) {
            arrival.note(packet);
        }
    }

    /// Whether the packet has asked for what is in another shard, where it will be handled.
    pub(crate) fn is_astray(&self) -> bool {
        self.environment.astray().is_some()
    }

    /// 64 random bits; the same in every run with the same seed.
    #[inline(always)]
    pub fn random(&mut self) -> u64 {
        if W::HOLLOW {
            return 0;
        }
        let drawn = self.environment.random();
        if W::TRACED {
            crate::trace::note(crate::trace::Event::Random(drawn));
        }
        drawn
    }

    /// Gives the current packet's set this lifetime from each of its packets on.
    #[inline(always)]
    pub fn set_expiry(&mut self, lifetime_ns: u64) {
        if !W::HOLLOW {
            self.environment.expiry = to_ticks(lifetime_ns).max(1);
        }
    }

    /// Has `timer(token)` called `delay_ns` from now: 1 ns at least, 100 µs where a timer, `periodic`, a command or
    /// `init` sets it.
    #[inline(always)]
    #[track_caller]
    pub fn set_timer(&mut self, delay_ns: u64, token: u64) {
        if W::PROFILED {
            self.environment.ask_at(Operation::SetTimer, Location::caller().line());
        }
        self.put_timer(delay_ns, token);
    }

    fn put_timer(&mut self, delay_ns: u64, token: u64) {
        if W::SPECULATIVE && !self.environment.alone {
            self.environment.ask();
        } else if !W::HOLLOW {
            let least_ns = if self.environment.number & EVENT == 0 { 1 } else { LEAST_PAUSE_NS };
            let due_ns = self.environment.now.saturating_add(delay_ns.max(least_ns));
            let setter = self.environment.setter();
            self.environment.timers.set(Timer { due_ns, token, setter });
            self.environment.due = self.environment.due.min(due_ns);
        }
    }

    /// Sends a packet of the NF's own, an Ethernet frame, when the handler is done.
    #[inline]
    pub fn emit(&mut self, port: Port, frame: &[u8]) {
        if !W::HOLLOW {
            self.environment.emitted.push(port, frame);
            self.environment.more = true;
        }
    }

    /// What the `log!` macro calls: a line at `level`, from `line` of the NF.
    #[inline]
    pub fn write_log(&mut self, level: Level, line: u32, text: std::fmt::Arguments<'_>) {
        if W::SPECULATIVE && !self.environment.alone {
            // Lines are in order and counted together, whichever worker they come from.
            self.environment.ask();
            if W::PROFILED {
                self.environment.ask_at(Operation::Log, line);
            }
        } else if !W::HOLLOW && !self.is_astray() {
            let now = self.environment.now;
            self.environment.log.write(now, level, line, text);
        }
    }

    /// The same for somebody else: where its own address would otherwise be taken.
    #[inline(always)]
    pub fn lent(&mut self) -> Context<'_, W> {
        self.elsewhere()
    }

    /// The same in another world.
    #[inline(always)]
    pub fn elsewhere<V: World>(&mut self) -> Context<'_, V> {
        Context::new(self.environment)
    }

    /// The environment, for state objects.
    #[inline(always)]
    pub fn environment(&self) -> &Environment {
        self.environment
    }
}

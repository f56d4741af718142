//! A network function at work: its state, its packet sets, its clock.

mod idle;
mod moving;
mod speculation;
pub(crate) mod storing;

use anabranch_nf::l3::{Arrival, TABLES};
use anabranch_nf::packet_set::{Ends, Entry, SetKey, SetKey4, SetKey6, SetShape, SetTable, Spot};
use anabranch_nf::settings::{Settings as _, ports_beyond};
use anabranch_nf::state::wheel::Tick;
use anabranch_nf::state::{Scope, TableUse, Ward};
use anabranch_nf::{
    BuildError, Builder, Builtin, Context, DropReason, Environment, NetworkFunction, Value, Verdict,
};
use anabranch_packet::{
    Common, Frame, Layout, Malformed, Meta, Mode, Packet, Port, Real, parse, parse_any,
    parse_common, parse_other,
};

pub(crate) use storing::{Kept, LAYOUT, TYPES, counted};
pub use storing::{Owner, Restored, Storing};

use crate::agenda::{Agenda, Expiring};
use crate::deployment::Post;
use crate::events::Answer;
use crate::finding::{Findings, Finds, Kind, SetPlace, Sets, look_ahead};
use crate::mailbox::Again;
use crate::reassembly::{Reassembly, is_part, leaving};
use crate::tuner::{Pass, Tuner};

/// Most packets of a batch.
pub const BATCH: usize = 32;

/// How often a packet may re-enter.
pub(crate) const RECIRCULATIONS: u32 = 4;

/// Where packets go when they leave the NF. Called in the order of the packets.
pub trait Release {
    /// `frame` leaves through `port`.
    fn forward(&mut self, frame: &Frame<'_>, port: Port);
    /// `frame` leaves through every port but the one it came in by.
    fn flood(&mut self, frame: &Frame<'_>);
    /// `frame` goes nowhere.
    fn discard(&mut self, frame: &Frame<'_>, reason: DropReason);
    /// `frame` re-enters, or asks for what is elsewhere, and now belongs to a shard of `worker`.
    fn hand_over(&mut self, frame: &Frame<'_>, worker: u16, again: Again);
    /// The NF made this frame while it handled the packet of `cause`.
    fn emit(&mut self, cause: &Meta, port: Port, frame: &[u8]);
    /// `frame` is a fragment that waits for others; it is accounted for when its datagram is.
    fn hold(&mut self, _frame: &Frame<'_>) {}
    /// The packets of these numbers, which were held, go nowhere.
    fn settle(&mut self, _reason: DropReason, _held: &[u64]) {}
    /// `frames` are let go of, in order, as the `verdict` of each one's slot says; who re-enters has done so
    /// before.
    #[inline(always)]
    fn let_go<T>(&mut self, frames: &[Frame<'_>], slots: &[T], verdict: impl Fn(&T) -> Verdict) {
        let_go_each(self, frames, slots, verdict);
    }
}

/// Lets go of packets, one by one.
#[inline(always)]
pub(crate) fn let_go_each<T>(
    release: &mut (impl Release + ?Sized),
    frames: &[Frame<'_>],
    slots: &[T],
    verdict: impl Fn(&T) -> Verdict,
) {
    frames.iter().zip(slots).for_each(|(frame, slot)| let_go_one(release, frame, verdict(slot)));
}

/// Lets go of a packet that does not re-enter.
#[inline(always)]
pub(crate) fn let_go_one(
    release: &mut (impl Release + ?Sized),
    frame: &Frame<'_>,
    verdict: Verdict,
) {
    match verdict {
        Verdict::Forward(port) => release.forward(frame, port),
        other => let_go_other(release, frame, other),
    }
}

/// The rarer verdicts.
#[inline(never)]
fn let_go_other(release: &mut (impl Release + ?Sized), frame: &Frame<'_>, verdict: Verdict) {
    match verdict {
        Verdict::Forward(port) => release.forward(frame, port),
        Verdict::Discard(reason) => release.discard(frame, reason),
        Verdict::Flood | Verdict::Recirculate(_) => release.flood(frame),
    }
}

/// One NF with all its state, owned by one worker (or, where state is shared, behind one lock). On lines of its own.
#[repr(align(128))]
pub struct Instance<N: NetworkFunction> {
    nf: N,
    sets: OwnSets<N::Set>,
    agenda: Agenda<N>,
    tuner: Tuner,
    /// What the pass ahead has found, once there was one.
    findings: Option<Findings>,
    /// Its place among the workers of a shared-nothing run.
    post: Option<Post>,
    /// Who is told what changes, where a store keeps the state.
    storing: Option<Box<Storing>>,
    /// Datagrams that are incomplete.
    reassembly: Reassembly,
    /// The packet handled last.
    last: Meta,
}

/// How a packet enters the handler; by default as it arrived.
#[derive(Clone, Copy, Default)]
struct Entrance {
    /// How often it has re-entered.
    turn: u32,
    /// It has been sent after a value that its shard had lent.
    strayed: bool,
    /// When it arrived, of one that others have handled before, and whose own time may be later.
    arrived_ns: Option<u64>,
}

impl Entrance {
    /// Once more, in the shard that it has been steered to.
    fn anew(self) -> Self {
        Self { turn: self.turn + 1, strayed: false, ..self }
    }
}

/// The packet sets of one worker.
type OwnSets<S> = Sets<SetTable<SetKey4, S>, SetTable<SetKey6, S>>;

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
    /// Whether workers that share state in transactions take turns, a batch at a time; `None`: measured while
    /// running.
    pub turns: Option<bool>,
}

/// The settings of `N`, out of a configuration that has the tables of routing beside them.
///
/// # Errors
/// They are wrong, or routing is set of a function that does not route.
pub fn own_settings<N: NetworkFunction>(all: &toml::Table) -> Result<N::Settings, BuildError> {
    let is_own = |name: &str| !TABLES.contains(&name);
    if let Some(name) = all.keys().find(|name| !N::ROUTES && !is_own(name)) {
        return Err(BuildError(format!(
            "setting `{name}` has no effect: `{}` does not route; leave it out (`nfs NF` lists it where it has one)",
            N::NAME
        )));
    }
    let own = all.clone().into_iter().filter(|(name, _)| is_own(name)).collect();
    N::Settings::read(&own).map_err(|errors| BuildError(errors.to_string()))
}

impl Making {
    /// The settings of `N`, whose numbers of ports are of the run's.
    pub(crate) fn own_settings<N: NetworkFunction>(&self) -> Result<N::Settings, BuildError> {
        let settings = own_settings::<N>(&self.settings)?;
        let wrong = ports_beyond(&N::Settings::schema(), &self.settings, &self.ports);
        if self.ports.is_empty() || wrong.is_empty() {
            return Ok(settings);
        }
        Err(BuildError(wrong.join("\n")))
    }

    /// What makes the state objects.
    pub(crate) fn builder(&self) -> Builder {
        let routing = self.settings.clone().into_iter();
        let l3 = routing.filter(|(name, _)| TABLES.contains(&name.as_str())).collect();
        Builder::new(self.seed, self.ports.clone(), l3)
    }
}

impl<N: NetworkFunction> Instance<N> {
    /// Reads the settings and makes the state objects, of a worker that has all state to itself.
    ///
    /// # Errors
    /// The settings, or the sizes they ask for, are wrong.
    pub fn new(making: &Making) -> Result<Self, BuildError> {
        Self::build(making, None)
    }

    /// As [`new`](Self::new), of one worker of a shared-nothing run.
    ///
    /// # Errors
    /// The settings, or the sizes they ask for, are wrong.
    pub fn deployed(making: &Making, post: Post) -> Result<Self, BuildError> {
        Self::build(making, Some(post))
    }

    fn build(making: &Making, post: Option<Post>) -> Result<Self, BuildError> {
        let settings = making.own_settings::<N>()?;
        let mut builder = making.builder();
        let mut agenda = Agenda::new(making.seed);
        if post.is_some() {
            agenda.environment.divide_timers();
        }
        let here = agenda.environment.here();
        for (name, loans) in post.iter().flat_map(|post| &post.loans) {
            builder.steer(name, loans.clone());
        }
        let workers = post.as_ref().map_or(1, |post| post.deployment.table.workers()) as u32;
        let ward = |scope: &Scope| Ward { scope: scope.clone(), here: here.clone(), workers };
        for (name, scope) in post.iter().flat_map(|post| &post.scopes) {
            builder.divide(name, ward(scope));
        }
        let nf = N::build(settings, &mut builder)?;
        let shape = set_shape(&nf, &builder)?;
        let mut sets = Sets {
            v4: SetTable::new(shape, making.seed ^ 0x4444),
            v6: SetTable::new(shape, making.seed ^ 0x6666),
        };
        if post.is_some() && N::SET.is_some() {
            sets.v4.divide(&ward(&Scope::Sharded));
            sets.v6.divide(&ward(&Scope::Sharded));
        }
        Ok(Self {
            nf,
            sets,
            agenda,
            tuner: Tuner::new(making.pass),
            findings: None,
            post,
            storing: None,
            reassembly: Reassembly::default(),
            last: Meta::default(),
        })
    }

    /// Starts the clock at `now_ns` (the first packet's arrival, the same for every worker) and
    /// runs `init`.
    pub fn start(&mut self, now_ns: u64) {
        self.agenda.start(&mut self.nf, now_ns);
    }

    /// Has `command` carried out when the clock reaches `at_ns`.
    pub fn schedule(&mut self, at_ns: u64, command: N::Command) {
        self.agenda.schedule(at_ns, command);
    }

    /// Carries out `command` at `now_ns`.
    pub fn control(&mut self, now_ns: u64, command: N::Command) -> Result<(), &'static str> {
        let Self { nf, sets, agenda, .. } = self;
        agenda.control(nf, sets, now_ns, command)
    }

    /// Handles a batch, of which at most [`BATCH`] packets are looked at, and returns how many
    /// were.
    pub fn handle(&mut self, frames: &mut [Frame<'_>], release: &mut impl Release) -> usize {
        let count = frames.len().min(BATCH);
        let frames = &mut frames[..count];
        match self.tuner.begin_batch() {
            Pass::Off => frames.iter_mut().for_each(|frame| self.handle_at_once(frame, release)),
            pass => self.handle_after(pass, frames, release),
        }
        self.last = frames.last().map_or(self.last, |frame| *frame.meta());
        if self.storing.is_some() {
            self.tell_after(count);
        }
        count
    }

    #[inline(always)]
    fn handle_at_once(&mut self, frame: &mut Frame<'_>, release: &mut impl Release) {
        match parse_common(frame.bytes(), frame.meta().wire_len) {
            Some(layout) => self.step::<Common<Real>>(frame, layout, None, release),
            None => self.handle_at_once_other(frame, release),
        }
    }

    /// Where there is more than IP to see, what is not IP is no exception.
    #[inline(always)]
    fn handle_at_once_other(&mut self, frame: &mut Frame<'_>, release: &mut impl Release) {
        let other = if N::LAYER == 2 { parse_other(frame.bytes()) } else { None };
        match other {
            Some(layout) => self.step::<Real>(frame, layout, None, release),
            None => self.handle_at_once_any(frame, release),
        }
    }

    #[inline(never)]
    fn handle_at_once_any(&mut self, frame: &mut Frame<'_>, release: &mut impl Release) {
        let layout = parse_any(frame.bytes(), frame.meta().wire_len);
        self.step_any(frame, layout, None, release);
    }

    /// Handles a batch after a pass that fetches the lines its packets will touch.
    #[inline(never)]
    fn handle_after(&mut self, pass: Pass, frames: &mut [Frame<'_>], release: &mut impl Release) {
        let mut findings = self.findings.take().unwrap_or_default();
        let Self { nf, sets, agenda, .. } = self;
        look_ahead((&*nf, &*sets), &mut agenda.environment, frames, &mut findings, pass);
        for (frame, finding) in frames.iter_mut().zip(&*findings) {
            let place = Some(&finding.place).filter(|_| N::SET.is_some());
            match finding.common(frame) {
                Some(layout) => self.step::<Common<Real>>(frame, layout, place, release),
                None if N::SET.is_none() => self.handle_at_once_other(frame, release),
                None => self.step_any(frame, finding.layout, place, release),
            }
        }
        self.findings = Some(findings);
    }

    /// Handles one packet, as often as it re-enters. Compiled once more for packets of the common
    /// layout, which nearly all are, with every offset as a constant.
    #[inline(always)]
    fn step<M: Mode>(
        &mut self,
        frame: &mut Frame<'_>,
        layout: Layout,
        place: Option<&SetPlace>,
        release: &mut impl Release,
    ) {
        match self.enter::<M>(frame, layout, place, 0, release) {
            Verdict::Forward(port) => release.forward(frame, port),
            other => self.leave(frame, other, Entrance::default(), release),
        }
    }

    #[inline(never)]
    fn step_any(
        &mut self,
        frame: &mut Frame<'_>,
        layout: Layout,
        place: Option<&SetPlace>,
        release: &mut impl Release,
    ) {
        if let Some(reason) = refused::<N>(layout) {
            return release.discard(frame, reason.into());
        }
        if N::LAYER == 4 && is_part(layout) {
            return self.gather(frame, layout, release);
        }
        let verdict = self.enter_any(frame, layout, place, 0, release);
        self.leave(frame, verdict, Entrance::default(), release);
    }

    /// Keeps a fragment until its datagram is complete, and handles that then.
    #[cold]
    fn gather(&mut self, frame: &Frame<'_>, layout: Layout, release: &mut impl Release) {
        let Some(mut whole) = self.reassembly.add(frame, layout, release) else { return };
        self.admit(&mut whole.frame(), release);
        self.reassembly.forget(whole);
    }

    /// Datagrams that are incomplete.
    pub(crate) fn reassembly(&mut self) -> &mut Reassembly {
        &mut self.reassembly
    }

    /// Handles a datagram that was put together, as it arrived.
    pub(crate) fn admit(&mut self, frame: &mut Frame<'_>, release: &mut impl Release) {
        let port = frame.meta().port;
        self.agenda.environment.set_arrival(Arrival::default());
        match self.steer_anew(frame, port) {
            Some(owner) => release.hand_over(frame, owner, self.again(frame, Entrance::default())),
            None => self.enter_from(frame, Entrance::default(), release),
        }
    }

    /// The rarer verdicts, kept out of the loop.
    #[inline(never)]
    fn leave(
        &mut self,
        frame: &mut Frame<'_>,
        verdict: Verdict,
        entered: Entrance,
        release: &mut impl Release,
    ) {
        if let (Verdict::Discard(_), Some(shard), false) =
            (verdict, self.agenda.environment.astray(), entered.strayed)
        {
            return self.send_after(frame, shard, entered, release);
        }
        match leaving(frame, verdict, release) {
            Verdict::Forward(port) => release.forward(frame, port),
            Verdict::Discard(reason) => release.discard(frame, reason),
            Verdict::Flood => release.flood(frame),
            Verdict::Recirculate(port) => self.enter_again(frame, port, release),
        }
    }

    /// What the packet asked for is in another shard, which has borrowed a value of this one: it has
    /// changed nothing, as the plan says, and is handled there.
    #[cold]
    fn send_after(
        &mut self,
        frame: &mut Frame<'_>,
        shard: u16,
        entered: Entrance,
        release: &mut impl Release,
    ) {
        frame.meta_mut().steering_hash = shard.into();
        if entered.turn == 0 {
            // It may have been noted after it went astray, which is to be forgotten like all else.
            self.agenda.environment.set_arrival(Arrival::default());
        }
        let entrance = Entrance { strayed: true, ..entered };
        match self.owner_beside(shard.into()) {
            Some(owner) => release.hand_over(frame, owner, self.again(frame, entrance)),
            None => self.enter_from(frame, entrance, release),
        }
    }

    /// Goes on with a packet that another worker handed over, to re-enter or because what it asks for
    /// is here. Time does not go back: it is handled no earlier than what was handled before; whoever gets it next, whose
    /// time may be earlier, gets it as it arrived.
    pub fn accept(&mut self, frame: &mut Frame<'_>, again: Again, release: &mut impl Release) {
        let meta = frame.meta_mut();
        meta.arrival_ns = meta.arrival_ns.max(self.last.arrival_ns);
        self.last.arrival_ns = meta.arrival_ns;
        self.last.number = self.last.number.max(meta.number);
        let Again { turn, arrival, strayed, arrived_ns } = again;
        self.agenda.environment.set_arrival(arrival);
        let entrance = Entrance { turn, strayed, arrived_ns: Some(arrived_ns) };
        self.enter_from(frame, entrance, release);
    }

    /// Lets the packet re-enter on `port`, and again as long as the NF asks for it.
    #[inline(never)]
    fn enter_again(&mut self, frame: &mut Frame<'_>, port: Port, release: &mut impl Release) {
        let entrance = Entrance::default().anew();
        match self.steer_anew(frame, port) {
            Some(owner) => release.hand_over(frame, owner, self.again(frame, entrance)),
            None => self.enter_from(frame, entrance, release),
        }
    }

    /// What goes with the packet that was handled last, to enter elsewhere.
    fn again(&self, frame: &Frame<'_>, entrance: Entrance) -> Again {
        let Entrance { turn, strayed, arrived_ns } = entrance;
        let arrived_ns = arrived_ns.unwrap_or(frame.meta().arrival_ns);
        Again { turn, arrival: *self.agenda.environment.arrival(), strayed, arrived_ns }
    }

    /// Goes on with a packet that has been steered and is at home here.
    fn enter_from(&mut self, frame: &mut Frame<'_>, from: Entrance, release: &mut impl Release) {
        let mut entrance = from;
        for turn in from.turn..=RECIRCULATIONS {
            let layout = parse(frame.bytes(), frame.meta().wire_len);
            let port = match self.enter_any(frame, layout, None, turn, release) {
                Verdict::Recirculate(port) => port,
                last => return self.leave(frame, last, entrance, release),
            };
            entrance = entrance.anew();
            if let Some(owner) = self.steer_anew(frame, port) {
                return release.hand_over(frame, owner, self.again(frame, entrance));
            }
        }
        release.discard(frame, Builtin::RecirculationLimit.into());
    }

    /// Has the packet arrive on `port`, and finds its shard there, and whose that is if it is another
    /// worker's.
    fn steer_anew(&self, frame: &mut Frame<'_>, port: Port) -> Option<u16> {
        frame.meta_mut().port = port;
        let steering = &self.post.as_ref()?.deployment.steering;
        let shard = steering.shard(port, frame.bytes(), frame.meta().wire_len);
        frame.meta_mut().steering_hash = shard;
        self.owner_beside(shard)
    }

    /// The worker that packets of `shard` are to be handed over to; `None`: they are handled here.
    fn owner_beside(&self, shard: u32) -> Option<u16> {
        let Post { deployment, worker, arriving, .. } = self.post.as_ref()?;
        let owner = deployment.table.worker(shard);
        (owner != *worker || arriving.contains(shard as u16)).then_some(owner)
    }

    #[inline(never)]
    fn enter_any(
        &mut self,
        frame: &mut Frame<'_>,
        layout: Layout,
        place: Option<&SetPlace>,
        turn: u32,
        release: &mut impl Release,
    ) -> Verdict {
        // Known in any case, so that there is one handler.
        let place = place.copied().unwrap_or_else(|| {
            self.sets.find::<N, Real>(&Packet::<Real>::new(frame, layout), false)
        });
        self.enter::<Real>(frame, layout, Some(&place), turn, release)
    }

    /// `place`: where the packet's set is, if that is known.
    #[inline(always)]
    fn enter<M: Mode>(
        &mut self,
        frame: &mut Frame<'_>,
        layout: Layout,
        place: Option<&SetPlace>,
        turn: u32,
        release: &mut impl Release,
    ) -> Verdict {
        // First of all, while what parsing has learnt of the frame's length is known.
        let packet = &mut Packet::<M>::new(frame, layout);
        self.begin(packet.meta(), release);
        if turn > 0 {
            self.agenda.environment.reenter(turn);
        }
        let verdict = match place {
            Some(place) => self.handler(packet, place),
            None => self.handler(packet, &self.sets.find::<N, M>(packet, false)),
        };
        if !self.agenda.environment.emitted().is_empty() {
            self.agenda.emit(frame.meta(), release);
        }
        verdict
    }

    /// Does what is due before the packet of `meta`, and brings the clock to it: once for all that arrive
    /// together, as what a poll returns does.
    #[inline(always)]
    fn begin(&mut self, meta: &Meta, release: &mut impl Release) {
        let now_ns = meta.arrival_ns;
        if !self.agenda.environment.stands_at(now_ns) {
            if now_ns >= self.agenda.environment.due() {
                let Self { nf, sets, agenda, .. } = self;
                agenda.run_events(nf, sets, meta, release);
            }
            self.agenda.environment.advance(now_ns);
        }
        self.agenda.environment.begin_at_once(meta.number);
        self.agenda.environment.enter_shard(meta.steering_hash);
    }

    #[inline(always)]
    fn handler<M: Mode>(&mut self, packet: &mut Packet<'_, M>, place: &SetPlace) -> Verdict {
        if N::SET.is_none() {
            let cx = &mut Context::new(&mut self.agenda.environment);
            return self.nf.packet(&mut N::Set::zero(), packet, cx);
        }
        let set = match place.kind {
            Kind::V4 => self.sets.v4.get_mut(place.hash, &place.key),
            Kind::V6 if !M::COMMON => self.sets.find_v6::<N, M>(packet),
            _ => {
                let cx = &mut Context::new(&mut self.agenda.environment);
                return self.nf.orphan(packet, cx);
            }
        };
        let now = self.agenda.environment.tick();
        let Some(set) = set.and_then(|set| set.if_alive(now)) else {
            let (bytes, meta) = packet.parts();
            return self.open(bytes, meta);
        };
        // Of little state the copy costs less than the question whether it is needed.
        let is_copied = size_of::<N::Set>() <= 16 || self.storing.is_some();
        let before = is_copied.then_some(set.state);
        let cx = &mut Context::new(&mut self.agenda.environment);
        let verdict = self.nf.packet(&mut set.state, packet, cx);
        let is_resized = set.refresh(now, self.agenda.environment.expiry());
        if let (Some(_), Some(before)) = (&self.storing, before) {
            // Two calls: whether it has changed is no value then, only a way.
            let spot = set.spot();
            if before != set.state || is_resized {
                self.touched(place.kind, spot, true);
            } else if !set.is_noted() {
                self.touched(place.kind, spot, false);
            }
        }
        verdict
    }

    /// Remembers that a packet's set was touched, for the store that keeps it. All by value: a reference into
    /// the place would have it lie in memory for every packet, store or not.
    #[cold]
    #[inline(never)]
    fn touched(&mut self, kind: Kind, spot: Spot, changed: bool) {
        match kind {
            Kind::V4 => self.sets.v4.touched(spot, changed),
            _ => self.sets.v6.touched(spot, changed),
        }
    }

    /// Opens the packet's set, in place of one that has expired there, and handles its first
    /// packet. It is parsed once more: to hand its layout over would cost every packet.
    #[cold]
    #[inline(never)]
    fn open(&mut self, bytes: &mut [u8], meta: &Meta) -> Verdict {
        let layout = parse(bytes, meta.wire_len);
        let packet = &mut Packet::<Real>::of_parts(bytes, meta, layout);
        let (nf, environment) = (&mut self.nf, &mut self.agenda.environment);
        match N::set_key(packet) {
            SetKey::V4(key) => open(nf, &mut self.sets.v4, environment, key, packet),
            SetKey::V6(key) => open(nf, &mut self.sets.v6, environment, key, packet),
            SetKey::None => nf.orphan(packet, &mut Context::new(environment)),
        }
    }

    /// Runs `shutdown`; what it emits is caused by the last packet.
    pub fn shut_down(&mut self, release: &mut impl Release) {
        self.reassembly.end(release);
        let Self { nf, sets, agenda, last, .. } = self;
        agenda.shut_down(nf, sets, last, release);
        self.tell_whole();
    }

    /// How full each state object is.
    pub fn tables(&self) -> Vec<TableUse> {
        self.sets.tables(&self.nf)
    }

    /// The NF's counters, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.nf.counters()
    }

    /// The environment, for its log.
    pub fn environment(&mut self) -> &mut Environment {
        &mut self.agenda.environment
    }

    /// What the NF has said to commands so far, in their order.
    pub fn take_answers(&mut self) -> Vec<Answer> {
        self.agenda.events.take_answers()
    }

    /// Commands whose time has not come.
    pub fn commands_left(&self) -> usize {
        self.agenda.events.commands_left()
    }
}

/// The sizes of the table of packet sets, checked; of an NF without them, the smallest.
pub(crate) fn set_shape<N: NetworkFunction>(
    nf: &N,
    builder: &Builder,
) -> Result<SetShape, BuildError> {
    let mut shape = nf.set_shape();
    shape.capacity = match N::SET {
        Some(name) => builder.capacity(name, shape.capacity.into())?,
        None => 1,
    };
    Ok(shape)
}

/// Why the packet is not even shown to the NF.
#[inline(always)]
pub(crate) fn refused<N: NetworkFunction>(layout: Layout) -> Option<Malformed> {
    let reason = layout.malformed()?;
    (N::LAYER > 2 || reason == Malformed::EthernetHeaderTruncated).then_some(reason)
}

/// Opens the set `key` and handles its first packet.
fn open<N: NetworkFunction, K: Ends>(
    nf: &mut N,
    sets: &mut SetTable<K, N::Set>,
    environment: &mut Environment,
    key: K,
    packet: &mut Packet<'_>,
) -> Verdict {
    let hash = sets.hash(&key);
    if let Some(id) = sets.find(hash, &key)
        && let Some(state) = sets.close(hash, id)
    {
        nf.packet_set_expired(&state, &mut Context::new(environment));
    }
    let state = match nf.packet_set_opened(packet, &mut Context::new(environment)) {
        Ok(state) => state,
        Err(declined) => return declined,
    };
    let now = environment.tick();
    let Some(id) = sets.open(hash, key, state, now) else {
        return nf.packet_set_full(&state, packet, &mut Context::new(environment));
    };
    let set = sets.entry_mut(id);
    let verdict = nf.packet(&mut set.state, packet, &mut Context::new(environment));
    set.refresh(now, environment.expiry());
    verdict
}

impl<S: Value> OwnSets<S> {
    #[inline(never)]
    fn find_v6<N: NetworkFunction<Set = S>, M: Mode>(
        &mut self,
        packet: &Packet<'_, M>,
    ) -> Option<&mut Entry<S>> {
        let SetKey::V6(key) = N::set_key(packet) else { return None };
        self.v6.get_mut(self.v6.hash(&key), &key)
    }
}

impl<S: Value> Expiring<S> for OwnSets<S> {
    #[inline(always)]
    fn expire(&mut self, now: Tick, budget: &mut u32) -> Option<(Option<u16>, S)> {
        self.v4.expire(now, budget).or_else(|| self.v6.expire(now, budget))
    }

    fn rebase(&mut self, by: Tick) {
        self.v4.rebase(by);
        self.v6.rebase(by);
    }
}

//! A network function as the runtime and the tools see it. `#[network_function]` implements it; no
//! author does.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_packet::{Mode, Packet};
use anabranch_txn::Domain;

use crate::context::{Context, Environment};
use crate::key::Value;
use crate::l3::{L3, Learned};
use crate::packet_set::{SetKey, SetShape};
use crate::settings::{Command, Settings};
use crate::state::journal::{Layout, Moment, Sink, Steps};
use crate::state::wheel::Tick;
use crate::state::{Allocator, Bundle, Cell, Loans, Map, Scope, Shift, TableUse, Vector, Ward};
use crate::tracked::causes::Contended;
use crate::tracked::{
    SharedAllocator, SharedCell, SharedCounter, SharedDistributed, SharedMap, SharedVector,
    Sharing, Tracked, TrackedL3,
};
use crate::verdict::{Builtin, Drop, Verdict, Word};
use crate::world::{Solo, Speculation, Watched};

/// A network function in a hollow world. It is made once for a batch, and lives on the stack: where it is made for each
/// packet, every look begins by writing down where all objects are.
pub trait LookAhead {
    /// Handler `packet`, of which nothing but what it fetches has an effect.
    fn look<M: Mode>(&mut self, packet: &mut Packet<'_, M>, environment: &mut Environment);
}

/// There is nothing to fetch.
impl LookAhead for () {
    #[inline(always)]
    fn look<M: Mode>(&mut self, _: &mut Packet<'_, M>, _: &mut Environment) {}
}

/// The author's text, for analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The whole item: the attribute with its arguments, the documentation, the name, and the
    /// module's body exactly as written. What stands before the opening brace is on that brace's
    /// line, so that every line after it is the author's.
    pub text: &'static str,
    /// Arguments of the attribute.
    pub arguments: &'static str,
    /// The file it stands in, as the compiler names it.
    pub file: &'static str,
    /// Line of `text`'s first line in `file`, from 1.
    pub line: u32,
}

/// A network function.
pub trait NetworkFunction: Sized + Send + Sync + 'static {
    /// Name: that of the module, `_` written `-`.
    const NAME: &'static str;
    /// The module's documentation.
    const DOCS: &'static str;
    /// The author's text.
    const SOURCE: Source;
    /// Names of its ports; empty: any number.
    const PORTS: &'static [&'static str];
    /// 2: frames whose network layer is malformed are handled too; 3: they are dropped before; 4: and
    /// fragments are put together first.
    const LAYER: u8;
    /// Its own drop reasons.
    const REASONS: &'static [Word];
    /// Its packet set.
    const SET: Option<&'static str>;
    /// Whether it has maps, vectors or allocators, so that a prefetch pass may help.
    const OBJECTS: bool;
    /// Whether it has an `L3` among its state objects, so that interfaces, routes and neighbours mean something.
    const ROUTES: bool = false;
    /// Settings that `init` reads, and makes state of, and whether they are lists that may get more at their end while
    /// a store keeps the state.
    const INITIAL: &'static [(&'static str, bool)] = &[];
    /// Whether its handlers may rewrite packets.
    const REWRITES: bool = true;
    /// Whether its handlers may have packets enter again, by `Recirculate`.
    const REENTERS: bool = true;
    /// Period of `periodic`, in milliseconds; 0: none.
    const PERIOD_MS: u64;
    /// Its objects leave traces of what is asked of them.
    const PROFILED: bool = false;

    /// Its settings.
    type Settings: Settings;
    /// State of a packet set; `()` where there is none.
    type Set: Value;
    /// Its commands.
    type Command: Command;
    /// The same function in the [`Traced`](crate::world::Traced) world, its handlers noted in the
    /// [trace](crate::trace).
    type Traced: NetworkFunction<Settings = Self::Settings, Command = Self::Command>;
    /// The same function in the [`Parallel`](crate::world::Parallel) world.
    type Parallel: NetworkFunction<Settings = Self::Settings, Set = Self::Set, Command = Self::Command>;
    /// The same function in the [`Profiled`](crate::world::Profiled) world, which stands for
    /// `Parallel` in it.
    type Profiled: NetworkFunction<Settings = Self::Settings, Set = Self::Set, Command = Self::Command>;
    /// The same function in the world of the first hollow pass, [`Prefetch`](crate::world::Prefetch) of one's own
    /// state; `()` where there is nothing to fetch.
    type Ahead<'a>: LookAhead;
    /// The same of the second one, [`Peek`](crate::world::Peek).
    type Beyond<'a>: LookAhead;

    /// Makes its state objects.
    fn build(settings: Self::Settings, builder: &mut Builder) -> Result<Self, BuildError>;

    /// Sizes of the packet-set table.
    fn set_shape(&self) -> SetShape {
        SetShape { capacity: 0, lifetime_ns: 0 }
    }
    /// The packet set of a packet.
    #[inline(always)]
    fn set_key<M: Mode>(_packet: &Packet<'_, M>) -> SetKey {
        SetKey::None
    }

    /// Handler `init`.
    fn init(&mut self, _cx: &mut Context<'_, Solo>) {}
    /// Handler `packet_set_opened`.
    #[inline]
    fn packet_set_opened<M: Mode>(
        &mut self,
        _packet: &mut Packet<'_, M>,
        _cx: &mut Context<'_, Solo>,
    ) -> Result<Self::Set, Verdict> {
        Ok(Self::Set::zero())
    }
    /// Handler `packet_set_full`.
    #[inline]
    fn packet_set_full<M: Mode>(
        &mut self,
        _set: &Self::Set,
        _packet: &mut Packet<'_, M>,
        _cx: &mut Context<'_, Solo>,
    ) -> Verdict {
        Drop(Builtin::PacketSetsFull)
    }
    /// Handler `packet`; `set` is the packet's, or a zero one where the NF has no packet set.
    fn packet<M: Mode>(
        &mut self,
        set: &mut Self::Set,
        packet: &mut Packet<'_, M>,
        cx: &mut Context<'_, Solo>,
    ) -> Verdict;
    /// Handler `packet_set_expired`.
    fn packet_set_expired(&mut self, _set: &Self::Set, _cx: &mut Context<'_, Solo>) {}
    /// Handler `orphan`.
    #[inline]
    fn orphan<M: Mode>(
        &mut self,
        _packet: &mut Packet<'_, M>,
        _cx: &mut Context<'_, Solo>,
    ) -> Verdict {
        Drop(Builtin::NoPacketSet)
    }
    /// Handler `control`.
    fn control(
        &mut self,
        _command: Self::Command,
        _cx: &mut Context<'_, Solo>,
    ) -> Result<(), &'static str> {
        Ok(())
    }
    /// Handler `timer`.
    fn timer(&mut self, _token: u64, _cx: &mut Context<'_, Solo>) {}
    /// Handler `periodic`.
    fn periodic(&mut self, _cx: &mut Context<'_, Solo>) {}
    /// Handler `shutdown`.
    fn shutdown(&mut self, _cx: &mut Context<'_, Solo>) {}

    /// Its state in the world of the first hollow pass.
    fn ahead(&self) -> Self::Ahead<'_>;
    /// The same of the second one.
    fn beyond(&self) -> Self::Beyond<'_>;

    /// Handler `packet` in the Speculative world: beside other workers, on the same state.
    #[inline]
    fn speculate<'a>(
        &'a self,
        _set: &mut Self::Set,
        _packet: &mut Packet<'_>,
        _environment: &mut Environment,
        speculation: &Speculation<'a>,
    ) -> Verdict {
        speculation.write();
        Drop(Builtin::NoPacketSet)
    }
    /// Handler `orphan` in the Speculative world.
    #[inline]
    fn speculate_orphan<'a>(
        &'a self,
        _packet: &mut Packet<'_>,
        _environment: &mut Environment,
        _speculation: &Speculation<'a>,
    ) -> Verdict {
        Drop(Builtin::NoPacketSet)
    }
    /// Routing has something to do that is due: questions to repeat.
    fn follow_up(&mut self, _cx: &mut Context<'_, Solo>) {}
    /// `workers` workers will share the state: makes room for what each keeps for itself.
    fn share(&mut self, _workers: usize) {}

    /// Collects objects of allocators whose time has run out, and calls their handlers. `budget`
    /// bounds the objects of each allocator that are looked at; true: none is left that is due.
    #[inline]
    fn expire(&mut self, _environment: &mut Environment, _budget: u32) -> bool {
        true
    }

    /// Ticks are counted from an origin `by` later: moves the deadlines of allocators.
    fn rebase(&mut self, _by: Tick) {}

    /// Takes out of every object what belongs to the bundle's shards.
    fn take_shards(&mut self, _bundle: &mut Bundle) {}
    /// Puts into every object what another worker's [`take_shards`](Self::take_shards) took out.
    fn put_shards(&mut self, _bundle: &mut Bundle, _shift: Shift) {}
    /// The object whose entries cannot be taken out by shard, and why.
    fn immovable(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// What the entries of each object are made of, by the name of the field.
    fn layouts(&self) -> Vec<(&'static str, Layout)> {
        Vec::new()
    }
    /// From now on every object remembers what changes, and in which step.
    fn keep(&mut self, _steps: &Steps) {}
    /// Tells what has changed in every object since the last time.
    fn drain(&mut self, _moment: &Moment, _sink: &mut dyn Sink) {}
    /// Puts an entry into the object of this name, as it was told; false when it does not fit or
    /// cannot be read, or there is no such object.
    fn restore(&mut self, _object: &str, _key: &[u8], _value: &[u8], _moment: &Moment) -> bool {
        false
    }

    /// How full each state object is.
    fn tables(&self) -> Vec<TableUse> {
        Vec::new()
    }
    /// Its `Counter`s, by the name of the field.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Why an NF could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError(pub String);

impl std::fmt::Display for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BuildError {}

/// Largest capacity of a state object.
const LARGEST: u64 = 1 << 28;

/// Makes state objects for [`NetworkFunction::build`].
pub struct Builder {
    seed: u64,
    l3: toml::Table,
    ports: Vec<String>,
    loans: BTreeMap<String, Arc<Loans>>,
    wards: BTreeMap<String, Ward>,
    /// The expressions that capacities come from, by object.
    sizes: BTreeMap<&'static str, &'static str>,
    sharing: Option<Sharing>,
}

/// The settings that an expression mentions, each once.
fn settings_in(size: &str) -> Vec<String> {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let after = size.split("settings.").skip(1);
    let names = after.map(|rest| rest.split(|letter| !is_of_name(letter)).next().unwrap_or(rest));
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl Builder {
    /// Hash functions are drawn from `seed`; `ports` are the names of the run's ports, and `l3`
    /// holds the tables `interfaces`, `routes`, `neighbours`.
    pub fn new(seed: u64, ports: Vec<String>, l3: toml::Table) -> Self {
        let (loans, wards, sizes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { seed, l3, ports, loans, wards, sizes, sharing: None }
    }

    /// Has objects of the Parallel world be those of `sharing`.
    #[must_use]
    pub fn sharing(self, sharing: Sharing) -> Self {
        Self { sharing: Some(sharing), ..self }
    }

    /// What is shared, with the objects made since.
    pub fn into_sharing(self) -> Option<Sharing> {
        self.sharing
    }

    fn shared<O: Send + Sync + 'static>(
        &mut self,
        name: &str,
        make: impl FnOnce(&Domain) -> O,
    ) -> Result<Tracked<O>, BuildError> {
        let object = self.sharing.as_mut().and_then(|sharing| sharing.object(name, make));
        object.ok_or_else(|| BuildError(format!("`{name}` is made for workers that share nothing")))
    }

    /// The same object, watched.
    pub fn watched<O: Contended>(
        &mut self,
        name: &str,
        object: O,
    ) -> Result<Watched<O>, BuildError> {
        let watched = self.sharing.as_ref().and_then(Sharing::watched);
        let (profile, trail) =
            watched.ok_or_else(|| BuildError(format!("`{name}` is made where nobody watches")))?;
        let number = profile.watch(name, &object);
        Ok(Watched::new(object, trail, number))
    }

    /// A map of this capacity, of all workers.
    pub fn shared_map<K: crate::key::Key, V: Value>(
        &mut self,
        name: &str,
        capacity: u64,
    ) -> Result<Tracked<SharedMap<K, V>>, BuildError> {
        let (capacity, seed) = (self.capacity(name, capacity)?, self.seed());
        self.shared(name, |domain| SharedMap::new(domain, capacity, seed))
    }

    /// A vector of this length, of all workers.
    pub fn shared_vector<T: Value>(
        &mut self,
        name: &str,
        capacity: u64,
    ) -> Result<Tracked<SharedVector<T>>, BuildError> {
        let len = self.capacity(name, capacity)?;
        self.shared(name, |domain| SharedVector::new(domain, len))
    }

    /// An allocator of this many objects, of all workers.
    pub fn shared_allocator<T: Value>(
        &mut self,
        name: &str,
        capacity: u64,
    ) -> Result<Tracked<SharedAllocator<T>>, BuildError> {
        let capacity = self.capacity(name, capacity)?;
        self.shared(name, |domain| SharedAllocator::new(domain, capacity))
    }

    /// A value of all workers.
    pub fn shared_cell<T: Value>(
        &mut self,
        name: &str,
    ) -> Result<Tracked<SharedCell<T>>, BuildError> {
        self.shared(name, SharedCell::new)
    }

    /// A count of all workers.
    pub fn shared_counter(&mut self, name: &str) -> Result<Tracked<SharedCounter>, BuildError> {
        self.shared(name, SharedCounter::new)
    }

    /// A value in parts, of all workers. What is read of others may be `staleness_ms` old.
    pub fn shared_distributed<T: Value>(
        &mut self,
        name: &str,
        merge: fn(T, T) -> T,
        staleness_ms: u64,
    ) -> Result<Tracked<SharedDistributed<T>>, BuildError> {
        let staleness_ns = staleness_ms.saturating_mul(1_000_000);
        self.shared(name, |domain| SharedDistributed::new(domain, merge, staleness_ns))
    }

    /// Routing as the operator configured it, of a worker beside others.
    pub fn shared_l3(&mut self, name: &str) -> Result<TrackedL3, BuildError> {
        let learned = self.shared(name, |_| Learned::default())?;
        TrackedL3::new(learned, |learned| self.routing(learned))
    }

    /// Has the allocator `name` give each shard what is at home there, or lent to it. All workers have
    /// `loans` in common.
    pub fn steer(&mut self, name: &str, loans: Arc<Loans>) {
        self.loans.insert(name.to_owned(), loans);
    }

    /// Has it known which shards the entries of the object `name` belong to.
    pub fn divide(&mut self, name: &str, ward: Ward) {
        self.wards.insert(name.to_owned(), ward);
    }

    fn seed(&mut self) -> u64 {
        self.seed =
            self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.seed ^ (self.seed >> 29)
    }

    /// The capacity of the object `name` comes from the expression `size`.
    pub fn sized(&mut self, name: &'static str, size: &'static str) {
        self.sizes.insert(name, size);
    }

    /// Checks the capacity of the object `name`.
    pub fn capacity(&self, name: &str, capacity: u64) -> Result<u32, BuildError> {
        if (1..=LARGEST).contains(&capacity) {
            return Ok(capacity as u32);
        }
        let size = self.sizes.get(name).copied().unwrap_or_default();
        let (by, settings) = match size {
            "" => (String::new(), Vec::new()),
            size => (format!(" by `{size}`"), settings_in(size)),
        };
        let instead = match settings.is_empty() {
            true => format!("it holds 1 to {LARGEST}"),
            false => format!("set {} so that it holds 1 to {LARGEST}", settings.join(", ")),
        };
        Err(BuildError(format!("`{name}` would hold {capacity} entries{by}: {instead}")))
    }

    /// A map of this capacity.
    pub fn map<K: crate::key::Key, V: Value>(
        &mut self,
        name: &str,
        capacity: u64,
    ) -> Result<Map<K, V>, BuildError> {
        let capacity = self.capacity(name, capacity)?;
        let mut map = Map::new(capacity, self.seed());
        self.wards.get(name).into_iter().for_each(|ward| map.divide(ward));
        Ok(map)
    }

    /// A vector of this length.
    pub fn vector<T: Value>(&mut self, name: &str, capacity: u64) -> Result<Vector<T>, BuildError> {
        let mut vector = Vector::new(self.capacity(name, capacity)?);
        self.wards.get(name).into_iter().for_each(|ward| vector.divide(ward));
        Ok(vector)
    }

    /// An allocator of this many objects.
    pub fn allocator<T: Value>(
        &mut self,
        name: &str,
        capacity: u64,
    ) -> Result<Allocator<T>, BuildError> {
        let mut allocator = Allocator::new(self.capacity(name, capacity)?);
        if let Some(loans) = self.loans.get(name) {
            allocator.steer(Arc::clone(loans));
        }
        self.wards.get(name).into_iter().for_each(|ward| allocator.divide(ward));
        Ok(allocator)
    }

    /// A value.
    pub fn cell<T: Value>(&mut self, name: &str) -> Cell<T> {
        let mut cell = Cell::default();
        self.wards.get(name).into_iter().for_each(|ward| cell.divide(ward));
        cell
    }

    /// Routing as the operator configured it.
    pub fn l3(&mut self, name: &str) -> Result<L3, BuildError> {
        let learned = match self.wards.remove(name).map(|ward| ward.scope) {
            Some(Scope::Replicated(learned)) => learned,
            _ => Arc::default(),
        };
        self.routing(learned)
    }

    fn routing(&mut self, learned: Arc<Learned>) -> Result<L3, BuildError> {
        let seed = self.seed();
        L3::new(&self.l3, &self.ports, seed, learned).map_err(BuildError)
    }
}

/// A line of the final table about a state object.
pub trait Occupancy {
    /// How full it is.
    fn table_use(&self, name: &str) -> TableUse;
}

macro_rules! sized {
    ($(<$($parameter:ident: $bound:path),+> $object:ty, $faults:expr, $whole:literal, $common:expr;)+) => {$(
        impl<$($parameter: $bound),+> Occupancy for $object {
            fn table_use(&self, name: &str) -> TableUse {
                let faults: fn(&Self) -> u64 = $faults;
                let is_common: fn(&Self) -> bool = $common;
                TableUse {
                    name: name.to_owned(),
                    used: self.len().into(),
                    capacity: self.capacity().into(),
                    bytes: self.bytes() as u64,
                    faults: faults(self),
                    whole: $whole,
                    common: is_common(self),
                }
            }
        }
    )+};
}
sized! {
    <K: crate::key::Key, V: Value> Map<K, V>, |_| 0, false, |_| false;
    <T: Value> Allocator<T>, |_| 0, false, Self::is_common;
    <T: Value> Vector<T>, Self::faults, true, |_| false;
}

//! Which call paths the packets of a run have taken, as far as that can be told from outside.
//!
//! Of each packet its bytes, the time, the settings and what became of it are known, and so whether a
//! path's conditions on these hold. What it finds in its packet set is known where this module has
//! followed all that was stored there. A path counts as reached only where it is the one path that
//! fits a packet.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anabranch_analysis::expr::{Node, SymbolId};
use anabranch_analysis::{Access, CallPath, Paths, Verdict};
use anabranch_nf::NetworkFunction;
use anabranch_nf::settings::{Setting, Settings as _};
use anabranch_packet::{Field, Layout, Packet, parse};

use crate::edit::with_packet;
use crate::partial::Partial;
use crate::program::{Arrival, Program};
use crate::run::{Handled, Record, times};
use crate::setup::Setup;

/// Call paths and which of them have been taken.
pub struct Coverage<'p> {
    paths: &'p Paths,
    schema: Vec<Setting>,
    ports: usize,
    /// What conditions are about.
    symbols: Vec<(SymbolId, &'p str)>,
    sets: HashMap<SetKey, Set>,
    /// Numbers of the paths taken for certain.
    reached: BTreeSet<usize>,
    /// Numbers of the paths that may have been taken.
    possible: BTreeSet<usize>,
}

/// Class and fields of a packet set, the same in both directions where it has both.
type SetKey = (String, Vec<u128>);

/// What is known of a packet set.
#[derive(Clone, Debug, Default)]
struct Set {
    /// Whether it is there; `None`: not known.
    open: Option<bool>,
    /// When a packet of it was last handled.
    last_ns: u64,
    /// Its state, part by part.
    parts: BTreeMap<String, u128>,
}

/// A packet and all that is known of it.
struct Case<'c, 't> {
    handled: &'c Handled,
    arrival: &'c Arrival,
    now_ns: u64,
    class: Option<String>,
    partial: Partial<'t>,
}

/// A path that fits a packet, and the packet set it is about.
struct Fit<'p> {
    path: &'p CallPath,
    own: HashMap<SymbolId, u128>,
    key: Option<SetKey>,
}

/// Pauses after which a packet set may have expired, in nanoseconds: the shortest lifetime that can
/// be set.
const MAY_EXPIRE_NS: u64 = 1_000_000_000;

impl<'p> Coverage<'p> {
    /// Of the packets of `N`, which has these call paths.
    pub fn new<N: NetworkFunction>(paths: &'p Paths, setup: &Setup) -> Self {
        Self {
            paths,
            schema: N::Settings::schema(),
            ports: setup.ports.len(),
            symbols: symbols(paths),
            sets: HashMap::new(),
            reached: BTreeSet::new(),
            possible: BTreeSet::new(),
        }
    }

    /// Numbers of the paths that were taken for certain, and of those that may have been.
    pub fn into_numbers(self) -> (BTreeSet<usize>, BTreeSet<usize>) {
        (self.reached, self.possible)
    }

    /// Follows a run of one core from its beginning; looks at `budget` packets at most, and returns at
    /// how many.
    pub fn follow(
        &mut self,
        setup: &Setup,
        program: &Program,
        record: &Record,
        budget: usize,
    ) -> usize {
        self.sets.clear();
        let handled = record.iter().zip(times(program));
        let packets = handled.filter(|(one, _)| one.arrival.is_some()).take(budget);
        packets.map(|(handled, now_ns)| self.packet(setup, handled, now_ns)).count()
    }

    fn packet(&mut self, setup: &Setup, handled: &Handled, now_ns: u64) {
        let Some(arrival) = &handled.arrival else { return };
        let layout = parse(&arrival.bytes, arrival.wire_len);
        let malformed = layout.malformed().map(|why| why.as_str());
        if malformed.is_some() && malformed == handled.outcome.refused {
            return;
        }
        let class = self.class(arrival, layout);
        let partial = Partial::new(&self.paths.terms);
        let mut case = Case { handled, arrival, now_ns, class, partial };
        self.note_all(setup, layout, &mut case);
        let paths: &'p [CallPath] = &self.paths.paths;
        let of_port = paths
            .iter()
            .filter(|path| path.port.is_none_or(|port| port == usize::from(arrival.port)));
        let fits: Vec<Fit<'p>> = of_port.filter_map(|path| self.fit(path, &mut case)).collect();
        self.possible.extend(fits.iter().map(|fit| fit.path.number));
        if let [only] = &fits[..] {
            self.reached.insert(only.path.number);
        }
        self.store(&fits, &mut case);
    }

    /// The class of packet sets that a packet belongs to.
    fn class(&self, arrival: &Arrival, layout: Layout) -> Option<String> {
        let classes = self.paths.paths.iter().filter(|path| path.port == Some(arrival.port.into()));
        let classes: Vec<&String> = classes.filter_map(|path| path.class.as_ref()).collect();
        let has = |word: &str| match word {
            "echo" => is_echo(arrival, layout),
            header => of_packet(header, arrival, layout) == Some(1),
        };
        classes.into_iter().find(|class| class.split(' ').all(has)).cloned()
    }

    /// Notes the value of every symbol that is the same on all paths.
    fn note_all(&self, setup: &Setup, layout: Layout, case: &mut Case<'_, '_>) {
        for (id, name) in &self.symbols {
            if let Some(value) = self.symbol(name, setup, layout, case) {
                case.partial.note(*id, value);
            }
        }
    }

    /// What is known of the symbol `name`; `None`: it is not the same on all paths.
    fn symbol(
        &self,
        name: &str,
        setup: &Setup,
        layout: Layout,
        case: &Case<'_, '_>,
    ) -> Option<Option<u128>> {
        if let Some(setting) = name.strip_prefix("settings.") {
            return Some(self.setting(setting, setup));
        }
        if name.contains(".allocate") && name.contains('#') && !name.ends_with(".index") {
            return Some((!case.handled.outcome.allocated).then_some(0));
        }
        match name {
            "now" => return Some(Some(case.now_ns.into())),
            "port" => return Some(Some(case.arrival.port.into())),
            "packet.len" => return Some(Some(case.arrival.wire_len.into())),
            _ if name.ends_with(".enabled") => {
                return Some(Some(setup.settings.contains_key("interfaces").into()));
            }
            _ => {}
        }
        of_packet(name, case.arrival, layout).map(Some)
    }

    /// The value of a setting, as the operator or its default has it.
    fn setting(&self, name: &str, setup: &Setup) -> Option<u128> {
        if let Some(list) = name.strip_suffix(".len") {
            let list = setup.settings.get(list).and_then(toml::Value::as_array);
            return Some(list.map_or(0, Vec::len) as u128);
        }
        let schema = self.schema.iter().find(|setting| setting.name == name)?;
        let text = match setup.settings.get(name) {
            Some(value) => value.to_string(),
            None => schema.default.clone()?,
        };
        let text = text.trim_matches('"').replace('_', "");
        if let Some(choices) = schema.kind.strip_prefix("one of ") {
            let mut choices = choices.split(", ");
            return choices.position(|choice| choice.replace('_', "") == text).map(|at| at as u128);
        }
        match text.as_str() {
            "true" => Some(1),
            "false" => Some(0),
            number => number.parse().ok(),
        }
    }

    /// The path with what it finds, if a packet may have taken it.
    fn fit(&self, path: &'p CallPath, case: &mut Case<'_, '_>) -> Option<Fit<'p>> {
        let of_packet = path.handler.starts_with("packet (") && path.class == case.class
            || path.handler == "packet"
            || path.handler == "orphan" && case.class.is_none();
        if !of_packet || !ends_so(path, case, self.ports) {
            return None;
        }
        let allocates = |access: &Access| access.operation.starts_with("allocate");
        if case.handled.outcome.allocated && !path.accesses.iter().any(allocates) {
            return None;
        }
        let mut own = HashMap::new();
        let key = self.set_key(path, case);
        if let Some(key) = &key {
            let set =
                self.sets.get(key).cloned().unwrap_or(Set { open: Some(false), ..Set::default() });
            let expects_new = path.handler.contains("new");
            let may_expire = case.now_ns.saturating_sub(set.last_ns) >= MAY_EXPIRE_NS;
            match set.open {
                Some(true) if expects_new && !may_expire => return None,
                Some(false) if !expects_new => return None,
                _ => {}
            }
            own = self.found(path, &set);
        }
        let holds = |case: &mut Case<'_, '_>| {
            path.conditions.iter().all(|made| case.partial.value(made.term, &own) != Some(0))
        };
        holds(case).then_some(Fit { path, own, key })
    }

    /// What the packet's set holds, by symbol.
    fn found(&self, path: &CallPath, set: &Set) -> HashMap<SymbolId, u128> {
        let find = path.accesses.iter().find(|access| access.operation == "find");
        let parts = find.into_iter().flat_map(|find| &find.result);
        parts
            .filter_map(|part| match self.paths.terms.node(part.term) {
                Node::Symbol(id) => set.parts.get(&part.name).map(|value| (*id, *value)),
                _ => None,
            })
            .collect()
    }

    /// The packet set of a path that is about one.
    fn set_key(&self, path: &CallPath, case: &mut Case<'_, '_>) -> Option<SetKey> {
        let find = path.accesses.iter().find(|access| access.operation == "find")?;
        let class = path.class.clone()?;
        let layout = parse(&case.arrival.bytes, case.arrival.wire_len);
        let value = |name: &str| of_packet(name, case.arrival, layout).unwrap_or(0);
        let key: Vec<u128> = find.key.iter().map(|part| value(&part.name)).collect();
        let turned = |name: &str| match name.rsplit_once('.') {
            Some((header, "src")) => format!("{header}.dst"),
            Some((header, "dst")) => format!("{header}.src"),
            _ => name.to_owned(),
        };
        let back: Vec<u128> = find.key.iter().map(|part| value(&turned(&part.name))).collect();
        Some((class, if find.symmetric { key.min(back) } else { key }))
    }

    /// Notes what the packet has left in its set.
    fn store(&mut self, fits: &[Fit<'_>], case: &mut Case<'_, '_>) {
        let Some(key) = fits.iter().find_map(|fit| fit.key.clone()) else { return };
        let mut after: Option<Set> = None;
        for fit in fits {
            let set = self.left(fit, &key, case);
            after = Some(match after {
                None => set,
                Some(known) => known.or(&set),
            });
        }
        if let Some(after) = after {
            self.sets.insert(key, after);
        }
    }

    /// The set after one way through.
    fn left(&self, fit: &Fit<'_>, key: &SetKey, case: &mut Case<'_, '_>) -> Set {
        let is_new = fit.path.handler.contains("new");
        let known = self.sets.get(key).filter(|_| !is_new).cloned().unwrap_or_default();
        let mut set = Set { open: Some(!is_new), last_ns: case.now_ns, ..known };
        for access in fit.path.accesses.iter().filter(|access| access.kind == "PacketSet") {
            if access.operation == "insert" {
                let stored = access.outcome.is_none_or(|outcome| {
                    fit.path.conditions.iter().any(|made| made.term == outcome)
                });
                set.open = Some(stored);
            }
            for part in &access.value {
                match case.partial.value(part.term, &fit.own) {
                    Some(value) => set.parts.insert(part.name.clone(), value),
                    None => set.parts.remove(&part.name),
                };
            }
        }
        set
    }
}

/// The symbols that conditions are about, each once.
fn symbols(paths: &Paths) -> Vec<(SymbolId, &str)> {
    let conditions = paths.paths.iter().flat_map(|path| &path.conditions);
    let ids: BTreeSet<SymbolId> =
        conditions.flat_map(|made| paths.terms.unknowns(made.term).iter().copied()).collect();
    ids.into_iter().map(|id| (id, paths.terms.symbol_of(id).name.as_str())).collect()
}

impl Set {
    /// What is known where either is true.
    fn or(mut self, other: &Self) -> Self {
        self.open = self.open.filter(|_| self.open == other.open);
        self.parts.retain(|name, value| other.parts.get(name) == Some(value));
        self
    }
}

/// Whether a path ends as the packet did.
fn ends_so(path: &CallPath, case: &mut Case<'_, '_>, ports: usize) -> bool {
    let outcome = &case.handled.outcome;
    match &path.verdict {
        Verdict::Drop(word) => outcome.refused == Some(word.as_str()),
        Verdict::Forward(port) => match (&outcome.sent[..], outcome.refused) {
            ([(sent, _), ..], None) => {
                let port = case.partial.value(*port, &HashMap::new());
                port.is_none_or(|port| port == u128::from(*sent))
            }
            _ => false,
        },
        Verdict::Flood => outcome.refused.is_none() && outcome.sent.len() + 1 >= ports,
        Verdict::Recirculate(_) => true,
        Verdict::Object(_) => true,
        Verdict::Done | Verdict::Refused(_) => false,
    }
}

/// The value of a header, of one of its fields, or of another property of a packet.
fn of_packet(name: &str, arrival: &Arrival, layout: Layout) -> Option<u128> {
    let known = match name {
        "ipv4" => layout.has_ipv4(),
        "ipv6" => layout.has_ipv6(),
        "tcp" => layout.has_tcp(),
        "udp" => layout.has_udp(),
        "icmpv4" => layout.has_icmpv4(),
        "icmpv6" => layout.has_icmpv6(),
        "arp" => layout.has_arp(),
        "vlan" => layout.has_vlan(),
        "packet.is_fragment" => layout.is_fragment(),
        "packet.is_first_fragment" => layout.is_first_fragment(),
        "icmpv4.is_echo" | "icmpv6.is_echo" => is_echo(arrival, layout),
        "embedded" | "icmpv4.is_error" | "icmpv6.is_error" => {
            return Some(asked(arrival, |packet| match name {
                "embedded" => packet.embedded().is_some(),
                "icmpv4.is_error" => packet.icmpv4().is_some_and(|icmp| icmp.is_error()),
                _ => packet.icmpv6().is_some_and(|icmp| icmp.is_error()),
            }));
        }
        _ => {
            let field = Field::named(name)?;
            let readable = field.header_offset(layout).is_some() || field.header == "embedded";
            let readable = readable || name == "packet.protocol";
            return readable.then(|| field.value(&arrival.bytes, layout));
        }
    };
    Some(known.into())
}

fn is_echo(arrival: &Arrival, layout: Layout) -> bool {
    let kind = arrival.bytes.get(layout.l4_offset());
    (layout.has_icmpv4() && matches!(kind, Some(0 | 8)))
        || (layout.has_icmpv6() && matches!(kind, Some(128 | 129)))
}

fn asked(arrival: &Arrival, ask: impl FnOnce(&Packet<'_>) -> bool) -> u128 {
    with_packet(&mut arrival.bytes.clone(), |packet| ask(packet)).into()
}

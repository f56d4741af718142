//! Which call paths packets and events take, for certain: a run in the Traced world says what every
//! handler was given and what state objects answered, and with that every condition of a path is true
//! or false. What the path then says of keys, values, rewrites and the verdict has to be what the run
//! did: where it is not, the analysis and the function disagree.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use anabranch_analysis::expr::{Node, SymbolId, Term, operands};
use anabranch_analysis::{Access, CallPath, Effect, Mode, Models, Opaque, Paths, Source, Verdict};
use anabranch_nf::trace::{CALLS, Event};
use anabranch_nf::{NetworkFunction, Source as Written, Verdict as Made, Word};

use crate::configured::Configured;
use crate::endpoint::{endpoints, source_and_destination};
use crate::field::{Parsed, Property};
use crate::guide::{About, Changes, Guide, Known, Sent, is_editable, sequence};
use crate::limits::is_full;
use crate::pairs::{Pairs, asks_for_any};
use crate::passage::{Passage, passages};
use crate::program::{Act, Program};
use crate::proofs::{broken, impossible, impossible_set};
use crate::routes::{End, Trees};
use crate::run::Record;
use crate::setup::Setup;
use crate::valuation::{Scene, Valuation};

/// Disagreements that are kept.
const KEPT: usize = 20;

/// Call paths and which of them have been taken.
pub struct Coverage<'p> {
    paths: &'p Paths,
    trees: Trees,
    /// Ports that paths tell apart, and the packet classes of each.
    classes: HashMap<Option<usize>, Vec<Class>>,
    /// Loops without a known end are unrolled a few times only.
    is_cut_off: bool,
    configured: Configured,
    /// The setup whose settings are known to `valuation`.
    setup: Option<Arc<Setup>>,
    valuation: Valuation<'p>,
    set: Option<&'static str>,
    /// State objects that only `init` changes.
    of_init: HashSet<&'p str>,
    reasons: &'static [Word],
    tally: Taken,
    pairs: Pairs,
    models: Models,
    /// Numbers of the paths taken under this seed.
    taken: BTreeSet<usize>,
    /// How often a way has been looked for, under this seed.
    tried: HashMap<(usize, usize), u32>,
    /// Ways that may still be looked for in this program.
    searches: usize,
    /// Sequences that went where none had gone under any seed.
    found: Vec<Known>,
    /// Lifetimes in nanoseconds that objects have been given in this program.
    lifetimes_ns: HashMap<&'p str, BTreeSet<u64>>,
}

/// Lifetimes that are kept of an object.
const LIFETIMES: usize = 8;

/// How often a way is looked for.
const TRIES: u32 = 4;

/// Ways that are looked for in one program.
const SEARCHES: usize = 400;

/// What has been taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// Numbers of the call paths taken.
    pub reached: BTreeSet<usize>,
    /// Calls of handlers that were followed.
    pub followed: usize,
    /// Those that took a path which is not listed: loops that are unrolled a few times only.
    pub unlisted: usize,
    /// Those of which it is not known: by the condition that could not be decided, how many.
    pub unknown: BTreeMap<String, usize>,
    /// Where the analysis says something else than what ran.
    pub disagreements: Vec<String>,
    /// Why the others have not been, by their numbers.
    pub missing: BTreeMap<usize, Missing>,
    /// Conditions that never held where all before them did, with the number of paths behind each.
    pub barriers: Vec<(usize, String)>,
    /// Pairs of conflicting accesses that have met, and those that could.
    pub pairs: (usize, usize),
}

/// What would have had to be otherwise for a call path to be taken: what the first of its conditions asks that never
/// held where all before it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// A number that is counted up for years (`Paths::distant`): proved.
    Years,
    /// A table or a pool without room, which no history that was tried has filled.
    Full,
    /// Another answer of state that packets change: no history that was tried gave it.
    History,
    /// Another answer of state that only `init` decides: no settings that were tried gave it.
    Init,
    /// Another setting, which the operator has set or the search has not drawn.
    Setting,
    /// Another result of an `#[opaque]` function, which cannot be chosen.
    Opaque,
    /// Another packet, another time, or another random number.
    Packet,
    /// Another answer of routing.
    Routing,
    /// Nothing: every condition held, and what ran was told as a disagreement or as not listed.
    Uncounted,
    /// The handler has not run.
    Handler,
}

impl Missing {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Years => "years",
            Self::Full => "full",
            Self::History => "history",
            Self::Init => "init",
            Self::Setting => "setting",
            Self::Opaque => "opaque",
            Self::Packet => "packet",
            Self::Routing => "routing",
            Self::Uncounted => "uncounted",
            Self::Handler => "handler",
        }
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Years => "need a number that is counted up by one to be 2^60 or more",
            Self::Full => "need a table or a pool without room, which no sequence has filled",
            Self::History => "need an answer of state that no sequence has led to",
            Self::Init => {
                "need `init` to have set up state otherwise; no settings that were tried did"
            }
            Self::Setting => "need a setting that has not been tried",
            Self::Opaque => "need an `#[opaque]` function to return something else",
            Self::Packet => "need a packet, a time or a random number that has not been tried",
            Self::Routing => "need an answer of routing that nothing has led to",
            Self::Uncounted => "were gone, and told as a disagreement or as not listed",
            Self::Handler => "are of a handler that has not run",
        })
    }
}

impl<'p> Coverage<'p> {
    /// Of the packets of `N`, which has these call paths.
    pub fn new<N: NetworkFunction>(paths: &'p Paths) -> Self {
        let Written { text, file, line, .. } = N::SOURCE;
        let source = Source { text, file, line };
        Self {
            paths,
            trees: Trees::of(paths),
            classes: classes(paths),
            is_cut_off: paths.cut_off().next().is_some(),
            configured: Configured::of::<N>(),
            setup: None,
            valuation: Valuation::new(&paths.terms, Opaque::of(source)),
            set: N::SET,
            of_init: of_init(paths),
            reasons: N::REASONS,
            tally: Taken::default(),
            pairs: Pairs::of(paths),
            models: Models::default(),
            taken: BTreeSet::new(),
            tried: HashMap::new(),
            searches: 0,
            found: Vec::new(),
            lifetimes_ns: HashMap::new(),
        }
    }

    /// What has been taken.
    pub fn into_taken(mut self) -> Taken {
        self.tally.barriers = self.barriers();
        self.tally.missing = self.missing();
        self.tally.pairs = self.pairs.count();
        self.tally
    }

    /// Why paths have not been taken.
    fn missing(&self) -> BTreeMap<usize, Missing> {
        let all = self.paths.paths.iter();
        let open = all.filter(|path| !self.tally.reached.contains(&path.number));
        open.map(|path| (path.number, self.missing_of(path))).collect()
    }

    fn missing_of(&self, path: &CallPath) -> Missing {
        let entry = (path.handler.clone(), path.port, path.class.clone());
        let tree = self.trees.place(&entry).and_then(|place| self.trees.all.get(place));
        match tree.filter(|tree| tree.is_entered()).map(|tree| tree.barrier(path)) {
            _ if self.paths.distant.contains(&path.number) => Missing::Years,
            None => Missing::Handler,
            Some(None) => Missing::Uncounted,
            Some(Some(term)) => self.missing_for(term),
        }
    }

    /// What has to be otherwise for `term` to hold.
    fn missing_for(&self, term: Term) -> Missing {
        let terms = &self.paths.terms;
        let asked: Vec<&str> =
            terms.unknowns(term).iter().map(|id| terms.symbol_of(*id).name.as_str()).collect();
        let any = |is: &dyn Fn(&str) -> bool| asked.iter().any(|name| is(name));
        let first = |name: &str| name.split_once('.').map_or(name, |(first, _)| first).to_owned();
        let is_routing = |name: &str| {
            let mut accesses = self.paths.paths.iter().flat_map(|path| &path.accesses);
            accesses.any(|access| access.kind == "L3" && access.object == first(name))
        };
        match self.asked_state(term) {
            _ if any(&|name| name.starts_with("random#")) => Missing::Packet,
            _ if any(&is_routing) => Missing::Routing,
            Some(true) if is_full(term, self.paths) => Missing::Full,
            Some(true) => Missing::History,
            _ if self.is_returned(term) => Missing::Opaque,
            Some(false) => Missing::Init,
            None if any(&is_editable) => Missing::Packet,
            None if any(&|name| name.starts_with("settings.")) => Missing::Setting,
            None => Missing::Packet,
        }
    }

    /// Whether an opaque function returns something of `term`.
    fn is_returned(&self, term: Term) -> bool {
        let terms = &self.paths.terms;
        let mut names = terms.unknowns(term).iter().map(|id| terms.symbol_of(*id).name.as_str());
        names.any(|name| self.paths.opaque.iter().any(|opaque| opaque == object_of(name)))
    }

    /// What has to hold for the paths not taken, and never did where all before it held: by the number of
    /// paths behind it.
    fn barriers(&self) -> Vec<(usize, String)> {
        let mut behind: BTreeMap<String, usize> = BTreeMap::new();
        for (entry, tree) in self.trees.entries() {
            for (term, count) in tree.barriers() {
                let text = match term {
                    Some(term) => self.paths.terms.print(term, &self.paths.words),
                    None => format!("{} {}", entry.0, entry.2.clone().unwrap_or_default()),
                };
                *behind.entry(text).or_default() += count;
            }
        }
        let mut all: Vec<(usize, String)> =
            behind.into_iter().map(|(text, count)| (count, text)).collect();
        all.sort_by(|a, b| b.cmp(a));
        all
    }

    /// Begins a seed: what others found is not known, so that it does the same by itself.
    pub fn begin_seed(&mut self) {
        self.tried.clear();
        self.taken.clear();
        self.models = Models::default();
        self.trees.begin_seed();
        self.valuation.begin_seed();
    }

    /// Begins what is left: nothing leads any more to what has been taken under any seed. Returns the
    /// sequences that led where none had gone.
    pub(crate) fn begin_rest(&mut self) -> Vec<Known> {
        self.tried.clear();
        self.valuation.begin_seed();
        self.taken.clone_from(&self.tally.reached);
        let (paths, reached) = (&self.paths.paths, &self.tally.reached);
        let is_taken = |at: usize| paths.get(at).is_some_and(|path| reached.contains(&path.number));
        self.trees.begin_rest(is_taken);
        std::mem::take(&mut self.found)
    }

    /// Call paths that have been taken under any seed.
    pub(crate) fn reached(&self) -> usize {
        self.tally.reached.len()
    }

    /// Begins a program under `setup`: state is empty.
    pub fn begin(&mut self, setup: &Setup) {
        self.pairs.forget();
        self.lifetimes_ns.clear();
        self.searches = SEARCHES;
        if self.setup.as_deref() == Some(setup) {
            return;
        }
        let (configured, settings) = (&self.configured, &setup.settings);
        self.valuation.set(|name| configured.value(name, settings));
        self.valuation.set_elements(|name, at| configured.element(name, at, settings));
        self.setup = Some(Arc::new(setup.clone()));
    }

    /// The traced run has to do what the other did.
    pub fn compare(&mut self, one: &Record, traced: &Record) {
        if let Some(at) = one.iter().zip(traced).position(|(one, traced)| one != traced) {
            self.tally.disagreements.push(format!("step {at} of a program is another when traced"));
        }
    }

    /// Follows what the step of `program` at `at` left in the trace, and notes in `guide` what leads on.
    pub fn step(&mut self, program: &Program, at: usize, events: Vec<Event>, guide: &mut Guide) {
        let command = program.steps.get(at).and_then(|step| match &step.act {
            Act::Command(text) => Some(text.as_str()),
            _ => None,
        });
        let mut is_new = [false; 2];
        let mut has_arrived = false;
        for passage in passages(events, self.set, command) {
            let found = self.follow(at, &passage);
            is_new = [is_new[0] | found.is_new[0], is_new[1] | found.is_new[1]];
            let is_first = passage.packet.is_some() && !has_arrived;
            has_arrived |= is_first;
            self.nodes_passed(&found, guide);
            if let (Some(seen), Some(setup), true) = (&passage.packet, self.setup.clone(), is_first)
            {
                let sent = Sent { setup: &setup, program, at, seen };
                self.lead_on(&found, &passage, &sent, guide);
            }
        }
        if is_new[0] {
            guide.keep(program, at);
        }
        if let (Some(setup), true) = (&self.setup, is_new[1]) {
            self.found.push((setup.clone(), sequence(program, at)));
        }
    }

    /// The call path that each handler of these events took, under the settings of the last
    /// [`begin`](Self::begin); `None`: it is none of those listed, or cannot be told.
    pub fn paths_of(&mut self, events: Vec<Event>) -> Vec<Option<&'p CallPath>> {
        let paths: &'p Paths = self.paths;
        let passages = passages(events, self.set, None);
        let of = |passage: &Passage| {
            let found = self.follow(0, passage);
            found.path.and_then(|position| paths.paths.get(position))
        };
        passages.iter().map(of).collect()
    }

    fn follow(&mut self, step: usize, passage: &Passage) -> Found {
        let packet = passage.packet.as_ref().map(Parsed::of);
        let scene = Scene { now_ns: passage.now_ns, packet };
        let (class, port) = match &scene.packet {
            Some(packet) => self.class(passage, packet),
            None => (None, None),
        };
        self.valuation.begin(passage.symbols());
        self.check_proved(passage, class.as_deref());
        let entry = (passage.handler.clone(), port, class);
        let mut found = Found { tree: 0, nodes: Vec::new(), is_new: [false; 2], path: None };
        let Some(place) = self.trees.place(&entry) else { return found };
        let Some(tree) = self.trees.all.get_mut(place) else { return found };
        found.tree = place;
        let valuation = &mut self.valuation;
        let (nodes, end) = tree.walk(|term| valuation.value(term, &scene).map(|value| value != 0));
        found.is_new = tree.pass(&nodes);
        self.tally.followed += 1;
        found.nodes = nodes;
        match end {
            _ if passage.calls.len() >= CALLS => self.tally.unlisted += 1,
            End::Path(position) => {
                found.path = Some(position);
                self.took(step, position, &found, passage, &scene);
            }
            End::Unlisted => {
                self.tally.unlisted += 1;
                if !self.is_cut_off {
                    let handler = &passage.handler;
                    self.disagreed(format!("{handler}: the way that was gone is no path"));
                }
            }
            End::Unknown(_) if self.is_cut_off => self.tally.unlisted += 1,
            End::Unknown(term) => {
                let text = self.paths.terms.print(term, &self.paths.words);
                *self.tally.unknown.entry(text).or_default() += 1;
            }
        }
        let wrong = self.valuation.take_wrong();
        wrong.into_iter().for_each(|why| self.disagreed(why));
        found
    }

    /// Nothing is to be tried any more for the ways that have just been taken.
    fn nodes_passed(&self, found: &Found, guide: &mut Guide) {
        if found.is_new[0] {
            found.nodes.iter().for_each(|node| guide.opened((found.tree, *node)));
        }
    }

    /// Notes what leads to paths not taken: changes to the packet or to settings under which it would go
    /// there, else that other state is wanted.
    fn lead_on(&mut self, found: &Found, passage: &Passage, sent: &Sent<'_>, guide: &mut Guide) {
        let Some(tree) = self.trees.all.get(found.tree) else { return };
        let open = tree.open_ways(&found.nodes);
        if open.is_empty() {
            return;
        }
        let held = tree.held(&found.nodes);
        let behind = |way: usize| self.trees.all.get(found.tree).map_or(0, |tree| tree.left(way));
        let (mut stuck, mut listed, mut full) = (Vec::new(), Vec::new(), Vec::new());
        let mut asked = Vec::new();
        for (_, term, way) in &open {
            match self.asked_state(*term) {
                Some(true) => {
                    stuck.push(((found.tree, *way), behind(*way)));
                    asked.push(*term);
                    full.extend(is_full(*term, self.paths).then_some((found.tree, *way)));
                }
                Some(false) => listed.push((found.tree, *way)),
                None => {}
            }
        }
        guide.probe(sent, &stuck, || self.about(&asked, passage));
        guide.relist(sent, &listed);
        guide.resize(sent, &full);
        for (depth, term, way) in open {
            if self.searches == 0 {
                break;
            }
            let (fields, settings) = self.free(term, sent.setup);
            let read = !sent.setup.known_payloads.is_empty() && self.is_returned(term);
            if !fields && !settings && !read {
                continue;
            }
            let tried = self.tried.entry((found.tree, way)).or_default();
            if *tried >= TRIES {
                continue;
            }
            *tried += 1;
            self.searches -= 1;
            let mut conditions: Vec<Term> = held.iter().take(depth).copied().collect();
            conditions.push(term);
            if read {
                guide.lead_to_payloads(sent);
            }
            if settings {
                for changes in self.bounds(term, passage, sent.setup) {
                    let changed = self.changed(sent.setup, &changes).flatten();
                    changed.into_iter().for_each(|setup| guide.lead(sent, &changes, Some(setup)));
                }
            }
            let mut changes = if fields { self.model(&conditions, passage, None) } else { None };
            if changes.is_none() && settings {
                changes = self.model(&conditions, passage, Some(sent.setup));
            }
            let Some(changes) = changes.filter(|changes| !changes.is_empty()) else { continue };
            let Some(setup) = self.changed(sent.setup, &changes) else { continue };
            guide.lead(sent, &changes, setup);
        }
    }

    /// What is known of the packet of `passage`: its ends, and the lifetimes of what `terms` are about.
    fn about(&self, terms: &[Term], passage: &Passage) -> About {
        let came = passage.packet.as_ref().and_then(|seen| source_and_destination(&seen.bytes));
        let mut about = About { came, ..About::default() };
        for seen in passage.packet.iter().chain(&passage.left) {
            let ends = endpoints(&seen.bytes).into_iter();
            about.ends.extend(ends.map(|end| (end.endpoint.address, end.endpoint.port)));
        }
        about.ends.sort_unstable();
        about.ends.dedup();
        let asked = terms.iter().flat_map(|term| self.paths.terms.unknowns(*term).iter());
        let objects: BTreeSet<&str> =
            asked.map(|id| object_of(&self.paths.terms.symbol_of(*id).name)).collect();
        let given = objects.iter().filter_map(|object| self.lifetimes_ns.get(*object));
        about.lifetimes_ns.extend(given.flatten());
        about
    }

    /// The lifetimes that objects are given on `path`, but for those without an end.
    fn lifetimes(&mut self, path: &'p CallPath, scene: &Scene<'_>) -> Vec<(&'p str, u64)> {
        let set = path.effects.iter().filter_map(|effect| match effect {
            Effect::SetExpiry { lifetime_ns, .. } => Some((self.set?, *lifetime_ns)),
            _ => None,
        });
        let accesses = path.accesses.iter();
        let given = accesses.filter_map(|access| Some((access.object.as_str(), access.lifetime?)));
        let given: Vec<(&str, Term)> = given.chain(set).collect();
        let known = given.into_iter().filter_map(|(object, term)| {
            let ns = self.valuation.value(term, scene)?;
            (ns < u64::MAX.into()).then_some((object, ns as u64))
        });
        known.collect()
    }

    /// Whether a handler changes what state objects answer of which `term` is; `None`: they are not asked.
    fn asked_state(&self, term: Term) -> Option<bool> {
        let terms = &self.paths.terms;
        let names = terms.unknowns(term).iter().map(|id| terms.symbol_of(*id).name.as_str());
        let of_state = names
            .filter(|name| name.contains('#') || self.set.is_some_and(|set| name.starts_with(set)));
        let is_kept = |name: &str| self.of_init.contains(object_of(name));
        of_state.map(|name| !is_kept(name)).reduce(|any, one| any || one)
    }

    /// Whether fields of packets, or settings that `setup` leaves open, decide about `term`.
    fn free(&self, term: Term, setup: &Setup) -> (bool, bool) {
        let terms = &self.paths.terms;
        let names = || terms.unknowns(term).iter().map(|id| terms.symbol_of(*id).name.as_str());
        (names().any(is_editable), names().any(|name| self.is_open(name, setup)))
    }

    fn is_open(&self, name: &str, setup: &Setup) -> bool {
        let setting = name.strip_prefix("settings.");
        setting.is_some_and(|name| self.configured.is_scalar(name) && setup.is_open(name))
    }

    /// Changes to a packet, and to settings that `setup` leaves open, under which `conditions` hold.
    fn model(
        &mut self,
        conditions: &[Term],
        passage: &Passage,
        setup: Option<&Setup>,
    ) -> Option<Changes> {
        let scene =
            Scene { now_ns: passage.now_ns, packet: passage.packet.as_ref().map(Parsed::of) };
        let mut models = std::mem::take(&mut self.models);
        let (valuation, terms) = (&self.valuation, &self.paths.terms);
        let start = |id: SymbolId| valuation.symbol(id, &scene).unwrap_or(0);
        let is_free = |id: SymbolId| {
            let name = &terms.symbol_of(id).name;
            let is_open = setup.is_some_and(|setup| self.is_open(name, setup));
            (is_editable(name) || is_open) && valuation.symbol(id, &scene).is_some()
        };
        let model = models.find(conditions, terms, &start, &is_free);
        let changed = model.map(|all| all.into_iter().filter(|(id, value)| start(*id) != *value));
        let changes = changed.map(|changed| {
            let changes =
                changed.filter_map(|(id, value)| match terms.symbol_of(id).name.as_str() {
                    "now" => {
                        let pause = value.checked_sub(passage.now_ns.into())?;
                        Some(("pause".to_owned(), pause))
                    }
                    name => Some((name.to_owned(), value)),
                });
            changes.collect()
        });
        self.models = models;
        changes
    }

    /// Settings that `setup` leaves open, each with the value nearest to its own at which a comparison of it in `term`
    /// comes out otherwise: what was sent before goes the same way under it, as far as can be.
    fn bounds(&mut self, term: Term, passage: &Passage, setup: &Setup) -> Vec<Changes> {
        let scene =
            Scene { now_ns: passage.now_ns, packet: passage.packet.as_ref().map(Parsed::of) };
        let terms = &self.paths.terms;
        let (mut next, mut found) = (vec![term], Vec::new());
        while let Some(term) = next.pop() {
            let node = terms.node(term);
            if terms.width(term) == 1 {
                next.extend(operands(node));
            }
            let Node::Binary(operator, a, b) = *node else { continue };
            let width = terms.width(a);
            for (setting, other) in [(a, b), (b, a)] {
                let Node::Symbol(id) = terms.node(setting) else { continue };
                let name = &terms.symbol_of(*id).name;
                let known = [setting, other].map(|term| self.valuation.value(term, &scene));
                let ([Some(own), Some(limit)], true) = (known, self.is_open(name, setup)) else {
                    continue;
                };
                let holds = |value| {
                    let [a, b] = if setting == a { [value, limit] } else { [limit, value] };
                    operator.of(a, b, width)
                };
                let near = [limit.saturating_sub(1), limit, limit.saturating_add(1)].into_iter();
                let other_way = near.filter(|value| holds(*value) != holds(own));
                let nearest = other_way.min_by_key(|value| value.abs_diff(own));
                found.extend(nearest.map(|value| vec![(name.clone(), value)]));
            }
        }
        found
    }

    /// `setup` with the settings among `changes`, or none where there are none; `None`: one of them takes
    /// no such value.
    fn changed(&self, setup: &Setup, changes: &Changes) -> Option<Option<Setup>> {
        let settings = changes
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix("settings.")?, *value)));
        let mut changed = None;
        for (name, value) in settings {
            let written = self.configured.written(name, value)?;
            let changed = changed.get_or_insert_with(|| setup.clone());
            changed.settings.insert(name.to_owned(), written);
        }
        Some(changed)
    }

    /// The class and the port by which the paths of a packet are known.
    fn class(&self, passage: &Passage, packet: &Parsed<'_>) -> (Option<String>, Option<usize>) {
        let port = Some(usize::from(packet.seen.port));
        let port = port.filter(|_| self.classes.contains_key(&port));
        if !passage.handler.starts_with("packet (") {
            return (None, port);
        }
        let classes = self.classes.get(&port).map(Vec::as_slice).unwrap_or_default();
        let has = |alternatives: &Vec<Property>| {
            alternatives.iter().any(|property| property.of(packet) == Some(1))
        };
        let class = classes.iter().find(|class| class.parts.iter().all(has));
        (class.map(|class| class.name.clone()), port)
    }

    fn took(
        &mut self,
        step: usize,
        position: usize,
        found: &Found,
        passage: &Passage,
        scene: &Scene<'_>,
    ) {
        let paths: &'p Paths = self.paths;
        let Some(path) = paths.paths.get(position) else { return };
        if let Some(why) = self.disagreement(path, passage, scene) {
            self.disagree(path, passage, why);
            return;
        }
        if self.tally.reached.insert(path.number) && paths.distant.contains(&path.number) {
            let why =
                "it needs a number of 2^60 or more that grows by one at a time, and was taken";
            self.disagreed(format!("path {} ({}): {why}", path.number, path.handler));
        }
        if self.taken.insert(path.number)
            && let Some(tree) = self.trees.all.get_mut(found.tree)
        {
            tree.took(&found.nodes);
        }
        for (object, ns) in self.lifetimes(path, scene) {
            let kept = self.lifetimes_ns.entry(object).or_default();
            if kept.len() < LIFETIMES {
                kept.insert(ns);
            }
        }
        for access in &path.accesses {
            let key = access.key.iter().map(|part| self.valuation.value(part.term, scene));
            let Some(key) = key.collect::<Option<Vec<u128>>>() else { continue };
            let given = access.outcome.filter(|_| asks_for_any(access));
            let given = given.filter(|it| self.valuation.value(*it, scene) == Some(1));
            let given = given.zip(access.result.first());
            let given = given.and_then(|(_, it)| self.valuation.value(it.term, scene));
            self.pairs.access(step, access, key, given);
        }
    }

    /// Where loops are cut off, what goes round more often is not listed.
    fn disagree(&mut self, path: &CallPath, passage: &Passage, why: String) {
        if self.is_cut_off && own_accesses(path).count() < passage.calls.len() {
            self.tally.unlisted += 1;
        } else {
            let (number, handler, line) = (path.number, &path.handler, path.line);
            self.disagreed(format!("path {number} ({handler}, line {line}): {why}"));
        }
    }

    fn disagreed(&mut self, text: String) {
        if self.tally.disagreements.len() < KEPT {
            self.tally.disagreements.push(text);
        }
    }

    /// What is proved of state has to be so.
    fn check_proved(&mut self, passage: &Passage, class: Option<&str>) {
        let paths: &'p Paths = self.paths;
        for link in &paths.links {
            if let Some(why) = broken(link, &passage.calls) {
                self.disagreed(format!("{}: {link}; but {why}", passage.handler));
            }
        }
        let scene = Scene { now_ns: passage.now_ns, packet: None };
        for values in &paths.values {
            let settings = &mut |term: Term| self.valuation.value(term, &scene);
            let why = match self.set == Some(values.object.as_str()) {
                true => impossible_set(values, class, passage, settings),
                false => impossible(values, &passage.calls, settings),
            };
            if let Some(why) = why {
                self.disagreed(format!("{}: {values}; but {why}", passage.handler));
            }
        }
    }

    /// Where a path says something else than what ran.
    fn disagreement(
        &mut self,
        path: &CallPath,
        passage: &Passage,
        scene: &Scene<'_>,
    ) -> Option<String> {
        let accesses: Vec<&Access> = own_accesses(path).collect();
        if accesses.len() != passage.calls.len() {
            let (many, made) = (accesses.len(), passage.calls.len());
            return Some(format!("{many} accesses, of which {made} were made"));
        }
        for (access, (_, call)) in accesses.into_iter().zip(&passage.calls) {
            if (access.object.as_str(), access.operation.as_str()) != (call.object, call.operation)
            {
                let (object, operation) = (call.object, call.operation);
                return Some(format!("{}, not {object}.{operation}", access.operation));
            }
            let outcome = access.outcome.and_then(|outcome| self.valuation.value(outcome, scene));
            if let (Some(said), Some(made)) = (outcome, call.outcome)
                && said != u128::from(made)
            {
                let (object, operation) = (call.object, call.operation);
                return Some(format!("{object}.{operation} ends otherwise: {made}"));
            }
            let told = [(&access.key, &call.key), (&access.value, &call.stored)];
            for (said, made) in told {
                for part in said {
                    let said = self.valuation.value(part.term, scene);
                    let name = symbol_name(&part.name);
                    let made = made.all().iter().find(|(known, _)| *known == name);
                    if let (Some(said), Some((_, made))) = (said, made)
                        && said != *made
                    {
                        let (object, line) = (&access.object, access.line);
                        return Some(format!(
                            "{object}.{} on line {line}: `{}` is {made}, not {said}",
                            access.operation, part.name
                        ));
                    }
                }
            }
        }
        self.other_verdict(path, passage, scene).or_else(|| self.other_packet(path, passage, scene))
    }

    fn other_verdict(
        &mut self,
        path: &CallPath,
        passage: &Passage,
        scene: &Scene<'_>,
    ) -> Option<String> {
        let made = passage.verdict?;
        let mut is_to = |port, made: anabranch_packet::Port| {
            self.valuation.value(port, scene).is_none_or(|port| port == made.index().into())
        };
        let same = match (&path.verdict, made) {
            (Verdict::Forward(port), Made::Forward(made)) => is_to(*port, made),
            (Verdict::Recirculate(port), Made::Recirculate(made)) => is_to(*port, made),
            (Verdict::Drop(word), Made::Discard(reason)) => reason.word(self.reasons) == word,
            (Verdict::Flood, Made::Flood) | (Verdict::Object(_), _) => true,
            _ => false,
        };
        (!same).then(|| format!("{}, not {made:?}", self.paths.verdict_of(path)))
    }

    /// Which field leaves with another value than the path says.
    fn other_packet(
        &mut self,
        path: &CallPath,
        passage: &Passage,
        scene: &Scene<'_>,
    ) -> Option<String> {
        let passes =
            matches!(path.verdict, Verdict::Forward(_) | Verdict::Flood | Verdict::Recirculate(_));
        let is_routed = passage.calls.iter().any(|(_, call)| call.operation == "forward");
        let (Some(left), Some(arrived), true) = (&passage.left, &scene.packet, passes) else {
            return None;
        };
        let left = Parsed::of(left);
        let settable = anabranch_packet::fields().filter(|field| field.settable);
        for field in settable {
            let property = Property::Read(field);
            let rewrite = path
                .rewrites
                .iter()
                .find(|one| (one.header, one.field) == (field.header, field.name));
            let said = match rewrite {
                Some(rewrite) => self.valuation.value(rewrite.term, scene),
                None if is_routed => None,
                None => property.of(arrived),
            };
            // Setters have no effect on what a packet quotes only in part, or not at all.
            let is_quoted =
                field.header == "embedded" && property.of(arrived) == property.of(&left);
            if let (Some(said), Some(made), false) = (said, property.of(&left), is_quoted)
                && said != made
            {
                let (header, name) = (field.header, field.name);
                return Some(format!("{header}.{name} leaves as {made}, not {said}"));
            }
        }
        None
    }
}

/// The state objects that are asked on these paths, and that none of them changes.
fn of_init(paths: &Paths) -> HashSet<&str> {
    let all = || paths.paths.iter().flat_map(|path| &path.accesses);
    let changed: HashSet<&str> = all()
        .filter(|access| access.mode == Mode::Write)
        .map(|access| access.object.as_str())
        .collect();
    let is_state = |access: &&Access| matches!(access.kind, "Map" | "Vector" | "Cell");
    let asked = all().filter(is_state).map(|access| access.object.as_str());
    asked.filter(|object| !changed.contains(object)).collect()
}

/// The object that a symbol is named after.
fn object_of(name: &str) -> &str {
    name.split_once('.').map_or(name, |(object, _)| object)
}

/// Accesses that the handler makes, those of the runtime apart.
fn own_accesses(path: &CallPath) -> impl Iterator<Item = &Access> {
    let own = |access: &&Access| access.kind != "PacketSet" && access.operation != "expire";
    path.accesses.iter().filter(own)
}

/// Which way a call of a handler went.
struct Found {
    /// Where its tree stands.
    tree: usize,
    /// Nodes of it.
    nodes: Vec<usize>,
    /// Whether no other had passed one of them under this seed, or under any.
    is_new: [bool; 2],
    /// The path that it took, by its place among all.
    path: Option<usize>,
}

/// A packet class: what its packets have, of each part one.
struct Class {
    name: String,
    parts: Vec<Vec<Property>>,
}

/// The classes of each port, in the order in which a packet belongs to the first that it matches.
fn classes(paths: &Paths) -> HashMap<Option<usize>, Vec<Class>> {
    let mut all: HashMap<Option<usize>, Vec<Class>> = HashMap::new();
    for path in &paths.paths {
        let of_port = all.entry(path.port).or_default();
        let Some(name) = &path.class else { continue };
        if of_port.iter().any(|class| class.name == *name) {
            continue;
        }
        let parts = name.split(' ').map(|word| match word {
            "echo" => vec!["icmpv4.is_echo", "icmpv6.is_echo"],
            header => vec![header],
        });
        let parts = parts.map(|names| names.into_iter().filter_map(Property::named).collect());
        of_port.push(Class { name: name.clone(), parts: parts.collect() });
    }
    all
}

/// What the trace calls a part of a key or of a value.
pub(crate) fn symbol_name(part: &str) -> String {
    let name = part.strip_suffix("variant").map_or(part, |of| of.trim_end_matches('.'));
    let name = name.replace("some.0", "value");
    if name.is_empty() { name } else { format!(".{name}") }
}

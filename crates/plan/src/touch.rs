//! What call paths touch: each access to a state object with its key, in the words of the fields
//! of the packet that made it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use anabranch_analysis::expr::{Binary, Node, SymbolId, Term, Terms};
use anabranch_analysis::{Access, CallPath, Mode, Paths, Site};

use crate::class::{Classes, classes_of};
use crate::filter::{Caller, Need, OF_CONTROL, caller};
use crate::indices::Indices;
use crate::timer::{Arrival, in_fields};
use crate::variant::{aligned, hide_unknown};
use crate::word::{Fields, Word, word};

/// Where a packet came from, and what it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Context {
    pub(crate) port: usize,
    pub(crate) classes: Classes,
}

/// A part of a key or of a stored value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Linear in the bits of the packet's fields; constants too.
    Word(Word),
    /// A word plus or minus something that is the same for all packets.
    Shifted { base: Word, by: String },
    /// The same for all packets: over settings and what `init` left.
    Rigid,
    /// An index that this allocator gave out on this path.
    Fresh(usize),
    /// Read from a state object.
    Stored(Stored),
    /// Found in an object that only `init` writes.
    Initial,
    /// Anything else, and what it is.
    Opaque(&'static str),
}

/// What an access read: a part of what an object stores.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Stored {
    pub(crate) object: usize,
    pub(crate) part: String,
    /// Which read it was: parts of one access come from one entry.
    pub(crate) access: usize,
}

/// An access to an entry of a state object.
#[derive(Debug, Clone)]
pub(crate) struct Touch<'p> {
    pub(crate) object: usize,
    pub(crate) writes: bool,
    pub(crate) symmetric: bool,
    /// The key list of a packet set: entries of different lists are never the same.
    pub(crate) list: Option<&'p str>,
    pub(crate) key: Vec<Part>,
    /// The packet, where there is one.
    pub(crate) context: Option<Context>,
    /// Reads that are known to have found what was stored, not a default.
    pub(crate) certain: BTreeSet<(usize, usize)>,
    /// Whether the key is the touching packet's own, and not out of state or a timer's.
    pub(crate) direct: bool,
    pub(crate) line: u32,
    /// Path and position of one such access.
    pub(crate) at: (usize, usize),
}

/// What an access stores.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) context: Option<Context>,
    pub(crate) parts: BTreeMap<String, Part>,
}

/// Everything that the call paths touch.
#[derive(Clone)]
pub(crate) struct Touches<'p> {
    pub(crate) paths: &'p Paths,
    pub(crate) needs: Vec<Need>,
    pub(crate) fields: Fields,
    pub(crate) contexts: Vec<Option<Context>>,
    pub(crate) indices: Rc<Indices<'p>>,
    pub(crate) touches: Vec<Touch<'p>>,
    /// Objects that are shared: who stored what is read from them may be in any shard.
    pub(crate) distrusted: BTreeSet<usize>,
    /// By object.
    pub(crate) writes: Vec<Vec<Write>>,
    /// The parts of an object's keys, in the order in which they stand.
    names: Vec<Vec<String>>,
    results: HashMap<Term, Stored>,
    fresh: HashMap<Term, usize>,
    parts: HashMap<Term, Part>,
}

/// Operations that take a place from an allocator's pool instead of touching a given entry.
pub(crate) const POOL: [&str; 2] = ["allocate", "allocate_within"];

const AFTER_LOOP: Part = Part::Opaque("is made on a path with a loop whose end is unknown");

/// Whether only the control plane comes to a call.
fn of_control(site: &Site) -> bool {
    site.handlers.iter().all(|handler| OF_CONTROL.contains(&handler.as_str()))
}

/// Handlers with a loop that was cut off, as the text names them.
fn cut_off(paths: &Paths) -> BTreeSet<&str> {
    let cut = paths.paths.iter().filter(|path| path.cut_off);
    let names = cut.flat_map(|path| {
        let opens = path.handler == "packet (new packet set)";
        let name = path.handler.split(' ').next();
        name.into_iter().chain(opens.then_some("packet_set_opened"))
    });
    names.collect()
}

/// What makes two accesses one write.
type StoredAs = (usize, Option<Context>, Vec<(String, Part)>);

/// What makes two accesses one touch.
type Signature = (usize, u32, [bool; 2], Option<Context>, Vec<Part>, BTreeSet<(usize, usize)>);

/// What has been collected once.
#[derive(Default)]
struct Known {
    touched: HashSet<Signature>,
    stored: BTreeSet<StoredAs>,
}

impl<'p> Touches<'p> {
    pub(crate) fn read(paths: &'p Paths, needs: Vec<Need>) -> Self {
        let mut all = Self {
            paths,
            contexts: Vec::new(),
            indices: Rc::new(Indices::new(paths)),
            fields: Fields::default(),
            touches: Vec::new(),
            distrusted: BTreeSet::new(),
            writes: vec![Vec::new(); needs.len()],
            names: vec![Vec::new(); needs.len()],
            needs,
            results: HashMap::new(),
            fresh: HashMap::new(),
            parts: HashMap::new(),
        };
        all.contexts = paths.paths.iter().map(|path| context(path, &paths.terms)).collect();
        paths.paths.iter().for_each(|path| all.name_results(path));
        all.collect();
        all.distrust();
        all
    }

    /// Where a loop was cut off or runs were given up, every access that the text of the handler has may be made
    /// under any key: also on a path that leaves the loop in a turn which is not listed.
    fn distrust(&mut self) {
        let cut_off = cut_off(self.paths);
        let may_be = |site: &Site| {
            self.paths.given_up || site.handlers.iter().any(|one| cut_off.contains(one.as_str()))
        };
        for (object, known) in self.paths.objects.iter().enumerate() {
            if self.needs[object] != Need::Sharding {
                continue;
            }
            for site in known.sites.iter().filter(|site| !of_control(site) && may_be(site)) {
                self.touches.push(Touch {
                    object,
                    writes: site.writes,
                    symmetric: false,
                    list: None,
                    key: vec![AFTER_LOOP],
                    context: None,
                    certain: BTreeSet::new(),
                    direct: false,
                    line: site.line,
                    at: (0, 0),
                });
            }
        }
    }

    fn terms(&self) -> &'p Terms {
        &self.paths.terms
    }

    /// Objects that keys are read from.
    pub(crate) fn sources(&self) -> BTreeSet<usize> {
        let keys = self.touches.iter().flat_map(|touch| &touch.key);
        let values = self.writes.iter().flatten().flat_map(|write| write.parts.values());
        let stored = keys.chain(values).filter_map(|part| match part {
            Part::Stored(stored) => Some(stored.object),
            _ => None,
        });
        stored.collect()
    }

    /// The object of that name.
    pub(crate) fn object(&self, name: &str) -> Option<usize> {
        self.paths.objects.iter().position(|object| object.name == name)
    }

    /// Notes which unknowns are results of which reads.
    fn name_results(&mut self, path: &CallPath) {
        for access in &path.accesses {
            let Some(object) = self.object(&access.object) else { continue };
            if access.operation == "expire" {
                continue;
            }
            for part in &access.result {
                let Some(read) = self.read_of(part.term, access) else { continue };
                if POOL.contains(&access.operation.as_str()) {
                    self.fresh.insert(part.term, object);
                } else {
                    let stored = Stored { object, part: part.name.clone(), access: read };
                    self.results.entry(part.term).or_insert(stored);
                }
            }
        }
    }

    /// The number of the read that made an unknown, if it is one of this access's object.
    fn read_of(&self, term: Term, access: &Access) -> Option<usize> {
        let Node::Symbol(id) = *self.terms().node(term) else { return None };
        let name = self.terms().symbol_of(id).name.strip_prefix(&access.object)?;
        let name = name.strip_prefix('.')?;
        let Some((_, rest)) = name.split_once('#') else {
            return (access.kind == "PacketSet").then_some(0);
        };
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    }

    fn collect(&mut self) {
        let brought = self.brought_by_timers();
        let mut known = Known::default();
        let paths = self.paths;
        for (number, path) in paths.paths.iter().enumerate() {
            let arrivals = match (caller(path), &brought) {
                (Caller::Shutdown, _) => Vec::new(),
                (Caller::Timer, Some(brought)) => self.arrivals_of_timer(path, brought),
                _ => {
                    let own = self.own_results(path);
                    vec![Arrival { context: self.contexts[number], own, token: None }]
                }
            };
            for arrival in arrivals {
                self.collect_path(number, &arrival, &mut known);
            }
        }
    }

    /// What a path touches that is come to in this way.
    fn collect_path(&mut self, number: usize, arrival: &Arrival, known: &mut Known) {
        let path = &self.paths.paths[number];
        let certain = self.certain(path);
        let context = arrival.context;
        for (position, access) in path.accesses.iter().enumerate() {
            let Some(object) = self.object(&access.object) else { continue };
            if self.needs[object] != Need::Sharding {
                continue;
            }
            self.note_write(object, access, arrival, &mut known.stored);
            // A command is carried out by every shard, each on its own entries.
            if caller(path) == Caller::Control {
                continue;
            }
            // What expires, expires in the shard that holds it.
            let expires = access.kind == "PacketSet" && access.operation == "expire";
            if expires || POOL.contains(&access.operation.as_str()) {
                continue;
            }
            let key = self.key(access, arrival, path.cut_off);
            // Finding a packet set restarts its lifetime.
            let writes = access.mode == Mode::Write || access.kind == "PacketSet";
            let used = used(&certain, &key);
            let from_state = key.iter().any(|part| matches!(part, Part::Stored(_)));
            let direct = caller(path) == Caller::Packet && !from_state;
            let how = [writes, direct];
            let signature = (object, access.line, how, context, key.clone(), used.clone());
            if !known.touched.insert(signature) {
                continue;
            }
            self.touches.push(Touch {
                object,
                writes,
                symmetric: access.symmetric,
                list: path.class.as_deref().filter(|_| access.kind == "PacketSet"),
                key,
                context,
                certain: used,
                direct,
                line: access.line,
                at: (number, position),
            });
        }
    }

    /// What an expired object held and its index: named alike in every such handler.
    fn own_results(&self, path: &CallPath) -> HashMap<Term, Part> {
        let mut own = HashMap::new();
        for access in path.accesses.iter().filter(|access| access.operation == "expire") {
            let Some(object) = self.object(&access.object) else { continue };
            own.extend(access.key.iter().map(|part| (part.term, Part::Fresh(object))));
            for part in &access.result {
                let stored = Stored { object, part: part.name.clone(), access: access.number };
                own.insert(part.term, Part::Stored(stored));
            }
        }
        own
    }

    /// Reads whose path asks for something that a default, which is zero, does not have.
    fn certain(&self, path: &CallPath) -> BTreeSet<(usize, usize)> {
        let conditions = path.conditions.iter();
        let read = conditions.filter_map(|made| self.results.get(&made.term));
        read.map(|stored| (stored.object, stored.access)).collect()
    }

    fn key(&mut self, access: &Access, arrival: &Arrival, cut: bool) -> Vec<Part> {
        // The key of a packet set is the arriving packet's, whatever the handler does.
        if cut && access.kind != "PacketSet" {
            return vec![AFTER_LOOP];
        }
        let parts = self.named(&access.key, arrival);
        match self.object(&access.object) {
            Some(object) if access.kind == "Map" => aligned(parts, &mut self.names[object]),
            _ => parts.into_iter().map(|(_, part)| part).collect(),
        }
    }

    /// Parts with their names.
    fn named(
        &mut self,
        parts: &[anabranch_analysis::Part],
        arrival: &Arrival,
    ) -> Vec<(String, Part)> {
        let named = parts.iter().map(|part| {
            let made = self.part(part.term, &arrival.own);
            let made = match &arrival.token {
                Some(token) => in_fields(made, token, &mut self.fields),
                None => made,
            };
            (part.name.clone(), made)
        });
        let mut named: Vec<(String, Part)> = named.collect();
        hide_unknown(&mut named);
        named
    }

    fn note_write(
        &mut self,
        object: usize,
        access: &Access,
        arrival: &Arrival,
        stored: &mut BTreeSet<StoredAs>,
    ) {
        if access.mode == Mode::Read || access.value.is_empty() {
            return;
        }
        let parts = self.named(&access.value, arrival);
        let context = arrival.context;
        if stored.insert((object, context, parts.clone())) {
            self.writes[object].push(Write { context, parts: parts.into_iter().collect() });
        }
    }

    /// What a term is to the packet of its path.
    pub(crate) fn part(&mut self, term: Term, own: &HashMap<Term, Part>) -> Part {
        if let Some(own) = own.get(&term) {
            return own.clone();
        }
        if let Some(known) = self.parts.get(&term) {
            return known.clone();
        }
        let part = self.part_anew(term);
        self.parts.insert(term, part.clone());
        part
    }

    fn part_anew(&mut self, term: Term) -> Part {
        if let Some(object) = self.fresh.get(&term) {
            return Part::Fresh(*object);
        }
        if let Some(stored) = self.results.get(&term) {
            let stored = stored.clone();
            return match self.needs[stored.object] {
                Need::Sharding => Part::Stored(stored),
                Need::ReadOnly if self.is_rigid(term) => Part::Rigid,
                Need::ReadOnly => Part::Initial,
                _ => Part::Opaque("is read from what the control plane may change"),
            };
        }
        if let Some(word) = word(term, self.paths_terms(), &mut self.fields) {
            return Part::Word(word);
        }
        if self.is_rigid(term) {
            return Part::Rigid;
        }
        self.shifted(term).unwrap_or_else(|| Part::Opaque(self.opaque(term)))
    }

    fn paths_terms(&self) -> &'p Terms {
        &self.paths.terms
    }

    /// `field + rigid` and `field - rigid`: equal where the fields are.
    fn shifted(&mut self, term: Term) -> Option<Part> {
        let inner = narrow(term, self.terms());
        let Node::Binary(operator @ (Binary::Add | Binary::Sub | Binary::Xor), a, b) =
            *self.terms().node(inner)
        else {
            return None;
        };
        let sign = match operator {
            Binary::Add => "+",
            Binary::Sub => "-",
            _ => "^",
        };
        let (base, by) = if self.is_rigid(b) { (a, b) } else { (b, a) };
        if !self.is_rigid(by) || (operator == Binary::Sub && by == a) {
            return None;
        }
        let base = word(base, self.paths_terms(), &mut self.fields)?;
        Some(Part::Shifted { base, by: format!("{sign} {}", self.rigid_text(by)) })
    }

    /// Whether a term is the same for all packets of a run.
    pub(crate) fn is_rigid(&self, term: Term) -> bool {
        let plain = !matches!(self.terms().node(term), Node::Apply(..));
        plain && self.terms().unknowns(term).iter().all(|id| self.is_rigid_symbol(*id))
    }

    fn is_rigid_symbol(&self, id: SymbolId) -> bool {
        let name = &self.terms().symbol_of(id).name;
        let mut words = name.splitn(2, '.');
        let first = words.next().unwrap_or_default();
        if first == "settings" {
            return true;
        }
        let object = self.object(first).map(|at| (&self.paths.objects[at], &self.needs[at]));
        object.is_some_and(|(object, need)| object.kind == "Cell" && *need == Need::ReadOnly)
    }

    /// A rigid term in words that do not depend on the path.
    pub(crate) fn rigid_text(&self, term: Term) -> String {
        let known = self.results.get(&term).and_then(|stored| {
            let object = &self.paths.objects[stored.object].name;
            let mut left = self.paths.left_by_init.iter();
            left.find(|left| left.object == *object && left.part == stored.part)
        });
        let term = known.map_or(term, |left| left.term);
        let text = self.terms().print(term, &self.paths.words);
        without_reads(&text)
    }

    fn is_of_payload(&self, term: Term) -> bool {
        // A state object may be called so, too.
        let is_payload = |name: &str| ["payload.len", "payload[]"].contains(&name);
        let mut unknowns = self.terms().unknowns(term).iter();
        unknowns.any(|id| is_payload(&self.terms().symbol_of(*id).name))
    }

    /// Why a term is no key that sharding can follow.
    fn opaque(&self, term: Term) -> &'static str {
        match self.terms().node(term) {
            _ if self.terms().is_of_loop(term) => "is made in a loop whose end is unknown",
            _ if self.is_of_payload(term) => {
                "is made of the payload, by which neither a NIC nor a worker steers"
            }
            Node::Apply(..) => "is an unknown function",
            Node::Ite(..) => "is a choice between values",
            Node::Binary(Binary::Add | Binary::Sub, ..) => "is a sum that carries",
            Node::Binary(Binary::Mul, ..) => "is a product",
            Node::Binary(Binary::ShiftLeft | Binary::ShiftRight | Binary::And, a, b)
                if self.is_rigid(*a) != self.is_rigid(*b) =>
            {
                "is shifted or masked by a setting, and a plan holds for all settings \
                 (a constant in its place is followed)"
            }
            Node::Symbol(_) => "is no packet field",
            _ => "is not linear in the bits of packet fields",
        }
    }
}

/// A term before it was widened.
pub(crate) fn narrow(term: Term, terms: &Terms) -> Term {
    match *terms.node(term) {
        Node::Extend { signed: false, of, .. } => of,
        _ => term,
    }
}

/// `pool.get#2.ports` is `pool.ports` on every path.
pub(crate) fn without_reads(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('#') {
        let dot = rest[..at].rfind('.').unwrap_or(at);
        out.push_str(&rest[..dot]);
        rest = rest[at + 1..].trim_start_matches(|letter: char| letter.is_ascii_digit());
    }
    out.push_str(rest);
    out
}

/// Those of the certain reads that a key uses.
fn used(certain: &BTreeSet<(usize, usize)>, key: &[Part]) -> BTreeSet<(usize, usize)> {
    let stored = key.iter().filter_map(|part| match part {
        Part::Stored(stored) => Some((stored.object, stored.access)),
        _ => None,
    });
    stored.filter(|read| certain.contains(read)).collect()
}

/// The packet of a path.
fn context(path: &CallPath, terms: &Terms) -> Option<Context> {
    let with_packet = path.handler.starts_with("packet (")
        || path.handler == "packet"
        || path.handler == "orphan";
    with_packet.then(|| Context { port: path.port.unwrap_or(0), classes: classes_of(path, terms) })
}

#[cfg(test)]
mod tests {
    use super::without_reads;

    #[test]
    fn names_of_reads_are_left_out() {
        assert_eq!(without_reads("pool.get#12.ports"), "pool.ports");
        assert_eq!(without_reads("a.get#1 + b.read#22.c"), "a + b.c");
        assert_eq!(without_reads("settings.sessions"), "settings.sessions");
    }
}

//! Keys that come out of state: what was stored there was a field of the packet that stored it, and
//! that packet was in the same shard.

use crate::touch::{Context, Part, Stored, Touch, Touches};

/// A key of one packet: that of the access, or the one that stored what the key is made of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Keyed<'p> {
    pub(crate) object: usize,
    pub(crate) writes: bool,
    pub(crate) symmetric: bool,
    /// The key list of a packet set: entries of different lists are never the same.
    pub(crate) list: Option<&'p str>,
    /// The packet; none where the access belongs to no packet.
    pub(crate) context: Option<Context>,
    pub(crate) parts: Vec<Part>,
    /// Whether it is the key of the packet that makes the access.
    pub(crate) direct: bool,
    pub(crate) line: u32,
    /// Path and position of one such access.
    pub(crate) at: (usize, usize),
}

/// State read from state read from state …: deeper is not followed.
const DEEPEST: usize = 4;

const NOT_STORED: Part = Part::Opaque("is read from state that is stored elsewhere");
pub(crate) const SHARED: Part =
    Part::Opaque("is read from what packets of other shards may have left");
const OF_INIT: Part = Part::Opaque("may be what `init` has stored, for several packets the same");
pub(crate) const OTHER_PACKET: Part = Part::Opaque("is of another packet than the rest of the key");

impl<'p> Touches<'p> {
    /// The ways in which a touch can be followed; each is a list of keys that all must be sharded
    /// rightly. One way is enough: the packets that it names are in the shard of the access.
    pub(crate) fn ways(&self, touch: &Touch<'p>) -> Vec<Vec<Keyed<'p>>> {
        self.ways_of(&touch.key, touch.context, touch, 0)
    }

    fn ways_of(
        &self,
        key: &[Part],
        context: Option<Context>,
        touch: &Touch<'p>,
        depth: usize,
    ) -> Vec<Vec<Keyed<'p>>> {
        let sources = sources(key);
        let mut ways = Vec::new();
        let trusted = |source: &&Stored| !self.distrusted.contains(&source.object);
        for source in sources.iter().filter(|_| depth < DEEPEST).filter(trusted) {
            let by_writers = self.written(key, source, touch, depth);
            ways.extend(by_writers.filter(|way| !way.is_empty()));
        }
        let own: Vec<Part> = key.iter().map(|part| self.without_state(part)).collect();
        ways.push(vec![keyed(own, context, touch)]);
        ways
    }

    /// The key in terms of the packets that stored what `source` read.
    fn written(
        &self,
        key: &[Part],
        source: &Stored,
        touch: &Touch<'p>,
        depth: usize,
    ) -> Option<Vec<Keyed<'p>>> {
        let mut all = Vec::new();
        for write in &self.writes[source.object] {
            let parts: Vec<Part> =
                key.iter().map(|part| substituted(part, source, &write.parts)).collect();
            // A writer that leaves these parts as they were adds nothing.
            let unchanged = key.iter().zip(&parts).filter(|(part, _)| is_from(part, source));
            if unchanged.clone().all(|(old, new)| is_copy(old, new)) {
                continue;
            }
            let ways = self.ways_of(&parts, write.context, touch, depth + 1);
            all.extend(ways.into_iter().next()?);
        }
        let object = &self.paths.objects[source.object];
        let defaults = matches!(object.kind, "Vector" | "Cell");
        let mut may_be = Vec::new();
        if defaults && !touch.certain.contains(&(source.object, source.access)) {
            may_be.push(Part::Opaque("may be a default that nothing has stored"));
        }
        // Objects of `init` stand in every shard, which the plan says.
        if object.kind != "Allocator" && object.written_by("init").is_some() {
            let is_index = all.iter().any(|keyed| matches!(keyed.parts[..], [Part::Fresh(_)]));
            may_be.push(if is_index { Part::Initial } else { OF_INIT });
        }
        for other in may_be {
            let parts = key.iter().map(|part| match is_from(part, source) {
                true => other.clone(),
                false => part.clone(),
            });
            all.push(keyed(parts.collect(), touch.context, touch));
        }
        Some(all)
    }

    fn without_state(&self, part: &Part) -> Part {
        match part {
            Part::Stored(stored) if self.distrusted.contains(&stored.object) => SHARED,
            Part::Stored(stored) => match self.paths.objects[stored.object].written_by("init") {
                Some(_) => OF_INIT,
                None => NOT_STORED,
            },
            other => other.clone(),
        }
    }
}

/// The reads that a key is made of.
fn sources(key: &[Part]) -> Vec<Stored> {
    let mut sources: Vec<Stored> = Vec::new();
    for part in key {
        if let Part::Stored(stored) = part
            && !sources.iter().any(|known| same_read(known, stored))
        {
            sources.push(stored.clone());
        }
    }
    sources
}

fn same_read(a: &Stored, b: &Stored) -> bool {
    (a.object, a.access) == (b.object, b.access)
}

fn is_from(part: &Part, source: &Stored) -> bool {
    matches!(part, Part::Stored(stored) if same_read(stored, source))
}

/// Whether a writer stores what it has read in the same place.
fn is_copy(old: &Part, new: &Part) -> bool {
    match (old, new) {
        (Part::Stored(old), Part::Stored(new)) => {
            (old.object, &old.part) == (new.object, &new.part)
        }
        _ => false,
    }
}

fn substituted(
    part: &Part,
    source: &Stored,
    stored: &std::collections::BTreeMap<String, Part>,
) -> Part {
    match part {
        Part::Stored(own) if same_read(own, source) => {
            stored.get(&own.part).cloned().unwrap_or(NOT_STORED)
        }
        Part::Word(word) if word.iter().all(|sum| sum.bits.is_empty()) => part.clone(),
        Part::Rigid | Part::Initial | Part::Opaque(_) => part.clone(),
        _ => OTHER_PACKET,
    }
}

fn keyed<'p>(parts: Vec<Part>, context: Option<Context>, touch: &Touch<'p>) -> Keyed<'p> {
    Keyed {
        object: touch.object,
        writes: touch.writes,
        symmetric: touch.symmetric,
        list: touch.list,
        context,
        parts,
        direct: touch.direct,
        line: touch.line,
        at: touch.at,
    }
}

//! What sharding each state object needs: the constraints of its entries, or why there are none
//! that would do.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_rss::Which;

use crate::class::Classes;
use crate::constraint::{Cause, Constraint, Constraints, Equation, equations, key_fields, sides};
use crate::filter::{Caller, Need, caller};
use crate::left::{read, why_left};
use crate::owned::{Decoded, decoded, interchangeable, is_foreign, owner};
use crate::resolve::{Keyed, OTHER_PACKET, SHARED};
use crate::returned::{Arriving, unasked};
use crate::stale::{is_given, is_given_anew};
use crate::touch::{Context, Part, Touches};
use crate::variant::ABSENT;
use crate::word::{FieldId, Fields, Sum};

/// What sharding needs.
#[derive(Debug, Default)]
pub(crate) struct Sharding {
    /// Constraints by object.
    pub(crate) constraints: BTreeMap<usize, Constraints>,
    /// Objects that cannot be sharded by themselves: why, and the lines.
    pub(crate) refused: BTreeMap<usize, (String, BTreeSet<u32>)>,
    /// Objects by the allocator that names their entries.
    pub(crate) owners: BTreeMap<usize, usize>,
    /// Allocators whose indices come back in packets and are steered.
    pub(crate) steered: Vec<Steered>,
    /// Allocators for whom an interchangeable condition stands, with its lines.
    pub(crate) interchangeable: BTreeMap<usize, BTreeSet<u32>>,
    /// Objects with entries that `init` makes and packets find by what `init` stored.
    pub(crate) initial: BTreeMap<usize, BTreeSet<u32>>,
    /// Parts of keys that no constraint could use: line, object, why.
    pub(crate) unused: BTreeSet<(u32, usize, &'static str)>,
}

impl Sharding {
    /// Shares an object: where its indices lead is nobody's matter any more.
    pub(crate) fn refuse(&mut self, object: usize, reason: Refusal) {
        self.refused.insert(object, reason);
        self.constraints.remove(&object);
        self.steered.retain(|one| one.allocator != object);
    }

    /// These objects, and with each all that the same allocator names: what packets must meet for its indices is one
    /// constraint for all of them.
    pub(crate) fn with_indices_of(&self, objects: &BTreeSet<usize>) -> BTreeSet<usize> {
        let owners: BTreeSet<usize> =
            objects.iter().filter_map(|object| self.owners.get(object)).copied().collect();
        let named = self.owners.iter().filter(|(_, owner)| owners.contains(owner));
        objects.iter().chain(named.map(|(object, _)| object)).copied().collect()
    }
}

/// An allocator that gives out only values which lead the reply home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Steered {
    pub(crate) allocator: usize,
    pub(crate) modulus: String,
    pub(crate) base: String,
    /// The packets that bring the value back, and in which field.
    pub(crate) replies: BTreeSet<(Context, FieldId)>,
    /// Lines that look the value up.
    pub(crate) lines: BTreeSet<u32>,
}

/// Works out what sharding needs of every object that needs it. Allocators in `steering` steer, though they need not.
pub(crate) fn sharding(touches: &mut Touches<'_>, steering: &BTreeSet<usize>) -> Sharding {
    let mut found = Sharding::default();
    let keys = keys(touches);
    for (object, keys) in &keys {
        match owner(*object, keys, touches) {
            Some(owner) => {
                found.owners.insert(*object, owner);
            }
            None => note_unused(*object, keys, &mut found),
        }
    }
    for (object, keys) in &keys {
        if !found.owners.contains_key(object) {
            keyed_by_fields(touches, *object, keys, &mut found);
        }
    }
    let allocators: BTreeSet<usize> = found.owners.values().copied().collect();
    for allocator in allocators {
        named_by(touches, allocator, steering.contains(&allocator), &keys, &mut found);
        share_stale(touches, allocator, &keys, &mut found);
        share_left_by_field(touches, allocator, &keys, &mut found);
    }
    found
}

/// The keys of every object that needs sharding.
fn keys<'p>(touches: &Touches<'p>) -> BTreeMap<usize, Vec<Keyed<'p>>> {
    let needing = touches.needs.iter().enumerate().filter(|(_, need)| **need == Need::Sharding);
    let mut keys: BTreeMap<usize, Vec<Keyed<'p>>> =
        needing.map(|(object, _)| (object, Vec::new())).collect();
    for touch in &touches.touches {
        let ways = touches.ways(touch);
        let best = ways.iter().find(|way| way.iter().all(says_something)).or(ways.last());
        let own = keys.entry(touch.object).or_default();
        for keyed in best.into_iter().flatten() {
            if !own.iter().any(|known| is_same(known, keyed)) {
                own.push(keyed.clone());
            }
        }
    }
    keys
}

fn says_something(keyed: &Keyed<'_>) -> bool {
    let owned = matches!(keyed.parts[..], [Part::Fresh(_) | Part::Initial]);
    let says = |part: &Part| matches!(part, Part::Word(_) | Part::Shifted { .. });
    owned || (keyed.context.is_some() && keyed.parts.iter().any(says))
}

fn is_same(a: &Keyed<'_>, b: &Keyed<'_>) -> bool {
    (a.context, a.line, a.writes, a.direct, &a.parts)
        == (b.context, b.line, b.writes, b.direct, &b.parts)
}

fn note_unused(object: usize, keys: &[Keyed<'_>], found: &mut Sharding) {
    for keyed in keys {
        for part in &keyed.parts {
            if let (Part::Opaque(why), false) = (part, [OTHER_PACKET, ABSENT].contains(part)) {
                found.unused.insert((keyed.line, object, why));
            }
        }
    }
}

/// Two packets that touch the same entry must meet: if neither of them writes it, both must meet the
/// one that does.
fn keyed_by_fields(
    touches: &mut Touches<'_>,
    object: usize,
    keys: &[Keyed<'_>],
    found: &mut Sharding,
) {
    let mut constraints = Constraints::default();
    for (at, a) in keys.iter().enumerate() {
        for b in &keys[at..] {
            if a.list != b.list {
                continue;
            }
            if let Err((why, mut lines)) = pair(touches, object, [a, b], &mut constraints) {
                let why = why_opaque(keys).unwrap_or(why);
                lines.extend(keys.iter().filter(|keyed| keyed.writes).map(|keyed| keyed.line));
                found.refused.insert(object, (why, lines));
                return;
            }
        }
    }
    settle(touches, object, constraints, keys, found);
}

/// Keeps the coarsest constraints, unless one of them says that everything must meet.
fn settle(
    touches: &Touches<'_>,
    object: usize,
    constraints: Constraints,
    keys: &[Keyed<'_>],
    found: &mut Sharding,
) {
    let coarsest = constraints.coarsest();
    let always = coarsest.all.iter().find(|(constraint, _)| constraint.equations.is_empty());
    match always {
        Some((_, cause)) => {
            found.refused.insert(object, (why_all_meet(touches, object, keys), cause.every_line()));
        }
        None => {
            found.constraints.insert(object, coarsest);
        }
    }
}

fn why_all_meet(touches: &Touches<'_>, object: usize, keys: &[Keyed<'_>]) -> String {
    let kind = touches.paths.objects[object].kind;
    match why_opaque(keys) {
        Some(why) => why,
        None if matches!(kind, "Cell" | "Counter" | "Distributed") => {
            "it is one value that packets of all kinds read and write".to_owned()
        }
        None => "its entries are named by no packet field".to_owned(),
    }
}

/// The first key that nothing could be made of.
fn why_opaque(keys: &[Keyed<'_>]) -> Option<String> {
    keys.iter().filter(|keyed| keyed.writes).chain(keys).find_map(|keyed| {
        keyed.parts.iter().find_map(|part| match part {
            Part::Opaque(why) if *part != ABSENT => {
                Some(format!("its key at line {} {why}", keyed.line))
            }
            _ => None,
        })
    })
}

pub(crate) type Refusal = (String, BTreeSet<u32>);

fn pair(
    touches: &mut Touches<'_>,
    object: usize,
    [a, b]: [&Keyed<'_>; 2],
    constraints: &mut Constraints,
) -> Result<(), Refusal> {
    let (Some(first), Some(second)) = (sides(a, &touches.fields), sides(b, &touches.fields)) else {
        let outside = if a.context.is_none() { a } else { b };
        let why = "no packet field names the entry that it is touched at here".to_owned();
        return Err((why, BTreeSet::from([outside.line])));
    };
    let mut cause = Cause { objects: BTreeSet::from([object]), ..Cause::default() };
    let lines = if a.writes || b.writes { &mut cause.lines } else { &mut cause.reads };
    lines.insert((a.line, b.line));
    let ways: &[bool] = if a.symmetric || b.symmetric { &[false, true] } else { &[false] };
    let mut known: Option<Vec<BTreeSet<Equation>>> = None;
    for x in &first {
        for y in &second {
            let found = match &known {
                Some(known) => known.clone(),
                None => {
                    let all = ways
                        .iter()
                        .filter_map(|swap| equations(a, b, [x.1, y.1], *swap, &mut touches.fields));
                    all.collect()
                }
            };
            if !depends_on_class(a, b, &touches.fields) {
                known.get_or_insert_with(|| found.clone());
            }
            for equations in found {
                let constraint = Constraint { sides: [*x, *y], equations };
                if has_fields(&constraint, touches) {
                    constraints.add(constraint, &cause);
                }
            }
        }
    }
    Ok(())
}

/// Whether a key has a protocol number, which the class tells.
fn depends_on_class(a: &Keyed<'_>, b: &Keyed<'_>, fields: &Fields) -> bool {
    let all = key_fields(a).into_iter().chain(key_fields(b));
    all.into_iter().any(|field| fields.name(field).ends_with(".protocol"))
}

/// Whether packets of both sides have the fields a constraint speaks of; the reply of an echo has
/// them, that of a packet over another version of IP has not.
fn has_fields(constraint: &Constraint, touches: &Touches<'_>) -> bool {
    [Which::First, Which::Second].into_iter().all(|which| {
        let class = constraint.sides[which.index()].1;
        constraint
            .fields(which)
            .iter()
            .all(|field| Classes::with(touches.fields.header(*field)).contains(class))
    })
}

/// Entries that an allocator names: of its own, and of objects under its indices.
fn named_by(
    touches: &mut Touches<'_>,
    allocator: usize,
    steers: bool,
    keys: &BTreeMap<usize, Vec<Keyed<'_>>>,
    found: &mut Sharding,
) {
    let owned: BTreeSet<usize> = found
        .owners
        .iter()
        .filter(|(_, owner)| **owner == allocator)
        .map(|(object, _)| *object)
        .collect();
    let all = || owned.iter().flat_map(|object| keys.get(object).into_iter().flatten());
    for keyed in all().filter(|keyed| matches!(keyed.parts[..], [Part::Initial])) {
        found.initial.entry(keyed.object).or_default().insert(keyed.line);
    }
    // How many there are is known of no shard alone.
    let counted: BTreeSet<u32> =
        all().filter(|keyed| keyed.parts.is_empty()).map(|keyed| keyed.line).collect();
    if !counted.is_empty() {
        let name = &touches.paths.objects[allocator].name;
        let why = format!("how many entries `{name}` names is asked, of which each shard has some");
        for object in &owned {
            found.refused.insert(*object, (why.clone(), counted.clone()));
        }
        return;
    }
    if let Some((others, reason)) = left(touches, allocator, keys) {
        for object in owned.iter().chain(&others) {
            found.refuse(*object, reason.clone());
        }
        return;
    }
    let foreign: Vec<Keyed<'_>> =
        all().filter(|keyed| is_foreign(touches, keyed, allocator)).cloned().collect();
    for object in &owned {
        found.constraints.insert(*object, Constraints::default());
    }
    if foreign.is_empty() {
        return;
    }
    let condition =
        if steers { None } else { interchangeable(touches, &owned, &foreign, allocator) };
    if let Some(condition) = condition {
        let own = found.constraints.entry(allocator).or_default();
        let cause = Cause {
            objects: owned,
            lines: condition.lines.iter().map(|line| (*line, *line)).collect(),
            ..Cause::default()
        };
        condition.constraints.into_iter().for_each(|constraint| own.add(constraint, &cause));
        found.interchangeable.insert(allocator, condition.lines);
        return;
    }
    steer(touches, allocator, &owned, &foreign, found);
}

/// Shares what could be sharded, but for names of its indices that are kept for too long.
fn share_stale(
    touches: &Touches<'_>,
    allocator: usize,
    keys: &BTreeMap<usize, Vec<Keyed<'_>>>,
    found: &mut Sharding,
) {
    if found.refused.contains_key(&allocator) {
        return;
    }
    let Some(reason) = touches.indices.why_stale(allocator) else { return };
    let is_index = |part: &Part| *part == Part::Fresh(allocator);
    let names = |keys: &[Keyed<'_>]| keys.iter().any(|keyed| keyed.parts.iter().any(is_index));
    for (object, keys) in keys {
        if found.owners.get(object) == Some(&allocator) || names(keys) {
            found.refuse(*object, reason.clone());
        }
    }
    found.interchangeable.remove(&allocator);
}

/// Shares what packets read by the very field that brings an index back: it may be left of whoever had the index before,
/// or have been written before anybody had.
fn share_left_by_field(
    touches: &Touches<'_>,
    allocator: usize,
    keys: &BTreeMap<usize, Vec<Keyed<'_>>>,
    found: &mut Sharding,
) {
    let paths = touches.paths;
    let pool = &paths.objects[allocator].name;
    if found.refused.contains_key(&allocator) || !is_given(paths, pool) {
        return;
    }
    let is_owned = |object: &usize| found.owners.get(object) == Some(&allocator);
    let arriving = |keyed: &Keyed<'_>| arriving(touches, keyed);
    let own = keys.iter().filter(|(object, _)| is_owned(object)).flat_map(|(_, keys)| keys);
    let mut brought: BTreeMap<Arriving, u32> = touches.indices.returned(allocator).clone();
    for (one, field) in own.flat_map(|one| arriving(one).into_iter().map(move |it| (one, it))) {
        brought.entry(field).or_insert(one.line);
    }
    for one in found.steered.iter().filter(|one| one.allocator == allocator) {
        let line = one.lines.first().copied().unwrap_or_default();
        let fields = one.replies.iter();
        let fields =
            fields.map(|(context, id)| (context.port, touches.fields.name(*id).to_owned()));
        brought.extend(fields.map(|field| (field, line)));
    }
    // What stands under indices of another pool is that pool's to judge.
    let is_anothers = |object: &usize| {
        let owner = found.owners.get(object);
        owner.is_some_and(|owner| is_given(paths, &paths.objects[*owner].name))
    };
    let fields: BTreeSet<Arriving> = brought.keys().cloned().collect();
    let mut others = keys.iter().filter(|(object, _)| !is_owned(object) && !is_anothers(object));
    let left = others.find_map(|(object, keys)| {
        let field = keys.iter().flat_map(arriving).find(|field| fields.contains(field))?;
        let name = &paths.objects[*object].name;
        let (since, how) = match is_given_anew(paths, pool) {
            true => (brought[&field], "it may be left of whoever had the index before".to_owned()),
            false => {
                let line = unasked(paths, name, pool, &fields)?;
                let how = format!(
                    "line {line} may have written it before anybody had the index, as it has not asked `{pool}`"
                );
                (line, how)
            }
        };
        let mut lasting = paths.paths.iter().filter(|path| caller(path) != Caller::Shutdown);
        let line = lasting.find_map(|path| read(path, name, &paths.terms))?;
        let port = paths.words.ports.get(field.0).map_or("any", |port| port);
        let why = format!(
            "what `{name}` holds is read at line {line} by `{port}.{}`, in which an index of `{pool}` comes back \
             (line {}): {how}",
            field.1, brought[&field]
        );
        Some((*object, (why, BTreeSet::from([line, since, brought[&field]]))))
    });
    let Some((object, reason)) = left else { return };
    let owned: Vec<usize> = keys.keys().copied().filter(is_owned).collect();
    for one in owned.into_iter().chain([object]) {
        found.refuse(one, reason.clone());
    }
    found.interchangeable.remove(&allocator);
}

/// The fields of a key, with the port of their packet.
fn arriving(touches: &Touches<'_>, keyed: &Keyed<'_>) -> Vec<Arriving> {
    let Some(context) = keyed.context else { return Vec::new() };
    let fields = key_fields(keyed).into_iter();
    fields.map(|id| (context.port, touches.fields.name(id).to_owned())).collect()
}

/// The objects of which packets read what is left under indices of an allocator, and why the first of them does.
fn left(
    touches: &Touches<'_>,
    allocator: usize,
    keys: &BTreeMap<usize, Vec<Keyed<'_>>>,
) -> Option<(BTreeSet<usize>, Refusal)> {
    let others = keys.iter().filter(|(object, _)| **object != allocator);
    let mut left = others
        .filter_map(|(object, keys)| Some((*object, why_left(touches, *object, keys, allocator)?)))
        .peekable();
    let (_, reason) = left.peek()?.clone();
    Some((left.map(|(object, _)| object).collect(), reason))
}

/// Has the allocator steer, where every index that a packet brings determines a field of it.
fn steer(
    touches: &mut Touches<'_>,
    allocator: usize,
    owned: &BTreeSet<usize>,
    foreign: &[Keyed<'_>],
    found: &mut Sharding,
) {
    let mut decodings: Vec<(&Keyed<'_>, Context, Option<Decoded>)> = Vec::new();
    for keyed in foreign {
        for (port, class) in sides(keyed, &touches.fields).unwrap_or_default() {
            let context = Context { port, classes: Classes::where_(|one| one == class) };
            let decoded = decoded(touches, keyed, class);
            decodings.push((keyed, context, decoded));
        }
        if keyed.context.is_none() {
            let nowhere = Context { port: 0, classes: Classes::where_(|_| false) };
            decodings.push((keyed, nowhere, None));
        }
    }
    let first = decodings.first().and_then(|(_, _, decoded)| decoded.clone());
    let alike = |one: &Option<Decoded>| match (one, &first) {
        (Some(one), Some(first)) => (&one.modulus, &one.base) == (&first.modulus, &first.base),
        _ => false,
    };
    let (true, Some(first)) = (decodings.iter().all(|(_, _, one)| alike(one)), &first) else {
        let guilty = decodings.iter().filter(|(_, _, decoded)| decoded.is_none());
        let guilty: Vec<&Keyed<'_>> = guilty.map(|(keyed, ..)| *keyed).collect();
        refuse(touches, allocator, owned, &guilty, found);
        return;
    };
    let mut steered = Steered {
        allocator,
        modulus: first.modulus.clone(),
        base: first.base.clone(),
        replies: BTreeSet::new(),
        lines: foreign.iter().map(|keyed| keyed.line).collect(),
    };
    let mut keys: Vec<Keyed<'_>> = Vec::new();
    for (keyed, context, decoded) in &decodings {
        let Some(Decoded { field, .. }) = decoded else { continue };
        steered.replies.insert((*context, *field));
        let bits = 0..touches.fields.width(*field);
        let word = bits.map(|bit| Sum { bits: vec![(*field, bit)], constant: false }).collect();
        let key = Keyed {
            parts: vec![Part::Word(word)],
            context: Some(*context),
            writes: true,
            ..(*keyed).clone()
        };
        if !keys.iter().any(|known| (known.context, &known.parts) == (key.context, &key.parts)) {
            keys.push(key);
        }
    }
    found.steered.push(steered);
    keyed_by_fields(touches, allocator, &keys, found);
    if let Some(reason) = found.refused.get(&allocator).cloned() {
        owned.iter().for_each(|object| found.refuse(*object, reason.clone()));
    }
}

fn refuse(
    touches: &Touches<'_>,
    allocator: usize,
    owned: &BTreeSet<usize>,
    guilty: &[&Keyed<'_>],
    found: &mut Sharding,
) {
    let name = &touches.paths.objects[allocator].name;
    let says = if guilty.iter().any(|keyed| keyed.parts == [Part::Initial]) {
        "one that `init` has noted may be taken by packets of any shard"
    } else if guilty.iter().any(|keyed| keyed.parts == [SHARED]) {
        "one that is read from what is shared may have been given in any shard"
    } else if guilty.iter().any(|keyed| keyed.context.is_none()) {
        "what is done without a packet does not say in which shard such an index was given"
    } else {
        "a packet that brings such an index says neither in which shard it was given, nor whether \
         it is meant"
    };
    let why = format!("its entries are named by indices of `{name}`, and {says}");
    let lines: BTreeSet<u32> = guilty.iter().map(|keyed| keyed.line).collect();
    for object in owned {
        found.refused.insert(*object, (why.clone(), lines.clone()));
        found.constraints.remove(object);
    }
}

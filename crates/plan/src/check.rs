//! Whether a plan keeps together what must meet: exact, by linear algebra, and apart from how its
//! keys were found.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::{Paths, StateObject};
use anabranch_rss::{Field, Which};

use crate::build::{Decision, decide, decide_beside};
use crate::class::Class;
use crate::constraint::{Constraint, Constraints, Equation};
use crate::error::{PlanError, numbered};
use crate::form::{bytes, is_for_nic, well_formed};
use crate::model::{ObjectMode, Plan, Port, PortClass, SteeredAllocation, Steerer, Strategy};
use crate::ranges::equalities;
use crate::word::{Bit, Fields};

/// What each bit of a packet adds to the entry.
type Effects = BTreeMap<Bit, u32>;

/// Checks a plan that may have been edited against the network function it is for.
///
/// An edit may change keys, tables, fields and who steers, share an object that was sharded, and shard a
/// count that each shard kept for itself.
///
/// # Errors
/// [`PlanError::Broken`] with the constraint that no longer holds, and its lines; or what else does
/// not fit the network function, or is nothing that packets have; [`PlanError::Unfit`] where a NIC of the
/// model cannot do what it is to do.
pub fn check(paths: &Paths, plan: &Plan) -> Result<(), PlanError> {
    if plan.nf != paths.name {
        let message = format!("the plan is for `{}`, not for `{}`", plan.nf, paths.name);
        return Err(PlanError::Broken(message));
    }
    let mut decision = decided(paths, plan);
    well_formed(plan, &decision.ports, paths)?;
    let modes = modes(&mut decision, plan)?;
    if !plan.strategy.shares_all() {
        steers_as_planned(plan, &decision, &modes)?;
        let constraints = of_sharded(&decision, &modes);
        unbroken(plan, &constraints, &decision)?;
    }
    is_for_nic(plan)
}

/// What there is to decide where what `plan` shares is shared: who stored what is read from it may be in any shard.
fn decided<'p>(paths: &'p Paths, plan: &Plan) -> Decision<'p> {
    let decision = decide(paths);
    let is_shared = |(at, object): (usize, &StateObject)| {
        let mut edited = plan.objects.iter().filter(|edited| edited.name == object.name);
        edited.any(|edited| edited.mode == ObjectMode::Shared).then_some(at)
    };
    let shared: BTreeSet<usize> = paths.objects.iter().enumerate().filter_map(is_shared).collect();
    let distrusted = &decision.touches.distrusted;
    let mut news = decision.touches.sources().into_iter().filter(|one| shared.contains(one));
    if plan.strategy.shares_all() || news.all(|one| distrusted.contains(&one)) {
        return decision;
    }
    decide_beside(paths, &shared.union(distrusted).copied().collect())
}

fn no_key(port: &str) -> PlanError {
    PlanError::Broken(format!("the key of port `{port}` is no hexadecimal number"))
}

/// That allocators steer by what the source says; that they do not lend, an operator may say.
fn steers_as_planned(
    plan: &Plan,
    decision: &Decision<'_>,
    modes: &BTreeMap<usize, ObjectMode>,
) -> Result<(), PlanError> {
    let objects = &decision.touches.paths.objects;
    let steers = |one: &SteeredAllocation| {
        let at = objects.iter().position(|object| object.name == one.object);
        at.and_then(|at| modes.get(&at)) == Some(&ObjectMode::Steered)
    };
    let planned: Vec<_> = crate::report::allocations(decision);
    for planned in planned.iter().filter(|one| steers(one)) {
        let of_place = plan
            .steered
            .iter()
            .filter(|edited| edited.object == planned.object && edited.port == planned.port);
        let is_allowed = |edited: &SteeredAllocation| {
            let lines = edited.lines.clone();
            let lends = planned.lends && edited.lends;
            *edited == SteeredAllocation { lines, lends, ..planned.clone() }
        };
        let all: Vec<_> = of_place.collect();
        if !matches!(all[..], [one] if is_allowed(one)) {
            return Err(PlanError::Broken(format!(
                "what `{}` gives out at {} follows from the source ({}): of its entry under \
                 `steered` only `lends` may be edited, and only to false",
                planned.object,
                planned.port,
                numbered(&planned.lines)
            )));
        }
    }
    let known = |edited: &SteeredAllocation| {
        planned.iter().any(|one| (&one.object, &one.port) == (&edited.object, &edited.port))
    };
    match plan.steered.iter().find(|edited| !known(edited)) {
        None => Ok(()),
        Some(one) => Err(PlanError::Broken(format!(
            "no value of `{}` comes back at {}: take its entry out of `steered`",
            one.object, one.port
        ))),
    }
}

/// That every pair of packets that must meet does.
pub(crate) fn unbroken(
    plan: &Plan,
    constraints: &Constraints,
    decision: &Decision<'_>,
) -> Result<(), PlanError> {
    let mut fields = decision.touches.fields.clone();
    let mask = u32::MAX.checked_shr(32 - plan.index_bits.clamp(1, 32)).unwrap_or(0);
    for (constraint, cause) in &constraints.all {
        let [first, second] = constraint.sides;
        for a in steered(plan, &decision.ports, first)? {
            for b in steered(plan, &decision.ports, second)? {
                let effects = [a, b].map(|class| effects(plan, class, mask, &mut fields));
                let [x, y] = effects;
                if !vanishes(constraint, [x?, y?]) {
                    let lines = cause.shown().map(|(a, b)| format!(" (lines {a} and {b})"));
                    let equal = equalities(constraint, &decision.ports, &fields).join(" && ");
                    return Err(PlanError::Broken(format!(
                        "{} packets of {} and {} packets of {} must meet when {equal}{}",
                        a.1.class,
                        a.0.port,
                        b.1.class,
                        b.0.port,
                        lines.unwrap_or_default()
                    )));
                }
            }
        }
    }
    Ok(())
}

/// The modes of an edited plan, where they are possible.
fn modes(
    decision: &mut Decision<'_>,
    plan: &Plan,
) -> Result<BTreeMap<usize, ObjectMode>, PlanError> {
    let mut modes = BTreeMap::new();
    for (at, object) in decision.touches.paths.objects.iter().enumerate() {
        let Some(edited) = plan.objects.iter().find(|edited| edited.name == object.name) else {
            unreachable!("the plan has the form of one: each object is there once")
        };
        let (planned, why, lines) = crate::report::mode(decision, at);
        let allowed = edited.mode == planned
            || edited.mode == ObjectMode::Shared
            || plan.strategy.shares_all()
            || (edited.mode == ObjectMode::Sharded
                && planned == ObjectMode::PerShard
                && decision.sharding.constraints.contains_key(&at));
        if !allowed {
            return Err(PlanError::Broken(format!(
                "`{}` cannot be {}: {why} ({})",
                object.name,
                edited.mode.name(),
                numbered(&lines)
            )));
        }
        modes.insert(at, edited.mode);
    }
    for (object, owner) in &decision.sharding.owners {
        let is = |at: &usize, mode| modes.get(at) == Some(&mode);
        if !plan.strategy.shares_all()
            && is(owner, ObjectMode::Shared)
            && is(object, ObjectMode::Sharded)
        {
            let [object, owner] =
                [object, owner].map(|at| &decision.touches.paths.objects[*at].name);
            return Err(PlanError::Broken(format!(
                "`{object}` stands under indices of `{owner}`, which is shared: write mode = \"shared\" of both"
            )));
        }
    }
    limits_hold(decision, plan, &modes)?;
    let shares = modes.values().any(|mode| *mode == ObjectMode::Shared);
    if shares && plan.strategy == Strategy::SharedNothing {
        let message = "a shared-nothing plan shares no object: write strategy = \"mixed\"";
        return Err(PlanError::Broken(message.to_owned()));
    }
    Ok(modes)
}

/// That counts which each shard keeps for itself limit what shards still have of their own.
fn limits_hold(
    decision: &Decision<'_>,
    plan: &Plan,
    modes: &BTreeMap<usize, ObjectMode>,
) -> Result<(), PlanError> {
    let is_kept = |object: &usize| modes.get(object) == Some(&ObjectMode::PerShard);
    if plan.strategy.shares_all() || !decision.limits.iter().any(is_kept) {
        return Ok(());
    }
    let is_divided = |object: &usize| {
        matches!(modes.get(object), Some(ObjectMode::Sharded | ObjectMode::Steered))
    };
    let beside = decision.beside_sharded(is_divided);
    let Some(count) =
        decision.limits.iter().find(|one| is_kept(one) && !decision.is_limit(**one, &beside))
    else {
        return Ok(());
    };
    let objects = &decision.touches.paths.objects;
    let sharded = decision.sharding.constraints.keys().filter(|one| !decision.limits.contains(one));
    let given_up: Vec<String> = sharded
        .filter(|one| !is_divided(one))
        .map(|one| format!("`{}`", objects[*one].name))
        .collect();
    let (_, _, lines) = crate::report::mode(decision, *count);
    Err(PlanError::Broken(format!(
        "`{count}` can be per-shard only where what it limits is sharded ({}), and {} {} shared: write \
         mode = \"shared\" of `{count}` too",
        numbered(&lines),
        given_up.join(", "),
        if given_up.len() == 1 { "is" } else { "are" },
        count = objects[*count].name,
    )))
}

fn of_sharded(decision: &Decision<'_>, modes: &BTreeMap<usize, ObjectMode>) -> Constraints {
    let mut all = Constraints::default();
    for (object, own) in &decision.sharding.constraints {
        let mode = modes.get(object);
        if matches!(mode, Some(ObjectMode::Sharded | ObjectMode::Steered)) {
            all.extend(own);
        }
    }
    all.coarsest()
}

/// The entries of a plan that are about packets of one side.
fn steered<'a>(
    plan: &'a Plan,
    ports: &[String],
    (port, class): (usize, Class),
) -> Result<Vec<(&'a Port, &'a PortClass)>, PlanError> {
    let name = ports.get(port).map_or("", String::as_str);
    let Some(own) = plan.ports.iter().find(|one| one.port == name) else {
        return Err(PlanError::Broken(format!("the plan has no port `{name}`")));
    };
    let is_of = |one: &&PortClass| {
        let rest = one.class.strip_prefix(class.name());
        rest.is_some_and(|rest| {
            matches!(rest, "" | "-first-fragment" | "-later-fragment" | "-sctp")
        })
    };
    let found: Vec<_> = own.classes.iter().filter(is_of).map(|one| (own, one)).collect();
    match found.is_empty() {
        true => {
            Err(PlanError::Broken(format!("the plan does not steer {class} packets of {name}")))
        }
        false => Ok(found),
    }
}

/// What each bit of a packet's fields adds to the entry.
fn effects(
    plan: &Plan,
    (port, class): (&Port, &PortClass),
    mask: u32,
    fields: &mut Fields,
) -> Result<Effects, PlanError> {
    let mut effects = Effects::new();
    if class.by == Steerer::OneShard {
        return Ok(effects);
    }
    let name = class.key_of.as_ref().unwrap_or(&port.port);
    let key = plan.ports.iter().find(|one| one.port == *name).map(|one| bytes(&one.key));
    let Some(Some(key)) = key else {
        return Err(no_key(name));
    };
    let mut offset = 0;
    for input in &class.input {
        let Some(place) = Field::named(&input.place) else {
            return Err(PlanError::Broken(format!("no hash has a place for `{}`", input.place)));
        };
        let width = usize::from(place.width());
        if input.field != "-" {
            let field = fields.id(&input.field, place.width());
            let own = fields.width(field);
            let start = offset + width.saturating_sub(usize::from(own));
            for bit in 0..own {
                let effect = window(&key, start + usize::from(bit)) & mask;
                *effects.entry((field, bit)).or_default() ^= effect;
            }
        }
        offset += width;
    }
    effects.retain(|_, effect| *effect != 0);
    Ok(effects)
}

/// The 32 key bits from `bit` on.
fn window(key: &[u8], bit: usize) -> u32 {
    let byte = |at: usize| u64::from(key.get(at).copied().unwrap_or(0));
    let five = (0..5).fold(0, |all, at| all << 8 | byte(bit / 8 + at));
    (five >> (8 - bit % 8)) as u32
}

/// Whether two functions agree on all packets between which a constraint's equations hold: their
/// difference is a sum of the equations.
fn vanishes(constraint: &Constraint, [first, second]: [Effects; 2]) -> bool {
    let mut rest: BTreeMap<(Which, Bit), u32> = BTreeMap::new();
    rest.extend(first.into_iter().map(|(bit, effect)| ((Which::First, bit), effect)));
    rest.extend(second.into_iter().map(|(bit, effect)| ((Which::Second, bit), effect)));
    let mut constant = 0;
    for equation in echelon(constraint) {
        let Some(pivot) = equation.terms.first() else { continue };
        let effect = rest.get(pivot).copied().unwrap_or(0);
        for term in &equation.terms {
            *rest.entry(*term).or_default() ^= effect;
        }
        if equation.constant {
            constant ^= effect;
        }
    }
    constant == 0 && rest.values().all(|effect| *effect == 0)
}

/// The equations, each without the first terms of those before it.
fn echelon(constraint: &Constraint) -> Vec<Equation> {
    let mut rows: Vec<Equation> = Vec::new();
    for equation in &constraint.equations {
        let mut row = equation.clone();
        for known in &rows {
            if known.terms.first().is_some_and(|pivot| row.terms.contains(pivot)) {
                row = row.plus(known);
            }
        }
        if !row.terms.is_empty() {
            rows.push(row);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::FieldId;

    fn equal(a: u16, b: u16, width: u16) -> impl Iterator<Item = Equation> {
        (0..width).map(move |bit| Equation {
            terms: vec![(Which::First, (FieldId(a), bit)), (Which::Second, (FieldId(b), bit))],
            constant: false,
        })
    }

    fn constraint(equations: BTreeSet<Equation>) -> Constraint {
        Constraint { sides: [(0, Class::Ipv4Tcp), (1, Class::Ipv4Tcp)], equations }
    }

    fn function(fields: &[(u16, u32)]) -> Effects {
        let bits = fields.iter().flat_map(|(field, seed)| {
            (0..16u16).map(move |bit| ((FieldId(*field), bit), seed.rotate_left(u32::from(bit))))
        });
        bits.collect()
    }

    #[test]
    fn functions_agree_only_where_the_equations_join_their_bits() {
        let swapped = constraint(equal(0, 1, 16).chain(equal(1, 0, 16)).collect());
        let there = function(&[(0, 0x1234_5678), (1, 0x9abc_def1)]);
        let back = function(&[(1, 0x1234_5678), (0, 0x9abc_def1)]);
        assert!(vanishes(&swapped, [there.clone(), back]));
        assert!(!vanishes(&swapped, [there.clone(), there.clone()]));
        let only_one = constraint(equal(0, 1, 16).collect());
        assert!(!vanishes(&only_one, [there, function(&[(1, 0x1234_5678)])]));
    }

    #[test]
    fn a_constant_that_changes_the_entry_is_seen() {
        let one = |constant| {
            let terms = vec![(Which::First, (FieldId(0), 3))];
            constraint(BTreeSet::from([Equation { terms, constant }]))
        };
        let function = Effects::from([((FieldId(0), 3), 5)]);
        assert!(vanishes(&one(false), [function.clone(), Effects::new()]));
        assert!(!vanishes(&one(true), [function, Effects::new()]));
    }

    #[test]
    fn hexadecimal_is_read_or_refused() {
        assert_eq!(bytes("6d5a"), Some(vec![0x6d, 0x5a]));
        assert_eq!((bytes("6d5"), bytes(""), bytes("zz")), (None, None, None));
        assert_eq!(window(&[0x80, 0, 0, 1, 0xff], 0), 0x8000_0001);
        assert_eq!(window(&[0x80, 0, 0, 1, 0xff], 1), 0x0000_0003);
        assert_eq!(window(&[0x80], 32), 0);
    }
}

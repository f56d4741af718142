//! Classes that needs tie together: one key must serve all groups, and when none can, some are
//! left out.

use crate::class::Class;
use crate::need::Side;
use crate::solution::{Cause, Unsteerable};
use crate::solve::Partial;
use crate::solve::choice::{Spreads, choose, first_choice_spreads};
use crate::solve::setting::Setting;

/// Classes that needs tie together, directly or through others.
struct Group {
    sides: Vec<Side>,
    needs: Vec<usize>,
}

impl Group {
    /// All of `groups` as one.
    fn all<'a>(groups: impl Iterator<Item = &'a Self> + Clone) -> Self {
        Self {
            sides: groups.clone().flat_map(|group| group.sides.iter().copied()).collect(),
            needs: groups.flat_map(|group| group.needs.iter().copied()).collect(),
        }
    }
}

fn groups(setting: &Setting) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (need, demand) in setting.demands.iter().enumerate() {
        let touched = |group: &Group| demand.sides.iter().any(|side| group.sides.contains(side));
        let (joined, apart): (Vec<Group>, Vec<Group>) = groups.into_iter().partition(touched);
        let mut group = Group { sides: demand.sides.to_vec(), needs: vec![need] };
        for other in joined {
            group.sides.extend(other.sides);
            group.needs.extend(other.needs);
        }
        group.sides.sort();
        group.sides.dedup();
        group.needs.sort_unstable();
        groups = apart;
        groups.push(group);
    }
    groups
}

/// Serves all groups where that can be done; else one after the other, those with the most traffic
/// first, and leaves out those that cannot be served along with the ones before.
pub(crate) fn serve_most(setting: &Setting) -> Partial {
    let mut groups = groups(setting);
    let mut served = Group::all(groups.iter());
    let mut left_out = Vec::new();
    if stuck(setting, &served.needs, &served.sides).is_some() {
        groups.sort_by_key(|group| std::cmp::Reverse(weight(setting, group)));
        (served, left_out) = serve_one_by_one(setting, &groups);
    }
    let (solution, _) = choose(setting, &served.needs, &[], &setting.usable(&served.needs));
    served.needs.sort_unstable();
    Partial { solution, met: served.needs, left_out }
}

fn serve_one_by_one(setting: &Setting, groups: &[Group]) -> (Group, Vec<Unsteerable>) {
    let mut served = Group::all([].into_iter());
    let mut left_out = Vec::new();
    for group in groups {
        let with = Group::all([&served, group].into_iter());
        match stuck(setting, &with.needs, &with.sides) {
            None => served = with,
            Some(stuck) => left_out.extend(leave_out(setting, groups, &served, group, stuck)),
        }
    }
    (served, left_out)
}

/// The classes of `sides` that cannot be spread under `needs`, as far as they are known one by one;
/// `None` when all can.
fn stuck(setting: &Setting, needs: &[usize], sides: &[Side]) -> Option<Vec<Unsteerable>> {
    let usable = setting.usable(needs);
    let hopeless = setting.hopeless(needs, &usable);
    if !hopeless.is_empty() {
        return Some(hopeless);
    }
    match first_choice_spreads(setting, needs, &usable, sides) {
        Spreads::Yes => None,
        Spreads::No => Some(Vec::new()),
        Spreads::Unknown => setting.find(needs, &[]).err(),
    }
}

/// The classes of `group`, which cannot be served along with `served`, each with its cause.
fn leave_out(
    setting: &Setting,
    groups: &[Group],
    served: &Group,
    group: &Group,
    stuck: Vec<Unsteerable>,
) -> Vec<Unsteerable> {
    let own = stuck.into_iter().filter(|class| class.cause != Cause::NoKey);
    let own: Vec<Unsteerable> = own.filter(|class| group.sides.contains(&class.side)).collect();
    let left_out = |&side: &Side, cause: &Cause| Unsteerable {
        side,
        needs: setting.touching(&group.needs, side),
        cause: cause.clone(),
    };
    if !own.is_empty() {
        // What they are tied to is left out with them.
        let tied = group.sides.iter().filter(|side| own.iter().all(|class| class.side != **side));
        let tied = tied.map(|side| left_out(side, &Cause::NoKey));
        return own.iter().cloned().chain(tied).collect();
    }
    let before = groups.iter().filter(|other| served.needs.contains(&other.needs[0]));
    let cause = in_the_way(setting, before, group).unwrap_or(Cause::NoKey);
    group.sides.iter().map(|side| left_out(side, &cause)).collect()
}

/// How much traffic a group has: frames of the sample, or what is usual.
fn weight(setting: &Setting, group: &Group) -> usize {
    if setting.problem.sample.is_empty() {
        return group.sides.iter().map(|side| usual(side.class)).sum();
    }
    let of_group = setting.problem.sample.iter().filter(|frame| {
        let class = setting.problem.ports[frame.port].nic.parse(&frame.bytes).class();
        group.sides.contains(&Side { port: frame.port, class })
    });
    of_group.count()
}

/// Classes by how much of ordinary traffic they are; only the order counts.
fn usual(class: Class) -> usize {
    match class {
        Class::Ipv4Tcp => 64,
        Class::Ipv4Udp => 32,
        Class::Ipv6Tcp => 16,
        Class::Ipv6Udp => 8,
        Class::Ipv4 => 4,
        Class::Ipv4Fragment | Class::Ipv6 => 2,
        Class::Ipv4Sctp | Class::Ipv6Sctp | Class::Ipv6Fragment | Class::NonIp => 1,
    }
}

/// Names, for classes that no key serves along with the others, the needs that stand in the way.
pub(crate) fn explain(setting: &Setting, stuck: Vec<Unsteerable>) -> Vec<Unsteerable> {
    if stuck.iter().all(|class| class.cause != Cause::NoKey) {
        return stuck;
    }
    let groups = groups(setting);
    let causes: Vec<Option<Cause>> = groups
        .iter()
        .map(|group| {
            let touched = stuck.iter().any(|class| group.sides.contains(&class.side));
            let others = groups.iter().filter(|other| other.needs != group.needs);
            touched.then(|| in_the_way(setting, others, group)).flatten()
        })
        .collect();
    let explained = stuck.into_iter().map(|class| {
        let own = groups.iter().position(|group| group.sides.contains(&class.side));
        let cause = own.and_then(|group| causes[group].clone());
        Unsteerable { cause: cause.unwrap_or(class.cause), ..class }
    });
    explained.collect()
}

/// The needs of `others` that leave no key for `own`, or that `own` leaves none for; `None` when
/// there is none for it alone.
fn in_the_way<'a>(
    setting: &Setting,
    others: impl Iterator<Item = &'a Group>,
    own: &Group,
) -> Option<Cause> {
    let conflicts = |needs: &[usize], sides: &[Side]| {
        let stuck = stuck(setting, needs, sides);
        stuck.is_some_and(|classes| {
            classes.is_empty() || classes.iter().any(|class| sides.contains(&class.side))
        })
    };
    if conflicts(&own.needs, &own.sides) {
        return None;
    }
    let in_the_way = others.filter(|other| {
        let needs = [&own.needs[..], &other.needs].concat();
        conflicts(&needs, &[&own.sides[..], &other.sides].concat())
    });
    let mut needs: Vec<usize> = in_the_way.flat_map(|group| group.needs.clone()).collect();
    needs.sort_unstable();
    Some(if needs.is_empty() { Cause::NoKey } else { Cause::Conflict(needs) })
}

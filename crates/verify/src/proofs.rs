//! What is proved of state objects, looked at all the same: paths that it rules out are not listed, so that
//! nothing else would show that it is wrong.

use anabranch_analysis::expr::Term;
use anabranch_analysis::{Link, Values};
use anabranch_nf::trace::{Call, Parts};

use crate::coverage::symbol_name;
use crate::passage::Passage;

/// What the calls of one handler found that goes against a link.
pub(crate) fn broken(link: &Link, calls: &[(usize, Call)]) -> Option<String> {
    let mut named: Vec<(u128, &Parts)> = Vec::new();
    let mut is_changed = false;
    for (_, call) in calls {
        if call.object == link.allocator {
            let key = named.iter().find(|(index, _)| whole(&call.key) == Some(*index));
            if let Some((_, key)) = key
                && let Some(why) = breaks(link, call, key)
            {
                return Some(why);
            }
            if Link::is_changed_by(call.operation) {
                return None;
            }
        }
        if call.object == link.map && !is_changed {
            is_changed = Link::is_changed_by(call.operation);
            let found = call.outcome == Some(true) && call.operation == "get";
            let index = part(&call.result, &link.index).filter(|_| found);
            named.extend(index.map(|index| (index, &call.key)));
        }
    }
    None
}

/// What the calls of one handler found or stored that the object cannot hold.
pub(crate) fn impossible(
    values: &Values,
    calls: &[(usize, Call)],
    settings: &mut dyn FnMut(Term) -> Option<u128>,
) -> Option<String> {
    let of_object = calls.iter().map(|(_, call)| call).filter(|call| call.object == values.object);
    of_object.filter(|call| call.outcome != Some(false)).find_map(|call| {
        let held = [(&call.result, "finds"), (&call.stored, "stores")];
        let mut held = held.into_iter().filter(|(parts, _)| !parts.all().is_empty());
        held.find_map(|(parts, does)| {
            let known = |name: &str| match name.split_once('.')? {
                ("key", name) => part(&call.key, name),
                (_, name) => part(parts, name),
            };
            let Call { object, operation, .. } = call;
            let wrong = !values.allows(&known, settings);
            wrong.then(|| format!("{object}.{operation} {does} {:?}", parts.all()))
        })
    })
}

/// What the packet set of a passage, of this class, was or became that none can be. What it is opened as nobody sees:
/// the same passage goes on with it.
pub(crate) fn impossible_set(
    values: &Values,
    class: Option<&str>,
    passage: &Passage,
    settings: &mut dyn FnMut(Term) -> Option<u128>,
) -> Option<String> {
    let class = class.and_then(|class| values.class_number(class));
    let was = |name: &str| {
        let name = format!("{}{name}", values.object);
        passage.given.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
    };
    let mut allows = |found: &dyn Fn(&str) -> Option<u128>| {
        let known = |name: &str| match name.split_once('.')? {
            ("key", _) => class,
            (_, name) => found(&symbol_name(name)),
        };
        values.allows(&known, settings)
    };
    let own = |(name, _): &(String, u128)| name.starts_with(&values.object);
    if passage.given.iter().any(own) && !allows(&was) {
        return Some(format!("it was {:?}", passage.given));
    }
    // Of a set that was declined there is nothing.
    let state = passage.kept.as_ref().map(Parts::all).filter(|state| !state.is_empty())?;
    let is = |name: &str| state.iter().find(|(known, _)| *known == name).map(|(_, it)| *it);
    (!allows(&is)).then(|| format!("it becomes {state:?}"))
}

/// The part of this name.
fn part(parts: &Parts, name: &str) -> Option<u128> {
    let name = symbol_name(name);
    parts.all().iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The number of a value that is one.
fn whole(parts: &Parts) -> Option<u128> {
    match parts.all() {
        [(_, number)] => Some(*number),
        _ => None,
    }
}

/// How a call breaks the link of an object that the map names under `key`.
fn breaks(link: &Link, call: &Call, key: &Parts) -> Option<String> {
    let (object, operation) = (call.object, call.operation);
    // Asked without the time.
    if call.outcome == Some(false) && matches!(operation, "set" | "update" | "free") {
        return Some(format!("{object}.{operation} finds nothing"));
    }
    let equal = link.equal.iter().map(|(ours, of)| (ours, part(key, of)));
    let mut all = equal.chain(link.fixed.iter().map(|fixed| (&fixed.part, Some(fixed.value))));
    all.find_map(|(ours, said)| {
        let (made, said) = (part(&call.result, ours)?, said?);
        (made != said).then(|| format!("{object}.{operation} finds `{ours}` {made}, not {said}"))
    })
}

//! Packets that one core refuses where many may not, or many where one does not, as the plan lists: where each
//! shard's worker counts for itself, or has a table of its own, of the size set; and where workers have one pool,
//! of which one may find nothing while others have some. Where nobody asks whether a table has had room, nothing can
//! be compared once one core's is full, nor where a function goes on without what a pool has not given it, once one
//! of many may find none.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::expr::{Kind, Node, SymbolId, Term};
use anabranch_analysis::{Access, CallPath, Mode, Paths, Verdict};
use anabranch_nf::state::TableUse;
use anabranch_plan::{Object, ObjectMode, Plan};
use anabranch_runtime::deployment::Deployment;

use crate::run::Record;
use crate::simulate::Course;

/// The reasons for which packets are dropped where such a limit has the last word.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    /// One core may refuse what many do not.
    of_one: BTreeSet<String>,
    /// Many may refuse what one does not, once so many indices have been given out.
    of_many: BTreeMap<String, u32>,
    /// Tables of each worker's own in which entries are made where nobody asks whether there is room: once one core
    /// has none, it lacks what many have.
    pub(crate) unasked: BTreeSet<String>,
    /// Once so much has been given out, one of many may find none in a pool that workers lease from, and go on without,
    /// where one core finds one.
    without: Option<u32>,
}

impl Limits {
    /// What `plan` lists for a function of these paths, deployed so, whose objects are as large as `tables` says.
    pub(crate) fn new(
        plan: &Plan,
        paths: Option<&Paths>,
        deployment: &Deployment,
        tables: &[TableUse],
    ) -> Self {
        let mut limits = Self::default();
        let Some(paths) = paths else { return limits };
        let given_out_before_none = |object: &Object| {
            let table = tables.iter().find(|table| table.name == object.name)?;
            deployment.given_out_before_none(&object.name, table.capacity as u32)
        };
        let accesses = paths.paths.iter().flat_map(|path| unasked(path, plan, paths));
        limits.unasked.extend(accesses.map(|access| access.object.clone()));
        let pools = plan.objects.iter().filter(|object| {
            let is_leased = object.kind == "Allocator" && object.mode == ObjectMode::Sharded;
            is_leased && paths.paths.iter().any(|path| goes_without(object, path, plan, paths))
        });
        limits.without = pools.filter_map(given_out_before_none).min();
        for path in &paths.paths {
            let Verdict::Drop(reason) = &path.verdict else { continue };
            for (access, object) in has_last_word(path, plan, paths) {
                limits.of_one.insert(reason.clone());
                if access.mode == Mode::Write
                    && let Some(least) = given_out_before_none(object)
                {
                    let known = limits.of_many.entry(reason.clone()).or_insert(least);
                    *known = least.min(*known);
                }
            }
        }
        limits
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        let refuses = !self.of_one.is_empty() || !self.of_many.is_empty();
        !refuses && self.unasked.is_empty() && self.without.is_none()
    }

    /// The first step, by position, at whose end so much had been given out that one of many may find none, and go on
    /// without.
    pub(crate) fn goes_without(&self, many: &Course) -> Option<usize> {
        let least = u64::from(self.without?);
        let may = |at: &&usize| many.given_out.get(**at).is_some_and(|given| *given >= least);
        many.order.iter().find(may).copied()
    }

    /// The steps whose packets one core refuses for such a reason, if the first step that differs is one of them and
    /// its packet is not refused so by many; or the same of many, who have given out as much as that takes.
    pub(crate) fn refused(&self, first: usize, one: &Record, many: &Course) -> BTreeSet<usize> {
        let why =
            |record: &Record, at: usize| record.get(at).and_then(|handled| handled.outcome.refused);
        if why(one, first) == why(&many.record, first) {
            return BTreeSet::new();
        }
        let of_one = |at: &usize| why(one, *at).is_some_and(|reason| self.of_one.contains(reason));
        if of_one(&first) {
            return (0..one.len()).filter(of_one).collect();
        }
        let mut given_out = 0;
        let mut refused = BTreeSet::new();
        for at in &many.order {
            let least = why(&many.record, *at).and_then(|reason| self.of_many.get(reason));
            if least.is_some_and(|least| *least <= given_out) {
                refused.insert(*at);
            }
            let allocated = many.record.get(*at).is_some_and(|handled| handled.outcome.allocated);
            given_out += u32::from(allocated);
        }
        if refused.contains(&first) { refused } else { BTreeSet::new() }
    }
}

/// The accesses that the last condition of a path is about, where they ask a count that each shard keeps, or whether
/// there is room in what is divided.
fn has_last_word<'p>(
    path: &'p CallPath,
    plan: &'p Plan,
    paths: &Paths,
) -> Vec<(&'p Access, &'p Object)> {
    let Some(last) = path.conditions.last() else { return Vec::new() };
    let asked = paths.terms.unknowns(last.term);
    let is_asked = |term: &Term| {
        let asks = |id: &SymbolId| asked.contains(id);
        paths.terms.unknowns(*term).iter().any(asks)
    };
    let found = path.accesses.iter().filter_map(|access| {
        let object = plan.objects.iter().find(|object| object.name == access.object)?;
        let outcome = access.outcome.into_iter();
        let terms: Vec<_> = match access.mode {
            Mode::Read if object.mode == ObjectMode::PerShard => {
                outcome.chain(access.result.iter().map(|part| part.term)).collect()
            }
            Mode::Write if is_divided(object) && makes(&access.operation) => outcome.collect(),
            _ => Vec::new(),
        };
        terms.iter().any(is_asked).then_some((access, object))
    });
    found.collect()
}

/// The accesses of a path that make an entry in a table that is divided, of which no condition asks whether they did.
fn unasked<'p>(
    path: &'p CallPath,
    plan: &'p Plan,
    paths: &'p Paths,
) -> impl Iterator<Item = &'p Access> {
    let is_of_divided = |name: &String| {
        plan.objects.iter().any(|object| object.name == *name && is_divided(object))
    };
    path.accesses.iter().filter(move |access| {
        let makes = access.operation == "insert" && access.kind == "Map";
        let Some(outcome) = access.outcome.filter(|_| makes && is_of_divided(&access.object))
        else {
            return false;
        };
        let asks = |id: &SymbolId| {
            path.conditions.iter().any(|made| paths.terms.unknowns(made.term).contains(id))
        };
        let unknown = paths.terms.unknowns(outcome);
        !unknown.is_empty() && !unknown.iter().any(asks)
    })
}

/// Whether a path goes on without an index of this pool that it has asked for, or whether or not it got one. Where its
/// packet is dropped for that, it leaves nothing.
fn goes_without(pool: &Object, path: &CallPath, plan: &Plan, paths: &Paths) -> bool {
    let is_dropped = |access: &Access| {
        let is_last = |(last, _): &(&Access, &Object)| last.number == access.number;
        matches!(path.verdict, Verdict::Drop(_))
            && has_last_word(path, plan, paths).iter().any(is_last)
    };
    let mut asking = path.accesses.iter().filter(|access| {
        access.object == pool.name && makes(&access.operation) && !is_dropped(access)
    });
    asking.any(|access| {
        let Some(outcome) = access.outcome else { return false };
        let unknown = paths.terms.unknowns(outcome);
        let is_asked = |term: &Term| {
            let asks = |id: &SymbolId| unknown.contains(id);
            paths.terms.unknowns(*term).iter().any(asks)
        };
        let terms = path.conditions.iter().map(|made| made.term);
        terms.filter(is_asked).all(|term| is_full(term, paths))
    })
}

/// Whether `term` says that there is no room.
pub(crate) fn is_full(term: Term, paths: &Paths) -> bool {
    let terms = &paths.terms;
    let (symbol, holds) = match terms.node(term) {
        Node::Not(symbol) => (*symbol, false),
        _ => (term, true),
    };
    let Node::Symbol(id) = terms.node(symbol) else { return false };
    match terms.symbol_of(*id).kind {
        Kind::Outcome(yes, no) => (if holds { yes } else { no }) == "full",
        _ => false,
    }
}

/// Whether workers have their own entries of such an object, of which there are so many at most.
fn is_divided(object: &Object) -> bool {
    let modes = [ObjectMode::Sharded, ObjectMode::Steered, ObjectMode::PerShard];
    modes.contains(&object.mode) && object.capacity.is_some() && object.kind != "Vector"
}

fn makes(operation: &str) -> bool {
    operation == "insert" || operation.starts_with("allocate")
}

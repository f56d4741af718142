//! Packets that one core refuses where many may not: where each shard's worker counts for itself, or has a table of
//! its own, of the size set, as the plan lists.

use std::collections::BTreeSet;

use anabranch_analysis::expr::SymbolId;
use anabranch_analysis::{CallPath, Mode, Paths, Verdict};
use anabranch_plan::{Object, ObjectMode, Plan};

use crate::run::Record;
use crate::simulate::Course;

/// The reasons for which packets are dropped where what the plan lists of counts and sizes has the last word.
pub(crate) fn reasons(plan: &Plan, paths: Option<&Paths>) -> BTreeSet<String> {
    let Some(paths) = paths else { return BTreeSet::new() };
    let limited = paths.paths.iter().filter_map(|path| match &path.verdict {
        Verdict::Drop(reason) if is_over_limit(path, plan, paths) => Some(reason.clone()),
        _ => None,
    });
    limited.collect()
}

/// Whether the last that a path asks is a count that each shard keeps, or whether there is room in a table of which
/// each worker has one.
fn is_over_limit(path: &CallPath, plan: &Plan, paths: &Paths) -> bool {
    let Some(last) = path.conditions.last() else { return false };
    let asked = paths.terms.unknowns(last.term);
    path.accesses.iter().any(|access| {
        let Some(object) = plan.objects.iter().find(|object| object.name == access.object) else {
            return false;
        };
        let outcome = access.outcome.into_iter();
        let terms: Vec<_> = match access.mode {
            Mode::Read if object.mode == ObjectMode::PerShard => {
                outcome.chain(access.result.iter().map(|part| part.term)).collect()
            }
            Mode::Write if has_one_each(object) && makes(&access.operation) => outcome.collect(),
            _ => Vec::new(),
        };
        let is_asked = |id: &SymbolId| asked.contains(id);
        terms.iter().any(|term| paths.terms.unknowns(*term).iter().any(is_asked))
    })
}

/// Whether each worker has such an object, of the size set.
fn has_one_each(object: &Object) -> bool {
    let modes = [ObjectMode::Sharded, ObjectMode::Steered, ObjectMode::PerShard];
    modes.contains(&object.mode) && object.capacity.is_some() && object.kind != "Vector"
}

fn makes(operation: &str) -> bool {
    operation == "insert" || operation.starts_with("allocate")
}

/// The steps whose packets one core refuses for such a reason, if the first step that differs is one of them and its
/// packet is not refused so by many.
pub(crate) fn refused(
    reasons: &BTreeSet<String>,
    first: usize,
    one: &Record,
    many: &Course,
) -> BTreeSet<usize> {
    let why =
        |record: &Record, at: usize| record.get(at).and_then(|handled| handled.outcome.refused);
    let is_over = |at: usize| why(one, at).is_some_and(|reason| reasons.contains(reason));
    if !is_over(first) || why(one, first) == why(&many.record, first) {
        return BTreeSet::new();
    }
    (0..one.len()).filter(|at| is_over(*at)).collect()
}

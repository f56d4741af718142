//! From what is touched to the plan.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Instant;

use anabranch_analysis::{Paths, Verdict};
use anabranch_rss::{Nic, Which};

use crate::check::unbroken;
use crate::class::Class;
use crate::constraint::{Cause, Constraint, Constraints, Side};
use crate::error::PlanError;
use crate::filter::{Need, needs, written_by_parts};
use crate::keys::{Keys, Wanted, all_fields, keys};
use crate::limit::{Beside, Counts};
use crate::model::{Impossible, Plan, Strategy};
use crate::report;
use crate::shard::{Refusal, Sharding, sharding};
use crate::space::{Deciding, deciding};
use crate::touch::Touches;
use crate::word::{FieldId, Fields};

/// What is asked of the planner.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The NIC that the keys are for.
    pub nic: &'static Nic,
    /// The strategy; `None` leaves it to the planner.
    pub strategy: Option<Strategy>,
    /// Seed of the choice among the keys.
    pub seed: u64,
}

impl Options {
    /// A plan for ports of `nic`, by the strategy that fits.
    pub fn new(nic: &'static Nic) -> Self {
        Self { nic, strategy: None, seed: 1 }
    }
}

/// What the planner has decided, before it is written down.
pub(crate) struct Decision<'p> {
    pub(crate) touches: Touches<'p>,
    pub(crate) lines: Vec<BTreeSet<u32>>,
    pub(crate) sharding: Sharding,
    /// Counts that each shard keeps for itself.
    pub(crate) limits: BTreeSet<usize>,
    counts: Rc<Counts<'p>>,
    pub(crate) constraints: Constraints,
    pub(crate) strategy: Strategy,
    pub(crate) impossible: Option<Impossible>,
    pub(crate) ports: Vec<String>,
    pub(crate) deciding: Deciding,
}

/// Plans a network function from its call paths.
///
/// # Errors
/// Sharding was asked for and does not exist; the error says why, with the lines. Every plan is
/// checked before it is returned; one that does not hold is an error too.
pub fn plan(paths: &Paths, options: &Options) -> Result<Plan, PlanError> {
    let started = Instant::now();
    let mut decision = decide(paths);
    match options.strategy {
        Some(all @ (Strategy::Lock | Strategy::Transactional)) => decision.share_all(all),
        Some(asked) if asked != decision.strategy => {
            return Err(decision.refusal(asked));
        }
        _ => {}
    }
    let solving = Instant::now();
    let keys = decision.keys(options)?;
    let solve_us = solving.elapsed().as_micros();
    let mut plan = report::plan(&decision, keys, options);
    match unbroken(&plan, &decision.constraints, &decision) {
        // Nobody has edited it: packets that must meet would not by the keys that were found.
        Err(PlanError::Broken(missed)) => {
            let why = format!("no keys were found by which all meet that must: {missed}");
            decision.impossible = Some(Impossible { why, lines: Vec::new() });
            if let Some(asked) = options.strategy.filter(|asked| !asked.shares_all()) {
                return Err(decision.refusal(asked));
            }
            decision.share_all(Strategy::Transactional);
            plan = report::plan(&decision, decision.keys(options)?, options);
        }
        unbroken => unbroken?,
    }
    plan.solve_us = u64::try_from(solve_us).unwrap_or(u64::MAX);
    let own = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    plan.total_ms = paths.statistics.time_ms.saturating_add(own);
    Ok(plan)
}

/// Where an index that packets bring needs no constraint of its own, its allocator may steer as well: what serves
/// better is not known before all constraints are.
pub(crate) fn decide(paths: &Paths) -> Decision<'_> {
    decide_beside(paths, &BTreeSet::new())
}

/// The decision where these objects are shared whatever comes of it.
pub(crate) fn decide_beside<'p>(paths: &'p Paths, shared: &BTreeSet<usize>) -> Decision<'p> {
    let (needs, lines): (Vec<Need>, Vec<BTreeSet<u32>>) = needs(paths).into_iter().unzip();
    let mut touches = Touches::read(paths, needs);
    touches.distrusted = touches.sources().intersection(shared).copied().collect();
    let begun = Begun { touches, lines, counts: Rc::new(Counts::new(paths)) };
    let mut steering = BTreeSet::new();
    let mut best = begun.clone().decide_with(&steering);
    let open: Vec<usize> = best.sharding.interchangeable.keys().copied().collect();
    for allocator in open {
        let tried = steering.iter().copied().chain([allocator]).collect();
        let other = begun.clone().decide_with(&tried);
        if other.worth() > best.worth() {
            (best, steering) = (other, tried);
        }
    }
    best
}

/// What every decision begins with.
#[derive(Clone)]
struct Begun<'p> {
    touches: Touches<'p>,
    lines: Vec<BTreeSet<u32>>,
    counts: Rc<Counts<'p>>,
}

impl<'p> Begun<'p> {
    /// The decision where these allocators steer. What is read from an object that is shared may be of any shard: where
    /// keys were followed through one that has come to be, all is decided anew without, and its first reason is kept.
    fn decide_with(mut self, steering: &BTreeSet<usize>) -> Decision<'p> {
        let sources = self.touches.sources();
        let mut reasons = BTreeMap::new();
        loop {
            let decision = self.decide_once(steering, &mut reasons);
            let refused = decision.sharding.refused.keys().copied();
            let news: Vec<usize> = refused
                .filter(|one| sources.contains(one) && !decision.touches.distrusted.contains(one))
                .collect();
            if news.is_empty() {
                return decision;
            }
            let Decision { touches, lines, counts, .. } = decision;
            self = Self { touches, lines, counts };
            self.touches.distrusted.extend(news);
        }
    }

    fn decide_once(
        self,
        steering: &BTreeSet<usize>,
        reasons: &mut BTreeMap<usize, Refusal>,
    ) -> Decision<'p> {
        let Self { mut touches, lines, counts } = self;
        let mut sharding = sharding(&mut touches, steering);
        for (object, reason) in &mut sharding.refused {
            reason.clone_from(reasons.entry(*object).or_insert_with(|| reason.clone()));
        }
        let ports = match &touches.paths.words.ports[..] {
            [] => vec!["any".to_owned()],
            named => named.to_vec(),
        };
        let mut decision = Decision {
            touches,
            lines,
            sharding,
            limits: BTreeSet::new(),
            counts,
            constraints: Constraints::default(),
            strategy: Strategy::SharedNothing,
            impossible: None,
            ports,
            deciding: Deciding::default(),
        };
        let were_refused = decision.relax();
        decision.share();
        decision.keep_to_limits(were_refused);
        decision.settle();
        decision
    }
}

impl Decision<'_> {
    /// The constraints of all objects that are sharded, but for `without`.
    fn all(&self, without: Option<usize>) -> Constraints {
        let mut all = Constraints::default();
        for (object, constraints) in &self.sharding.constraints {
            if Some(*object) != without && !self.limits.contains(object) {
                all.extend(constraints);
            }
        }
        all.coarsest()
    }

    /// How good it is: what shares least, then what spreads best the flows that are spread worst, then what has each
    /// shard count for itself least. Bits beyond those that tell the shards apart are worth nothing.
    fn worth(&self) -> (Reverse<Strategy>, Reverse<usize>, usize, Reverse<usize>) {
        const ENOUGH: usize = 16;
        let sides = self.constraints.all.keys().flat_map(|constraint| constraint.sides);
        let ranks = sides.filter(|(_, class)| class.carries_flows());
        let worst = ranks.map(|side| self.deciding.rank(side)).min().unwrap_or(ENOUGH);
        let (shared, counts) = (self.sharding.refused.len(), self.limits.len());
        (Reverse(self.strategy), Reverse(shared), worst.min(ENOUGH), Reverse(counts))
    }

    /// The fields that may decide, side by side.
    fn deciding<'a>(
        &mut self,
        constraints: impl Iterator<Item = &'a Constraint> + Clone,
    ) -> Deciding {
        let ports = self.ports.len();
        let all = (0..ports).flat_map(|port| Class::ALL.map(|class| (port, class)));
        self.deciding_at(all, constraints)
    }

    fn deciding_at<'a>(
        &mut self,
        at: impl Iterator<Item = Side>,
        constraints: impl Iterator<Item = &'a Constraint> + Clone,
    ) -> Deciding {
        let mut sides: BTreeMap<Side, BTreeSet<FieldId>> = BTreeMap::new();
        for (port, class) in at {
            sides.insert((port, class), usual(class, &mut self.touches.fields));
        }
        for constraint in constraints.clone() {
            let fields = all_fields(constraint);
            for which in [Which::First, Which::Second] {
                let own = sides.entry(constraint.sides[which.index()]).or_default();
                own.extend(&fields[which.index()]);
            }
        }
        deciding(&sides, constraints, &self.touches.fields)
    }

    /// What is sharded and what is not, where each shard keeps `limits` for itself: none of them vouches for another.
    fn beside(&self, limits: &BTreeSet<usize>) -> Beside {
        self.beside_sharded(|object| !limits.contains(object))
    }

    /// What is sharded and what is not, where of all that could be only `sharded` is.
    pub(crate) fn beside_sharded(&self, sharded: impl Fn(&usize) -> bool) -> Beside {
        let name = |at: &usize| self.touches.paths.objects[*at].name.clone();
        let (own, others): (Vec<usize>, Vec<usize>) =
            self.sharding.constraints.keys().partition(|object| sharded(object));
        let others = others.iter().chain(self.sharding.refused.keys()).chain(&self.limits);
        Beside::new(own.iter().map(name).collect(), others.map(name).collect(), &self.counts)
    }

    pub(crate) fn is_limit(&self, object: usize, beside: &Beside) -> bool {
        let object = &self.touches.paths.objects[object];
        // Of ways that were not followed to their end nobody knows what they count.
        !self.touches.paths.given_up
            && matches!(object.kind, "Cell" | "Map" | "Vector" | "Counter")
            && self.counts.is_limit(&object.name, beside)
    }

    /// Whether a count may be kept by shard beside those that are already.
    fn joins_limits(&self, object: usize) -> bool {
        let limits = self.limits.iter().copied().chain([object]).collect();
        let beside = self.beside(&limits);
        let are_limits = || limits.iter().all(|one| self.is_limit(*one, &beside));
        !self.sharding.owners.contains_key(&object) && are_limits()
    }

    /// Keeps counts by shard, where they would stand in the way, and gives back why those were refused that were.
    fn relax(&mut self) -> BTreeMap<usize, Refusal> {
        let mut were_refused = BTreeMap::new();
        for object in self.sharding.refused.keys().copied().collect::<Vec<_>>() {
            if self.joins_limits(object) {
                were_refused.extend(self.sharding.refused.remove(&object).map(|why| (object, why)));
                self.limits.insert(object);
            }
        }
        let keyed = self.sharding.constraints.iter().filter(|(_, own)| !own.all.is_empty());
        for object in keyed.map(|(object, _)| *object).collect::<Vec<_>>() {
            if !self.joins_limits(object) {
                continue;
            }
            let (with, without) = (self.all(None), self.all(Some(object)));
            let (with, without) =
                (self.deciding(with.all.keys()), self.deciding(without.all.keys()));
            let coarser = without.bits.keys().any(|side| with.rank(*side) < without.rank(*side));
            if coarser {
                self.limits.insert(object);
            }
        }
        were_refused
    }

    /// What limits something that has come to be shared since is no limit of a shard: it is as it would be otherwise.
    fn keep_to_limits(&mut self, mut were_refused: BTreeMap<usize, Refusal>) {
        while !self.sharding.refused.is_empty() {
            let beside = self.beside(&self.limits);
            let limits = self.limits.iter().copied();
            let none: Vec<usize> = limits.filter(|one| !self.is_limit(*one, &beside)).collect();
            if none.is_empty() {
                return;
            }
            for object in none {
                self.limits.remove(&object);
                if let Some(reason) = were_refused.remove(&object) {
                    self.sharding.refuse(object, reason);
                }
            }
            self.share();
        }
    }

    fn share(&mut self) {
        self.share_what_conflicts();
        self.share_what_parts_write();
    }

    /// Shares objects until the rest can be sharded.
    fn share_what_conflicts(&mut self) {
        loop {
            let all = self.all(None);
            self.deciding = self.deciding(all.all.keys());
            let Some(side) = self.stuck(&all) else {
                self.constraints = all;
                return;
            };
            let (objects, impossible) = self.conflict(side, &all);
            let objects = self.sharding.with_indices_of(&objects);
            for object in &objects {
                let reason = (impossible.why.clone(), impossible.lines.iter().copied().collect());
                self.sharding.refuse(*object, reason);
            }
            self.impossible.get_or_insert(impossible);
            if objects.is_empty() {
                self.constraints = Constraints::default();
                return;
            }
        }
    }

    /// Shares what the control plane writes by what it has read of state that would be divided. Where anything is
    /// shared, all that it can read is.
    fn share_what_parts_write(&mut self) {
        let written = written_by_parts(self.touches.paths, &self.touches.needs);
        if !self.sharding.refused.is_empty() || written.is_empty() {
            return;
        }
        for (object, lines) in written {
            let why = "the control plane writes it by what it has read of state that is divided";
            for object in self.sharding.with_indices_of(&BTreeSet::from([object])) {
                self.sharding.refuse(object, (why.to_owned(), lines.clone()));
            }
        }
        let all = self.all(None);
        self.deciding = self.deciding(all.all.keys());
        self.constraints = all;
    }

    /// A side of a port where packets of TCP or UDP must meet, and none of them can be spread.
    fn stuck(&self, constraints: &Constraints) -> Option<Side> {
        let constrained: BTreeSet<Side> = constraints
            .all
            .keys()
            .flat_map(|constraint| constraint.sides)
            .filter(|(_, class)| class.carries_flows())
            .collect();
        (0..self.ports.len()).find_map(|port| {
            let mut own = constrained.iter().filter(|(at, _)| *at == port);
            let spread = own.clone().any(|side| self.deciding.rank(*side) > 0);
            own.next().filter(|_| !spread).copied()
        })
    }

    /// The objects to share, and which needs have nothing in common: one constraint that contradicts
    /// itself, else two.
    fn conflict(&mut self, side: Side, all: &Constraints) -> (BTreeSet<usize>, Impossible) {
        let here: Vec<(Constraint, Cause)> =
            all.all.iter().map(|(one, cause)| (one.clone(), cause.clone())).collect();
        let touching: Vec<usize> =
            (0..here.len()).filter(|at| here[*at].0.sides.contains(&side)).collect();
        for one in &touching {
            if self.deciding_at([side].into_iter(), [&here[*one].0].into_iter()).rank(side) == 0 {
                return self.disjoint(&[&here[*one]]);
            }
        }
        // Those that meet these packets may have needs of their own.
        let is_met = |at: &usize| {
            let sides = here[*at].0.sides;
            !touching.contains(at) && sides.iter().all(|(_, class)| *class == side.1)
        };
        let met: Vec<usize> = (0..here.len()).filter(is_met).collect();
        let after = touching
            .iter()
            .enumerate()
            .flat_map(|(at, one)| touching[at + 1..].iter().map(move |other| [*one, *other]));
        let beyond = touching.iter().flat_map(|one| met.iter().map(move |other| [*one, *other]));
        for [one, other] in after.chain(beyond) {
            let pair = [&here[one].0, &here[other].0];
            if self.deciding_at([side].into_iter(), pair.into_iter()).rank(side) == 0 {
                return self.disjoint(&[&here[one], &here[other]]);
            }
        }
        self.disjoint(&here.iter().filter(|(one, _)| one.sides.contains(&side)).collect::<Vec<_>>())
    }

    fn disjoint(&self, needs: &[&(Constraint, Cause)]) -> (BTreeSet<usize>, Impossible) {
        let objects: BTreeSet<usize> =
            needs.iter().flat_map(|(_, cause)| cause.objects.iter().copied()).collect();
        let mut lines: Vec<u32> = Vec::new();
        for (_, cause) in needs {
            lines.extend(cause.shown().into_iter().flat_map(|(a, b)| [a, b]));
        }
        lines.sort_unstable();
        lines.dedup();
        let names: Vec<String> = objects
            .iter()
            .map(|at| format!("`{}`", self.touches.paths.objects[*at].name))
            .collect();
        let wanted: Vec<String> = needs
            .iter()
            .map(|(constraint, _)| {
                crate::ranges::equalities(constraint, &self.ports, &self.touches.fields)
                    .join(" && ")
            })
            .collect();
        let shared = match objects.len() {
            0 | 1 => objects,
            // The last one goes: what is before it in the NF's struct is what it is about.
            _ => objects.into_iter().next_back().into_iter().collect(),
        };
        let have = if names.len() == 1 { "has" } else { "have" };
        let why = format!(
            "{} {have} entries that packets must meet for when {}: no packet field is the same in all \
             packets that must meet",
            names.join(" and "),
            wanted.join(", and also when ")
        );
        (shared, Impossible { why, lines })
    }

    /// The strategy that is left, and why no better one.
    fn settle(&mut self) {
        let keyed = self.constraints.all.keys().next().is_some();
        self.strategy = match (self.sharding.refused.is_empty(), keyed) {
            (true, _) => Strategy::SharedNothing,
            (false, true) => Strategy::Mixed,
            (false, false) => Strategy::Transactional,
        };
        if self.strategy.shares_all() {
            self.impossible = self.impossible.take().or_else(|| self.first_refusal());
            self.share_all(self.strategy);
        } else {
            self.impossible = None;
        }
    }

    pub(crate) fn first_refusal(&self) -> Option<Impossible> {
        let (object, (why, lines)) = self.sharding.refused.iter().next()?;
        let name = &self.touches.paths.objects[*object].name;
        Some(Impossible { why: format!("`{name}`: {why}"), lines: lines.iter().copied().collect() })
    }

    /// All state is shared: packets go anywhere.
    fn share_all(&mut self, strategy: Strategy) {
        self.strategy = strategy;
        self.constraints = Constraints::default();
        self.limits.clear();
        self.deciding = self.deciding(std::iter::empty());
    }

    fn refusal(&self, asked: Strategy) -> PlanError {
        let found = self.impossible.clone().or_else(|| self.first_refusal());
        match found {
            Some(Impossible { why, lines }) => PlanError::NoSharding {
                file: self.touches.paths.file.clone(),
                asked: asked.name(),
                why,
                lines,
            },
            None => PlanError::NotNeeded { asked: asked.name(), instead: self.strategy.name() },
        }
    }

    fn keys(&self, options: &Options) -> Result<Keys, PlanError> {
        let wanted = Wanted {
            nic: options.nic,
            seed: options.seed,
            ports: &self.ports,
            constraints: self.constraints.all.keys().collect(),
            deciding: &self.deciding,
            fields: &self.touches.fields,
            brought: self.brought(),
            fragments: self.touches.paths.fragments,
        };
        keys(&wanted).map_err(|malformed| PlanError::Keys(malformed.to_string()))
    }

    /// Fields that bring back what an allocator that steers gave out.
    fn brought(&self) -> BTreeSet<(Side, FieldId)> {
        let replies = self.sharding.steered.iter().flat_map(|one| &one.replies);
        let sides = replies.flat_map(|(context, field)| {
            context.classes.iter().map(move |class| ((context.port, class), *field))
        });
        sides.collect()
    }

    /// Lines that send a packet back in.
    pub(crate) fn recirculations(&self) -> Vec<u32> {
        let paths = self.touches.paths.paths.iter();
        let again = paths.filter(|path| matches!(path.verdict, Verdict::Recirculate(_)));
        again.map(|path| path.line).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The fields that packets of a class are usually spread by.
fn usual(class: Class, fields: &mut Fields) -> BTreeSet<FieldId> {
    let mut usual = BTreeSet::new();
    let mut add = |name: &str, width| {
        usual.insert(fields.id(name, width));
    };
    for header in class.headers() {
        match *header {
            "ipv4" | "ipv6" => {
                let width = if *header == "ipv4" { 32 } else { 128 };
                add(&format!("{header}.src"), width);
                add(&format!("{header}.dst"), width);
            }
            "tcp" | "udp" => {
                add(&format!("{header}.src"), 16);
                add(&format!("{header}.dst"), 16);
            }
            _ => {}
        }
    }
    if class == Class::NonIp {
        add("ethernet.src", 48);
        add("ethernet.dst", 48);
    }
    usual
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use anabranch_analysis::{Budget, Source, paths_within};
    use anabranch_nf::NetworkFunction;
    use anabranch_nfs::{firewall, nat, policer};

    fn paths_of<F: NetworkFunction>() -> Paths {
        let source = F::SOURCE;
        let source = Source { text: source.text, file: source.file, line: source.line };
        paths_within(&source, Budget::for_accesses()).unwrap()
    }

    /// A plan made without the constraints that speak of both `ports` and of nothing else.
    fn without(decision: &mut Decision<'_>, ports: [usize; 2]) -> Plan {
        let sound = decision.constraints.clone();
        decision.constraints.all.retain(|one, _| one.sides.map(|(port, _)| port) != ports);
        let kept: Vec<Constraint> = decision.constraints.all.keys().cloned().collect();
        decision.deciding = decision.deciding(kept.iter());
        let options = Options::new(Nic::named("e810").unwrap());
        let keys = decision.keys(&options).unwrap();
        let plan = report::plan(decision, keys, &options);
        decision.constraints = sound;
        plan
    }

    /// Keys that were found without a constraint do not serve it: each is needed, and its want seen.
    #[test]
    fn a_constraint_that_is_left_out_is_missed() {
        for (paths, ports) in [
            (paths_of::<policer::Function>(), [1, 1]),
            (paths_of::<firewall::Function>(), [0, 1]),
            (paths_of::<nat::Function>(), [0, 0]),
            (paths_of::<nat::Function>(), [1, 1]),
        ] {
            let mut decision = decide(&paths);
            let plan = without(&mut decision, ports);
            let missed = unbroken(&plan, &decision.constraints, &decision);
            assert!(matches!(missed, Err(PlanError::Broken(_))), "{} {ports:?}", paths.name);
        }
    }
}

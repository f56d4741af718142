//! A plan made ready to run: steering, shards and their workers, allocators that steer.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_analysis::{Budget, Paths, Source, paths_within};
use anabranch_nf::settings::Settings as _;
use anabranch_nf::state::{Commons, Homes, Loans, Scope, ShardSet};
use anabranch_nf::{BuildError, NetworkFunction};
use anabranch_packet::Port;
use anabranch_plan::{
    Class, Object, ObjectMode, Options, Plan, SteeredAllocation, Strategy, evaluate, plan,
};
use anabranch_rss::IndirectionTable;
use thiserror::Error;

use crate::instance::{Instance, Making};
use crate::steer::{SHARDS, Steering};

/// Longest period of a steered allocator: the values of a packet field of 24 bits.
const LONGEST_PERIOD: i128 = 1 << 24;

/// Why a plan is not run with shards.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// The call paths of a network function, from its own source.
///
/// # Errors
/// The source cannot be analysed within `budget`.
pub fn paths_of(source: &anabranch_nf::Source, budget: Budget) -> Result<Paths, Refusal> {
    let source = Source { text: source.text, file: source.file, line: source.line };
    paths_within(&source, budget).map_err(|cause| Refusal(cause.to_string()))
}

/// The plan of `N`, from its own source: its call paths are explored, which takes up to a second.
///
/// # Errors
/// The source cannot be analysed, or there is no plan as `options` ask for.
pub fn plan_of<N: NetworkFunction>(options: &Options) -> Result<Plan, Refusal> {
    let paths = paths_of(&N::SOURCE, Budget::for_accesses())?;
    plan(&paths, options).map_err(|cause| Refusal(cause.to_string()))
}

/// What the workers of a shared-nothing run have in common.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// From packets to shards.
    pub steering: Arc<Steering>,
    /// From shards to workers.
    pub table: Arc<IndirectionTable>,
    /// Which indices of an allocator are at home in which shard, by its name, and whether shards lend
    /// them one another.
    homes: BTreeMap<String, (Arc<Homes>, bool)>,
    /// How the entries of state objects belong to shards, by the object's name.
    scopes: BTreeMap<String, Scope>,
}

/// A worker's place in a deployment.
#[derive(Clone, Debug)]
pub struct Post {
    /// What it shares with the others.
    pub deployment: Deployment,
    /// Its number.
    pub worker: u16,
    /// How the entries of state objects belong to shards, by the object's name.
    pub(crate) scopes: BTreeMap<String, Scope>,
    /// Which indices shards have of allocators that steer, by the allocator's name.
    pub(crate) loans: BTreeMap<String, Arc<Loans>>,
    /// Shards whose state is on its way here.
    pub(crate) arriving: ShardSet,
}

impl Deployment {
    /// Makes `plan` ready for `N` with these settings, on `workers` workers and ports of these
    /// names.
    ///
    /// # Errors
    /// The plan is not shared-nothing, or asks for what this runtime does not do: the sentence says
    /// what.
    pub fn new<N: NetworkFunction>(
        plan: &Plan,
        settings: &toml::Table,
        ports: &[String],
        workers: usize,
    ) -> Result<Self, Refusal> {
        if let Some(why) = why_not_sharded(plan) {
            return Err(Refusal(why));
        }
        let (steering, table) = steer::<N>(plan, ports, workers)?;
        let mut homes = BTreeMap::new();
        for steered in &plan.steered {
            let found = homes_of::<N>(steered, &steering, settings, ports)?;
            let mut entries = plan.steered.iter().filter(|one| one.object == steered.object);
            let lends = entries.all(|one| one.lends);
            homes.insert(steered.object.clone(), (Arc::new(found), lends));
        }
        let scopes = plan.objects.iter().filter_map(scope).collect();
        Ok(Self { steering: Arc::new(steering), table: Arc::new(table), homes, scopes })
    }

    /// Makes ready what can be of a plan whose state cannot all be sharded: packets go where their packet
    /// set is, which one worker has for itself; the other objects are for all workers.
    ///
    /// # Errors
    /// The plan shards no packet sets, or asks for what this runtime does not do.
    pub fn mixed<N: NetworkFunction>(
        plan: &Plan,
        ports: &[String],
        workers: usize,
    ) -> Result<Self, Refusal> {
        if !divides_sets(plan) {
            return Err(Refusal("it has no packet sets that are sharded".to_owned()));
        }
        let (steering, table) = steer::<N>(plan, ports, workers)?;
        let (homes, scopes) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { steering: Arc::new(steering), table: Arc::new(table), homes, scopes })
    }

    /// The allocator, if there is one, whose indices stay inside and are leased by workers.
    pub fn leased(&self) -> Option<&str> {
        let leased = self.scopes.iter().find(|(_, scope)| matches!(scope, Scope::Leased(_)));
        leased.map(|(name, _)| name.as_str())
    }

    /// The instances of all workers.
    ///
    /// # Errors
    /// The settings, or the sizes they ask for, are wrong.
    pub fn instances<N: NetworkFunction>(
        &self,
        making: &Making,
    ) -> Result<Vec<Instance<N>>, BuildError> {
        // What workers have in common is of one run.
        let fresh = |(name, scope): (&String, &Scope)| match scope {
            Scope::Leased(_) => (name.clone(), Scope::Leased(Arc::default())),
            Scope::Replicated(_) => (name.clone(), Scope::Replicated(Arc::default())),
            other => (name.clone(), other.clone()),
        };
        let scopes: BTreeMap<String, Scope> = self.scopes.iter().map(fresh).collect();
        let of_run = |(name, (homes, lends)): (&String, &(Arc<Homes>, bool))| {
            (name.clone(), Arc::new(Loans::new(Arc::clone(homes), *lends)))
        };
        let loans: BTreeMap<String, Arc<Loans>> = self.homes.iter().map(of_run).collect();
        let post = |worker| Post {
            deployment: self.clone(),
            worker,
            scopes: scopes.clone(),
            loans: loans.clone(),
            arriving: ShardSet::default(),
        };
        let workers = 0..self.table.workers() as u16;
        workers.map(|worker| Instance::deployed(making, post(worker))).collect()
    }

    /// How many of an allocator's `capacity` indices have been given out at least, in all, where a shard finds none:
    /// workers lease theirs, some at a time, and of those that are steered a shard has its share, or takes any
    /// of a kind, even or odd, where shards lend. `None`: it is not divided.
    pub fn given_out_before_none(&self, name: &str, capacity: u32) -> Option<u32> {
        if let Some((homes, lends)) = self.homes.get(name) {
            let all = homes.sizes().sum::<u32>();
            let least = if capacity < all { 0 } else { homes.sizes().min().unwrap_or(0) };
            return Some(if *lends { all.min(capacity) / 2 } else { least });
        }
        let workers = self.table.workers() as u32;
        // Who leases some gives one of them out at once.
        let unused = workers * (Commons::block(capacity, workers) - 1);
        matches!(self.scopes.get(name)?, Scope::Leased(_)).then(|| capacity.saturating_sub(unused))
    }
}

/// How the entries of an object belong to shards, if they do.
fn scope(object: &Object) -> Option<(String, Scope)> {
    let scope = match object.mode {
        ObjectMode::Sharded if object.kind == "Allocator" => Scope::Leased(Arc::default()),
        ObjectMode::Sharded | ObjectMode::Steered => Scope::Sharded,
        ObjectMode::PerShard => Scope::PerShard,
        ObjectMode::Replicated if object.kind == "L3" => Scope::Replicated(Arc::default()),
        _ => return None,
    };
    Some((object.name.clone(), scope))
}

impl Deployment {
    /// How state is shared, in a sentence, with what each shard's pool of steered values holds.
    pub fn explain(&self) -> String {
        let shards = self.steering.shards();
        let pool = |(name, (homes, lends)): (&String, &(Arc<Homes>, bool))| {
            let all: u32 = homes.sizes().sum();
            let (least, most) =
                (homes.sizes().min().unwrap_or(0), homes.sizes().max().unwrap_or(0));
            let each = if least == most { least.to_string() } else { format!("{least} to {most}") };
            let lends = if *lends { ", and lends it others' when these are used up" } else { "" };
            format!("; `{name}` gives each of them {each} of {all} values{lends}")
        };
        let pools: String = self.homes.iter().map(pool).collect();
        format!(
            "each worker owns its part of {shards} shards, and packets that share state meet{pools}"
        )
    }
}

/// From packets to shards and from shards to workers.
fn steer<N: NetworkFunction>(
    plan: &Plan,
    ports: &[String],
    workers: usize,
) -> Result<(Steering, IndirectionTable), Refusal> {
    let steering = Steering::new(plan, ports)?.gathering(N::LAYER);
    let shards = steering.shards();
    let table = IndirectionTable::new(SHARDS, shards, workers.clamp(1, shards));
    Ok((steering, table.map_err(|cause| Refusal(cause.to_string()))?))
}

/// Where a line says why.
fn line(lines: &[u32]) -> String {
    lines.first().map_or(String::new(), |line| format!(" (line {line})"))
}

/// By which strategy several workers follow a plan.
pub fn strategy_of(plan: &Plan) -> Strategy {
    if plan.strategy.shares_all() || why_not_sharded(plan).is_none() {
        plan.strategy
    } else if divides_sets(plan) {
        Strategy::Mixed
    } else {
        Strategy::Transactional
    }
}

/// Whether there are packet sets that each worker can have of its shards, while all share the rest in
/// transactions.
fn divides_sets(plan: &Plan) -> bool {
    let is_sharded =
        |object: &Object| object.kind == "PacketSet" && object.mode == ObjectMode::Sharded;
    plan.objects.iter().any(is_sharded)
}

/// Why this runtime cannot give each shard its own state; `None`: it can.
pub fn why_not_sharded(plan: &Plan) -> Option<String> {
    if plan.strategy != Strategy::SharedNothing {
        let shared = plan.objects.iter().find(|object| object.mode == ObjectMode::Shared);
        return Some(match (&plan.impossible, shared) {
            (Some(impossible), _) => format!("{}{}", impossible.why, line(&impossible.lines)),
            (None, Some(one)) => {
                format!("`{}` is shared by all packets: {}{}", one.name, one.why, line(&one.lines))
            }
            (None, None) => "the plan says so".to_owned(),
        });
    }
    for object in &plan.objects {
        if object.kind == "Distributed" && object.mode == ObjectMode::Distributed {
            return Some(format!(
                "the parts of `{}` are not merged between workers yet{}",
                object.name,
                line(&object.lines)
            ));
        }
    }
    None
}

/// The value under which a steered allocator gives out its index 0.
///
/// # Errors
/// What of it is not known before the run.
pub fn first_value<N: NetworkFunction>(
    steered: &SteeredAllocation,
    settings: &toml::Table,
) -> Result<i128, String> {
    evaluate(&steered.base, &|name| setting::<N>(name, settings))
}

fn homes_of<N: NetworkFunction>(
    steered: &SteeredAllocation,
    steering: &Steering,
    settings: &toml::Table,
    ports: &[String],
) -> Result<Homes, Refusal> {
    let wrong = |why: String| Refusal(format!("`{}` cannot be steered: {why}", steered.object));
    let value_of = |name: &str| setting::<N>(name, settings);
    let modulus = evaluate(&steered.modulus, &value_of).map_err(wrong)?;
    let base = first_value::<N>(steered, settings).map_err(wrong)?;
    if !(1..=LONGEST_PERIOD).contains(&modulus) || !(0..=LONGEST_PERIOD).contains(&base) {
        return Err(wrong(format!("{} is {modulus}, {base} is added", steered.modulus)));
    }
    let port = ports.iter().position(|name| *name == steered.port).unwrap_or(0);
    let port = Port::new(port as u8);
    let class = steered.fields.iter().next();
    let (class, field) = class.ok_or_else(|| wrong("no packet brings it back".to_owned()))?;
    let class = Class::named(class).ok_or_else(|| wrong(format!("no class `{class}`")))?;
    let shard_of = |value: i128| steering.shard_of_value(port, class, field, value as u128) as u16;
    let shards: Vec<u16> = (base..base + modulus).map(shard_of).collect();
    Homes::new(shards, steering.shards() as u16).ok_or_else(|| wrong("it is empty".to_owned()))
}

/// The value of `settings.name`, set or by default.
fn setting<N: NetworkFunction>(name: &str, settings: &toml::Table) -> Option<i128> {
    let name = name.strip_prefix("settings.")?;
    if let Some(list) = name.strip_suffix(".len") {
        return settings.get(list)?.as_array().map(|list| list.len() as i128);
    }
    if let Some(set) = settings.get(name) {
        return set.as_integer().map(i128::from);
    }
    let schema = N::Settings::schema();
    let default = schema.into_iter().find(|setting| setting.name == name)?.default?;
    default.replace('_', "").parse().ok()
}

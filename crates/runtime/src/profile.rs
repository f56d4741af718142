//! Runs that are watched: why transactions were given up, by cause, object and line.
//!
//! ```text
//! run in the Profiled world ─▶ trails of all workers ─▶ Finding: structure ▸ cause ▸ both operations
//! ```
//!
//! The causes are declared next to the structures that they are of (`anabranch_nf::tracked`); what the
//! runtime itself has packets run alone for stands here.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_io::source::Progress;
use anabranch_nf::NetworkFunction;
use anabranch_nf::tracked::causes::{Cause, Change, Operation, Recipe, Site, Structure, When};
use anabranch_nf::tracked::{Object, Profile};
use anabranch_plan::Strategy;
use anabranch_txn::{GivenUp, Why};

use crate::deployment::{Deployment, strategy_of, why_not_sharded};
use crate::instance::Making;
use crate::report::RunReport;
use crate::run::{Arrangement, Options, RunError, States, run_on};
use crate::steer::SHARDS;
use crate::transactions::Members;

/// Keys of a finding that are named.
const HOTTEST: usize = 3;

/// Why transactions were given up, and how often.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The cause.
    pub cause: &'static Cause,
    /// What it is a cause of: `Map`, `packet set`, `runtime`.
    pub kind: &'static str,
    /// The state object; `None`: it is the runtime that has the packet run alone.
    pub object: Option<String>,
    /// The operation that was given up.
    pub ours: Option<Site>,
    /// The one that had committed, where there was one and it is still known.
    pub theirs: Option<Site>,
    /// Transactions given up.
    pub times: u64,
    /// Packets handled in them for nothing.
    pub packets: u64,
    /// Packets that ran alone for it.
    pub alone: u64,
    /// The keys or indices that it was about most often, and how often.
    pub keys: Vec<(String, u64)>,
}

/// Runs `N` in transactions, watched; at least two workers. Where the options' plan is followed as
/// `mixed`, packet sets are apart; else all state is shared, whatever the plan says.
///
/// # Errors
/// As [`run`](crate::run::run).
pub fn profile<N: NetworkFunction>(
    options: &Options,
    watch: &mut dyn FnMut(Progress, u64),
) -> Result<(RunReport, Vec<Finding>), RunError> {
    let (profile, arrangement) = (Arc::new(Profile::default()), arrangement::<N>(options));
    let (making, workers) = (&options.making, arrangement.table.workers());
    let deployment = arrangement.deployment.as_ref();
    let members = Members::<N::Profiled>::watched(making, workers, deployment, &profile)?;
    let report = run_on(options, arrangement, States::Tracked(members), watch)?;
    Ok((report, findings(&profile)))
}

/// The same run unwatched; in transactions throughout, too.
///
/// # Errors
/// As [`run`](crate::run::run).
pub fn unwatched<N: NetworkFunction>(
    options: &Options,
    watch: &mut dyn FnMut(Progress, u64),
) -> Result<RunReport, RunError> {
    let arrangement = arrangement::<N>(options);
    let making = Making { turns: Some(false), ..options.making.clone() };
    let states = arrangement.states::<N>(&making)?;
    run_on(options, arrangement, states, watch)
}

fn arrangement<N: NetworkFunction>(options: &Options) -> Arrangement {
    let ports = &options.making.ports;
    let workers = options.workers.clamp(2, SHARDS);
    let plan = options.plan.as_ref().ok();
    let mixed = plan.filter(|plan| strategy_of(plan) == Strategy::Mixed);
    let deployment = mixed.and_then(|plan| Deployment::mixed::<N>(plan, ports, workers).ok());
    match (deployment, mixed) {
        (Some(deployment), Some(plan)) => Arrangement::mixed(deployment, why_not_sharded(plan)),
        _ => Arrangement::transactional::<N>(None, workers),
    }
}

/// What all workers have left behind, by cause and pair of operations; the one that cost most first.
pub fn findings(profile: &Profile) -> Vec<Finding> {
    let mut all: BTreeMap<_, GivenUp> = BTreeMap::new();
    for trail in profile.trails() {
        for (reason, given_up) in trail.take() {
            all.entry(reason).or_default().add(&given_up);
        }
    }
    let objects = profile.objects();
    let finding = |((why, site), given_up)| Finding::new(&objects, why, site, &given_up);
    let mut findings: Vec<Finding> = all.into_iter().map(finding).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse((finding.packets, finding.times)));
    findings
}

impl Finding {
    fn new(
        objects: &[Object],
        why: Why,
        site: Option<anabranch_txn::Site>,
        given_up: &GivenUp,
    ) -> Self {
        let ours = site.and_then(Site::of);
        let (object, cause) = found(objects, why, ours);
        let theirs = match why {
            Why::Conflict { theirs, .. } | Why::Overtaken { theirs } => theirs.and_then(Site::of),
            Why::Alone | Why::First | Why::TooLarge => None,
        };
        Self {
            cause,
            kind: object.map_or(RUNTIME.kind, |object| object.structure.kind),
            object: object.map(|object| object.name.clone()),
            ours,
            theirs,
            times: given_up.times,
            packets: given_up.items,
            alone: given_up.alone,
            keys: object.map_or_else(Vec::new, |object| hottest(object, given_up)),
        }
    }

    /// Whether another worker was in the way.
    pub fn is_conflict(&self) -> bool {
        matches!(
            self.cause.when,
            When::Same(_) | When::Different(_) | When::Met(_) | When::Overtaken
        )
    }
}

/// The object and the cause.
fn found(objects: &[Object], why: Why, ours: Option<Site>) -> (Option<&Object>, &'static Cause) {
    let of_site = |site: Site| objects.get(usize::from(site.object?));
    let own = ours.and_then(of_site);
    let operation = ours.map(|site| site.operation);
    let (object, cause) = match why {
        Why::Conflict { memory, relation, .. } => {
            let part = |object: &Object| {
                let part = object.parts.iter().find(|(number, _)| *number == memory)?;
                object.structure.conflict(part.1, relation)
            };
            let there = objects.iter().find_map(|object| Some((object, part(object)?)));
            (there.map(|(object, _)| object), there.map(|(_, cause)| cause))
        }
        Why::Alone => {
            let structure = own.map_or(&RUNTIME, |object| object.structure);
            (own, operation.and_then(|operation| structure.alone(operation)))
        }
        Why::Overtaken { .. } => (None, RUNTIME.cause(|when| matches!(when, When::Overtaken))),
        Why::TooLarge => (own, RUNTIME.cause(|when| matches!(when, When::TooLarge))),
        Why::First => (own, RUNTIME.cause(|when| matches!(when, When::First))),
    };
    (object, cause.unwrap_or(&UNKNOWN))
}

fn hottest(object: &Object, given_up: &GivenUp) -> Vec<(String, u64)> {
    let mut keys: Vec<_> = given_up.keys.iter().filter(|(key, _)| !key.is_empty()).collect();
    keys.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    let text = |(key, times): (&anabranch_txn::Key, &u64)| ((object.key)(key), *times);
    keys.into_iter().take(HOTTEST).map(text).collect()
}

static UNKNOWN: Cause = Cause {
    name: "not known",
    when: When::Alone(&[]),
    why: "what it was has been forgotten",
    recipes: &[],
};

/// What the runtime has packets run alone for.
pub static RUNTIME: Structure = Structure {
    kind: "runtime",
    causes: &[
        Cause {
            name: "event due",
            when: When::Alone(&[Operation::Due]),
            why: "a timer, a period, a command or the collection of what has expired was due, and is \
                  handled before the next packet, with nobody beside it",
            recipes: &[Recipe {
                change: Change::Line("longer periods and timers; longer lifetimes of what expires"),
                relaxes: "what is due happens less often",
                effect: "one packet runs alone for each time that something is due",
            }],
        },
        Cause {
            name: "line logged",
            when: When::Alone(&[Operation::Log]),
            why: "lines of the log are in order, whichever worker they come from",
            recipes: &[Recipe {
                change: Change::Line(
                    "count in a `Counter` what every packet may do, and log in `periodic`",
                ),
                relaxes: "the log has one line a period instead of one a packet",
                effect: "no packet runs alone for it",
            }],
        },
        Cause {
            name: "timer set",
            when: When::Alone(&[Operation::SetTimer]),
            why: "timers of all workers are in one order",
            recipes: &[Recipe {
                change: Change::Line(
                    "let a lifetime run out (`#[expired]`) instead of a timer of its own",
                ),
                relaxes: "",
                effect: "to begin a lifetime needs nobody to be alone",
            }],
        },
        Cause {
            name: "packet re-enters",
            when: When::Alone(&[Operation::Reenter]),
            why: "a packet that re-enters does so in one go: in between, others might write",
            recipes: &[Recipe {
                change: Change::Line("do in one handler what the packet re-enters for"),
                relaxes: "",
                effect: "no packet runs alone for it",
            }],
        },
        Cause {
            name: "overtaken",
            when: When::Overtaken,
            why: "others had changed nothing for a while, so no log was kept of what was read; another worker \
                  committed, and whether that mattered is not known: it ran again, and those after it keep one",
            recipes: &[],
        },
        Cause {
            name: "first change",
            when: When::First,
            why: "until somebody changes it, an object is read without being watched for changes; who \
                  changes it first does so alone",
            recipes: &[],
        },
        Cause {
            name: "too large",
            when: When::TooLarge,
            why: "a transaction reads 4,096 objects, writes 512 and has 512 effects at most",
            recipes: &[Recipe {
                change: Change::Line("bound the loop, or spread its work over several packets"),
                relaxes: "what one packet did is done over several",
                effect: "packets fit into transactions, several at once",
            }],
        },
    ],
};

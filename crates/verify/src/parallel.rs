//! How a network function runs on many cores, as its plan says, and what may go wrong there.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use anabranch_nf::NetworkFunction;
use anabranch_packet::Port;
use anabranch_packet::fuzzing::Seeds;
use anabranch_plan::Plan;
use anabranch_runtime::deployment::{Deployment, why_not_sharded};
use anabranch_runtime::instance::{Instance, Making};
use anabranch_runtime::steer::worker_of;

use crate::compare::Sameness;
use crate::endpoint::endpoints;
use crate::error::VerifyError;
use crate::program::Arrival;
use crate::setup::Setup;

/// How a function runs on many cores.
#[derive(Clone, Debug)]
pub struct Parallel {
    /// Shards and who owns them; `None`: one lock around all state.
    pub(crate) deployment: Option<Deployment>,
    /// Packet sets apart, where they can be while everything else is shared in transactions.
    pub(crate) divided: Option<Deployment>,
    /// Number of workers.
    pub(crate) workers: usize,
    /// Shards go to other workers with their state, where they can: before one packet in so many;
    /// `None`: they stay.
    pub(crate) moves_once_in: Option<usize>,
    /// What the runtime does wrong.
    pub(crate) fault: Option<Fault>,
}

/// How often shards move.
const MOVES_ONCE_IN: usize = 40;

/// Something that the runtime does wrong, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A packet that re-enters in a shard of another worker stays where it is.
    KeepsHandOvers,
    /// Halfway through, shards go to the next worker each, and their state stays behind.
    MovesShards,
    /// A shard goes to another worker with its state, but not with the packets that wait for it.
    MovesUndrained,
}

impl Parallel {
    /// As `plan` says.
    ///
    /// # Errors
    /// [`VerifyError::Plan`] where the plan cannot be followed.
    pub fn of_plan<N: NetworkFunction>(
        plan: &Plan,
        setup: &Setup,
        workers: usize,
    ) -> Result<Self, VerifyError> {
        let divided = Deployment::mixed::<N>(plan, &setup.ports, workers).ok();
        if why_not_sharded(plan).is_some() {
            return Ok(Self { divided, ..Self::locked(workers) });
        }
        let deployment = Deployment::new::<N>(plan, &setup.settings, &setup.ports, workers);
        let deployment = deployment.map_err(|why| VerifyError::Plan(why.to_string()))?;
        Ok(Self { divided, ..Self::sharded(deployment) })
    }

    /// Each worker has state of its own.
    pub fn sharded(deployment: Deployment) -> Self {
        let workers = deployment.table.workers();
        Self {
            deployment: Some(deployment),
            divided: None,
            workers,
            moves_once_in: Some(MOVES_ONCE_IN),
            fault: None,
        }
    }

    /// All workers share all state, behind one lock.
    pub fn locked(workers: usize) -> Self {
        let (workers, moves_once_in) = (workers.max(1), None);
        Self { deployment: None, divided: None, workers, moves_once_in, fault: None }
    }

    /// Deals the shards out to workers anew, as `seed` says: any two may come apart.
    pub(crate) fn shuffle(&mut self, seed: u64) {
        for deployment in self.deployment.iter_mut().chain(&mut self.divided) {
            let mut chance = Seeds::new(seed);
            let table = Arc::make_mut(&mut deployment.table);
            for shard in 0..table.shards() as u16 {
                // Every shard and every worker exist.
                let _ = table.move_shard(shard, chance.below(self.workers) as u16);
            }
        }
    }

    /// What "the same" means here.
    pub fn sameness(&self) -> Sameness {
        if self.deployment.is_some() { Sameness::Renamed } else { Sameness::Exact }
    }

    /// The instances: one for each worker, or one for all.
    pub(crate) fn instances<N: NetworkFunction>(
        &self,
        making: &Making,
    ) -> Result<Vec<Instance<N>>, VerifyError> {
        let made = match &self.deployment {
            None => Instance::new(making).map(|only| vec![only]),
            Some(deployment) => deployment.instances(making),
        };
        made.map_err(|why| VerifyError::Settings(why.0))
    }

    /// The shard of a packet.
    pub(crate) fn shard(&self, arrival: &Arrival) -> u32 {
        match &self.deployment {
            Some(deployment) => shard(deployment, arrival),
            None => flow(arrival),
        }
    }

    /// The worker that gets a packet where packet sets are apart; `None`: they are not.
    pub(crate) fn divided_worker(&self, arrival: &Arrival) -> Option<usize> {
        let deployment = self.divided.as_ref()?;
        Some(worker_of(shard(deployment, arrival), &deployment.table).into())
    }

    /// The worker of a shard.
    pub(crate) fn worker(&self, shard: u32) -> usize {
        match &self.deployment {
            Some(deployment) => worker_of(shard, &deployment.table).into(),
            None => shard as usize % self.workers,
        }
    }
}

fn shard(deployment: &Deployment, arrival: &Arrival) -> u32 {
    let port = Port::new(arrival.port);
    deployment.steering.shard(port, &arrival.bytes, arrival.wire_len)
}

/// A hash by which the packets of a flow stay in order, in both directions.
fn flow(arrival: &Arrival) -> u32 {
    let hash = |value: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        value(&mut hasher);
        hasher.finish() as u32
    };
    let ends = endpoints(&arrival.bytes);
    match &ends[..] {
        [] => hash(&|hasher| arrival.bytes.get(..12).hash(hasher)),
        ends => ends.iter().fold(0, |all, end| all ^ hash(&|hasher| end.endpoint.hash(hasher))),
    }
}

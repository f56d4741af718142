//! Why there is no plan.

use thiserror::Error;

/// Why there is no plan of the kind asked for, or why an edited one is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The strategy asked for needs a sharding that does not exist.
    #[error("{file}: no {asked} plan exists ({}): {why}", numbered(lines))]
    NoSharding {
        /// The author's file.
        file: String,
        /// The strategy.
        asked: &'static str,
        /// The reason.
        why: String,
        /// The lines.
        lines: Vec<u32>,
    },
    /// The strategy asked for shares what can be sharded.
    #[error("no {asked} plan is needed: everything can be {instead}; leave out --strategy")]
    NotNeeded {
        /// The strategy asked for.
        asked: &'static str,
        /// The better one.
        instead: &'static str,
    },
    /// The solver of keys refused the problem.
    #[error("keys: {0}")]
    Keys(String),
    /// A plan's text cannot be read.
    #[error("the plan cannot be read: {0}")]
    Text(String),
    /// An edit breaks what the network function needs.
    #[error("the plan breaks a constraint: {0}")]
    Broken(String),
    /// It is no plan of the function, or none that a NIC of the model can do.
    #[error("the plan does not fit: {0}")]
    Unfit(String),
}

/// `line 3`, `lines 3, 5`.
pub fn numbered<'l>(lines: impl IntoIterator<Item = &'l u32>) -> String {
    let numbers = lines.into_iter().map(u32::to_string).collect::<Vec<_>>();
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("line{plural} {}", numbers.join(", "))
}

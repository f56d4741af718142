//! Generated traffic: flows between an inside and an outside network, as packets with valid
//! headers and checksums, the same for the same specification and seed.
//!
//! ```
//! use anabranch_io::traffic::{TrafficSpec, Traffic};
//! let spec: TrafficSpec = "flows=1000,zipf=1.1,packets=10000,size=imix".parse()?;
//! let trace = Traffic::new(&spec)?.into_trace();
//! assert_eq!(trace.len(), 10_000);
//! # Ok::<(), anabranch_io::spec::SpecError>(())
//! ```

mod flow;
mod frame;
mod generator;
mod options;
mod prefix;
mod random;
mod sampler;
mod source;
mod spec;

pub use flow::{Flow, Protocol};
pub use generator::Traffic;
pub use prefix::Prefix;
pub use random::Random;
pub use sampler::Sampler;
pub use source::TrafficSource;
pub use spec::{Distribution, MAX_FLOWS, Sizes, TrafficSpec};

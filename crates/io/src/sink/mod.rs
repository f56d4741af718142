//! Sinks: where the packets of a run go.

mod outputs;
mod sinks;

pub use outputs::{Output, Outputs, write_in_order};
pub use sinks::{CaptureSink, PortCount, Sink, Sinks};

//! Generated traffic, in memory.

use anabranch_io::traffic::{Traffic, TrafficSpec};

use crate::sides::Arrival;
use crate::traces::Captured;

/// Skewed, of both versions, with whole TCP connections that come and go; both directions.
pub const MIXED: &str = "flows=3000,packets=60000,zipf=1.1,size=imix,tcp=0.7,handshake=true,rst=0.1,ipv6=0.25,churn=2000,seed=11";

/// Packets of a specification as `anabranch traffic` takes it.
pub fn traffic(spec: &str) -> Vec<Arrival> {
    let spec: TrafficSpec = spec.parse().unwrap();
    let trace = Traffic::new(&spec).unwrap().into_trace();
    let arrival = |(index, record): (usize, &anabranch_io::TraceRecord)| Arrival {
        port: record.port.index(),
        packet: Captured {
            at_ns: record.arrival_ns,
            wire_len: record.wire_len,
            bytes: trace.bytes(index).to_vec(),
        },
    };
    trace.records().iter().enumerate().map(arrival).collect()
}

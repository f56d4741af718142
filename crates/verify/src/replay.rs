//! Captures as programs.

use anabranch_io::{Trace, TraceRecord};

use crate::program::{Act, Program, Step, Template};
use crate::setup::Setup;

/// Packets of one program.
const OF_A_PROGRAM: usize = 5_000;

/// Packets that come closer together than this, in nanoseconds, arrive at the same time, so that
/// they may be handled in any order that keeps their flows'.
const TOGETHER_NS: u64 = 1_000_000;

/// The packets of `traces` in order of time. Those that went to what an allocator gave out then are
/// left out: it gives out something else now.
pub fn replay(traces: &[Trace], setup: &Setup) -> Vec<Program> {
    let mut packets: Vec<(&TraceRecord, &[u8])> = Vec::new();
    for trace in traces {
        let records = trace.records().iter().enumerate();
        packets.extend(records.map(|(index, record)| (record, trace.bytes(index))));
    }
    packets.sort_by_key(|(record, _)| record.arrival_ns);
    packets.chunks(OF_A_PROGRAM).map(|packets| program(packets, setup)).collect()
}

fn program(packets: &[(&TraceRecord, &[u8])], setup: &Setup) -> Program {
    let mut acts = Vec::new();
    let mut last_ns = packets.first().map_or(0, |(record, _)| record.arrival_ns);
    for (record, bytes) in packets {
        let pause = record.arrival_ns.saturating_sub(last_ns);
        if pause >= TOGETHER_NS {
            last_ns = record.arrival_ns;
            acts.push(Act::Pause(pause));
        }
        let mut template = Template::literal(record.port.index(), bytes.to_vec());
        template.lengthen(record.wire_len);
        acts.push(Act::Packet(template));
    }
    let steps = acts.into_iter().zip(0..).map(|(act, name)| Step { name, act });
    Program { steps: steps.collect(), avoid: setup.allocated.clone() }
}

//! Generated traffic as a source.

use super::generator::Traffic;
use super::spec::TrafficSpec;
use crate::source::{CHUNK_PACKETS, Progress, ProgressUnit, Recycler, Source, SourceError};
use crate::spec::SpecError;
use crate::trace::Chunk;
use anabranch_packet::Port;

/// Generates traffic chunk by chunk.
#[derive(Debug)]
pub struct TrafficSource {
    traffic: Traffic,
    recycler: Recycler,
}

impl TrafficSource {
    /// Traffic for ports 0 (inside) and 1 (outside); or, with a port given, only what the inside
    /// sends, arriving there.
    ///
    /// Fails as [`TrafficSpec::check`] does.
    pub fn new(spec: &TrafficSpec, only: Option<Port>) -> Result<Self, SpecError> {
        let traffic = match only {
            None => Traffic::new(spec)?,
            Some(port) => {
                let spec = TrafficSpec { reply: 0.0, ..spec.clone() };
                Traffic::new(&spec)?.with_ports(port, port)
            }
        };
        Ok(Self { traffic, recycler: Recycler::default() })
    }

    /// What generates the packets.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

impl Source for TrafficSource {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError> {
        let first_number = self.traffic.emitted();
        let mut trace = self.recycler.take();
        let count = self.traffic.generate(&mut trace, CHUNK_PACKETS);
        if count == 0 {
            return Ok(None);
        }
        Ok(Some(Chunk::new(self.recycler.lend(trace), 0..count, first_number, 0)))
    }

    fn progress(&self) -> Progress {
        let total = Some(self.traffic.packets());
        Progress { done: self.traffic.emitted(), total, unit: ProgressUnit::Packets }
    }
}

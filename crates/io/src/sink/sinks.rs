//! The sinks of a run, by port.

use super::Output;
use crate::capture::{CaptureWriter, Record, WriteError};
use crate::spec::SinkSpec;
use anabranch_packet::Port;
use std::path::Path;

/// Takes the packets that leave by one or more ports, in order.
pub trait Sink: Send {
    /// Takes one packet. Fails when it cannot be written.
    fn write(&mut self, output: &Output<'_>) -> Result<(), WriteError>;

    /// Completes what was written. A sink that is dropped instead leaves nothing behind.
    fn finish(self: Box<Self>) -> Result<(), WriteError>;
}

/// Discards packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl Sink for NullSink {
    fn write(&mut self, _: &Output<'_>) -> Result<(), WriteError> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), WriteError> {
        Ok(())
    }
}

/// Writes packets to a capture.
#[derive(Debug)]
pub struct CaptureSink {
    writer: CaptureWriter,
}

impl CaptureSink {
    /// Starts a capture. Fails as [`CaptureWriter::create`] does.
    pub fn create(file: impl AsRef<Path>) -> Result<Self, WriteError> {
        Ok(Self { writer: CaptureWriter::create(file)? })
    }
}

impl Sink for CaptureSink {
    fn write(&mut self, output: &Output<'_>) -> Result<(), WriteError> {
        let Output { timestamp_ns, wire_len, bytes, .. } = *output;
        self.writer.write(&Record { timestamp_ns, wire_len, bytes })
    }

    fn finish(self: Box<Self>) -> Result<(), WriteError> {
        self.writer.finish().map(|_| ())
    }
}

/// Packets that left by one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCount {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// The sinks of a run. Packets of ports without a sink are counted and discarded.
pub struct Sinks {
    sinks: Vec<Box<dyn Sink>>,
    /// The sink of each port, by the port's index; all 256 of them, so that no look-up fails.
    of_port: Vec<Option<usize>>,
    counts: Vec<PortCount>,
}

impl Sinks {
    /// Opens the sinks that are bound to ports. A binding without a port takes every port that has
    /// none of its own; the same file bound twice is one capture.
    ///
    /// Fails when a capture cannot be created; captures opened before it leave nothing behind.
    pub fn open(bindings: &[(Option<Port>, SinkSpec)]) -> Result<Self, WriteError> {
        let mut opened = Self::discarding();
        let mut specs: Vec<&SinkSpec> = Vec::new();
        for (port, spec) in bindings {
            let known = specs.iter().position(|other| *other == spec);
            let sink = match known {
                Some(sink) => sink,
                None => {
                    opened.sinks.push(open_one(spec)?);
                    specs.push(spec);
                    specs.len() - 1
                }
            };
            opened.bind(*port, sink);
        }
        Ok(opened)
    }

    /// No sinks: everything is counted and discarded.
    pub fn discarding() -> Self {
        let ports = usize::from(u8::MAX) + 1;
        Self {
            sinks: Vec::new(),
            of_port: vec![None; ports],
            counts: vec![PortCount::default(); ports],
        }
    }

    fn bind(&mut self, port: Option<Port>, sink: usize) {
        match port {
            Some(port) => self.of_port[usize::from(port.index())] = Some(sink),
            None => self.of_port.iter_mut().for_each(|free| *free = free.or(Some(sink))),
        }
    }

    /// Hands a packet to the sink of its port.
    ///
    /// Fails when the sink does.
    #[inline]
    pub fn write(&mut self, output: &Output<'_>) -> Result<(), WriteError> {
        let port = usize::from(output.port.index());
        if let Some(count) = self.counts.get_mut(port) {
            count.packets += 1;
            count.bytes += u64::from(output.wire_len);
        }
        let sink = self.of_port.get(port).copied().flatten();
        match sink.and_then(|sink| self.sinks.get_mut(sink)) {
            Some(sink) => sink.write(output),
            None => Ok(()),
        }
    }

    /// What left by `port` so far.
    pub fn count(&self, port: Port) -> PortCount {
        self.counts.get(usize::from(port.index())).copied().unwrap_or_default()
    }

    /// Completes all captures and gives them their names.
    ///
    /// Fails when one cannot be completed; that one and those after it leave nothing behind.
    pub fn finish(self) -> Result<(), WriteError> {
        self.sinks.into_iter().try_for_each(Sink::finish)
    }
}

fn open_one(spec: &SinkSpec) -> Result<Box<dyn Sink>, WriteError> {
    Ok(match spec {
        SinkSpec::Null => Box::new(NullSink),
        SinkSpec::Capture(file) => Box::new(CaptureSink::create(file)?),
    })
}

//! The sinks of a run, by port.

use super::Output;
use crate::capture::{CaptureWriter, Record, WriteError, identity};
use crate::spec::SinkSpec;
use crate::trace::Chunk;
use anabranch_packet::Port;
use std::path::{Path, PathBuf};

/// Takes the packets that leave by one or more ports, in order.
pub trait Sink: Send {
    /// Takes one packet. Fails when it cannot be written.
    fn write(&mut self, output: &Output<'_>) -> Result<(), WriteError>;

    /// Completes what was written. A sink that is dropped instead leaves nothing behind.
    fn finish(self: Box<Self>) -> Result<(), WriteError>;
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

/// Where the packets of one port go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// Nothing was said about this port.
    Unbound,
    Discarded,
    To(usize),
}

/// The sinks of a run. Packets of ports without a sink are counted and discarded.
pub struct Sinks {
    sinks: Vec<Box<dyn Sink>>,
    /// By the port's index; one for each of the 256 there can be, so that no look-up fails.
    routes: Vec<Route>,
    counts: Vec<PortCount>,
}

impl Sinks {
    /// Opens the sinks that are bound to ports. A binding without a port takes every port that has
    /// none of its own; the same file bound twice is one capture.
    ///
    /// Fails when a capture cannot be created; captures opened before it leave nothing behind.
    pub fn open(bindings: &[(Option<Port>, SinkSpec)]) -> Result<Self, WriteError> {
        let mut opened = Self::discarding();
        let mut files = Vec::new();
        let (named, rest): (Vec<_>, Vec<_>) = bindings.iter().partition(|(port, _)| port.is_some());
        for (port, spec) in named.into_iter().chain(rest) {
            let route = match spec {
                SinkSpec::Null => Route::Discarded,
                SinkSpec::Capture(file) => Route::To(opened.open_file(file, &mut files)?),
            };
            opened.bind(*port, route);
        }
        Ok(opened)
    }

    /// No sinks: everything is counted and discarded.
    pub fn discarding() -> Self {
        let ports = usize::from(u8::MAX) + 1;
        Self {
            sinks: Vec::new(),
            routes: vec![Route::Unbound; ports],
            counts: vec![PortCount::default(); ports],
        }
    }

    /// The sink of a file, opened unless it is open.
    fn open_file(&mut self, file: &Path, files: &mut Vec<PathBuf>) -> Result<usize, WriteError> {
        let place = identity(file);
        if let Some(known) = files.iter().position(|other| *other == place) {
            return Ok(known);
        }
        self.sinks.push(Box::new(CaptureSink::create(file)?));
        files.push(place);
        Ok(files.len() - 1)
    }

    fn bind(&mut self, port: Option<Port>, route: Route) {
        match port {
            Some(port) => self.routes[usize::from(port.index())] = route,
            None => {
                let unbound = self.routes.iter_mut().filter(|other| **other == Route::Unbound);
                unbound.for_each(|other| *other = route);
            }
        }
    }

    /// Hands a packet to the sink of its port.
    ///
    /// Fails when the sink does.
    #[inline]
    pub fn write(&mut self, output: &Output<'_>) -> Result<(), WriteError> {
        self.add(output.port, PortCount { packets: 1, bytes: output.wire_len.into() });
        match self.routes.get(usize::from(output.port.index())) {
            Some(Route::To(sink)) => match self.sinks.get_mut(*sink) {
                Some(sink) => sink.write(output),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Hands all packets of a chunk to the sinks of the ports they arrive at: how captures are
    /// made of any source, generated traffic above all.
    ///
    /// Fails when a sink does.
    pub fn write_chunk(&mut self, chunk: &Chunk) -> Result<(), WriteError> {
        (0..chunk.len()).filter_map(|index| chunk.packet(index)).try_for_each(|(meta, bytes)| {
            self.write(&Output {
                number: meta.number,
                sub: 0,
                port: meta.port,
                timestamp_ns: meta.arrival_ns,
                wire_len: meta.wire_len,
                bytes,
            })
        })
    }

    /// Whether packets of `port` are discarded, so that a worker need not collect them: it
    /// [adds](Self::add) them to the counts instead.
    #[inline]
    pub fn is_discarded(&self, port: Port) -> bool {
        !matches!(self.routes.get(usize::from(port.index())), Some(Route::To(_)))
    }

    /// Counts packets that left by `port` and were discarded by the worker.
    #[inline]
    pub fn add(&mut self, port: Port, more: PortCount) {
        if let Some(count) = self.counts.get_mut(usize::from(port.index())) {
            count.packets += more.packets;
            count.bytes += more.bytes;
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

//! `dpdk:DEVICE`: a device of DPDK's, by its place on the PCI bus or by the name and the arguments of a virtual one.
//!
//! Each worker has a receive and a transmit queue. Packets are handled where the device has put them, and those that
//! leave by another DPDK port leave as they lie: the mbuf changes hands, nothing is copied. Devices are polled.

mod device;
mod eal;
#[allow(unsafe_code)]
mod ffi;
#[allow(unsafe_code)]
mod memory;
mod spreading;

use super::error::OpenError;
use super::offload::finish_unmarked;
use super::{Driver, LivePort, Opened, Queue, QueueStatistics, Sent, interface};
use anabranch_packet::{Frame, Port};
use device::Device;
use eal::Pages;
use memory::{Lane, Seat};
use spreading::Hash;
use std::fs;
use std::os::fd::RawFd;
use std::sync::Arc;

/// Drivers that take a key and a table, and hash nothing.
const HASHES_NOTHING: &str = "net_null";
/// A driver that keeps what it says it could not send, and sends it when the link is back.
const SENDS_LATER: &str = "net_af_packet";

/// DPDK's version, as it is linked: `DPDK 22.11.11`.
pub(super) fn version() -> String {
    ffi::version()
}

/// Opens `written` with a queue for each of `workers` workers.
pub(super) fn open(written: &str, port: Port, workers: usize) -> Result<LivePort, OpenError> {
    let workers = workers.max(1);
    let (device, seats) = Device::start(written, workers)?;
    let about = about(&device, workers);
    let driver = (device.description.driver() != HASHES_NOTHING).then(|| {
        Box::new(Hash::of(&device.started, &device.description)) as Box<dyn Driver + Send>
    });
    let device = Arc::new(device);
    let memory = |(number, seat)| {
        Box::new(Memory { device: Arc::clone(&device), port, first: number == 0, seat })
            as Box<dyn Opened>
    };
    let queues = seats.into_iter().enumerate().map(memory).collect();
    Ok(LivePort { queues, about, driver })
}

fn about(device: &Device, workers: usize) -> String {
    let driver = device.description.driver();
    let queues = match workers {
        1 => "1 queue".to_owned(),
        count => format!("{count} queues, one a worker"),
    };
    let pages = match device.pages {
        Pages::Huge => "on hugepages",
        Pages::Small => {
            "on small pages, which is slower: `sysctl vm.nr_hugepages=256` before the run makes large ones"
        }
    };
    let node = node(device.description.socket, "/sys/devices/system/node").unwrap_or_default();
    let link = if ffi::has_link(device.started.port()) { "" } else { without_link(driver) };
    format!(
        "driver {driver}, {queues}, polled; packets are handled where they were received, {pages}, and leave other \
         DPDK ports from there{node}{link}"
    )
}

/// What is to be said of a device that has no link: some drivers look for their other end as long as they run, and never
/// say that they do not find it.
fn without_link(driver: &str) -> &'static str {
    match driver {
        "net_memif" => {
            "; its link is down as yet: if it stays so, nobody is at the other end of its socket (`socket=` in its \
             arguments is the same on both sides, and one of them has `role=server`)"
        }
        _ => "; its link is down as yet",
    }
}

/// Where the device is, on machines with several nodes.
fn node(socket: i32, nodes: &str) -> Option<String> {
    let online = fs::read_to_string(format!("{nodes}/online")).ok()?;
    if socket < 0 || online.trim() == "0" {
        return None;
    }
    let cores = fs::read_to_string(format!("{nodes}/node{socket}/cpulist")).ok()?;
    let cores = cores.trim();
    Some(format!(
        "; it is on node {socket}, and fastest with `taskset -c {cores}` before the command"
    ))
}

/// A worker's part of a device.
struct Memory {
    device: Arc<Device>,
    port: Port,
    /// What the device counts is told by one of them.
    first: bool,
    seat: Seat,
}

impl Opened for Memory {
    fn queue(&mut self) -> Box<dyn Queue<'_> + '_> {
        let Self { device, port, first, seat } = self;
        Box::new(Dpdk {
            lane: seat.lane(device.longest()),
            finishes: device.may_be_unfinished(),
            index: device.interface_index,
            device,
            port: *port,
            first: *first,
            statistics: QueueStatistics::default(),
            missed: [0; 2],
            unsent: [0; 2],
            kept: (device.description.driver() == SENDS_LATER).then_some(0),
            is_down: false,
            has_received: false,
            is_over: false,
        })
    }
}

struct Dpdk<'m> {
    lane: Lane<'m>,
    /// Whether checksums that an offload has left unfinished are looked for.
    finishes: bool,
    device: &'m Device,
    /// The number of the interface that it is on.
    index: Option<i32>,
    port: Port,
    first: bool,
    statistics: QueueStatistics,
    /// Packets that the device has lost so far, and those before it lost; received, and to be sent.
    missed: [u64; 2],
    unsent: [u64; 2],
    /// Of a driver that sends later: packets that it has kept, and that have left since.
    kept: Option<u64>,
    is_down: bool,
    /// Whether something has come since interfaces were looked at.
    has_received: bool,
    /// Whether nothing is sent any more.
    is_over: bool,
}

impl Dpdk<'_> {
    fn note_up(&mut self, is_up: bool) {
        self.statistics.link_downs += u64::from(!is_up && !self.is_down);
        self.is_down = !is_up;
    }

    fn look_at_counts(&mut self) {
        if !self.first {
            return;
        }
        let counts = self.lane.counts();
        self.missed[0] = counts.missed + counts.no_memory + counts.rx_errors;
        match &mut self.kept {
            None => self.unsent[0] = counts.tx_errors,
            // It goes with the device.
            Some(kept) if self.lane.is_parked() || self.is_over && self.is_down => {
                self.unsent[0] = counts.tx_errors.saturating_sub(*kept);
            }
            Some(kept) if !self.is_down => *kept = counts.tx_errors,
            Some(_) => {}
        }
    }

    /// Some drivers do not look at the interface that they are on.
    fn has_link(&self) -> bool {
        self.device.interface.as_deref().is_none_or(interface::has_link)
            && ffi::has_link(self.device.started.port())
    }

    fn down(&self, packets: usize) -> Sent {
        Sent { down: packets as u64, ..Sent::default() }
    }
}

impl<'m> Queue<'m> for Dpdk<'m> {
    #[inline]
    fn receive(&mut self, batch: &mut Vec<Frame<'m>>, max: usize) -> usize {
        let before = batch.len();
        let unlent = self.lane.receive(batch, max, self.port);
        self.statistics.oversized += unlent.packets;
        self.statistics.oversized_bytes += unlent.bytes;
        if self.finishes {
            for frame in batch.iter_mut().skip(before) {
                let finished = finish_unmarked(frame.bytes_mut());
                self.statistics.finished_checksums += u64::from(finished);
            }
        }
        let received = batch.len() - before;
        self.has_received |= received > 0;
        received
    }

    fn release(&mut self, batch: &mut Vec<Frame<'m>>) {
        self.lane.release(batch);
    }

    fn send(&mut self, packets: &[&[u8]]) -> Sent {
        if self.is_down { self.down(packets.len()) } else { self.lane.send(packets) }
    }

    fn forward(&mut self, frames: &mut [Frame<'m>], places: &[u8]) -> Sent {
        if self.is_down { self.down(places.len()) } else { self.lane.forward(frames, places) }
    }

    fn forward_all(&mut self, batch: &mut Vec<Frame<'m>>) -> Sent {
        if self.is_down { self.down(batch.len()) } else { self.lane.forward_all(batch) }
    }

    fn attend(&mut self) {
        let name = self.device.interface.as_deref();
        let index = name.and_then(interface::index);
        if self.lane.is_parked() || index != self.index {
            self.note_up(false);
            // What had come is read first.
            if std::mem::take(&mut self.has_received) {
                return;
            }
            let generation = self.lane.park();
            if name.is_some_and(|name| interface::usable(name).is_ok()) {
                // What keeps it from being started may pass; who comes last starts it.
                let _ = self.device.restart(generation);
            }
            // Others may have sent by it since; what it had counted when it was closed is all.
            self.look_at_counts();
            if self.lane.unpark() {
                self.index = index;
                self.kept = self.kept.map(|_| 0);
                for lost in [&mut self.missed, &mut self.unsent] {
                    *lost = [0, lost.iter().sum()];
                }
                self.statistics.reopened += 1;
                self.note_up(self.has_link());
            }
            return;
        }
        // Some drivers do not look at the MTU of the interface that they are on.
        self.lane.set_longest(self.device.longest());
        self.note_up(self.has_link());
        self.has_received = false;
        if self.kept.is_some() {
            self.look_at_counts();
        }
    }

    fn end(&mut self) {
        self.is_over = true;
    }

    fn fds(&self, _: &mut Vec<RawFd>) {}

    fn is_polled(&self) -> bool {
        true
    }

    fn statistics(&mut self) -> QueueStatistics {
        // Its link may have gone down since that was looked at.
        if self.kept.is_some() && !self.lane.is_parked() && !self.has_link() {
            self.note_up(false);
        }
        self.look_at_counts();
        let [missed, unsent] = [self.missed, self.unsent].map(|lost| lost.iter().sum());
        QueueStatistics { missed, unsent, ..self.statistics }
    }
}

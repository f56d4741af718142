//! Packets in DPDK's memory: pools of mbufs, and the queues that they come by and leave through.
//! This is why there is `unsafe` here: devices write into the same memory, and mbufs change hands as pointers.
//!
//! ```text
//!  pool ──▶ device ──receive──▶ Frame<'m> ──release──▶ pool
//!                                  └──forward──▶ device ──▶ pool
//! ```
//!
//! **Invariant**: an mbuf is its pool's, a device's, or lent as one mutable slice that is its whole buffer. What comes
//! back is known by it: a slice as long as a buffer, within a pool, was lent, since nothing else there is ever a slice,
//! and a slice cannot be copied. Pools are freed when the last device of the process has been closed, so that no device
//! holds an mbuf of a pool that is gone.

use super::ffi::packets::{
    anabranch_dpdk_allocate, anabranch_dpdk_bounds, anabranch_dpdk_free, anabranch_dpdk_free_pool,
    anabranch_dpdk_gather, anabranch_dpdk_make_pool, anabranch_dpdk_receive, anabranch_dpdk_send,
    anabranch_dpdk_start,
};
use super::ffi::{
    Counts, HEADROOM, Mbuf, RawPool, check, close, counts, register_thread, set_promiscuous,
};
use crate::live::{Sent, interface};
use crate::port::BATCH;
use anabranch_packet::{Frame, Meta, Port};
use std::ffi::CString;
use std::io;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a buffer, headroom included.
pub(super) const BUFFER: usize = 2_048 + HEADROOM;
/// Mbufs of a port for each worker: those of its receive queue, of the transmit queues of five ports, of the worker's
/// cache and of its batches.
const MBUFS: usize = 4_096;
/// Mbufs that a worker keeps for itself before it goes to the pool.
const CACHE: u32 = 256;
/// Packets that wait in a receive and a transmit queue.
const RECEIVED: u16 = 1_024;
const SENT: u16 = 512;
/// Its buffer is elsewhere, or another's (`RTE_MBUF_F_INDIRECT`, `RTE_MBUF_F_EXTERNAL`).
const ELSEWHERE: u64 = 1 << 62 | 1 << 61;

/// What all devices of the process share.
#[derive(Default)]
struct Registry {
    devices: usize,
    pools: Vec<Pool>,
    made: usize,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { devices: 0, pools: Vec::new(), made: 0 });

/// A pool of mbufs.
struct Pool {
    raw: *mut RawPool,
    memory: Range<usize>,
}

// SAFETY: pools may be used by any thread (rte_mempool.h).
unsafe impl Send for Pool {}

/// A device that has been started; stopped, closed and taken away when this is dropped.
pub(super) struct Started {
    /// [`CLOSED`] where it could not be started again.
    port: AtomicU16,
    pool: *mut RawPool,
    queues: u16,
    /// It receives what is for other stations, and did not before.
    is_promiscuous: AtomicBool,
    in_use: Mutex<Use>,
}

/// Who uses a device that may be replaced.
#[derive(Default)]
struct Use {
    /// Lanes that are not parked.
    lanes: usize,
    /// How often it has been replaced.
    generation: u64,
    /// What the last one that was closed had counted.
    closed: Counts,
}

/// The port of no device.
const CLOSED: u16 = u16::MAX;

// SAFETY: ports and pools may be used by any thread; a queue is used by its `Lane` alone, and by nobody while the
// device is being replaced.
unsafe impl Send for Started {}
// SAFETY: as above: what changes are atomics, and what is behind a lock.
unsafe impl Sync for Started {}

/// The right to a worker's queue of a device: there is one of each.
pub(super) struct Seat {
    started: Arc<Started>,
    number: u16,
}

/// Megabytes of a port's packets, for so many workers.
pub(super) fn megabytes(workers: usize) -> usize {
    (workers * MBUFS * (BUFFER + size_of::<Mbuf>() + 64)).div_ceil(1 << 20)
}

impl Started {
    /// Starts `port` with a receive and a transmit queue for each worker, and memory on the node `socket`.
    ///
    /// # Errors
    /// `OutOfMemory`, without a number: there is no memory for so many packets; else as the device has it.
    pub(super) fn new(port: u16, workers: usize, socket: i32) -> io::Result<Self> {
        let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        let queues = u16::try_from(workers).map_err(|_| io::ErrorKind::InvalidInput)?;
        let name = CString::new(format!("anabranch{}", registry.made))?;
        let count = (workers * MBUFS - 1) as u32;
        // SAFETY: a text ended by a zero byte.
        let raw =
            unsafe { anabranch_dpdk_make_pool(name.as_ptr(), count, CACHE, BUFFER as u16, socket) };
        if raw.is_null() {
            close(port);
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let mut memory = 0..0;
        // SAFETY: a pool that was made, and two numbers to write to.
        unsafe { anabranch_dpdk_bounds(raw, &mut memory.start, &mut memory.end) };
        registry.pools.push(Pool { raw, memory });
        registry.made += 1;
        registry.devices += 1;
        // From here on, what has been done is undone by dropping it.
        let (port, is_promiscuous) = (AtomicU16::new(port), AtomicBool::new(false));
        let started = Self { port, pool: raw, queues, is_promiscuous, in_use: Mutex::default() };
        drop(registry);
        started.start()?;
        Ok(started)
    }

    fn start(&self) -> io::Result<()> {
        // SAFETY: the pool is freed after the device has been closed.
        check(unsafe { anabranch_dpdk_start(self.port(), self.queues, RECEIVED, SENT, self.pool) })
    }

    /// Has it receive what is for other stations, unless `is_so` already: then it stays so in the end.
    pub(super) fn receive_all(&self, is_so: bool) {
        // Where it cannot be told, it receives everything anyhow.
        let is_told = set_promiscuous(self.port(), true).is_ok();
        self.is_promiscuous.store(is_told && !is_so, Ordering::Relaxed);
    }

    /// The seats of as many workers as it was started for.
    pub(super) fn seats(self) -> (Arc<Self>, Vec<Seat>) {
        let started = Arc::new(self);
        let seat = |number| Seat { started: Arc::clone(&started), number };
        let seats = (0..started.queues).map(seat).collect();
        (started, seats)
    }

    /// Its port.
    #[inline(always)]
    pub(super) fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    fn in_use(&self) -> MutexGuard<'_, Use> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another device, which `probe` makes, in the place of this one when all lanes are parked; they may be unparked
    /// then. False: they are not, or it has been replaced since the generation that a lane parked in.
    ///
    /// # Errors
    /// Why there is no other device; there is none then, until this is called again.
    pub(super) fn replace(
        &self,
        generation: u64,
        probe: impl FnOnce() -> io::Result<u16>,
    ) -> io::Result<bool> {
        let mut in_use = self.in_use();
        if in_use.lanes > 0 || in_use.generation != generation {
            return Ok(false);
        }
        if self.port() != CLOSED {
            // Nobody sends by it any more.
            in_use.closed = counts(self.port());
        }
        self.close();
        self.port.store(probe()?, Ordering::Relaxed);
        if let Err(why) = self.start() {
            // Its own counts are of nothing: those of the one before stand.
            self.close();
            return Err(why);
        }
        in_use.generation += 1;
        Ok(true)
    }

    fn close(&self) {
        let port = self.port.swap(CLOSED, Ordering::Relaxed);
        if port != CLOSED {
            close(port);
        }
    }
}

impl Seat {
    /// The queue, which sends packets of `longest` bytes at most, a VLAN tag aside. To be called by the thread that uses it.
    pub(super) fn lane(&mut self, longest: usize) -> Lane<'_> {
        register_thread();
        let registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        let lent = registry.pools.iter().map(|pool| pool.memory.clone()).collect();
        let Self { started, number } = &*self;
        let mut in_use = started.in_use();
        in_use.lanes += 1;
        let (generation, latest) = (in_use.generation, (0, 0));
        Lane { started, number: *number, longest, lent, latest, generation, is_parked: false }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if *self.is_promiscuous.get_mut() {
            // Its interface may be gone.
            let _ = set_promiscuous(self.port(), false);
        }
        self.close();
        let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        registry.devices -= 1;
        if registry.devices == 0 {
            for pool in registry.pools.drain(..) {
                // SAFETY: no device holds an mbuf any more, and nobody else: frames do not live longer than devices.
                unsafe { anabranch_dpdk_free_pool(pool.raw) };
            }
        }
    }
}

/// A worker's queue of a device.
pub(super) struct Lane<'m> {
    started: &'m Started,
    number: u16,
    /// Bytes of the longest packet that is sent, a VLAN tag aside.
    longest: usize,
    /// Where mbufs of this process are.
    lent: Vec<Range<usize>>,
    /// The one of these where the last buffer was: its start and length.
    latest: (usize, usize),
    generation: u64,
    /// It receives and sends nothing, so that the device may be replaced.
    is_parked: bool,
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        self.park();
    }
}

/// Packets received that were not lent.
#[derive(Default)]
pub(super) struct Unlent {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

/// Mbufs on their way to a device.
struct Burst {
    mbufs: [*mut Mbuf; BATCH],
    count: usize,
    bytes: u64,
}

impl Burst {
    const fn new() -> Self {
        Self { mbufs: [null_mut(); BATCH], count: 0, bytes: 0 }
    }

    #[inline(always)]
    fn push(&mut self, mbuf: *mut Mbuf, len: usize) {
        if let Some(place) = self.mbufs.get_mut(self.count) {
            *place = mbuf;
            self.count += 1;
            self.bytes += len as u64;
        }
    }
}

impl<'m> Lane<'m> {
    /// Whether it waits for its device to be replaced.
    pub(super) fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// Uses the device no more, until it has been replaced. Returns the generation that is to be replaced.
    pub(super) fn park(&mut self) -> u64 {
        if !std::mem::replace(&mut self.is_parked, true) {
            self.started.in_use().lanes -= 1;
        }
        self.generation
    }

    /// What its device has counted so far, or had when it was closed to be replaced.
    pub(super) fn counts(&self) -> Counts {
        let in_use = self.started.in_use();
        match self.started.port() {
            port if port != CLOSED && in_use.generation == self.generation => counts(port),
            _ => in_use.closed,
        }
    }

    /// Uses the device again, if it has been replaced since this lane was parked.
    pub(super) fn unpark(&mut self) -> bool {
        let mut in_use = self.started.in_use();
        let is_new = self.is_parked && in_use.generation != self.generation;
        if is_new {
            in_use.lanes += 1;
            (self.generation, self.is_parked) = (in_use.generation, false);
        }
        is_new
    }

    /// Appends up to `max` packets that have come, at most a burst of them.
    #[inline]
    pub(super) fn receive(&mut self, batch: &mut Vec<Frame<'m>>, max: usize, port: Port) -> Unlent {
        let mut mbufs = [null_mut(); BATCH];
        let most = max.min(BATCH) as u16;
        if self.is_parked {
            return Unlent::default();
        }
        let device = self.started.port();
        // SAFETY: the queue is ours alone, and there is room for `most` pointers.
        let count =
            unsafe { anabranch_dpdk_receive(device, self.number, mbufs.as_mut_ptr(), most) };
        let received = &mut mbufs[..usize::from(count).min(BATCH)];
        // SAFETY: mbufs that have been received are ours, and valid.
        let is_whole = |mbuf: &*mut Mbuf| unsafe {
            (**mbuf).nb_segs == 1 && (**mbuf).ol_flags & ELSEWHERE == 0
        };
        if received.iter().all(is_whole) {
            // SAFETY: as above.
            batch.extend(received.iter().map(|mbuf| unsafe { lend(*mbuf, port) }));
            return Unlent::default();
        }
        self.receive_scattered(batch, received, port)
    }

    /// Packets of which some are in several pieces, or in memory that is no pool's: these are copied.
    #[cold]
    fn receive_scattered(
        &mut self,
        batch: &mut Vec<Frame<'m>>,
        received: &mut [*mut Mbuf],
        port: Port,
    ) -> Unlent {
        let mut unlent = Unlent::default();
        for mbuf in received {
            // SAFETY: what has been received is ours, and valid; after `gather` only its copy is.
            let (len, copy) = unsafe {
                let len = (**mbuf).pkt_len;
                match (**mbuf).nb_segs == 1 && (**mbuf).ol_flags & ELSEWHERE == 0 {
                    true => (len, *mbuf),
                    false => (len, anabranch_dpdk_gather(*mbuf, self.started.pool)),
                }
            };
            if copy.is_null() {
                unlent.packets += 1;
                unlent.bytes += u64::from(len);
            } else {
                // SAFETY: it is ours, and in one piece.
                batch.push(unsafe { lend(copy, port) });
            }
        }
        unlent
    }

    /// Whether a buffer at this place, of this length, is one of ours.
    #[inline(always)]
    fn is_lent(&mut self, start: usize, len: usize) -> bool {
        let is_near = start.wrapping_sub(self.latest.0) < self.latest.1;
        len == BUFFER && (is_near || self.is_lent_elsewhere(start))
    }

    /// Packets come from a port for a while: its memory is looked at first from here on.
    #[cold]
    fn is_lent_elsewhere(&mut self, start: usize) -> bool {
        let found = self.lent.iter().find(|memory| memory.contains(&start));
        self.latest = found.map_or(self.latest, |memory| (memory.start, memory.len()));
        found.is_some()
    }

    /// From now on packets of `longest` bytes at most are sent.
    pub(super) fn set_longest(&mut self, longest: usize) {
        self.longest = longest;
    }

    #[inline(always)]
    fn fits(&self, packet: &[u8]) -> bool {
        packet.len() <= BUFFER - HEADROOM && interface::fits(packet, self.longest)
    }

    /// Whether a frame's buffer is one of ours, and its packet not too long to be sent.
    #[inline(always)]
    fn may_leave(&mut self, frame: &Frame<'m>) -> bool {
        let (start, len) = (frame.headroom(), frame.captured_len());
        let buffer = frame.bytes().as_ptr() as usize - start;
        self.fits(frame.bytes()) && self.is_lent(buffer, start + len + frame.tailroom())
    }

    /// Sends all of a batch. Frames that lie in DPDK's memory leave themselves; others stay.
    #[inline]
    pub(super) fn forward_all(&mut self, batch: &mut Vec<Frame<'m>>) -> Sent {
        if batch.len() > BATCH || !batch.iter().all(|frame| self.may_leave(frame)) {
            let mut sent = Sent::default();
            for some in batch.chunks_mut(BATCH) {
                let places = &PLACES[..some.len()];
                sent.add(self.forward(some, places));
            }
            return sent;
        }
        let mut burst = Burst::new();
        // Summed up apart: in memory, each sum would wait for the one before.
        let (count, mut bytes) = (batch.len(), 0);
        for (place, frame) in burst.mbufs.iter_mut().zip(batch.drain(..)) {
            let (start, len) = (frame.headroom(), frame.captured_len());
            // SAFETY: its buffer was lent, and comes back whole.
            *place = unsafe { retake(frame.into_buffer().0, start, len) };
            bytes += len as u64;
        }
        (burst.count, burst.bytes) = (count, bytes);
        self.transmit(burst, Sent::default())
    }

    /// Sends those of `frames` that stand at `places`, in order. Those that lie in DPDK's memory leave themselves, and
    /// what stays in their place is empty.
    #[inline]
    pub(super) fn forward(&mut self, frames: &mut [Frame<'m>], places: &[u8]) -> Sent {
        let mut all = Sent::default();
        for some in places.chunks(BATCH) {
            let (mut burst, mut sent) = (Burst::new(), Sent::default());
            for place in some {
                let Some(frame) = frames.get_mut(usize::from(*place)) else { continue };
                let len = frame.captured_len();
                if !self.fits(frame.bytes()) {
                    sent.too_big += 1;
                } else if let Some(mbuf) = self.take(frame) {
                    burst.push(mbuf, len);
                } else {
                    sent.full += 1;
                }
            }
            all.add(self.transmit(burst, sent));
        }
        all
    }

    /// The packet of a frame in an mbuf that is ours: its own, or that of a copy.
    #[inline(always)]
    fn take(&mut self, frame: &mut Frame<'m>) -> Option<*mut Mbuf> {
        if !self.may_leave(frame) {
            return self.copy(frame.bytes());
        }
        let (start, len) = (frame.headroom(), frame.captured_len());
        // SAFETY: its buffer was lent, and comes back whole.
        Some(unsafe { retake(frame.take_buffer(), start, len) })
    }

    /// Sends copies of packets.
    pub(super) fn send(&mut self, packets: &[&[u8]]) -> Sent {
        let mut all = Sent::default();
        for some in packets.chunks(BATCH) {
            let (mut burst, mut sent) = (Burst::new(), Sent::default());
            for packet in some {
                if !self.fits(packet) {
                    sent.too_big += 1;
                } else if let Some(mbuf) = self.copy(packet) {
                    burst.push(mbuf, packet.len());
                } else {
                    sent.full += 1;
                }
            }
            all.add(self.transmit(burst, sent));
        }
        all
    }

    /// A packet, no longer than a buffer without headroom, in an mbuf of the port's own.
    #[inline(never)]
    fn copy(&mut self, packet: &[u8]) -> Option<*mut Mbuf> {
        if packet.len() > BUFFER - HEADROOM {
            return None;
        }
        let mut mbuf = null_mut();
        // SAFETY: the pool lives as long as the device, and there is room for one pointer.
        let done = unsafe { anabranch_dpdk_allocate(self.started.pool, &mut mbuf, 1) };
        if done != 0 {
            return None;
        }
        // SAFETY: a fresh mbuf is ours, and its buffer has `BUFFER` bytes.
        unsafe {
            (*mbuf).data_off = HEADROOM as u16;
            (*mbuf).data_len = packet.len() as u16;
            (*mbuf).pkt_len = packet.len() as u32;
            let to = (*mbuf).buf_addr.add(HEADROOM);
            std::ptr::copy_nonoverlapping(packet.as_ptr(), to, packet.len());
        }
        Some(mbuf)
    }

    #[inline(always)]
    fn transmit(&mut self, mut burst: Burst, mut sent: Sent) -> Sent {
        let (device, count) = (self.started.port(), burst.count);
        let taken = match self.is_parked {
            true => 0,
            // SAFETY: the queue is ours alone, and the mbufs are; those that it took are the device's now.
            false => unsafe {
                anabranch_dpdk_send(device, self.number, burst.mbufs.as_mut_ptr(), count as u16)
            },
        };
        sent.packets = u64::from(taken);
        sent.bytes = burst.bytes;
        if usize::from(taken) < count {
            let left = burst.mbufs.get_mut(usize::from(taken)..count).unwrap_or_default();
            sent.full += left.len() as u64;
            // SAFETY: what the device has not taken is still ours.
            unsafe {
                sent.bytes -= left.iter().map(|mbuf| u64::from((**mbuf).pkt_len)).sum::<u64>();
                free(left);
            }
        }
        sent
    }

    /// Takes back what was lent and has not left.
    pub(super) fn release(&mut self, batch: &mut Vec<Frame<'m>>) {
        let mut burst = Burst::new();
        for frame in batch.drain(..) {
            let buffer = frame.into_buffer().0;
            if self.is_lent(buffer.as_ptr() as usize, buffer.len()) {
                burst.push(mbuf_of(buffer), 0);
            }
            if burst.count == BATCH {
                // SAFETY: their buffers were lent, and have come back.
                unsafe { free(&mut burst.mbufs) };
                burst.count = 0;
            }
        }
        // SAFETY: as above.
        unsafe { free(burst.mbufs.get_mut(..burst.count).unwrap_or_default()) };
    }
}

/// Places of a batch.
const PLACES: [u8; BATCH] = {
    let (mut places, mut place) = ([0; BATCH], 0);
    while place < BATCH {
        places[place] = place as u8;
        place += 1;
    }
    places
};

/// The mbuf of a buffer with a packet of `len` bytes at `start`.
///
/// # Safety
/// The buffer was lent, and this is the whole of it; the packet lies within.
#[inline(always)]
unsafe fn retake(buffer: &mut [u8], start: usize, len: usize) -> *mut Mbuf {
    let mbuf = mbuf_of(buffer);
    // SAFETY: with its buffer the mbuf is ours.
    unsafe {
        (*mbuf).data_off = start as u16;
        (*mbuf).data_len = len as u16;
        (*mbuf).pkt_len = len as u32;
    }
    mbuf
}

/// The mbuf before a buffer that was lent.
#[inline(always)]
fn mbuf_of(buffer: &mut [u8]) -> *mut Mbuf {
    std::ptr::with_exposed_provenance_mut(buffer.as_ptr() as usize - size_of::<Mbuf>())
}

/// Gives mbufs back to their pools.
///
/// # Safety
/// The caller owns them, and forgets them.
unsafe fn free(mbufs: &mut [*mut Mbuf]) {
    if !mbufs.is_empty() {
        // SAFETY: the caller's promise.
        unsafe { anabranch_dpdk_free(mbufs.as_mut_ptr(), mbufs.len() as u32) };
    }
}

/// The packet of an mbuf as a frame.
///
/// # Safety
/// The caller owns the mbuf, and forgets it; it is in one piece, and of a pool.
#[inline(always)]
unsafe fn lend<'m>(mbuf: *mut Mbuf, port: Port) -> Frame<'m> {
    // SAFETY: it is valid, its buffer has `buf_len` bytes, and nobody else has it until it comes back.
    unsafe {
        let Mbuf { buf_addr, data_off, data_len, buf_len, .. } = *mbuf;
        prefetch(buf_addr.wrapping_add(usize::from(data_off)));
        let buffer = std::slice::from_raw_parts_mut(buf_addr, usize::from(buf_len));
        let meta = Meta { wire_len: u32::from(data_len), port, ..Meta::default() };
        // It is known by its buffer when it comes back.
        let _ = mbuf.expose_provenance();
        Frame::new(buffer, usize::from(data_off), usize::from(data_len), 0, meta)
    }
}

#[inline(always)]
fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, of any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

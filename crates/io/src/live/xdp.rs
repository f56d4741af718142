//! `xdp:IF`: AF_XDP sockets, one for each receive queue of the interface.
//!
//! A small program takes the packets off before the kernel's own network sees them. A worker has the queues whose number
//! is its own modulo the number of workers; one that has none sends through a packet socket.

#[allow(unsafe_code)]
mod program;
#[allow(unsafe_code)]
mod umem;

use super::afpacket::{is_cut_off, open_sender, receive_all, send_through};
use super::claim::{Claim, claim};
use super::error::{Capability, OpenError, held};
use super::interface::HEADER;
use super::offload::finish_unmarked;
use super::system::{Mapping, bind, kick, option, receive, set_option, socket};
use super::{LivePort, Opened, Queue, QueueStatistics, Sent, interface};
use anabranch_packet::{Frame, Meta, Port};
use program::{Link, Program, QUEUES};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use umem::{CHUNK, CHUNKS, Chunks, Ring};

/// Entries of each ring.
const ENTRIES: u32 = 2_048;
/// Options of AF_XDP sockets, and places of their rings (linux/if_xdp.h).
const RX_RING: i32 = 2;
const TX_RING: i32 = 3;
const USE_NEED_WAKEUP: u16 = 1 << 3;
const RX_PAGE: i64 = 0;
const TX_PAGE: i64 = 0x8000_0000;
const FILL_PAGE: i64 = 0x1_0000_0000;
const COMPLETION_PAGE: i64 = 0x1_8000_0000;

/// Bytes of the longest IP packet that is sent, whatever the interface carries.
pub(super) const LARGEST: usize = CHUNK - HEADER;

/// A socket on one queue, with its memory.
struct Socket {
    interface: i32,
    queue: u32,
    fd: OwnedFd,
    mapping: Mapping,
    fill: Ring<u64>,
    completion: Ring<u64>,
    receive: Ring<libc::xdp_desc>,
    send: Ring<libc::xdp_desc>,
}

/// Opens the socket of a queue. `Ok(None)`: the interface has fewer queues.
fn open_socket(name: &str, interface: i32, queue: u32) -> Result<Option<Socket>, OpenError> {
    let step = |what| OpenError::of(name, what, Capability::NetRaw);
    let fd = socket(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(step("opening an AF_XDP socket"))?;
    let mapping = Mapping::anonymous(CHUNK * CHUNKS).map_err(step("mapping memory for packets"))?;
    let memory = libc::xdp_umem_reg {
        addr: mapping.start() as u64,
        len: mapping.len() as u64,
        chunk_size: CHUNK as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    let level = libc::SOL_XDP;
    let ring = |option| set_option(&fd, level, option, &ENTRIES);
    set_option(&fd, level, libc::XDP_UMEM_REG, &memory).map_err(|cause| unlocked(name, cause))?;
    ring(libc::XDP_UMEM_FILL_RING)
        .and_then(|()| ring(libc::XDP_UMEM_COMPLETION_RING))
        .and_then(|()| ring(RX_RING))
        .and_then(|()| ring(TX_RING))
        .map_err(step("making the rings of an AF_XDP socket"))?;
    let offsets: libc::xdp_mmap_offsets =
        option(&fd, level, libc::XDP_MMAP_OFFSETS).map_err(step("asking where the rings are"))?;
    let map = || {
        Ok((
            Ring::map(&fd, offsets.fr, ENTRIES, FILL_PAGE)?,
            Ring::map(&fd, offsets.cr, ENTRIES, COMPLETION_PAGE)?,
            Ring::map(&fd, offsets.rx, ENTRIES, RX_PAGE)?,
            Ring::map(&fd, offsets.tx, ENTRIES, TX_PAGE)?,
        ))
    };
    let (fill, completion, receive, send) = map().map_err(step("mapping the rings"))?;
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: USE_NEED_WAKEUP,
        sxdp_ifindex: interface.unsigned_abs(),
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    match bind(&fd, &address) {
        Err(error) if queue > 0 && error.raw_os_error() == Some(libc::EINVAL) => return Ok(None),
        bound => bound.map_err(step("binding to a queue (is another program on it?)"))?,
    }
    Ok(Some(Socket { interface, queue, fd, mapping, fill, completion, receive, send }))
}

/// Why the kernel does not take memory for packets.
fn unlocked(name: &str, cause: io::Error) -> OpenError {
    match cause.raw_os_error() {
        Some(libc::ENOBUFS) => OpenError::Locked {
            interface: name.to_owned(),
            mib: (CHUNK * CHUNKS) >> 20,
            setcap: Capability::IpcLock.setcap(held()),
        },
        _ => OpenError::of(name, "giving memory to an AF_XDP socket", Capability::NetRaw)(cause),
    }
}

/// Why the program cannot be put onto an interface.
fn unattached(name: &str, cause: io::Error) -> OpenError {
    match cause.raw_os_error() {
        Some(libc::EBUSY) => OpenError::WrongType {
            interface: name.to_owned(),
            what: "another XDP program is on it",
            instead: format!(
                "end the run or program that has put it there; one that was killed leaves it where it came by DPDK: \
                 `ip link set dev {name} xdp off`"
            ),
        },
        _ => OpenError::of(name, "attaching an XDP program", Capability::Bpf)(cause),
    }
}

/// The sockets of all queues of an interface, which `program` gives what comes by them.
fn open_sockets(name: &str, index: i32, program: &Program) -> Result<Vec<Socket>, OpenError> {
    if open_socket(name, index, QUEUES)?.is_some() {
        return Err(OpenError::WrongType {
            interface: name.to_owned(),
            what: "it has more than 64 receive queues, and an `xdp` port takes 64",
            instead: format!(
                "what comes by others would pass it by: `ethtool -L {name} combined 64` leaves no others"
            ),
        });
    }
    let step = |what| OpenError::of(name, what, Capability::Bpf);
    let mut sockets = Vec::new();
    while (sockets.len() as u32) < QUEUES {
        let queue = sockets.len() as u32;
        let Some(socket) = open_socket(name, index, queue)? else { break };
        program.add(queue, &socket.fd).map_err(step("giving a queue to its socket"))?;
        sockets.push(socket);
    }
    Ok(sockets)
}

/// Whether some program takes packets off the interface `name` for AF_XDP sockets that are open: another run's, or
/// anybody's. A program that a killed process has left has no sockets.
#[cfg(feature = "dpdk")]
pub(super) fn is_served(name: &str, index: i32) -> Result<bool, OpenError> {
    let is_busy = |cause: &io::Error| cause.raw_os_error() == Some(libc::EBUSY);
    let step = |what| OpenError::of(name, what, Capability::Bpf);
    let program = Program::load().map_err(step("loading an XDP program"))?;
    if !program.attach(index).is_err_and(|cause| is_busy(&cause)) {
        return Ok(false);
    }
    for queue in 0..QUEUES {
        match open_socket(name, index, queue) {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(OpenError::System { cause, .. }) if is_busy(&cause) => return Ok(true),
            Err(other) => return Err(other),
        }
    }
    Ok(false)
}

/// Opens `name`, its queues shared out among `workers` workers.
pub(super) fn open(name: &str, port: Port, workers: usize) -> Result<LivePort, OpenError> {
    let index = interface::usable(name)?;
    let step = |what| OpenError::of(name, what, Capability::Bpf);
    let program = Program::load().map_err(step("loading an XDP program"))?;
    let link = program.attach(index).map_err(|cause| unattached(name, cause))?;
    // Nothing is taken off before there are sockets.
    let claim = Arc::new(claim(name)?);
    let sockets = open_sockets(name, index, &program)?;
    let about = about(sockets.len(), workers, link.native, interface::mtu(name));
    let program = Arc::new(program);
    let mut link = Some(link);
    let mut memories = Vec::new();
    for _ in 0..workers.max(1) {
        memories.push(Memory {
            name: name.to_owned(),
            port,
            index,
            sockets: Vec::new(),
            sender: open_side_socket(name, index)?,
            program: Arc::clone(&program),
            link: link.take(),
            _claim: Arc::clone(&claim),
        });
    }
    for (queue, socket) in sockets.into_iter().enumerate() {
        let worker = queue % memories.len();
        if let Some(memory) = memories.get_mut(worker) {
            memory.sockets.push(socket);
        }
    }
    let boxed = |memory| Box::new(memory) as Box<dyn Opened>;
    Ok(LivePort { queues: memories.into_iter().map(boxed).collect(), about, driver: None })
}

/// A packet socket beside the others: it sends where a worker has no queue, and keeps the interface
/// promiscuous.
fn open_side_socket(name: &str, interface: i32) -> Result<OwnedFd, OpenError> {
    let socket = open_sender(name, interface)?;
    let step = OpenError::of(name, "receiving what is for other stations", Capability::NetRaw);
    receive_all(&socket, interface).map_err(step)?;
    Ok(socket)
}

fn about(queues: usize, workers: usize, native: bool, mtu: Option<usize>) -> String {
    let place = if native { "in the driver" } else { "behind the driver (generic XDP)" };
    let counted = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    };
    let (queues, workers) = (counted(queues, "queue"), counted(workers, "worker"));
    format!(
        "{queues} of the interface for {workers}, spread by the sender or the NIC, taken off \
         {place}; packets are copied when sent; unfinished checksums are recognised and finished in \
         software{}",
        mtu.and_then(too_long).unwrap_or_default()
    )
}

/// What is to be said of an interface whose MTU allows packets that do not fit: they never come here, and hosts that
/// send them wait in vain.
fn too_long(mtu: usize) -> Option<String> {
    /// What the kernel keeps free before a packet (XDP_PACKET_HEADROOM).
    const HEADROOM: usize = 256;
    const LONGEST: usize = CHUNK - HEADROOM;
    (mtu + HEADER > LONGEST).then(|| {
        format!(
            "; packets of more than {LONGEST} bytes are missed, though its MTU of {mtu} allows them: give all stations \
             of the link an MTU of {} at most",
            LONGEST - HEADER
        )
    })
}

struct Memory {
    name: String,
    port: Port,
    index: i32,
    sockets: Vec<Socket>,
    /// For workers without a queue.
    sender: OwnedFd,
    program: Arc<Program>,
    /// The first worker keeps the program on the interface.
    link: Option<Link>,
    _claim: Arc<Claim>,
}

/// The number of no interface.
const NOWHERE: i32 = 0;

impl Opened for Memory {
    fn queue(&mut self) -> Box<dyn Queue<'_> + '_> {
        let lanes = self.sockets.iter_mut().map(Lane::new).collect();
        Box::new(Xdp {
            name: &self.name,
            port: self.port,
            index: self.index,
            lanes,
            sender: &mut self.sender,
            program: &self.program,
            keeps_program: self.link.is_some(),
            link: &mut self.link,
            longest: longest(&self.name),
            statistics: QueueStatistics::default(),
            is_down: false,
        })
    }
}

/// A socket at work.
struct Lane<'m> {
    interface: i32,
    queue: u32,
    fd: &'m mut OwnedFd,
    chunks: Chunks<'m>,
    fill: &'m mut Ring<u64>,
    completion: &'m mut Ring<u64>,
    receive: &'m mut Ring<libc::xdp_desc>,
    send: &'m mut Ring<libc::xdp_desc>,
}

impl<'m> Lane<'m> {
    fn new(socket: &'m mut Socket) -> Self {
        let Socket { interface, queue, fd, mapping, fill, completion, receive, send } = socket;
        let (interface, queue, chunks) = (*interface, *queue, Chunks::new(mapping));
        let mut lane = Self { interface, queue, fd, chunks, fill, completion, receive, send };
        lane.refill();
        lane
    }

    /// Goes on with another socket, if nothing is lent.
    fn replace(&mut self, socket: Socket) -> bool {
        let Socket { interface, fd, mapping, fill, completion, receive, send, .. } = socket;
        let replaced = self.chunks.replace(mapping).is_ok();
        if replaced {
            (*self.fd, *self.fill, *self.completion) = (fd, fill, completion);
            (*self.receive, *self.send) = (receive, send);
            self.interface = interface;
            self.refill();
        }
        replaced
    }

    /// Gives the kernel chunks to receive into; as many stay for what is sent.
    fn refill(&mut self) {
        while self.fill.room() > 0 && self.chunks.free() > CHUNKS / 4 {
            let Some(address) = self.chunks.give_to_kernel() else { break };
            self.fill.push(address);
        }
    }

    /// Has a driver without copies look for chunks to receive into, where it has given up finding some.
    fn wake_receiver(&self) {
        if self.fill.needs_wakeup() {
            // The next turn asks again.
            let _ = receive(self.fd, &mut []);
        }
    }

    /// Takes back what has been sent.
    fn complete(&mut self) {
        while let Some(address) = self.completion.pop() {
            self.chunks.take_back(address);
        }
    }

    /// Has the kernel send what waits. How many packets the device refused, the last that were taken.
    fn kick(&mut self) -> io::Result<u64> {
        // Each call sends 32 packets at most, or drops one.
        let (mut calls, mut refused) = (4, 0);
        let waiting = u64::from(self.send.len());
        while calls > 0 && refused < waiting && self.send.len() > 0 && self.send.needs_wakeup() {
            match kick(self.fd)? {
                true => refused += 1,
                false => calls -= 1,
            }
        }
        self.complete();
        Ok(refused)
    }

    /// Packets that were lost because the receive ring was full, or for want of a chunk to receive into.
    fn missed(&self) -> u64 {
        let counted: io::Result<libc::xdp_statistics> =
            option(self.fd, libc::SOL_XDP, libc::XDP_STATISTICS);
        counted.map_or(0, |counted| counted.rx_dropped + counted.rx_ring_full)
    }
}

struct Xdp<'m> {
    name: &'m str,
    port: Port,
    index: i32,
    lanes: Vec<Lane<'m>>,
    sender: &'m mut OwnedFd,
    program: &'m Program,
    keeps_program: bool,
    link: &'m mut Option<Link>,
    /// Bytes of the longest packet that the interface sends, with the Ethernet header.
    longest: usize,
    statistics: QueueStatistics,
    is_down: bool,
}

/// Bytes of the longest packet that the interface `name` sends. The kernel looks at the length of what comes
/// by a packet socket, and not of what comes from here: whoever receives it drops it.
fn longest(name: &str) -> usize {
    interface::longest(name).unwrap_or(CHUNK)
}

/// Whether an interface that sends `longest` bytes takes this packet.
fn is_taken(packet: &[u8], longest: usize) -> bool {
    packet.len() <= CHUNK && interface::fits(packet, longest)
}

impl<'m> Xdp<'m> {
    fn receive_from(&mut self, lane: usize, batch: &mut Vec<Frame<'m>>, max: usize) {
        let Self { lanes, statistics, port, .. } = self;
        let Some(lane) = lanes.get_mut(lane) else { return };
        while batch.len() < max {
            let Some(descriptor) = lane.receive.pop() else { break };
            let Some(chunk) = lane.chunks.lend(descriptor.addr) else { continue };
            let start = descriptor.addr as usize % CHUNK;
            let len = (descriptor.len as usize).min(CHUNK - start);
            if let Some(packet) = chunk.get_mut(start..start + len) {
                statistics.finished_checksums += u64::from(finish_unmarked(packet));
            }
            let meta = Meta { wire_len: descriptor.len, port: *port, ..Meta::default() };
            batch.push(Frame::new(chunk, start, len, 0, meta));
        }
        lane.refill();
        lane.wake_receiver();
    }

    /// Opens an interface that has come back. An error is that it is not back yet, or not as it was, or that something is
    /// left to be handled.
    fn reopen(&mut self) -> Result<(), OpenError> {
        let index = interface::usable(self.name)?;
        let step = |what| OpenError::of(self.name, what, Capability::NetAdmin);
        let gone = || OpenError::NoSuchInterface { interface: self.name.to_owned() };
        // What came by the old one is handled first.
        if self.lanes.iter().any(|lane| lane.interface != index && lane.receive.len() > 0) {
            return Err(gone());
        }
        *self.sender = open_side_socket(self.name, index)?;
        // What an earlier try has done is done.
        for lane in self.lanes.iter_mut().filter(|lane| lane.interface != index) {
            let socket = open_socket(self.name, index, lane.queue)?.ok_or_else(gone)?;
            // The counts of a socket go with it, and what it had not sent.
            let (missed, unsent) = (lane.missed(), u64::from(lane.send.len()));
            if !lane.replace(socket) {
                return Err(gone());
            }
            self.statistics.missed += missed;
            self.statistics.unsent += unsent;
            self.program.add(lane.queue, lane.fd).map_err(step("giving a queue to its socket"))?;
        }
        if self.keeps_program {
            // The interface may be the old one, with its program.
            *self.link = None;
            let attached = self.program.attach(index);
            *self.link = Some(attached.map_err(step("attaching an XDP program"))?);
        }
        (self.index, self.is_down) = (index, false);
        self.statistics.reopened += 1;
        Ok(())
    }

    /// The device refused the last `refused` packets that it was to send: `packets` end with them, and what is more
    /// was given to it before.
    fn take_back(&mut self, refused: u64, packets: &[&[u8]], sent: &mut Sent) {
        let of_these = refused.min(sent.packets);
        self.statistics.unsent += refused - of_these;
        let gone = (sent.packets - of_these) as usize;
        let given = packets.iter().filter(|packet| is_taken(packet, self.longest));
        let bytes: u64 = given.skip(gone).take(of_these as usize).map(|one| one.len() as u64).sum();
        sent.packets -= of_these;
        sent.bytes -= bytes;
        if interface::has_link(self.name) {
            sent.full += of_these;
        } else {
            sent.down += of_these;
            self.note_down();
        }
    }

    fn note_down(&mut self) {
        self.statistics.link_downs += u64::from(!self.is_down);
        self.is_down = true;
    }

    /// Of an interface that was in another namespace, the kernel has taken the sockets off.
    fn look_whether_cut_off(&mut self) {
        if self.index != NOWHERE && is_cut_off(self.sender, self.index) {
            let index = std::mem::replace(&mut self.index, NOWHERE);
            for lane in self.lanes.iter_mut().filter(|lane| lane.interface == index) {
                lane.interface = NOWHERE;
            }
        }
    }
}

impl<'m> Queue<'m> for Xdp<'m> {
    fn receive(&mut self, batch: &mut Vec<Frame<'m>>, max: usize) -> usize {
        let before = batch.len();
        for lane in 0..self.lanes.len() {
            self.receive_from(lane, batch, before + max);
        }
        batch.len() - before
    }

    fn release(&mut self, batch: &mut Vec<Frame<'m>>) {
        for frame in batch.drain(..) {
            let buffer = frame.into_buffer().0;
            let start = buffer.as_ptr() as usize;
            let of_lane = |lane: &&mut Lane<'m>| lane.chunks.holds(start);
            if let Some(lane) = self.lanes.iter_mut().find(of_lane) {
                lane.chunks.give(buffer);
            }
        }
    }

    fn send(&mut self, packets: &[&[u8]]) -> Sent {
        let mut sent = Sent::default();
        if self.is_down {
            sent.down = packets.len() as u64;
            return sent;
        }
        let Some(lane) = self.lanes.first_mut() else {
            let sent = send_through(self.sender, packets, || !interface::has_link(self.name));
            if sent.down > 0 {
                self.note_down();
            }
            return sent;
        };
        lane.complete();
        for packet in packets {
            if !is_taken(packet, self.longest) {
                sent.too_big += 1;
            } else if lane.send.room() == 0 {
                sent.full += 1;
            } else if let Some(addr) = lane.chunks.write(packet) {
                lane.send.push(libc::xdp_desc { addr, len: packet.len() as u32, options: 0 });
                sent.packets += 1;
                sent.bytes += packet.len() as u64;
            } else {
                sent.full += 1;
            }
        }
        match lane.kick() {
            Ok(0) => {}
            Ok(refused) => self.take_back(refused, packets, &mut sent),
            Err(error) => {
                let down = [libc::ENETDOWN, libc::ENXIO, libc::ENODEV];
                if error.raw_os_error().is_some_and(|code| down.contains(&code)) {
                    self.note_down();
                }
            }
        }
        sent
    }

    fn attend(&mut self) {
        for lane in &mut self.lanes {
            // Reading the error clears it; what it was is seen below.
            let _: io::Result<i32> = option(lane.fd, libc::SOL_SOCKET, libc::SO_ERROR);
            self.statistics.unsent += lane.kick().unwrap_or(0);
        }
        self.longest = longest(self.name);
        self.look_whether_cut_off();
        if interface::index(self.name) != Some(self.index) {
            self.note_down();
            // What keeps it from being opened may pass.
            let _ = self.reopen();
        } else if !interface::has_link(self.name) {
            self.note_down();
        } else {
            self.is_down = false;
        }
    }

    fn end(&mut self) {
        for lane in &mut self.lanes {
            self.statistics.unsent += lane.kick().unwrap_or(0) + u64::from(lane.send.len());
        }
    }

    fn fds(&self, fds: &mut Vec<RawFd>) {
        fds.extend(self.lanes.iter().map(|lane| lane.fd.as_raw_fd()));
    }

    fn statistics(&mut self) -> QueueStatistics {
        let missed: u64 = self.lanes.iter().map(Lane::missed).sum();
        QueueStatistics { missed: self.statistics.missed + missed, ..self.statistics }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_that_allows_what_does_not_fit_is_told_of() {
        for (mtu, told) in [(1_500, false), (3_826, false), (3_827, true), (9_000, true)] {
            let about = about(2, 2, true, Some(mtu));
            let says = format!("more than 3840 bytes are missed, though its MTU of {mtu} allows");
            assert_eq!(about.contains(&says), told, "{about}");
        }
        let one = about(1, 1, false, None);
        assert!(one.starts_with("1 queue of the interface for 1 worker, spread"), "{one}");
        assert!(about(1, 1, false, None).ends_with("finished in software"));
    }
}

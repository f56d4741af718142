//! `afpacket:IF`: packet sockets with a mapped receive ring (`packet(7)`; the kernel's
//! Documentation/networking/packet_mmap.rst).
//!
//! The ring has a slot for each packet (TPACKET_V2), which is there as soon as it has come: blocks of many
//! (TPACKET_V3) hold fewer system calls and more packets, and packets back, until the block is full or some
//! milliseconds old. What is larger than a slot, as offloads make it, waits at the socket instead.
//!
//! Each worker has a socket for receiving and one for sending. The receiving ones form a fanout group:
//! the kernel gives each packet to one of them, by a hash of its flow. What is sent goes past the queueing
//! discipline straight to the device, so that a full device is a drop, not a wait.

use super::claim::{Claim, claim};
use super::error::{Capability, OpenError};
use super::offload::{Offload, Wire};
use super::ring::Ring;
use super::segment::Segments;
use super::system::{
    Mapping, bind, bound_interface, option, receive, refuse_all, refuse_none, send_batch,
    set_option, socket,
};
use super::{LivePort, Opened, Queue, QueueStatistics, Sent, interface};
use crate::port::{FreeBuffers, Pool};
use anabranch_packet::{Frame, Meta, Port};
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a block, in which the kernel allocates a ring.
const BLOCK: usize = 128 << 10;
/// Blocks of a ring, at least and at most: 8 to 32 MiB, which is 4,096 to 16,384 packets.
const BLOCKS: RangeInclusive<usize> = 64..=256;
/// Blocks of a port, over which more workers have fewer each, down to the least.
const PORT_BLOCKS: usize = 512;
/// Bytes of a slot at least: room for a packet of 1,500 bytes.
const SHORTEST_SLOT: usize = 2_048;
/// Bytes that larger packets may take up while they wait at a socket, if the kernel lets them.
const WAITING: i32 = 32 << 20;
/// Free bytes before each packet.
const HEADROOM: u32 = 128;
/// Buffers for packets that are larger than a slot, and for their segments.
const BUFFERS: usize = 128;
/// Longest packet of a buffer: as long as an IP packet can be.
const LONGEST: usize = 65_536 + 18;
/// Bytes before the headroom of a packet (`TPACKET2_HDRLEN`), and the most that may be between it and the packet.
const HEADER: usize = libc::TPACKET2_HDRLEN + 16 + Offload::LEN;

/// Sockets of a fanout group at most.
const MOST_MEMBERS: usize = 256;

/// The fanout group of a port's sockets: the interface's number above a bit that says that the group is
/// there, above the group's number. A group holds sockets of one interface only.
#[derive(Debug, Default)]
struct Group(AtomicU64);

impl Group {
    const THERE: u64 = 1 << 16;

    /// Adds `socket`, bound to `interface`, to the group of that interface, or begins one. One worker begins it;
    /// another one that comes meanwhile is told to try again.
    fn join(&self, socket: &OwnedFd, interface: i32) -> io::Result<()> {
        let fanout = |value: u32| set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &value);
        let begun = u64::from(interface.unsigned_abs()) << 17;
        let mode = libc::PACKET_FANOUT_HASH << 16;
        let known = self.0.load(Ordering::Acquire);
        if known >> 17 == begun >> 17 && known & Self::THERE != 0 {
            return fanout((known & 0xffff) as u32 | mode);
        }
        let again = || io::Error::from_raw_os_error(libc::EAGAIN);
        if known == begun {
            return Err(again());
        }
        let claimed = self.0.compare_exchange(known, begun, Ordering::AcqRel, Ordering::Relaxed);
        claimed.map_err(|_| again())?;
        let begin = || {
            fanout(mode | libc::PACKET_FANOUT_FLAG_UNIQUEID << 16)?;
            option::<u32>(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)
        };
        let begun_as = begin().map(|id| begun | Self::THERE | u64::from(id & 0xffff));
        self.0.store(*begun_as.as_ref().unwrap_or(&0), Ordering::Release);
        begun_as.map(drop)
    }
}

struct Sockets {
    receive: OwnedFd,
    send: OwnedFd,
    index: i32,
}

/// Blocks of the ring of each of `workers` workers.
fn blocks(workers: usize) -> usize {
    (PORT_BLOCKS / workers.max(1)).clamp(*BLOCKS.start(), *BLOCKS.end())
}

/// Bytes of a slot: for a packet of the length that the interface sends and its two VLAN tags, a power of two.
fn slot(mtu: usize) -> usize {
    const ETHERNET: usize = 14 + 2 * 4;
    let needed = HEADER + HEADROOM as usize + ETHERNET + mtu;
    needed.clamp(SHORTEST_SLOT, BLOCK).next_power_of_two()
}

/// How a ring is divided.
#[derive(Clone, Copy, Debug)]
struct Shape {
    blocks: usize,
    slot: usize,
}

impl Shape {
    fn request(self) -> libc::tpacket_req {
        libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: self.blocks as u32,
            tp_frame_size: self.slot as u32,
            tp_frame_nr: (BLOCK * self.blocks / self.slot) as u32,
        }
    }
}

/// Opens the sockets of one queue and maps its ring of so many blocks, or as many as there is memory for.
fn open_queue_of_most(
    name: &str,
    group: Option<&Group>,
    shape: Shape,
) -> Result<(Sockets, Mapping), OpenError> {
    match open_queue(name, group, shape) {
        Err(error) if error.is_for_memory() && shape.blocks > *BLOCKS.start() => {
            open_queue_of_most(name, group, Shape { blocks: shape.blocks / 2, ..shape })
        }
        opened => opened,
    }
}

/// The same of that many.
fn open_queue(
    name: &str,
    group: Option<&Group>,
    shape: Shape,
) -> Result<(Sockets, Mapping), OpenError> {
    let index = interface::usable(name)?;
    let step = |what| OpenError::of(name, what, Capability::NetRaw);
    let receive =
        socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(step("opening a packet socket"))?;
    let set = |option, value: i32| set_option(&receive, libc::SOL_PACKET, option, &value);
    // Nothing comes in before the socket is in its group: every socket would get it.
    refuse_all(&receive).map_err(step("filtering packets"))?;
    set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)
        .and_then(|()| set(libc::PACKET_VNET_HDR, 1))
        .and_then(|()| set(libc::PACKET_RESERVE, HEADROOM as i32))
        .and_then(|()| set(libc::PACKET_IGNORE_OUTGOING, 1))
        .and_then(|()| set(libc::PACKET_COPY_THRESH, 1))
        .and_then(|()| {
            set_option(&receive, libc::SOL_PACKET, libc::PACKET_RX_RING, &shape.request())
        })
        .map_err(step("making a receive ring"))?;
    // Who may not administer the network has as much as the system lets him (net.core.rmem_max).
    let room = |option| set_option(&receive, libc::SOL_SOCKET, option, &WAITING);
    let _ = room(libc::SO_RCVBUFFORCE).or_else(|_| room(libc::SO_RCVBUF));
    let mapping = Mapping::new(&receive, BLOCK * shape.blocks, 0)
        .map_err(step("mapping the receive ring"))?;
    let everything = (libc::ETH_P_ALL as u16).to_be();
    bind(&receive, &address(index, everything)).map_err(step("binding to the interface"))?;
    receive_all(&receive, index).map_err(step("receiving what is for other stations"))?;
    if let Some(group) = group {
        group.join(&receive, index).map_err(step("spreading packets over sockets"))?;
    }
    let send = open_sender(name, index)?;
    Ok((Sockets { receive, send, index }, mapping))
}

/// Whether a socket that was bound to the interface of this number is no more: it was moved to another namespace. It
/// keeps its number there, and when it is back.
pub(super) fn is_cut_off(socket: &OwnedFd, index: i32) -> bool {
    bound_interface(socket).is_ok_and(|bound| bound != index)
}

/// A socket that sends by the interface of this number.
pub(super) fn open_sender(name: &str, index: i32) -> Result<OwnedFd, OpenError> {
    let step = |what| OpenError::of(name, what, Capability::NetRaw);
    let send =
        socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(step("opening a packet socket"))?;
    bind(&send, &address(index, 0)).map_err(step("binding to the interface"))?;
    set_option(&send, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)
        .map_err(step("sending past the queueing discipline"))?;
    Ok(send)
}

fn address(interface: i32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol,
        sll_ifindex: interface,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// Has the interface of this number be promiscuous as long as `socket` is open.
pub(super) fn receive_all(socket: &OwnedFd, interface: i32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: interface,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Opens `name` with a queue for each of `workers` workers.
pub(super) fn open(name: &str, port: Port, workers: usize) -> Result<LivePort, OpenError> {
    if workers > MOST_MEMBERS {
        return Err(OpenError::WrongType {
            interface: name.to_owned(),
            what: "the kernel spreads packets over 256 packet sockets at most (PACKET_FANOUT), one for each worker",
            instead: format!("give `--workers {MOST_MEMBERS}` or fewer, or `xdp:{name}`"),
        });
    }
    let group = Arc::new(Group::default());
    interface::usable(name)?;
    let claim = Arc::new(claim(name)?);
    let slot = slot(interface::mtu(name).unwrap_or(0));
    let shape = Shape { blocks: blocks(workers), slot };
    let queues = (0..workers.max(1)).map(|_| {
        let group = (workers > 1).then(|| Arc::clone(&group));
        let (sockets, mapping) = open_queue_of_most(name, group.as_deref(), shape)?;
        let pool = Pool::new(BUFFERS, LONGEST);
        let (name, _claim) = (name.to_owned(), Arc::clone(&claim));
        let memory = Memory { name, port, group, sockets, mapping, slot, pool, _claim };
        Ok(Box::new(memory) as Box<dyn Opened>)
    });
    let queues = queues.collect::<Result<_, OpenError>>()?;
    let spread = match workers {
        0 | 1 => "1 queue",
        _ => "a queue for each worker, over which the kernel spreads packets by flow",
    };
    let about = format!(
        "{spread}; checksums that an offload left unfinished are finished, its large packets cut into \
         segments, all in software"
    );
    Ok(LivePort { queues, about, driver: None })
}

struct Memory {
    name: String,
    port: Port,
    group: Option<Arc<Group>>,
    sockets: Sockets,
    mapping: Mapping,
    slot: usize,
    pool: Pool,
    _claim: Arc<Claim>,
}

impl Opened for Memory {
    fn queue(&mut self) -> Box<dyn Queue<'_> + '_> {
        // The filter is the socket's own, so that this cannot fail.
        let _ = refuse_none(&self.sockets.receive);
        Box::new(AfPacket {
            name: &self.name,
            port: self.port,
            group: self.group.as_deref(),
            sockets: &mut self.sockets,
            shape: Shape { blocks: self.mapping.len() / BLOCK, slot: self.slot },
            ring: Ring::new(&mut self.mapping, self.slot),
            large: None,
            free: self.pool.buffers(),
            statistics: QueueStatistics::default(),
            is_down: false,
        })
    }
}

/// A packet in its slot, or in a buffer if it is larger, with what is before and after it.
struct Received<'m> {
    buffer: &'m mut [u8],
    start: usize,
    len: usize,
    wire_len: u32,
    offload: Offload,
}

/// A large packet that is being cut.
struct Large<'m> {
    packet: Received<'m>,
    segments: Segments,
}

struct AfPacket<'m> {
    name: &'m str,
    port: Port,
    group: Option<&'m Group>,
    sockets: &'m mut Sockets,
    shape: Shape,
    ring: Ring<'m>,
    large: Option<Large<'m>>,
    free: FreeBuffers<'m>,
    statistics: QueueStatistics,
    is_down: bool,
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.first_chunk().copied().map(u32::from_ne_bytes)
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.first_chunk().copied().map(u16::from_ne_bytes)
}

/// What the kernel says of a packet besides.
struct Status {
    /// All of it waits at the socket.
    waits: bool,
    /// The VLAN tag that the kernel took out: its type, and the rest.
    tag: Option<(u16, u16)>,
}

/// Reads what the kernel has written before a packet (`struct tpacket2_hdr`). `Err`: it makes no sense.
#[inline(always)]
fn read(slot: &mut [u8]) -> Result<(Received<'_>, Status), &mut [u8]> {
    let fields = (|| {
        let status = number(slot, 0)?;
        let (wire_len, len) = (number(slot, 4)?, number(slot, 8)? as usize);
        let start = usize::from(short(slot, 12)?);
        let kind = (status & libc::TP_STATUS_VLAN_TPID_VALID != 0).then_some(short(slot, 26)?);
        let tag = (kind.unwrap_or(0x8100), short(slot, 24)?);
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then_some(tag);
        let waits = status & libc::TP_STATUS_COPY != 0;
        let offload = slot.get(start.checked_sub(Offload::LEN)?..)?.first_chunk()?;
        Some((start, len, wire_len, Offload::read(offload), Status { waits, tag }))
    })();
    match fields {
        Some((start, len, wire_len, offload, status)) if start + len <= slot.len() => {
            Ok((Received { buffer: slot, start, len, wire_len, offload }, status))
        }
        _ => Err(slot),
    }
}

impl<'m> AfPacket<'m> {
    /// The next packet of the ring.
    fn next(&mut self) -> Option<Received<'m>> {
        // What is too large for its slot needs a buffer.
        if self.free.is_empty() {
            return None;
        }
        loop {
            let slot = self.ring.take()?;
            let (mut received, status) = match read(slot) {
                Ok(read) => read,
                Err(slot) => {
                    self.give(slot);
                    continue;
                }
            };
            if status.waits {
                received = self.complete(received);
            }
            if let Some((kind, tag)) = status.tag {
                received.put_tag(kind, tag);
            }
            return Some(received);
        }
    }

    /// A packet of which all waits at the socket and the beginning is in a slot. If it does not wait there, the
    /// beginning.
    #[cold]
    fn complete(&mut self, cut: Received<'m>) -> Received<'m> {
        const START: usize = crate::port::HEADROOM;
        let Some(buffer) = self.free.take() else { return cut };
        let message = buffer.get_mut(START - Offload::LEN..).unwrap_or_default();
        let len = cut.wire_len as usize;
        let beginning = cut.buffer.get(cut.start..cut.start + cut.len).unwrap_or_default();
        // The socket's error, if it has one, is told once.
        let mut may_fail = true;
        let is_there = loop {
            match receive(&self.sockets.receive, message) {
                Ok(all) => {
                    let is_it =
                        message.get(Offload::LEN..).unwrap_or_default().starts_with(beginning);
                    // What is another's was left behind.
                    if is_it && all == len + Offload::LEN {
                        break all <= message.len();
                    }
                }
                Err(error) if may_fail && error.kind() != io::ErrorKind::WouldBlock => {
                    may_fail = false
                }
                Err(_) => break false,
            }
        };
        if is_there {
            self.give(cut.buffer);
            return Received {
                buffer,
                start: START,
                len,
                wire_len: cut.wire_len,
                offload: cut.offload,
            };
        }
        self.free.give(buffer);
        cut
    }

    fn give(&mut self, buffer: &'m mut [u8]) {
        if let Err(buffer) = self.ring.give(buffer) {
            self.free.give(buffer);
        }
    }

    fn meta(&self, wire_len: u32) -> Meta {
        Meta { wire_len, port: self.port, ..Meta::default() }
    }

    /// The next packet as it would have been on the wire. `None`: there is none now.
    fn next_frame(&mut self) -> Option<Frame<'m>> {
        loop {
            if let Some(large) = self.large.take() {
                match self.next_segment(large) {
                    Ok(frame) => return frame,
                    Err(done) => self.give(done),
                }
            }
            let mut packet = self.next()?;
            let is_cut = packet.len < packet.wire_len as usize;
            match packet.offload.undo(packet.bytes()) {
                _ if is_cut => self.refuse(packet),
                Wire::Unknown => self.refuse(packet),
                Wire::Cut(segments) => {
                    self.statistics.segmented += 1;
                    self.large = Some(Large { packet, segments });
                }
                Wire::Whole(finished) => {
                    self.statistics.finished_checksums += u64::from(finished);
                    let meta = self.meta(packet.wire_len);
                    return Some(Frame::new(packet.buffer, packet.start, packet.len, 0, meta));
                }
            }
        }
    }

    /// The next segment, or `None` where there is no buffer for it now; `Err`: the packet is done.
    fn next_segment(&mut self, mut large: Large<'m>) -> Result<Option<Frame<'m>>, &'m mut [u8]> {
        const START: usize = crate::port::HEADROOM;
        let Some(buffer) = self.free.take() else {
            self.large = Some(large);
            return Ok(None);
        };
        let to = buffer.get_mut(START..).unwrap_or_default();
        match large.segments.next(large.packet.bytes(), to) {
            Some(len) => {
                self.large = Some(large);
                Ok(Some(Frame::new(buffer, START, len, 0, self.meta(len as u32))))
            }
            None => {
                self.free.give(buffer);
                Err(large.packet.buffer)
            }
        }
    }

    fn refuse(&mut self, packet: Received<'m>) {
        self.statistics.oversized += 1;
        self.statistics.oversized_bytes += u64::from(packet.wire_len);
        self.give(packet.buffer);
    }

    /// Counts what the kernel has dropped since it was asked last: asking resets its count.
    fn note_missed(&mut self) {
        let level = libc::SOL_PACKET;
        let kernel =
            option::<libc::tpacket_stats>(&self.sockets.receive, level, libc::PACKET_STATISTICS);
        self.statistics.missed += kernel.map_or(0, |kernel| u64::from(kernel.tp_drops));
    }

    /// Counts a link that has gone down, once.
    fn note_down(&mut self) {
        if !self.is_down {
            self.is_down = true;
            self.statistics.link_downs += 1;
        }
    }

    /// Opens an interface that has come back, if all that came by the old one has been handled.
    fn reopen(&mut self) {
        if self.large.is_some() || self.ring.is_filled() {
            return;
        }
        let Ok((sockets, mapping)) = open_queue(self.name, self.group, self.shape) else { return };
        // The counts of a socket go with it.
        self.note_missed();
        if self.ring.replace(mapping).is_ok() {
            let _ = refuse_none(&sockets.receive);
            *self.sockets = sockets;
            self.statistics.reopened += 1;
            self.is_down = false;
        }
    }
}

/// Sends packets through a packet socket. What finds no room is asked about: where the link is down the kernel
/// says the same.
pub(super) fn send_through(
    socket: &OwnedFd,
    packets: &[&[u8]],
    is_down: impl FnOnce() -> bool,
) -> Sent {
    let mut sent = Sent::default();
    let mut rest = packets;
    while let Some((_, after)) = rest.split_first() {
        match send_batch(socket, rest) {
            Ok(count) => {
                let (gone, left) = rest.split_at(count.clamp(1, rest.len()));
                sent.packets += gone.len() as u64;
                sent.bytes += gone.iter().map(|packet| packet.len() as u64).sum::<u64>();
                rest = left;
            }
            Err(error) => {
                match error.raw_os_error() {
                    Some(libc::EMSGSIZE) => sent.too_big += 1,
                    Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => sent.down += 1,
                    _ => sent.full += 1,
                }
                rest = after;
            }
        }
    }
    if sent.full > 0 && is_down() {
        sent.down += std::mem::take(&mut sent.full);
    }
    sent
}

impl Received<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.start..self.start + self.len).unwrap_or_default()
    }

    /// Puts a VLAN tag between the addresses and what follows them.
    fn put_tag(&mut self, kind: u16, tag: u16) {
        const TAG: usize = 4;
        const ADDRESSES: usize = 12;
        let Some(start) = self.start.checked_sub(TAG) else { return };
        if self.buffer.len() < self.start + ADDRESSES {
            return;
        }
        self.buffer.copy_within(self.start..self.start + ADDRESSES, start);
        let [a, b] = kind.to_be_bytes();
        let [c, d] = tag.to_be_bytes();
        if let Some(place) = self.buffer.get_mut(start + ADDRESSES..start + ADDRESSES + TAG) {
            place.copy_from_slice(&[a, b, c, d]);
        }
        self.start = start;
        self.len += TAG;
        self.wire_len = self.wire_len.saturating_add(TAG as u32);
        self.offload = self.offload.moved(TAG as u16);
    }
}

impl<'m> Queue<'m> for AfPacket<'m> {
    fn receive(&mut self, batch: &mut Vec<Frame<'m>>, max: usize) -> usize {
        let before = batch.len();
        while batch.len() - before < max {
            match self.next_frame() {
                Some(frame) => batch.push(frame),
                None => break,
            }
        }
        batch.len() - before
    }

    fn release(&mut self, batch: &mut Vec<Frame<'m>>) {
        for frame in batch.drain(..) {
            self.give(frame.into_buffer().0);
        }
    }

    fn send(&mut self, packets: &[&[u8]]) -> Sent {
        let is_down = || self.is_down || !interface::has_link(self.name);
        let sent = send_through(&self.sockets.send, packets, is_down);
        if sent.down > 0 {
            self.note_down();
        }
        sent
    }

    fn attend(&mut self) {
        // Reading the error clears it; what it was is seen below.
        let _: io::Result<i32> = option(&self.sockets.receive, libc::SOL_SOCKET, libc::SO_ERROR);
        let index = interface::index(self.name);
        if index != Some(self.sockets.index) || is_cut_off(&self.sockets.send, self.sockets.index) {
            self.note_down();
            self.reopen();
        } else if !interface::has_link(self.name) {
            self.note_down();
        } else {
            self.is_down = false;
        }
    }

    fn fds(&self, fds: &mut Vec<RawFd>) {
        fds.push(self.sockets.receive.as_raw_fd());
    }

    fn statistics(&mut self) -> QueueStatistics {
        self.note_missed();
        self.statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_workers_than_a_group_has_sockets_are_refused_at_once() {
        let why = open("lo", Port::new(0), 257).err().map(|why| why.to_string());
        let why = why.unwrap_or_default();
        assert!(why.contains("256 packet sockets") && why.contains("`--workers 256`"), "{why}");
        let fewer = open("no-such-one", Port::new(0), 256).err().map(|why| why.to_string());
        assert!(!fewer.unwrap_or_default().contains("--workers"));
    }

    #[test]
    fn few_workers_have_long_rings() {
        let of = [1, 2, 4, 8, 256].map(blocks);
        assert_eq!(of, [256, 256, 128, 64, 64]);
    }

    #[test]
    fn a_slot_holds_what_an_interface_sends() {
        let of = [0, 1_500, 1_820, 1_821, 9_000, 65_536, 1 << 40].map(slot);
        assert_eq!(of, [2_048, 2_048, 2_048, 4_096, 16_384, BLOCK, BLOCK]);
    }

    #[test]
    fn what_makes_no_sense_is_no_packet() {
        let mut slot = [0; 2_048];
        let mut with = |start: u16, len: u32| {
            slot[8..12].copy_from_slice(&len.to_ne_bytes());
            slot[12..14].copy_from_slice(&start.to_ne_bytes());
            read(&mut slot).map(|(received, _)| (received.start, received.len)).ok()
        };
        assert_eq!(with(204, 1_844), Some((204, 1_844)));
        for (start, len) in [(9, 60), (204, 1_845), (2_049, 0), (204, u32::MAX)] {
            assert_eq!(with(start, len), None, "{len} bytes from {start}");
        }
    }

    #[test]
    fn a_tag_is_put_back_between_addresses_and_type() {
        let mut buffer: Vec<u8> = (0..40).collect();
        let offload = Offload::default();
        let mut packet = Received { buffer: &mut buffer, start: 8, len: 20, wire_len: 90, offload };
        packet.put_tag(0x8100, 0xe123);
        assert_eq!((packet.start, packet.len, packet.wire_len), (4, 24, 94));
        let tagged = packet.bytes().to_vec();
        let whole: Vec<u8> = (8..20).chain([0x81, 0, 0xe1, 0x23]).chain(20..28).collect();
        assert_eq!(tagged, whole);
        assert_eq!(packet.offload, offload.moved(4));
    }

    #[test]
    fn a_tag_without_room_changes_nothing() {
        for (start, len) in [(3, 20), (30, 10), (8, 200)] {
            let mut buffer: Vec<u8> = (0..40).collect();
            let offload = Offload::default();
            let mut packet = Received { buffer: &mut buffer, start, len, wire_len: 200, offload };
            packet.put_tag(0x8100, 1);
            let moved = start == 8;
            assert_eq!((packet.start, packet.len), if moved { (4, 204) } else { (start, len) });
            assert!(packet.bytes().len() <= 40);
        }
    }
}

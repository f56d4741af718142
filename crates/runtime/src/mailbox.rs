//! Between workers: packets that are handed over to whoever owns the shard they turned out to
//! belong to.
//!
//! A parcel holds the packets that one worker hands over to one other in one batch, copied, since
//! their memory belongs to the port they came from. A worker's parcels to another arrive in the
//! order in which they were sent, and with them the packets of a flow.

use anabranch_nf::l3::Arrival;
use anabranch_packet::{Frame, Meta};

/// Packets on their way to another worker. Emptied parcels are filled again, so that handing over
/// soon allocates no more.
#[derive(Debug, Default)]
pub struct Parcel {
    /// The reassignment of shards by whose table it was sent.
    pub epoch: u64,
    bytes: Vec<u8>,
    packets: Vec<Handed>,
}

/// One packet of a parcel.
#[derive(Clone, Copy, Debug)]
struct Handed {
    start: usize,
    len: usize,
    meta: Meta,
    again: Option<Again>,
}

/// What goes with a packet that re-enters at another worker.
#[derive(Clone, Copy, Debug)]
pub struct Again {
    /// How often it re-enters with this time.
    pub turn: u32,
    /// How it arrived, for errors about it.
    pub arrival: Arrival,
    /// It has been sent after a value that its shard had lent, and is not once more.
    pub strayed: bool,
}

impl Parcel {
    /// Appends a packet, one that re-enters or one that nobody has handled.
    pub fn push(&mut self, frame: &Frame<'_>, again: Option<Again>) {
        let (start, len) = (self.bytes.len(), frame.bytes().len());
        self.bytes.extend_from_slice(frame.bytes());
        self.packets.push(Handed { start, len, meta: *frame.meta(), again });
    }

    /// Number of the last packet, in the order of arrival.
    pub fn last_number(&self) -> Option<u64> {
        self.packets.last().map(|packet| packet.meta.number)
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Hands each packet to `receive`, in order, and forgets it.
    pub fn open(&mut self, mut receive: impl FnMut(&mut Frame<'_>, Option<Again>)) {
        for Handed { start, len, meta, again } in self.packets.drain(..) {
            let Some(bytes) = self.bytes.get_mut(start..start + len) else { continue };
            receive(&mut Frame::new(bytes, 0, len, 0, meta), again);
        }
        self.bytes.clear();
    }

    /// Lends the packets, in order.
    pub(crate) fn frames(&mut self) -> impl Iterator<Item = (Frame<'_>, Option<Again>)> {
        let mut rest = self.bytes.as_mut_slice();
        self.packets.iter().map(move |&Handed { len, meta, again, .. }| {
            let all = std::mem::take(&mut rest);
            let (packet, after) = all.split_at_mut(len.min(all.len()));
            rest = after;
            (Frame::new(packet, 0, len, 0, meta), again)
        })
    }

    /// Forgets all packets.
    pub(crate) fn clear(&mut self) {
        self.packets.clear();
        self.bytes.clear();
    }
}

/// Parcels being filled, by worker.
#[derive(Debug, Default)]
pub struct Outbox {
    parcels: Vec<Parcel>,
    /// Emptied parcels.
    spare: Vec<Parcel>,
    waiting: usize,
}

impl Outbox {
    /// Room for parcels to each of `workers`.
    pub fn new(workers: usize) -> Self {
        let parcels = (0..workers).map(|_| Parcel::default()).collect();
        Self { parcels, spare: Vec::new(), waiting: 0 }
    }

    /// Puts a packet into the parcel for `worker`.
    pub fn put(&mut self, frame: &Frame<'_>, worker: u16, again: Option<Again>) {
        if let Some(parcel) = self.parcels.get_mut(usize::from(worker)) {
            parcel.push(frame, again);
            self.waiting += 1;
        }
    }

    /// Whether nothing waits.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Hands every parcel that is not empty to `send`, with the worker it is for, and returns how
    /// many packets that were.
    pub fn flush(&mut self, mut send: impl FnMut(usize, Parcel)) -> usize {
        for (worker, parcel) in self.parcels.iter_mut().enumerate() {
            if !parcel.is_empty() {
                let empty = self.spare.pop().unwrap_or_default();
                send(worker, std::mem::replace(parcel, empty));
            }
        }
        std::mem::take(&mut self.waiting)
    }

    /// Takes an emptied parcel, to be filled again.
    pub fn give_back(&mut self, parcel: Parcel) {
        self.spare.push(parcel);
    }
}

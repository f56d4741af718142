//! Between workers: packets that are handed over to whoever owns the shard they turned out to
//! belong to.
//!
//! A parcel holds the packets that one worker hands over to one other in one batch, copied, since
//! their memory belongs to the port they came from. A worker's parcels to another arrive in the
//! order in which they were sent, and with them the packets of a flow.

use anabranch_nf::l3::Arrival;
use anabranch_packet::{Frame, Meta};

/// Bytes of a packet that a new parcel with room has memory for; longer ones have it take more.
const ROOM: usize = 128;

/// Packets on their way to another worker. Emptied parcels are filled again, so that handing over
/// soon allocates no more.
#[derive(Debug, Default)]
pub struct Parcel {
    /// The reassignment of shards by whose table it was sent.
    pub epoch: u64,
    /// The packets one after another.
    bytes: Vec<u8>,
    packets: Vec<Handed>,
    /// Of those that re-enter, in the same order: few, and longer than the rest.
    again: Vec<Again>,
}

/// One packet of a parcel.
#[derive(Clone, Copy, Debug)]
struct Handed {
    len: usize,
    meta: Meta,
    re_enters: bool,
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
    /// When it arrived, nanoseconds since the Unix epoch: who hands it over may have handled it later.
    pub arrived_ns: u64,
}

impl Parcel {
    /// An empty one, with memory for so many packets of a modest length.
    pub fn with_room(packets: usize) -> Self {
        let (bytes, packets) = (Vec::with_capacity(packets * ROOM), Vec::with_capacity(packets));
        Self { bytes, packets, ..Self::default() }
    }

    /// Appends a packet, one that re-enters or one that nobody has handled.
    pub fn push(&mut self, frame: &Frame<'_>, again: Option<Again>) {
        let (len, mut meta) = (frame.bytes().len(), *frame.meta());
        meta.arrival_ns = again.map_or(meta.arrival_ns, |again| again.arrived_ns);
        self.bytes.extend_from_slice(frame.bytes());
        self.packets.push(Handed { len, meta, re_enters: again.is_some() });
        self.again.extend(again);
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
        self.frames().for_each(|(mut frame, again)| receive(&mut frame, again));
        self.clear();
    }

    /// Lends the packets, in order.
    pub(crate) fn frames(&mut self) -> impl Iterator<Item = (Frame<'_>, Option<Again>)> {
        let mut rest = self.bytes.as_mut_slice();
        let mut again = self.again.iter().copied();
        self.packets.iter().map(move |&Handed { len, meta, re_enters }| {
            let all = std::mem::take(&mut rest);
            let (packet, after) = all.split_at_mut(len.min(all.len()));
            rest = after;
            let again = if re_enters { again.next() } else { None };
            (Frame::new(packet, 0, len, 0, meta), again)
        })
    }

    /// Forgets all packets.
    pub(crate) fn clear(&mut self) {
        self.packets.clear();
        self.bytes.clear();
        self.again.clear();
    }
}

/// Parcels being filled, by worker.
#[derive(Debug, Default)]
pub struct Outbox {
    parcels: Vec<Parcel>,
    /// Emptied parcels, and how many are kept: those that others fill come here too.
    spare: Vec<Parcel>,
    most: usize,
    waiting: usize,
}

impl Outbox {
    /// Room for parcels to each of `workers`, made as they are needed.
    pub fn new(workers: usize) -> Self {
        let parcels = (0..workers).map(|_| Parcel::default()).collect();
        Self { parcels, spare: Vec::new(), most: workers, waiting: 0 }
    }

    /// Makes that many before they are needed, with room for so many packets each.
    pub fn stock(&mut self, parcels: usize, packets: usize) {
        self.spare.extend((0..parcels).map(|_| Parcel::with_room(packets)));
        self.most += parcels;
    }

    /// Puts a packet into the parcel for `worker`.
    pub fn put(&mut self, frame: &Frame<'_>, worker: u16, again: Option<Again>) {
        if let Some(parcel) = self.parcels.get_mut(usize::from(worker)) {
            parcel.push(frame, again);
            self.waiting += 1;
        }
    }

    /// Packets that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
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

    /// Takes an emptied parcel, to be filled again where there are not enough.
    pub fn give_back(&mut self, parcel: Parcel) {
        if self.spare.len() < self.most {
            self.spare.push(parcel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of what others hand over, and get nothing back for, as much stays as can be needed.
    #[test]
    fn what_comes_from_others_does_not_pile_up() {
        let mut outbox = Outbox::new(2);
        outbox.stock(3, 1);
        (0..100).for_each(|_| outbox.give_back(Parcel::with_room(1)));
        assert_eq!(outbox.spare.len(), 5);
        for number in 0..100 {
            outbox.put(&Frame::new(&mut [0; 60], 0, 60, 0, Meta::default()), number % 2, None);
            outbox.flush(|_, parcel| drop(parcel));
        }
        assert_eq!(outbox.spare.len(), 0);
    }

    /// Some packets re-enter and others do not: each comes out as it went in, from a parcel used before too.
    #[test]
    fn what_re_enters_is_told_apart() {
        let mut parcel = Parcel::with_room(2);
        for turns in [[None, Some(1), None, Some(2)], [Some(3), None, Some(4), Some(5)]] {
            for (number, turn) in (0..).zip(turns) {
                let len = 60 + number as usize;
                let meta = Meta { number, ..Meta::default() };
                let arrival = Arrival::default();
                let again = turn.map(|turn| Again { turn, arrival, strayed: false, arrived_ns: 0 });
                parcel.push(&Frame::new(&mut vec![number as u8; len], 0, len, 0, meta), again);
            }
            let mut opened = Vec::new();
            parcel.open(|frame, again| {
                let number = frame.meta().number;
                assert_eq!(frame.bytes(), vec![number as u8; 60 + number as usize]);
                opened.push(again.map(|again| again.turn));
            });
            assert_eq!(opened, turns);
            assert!(parcel.is_empty() && parcel.frames().next().is_none());
        }
    }
}

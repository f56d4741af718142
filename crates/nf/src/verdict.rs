//! What becomes of a packet, and why.

use std::hint::cold_path;

use anabranch_packet::{Malformed, Port};

use crate::key::Value;
use crate::pack::{Pack, Unpack};

/// What a handler says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Leaves through this port.
    Forward(Port),
    /// Goes nowhere, for this reason; written [`Drop(reason)`](fn@Drop).
    Discard(DropReason),
    /// Leaves through every port but the one it came in by.
    Flood,
    /// Comes in again, as if received on this port: a step of its own.
    Recirculate(Port),
}

impl Value for Verdict {
    const BITS: u32 = 2 + 16;
    fn zero() -> Self {
        Self::Discard(DropReason(0))
    }
    fn pack(&self, pack: &mut Pack<'_>) {
        let (kind, what) = match *self {
            Self::Discard(DropReason(reason)) => (0, reason),
            Self::Forward(port) => (1, port.index().into()),
            Self::Recirculate(port) => (2, port.index().into()),
            Self::Flood => (3, 0),
        };
        pack.put(kind, 2);
        what.pack(pack);
    }
    fn unpack(unpack: &mut Unpack<'_>) -> Self {
        let (kind, what) = (unpack.take(2), u16::unpack(unpack));
        match kind {
            0 => Self::Discard(DropReason(what)),
            1 => Self::Forward(Port::new(what as u8)),
            2 => Self::Recirculate(Port::new(what as u8)),
            _ => Self::Flood,
        }
    }
}

/// The verdict that drops a packet for `reason`: the NF's own or a [`Builtin`] one.
#[allow(non_snake_case)]
#[inline(always)]
pub fn Drop(reason: impl Into<DropReason>) -> Verdict {
    // Kept a way of its own: where it is chosen by value, the port of a packet that leaves waits for all that decides.
    cold_path();
    Verdict::Discard(reason.into())
}

/// Why a packet went nowhere, as a small number; [`Word`]s name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DropReason(pub u16);

/// First number of an NF's own reasons.
const OWN: u16 = 256;
/// First number of the malformed ones.
const MALFORMED: u16 = 128;

impl DropReason {
    /// The NF's own reason number `n`, in the order of its `Reason` enum.
    pub const fn own(n: u16) -> Self {
        Self(OWN + n)
    }

    /// The word for this reason, the same everywhere: command line, metrics, trace and capture.
    /// `own` are the words of the NF.
    pub fn word(self, own: &'static [Word]) -> &'static str {
        match self.0 {
            n if n >= OWN => own.get((n - OWN) as usize).map_or("unknown", |word| word.name),
            n if n >= MALFORMED => Malformed::ALL
                .get((n - MALFORMED) as usize)
                .map_or("malformed", |reason| reason.as_str()),
            n => Builtin::ALL.get(n as usize).map_or("unknown", |reason| reason.as_str()),
        }
    }

    /// The words for all reasons that there are, where `own` are those of the NF.
    pub fn words(own: &'static [Word]) -> impl Iterator<Item = &'static str> {
        let malformed = Malformed::ALL.iter().map(|reason| reason.as_str());
        let builtin = Builtin::ALL.iter().map(|reason| reason.as_str());
        own.iter().map(|word| word.name).chain(builtin).chain(malformed)
    }
}

impl From<Malformed> for DropReason {
    fn from(reason: Malformed) -> Self {
        let at = Malformed::ALL.iter().position(|&other| other == reason);
        Self(MALFORMED + at.unwrap_or(0) as u16)
    }
}

/// A name that users see, with its explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Lower case, words joined by hyphens.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
}

macro_rules! builtin {
    ($($(#[doc = $help:literal])+ $name:ident = $word:literal,)+) => {
        /// Reasons that every NF may use and that the runtime gives.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Builtin {
            $($(#[doc = $help])+ $name,)+
        }

        impl Builtin {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The word for it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

builtin! {
    /// The packet belongs to no packet set, and the NF has no `orphan` handler.
    NoPacketSet = "no-packet-set",
    /// The table of packet sets is full.
    PacketSetsFull = "packet-sets-full",
    /// The packet was recirculated more often than allowed.
    RecirculationLimit = "recirculation-limit",
    /// The verdict names a port that the run does not have.
    NoSuchPort = "no-such-port",
    /// The packet was for the function itself and has been answered or taken in (ARP, ND, echo).
    Answered = "answered",
    /// TTL or hop limit has run out.
    TtlExpired = "ttl-expired",
    /// No route leads to the destination.
    NoRoute = "no-route",
    /// The next hop's hardware address is not known yet.
    NeighbourUnresolved = "neighbour-unresolved",
    /// Larger than the link carries, and not to be fragmented.
    PacketTooBig = "packet-too-big",
    /// Not addressed to this interface's hardware address.
    NotForThisInterface = "not-for-this-interface",
    /// To or from an address that no router forwards: loopback, link-local, broadcast, multicast; or to be ignored.
    NotForwardable = "not-forwardable",
    /// Of a protocol that this NF does not handle.
    UnsupportedProtocol = "unsupported-protocol",
    /// The checksum of the IPv4 header is wrong.
    Ipv4Checksum = "ipv4-checksum",
    /// Larger than the link carries: sent on in fragments.
    Fragmented = "fragmented",
    /// No room in the transmit queue of a live port.
    TransmitFull = "transmit-full",
    /// The live port it was to leave by is down, or gone.
    LinkDown = "link-down",
    /// No room in the mailbox of the worker that owns its shard.
    MailboxFull = "mailbox-full",
    /// Longer than a live port's buffers, or made by an offload that cannot be undone.
    Oversized = "oversized",
    /// A fragment that has gone into the datagram which was put together of it.
    Reassembled = "reassembled",
    /// A fragment whose datagram did not come together: others did not come, or overlap, or there was no room.
    IncompleteDatagram = "incomplete-datagram",
}

impl From<Builtin> for DropReason {
    #[inline(always)]
    fn from(reason: Builtin) -> Self {
        Self(reason as u16)
    }
}

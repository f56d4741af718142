//! What the routing tables hold: where packets go next.

use anabranch_packet::Port;

/// Where packets to a prefix go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextHop {
    /// There is no route.
    Unreachable,
    /// To this neighbour: a router, or the destination itself.
    Neighbour(u32),
    /// To the destination itself, a neighbour on this port that is to be looked up.
    OnLink(Port),
    /// To us.
    Own,
    /// Nobody forwards there.
    Nowhere,
}

const KIND_SHIFT: u32 = 28;

impl NextHop {
    /// As a value of a [`Trie`](super::trie::Trie); unreachable is its "none".
    pub fn to_value(self) -> u32 {
        match self {
            Self::Unreachable => 0,
            Self::Neighbour(neighbour) => 1 << KIND_SHIFT | neighbour,
            Self::OnLink(port) => 2 << KIND_SHIFT | u32::from(port.index()),
            Self::Own => 3 << KIND_SHIFT,
            Self::Nowhere => 4 << KIND_SHIFT,
        }
    }

    #[inline(always)]
    pub fn from_value(value: u32) -> Self {
        match value >> KIND_SHIFT {
            1 => Self::Neighbour(value & ((1 << KIND_SHIFT) - 1)),
            2 => Self::OnLink(Port::new(value as u8)),
            3 => Self::Own,
            4 => Self::Nowhere,
            _ => Self::Unreachable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
        let hops = [
            NextHop::Unreachable,
            NextHop::Neighbour(0),
            NextHop::Neighbour(0x0fff_ffff),
            NextHop::OnLink(Port::new(0)),
            NextHop::OnLink(Port::new(255)),
            NextHop::Own,
            NextHop::Nowhere,
        ];
        for hop in hops {
            assert_eq!(NextHop::from_value(hop.to_value()), hop);
            assert!(hop.to_value() >> 31 == 0);
        }
    }
}

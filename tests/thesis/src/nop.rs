//! Listing 4.1: forwards from one port to the other.

use anabranch_nf::prelude::*;

pub use nop::Function;

/// Forwards from one port to the other.
#[network_function(ports(lan, wan))]
pub mod nop {
    pub struct Nop {}

    impl Nop {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if pkt.port() == WAN { Forward(LAN) } else { Forward(WAN) }
        }
    }
}

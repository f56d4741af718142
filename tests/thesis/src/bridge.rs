//! Listing 4.3: learns behind which port each station is.

use anabranch_nf::prelude::*;

pub use bridge::Function;

/// Learns behind which port each station is, and forwards there.
#[network_function(ports(lan, wan))]
pub mod bridge {
    pub struct Bridge {
        #[capacity(65_536)]
        stations: Map<MacAddr, Port>,
    }

    impl Bridge {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let (src, dst) = (pkt.ethernet().src(), pkt.ethernet().dst());
            if !self.stations.contains(&src) {
                self.stations.insert(src, pkt.port());
            }
            match self.stations.get(&dst) {
                Some(port) => Forward(port),
                None => Flood,
            }
        }
    }
}

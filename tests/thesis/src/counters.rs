//! Listing 3.1: counts the packets of each source port.

use anabranch_nf::prelude::*;

pub use counters::Function;

/// Counts the packets of each TCP or UDP source port.
#[network_function(ports(..))]
pub mod counters {
    pub struct Counters {
        #[capacity(65_536)]
        counts: Vector<u64>,
    }

    impl Counters {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(port) = pkt.src_port() else { return Flood };
            let count = self.counts.read(u32::from(port));
            self.counts.write(u32::from(port), count + 1);
            Flood
        }
    }
}

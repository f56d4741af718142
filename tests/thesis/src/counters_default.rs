//! Listing 3.3 to the letter: the index of a port stands in a vector, and is 0 for a port never
//! seen. Whose entry that is depends on who was first of all: nothing shards it.

use anabranch_nf::prelude::*;

pub use counters_default::Function;

/// Counts the packets of each TCP or UDP source port that is in use.
#[network_function(ports(..))]
pub mod counters_default {
    const LIFETIME_NS: u64 = 1_000_000_000;

    pub struct CountersDefault {
        #[capacity(65_536)]
        indices: Vector<u32>,
        #[capacity(65_536)]
        chain: Allocator<()>,
    }

    impl CountersDefault {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(port) = pkt.src_port() else { return Flood };
            let index = self.indices.read(u32::from(port));
            if self.chain.is_allocated(index, cx) {
                self.chain.refresh(index, LIFETIME_NS, cx);
            } else if let Some(index) = self.chain.allocate((), LIFETIME_NS, cx) {
                self.indices.write(u32::from(port), index);
            }
            Flood
        }
    }
}

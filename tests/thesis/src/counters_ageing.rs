//! Listing 3.3: counts the packets of each source port, as long as it is in use. The index of a port
//! stands in a map: the thesis has a vector, in which a port never seen has index 0, another port's
//! (`counters_default`).

use anabranch_nf::prelude::*;

pub use counters_ageing::Function;

/// Counts the packets of each TCP or UDP source port that is in use.
#[network_function(ports(..))]
pub mod counters_ageing {
    const LIFETIME_NS: u64 = 1_000_000_000;

    pub struct CountersAgeing {
        #[capacity(65_536)]
        counts: Vector<u64>,
        #[capacity(65_536)]
        indices: Map<u16, u32>,
        #[capacity(65_536)]
        #[expired(forget)]
        chain: Allocator<u16>,
    }

    impl CountersAgeing {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(port) = pkt.src_port() else { return Flood };
            let known = match self.indices.get(&port) {
                Some(index) => self.chain.refresh(index, LIFETIME_NS, cx),
                None => false,
            };
            if !known && let Some(index) = self.chain.allocate(port, LIFETIME_NS, cx) {
                self.indices.insert(port, index);
            }
            let count = self.counts.read(u32::from(port));
            self.counts.write(u32::from(port), count + 1);
            Flood
        }

        /// The thesis's allocator takes the key out of the map itself.
        fn forget(&mut self, index: u32, port: u16, cx: &mut Context) {
            if self.indices.get(&port) == Some(index) {
                self.indices.remove(&port);
            }
        }
    }
}

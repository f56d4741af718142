//! Listing 4.2: limits what each destination receives from the WAN.

use anabranch_nf::prelude::*;

pub use policer::Function;

/// Limits what each IPv4 destination receives from the WAN.
#[network_function(ports(lan, wan))]
pub mod policer {
    pub enum Reason {
        TooFast,
    }

    pub struct Chunk {
        bytes: u32,
        at_ns: u64,
    }

    const MOST_BYTES_PER_MS: u64 = 1_250;
    const NS_PER_MS: u64 = 1_000_000;

    pub struct Policer {
        #[capacity(65_536)]
        chunks: Map<Ipv4Addr, Chunk>,
    }

    impl Policer {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if pkt.port() == LAN {
                return Forward(WAN);
            }
            let Some(ip) = pkt.ipv4() else { return Drop(Builtin::UnsupportedProtocol) };
            let current = Chunk { bytes: pkt.len(), at_ns: cx.now() };
            let Some(past) = self.chunks.get(&ip.dst()) else {
                self.chunks.insert(ip.dst(), current);
                return Forward(LAN);
            };
            let elapsed_ms = current.at_ns.saturating_sub(past.at_ns) / NS_PER_MS;
            if u64::from(past.bytes) > elapsed_ms * MOST_BYTES_PER_MS {
                return Drop(Reason::TooFast);
            }
            Forward(LAN)
        }
    }
}

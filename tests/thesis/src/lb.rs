//! Listing 4.6: sends what comes from the WAN to a server that has shown itself at the LAN. The
//! server is looked for among all indices of the allocator.

use anabranch_nf::prelude::*;

pub use lb::Function;

/// Sends packets from the WAN to a server that has sent one from the LAN.
#[network_function(ports(lan, wan))]
pub mod lb {
    pub enum Reason {
        NoServer,
        Registered,
    }

    pub struct Server {
        address: Ipv4Addr,
        port: Port,
    }

    const LIFETIME_NS: u64 = 1_000_000_000;
    const SERVERS: u32 = 8;

    pub struct Lb {
        #[capacity(8)]
        servers: Map<u32, Server>,
        #[capacity(8)]
        chain: Allocator<()>,
    }

    impl Lb {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Drop(Builtin::UnsupportedProtocol) };
            let address = ip.src();
            if pkt.port() == LAN {
                if let Some(index) = self.chain.allocate((), LIFETIME_NS, cx) {
                    self.servers.insert(index, Server { address, port: pkt.port() });
                }
                return Drop(Reason::Registered);
            }
            for index in 0..SERVERS {
                if self.chain.is_allocated(index, cx)
                    && let Some(server) = self.servers.get(&index)
                {
                    if let Some(mut ip) = pkt.ipv4_mut() {
                        ip.set_dst(server.address);
                    }
                    return Forward(server.port);
                }
            }
            Drop(Reason::NoServer)
        }
    }
}

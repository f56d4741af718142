//! Listing 4.7: translates each flow of the LAN to a port of its own. Replies are checked against
//! the flow, which is what makes the port they come to interchangeable.

use anabranch_nf::prelude::*;

pub use nat::Function;

/// Translates each flow of the LAN to a port of its own of one address.
#[network_function(ports(lan, wan))]
pub mod nat {
    pub struct Settings {
        /// The public address.
        pub external: Ipv4Addr,
    }

    pub enum Reason {
        Unknown,
        Full,
    }

    pub struct Flow {
        src_port: u16,
        dst_port: u16,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        inside: Port,
    }

    const LIFETIME_NS: u64 = 1_000_000_000;

    pub struct Nat {
        settings: Settings,
        #[capacity(65_536)]
        flows: Map<u32, Flow>,
        #[capacity(65_536)]
        ports: Allocator<()>,
    }

    impl Nat {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Drop(Builtin::UnsupportedProtocol) };
            let (src, dst) = (ip.src(), ip.dst());
            let (Some(src_port), Some(dst_port)) = (pkt.src_port(), pkt.dst_port()) else {
                return Drop(Builtin::UnsupportedProtocol);
            };
            if pkt.port() == WAN {
                let index = u32::from(dst_port);
                if !self.ports.is_allocated(index, cx) {
                    return Drop(Reason::Unknown);
                }
                let Some(flow) = self.flows.get(&index) else { return Drop(Reason::Unknown) };
                if flow.dst != src || flow.dst_port != src_port {
                    return Drop(Reason::Unknown);
                }
                pkt.set_destination(flow.src, flow.src_port);
                return Forward(flow.inside);
            }
            let flow = Flow { src_port, dst_port, src, dst, inside: pkt.port() };
            let Some(port) = self.ports.allocate((), LIFETIME_NS, cx) else {
                return Drop(Reason::Full);
            };
            if !self.flows.insert(port, flow) {
                return Drop(Reason::Full);
            }
            pkt.set_source(self.settings.external, port as u16);
            Forward(WAN)
        }
    }
}

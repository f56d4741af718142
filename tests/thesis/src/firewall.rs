//! Listing 4.5: lets the WAN answer flows of the LAN.

use anabranch_nf::prelude::*;

pub use firewall::Function;

/// Lets the WAN answer flows that the LAN has begun.
#[network_function(ports(lan, wan))]
pub mod firewall {
    pub enum Reason {
        Unknown,
    }

    pub struct Flow {
        src_port: u16,
        dst_port: u16,
        src: Ipv4Addr,
        dst: Ipv4Addr,
    }

    pub struct Firewall {
        #[capacity(65_536)]
        flows: Map<Flow, Port>,
    }

    impl Firewall {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Drop(Builtin::UnsupportedProtocol) };
            let (Some(src_port), Some(dst_port)) = (pkt.src_port(), pkt.dst_port()) else {
                return Drop(Builtin::UnsupportedProtocol);
            };
            if pkt.port() == WAN {
                let flow =
                    Flow { src_port: dst_port, dst_port: src_port, src: ip.dst(), dst: ip.src() };
                return match self.flows.get(&flow) {
                    Some(port) => Forward(port),
                    None => Drop(Reason::Unknown),
                };
            }
            let flow = Flow { src_port, dst_port, src: ip.src(), dst: ip.dst() };
            self.flows.insert(flow, pkt.port());
            Forward(WAN)
        }
    }
}

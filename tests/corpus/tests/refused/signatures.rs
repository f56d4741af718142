use anabranch_nf::prelude::*;

/// Declarations that are refused.
#[network_function(ports(lan, wan))]
pub mod signatures {
    #[packet_set(tcp(ip.src, udp.src), capacity = 1, expires_s = 1)]
    pub struct Set {
        n: u64,
    }

    pub enum Reason {
        Bad(u32),
    }

    pub struct Nf {
        count: Counter,
        table: Map<u32, u64>,
    }

    impl Nf {
        fn packet(&mut self, pkt: Packet) -> Verdict {
            Forward(WAN)
        }

        fn periodic(&mut self, cx: &mut Context) {}
    }
}

/// No arguments that mean anything.
#[network_function(queues(2))]
pub mod arguments {
    pub struct Nf {
        count: Counter,
    }
}

fn main() {}

//! Forwards between two ports, and does nothing else.
//!
//! The floor under every other network function: what receiving, looking at and sending a packet
//! costs (the NOP of Pirelli's thesis "Parallel NF Synthesis", 2021, section 4.1.1). Every frame is
//! forwarded, malformed ones too, whatever is in it.

use anabranch_nf::prelude::*;

pub use nop::Function;

/// Forwards every frame from one port to the other.
#[network_function(ports(lan, wan), layer = 2)]
pub mod nop {
    pub struct Nop {}

    impl Nop {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::nop;
    use crate::frames::udp;
    use anabranch_runtime::testing::Harness;

    #[test]
    fn forwards_to_the_other_port() {
        let mut nop = Harness::<nop::Function>::new(&[]);
        let frame = udp("10.0.0.1:5", "10.0.0.2:53");
        assert_eq!(nop.send(0, &frame).forwarded(), [(1, frame.clone())]);
        assert_eq!(nop.send(1, &frame).forwarded(), [(0, frame.clone())]);
    }

    #[test]
    fn forwards_what_is_malformed() {
        let mut nop = Harness::<nop::Function>::new(&[]);
        let mut frame = udp("10.0.0.1:5", "10.0.0.2:53");
        frame[14] = 0x41;
        assert_eq!(nop.send(1, &frame).forwarded(), [(0, frame)]);
        assert_eq!(nop.send(0, &[0; 13]).dropped(), Some("ethernet-header-truncated"));
    }
}

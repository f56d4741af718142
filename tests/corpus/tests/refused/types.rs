use anabranch_nf::prelude::*;

/// Mistakes that Rust finds, at the author's lines.
#[network_function(ports(lan, wan))]
pub mod types {
    pub struct Flow {
        packets: u64,
    }

    pub struct Nf {
        #[capacity(16)]
        table: Map<u32, Flow>,
    }

    impl Nf {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let sum: u32 = cx.now();
            let Some(flow) = self.table.get(&7) else {
                return sum;
            };
            if flow.bytes > 5 && self.table.len() {
                return Flood;
            }
            Forward(WAN)
        }
    }
}

fn main() {}

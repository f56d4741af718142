use anabranch_nf::prelude::*;

/// Items that are refused.
#[network_function(ports(lan, wan))]
pub mod items {
    use std::collections::HashMap;

    static mut PACKETS: u64 = 0;

    mod inner {}

    trait Shape {
        fn area(&self) -> u32;
    }

    pub struct Flow {
        ratio: f64,
        name: String,
        count: std::sync::atomic::AtomicU64,
    }

    impl Clone for Flow {
        fn clone(&self) -> Self {
            *self
        }
    }

    #[derive(Debug)]
    pub enum Colour {
        Red,
    }

    async fn later() {}

    fn any(shape: &dyn Shape, other: impl Copy) {}

    fn factorial(n: u64) -> u64 {
        if n == 0 { 1 } else { n * factorial(n - 1) }
    }

    pub struct Nf {
        seen: Vec<u64>,
        #[capacity(16)]
        table: Map<u32, u64>,
        lock: std::sync::Mutex<u64>,
    }

    impl Nf {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(WAN)
        }
    }
}

fn main() {}

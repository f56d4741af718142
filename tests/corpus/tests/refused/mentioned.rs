//! What mentions a module that is refused is no mistake: only the author's line is told.

use anabranch_nf::prelude::*;

pub use mentioned::Function;

/// Code that is refused, in a module that others use.
#[network_function(ports(lan, wan))]
pub mod mentioned {
    pub struct Nf {
        seen: Counter,
    }

    impl Nf {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let half = 0.5;
            Forward(WAN)
        }
    }
}

fn run<F: anabranch_nf::NetworkFunction>() -> &'static str {
    F::NAME
}

fn main() {
    run::<Function>();
}

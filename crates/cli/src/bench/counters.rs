//! The counter of the FlexState paper (its figure 6), which asks the store with each packet and waits, against one
//! that is told every period.

use std::time::Instant;

use anabranch_nf::prelude::*;
use anabranch_store::key::Scope;
use anabranch_store::{Call, Kind, Location, Operation, Place};

use super::own::RUN;

pub(super) use counting::Function;

/// What the counter is called.
pub(super) const NAME: &str = <Function as anabranch_nf::NetworkFunction>::NAME;
/// Frames that the counter that waits goes through.
const FRAMES: usize = 1_024;

/// Counts packets and sends them back with their MAC addresses swapped.
#[network_function(ports(left, right))]
pub mod counting {
    /// The counter.
    pub struct Counting {
        packets: Counter,
    }

    impl Counting {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let (src, dst) = (pkt.ethernet().src(), pkt.ethernet().dst());
            pkt.ethernet_mut().set_src(dst);
            pkt.ethernet_mut().set_dst(src);
            self.packets.add(1);
            Forward(pkt.port())
        }
    }
}

/// Million packets a second, each of which has its addresses swapped and is counted in the store before the next
/// one. Nothing else is done with them: no port, no header is looked at.
pub(super) fn waiting(location: &Location, instance: &str) -> Result<f64, anabranch_store::Error> {
    let mut driver = location.open()?;
    let scope = Scope::new(NAME, instance, Place::Core(0))?;
    let key = scope.key(Kind::Counter, "waited")?;
    let count = [Call::new(&key, Operation::Add(1))];
    let mut frames = vec![[0u8; 64]; FRAMES];
    let (began, mut packets) = (Instant::now(), 0u64);
    'run: loop {
        for frame in &mut frames {
            let (dst, rest) = frame.split_at_mut(6);
            dst.swap_with_slice(&mut rest[..6]);
            for answer in driver.run(&count)? {
                answer?;
            }
            packets += 1;
            if began.elapsed() >= RUN {
                break 'run;
            }
        }
    }
    Ok(packets as f64 / began.elapsed().as_secs_f64() / 1e6)
}

//! Plain models of network functions, written from what their documents and RFCs say, over the
//! collections of std: each packet of random, adversarial traffic must have the model's verdict.
//!
//! Times are multiples of 2^20 ns, the resolution of lifetimes, so that the models can say exactly
//! "exists while now < last packet + lifetime".

mod bridge;
mod firewall;
mod nat;
pub mod packets;
mod policer;

use anabranch_io::traffic::Random;

/// Nanoseconds of the resolution of lifetimes.
pub const TICK_NS: u64 = 1 << 20;
pub const SECOND: u64 = 1_000_000_000;

/// What has ended and may still take room: it is collected by and by, some with each packet.
#[derive(Default)]
pub struct Departed {
    packets: u64,
    ends: Vec<(u64, u64)>,
}

impl Departed {
    /// Something has ended at `at_ns`.
    pub fn add(&mut self, at_ns: u64) {
        self.ends.push((at_ns, self.packets));
    }

    /// How many may not have been collected when a packet comes at `now_ns`: those that ended less
    /// than `turn_ns` or `turns` packets ago.
    pub fn count(&mut self, now_ns: u64, turn_ns: u64, turns: u64) -> usize {
        self.packets += 1;
        let packets = self.packets;
        self.ends.retain(|(at_ns, after)| now_ns < at_ns + turn_ns || packets <= after + turns);
        self.ends.len()
    }
}

/// One of `choices`.
pub fn one<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len() as u32) as usize]
}

/// A pause before the next packet: often none, sometimes just short of, at, or just past one of
/// these lifetimes, in nanoseconds rounded to ticks.
pub fn pause(random: &mut Random, lifetimes_s: &[u64]) -> u64 {
    let lifetime = one(random, lifetimes_s) * SECOND;
    let ticks = lifetime.div_ceil(TICK_NS);
    let pause = match random.below(40) {
        0 => ticks - 1,
        1 => ticks,
        2 => ticks + 1,
        3 => u64::from(random.below(ticks as u32 * 2)),
        4..=9 => ticks / 4,
        10..=20 => u64::from(random.below(50)),
        _ => 0,
    };
    pause * TICK_NS
}

//! Reads and writes elements of an array: how much, and which, is set.
//!
//! For measurements of what sharing state costs: an array of 10,000 elements that packets only read,
//! or also write, chosen uniformly or by Zipf's law with exponent 0.99, is the synthetic function of
//! the NFork paper (its figures 6a and 6d). Each packet reads `reads` elements and changes `writes`
//! elements, then is forwarded to the other port, whatever is in it.
//!
//! `key` says what chooses: chance, for each packet anew (drawn from the seed of the run and the
//! packet's number, so that a run can be repeated), the packet's flow, or its source address. With
//! `law = "uniform"` all elements are as likely; with `law = "zipf"` element *i* is chosen with a
//! probability proportional to *i* to the power -0.99. This is drawn by inverting the integral of the
//! density from *i* - 1/2 to *i* + 1/2, which is off by under 2 % for the second element and less for
//! the rest. The 2nd, 3rd and further elements of a packet are as independent as a good hash of the
//! first makes them. Reads and writes choose alike: the first element that is written is the first
//! that is read, the second the second, so that a packet with as many of both changes what it reads.
//!
//! An element is a counter on a cache line of its own, so that packets that choose different ones
//! touch different lines.

use anabranch_nf::prelude::*;

pub use synthetic::Function;

/// Reads and writes a number of elements of an array with each packet, uniformly or by Zipf's law: to
/// measure what sharing state costs (the synthetic function of the NFork paper).
#[network_function(ports(lan, wan))]
pub mod synthetic {
    pub struct Settings {
        /// Elements of the array.
        #[setting(default = 10_000, min = 1, max = 4_194_304)]
        pub elements: u32,
        /// Elements that a packet reads.
        #[setting(default = 1, max = 64)]
        pub reads: u32,
        /// Elements that a packet changes.
        #[setting(default = 0, max = 64)]
        pub writes: u32,
        /// What an element is chosen by.
        #[setting(default = Choice::Chance)]
        pub key: Choice,
        /// How likely elements are.
        #[setting(default = Law::Uniform)]
        pub law: Law,
    }

    pub enum Choice {
        /// Each packet chooses anew.
        Chance,
        /// All packets of a flow choose the same.
        Flow,
        /// All packets of a source address choose the same.
        Source,
    }

    pub enum Law {
        /// All the same.
        Uniform,
        /// Zipf's, with exponent 0.99.
        Zipf,
    }

    pub enum Reason {
        /// The elements that the packet has read add up to 2^64 - 1, which takes centuries.
        Saturated,
    }

    pub struct Element {
        count: u64,
        rest: [u64; 7],
    }

    pub struct Synthetic {
        settings: Settings,
        #[capacity(settings.elements)]
        elements: Vector<Element>,
        /// The ends of the range that Zipf's law is drawn from.
        range: Cell<Range>,
    }

    /// Of 100th roots, in 2^-40.
    pub struct Range {
        low: u64,
        high: u64,
    }

    /// 1 in the notation of [`Range`].
    const ONE: u64 = 1 << 40;

    /// Mixes two words, as MurmurHash3 finishes (Appleby 2011).
    #[opaque]
    fn mix(a: u64, b: u64) -> u64 {
        let mut word = a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        word ^ (word >> 33)
    }

    fn product(a: u64, b: u64) -> u64 {
        ((u128::from(a) * u128::from(b)) >> 40) as u64
    }

    /// The 100th power, below 2^64 in 2^-40.
    fn power(base: u64) -> u64 {
        let fourth = product(product(base, base), product(base, base));
        let thirty_second = product(product(fourth, fourth), product(fourth, fourth));
        let thirty_second = product(thirty_second, thirty_second);
        let sixty_fourth = product(thirty_second, thirty_second);
        product(product(sixty_fourth, thirty_second), fourth)
    }

    /// The 100th root, in 2^-40, of a number from 1/2 to 2^22, in the same; by halving.
    #[opaque]
    pub fn root(number: u64) -> u64 {
        let (mut low, mut high) = (ONE - ONE / 64, ONE + ONE / 6);
        for _ in 0..40 {
            let middle = (low + high) / 2;
            if power(middle) < number {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// The element that a random word stands for.
    #[opaque(below = elements)]
    pub fn chosen(word: u64, elements: u32, law: Law, low: u64, high: u64) -> u32 {
        if law == Law::Uniform {
            return ((u128::from(word) * u128::from(elements)) >> 64) as u32;
        }
        let width = u128::from(high - low);
        let start = low + ((u128::from(word) * width) >> 64) as u64;
        let rank = (power(start) + ONE / 2) >> 40;
        (rank.clamp(1, u64::from(elements)) - 1) as u32
    }

    impl Synthetic {
        /// From where the first element's share is right, 1.5 / e, to half past the last.
        fn init(&mut self, cx: &mut Context) {
            let low = root(606_731_584_781);
            let high = root(u64::from(self.settings.elements) * ONE + ONE / 2);
            self.range.set(Range { low, high });
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let key = self.key(pkt, cx);
            let mut total = 0;
            for step in 0..self.settings.reads {
                total += self.elements.read(self.element(key, step)).count;
            }
            for step in 0..self.settings.writes {
                let element = self.element(key, step);
                self.elements.update(element, |element| element.count += 1);
            }
            if total == u64::MAX {
                return Drop(Reason::Saturated);
            }
            Forward(pkt.port().other())
        }

        fn key(&self, pkt: &Packet, cx: &mut Context) -> u64 {
            match self.settings.key {
                Choice::Chance => cx.random(),
                Choice::Flow => flow(pkt),
                Choice::Source => source(pkt),
            }
        }

        fn element(&self, key: u64, step: u32) -> u32 {
            let range = self.range.get();
            let word = mix(key, u64::from(step));
            chosen(word, self.settings.elements, self.settings.law, range.low, range.high)
        }
    }

    fn source(pkt: &Packet) -> u64 {
        if let Some(ip) = pkt.ipv4() {
            return u64::from(u32::from(ip.src()));
        }
        pkt.ipv6().map_or(0, |ip| folded(ip.src()))
    }

    fn destination(pkt: &Packet) -> u64 {
        if let Some(ip) = pkt.ipv4() {
            return u64::from(u32::from(ip.dst()));
        }
        pkt.ipv6().map_or(0, |ip| folded(ip.dst()))
    }

    fn folded(address: Ipv6Addr) -> u64 {
        let bits = u128::from(address);
        mix((bits >> 64) as u64, bits as u64)
    }

    fn flow(pkt: &Packet) -> u64 {
        let src = u64::from(pkt.src_port().unwrap_or(0));
        let dst = u64::from(pkt.dst_port().unwrap_or(0));
        let ports = (src << 24) | (dst << 8) | u64::from(pkt.protocol());
        mix(mix(source(pkt), destination(pkt)), ports)
    }
}

#[cfg(test)]
mod tests {
    use super::synthetic;
    use crate::frames::{ethernet, udp};
    use anabranch_nf::NetworkFunction;
    use anabranch_nf::trace::{Event, take};
    use anabranch_runtime::testing::Harness;

    fn synthetic(settings: &[&str]) -> Harness<synthetic::Function> {
        Harness::new(settings)
    }

    #[test]
    fn forwards_whatever_comes() {
        for settings in [vec![], vec!["reads=64", "writes=64", "law=zipf", "key=flow"]] {
            let mut nf = synthetic(&settings);
            let (v4, v6) = (udp("10.0.0.1:5", "10.0.0.2:6"), udp("[fd00::1]:5", "[fd00::2]:6"));
            for frame in [v4, v6, ethernet("02:00:00:00:00:0a", "02:00:00:00:00:0b")] {
                assert_eq!(nf.send(0, &frame).forwarded(), [(1, frame.clone())]);
                assert_eq!(nf.send(1, &frame).forwarded(), [(0, frame.clone())]);
            }
        }
    }

    /// How often each element comes, of so many, with words spread evenly.
    fn shares(elements: u32, law: synthetic::Law) -> Vec<f64> {
        const DRAWS: u64 = 1 << 20;
        let low = synthetic::root(606_731_584_781);
        let high = synthetic::root((u64::from(elements) << 40) + (1 << 39));
        let mut counts = vec![0u32; elements as usize];
        for draw in 0..DRAWS {
            let word = draw * (u64::MAX / DRAWS);
            counts[synthetic::chosen(word, elements, law, low, high) as usize] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / DRAWS as f64).collect()
    }

    #[test]
    fn zipf_is_zipf_and_uniform_is_uniform() {
        for elements in [1u32, 2, 100, 10_000] {
            let total: f64 = (1..=elements).map(|rank| f64::from(rank).powf(-0.99)).sum();
            let found = shares(elements, synthetic::Law::Zipf);
            for (rank, share) in (1..=100).zip(found) {
                let exact = f64::from(rank).powf(-0.99) / total;
                assert!(
                    (share / exact - 1.0).abs() < 0.02,
                    "{rank} of {elements}: {share} {exact}"
                );
            }
            for share in shares(elements, synthetic::Law::Uniform) {
                assert!((share * f64::from(elements) - 1.0).abs() < 0.02, "{share}");
            }
        }
    }

    #[test]
    fn the_largest_array_is_reached_to_its_end() {
        let largest = 4_194_304;
        let (low, high) =
            (synthetic::root(606_731_584_781), synthetic::root((1 << 62) + (1 << 39)));
        let law = synthetic::Law::Zipf;
        assert_eq!(synthetic::chosen(0, largest, law, low, high), 0);
        let last = synthetic::chosen(u64::MAX, largest, law, low, high);
        assert!((largest - 10..largest).contains(&last), "{last}");
    }

    /// The elements that a packet reads, and those that it changes.
    type Touched = (Vec<u128>, Vec<u128>);

    /// What packets with these settings touch, one of each of these frames after the other.
    fn touched(settings: &[&str], frames: &[Vec<u8>]) -> Vec<Touched> {
        let mut nf = Harness::<<synthetic::Function as NetworkFunction>::Traced>::new(settings);
        let mut one = |frame: &Vec<u8>| {
            take();
            nf.send(0, frame);
            let (mut read, mut changed) = (Vec::new(), Vec::new());
            for event in take() {
                match event {
                    Event::Call(call) if call.object == "elements" => {
                        let index = call.key.all()[0].1;
                        if call.operation == "read" {
                            read.push(index)
                        } else {
                            changed.push(index)
                        }
                    }
                    _ => {}
                }
            }
            (read, changed)
        };
        frames.iter().map(&mut one).collect()
    }

    #[test]
    fn as_many_elements_are_read_and_changed_as_are_set() {
        let frame = udp("10.0.0.1:5", "10.0.0.2:6");
        for (reads, writes) in [(0, 0), (1, 0), (0, 1), (3, 2), (2, 5), (64, 64)] {
            for law in ["uniform", "zipf"] {
                let settings = [format!("reads={reads}"), format!("writes={writes}")];
                let law = format!("law={law}");
                let (read, changed) =
                    touched(&[&settings[0], &settings[1], &law], std::slice::from_ref(&frame))
                        .remove(0);
                assert_eq!((read.len(), changed.len()), (reads, writes));
                let both = reads.min(writes);
                assert_eq!(read[..both], changed[..both], "they choose alike");
                assert!(read.iter().chain(&changed).all(|index| *index < 10_000));
            }
        }
    }

    #[test]
    fn the_key_chooses() {
        let frames = [
            udp("10.0.0.1:5", "10.0.0.2:6"),
            udp("10.0.0.1:5", "10.0.0.2:6"),
            udp("10.0.0.1:7", "10.0.0.2:6"),
            udp("10.0.0.3:5", "10.0.0.2:6"),
            udp("[fd00::1]:5", "[fd00::2]:6"),
            udp("[fd00::1]:5", "[fd00::3]:6"),
        ];
        let most = "elements=4194304";
        // Frames that choose as an earlier one does, each by the first of its kind.
        for (key, kinds) in [
            ("key=chance", [0, 1, 2, 3, 4, 5]),
            ("key=flow", [0, 0, 2, 3, 4, 5]),
            ("key=source", [0, 0, 0, 3, 4, 4]),
        ] {
            let touched = touched(&["reads=4", "writes=4", most, key], &frames);
            let first = |one| touched.iter().position(|other| other == one);
            let found: Vec<_> = touched.iter().filter_map(first).collect();
            assert_eq!(found, kinds, "{key}");
        }
    }

    #[test]
    fn settings_have_limits() {
        assert!(Harness::<synthetic::Function>::try_new(&["elements=0"]).is_err());
        assert!(Harness::<synthetic::Function>::try_new(&["writes=65"]).is_err());
        assert!(Harness::<synthetic::Function>::try_new(&["elements=1", "law=zipf"]).is_ok());
    }
}

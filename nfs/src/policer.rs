//! Limits the rate at which each destination receives.
//!
//! A token bucket per IPv4 or IPv6 destination address of the packets that arrive on `wan` (the
//! policer of Pirelli's thesis "Parallel NF Synthesis", 2021, section 4.1.2; the bucket as in RFC
//! 2697 with one rate and one burst). A bucket holds at most `burst_bytes`, fills at `rate_bps`, and
//! a packet that finds fewer bytes in it than it has on the wire (Ethernet header included, frame
//! check sequence not) is dropped and takes none. Accounts are kept in billionths of a bit, the
//! product of nanoseconds and bits per second: nothing is rounded, so that any stretch of time lets
//! through `burst + rate × time` and not a bit more. A bucket is forgotten only when it has been
//! full for a while, which changes nothing. IPv4 and IPv6 destinations have a table each, of
//! `destinations` entries: addresses of one version never take the place of the other's.
//!
//! Packets from `lan` and what is not IP (ARP, for one) are forwarded; so is IPv6 neighbour discovery
//! that no router has forwarded, beyond the rate too: who floods a host must not cut it off from its
//! router. Fragments count like any packet; a group address is one destination. Nothing is queued or
//! delayed: this is a policer, not a shaper. Packets whose time stamps run backwards earn nothing.

use anabranch_nf::prelude::*;

pub use policer::Function;

/// Limits the rate at which each destination receives: a token bucket per IPv4 or IPv6 destination
/// of the packets that arrive on `wan`. Packets from `lan`, neighbour discovery and what is not IP are
/// forwarded.
#[network_function(ports(lan, wan))]
pub mod policer {
    pub struct Settings {
        /// Rate at which each destination may receive, in bits per second.
        #[setting(default = 10_000_000, min = 1_000, max = 1_000_000_000_000)]
        pub rate_bps: u64,
        /// Bytes that a destination may receive at once after a pause; frames larger than this never
        /// pass.
        #[setting(default = 125_000, min = 64, max = 536_870_912)]
        pub burst_bytes: u64,
        /// Destinations policed at once, of each IP version; packets to more are dropped.
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub destinations: u32,
    }

    pub enum Reason {
        /// The destination has received as much as it may.
        OverRate,
    }

    /// What a bucket counts in (10^-9 bit) in a byte.
    const PER_BYTE: u64 = 8_000_000_000;

    // After the time that an empty bucket takes to fill, forgetting it changes nothing; ten seconds
    // more because keeping one costs less than opening it anew.
    #[packet_set(
        ipv4(ipv4.dst),
        ipv6(ipv6.dst),
        port = wan,
        capacity = settings.destinations,
        expires_s = settings.burst_bytes * 8 / settings.rate_bps + 10
    )]
    pub struct Bucket {
        /// What it takes to fill it, in 10^-9 bit: a new bucket is full.
        missing: u64,
        /// When that was so, in nanoseconds.
        at_ns: u64,
    }

    pub struct Policer {
        settings: Settings,
    }

    impl Policer {
        fn packet(&mut self, bucket: &mut Bucket, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let elapsed_ns = cx.now().saturating_sub(bucket.at_ns);
            let earned = u128::from(elapsed_ns) * u128::from(self.settings.rate_bps);
            let missing = bucket.missing - u128::from(bucket.missing).min(earned) as u64;
            let with_packet = missing + u64::from(pkt.len()) * PER_BYTE;
            bucket.at_ns += elapsed_ns;
            if with_packet > self.settings.burst_bytes * PER_BYTE {
                bucket.missing = missing;
                return if is_discovery(pkt) { Forward(LAN) } else { Drop(Reason::OverRate) };
            }
            bucket.missing = with_packet;
            Forward(LAN)
        }

        fn orphan(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }
    }

    /// Neighbour discovery on the link itself (RFC 4861, section 6.1 and 7.1).
    #[cold]
    fn is_discovery(pkt: &Packet) -> bool {
        let Some(ip) = pkt.ipv6() else { return false };
        let Some(icmp) = pkt.icmpv6() else { return false };
        match icmp.kind() {
            133..=137 => ip.hop_limit() == 255,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::policer;
    use crate::frames::{arp, hops, padded, solicitation, udp};
    use anabranch_runtime::testing::Harness;
    use proptest::prelude::*;

    const LAN: u8 = 0;
    const WAN: u8 = 1;
    const SECOND: u64 = 1_000_000_000;

    fn policer(settings: &[&str]) -> Harness<policer::Function> {
        Harness::new(settings)
    }

    fn passes(policer: &mut Harness<policer::Function>, frame: &[u8]) -> bool {
        let outcome = policer.send(WAN, frame);
        match outcome.dropped() {
            None => outcome.forwarded() == [(LAN, frame.to_vec())],
            Some(reason) => {
                assert_eq!(reason, "over-rate");
                false
            }
        }
    }

    #[test]
    fn lets_a_burst_through_and_then_the_rate() {
        let mut policer = policer(&["rate_bps=8000", "burst_bytes=1000"]);
        let frame = padded(udp("198.51.100.1:53", "10.0.0.1:5"), 100);
        assert_eq!((0..20).filter(|_| passes(&mut policer, &frame)).count(), 10);
        for hundred_ms in 1..50 {
            policer.at(hundred_ms * SECOND / 10 - 1);
            assert!(!passes(&mut policer, &frame), "one nanosecond early");
            policer.at(hundred_ms * SECOND / 10);
            assert!(passes(&mut policer, &frame), "100 bytes are there again");
            assert!(!passes(&mut policer, &frame), "and no more than that");
        }
    }

    /// As by ARP, beyond any rate.
    #[test]
    fn neighbours_find_each_other() {
        let mut policer = policer(&["rate_bps=8000", "burst_bytes=100"]);
        let asked = solicitation("fd00::1", "fd00::5");
        for _ in 0..20 {
            assert!(passes(&mut policer, &asked));
        }
        assert!(!passes(&mut policer, &hops(&asked, 254)), "a router has forwarded it");
    }

    #[test]
    fn each_destination_has_its_own_bucket() {
        let mut policer = policer(&["rate_bps=8000", "burst_bytes=100"]);
        for (frame, other) in [
            (udp("198.51.100.1:53", "10.0.0.1:5"), udp("198.51.100.1:53", "10.0.0.2:5")),
            (udp("[2001:db8::1]:53", "[fd00::1]:5"), udp("[2001:db8::1]:53", "[fd00::2]:5")),
        ] {
            let (frame, other) = (padded(frame, 100), padded(other, 100));
            assert!(passes(&mut policer, &frame));
            assert!(!passes(&mut policer, &frame));
            assert!(passes(&mut policer, &other));
        }
        let from_elsewhere = padded(udp("203.0.113.9:99", "10.0.0.1:7"), 100);
        assert!(!passes(&mut policer, &from_elsewhere), "the source makes no difference");
    }

    #[test]
    fn counts_the_length_on_the_wire() {
        let mut policer = policer(&["rate_bps=8000", "burst_bytes=1000"]);
        let frame = padded(udp("198.51.100.1:53", "10.0.0.1:5"), 60);
        assert_eq!(policer.send_cut(WAN, &frame, 1_000).dropped(), None);
        assert!(!passes(&mut policer, &frame));
        assert_eq!(policer.send_cut(WAN, &frame, 1_001).dropped(), Some("over-rate"));
    }

    #[test]
    fn forwards_the_other_direction_and_what_is_not_ip() {
        let mut policer = policer(&["rate_bps=1000", "burst_bytes=64"]);
        let out = padded(udp("10.0.0.1:5", "198.51.100.1:53"), 1_500);
        let arp = arp("10.0.0.1", "10.0.0.2");
        for _ in 0..10 {
            assert_eq!(policer.send(LAN, &out).forwarded(), [(WAN, out.clone())]);
            assert_eq!(policer.send(WAN, &arp).forwarded(), [(LAN, arp.clone())]);
        }
    }

    #[test]
    fn a_full_table_drops_new_destinations_until_buckets_have_filled() {
        let mut policer = policer(&["rate_bps=8000", "burst_bytes=1000", "destinations=2"]);
        let to = |host: u8| padded(udp("198.51.100.1:53", &format!("10.0.0.{host}:5")), 100);
        assert!(passes(&mut policer, &to(1)) && passes(&mut policer, &to(2)));
        assert_eq!(policer.send(WAN, &to(3)).dropped(), Some("packet-sets-full"));
        policer.at(12 * SECOND);
        assert!(passes(&mut policer, &to(3)), "one second to fill, ten to be forgotten");
    }

    #[test]
    fn time_that_runs_backwards_earns_nothing() {
        let mut policer = policer(&["rate_bps=8000", "burst_bytes=100"]);
        let frame = padded(udp("198.51.100.1:53", "10.0.0.1:5"), 100);
        policer.at(SECOND);
        assert!(passes(&mut policer, &frame));
        policer.at(0);
        assert!(!passes(&mut policer, &frame));
        policer.at(SECOND + SECOND / 10);
        assert!(passes(&mut policer, &frame), "nor does it cost");
    }

    #[test]
    fn malformed_packets_are_dropped() {
        let mut policer = policer(&[]);
        let mut frame = udp("198.51.100.1:53", "10.0.0.1:5");
        frame[14] = 0x55;
        assert_eq!(policer.send(WAN, &frame).dropped(), Some("ipv4-version"));
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        assert!(Harness::<policer::Function>::try_new(&["rate_bps=999"]).is_err());
        assert!(Harness::<policer::Function>::try_new(&["burst_bytes=536870913"]).is_err());
    }

    proptest! {
        /// The oracle keeps the account of RFC 2697 in 128 bits, from the first packet on.
        #[test]
        fn accounts_are_exact(
            rate_bps in 1_000u64..1_000_000_000_000,
            burst_bytes in 100u64..200_000,
            packets in prop::collection::vec((0u64..20_000_000, 60u32..1_500), 1..200),
        ) {
            let settings = [format!("rate_bps={rate_bps}"), format!("burst_bytes={burst_bytes}")];
            let mut policer = policer(&[&settings[0], &settings[1]]);
            let frame = padded(udp("198.51.100.1:53", "10.0.0.1:5"), 60);
            let full = u128::from(burst_bytes) * 8 * u128::from(SECOND);
            let (mut tokens, mut now) = (full, 0);
            for (gap_ns, len) in packets {
                now += gap_ns;
                tokens = (tokens + u128::from(gap_ns) * u128::from(rate_bps)).min(full);
                let cost = u128::from(len) * 8 * u128::from(SECOND);
                policer.at(now);
                let passed = policer.send_cut(WAN, &frame, len).dropped().is_none();
                prop_assert_eq!(passed, cost <= tokens);
                tokens -= if passed { cost } else { 0 };
            }
        }
    }
}

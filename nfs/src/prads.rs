//! Passive asset detection: which hosts there are, what they run and what they serve, from what they
//! send anyway.
//!
//! Nothing is asked, nothing is changed, every packet passes: the log has a line for each *asset* that
//! is seen for the first time, and for one that has changed. (After PRADS, the passive real-time asset
//! detection system of the NFork paper's table 6.) Assets are
//!
//! - *stations*: an IPv4 address and the Ethernet address that claims it (ARP, RFC 826). One that
//!   changes is worth a look: a replaced machine, or somebody who forges ARP;
//! - *systems*: of a host that opens TCP connections, the marks of its TCP: the time to live that it
//!   began with (32, 64, 128 or 255, the next above what arrived), window, length of the TCP header
//!   and IPv4's do-not-fragment. Which system has which is published (p0f's and PRADS' tables);
//! - *TCP services*: an address and port that accepts a connection (SYN-ACK);
//! - *UDP services*: an address and a port below 1024 that sends.
//!
//! With `side = "lan"` only what arrives there is looked at, with `side = "both"` everything is. An
//! asset is forgotten when it has not been seen for `forget_s`, and announced anew when it returns. At
//! most ten lines a second are written of each kind and version of IP. Further ones are lost, not
//! delayed: the log counts them, and the asset is known from then on without having been announced.
//! Sources that are no address yet (0.0.0.0 and `::`, of hosts that ask for one) are no assets.
//!
//! Not done: options of TCP are not told apart, banners of services are not read, hosts behind one
//! address are one whose marks keep changing, and neighbour discovery (the ARP of IPv6) is not read.
//! Assets that find the table full are not announced; `unknown` counts how often.

use anabranch_nf::prelude::*;

pub use prads::Function;

/// Passive asset detection: logs hosts, the marks of their TCP and their services when they are first
/// seen or change (after PRADS). Every packet passes.
#[network_function(ports(lan, wan))]
pub mod prads {
    pub struct Settings {
        /// Whose assets are of interest.
        #[setting(default = Side::Lan)]
        pub side: Side,
        /// Seconds after which an asset that is not seen is forgotten.
        #[setting(default = 86_400, min = 1, max = 2_246_400)]
        pub forget_s: u64,
        /// Assets remembered at once; others are not announced.
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub assets: u32,
    }

    pub enum Side {
        /// Those on `lan`.
        Lan,
        /// All.
        Both,
    }

    pub enum Address {
        V4(Ipv4Addr),
        V6(Ipv6Addr),
    }

    pub enum Kind {
        Station,
        System,
        TcpService,
        UdpService,
    }

    pub struct Asset {
        address: Address,
        kind: Kind,
        port: u16,
    }

    pub struct Known {
        /// An Ethernet address, marks, or nothing.
        detail: u64,
        /// In `ends`.
        place: u32,
    }

    const SYN_ACK: u8 = 0x12;
    const SYN: u8 = 0x02;
    const FLAGS: u8 = 0x17;
    const WELL_KNOWN: u16 = 1_024;
    const NS_PER_S: u64 = 1_000_000_000;

    pub struct Prads {
        settings: Settings,
        #[capacity(settings.assets)]
        assets: Map<Asset, Known>,
        /// When assets are to be forgotten.
        #[capacity(settings.assets)]
        #[expired(forget)]
        ends: Allocator<Asset>,
        /// Sightings of assets for which there was no room.
        unknown: Counter,
    }

    /// Marks of a host's TCP, as one number.
    fn marks(pkt: &Packet, time_to_live: u8, dont_fragment: bool) -> u64 {
        let (window, header_len) = pkt.tcp().map_or((0, 0), |tcp| (tcp.window(), tcp.header_len()));
        let began = match time_to_live {
            0..=32 => 32,
            33..=64 => 64,
            65..=128 => 128,
            _ => 255,
        };
        (began << 32)
            | (u64::from(dont_fragment) << 24)
            | (u64::from(header_len) << 16)
            | u64::from(window)
    }

    impl Prads {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if pkt.port() == LAN || self.settings.side == Side::Both {
                self.look(pkt, cx);
            }
            Forward(pkt.port().other())
        }

        fn look(&mut self, pkt: &Packet, cx: &mut Context) {
            if let Some(arp) = pkt.arp() {
                let ip = arp.sender_ip();
                if !ip.is_unspecified() {
                    let mac = arp.sender_mac().octets();
                    let mac = [0, 0, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]];
                    let mac = u64::from_be_bytes(mac);
                    self.see(Address::V4(ip), Kind::Station, 0, mac, cx);
                }
            } else if let Some(ip) = pkt.ipv4()
                && !ip.src().is_unspecified()
            {
                let marks = marks(pkt, ip.ttl(), ip.dont_fragment());
                self.look_at(pkt, Address::V4(ip.src()), marks, cx);
            } else if let Some(ip) = pkt.ipv6()
                && u128::from(ip.src()) != 0
            {
                let marks = marks(pkt, ip.hop_limit(), false);
                self.look_at(pkt, Address::V6(ip.src()), marks, cx);
            }
        }

        fn look_at(&mut self, pkt: &Packet, address: Address, marks: u64, cx: &mut Context) {
            if let Some(tcp) = pkt.tcp() {
                match tcp.flags() & FLAGS {
                    SYN => self.see(address, Kind::System, 0, marks, cx),
                    SYN_ACK => self.see(address, Kind::TcpService, tcp.src(), 0, cx),
                    _ => {}
                }
            } else if let Some(udp) = pkt.udp()
                && udp.src() < WELL_KNOWN
            {
                self.see(address, Kind::UdpService, udp.src(), 0, cx);
            }
        }

        fn see(&mut self, address: Address, kind: Kind, port: u16, detail: u64, cx: &mut Context) {
            let asset = Asset { address, kind, port };
            let lifetime_ns = self.settings.forget_s * NS_PER_S;
            if let Some(known) = self.assets.get(&asset)
                && self.ends.refresh(known.place, lifetime_ns, cx)
            {
                if known.detail != detail {
                    self.assets.insert(asset, Known { detail, place: known.place });
                    announce(asset, detail, cx);
                }
                return;
            }
            let Some(place) = self.ends.allocate(asset, lifetime_ns, cx) else {
                self.unknown.add(1);
                return;
            };
            if self.assets.insert(asset, Known { detail, place }) {
                announce(asset, detail, cx);
            } else {
                self.ends.free(place);
                self.unknown.add(1);
            }
        }

        fn forget(&mut self, index: u32, asset: Asset, cx: &mut Context) {
            if self.assets.get(&asset).is_some_and(|known| known.place == index) {
                self.assets.remove(&asset);
            }
        }
    }

    #[cold]
    fn announce(asset: Asset, detail: u64, cx: &mut Context) {
        match asset.address {
            Address::V4(address) => match asset.kind {
                Kind::Station => {
                    let mac = detail.to_be_bytes();
                    let mac = MacAddr::new(mac[2], mac[3], mac[4], mac[5], mac[6], mac[7]);
                    log!(cx, info, "{} is at {}", address, mac)
                }
                Kind::System => {
                    let (window, header) = (detail as u16, (detail >> 16) as u8);
                    let (began, kept) = (detail >> 32, detail >> 24 & 1);
                    log!(
                        cx,
                        info,
                        "{} opens connections: TTL {}, window {}, header {}, DF {}",
                        address,
                        began,
                        window,
                        header,
                        kept
                    )
                }
                Kind::TcpService => log!(cx, info, "{} serves TCP port {}", address, asset.port),
                Kind::UdpService => log!(cx, info, "{} serves UDP port {}", address, asset.port),
            },
            Address::V6(address) => match asset.kind {
                Kind::Station => {}
                Kind::System => {
                    let (window, header) = (detail as u16, (detail >> 16) as u8);
                    log!(
                        cx,
                        info,
                        "{} opens connections: hop limit {}, window {}, header {}",
                        address,
                        detail >> 32,
                        window,
                        header
                    )
                }
                Kind::TcpService => log!(cx, info, "{} serves TCP port {}", address, asset.port),
                Kind::UdpService => log!(cx, info, "{} serves UDP port {}", address, asset.port),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::prads;
    use crate::frames::{arp, ethernet, tcp, udp};
    use anabranch_nf::packet::craft::tcp_flags::{ACK, SYN};
    use anabranch_runtime::testing::Harness;
    use proptest::prelude::*;

    const LAN: u8 = 0;
    const WAN: u8 = 1;
    const SECOND: u64 = 1_000_000_000;

    fn prads(settings: &[&str]) -> Harness<prads::Function> {
        Harness::new(settings)
    }

    /// Sends a frame, which has to pass, and returns what is logged.
    fn told(nf: &mut Harness<prads::Function>, port: u8, frame: &[u8]) -> Vec<String> {
        assert_eq!(nf.send(port, frame).forwarded(), [(1 - port, frame.to_vec())]);
        nf.logged()
    }

    #[test]
    fn assets_are_told_once() {
        let mut nf = prads(&[]);
        let frames = [
            (arp("10.0.0.1", "10.0.0.2"), "10.0.0.1 is at 02:00:00:00:00:01"),
            (tcp("10.0.0.1:999", "198.51.100.7:80", SYN), "10.0.0.1 opens connections: TTL 64,"),
            (tcp("10.0.0.1:443", "198.51.100.7:80", SYN | ACK), "10.0.0.1 serves TCP port 443"),
            (udp("10.0.0.1:53", "198.51.100.7:999"), "10.0.0.1 serves UDP port 53"),
            (tcp("[fd00::1]:999", "[2001:db8::7]:80", SYN), "fd00::1 opens connections: hop limit"),
            (tcp("[fd00::1]:22", "[2001:db8::7]:8", SYN | ACK), "fd00::1 serves TCP port 22"),
            (udp("[fd00::1]:123", "[2001:db8::7]:99"), "fd00::1 serves UDP port 123"),
        ];
        for (frame, line) in &frames {
            let lines = told(&mut nf, LAN, frame);
            assert!(lines.len() == 1 && lines[0].starts_with(line), "{lines:?}");
        }
        for (frame, _) in &frames {
            assert_eq!(told(&mut nf, LAN, frame), Vec::<String>::new());
        }
        assert_eq!(nf.table("assets").used, 7);
    }

    #[test]
    fn what_changes_is_told_again() {
        let mut nf = prads(&[]);
        let mut claim = arp("10.0.0.1", "10.0.0.2");
        told(&mut nf, LAN, &claim);
        claim[27] = 9;
        assert_eq!(told(&mut nf, LAN, &claim), ["10.0.0.1 is at 02:00:00:00:00:09"]);
        assert_eq!(told(&mut nf, LAN, &claim), Vec::<String>::new());
        let mut syn = tcp("10.0.0.1:999", "198.51.100.7:80", SYN);
        told(&mut nf, LAN, &syn);
        syn[48] = 0x7d;
        let lines = told(&mut nf, LAN, &syn);
        assert!(lines.len() == 1 && lines[0].contains("window 32"), "{lines:?}");
    }

    #[test]
    fn routers_on_the_way_make_no_difference() {
        let mut nf = prads(&[]);
        let mut syn = tcp("10.0.0.1:999", "198.51.100.7:80", SYN);
        told(&mut nf, LAN, &syn);
        for hops in 1..20 {
            syn[22] -= 1;
            assert_eq!(told(&mut nf, LAN, &syn), Vec::<String>::new(), "{hops}");
        }
    }

    #[test]
    fn the_side_decides() {
        let service = udp("10.0.0.1:53", "198.51.100.7:999");
        for (side, lines) in [("side=lan", 0), ("side=both", 1)] {
            let mut nf = prads(&[side]);
            assert_eq!(told(&mut nf, WAN, &service).len(), lines);
        }
    }

    #[test]
    fn what_is_no_asset_is_not_told() {
        let mut nf = prads(&["side=both"]);
        let frames = [
            udp("10.0.0.1:1024", "198.51.100.7:53"),
            tcp("10.0.0.1:999", "198.51.100.7:80", ACK),
            arp("0.0.0.0", "10.0.0.2"),
            udp("0.0.0.0:68", "255.255.255.255:67"),
            tcp("0.0.0.0:999", "198.51.100.7:80", SYN),
            tcp("0.0.0.0:443", "198.51.100.7:80", SYN | ACK),
            udp("[::]:546", "[ff02::1:2]:547"),
            tcp("[::]:999", "[2001:db8::7]:80", SYN),
            ethernet("02:00:00:00:00:0a", "02:00:00:00:00:0b"),
        ];
        for frame in frames {
            assert_eq!(told(&mut nf, LAN, &frame), Vec::<String>::new());
        }
        assert_eq!(nf.table("assets").used, 0);
    }

    #[test]
    fn lines_beyond_the_limit_are_lost_and_their_assets_known() {
        let mut nf = prads(&[]);
        let service = |port: u16| udp(&format!("10.0.0.1:{port}"), "198.51.100.7:999");
        let lines: usize = (1..=25).map(|port| told(&mut nf, LAN, &service(port)).len()).sum();
        assert_eq!((lines, nf.table("assets").used), (10, 25));
        nf.at(2 * SECOND);
        assert!(!told(&mut nf, LAN, &service(25)).iter().any(|line| line.contains("port 25")));
    }

    #[test]
    fn assets_are_forgotten() {
        let mut nf = prads(&["forget_s=60"]);
        let service = udp("10.0.0.1:53", "198.51.100.7:999");
        for (second, lines) in [(0, 1), (59, 0), (118, 0), (180, 1)] {
            nf.at(second * SECOND);
            assert_eq!(told(&mut nf, LAN, &service).len(), lines, "{second}");
        }
    }

    proptest! {
        /// The oracle is a set of all that has been seen.
        #[test]
        fn each_service_is_told_once(seen in prop::collection::vec((0u8..9, 1u16..9), 1..100)) {
            let mut nf = prads(&[]);
            let mut known = std::collections::BTreeSet::new();
            for (moment, (host, port)) in (0..).zip(seen) {
                nf.at(moment * SECOND);
                let frame = udp(&format!("10.0.0.{host}:{port}"), "198.51.100.7:999");
                let is_new = known.insert((host, port));
                prop_assert_eq!(told(&mut nf, LAN, &frame).len(), usize::from(is_new));
            }
        }
    }
}

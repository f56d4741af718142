//! A learning bridge.
//!
//! Learns behind which port each station is from the source addresses of its frames, and forwards a
//! frame to the port of its destination; to every other port where that is not known, or the
//! destination is a group (IEEE 802.1Q-2022, clauses 8.6 to 8.8). A station that moves is followed
//! at its first frame. Stations silent for `ageing_s` are forgotten. Frames to the addresses
//! reserved for bridges themselves (01-80-C2-00-00-00 to -0F, table 8-1) are not forwarded.
//!
//! Times are kept in whole seconds, as the standard's ageing time is: a station is forgotten
//! `ageing_s` after the second in which it was last heard, and a frame in that same second has
//! nothing to write. `refresh_interval_s` relaxes this further (the refresh interval of NFork): a
//! station's time is renewed only when it is older than that, so that a busy table is hardly ever
//! written. A station is then forgotten up to that much sooner.
//!
//! An established pair of stations costs two look-ups of one cache line each: port and time lie
//! beside the address. The allocator only remembers when to look whether a station has aged; it is
//! touched once per ageing time, not per frame.
//!
//! VLANs are not told apart, unless `per_vlan` has each learn on its own (by the outermost tag).
//! There is no spanning tree, no filtering of multicast by group membership, no tagging.

use anabranch_nf::prelude::*;

pub use bridge::Function;

/// Learns behind which port each station is, and forwards frames there; to every other port where
/// that is not known (IEEE 802.1Q, clause 8).
#[network_function(ports(..), layer = 2)]
pub mod bridge {
    pub struct Settings {
        /// Stations remembered at once; frames to more are sent to every port.
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub stations: u32,
        /// Seconds of silence after which a station is forgotten.
        #[setting(default = 300, min = 1, max = 1_000_000)]
        pub ageing_s: u32,
        /// Renew a station's time only when it is older than this many seconds; 0: at each frame.
        #[setting(default = 0, max = 999_999)]
        pub refresh_interval_s: u32,
        /// Learn the stations of each VLAN separately.
        #[setting(default = false)]
        pub per_vlan: bool,
    }

    fn check(settings: &Settings) -> Result<(), &'static str> {
        if settings.refresh_interval_s >= settings.ageing_s {
            return Err(
                "`refresh_interval_s` must be less than `ageing_s`: stations would age while they talk",
            );
        }
        Ok(())
    }

    pub enum Reason {
        /// Sent to an address that bridges keep to themselves (spanning tree, LLDP, pause).
        ReservedAddress,
        /// Sent from a group address, which no station has.
        GroupSource,
        /// The destination is behind the port that the frame came from.
        SamePort,
    }

    pub struct Address {
        mac: MacAddr,
        vlan: u16,
    }

    pub struct Station {
        /// When it was last heard, in seconds since 1970.
        heard_s: u32,
        port: Port,
    }

    pub struct Bridge {
        settings: Settings,
        #[capacity(settings.stations)]
        stations: Map<Address, Station>,
        /// When to look whether a station has aged.
        #[capacity(settings.stations)]
        #[expired(look_at)]
        looks: Allocator<Address>,
    }

    const NS_PER_S: u64 = 1_000_000_000;

    impl Bridge {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let (src, dst) = (pkt.ethernet().src(), pkt.ethernet().dst());
            if dst.is_multicast() && is_reserved(dst) {
                return Drop(Reason::ReservedAddress);
            }
            if src.is_multicast() {
                return Drop(Reason::GroupSource);
            }
            let vlan = self.vlan(pkt);
            let now_s = (cx.now() / NS_PER_S) as u32;
            self.learn(
                Address { mac: src, vlan },
                Station { heard_s: now_s, port: pkt.port() },
                cx,
            );
            if dst.is_multicast() {
                return Flood;
            }
            self.forward(Address { mac: dst, vlan }, pkt.port(), now_s)
        }

        /// Priority tags (VLAN 0) belong to no VLAN.
        fn vlan(&self, pkt: &Packet) -> u16 {
            if !self.settings.per_vlan {
                return 0;
            }
            pkt.vlan().map_or(0, |tag| tag.id())
        }

        fn learn(&mut self, source: Address, heard: Station, cx: &mut Context) {
            let Some(known) = self.stations.get(&source) else {
                self.add(source, heard, cx);
                return;
            };
            let age_s = heard.heard_s.saturating_sub(known.heard_s);
            if age_s > self.settings.refresh_interval_s || known.port != heard.port {
                self.stations.insert(source, heard);
            }
        }

        fn add(&mut self, source: Address, heard: Station, cx: &mut Context) {
            let ageing_ns = u64::from(self.settings.ageing_s) * NS_PER_S;
            if let Some(look) = self.looks.allocate(source, ageing_ns, cx) {
                if !self.stations.insert(source, heard) {
                    self.looks.free(look);
                }
            }
        }

        fn forward(&self, destination: Address, arrival: Port, now_s: u32) -> Verdict {
            match self.stations.get(&destination) {
                Some(station) if self.has_aged(station, now_s) => Flood,
                Some(station) if station.port == arrival => Drop(Reason::SamePort),
                Some(station) => Forward(station.port),
                None => Flood,
            }
        }

        fn has_aged(&self, station: Station, now_s: u32) -> bool {
            now_s.saturating_sub(station.heard_s) >= self.settings.ageing_s
        }

        /// Forgets the station, or looks again when it will have aged if it is not heard by then.
        fn look_at(&mut self, index: u32, address: Address, cx: &mut Context) {
            let Some(station) = self.stations.get(&address) else { return };
            let now_s = (cx.now() / NS_PER_S) as u32;
            if self.has_aged(station, now_s) {
                self.stations.remove(&address);
                return;
            }
            let age_s = now_s.saturating_sub(station.heard_s);
            let left_ns = u64::from(self.settings.ageing_s - age_s) * NS_PER_S;
            self.looks.allocate_at(index, address, left_ns, cx);
        }
    }

    /// 01-80-C2-00-00-00 to -0F.
    fn is_reserved(mac: MacAddr) -> bool {
        let octets = mac.octets();
        let high = u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]]);
        high == 0x0180_c200 && octets[4] == 0 && octets[5] < 0x10
    }
}

#[cfg(test)]
mod tests {
    use super::bridge;
    use crate::frames::{ethernet, tagged};
    use anabranch_runtime::testing::{Harness, Outcome};

    const SECOND: u64 = 1_000_000_000;
    const ANN: &str = "02:00:00:00:00:0a";
    const BOB: &str = "02:00:00:00:00:0b";
    const ALL: &str = "ff:ff:ff:ff:ff:ff";

    fn bridge(settings: &[&str]) -> Harness<bridge::Function> {
        Harness::new(settings)
    }

    fn ports(outcome: &Outcome) -> Vec<u8> {
        outcome.forwarded().iter().map(|(port, _)| *port).collect()
    }

    fn goes(bridge: &mut Harness<bridge::Function>, port: u8, src: &str, dst: &str) -> Vec<u8> {
        ports(&bridge.send(port, &ethernet(src, dst)))
    }

    #[test]
    fn learns_floods_and_forwards() {
        let mut bridge = bridge(&[]);
        assert_eq!(goes(&mut bridge, 0, ANN, BOB), [1, 2, 3], "nobody knows Bob");
        assert_eq!(goes(&mut bridge, 2, BOB, ANN), [0]);
        assert_eq!(goes(&mut bridge, 0, ANN, BOB), [2]);
        assert_eq!(goes(&mut bridge, 2, BOB, ALL), [0, 1, 3]);
        assert_eq!(goes(&mut bridge, 2, BOB, "33:33:00:00:00:01"), [0, 1, 3]);
        let frame = ethernet(ANN, BOB);
        assert_eq!(bridge.send(0, &frame).forwarded(), [(2, frame)], "unchanged");
        assert_eq!(bridge.table("stations").used, 2);
    }

    #[test]
    fn filters_what_stays_behind_one_port() {
        let mut bridge = bridge(&[]);
        goes(&mut bridge, 1, ANN, ALL);
        assert_eq!(bridge.send(1, &ethernet(BOB, ANN)).dropped(), Some("same-port"));
    }

    #[test]
    fn follows_a_station_that_moves() {
        let mut bridge = bridge(&["refresh_interval_s=100"]);
        goes(&mut bridge, 0, ANN, ALL);
        goes(&mut bridge, 1, BOB, ALL);
        assert_eq!(goes(&mut bridge, 1, BOB, ANN), [0]);
        goes(&mut bridge, 3, ANN, ALL);
        assert_eq!(goes(&mut bridge, 1, BOB, ANN), [3]);
        assert_eq!(bridge.table("stations").used, 2);
    }

    #[test]
    fn forgets_at_the_ageing_time_and_not_before() {
        let mut bridge = bridge(&["ageing_s=300"]);
        goes(&mut bridge, 0, ANN, ALL);
        bridge.at(300 * SECOND - 1);
        assert_eq!(goes(&mut bridge, 1, BOB, ANN), [0]);
        bridge.at(300 * SECOND);
        assert_eq!(goes(&mut bridge, 1, BOB, ANN), [0, 2, 3]);
        bridge.at(302 * SECOND);
        goes(&mut bridge, 1, BOB, ALL);
        assert_eq!(bridge.table("stations").used, 1, "and gives the place back");
    }

    #[test]
    fn each_frame_renews() {
        let mut bridge = bridge(&["ageing_s=10"]);
        for second in 0..100 {
            bridge.at(second * SECOND);
            goes(&mut bridge, 0, ANN, ALL);
            assert_eq!(bridge.table("stations").used, 1);
        }
        bridge.at(99 * SECOND + 10 * SECOND - 1);
        assert_eq!(goes(&mut bridge, 1, BOB, ANN), [0]);
        bridge.at(109 * SECOND);
        assert_eq!(goes(&mut bridge, 1, BOB, ANN), [0, 2, 3]);
    }

    #[test]
    fn renews_only_what_is_older_than_the_refresh_interval() {
        let mut bridge = bridge(&["ageing_s=10", "refresh_interval_s=5"]);
        goes(&mut bridge, 0, ANN, ALL);
        bridge.at(5 * SECOND);
        goes(&mut bridge, 0, ANN, ALL);
        bridge.at(10 * SECOND);
        assert_eq!(goes(&mut bridge, 1, BOB, ANN), [0, 2, 3], "not renewed at 5 s");
        goes(&mut bridge, 0, ANN, ALL);
        bridge.at(16 * SECOND);
        goes(&mut bridge, 0, ANN, ALL);
        bridge.at(25 * SECOND);
        assert_eq!(goes(&mut bridge, 1, BOB, ANN), [0], "renewed at 16 s");
    }

    #[test]
    fn a_full_table_floods_and_learns_again_when_there_is_room() {
        let mut bridge = bridge(&["stations=1", "ageing_s=10"]);
        goes(&mut bridge, 0, ANN, ALL);
        goes(&mut bridge, 1, BOB, ALL);
        assert_eq!(goes(&mut bridge, 0, ANN, BOB), [1, 2, 3]);
        assert_eq!(goes(&mut bridge, 1, BOB, ANN), [0]);
        bridge.at(11 * SECOND);
        goes(&mut bridge, 1, BOB, ALL);
        assert_eq!(goes(&mut bridge, 0, ANN, BOB), [1]);
        assert_eq!((bridge.table("stations").used, bridge.table("looks").used), (1, 1));
    }

    #[test]
    fn keeps_the_addresses_of_bridges_to_itself() {
        let mut bridge = bridge(&[]);
        for last in ["00", "03", "0e", "0f"] {
            let frame = ethernet(ANN, &format!("01:80:c2:00:00:{last}"));
            assert_eq!(bridge.send(0, &frame).dropped(), Some("reserved-address"));
        }
        assert_eq!(goes(&mut bridge, 0, ANN, "01:80:c2:00:00:10"), [1, 2, 3]);
        assert_eq!(bridge.send(0, &ethernet(ALL, ANN)).dropped(), Some("group-source"));
    }

    #[test]
    fn vlans_are_told_apart_when_asked() {
        for (per_vlan, expected) in [("per_vlan=false", vec![0]), ("per_vlan=true", vec![0, 2, 3])]
        {
            let mut bridge = bridge(&[per_vlan]);
            bridge.send(0, &tagged(ANN, ALL, 7));
            assert_eq!(ports(&bridge.send(1, &tagged(BOB, ANN, 8))), expected);
            assert_eq!(ports(&bridge.send(1, &tagged(BOB, ANN, 7))), [0]);
        }
        let mut bridge = bridge(&["per_vlan=true"]);
        bridge.send(0, &tagged(ANN, ALL, 0));
        assert_eq!(goes(&mut bridge, 1, BOB, ANN), [0], "a priority tag is no VLAN");
    }

    #[test]
    fn forwards_what_is_malformed_above_ethernet() {
        let mut bridge = bridge(&[]);
        let mut frame = ethernet(ANN, BOB);
        frame[12..15].copy_from_slice(&[0x86, 0xdd, 0]);
        assert_eq!(ports(&bridge.send(0, &frame)), [1, 2, 3]);
        assert_eq!(bridge.send(0, &frame[..13]).dropped(), Some("ethernet-header-truncated"));
    }

    #[test]
    fn refuses_an_interval_as_long_as_the_ageing_time() {
        let error = Harness::<bridge::Function>::try_new(&["ageing_s=5", "refresh_interval_s=5"]);
        assert!(error.is_err_and(|why| why.contains("less than `ageing_s`")));
    }
}

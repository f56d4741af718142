//! A bridge whose table the operator writes.
//!
//! Forwards a frame to the port that the settings give its destination (the static bridge of
//! Pirelli's thesis "Parallel NF Synthesis", 2021, section 4.1.3; static filtering entries of IEEE
//! 802.1Q-2022, clause 8.8.1). Nothing is learnt: the table is filled once and read from then on, so
//! that any number of workers share it. Groups are flooded; frames to unknown stations are flooded or
//! dropped, as `unknown` says. Frames to the addresses reserved for bridges (01-80-C2-00-00-00 to
//! -0F) are not forwarded. VLAN tags are passed and not looked at.

use anabranch_nf::prelude::*;

pub use bridge_static::Function;

/// Forwards each frame to the port that the settings give its destination; nothing is learnt.
#[network_function(ports(..), layer = 2)]
pub mod bridge_static {
    pub struct Settings {
        /// Where each station is, as `[{ mac = "02:00:00:00:00:01", port = 0 }, …]`.
        #[setting(default = [])]
        pub stations: List<Station>,
        /// What becomes of frames to stations that are not listed.
        #[setting(default = Unknown::Flood)]
        pub unknown: Unknown,
    }

    pub struct Station {
        /// Its address.
        pub mac: MacAddr,
        /// Number of the port it is behind, from 0.
        pub port: Port,
    }

    pub enum Unknown {
        /// They are sent to every other port.
        Flood,
        /// They are dropped.
        Drop,
    }

    fn check(settings: &Settings) -> Result<(), &'static str> {
        for station in settings.stations.iter() {
            if station.mac.is_multicast() {
                return Err("`stations` lists a group address; write addresses of single stations");
            }
        }
        Ok(())
    }

    pub enum Reason {
        /// Sent to an address that bridges keep to themselves (spanning tree, LLDP, pause).
        ReservedAddress,
        /// The destination is not listed, and `unknown` is `drop`.
        UnknownStation,
        /// The destination is behind the port that the frame came from.
        SamePort,
    }

    pub struct BridgeStatic {
        settings: Settings,
        #[capacity(settings.stations.len() + 1)]
        ports: Map<MacAddr, Port>,
    }

    impl BridgeStatic {
        /// Of an address that is listed twice the last line counts.
        fn init(&mut self, cx: &mut Context) {
            for station in self.settings.stations.iter() {
                if self.ports.contains(&station.mac) {
                    log!(cx, warn, "station {} is listed twice", station.mac);
                }
                self.ports.insert(station.mac, station.port);
            }
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let dst = pkt.ethernet().dst();
            if dst.is_multicast() {
                return if is_reserved(dst) { Drop(Reason::ReservedAddress) } else { Flood };
            }
            match self.ports.get(&dst) {
                Some(port) if port == pkt.port() => Drop(Reason::SamePort),
                Some(port) => Forward(port),
                None if self.settings.unknown == Unknown::Flood => Flood,
                None => Drop(Reason::UnknownStation),
            }
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
    use super::bridge_static;
    use crate::frames::ethernet;
    use anabranch_runtime::testing::{Harness, Outcome};

    const ANN: &str = "02:00:00:00:00:0a";
    const BOB: &str = "02:00:00:00:00:0b";
    const EVE: &str = "02:00:00:00:00:0e";
    const STATIONS: &str = "stations=[{mac=\"02:00:00:00:00:0a\", port=0}, \
                            {mac=\"02:00:00:00:00:0b\", port=2}]";

    fn ports(outcome: &Outcome) -> Vec<u8> {
        outcome.forwarded().iter().map(|(port, _)| *port).collect()
    }

    #[test]
    fn forwards_as_listed_and_learns_nothing() {
        let mut bridge = Harness::<bridge_static::Function>::new(&[STATIONS]);
        assert_eq!(ports(&bridge.send(0, &ethernet(ANN, BOB))), [2]);
        assert_eq!(ports(&bridge.send(2, &ethernet(BOB, ANN))), [0]);
        assert_eq!(ports(&bridge.send(3, &ethernet(ANN, BOB))), [2]);
        assert_eq!(ports(&bridge.send(2, &ethernet(BOB, ANN))), [0]);
        assert_eq!(bridge.send(2, &ethernet(ANN, BOB)).dropped(), Some("same-port"));
        assert_eq!(ports(&bridge.send(1, &ethernet(EVE, "ff:ff:ff:ff:ff:ff"))), [0, 2, 3]);
        let reserved = ethernet(EVE, "01:80:c2:00:00:0e");
        assert_eq!(bridge.send(1, &reserved).dropped(), Some("reserved-address"));
    }

    #[test]
    fn the_unknown_are_flooded_or_dropped() {
        let mut bridge = Harness::<bridge_static::Function>::new(&[STATIONS]);
        assert_eq!(ports(&bridge.send(0, &ethernet(ANN, EVE))), [1, 2, 3]);
        let mut bridge = Harness::<bridge_static::Function>::new(&[STATIONS, "unknown=drop"]);
        assert_eq!(bridge.send(0, &ethernet(ANN, EVE)).dropped(), Some("unknown-station"));
        let mut empty = Harness::<bridge_static::Function>::new(&[]);
        assert_eq!(ports(&empty.send(0, &ethernet(ANN, EVE))), [1, 2, 3]);
    }

    #[test]
    fn a_port_that_the_run_does_not_have_is_refused() {
        let settings = "stations=[{mac=\"02:00:00:00:00:0a\", port=3}, \
                        {mac=\"02:00:00:00:00:0b\", port=4}]";
        let refused = Harness::<bridge_static::Function>::try_new(&[settings]).err().unwrap();
        assert_eq!(
            refused,
            "setting `stations`: element 1: setting `port`: there is no port 4: numbered from 0 they are p0, p1, p2, p3"
        );
    }

    #[test]
    fn of_an_address_listed_twice_the_last_counts() {
        let settings = "stations=[{mac=\"02:00:00:00:00:0a\", port=1}, \
                        {mac=\"02:00:00:00:00:0a\", port=3}]";
        let mut bridge = Harness::<bridge_static::Function>::new(&[settings]);
        assert_eq!(ports(&bridge.send(0, &ethernet(BOB, ANN))), [3]);
        assert_eq!(bridge.logged().len(), 1);
    }

    #[test]
    fn mistakes_in_the_list_are_told() {
        for settings in [
            "stations=[{mac=\"01:00:00:00:00:0a\", port=1}]",
            "stations=[{mac=\"02:00:00:00:00\", port=1}]",
            "stations=[{mac=\"02:00:00:00:00:0a\"}]",
            "stations=[{mac=\"02:00:00:00:00:0a\", port=1, vlan=3}]",
            "stations=3",
            "unknown=guess",
        ] {
            assert!(
                Harness::<bridge_static::Function>::try_new(&[settings]).is_err(),
                "{settings}"
            );
        }
    }
}

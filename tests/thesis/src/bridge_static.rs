//! Listing 4.4: forwards to the port that the settings give a station.

use anabranch_nf::prelude::*;

pub use bridge_static::Function;

/// Forwards to the port that the settings give a station.
#[network_function(ports(lan, wan))]
pub mod bridge_static {
    pub struct Settings {
        /// Where each station is.
        #[setting(default = [])]
        pub stations: List<Station>,
    }

    pub struct Station {
        /// Its address.
        pub mac: MacAddr,
        /// The port it is behind.
        pub port: Port,
    }

    pub struct BridgeStatic {
        settings: Settings,
        #[capacity(settings.stations.len() + 1)]
        stations: Map<MacAddr, Port>,
    }

    impl BridgeStatic {
        fn init(&mut self, cx: &mut Context) {
            for station in self.settings.stations.iter() {
                self.stations.insert(station.mac, station.port);
            }
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            match self.stations.get(&pkt.ethernet().dst()) {
                Some(port) => Forward(port),
                None => Flood,
            }
        }
    }
}

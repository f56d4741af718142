//! Detects floods of one-packet flows, and holds them back.
//!
//! A SYN flood, or any flood with forged sources, is many flows of which nobody ever sends a second
//! packet. The function counts the flows from `wan` that are under way and those among them with one
//! packet only, and takes it for an attack when these are `share_percent` of at least `least_flows`
//! (Anti-DDoS of the NFork paper, its listing 2, after NFF-Go; there with 80 %). Both counts are one
//! `Distributed` value, read for the first packet of each flow and as it is at that moment, unless
//! `staleness_ms` is raised: that is what the paper does to let it scale, at the price of that much delay.
//!
//! While the attack lasts, with `action = "block"`, the first packet of each flow is dropped and the
//! flow remembered. A host that means it sends again (a TCP SYN after 1 s, RFC 6298, section 2), and
//! its second packet passes; a forged source does not. Flows under way are left alone. With `action =
//! "report"` they all pass. Either way the log has a line a second.
//!
//! Flows that find the table full are not remembered: each of their packets is a first one, which passes
//! uncounted but for an attack, when it is dropped with `action = "block"`. A flood of more flows than `flows`
//! within `one_packet_s` so keeps everybody new out, so give it a place for each that can come.
//!
//! A flow that is over counts until it is collected, which packets do, of any kind and from either
//! port: each collects up to two. After a flood and a silence, new flows are so still held back until
//! half as many packets have come as the flood had flows.
//!
//! A flow is addresses, protocol and ports, as sent from `wan`, over IPv4 or IPv6. UDP flows of one
//! packet are common (name service) and count only where `udp` is set. What comes from `lan`,
//! fragments without ports and all else pass.
//!
//! Not done: nothing is said about whom the attack is meant for, an attacker who sends each packet
//! twice is not held back, and neither is one with few flows and many packets (a policer's work).

use anabranch_nf::prelude::*;

pub use anti_ddos::Function;

/// Detects floods of flows that have one packet only, as SYN floods do, and drops the first packets
/// of new flows while one lasts (Anti-DDoS of the NFork paper).
#[network_function(ports(lan, wan))]
pub mod anti_ddos {
    pub struct Settings {
        /// Percentage of one-packet flows among the flows under way that is taken for an attack.
        #[setting(default = 80, min = 1, max = 100)]
        pub share_percent: u64,
        /// Flows under way below which nothing is taken for an attack.
        #[setting(default = 1_000, min = 1, max = 16_777_216)]
        pub least_flows: u64,
        /// What becomes of the first packets of new flows during an attack.
        #[setting(default = Action::Block)]
        pub action: Action,
        /// Count UDP flows too.
        #[setting(default = false)]
        pub udp: bool,
        /// Flows at once, of IPv4 and of IPv6 each; more are not remembered.
        #[setting(default = 262_144, min = 1, max = 16_777_216)]
        pub flows: u32,
        /// Seconds that a flow is remembered by its first packet; 2 at least, so that a host that
        /// sends again finds it there.
        #[setting(default = 5, min = 2, max = 3_600)]
        pub one_packet_s: u64,
        /// Seconds that a flow of more packets may be idle; `one_packet_s` at least.
        #[setting(default = 60, min = 1, max = 86_400)]
        pub idle_s: u64,
        /// Milliseconds for which a worker may take the other workers' counts for what they were: the
        /// workers are less in each other's way, and an attack is noticed, or taken to be over, that much
        /// later.
        #[setting(default = 0, max = 1_000)]
        pub staleness_ms: u64,
    }

    pub enum Action {
        /// They are dropped.
        Block,
        /// They pass; the log says that there is an attack.
        Report,
    }

    pub enum Reason {
        /// The first packet of a flow, while most flows have one packet only.
        UnderAttack,
    }

    // By the shorter lifetime, so that what has expired is not counted for longer.
    #[packet_set(
        tcp(ip.src, ip.dst, tcp.src, tcp.dst),
        udp(ip.src, ip.dst, udp.src, udp.dst),
        port = wan,
        capacity = settings.flows,
        expires_s = settings.one_packet_s
    )]
    pub struct Flow {
        packets: Packets,
    }

    /// Of a flow, so far.
    pub enum Packets {
        None,
        One,
        More,
    }

    /// Flows under way.
    pub struct Tally {
        flows: u64,
        one_packet: u64,
    }

    fn both(a: Tally, b: Tally) -> Tally {
        Tally { flows: a.flows + b.flows, one_packet: a.one_packet + b.one_packet }
    }

    const NS_PER_S: u64 = 1_000_000_000;

    pub struct AntiDdos {
        settings: Settings,
        #[merge(both)]
        #[staleness_ms(settings.staleness_ms)]
        tally: Distributed<Tally>,
    }

    fn check(settings: &Settings) -> Result<(), &'static str> {
        if settings.idle_s < settings.one_packet_s {
            return Err(
                "`idle_s` must not be less than `one_packet_s`: a flow would be forgotten sooner for \
                 its second packet; raise `idle_s` or lower `one_packet_s`",
            );
        }
        Ok(())
    }

    impl AntiDdos {
        fn packet_set_opened(
            &mut self,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Result<Flow, Verdict> {
            if pkt.udp().is_some() && !self.settings.udp {
                return Err(Forward(LAN));
            }
            Ok(Flow { packets: Packets::None })
        }

        fn packet_set_full(&mut self, flow: &Flow, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            self.judge()
        }

        fn packet(&mut self, flow: &mut Flow, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            match flow.packets {
                Packets::None => {
                    flow.packets = Packets::One;
                    self.begin()
                }
                Packets::One => {
                    flow.packets = Packets::More;
                    cx.set_expiry(self.settings.idle_s * NS_PER_S);
                    self.tally.update(|tally| tally.one_packet -= 1);
                    Forward(LAN)
                }
                Packets::More => Forward(LAN),
            }
        }

        /// Counts a flow, and says what becomes of its first packet.
        fn begin(&mut self) -> Verdict {
            self.tally.update(|tally| {
                tally.flows += 1;
                tally.one_packet += 1;
            });
            self.judge()
        }

        /// What becomes of a first packet.
        fn judge(&mut self) -> Verdict {
            if self.settings.action == Action::Block && self.is_attack(self.tally.read()) {
                return Drop(Reason::UnderAttack);
            }
            Forward(LAN)
        }

        fn is_attack(&self, tally: Tally) -> bool {
            // Counts of workers that are not of one moment may come to less than nothing.
            let is_sound = tally.one_packet <= tally.flows
                && tally.flows <= 2 * u64::from(self.settings.flows);
            is_sound
                && tally.flows >= self.settings.least_flows
                && tally.one_packet * 100 >= tally.flows * self.settings.share_percent
        }

        fn packet_set_expired(&mut self, flow: &Flow, cx: &mut Context) {
            let one_packet = u64::from(flow.packets == Packets::One);
            self.tally.update(|tally| {
                tally.flows -= 1;
                tally.one_packet -= one_packet;
            });
        }

        fn orphan(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }

        #[every_ms(1_000)]
        fn periodic(&mut self, cx: &mut Context) {
            let tally = self.tally.read();
            if self.is_attack(tally) {
                log!(
                    cx,
                    warn,
                    "attack: {} of {} flows have one packet",
                    tally.one_packet,
                    tally.flows
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::anti_ddos;
    use crate::frames::{arp, tcp, udp};
    use anabranch_nf::packet::craft::tcp_flags::{ACK, SYN};
    use anabranch_runtime::testing::Harness;
    use proptest::prelude::*;

    const LAN: u8 = 0;
    const WAN: u8 = 1;
    const SECOND: u64 = 1_000_000_000;
    const SERVER: [&str; 2] = ["10.0.0.1:443", "[fd00::1]:443"];

    fn anti_ddos(settings: &[&str]) -> Harness<anti_ddos::Function> {
        Harness::new(settings)
    }

    /// A client's segment; `version` 0 is over IPv4, 1 over IPv6.
    fn segment(version: usize, client: u16, flags: u8) -> Vec<u8> {
        let [high, low] = client.to_be_bytes();
        let client = [format!("198.51.{high}.{low}:999"), format!("[2001:db8::{client:x}]:999")];
        tcp(&client[version], SERVER[version], flags)
    }

    fn passes(nf: &mut Harness<anti_ddos::Function>, frame: &[u8]) -> bool {
        let outcome = nf.send(WAN, frame);
        match outcome.dropped() {
            None => outcome.forwarded() == [(LAN, frame.to_vec())],
            Some(reason) => {
                assert_eq!(reason, "under-attack");
                false
            }
        }
    }

    #[test]
    fn a_flood_is_held_back_and_hosts_that_send_again_are_not() {
        for version in 0..2 {
            let mut nf = anti_ddos(&["least_flows=10"]);
            assert!((0..9).all(|client| passes(&mut nf, &segment(version, client, SYN))));
            assert!((9..50).all(|client| !passes(&mut nf, &segment(version, client, SYN))));
            nf.at(SECOND);
            assert!(passes(&mut nf, &segment(version, 30, SYN)), "sent again");
            assert!(passes(&mut nf, &segment(version, 30, ACK)), "and it goes on");
        }
    }

    #[test]
    fn flows_that_go_on_are_no_attack() {
        let mut nf = anti_ddos(&["least_flows=10"]);
        for client in 0..100 {
            // Two of each ten have one packet only.
            assert!(passes(&mut nf, &segment(0, client, SYN)), "{client}");
            if client % 5 != 4 {
                assert!(passes(&mut nf, &segment(0, client, ACK)));
            }
        }
        assert_eq!(nf.logged(), Vec::<String>::new());
    }

    #[test]
    fn an_attack_is_over_when_its_flows_are_forgotten() {
        let mut nf = anti_ddos(&["least_flows=10", "one_packet_s=5"]);
        for client in 0..50 {
            nf.send(WAN, &segment(0, client, SYN));
        }
        nf.at(5 * SECOND - 1);
        assert!(!passes(&mut nf, &segment(0, 100, SYN)));
        for packet in 0..60 {
            nf.at((20 + packet) * SECOND);
            nf.send(LAN, &arp("10.0.0.1", "10.0.0.2"));
        }
        assert!(passes(&mut nf, &segment(0, 200, SYN)));
    }

    #[test]
    fn flows_that_are_over_count_until_packets_have_collected_them() {
        let mut nf = anti_ddos(&["least_flows=10", "one_packet_s=5"]);
        for client in 0..400 {
            nf.send(WAN, &segment(0, client, SYN));
        }
        nf.at(20 * SECOND);
        assert!(!passes(&mut nf, &segment(0, 500, SYN)), "nothing has collected them");
        let arp = arp("10.0.0.1", "10.0.0.2");
        (0..15).for_each(|_| drop(nf.send(LAN, &arp)));
        assert!(!passes(&mut nf, &segment(0, 501, SYN)), "sixteen with each packet");
        (0..10).for_each(|_| drop(nf.send(LAN, &arp)));
        assert!(passes(&mut nf, &segment(0, 502, SYN)));
    }

    #[test]
    fn a_second_packet_does_not_shorten_a_life() {
        let setting = ["one_packet_s=9", "idle_s=8"];
        let why = Harness::<anti_ddos::Function>::try_new(&setting).map(drop).expect_err("refused");
        assert!(why.contains("`idle_s` must not be less than `one_packet_s`"), "{why}");
        assert!(Harness::<anti_ddos::Function>::try_new(&["one_packet_s=9", "idle_s=9"]).is_ok());
    }

    #[test]
    fn an_attack_is_logged_each_second() {
        for action in ["action=block", "action=report"] {
            let mut nf = anti_ddos(&["least_flows=10", action]);
            let passed = (0..20).filter(|one| passes(&mut nf, &segment(0, *one, SYN))).count();
            assert_eq!(passed, if action == "action=block" { 9 } else { 20 });
            for second in 1..4 {
                nf.at(second * SECOND);
                nf.send(LAN, &arp("10.0.0.1", "10.0.0.2"));
            }
            assert_eq!(nf.logged(), vec!["attack: 20 of 20 flows have one packet"; 3]);
        }
    }

    #[test]
    fn datagrams_count_where_they_are_asked_for() {
        for (setting, passed) in [("udp=false", 40), ("udp=true", 9)] {
            let mut nf = anti_ddos(&["least_flows=10", setting]);
            let frame = |port: u16| udp(&format!("198.51.100.1:{port}"), "10.0.0.1:53");
            assert_eq!((1..41).filter(|port| passes(&mut nf, &frame(*port))).count(), passed);
        }
    }

    #[test]
    fn the_other_direction_and_what_is_no_flow_pass() {
        let mut nf = anti_ddos(&["least_flows=1", "share_percent=1"]);
        let (out, arp) = (segment(0, 1, SYN), arp("10.0.0.1", "10.0.0.2"));
        assert_eq!(nf.send(LAN, &out).forwarded(), [(WAN, out.clone())]);
        assert_eq!(nf.send(WAN, &arp).forwarded(), [(LAN, arp.clone())]);
        assert!(!passes(&mut nf, &out), "from there it is one");
    }

    #[test]
    fn a_full_table_holds_back_what_is_new_in_an_attack_alone() {
        let full = |settings: &[&str]| {
            let mut nf = anti_ddos(&[&["flows=2"], settings].concat());
            nf.send(WAN, &segment(0, 1, SYN));
            nf.send(WAN, &segment(0, 2, SYN));
            nf
        };
        for settings in [&["least_flows=3"][..], &["least_flows=2", "action=report"]] {
            let mut nf = full(settings);
            for _ in 0..2 {
                assert!(passes(&mut nf, &segment(0, 3, SYN)), "not counted: {settings:?}");
            }
        }
        let mut nf = full(&["least_flows=2"]);
        for _ in 0..2 {
            assert_eq!(nf.send(WAN, &segment(0, 3, SYN)).dropped(), Some("under-attack"));
        }
        assert!(passes(&mut nf, &segment(0, 1, ACK)), "a flow under way");
    }

    proptest! {
        /// The oracle remembers every packet.
        #[test]
        fn counts_are_exact(
            share in 1u64..=100,
            clients in prop::collection::vec(0u16..40, 1..200),
        ) {
            let mut nf = anti_ddos(&["least_flows=5", &format!("share_percent={share}")]);
            let mut packets = std::collections::BTreeMap::new();
            for client in clients {
                let count = packets.entry(client).or_insert(0u32);
                *count += 1;
                let is_first = *count == 1;
                let flows = packets.len() as u64;
                let single = packets.values().filter(|count| **count == 1).count() as u64;
                let attack = flows >= 5 && single * 100 >= share * flows;
                prop_assert_eq!(passes(&mut nf, &segment(0, client, SYN)), !(is_first && attack));
            }
        }
    }
}

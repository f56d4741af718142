//! Detects hosts that scan for others, by how many of their connections come to nothing.
//!
//! Hosts that know whom they talk to are mostly answered; a scanner, or a worm looking for hosts to
//! infect, mostly is not. Each host on `lan` has a score that walks up by `failure_step` when a TCP
//! connection it tries is refused (RST) or not answered within `answer_s`, and down by
//! `success_step`, not below zero, when it is accepted (SYN-ACK). At `threshold` the host is taken
//! for a scanner. This is the threshold random walk of Jung, Paxson, Berger and Balakrishnan, "Fast
//! Portscan Detection Using Sequential Hypothesis Testing" (2004), in the form of Schechter, Jung
//! and Berger, "Fast Detection of Scanning Worm Infections" (2004): with the floor at zero, what a
//! host did before it was infected does not hide it.
//!
//! Scores are logarithms of likelihood ratios in thousandths. The defaults are those of the papers:
//! 80 % of the connections of a benign host succeed and 20 % of a scanner's, so that a step is
//! 1000 × ln (0.8 / 0.2) = 1386; with 1 % false positives and 99 % detection the threshold is
//! 1000 × ln (0.99 / 0.01) = 4595: four failures more than successes.
//!
//! Only the first connection of a host to an address and port counts, until nothing has been heard
//! of this *contact* for `contact_s`: a client that tries a dead server again and again is no
//! scanner. (The papers count addresses alone; with the port, scans of one host are seen too.)
//!
//! With `action = "block"`, a scanner's new TCP connections are dropped until it has tried none for
//! `host_s`; those that it has are left alone. With `action = "report"`, the log says so, once. All
//! else passes: IPv6 as IPv4, UDP, ICMP and what is not IP without a look. To watch hosts on the other
//! side, swap the ports.
//!
//! Not done: scans that use no SYN (FIN, null, UDP), hosts that share an address, forged sources (an
//! outsider behind `lan` can have another host blocked), and the papers' limit on connections whose
//! outcome is not known yet. Contacts that find their table full are not counted as attempts;
//! `untracked` says how many.

use anabranch_nf::prelude::*;

pub use portscan::Function;

/// Detects hosts on `lan` that scan, by the share of their TCP connections that fail (threshold
/// random walk, Jung et al. and Schechter et al. 2004), and blocks or reports them.
#[network_function(ports(lan, wan))]
pub mod portscan {
    pub struct Settings {
        /// What becomes of the new connections of a scanner.
        #[setting(default = Action::Block)]
        pub action: Action,
        /// Score at which a host is taken for a scanner, in thousandths of a natural logarithm.
        #[setting(default = 4_595, min = 1, max = 1_000_000)]
        pub threshold: u32,
        /// What a failed connection adds to the score.
        #[setting(default = 1_386, min = 1, max = 1_000_000)]
        pub failure_step: u32,
        /// What a connection that succeeds takes off it.
        #[setting(default = 1_386, max = 1_000_000)]
        pub success_step: u32,
        /// Seconds without an answer after which a connection has failed.
        #[setting(default = 5, min = 1, max = 3_600)]
        pub answer_s: u64,
        /// Seconds for which a contact is not counted again.
        #[setting(default = 300, min = 1, max = 86_400)]
        pub contact_s: u64,
        /// Seconds without a new connection after which a host is forgotten, and no longer blocked.
        #[setting(default = 600, min = 1, max = 86_400)]
        pub host_s: u64,
        /// Contacts remembered at once; others are not counted.
        #[setting(default = 262_144, min = 1, max = 16_777_216)]
        pub contacts: u32,
        /// Hosts watched at once; others are not.
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub hosts: u32,
    }

    pub enum Action {
        /// They are dropped.
        Block,
        /// They pass; the log says who scans.
        Report,
    }

    pub enum Reason {
        /// A new connection of a host that scans.
        Scanner,
    }

    pub enum Address {
        V4(Ipv4Addr),
        V6(Ipv6Addr),
    }

    /// A host, and whom it tried to reach.
    pub struct Contact {
        host: Address,
        peer: Address,
        port: u16,
    }

    pub struct Standing {
        /// In `looks`.
        look: u32,
        /// Neither answered nor given up.
        is_open: bool,
    }

    pub struct Host {
        score: u32,
        /// In `idle`.
        place: u32,
        is_scanner: bool,
    }

    const FLAGS: u8 = 0x17;
    const SYN: u8 = 0x02;
    const SYN_ACK: u8 = 0x12;
    const RST: u8 = 0x04;
    const NS_PER_S: u64 = 1_000_000_000;

    pub struct Portscan {
        settings: Settings,
        #[capacity(settings.hosts)]
        hosts: Map<Address, Host>,
        /// When a host is to be forgotten.
        #[capacity(settings.hosts)]
        #[expired(forget)]
        idle: Allocator<Address>,
        #[capacity(settings.contacts)]
        contacts: Map<Contact, Standing>,
        /// When a contact has failed, or is to be forgotten.
        #[capacity(settings.contacts)]
        #[expired(look_at)]
        looks: Allocator<Contact>,
        /// Connections that were not counted, for want of room.
        untracked: Counter,
    }

    fn source_of(pkt: &Packet) -> Option<Address> {
        if let Some(ip) = pkt.ipv4() {
            return Some(Address::V4(ip.src()));
        }
        Some(Address::V6(pkt.ipv6()?.src()))
    }

    fn destination_of(pkt: &Packet) -> Option<Address> {
        if let Some(ip) = pkt.ipv4() {
            return Some(Address::V4(ip.dst()));
        }
        Some(Address::V6(pkt.ipv6()?.dst()))
    }

    impl Portscan {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let flags = pkt.tcp().map_or(0, |tcp| tcp.flags() & FLAGS);
            if pkt.port() == WAN {
                if flags == SYN_ACK || flags & RST != 0 {
                    self.answered(pkt, flags == SYN_ACK, cx);
                }
                return Forward(LAN);
            }
            if flags == SYN && self.is_held_back(pkt, cx) {
                return Drop(Reason::Scanner);
            }
            Forward(WAN)
        }

        /// A connection is answered: the contact has succeeded or failed, if it was open.
        fn answered(&mut self, pkt: &Packet, accepted: bool, cx: &mut Context) {
            let Some(host) = destination_of(pkt) else { return };
            let Some(peer) = source_of(pkt) else { return };
            let Some(port) = pkt.src_port() else { return };
            let contact = Contact { host, peer, port };
            if let Some(standing) = self.contacts.get(&contact)
                && standing.is_open
            {
                self.contacts.insert(contact, Standing { look: standing.look, is_open: false });
                self.looks.refresh(standing.look, self.settings.contact_s * NS_PER_S, cx);
                self.walk(host, accepted, cx);
            }
        }

        /// A host wants a connection.
        fn is_held_back(&mut self, pkt: &Packet, cx: &mut Context) -> bool {
            let Some(address) = source_of(pkt) else { return false };
            let Some(peer) = destination_of(pkt) else { return false };
            let Some(port) = pkt.dst_port() else { return false };
            if let Some(host) = self.hosts.get(&address) {
                self.idle.refresh(host.place, self.settings.host_s * NS_PER_S, cx);
                if host.is_scanner {
                    return self.settings.action == Action::Block;
                }
            } else {
                self.watch(address, cx);
            }
            self.attempt(Contact { host: address, peer, port }, cx);
            false
        }

        fn watch(&mut self, address: Address, cx: &mut Context) {
            let lifetime_ns = self.settings.host_s * NS_PER_S;
            if let Some(place) = self.idle.allocate(address, lifetime_ns, cx) {
                let host = Host { score: 0, place, is_scanner: false };
                if !self.hosts.insert(address, host) {
                    self.idle.free(place);
                }
            }
        }

        fn attempt(&mut self, contact: Contact, cx: &mut Context) {
            if let Some(standing) = self.contacts.get(&contact) {
                if !standing.is_open {
                    self.looks.refresh(standing.look, self.settings.contact_s * NS_PER_S, cx);
                }
                return;
            }
            let Some(look) = self.looks.allocate(contact, self.settings.answer_s * NS_PER_S, cx)
            else {
                self.untracked.add(1);
                return;
            };
            if !self.contacts.insert(contact, Standing { look, is_open: true }) {
                self.looks.free(look);
                self.untracked.add(1);
            }
        }

        /// Moves a host's score by one connection's outcome.
        fn walk(&mut self, address: Address, succeeded: bool, cx: &mut Context) {
            let Some(host) = self.hosts.get(&address) else { return };
            let score = if succeeded {
                host.score.saturating_sub(self.settings.success_step)
            } else {
                host.score.saturating_add(self.settings.failure_step)
            };
            let is_scanner = host.is_scanner || score >= self.settings.threshold;
            self.hosts.insert(address, Host { score, place: host.place, is_scanner });
            if is_scanner && !host.is_scanner {
                match address {
                    Address::V4(address) => log!(cx, warn, "{} scans", address),
                    Address::V6(address) => log!(cx, warn, "{} scans", address),
                }
            }
        }

        /// A contact has not been answered, or not been heard of for long enough.
        fn look_at(&mut self, index: u32, contact: Contact, cx: &mut Context) {
            let Some(standing) = self.contacts.get(&contact) else { return };
            if !standing.is_open {
                self.contacts.remove(&contact);
                return;
            }
            self.contacts.insert(contact, Standing { look: index, is_open: false });
            self.looks.allocate_at(index, contact, self.settings.contact_s * NS_PER_S, cx);
            self.walk(contact.host, false, cx);
        }

        fn forget(&mut self, index: u32, address: Address, cx: &mut Context) {
            self.hosts.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::portscan;
    use crate::frames::{arp, tcp, udp};
    use anabranch_nf::packet::craft::tcp_flags::{ACK, RST, SYN};
    use anabranch_runtime::testing::Harness;
    use proptest::prelude::*;

    const LAN: u8 = 0;
    const WAN: u8 = 1;
    const SECOND: u64 = 1_000_000_000;
    const HOSTS: [&str; 2] = ["10.0.0.1", "[fd00::1]"];
    const PEERS: [&str; 2] = ["198.51.100.7", "[2001:db8::7]"];

    struct Watched(Harness<portscan::Function>, usize);

    impl Watched {
        fn new(settings: &[&str]) -> Self {
            Self(Harness::new(settings), 0)
        }

        /// The host tries this port of the peer; whether it gets through.
        fn tries(&mut self, port: u16) -> bool {
            let (host, peer) = (HOSTS[self.1], PEERS[self.1]);
            let frame = tcp(&format!("{host}:999"), &format!("{peer}:{port}"), SYN);
            let outcome = self.0.send(LAN, &frame);
            match outcome.dropped() {
                None => outcome.forwarded() == [(WAN, frame)],
                Some(reason) => {
                    assert_eq!(reason, "scanner");
                    false
                }
            }
        }

        fn answers(&mut self, port: u16, flags: u8) {
            let (host, peer) = (HOSTS[self.1], PEERS[self.1]);
            let frame = tcp(&format!("{peer}:{port}"), &format!("{host}:999"), flags);
            assert_eq!(self.0.send(WAN, &frame).forwarded(), [(LAN, frame.clone())]);
        }
    }

    #[test]
    fn four_failures_more_than_successes_are_a_scan() {
        for version in 0..2 {
            let mut nf = Watched::new(&[]);
            nf.1 = version;
            for port in 1..=4 {
                assert!(nf.tries(port), "{port}");
                nf.answers(port, RST | ACK);
            }
            assert!(!nf.tries(5));
            let host = HOSTS[version].trim_matches(['[', ']']);
            assert_eq!(nf.0.logged(), [format!("{host} scans")]);
            let frame = udp(&format!("{}:7", HOSTS[version]), &format!("{}:7", PEERS[version]));
            assert_eq!(nf.0.send(LAN, &frame).dropped(), None, "connections only");
        }
    }

    #[test]
    fn silence_is_a_failure() {
        let mut nf = Watched::new(&["answer_s=5"]);
        assert!((1..=20).all(|port| nf.tries(port)));
        nf.0.at(5 * SECOND - 1);
        assert!(nf.tries(21), "nothing has failed yet");
        for port in 1..16u16 {
            nf.0.at(6 * SECOND + u64::from(port) * SECOND / 10);
            nf.0.send(LAN, &arp("10.0.0.1", "10.0.0.2"));
        }
        assert!(!nf.tries(22));
    }

    #[test]
    fn success_makes_up_for_failure_but_not_in_advance() {
        let mut nf = Watched::new(&[]);
        for round in 0..30 {
            assert!(nf.tries(2 * round + 1) && nf.tries(2 * round + 2), "half of them fail");
            nf.answers(2 * round + 1, RST | ACK);
            nf.answers(2 * round + 2, SYN | ACK);
        }
        for port in 101..=104 {
            assert!(nf.tries(port));
            nf.answers(port, RST | ACK);
        }
        assert!(!nf.tries(105), "thirty successes have not hidden it");
    }

    #[test]
    fn a_contact_counts_once() {
        let mut nf = Watched::new(&["contact_s=300"]);
        for second in 0..200 {
            nf.0.at(second * SECOND);
            assert!(nf.tries(1));
            nf.answers(1, RST | ACK);
            nf.answers(1, RST | ACK);
        }
        assert_eq!(nf.0.table("contacts").used, 1);
    }

    #[test]
    fn a_scanner_is_let_go_when_it_stops() {
        let mut nf = Watched::new(&["host_s=600"]);
        for port in 1..=4 {
            nf.tries(port);
            nf.answers(port, RST);
        }
        nf.0.at(500 * SECOND);
        assert!(!nf.tries(9));
        nf.0.at(1_100 * SECOND - SECOND / 10);
        assert!(!nf.tries(9), "it had not stopped");
        nf.0.at(1_701 * SECOND);
        nf.0.send(LAN, &arp("10.0.0.1", "10.0.0.2"));
        assert!(nf.tries(9));
    }

    #[test]
    fn a_report_drops_nothing() {
        let mut nf = Watched::new(&["action=report"]);
        for port in 1..=50 {
            assert!(nf.tries(port));
            nf.answers(port, RST | ACK);
        }
        assert_eq!(nf.0.logged(), ["10.0.0.1 scans"]);
    }

    #[test]
    fn answers_to_nothing_count_for_nobody() {
        let mut nf = Watched::new(&[]);
        for port in 1..100 {
            nf.answers(port, RST);
        }
        assert!(nf.tries(200));
        let frame = arp("10.0.0.1", "10.0.0.2");
        assert_eq!(nf.0.send(WAN, &frame).forwarded(), [(LAN, frame.clone())]);
    }

    #[test]
    fn what_finds_no_room_passes_uncounted() {
        let mut nf = Watched::new(&["contacts=2", "hosts=1"]);
        for port in 1..=50 {
            assert!(nf.tries(port));
        }
        assert_eq!(nf.0.table("contacts").used, 2);
    }

    proptest! {
        /// The oracle is the formula of Schechter et al.: a walk with a floor.
        #[test]
        fn the_walk_is_exact(
            threshold in 1u32..9_000,
            (up, down) in (1u32..3_000, 0u32..3_000),
            outcomes in prop::collection::vec(any::<bool>(), 1..100),
        ) {
            let settings = [
                format!("threshold={threshold}"),
                format!("failure_step={up}"),
                format!("success_step={down}"),
            ];
            let mut nf = Watched::new(&settings.each_ref().map(String::as_str));
            let (mut score, mut is_scanner) = (0u32, false);
            for (port, succeeds) in (1..).zip(outcomes) {
                prop_assert_eq!(nf.tries(port), !is_scanner);
                nf.answers(port, if succeeds { SYN | ACK } else { RST | ACK });
                score = if succeeds { score.saturating_sub(down) } else { score + up };
                is_scanner |= score >= threshold;
            }
        }
    }
}

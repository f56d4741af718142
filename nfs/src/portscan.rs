//! Detects hosts that scan for others, by how many of their connections come to nothing.
//!
//! Hosts that know whom they talk to are mostly answered; a scanner, or a worm looking for hosts to
//! infect, mostly is not. Each host on `lan` has a score that walks up by `failure_step` when a TCP
//! connection it tries is refused (RST) or not answered in time, and down by
//! `success_step`, not below zero, when it is accepted (SYN-ACK). At `threshold` the host is taken
//! for a scanner. This is the threshold random walk of Jung, Paxson, Berger and Balakrishnan, "Fast
//! Portscan Detection Using Sequential Hypothesis Testing" (2004), in the form of Schechter, Jung
//! and Berger, "Fast Detection of Scanning Worm Infections" (2004): with the floor at zero, what a
//! host did before it was infected does not hide it. (`nmap` between real hosts, half open and
//! connecting, at ports that refuse and ports that are silent, is found and stopped.)
//!
//! Scores are logarithms of likelihood ratios in thousandths. The defaults are those of the papers:
//! 80 % of the connections of a benign host succeed and 20 % of a scanner's, so that a step is
//! 1000 × ln (0.8 / 0.2) = 1386; with 1 % false positives and 99 % detection the threshold is
//! 1000 × ln (0.99 / 0.01) = 4595: four failures more than successes.
//!
//! Time is counted in periods of `answer_s` seconds: what was tried in one and has no answer when the
//! next one is over has failed, which is between one and two `answer_s` after the attempt. It is noticed
//! with the next connection, or answer, of the same host; nothing waits for a timer. Who sends faster than
//! failures are told has `unanswered` connections without an answer at most: what it tries beyond is dropped,
//! and counts as nothing, until some have been answered or have failed (the second paper's limit on
//! connections whose outcome is not known; there ten, which grow with each success).
//!
//! Only the first connection of a host to an address and port counts, until nothing has been heard
//! of this *contact* for `contact_s`: a client that tries a dead server again and again is no
//! scanner. (The papers count addresses alone; with the port, scans of one host are seen too.)
//!
//! With `action = "block"`, a scanner's new TCP connections are dropped until it has tried none for
//! `host_s`; those that it has are left alone. With `action = "report"` nothing is dropped. The log says
//! either way who scans, once, and who has come to `unanswered`. All
//! else passes: IPv6 as IPv4, UDP, ICMP and what is not IP without a look. To watch hosts on the other
//! side, swap the ports.
//!
//! Not done: scans that use no SYN (FIN, null, UDP), hosts that share an address, and forged sources (an
//! outsider behind `lan` can have another host blocked). Hosts and contacts that find their table full
//! are not counted as attempts; `untracked` says how many.

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
        /// Seconds of a period: a connection without an answer in its own and the next has failed.
        #[setting(default = 5, min = 1, max = 3_600)]
        pub answer_s: u64,
        /// Connections without an answer at which a host may try no further ones.
        #[setting(default = 100, min = 1, max = 1_000_000)]
        pub unanswered: u32,
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
        /// A new connection of a host that has too many without an answer.
        Unanswered,
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
        /// In `ends`.
        end: u32,
        /// When it was tried.
        period: u32,
        /// Not answered.
        is_open: bool,
    }

    pub struct Host {
        score: u32,
        /// In `idle`.
        place: u32,
        /// The last period that was looked at, and connections without an answer of that and the
        /// one before.
        period: u32,
        open: u32,
        open_before: u32,
        is_scanner: bool,
    }

    /// Without FIN: to a host that accepts it, a SYN with a FIN opens a connection too.
    const FLAGS: u8 = 0x16;
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
        /// When a contact is to be forgotten.
        #[capacity(settings.contacts)]
        #[expired(forget_contact)]
        ends: Allocator<Contact>,
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

    /// Of connections without an answer in this period and the last: those that have failed, and
    /// those of the same two when `passed` more are over.
    #[opaque]
    fn aged(passed: u32, open: u32, open_before: u32) -> (u32, u32, u32) {
        match passed {
            0 => (0, open, open_before),
            1 => (open_before, 0, open),
            _ => (open_before.saturating_add(open), 0, 0),
        }
    }

    impl Host {
        /// In `period`: what has had no answer for too long has failed.
        fn in_period(self, period: u32, failure_step: u32) -> Host {
            let passed = period.saturating_sub(self.period);
            let (failed, open, open_before) = aged(passed, self.open, self.open_before);
            let added = u64::from(failed) * u64::from(failure_step);
            Host {
                score: self.score.saturating_add(added.min(u64::from(u32::MAX)) as u32),
                place: self.place,
                period: self.period.max(period),
                open,
                open_before,
                is_scanner: self.is_scanner,
            }
        }
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
            if flags == SYN {
                return self.tried(pkt, cx);
            }
            Forward(WAN)
        }

        fn period(&self, cx: &Context) -> u32 {
            (cx.now() / (self.settings.answer_s * NS_PER_S)) as u32
        }

        /// What is known of a host, unless its time is over.
        fn known(&self, address: Address, cx: &Context) -> Option<Host> {
            let host = self.hosts.get(&address)?;
            if !self.idle.is_allocated(host.place, cx) {
                return None;
            }
            Some(host.in_period(self.period(cx), self.settings.failure_step))
        }

        /// A connection is answered: the contact has succeeded or failed, if it was open.
        fn answered(&mut self, pkt: &Packet, accepted: bool, cx: &mut Context) {
            let Some(address) = destination_of(pkt) else { return };
            let Some(peer) = source_of(pkt) else { return };
            let Some(port) = pkt.src_port() else { return };
            let contact = Contact { host: address, peer, port };
            let Some(standing) = self.contacts.get(&contact) else { return };
            // One whose time is over may be there still, or not.
            if !self.ends.is_allocated(standing.end, cx) {
                return;
            }
            let Some(mut host) = self.known(address, cx) else { return };
            let age = host.period.saturating_sub(standing.period);
            if !standing.is_open || age > 1 {
                // It changes nothing; others may have failed meanwhile.
                self.judge(address, host, cx);
                return;
            }
            if age == 0 {
                host.open = host.open.saturating_sub(1);
            } else {
                host.open_before = host.open_before.saturating_sub(1);
            }
            host.score = if accepted {
                host.score.saturating_sub(self.settings.success_step)
            } else {
                host.score.saturating_add(self.settings.failure_step)
            };
            let (end, period) = (standing.end, standing.period);
            self.contacts.insert(contact, Standing { end, period, is_open: false });
            self.judge(address, host, cx);
        }

        /// A host wants a connection.
        fn tried(&mut self, pkt: &Packet, cx: &mut Context) -> Verdict {
            let Some(address) = source_of(pkt) else { return Forward(WAN) };
            let Some(peer) = destination_of(pkt) else { return Forward(WAN) };
            let Some(port) = pkt.dst_port() else { return Forward(WAN) };
            let known = self.known(address, cx);
            let found = if known.is_some() { known } else { self.watch(address, cx) };
            let Some(mut host) = found else {
                self.untracked.add(1);
                return Forward(WAN);
            };
            self.idle.refresh(host.place, self.settings.host_s * NS_PER_S, cx);
            let blocks = self.settings.action == Action::Block;
            if !host.is_scanner {
                let contact = Contact { host: address, peer, port };
                let waiting = host.open.saturating_add(host.open_before);
                let is_known = self.is_remembered(contact, cx);
                if !is_known && blocks && waiting >= self.settings.unanswered {
                    let is_scanner = self.judge(address, host, cx);
                    return Drop(if is_scanner { Reason::Scanner } else { Reason::Unanswered });
                }
                if !is_known && self.remember(contact, cx) {
                    host.open += 1;
                    if waiting + 1 == self.settings.unanswered {
                        tell_of_waiting(address, waiting + 1, cx);
                    }
                }
            }
            if self.judge(address, host, cx) && blocks {
                Drop(Reason::Scanner)
            } else {
                Forward(WAN)
            }
        }

        /// Begins to watch a host, if there is room.
        fn watch(&mut self, address: Address, cx: &mut Context) -> Option<Host> {
            let place = self.idle.allocate(address, self.settings.host_s * NS_PER_S, cx)?;
            let period = self.period(cx);
            let host = Host { score: 0, place, period, open: 0, open_before: 0, is_scanner: false };
            if self.hosts.insert(address, host) {
                return Some(host);
            }
            self.idle.free(place);
            None
        }

        /// Whether a contact has been tried already, and is remembered longer for it.
        fn is_remembered(&mut self, contact: Contact, cx: &mut Context) -> bool {
            let Some(standing) = self.contacts.get(&contact) else { return false };
            self.ends.refresh(standing.end, self.settings.contact_s * NS_PER_S, cx)
        }

        /// Remembers a new contact; whether there was room for it.
        fn remember(&mut self, contact: Contact, cx: &mut Context) -> bool {
            let lifetime_ns = self.settings.contact_s * NS_PER_S;
            let Some(end) = self.ends.allocate(contact, lifetime_ns, cx) else {
                self.untracked.add(1);
                return false;
            };
            let standing = Standing { end, period: self.period(cx), is_open: true };
            if !self.contacts.insert(contact, standing) {
                self.ends.free(end);
                self.untracked.add(1);
                return false;
            }
            true
        }

        /// Remembers what has become of a host; whether it scans.
        fn judge(&mut self, address: Address, host: Host, cx: &mut Context) -> bool {
            let is_scanner = host.is_scanner || host.score >= self.settings.threshold;
            let mut judged = host;
            judged.is_scanner = is_scanner;
            self.hosts.insert(address, judged);
            if is_scanner && !host.is_scanner {
                match address {
                    Address::V4(address) => log!(cx, warn, "{} scans", address),
                    Address::V6(address) => log!(cx, warn, "{} scans", address),
                }
            }
            is_scanner
        }

        fn forget_contact(&mut self, index: u32, contact: Contact, cx: &mut Context) {
            if self.contacts.get(&contact).is_some_and(|standing| standing.end == index) {
                self.contacts.remove(&contact);
            }
        }

        fn forget(&mut self, index: u32, address: Address, cx: &mut Context) {
            if self.hosts.get(&address).is_some_and(|host| host.place == index) {
                self.hosts.remove(&address);
            }
        }
    }

    #[cold]
    fn tell_of_waiting(address: Address, count: u32, cx: &mut Context) {
        match address {
            Address::V4(address) => log!(cx, warn, "{} waits for {} answers", address, count),
            Address::V6(address) => log!(cx, warn, "{} waits for {} answers", address, count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::portscan;
    use crate::frames::{arp, tcp, udp};
    use anabranch_nf::packet::craft::tcp_flags::{ACK, FIN, RST, SYN};
    use anabranch_runtime::testing::{Arrived, Harness, Sharing, SideBySide};
    use proptest::prelude::*;

    const LAN: u8 = 0;
    const WAN: u8 = 1;
    const SECOND: u64 = 1_000_000_000;
    const HOSTS: [&str; 2] = ["10.0.0.1", "[fd00::1]"];
    const PEERS: [&str; 2] = ["198.51.100.7", "[2001:db8::7]"];

    /// The version of IP, and why attempts are refused that are.
    struct Watched(Harness<portscan::Function>, usize, &'static str);

    impl Watched {
        fn new(settings: &[&str]) -> Self {
            Self(Harness::new(settings), 0, "scanner")
        }

        /// The host tries this port of the peer; whether it gets through.
        fn tries(&mut self, port: u16) -> bool {
            self.sends(port, SYN)
        }

        fn sends(&mut self, port: u16, flags: u8) -> bool {
            let (host, peer) = (HOSTS[self.1], PEERS[self.1]);
            let frame = tcp(&format!("{host}:999"), &format!("{peer}:{port}"), flags);
            let outcome = self.0.send(LAN, &frame);
            match outcome.dropped() {
                None => outcome.forwarded() == [(WAN, frame)],
                Some(reason) => {
                    assert_eq!(reason, self.2);
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
    fn a_fin_hides_no_attempt() {
        let mut nf = Watched::new(&[]);
        for port in 1..=4 {
            assert!(nf.sends(port, SYN | FIN));
            nf.answers(port, RST | ACK);
        }
        assert!(!nf.sends(5, SYN | FIN) && !nf.tries(5));
        assert!(nf.sends(5, FIN) && nf.sends(5, FIN | ACK), "these open nothing");
    }

    #[test]
    fn silence_is_a_failure() {
        let mut nf = Watched::new(&["answer_s=5"]);
        assert!((1..=20).all(|port| nf.tries(port)));
        nf.0.at(5 * SECOND - 1);
        assert!(nf.tries(21), "nothing has failed yet");
        nf.0.at(10 * SECOND);
        assert!(!nf.tries(22));
    }

    #[test]
    fn who_tries_faster_than_failures_are_told_gets_no_further() {
        for (version, host) in HOSTS.iter().enumerate() {
            let mut nf = Watched::new(&["unanswered=50"]);
            nf.1 = version;
            assert!((1..=50).all(|port| nf.tries(port)));
            nf.2 = "unanswered";
            assert!((51..=1_000).all(|port| !nf.tries(port)));
            assert!((1..=50).all(|port| nf.tries(port)), "sent again");
            nf.answers(1, SYN | ACK);
            assert!(nf.tries(51) && !nf.tries(52), "one has been answered");
            assert_eq!(nf.0.table("contacts").used, 51);
            nf.0.at(10 * SECOND);
            nf.2 = "scanner";
            assert!(!nf.tries(53), "the others have failed");
            let host = host.trim_matches(['[', ']']);
            let waits = || format!("{host} waits for 50 answers");
            assert_eq!(nf.0.logged(), [waits(), waits(), format!("{host} scans")]);
        }
    }

    #[test]
    fn a_report_tells_of_who_waits_and_drops_nothing() {
        let mut nf = Watched::new(&["unanswered=50", "action=report"]);
        assert!((1..=1_000).all(|port| nf.tries(port)));
        assert_eq!(nf.0.logged(), ["10.0.0.1 waits for 50 answers"]);
    }

    #[test]
    fn any_answer_shows_what_has_failed() {
        let mut nf = Watched::new(&["answer_s=5"]);
        assert!((1..=20).all(|port| nf.tries(port)));
        nf.answers(1, SYN | ACK);
        nf.0.at(10 * SECOND);
        nf.answers(1, SYN | ACK);
        assert_eq!(nf.0.logged(), ["10.0.0.1 scans"], "the answer was sent again");
    }

    /// Whether it has been collected already is chance.
    #[test]
    fn an_answer_to_a_contact_whose_time_is_over_shows_nothing() {
        let mut nf = Watched::new(&["contact_s=300", "host_s=600"]);
        assert!((1..=40).all(|port| nf.tries(port)));
        nf.0.at(310 * SECOND);
        nf.answers(40, SYN | ACK);
        assert!(nf.0.logged().is_empty(), "the contact is there still");
        assert!(!nf.tries(41));
        assert_eq!(nf.0.logged(), ["10.0.0.1 scans"]);
    }

    #[test]
    fn late_answers_are_in_time_for_a_period() {
        let mut nf = Watched::new(&["answer_s=5"]);
        for port in 1..=20 {
            nf.0.at(u64::from(port) * 5 * SECOND - 1);
            assert!(nf.tries(port));
            nf.0.at((u64::from(port) * 5 + 4) * SECOND);
            nf.answers(port, SYN | ACK);
        }
        assert!(nf.tries(100));
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

    #[test]
    fn what_finds_no_room_is_told() {
        let settings = "contacts = 2\nhosts = 1".parse().expect("settings");
        let attempt = |(host, port): (&str, u16)| Arrived {
            port: LAN,
            after_ns: 0,
            bytes: tcp(host, &format!("198.51.100.7:{port}"), SYN),
            wire_len: 54,
        };
        // Three are of a host that has no room itself, two of contacts without.
        let (one, other) = ("10.0.0.1:999", "10.0.0.2:999");
        let all = [(one, 1), (other, 1), (one, 2), (other, 2), (one, 3), (one, 4), (other, 1)];
        let packets = all.map(attempt);
        let turns = [(0, (0..packets.len()).collect())];
        let run = SideBySide::take_turns::<portscan::Function>(
            Sharing::Locked,
            &settings,
            &packets,
            1,
            &turns,
        );
        assert_eq!(run.done.counters, [("untracked", 5)]);
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

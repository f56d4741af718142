//! Detects tunnels through the domain name system, by answers that are put to no use.
//!
//! A host asks for a name in order to talk to the address it gets. A tunnel asks for names that carry
//! data, and has no use for the answers. The function notes each answer of a name server that comes to
//! a client on `lan`, and takes it off again when the client sends anything to the address that it
//! tells; a client to whom `threshold` answers have come within the window that led to nothing is
//! suspected of a tunnel. The window is this and the last half of `window_s` seconds. (The DNS tunnel
//! detector of the NFork paper, which has it from Arashloo et al., "SNAP: Stateful Network-Wide
//! Abstractions for Packet Processing", 2016, and they from Borders et al., "Chimera", 2012. There the
//! count never ages; here it is of a window.)
//!
//! An answer is a UDP datagram from port 53 that is a DNS response (RFC 1035, section 4) to one
//! question, from a server to whose port 53 the client has sent a datagram within the last ten seconds.
//! What counts is the first A or AAAA record of its answers; an answer without (another type, an
//! error, nothing at all) is of no use from the start. An address that is told again while it waits
//! counts once. Ordinary hosts collect some, by browsers that resolve ahead and by asking for
//! both IP versions, of which many names have one: 100 a minute leaves room for them, and a tunnel of 100
//! answers a minute carries under a kilobyte a second. (`iodine` between real hosts, by way of a name
//! server that others ask too, is found and stopped by the defaults.)
//!
//! With `action = "block"`, a suspected client's packets to port 53 (UDP and TCP) are dropped for
//! `block_s` seconds; with `action = "report"` the log says so, once in that time. Everything else
//! passes, over IPv4 and IPv6.
//!
//! Not done: DNS over TCP, TLS or HTTPS is not read; a name server on `lan` that resolves for others
//! is taken for a client of many useless answers, and has to stand on the other side. A host that asks from one
//! address and uses the answers from another (it asks over IPv6, or from a unique local address, and is told IPv4
//! or global ones) is two clients, of whom the first puts nothing to use: raise `threshold`, or report. Of answers and
//! questions the addresses are matched, not the identifiers: who can forge the address of a server
//! that a client asks can have the client suspected. A tunnel whose answers all tell an address that
//! waits already, until it is used or forgotten, is not noticed.
//! Where the tables are full, answers are not counted.

use anabranch_nf::prelude::*;

pub use dns_tunnel::Function;

/// Detects tunnels through DNS: clients on `lan` that put most answers of name servers to no use
/// (as in SNAP, Arashloo et al. 2016), and blocks their questions or reports them.
#[network_function(ports(lan, wan), layer = 4)]
pub mod dns_tunnel {
    pub struct Settings {
        /// What becomes of a suspected client's questions.
        #[setting(default = Action::Block)]
        pub action: Action,
        /// Answers that led to nothing, within the window, at which a client is suspected.
        #[setting(default = 100, min = 1, max = 1_000_000)]
        pub threshold: u32,
        /// Seconds, at most, for which an answer counts that leads to nothing; half of them at least.
        #[setting(default = 60, min = 2, max = 86_400)]
        pub window_s: u64,
        /// Seconds for which a suspected client's questions are dropped.
        #[setting(default = 600, min = 1, max = 86_400)]
        pub block_s: u64,
        /// Clients watched at once; others are not.
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub clients: u32,
        /// Answers that wait for a use, and pairs of a client and a server it has asked, at once;
        /// others are not counted.
        #[setting(default = 262_144, min = 1, max = 16_777_216)]
        pub answers: u32,
    }

    pub enum Action {
        /// They are dropped.
        Block,
        /// They pass; the log says who is suspected.
        Report,
    }

    pub enum Reason {
        /// A question of a client that is suspected of a tunnel.
        Tunnel,
    }

    pub enum Address {
        V4(Ipv4Addr),
        V6(Ipv6Addr),
    }

    pub struct Client {
        /// In `idle`.
        place: u32,
        /// The last half window that was looked at, and answers of that and the one before that led
        /// to nothing.
        half: u32,
        useless: u32,
        useless_before: u32,
        /// Until when its questions are dropped, nanoseconds since 1970.
        suspect_until_ns: u64,
    }

    /// An address that a client was told.
    pub struct Told {
        client: Address,
        address: Address,
    }

    /// An answer that waits for its use.
    pub struct Answer {
        /// In `waiting`.
        place: u32,
        /// When it came, in half windows.
        half: u32,
    }

    /// Who has asked whom.
    pub struct Asked {
        client: Address,
        server: Address,
    }

    /// What a datagram from port 53 says.
    pub enum Message {
        Other,
        /// An answer without an address.
        Useless,
        V4(u32),
        V6(u128),
    }

    const DNS: u16 = 53;
    const TYPE_A: u16 = 1;
    const TYPE_AAAA: u16 = 28;
    /// Labels of a name: 255 bytes with a length each (RFC 1035, section 2.3.4).
    const LABELS: u32 = 128;
    /// Records looked at: aliases come before the address.
    const RECORDS: u32 = 16;
    const NS_PER_S: u64 = 1_000_000_000;
    /// For how long an answer is waited for: twice what resolvers wait (resolv.conf(5)).
    const ASKED_NS: u64 = 10 * NS_PER_S;

    pub struct DnsTunnel {
        settings: Settings,
        #[capacity(settings.clients)]
        clients: Map<Address, Client>,
        /// When clients are to be forgotten.
        #[capacity(settings.clients)]
        #[expired(forget_client)]
        idle: Allocator<Address>,
        /// Answers that wait for their use, by client and address.
        #[capacity(settings.answers)]
        told: Map<Told, Answer>,
        /// When they are to be forgotten.
        #[capacity(settings.answers)]
        #[expired(forget_told)]
        waiting: Allocator<Told>,
        /// Who has asked whom of late, in `questions`.
        #[capacity(settings.answers)]
        asked: Map<Asked, u32>,
        /// When that is to be forgotten.
        #[capacity(settings.answers)]
        #[expired(forget_asked)]
        questions: Allocator<Asked>,
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

    fn byte(message: &[u8], at: usize) -> u8 {
        message.get(at).map_or(0, |found| *found)
    }

    fn word(message: &[u8], at: usize) -> u16 {
        u16::from_be_bytes([byte(message, at), byte(message, at + 1)])
    }

    /// `count` bytes as a number.
    fn number(message: &[u8], at: usize, count: usize) -> u128 {
        let mut sum = 0;
        for position in 0..count {
            sum = (sum << 8) | u128::from(byte(message, at + position));
        }
        sum
    }

    /// Where the name that begins at `start` ends; it may end with a pointer (RFC 1035, 4.1.4).
    fn after_name(message: &[u8], start: usize) -> usize {
        let mut at = start;
        for _ in 0..LABELS {
            let length = byte(message, at);
            if length >= 0xc0 {
                return at + 2;
            }
            if length == 0 {
                return at + 1;
            }
            at += 1 + usize::from(length);
        }
        at
    }

    /// What a DNS message says, as far as it is of interest here.
    #[opaque]
    pub fn read(message: &[u8]) -> Message {
        let is_response = byte(message, 2) & 0xf8 == 0x80;
        if message.len() < 12 || !is_response || word(message, 4) != 1 {
            return Message::Other;
        }
        let answers = u32::from(word(message, 6)).min(RECORDS);
        let mut at = after_name(message, 12) + 4;
        for _ in 0..answers {
            let record = after_name(message, at);
            let (kind, length) = (word(message, record), word(message, record + 8));
            at = record + 10 + usize::from(length);
            if at > message.len() {
                return Message::Useless;
            }
            if kind == TYPE_A && length == 4 {
                return Message::V4(number(message, record + 10, 4) as u32);
            }
            if kind == TYPE_AAAA && length == 16 {
                return Message::V6(number(message, record + 10, 16));
            }
        }
        Message::Useless
    }

    /// Counts of this half window and the last, when `passed` more are over.
    #[opaque]
    fn aged(passed: u32, count: u32, count_before: u32) -> (u32, u32) {
        match passed {
            0 => (count, count_before),
            1 => (0, count),
            _ => (0, 0),
        }
    }

    impl Client {
        /// In a later half window.
        fn in_half(self, half: u32) -> Client {
            let passed = half.saturating_sub(self.half);
            let (useless, useless_before) = aged(passed, self.useless, self.useless_before);
            let (place, suspect_until_ns) = (self.place, self.suspect_until_ns);
            Client { place, half: self.half.max(half), useless, useless_before, suspect_until_ns }
        }
    }

    impl DnsTunnel {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if pkt.port() == WAN {
                if let Some(udp) = pkt.udp()
                    && udp.src() == DNS
                {
                    self.answered(pkt, cx);
                }
                return Forward(LAN);
            }
            let Some(client) = source_of(pkt) else { return Forward(WAN) };
            if pkt.dst_port() == Some(DNS) && self.is_blocked(client, cx) {
                return Drop(Reason::Tunnel);
            }
            let Some(address) = destination_of(pkt) else { return Forward(WAN) };
            if let Some(udp) = pkt.udp()
                && udp.dst() == DNS
            {
                self.ask(Asked { client, server: address }, cx);
            }
            self.used(Told { client, address }, cx);
            Forward(WAN)
        }

        fn ask(&mut self, asked: Asked, cx: &mut Context) {
            if let Some(place) = self.asked.get(&asked)
                && self.questions.refresh(place, ASKED_NS, cx)
            {
                return;
            }
            if let Some(place) = self.questions.allocate(asked, ASKED_NS, cx)
                && !self.asked.insert(asked, place)
            {
                self.questions.free(place);
            }
        }

        fn has_asked(&self, asked: Asked, cx: &Context) -> bool {
            self.asked.get(&asked).is_some_and(|place| self.questions.is_allocated(place, cx))
        }

        fn half(&self, cx: &Context) -> u32 {
            (cx.now() / (self.settings.window_s * NS_PER_S / 2)) as u32
        }

        /// What is known of a client, unless its time is over.
        fn known(&self, address: Address, cx: &Context) -> Option<Client> {
            let client = self.clients.get(&address)?;
            if !self.idle.is_allocated(client.place, cx) {
                return None;
            }
            Some(client.in_half(self.half(cx)))
        }

        fn is_blocked(&self, client: Address, cx: &Context) -> bool {
            self.settings.action == Action::Block
                && self.known(client, cx).is_some_and(|client| cx.now() < client.suspect_until_ns)
        }

        /// A client talks to an address: if it was told this, the answer has led to something.
        fn used(&mut self, told: Told, cx: &mut Context) {
            let Some(answer) = self.told.remove(&told) else { return };
            self.waiting.free(answer.place);
            let Some(mut client) = self.known(told.client, cx) else { return };
            match client.half.saturating_sub(answer.half) {
                0 => client.useless = client.useless.saturating_sub(1),
                1 => client.useless_before = client.useless_before.saturating_sub(1),
                _ => {}
            }
            self.clients.insert(told.client, client);
        }

        fn answered(&mut self, pkt: &Packet, cx: &mut Context) {
            let Some(client) = destination_of(pkt) else { return };
            let Some(server) = source_of(pkt) else { return };
            if !self.has_asked(Asked { client, server }, cx) {
                return;
            }
            match read(pkt.payload()) {
                Message::Other => {}
                Message::Useless => self.count(client, cx),
                Message::V4(bits) => {
                    let address = Address::V4(Ipv4Addr::from(bits));
                    self.tell(Told { client, address }, cx);
                }
                Message::V6(bits) => {
                    let address = Address::V6(Ipv6Addr::from(bits));
                    self.tell(Told { client, address }, cx);
                }
            }
        }

        /// A client is told an address, which it may not have been told already.
        fn tell(&mut self, told: Told, cx: &mut Context) {
            let lifetime_ns = self.settings.window_s * NS_PER_S;
            if let Some(answer) = self.told.get(&told)
                && self.waiting.refresh(answer.place, lifetime_ns, cx)
            {
                return;
            }
            let Some(place) = self.waiting.allocate(told, lifetime_ns, cx) else { return };
            if self.told.insert(told, Answer { place, half: self.half(cx) }) {
                self.count(told.client, cx);
            } else {
                self.waiting.free(place);
            }
        }

        /// Counts an answer that has led to nothing so far.
        fn count(&mut self, address: Address, cx: &mut Context) {
            let known = self.known(address, cx);
            let found = if known.is_some() { known } else { self.watch(address, cx) };
            let Some(mut client) = found else { return };
            client.useless += 1;
            let is_known = cx.now() < client.suspect_until_ns;
            let sum = client.useless + client.useless_before;
            if sum >= self.settings.threshold && !is_known {
                client.suspect_until_ns = cx.now() + self.settings.block_s * NS_PER_S;
                match address {
                    Address::V4(address) => log!(cx, warn, "{} seems to tunnel", address),
                    Address::V6(address) => log!(cx, warn, "{} seems to tunnel", address),
                }
            }
            self.idle.refresh(client.place, self.memory_ns(), cx);
            self.clients.insert(address, client);
        }

        /// As long as anything known of a client can matter.
        fn memory_ns(&self) -> u64 {
            self.settings.window_s.max(self.settings.block_s) * NS_PER_S
        }

        /// Begins to watch a client, if there is room.
        fn watch(&mut self, address: Address, cx: &mut Context) -> Option<Client> {
            let place = self.idle.allocate(address, self.memory_ns(), cx)?;
            let half = self.half(cx);
            let client = Client { place, half, useless: 0, useless_before: 0, suspect_until_ns: 0 };
            if self.clients.insert(address, client) {
                return Some(client);
            }
            self.idle.free(place);
            None
        }

        fn forget_client(&mut self, index: u32, address: Address, cx: &mut Context) {
            if self.clients.get(&address).is_some_and(|client| client.place == index) {
                self.clients.remove(&address);
            }
        }

        fn forget_asked(&mut self, index: u32, asked: Asked, cx: &mut Context) {
            if self.asked.get(&asked).is_some_and(|place| place == index) {
                self.asked.remove(&asked);
            }
        }

        fn forget_told(&mut self, index: u32, told: Told, cx: &mut Context) {
            if self.told.get(&told).is_some_and(|answer| answer.place == index) {
                self.told.remove(&told);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::dns_tunnel::{self, Message};
    use crate::frames::{datagram, tcp, udp};
    use anabranch_nf::packet::craft::tcp_flags::SYN;
    use anabranch_runtime::testing::Harness;
    use proptest::prelude::*;

    const LAN: u8 = 0;
    const WAN: u8 = 1;
    const SECOND: u64 = 1_000_000_000;
    const CLIENTS: [&str; 2] = ["10.0.0.1", "[fd00::1]"];
    const SERVERS: [&str; 2] = ["198.51.100.53:53", "[2001:db8::53]:53"];
    const NAME: &[u8] = b"\x07example\x03com\x00";

    /// A response to a question for [`NAME`], with records of these types and contents.
    fn response(records: &[(u16, &[u8])]) -> Vec<u8> {
        let mut message = vec![0x12, 0x34, 0x81, 0x80, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
        message.extend_from_slice(NAME);
        message.extend_from_slice(&[0, 1, 0, 1]);
        for (kind, content) in records {
            message.extend_from_slice(&[0xc0, 12]);
            message.extend_from_slice(&kind.to_be_bytes());
            message.extend_from_slice(&[0, 1, 0, 0, 0, 60, 0, content.len() as u8]);
            message.extend_from_slice(content);
        }
        message
    }

    struct Watched(Harness<dns_tunnel::Function>, usize);

    impl Watched {
        fn new(settings: &[&str]) -> Self {
            Self(Harness::new(settings), 0)
        }

        /// The client asks, if it may, and hears this.
        fn hears(&mut self, message: &[u8]) {
            self.asks();
            self.is_told(message);
        }

        fn is_told(&mut self, message: &[u8]) {
            let frame = datagram(SERVERS[self.1], &format!("{}:999", CLIENTS[self.1]), message);
            assert_eq!(self.0.send(WAN, &frame).forwarded(), [(LAN, frame.clone())]);
        }

        /// Whether the client may ask.
        fn asks(&mut self) -> bool {
            let frame = udp(&format!("{}:999", CLIENTS[self.1]), SERVERS[self.1]);
            let outcome = self.0.send(LAN, &frame);
            assert!(outcome.dropped().is_none_or(|reason| reason == "tunnel"));
            outcome.dropped().is_none()
        }

        fn talks_to(&mut self, peer: &str) {
            let frame = tcp(&format!("{}:999", CLIENTS[self.1]), peer, SYN);
            assert_eq!(self.0.send(LAN, &frame).forwarded(), [(WAN, frame.clone())]);
        }
    }

    #[test]
    fn useless_answers_are_a_tunnel() {
        for version in 0..2 {
            for records in [&[][..], &[(16, &b"\x04data"[..])], &[(10, &[1; 200])]] {
                let mut nf = Watched::new(&["threshold=10"]);
                nf.1 = version;
                for _ in 0..9 {
                    nf.hears(&response(records));
                    assert!(nf.asks());
                }
                nf.hears(&response(records));
                assert!(!nf.asks());
                let client = CLIENTS[version].trim_matches(['[', ']']);
                assert_eq!(nf.0.logged(), [format!("{client} seems to tunnel")]);
                nf.talks_to(["198.51.100.1:80", "[2001:db8::1]:80"][version]);
            }
        }
    }

    #[test]
    fn answers_that_are_used_are_none() {
        let mut nf = Watched::new(&["threshold=3"]);
        for host in 0..100 {
            let alias = NAME;
            nf.hears(&response(&[(5, alias), (1, &[198, 51, 100, host]), (1, &[192, 0, 2, 1])]));
            nf.talks_to(&format!("198.51.100.{host}:443"));
            assert!(nf.asks());
        }
        assert_eq!((nf.0.table("clients").used, nf.0.table("told").used), (1, 0));
        nf.1 = 1;
        for host in 0..100u8 {
            let mut address = [0; 16];
            address[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
            address[15] = host;
            nf.hears(&response(&[(28, &address)]));
            nf.talks_to(&format!("[2001:db8::{host:x}]:443"));
            assert!(nf.asks());
        }
    }

    #[test]
    fn the_same_answer_counts_once() {
        let mut nf = Watched::new(&["threshold=2"]);
        for _ in 0..50 {
            nf.hears(&response(&[(1, &[198, 51, 100, 1])]));
            assert!(nf.asks());
        }
        nf.hears(&response(&[(1, &[198, 51, 100, 2])]));
        assert!(!nf.asks());
    }

    #[test]
    fn what_is_older_than_the_window_does_not_count() {
        let mut nf = Watched::new(&["threshold=10", "window_s=60"]);
        for number in 0..600 {
            // Nine within any sixty seconds.
            nf.0.at(number * 7 * SECOND);
            nf.hears(&response(&[]));
            assert!(nf.asks(), "{number}");
        }
        for number in 0..10 {
            nf.0.at((4_200 + number * 3) * SECOND);
            nf.hears(&response(&[]));
        }
        assert!(!nf.asks(), "ten within thirty");
    }

    #[test]
    fn a_client_may_ask_again_after_a_while() {
        let mut nf = Watched::new(&["threshold=3", "block_s=600"]);
        for _ in 0..3 {
            nf.hears(&response(&[]));
        }
        nf.0.at(600 * SECOND - 1);
        assert!(!nf.asks());
        nf.0.at(602 * SECOND);
        assert!(nf.asks());
        nf.0.at(1_300 * SECOND);
        assert!(nf.asks());
        assert_eq!(nf.0.table("clients").used, 0);
    }

    #[test]
    fn a_report_drops_nothing() {
        let mut nf = Watched::new(&["threshold=3", "action=report"]);
        for _ in 0..30 {
            nf.hears(&response(&[]));
            assert!(nf.asks());
        }
        assert_eq!(nf.0.logged().len(), 1);
    }

    #[test]
    fn answers_that_nobody_asked_for_do_not_count() {
        for version in 0..2 {
            let mut nf = Watched::new(&["threshold=2"]);
            nf.1 = version;
            let host = CLIENTS[version];
            let other = ["198.51.100.54:53", "[2001:db8::54]:53"][version];
            for question in [
                udp(&format!("{host}:999"), other),
                tcp(&format!("{host}:999"), SERVERS[version], SYN),
                udp(&format!("{}:999", ["10.0.0.2", "[fd00::2]"][version]), SERVERS[version]),
            ] {
                nf.0.send(LAN, &question);
            }
            (0..50).for_each(|_| nf.is_told(&response(&[])));
            assert!(nf.asks());
            nf.0.at(11 * SECOND);
            (0..50).for_each(|_| nf.is_told(&response(&[(1, &[198, 51, 100, 1])])));
            assert!(nf.asks(), "too late");
            (0..2).for_each(|_| nf.is_told(&response(&[])));
            assert!(!nf.asks());
        }
    }

    #[test]
    fn what_is_no_answer_does_not_count() {
        let mut nf = Watched::new(&["threshold=1"]);
        let question = {
            let mut one = response(&[]);
            one[2] = 1;
            one
        };
        for message in [&question[..], &[], &[0x81; 11], &[0xff; 40]] {
            nf.hears(message);
            assert!(nf.asks(), "{message:?}");
        }
        let elsewhere = datagram("198.51.100.53:5353", "10.0.0.1:999", &response(&[]));
        nf.0.send(WAN, &elsewhere);
        assert!(nf.asks());
        nf.hears(&response(&[]));
        assert!(!nf.asks(), "and this is one");
    }

    proptest! {
        /// A response is read for what it says, and cut anywhere it says less.
        #[test]
        fn any_response_is_read(
            address: [u8; 4],
            address6: [u8; 16],
            aliases in 0usize..20,
            cut: usize,
        ) {
            let records = |last| [vec![(5, NAME); aliases], vec![last]].concat();
            let (v4, v6) = (response(&records((1, &address))), response(&records((28, &address6))));
            // No more than sixteen records are looked at.
            let (told, told6) = (u32::from_be_bytes(address), u128::from_be_bytes(address6));
            let expected = match aliases < 16 {
                true => (Message::V4(told), Message::V6(told6)),
                false => (Message::Useless, Message::Useless),
            };
            prop_assert_eq!((dns_tunnel::read(&v4), dns_tunnel::read(&v6)), expected);
            for whole in [v4, v6] {
                let cut = cut % whole.len();
                let has_header = cut >= 12;
                let less = if has_header { Message::Useless } else { Message::Other };
                prop_assert_eq!(dns_tunnel::read(&whole[..cut]), less);
            }
        }

        /// With bytes changed at will, an address that is read stands in the message.
        #[test]
        fn any_message_is_read(
            changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..5),
        ) {
            let mut message = response(&[(5, NAME), (1, &[192, 0, 2, 7]), (28, &[7; 16])]);
            let is_told = |message: &[u8], bytes: &[u8]| {
                let mut contents = message.windows(bytes.len() + 2).skip(12);
                let length = [0, bytes.len() as u8];
                contents.any(|content| content[..2] == length && content[2..] == *bytes)
            };
            for (at, value) in changes {
                let at = at % message.len();
                message[at] = value;
            }
            let is_response = message[2] & 0xf8 == 0x80 && message[4..6] == [0, 1];
            match dns_tunnel::read(&message) {
                Message::V4(bits) => prop_assert!(is_told(&message, &bits.to_be_bytes())),
                Message::V6(bits) => prop_assert!(is_told(&message, &bits.to_be_bytes())),
                Message::Useless => {}
                Message::Other => prop_assert!(!is_response),
            }
            prop_assert!(is_response || dns_tunnel::read(&message) == Message::Other);
        }
    }
}

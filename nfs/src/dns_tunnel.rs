//! Detects tunnels through the domain name system, by answers that are put to no use.
//!
//! A host asks for a name in order to talk to the address it gets. A tunnel asks for names that carry
//! data, and has no use for the answers. The function notes each answer of a name server that comes to
//! a client on `lan`, and takes it off again when the client sends anything to the address that it
//! tells; a client to whom `threshold` answers have come in the last `window_s` seconds that led to
//! nothing is suspected of a tunnel. (The DNS tunnel detector of the NFork paper, which has it from
//! Arashloo et al., "SNAP: Stateful Network-Wide Abstractions for Packet Processing", 2016, and they
//! from Borders et al., "Chimera", 2012. There the count never ages; here it is of a window.)
//!
//! An answer is a UDP datagram from port 53 that is a DNS response (RFC 1035, section 4) to one
//! question. What counts is the first A or AAAA record of its answers; an answer without (another
//! type, an error, nothing at all) is of no use from the start. An address that is told again while it
//! waits counts once. Ordinary hosts collect some, by browsers that resolve ahead and by asking for
//! both IP versions: 100 a minute leaves room for them, and a tunnel of 100 answers a minute carries
//! under a kilobyte a second.
//!
//! With `action = "block"`, a suspected client's packets to port 53 (UDP and TCP) are dropped for
//! `block_s` seconds; with `action = "report"` the log says so, once in that time. Everything else
//! passes, over IPv4 and IPv6.
//!
//! Not done: DNS over TCP, TLS or HTTPS is not read; a name server on `lan` that resolves for others
//! is taken for a client of many useless answers, and has to stand on the other side; answers are
//! not matched with questions, so that who can forge them can have a client suspected. Fragments but
//! the first are not read. Where the tables are full, answers are not counted.

use anabranch_nf::prelude::*;

pub use dns_tunnel::Function;

/// Detects tunnels through DNS: clients on `lan` that put most answers of name servers to no use
/// (as in SNAP, Arashloo et al. 2016), and blocks their questions or reports them.
#[network_function(ports(lan, wan))]
pub mod dns_tunnel {
    pub struct Settings {
        /// What becomes of a suspected client's questions.
        #[setting(default = Action::Block)]
        pub action: Action,
        /// Answers that led to nothing, within the window, at which a client is suspected.
        #[setting(default = 100, min = 1, max = 1_000_000)]
        pub threshold: u32,
        /// Seconds for which an answer counts that leads to nothing.
        #[setting(default = 60, min = 1, max = 86_400)]
        pub window_s: u64,
        /// Seconds for which a suspected client's questions are dropped.
        #[setting(default = 600, min = 1, max = 86_400)]
        pub block_s: u64,
        /// Clients watched at once; others are not.
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub clients: u32,
        /// Answers that wait for a use at once; others are not counted.
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
        /// Answers that wait for a use.
        waiting: u32,
        is_suspect: bool,
    }

    /// An address that a client was told.
    pub struct Told {
        client: Address,
        address: Address,
    }

    /// What a client is remembered for: that it was told an address, an answer without one (its
    /// `address` means nothing), or a suspicion (the same).
    pub struct Entry {
        kind: Kind,
        told: Told,
    }

    pub enum Kind {
        Answer,
        Useless,
        Suspicion,
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

    pub struct DnsTunnel {
        settings: Settings,
        #[capacity(settings.clients)]
        clients: Map<Address, Client>,
        /// Answers that wait for a use, by client and address.
        #[capacity(settings.answers)]
        told: Map<Told, u32>,
        /// When entries are over.
        #[capacity(settings.answers)]
        #[expired(over)]
        entries: Allocator<Entry>,
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
            if pkt.dst_port() == Some(DNS) && self.is_blocked(client) {
                return Drop(Reason::Tunnel);
            }
            if let Some(address) = destination_of(pkt) {
                self.used(Told { client, address });
            }
            Forward(WAN)
        }

        fn is_blocked(&self, client: Address) -> bool {
            self.settings.action == Action::Block
                && self.clients.get(&client).is_some_and(|client| client.is_suspect)
        }

        /// A client talks to an address: if it was told this, the answer has led to something.
        fn used(&mut self, told: Told) {
            if let Some(entry) = self.told.remove(&told) {
                self.entries.free(entry);
                self.drop_answer(told.client);
            }
        }

        fn answered(&mut self, pkt: &Packet, cx: &mut Context) {
            let Some(client) = destination_of(pkt) else { return };
            match read(pkt.payload()) {
                Message::Other => {}
                Message::Useless => self.add_useless(client, cx),
                Message::V4(bits) => {
                    let address = Address::V4(Ipv4Addr::from(bits));
                    self.add_told(Told { client, address }, cx);
                }
                Message::V6(bits) => {
                    let address = Address::V6(Ipv6Addr::from(bits));
                    self.add_told(Told { client, address }, cx);
                }
            }
        }

        fn add_useless(&mut self, client: Address, cx: &mut Context) {
            let lifetime_ns = self.settings.window_s * NS_PER_S;
            let entry = Entry { kind: Kind::Useless, told: Told { client, address: client } };
            if let Some(index) = self.entries.allocate(entry, lifetime_ns, cx)
                && !self.add_answer(client, cx)
            {
                self.entries.free(index);
            }
        }

        fn add_told(&mut self, told: Told, cx: &mut Context) {
            let lifetime_ns = self.settings.window_s * NS_PER_S;
            if let Some(entry) = self.told.get(&told) {
                self.entries.refresh(entry, lifetime_ns, cx);
                return;
            }
            let entry = Entry { kind: Kind::Answer, told };
            let Some(index) = self.entries.allocate(entry, lifetime_ns, cx) else { return };
            if !self.told.insert(told, index) || !self.add_answer(told.client, cx) {
                self.told.remove(&told);
                self.entries.free(index);
            }
        }

        /// Counts an answer that waits for a use; false where there is no room for the client.
        fn add_answer(&mut self, address: Address, cx: &mut Context) -> bool {
            let known = self.clients.get(&address);
            let client = known.unwrap_or(Client { waiting: 0, is_suspect: false });
            let waiting = client.waiting + 1;
            let is_caught = !client.is_suspect && waiting >= self.settings.threshold;
            let is_suspect = client.is_suspect || (is_caught && self.suspect(address, cx));
            self.clients.insert(address, Client { waiting, is_suspect })
        }

        /// Remembers and tells that a client is suspected; false where there is no room.
        fn suspect(&mut self, address: Address, cx: &mut Context) -> bool {
            let lifetime_ns = self.settings.block_s * NS_PER_S;
            match address {
                Address::V4(address) => log!(cx, warn, "{} seems to tunnel", address),
                Address::V6(address) => log!(cx, warn, "{} seems to tunnel", address),
            }
            let told = Told { client: address, address };
            self.entries.allocate(Entry { kind: Kind::Suspicion, told }, lifetime_ns, cx).is_some()
        }

        fn drop_answer(&mut self, address: Address) {
            if let Some(client) = self.clients.get(&address) {
                self.keep(address, client.waiting.saturating_sub(1), client.is_suspect);
            }
        }

        /// Keeps a client as long as there is something to remember it for.
        fn keep(&mut self, address: Address, waiting: u32, is_suspect: bool) {
            if waiting == 0 && !is_suspect {
                self.clients.remove(&address);
            } else {
                self.clients.insert(address, Client { waiting, is_suspect });
            }
        }

        fn over(&mut self, index: u32, entry: Entry, cx: &mut Context) {
            match entry.kind {
                Kind::Answer => {
                    self.told.remove(&entry.told);
                    self.drop_answer(entry.told.client);
                }
                Kind::Useless => self.drop_answer(entry.told.client),
                Kind::Suspicion => {
                    if let Some(client) = self.clients.get(&entry.told.client) {
                        self.keep(entry.told.client, client.waiting, false);
                    }
                }
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

        fn hears(&mut self, message: &[u8]) {
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
        assert_eq!((nf.0.table("clients").used, nf.0.table("entries").used), (0, 0));
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
        for second in 0..600 {
            // Nine within any sixty seconds.
            nf.0.at(second * 7 * SECOND);
            nf.hears(&response(&[]));
            assert!(nf.asks(), "{second}");
        }
        assert_eq!(nf.0.table("clients").used, 1);
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
        let elsewhere = datagram("198.51.100.1:5353", "10.0.0.1:999", &response(&[]));
        nf.0.send(WAN, &elsewhere);
        assert!(nf.asks());
    }

    proptest! {
        /// Cut, changed and random messages: what is read is an address only where there is one.
        #[test]
        fn any_message_is_read(
            mut message in prop::collection::vec(any::<u8>(), 0..300),
            cut in 0usize..60,
            is_random in any::<bool>(),
        ) {
            let whole = response(&[(5, NAME), (1, &[192, 0, 2, 7])]);
            if !is_random {
                message = whole[..whole.len().saturating_sub(cut)].to_vec();
            }
            match dns_tunnel::read(&message) {
                Message::V4(bits) => {
                    let bytes = bits.to_be_bytes();
                    prop_assert!(message.windows(4).any(|window| window == bytes));
                    prop_assert!(is_random || cut == 0);
                }
                Message::V6(bits) => {
                    let bytes = bits.to_be_bytes();
                    prop_assert!(message.windows(16).any(|window| window == bytes));
                }
                Message::Useless | Message::Other => prop_assert!(is_random || cut > 0),
            }
        }
    }
}

//! Detects stolen HTTP sessions: one session, asked for by more than one client.
//!
//! A web server knows a session by a cookie. Who reads it on the way can use it, and on unencrypted
//! networks that takes no skill (sidejacking). The function remembers from which address each session
//! cookie was first sent to a server, and takes a request from another address with the same cookie to
//! the same server for stolen. (The sidejacking detector of the NFork paper's table 6, which is that of
//! Borders et al., "Chimera: A Declarative Language for Streaming Network Traffic Analysis", 2012.)
//!
//! A request is a TCP segment from `clients` whose payload begins with an HTTP method (RFC 9110, section 9;
//! seven of them, without CONNECT and TRACE; an empty line before it is passed over, as servers do) and
//! holds `Cookie` fields (RFC 6265, section 4.2). Its session is the first cookie whose name contains
//! `sess` or is `sid`, in capitals or not, with a value of at least eight bytes: `PHPSESSID`, `JSESSIONID`,
//! `ASP.NET_SessionId`, `session`, `connect.sid`. A session is remembered by a hash of 64 bits of name,
//! value and server; the cookie itself is not kept, and how it is written (blanks, quotation marks) makes
//! no difference. (Tried between real hosts with sessions of `nginx` in the cookies of `curl`.)
//!
//! With `action = "block"`, requests with a stolen session are dropped, so that the thief's first
//! request comes to nothing; with `action = "report"` they pass. The log tells both addresses either
//! way. A session is forgotten when its client has not used it for `session_s`. All else passes, over
//! IPv4 and IPv6.
//!
//! Not done: nothing of TLS can be read (use it, and nobody sidejacks). Clients behind one address
//! are one; a client that changes its address (from Wi-Fi to mobile, say) looks like a thief: leave
//! `action = "report"` where such are common. Requests are read within one segment and its first 4096
//! bytes; of a cookie that does not end there (with `;` or its line) too little is known. A thief who
//! puts a session of his own before the stolen one is known by that. Sessions that find the table full
//! are not watched.

use anabranch_nf::prelude::*;

pub use sidejacking::Function;

/// Detects HTTP sessions that are used from a second address (sidejacking, as in Chimera, Borders et
/// al. 2012), and blocks such requests or reports them.
#[network_function(ports(clients, servers), layer = 4)]
pub mod sidejacking {
    pub struct Settings {
        /// What becomes of requests with a session that belongs to another client.
        #[setting(default = Action::Block)]
        pub action: Action,
        /// Seconds without a request after which a session is forgotten.
        #[setting(default = 1_800, min = 1, max = 604_800)]
        pub session_s: u64,
        /// Sessions watched at once; others are not.
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub sessions: u32,
    }

    pub enum Action {
        /// They are dropped.
        Block,
        /// They pass; the log says who is suspected.
        Report,
    }

    pub enum Reason {
        /// A request with the session of another client.
        StolenSession,
    }

    pub enum Address {
        V4(Ipv4Addr),
        V6(Ipv6Addr),
    }

    /// Whose a session is.
    pub struct Session {
        client: Address,
        /// In `uses`.
        place: u32,
    }

    /// Bytes of a request that are looked at.
    const LONGEST: usize = 4_096;
    /// Bytes of a value that make it a session's: shorter ones are flags and counters.
    const SHORTEST_VALUE: usize = 8;
    /// `Cookie` fields that are looked at: browsers send one, servers take several for one.
    const FIELDS: u32 = 8;
    const NS_PER_S: u64 = 1_000_000_000;
    /// The hash of nothing, and what it is multiplied with (Fowler, Noll and Vo, 64 bits, variant 1a).
    const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
    const HASH_FACTOR: u64 = 0x0100_0000_01b3;

    pub struct Sidejacking {
        settings: Settings,
        /// By a hash of cookie and server.
        #[capacity(settings.sessions)]
        sessions: Map<u64, Session>,
        /// When a session is to be forgotten.
        #[capacity(settings.sessions)]
        #[expired(forget)]
        uses: Allocator<u64>,
    }

    fn source_of(pkt: &Packet) -> Option<Address> {
        if let Some(ip) = pkt.ipv4() {
            return Some(Address::V4(ip.src()));
        }
        Some(Address::V6(pkt.ipv6()?.src()))
    }

    fn server_of(pkt: &Packet) -> u128 {
        if let Some(ip) = pkt.ipv4() {
            return u128::from(u32::from(ip.dst()));
        }
        pkt.ipv6().map_or(0, |ip| u128::from(ip.dst()))
    }

    fn byte(text: &[u8], at: usize) -> u8 {
        text.get(at).map_or(0, |found| *found)
    }

    /// A letter made small; other characters may become others.
    fn small(text: &[u8], at: usize) -> u8 {
        byte(text, at) | 0x20
    }

    fn is_request(text: &[u8]) -> bool {
        text.starts_with(b"GET ")
            || text.starts_with(b"POST ")
            || text.starts_with(b"PUT ")
            || text.starts_with(b"HEAD ")
            || text.starts_with(b"PATCH ")
            || text.starts_with(b"DELETE ")
            || text.starts_with(b"OPTIONS ")
    }

    /// Where the value of the next `Cookie` field begins, if there is one.
    fn cookies_at(text: &[u8], from: usize) -> Option<usize> {
        for at in from..LONGEST {
            if at >= text.len() {
                return None;
            }
            if byte(text, at) == b'\n' && is_cookie_field(text, at + 1) {
                return Some(at + 8);
            }
            // An empty line ends the fields.
            if byte(text, at) == b'\n' && matches!(byte(text, at + 1), b'\r' | b'\n') {
                return None;
            }
        }
        None
    }

    fn is_cookie_field(text: &[u8], at: usize) -> bool {
        let first = [small(text, at), small(text, at + 1), small(text, at + 2)];
        let last = [small(text, at + 3), small(text, at + 4), small(text, at + 5)];
        first == [b'c', b'o', b'o'] && last == [b'k', b'i', b'e'] && byte(text, at + 6) == b':'
    }

    /// Whether the name from `from` to `to` is that of a session.
    fn names_session(text: &[u8], from: usize, to: usize) -> bool {
        for at in from..to {
            let four =
                [small(text, at), small(text, at + 1), small(text, at + 2), small(text, at + 3)];
            if at + 4 <= to && four == [b's', b'e', b's', b's'] {
                return true;
            }
            let three = [four[0], four[1], four[2]];
            let is_whole = at == from || byte(text, at - 1) == b'.';
            if is_whole && at + 3 == to && three == [b's', b'i', b'd'] {
                return true;
            }
        }
        false
    }

    fn is_blank(letter: u8) -> bool {
        matches!(letter, b' ' | b'\t')
    }

    /// Blanks and quotation marks are no part of a name or value (RFC 6265, section 4.1.1), and servers take them
    /// off.
    fn hash(text: &[u8], from: usize, to: usize, start: u64) -> u64 {
        let mut sum = start;
        for at in from..to {
            let letter = byte(text, at);
            if !is_blank(letter) && letter != b'"' {
                sum = (sum ^ u64::from(letter)).wrapping_mul(HASH_FACTOR);
            }
        }
        sum
    }

    /// The hash of the session cookie of a request; 0 where there is none.
    fn session_in(text: &[u8], start: usize) -> u64 {
        let (mut from, mut equals) = (start, 0);
        for at in start..LONGEST {
            // What goes on in the next segment would have another hash each time it is cut.
            if at >= text.len() {
                return 0;
            }
            if matches!(byte(text, at), b';' | b'\r' | b'\n') {
                let long_enough = equals > 0 && at - equals > SHORTEST_VALUE;
                if long_enough && names_session(text, from, equals) {
                    return hash(text, from, at, HASH_START).max(1);
                }
                if byte(text, at) != b';' {
                    return 0;
                }
                equals = 0;
                from = at + 1;
            } else if equals == 0 && byte(text, at) == b'=' {
                equals = at;
            } else if is_blank(byte(text, at)) && at == from {
                from = at + 1;
            }
        }
        0
    }

    /// What a request's session is known by: a hash of its cookie; 0 where it has none.
    #[opaque]
    pub fn session_of(text: &[u8], server: u128) -> u64 {
        let text = if text.starts_with(b"\r\n") { &text[2..] } else { text };
        if !is_request(text) {
            return 0;
        }
        let mut from = 0;
        for _ in 0..FIELDS {
            let Some(at) = cookies_at(text, from) else { return 0 };
            let found = session_in(text, at);
            if found != 0 {
                let folded = (server >> 64) as u64 ^ server as u64;
                return (found ^ folded).wrapping_mul(HASH_FACTOR).rotate_left(23).max(1);
            }
            from = at;
        }
        0
    }

    impl Sidejacking {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if pkt.port() == SERVERS {
                return Forward(CLIENTS);
            }
            if pkt.tcp().is_none() || pkt.payload().len() == 0 {
                return Forward(SERVERS);
            }
            let Some(client) = source_of(pkt) else { return Forward(SERVERS) };
            let key = session_of(pkt.payload(), server_of(pkt));
            if key != 0 && self.is_stolen(key, client, cx) {
                return Drop(Reason::StolenSession);
            }
            Forward(SERVERS)
        }

        /// Whether a request is to be dropped.
        fn is_stolen(&mut self, key: u64, client: Address, cx: &mut Context) -> bool {
            let lifetime_ns = self.settings.session_s * NS_PER_S;
            let Some(session) = self.known(key, cx) else {
                if let Some(place) = self.uses.allocate(key, lifetime_ns, cx)
                    && !self.sessions.insert(key, Session { client, place })
                {
                    self.uses.free(place);
                }
                return false;
            };
            if session.client == client {
                self.uses.refresh(session.place, lifetime_ns, cx);
                return false;
            }
            tell(client, session.client, cx);
            self.settings.action == Action::Block
        }

        /// Whose a session is, unless its time is over.
        fn known(&self, key: u64, cx: &Context) -> Option<Session> {
            let session = self.sessions.get(&key)?;
            if self.uses.is_allocated(session.place, cx) { Some(session) } else { None }
        }

        fn forget(&mut self, index: u32, key: u64, cx: &mut Context) {
            if self.sessions.get(&key).is_some_and(|session| session.place == index) {
                self.sessions.remove(&key);
            }
        }
    }

    #[cold]
    fn tell(thief: Address, owner: Address, cx: &mut Context) {
        match (thief, owner) {
            (Address::V4(thief), Address::V4(owner)) => {
                log!(cx, warn, "{} uses a session of {}", thief, owner)
            }
            (Address::V6(thief), Address::V6(owner)) => {
                log!(cx, warn, "{} uses a session of {}", thief, owner)
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sidejacking;
    use crate::frames::{arp, segment};
    use anabranch_runtime::testing::Harness;
    use proptest::prelude::*;

    const CLIENTS: u8 = 0;
    const SERVERS: u8 = 1;
    const SECOND: u64 = 1_000_000_000;
    const OWNER: [&str; 2] = ["10.0.0.1:999", "[fd00::1]:999"];
    const THIEF: [&str; 2] = ["10.0.0.2:999", "[fd00::2]:999"];
    const SERVER: [&str; 2] = ["198.51.100.7:80", "[2001:db8::7]:80"];

    fn request(cookies: &str) -> Vec<u8> {
        format!("GET /inbox HTTP/1.1\r\nHost: example.com\r\nCookie: {cookies}\r\n\r\n")
            .into_bytes()
    }

    fn sidejacking(settings: &[&str]) -> Harness<sidejacking::Function> {
        Harness::new(settings)
    }

    fn passes(nf: &mut Harness<sidejacking::Function>, ends: (&str, &str), request: &[u8]) -> bool {
        let frame = segment(ends.0, ends.1, request);
        let outcome = nf.send(CLIENTS, &frame);
        match outcome.dropped() {
            None => outcome.forwarded() == [(SERVERS, frame)],
            Some(reason) => {
                assert_eq!(reason, "stolen-session");
                false
            }
        }
    }

    #[test]
    fn a_session_belongs_to_who_had_it_first() {
        for version in 0..2 {
            let mut nf = sidejacking(&[]);
            let (owner, thief) =
                ((OWNER[version], SERVER[version]), (THIEF[version], SERVER[version]));
            let mine = request("lang=en; PHPSESSID=0123456789abcdef; theme=dark");
            let same = request("PHPSESSID=0123456789abcdef");
            assert!(passes(&mut nf, owner, &mine) && passes(&mut nf, owner, &same));
            assert!(!passes(&mut nf, thief, &same), "whatever else is in the field");
            assert!(passes(&mut nf, thief, &request("PHPSESSID=fedcba9876543210")));
            assert!(passes(&mut nf, owner, &mine));
            let address = |end: &str| {
                end.rsplit_once(':').unwrap_or_default().0.trim_matches(['[', ']']).to_owned()
            };
            let line = format!("{} uses a session of {}", address(thief.0), address(owner.0));
            assert_eq!(nf.logged(), [line]);
        }
    }

    #[test]
    fn a_thief_cannot_write_it_otherwise() {
        let known = sidejacking::session_of(&request("sid=0123456789abcdef"), 7);
        for fields in [
            "Cookie: a=b\r\nCookie: sid=0123456789abcdef",
            "Cookie: a=b\r\nAccept: */*\r\ncookie:sid=0123456789abcdef",
            "Cookie:\tsid=0123456789abcdef",
            "Cookie: sid=0123456789abcdef \t",
            "Cookie:  sid=\"0123456789abcdef\" ; a=b",
        ] {
            for before in ["", "\r\n"] {
                let text = format!("{before}GET / HTTP/1.1\r\n{fields}\r\n\r\n");
                assert_eq!(sidejacking::session_of(text.as_bytes(), 7), known, "{text:?}");
            }
        }
        let body = b"POST / HTTP/1.1\r\nCookie: a=b\r\n\r\nCookie: sid=0123456789abcdef\r\n";
        assert_eq!(sidejacking::session_of(body, 7), 0, "what is no field");
    }

    #[test]
    fn servers_are_told_apart() {
        let mut nf = sidejacking(&[]);
        let mine = request("session=0123456789abcdef");
        assert!(passes(&mut nf, (OWNER[0], SERVER[0]), &mine));
        assert!(passes(&mut nf, (THIEF[0], "198.51.100.8:80"), &mine));
        assert!(!passes(&mut nf, (THIEF[0], SERVER[0]), &mine));
    }

    #[test]
    fn a_session_is_forgotten_when_it_is_not_used() {
        let mut nf = sidejacking(&["session_s=60"]);
        let mine = request("connect.sid=s%3A0123456789abcdef");
        for second in [0, 50, 100] {
            nf.at(second * SECOND);
            assert!(passes(&mut nf, (OWNER[0], SERVER[0]), &mine));
        }
        nf.at(159 * SECOND);
        assert!(!passes(&mut nf, (THIEF[0], SERVER[0]), &mine));
        nf.at(162 * SECOND);
        assert!(passes(&mut nf, (THIEF[0], SERVER[0]), &mine), "it is his now");
        assert!(!passes(&mut nf, (OWNER[0], SERVER[0]), &mine));
    }

    #[test]
    fn a_report_drops_nothing() {
        let mut nf = sidejacking(&["action=report"]);
        let mine = request("sid=0123456789abcdef");
        assert!(passes(&mut nf, (OWNER[0], SERVER[0]), &mine));
        assert!(passes(&mut nf, (THIEF[0], SERVER[0]), &mine));
        assert_eq!(nf.logged().len(), 1);
    }

    #[test]
    fn what_is_no_session_is_nobodys() {
        let none = [
            request("lang=en; theme=0123456789abcdef"),
            request("session=short"),
            request("aside=0123456789abcdef"),
            b"SSH-2.0-x\nCookie: sid=0123456789abcdef".to_vec(),
            b"GET / HTTP/1.1\r\n\r\nCookie: sid=0123456789abcdef\r\n".to_vec(),
            b"GET / HTTP/1.1\r\nX-Cookie: sid=0123456789abcdef\r\n\r\n".to_vec(),
            Vec::new(),
        ];
        for request in none {
            assert_eq!(sidejacking::session_of(&request, 7), 0, "{request:?}");
        }
        for cookies in ["ASP.NET_SessionId=abcdefgh", "a=b;jsessionid=abcdefgh", "Sid=abcdefgh"] {
            assert_ne!(sidejacking::session_of(&request(cookies), 7), 0, "{cookies}");
        }
    }

    #[test]
    fn answers_and_what_is_not_tcp_pass() {
        let mut nf = sidejacking(&[]);
        let mine = request("sid=0123456789abcdef");
        for client in [OWNER[0], THIEF[0]] {
            let answer = segment(SERVER[0], client, &mine);
            assert_eq!(nf.send(SERVERS, &answer).forwarded(), [(CLIENTS, answer.clone())]);
        }
        let arp = arp("10.0.0.1", "10.0.0.2");
        assert_eq!(nf.send(CLIENTS, &arp).forwarded(), [(SERVERS, arp.clone())]);
        assert_eq!(nf.table("sessions").used, 0);
    }

    #[test]
    fn a_cookie_that_is_cut_off_is_nobodys() {
        let whole = b"GET / HTTP/1.1\r\nCookie: sid=0123456789abcdef";
        for end in 0..=whole.len() {
            assert_eq!(sidejacking::session_of(&whole[..end], 7), 0, "{end}");
        }
        let known = sidejacking::session_of(&request("sid=0123456789abcdef"), 7);
        for end in [";", "\r", "\n", "; a=b"] {
            let ended = [&whole[..], end.as_bytes()].concat();
            assert_eq!(sidejacking::session_of(&ended, 7), known, "{end:?}");
        }
    }

    #[test]
    fn what_is_past_the_first_4096_bytes_is_not_read() {
        let known = sidejacking::session_of(&request("sid=0123456789abcdef"), 7);
        // The field's name, or the end of the cookie, is moved to where reading ends and past it.
        let fixed = "GET / HTTP/1.1\r\nCookie: a=; sid=0123456789abcdef".len();
        for length in [4_000, 4_094, 4_095, 4_096, 4_097, 8_000] {
            let padding = "x".repeat(length - fixed);
            let among = format!("GET / HTTP/1.1\r\nCookie: a={padding}; sid=0123456789abcdef\r\n");
            let before =
                format!("GET /{padding} HTTP/1.1\r\nCookie: a=; sid=0123456789abcdef\r\n",);
            let expected = if length < 4_096 { known } else { 0 };
            for text in [among, before] {
                assert_eq!(sidejacking::session_of(text.as_bytes(), 7), expected, "{length}");
            }
        }
    }

    proptest! {
        /// Whatever surrounds it, a session cookie is known by its name, value and server alone.
        #[test]
        fn a_session_is_known_by_its_cookie(
            before in "([a-d]{1,5}=[a-z0-9]{0,9}; ){0,4}",
            after in "(; [a-d]{1,5}=[a-z0-9]{0,9}){0,4}",
            value in "[a-zA-Z0-9]{8,40}",
            other in "[a-zA-Z0-9]{8,40}",
        ) {
            let alone = sidejacking::session_of(&request(&format!("sid={value}")), 1);
            let among = request(&format!("{before}sid={value}{after}"));
            prop_assert_eq!(sidejacking::session_of(&among, 1), alone);
            prop_assert_ne!(alone, sidejacking::session_of(&among, 2));
            let changed = sidejacking::session_of(&request(&format!("sid={other}")), 1);
            prop_assert_eq!(changed == alone, value == other);
        }

        /// The oracle takes the text apart as RFC 6265 does; the texts are near misses, mostly.
        #[test]
        fn any_field_is_read(
            method in "(GET|POST|PUT|HEAD|PATCH|DELETE|OPTIONS|TRACE|get|G) ?",
            field in "(\r?\n){0,2}(Cookie|COOKIE|X-Cookie|Cooki):",
            cookies in "( ?(sid|x.Sid|aside|SESSION|a_sess|ses|si)=?[a-f=]{6,9};?){0,3}",
            end in "(\r\n)?",
        ) {
            let text = format!("{method}/ HTTP/1.1{field}{cookies}{end}");
            let methods = ["GET ", "POST ", "PUT ", "HEAD ", "PATCH ", "DELETE ", "OPTIONS "];
            let is_request = methods.iter().any(|method| text.starts_with(method));
            let named = field.trim_start_matches(['\r', '\n']);
            let is_next_line = field.matches('\n').count() == 1;
            let is_field = is_next_line && named.eq_ignore_ascii_case("cookie:");
            let mut ended: Vec<&str> = cookies.split(';').collect();
            if end.is_empty() {
                ended.pop();
            }
            let mut cookies = ended.into_iter().map(|one| one.strip_prefix(' ').unwrap_or(one));
            let session = cookies.find(|one| {
                let (name, value) = one.split_once('=').unwrap_or_default();
                let name = name.to_ascii_lowercase();
                let is_sid = name == "sid" || name.ends_with(".sid");
                (is_sid || name.contains("sess")) && value.len() >= 8
            });
            let found = sidejacking::session_of(text.as_bytes(), 1);
            match session.filter(|_| is_request && is_field) {
                None => prop_assert_eq!(found, 0, "{:?}", text),
                Some(one) => {
                    prop_assert_eq!(found, sidejacking::session_of(&request(one), 1), "{:?}", text);
                    prop_assert_ne!(found, 0, "{:?}", text);
                }
            }
        }
    }
}

//! Detects hosts that do what one family of trojans does: SSH, then three kinds of files, then IRC.
//!
//! A host on `lan` is taken for infected when, in this order and within `window_s` seconds, it uses
//! an SSH connection, its own or another's to it, fetches an HTML page, a ZIP archive and a program
//! over FTP (these three in any order), and talks IRC. The time runs from its last SSH before the
//! first file. Each alone is nobody's business; together, and in this order, they are the signature of
//! De Carli, Sommer and Jha, "Beyond Pattern Matching: A Concurrency Model for Stateful Deep Packet
//! Inspection" (2014), that the CHC and NFork papers measure with. (Tried between real hosts with `ssh`,
//! `curl` at `vsftpd` and `irssi` at `ngircd`, in this order and another.)
//!
//! What counts:
//! - SSH: data that the host sends to port 22, or as a server from it. A host has none to send before
//!   the connection stands (RFC 9293, section 3.10), so that neither the answers to a scan for open
//!   ports nor segments that nobody asked for count; who connects and waits for the greeting does;
//! - FTP: `RETR` commands to port 21 (RFC 959, section 4.1.3) of names that end in `.htm`, `.html`,
//!   `.zip` or `.exe`, in capitals or not;
//! - IRC: segments to any port but 21 that begin with `NICK`, `JOIN` or `PRIVMSG`, in capitals or not (RFC 2812,
//!   section 3), once all else has been seen. `CAP`, `PASS` and `USER` may come before these, and do not count:
//!   POP3 has them too (RFC 1939).
//!
//! With `action = "block"`, all IP packets of an infected host, in both directions, are dropped from
//! then on, until it has sent none for `block_s`; with `action = "report"` the log says so, once.
//! Everything else passes, over IPv4 and IPv6.
//!
//! Not done: a command that is split over segments, FTP over TLS, IRC over TLS; what a file is, is
//! believed of its name. Hosts that find the table full are not watched.

use anabranch_nf::prelude::*;

pub use trojan::Function;

/// Detects hosts on `lan` that open SSH, then fetch HTML, ZIP and EXE files over FTP, then talk IRC
/// (De Carli et al. 2014), and blocks or reports them.
#[network_function(ports(lan, wan), layer = 4)]
pub mod trojan {
    pub struct Settings {
        /// What becomes of an infected host's packets.
        #[setting(default = Action::Block)]
        pub action: Action,
        /// Seconds from the last SSH before the first file within which the rest has to follow.
        #[setting(default = 3_600, min = 1, max = 604_800)]
        pub window_s: u64,
        /// Seconds of its silence after which an infected host is forgotten.
        #[setting(default = 3_600, min = 1, max = 604_800)]
        pub block_s: u64,
        /// Hosts watched at once; others are not.
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub hosts: u32,
    }

    pub enum Action {
        /// They are dropped.
        Block,
        /// They pass; the log says who is infected.
        Report,
    }

    pub enum Reason {
        /// From or to a host that is infected.
        Infected,
    }

    pub enum Address {
        V4(Ipv4Addr),
        V6(Ipv6Addr),
    }

    /// A host that has used SSH.
    pub struct Host {
        /// In `windows`.
        window: u32,
        /// Kinds of files that it has fetched since, one bit each.
        files: u8,
        is_infected: bool,
    }

    const SSH: u16 = 22;
    const FTP: u16 = 21;
    const SYN_OR_RST: u8 = 0x06;
    const HTML: u8 = 1;
    const ZIP: u8 = 2;
    const EXE: u8 = 4;
    const ALL: u8 = 7;
    const NS_PER_S: u64 = 1_000_000_000;

    pub struct Trojan {
        settings: Settings,
        #[capacity(settings.hosts)]
        hosts: Map<Address, Host>,
        /// When hosts are to be forgotten.
        #[capacity(settings.hosts)]
        #[expired(forget)]
        windows: Allocator<Address>,
    }

    /// The address on `lan`.
    fn inside(pkt: &Packet) -> Option<Address> {
        if let Some(ip) = pkt.ipv4() {
            return Some(Address::V4(if pkt.port() == LAN { ip.src() } else { ip.dst() }));
        }
        let ip = pkt.ipv6()?;
        Some(Address::V6(if pkt.port() == LAN { ip.src() } else { ip.dst() }))
    }

    /// A letter of a line, made small; 0 past its end.
    fn letter(line: &[u8], at: usize) -> u8 {
        line.get(at).map_or(0, |found| *found | 0x20)
    }

    /// Whether the line up to `end` ends with `.` and these letters.
    fn ends_with(line: &[u8], end: usize, letters: [u8; 3]) -> bool {
        if end < 4 || line.get(end - 4).map_or(0, |found| *found) != b'.' {
            return false;
        }
        [letter(line, end - 3), letter(line, end - 2), letter(line, end - 1)] == letters
    }

    /// Whether a line begins with a command, in capitals or not, and a space.
    fn begins(line: &[u8], command: &[u8]) -> bool {
        for at in 0..command.len() {
            if letter(line, at) != command[at] {
                return false;
            }
        }
        line.get(command.len()) == Some(&b' ')
    }

    /// The kinds of files that FTP commands fetch, one bit each.
    #[opaque]
    pub fn fetched(commands: &[u8]) -> u8 {
        let mut files = 0;
        let mut start = 0;
        for at in 0..commands.len() {
            if commands[at] == b'\n' {
                files |= file(&commands[start..at]);
                start = at + 1;
            }
        }
        files | file(&commands[start..])
    }

    /// The kind of file that an FTP command fetches, as one bit; 0 for anything else.
    fn file(line: &[u8]) -> u8 {
        if !begins(line, b"retr") {
            return 0;
        }
        let ends = line.len() > 0 && line.get(line.len() - 1) == Some(&b'\r');
        let end = line.len() - if ends { 1 } else { 0 };
        if ends_with(line, end, [b'z', b'i', b'p']) {
            return ZIP;
        }
        if ends_with(line, end, [b'e', b'x', b'e']) {
            return EXE;
        }
        let page = if end > 0 && letter(line, end - 1) == b'l' { end - 1 } else { end };
        if ends_with(line, page, [b'h', b't', b'm']) { HTML } else { 0 }
    }

    /// Whether a segment's first command is one of IRC's, but for those that may come before at login.
    #[opaque]
    pub fn is_irc(commands: &[u8]) -> bool {
        if !logs_in(commands) {
            return chats(commands);
        }
        for at in 0..commands.len() {
            if commands[at] == b'\n' && !logs_in(&commands[at + 1..]) {
                return chats(&commands[at + 1..]);
            }
        }
        false
    }

    fn logs_in(line: &[u8]) -> bool {
        begins(line, b"cap") || begins(line, b"pass") || begins(line, b"user")
    }

    fn chats(line: &[u8]) -> bool {
        begins(line, b"nick") || begins(line, b"join") || begins(line, b"privmsg")
    }

    impl Trojan {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let to = pkt.port().other();
            let Some(address) = inside(pkt) else { return Forward(to) };
            let Some(host) = self.known(address, cx) else {
                if is_ssh(pkt) {
                    self.watch(address, cx);
                }
                return Forward(to);
            };
            if host.is_infected {
                return self.infected(host, pkt, cx);
            }
            if is_ssh(pkt) {
                // Files that were fetched before this connection do not follow it.
                if host.files == 0 {
                    self.windows.refresh(host.window, self.settings.window_s * NS_PER_S, cx);
                }
                return Forward(to);
            }
            if pkt.port() == LAN && pkt.tcp().is_some() {
                return self.next(address, host, pkt, cx);
            }
            Forward(to)
        }

        /// What is known of a host, unless its time is over.
        fn known(&self, address: Address, cx: &Context) -> Option<Host> {
            let host = self.hosts.get(&address)?;
            if self.windows.is_allocated(host.window, cx) { Some(host) } else { None }
        }

        fn watch(&mut self, address: Address, cx: &mut Context) {
            let lifetime_ns = self.settings.window_s * NS_PER_S;
            if let Some(window) = self.windows.allocate(address, lifetime_ns, cx) {
                let host = Host { window, files: 0, is_infected: false };
                if !self.hosts.insert(address, host) {
                    self.windows.free(window);
                }
            }
        }

        fn infected(&mut self, host: Host, pkt: &Packet, cx: &mut Context) -> Verdict {
            if pkt.port() == LAN {
                self.windows.refresh(host.window, self.settings.block_s * NS_PER_S, cx);
            }
            if self.settings.action == Action::Block {
                return Drop(Reason::Infected);
            }
            Forward(pkt.port().other())
        }

        /// A segment of a host that has used SSH.
        fn next(
            &mut self,
            address: Address,
            host: Host,
            pkt: &Packet,
            cx: &mut Context,
        ) -> Verdict {
            if pkt.dst_port() == Some(FTP) {
                let files = host.files | fetched(pkt.payload());
                if files != host.files {
                    let window = host.window;
                    self.hosts.insert(address, Host { window, files, is_infected: false });
                }
                return Forward(WAN);
            }
            if host.files != ALL || !is_irc(pkt.payload()) {
                return Forward(WAN);
            }
            match address {
                Address::V4(address) => log!(cx, warn, "{} seems infected", address),
                Address::V6(address) => log!(cx, warn, "{} seems infected", address),
            }
            let infected = Host { window: host.window, files: ALL, is_infected: true };
            self.hosts.insert(address, infected);
            self.infected(infected, pkt, cx)
        }

        fn forget(&mut self, index: u32, address: Address, cx: &mut Context) {
            if self.hosts.get(&address).is_some_and(|host| host.window == index) {
                self.hosts.remove(&address);
            }
        }
    }

    /// Whether a host on `lan` sends data over an SSH connection.
    fn is_ssh(pkt: &Packet) -> bool {
        let Some(tcp) = pkt.tcp() else { return false };
        pkt.port() == LAN
            && (tcp.src() == SSH || tcp.dst() == SSH)
            && tcp.flags() & SYN_OR_RST == 0
            && pkt.payload().len() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::trojan;
    use crate::frames::{arp, segment, tcp};
    use anabranch_nf::packet::craft::tcp_flags::{ACK, RST, SYN};
    use anabranch_runtime::testing::Harness;
    use proptest::prelude::*;

    const LAN: u8 = 0;
    const WAN: u8 = 1;
    const SECOND: u64 = 1_000_000_000;
    const HOSTS: [&str; 2] = ["10.0.0.1", "[fd00::1]"];
    const PEERS: [&str; 2] = ["198.51.100.7", "[2001:db8::7]"];

    struct Watched(Harness<trojan::Function>, usize);

    impl Watched {
        fn new(settings: &[&str]) -> Self {
            Self(Harness::new(settings), 0)
        }

        fn passes(&mut self, port: u8, frame: &[u8]) -> bool {
            let outcome = self.0.send(port, frame);
            match outcome.dropped() {
                None => outcome.forwarded() == [(1 - port, frame.to_vec())],
                Some(reason) => {
                    assert_eq!(reason, "infected");
                    false
                }
            }
        }

        /// The host greets over SSH, as a server or as a client.
        fn ssh(&mut self, is_server: bool) -> bool {
            let (host, peer) = (HOSTS[self.1], PEERS[self.1]);
            let (host_port, peer_port) = if is_server { (22, 999) } else { (999, 22) };
            let (host, peer) = (format!("{host}:{host_port}"), format!("{peer}:{peer_port}"));
            self.passes(LAN, &segment(&host, &peer, b"SSH-2.0-x\r\n"))
        }

        fn fetches_all(&mut self) -> bool {
            self.fetches("a.zip") && self.fetches("b.exe") && self.fetches("c.htm")
        }

        fn says(&mut self, port: u16, line: &[u8]) -> bool {
            let (host, peer) = (HOSTS[self.1], PEERS[self.1]);
            self.passes(LAN, &segment(&format!("{host}:999"), &format!("{peer}:{port}"), line))
        }

        fn fetches(&mut self, name: &str) -> bool {
            self.says(21, format!("RETR {name}\r\n").as_bytes())
        }

        fn chats(&mut self) -> bool {
            self.says(6_667, b"NICK mallory\r\n")
        }
    }

    #[test]
    fn the_sequence_is_an_infection() {
        for (version, host) in HOSTS.iter().enumerate() {
            for is_server in [false, true] {
                let mut nf = Watched::new(&[]);
                nf.1 = version;
                assert!(nf.ssh(is_server) && nf.chats());
                assert!(nf.fetches("a.zip") && nf.fetches("B.EXE") && nf.fetches("c.html"));
                assert_eq!(nf.0.logged(), Vec::<String>::new());
                assert!(!nf.chats());
                assert!(!nf.says(80, b"") && !nf.ssh(false), "in both directions");
                let host = host.trim_matches(['[', ']']);
                assert_eq!(nf.0.logged(), [format!("{host} seems infected")]);
                assert!(nf.passes(LAN, &arp("10.0.0.1", "10.0.0.2")));
                let other = segment("10.0.0.2:999", "198.51.100.7:80", b"NICK bob\r\n");
                assert!(nf.passes(LAN, &other));
            }
        }
    }

    #[test]
    fn what_comes_before_ssh_does_not_count() {
        let mut nf = Watched::new(&[]);
        assert!(nf.fetches("a.zip") && nf.ssh(true));
        assert!(nf.fetches("b.exe") && nf.fetches("c.htm") && nf.chats());
        assert!(nf.fetches("a.zip") && !nf.chats());
    }

    #[test]
    fn what_comes_after_the_window_does_not_count() {
        let mut nf = Watched::new(&["window_s=60"]);
        assert!(nf.ssh(true));
        assert!(nf.fetches("a.zip") && nf.fetches("b.exe") && nf.fetches("c.htm"));
        nf.0.at(62 * SECOND);
        assert!(nf.chats());
        assert_eq!(nf.0.table("hosts").used, 0);
    }

    #[test]
    fn the_window_begins_with_the_last_connection() {
        let mut nf = Watched::new(&["window_s=60"]);
        assert!(nf.ssh(true));
        nf.0.at(50 * SECOND);
        assert!(nf.ssh(false));
        nf.0.at(100 * SECOND);
        assert!(nf.fetches("a.zip") && nf.fetches("b.exe") && nf.fetches("c.htm") && !nf.chats());
    }

    #[test]
    fn an_infected_host_is_held_until_it_is_silent() {
        let mut nf = Watched::new(&["window_s=60", "block_s=100"]);
        assert!(nf.ssh(true));
        assert!(nf.fetches("a.zip") && nf.fetches("b.exe") && nf.fetches("c.htm"));
        for time in [0, 90, 180, 270] {
            nf.0.at(time * SECOND);
            assert!(!nf.chats(), "{time}");
        }
        nf.0.at(372 * SECOND);
        assert!(nf.chats());
    }

    #[test]
    fn a_report_drops_nothing() {
        let mut nf = Watched::new(&["action=report"]);
        assert!(nf.ssh(true));
        assert!(nf.fetches("a.zip") && nf.fetches("b.exe") && nf.fetches("c.htm"));
        assert!((0..10).all(|_| nf.chats()));
        assert_eq!(nf.0.logged().len(), 1);
    }

    #[test]
    fn scans_and_what_nobody_asked_for_are_no_connection() {
        for (version, host) in HOSTS.iter().enumerate() {
            let mut nf = Watched::new(&[]);
            nf.1 = version;
            for peer in [format!("{}:999", PEERS[version]), format!("{}:22", PEERS[version])] {
                for end in [format!("{host}:22"), format!("{host}:999")] {
                    for flags in [SYN, SYN | ACK, ACK, RST, RST | ACK] {
                        assert!(nf.passes(WAN, &tcp(&peer, &end, flags)));
                        assert!(nf.passes(LAN, &tcp(&end, &peer, flags)), "the answer");
                    }
                    assert!(nf.passes(WAN, &segment(&peer, &end, b"SSH-2.0-x\r\n")));
                }
            }
            assert_eq!(nf.0.table("hosts").used, 0);
            assert!(nf.fetches_all() && nf.chats());
        }
    }

    #[test]
    fn ssh_between_files_does_not_prolong_the_window() {
        let mut nf = Watched::new(&["window_s=60"]);
        assert!(nf.ssh(true) && nf.fetches_all());
        nf.0.at(50 * SECOND);
        assert!(nf.ssh(true) && nf.ssh(false));
        nf.0.at(62 * SECOND);
        assert!(nf.chats());
    }

    #[test]
    fn mail_is_no_chat() {
        let mut nf = Watched::new(&[]);
        assert!(nf.ssh(true) && nf.fetches_all());
        assert!(nf.says(110, b"USER bob\r\n") && nf.says(21, b"NICK bob\r\n"));
        assert!(!nf.chats());
    }

    #[test]
    fn files_are_told_by_their_ends() {
        for (line, kind) in [
            (&b"RETR a.html\r\n"[..], 1),
            (b"retr /x/y.HTM\n", 1),
            (b"RETR a.zip", 2),
            (b"RETR .exe\r\n", 4),
            (b"TYPE I\r\nRETR a.exe\r\nRETR b.zip\r\nQUIT\r\n", 6),
            (b"RETR a.exe.txt\r\n", 0),
            (b"STOR a.exe\r\n", 0),
            (b"RETR exe\r\n", 0),
            (b"RETR", 0),
            (b"", 0),
        ] {
            assert_eq!(trojan::fetched(line), kind, "{line:?}");
        }
    }

    #[test]
    fn irc_is_told_by_its_first_command_but_for_the_login() {
        for (commands, is_irc) in [
            (&b"NICK bob\r\n"[..], true),
            (b"join #x", true),
            (b"CAP LS 302\r\nNICK bob\r\nUSER bob 0 * :Bob\r\n", true),
            (b"pass x\nuser bob 0 * :Bob\nnick bob\n", true),
            (b"USER bob\r\nPASS x\r\nSTAT\r\n", false),
            (b"SELECT *\nJOIN x\n", false),
            (b"NICKNAME x", false),
            (b"JOIN", false),
            (b"\nNICK bob\n", false),
            (b"", false),
        ] {
            assert_eq!(trojan::is_irc(commands), is_irc, "{commands:?}");
        }
    }

    proptest! {
        /// The oracle is what the standard library makes of a line; lines are near misses, mostly.
        #[test]
        fn any_line_is_read(
            verb in "(RETR|retr|ReTr|RET|STOR) ?",
            name in "[a-z./]{0,3}\\.?(htm|HTML|zip|Exe|ex|ip)?l?[a-z.]?",
            end in "\r?\n?",
        ) {
            let command = format!("{verb}{name}{end}");
            let small = command.to_ascii_lowercase();
            let kind = match small.strip_prefix("retr ").map(str::trim_end) {
                Some(name) if name.ends_with(".htm") || name.ends_with(".html") => 1,
                Some(name) if name.ends_with(".zip") => 2,
                Some(name) if name.ends_with(".exe") => 4,
                _ => 0,
            };
            prop_assert_eq!(trojan::fetched(command.as_bytes()), kind, "{:?}", command);
        }

        /// Bytes of any kind, in front of an end that makes them a file or not.
        #[test]
        fn any_name_is_read(
            mut name in prop::collection::vec(any::<u8>().prop_filter("ends a line", |byte| *byte != b'\n'), 0..40),
            kind in 0usize..4,
        ) {
            name.extend([&b"?"[..], b".htm", b".zip", b".exe"][kind]);
            let command = [b"RETR ", &name[..]].concat();
            prop_assert_eq!(trojan::fetched(&command), [0, 1, 2, 4][kind]);
        }
    }
}

//! Maps that count the objects of an allocator.

use anabranch_analysis::Paths;

use crate::{drops, explored, refused};

const SMALL: &str = r"#[network_function(ports(lan, wan))]
pub mod small {
    pub enum Reason { Many, Full, None }
    pub enum Kind { Common, Private }
    pub struct Session { host: Ipv4Addr, port: u16, kind: Kind }
    pub struct Small {
        #[capacity(8)]
        by_port: Map<u16, u32>,
        #[capacity(8)]
        #[expired(gone)]
        sessions: Allocator<Session>,
        #[capacity(8)]
        hosts: Map<Ipv4Addr, u32>,
    }
    impl Small {
        fn init(&mut self, cx: &mut Context) {
            let host = Ipv4Addr::new(10, 0, 0, 1);
            let session = Session { host, port: 9, kind: Kind::Common };
            if let Some(index) = self.sessions.allocate(session, 9_000, cx) {
                self.by_port.insert(9, index);
            }
        }
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Forward(WAN) };
            let (host, other, port) = (ip.src(), ip.dst(), ip.identification());
            if let Some(index) = self.by_port.get(&port) {
                let Some(session) = self.sessions.touch(index, cx) else { return Flood };
                if session.kind == Kind::Common || session.host != host {
                    return Flood;
                }
                return match self.hosts.get(&host) {
                    Some(count) if count > 0 => Forward(WAN),
                    _ => Drop(Reason::None),
                };
            }
            let count = self.hosts.get(&host).unwrap_or(0);
            if count > 3 {
                return Drop(Reason::Many);
            }
            let session = Session { host, port, kind: Kind::Private };
            let Some(index) = self.sessions.allocate(session, 9_000, cx) else { return Flood };
            if !self.by_port.insert(port, index) {
                self.sessions.free(index);
                return Drop(Reason::Full);
            }
            if !self.hosts.insert(host, count + 1) {
                self.sessions.free(index);
                self.by_port.remove(&port);
                return Drop(Reason::Full);
            }
            Forward(WAN)
        }
        fn gone(&mut self, index: u32, session: Session, cx: &mut Context) {
            self.by_port.remove(&session.port);
            if session.kind == Kind::Common {
                return;
            }
            let left = self.hosts.get(&session.host).unwrap_or(1) - 1;
            if left > 0 {
                self.hosts.insert(session.host, left);
            } else {
                self.hosts.remove(&session.host);
            }
        }
    }
}
";

fn proved(found: &Paths) -> Vec<String> {
    found.counted.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_counted_is_there() {
    let found = explored(SMALL);
    assert_eq!(
        proved(&found),
        ["`hosts[key]` counts `sessions`: `it.host = key`, but for `it.kind = common`"],
        "{:?}",
        found.proved()
    );
    assert!(!drops(&found).contains(&"none"), "{}", found.to_text());
    assert!(drops(&found).contains(&"many"));
}

const LAST: &str = "if left > 0 {
                self.hosts.insert(session.host, left);
            } else {
                self.hosts.remove(&session.host);
            }";

/// Two ways that do the same to the map, of which one may.
const FORGOTTEN: &str = "if left == 0 {
                cx.set_timer(9, 9);
            }
            self.hosts.remove(&session.host);";

const TOUCHED: &str = "let Some(session) = self.sessions.touch(index, cx) else { return Flood };";

fn changed(session: &str) -> String {
    format!("{TOUCHED}\n self.sessions.set(index, {session});")
}

#[test]
fn what_has_just_been_given_out_is_not_counted_yet() {
    let found = explored(
        r"#[network_function(ports(lan, wan))]
pub mod small {
    pub enum Reason { Fresh, Full }
    pub struct Small {
        #[capacity(8)]
        #[expired(gone)]
        owners: Allocator<u32>,
        #[capacity(8)]
        counts: Map<u32, u32>,
    }
    impl Small {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Forward(WAN) };
            let mark = u32::from(ip.src());
            let count = self.counts.get(&mark).unwrap_or(0);
            let Some(index) = self.owners.allocate(mark, 9_000, cx) else { return Flood };
            let seen = self.counts.contains(&index);
            if !self.counts.insert(mark, count + 1) {
                self.owners.free(index);
                return Drop(Reason::Full);
            }
            if seen { Forward(WAN) } else { Drop(Reason::Fresh) }
        }
        fn gone(&mut self, index: u32, mark: u32, cx: &mut Context) {
            let left = self.counts.get(&mark).unwrap_or(1) - 1;
            if left > 0 {
                self.counts.insert(mark, left);
            } else {
                self.counts.remove(&mark);
            }
        }
    }
}
",
    );
    assert_eq!(proved(&found), ["`counts[key]` counts `owners`: `it = key`"]);
    assert!(drops(&found).contains(&"fresh"), "{}", found.to_text());
}

/// Each of these makes a count wrong, in one place, of some key.
#[test]
fn what_is_broken_anywhere_is_refused() {
    let wrong = [
        ("one too many", "count + 1", "count + 2"),
        ("another's count", "self.hosts.insert(host, count", "self.hosts.insert(other, count"),
        (
            "another is asked",
            "let count = self.hosts.get(&host)",
            "let count = self.hosts.get(&other)",
        ),
        ("freed and still counted", "                self.hosts.remove(&session.host);\n", ""),
        ("forgotten too early", "if left > 0", "if left > 1"),
        ("zero stays", "if left > 0", "if left < 9"),
        ("what is not counted", "kind: Kind::Common };", "kind: Kind::Private };"),
        ("what is not counted ends", "if session.kind == Kind::Common {", "if false {"),
        ("not counted", "count + 1)", "count)"),
        ("all forgotten, in two ways", LAST, FORGOTTEN),
        (
            "counted and freed",
            "return Drop(Reason::Full);\n            }\n            Forward",
            "return Drop(Reason::Full);\n            }\n            self.sessions.free(index);\n            Forward",
        ),
        (
            "moved to another",
            TOUCHED,
            &changed("Session { host: other, port, kind: Kind::Private }"),
        ),
        ("made common", TOUCHED, &changed("Session { host, port, kind: Kind::Common }")),
    ];
    refused(SMALL, &wrong, proved);
}

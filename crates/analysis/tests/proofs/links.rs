//! What look-ups in two state objects have to do with each other.

use crate::{drops, explored};

const SMALL: &str = r"#[network_function(ports(lan, wan))]
pub mod small {
    pub struct Settings {
        #[setting(default = [])]
        pub known: List<Ipv4Addr>,
    }
    pub enum Reason { Full, Other, Gone }
    pub struct Session { host: Ipv4Addr, packets: u32 }
    pub struct Small {
        settings: Settings,
        #[capacity(8)]
        by_host: Map<Ipv4Addr, u32>,
        #[capacity(8)]
        #[expired(gone)]
        sessions: Allocator<Session>,
    }
    impl Small {
        fn init(&mut self, cx: &mut Context) {
            for one in &self.settings.known {
                if let Some(index) = self.sessions.allocate(Session { host: one, packets: 0 }, 9, cx) {
                    self.by_host.insert(one, index);
                }
            }
        }
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Forward(WAN) };
            let (host, other) = (ip.src(), ip.dst());
            if let Some(index) = self.by_host.get(&host) {
                if let Some(session) = self.sessions.touch(index, cx) {
                    let packets = session.packets + 1;
                    self.sessions.set(index, Session { host: session.host, packets });
                    return if session.host == host { Forward(WAN) } else { Drop(Reason::Other) };
                }
                if !self.sessions.free(index) {
                    return Drop(Reason::Gone);
                }
                self.by_host.remove(&host);
            }
            let Some(index) = self.sessions.allocate(Session { host, packets: 1 }, 9, cx) else {
                return Flood;
            };
            if !self.by_host.insert(host, index) {
                self.sessions.free(index);
                return Drop(Reason::Full);
            }
            Forward(WAN)
        }
        fn gone(&mut self, index: u32, session: Session, cx: &mut Context) {
            self.by_host.remove(&session.host);
        }
    }
}
";

#[test]
fn what_is_proved_rules_out_paths() {
    let found = explored(SMALL);
    let proved: Vec<String> = found.links.iter().map(ToString::to_string).collect();
    assert_eq!(proved, ["`by_host[key] = i`: `sessions[i]` is there, `it.host = key`"]);
    assert!(found.links[0].is_whole);
    assert_eq!(drops(&found), Vec::<&str>::new(), "{}", found.to_text());
    assert!(found.statistics.unlinked > found.statistics.paths, "{:?}", found.statistics);
    assert!(found.to_text().contains(&proved[0]));
}

/// Each of these breaks the link, in one place, of some key.
#[test]
fn what_is_broken_anywhere_is_refused() {
    let wrong = [
        ("an end that is not told", "self.by_host.remove(&session.host);", ""),
        ("freed and still named", "                self.by_host.remove(&host);\n", ""),
        ("another's object", "host: session.host, packets }", "host: other, packets }"),
        ("given to another key", "insert(host, index)", "insert(other, index)"),
        (
            "freed after all",
            "Forward(WAN)\n        }\n        fn gone",
            "self.sessions.free(index); Forward(WAN)\n        }\n        fn gone",
        ),
        (
            "in any turn of a loop",
            "self.by_host.insert(one, index);",
            "self.by_host.insert(one, index + 1);",
        ),
        (
            "before a loop",
            "for one in",
            "if let Some(one) = self.settings.known.get(0) { self.by_host.insert(one, 3); }\n            for one in",
        ),
        (
            "after a loop",
            "insert(one, index);\n                }\n            }",
            "insert(one, index);\n                }\n            }\n            self.sessions.free(7);",
        ),
        ("freed by its number", "return Flood;", "self.sessions.free(3); return Flood;"),
    ];
    for (what, right, instead) in wrong {
        let text = SMALL.replace(right, instead);
        assert_ne!(text, SMALL, "{what}");
        let found = explored(&text);
        assert!(found.links.is_empty(), "{what}: {:?}", found.links);
        assert!(drops(&found).contains(&"other"), "{what}: {}", found.to_text());
        assert_eq!(found.statistics.unlinked, found.statistics.paths, "{what}");
    }
}

/// Without a handler for their end objects go and nobody hears of it.
#[test]
fn objects_whose_end_is_not_told_are_not_relied_on() {
    let text = SMALL.replace("        #[expired(gone)]\n", "");
    assert!(explored(&text).links.is_empty());
}

/// What a turn leaves to the next one may be anything of its type; a number that is of none cannot be followed.
#[test]
fn loops_that_carry_something_are_followed_from_anything() {
    let text = SMALL.replace("for one in", "let mut count: u32 = 0;\n            for one in");
    let counted = text.replace("insert(one, index);", "insert(one, index);\n count += 1;");
    assert_eq!(explored(&counted).links.len(), 1);
    let later = text.replace("insert(one, index);", "insert(one, index + count);\n count += 1;");
    assert!(explored(&later).links.is_empty());
    assert!(explored(&counted.replace("count: u32", "count")).links.is_empty());
}

/// The second time round the loop is another one.
#[test]
fn a_loop_that_is_come_to_twice_is_followed_twice() {
    let text = SMALL.replace(
        "fn init(&mut self, cx: &mut Context) {",
        "fn init(&mut self, cx: &mut Context) { self.add(0, cx); self.add(1, cx); }
        fn add(&mut self, more: u32, cx: &mut Context) {",
    );
    assert_eq!(explored(&text).links.len(), 1);
    let text = text.replace("insert(one, index);", "insert(one, index + more);");
    assert!(explored(&text).links.is_empty());
}

/// What a loop within an update leaves is not seen at its end.
#[test]
fn a_loop_within_an_update_is_not_followed() {
    let text = SMALL.replace(
        "self.by_host.insert(one, index);",
        "self.by_host.insert(one, index);
        self.sessions.update(index, |session| {
            for other in &self.settings.known {
                if other == one { break; }
            }
            session.host = Ipv4Addr::new(0, 0, 0, 0);
        });",
    );
    assert_ne!(text, SMALL);
    assert!(explored(&text).links.is_empty());
}

/// A part of a value names the object, and keys are of variants.
const PART: &str = r"#[network_function(ports(lan, wan))]
pub mod part {
    pub struct Settings {
        #[setting(default = 8)]
        pub hosts: u32,
    }
    pub enum Reason { Full, Other, Stays }
    pub enum Address { V4(Ipv4Addr), V6(Ipv6Addr) }
    pub struct Host { packets: u32, place: u32 }
    pub struct Part {
        settings: Settings,
        #[capacity(settings.hosts)]
        hosts: Map<Address, Host>,
        #[capacity(settings.hosts)]
        #[expired(gone)]
        ends: Allocator<Address>,
    }
    fn source(pkt: &Packet) -> Option<Address> {
        if let Some(ip) = pkt.ipv4() {
            return Some(Address::V4(ip.src()));
        }
        Some(Address::V6(pkt.ipv6()?.src()))
    }
    impl Part {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(address) = source(pkt) else { return Forward(WAN) };
            if let Some(host) = self.hosts.get(&address) {
                if let Some(named) = self.ends.touch(host.place, cx) {
                    let packets = host.packets.wrapping_add(1);
                    self.hosts.insert(address, Host { packets, place: host.place });
                    return if named == address { Forward(WAN) } else { Drop(Reason::Other) };
                }
                return Flood;
            }
            let Some(place) = self.ends.allocate(address, 9, cx) else { return Flood };
            if !self.hosts.insert(address, Host { packets: 1, place }) {
                self.ends.free(place);
                return Drop(Reason::Full);
            }
            Forward(WAN)
        }
        fn gone(&mut self, index: u32, address: Address, cx: &mut Context) {
            if self.hosts.get(&address).is_some_and(|host| host.place == index) {
                self.hosts.remove(&address);
            }
        }
    }
}
";

#[test]
fn a_part_of_a_value_may_be_the_index_and_a_key_of_variants() {
    let found = explored(PART);
    let proved: Vec<String> = found.links.iter().map(ToString::to_string).collect();
    assert_eq!(proved, ["`hosts[key].place = i`: `ends[i]` is there, `it = key`"]);
    assert!(found.links[0].is_whole);
    assert_eq!(drops(&found), Vec::<&str>::new(), "{}", found.to_text());
    let wrong = [
        (
            "another part",
            "insert(address, Host { packets, place: host.place })",
            "insert(address, Host { packets, place: packets })",
        ),
        (
            "of one variant only",
            "ends.allocate(address, 9, cx)",
            "ends.allocate(seldom(address), 9, cx)",
        ),
        ("the end of another", "host.place == index", "host.place != index"),
    ];
    for (what, right, instead) in wrong {
        let text = PART.replace(right, instead);
        assert_ne!(text, PART, "{what}");
        let text = text.replace(
            "    impl Part",
            "    fn seldom(address: Address) -> Address {
        match address {
            Address::V4(ip) => Address::V4(ip),
            Address::V6(_) => Address::V4(Ipv4Addr::from(7)),
        }
    }
    impl Part",
        );
        let found = explored(&text);
        assert!(found.links.is_empty(), "{what}: {:?}", found.links);
        assert!(drops(&found).contains(&"other"), "{what}: {}", found.to_text());
    }
    // A map that has room for fewer.
    let text = PART.replacen("#[capacity(settings.hosts)]", "#[capacity(4)]", 1);
    assert_eq!(drops(&explored(&text)), ["full"]);
}

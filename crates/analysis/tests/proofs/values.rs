//! Which values a state object can hold, as what comes about: nothing that does is left out.

use crate::{drops, explored};

const SMALL: &str = r"#[network_function(ports(lan, wan))]
pub mod small {
    pub struct Settings {
        #[setting(default = [])]
        pub known: List<Ipv4Addr>,
    }
    pub enum Reason { Wrong, Gone }
    pub enum Stage { Opening, Open, Closed, Fixed }
    pub struct Session { protocol: u8, stage: Stage }
    pub struct Small {
        settings: Settings,
        #[capacity(8)]
        #[expired(gone)]
        sessions: Allocator<Session>,
        #[capacity(8)]
        fixed: Map<Ipv4Addr, u32>,
    }
    const FOREVER_NS: u64 = u64::MAX;
    impl Small {
        fn init(&mut self, cx: &mut Context) {
            for one in &self.settings.known {
                let session = Session { protocol: 17, stage: Stage::Fixed };
                if let Some(index) = self.sessions.allocate(session, FOREVER_NS, cx) {
                    self.fixed.insert(one, index);
                }
            }
        }
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Forward(WAN) };
            let host = ip.src();
            if let Some(index) = self.fixed.get(&host) {
                return match self.sessions.get(index, cx) {
                    Some(session) if session.stage == Stage::Fixed => Forward(WAN),
                    Some(_) => Drop(Reason::Wrong),
                    None => Drop(Reason::Gone),
                };
            }
            let (Some(tcp), Some(port)) = (pkt.tcp(), pkt.src_port()) else { return Forward(WAN) };
            let index = u32::from(port);
            if let Some(session) = self.sessions.touch(index, cx) {
                if session.protocol != 6 {
                    return Flood;
                }
                let stage = match session.stage {
                    Stage::Opening => Stage::Open,
                    Stage::Open if tcp.flags() == 1 => Stage::Closed,
                    same => same,
                };
                if session.stage == Stage::Fixed {
                    return Drop(Reason::Wrong);
                }
                self.sessions.set(index, Session { protocol: session.protocol, stage });
                return Forward(LAN);
            }
            let session = Session { protocol: ip.protocol(), stage: Stage::Opening };
            self.sessions.allocate(session, 1_000_000, cx);
            Forward(WAN)
        }
        fn gone(&mut self, index: u32, session: Session, cx: &mut Context) {}
    }
}
";

#[test]
fn what_comes_about_is_found_and_rules_out_paths() {
    let found = explored(SMALL);
    assert_eq!(
        found.proved(),
        [
            "`sessions`: `it.protocol = 6 && it.stage = opening | open | closed && !it.endless` or \
             `it.protocol = 17 && it.stage = fixed && it.endless`",
            "`fixed[key] = i`: `sessions[i]` is there, `it.protocol = 17`, `it.stage = fixed`",
        ]
    );
    assert!(!drops(&found).contains(&"wrong"), "{}", found.to_text());
    assert!(!drops(&found).contains(&"gone"), "what never ends is there: {}", found.to_text());
}

/// A value that is nothing but true or false has its word: a condition would be `it` alone.
#[test]
fn a_whole_value_that_is_true_is_said_to_be() {
    let found = explored(
        "#[network_function(ports(lan, wan))]
pub mod blocking {
    pub struct Blocking {
        #[capacity(16)]
        blocked: Map<Ipv4Addr, bool>,
    }
    impl Blocking {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Flood };
            if self.blocked.get(&ip.src()) == Some(false) { return Forward(LAN); }
            self.blocked.insert(ip.dst(), true);
            Forward(WAN)
        }
    }
}
",
    );
    assert_eq!(found.proved(), ["`blocked`: `it = true`"]);
}

/// Each of these brings about more, in one place.
#[test]
fn what_is_stored_anywhere_counts() {
    let wrong = [
        (
            "at the start",
            "protocol: 17, stage: Stage::Fixed",
            "protocol: 6, stage: Stage::Fixed",
            "wrong",
        ),
        ("another kind", "if session.protocol != 6", "if session.stage == Stage::Closed", "wrong"),
        (
            "in a set",
            "session.protocol, stage }",
            "session.protocol, stage: Stage::Fixed }",
            "wrong",
        ),
        ("an end", "allocate(session, FOREVER_NS, cx)", "allocate(session, 9, cx)", "gone"),
        (
            "a refresh",
            "if session.protocol != 6 {",
            "if session.protocol != 6 { self.sessions.refresh(index, 9, cx);",
            "gone",
        ),
        ("freed", "return Flood;", "self.sessions.free(index); return Flood;", "gone"),
    ];
    for (what, right, instead, word) in wrong {
        let text = SMALL.replace(right, instead);
        assert_ne!(text, SMALL, "{what}");
        let found = explored(&text);
        assert!(drops(&found).contains(&word), "{what}: {:?}", found.proved());
    }
}

/// A byte from the packet may be anything: it is left out, and the rest is kept.
#[test]
fn parts_with_many_values_are_left_out() {
    let text = SMALL.replace("protocol: ip.protocol(), stage", "protocol: ip.ttl(), stage");
    let found = explored(&text);
    assert_eq!(
        found.proved()[0],
        "`sessions`: `it.stage = opening | open | closed && !it.endless` or `it.stage = fixed && it.endless`"
    );
}

/// Fields that are called what the proof has names for.
#[test]
fn what_fields_are_called_means_nothing() {
    for name in ["endless", "has", "inside"] {
        let field = |text: &str, right: &str, value: &str| {
            let with = text.replace(right, &right.replace(" }", &format!(", {name}: {value} }}")));
            assert_ne!(with, text, "{right}");
            with
        };
        let text = field(SMALL, "stage: Stage }", "bool");
        let text = field(&text, "stage: Stage::Fixed }", "true");
        let text = field(&text, "stage: Stage::Opening }", "false");
        let text = field(&text, "session.protocol, stage }", &format!("session.{name}"));
        let ends = text.replace("allocate(session, FOREVER_NS, cx)", "allocate(session, 9, cx)");
        let found = explored(&ends);
        assert!(drops(&found).contains(&"gone"), "{name}: {:?}", found.proved());
        assert!(!drops(&explored(&text)).contains(&"gone"), "{name}");
    }
}

/// It is zero there, whatever was written.
#[test]
fn what_is_written_past_the_end_is_not_there() {
    let stages = "fixed: Map<Ipv4Addr, u32>,\n#[capacity(4)]\nstages: Vector<Stage>,";
    let text = SMALL.replace("fixed: Map<Ipv4Addr, u32>,", stages);
    let text = text.replace(
        "let index = u32::from(port);",
        "let index = u32::from(port);
            self.stages.write(index, Stage::Open);
            if self.stages.read(index) == Stage::Opening {
                self.stages.write(0, Stage::Closed);
            }
            if self.stages.read(1) == Stage::Closed { return Drop(Reason::Wrong); }
            if self.stages.read(2) == Stage::Fixed { return Drop(Reason::Gone); }",
    );
    let found = explored(&text);
    assert!(drops(&found).contains(&"wrong"), "{:?}", found.proved());
    assert!(!drops(&found).contains(&"gone"), "{:?}", found.proved());
}

//! Loops over lists of the settings, whose end is unknown: what comes after them is sharded where no turn decides
//! what it touches.

#![allow(clippy::unwrap_used)]

use anabranch_analysis::{Budget, Paths, Source, paths_within};
use anabranch_plan::{Class, ObjectMode, Options, Plan, Strategy, plan};
use anabranch_rss::Nic;

/// A function with lists in its settings, these methods and this body of `packet`.
fn text(methods: &str, body: &str) -> String {
    format!(
        "#[network_function(ports(lan, wan))]
pub mod tested {{
    pub struct Network {{ pub address: Ipv4Addr, pub mask: u32, pub port: Port }}
    pub struct Settings {{
        #[setting(default = [])]
        pub allowed: List<Ipv4Addr>,
        #[setting(default = [])]
        pub allowed6: List<Ipv6Addr>,
        #[setting(default = [])]
        pub networks: List<Network>,
    }}
    pub enum Reason {{ Refused }}
    pub struct Tested {{
        settings: Settings,
        #[capacity(1024)]
        hosts: Map<Ipv4Addr, u32>,
        #[capacity(1024)]
        hosts6: Map<Ipv6Addr, u32>,
        sent: Cell<u32>,
    }}
    impl Tested {{
        {methods}
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {{
            {body}
            Forward(pkt.port().other())
        }}
    }}
}}"
    )
}

fn paths_of(text: &str, budget: Budget) -> Paths {
    let paths = paths_within(&Source { text, file: "tested.rs", line: 1 }, budget);
    paths.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The plan of a function whose `packet` sees `src` and `dst`, addresses of packets over IPv4.
fn planned(methods: &str, body: &str) -> Plan {
    let body = format!(
        "let Some(ip) = pkt.ipv4() else {{ return Drop(Builtin::UnsupportedProtocol) }};
            let (src, dst) = (ip.src(), ip.dst());
            {body}"
    );
    let paths = paths_of(&text(methods, &body), Budget::for_accesses());
    plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap()
}

fn meeting(plan: &Plan, class: Class) -> String {
    plan.matrix(class)[0][0].clone()
}

fn mode(plan: &Plan, name: &str) -> ObjectMode {
    plan.objects.iter().find(|object| object.name == name).unwrap().mode
}

const IS_ALLOWED: &str = "fn is_allowed(&self, address: Ipv4Addr) -> bool {
            for position in 0..self.settings.allowed.len() {
                if self.settings.allowed[position] == address { return true; }
            }
            false
        }";

const IS_ALLOWED6: &str = "fn is_allowed6(&self, address: Ipv6Addr) -> bool {
            for one in self.settings.allowed6.iter() {
                if one == address { return true; }
            }
            false
        }";

const COUNT: &str = "match self.hosts.get(&src) {
                Some(sent) if sent >= 100 => return Drop(Reason::Refused),
                Some(sent) => { self.hosts.insert(src, sent + 1); }
                None => { self.hosts.insert(src, 1); }
            }";

/// Loops that leave alone what is touched after them by the source.
const HARMLESS: [(&str, &str); 12] = [
    (IS_ALLOWED, "if self.is_allowed(src) { return Forward(pkt.port().other()); }"),
    (IS_ALLOWED, "if self.is_allowed(src) || self.is_allowed(dst) { return Flood; }"),
    (
        "",
        "for network in self.settings.networks.iter() {
            if u32::from(src) & network.mask == u32::from(network.address) & network.mask {
                return Forward(network.port);
            }
        }",
    ),
    (
        "",
        "let mut known = false;
         for one in self.settings.allowed.iter() { if one == src { known = true; } }
         if known { return Flood; }",
    ),
    (
        "",
        "let mut known = false;
         for one in self.settings.allowed.iter() { if one == src { known = true; break; } }
         if known { return Flood; }",
    ),
    (
        "",
        "let mut best = 0;
         let mut port = pkt.port().other();
         for network in self.settings.networks.iter() {
             let inside = u32::from(src) & network.mask == u32::from(network.address);
             if !inside || network.mask < best { continue; }
             best = network.mask;
             port = network.port;
         }
         if port == pkt.port() { return Flood; }",
    ),
    (
        "",
        "let mut position: u32 = 0;
         while position < self.settings.allowed.len() {
             if self.settings.allowed[position] == src { return Flood; }
             position += 1;
         }",
    ),
    (
        "",
        "for network in self.settings.networks.iter() {
             for one in self.settings.allowed.iter() {
                 if one == network.address && one == dst { return Flood; }
             }
         }",
    ),
    (
        "",
        "'networks: for network in self.settings.networks.iter() {
             for one in self.settings.allowed.iter() {
                 if one == network.address { continue 'networks; }
                 if one == dst { break 'networks; }
             }
         }",
    ),
    // Integers without a written type have that of what they meet, if anything.
    (
        "",
        "let mut position = 0;
         while position < self.settings.allowed.len() {
             if self.settings.allowed[position] == src { return Flood; }
             position += 1;
         }",
    ),
    (
        "",
        "let mut found = 0;
         for one in self.settings.allowed.iter() { if one == src { found += 1; } }
         if found > 2 { return Flood; }",
    ),
    (
        "fn after(&self, position: u32) -> u32 { position + 1 }",
        "let (mut position, mut sum) = (0, 0);
         while self.settings.allowed.len() > position {
             sum += 3;
             position = self.after(position);
         }
         if sum > 40 && u64::from(position) < 99 { return Flood; }",
    ),
];

#[test]
fn what_follows_a_loop_that_touches_nothing_is_sharded_by_its_own_key() {
    for (methods, body) in HARMLESS {
        let found = planned(methods, &format!("{body}\n{COUNT}"));
        assert_eq!(found.strategy, Strategy::SharedNothing, "{body}: {:?}", found.impossible);
        assert_eq!(meeting(&found, Class::Ipv4Tcp), "lan.ipv4.src = lan'.ipv4.src", "{body}");
        assert_eq!(mode(&found, "hosts"), ObjectMode::Sharded);
        assert!(found.notes.is_empty(), "{body}: {:?}", found.notes);
    }
}

#[test]
fn lists_of_both_versions_are_searched() {
    let body = format!(
        "if let Some(ip) = pkt.ipv4() {{
            let src = ip.src();
            if self.is_allowed(src) {{ return Flood; }}
            {COUNT}
        }}
        if let Some(ip) = pkt.ipv6() {{
            let src = ip.src();
            if self.is_allowed6(src) {{ return Flood; }}
            self.hosts6.insert(src, 1);
        }}"
    );
    let text = text(&format!("{IS_ALLOWED} {IS_ALLOWED6}"), &body);
    let paths = paths_of(&text, Budget::for_accesses());
    let found = plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap();
    assert_eq!(found.strategy, Strategy::SharedNothing, "{:?}", found.impossible);
    assert_eq!(meeting(&found, Class::Ipv4Tcp), "lan.ipv4.src = lan'.ipv4.src");
    assert_eq!(meeting(&found, Class::Ipv6Udp), "lan.ipv6.src = lan'.ipv6.src");
    assert_eq!(found.ports[0].fields, ["ipv4.src", "ipv6.src"]);
}

/// Whoever follows packets along paths has each turn as it is, and is told that there may be more.
#[test]
fn turns_are_cut_off_where_each_is_followed() {
    let text = text(
        IS_ALLOWED,
        "let Some(ip) = pkt.ipv4() else { return Flood };
         if self.is_allowed(ip.src()) { return Flood; }",
    );
    let turns = paths_of(&text, Budget { turns_alike: false, ..Budget::for_accesses() });
    assert!(turns.paths.iter().any(|path| path.cut_off));
    assert_eq!(turns.cut_off().collect::<Vec<_>>(), [23]);
    let alike = paths_of(&text, Budget::for_accesses());
    assert!(!alike.paths.iter().any(|path| path.cut_off));
    assert_eq!(alike.cut_off().count(), 0);
    assert_eq!(alike.paths.len(), turns.paths.len(), "none, found, not found");
}

const FIND: &str = "fn find(&self, address: Ipv4Addr) -> Ipv4Addr {
            for one in self.settings.allowed.iter() { if one > address { return one; } }
            address
        }
        fn position(&self, address: Ipv4Addr) -> u32 {
            for position in 0..self.settings.allowed.len() {
                if self.settings.allowed[position] == address { return position; }
            }
            0
        }
        fn steps(&self, most: u32) -> u32 {
            let mut steps = 0;
            while steps < most {
                if steps == 2 { return 2; }
                steps += 1;
            }
            steps
        }
        fn note(&mut self, address: Ipv4Addr) { self.hosts.insert(address, 1); }";

/// Loops that decide under which key `hosts` is touched, or touch it.
const DECIDING: [&str; 17] = [
    // A turn touches.
    "for one in self.settings.allowed.iter() { if one == src { self.hosts.insert(dst, 1); } }
     self.hosts.insert(src, 1);",
    "for one in self.settings.allowed.iter() { if self.hosts.contains(&one) { return Flood; } }
     self.hosts.insert(src, 1);",
    "for one in self.settings.allowed.iter() { if one == src { self.note(dst); } }
     self.hosts.insert(src, 1);",
    "for network in self.settings.networks.iter() {
         for one in self.settings.allowed.iter() {
             if one == src && network.mask == 7 { self.hosts.insert(dst, 1); }
         }
     }
     self.hosts.insert(src, 1);",
    // A turn touches what turns before it have made the key of, and leaves.
    "let mut key = src;
     for one in self.settings.allowed.iter() {
         if one == src { self.hosts.insert(key, 1); return Flood; }
         key = dst;
     }",
    // A turn does something else than compute.
    "for one in self.settings.allowed.iter() { if one == src { cx.emit(WAN, &[0; 60]); } }
     self.hosts.insert(src, 1);",
    "for one in self.settings.allowed.iter() { if cx.random() == 7 { return Flood; } }
     self.hosts.insert(src, 1);",
    "for one in self.settings.allowed.iter() {
         if one == src && let Some(mut ip) = pkt.ipv4_mut() { ip.set_dst(one); }
     }
     self.hosts.insert(src, 1);",
    // A turn makes the key.
    "let mut key = src;
     for one in self.settings.allowed.iter() { if one > dst { key = one; } }
     self.hosts.insert(key, 1);",
    "let mut key = src;
     for one in self.settings.allowed.iter() { if one > dst { key = one; break; } }
     self.hosts.insert(key, 1);",
    "self.hosts.insert(self.find(src), 1);",
    "self.hosts.insert(Ipv4Addr::from(self.position(src)), 1);",
    "let key = 'found: {
         for one in self.settings.allowed.iter() { if one > dst { break 'found one; } }
         src
     };
     self.hosts.insert(key, 1);",
    // A turn before the last one makes the key.
    "let mut key = src;
     for one in self.settings.allowed.iter() { if one == src { break; } key = dst; }
     self.hosts.insert(key, 1);",
    "let mut key = src;
     let mut next = src;
     for one in self.settings.allowed.iter() {
         if one == dst { continue; }
         key = next;
         next = dst;
     }
     self.hosts.insert(key, 1);",
    // A turn has a loop whose third turn makes the key. It is cut off, but not where that can be seen here.
    "if self.steps(self.settings.allowed.len()) != 0 { return Flood; }
     let mut key = src;
     for network in self.settings.networks.iter() {
         match self.steps(network.mask) {
             0 => {}
             1 => return Flood,
             _ => key = dst,
         }
     }
     self.hosts.insert(key, 1);",
    // The source is found in another turn than the first.
    "match self.is_allowed(src) {
         true if self.settings.allowed[0] != src => { self.hosts.insert(dst, 1); }
         true => {}
         false => { self.hosts.insert(src, 1); }
     }",
];

#[test]
fn what_a_turn_may_decide_is_not_sharded() {
    for body in DECIDING {
        let found = planned(&format!("{FIND} {IS_ALLOWED}"), body);
        assert_eq!(found.strategy, Strategy::Transactional, "{body}: {:?}", found.constraints);
        assert!(found.impossible.is_some(), "{body}");
    }
}

/// A loop that touches state is told with what to write instead, which is sharded.
#[test]
fn a_loop_that_touches_is_told_with_what_to_write() {
    let turns = "for address in self.settings.allowed.iter() { if address == dst { self.hosts.insert(src, 1); } }";
    let plan = planned("", turns);
    assert_eq!(mode(&plan, "hosts"), ObjectMode::Shared);
    let note = plan.notes.iter().find(|note| note.what.starts_with("a loop without a known end"));
    let note = note.unwrap_or_else(|| panic!("{:?}", plan.notes));
    assert!(
        note.what
            .ends_with("let the loop only compute (find, count, choose), and touch state after it")
    );
    assert_eq!(note.lines, [26]);
    let instead = "let mut found = false;
            for address in self.settings.allowed.iter() { if address == dst { found = true; } }
            if found { self.hosts.insert(src, 1); }";
    let plan = planned("", instead);
    assert_eq!(mode(&plan, "hosts"), ObjectMode::Sharded, "{}", plan.to_text());
}

/// Whether a turn leaves may hang on a count that turns before it have asked.
#[test]
fn a_count_that_turns_ask_is_no_limit() {
    let body = |asked: &str| {
        format!(
            "if !self.hosts.contains(&src) {{
                 let sent = self.sent.get();
                 {asked}
                 self.hosts.insert(src, 1);
                 self.sent.set(sent + 1);
             }}"
        )
    };
    let once = planned("", &body("if sent > 9 { return Drop(Reason::Refused); }"));
    assert_eq!(mode(&once, "sent"), ObjectMode::PerShard);
    let turns = "for network in self.settings.networks.iter() {
            if network.port == LAN { return Flood; }
            if sent > network.mask { return Drop(Reason::Refused); }
        }";
    assert_eq!(mode(&planned("", &body(turns)), "sent"), ObjectMode::Shared);
}

/// What `check` has found in one turn is so in no other.
#[test]
fn what_is_accepted_of_one_turn_is_not_known_of_another() {
    let items = "fn port_of(settings: &Settings, address: Ipv4Addr) -> Option<Port> {
        for network in settings.networks.iter() {
            if network.address == address { return Some(network.port); }
        }
        None
    }
    fn check(settings: &Settings) -> Result<(), &'static str> {
        match port_of(settings, Ipv4Addr::new(10, 0, 0, 1)) {
            Some(port) if port == WAN => Ok(()),
            _ => Err(\"the gateway is at `wan`\"),
        }
    }
    pub enum Reason";
    let body = "let Some(ip) = pkt.ipv4() else { return Flood };
        if self.settings.networks[0].address == ip.src() { return Flood; }
        match port_of(&self.settings, ip.src()) {
            Some(port) if port == WAN => { self.hosts.insert(ip.src(), 1); }
            Some(_) => { self.hosts.insert(ip.dst(), 1); }
            None => return Flood,
        }";
    let text = text("", body).replace("pub enum Reason", items);
    let paths = paths_of(&text, Budget::for_accesses());
    let found = plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap();
    assert_eq!(found.strategy, Strategy::Transactional, "{:?}", found.constraints);
}

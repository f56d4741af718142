//! Numbers that stay within what settings say, packet sets, and what turns of loops leave to the next ones.

use crate::{drops, explored};

const SLOTS: &str = r"#[network_function(ports(lan, wan))]
pub mod small {
    pub struct Settings {
        #[setting(default = 4, min = 1, max = 64)]
        pub slots: u32,
    }
    pub enum Reason { Wrong, Busy }
    pub enum Stage { Opening, Open, Never }
    pub struct Slot { busy: bool, count: u32 }
    #[packet_set(
        tcp(ip.src, ip.dst, tcp.src, tcp.dst),
        udp(ip.src, ip.dst, udp.src, udp.dst),
        port = lan,
        capacity = 64,
        expires_s = 30
    )]
    pub struct Flow { slot: u16, stage: Stage }
    pub struct Small {
        settings: Settings,
        #[capacity(settings.slots)]
        slots: Vector<Slot>,
        #[capacity(64)]
        hosts: Map<Ipv4Addr, u32>,
    }
    impl Small {
        fn free_slot(&self) -> Option<u16> {
            let mut found = None;
            for slot in 0..self.settings.slots {
                if !self.slots.read(slot).busy { found = Some(slot as u16); }
            }
            found
        }
        fn packet_set_opened(&mut self, pkt: &mut Packet, cx: &mut Context) -> Result<Flow, Verdict> {
            let stage = if pkt.tcp().is_some() { Stage::Opening } else { Stage::Open };
            match self.free_slot() {
                Some(slot) => Ok(Flow { slot, stage }),
                None => Err(Drop(Reason::Busy)),
            }
        }
        fn packet(&mut self, flow: &mut Flow, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if flow.stage == Stage::Never { return Drop(Reason::Wrong); }
            if pkt.udp().is_some() && flow.stage == Stage::Opening { return Drop(Reason::Wrong); }
            if u32::from(flow.slot) >= self.settings.slots { return Drop(Reason::Wrong); }
            flow.stage = Stage::Open;
            for slot in 0..self.settings.slots {
                if !self.slots.read(slot).busy { flow.slot = slot as u16; }
            }
            self.counted(pkt)
        }
        fn counted(&mut self, pkt: &mut Packet) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Forward(WAN) };
            let host = ip.src();
            let count = self.hosts.get(&host).unwrap_or(0);
            if count > self.settings.slots { return Drop(Reason::Wrong); }
            if count < self.settings.slots { self.hosts.insert(host, count + 1); }
            Forward(WAN)
        }
    }
}
";

/// The loop of `free_slot` as one whose end only its body brings about.
fn with_while() -> String {
    let text = SLOTS.replacen(
        "for slot in 0..self.settings.slots {",
        "let mut slot = 0u32;
            while slot < self.settings.slots {",
        1,
    );
    text.replacen("found = Some(slot as u16); }", "found = Some(slot as u16); } slot += 1;", 1)
}

#[test]
fn what_stays_within_limits_is_known() {
    for text in [SLOTS.to_owned(), with_while()] {
        let found = explored(&text);
        assert_eq!(
            found.proved(),
            [
                "`hosts`: `it <= settings.slots && it != 0`",
                "`Flow`: `key.class = ipv4 tcp | ipv6 tcp && it.stage = opening | open && it.slot < settings.slots` \
                 or `key.class = ipv4 udp | ipv6 udp && it.stage = open && it.slot < settings.slots`",
            ]
        );
        assert_eq!(
            drops(&found),
            ["busy", "no-packet-set", "packet-sets-full"],
            "{}",
            found.to_text()
        );
    }
}

/// Of each of the `wrong` texts, one place of `right` in other words, the way is listed that `right` rules out.
fn are_taken(right: &str, wrong: &[(&str, &str, &str)]) {
    for (what, here, instead) in wrong {
        let text = right.replacen(here, instead, 1);
        assert_ne!(text, right, "{what}");
        let found = explored(&text);
        assert!(drops(&found).contains(&"wrong"), "{what}: {:?}", found.proved());
    }
}

/// Each of these stores something else, in one place.
#[test]
fn what_goes_past_a_limit_anywhere_counts() {
    let wrong = [
        (
            "a later slot",
            "found = Some(slot as u16)",
            "found = Some(slot as u16 + u16::from(slot > 9))",
        ),
        (
            "one turn more",
            "for slot in 0..self.settings.slots {",
            "for slot in 0..=self.settings.slots {",
        ),
        ("before the loop", "let mut found = None;", "let mut found = Some(64);"),
        (
            "after it",
            "            found\n        }",
            "            found.map(|slot| slot + 1)\n        }",
        ),
        (
            "a loop in the set",
            "flow.slot = slot as u16;",
            "flow.slot = slot as u16 + u16::from(slot > 9);",
        ),
        ("another stage", "flow.stage = Stage::Open;", "flow.stage = Stage::Never;"),
        (
            "of another class",
            "Stage::Opening } else { Stage::Open }",
            "Stage::Open } else { Stage::Opening }",
        ),
        ("one too many", "if count < self.settings.slots {", "if count <= self.settings.slots {"),
        ("two at once", "insert(host, count + 1)", "insert(host, count + 2)"),
        (
            "by a reference",
            "self.counted(pkt)\n",
            "let mut pair = (&mut flow.slot, 0u32);
            for slot in 0..self.settings.slots { if slot > 9 { *pair.0 = 64; } }
            self.counted(pkt)\n",
        ),
    ];
    are_taken(SLOTS, &wrong);
    let wrong = [
        ("one turn more", "while slot < self.settings.slots", "while slot <= self.settings.slots"),
        ("changed twice", "} slot += 1;", "} slot += 1; if slot == 13 { found = Some(77); }"),
        (
            "in the condition",
            "while slot < self.settings.slots {",
            "while { if slot > 9 { found = Some(77); } slot < self.settings.slots } {",
        ),
        ("begun later", "let mut slot = 0u32;", "let mut slot = 0u32; let mut found = Some(77);"),
    ];
    are_taken(&with_while(), &wrong);
}

/// An element past the end is zero: what is not is inside.
#[test]
fn an_element_that_is_not_zero_is_inside() {
    let text = SLOTS.replace(
        "self.counted(pkt)\n",
        "let index = u32::from(pkt.dst_port().unwrap_or(0));
            if self.slots.read(index).busy && index >= self.settings.slots { return Drop(Reason::Wrong); }
            self.counted(pkt)\n",
    );
    assert_ne!(text, SLOTS);
    assert!(!drops(&explored(&text)).contains(&"wrong"));
    let either = text.replace(".busy && index >=", ".count < 9 && index >=");
    assert!(drops(&explored(&either)).contains(&"wrong"));
}

/// A condition that holds together with another counts by itself.
#[test]
fn what_holds_together_with_something_else_is_known() {
    let text = SLOTS.replace(
        "self.counted(pkt)\n",
        "let port = pkt.dst_port().unwrap_or(0);
            let is_used = self.slots.read(0).count != 0;
            if is_used & self.slots.read(u32::from(port)).busy { flow.slot = port; }
            self.counted(pkt)\n",
    );
    assert_ne!(text, SLOTS);
    assert!(!drops(&explored(&text)).contains(&"wrong"));
    let either = text.replace("is_used & self", "is_used | self");
    assert!(drops(&explored(&either)).contains(&"wrong"));
}

/// What an inner loop leaves by is no reason to lose what was written before it.
#[test]
fn what_is_written_before_an_inner_loop_is_carried() {
    let search = "let mut found = None;
            for slot in 0..self.settings.slots {
                if !self.slots.read(slot).busy { found = Some(slot as u16); }
            }
            found";
    let inner = "let mut last: u16 = 0;
            for slot in 0..self.settings.slots {
                if slot > 9 { last = 99; }
                if !self.any_free() { return None; }
            }
            Some(last)
        }
        fn any_free(&self) -> bool {
            for slot in 0..self.settings.slots {
                if !self.slots.read(slot).busy { return true; }
            }
            false";
    let text = SLOTS.replacen(search, inner, 1);
    assert_ne!(text, SLOTS);
    let found = explored(&text);
    assert!(drops(&found).contains(&"wrong"), "{:?}", found.proved());
    assert!(found.proved()[0].starts_with("`hosts`"), "it is followed: {:?}", found.proved());
}

/// How much a map holds is not what it holds.
#[test]
fn the_number_of_entries_is_no_value_of_theirs() {
    let text = SLOTS.replacen(
        "hosts: Map<Ipv4Addr, u32>,",
        "hosts: Map<Ipv4Addr, u32>,\n total: Cell<u32>,",
        1,
    );
    let total =
        "            if self.total.get() > self.settings.slots { return Drop(Reason::Wrong); }
            self.total.set(self.hosts.len());
            Forward(WAN)\n        }\n    }";
    let text = text.replacen("            Forward(WAN)\n        }\n    }", total, 1);
    assert!(text.contains("total.get()"));
    let found = explored(&text);
    assert!(drops(&found).contains(&"wrong"), "{:?}", found.proved());
}

const IN_USE: &str = r"#[network_function(ports(lan, wan))]
pub mod small {
    pub struct Settings {
        #[setting(default = 4, min = 1, max = 64)]
        pub slots: u32,
    }
    pub enum Reason { Wrong, Rare }
    pub enum Stage { Free, Open, Closing }
    pub struct Slot { stage: Stage, generation: u16, a: u16, b: u16, c: u16, d: u16, e: u16 }
    pub struct Small {
        settings: Settings,
        #[capacity(settings.slots)]
        slots: Vector<Slot>,
    }
    impl Small {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let (from, to) = (pkt.src_port().unwrap_or(0), pkt.dst_port().unwrap_or(0));
            let slot = self.slots.read(u32::from(to));
            if slot.stage != Stage::Free && slot.generation == 0 { return Drop(Reason::Wrong); }
            let (a, b) = (slot.a == 0, slot.b == 0);
            if pkt.port() == WAN && a && b && slot.c == 0 && slot.d == 0 && slot.e == 0 { return Drop(Reason::Rare); }
            if pkt.port() == LAN {
                let generation = slot.generation.wrapping_add(1).max(1);
                let (c, d, e) = (cx.random() as u16, cx.random() as u16, cx.random() as u16);
                let next = Slot { stage: Stage::Open, generation, a: from, b: to, c, d, e };
                self.slots.write(u32::from(to), next);
            } else {
                self.slots.update(u32::from(from), |slot| {
                    if slot.stage == Stage::Open { slot.stage = Stage::Closing; } else { slot.stage = Stage::Free; }
                });
            }
            Forward(WAN)
        }
    }
}
";

/// Of six numbers whether they are zero, with the stage, is more than can be looked at together.
#[test]
fn a_number_that_is_not_zero_where_something_else_is_so_is_known() {
    let found = explored(IN_USE);
    let proved = found.proved().join("\n");
    let said = "`it.stage = free` or `it.stage = open | closing && it.generation != 0`";
    assert!(proved.contains(said), "{proved}");
    assert!(!drops(&found).contains(&"wrong"));
    let wrong = [
        ("comes round", ".wrapping_add(1).max(1)", ".wrapping_add(1)"),
        ("another slot", "slot.stage == Stage::Open {", "slot.a == 0 {"),
        ("of another slot", "generation, a: from", "generation: from, a: from"),
    ];
    are_taken(IN_USE, &wrong);
}

const ENDS: &str = r"#[network_function(ports(lan, wan))]
pub mod small {
    pub struct Settings {
        #[setting(default = [])]
        pub services: List<Ipv4Addr>,
        #[setting(default = 4, min = 1, max = 64)]
        pub others: u32,
    }
    pub enum Reason { Wrong, Rare }
    pub enum Address { V4(Ipv4Addr), V6(Ipv6Addr) }
    pub struct End { address: Address, port: u16 }
    pub struct Small {
        settings: Settings,
        #[capacity(64)]
        services: Map<End, u32>,
        #[capacity(64)]
        backends: Vector<u32>,
    }
    fn check(settings: &Settings) -> Result<(), &'static str> {
        if settings.services.len() > 256 { Err('too many') } else { Ok(()) }
    }
    impl Small {
        fn init(&mut self, cx: &mut Context) {
            for position in 0..self.settings.services.len() {
                if let Some(address) = self.settings.services.get(position) {
                    self.services.insert(End { address: Address::V4(address), port: 80 }, position);
                }
            }
        }
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let address = match pkt.ipv4() {
                Some(ip) => Address::V4(ip.src()),
                None => match pkt.ipv6() {
                    Some(ip) => Address::V6(ip.src()),
                    None => return Flood,
                },
            };
            let end = End { address, port: pkt.src_port().unwrap_or(0) };
            if pkt.port() == WAN {
                if let Address::V6(_) = address {
                    let number = self.settings.services.len() + self.settings.others;
                    self.services.insert(end, number);
                }
                return Forward(LAN);
            }
            let Some(service) = self.services.get(&end) else { return Flood };
            let is_first = service < self.settings.services.len();
            match address {
                Address::V4(_) => if is_first { Forward(WAN) } else { Drop(Reason::Wrong) },
                Address::V6(_) => if is_first { Drop(Reason::Wrong) } else { Forward(WAN) },
            }
        }
    }
}
";

/// Keys of one variant have not the parts of another.
#[test]
fn what_lies_under_keys_of_a_variant_is_known() {
    let text = ENDS.replace("'too many'", "\"too many\"");
    let found = explored(&text);
    let proved = found.proved().join("\n");
    let said = "`key.address = v4 && it < settings.services.len` or \
                `key.address = v6 && it >= settings.services.len`";
    assert!(proved.contains(said), "{proved}");
    assert!(!drops(&found).contains(&"wrong"));
    let wrong = [
        ("one past the end", "80 }, position)", "80 }, position + 1)"),
        ("any key", "if let Address::V6(_) = address {", "{"),
        ("the other", "if let Address::V6(_) = address {", "if let Address::V4(_) = address {"),
        ("a small number", "len() + self.settings.others;", "len() - self.settings.others;"),
        (
            "a key that is one or the other",
            "if let Address::V6(_) = address {",
            "let end = if end.port == 7 { End { address: Address::V4(Ipv4Addr::new(10, 0, 0, 1)), port: 9 } } else { end };
             if let Address::V6(_) = address {",
        ),
    ];
    are_taken(&text, &wrong);
}

/// A host that comes again gives back its place before it takes one, and is asked about by what it has left.
const AGAIN: &str = r"#[network_function(ports(lan, wan))]
pub mod small {
    pub struct Settings {
        #[setting(default = 4, min = 1)]
        pub each: u32,
    }
    pub enum Reason { Wrong, Full }
    pub struct Small {
        settings: Settings,
        #[capacity(64)]
        hosts: Map<Ipv4Addr, u32>,
    }
    impl Small {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return Forward(WAN) };
            let host = ip.src();
            if ip.ttl() > 9 {
                let left = self.hosts.get(&host).unwrap_or(1) - 1;
                if left > 0 {
                    self.hosts.insert(host, left);
                } else {
                    self.hosts.remove(&host);
                }
                let count = self.hosts.get(&host).unwrap_or(0);
                return if count >= self.settings.each { Drop(Reason::Wrong) } else { self.take(host, count) };
            }
            let count = self.hosts.get(&host).unwrap_or(0);
            if count >= self.settings.each { return Drop(Reason::Full) }
            self.take(host, count)
        }
        fn take(&mut self, host: Ipv4Addr, count: u32) -> Verdict {
            self.hosts.insert(host, count + 1);
            Forward(WAN)
        }
    }
}
";

#[test]
fn one_less_than_a_limit_is_known_where_it_is_found_again() {
    let found = explored(AGAIN);
    assert_eq!(found.proved(), ["`hosts`: `it <= settings.each && it != 0`"]);
    assert_eq!(drops(&found), ["full"], "{}", found.to_text());
    let wrong = [
        (
            "one more",
            "if count >= self.settings.each { return",
            "if count > self.settings.each { return",
        ),
        ("another limit", "count >= self.settings.each {", "count >= self.settings.each - 1 {"),
        ("none given back", "self.hosts.insert(host, left)", "self.hosts.insert(host, left + 1)"),
        ("of another", "let count = self.hosts", "let host = ip.dst(); let count = self.hosts"),
    ];
    are_taken(AGAIN, &wrong);
}

//! What is left under an index that is given out anew: who had it before is decided by all packets.

use anabranch_analysis::{Budget, Source, paths_within};
use anabranch_plan::{ObjectMode, Options, Plan, Strategy, plan};
use anabranch_rss::Nic;

use super::{mode, planned, planned_with, why};

/// A function whose packet set is given an index when it is opened, and `opens` under it; `packet` goes by it.
fn opening(opens: &str, packet: &str) -> Plan {
    opening_for("u64::MAX", [opens, packet, ""])
}

/// The same, where the index is given for a time, and something is done when the set `ends`.
fn opening_for(lifetime: &str, [opens, packet, ends]: [&str; 3]) -> Plan {
    let text = format!(
        "#[network_function(ports(lan, wan))]
pub mod tested {{
    pub struct Settings {{}}
    pub enum Reason {{ Refused }}
    #[packet_set(ipv4(ipv4.src), capacity = 64, expires_s = 60)]
    pub struct Host {{ slot: u32 }}
    pub struct Tested {{ settings: Settings, #[capacity(64)] slots: Allocator<()>, #[capacity(64)] used: Vector<u32>, }}
    impl Tested {{
        fn packet_set_opened(&mut self, pkt: &mut Packet, cx: &mut Context) -> Result<Host, Verdict> {{
            let Some(slot) = self.slots.allocate((), {lifetime}, cx) else {{ return Err(Drop(Reason::Refused)) }};
            {opens}
            Ok(Host {{ slot }})
        }}
        fn packet(&mut self, host: &mut Host, pkt: &mut Packet, cx: &mut Context) -> Verdict {{
            {packet}
            Forward(pkt.port().other())
        }}
        fn packet_set_expired(&mut self, host: &Host, cx: &mut Context) {{
            self.slots.free(host.slot);
            {ends}
        }}
    }}
}}"
    );
    let source = Source { text: &text, file: "tested.rs", line: 1 };
    let paths = paths_within(&source, Budget::for_accesses()).unwrap();
    plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap()
}

const LIMITS: &str = "self.used.update(host.slot, |used| *used += 1);
            if self.used.read(host.slot) > 9 { return Drop(Reason::Refused); }";

/// A host goes on where the one before has stopped: that is another one in a shard than on one core.
#[test]
fn a_vector_that_nobody_begins_anew_is_shared_with_its_indices() {
    let found = opening("", LIMITS);
    let modes = ["slots", "used"].map(|name| mode(&found, name));
    assert_eq!(modes, [ObjectMode::Shared; 2]);
    for name in ["slots", "used"] {
        let object = found.objects.iter().find(|object| object.name == name).unwrap();
        assert_eq!(object.lines, [10, 15], "{}", object.why);
        assert!(object.why.contains("read at line 15") && object.why.contains("line 10 gives"));
    }
    let found = opening("self.used.write(slot, 0);", LIMITS);
    assert_eq!(found.strategy, Strategy::SharedNothing, "{}", why(&found, "used"));
}

/// What whoever is given an index writes only in part, or after it has looked, is not all its own.
#[test]
fn who_begins_anew_writes_first() {
    let begins = |opens: &str| mode(&opening(opens, LIMITS), "used");
    for opens in [
        "if self.used.read(slot) > 9 { return Err(Drop(Reason::Refused)); } self.used.write(slot, 0);",
        "let before = self.used.read(slot); self.used.write(slot, before / 2);",
        "self.used.update(slot, |used| *used /= 2);",
        "self.used.update(slot, |used| if *used > 9 { *used = 1 } else { *used = 0 });",
        "if pkt.port() == LAN { self.used.write(slot, 0); }",
        "let mut old = 0; self.used.update(slot, |used| { old = *used; *used = 0; }); cx.set_expiry(u64::from(old));",
    ] {
        assert_eq!(begins(opens), ObjectMode::Shared, "{opens}");
    }
    for opens in [
        "self.used.update(slot, |used| *used = 1);",
        "self.used.write(slot, pkt.len()); self.used.update(slot, |used| *used += 1);",
        "if pkt.port() == LAN { self.used.write(slot, 0); } else { self.used.write(slot, 1); }",
        "if pkt.port() == LAN { self.slots.free(slot); return Err(Drop(Reason::Refused)); } self.used.write(slot, 0);",
    ] {
        assert_eq!(begins(opens), ObjectMode::Sharded, "{opens}");
    }
}

/// What nobody goes by may be anybody's.
#[test]
fn what_is_left_and_never_asked_is_no_matter() {
    let used = |packet: &str| mode(&opening("", packet), "used");
    assert_eq!(used("self.used.update(host.slot, |used| *used += 1);"), ObjectMode::Sharded);
    let writes = "self.used.write(host.slot, pkt.len());
        if self.used.read(host.slot) > 99 { return Drop(Reason::Refused); }";
    assert_eq!(used(writes), ObjectMode::Sharded);
    for packet in [
        "if let Some(mut ip) = pkt.ipv4_mut() { ip.set_ttl(self.used.read(host.slot) as u8); }",
        "cx.set_expiry(u64::from(self.used.read(host.slot)));",
        "let mut all = 0;
         for at in 0..pkt.payload().len() { all += self.used.read(host.slot); if all > 9 { return Flood; } }",
    ] {
        let packet = format!("{packet} self.used.write(host.slot, 1);");
        assert_eq!(used(&packet), ObjectMode::Shared, "{packet}");
    }
}

const FIELDS: &str = "#[capacity(64)] hosts: Map<Ipv4Addr, u32>,
    #[capacity(64)] #[expired(forget)] slots: Allocator<Ipv4Addr>,
    #[capacity(64)] used: Vector<u32>, #[capacity(64)] told: Map<u32, u32>, #[capacity(64)] to: Map<(u32, u16), u32>,";

/// A host is given a slot and `opens` it; `ends` is what is done when it is over, and `packet` with each packet.
fn ending([opens, packet, ends]: [&str; 3]) -> Plan {
    let handlers = format!(
        "fn forget(&mut self, slot: u32, host: Ipv4Addr, cx: &mut Context) {{
             if self.hosts.get(&host) == Some(slot) {{ self.hosts.remove(&host); }}
             {ends}
         }}"
    );
    let body = format!(
        "let slot = match self.hosts.get(&src) {{
             Some(slot) if self.slots.touch(slot, cx) == Some(src) => slot,
             _ => {{
                 let Some(slot) = self.slots.allocate(src, 1_000, cx) else {{ return Drop(Reason::Refused) }};
                 self.hosts.insert(src, slot);
                 {opens}
                 slot
             }}
         }};
         {packet}"
    );
    planned_with("", FIELDS, &handlers, &body, "e810")
}

/// Who ends may leave it as nobody has written yet, whenever that is.
#[test]
fn what_is_cleared_at_the_end_is_nobodys() {
    let counts = "self.used.update(slot, |used| *used += 1);
        if self.used.read(slot) > 9 { return Drop(Reason::Refused); }";
    let frees = format!("{counts} if tcp.fin() {{ self.hosts.remove(&src); self.slots.free(slot);");
    let used = |packet: &str, ends: &str| mode(&ending(["", packet, ends]), "used");
    let clears = "self.used.write(slot, 0);";
    assert_eq!(used(counts, clears), ObjectMode::Sharded);
    assert_eq!(used(&format!("{frees} {clears} }}"), clears), ObjectMode::Sharded);
    assert_eq!(used(&format!("{frees} }}"), clears), ObjectMode::Shared);
    // What is over without a handler is not cleared.
    let clears = "self.used.write(host.slot, 0);";
    let set = |lifetime: &str| mode(&opening_for(lifetime, ["", LIMITS, clears]), "used");
    assert_eq!(["u64::MAX", "1_000"].map(set), [ObjectMode::Sharded, ObjectMode::Shared]);
    for ends in [
        "",
        "self.used.write(slot, 1);",
        "if host == Ipv4Addr::new(10, 0, 0, 1) { self.used.write(slot, 0); }",
    ] {
        assert_eq!(used(counts, ends), ObjectMode::Shared, "{ends}");
    }
}

/// An entry of a map is left, too, or its absence.
#[test]
fn what_a_map_has_under_an_index_is_left_as_well() {
    let asks = "if self.told.contains(&slot) { return Drop(Reason::Refused); }
        if tcp.rst() { self.told.insert(slot, 1); }";
    let told = |opens: &str, ends: &str| mode(&ending([opens, asks, ends]), "told");
    assert_eq!(told("", ""), ObjectMode::Shared);
    assert_eq!(told("self.told.remove(&slot);", ""), ObjectMode::Sharded);
    let asked = "if self.told.remove(&slot).is_some() { return Drop(Reason::Refused); }";
    assert_eq!(told(asked, ""), ObjectMode::Shared);
    assert_eq!(told("", "self.told.remove(&slot);"), ObjectMode::Sharded);
    // Of entries beside an index nobody knows how many there are.
    let beside = "if self.to.contains(&(slot, dst_port)) { return Drop(Reason::Refused); }
        if tcp.rst() { self.to.insert((slot, dst_port), 1); }";
    let found = ending(["self.to.remove(&(slot, dst_port));", beside, ""]);
    assert_eq!(["slots", "to"].map(|name| mode(&found, name)), [ObjectMode::Shared; 2]);
    assert!(why(&found, "to").contains("`slots` before has left"), "{}", why(&found, "to"));
}

/// Who asks for an index by its number asks for what is left there.
#[test]
fn an_index_that_is_asked_for_is_no_other() {
    let fields = "#[capacity(512)] seats: Allocator<Ipv4Addr>, #[capacity(512)] used: Vector<u32>,";
    let seats = |other: &str| {
        let body = format!(
            "let seat = u32::from(dst_port);
             if seat >= self.settings.number {{ return Drop(Reason::Refused); }}
             {other}
             if !self.seats.is_allocated(seat, cx) && !self.seats.allocate_at(seat, src, 9, cx) {{ return Flood; }}
             self.used.update(seat, |used| *used += 1);
             if self.used.read(seat) > 9 {{ return Drop(Reason::Refused); }}"
        );
        mode(&planned(fields, &body), "used")
    };
    assert_eq!(seats(""), ObjectMode::Sharded);
    let any = "if src_port == 7 {
        let Some(seat) = self.seats.allocate(src, 9, cx) else { return Flood };
        self.used.write(seat, 0);
        return Forward(WAN);
    }";
    assert_eq!(seats(any), ObjectMode::Shared);
}

//! Names of indices that are kept for longer than the index: it may be another's by then.

use anabranch_plan::{ObjectMode, Plan, Strategy};

use super::{mode, planned_with, why};

/// A host is known by a slot, of which it may have `counts`; `told` says who hears of its end, by `handlers`.
fn naming(told: &str, handlers: &str, [asked, other]: [&str; 2]) -> Plan {
    let fields = format!(
        "#[capacity(64)] hosts: Map<Ipv4Addr, u32>, #[capacity(64)] {told} slots: Allocator<Ipv4Addr>,
         #[capacity(64)] used: Vector<u32>,"
    );
    let body = format!(
        "let slot = match self.hosts.get(&src) {{
             Some(slot) if self.slots.{asked} => slot,
             known => {{
                 if let Some(old) = known {{ self.hosts.remove(&src); self.slots.free(old); }}
                 let Some(slot) = self.slots.allocate(src, 1_000, cx) else {{ return Drop(Reason::Refused) }};
                 self.used.write(slot, 0);
                 if !self.hosts.insert(src, slot) {{ self.slots.free(slot); return Drop(Reason::Refused); }}
                 slot
             }}
         }};
         {other}
         self.used.update(slot, |used| *used += 1);
         if self.used.read(slot) > 9 {{ return Drop(Reason::Refused); }}"
    );
    planned_with("", &fields, handlers, &body, "e810")
}

fn forgetting(act: &str) -> String {
    format!("fn forget(&mut self, index: u32, host: Ipv4Addr, cx: &mut Context) {{ {act} }}")
}

const ASKED: &str = "is_allocated(slot, cx)";
const TOLD: &str = "#[expired(forget)]";

/// On one core a host that is over shares the slot of whoever was given it since; in a shard it does not.
#[test]
fn a_slot_that_a_map_still_names_is_shared() {
    let modes = |found: &Plan| ["slots", "used"].map(|name| mode(found, name));
    for asked in [ASKED, "refresh(slot, 1_000, cx)", "touch(slot, cx).is_some()"] {
        let found = naming("", "", [asked, ""]);
        assert_eq!(modes(&found), [ObjectMode::Shared; 2], "{asked}");
        let why = why(&found, "slots");
        assert!(why.contains("`hosts` may still name an index of `slots`"), "{why}");
        assert!(why.contains("no `#[expired]` method takes the name out"), "{why}");
        let slots = found.objects.iter().find(|object| object.name == "slots").unwrap();
        assert_eq!(slots.lines.len(), 2, "{why}");
    }
    for act in [
        "self.hosts.remove(&host);",
        "if self.hosts.get(&host) == Some(index) { self.hosts.remove(&host); }",
        "if self.hosts.get(&host).is_some_and(|slot| slot == index) { self.hosts.remove(&host); }",
        "if let Some(slot) = self.hosts.get(&host) { if slot != index { return; } self.hosts.remove(&host); }",
    ] {
        let found = naming(TOLD, &forgetting(act), [ASKED, ""]);
        assert_eq!(found.strategy, Strategy::SharedNothing, "{act}: {}", why(&found, "slots"));
    }
}

/// What is told of the end, and leaves the name where it was, on some way or always.
#[test]
fn a_name_goes_whatever_way_an_index_ends() {
    let told = "line 11 is told of its end, and the name is not taken out";
    for (act, says) in [
        ("", told),
        ("if cx.now() > 9 { self.hosts.remove(&host); }", told),
        ("if self.hosts.get(&host) != Some(index) { self.hosts.remove(&host); }", told),
        ("if self.hosts.get(&host) == Some(7) { self.hosts.remove(&host); }", told),
        ("if self.hosts.len() > 9 { self.hosts.remove(&host); }", told),
        ("self.hosts.remove(&Ipv4Addr::new(10, 0, 0, 1));", told),
        ("self.hosts.remove(&Ipv4Addr::from(u32::from(host) + 1));", told),
        (
            "self.hosts.remove(&host); self.hosts.insert(host, index);",
            "line 14 stores it under a second key, or copies it",
        ),
    ] {
        let found = naming(TOLD, &forgetting(act), [ASKED, ""]);
        assert_eq!(mode(&found, "slots"), ObjectMode::Shared, "{act}");
        let why = why(&found, "slots");
        assert!(
            why.contains("`hosts` may still name an index of `slots`") && why.contains(says),
            "{act}: {why}"
        );
    }
    let removes =
        forgetting("if self.hosts.get(&host) == Some(index) { self.hosts.remove(&host); }");
    let with = |other: &str| naming(TOLD, &removes, [ASKED, other]);
    let freed = "line 29 gives it back, and the name is not taken out";
    let foreign = "a packet that brings such an index says neither in which shard it was given";
    for (other, says) in [
        // Given back before its time, and named as ever.
        ("if tcp.fin() { self.slots.free(slot); return Forward(WAN); }", freed),
        (
            "if tcp.fin() { self.slots.free(slot); if tcp.rst() { self.hosts.remove(&src); } return Forward(WAN); }",
            freed,
        ),
        (
            "if tcp.fin() { self.hosts.remove(&src); self.hosts.insert(src, slot); self.slots.free(slot); }",
            freed,
        ),
        // Another name, and one that the object does not tell any more.
        (
            "if tcp.fin() { self.hosts.insert(dst, slot); }",
            "line 29 stores it under a second key, or copies it",
        ),
        ("if tcp.fin() { self.slots.set(slot, dst); }", told),
        (
            "if tcp.fin() { self.slots.set(slot, dst); if self.slots.get(slot, cx).is_none() { return Flood; } }",
            told,
        ),
        // None of those that were given to a host.
        ("if tcp.fin() { self.slots.free(u32::from(src_port)); }", foreign),
        ("if tcp.fin() { self.hosts.insert(src, 7); }", foreign),
    ] {
        let found = with(other);
        assert_eq!(mode(&found, "slots"), ObjectMode::Shared, "{other}");
        assert!(why(&found, "slots").contains(says), "{other}: {}", why(&found, "slots"));
    }
    for other in [
        "",
        "if tcp.fin() { self.hosts.remove(&src); self.slots.free(slot); return Forward(WAN); }",
        "if tcp.fin() { self.slots.free(slot); self.hosts.remove(&src); return Forward(WAN); }",
        "if tcp.fin() { self.hosts.insert(src, slot); }",
        "if tcp.fin() && let Some(host) = self.slots.get(slot, cx) { self.slots.set(slot, host); }",
    ] {
        let found = with(other);
        assert_eq!(mode(&found, "slots"), ObjectMode::Sharded, "{other}: {}", why(&found, "slots"));
    }
}

/// A host is given a slot `anew` when its own is over, which then is `named`.
fn renewing(act: &str, ways: [&str; 2]) -> Plan {
    renewing_of(32, act, ways)
}

/// The same, where there is room for the names of so `many` hosts.
fn renewing_of(many: u32, act: &str, [anew, named]: [&str; 2]) -> Plan {
    let fields = format!(
        "#[capacity({many})] hosts: Map<Ipv4Addr, u32>, #[capacity(64)] #[expired(forget)] slots: Allocator<Ipv4Addr>,
         #[capacity(64)] used: Vector<u32>,"
    );
    let body = format!(
        "let known = self.hosts.get(&src);
         if let Some(slot) = known && self.slots.refresh(slot, 1_000, cx) {{
             self.used.update(slot, |used| *used += 1);
             if self.used.read(slot) > 9 {{ return Drop(Reason::Refused); }}
             return Forward(WAN);
         }}
         {anew}
         let Some(slot) = self.slots.allocate(src, 1_000, cx) else {{ return Drop(Reason::Refused) }};
         self.used.write(slot, 0);
         {named}"
    );
    planned_with("", &fields, &forgetting(act), &body, "e810")
}

/// More slots are over than one packet has the ends told of: a host is given its second one under the name of the
/// first, whose end then takes that name out. In the host's shard the first had ended before.
#[test]
fn a_name_that_goes_by_its_key_is_the_ended_one() {
    let names =
        "if !self.hosts.insert(src, slot) { self.slots.free(slot); return Drop(Reason::Refused); }";
    let asks = "if self.hosts.get(&host) == Some(index) { self.hosts.remove(&host); }";
    let takes = "self.hosts.remove(&host);";
    for anew in [
        "if let Some(old) = known { self.slots.free(old); self.hosts.remove(&src); }",
        "if let Some(old) = known { self.hosts.remove(&src); self.slots.free(old); }",
        "if known.is_some() { return Drop(Reason::Refused); }",
    ] {
        let found = renewing(takes, [anew, names]);
        assert_eq!(found.strategy, Strategy::SharedNothing, "{anew}: {}", why(&found, "slots"));
    }
    let frees = "if let Some(old) = known { self.hosts.remove(&src); self.slots.free(old); }";
    let late = format!("if let Some(old) = known {{ self.slots.free(old); }} {names}");
    let found = renewing(takes, ["", &late]);
    assert_eq!(found.strategy, Strategy::SharedNothing, "{}", why(&found, "slots"));
    for (anew, named, says) in [
        ("", names, "line 28 may put another in its place before that"),
        (
            "if known.is_some() { self.hosts.remove(&src); }",
            names,
            "line 25 takes it out, and the index stays",
        ),
        (
            "if let Some(old) = known && tcp.fin() { self.hosts.remove(&src); self.slots.free(old); }",
            names,
            "line 28 may put another",
        ),
        (frees, "self.hosts.insert(src, slot);", "line 26 may give it no name before that"),
        (frees, "if tcp.syn() { self.hosts.insert(src, slot); }", "line 26 may give it no name"),
    ] {
        let found = renewing(takes, [anew, named]);
        assert_eq!(mode(&found, "slots"), ObjectMode::Shared, "{anew} {named}");
        let told = why(&found, "slots");
        assert!(
            told.contains("line 14 takes out whatever name") && told.contains(says),
            "{anew} {named}: {told}"
        );
        let found = renewing(asks, [anew, named]);
        assert_eq!(
            mode(&found, "slots"),
            ObjectMode::Sharded,
            "{anew} {named}: {}",
            why(&found, "slots")
        );
    }
    // Where there is room for as many names as there are slots each has one.
    let all = renewing_of(64, takes, [frees, "self.hosts.insert(src, slot);"]);
    assert_eq!(mode(&all, "slots"), ObjectMode::Sharded, "{}", why(&all, "slots"));
    for asks in [
        "if self.hosts.get(&host).is_some_and(|slot| slot == index) { self.hosts.remove(&host); }",
        "if let Some(slot) = self.hosts.get(&host) { if slot != index { return; } self.hosts.remove(&host); }",
    ] {
        let found = renewing(asks, ["", names]);
        assert_eq!(found.strategy, Strategy::SharedNothing, "{asks}: {}", why(&found, "slots"));
    }
    // Asked too late, or in vain.
    for act in [
        "if self.hosts.remove(&host) == Some(index) { self.used.write(index, 0); }",
        "let is_own = self.hosts.get(&host) == Some(index); self.hosts.remove(&host); if is_own { self.used.write(index, 0); }",
        "if self.hosts.contains(&host) { self.hosts.remove(&host); }",
    ] {
        assert_eq!(mode(&renewing(act, ["", names]), "slots"), ObjectMode::Shared, "{act}");
        assert_eq!(mode(&renewing(act, [frees, names]), "slots"), ObjectMode::Sharded, "{act}");
    }
}

/// What takes the place of a name takes the name away: how long a host is barred would depend on when it is told that
/// its slot, which stays out, has ended.
#[test]
fn a_name_that_something_else_replaces_is_lost() {
    let fields =
        "#[capacity(64)] hosts: Map<Ipv4Addr, Known>, #[capacity(64)] #[expired(forget)] slots: Allocator<Ipv4Addr>,
        #[capacity(64)] used: Vector<u32>,";
    let found = |bars: &str| {
        let body = format!(
            "if let Some(known) = self.hosts.get(&src) {{
                 let Known::Slot(slot) = known else {{ return Drop(Reason::Refused) }};
                 if self.slots.is_allocated(slot, cx) {{
                     {bars}
                     self.used.update(slot, |used| *used += 1);
                     if self.used.read(slot) > 9 {{ return Drop(Reason::Refused); }}
                     return Forward(WAN);
                 }}
                 self.hosts.remove(&src);
                 self.slots.free(slot);
             }}
             let Some(slot) = self.slots.allocate(src, 1_000, cx) else {{ return Drop(Reason::Refused) }};
             self.used.write(slot, 0);
             if !self.hosts.insert(src, Known::Slot(slot)) {{
                 self.slots.free(slot);
                 return Drop(Reason::Refused);
             }}"
        );
        let items = "pub enum Known { Slot(u32), Barred }";
        let takes = "self.hosts.remove(&host);";
        let found = planned_with(items, fields, &forgetting(takes), &body, "e810");
        (mode(&found, "slots"), why(&found, "slots"))
    };
    let (named, why) = found("");
    assert_eq!(named, ObjectMode::Sharded, "{why}");
    let bars =
        "if tcp.rst() { self.hosts.insert(src, Known::Barred); return Drop(Reason::Refused); }";
    assert_eq!(found(bars).0, ObjectMode::Shared);
}

/// A window that ends after its slot has been given back, and to another, would change what is his.
#[test]
fn a_slot_that_another_allocator_still_names_is_shared() {
    let planned = |rst: &str| {
        let fields = "#[capacity(64)] hosts: Map<Ipv4Addr, u32>,
             #[capacity(64)] #[expired(forget)] slots: Allocator<Ipv4Addr>,
             #[capacity(64)] used: Vector<u32>,
             #[capacity(64)] #[expired(window)] windows: Allocator<u32>,";
        let handlers = "fn forget(&mut self, index: u32, host: Ipv4Addr, cx: &mut Context) {
                 if self.hosts.get(&host) == Some(index) { self.hosts.remove(&host); }
             }
             fn window(&mut self, index: u32, slot: u32, cx: &mut Context) { self.used.write(slot, 0); }";
        let body = format!(
            "let slot = match self.hosts.get(&src) {{
                 Some(slot) if self.slots.refresh(slot, 1_000, cx) => slot,
                 _ => {{
                     let Some(slot) = self.slots.allocate(src, 1_000, cx) else {{ return Drop(Reason::Refused) }};
                     self.used.write(slot, 0);
                     if !self.hosts.insert(src, slot) {{ self.slots.free(slot); return Drop(Reason::Refused); }}
                     slot
                 }}
             }};
             self.windows.allocate(slot, 1_000, cx);
             {rst}
             self.used.update(slot, |used| *used += 1);
             if self.used.read(slot) > 9 {{ return Drop(Reason::Refused); }}"
        );
        planned_with("", fields, handlers, &body, "e810")
    };
    let freed =
        "if tcp.rst() { self.hosts.remove(&src); self.slots.free(slot); return Forward(WAN); }";
    let found = planned(freed);
    println!("{}", why(&found, "slots"));
    assert_eq!(mode(&found, "slots"), ObjectMode::Shared);
}

/// What is read of slots that are shared is shared after them, for which slots have a reason of their own.
#[test]
fn the_first_reason_is_the_one_that_is_told() {
    let forgets = forgetting("if cx.now() > 9 { self.hosts.remove(&host); }");
    let found = naming(TOLD, &forgets, [ASKED, ""]);
    let [slots, hosts] = ["slots", "hosts"].map(|name| why(&found, name));
    assert!(slots.contains("`hosts` may still name an index of `slots`"), "{slots}");
    assert!(
        hosts.contains("its key at line 14 is read from what packets of other shards"),
        "{hosts}"
    );
}

/// A key that is made of the index is one that somebody had before, too.
#[test]
fn a_name_by_the_index_itself_is_left() {
    let found =
        naming(TOLD, &forgetting("self.hosts.remove(&Ipv4Addr::from(index));"), [ASKED, ""]);
    assert!(why(&found, "slots").contains("had an index of `slots` before has left it"));
}

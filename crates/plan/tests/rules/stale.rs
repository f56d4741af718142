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
             _ => {{
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
    for act in [
        "",
        "if cx.now() > 9 { self.hosts.remove(&host); }",
        "if self.hosts.get(&host) != Some(index) { self.hosts.remove(&host); }",
        "if self.hosts.get(&host) == Some(7) { self.hosts.remove(&host); }",
        "if self.hosts.len() > 9 { self.hosts.remove(&host); }",
        "self.hosts.remove(&Ipv4Addr::from(u32::from(host) + 1));",
        "self.hosts.remove(&Ipv4Addr::from(index));",
        "self.hosts.remove(&host); self.hosts.insert(host, index);",
    ] {
        let found = naming(TOLD, &forgetting(act), [ASKED, ""]);
        assert_eq!(mode(&found, "slots"), ObjectMode::Shared, "{act}");
    }
    let removes =
        forgetting("if self.hosts.get(&host) == Some(index) { self.hosts.remove(&host); }");
    let with = |other: &str| naming(TOLD, &removes, [ASKED, other]);
    for other in [
        // Given back before its time, and named as ever.
        "if tcp.fin() { self.slots.free(slot); return Forward(WAN); }",
        "if tcp.fin() { self.slots.free(slot); if tcp.rst() { self.hosts.remove(&src); } return Forward(WAN); }",
        "if tcp.fin() { self.hosts.remove(&src); self.hosts.insert(src, slot); self.slots.free(slot); }",
        "if tcp.fin() { self.slots.free(u32::from(src_port)); }",
        // Another name, and one that the object does not tell any more.
        "if tcp.fin() { self.hosts.insert(dst, slot); }",
        "if tcp.fin() { self.slots.set(slot, dst); }",
        "if tcp.fin() { self.slots.set(slot, dst); if self.slots.get(slot, cx).is_none() { return Flood; } }",
        "if tcp.fin() { self.hosts.insert(src, 7); }",
    ] {
        assert_eq!(mode(&with(other), "slots"), ObjectMode::Shared, "{other}");
    }
    for other in [
        "if tcp.fin() { self.hosts.remove(&src); self.slots.free(slot); return Forward(WAN); }",
        "if tcp.fin() { self.slots.free(slot); self.hosts.remove(&src); return Forward(WAN); }",
    ] {
        let found = with(other);
        assert_eq!(mode(&found, "slots"), ObjectMode::Sharded, "{other}: {}", why(&found, "slots"));
    }
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

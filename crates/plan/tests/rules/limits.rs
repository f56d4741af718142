//! Counts that each shard may keep for itself, and what they rest upon.

use anabranch_plan::{ObjectMode, Options, Strategy, plan};
use anabranch_rss::Nic;

use super::{check_shared, matrix, mode, paths_of, planned, planned_with, why};

/// Two counts, each of which is asked only where an entry of the other one is opened: of one host's packets the
/// first one goes on, wherever it goes, and that is no capacity of anything.
#[test]
fn counts_do_not_vouch_for_each_other() {
    let fields = "#[capacity(64)] sent: Map<(Ipv4Addr, u8), u32>,
                  #[capacity(64)] received: Map<(Ipv4Addr, u8), u32>,";
    let found = planned(
        fields,
        "if pkt.port() == LAN {
             if self.sent.contains(&(src, 1)) { return Drop(Reason::Refused); }
             if self.received.contains(&(dst, 1)) { return Drop(Reason::Refused); }
             self.sent.insert((src, 1), 1);
             self.received.insert((dst, 1), 1);
             return Forward(WAN);
         }
         let Some(sent) = self.sent.get(&(dst, 1)) else { return Drop(Reason::Refused) };
         let Some(received) = self.received.get(&(src, 1)) else { return Drop(Reason::Refused) };
         if self.sent.contains(&(dst, 2)) { return Drop(Reason::Refused); }
         if self.received.contains(&(src, 2)) { return Drop(Reason::Refused); }
         self.sent.insert((dst, 2), sent + 1);
         self.received.insert((src, 2), received + 1);",
    );
    let modes = ["sent", "received"].map(|name| mode(&found, name));
    assert!(modes.contains(&ObjectMode::Sharded), "{modes:?}: {}", why(&found, "sent"));
    assert_eq!(found.strategy, Strategy::SharedNothing);
    assert_eq!(matrix(&found)[0][0], "lan.ipv4.dst = lan'.ipv4.dst");
}

/// What is taken out where nobody knows whether there is anything is no entry that is closed.
#[test]
fn a_count_beside_what_may_be_nothing_is_no_limit() {
    let fields =
        "#[capacity(64)] sent: Map<Ipv4Addr, u32>, #[capacity(64)] told: Map<Ipv4Addr, u32>,";
    let taking = |takes: &str| {
        let body = format!(
            "if pkt.port() == WAN {{ self.told.insert(src, 1); return Forward(LAN); }}
             let sent = self.sent.get(&src).unwrap_or(0);
             if sent >= 3 {{ return Drop(Reason::Refused); }}
             {takes}
             self.sent.insert(src, sent + 1);"
        );
        mode(&planned(fields, &body), "sent")
    };
    let asked = "if self.told.remove(&dst).is_none() { return Drop(Reason::Refused); }";
    let found =
        "if !self.told.contains(&dst) { return Drop(Reason::Refused); } self.told.remove(&dst);";
    assert_eq!([asked, found].map(taking), [ObjectMode::PerShard; 2]);
    assert_ne!(taking("self.told.remove(&dst);"), ObjectMode::PerShard);
}

/// Whoever shares what a count limits shares the count.
#[test]
fn a_file_shares_a_count_with_what_it_limits() {
    let fields = "#[capacity(64)] hosts: Map<Ipv4Addr, u32>, #[capacity(64)] flows: Map<(Ipv4Addr, u16), u32>,
                  total: Cell<u32>,";
    let body = "if self.flows.contains(&(src, src_port)) { return Forward(WAN); }
        if self.total.get() >= 100 { return Drop(Reason::Refused); }
        self.flows.insert((src, src_port), 1);
        self.hosts.insert(src, 1);
        self.total.update(|total| *total += 1);";
    let paths = paths_of("", fields, "", body);
    let planned = plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap();
    assert_eq!(mode(&planned, "total"), ObjectMode::PerShard);
    let shared = |names: &[&str]| check_shared(&paths, &planned, names);
    for names in [&["total"][..], &["hosts"], &["flows", "total"], &["hosts", "flows", "total"]] {
        assert_eq!(shared(names), Ok(()), "{names:?}");
    }
    let broken = shared(&["flows"]).unwrap_err();
    let says = "`total` can be per-shard only where what it limits is sharded (line 23), and `flows` is shared";
    assert!(broken.contains(says), "{broken}");
}

/// Of two ways to find an index again, the one by which what is answered is still counted by one shard.
#[test]
fn an_allocator_steers_where_a_count_is_whole_by_it() {
    let fields = "#[capacity(512)] chain: Allocator<(Ipv4Addr, Ipv4Addr)>, #[capacity(64)] marks: Allocator<()>,
                  #[capacity(64)] answers: Map<u16, u32>,";
    let counting_for = |lifetime: &str, counts: &str| {
        let body = format!(
            "if pkt.port() == LAN {{
                 let Some(index) = self.chain.allocate((src, dst), {lifetime}, cx) else {{ return Drop(Reason::Refused) }};
                 pkt.set_src_port(index as u16);
                 return Forward(WAN);
             }}
             let index = u32::from(dst_port);
             if index >= self.settings.number {{ return Drop(Reason::Refused); }}
             let Some((inside, peer)) = self.chain.get(index, cx) else {{ return Drop(Reason::Refused) }};
             if peer != src {{ return Drop(Reason::Refused); }}
             let had = self.answers.get(&dst_port).unwrap_or(0);
             if had >= 9 {{ return Drop(Reason::Refused); }}
             if self.marks.allocate((), 1_000, cx).is_none() {{ return Drop(Reason::Refused); }}
             {counts}
             pkt.set_destination(inside, 80);"
        );
        let found = planned(fields, &body);
        ["chain", "answers"].map(|name| mode(&found, name))
    };
    // A port that is given once is nobody else's later.
    let counting = |counts: &str| counting_for("u64::MAX", counts);
    assert_eq!(counting(""), [ObjectMode::Sharded, ObjectMode::ReadOnly]);
    let counted = "self.answers.insert(dst_port, had + 1);";
    assert_eq!(counting(counted), [ObjectMode::Steered, ObjectMode::Sharded]);
    // What is left under one that is given again counts against whoever has it next.
    assert_eq!(counting_for("1_000", counted), [ObjectMode::Shared; 2]);
}

/// Beside what is shared only packet sets are divided: tables and pools of other objects are one for all.
#[test]
fn a_mixed_plan_lists_tables_of_packet_sets_only() {
    let fields =
        "#[capacity(64)] from: Map<u32, u32>, #[capacity(64)] to: Map<u32, u32>, total: Cell<u32>,
                  #[capacity(64)] slots: Allocator<()>,";
    let opens = |shares: &str| {
        let body = format!(
            "if self.from.contains(&u32::from(src)) {{ return Forward(WAN); }}
             if self.total.get() >= 100 {{ return Drop(Reason::Refused); }}
             if self.slots.allocate((), 1_000, cx).is_none() {{ return Drop(Reason::Refused); }}
             self.from.insert(u32::from(src), 1);
             {shares}
             self.total.update(|total| *total += 1);"
        );
        let found = planned(fields, &body);
        let listed = |what: &str| found.differences.iter().any(|one| one.what.contains(what));
        let listed = ["each of the size set", "gives out other values", "for itself"].map(listed);
        (found.strategy, listed)
    };
    assert_eq!(opens(""), (Strategy::SharedNothing, [true; 3]));
    assert_eq!(opens("self.to.insert(u32::from(dst), 1);"), (Strategy::Mixed, [false; 3]));
}

/// What is made and taken out again, or finds no place, opens nothing that a count could limit.
#[test]
fn a_count_beside_what_comes_to_nothing_is_no_limit() {
    let fields =
        "#[capacity(64)] sent: Map<Ipv4Addr, u32>, #[capacity(64)] told: Map<Ipv4Addr, u32>,
                  #[capacity(64)] marks: Allocator<()>,";
    let beside = |makes: &str| {
        let body = format!(
            "if pkt.port() == WAN {{ self.told.insert(src, 1); return Forward(LAN); }}
             let sent = self.sent.get(&src).unwrap_or(0);
             if sent >= 3 {{ return Drop(Reason::Refused); }}
             {makes}
             self.sent.insert(src, sent + 1);"
        );
        mode(&planned(fields, &body), "sent")
    };
    let inserts =
        "if self.told.contains(&dst) { return Drop(Reason::Refused); } self.told.insert(dst, 1);";
    let allocates =
        "let Some(mark) = self.marks.allocate((), 9, cx) else { return Drop(Reason::Refused) };";
    let marks = format!("{allocates} self.told.insert(dst, mark);");
    assert_eq!([inserts, &marks].map(beside), [ObjectMode::PerShard; 2]);
    for makes in [
        format!("{inserts} self.told.remove(&dst);"),
        format!("{allocates} self.marks.free(mark);"),
        "if let Some(mark) = self.marks.allocate((), 9, cx) { self.told.insert(dst, mark); }"
            .to_owned(),
        format!("self.told.remove(&dst); {inserts}"),
    ] {
        assert_ne!(beside(&makes), ObjectMode::PerShard, "{makes}");
    }
}

/// A count of packets by which entries live longer is none of entries.
#[test]
fn a_count_of_what_is_renewed_is_no_limit() {
    let fields = "#[capacity(64)] flows: Map<(Ipv4Addr, u16), u32>, total: Cell<u32>,
                  #[capacity(64)] #[expired(forget)] slots: Allocator<(Ipv4Addr, u16)>,";
    let forget = "fn forget(&mut self, slot: u32, flow: (Ipv4Addr, u16), cx: &mut Context) {
        if self.flows.get(&flow) == Some(slot) { self.flows.remove(&flow); }
    }";
    let renewing = |counts: &str| {
        let body = format!(
            "if let Some(slot) = self.flows.get(&(src, src_port)) && self.slots.refresh(slot, 1_000, cx) {{
                 {counts}
                 return Forward(WAN);
             }}
             if self.total.get() >= 100 {{ return Drop(Reason::Refused); }}
             let Some(slot) = self.slots.allocate((src, src_port), 1_000, cx) else {{ return Drop(Reason::Refused) }};
             self.flows.insert((src, src_port), slot);
             self.total.update(|total| *total += 1);"
        );
        mode(&planned_with("", fields, forget, &body, "e810"), "total")
    };
    assert_eq!(renewing(""), ObjectMode::PerShard);
    assert_eq!(renewing("self.total.update(|total| *total += 1);"), ObjectMode::Shared);
}

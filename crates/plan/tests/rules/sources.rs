//! Keys that are read from state: they name the packet that stored it, where that was in the same shard.

use anabranch_plan::{ObjectMode, Options, Strategy, plan};
use anabranch_rss::Nic;

use super::{check_shared, matrix, mode, paths_of, planned, why};

const FLOWS: &str =
    "#[capacity(64)] flows: Map<(Ipv4Addr, u16), u32>, #[capacity(64)] oldest: Map<Ipv4Addr, u16>,
    #[capacity(64)] to: Map<Ipv4Addr, u32>,";

/// A host's flow takes the place of its oldest one.
const EVICTS: &str = "if self.flows.contains(&(src, src_port)) { return Forward(WAN); }
    if let Some(old) = self.oldest.get(&src) { self.flows.remove(&(src, old)); }
    self.flows.insert((src, src_port), 1);
    self.oldest.insert(src, src_port);";

/// Where each flow is in a shard of its own its host's oldest one is in another.
#[test]
fn a_key_out_of_what_is_shared_names_no_packet() {
    let found = planned(FLOWS, EVICTS);
    assert_eq!(found.strategy, Strategy::SharedNothing, "{}", why(&found, "oldest"));
    assert_eq!(matrix(&found)[0][0], "lan.ipv4.src = lan'.ipv4.src");
    let by_port =
        EVICTS.replace("(src, src_port)", "(dst, src_port)").replace("(src, old)", "(dst, old)");
    let found = planned(FLOWS, &by_port);
    let meet = matrix(&found);
    let apart = mode(&found, "flows") == ObjectMode::Sharded && meet[0][0].contains("tcp.src");
    assert!(!apart, "{meet:?}");
}

/// An index that any packet may find is of any shard.
#[test]
fn an_index_out_of_what_is_shared_is_anybodys() {
    let fields = "#[capacity(64)] hosts: Map<Ipv4Addr, u32>, #[capacity(64)] named: Map<u32, u32>,
        #[capacity(64)] slots: Allocator<u32>, #[capacity(64)] used: Vector<u32>,";
    let found = planned(
        fields,
        "self.hosts.insert(src, 1);
         if let Some(index) = self.named.get(&7) {
             if self.slots.get(index, cx).is_none() { return Drop(Reason::Refused); }
             if self.used.read(index) > 9 { return Drop(Reason::Refused); }
             self.used.update(index, |used| *used += 1);
             return Forward(WAN);
         }
         let Some(index) = self.slots.allocate(1, u64::MAX, cx) else { return Drop(Reason::Refused) };
         self.named.insert(7, index);",
    );
    let modes = ["hosts", "named", "slots", "used"].map(|name| mode(&found, name));
    assert_eq!(modes[0], ObjectMode::Sharded);
    assert_eq!(modes[1..], [ObjectMode::Shared; 3]);
    assert!(
        why(&found, "slots").contains("is shared may have been given in any shard"),
        "{}",
        why(&found, "slots")
    );
}

/// Nor does a file have it otherwise.
#[test]
fn a_file_shares_what_is_named_by_what_it_shares() {
    let fields = "#[capacity(64)] names: Map<Ipv4Addr, Ipv4Addr>, #[capacity(64)] counts: Map<Ipv4Addr, u32>,";
    let body = "let Some(name) = self.names.get(&src) else {
            self.names.insert(src, src);
            return Forward(WAN);
        };
        if self.counts.get(&name) == Some(9) { return Drop(Reason::Refused); }
        self.counts.insert(name, 9);";
    let paths = paths_of("", fields, "", body);
    let planned = plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap();
    assert_eq!(planned.strategy, Strategy::SharedNothing);
    let shared = |names: &[&str]| check_shared(&paths, &planned, names);
    assert_eq!(shared(&["counts"]), Ok(()));
    assert_eq!(shared(&["names", "counts"]), Ok(()));
    let broken = shared(&["names"]).unwrap_err();
    let says = "`counts` cannot be sharded: its key at line 23 is read from what packets of other shards may have left";
    assert!(broken.contains(says), "{broken}");
}

/// What cannot be sharded beside the rest is shared, and not what only meets it at another port.
#[test]
fn what_conflicts_at_another_port_is_what_is_shared() {
    let fields = "#[capacity(64)] hosts: Map<Ipv4Addr, Ipv4Addr>, #[capacity(64)] names: Map<Ipv4Addr, Ipv4Addr>,
        #[capacity(64)] counts: Map<Ipv4Addr, u32>,";
    let found = planned(
        fields,
        "if pkt.port() == WAN {
             self.hosts.insert(src, src);
             self.names.insert(src, dst);
             return Forward(LAN);
         }
         let Some(host) = self.hosts.get(&src) else { return Drop(Reason::Refused) };
         let Some(name) = self.names.get(&host) else { return Drop(Reason::Refused) };
         if self.counts.get(&name).unwrap_or(0) > 9 { return Drop(Reason::Refused); }
         self.counts.insert(name, 1);",
    );
    assert_eq!(matrix(&found)[0][1], "lan.ipv4.src = wan.ipv4.src");
    let modes = ["hosts", "names", "counts"].map(|name| mode(&found, name));
    assert_eq!(modes, [ObjectMode::Sharded, ObjectMode::Sharded, ObjectMode::Shared]);
    let why = why(&found, "counts");
    assert!(why.contains("wan.ipv4.dst = wan'.ipv4.dst") && !why.contains("lan.ipv4.dst"), "{why}");
}

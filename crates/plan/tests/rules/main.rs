//! Each rule by itself, on network functions of a few lines.

#![allow(clippy::unwrap_used)]

use anabranch_analysis::{Budget, Paths, Source, paths_within};
use anabranch_plan::{Class, ObjectMode, Options, Plan, Steerer, Strategy, check, plan};
use anabranch_rss::Nic;

mod indices;
mod left;
mod limits;
mod returned;
mod sources;
mod stale;

/// A function of two ports with these items, fields and the body of `packet`, which sees `ip`,
/// `src` and `dst`: addresses and ports of TCP packets over IPv4.
fn paths_of(items: &str, fields: &str, handlers: &str, body: &str) -> Paths {
    let text = format!(
        "#[network_function(ports(lan, wan))]
pub mod tested {{
    pub struct Settings {{
        #[setting(default = 1)]
        pub number: u32,
        #[setting(default = 1024)]
        pub first: u16,
    }}
    pub enum Reason {{ Refused }}
    {items}
    pub struct Tested {{ settings: Settings, {fields} }}
    impl Tested {{
        {handlers}
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {{
            let Some(ip) = pkt.ipv4() else {{ return Drop(Builtin::UnsupportedProtocol) }};
            let Some(tcp) = pkt.tcp() else {{ return Drop(Builtin::UnsupportedProtocol) }};
            let (src, dst, src_port, dst_port) = (ip.src(), ip.dst(), tcp.src(), tcp.dst());
            {body}
            Forward(pkt.port().other())
        }}
    }}
}}"
    );
    let paths =
        paths_within(&Source { text: &text, file: "tested.rs", line: 1 }, Budget::for_accesses());
    paths.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn planned_with(items: &str, fields: &str, handlers: &str, body: &str, nic: &str) -> Plan {
    let paths = paths_of(items, fields, handlers, body);
    plan(&paths, &Options::new(Nic::named(nic).unwrap())).unwrap()
}

fn planned(fields: &str, body: &str) -> Plan {
    planned_with("", fields, "", body, "e810")
}

fn matrix(plan: &Plan) -> Vec<Vec<String>> {
    plan.matrix(Class::Ipv4Tcp)
}

/// Whether a file that shares the objects of these names stands, or why not.
fn check_shared(paths: &Paths, planned: &Plan, names: &[&str]) -> Result<(), String> {
    let mut edited = planned.clone();
    edited.strategy = Strategy::Mixed;
    for object in edited.objects.iter_mut().filter(|one| names.contains(&&*one.name)) {
        object.mode = ObjectMode::Shared;
    }
    check(paths, &edited).map_err(|broken| broken.to_string())
}

fn mode(plan: &Plan, name: &str) -> ObjectMode {
    plan.objects.iter().find(|object| object.name == name).unwrap().mode
}

fn why(plan: &Plan, name: &str) -> String {
    plan.objects.iter().find(|object| object.name == name).unwrap().why.clone()
}

const COUNTS: &str = "#[capacity(1024)] counts: Map<u32, u32>,";

fn counted_under(key: &str) -> Plan {
    planned(COUNTS, &format!("if pkt.port() == LAN {{ self.counts.insert({key}, 1); }}"))
}

#[test]
fn equal_keys_are_equal_fields() {
    let found = counted_under("u32::from(dst)");
    assert_eq!(matrix(&found), [["lan.ipv4.dst = lan'.ipv4.dst", "F"], ["F", "F"]]);
    assert_eq!(found.strategy, Strategy::SharedNothing);
    let turned = planned(
        COUNTS,
        "if pkt.port() == LAN { self.counts.insert(u32::from(src), 1); }
         else if self.counts.contains(&u32::from(dst)) { return Drop(Reason::Refused); }",
    );
    assert_eq!(matrix(&turned)[0][1], "lan.ipv4.src = wan.ipv4.dst");
}

#[test]
fn masks_prefixes_and_sums_without_carry_are_linear() {
    let prefix = counted_under("u32::from(src) & 0xffff_ff00");
    assert_eq!(matrix(&prefix)[0][0], "lan.ipv4.src/24 = lan'.ipv4.src/24");
    let host = counted_under("u32::from(src) % 256");
    assert_eq!(matrix(&host)[0][0], "lan.ipv4.src[24..32] = lan'.ipv4.src[24..32]");
    let joined = counted_under("(u32::from(src_port) << 16) + u32::from(dst_port)");
    let both = "lan.tcp.src = lan'.tcp.src && lan.tcp.dst = lan'.tcp.dst";
    assert_eq!(matrix(&joined)[0][0], both);
    let mixed = counted_under("u32::from(src) ^ u32::from(dst)");
    assert_eq!(mixed.strategy, Strategy::SharedNothing);
    assert!(matrix(&mixed)[0][0].contains('^'), "{:?}", matrix(&mixed));
    assert_eq!(mixed.ports[0].rank, mixed.index_bits);
}

#[test]
fn what_is_the_same_for_all_packets_may_be_added() {
    let found = counted_under("u32::from(src_port.wrapping_sub(self.settings.first))");
    assert_eq!(matrix(&found)[0][0], "lan.tcp.src = lan'.tcp.src");
    let next = counted_under("u32::from(src) + self.settings.number");
    assert_eq!(matrix(&next)[0][0], "lan.ipv4.src = lan'.ipv4.src");
}

#[test]
fn sums_products_and_unknown_functions_are_refused_with_the_line() {
    for (key, reason) in [
        ("u32::from(src) + u32::from(dst)", "a sum that carries"),
        ("u32::from(src) * 3", "a product"),
        ("hash(u32::from(src))", "an unknown function"),
        ("cx.now() as u32", "no"),
    ] {
        let hash = "#[opaque] fn hash(a: u32) -> u32 { a.wrapping_mul(2_654_435_761) }";
        let body = format!("self.counts.insert({key}, 1);");
        let found = planned_with(hash, COUNTS, "", &body, "e810");
        assert_eq!(found.strategy, Strategy::Transactional, "{key}");
        let reasons = why(&found, "counts");
        assert!(reasons.contains("line 18") && reasons.contains(reason), "{key}: {reasons}");
        assert_eq!(found.impossible.unwrap().lines, [18]);
    }
}

#[test]
fn a_part_that_is_not_understood_only_makes_more_packets_meet() {
    let pair = "pub struct Pair { a: u32, b: u32 }";
    let body = "self.pairs.insert(Pair { a: u32::from(src) * 3, b: u32::from(dst) }, 1);";
    let found = planned_with(pair, "#[capacity(9)] pairs: Map<Pair, u32>,", "", body, "e810");
    assert_eq!(matrix(&found)[0][1], "lan.ipv4.dst = wan.ipv4.dst");
    assert!(found.notes.iter().any(|note| note.lines == [18]), "{:?}", found.notes);
}

/// That a key is of one kind and not another is no reason; that one of them is the same for all is.
#[test]
fn one_entry_for_all_beside_others_is_the_reason() {
    let items = "pub enum Key { Host(Ipv4Addr), All }";
    let body = "self.used.insert(Key::Host(src), 1);\nself.used.insert(Key::All, 1);";
    let found = planned_with(items, "#[capacity(64)] used: Map<Key, u32>,", "", body, "e810");
    assert_eq!(found.strategy, Strategy::Transactional);
    let why = why(&found, "used");
    assert!(why.contains("named by no packet field"), "{why}");
    assert!(found.notes.iter().all(|note| !note.what.contains("variant")), "{:?}", found.notes);
}

#[test]
fn constants_never_meet_other_constants() {
    let found = planned(
        COUNTS,
        "if pkt.port() == LAN { self.counts.insert(7, 1); } else { self.counts.insert(8, 1); }",
    );
    assert_eq!(found.strategy, Strategy::Transactional, "all packets of a port meet");
    let found = planned(
        "#[capacity(99)] a: Map<u32, u32>,",
        "if pkt.port() == LAN { self.a.insert(u32::from(src) | 1, 1); }
         else { self.a.insert(u32::from(src) & 0xffff_fffe, 1); }",
    );
    assert_eq!(matrix(&found)[0][1], "F", "one has its last bit set, the other has not");
}

#[test]
fn a_coarser_key_serves_the_finer() {
    let found = planned(
        "#[capacity(9)] hosts: Map<u32, u32>, #[capacity(9)] flows: Map<(u32, u32), u32>,",
        "self.hosts.insert(u32::from(src), 1);
         self.flows.insert((u32::from(src), u32::from(dst)), 1);",
    );
    assert_eq!(matrix(&found)[0][0], "lan.ipv4.src = lan'.ipv4.src");
    assert!(found.objects.iter().all(|object| object.mode == ObjectMode::Sharded));
}

#[test]
fn needs_without_a_common_field_are_disjoint() {
    let found = planned(
        "#[capacity(9)] from: Map<u32, u32>, #[capacity(9)] to: Map<u32, u32>,",
        "self.from.insert(u32::from(src), 1);\nself.to.insert(u32::from(dst), 1);",
    );
    assert_eq!(found.strategy, Strategy::Mixed, "one of the two can be sharded");
    assert_eq!(
        (mode(&found, "from"), mode(&found, "to")),
        (ObjectMode::Sharded, ObjectMode::Shared)
    );
    let both = found.objects.iter().find(|object| object.name == "to").unwrap();
    assert_eq!(both.lines, [18, 19]);
}

#[test]
fn fields_that_no_nic_hashes_are_steered_in_software() {
    let body = "let mac = pkt.ethernet().src(); self.macs.insert(mac, 1);";
    let fields = "#[capacity(9)] macs: Map<MacAddr, u32>,";
    let tcp = |nic: &str| {
        let found = planned_with("", fields, "", body, nic);
        assert_eq!(found.strategy, Strategy::SharedNothing);
        let mut classes = found.ports[0].classes.iter();
        let tcp = classes.find(|class| class.class == "ipv4-tcp").unwrap();
        (tcp.by, tcp.rank)
    };
    assert_eq!(tcp("software").0, Steerer::Nic);
    assert_eq!(tcp("x710").0, Steerer::Software);
    assert!(tcp("x710").1 > 4);
}

#[test]
fn what_packets_never_write_or_merge_anyhow_drops_out() {
    let found = planned_with(
        "pub enum Command { Allow { address: Ipv4Addr } }",
        "#[capacity(9)] allowed: Map<Ipv4Addr, bool>, #[capacity(9)] known: Map<Ipv4Addr, bool>,
         seen: Counter, last: Cell<u32>,",
        "fn init(&mut self, cx: &mut Context) { self.known.insert(Ipv4Addr::new(10, 0, 0, 1), true); }
         fn control(&mut self, command: Command, cx: &mut Context) -> Result<(), &'static str> {
             match command { Command::Allow { address } => { self.allowed.insert(address, true); } }
             Ok(())
         }",
        "self.seen.add(1);
         if self.last.get() == 7 || !self.allowed.contains(&src) || self.known.contains(&dst) {
             return Drop(Reason::Refused);
         }",
        "e810",
    );
    assert_eq!(found.strategy, Strategy::SharedNothing);
    assert_eq!(mode(&found, "allowed"), ObjectMode::Replicated);
    assert_eq!(mode(&found, "known"), ObjectMode::ReadOnly);
    assert_eq!(mode(&found, "last"), ObjectMode::ReadOnly);
    assert_eq!(mode(&found, "seen"), ObjectMode::Distributed);
}

/// The example of the thesis, section 3.1.1: the first 100 packets of all.
#[test]
fn a_count_of_packets_is_no_capacity() {
    let found = planned(
        "sent: Cell<u32>,",
        "let sent = self.sent.get();
         if sent >= 100 { return Drop(Reason::Refused); }
         self.sent.set(sent + 1);",
    );
    assert_eq!(found.strategy, Strategy::Transactional);
    assert!(why(&found, "sent").contains("one value"), "{}", why(&found, "sent"));
}

/// A timer that brings the index that its packet was given is where that is, as long as nobody else has been given it by
/// then: on one core that is another one than in a shard.
#[test]
fn a_timer_finds_what_its_packet_took() {
    let fields =
        "#[capacity(64)] flows: Map<Ipv4Addr, u32>, #[capacity(64)] slots: Allocator<Ipv4Addr>,";
    let timed = |handler: &str, [first, lifetime, token]: [&str; 3]| {
        let handlers = format!(
            "fn timer(&mut self, token: u64, cx: &mut Context) {{
                 let Some(host) = self.slots.get(token as u32, cx) else {{ return }};
                 {handler}
             }}"
        );
        let opens = format!(
            "{first}
             if self.flows.contains(&src) {{ return Forward(WAN); }}
             let Some(index) = self.slots.allocate(src, {lifetime}, cx) else {{ return Drop(Reason::Refused) }};
             self.flows.insert(src, index);
             cx.set_timer(1_000_000, {token});"
        );
        planned_with("", fields, &handlers, &opens, "e810")
    };
    let frees = "self.slots.free(token as u32); self.flows.remove(&host);";
    let index = "u64::from(index)";
    let found = timed(frees, ["", "u64::MAX", index]);
    assert_eq!(found.strategy, Strategy::SharedNothing, "{}", why(&found, "slots"));
    assert_eq!(matrix(&found)[0][1], "lan.ipv4.src = wan.ipv4.src");
    for token in ["u64::from(index) + 1", "u64::from(u32::from(src))"] {
        let found = timed(frees, ["", "u64::MAX", token]);
        assert_eq!(found.strategy, Strategy::Transactional, "{token}");
    }
    let ended = "if let Some(old) = self.flows.get(&src) && tcp.fin() {
            self.flows.remove(&src);
            self.slots.free(old);
            return Forward(WAN);
        }";
    let twice = "u64::from(index)); cx.set_timer(2_000_000, u64::from(index)";
    let again = "self.slots.free(token as u32); self.flows.remove(&host); cx.set_timer(9, token);";
    for (handler, setting) in [
        (frees, ["", "1_000_000_000", index]),
        (frees, [ended, "u64::MAX", index]),
        (frees, ["", "u64::MAX", twice]),
        (again, ["", "u64::MAX", index]),
    ] {
        let found = timed(handler, setting);
        assert_eq!(mode(&found, "slots"), ObjectMode::Shared, "{handler} {setting:?}");
    }
}

/// What is set in turns of a loop that are not listed may bring anything.
#[test]
fn a_timer_of_a_loop_without_a_known_end_is_not_trusted() {
    let fields = "#[capacity(64)] hosts: Map<Ipv4Addr, u32>,";
    let handlers = "fn timer(&mut self, token: u64, cx: &mut Context) {
            let sent = self.hosts.get(&Ipv4Addr::from(token as u32)).unwrap_or(0);
            if !self.hosts.insert(Ipv4Addr::from(token as u32), sent + 1) { cx.emit(WAN, &[0; 64]); }
        }";
    let set = |turn: &str| {
        let body = format!(
            "cx.set_timer(1_000_000, u64::from(u32::from(src)));
             for step in 0..self.settings.number {{ {turn} }}"
        );
        mode(&planned_with("", fields, handlers, &body, "e810"), "hosts")
    };
    assert_eq!(set(""), ObjectMode::Sharded);
    assert_eq!(set("if step == 5 { cx.set_timer(1_000_000, 7); }"), ObjectMode::Shared);
}

/// A timer is in the shard of the packet that has set it, so that what it brings of that packet names its entries.
#[test]
fn a_timer_finds_what_its_packet_has_stored() {
    let fields = "#[capacity(64)] hosts: Map<Ipv4Addr, u32>, #[capacity(64)] pairs: Map<Ipv4Addr, Ipv4Addr>,";
    let timed = |handler: &str, token: &str| {
        let handlers = format!("fn timer(&mut self, token: u64, cx: &mut Context) {{ {handler} }}");
        let body = format!(
            "let sent = self.hosts.get(&src).unwrap_or(0);
             if sent == 0 {{ cx.set_timer(1_000_000, {token}); }}
             self.hosts.insert(src, sent + 1);"
        );
        planned_with("", fields, &handlers, &body, "e810")
    };
    let forgets = "self.hosts.remove(&Ipv4Addr::from(token as u32));";
    let again = "let host = Ipv4Addr::from(token as u32);
        let Some(sent) = self.hosts.get(&host) else { return };
        self.hosts.insert(host, sent / 2);
        cx.set_timer(1_000_000_000, token);";
    let src = "u64::from(u32::from(src))";
    for handler in [forgets, again] {
        let found = timed(handler, src);
        assert_eq!(found.strategy, Strategy::SharedNothing, "{}", why(&found, "hosts"));
        assert_eq!(matrix(&found)[0][1], "lan.ipv4.src = wan.ipv4.src");
        // The entry of another host, of a sum, of what chance has drawn, of whatever comes next.
        for token in ["u64::from(u32::from(dst))", "u64::from(u32::from(src)) + 1", "cx.random()"] {
            assert_eq!(mode(&timed(handler, token), "hosts"), ObjectMode::Shared, "{token}");
        }
    }
    let next = again.replace(", token);", ", token + 1);");
    assert_eq!(mode(&timed(&next, src), "hosts"), ObjectMode::Shared);
    // What it stores is of that packet, too.
    let stores = "self.pairs.insert(Ipv4Addr::from(token as u32), Ipv4Addr::from(token as u32));
        if let Some(host) = self.pairs.get(&Ipv4Addr::from(token as u32)) { self.hosts.remove(&host); }";
    assert_eq!(timed(stores, src).strategy, Strategy::SharedNothing);
    // Two kinds of timers are told by bits that they bring.
    let kinds = "if token >> 32 == 1 { self.hosts.remove(&Ipv4Addr::from(token as u32)); }
        else { self.pairs.remove(&Ipv4Addr::from(token as u32)); }";
    let two = |known: &str| {
        format!(
            "{known} << 32 | u64::from(u32::from(src)));
             self.pairs.insert(dst, src);
             cx.set_timer(1_000_000, u64::from(u32::from(dst))"
        )
    };
    let found = timed(kinds, &two("1"));
    assert_eq!(mode(&found, "hosts"), ObjectMode::Sharded, "{}", why(&found, "hosts"));
    let hosts_only = "if token >> 32 == 1 { self.hosts.remove(&Ipv4Addr::from(token as u32)); }";
    assert_eq!(mode(&timed(hosts_only, &two("1")), "hosts"), ObjectMode::Sharded);
    assert_eq!(mode(&timed(hosts_only, &two("0")), "hosts"), ObjectMode::Sharded);
    let either = "if token >> 32 != 2 { self.hosts.remove(&Ipv4Addr::from(token as u32)); }";
    assert_eq!(mode(&timed(either, &two("1")), "hosts"), ObjectMode::Shared);
}

#[test]
fn a_key_after_a_loop_without_a_known_end_is_not_trusted() {
    let body = "let mut key = u32::from(src);
            for step in 0..self.settings.number { if step == 5 { key = u32::from(dst); } }
            self.counts.insert(key, 1);";
    let found = planned(COUNTS, body);
    assert_eq!(found.strategy, Strategy::Transactional);
    assert!(why(&found, "counts").contains("loop"), "{}", why(&found, "counts"));
    assert!(found.notes.iter().any(|note| note.lines == [20]), "{:?}", found.notes);
    // Nor where the first turns are sure to be taken, so that no path asks.
    let sure = "let mut key = u32::from(src); let mut step = 0; let number = self.settings.number;
            if number < 4 { return Drop(Reason::Refused); }
            while step < number { if step == 9 { key = u32::from(dst); } step += 1; }
            self.counts.insert(key, 1);";
    let found = planned(COUNTS, sure);
    assert_eq!(found.strategy, Strategy::Transactional, "{:?}", matrix(&found));
}

/// What a function does with the verdict of its routing is found, though paths leave it open.
#[test]
fn what_follows_a_routed_packet_is_seen() {
    let body = "return match self.l3.forward(pkt, cx) {
                Forward(port) => { self.counts.insert(u32::from(dst), 1); Forward(port) }
                other => other,
            };";
    let found = planned(&format!("l3: L3, {COUNTS}"), &format!("if src_port > 7 {{ {body} }}"));
    assert_eq!(matrix(&found)[0][0], "lan.ipv4.dst = lan'.ipv4.dst");
    assert_eq!(mode(&found, "l3"), ObjectMode::Replicated);
}

/// One sum begins anew at 65,536, the other does not: that they are equal says nothing of which bit is which.
#[test]
fn sums_of_different_types_are_not_compared() {
    let key = "Map<(Ipv4Addr, u32), u32>";
    for (narrow, wide) in [
        ("u32::from(src_port.wrapping_add(7))", "u32::from(dst_port) + 7"),
        (
            "u32::from(src_port.wrapping_sub(self.settings.first))",
            "u32::from(dst_port).wrapping_sub(u32::from(self.settings.first))",
        ),
    ] {
        let body = format!(
            "if pkt.port() == LAN {{ self.counts.insert((src, {narrow}), 1); }}
             else if !self.counts.contains(&(dst, {wide})) {{ return Drop(Reason::Refused); }}"
        );
        let found = planned(&format!("#[capacity(64)] counts: {key},"), &body);
        assert_eq!(matrix(&found)[0][1], "lan.ipv4.src = wan.ipv4.dst", "{narrow}");
    }
}

/// With commands `Put`, which `handlers` carry out.
fn commanded(fields: &str, handlers: &str, body: &str) -> Plan {
    let items = "pub enum Command { Put { address: Ipv4Addr, group: u32 } }";
    planned_with(items, fields, handlers, body, "e810")
}

const CONTROL: &str =
    "fn control(&mut self, command: Command, cx: &mut Context) -> Result<(), &'static str>";

const GROUPS: &str =
    "#[capacity(64)] groups: Map<Ipv4Addr, u32>, #[capacity(64)] counts: Map<u32, u32>,";

/// Counts the packets of each group; a host that is in none is one by itself.
const COUNTS_OF_GROUPS: &str = "let group = match self.groups.get(&src) {
        Some(group) => group,
        None => { self.groups.insert(src, u32::from(src)); u32::from(src) }
    };
    let count = self.counts.get(&group).unwrap_or(0);
    self.counts.insert(group, count + 1);
    if count > self.settings.number { return Drop(Reason::Refused); }";

#[test]
fn what_a_command_stores_is_of_no_packet() {
    let (fields, body) = (GROUPS, COUNTS_OF_GROUPS);
    let put = format!(
        "{CONTROL} {{ match command {{ Command::Put {{ address, group }} => {{
            self.groups.insert(address, group); }} }} Ok(()) }}"
    );
    assert_eq!(planned(fields, body).strategy, Strategy::SharedNothing);
    let found = commanded(fields, &put, body);
    assert_eq!(found.strategy, Strategy::Mixed);
    // An entry of its own is another matter: only the shard of that host looks at it.
    let body = "if self.groups.contains(&src) { return Drop(Reason::Refused); } self.groups.insert(src, 1);";
    assert_eq!(commanded(fields, &put, body).strategy, Strategy::SharedNothing);
}

#[test]
fn what_is_read_of_parts_is_no_news_for_all() {
    let counts = "let count = self.counts.get(&u32::from(src)).unwrap_or(0);
                  self.counts.insert(u32::from(src), count + 1);";
    let fields = "#[capacity(64)] counts: Map<u32, u32>, alarm: Cell<bool>, seen: Counter,";
    let command = |act: &str| {
        format!(
            "{CONTROL} {{ match command {{ Command::Put {{ address, group }} => {{ {act} }} }} Ok(()) }}"
        )
    };
    let alarmed = format!(
        "{counts} self.seen.add(1); if self.alarm.get() {{ return Drop(Reason::Refused); }}"
    );
    for act in [
        "if self.counts.contains(&u32::from(address)) { self.alarm.set(true); }",
        "if self.seen.read() > 10 { self.alarm.set(true); }",
    ] {
        let found = commanded(fields, &command(act), &alarmed);
        assert_eq!(found.strategy, Strategy::Mixed, "{act}");
        assert!(why(&found, "alarm").contains("by what it has read"), "{}", why(&found, "alarm"));
    }
    let timers = "fn init(&mut self, cx: &mut Context) { cx.set_timer(1_000_000, 1); }
        fn timer(&mut self, token: u64, cx: &mut Context) {
            if self.seen.read() > 10 { self.alarm.set(true); }
            cx.set_timer(1_000_000, 1);
        }";
    let found = planned_with("", fields, timers, &alarmed, "e810");
    assert_eq!(found.strategy, Strategy::Mixed);
    let renames = "let count = self.counts.get(&u32::from(address)).unwrap_or(0);
                   self.counts.insert(group, count);";
    assert_eq!(commanded(fields, &command(renames), counts).strategy, Strategy::Transactional);
    // What was there, and whether it was, is read too.
    for act in [
        "if let Some(count) = self.counts.remove(&u32::from(address)) { self.counts.insert(group, count); }",
        "if self.counts.update(&u32::from(address), |count| *count = 0) { self.alarm.set(true); }",
    ] {
        assert_ne!(
            commanded(fields, &command(act), &alarmed).strategy,
            Strategy::SharedNothing,
            "{act}"
        );
    }
    // The shard that has the entry has all of it, and what is set is the same everywhere.
    let resets = "if self.counts.contains(&group) { self.counts.insert(group, 0); }";
    assert_eq!(commanded(fields, &command(resets), counts).strategy, Strategy::SharedNothing);
    let sets = "self.alarm.set(group > 0);";
    assert_eq!(commanded(fields, &command(sets), &alarmed).strategy, Strategy::SharedNothing);
}

/// What a command makes or changes by what one shard alone has would not go with that shard.
#[test]
fn what_a_command_takes_from_one_entry_into_another_is_shared() {
    let fields =
        "#[capacity(64)] sent: Map<Ipv4Addr, u32>, #[capacity(64)] allowed: Map<Ipv4Addr, u32>,";
    let command = |act: &str| {
        format!(
            "{CONTROL} {{ match command {{ Command::Put {{ address, group }} => {{ {act} }} }} Ok(()) }}"
        )
    };
    let body = "if pkt.port() == LAN {
             let sent = self.sent.get(&src).unwrap_or(0);
             self.sent.insert(src, sent + 1);
         } else if !self.allowed.update(&dst, |left| *left -= 1) {
             return Drop(Reason::Refused);
         }";
    let copies = "let Some(sent) = self.sent.get(&address) else { return Err(\"none\") };
                  self.allowed.insert(address, sent);";
    let found = commanded(fields, &command(copies), body);
    assert_eq!(found.strategy, Strategy::Mixed);
    assert!(why(&found, "allowed").contains("by what it has read"), "{}", why(&found, "allowed"));
    // A shard that has it refuses; the others would keep what it does not know of.
    let adds = |map: &str| {
        format!(
            "if self.{map}.contains(&address) {{ return Err(\"there\"); }} self.{map}.insert(address, group);"
        )
    };
    let found = commanded(fields, &command(&adds("sent")), body);
    assert_eq!(found.strategy, Strategy::Mixed);
    // All have the same keys where packets make and remove none.
    let found = commanded(fields, &command(&adds("allowed")), body);
    assert_eq!(found.strategy, Strategy::SharedNothing, "{}", why(&found, "allowed"));
}

/// Packets use up what a command has stored on every worker, each on one.
#[test]
fn what_commands_ask_of_entries_that_packets_change_is_listed() {
    let fields = "#[capacity(64)] allowed: Map<Ipv4Addr, u32>,";
    let command = |act: &str| {
        format!(
            "{CONTROL} {{ match command {{ Command::Put {{ address, group }} => {{ {act} }} }} Ok(()) }}"
        )
    };
    let uses = "if !self.allowed.remove(&src).is_some() { return Drop(Reason::Refused); }";
    let looks = "if !self.allowed.contains(&src) { return Drop(Reason::Refused); }";
    let tops_up = "if self.allowed.contains(&address) { self.allowed.insert(address, group); }";
    let puts = "self.allowed.insert(address, group);";
    let ends = "self.allowed.remove(&address);";
    for (act, body, is_listed) in
        [(tops_up, uses, true), (puts, uses, false), (ends, uses, false), (tops_up, looks, false)]
    {
        let found = commanded(fields, &command(act), body);
        assert_eq!(found.strategy, Strategy::SharedNothing, "{act}");
        let mut all = found.differences.iter();
        assert_eq!(all.any(|one| one.what.contains("ask each worker")), is_listed, "{act} {body}");
    }
}

/// What `init` stores may be the same for several packets, and name what others want.
#[test]
fn what_init_stores_is_of_no_packet() {
    let (fields, body) = (GROUPS, COUNTS_OF_GROUPS);
    let init = "fn init(&mut self, cx: &mut Context) {
            self.groups.insert(Ipv4Addr::new(10, 0, 0, 1), 7);
            self.groups.insert(Ipv4Addr::new(10, 0, 0, 2), 7);
        }";
    assert_eq!(planned(fields, body).strategy, Strategy::SharedNothing);
    let found = planned_with("", fields, init, body, "e810");
    assert_eq!(mode(&found, "counts"), ObjectMode::Shared);
    assert!(why(&found, "counts").contains("`init` has stored"), "{}", why(&found, "counts"));

    let fields =
        "#[capacity(64)] reserved: Map<Ipv4Addr, u32>, #[capacity(64)] seats: Allocator<Ipv4Addr>,";
    let init = init.replace("groups", "reserved");
    let seat = |act: &str| {
        format!(
            "let Some(seat) = self.reserved.get(&src) else {{ return Drop(Reason::Refused) }}; {act}"
        )
    };
    for act in [
        "if !self.seats.allocate_at(seat, src, 9, cx) { return Drop(Reason::Refused); }",
        "if self.seats.get(seat, cx) != Some(src) { return Drop(Reason::Refused); }
         if src_port == 7 { self.seats.free(seat); }",
    ] {
        let found = planned_with("", fields, &init, &seat(act), "e810");
        assert_eq!(mode(&found, "seats"), ObjectMode::Shared, "{act}");
        assert!(why(&found, "seats").contains("that `init` has noted"), "{}", why(&found, "seats"));
    }
}

/// What hosts share under an index of `init` is listed by name, though `init` has not written it.
#[test]
fn what_stands_under_an_index_of_init_is_named() {
    let fields =
        "#[capacity(64)] groups: Allocator<()>, #[capacity(64)] members: Map<Ipv4Addr, u32>,
        #[capacity(64)] sent: Vector<u64>,";
    let body = |index: &str| {
        format!(
            "let Some(index) = {index} else {{ return Drop(Reason::Refused) }};
            let sent = self.sent.read(index);
            if sent > 99 {{ return Drop(Reason::Refused); }}
            self.sent.write(index, sent + 1);"
        )
    };
    let init = "fn init(&mut self, cx: &mut Context) {
            self.groups.allocate_at(7, (), u64::MAX, cx);
            self.members.insert(Ipv4Addr::new(10, 0, 0, 1), 7);
            self.members.insert(Ipv4Addr::new(10, 0, 0, 2), 7);
        }";
    let listed = |found: &Plan| {
        let mut all = found.differences.iter();
        all.any(|one| one.what.starts_with("what `sent` holds") && one.lines.len() == 2)
    };
    let make = "self.groups.allocate((), u64::MAX, cx)";
    let known = body("self.members.get(&src)");
    let join = format!(
        "if !self.members.contains(&src) && let Some(index) = {make} {{
            self.members.insert(src, index); self.sent.write(index, 0); return Flood;
         }}
         {known}"
    );
    let found = planned_with("", fields, init, &join, "e810");
    assert_eq!(mode(&found, "sent"), ObjectMode::Sharded, "{}", why(&found, "sent"));
    assert!(listed(&found), "{:?}", found.differences);
    let found = planned(fields, &join);
    assert_eq!((mode(&found, "sent"), listed(&found)), (ObjectMode::Sharded, false));
}

#[test]
fn a_key_that_a_setting_shifts_says_what_to_write() {
    for key in [
        "u32::from(src) >> (32 - self.settings.number)",
        "u32::from(src) & (u32::MAX << (32 - self.settings.number))",
    ] {
        let why = why(&counted_under(key), "counts");
        assert!(why.contains("a constant in its place is followed"), "{key}: {why}");
    }
    const KEY: &str = "u32::from(src) >> 8";
    assert_eq!(mode(&counted_under(KEY), "counts"), ObjectMode::Sharded);
}

#[test]
fn what_is_done_without_a_packet_is_done_by_each_worker() {
    let fields = "seen: Counter, beats: Counter,";
    let every = |act: &str| {
        let periodic =
            format!("#[every_ms(1)] fn periodic(&mut self, cx: &mut Context) {{ {act} }}");
        planned_with("", fields, &periodic, "self.seen.add(1);", "e810")
    };
    let listed = |plan: &Plan| {
        let mut all = plan.differences.iter();
        all.any(|one| one.what.contains("once for each worker"))
    };
    let quiet = every("let seen = self.seen.read(); log!(cx, info, \"{}\", seen);");
    assert_eq!((quiet.strategy, listed(&quiet)), (Strategy::SharedNothing, false));
    for act in ["cx.emit(WAN, &[0; 64]);", "self.beats.add(1);"] {
        let found = every(act);
        assert_eq!((found.strategy, listed(&found)), (Strategy::SharedNothing, true), "{act}");
    }
    // Each would go by its own part.
    let found = every("if self.seen.read() > 10 { cx.emit(WAN, &[0; 64]); }");
    assert_eq!(mode(&found, "seen"), ObjectMode::Shared);
}

/// What decides about packets, or who comes first, limits nothing of which each shard could have its part.
#[test]
fn a_count_that_opens_nothing_is_no_limit() {
    let fields = "#[capacity(64)] counts: Map<u32, u32>, total: Cell<u32>, #[capacity(64)] slots: Allocator<()>,";
    let key = "u32::from(src)";
    let hundred = format!(
        "self.counts.insert({key}, 1);
         if self.total.get() >= 100 {{ return Drop(Reason::Refused); }}
         self.total.update(|total| *total += 1);"
    );
    let turns = format!(
        "if !self.counts.contains(&{key}) {{
             let turn = self.total.get();
             self.total.set(turn + 1);
             if turn % 2 == 0 {{ self.counts.insert({key}, 1); return Drop(Reason::Refused); }}
             self.counts.insert({key}, 0);
         }}"
    );
    // By turns: both go on, but not the same way.
    let servers = turns.replace("return Drop(Reason::Refused)", "return Forward(LAN)");
    // Who is refused has taken an index.
    let taken =
        "let Some(index) = self.slots.allocate((), 1_000_000_000, cx) else { return Drop(Reason::Refused) };
         if self.total.get() >= 100 { return Drop(Reason::Refused); }
         self.total.update(|total| *total += 1);"
            .to_owned();
    let told = format!(
        "if !self.counts.contains(&{key}) {{
             let total = self.total.get();
             if total >= 100 {{ return Drop(Reason::Refused); }}
             if !self.counts.insert({key}, 1) {{ return Drop(Reason::Refused); }}
             self.total.set(total + 1);
             cx.emit(WAN, &total.to_be_bytes());
         }}"
    );
    for body in [hundred, turns, servers, taken, told] {
        assert_ne!(planned(fields, &body).strategy, Strategy::SharedNothing, "{body}");
    }
    let limit = format!(
        "if !self.counts.contains(&{key}) {{
             if self.total.get() >= 100 {{ return Drop(Reason::Refused); }}
             if !self.counts.insert({key}, 1) {{ return Drop(Reason::Refused); }}
             self.total.update(|total| *total += 1);
         }}"
    );
    let found = planned(fields, &limit);
    assert_eq!(
        (found.strategy, mode(&found, "total")),
        (Strategy::SharedNothing, ObjectMode::PerShard)
    );
}

/// What a refusal leaves is there in one shard whose count is full, and not in another one.
#[test]
fn a_count_whose_refusals_leave_something_is_no_limit() {
    let fields = "#[capacity(64)] counts: Map<u32, u32>, total: Cell<u32>, #[capacity(64)] slots: Allocator<()>,
                  #[capacity(64)] strikes: Map<u32, u32>, #[capacity(64)] flows: Map<(u32, u8), u32>,";
    let refusing = |refuses: &str| {
        let body = format!(
            "let key = u32::from(src);
             if self.strikes.get(&key).unwrap_or(0) > 3 {{ return Drop(Reason::Refused); }}
             if self.flows.contains(&(key, 1)) {{ return Forward(WAN); }}
             if !self.counts.contains(&key) {{
                 let Some(index) = self.slots.allocate((), 1_000_000_000, cx) else {{ return Drop(Reason::Refused) }};
                 if self.total.get() >= 100 {{
                     self.slots.free(index);
                     {refuses}
                     return Drop(Reason::Refused);
                 }}
                 if !self.counts.insert(key, 1) {{ self.slots.free(index); return Drop(Reason::Refused); }}
                 self.total.update(|total| *total += 1);
                 if src_port == 7 {{ self.strikes.insert(key, 0); self.flows.insert((key, 2), 1); }}
                 if src_port == 8 {{ self.flows.insert((key, 1), 1); }}
             }}"
        );
        mode(&planned(fields, &body), "total")
    };
    assert_eq!(refusing(""), ObjectMode::PerShard);
    assert_eq!(
        refusing("if self.flows.insert((key, 3), 1) { self.flows.remove(&(key, 3)); }"),
        ObjectMode::Shared,
        "it may have been there"
    );
    let taken_back = "if !self.flows.contains(&(key, 3)) {
            self.flows.insert((key, 3), 1);
            self.flows.remove(&(key, 3));
        }";
    assert_eq!(refusing(taken_back), ObjectMode::PerShard);
    for refuses in [
        "self.strikes.update(&key, |strikes| *strikes += 1);",
        "self.flows.remove(&(key, 2));",
        "if !self.flows.contains(&(key, 1)) { self.flows.insert((key, 1), 1); self.flows.remove(&(key, 2)); }",
        // What is looked up in vain under what is there is not over for it.
        "if let Some(it) = self.strikes.get(&key) && self.flows.get(&(it, 9)).is_none() {
             self.strikes.insert(key, 1);
             self.strikes.remove(&key);
         }",
    ] {
        assert_eq!(refusing(refuses), ObjectMode::Shared, "{refuses}");
    }
}

/// All count together what all have together.
#[test]
fn a_count_of_what_is_shared_is_shared() {
    let fields = "#[capacity(64)] sent: Map<Ipv4Addr, u32>, #[capacity(64)] counts: Map<u16, u32>, total: Cell<u32>,";
    let counted_by = |key: &str| {
        let body = format!(
            "if self.sent.get(&src).unwrap_or(0) > 9 {{ return Drop(Reason::Refused); }}
             if dst_port == 9 {{ self.sent.insert(src, 0); return Forward(WAN); }}
             let key = {key};
             if !self.counts.contains(&key) {{
                 if self.total.get() >= 100 {{ return Drop(Reason::Refused); }}
                 if !self.counts.insert(key, 1) {{ return Drop(Reason::Refused); }}
                 self.total.update(|total| *total += 1);
             }}
             self.sent.update(&src, |sent| *sent += 1);"
        );
        let found = planned(fields, &body);
        ["counts", "total"].map(|name| mode(&found, name))
    };
    let low = "(u32::from(src) & 0xffff) as u16";
    assert_eq!(counted_by(low), [ObjectMode::Sharded, ObjectMode::PerShard]);
    assert_eq!(counted_by("src_port"), [ObjectMode::Shared; 2]);
}

#[test]
fn how_many_indices_are_out_and_those_of_others_are_asked_by_all() {
    let fields = "#[capacity(64)] flows: Map<Ipv4Addr, u32>, #[capacity(64)] slots: Allocator<()>,
                  #[capacity(64)] others: Allocator<()>, #[capacity(64)] marks: Map<(u32, u8), u32>,";
    let take = |from: &str| {
        format!(
            "let Some(index) = self.{from}.allocate((), 1_000_000_000, cx) else {{ return Drop(Reason::Refused) }};
             self.flows.insert(src, index);"
        )
    };
    let opens =
        |act: &str| format!("if self.flows.contains(&src) {{ return Forward(WAN); }} {act}");
    assert_eq!(planned(fields, &opens(&take("slots"))).strategy, Strategy::SharedNothing);
    let counted =
        format!("{} if self.slots.len() > 10 {{ return Drop(Reason::Refused); }}", take("slots"));
    assert_eq!(planned(fields, &opens(&counted)).strategy, Strategy::Mixed);
    let marks = |from: &str| {
        let taken = take(from);
        format!(
            "{taken} if self.marks.contains(&(index, 3)) {{ return Drop(Reason::Refused); }}
             self.marks.insert((index, 3), 1);"
        )
    };
    let both = format!("if src_port == 7 {{ {} }} else {{ {} }}", marks("slots"), marks("others"));
    assert_eq!(planned(fields, &opens(&both)).strategy, Strategy::Mixed);
}

/// A plan whose keys do not serve it is not handed out as if somebody had edited it.
#[test]
fn what_no_keys_serve_is_shared() {
    let found = planned(
        COUNTS,
        "if pkt.port() == LAN {
             self.counts.insert(u32::from(src) & 0xffff_ff00, 1);
             self.counts.insert((u32::from(src) << 8) | 5, 1);
             return Forward(WAN);
         }
         if !self.counts.contains(&(u32::from(dst) & 0xffff_0000)) { return Drop(Reason::Refused); }
         if !self.counts.contains(&(u32::from(dst).rotate_left(8) | 0xff)) { return Drop(Reason::Refused); }",
    );
    assert_eq!(found.strategy, Strategy::Transactional);
    let why = found.impossible.unwrap().why;
    assert!(why.contains("no keys were found by which all meet"), "{why}");
}

/// What nothing steers by, and what a plan cannot know, is said as it is.
#[test]
fn keys_of_the_payload_and_of_settings_are_refused_by_name() {
    let prefix = "u32::from(src) >> (32 - self.settings.number)";
    let bytes = "u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]])";
    for (key, reason) in [
        (prefix, "is shifted or masked by a setting, and a plan holds for all settings"),
        (bytes, "is made of the payload, by which neither a NIC nor a worker steers"),
        ("u32::from(payload[0]) + 1", "is made of the payload"),
        ("pkt.payload().len() as u32 + 1", "is made of the payload"),
        ("self.payloads.get(&1).unwrap_or(0) + 1", "is a sum that carries"),
    ] {
        let body = format!(
            "let payload = pkt.payload(); self.counts.insert({key}, 1);
             if tcp.rst() {{ self.payloads.insert(1, 1); }}"
        );
        let fields = format!("{COUNTS} #[capacity(9)] payloads: Map<u32, u32>,");
        let why = why(&planned(&fields, &body), "counts");
        assert!(why.contains(reason), "{key}: {why}");
    }
}

//! Indices that allocators give out: whose they are, and what packets that bring them back find.

use anabranch_analysis::{Budget, Source, paths_within};
use anabranch_plan::{ObjectMode, Options, Plan, Strategy, plan};
use anabranch_rss::Nic;

use super::{CONTROL, check_shared, commanded, matrix, mode, paths_of, planned, planned_with, why};

#[test]
fn indices_inherit_the_key_that_they_are_stored_under() {
    let body = "let index = match self.indices.get(&src) {
                Some(index) if self.chain.is_allocated(index, cx) => index,
                _ => {
                    let Some(index) = self.chain.allocate(src, 1_000, cx) else {
                        return Drop(Reason::Refused);
                    };
                    self.indices.insert(src, index);
                    index
                }
            };
            self.counts.update(index, |count| *count += 1);";
    let fields = "#[capacity(9)] indices: Map<Ipv4Addr, u32>, #[capacity(9)] counts: Vector<u32>,
                  #[capacity(9)] #[expired(forget)] chain: Allocator<Ipv4Addr>,";
    let forgets = "fn forget(&mut self, index: u32, host: Ipv4Addr, cx: &mut Context) {
            if self.indices.get(&host) == Some(index) { self.indices.remove(&host); }
        }";
    let found = planned_with("", fields, forgets, body, "e810");
    assert_eq!(matrix(&found)[0][1], "lan.ipv4.src = wan.ipv4.src");
    assert_eq!(found.strategy, Strategy::SharedNothing);
    assert!(why(&found, "counts").contains("`chain`"), "{}", why(&found, "counts"));
}

#[test]
fn an_index_from_a_packet_is_refused_where_nothing_bounds_it() {
    let body = "if pkt.port() == LAN {
                let Some(index) = self.chain.allocate(src, 1_000, cx) else {
                    return Drop(Reason::Refused);
                };
                pkt.set_src_port(index as u16);
            } else {
                let Some(inside) = self.chain.get(u32::from(dst_port), cx) else {
                    return Drop(Reason::Refused);
                };
                pkt.set_destination(inside, 80);
            }";
    let found = planned("#[capacity(65_536)] chain: Allocator<Ipv4Addr>,", body);
    assert_eq!(found.strategy, Strategy::Transactional);
    assert_eq!(found.impossible.unwrap().lines, [24]);
}

/// The plainest translation: the index is the port, less the first that is given out.
#[test]
fn an_index_without_rows_steers_where_it_is_bounded() {
    let fields = "#[capacity(512)] chain: Allocator<Ipv4Addr>, #[capacity(512)] sent: Vector<u32>,";
    let body = |bound: &str| {
        format!(
            "if pkt.port() == LAN {{
                let Some(index) = self.chain.allocate(src, 1_000, cx) else {{ return Drop(Reason::Refused) }};
                self.sent.write(index, 0);
                pkt.set_src_port(self.settings.first + index as u16);
            }} else {{
                let index = u32::from(dst_port.wrapping_sub(self.settings.first));
                if {bound} {{ return Drop(Reason::Refused); }}
                let Some(inside) = self.chain.get(index, cx) else {{ return Drop(Reason::Refused) }};
                self.sent.update(index, |sent| *sent += 1);
                if self.sent.read(index) > 5 {{ return Drop(Reason::Refused); }}
                pkt.set_destination(inside, 80);
            }}"
        )
    };
    let found = planned(fields, &body("index >= self.settings.number"));
    assert_eq!(
        (found.strategy, mode(&found, "chain")),
        (Strategy::SharedNothing, ObjectMode::Steered)
    );
    let steered = &found.steered[0];
    assert_eq!((&*steered.base, &*steered.modulus), ("settings.first", "settings.number"));
    assert_eq!(matrix(&found)[1][1], "wan.tcp.dst = wan'.tcp.dst");
    // What bounds it has to be the same for all.
    let found = planned(fields, &body("index >= u32::from(src_port)"));
    assert_eq!(mode(&found, "chain"), ObjectMode::Shared);
}

const FLOW: &str = "pub struct Flow { address: Ipv4Addr, port: u16, peer: Ipv4Addr, class: u8 }";

/// A function whose packets of `lan` are given an index, under which those of `wan` are `found`.
fn translated(class: &str, stores: &str, found: &str) -> Plan {
    let body = format!(
        "let flow = Flow {{ address: src, port: src_port, peer: dst, class: {class} }};
            if pkt.port() == LAN {{
                match self.indices.get(&flow) {{
                    Some(index) if self.chain.refresh(index, 1_000, cx) => {{}}
                    _ => {{
                        let Some(index) = self.chain.allocate(flow, 1_000, cx) else {{
                            return Drop(Reason::Refused);
                        }};
                        self.indices.insert(flow, index);
                        {stores}
                    }}
                }}
            }} else {{
                let index = u32::from(dst_port.wrapping_sub(self.settings.first));
                if index >= self.settings.number {{ return Drop(Reason::Refused); }}
                {found}
            }}"
    );
    let fields =
        "#[capacity(512)] indices: Map<Flow, u32>, #[capacity(512)] #[expired(forget)] chain: Allocator<Flow>,
                  #[capacity(512)] flows: Vector<Flow>, #[capacity(512)] kept: Map<u32, Flow>,
                  #[capacity(512)] last: Map<Ipv4Addr, u32>,";
    let find = "fn find(&mut self, index: u32, cx: &mut Context) -> Option<Flow> { self.chain.get(index, cx) }
        fn forget(&mut self, index: u32, flow: Flow, cx: &mut Context) {
            if self.indices.get(&flow) == Some(index) { self.indices.remove(&flow); }
        }";
    planned_with(FLOW, fields, find, &body, "e810")
}

/// What is compared may serve no better than nothing: that all packets of a class meet is no use to those that meet by
/// what they are known by. The allocator steers then.
#[test]
fn an_index_steers_where_what_is_compared_is_too_little() {
    let compared = |class: &str, with: &str| {
        translated(
            class,
            "",
            &format!(
                "let Some(it) = self.chain.get(index, cx) else {{ return Drop(Reason::Refused) }};
                 if {with} {{ return Drop(Reason::Refused); }}
                 pkt.set_destination(it.address, it.port);"
            ),
        )
    };
    let found = compared("ip.dscp()", "it.peer != src");
    assert_eq!(
        (found.strategy, mode(&found, "chain")),
        (Strategy::SharedNothing, ObjectMode::Sharded)
    );
    assert_eq!(matrix(&found)[0][1], "lan.ipv4.dst = wan.ipv4.src");
    for class in ["ip.dscp()", "ip.protocol()"] {
        let found = compared(class, &format!("it.class != {class}"));
        assert_eq!(
            (found.strategy, mode(&found, "chain")),
            (Strategy::SharedNothing, ObjectMode::Steered)
        );
        assert_eq!(matrix(&found)[1][1], "wan.tcp.dst = wan'.tcp.dst");
        let listed = found.differences.iter().any(|one| one.what.contains("finds nothing where"));
        assert!(!listed, "{:?}", found.differences);
    }
}

/// Of two indices that a packet brings both are compared, or what is found depends on where it is looked up.
#[test]
fn each_index_that_a_packet_brings_is_compared() {
    let compared = |other: &str| {
        let found = translated(
            "0",
            "",
            &format!(
                "let Some(it) = self.chain.get(u32::from(dst_port), cx) else {{ return Drop(Reason::Refused) }};
                 if it.peer != src {{ return Drop(Reason::Refused); }}
                 {other}
                 pkt.set_destination(it.address, it.port);"
            ),
        );
        found.strategy
    };
    assert_eq!(compared(""), Strategy::SharedNothing);
    let other = "let Some(other) = self.chain.get(u32::from(src_port), cx) else { return Drop(Reason::Refused) };";
    assert_ne!(compared(other), Strategy::SharedNothing);
    let compares = format!("{other} if other.peer != src {{ return Drop(Reason::Refused); }}");
    assert_eq!(compared(&compares), Strategy::SharedNothing);
}

/// A vector has zero where nothing is stored, which a packet may bring: only the allocator tells that something is.
#[test]
fn what_nothing_has_stored_is_compared_with_nothing() {
    let compared = |before: &str| {
        let found = translated(
            "0",
            "self.flows.write(index, flow);",
            &format!(
                "let index = u32::from(dst_port);
                 {before}
                 let it = self.flows.read(index);
                 if it.peer != src {{ return Drop(Reason::Refused); }}
                 pkt.set_destination(it.address, it.port);"
            ),
        );
        found.strategy
    };
    assert_ne!(compared(""), Strategy::SharedNothing);
    let asked = "if !self.chain.is_allocated(index, cx) { return Drop(Reason::Refused); }";
    assert_eq!(compared(asked), Strategy::SharedNothing);
}

/// What a map holds may be left of whoever had the index before.
#[test]
fn what_is_left_under_an_index_is_compared_with_nothing() {
    let compared = |stores: &str, before: &str| {
        let found = translated(
            "0",
            stores,
            &format!(
                "let index = u32::from(dst_port);
                 {before}
                 let Some(it) = self.kept.get(&index) else {{ return Drop(Reason::Refused) }};
                 if it.peer != src {{ return Drop(Reason::Refused); }}
                 pkt.set_destination(it.address, it.port);"
            ),
        );
        found.strategy
    };
    let stores = "if !self.kept.insert(index, flow) { self.indices.remove(&flow); self.chain.free(index); return Drop(Reason::Refused); }";
    let asked = "if !self.chain.is_allocated(index, cx) { return Drop(Reason::Refused); }";
    assert_ne!(compared(stores, ""), Strategy::SharedNothing);
    assert_eq!(compared(stores, asked), Strategy::SharedNothing);
    // An entry that a full map refuses was not there before: nothing is left either.
    assert_eq!(compared("self.kept.insert(index, flow);", asked), Strategy::SharedNothing);
    // Where the next one stores nothing it is.
    let stores = format!("if src_port != 7 {{ {stores} }}");
    assert_ne!(compared(&stores, asked), Strategy::SharedNothing);
}

/// That a line has been looked at says nothing of who else comes by it.
#[test]
fn an_index_out_of_state_is_no_index_that_a_packet_brings() {
    let compared = |other: &str| {
        let found = translated(
            "0",
            "",
            &format!(
                "let index = u32::from(dst_port);
                 if dst_port == 7 {{
                     {other}
                 }}
                 let Some(it) = self.find(index, cx) else {{ return Drop(Reason::Refused) }};
                 if it.peer != src {{ return Drop(Reason::Refused); }}
                 self.last.insert(src, index);
                 pkt.set_destination(it.address, it.port);"
            ),
        );
        found.strategy
    };
    assert_eq!(compared(""), Strategy::SharedNothing);
    let unseen = "let Some(known) = self.last.get(&src) else { return Drop(Reason::Refused) };
                  let Some(it) = self.find(known, cx) else { return Drop(Reason::Refused) };
                  pkt.set_destination(it.address, it.port);
                  return Forward(LAN);";
    assert_ne!(compared(unseen), Strategy::SharedNothing);
}

/// What is asked once the entry has been looked up says nothing of the index that it was looked up by.
#[test]
fn a_bound_that_comes_too_late_is_none() {
    let planned_by = |there: &str| {
        let body = format!(
            "if pkt.port() == LAN {{
                let Some(index) = self.chain.allocate(src, 1_000, cx) else {{ return Drop(Reason::Refused) }};
                pkt.set_src_port(self.settings.first + index as u16);
            }} else {{
                let index = u32::from(dst_port.wrapping_sub(self.settings.first));
                let there = {there};
                pkt.set_src_port(if there {{ 80 }} else {{ 81 }});
            }}"
        );
        mode(&planned("#[capacity(1024)] chain: Allocator<Ipv4Addr>,", &body), "chain")
    };
    let (is_there, is_bound) =
        ("self.chain.touch(index, cx).is_some()", "index < self.settings.number");
    assert_eq!(planned_by(&format!("{is_bound} && {is_there}")), ObjectMode::Steered);
    assert_eq!(planned_by(&format!("{is_there} && {is_bound}")), ObjectMode::Shared);
    let late = format!("{{ let there = {is_there}; if {is_bound} {{ there }} else {{ false }} }}");
    assert_eq!(planned_by(&late), ObjectMode::Shared);
    let late = format!(
        "{{ let there = {is_there}; if index >= self.settings.number {{ false }} else {{ there }} }}"
    );
    assert_eq!(planned_by(&late), ObjectMode::Shared);
}

/// The first that is given out may be a constant, and be taken off before the port is widened or after.
#[test]
fn the_first_port_that_is_given_out_may_be_a_constant() {
    let fields = "#[capacity(512)] chain: Allocator<Ipv4Addr>,";
    let steered = |index: &str, bound: &str| {
        let body = format!(
            "if pkt.port() == LAN {{
                let Some(index) = self.chain.allocate(src, 1_000, cx) else {{ return Drop(Reason::Refused) }};
                pkt.set_src_port(FIRST + index as u16);
            }} else {{
                let index = {index};
                if {bound} {{ return Drop(Reason::Refused); }}
                let Some(inside) = self.chain.get(index, cx) else {{ return Drop(Reason::Refused) }};
                pkt.set_destination(inside, 80);
            }}"
        );
        let found = planned_with("const FIRST: u16 = 2_048;", fields, "", &body, "e810");
        let steered = found.steered.first().map(|one| (one.base.clone(), one.modulus.clone()));
        assert_eq!(mode(&found, "chain") == ObjectMode::Steered, steered.is_some());
        steered
    };
    let known = |base: &str, modulus: &str| Some((base.to_owned(), modulus.to_owned()));
    let wide = "u32::from(dst_port).wrapping_sub(u32::from(FIRST))";
    let narrow = "u32::from(dst_port.wrapping_sub(FIRST))";
    assert_eq!(steered(wide, "index >= 512"), known("2048", "512"));
    for index in [wide, narrow] {
        let number = "index >= self.settings.number";
        assert_eq!(steered(index, number), known("2048", "settings.number"), "{index}");
    }
    let set = "u32::from(dst_port).wrapping_sub(u32::from(self.settings.first))";
    let number = "index >= self.settings.number";
    assert_eq!(steered(set, number), known("settings.first", "settings.number"));
    assert_eq!(
        steered(wide, "index >= u32::from(src_port)"),
        None,
        "no bound that is the same for all"
    );
    let scaled = "u32::from(dst_port) * 3 - u32::from(FIRST)";
    assert_eq!(steered(scaled, "index >= 512"), None, "it is no port");
}

/// What stands under indices that are shared is shared with them, and nothing is said of how they are looked up.
#[test]
fn what_stands_under_shared_indices_goes_with_them() {
    let body = "if pkt.port() == LAN {
                match self.indices.get(&src) {
                    Some(index) if self.chain.refresh(index, 1_000, cx) => {}
                    _ => {
                        let Some(index) = self.chain.allocate((), 1_000, cx) else { return Drop(Reason::Refused) };
                        self.indices.insert(src, index);
                        self.classes.write(index, ip.dscp());
                    }
                }
            } else {
                let index = u32::from(dst_port);
                if !self.chain.is_allocated(index, cx) { return Drop(Reason::Refused); }
                if self.classes.read(index) != ip.dscp() { return Drop(Reason::Refused); }
            }";
    let fields = "#[capacity(9)] indices: Map<Ipv4Addr, u32>, #[capacity(9)] chain: Allocator<()>,
                  #[capacity(9)] classes: Vector<u8>,";
    let found = planned(fields, body);
    assert_eq!(found.strategy, Strategy::Mixed);
    assert_eq!(["chain", "classes"].map(|name| mode(&found, name)), [ObjectMode::Shared; 2]);
    assert_eq!(mode(&found, "indices"), ObjectMode::Sharded);
    let listed = found.differences.iter().any(|one| one.what.contains("finds nothing where"));
    assert!(!listed, "{:?}", found.differences);
}

const COUNTED: &str = "let index = match self.indices.get(&src) {
        Some(index) if self.chain.is_allocated(index, cx) => index,
        _ => {
            let Some(index) = self.chain.allocate((), u64::MAX, cx) else { return Drop(Reason::Refused) };
            self.indices.insert(src, index);
            self.counts.write(index, 0);
            index
        }
    };
    self.counts.update(index, |count| *count += 1);
    if self.counts.read(index) > 9 { return Drop(Reason::Refused); }";
const COUNTED_FIELDS: &str =
    "#[capacity(9)] indices: Map<Ipv4Addr, u32>, #[capacity(9)] chain: Allocator<()>,
    #[capacity(9)] counts: Vector<u32>,";

/// Where indices are shared by all because a command gives them back, so is what stands under them.
#[test]
fn what_stands_under_indices_that_commands_free_goes_with_them() {
    let control = format!(
        "{CONTROL} {{ match command {{ Command::Put {{ address, group }} => {{
             if self.indices.contains(&address) {{ self.chain.free(group); }} }} }} Ok(()) }}"
    );
    let found = commanded(COUNTED_FIELDS, &control, COUNTED);
    assert_eq!(["chain", "counts"].map(|name| mode(&found, name)), [ObjectMode::Shared; 2]);
}

/// A file may share what was sharded, but not the indices alone.
#[test]
fn a_file_shares_what_stands_under_shared_indices() {
    let paths = paths_of("", COUNTED_FIELDS, "", COUNTED);
    let planned = plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap();
    let shared = |names: &[&str]| check_shared(&paths, &planned, names);
    assert_eq!(shared(&["chain", "counts"]), Ok(()));
    assert_eq!(shared(&["counts"]), Ok(()));
    let broken = shared(&["chain"]).unwrap_err();
    assert!(broken.contains("`counts`") && broken.contains("`chain`"), "{broken}");
}

/// The protocol is the same in all packets of TCP: it tells no shards apart, and no key spreads by it.
#[test]
fn a_protocol_that_is_compared_is_nothing() {
    let compared = |with: &str| {
        let body = format!(
            "if pkt.port() == LAN {{
                 let flow = Flow {{ address: src, port: src_port, peer: dst, class: ip.protocol() }};
                 let Some(index) = self.chain.allocate(flow, 1_000, cx) else {{
                     return Drop(Reason::Refused);
                 }};
                 pkt.set_src_port(index as u16);
             }} else {{
                 let Some(it) = self.chain.get(u32::from(dst_port), cx) else {{
                     return Drop(Reason::Refused);
                 }};
                 if {with} {{ return Drop(Reason::Refused); }}
                 pkt.set_destination(it.address, it.port);
             }}"
        );
        planned_with(FLOW, "#[capacity(512)] chain: Allocator<Flow>,", "", &body, "e810")
    };
    let found = compared("it.class != ip.protocol() || it.peer != src");
    assert_eq!(found.strategy, Strategy::SharedNothing);
    assert_eq!(matrix(&found)[0][1], "lan.ipv4.dst = wan.ipv4.src");
    let found = compared("it.class != ip.protocol()");
    assert_eq!(found.strategy, Strategy::Transactional);
    let why = why(&found, "chain");
    assert!(why.contains("indices of `chain`"), "{why}");
}

/// How long a packet set is left to live must not say whether the index was found in this shard.
#[test]
fn what_a_refused_packet_leaves_is_the_same_everywhere() {
    let items =
        "#[packet_set(ipv4(ipv4.src, ipv4.dst), bidirectional, capacity = 64, expires_s = 60)]
        pub struct Pair { seen: u32 }";
    let refusing = |missing: &str, other: &str| {
        let text = format!(
            "#[network_function(ports(lan, wan))]
pub mod tested {{
    pub struct Settings {{}}
    pub enum Reason {{ Refused }}
    {items}
    pub struct Flow {{ address: Ipv4Addr, peer: Ipv4Addr }}
    pub struct Tested {{ settings: Settings, #[capacity(512)] chain: Allocator<Flow>, }}
    impl Tested {{
        fn packet_set_opened(&mut self, pkt: &mut Packet, cx: &mut Context) -> Result<Pair, Verdict> {{
            if pkt.port() == WAN {{ return Err(Drop(Reason::Refused)); }}
            Ok(Pair {{ seen: 0 }})
        }}
        fn packet(&mut self, pair: &mut Pair, pkt: &mut Packet, cx: &mut Context) -> Verdict {{
            let Some(ip) = pkt.ipv4() else {{ return Drop(Builtin::UnsupportedProtocol) }};
            let Some(tcp) = pkt.tcp() else {{ return Drop(Builtin::UnsupportedProtocol) }};
            let (src, dst, dst_port) = (ip.src(), ip.dst(), tcp.dst());
            if pkt.port() == LAN {{
                let Some(index) = self.chain.allocate(Flow {{ address: src, peer: dst }}, 1_000, cx) else {{
                    return Drop(Reason::Refused);
                }};
                pkt.set_src_port(index as u16);
                return Forward(WAN);
            }}
            let Some(it) = self.chain.get(u32::from(dst_port), cx) else {{ {missing} return Drop(Reason::Refused) }};
            if it.peer != src || it.address != dst {{ {other} return Drop(Reason::Refused); }}
            pkt.set_destination(it.address, 80);
            Forward(LAN)
        }}
    }}
}}"
        );
        let source = Source { text: &text, file: "tested.rs", line: 1 };
        let paths = paths_within(&source, Budget::for_accesses()).unwrap();
        let found = plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap();
        mode(&found, "chain")
    };
    let short = "cx.set_expiry(1_000_000_000);";
    assert_eq!(refusing("", ""), ObjectMode::Sharded);
    assert_eq!(refusing(short, short), ObjectMode::Sharded);
    for (missing, other) in [("", short), (short, ""), (short, "cx.set_expiry(5_000_000_000);")] {
        assert_eq!(refusing(missing, other), ObjectMode::Shared, "{missing} {other}");
    }
}

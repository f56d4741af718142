//! What the explorer makes of each construct, on small network functions.

use anabranch_analysis::{AnalysisError, Budget, Opaque, Paths, Source, paths, paths_within};

/// A network function whose packet handler has this body, on lines 20 and after.
fn nf(items: &str, state: &str, body: &str) -> String {
    format!("{}pub struct Nf {{ {state} }}\n{items}\n{HANDLER}{body}\n}}\n}}\n}}\n", head())
}

fn head() -> String {
    "#[network_function(ports(lan, wan))]\npub mod small {\n".to_owned()
}

const HANDLER: &str = "impl Nf {\n\
    fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {\n";

fn source(text: &str) -> Source<'_> {
    Source { text, file: "small.rs", line: 1 }
}

fn explored(items: &str, state: &str, body: &str) -> Paths {
    let text = nf(items, state, body);
    paths(&source(&text)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Paths for packets from one port: the same from both.
fn count(items: &str, state: &str, body: &str) -> usize {
    let found = explored(items, state, body);
    assert_eq!(found.paths.len() % 2, 0, "{}", found.to_text());
    found.paths.len() / 2
}

fn error(items: &str, state: &str, body: &str) -> AnalysisError {
    let text = nf(items, state, body);
    paths(&source(&text)).expect_err("this has no paths")
}

fn line_of(text: &str, needle: &str) -> u32 {
    (1..).zip(text.lines()).find(|(_, line)| line.contains(needle)).map_or(0, |(line, _)| line)
}

const REASON: &str = "pub enum Reason { Old, Small }";
const TABLE: &str = "#[capacity(8)] table: Map<Ipv4Addr, u32>,";

#[test]
fn a_straight_handler_is_one_path() {
    assert_eq!(count("", "", "Forward(pkt.port().other())"), 1);
}

#[test]
fn each_verdict_is_a_path_and_says_its_line() {
    let body = "if let Some(ip) = pkt.ipv4() {\n\
        if ip.ttl() <= 1 {\nreturn Drop(Reason::Old);\n}\n}\nForward(WAN)";
    let found = explored(REASON, "", body);
    assert_eq!(found.paths.len(), 6);
    let text = found.to_text();
    for expected in ["ipv4 present", "no ipv4", "ipv4.ttl <= 1", "ipv4.ttl > 1", "Drop(old)"] {
        assert!(text.contains(expected), "no `{expected}` in\n{text}");
    }
    let line = line_of(&nf(REASON, "", body), "return Drop(Reason::Old);");
    assert_eq!(found.paths[0].line, line);
}

#[test]
fn a_counter_without_a_type_is_not_a_path_of_each_count() {
    let body = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        let source = u32::from(ip.src());\n\
        let mut ones = 0;\n\
        for at in 0..32 { if source >> at & 1 == 1 { ones += 1; } }\n\
        if ones > 32 { return Drop(Reason::Old) }\n\
        if ones > 31 { return Drop(Reason::Small) }\n\
        Forward(WAN)";
    let found = explored(REASON, "", body);
    // Without an IPv4 header, all ones, and the others; nothing has more.
    assert_eq!(found.paths.len(), 6, "{}", found.to_text());
    assert!(!found.to_text().contains("Drop(old)"));
}

#[test]
fn what_contradicts_the_path_is_pruned() {
    let body = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        if ip.ttl() > 10 {\n if ip.ttl() < 5 { return Drop(Reason::Old) }\n }\n\
        if pkt.tcp().is_some() && pkt.udp().is_some() { return Drop(Reason::Small) }\n\
        if pkt.ipv6().is_some() { return Drop(Reason::Small) }\n\
        Forward(WAN)";
    let found = explored(REASON, "", body);
    let drops = found.to_text().matches("Drop(").count();
    assert_eq!(drops, 0, "{}", found.to_text());
    assert!(found.statistics.pruned > 0);
}

#[test]
fn sums_and_widths_are_understood_by_the_solver() {
    let body = "let Some(udp) = pkt.udp() else { return Flood };\n\
        let sum = u32::from(udp.src()) + u32::from(udp.dst());\n\
        if sum > 131_070 { return Drop(Reason::Small) }\n\
        if udp.src() / 2 > 40_000 { return Drop(Reason::Small) }\n\
        Forward(WAN)";
    assert_eq!(count(REASON, "", body), 2);
}

#[test]
fn transport_headers_follow_the_protocol() {
    let body = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        if ip.protocol() == 17 && !pkt.is_fragment() && pkt.udp().is_none() {\n\
        return Drop(Reason::Small)\n}\n\
        if pkt.tcp().is_some() && ip.protocol() != 6 { return Drop(Reason::Small) }\n\
        Forward(WAN)";
    let found = explored(REASON, "", body);
    assert!(!found.to_text().contains("Drop("), "{}", found.to_text());
}

#[test]
fn computations_are_joined_and_accesses_are_not() {
    let joined = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        let class: u8 = if ip.ttl() > 64 { 1 } else if ip.ttl() > 32 { 2 } else { 3 };\n\
        let mut weight: u32 = 0;\n\
        match class { 1 => weight = 10, 2 => weight += 5, _ => {} }\n\
        if weight + u32::from(ip.ttl()) > 600 { return Drop(Reason::Small) }\n\
        Forward(WAN)";
    assert_eq!(count(REASON, "", joined), 2);
    let forked = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        if ip.ttl() > 64 { self.table.insert(ip.src(), 1); }\n\
        Forward(WAN)";
    assert_eq!(count("", TABLE, forked), 3);
}

#[test]
fn header_fields_are_joined_as_locals_are() {
    let joined = "let Some(mut ip) = pkt.ipv4_mut() else { return Flood };\n\
        if ip.ttl() > 64 { ip.set_dscp(1); }\n\
        if ip.dscp() == 1 { ip.set_ttl(64); } else { ip.set_ttl(32); ip.set_ecn(2); }\n\
        Forward(WAN)";
    assert_eq!(count("", "", joined), 2);
    let text = explored("", "", joined).to_text();
    for expected in [
        "ipv4.dscp = (if ipv4.ttl > 64 then 1 else ipv4.dscp)",
        "ipv4.ttl = (if ipv4.ttl > 64 || ipv4.ttl <= 64 && ipv4.dscp == 1 then 64 else 32)",
        "ipv4.ecn = (if ipv4.ttl > 64 || ipv4.ttl <= 64 && ipv4.dscp == 1 then ipv4.ecn else 2)",
    ] {
        assert!(text.contains(expected), "no `{expected}` in\n{text}");
    }
    // What came before a way that does more than that is as it was on the other.
    let forked = "let Some(mut ip) = pkt.ipv4_mut() else { return Flood };\n\
        if ip.ttl() > 64 { ip.set_dscp(1); self.table.insert(ip.src(), 1); }\n\
        Forward(WAN)";
    let found = explored("", TABLE, forked);
    let set = found.paths.iter().filter(|path| !path.rewrites.is_empty()).count();
    assert_eq!((found.paths.len(), set), (6, 2), "{}", found.to_text());
}

#[test]
fn what_has_been_admitted_is_admitted_again_as_long_as_it_is_the_same() {
    let admit = "if let Some(verdict) = self.l3.admit(pkt, cx) { return verdict }\n";
    let once = format!("{admit}Forward(WAN)");
    let changed = "if let Some(mut ip) = pkt.ipv4_mut() { ip.set_ttl(9); }\n";
    let between = format!("{admit}{changed}{admit}Forward(WAN)");
    assert_eq!(count("", "l3: L3,", &once), 2);
    assert_eq!(count("", "l3: L3,", &format!("{admit}{once}")), 2);
    assert_eq!(count("", "l3: L3,", &between), 4);
}

#[test]
fn what_is_no_ip_is_neither_passed_on_nor_routed() {
    let ask = "pkt.ipv4().is_none() && pkt.ipv6().is_none()";
    let passed = |receive: &str, asked: &str| {
        let body = format!("{receive} if {asked} {{ return Flood }}\nForward(WAN)");
        explored("", "l3: L3,", &body).to_text().contains("Flood")
    };
    let receive = "if let Some(verdict) = self.l3.receive(pkt, cx) { return verdict }";
    let enabled = format!("if self.l3.enabled() {{ {receive} }} else {{ return Forward(WAN) }}");
    assert!(!passed(&enabled, ask));
    assert!(passed(&enabled, "pkt.ipv4().is_none()"));
    assert!(passed(receive, ask), "it may be disabled, and handles nothing then");
    assert!(passed(&enabled.replace("receive", "admit"), ask), "that looks at other things");
    let routed = |asked: &str| {
        let body = format!("if {asked} {{ return self.l3.forward(pkt, cx) }}\nFlood");
        explored("", "l3: L3,", &body).to_text().contains("Forward(")
    };
    assert!(!routed(ask));
    assert!(routed("pkt.ipv4().is_none()"));
}

#[test]
fn an_entry_read_twice_is_the_same_twice() {
    let body = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        if self.table.contains(&ip.src()) && self.table.get(&ip.src()).is_none() {\n\
        return Drop(Reason::Small)\n}\n\
        self.table.insert(ip.src(), 7);\n\
        match self.table.get(&ip.src()) { Some(7) => Forward(WAN), Some(_) => Drop(Reason::Old), None => Flood }";
    let found = explored(REASON, TABLE, body);
    let text = found.to_text();
    assert!(!text.contains("Drop("), "{text}");
    assert!(text.contains("table.insert#2(ipv4.src) = {7} -> full"), "{text}");
}

#[test]
fn a_write_under_another_key_may_change_an_entry() {
    let body = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        let Some(before) = self.table.get(&ip.src()) else { return Flood };\n\
        self.table.insert(ip.dst(), 1);\n\
        if self.table.get(&ip.src()) != Some(before) { return Drop(Reason::Old) }\n\
        Forward(WAN)";
    assert!(explored(REASON, TABLE, body).to_text().contains("Drop(old)"));
}

#[test]
fn keys_are_plain_expressions_over_the_packet() {
    let items = "pub struct Key { address: Ipv4Addr, port: u16 }";
    let state = "#[capacity(8)] flows: Map<Key, u32>,";
    let body = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        let Some(udp) = pkt.udp() else { return Flood };\n\
        let port = if udp.src() < 1_024 { udp.src() } else { udp.dst() };\n\
        self.flows.get(&Key { address: ip.dst(), port });\n\
        Forward(WAN)";
    let found = explored(items, state, body);
    let keys: Vec<String> = found
        .accesses()
        .map(|(_, access)| found.terms.print(access.key[1].term, &found.words))
        .collect();
    assert_eq!(keys, ["udp.src", "udp.dst", "udp.src", "udp.dst"]);
    assert!(found.accesses().all(|(_, access)| access.key[0].name == "address"));
}

#[test]
fn rewrites_are_the_final_values() {
    let body = "if let Some(mut ip) = pkt.ipv4_mut() {\n\
        ip.set_ttl(ip.ttl() - 1);\nip.set_dscp(3);\nip.set_dscp(ip.dscp() + 1);\n\
        let src = ip.src();\nip.set_src(ip.dst());\nip.set_dst(src);\n}\nForward(WAN)";
    let text = explored("", "", body).to_text();
    for expected in
        ["ipv4.ttl = ipv4.ttl - 1", "ipv4.dscp = 4", "ipv4.src = ipv4.dst", "ipv4.dst = ipv4.src"]
    {
        assert!(text.contains(expected), "no `{expected}` in\n{text}");
    }
}

#[test]
fn a_field_set_to_what_it_was_is_no_rewrite() {
    let body = "if let Some(mut ip) = pkt.ipv4_mut() { ip.set_ttl(ip.ttl()); }\nForward(WAN)";
    assert!(explored("", "", body).paths.iter().all(|path| path.rewrites.is_empty()));
}

#[test]
fn patterns_of_every_kind() {
    let items = "pub enum Reason { Small }\n\
        pub enum Shape { Round(u16), Square { side: u16 }, Flat }\n\
        fn shape(port: u16) -> Shape {\n\
        match port { 0 => Shape::Flat, 1..=99 => Shape::Round(port), 53 | 67 | 68 => Shape::Flat, _ => Shape::Square { side: port } }\n}";
    let body = "let Some(udp) = pkt.udp() else { return Flood };\n\
        match shape(udp.dst()) {\n\
        Shape::Round(r) if r > 200 => Drop(Reason::Small),\n\
        Shape::Round(_) => Forward(LAN),\n\
        Shape::Square { side } if matches!(side, 0..=99) => Drop(Reason::Small),\n\
        Shape::Square { .. } => Forward(WAN),\n\
        Shape::Flat => Flood,\n}";
    assert_eq!(count(items, "", body), 4);
}

#[test]
fn loops_of_known_length_are_run_and_of_unknown_length_cut_off() {
    let known = "let mut sum: u32 = 0;\nfor n in 0..10 { sum += n; }\n\
        if sum != 45 { return Drop(Reason::Small) }\nForward(WAN)";
    assert_eq!(count(REASON, "", known), 1);
    let unknown = "let mut n: u32 = 0;\n\
        while n < pkt.len() { n += 1; self.table.insert(Ipv4Addr::from(n), n); }\nForward(WAN)";
    let found = explored("", TABLE, unknown);
    assert!(found.warnings.iter().any(|warning| warning.message.contains("at most 3")));
    assert_eq!(found.paths.len(), 2 * 4);
    // That it goes round no more is a condition too, where more is not listed.
    let conditions = found.paths.iter().map(|path| (path.accesses.len(), path.conditions.len()));
    assert!(conditions.clone().all(|(inserted, asked)| asked > inserted), "{}", found.to_text());
}

#[test]
fn a_loop_without_end_is_an_error_on_its_line() {
    let body = "let mut n: u64 = 0;\nloop {\nn += 1;\n}";
    let line = line_of(&nf("", "", body), "loop {");
    match error("", "", body) {
        AnalysisError::At { line: found, message, file } => {
            assert_eq!((found, file.as_str()), (line, "small.rs"));
            assert!(message.contains("4096 iterations"), "{message}");
            assert!(message.contains("write `while condition { … }`"), "{message}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn too_many_paths_are_an_error_that_names_the_line() {
    let body = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        for bit in 0..8 {\n\
        if ip.ttl() >> bit & 1 == 1 { self.table.remove(&ip.src()); }\n\
        }\nForward(WAN)";
    let text = nf("", TABLE, body);
    let budget = Budget { paths: 100, ..Budget::default() };
    match paths_within(&source(&text), budget) {
        Err(AnalysisError::At { line, message, .. }) => {
            assert_eq!(line, line_of(&text, "ip.ttl() >> bit"));
            assert!(message.contains("more than 100 call paths"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

/// Of few paths that are long, as of many; where the first turn that finds something is the last, there are few.
#[test]
fn a_loop_of_look_ups_that_go_on_either_way_is_refused_soon_by_its_line() {
    let look_up = |turns: u32, found: &str| {
        let body = format!(
            "let Some(ip) = pkt.ipv4() else {{ return Flood }};\n\
             let mut known = 0u32;\n\
             for host in 0..{turns} {{\n\
             if self.hosts.contains(&(u32::from(ip.src()) + host)) {{ {found} }}\n\
             }}\nif known > 3 {{ return Drop(Reason::Old) }}\nForward(WAN)"
        );
        nf(REASON, "#[capacity(8)] hosts: Map<u32, u32>,", &body)
    };
    let text = look_up(256, "known += 1;");
    match paths(&source(&text)) {
        Err(AnalysisError::At { line, message, .. }) => {
            assert_eq!(line, line_of(&text, "self.hosts.contains"));
            assert!(message.contains("touch state more than 262144 times"), "{message}");
            assert!(message.contains("give the loop a smaller bound"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let text = look_up(256, "return Drop(Reason::Small)");
    assert_eq!(paths(&source(&text)).unwrap_or_else(|error| panic!("{error}")).paths.len(), 516);
}

#[test]
fn faults_that_can_happen_are_reported_with_their_line() {
    let body = "let Some(udp) = pkt.udp() else { return Flood };\n\
        let weights: [u32; 4] = [1, 2, 3, 4];\n\
        let chosen = weights[usize::from(udp.src())];\n\
        let share = chosen / u32::from(udp.dst());\n\
        let safe = weights[usize::from(udp.src() % 4)];\n\
        self.counts.write(u32::from(udp.length()), share + safe);\n\
        Forward(WAN)";
    let state = "#[capacity(64)] counts: Vector<u32>,";
    let found = explored("", state, body);
    let text = nf("", state, body);
    let lines: Vec<u32> = found.warnings.iter().map(|warning| warning.line).collect();
    let expected = ["weights[usize::from(udp.src())]", "chosen / u32", "counts.write"];
    assert_eq!(lines, expected.map(|needle| line_of(&text, needle)), "{:?}", found.warnings);
}

#[test]
fn what_is_written_past_the_end_is_not_found_there() {
    let state = "#[capacity(64)] counts: Vector<u32>,";
    let written = |index: &str| {
        let body = format!(
            "let Some(udp) = pkt.udp() else {{ return Flood }};\n\
            let at = {index};\n\
            self.counts.write(at, 5);\n\
            if self.counts.read(at) != 5 {{ return Drop(Reason::Old) }}\n\
            Forward(WAN)"
        );
        explored(REASON, state, &body)
    };
    let unknown = written("u32::from(udp.dst())");
    assert!(unknown.to_text().contains("Drop(old)"), "{}", unknown.to_text());
    assert_eq!(unknown.warnings.len(), 2, "each line: {:?}", unknown.warnings);
    let inside = written("u32::from(udp.dst() % 64)");
    assert!(!inside.to_text().contains("Drop(old)"), "{}", inside.to_text());
    assert!(inside.warnings.is_empty(), "{:?}", inside.warnings);
}

#[test]
fn a_borrowed_place_past_the_end_is_a_path_of_its_own() {
    let items = "pub enum Reason { Old }\n\
        fn bump(value: &mut u16) -> u16 { *value += 1; *value }";
    let body = "let Some(udp) = pkt.udp() else { return Flood };\n\
        let mut table: [u16; 2] = [7, 7];\n\
        let seen = bump(&mut table[usize::from(udp.dst())]);\n\
        if seen == 1 && (table[0] != 7 || table[1] != 7) { return Drop(Reason::Old) }\n\
        if seen == 1 { return Forward(LAN) }\n\
        if seen == 8 { return Forward(WAN) }\n\
        Drop(Reason::Old)";
    let found = explored(items, "", body);
    assert!(!found.to_text().contains("Drop("), "{}", found.to_text());
    assert_eq!(found.paths.len(), 2 * 3, "{}", found.to_text());
}

#[test]
fn opaque_functions_are_unknown_functions_of_their_arguments() {
    let items = "pub enum Reason { Small }\n\
        #[opaque] fn hash(a: Ipv4Addr) -> u32 { u32::from(a).wrapping_mul(0x9e37_79b1) }";
    let body = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        if hash(ip.src()) == hash(ip.dst()) && ip.src() != ip.dst() { return Forward(LAN) }\n\
        if ip.src() == ip.dst() && hash(ip.src()) != hash(ip.dst()) { return Drop(Reason::Small) }\n\
        Forward(WAN)";
    let found = explored(items, "", body);
    assert_eq!(found.opaque, ["hash"]);
    let text = found.to_text();
    assert!(text.contains("hash(ipv4.src)"), "{text}");
    assert!(!text.contains("Drop("), "equal arguments have equal results\n{text}");
}

#[test]
fn allocators_vectors_counters_and_cells() {
    let state = "#[capacity(64)] ids: Allocator<u16>,\n#[capacity(64)] seen: Vector<u64>,\n\
        total: Counter,\nlast: Cell<u64>,";
    let body = "let Some(id) = self.ids.allocate(7, 1_000, cx) else { return Flood };\n\
        if !self.ids.is_allocated(id, cx) { return Drop(Reason::Small) }\n\
        if self.ids.get(id, cx) != Some(7) { return Drop(Reason::Small) }\n\
        if id >= 64 { return Drop(Reason::Small) }\n\
        self.seen.update(id, |count| *count += 1);\n\
        self.total.add(1);\n\
        self.last.set(cx.now());\n\
        if self.last.get() != cx.now() { return Drop(Reason::Small) }\n\
        self.ids.free(id);\n\
        if self.ids.is_allocated(id, cx) { return Drop(Reason::Small) }\n\
        Forward(WAN)";
    let found = explored(REASON, state, body);
    assert_eq!(found.paths.len(), 4, "{}", found.to_text());
    let kinds: Vec<&str> = found.paths[0].accesses.iter().map(|access| access.kind).collect();
    for kind in ["Allocator", "Vector", "Counter", "Cell"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
}

#[test]
fn the_payload_is_read_within_its_length() {
    let body = "let payload = pkt.payload();\n\
        if payload.starts_with(b\"GET\") && payload.len() < 3 { return Drop(Reason::Small) }\n\
        if payload.starts_with(b\"GET\") && payload[0] != b'G' { return Drop(Reason::Small) }\n\
        match payload.get(1) { Some(b'E') => Forward(WAN), _ => Flood }";
    let found = explored(REASON, "", body);
    assert!(!found.to_text().contains("Drop("), "{}", found.to_text());
    assert_eq!(found.paths.len(), 2 * 3);
}

#[test]
fn what_the_language_refuses_is_refused_with_its_line() {
    let body = "let n = pkt.len();\nlet x = Some(n).unwrap();\nForward(WAN)";
    match error("", "", body) {
        AnalysisError::Language { problems, .. } => {
            assert_eq!(problems[0].line, line_of(&nf("", "", body), ".unwrap()"));
        }
        other => panic!("{other}"),
    }
}

const QUOTA: &str = "#[network_function(ports(inside, outside))]
pub mod quota {
    pub struct Settings {
        #[setting(default = 1_000, min = 1)]
        pub packets: u64,
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub sources: u32,
    }
    pub enum Reason { OverQuota, Busy }
    pub enum Command { Forget { address: Ipv4Addr }, Pause {} }
    #[packet_set(tcp(ipv4.src, ipv4.dst), ipv4(ipv4.src, ipv4.dst), bidirectional, port = inside, capacity = settings.sources, expires_s = 60)]
    pub struct Source { sent: u64 }
    pub struct Quota { settings: Settings, paused: Cell<bool> }
    impl Quota {
        fn packet_set_opened(&mut self, pkt: &mut Packet, cx: &mut Context) -> Result<Source, Verdict> {
            if self.paused.get() { return Err(Drop(Reason::Busy)); }
            Ok(Source { sent: 0 })
        }
        fn packet(&mut self, source: &mut Source, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            source.sent += 1;
            if source.sent > self.settings.packets { return Drop(Reason::OverQuota); }
            if self.settings.packets == 0 { return Flood; }
            Forward(OUTSIDE)
        }
        fn control(&mut self, command: Command, cx: &mut Context) -> Result<(), &'static str> {
            match command {
                Command::Forget { address } => {
                    if address.is_multicast() { return Err(\"no source has a group address\"); }
                    Ok(())
                }
                Command::Pause {} => { self.paused.set(true); Ok(()) }
            }
        }
    }
}
";

#[test]
fn packet_sets_are_maps_keyed_by_their_fields() {
    let found = paths(&source(QUOTA)).unwrap();
    let text = found.to_text();
    let new: Vec<_> = found
        .paths
        .iter()
        .filter(|path| path.handler == "packet (new packet set)")
        .map(|path| (path.class.clone().unwrap(), path.accesses[0].operation.clone()))
        .collect();
    assert!(new.iter().all(|(_, operation)| operation == "find"), "{text}");
    assert!(new.iter().any(|(class, _)| class == "ipv4 tcp"), "{text}");
    assert!(new.iter().any(|(class, _)| class == "ipv4"), "{text}");
    assert!(found.accesses().any(|(_, access)| access.symmetric && access.object == "Source"));
    assert!(
        text.contains("Source.find#1(ipv4.src, ipv4.dst, either way round) -> found"),
        "{text}"
    );
    assert!(text.contains("Drop(busy)") && text.contains("Drop(packet-sets-full)"), "{text}");
    assert!(text.contains("no-packet-set"), "{text}");
    assert!(!text.contains("Flood"), "settings keep their bounds\n{text}");
    let update = found.accesses().find(|(_, access)| access.operation == "update").unwrap().1;
    assert_eq!(update.line, line_of(QUOTA, "source.sent += 1"));
}

#[test]
fn commands_are_paths_of_their_own() {
    let found = paths(&source(QUOTA)).unwrap();
    let control: Vec<&str> = found
        .paths
        .iter()
        .map(|path| path.handler.as_str())
        .filter(|handler| handler.starts_with("control"))
        .collect();
    assert_eq!(control, ["control forget", "control forget", "control pause"]);
    assert!(found.to_text().contains("refused: no source has a group address"));
}

#[test]
fn json_says_what_the_text_says() {
    let found = paths(&source(QUOTA)).unwrap();
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["nf"], "quota");
    assert_eq!(json["statistics"]["paths"], found.paths.len());
    let first = &json["paths"][0];
    for name in [
        "number",
        "handler",
        "port",
        "class",
        "conditions",
        "accesses",
        "rewrites",
        "effects",
        "verdict",
        "line",
    ] {
        assert!(first.get(name).is_some(), "no `{name}` in {first}");
    }
    let access = &first["accesses"][0];
    assert_eq!(access["object"], "Source");
    assert_eq!(access["mode"], "read");
    assert_eq!(access["key"][0]["value"], "ipv4.src");
}

/// What is refused once is refused again, unless something has been freed meanwhile or it is not the same.
#[test]
fn an_allocator_that_was_full_is_full() {
    let state = "#[capacity(64)] slots: Allocator<u32>,";
    let twice = |between: &str, step: &str| {
        count(
            "",
            state,
            &format!(
                "let step = if pkt.tcp().is_some() {{ 2 }} else {{ 1 }};\n\
                 if self.slots.allocate_within(0, 32, step, 5, 7, 1_000, cx).is_some() {{\n\
                 return Forward(WAN);\n}}\n{between}\n\
                 if self.slots.allocate_within(0, 32, {step}, 5, 7, 1_000, cx).is_some() {{\n\
                 return Forward(LAN);\n}}\nForward(WAN)"
            ),
        )
    };
    assert_eq!(twice("", "step"), 4, "either step, stored or full");
    assert_eq!(twice("", "1"), 5, "where the first step was two");
    assert_eq!(twice("self.slots.free(3);", "step"), 6);
}

#[test]
fn what_is_declared_of_an_opaque_function_is_so_on_every_path() {
    let body = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        let limit = u32::from(ip.dst());\n\
        if limit != 0 && spot(u32::from(ip.src()), limit) >= limit { return Drop(Reason::Past) }\n\
        Forward(WAN)";
    let items = |declares: &str| {
        format!(
            "pub enum Reason {{ Past }}\n\
             #[opaque{declares}] fn spot(word: u32, limit: u32) -> u32 {{ word % limit.max(1) }}"
        )
    };
    let found = explored(&items(""), "", body);
    assert!(found.to_text().contains("Drop(past)"), "{}", found.to_text());
    let found = explored(&items("(below = limit)"), "", body);
    assert!(!found.to_text().contains("Drop(past)"), "{}", found.to_text());
    assert_eq!(found.opaque, ["spot"]);
    assert_eq!(found.declared, ["`spot` returns less than `limit`"]);
}

/// Where a function that only computes calls it on one way, the other is taken as ever.
#[test]
fn what_is_declared_of_an_opaque_function_is_so_where_it_is_called() {
    let body = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        let limit = u32::from(ip.dst());\n\
        let at = pick(u32::from(ip.src()), limit);\n\
        if limit == 0 { return Drop(Reason::None) }\n\
        if at >= limit { return Drop(Reason::Past) }\n\
        Forward(WAN)";
    let items = "pub enum Reason { None, Past }\n\
        #[opaque(below = limit)] fn spot(word: u32, limit: u32) -> u32 { word % limit }\n\
        fn pick(word: u32, limit: u32) -> u32 { if limit == 0 { 0 } else { spot(word, limit) } }";
    let found = explored(items, "", body).to_text();
    assert!(found.contains("Drop(none)"), "{found}");
    assert!(!found.contains("Drop(past)"), "{found}");
}

#[test]
fn a_result_that_is_not_what_its_function_declares_is_told() {
    let items =
        "#[opaque(below = limit)] fn spot(at: (u8, u8), limit: u32) -> u32 { u32::from(at.1) }";
    let text: &'static str = nf(items, "", "Forward(pkt.port().other())").leak();
    let mut opaque = Opaque::of(source(text)).expect("it has one");
    assert_eq!(opaque.value("spot", &[0, 9, 10], Vec::new), Some(9));
    assert_eq!(opaque.take_wrong(), [""; 0]);
    assert_eq!(opaque.value("spot", &[0, 9, 9], Vec::new), Some(9));
    let told = "spot, given [0, 9, 9], returns 9, which is not below 9";
    assert_eq!(opaque.take_wrong(), [told]);
    assert_eq!(opaque.take_wrong(), [""; 0], "once");
}

/// What paths leave unknown is what the body computes, for who has the arguments.
#[test]
fn opaque_functions_are_run_on_known_arguments() {
    let items = "pub enum Law { Twice, Never }\n\
        #[opaque] fn both(law: Law, a: u32, b: (u8, bool)) -> (u32, Option<u8>) {\n\
        let a = if law == Law::Twice { a.wrapping_mul(2) } else { 0 };\n\
        (a, if b.1 { Some(b.0) } else { None }) }\n\
        #[opaque] fn sum(text: &[u8], start: u32) -> u32 {\n\
        let mut all = start; for byte in text { all = all.wrapping_add(u32::from(*byte)); } all }";
    let text: &'static str = nf(items, "", "Forward(pkt.port().other())").leak();
    let mut opaque = Opaque::of(source(text)).expect("it has two");
    let both = [0, 0x8000_0003, 7, 1];
    assert_eq!(opaque.value("both.0", &both, Vec::new), Some(6));
    assert_eq!(opaque.value("both.1", &both, Vec::new), Some(1), "it is there");
    assert_eq!(opaque.value("both.1.value", &both, Vec::new), Some(7));
    assert_eq!(opaque.value("both.0", &[1, 5, 7, 0], Vec::new), Some(0));
    assert_eq!(opaque.value("both.1", &[1, 5, 7, 0], Vec::new), Some(0), "nothing");
    assert_eq!(opaque.value("sum", &[1, 3, 100], || b"abcd".to_vec()), Some(100 + 98 + 99));
    for (symbol, arguments) in
        [("both.0", &[2, 5, 7, 0][..]), ("both.0", &[0, 5]), ("sum", &[1, 5, 0]), ("other", &[])]
    {
        assert_eq!(
            opaque.value(symbol, arguments, || b"abcd".to_vec()),
            None,
            "{symbol} {arguments:?}"
        );
    }
    let none: &'static str = nf("", "", "Forward(pkt.port().other())").leak();
    assert!(Opaque::of(source(none)).is_none());
}

#[test]
fn an_operation_of_a_field_is_no_method_of_the_function() {
    let items = "pub enum Command { Go }\nimpl Nf {\n\
        fn control(&mut self, command: Command, cx: &mut Context) -> Result<(), &'static str> {\n\
        self.add(1);\nOk(())\n}\n\
        fn add(&mut self, n: u32) {\nself.table.insert(Ipv4Addr::new(10, 0, 0, 1), n);\n}\n}";
    let found =
        explored(items, &format!("{TABLE} seen: Counter,"), "self.seen.add(1);\nForward(WAN)");
    let of = |name: &str| found.objects.iter().find(|object| object.name == name).unwrap();
    assert!(of("table").sites[0].handlers.iter().eq(["control"]), "{:?}", of("table").sites);
    assert!(of("seen").sites[0].handlers.iter().eq(["packet"]), "{:?}", of("seen").sites);
}

/// Natively an integer is of the type that is found for it, perhaps later, and wraps as that does.
#[test]
fn what_depends_on_a_type_that_nobody_has_written_is_refused() {
    const AFTER: &str = "if n > 7 { return Drop(Reason::Old); }\nForward(WAN)";
    for sum in [
        "let most = 255;\nlet n = most + 1;",
        "let n = (60 * 1_000_000_000) as u64;",
        "let s = 33;\nlet n = (1 << s) as u64;",
        "let n = (1 << 31) as u64;",
        "let mut n = 1;\nfor i in 0..35 { n *= 2; }",
        "let k = 0;\nlet n = k - 1;",
        "let x = 0;\nlet n = !x;",
        "let all = [200, 100];\nlet n = all[0] + all[1];",
        "let x = 100;\nlet n = x.wrapping_add(100);",
    ] {
        let error = error(REASON, "", &format!("{sum}\n{AFTER}")).to_string();
        assert!(error.contains("write it, as in `1u32`"), "{sum}: {error}");
    }
    for sum in [
        "let most = 255u32;\nlet n = most + 1;",
        "let n = 60 * 1_000_000_000u64;",
        "let n: u64 = 60 * 1_000_000_000;",
        "let n = 5_000_000_000 as u64;",
        "let n = 1 << 32 | cx.now();",
        "let mut n = 0;\nfor i in 0..20 { n = (n << 8) | cx.now(); }",
        "let n = 1_000 + 24;",
        "let n = -7 % 3;",
    ] {
        count(REASON, "", &format!("{sum}\n{AFTER}"));
    }
}

/// Which alternative of a pattern is taken is the guard's to say.
#[test]
fn a_guard_is_asked_for_each_alternative() {
    let body = |pattern: &str| {
        format!(
            "let Some(udp) = pkt.udp() else {{ return Flood }};\n\
             match Some((udp.src(), udp.dst())) {{\n\
             {pattern} if p == 53 => {{ if udp.src() != 53 {{ return Drop(Reason::Old); }} }}\n\
             _ => {{}}\n}}\nForward(WAN)"
        )
    };
    let found = explored(REASON, "", &body("Some((p, _)) | Some((_, p))")).to_text();
    assert!(found.contains("Drop(old)"), "{found}");
    let text = nf(REASON, "", &body("Some((p, _) | (_, p))"));
    match paths(&source(&text)) {
        Err(AnalysisError::At { line, message, .. }) => {
            assert_eq!(line, line_of(&text, "if p == 53"));
            assert!(message.contains("write an arm for each"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

/// `||` and casts read as they were written.
#[test]
fn conditions_are_written_as_one_reads_them() {
    let body = "let Some(ip) = pkt.ipv4() else { return Flood };\n\
        let low = ip.total_len() as u8;\n\
        if ip.ttl() != 3 && low.saturating_sub(ip.ttl()) < ip.ttl() { return Drop(Reason::Old); }\nForward(WAN)";
    let found = explored(REASON, "", body).to_text();
    let condition = "ipv4.ttl == 3 || (ipv4.total_len as u8).saturating_sub(ipv4.ttl) >= ipv4.ttl";
    assert!(found.contains(condition), "{found}");
}

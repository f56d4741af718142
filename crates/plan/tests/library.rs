//! The plan of every network function of the library.

#![allow(clippy::unwrap_used)]

use anabranch_analysis::{Budget, Paths, Source, paths_within};
use anabranch_nf::NetworkFunction;
use anabranch_nfs::{anti_ddos, dns_tunnel, portscan, prads, sidejacking, synthetic, trojan};
use anabranch_nfs::{bridge, bridge_static, firewall, lb, nat, nop, policer, router};
use anabranch_plan::{
    Input, Object, ObjectMode, Options, Plan, PlanError, Port, PortClass, Steerer, Strategy, check,
    plan,
};
use anabranch_rss::Nic;

fn paths_of<F: NetworkFunction>() -> Paths {
    let source = F::SOURCE;
    let source = Source { text: source.text, file: source.file, line: source.line };
    paths_within(&source, Budget::for_accesses()).unwrap()
}

fn planned<F: NetworkFunction>(nic: &str) -> Plan {
    plan(&paths_of::<F>(), &Options::new(Nic::named(nic).unwrap())).unwrap()
}

/// The line of the author's file that holds `text`, from the first that holds `after` on.
fn line<F: NetworkFunction>(after: &str, text: &str) -> u32 {
    let source = F::SOURCE;
    let lines: Vec<&str> = source.text.lines().collect();
    let start = lines.iter().position(|line| line.contains(after)).unwrap();
    let at = lines[start..].iter().position(|line| line.contains(text)).unwrap();
    source.line + (start + at) as u32
}

fn object<'p>(plan: &'p Plan, name: &str) -> &'p Object {
    plan.objects.iter().find(|object| object.name == name).unwrap()
}

fn modes(plan: &Plan) -> Vec<(&str, ObjectMode)> {
    plan.objects.iter().map(|object| (object.name.as_str(), object.mode)).collect()
}

#[test]
fn nop_has_nothing_to_share() {
    let found = planned::<nop::Function>("e810");
    assert_eq!(found.strategy, Strategy::SharedNothing);
    assert!(found.constraints.is_empty() && found.objects.is_empty());
    assert!(found.ports.iter().all(|port| port.rank == found.index_bits));
}

#[test]
fn policer_is_sharded_by_destination_over_both_versions() {
    let found = planned::<policer::Function>("e810");
    assert_eq!(found.strategy, Strategy::SharedNothing);
    let equal: Vec<&String> = found.constraints.iter().flat_map(|one| &one.equalities).collect();
    assert_eq!(equal, ["wan.ipv4.dst = wan'.ipv4.dst", "wan.ipv6.dst = wan'.ipv6.dst"]);
    let wan = &found.ports[1];
    assert_eq!(wan.fields, ["ipv4.dst", "ipv6.dst"]);
    assert_eq!(wan.rank, found.index_bits);
    let of_ip = wan.classes.iter().filter(|class| class.class != "non-ip");
    assert!(of_ip.clone().count() > 10);
    assert!(of_ip.clone().all(|class| class.by == Steerer::Nic), "fragments have addresses too");
}

#[test]
fn firewall_is_sharded_by_flows_either_way_round() {
    let found = planned::<firewall::Function>("e810");
    assert_eq!(found.strategy, Strategy::SharedNothing);
    assert_eq!(modes(&found), [("Connection", ObjectMode::Sharded)]);
    for port in &found.ports {
        assert_eq!(port.rank, found.index_bits, "{}", port.port);
        let of = |name: &str| port.classes.iter().find(|class| class.class == name).unwrap();
        assert_eq!(of("ipv6-tcp").by, Steerer::Nic);
        assert_eq!(of("ipv4-icmp").by, Steerer::Nic, "by addresses, where a NIC has no identifier");
        let fragments = port.classes.iter().filter(|class| class.class.ends_with("-fragment"));
        assert_eq!(fragments.count(), 0, "they are put together first");
    }
}

#[test]
fn bridges_share_nothing_only_if_they_learn_nothing() {
    let found = planned::<bridge_static::Function>("e810");
    assert_eq!(found.strategy, Strategy::SharedNothing);
    assert_eq!(modes(&found), [("ports", ObjectMode::ReadOnly)]);
    for nic in ["e810", "software"] {
        let found = planned::<bridge::Function>(nic);
        assert_eq!(found.strategy, Strategy::Transactional);
        let impossible = found.impossible.unwrap();
        let learns = line::<bridge::Function>("fn learn", "insert(source");
        let forwards = line::<bridge::Function>("fn forward", "get(&destination)");
        assert_eq!(impossible.lines, [learns, forwards], "{}", impossible.why);
    }
}

#[test]
fn nat_is_shared_nothing_by_steered_allocation() {
    let found = planned::<nat::Function>("e810");
    assert_eq!(found.strategy, Strategy::SharedNothing, "{:?}", found.impossible);
    assert_eq!(object(&found, "mappings").mode, ObjectMode::Steered);
    assert_eq!(object(&found, "inside").mode, ObjectMode::Sharded);
    assert_eq!(object(&found, "half_open").mode, ObjectMode::PerShard);
    assert_eq!(object(&found, "pool").mode, ObjectMode::ReadOnly);
    let [steered] = &found.steered[..] else { panic!("{:?}", found.steered) };
    assert_eq!((steered.object.as_str(), steered.port.as_str()), ("mappings", "wan"));
    assert_eq!(steered.base, "settings.first_port");
    assert_eq!(steered.modulus, "(settings.last_port - settings.first_port + 1)");
    let field = |class: &str| steered.fields.get(class).map(String::as_str);
    assert_eq!(field("ipv4-tcp"), Some("tcp.dst"));
    assert_eq!(field("ipv4-icmp"), Some("icmpv4.id"));
    assert_eq!(field("ipv4-icmp-error"), Some("embedded.src_port"));
    assert_eq!(field("ipv4-icmp-error-of-icmp"), Some("embedded.id"));
    let lan = |class: &str| {
        let class = found.ports[0].classes.iter().find(|one| one.class == class).unwrap();
        class.input.iter().map(|input| input.field.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(lan("ipv4-tcp"), ["ipv4.src", "tcp.src"]);
    assert_eq!(lan("ipv4-icmp-error"), ["embedded.dst", "embedded.dst_port"]);
    assert!(found.ports.iter().all(|port| port.rank > 8), "both ports spread");
    assert!(steered.lends, "who finds no mapping changes nothing");
    assert!(found.differences.iter().any(|one| one.what.contains("takes indices of others")));
}

#[test]
fn what_an_allocator_steers_by_is_not_edited() {
    let paths = paths_of::<nat::Function>();
    let found = plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap();
    let edited = |edit: fn(&mut Plan)| {
        let mut plan = found.clone();
        edit(&mut plan);
        check(&paths, &plan).map_err(|broken| broken.to_string())
    };
    assert_eq!(edited(|plan| plan.steered[0].lends = false), Ok(()));
    let broken = edited(|plan| plan.steered[0].base = String::new()).unwrap_err();
    assert!(broken.contains("`mappings`") && broken.contains("only `lends`"), "{broken}");
    assert!(edited(|plan| plan.steered.clear()).is_err());
}

const MISS: &str = "let Some(mapping) = found else { return Err(Drop(Reason::Unsolicited)) };";

/// The NAT's plan where something else is done for a packet without a mapping.
fn nat_that_misses(act: &str) -> Plan {
    nat_where(&[(MISS, &format!("let Some(mapping) = found else {{ {act} }};"))])
}

/// The NAT's plan with other text in some places.
fn nat_where(other: &[(&str, &str)]) -> Plan {
    let source = nat::Function::SOURCE;
    let text = other.iter().fold(source.text.to_owned(), |text, (here, instead)| {
        assert!(text.contains(here));
        text.replace(here, instead)
    });
    let source = Source { text: &text, file: source.file, line: source.line };
    let paths = paths_within(&source, Budget::for_accesses()).unwrap();
    plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap()
}

/// Datagrams that have the last bits of a port in common must meet, and segments datagrams to the same port: by
/// the first bits alone nothing could be told apart.
#[test]
fn runs_are_given_up_where_they_cost_a_class_its_steering() {
    let field = "forwarded: Map<Endpoint, u32>,";
    let marks = format!("{field}\n #[capacity(8)] marks: Vector<u32>,");
    let mark = "if public.protocol == UDP { self.marks.write(u32::from(public.port & 7), 1); }";
    let marked = format!("{mark}\n {MISS}");
    let found = nat_where(&[(field, &marks), (MISS, &marked)]);
    let wan = found.ports.iter().find(|port| port.port == "wan").unwrap();
    let udp = wan.classes.iter().find(|class| class.class == "ipv4-udp").unwrap();
    assert_eq!((udp.by, udp.rank), (Steerer::Nic, 3), "{}", found.to_text());
}

#[test]
fn what_a_miss_may_have_changed_is_not_lent() {
    let lends = |act| {
        let found = nat_that_misses(act);
        let own = "a shard's pool is that share of all";
        let says = found.differences.iter().any(|one| one.what.contains(own));
        let lends = found.steered.iter().any(|one| one.lends);
        // Where something is shared, so are the pools.
        let divided = found.strategy == Strategy::SharedNothing;
        assert_eq!(says, divided && !lends && !found.steered.is_empty());
        lends
    };
    assert!(lends("return Err(Drop(Reason::NotPublic))"));
    assert!(!lends("return Err(Forward(LAN))"), "it is not dropped");
    assert!(!lends("self.permissions.free(3); return Err(Drop(Reason::NotPublic))"));
}

#[test]
fn lb_shards_connections_and_shares_backends() {
    let found = planned::<lb::Function>("e810");
    assert_eq!(found.strategy, Strategy::Mixed);
    assert_eq!(object(&found, "Connection").mode, ObjectMode::Sharded);
    assert_eq!(object(&found, "services").mode, ObjectMode::ReadOnly);
    assert_eq!(object(&found, "replies").mode, ObjectMode::Replicated);
    let backends = object(&found, "backends");
    assert_eq!(backends.mode, ObjectMode::Shared, "{}", backends.why);
    assert!(backends.lines.contains(&line::<lb::Function>("fn count", "backends.update")));
}

#[test]
fn router_shares_only_what_is_told_to_all() {
    let found = planned::<router::Function>("e810");
    assert_eq!(found.strategy, Strategy::SharedNothing);
    assert_eq!(modes(&found), [("l3", ObjectMode::Replicated)]);
}

/// What packets that must meet have in common, each constraint on one line.
fn equalities(plan: &Plan) -> Vec<String> {
    let mut all: Vec<String> =
        plan.constraints.iter().map(|one| one.equalities.join(" && ")).collect();
    all.sort();
    all
}

#[test]
fn detectors_are_sharded_by_the_inside_host() {
    for found in [
        planned::<portscan::Function>("e810"),
        planned::<dns_tunnel::Function>("e810"),
        planned::<trojan::Function>("e810"),
    ] {
        assert_eq!(found.strategy, Strategy::SharedNothing, "{}: {:?}", found.nf, found.impossible);
        let inside = [
            "lan.ipv4.src = lan'.ipv4.src",
            "lan.ipv4.src = wan.ipv4.dst",
            "lan.ipv6.src = lan'.ipv6.src",
            "lan.ipv6.src = wan.ipv6.dst",
            "wan.ipv4.dst = wan'.ipv4.dst",
            "wan.ipv6.dst = wan'.ipv6.dst",
        ];
        assert_eq!(equalities(&found), inside, "{}", found.nf);
        assert!(found.ports.iter().all(|port| port.rank == found.index_bits), "{}", found.nf);
        let kept = |mode| matches!(mode, ObjectMode::Sharded | ObjectMode::Distributed);
        assert!(found.objects.iter().all(|object| kept(object.mode)), "{:?}", found.objects);
    }
}

#[test]
fn prads_is_sharded_by_who_sends() {
    let found = planned::<prads::Function>("e810");
    assert_eq!(found.strategy, Strategy::SharedNothing);
    let all = equalities(&found);
    for field in ["ipv4.src", "ipv6.src", "arp.sender_ip"] {
        assert!(all.contains(&format!("lan.{field} = wan.{field}")), "{all:?}");
    }
    assert_eq!(object(&found, "assets").mode, ObjectMode::Sharded);
}

#[test]
fn anti_ddos_shards_flows_and_merges_counts() {
    let found = planned::<anti_ddos::Function>("e810");
    assert_eq!(found.strategy, Strategy::SharedNothing);
    assert_eq!(modes(&found), [("Flow", ObjectMode::Sharded), ("tally", ObjectMode::Distributed),]);
}

#[test]
fn what_is_read_out_of_payloads_or_drawn_is_shared() {
    let found = planned::<sidejacking::Function>("e810");
    assert_eq!(found.strategy, Strategy::Transactional);
    let impossible = found.impossible.unwrap();
    assert!(impossible.why.contains("`sessions`"), "{}", impossible.why);
    assert!(
        impossible
            .lines
            .contains(&line::<sidejacking::Function>("fn is_stolen", "sessions.insert"))
    );
    let found = planned::<synthetic::Function>("e810");
    assert_eq!(found.strategy, Strategy::Transactional);
    assert_eq!(object(&found, "elements").mode, ObjectMode::Shared);
    assert_eq!(object(&found, "range").mode, ObjectMode::ReadOnly);
}

#[test]
fn every_nic_has_a_plan_for_every_function_that_can_be_sharded() {
    let all = [
        paths_of::<nop::Function>(),
        paths_of::<policer::Function>(),
        paths_of::<firewall::Function>(),
        paths_of::<nat::Function>(),
    ];
    for nic in Nic::ALL {
        for paths in &all {
            let found = plan(paths, &Options::new(nic)).unwrap();
            assert_eq!(found.strategy, Strategy::SharedNothing, "{} on {}", paths.name, nic.name);
            assert!(found.ports.iter().all(|port| port.rank > 0), "{} on {}", paths.name, nic.name);
        }
    }
}

#[test]
fn a_strategy_that_is_not_possible_is_refused_with_the_lines() {
    let options = |strategy| Options { strategy, ..Options::new(Nic::named("e810").unwrap()) };
    let refused = plan(&paths_of::<bridge::Function>(), &options(Some(Strategy::SharedNothing)));
    let Err(PlanError::NoSharding { lines, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(lines.len(), 2);
    let locked = plan(&paths_of::<nat::Function>(), &options(Some(Strategy::Lock))).unwrap();
    assert_eq!(locked.strategy, Strategy::Lock);
    assert_eq!(object(&locked, "mappings").mode, ObjectMode::Shared);
    assert!(locked.constraints.is_empty() && locked.steered.is_empty());
    let mixed = plan(&paths_of::<policer::Function>(), &options(Some(Strategy::Mixed)));
    assert!(matches!(mixed, Err(PlanError::NotNeeded { .. })), "{mixed:?}");
}

#[test]
fn plans_are_the_same_after_a_file_and_edits_are_checked() {
    let paths = paths_of::<firewall::Function>();
    let found = plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap();
    let text = found.to_toml().unwrap();
    let read = Plan::from_toml(&text).unwrap();
    assert_eq!(read, found);
    check(&paths, &read).unwrap();
    assert!(matches!(Plan::from_toml("nf = 3"), Err(PlanError::Text(_))));

    let mut zeros = found.clone();
    zeros.ports[0].key = "0".repeat(zeros.ports[0].key.len());
    let broken = check(&paths, &zeros).unwrap_err().to_string();
    assert!(broken.contains("inside.ipv4.src = outside.ipv4."), "{broken}");
    zeros.ports[1].key = zeros.ports[0].key.clone();
    check(&paths, &zeros).unwrap();

    let mut other = found.clone();
    other.nf = "nat".to_owned();
    assert!(check(&paths, &other).is_err());
    let mut shared = found.clone();
    shared.objects[0].mode = ObjectMode::Shared;
    assert!(check(&paths, &shared).is_err(), "not under this strategy");
    shared.strategy = Strategy::Mixed;
    shared.ports[0].key = "ff".repeat(52);
    check(&paths, &shared).unwrap();
    let mut read_only = found;
    read_only.objects[0].mode = ObjectMode::ReadOnly;
    let broken = check(&paths, &read_only).unwrap_err().to_string();
    assert!(broken.contains("cannot be read-only"), "{broken}");
}

/// A firewall's plan, edited so, is refused with these words.
#[track_caller]
fn refused(edit: impl FnOnce(&mut Plan), words: &[&str]) {
    let paths = paths_of::<firewall::Function>();
    let mut edited = plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap();
    edit(&mut edited);
    let broken = check(&paths, &edited).unwrap_err().to_string();
    for words in words {
        assert!(broken.contains(words), "{broken}");
    }
}

fn class<'p>(plan: &'p mut Plan, name: &str) -> &'p mut PortClass {
    plan.ports[0].classes.iter_mut().find(|class| class.class == name).unwrap()
}

#[test]
fn a_plan_has_each_port_class_and_object_once() {
    refused(
        |plan| plan.objects.push(plan.objects[0].clone()),
        &["object `", "of the function stands there twice"],
    );
    refused(
        |plan| {
            let any = Object { name: "any".to_owned(), ..plan.objects[0].clone() };
            plan.objects.push(any);
        },
        &["the function has no object `any`: write one of "],
    );
    refused(|plan| plan.objects.clear(), &["the plan has no object `"]);
    refused(
        |plan| plan.ports.push(plan.ports[1].clone()),
        &["port `outside` of the function stands there twice"],
    );
    refused(
        |plan| {
            let any = Port { port: "any".to_owned(), ..plan.ports[0].clone() };
            plan.ports.push(any);
        },
        &["the function has no port `any`", "inside, outside"],
    );
    refused(|plan| plan.ports.truncate(1), &["no port `outside`"]);
    refused(
        |plan| plan.ports[0].classes.retain(|class| class.class != "ipv4-udp"),
        &["no class `ipv4-udp` of port `inside`"],
    );
    refused(
        |plan| class(plan, "ipv4-udp").class = "ipv4-upd".to_owned(),
        &["port `inside` has no class `ipv4-upd`", "ipv4-udp, "],
    );
    refused(
        |plan| class(plan, "ipv4-udp").class = "ipv4-tcp".to_owned(),
        &["class `ipv4-tcp` of port `inside` stands there twice"],
    );
    refused(
        |plan| class(plan, "ipv4-udp").key_of = Some("nope".to_owned()),
        &["ipv4-udp packets of inside", "the key of `nope`"],
    );
}

#[test]
fn a_plan_speaks_of_fields_places_and_nics_that_there_are() {
    refused(|plan| plan.index_bits = 0, &["index_bits is 0", "e810"]);
    refused(|plan| plan.index_bits = 9_999_999, &["index_bits is 9999999"]);
    refused(
        |plan| class(plan, "ipv4-tcp").input[0].field = "ipv4.scr".to_owned(),
        &["no field `ipv4.scr`", "ipv4-tcp packets of inside"],
    );
    refused(
        |plan| class(plan, "ipv4-tcp").input[0].place = "ipv4.ttl".to_owned(),
        &["no hash has a place for `ipv4.ttl`"],
    );
    refused(
        |plan| {
            let udp = class(plan, "ipv4-udp");
            udp.by = Steerer::Software;
            let wide = Input { place: "udp.dst".to_owned(), field: "ipv4.dst".to_owned() };
            udp.input = vec![wide];
        },
        &["`ipv4.dst` of ipv4-udp packets of inside has 32 bits", "`udp.dst` only 16"],
    );
    refused(
        |plan| {
            let udp = class(plan, "ipv4-udp");
            udp.by = Steerer::Software;
            let padding = Input { place: "ipv6.src".to_owned(), field: "-".to_owned() };
            udp.input.splice(0..0, vec![padding; 5]);
        },
        &["bits hashed, and a key of 52 bytes 384"],
    );
}

#[test]
fn what_an_e810_can_choose_an_x710_cannot() {
    let paths = paths_of::<policer::Function>();
    let mut found = plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap();
    (found.nic, found.index_bits) = ("x710".to_owned(), 9);
    let broken = check(&paths, &found).unwrap_err().to_string();
    let words =
        "`x710` cannot hash ipv4-sctp packets of lan by ipv4.src, ipv4.dst, sctp.src, sctp.dst";
    assert!(broken.contains(words), "{broken}");
}

#[test]
fn only_counts_that_shards_keep_are_sharded_by_an_edit() {
    let paths = paths_of::<nat::Function>();
    let mut found = plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap();
    let mappings = found.objects.iter_mut().find(|object| object.name == "mappings").unwrap();
    mappings.mode = ObjectMode::Sharded;
    let broken = check(&paths, &found).unwrap_err().to_string();
    assert!(broken.contains("`mappings` cannot be sharded"), "{broken}");
}

#[test]
fn every_plan_passes_its_check() {
    let (nat, bridge) = (paths_of::<nat::Function>(), paths_of::<bridge::Function>());
    for nic in Nic::ALL {
        for paths in [&nat, &bridge] {
            let found = plan(paths, &Options::new(nic)).unwrap();
            check(paths, &found).map_err(|broken| format!("{}: {broken}", nic.name)).unwrap();
        }
    }
}

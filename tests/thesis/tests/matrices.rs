//! The constraint matrices of the thesis's figures 4.1 to 4.5, and what it says of the others.

#![allow(clippy::unwrap_used)]

use anabranch_analysis::{Budget, Source, paths_within};
use anabranch_nf::NetworkFunction;
use anabranch_plan::{Class, ObjectMode, Options, Plan, Strategy, plan};
use anabranch_rss::Nic;

fn planned<F: NetworkFunction>() -> Plan {
    let source = F::SOURCE;
    let source = Source { text: source.text, file: source.file, line: source.line };
    let options = Options::new(Nic::named("x710").unwrap());
    plan(&paths_within(&source, Budget::for_accesses()).unwrap(), &options).unwrap()
}

/// The matrix for TCP packets, which are those of the figures.
fn matrix<F: NetworkFunction>() -> Vec<Vec<String>> {
    planned::<F>().matrix(Class::Ipv4Tcp)
}

/// The line of the author's file that holds `text`.
fn line<F: NetworkFunction>(text: &str) -> u32 {
    let source = F::SOURCE;
    let before = source.text.lines().position(|line| line.contains(text)).unwrap();
    source.line + before as u32
}

#[test]
fn nop_is_figure_4_1() {
    assert_eq!(matrix::<anabranch_thesis::nop::Function>(), [["F", "F"], ["F", "F"]]);
}

#[test]
fn policer_is_figure_4_2() {
    let found = matrix::<anabranch_thesis::policer::Function>();
    assert_eq!(found, [["F", "F"], ["F", "wan.ipv4.dst = wan'.ipv4.dst"]]);
}

#[test]
fn static_bridge_is_figure_4_3() {
    let found = planned::<anabranch_thesis::bridge_static::Function>();
    assert_eq!(found.matrix(Class::Ipv4Tcp), [["F", "F"], ["F", "F"]]);
    assert_eq!(found.strategy, Strategy::SharedNothing);
    assert_eq!(found.objects[0].mode, ObjectMode::ReadOnly);
}

/// The thesis stops at MAC addresses, which no NIC it knows hashes; no other steering would do.
#[test]
fn bridge_cannot_be_sharded_whatever_steers() {
    type Bridge = anabranch_thesis::bridge::Function;
    let found = planned::<Bridge>();
    assert_eq!(found.strategy, Strategy::Transactional);
    let impossible = found.impossible.unwrap();
    let lines = [line::<Bridge>("insert(src"), line::<Bridge>("get(&dst)")];
    assert_eq!(impossible.lines, lines, "{}", impossible.why);
}

#[test]
fn firewall_is_figure_4_4() {
    let same = |port: &str| {
        let fields = ["ipv4.src", "ipv4.dst", "tcp.src", "tcp.dst"];
        let equal = fields.map(|field| format!("{port}.{field} = {port}'.{field}"));
        equal.join(" && ")
    };
    let turned = "lan.ipv4.src = wan.ipv4.dst && lan.ipv4.dst = wan.ipv4.src && \
                  lan.tcp.src = wan.tcp.dst && lan.tcp.dst = wan.tcp.src";
    let found = matrix::<anabranch_thesis::firewall::Function>();
    assert_eq!(sorted(&found[0][0]), sorted(&same("lan")));
    assert_eq!(sorted(&found[0][1]), sorted(turned));
    assert_eq!(found[1][0], "F");
    assert_eq!(sorted(&found[1][1]), sorted(&same("wan")));
}

fn sorted(equalities: &str) -> Vec<&str> {
    let mut all: Vec<&str> = equalities.split(" && ").collect();
    all.sort_unstable();
    all
}

#[test]
fn lb_scans_its_allocator_and_is_refused() {
    type Lb = anabranch_thesis::lb::Function;
    let found = planned::<Lb>();
    assert_eq!(found.strategy, Strategy::Transactional);
    let impossible = found.impossible.unwrap();
    assert!(impossible.lines.contains(&line::<Lb>("is_allocated(index, cx)")), "{impossible:?}");
}

#[test]
fn nat_is_figure_4_5() {
    let found = planned::<anabranch_thesis::nat::Function>();
    let reply = "lan.ipv4.dst = wan.ipv4.src && lan.tcp.dst = wan.tcp.src";
    assert_eq!(found.matrix(Class::Ipv4Tcp), [["F", reply], ["F", "F"]]);
    assert_eq!(found.strategy, Strategy::SharedNothing);
    assert!(found.steered.is_empty(), "interchangeable, not steered");
    assert!(
        found
            .differences
            .iter()
            .any(|one| one.what.contains("bring of `ports` may be looked up in another"))
    );
}

#[test]
fn counters_are_sharded_by_source_port() {
    let equal = "any.tcp.src = any'.tcp.src";
    assert_eq!(matrix::<anabranch_thesis::counters::Function>(), [[equal]]);
    let ageing = planned::<anabranch_thesis::counters_ageing::Function>();
    assert_eq!(ageing.matrix(Class::Ipv4Tcp), [[equal]]);
    assert!(ageing.objects.iter().all(|object| object.mode == ObjectMode::Sharded));
}

/// A packet that finds index 0 because nothing was stored touches somebody else's entry.
#[test]
fn counters_that_take_a_default_for_an_index_are_refused() {
    type Counters = anabranch_thesis::counters_default::Function;
    let found = planned::<Counters>();
    let chain = found.objects.iter().find(|object| object.name == "chain").unwrap();
    assert_eq!(chain.mode, ObjectMode::Shared, "{}", chain.why);
    assert!(chain.lines.contains(&line::<Counters>("is_allocated(index, cx)")));
}

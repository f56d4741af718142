//! What a run cannot go on with: told, and left to whoever writes it.

use anabranch_io::source::Input;
use anabranch_nf::NetworkFunction;
use anabranch_nfs::{bridge, lb, nat};
use anabranch_packet::Port;
use anabranch_runtime::run::{Options, RunError, run};
use anabranch_store::{Call, Kind, Operation, Place, Reply, Scope};

use super::case::Case;
use super::shared::questions;

const NAT: &str = r#"public = ["203.0.113.1"]"#;

/// What the store says of who writes the state of `N`: it is another after a run has taken it over.
fn mark<N: NetworkFunction>(case: &Case) -> Reply {
    let scope = Scope::new(N::NAME, "a", Place::Core(0)).unwrap();
    let call = Call::new(&scope.key(Kind::Value, ".mark").unwrap(), Operation::Read);
    case.location().open().unwrap().run(&[call]).unwrap().pop().unwrap().unwrap()
}

/// Why a run with these settings does not begin; `None`: it does.
fn refused<N: NetworkFunction>(case: &mut Case, settings: &'static str) -> Option<String> {
    case.settings = settings;
    begins::<N>(&case.options::<N>(1, 1, true))
}

fn begins<N: NetworkFunction>(options: &Options) -> Option<String> {
    match run::<N>(options, &mut |_, _| {}) {
        Ok(report) => {
            assert_eq!((&report.errors[..], &report.warnings[..]), (&[][..], &[][..]));
            None
        }
        Err(error @ RunError::StoreMade { .. }) => Some(error.to_string()),
        Err(other) => panic!("{other}"),
    }
}

/// Indices of a NAT's mappings are of the pool that there was; and a mapping made for ever would be one that ends.
#[test]
fn what_init_reads_is_as_it_was() {
    let mut case = Case::of::<nat::Function>(NAT);
    case.plan = None;
    case.write::<nat::Function>("gen:flows=50,packets=200,seed=1", 1);
    assert_eq!(refused::<nat::Function>(&mut case, NAT), None);
    let written = mark::<nat::Function>(&case);
    for (settings, name) in [
        (r#"public = ["203.0.113.1", "203.0.113.2"]"#, "public"),
        ("public = [\"203.0.113.1\"]\nfirst_port = 4000", "first_port"),
        (
            "public = [\"203.0.113.1\"]\n[[static_mappings]]\nprotocol = \"udp\"\ninside = \"10.0.0.2\"\n\
             inside_port = 5000\npublic = \"203.0.113.1\"\npublic_port = 5002",
            "static_mappings",
        ),
    ] {
        let why = refused::<nat::Function>(&mut case, settings).unwrap();
        assert!(why.contains(&format!("was made with `{name}` being ")), "{why}");
        assert!(why.contains("another --instance"), "{why}");
        assert_eq!(mark::<nat::Function>(&case), written, "{name}: it was taken over all the same");
    }
    // Written otherwise, and what is read when a packet comes.
    for settings in [
        "first_port = 1_024\npublic = [ '203.0.113.1' ]\nlast_port = 65535",
        "public = [\"203.0.113.1\"]\nsessions = 1000\nudp_s = 200\nfiltering = \"address-dependent\"",
    ] {
        assert_eq!(refused::<nat::Function>(&mut case, settings), None);
    }
    assert_ne!(mark::<nat::Function>(&case), written);
}

/// Slots of backends are numbered as they are listed: more may be put to the end, of which lists of IPv6 come last.
#[test]
fn backends_are_listed_as_they_were() {
    let mut case = Case::of::<lb::Function>("");
    case.plan = None;
    case.write_packets::<lb::Function>(&questions(0..50, 2), 1);
    let of = |ipv4: &[u8], ipv6: &[u8]| -> &'static str {
        let each = |numbers: &[u8], address: fn(u8) -> String| -> String {
            let one = |&n| format!("{{ service = 0, address = \"{}\", port = 80 }}", address(n));
            numbers.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let ipv4 = each(ipv4, |n| format!("10.9.0.{n}"));
        let ipv6 = each(ipv6, |n| format!("fd00::{n}"));
        let services = "services = [{ address = \"192.0.2.1\", port = 53, protocol = \"udp\" }]\n\
                        services6 = [{ address = \"2001:db8::80\", port = 80, protocol = \"udp\" }]";
        format!("{services}\nbackends = [{ipv4}]\nbackends6 = [{ipv6}]").leak()
    };
    assert_eq!(refused::<lb::Function>(&mut case, of(&[1], &[])), None);
    let why = refused::<lb::Function>(&mut case, of(&[2, 1], &[])).unwrap();
    assert!(why.contains("`backends` being [{") && why.contains("10.9.0.2"), "{why}");
    assert_eq!(refused::<lb::Function>(&mut case, of(&[1, 2], &[])), None);
    assert!(refused::<lb::Function>(&mut case, of(&[1], &[])).is_some());
    assert_eq!(refused::<lb::Function>(&mut case, of(&[1, 2, 3], &[6])), None);
    assert!(refused::<lb::Function>(&mut case, of(&[1, 2, 3, 4], &[6])).is_some());
    assert_eq!(refused::<lb::Function>(&mut case, of(&[1, 2, 3], &[6, 7])), None);
}

/// Stations are behind ports of a number.
#[test]
fn ports_have_the_numbers_that_they_had() {
    let case = Case::of::<bridge::Function>("");
    let run_at = |names: &[&str]| {
        let mut options = case.options::<bridge::Function>(1, 1, true);
        options.plan = Err("none is asked for".to_owned());
        options.making.ports = names.iter().map(|&name| name.to_owned()).collect();
        let spec = "gen:flows=20,packets=100,seed=1".parse().unwrap();
        options.inputs = vec![Input { port: Some(Port::new(0)), spec }];
        begins::<bridge::Function>(&options)
    };
    assert_eq!(run_at(&["p0", "p1", "p2"]), None);
    for names in [&["p2", "p0", "p1"][..], &["p0", "p1"], &["p0", "p1", "p22"]] {
        let why = run_at(names).unwrap();
        assert!(
            why.contains("made with the ports, in the order of their numbers, being [p0, p1, p2]"),
            "{why}"
        );
    }
    assert_eq!(run_at(&["p0", "p1", "p2", "p3"]), None);
    assert!(run_at(&["p0", "p1", "p2"]).is_some());
}

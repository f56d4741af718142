//! `anabranch rss` as a script sees it.

use serde_json::Value;

use crate::{Bench, checkout};

const FIREWALL: &str =
    "p0.src = p1.dst && p0.dst = p1.src && p0.sport = p1.dport && p0.dport = p1.sport";
/// `6d5a` repeated: symmetric.
const SYMMETRIC: &str = "6d:5a:6d:5a:6d:5a:6d:5a:6d:5a:6d:5a:6d:5a:6d:5a:6d:5a:6d:5a:\
                         6d:5a:6d:5a:6d:5a:6d:5a:6d:5a:6d:5a:6d:5a:6d:5a:6d:5a:6d:5a";

fn key(document: &Value, port: usize) -> String {
    document["solution"]["ports"][port]["key"].as_str().unwrap().to_string()
}

#[test]
fn a_key_is_found_printed_three_ways_and_checks_out() {
    let bench = Bench::new();
    let words =
        ["rss", "key", "--nic", "e810", "--constraint", "p0.src = p0.dst && p0.dst = p0.src"];
    let text = bench.run_words(&words).expect(0).out;
    let document = bench.run_words(&[&words[..], &["--json"]].concat()).expect(0).json();
    let key = key(&document, 0);
    assert_eq!(key.len(), 104);
    let octets: Vec<&str> = (0..52).map(|at| &key[2 * at..2 * at + 2]).collect();
    assert!(text.contains(&format!("ethtool -X DEV hkey {}\n", octets.join(":"))), "{text}");
    assert!(text.contains(&format!("rss-key {key} ")), "{text}");
    assert!(text.contains("ethtool -N DEV rx-flow-hash tcp4 sd\n"), "{text}");
    let array: String = text.lines().filter_map(|line| line.trim().strip_suffix(',')).collect();
    assert_eq!(array.replace("0x", "").replace([',', ' '], ""), key, "{text}");

    let check = ["rss", "check", "--key", &key, "--nic", "e810", "--json"];
    let check = bench.run_words(&check).expect(0).json();
    for class in check["classes"].as_array().unwrap() {
        let ip_alone = ["ipv4", "ipv4-fragment", "ipv6", "ipv6-fragment"];
        if ip_alone.contains(&class["class"].as_str().unwrap()) {
            assert_eq!(
                (&class["symmetric"], &class["rank"]),
                (&true.into(), &11.into()),
                "{class}"
            );
        }
    }
}

/// Standard output of `rss key`, its lines joined.
fn shown(nic: &str, constraint: &str) -> String {
    let words = ["rss", "key", "--nic", nic, "--constraint", constraint];
    let text = Bench::new().run_words(&words).expect(0).out;
    text.replace("\n  #   ", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_tools_cannot_be_told_is_said() {
    let text = shown("e810", "p0.dst = p0.dst");
    let fragments = "ipv4-fragment ipv4 (ipv4.dst), ipv6-fragment ipv6 (ipv6.dst)";
    assert!(
        text.contains(&format!(
            "ethtool -N has no word for some classes, to be hashed by: {fragments}"
        )),
        "{text}"
    );
    assert!(text.contains("RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_FRAG_IPV4"), "{text}");
    assert!(text.contains("| RTE_ETH_RSS_L3_DST_ONLY;"), "{text}");
    assert!(
        text.contains("what is hashed cannot be chosen there, and has to be: ipv4-tcp ipv4-udp"),
        "{text}"
    );
    // Of a NIC that hashes fixed fields there is nothing to say, and rss_hf has it all.
    let text = shown(
        "x710",
        "p0.src = p0.dst && p0.dst = p0.src && p0.sport = p0.dport && p0.dport = p0.sport",
    );
    assert!(!text.contains("no word") && !text.contains("cannot be chosen"), "{text}");
    assert!(text.contains("/* rte_eth_rss_conf.rss_hf */") && !text.contains("_ONLY"), "{text}");
    // One end of addresses and of ports.
    let text = shown("cx6", "p0.ipv4.src = p0.ipv4.src && p0.tcp.src = p0.tcp.src");
    assert!(
        text.contains(
            "RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L4_SRC_ONLY;"
        ),
        "{text}"
    );
    // What ports alone say, drivers take in different ways.
    let text = shown("cx6", "p0.tcp.src = p0.tcp.src");
    assert!(text.contains("no types of DPDK say: ipv4-tcp ipv6-tcp (tcp.src)"), "{text}");
}

/// ixgbe takes TCP with ports only, i40e SCTP without, gve nothing: a line that is refused is none to print.
#[test]
fn what_drivers_refuse_is_no_line() {
    let refused =
        "Linux's driver does not take this of ethtool -N for some classes, to be hashed by:";
    let hosts = "p0.src = p0.dst && p0.dst = p0.src";
    let text = shown("82599", &format!("{hosts} && p0.sport = p0.sport"));
    assert!(text.contains("ethtool -N DEV rx-flow-hash udp4 "), "{text}");
    let text = shown("82599", "p0.src = p0.src && p0.dst = p0.dst");
    assert!(text.contains("ethtool -N DEV rx-flow-hash udp4 sd "), "{text}");
    assert!(!text.contains("rx-flow-hash tcp"), "{text}");
    let tcp = "ipv4-tcp (ipv4.src ipv4.dst), ipv6-tcp (ipv6.src ipv6.dst)";
    assert!(text.contains(&format!("{refused} {tcp}")), "{text}");
    let flows = format!("{hosts} && p0.sport = p0.dport && p0.dport = p0.sport");
    assert!(shown("82599", &flows).contains("rx-flow-hash tcp4 sdfn"));
    // What an X710 hashes of SCTP is fixed.
    let text = shown(
        "x710",
        &format!("{hosts} && p0.sctp.src = p0.sctp.dst && p0.sctp.dst = p0.sctp.src"),
    );
    assert!(!text.contains("rx-flow-hash sctp") && !text.contains(refused), "{text}");
    let text = shown("gvnic", &flows);
    assert!(text.contains("ethtool -X DEV hkey") && !text.contains("rx-flow-hash"), "{text}");
    let udp = "ipv4-udp (ipv4.src ipv4.dst udp.src udp.dst)";
    assert!(text.contains(refused) && text.contains(udp), "{text}");
    assert!(shown("virtio", &flows).contains("rx-flow-hash tcp4 sdfn"));
}

#[test]
fn a_key_of_software_is_for_no_nic() {
    let text = shown("software", "p0.dst = p0.dst");
    assert!(text.contains("computed by workers: there is nothing to set in a NIC"), "{text}");
    for tool in ["ethtool", "DPDK", "VPP"] {
        assert!(!text.contains(tool), "{text}");
    }
}

#[test]
fn keys_are_printed_of_the_ports_that_are_named() {
    let words = ["rss", "key", "--nic", "e810", "--constraint", "p9.ipv4.dst = p9.ipv4.dst"];
    let text = Bench::new().run_words(&words).expect(0).out;
    let ports: Vec<&str> = text.lines().filter(|line| line.starts_with("Port ")).collect();
    assert!(matches!(ports[..], [one] if one.starts_with("Port 9: ")), "{text}");
}

#[test]
fn the_same_seed_finds_the_same_key_and_another_another() {
    let bench = Bench::new();
    let keys = |seed: &str| {
        let words =
            ["rss", "key", "--nic", "cx6", "--seed", seed, "--json", "--constraint", FIREWALL];
        let document = bench.run_words(&words).expect(0).json();
        (key(&document, 0), key(&document, 1))
    };
    assert_eq!(keys("1"), keys("1"));
    assert_ne!(keys("1").0, keys("2").0);
    assert_ne!(keys("1").0, keys("1").1);
}

#[test]
fn what_no_nic_hashes_is_refused_by_name_and_software_serves_it() {
    let bench = Bench::new();
    let words =
        |nic| ["rss", "key", "--constraint", "p0.ethernet.src = p0.ethernet.src", "--nic", nic];
    bench.run_words(&words("e810")).expect(8).says("the NIC does not hash ethernet.src");
    let document = bench.run_words(&[&words("e810")[..], &["--json"]].concat()).expect(8).json();
    assert_eq!(document["solution"], Value::Null);
    assert_eq!(document["impossible"][0]["cause"], "unhashed");
    assert_eq!(document["impossible"][0]["fields"][0], "ethernet.src");
    let text = bench.run_words(&words("software")).expect(0).out;
    assert!(text.contains("48 of 48"), "{text}");
}

#[test]
fn one_key_that_cannot_serve_both_families_serves_one() {
    let bench = Bench::new();
    let words = ["rss", "key", "--nic", "x710", "--constraint", "p0.dst = p0.dst"];
    bench.run_words(&words).expect(8).says("--partial").says("ipv6.dst = second.ipv6.dst");
    let partial =
        bench.run_words(&[&words[..], &["--partial", "--json"]].concat()).expect(0).json();
    let left_out = partial["impossible"].as_array().unwrap();
    assert_eq!(left_out.len(), 5);
    assert!(left_out.iter().all(|class| class["class"].as_str().unwrap().starts_with("ipv6")));
    assert!(left_out.iter().all(|class| class["cause"] == "conflict"));
    let key = key(&partial, 0);
    let check = |constraint| {
        let words = ["rss", "check", "--key", &key, "--json", "--constraint", constraint];
        bench.run_words(&words).expect(0).json()["broken"].as_array().unwrap().len()
    };
    assert_eq!(check("p0.ipv4.dst = p0.ipv4.dst"), 0);
    assert_eq!(check("p0.ipv6.dst = p0.ipv6.dst"), 25);
}

#[test]
fn a_part_is_promised_only_where_there_is_one() {
    let bench = Bench::new();
    let words =
        ["rss", "key", "--nic", "software", "--constraint", "p0.ethernet.src = p0.ethernet.dst"];
    let done = bench.run_words(&words).expect(8).says("no key");
    assert!(!done.err.contains("--partial"), "{}", done.err);
    let text = bench.run_words(&[&words[..], &["--partial"]].concat()).expect(0).out;
    assert!(text.contains("none of 121 needs is met") && !text.contains("2^0"), "{text}");
    let words = ["rss", "key", "--nic", "x710", "--partial", "--constraint", "p0.dst = p0.dst"];
    let text = bench.run_words(&words).expect(0).out;
    assert!(text.contains("keys that meet 25 of 50 needs"), "{text}");
}

/// Classes that hang together with one that cannot be served are named too: no key serves them either.
#[test]
fn what_is_left_out_with_others_is_named() {
    let constraint = "p0.ipv4.src = p1.ipv4.dst || p0.tcp.dst = 443 && p1.tcp.dst = 443";
    let words = ["rss", "key", "--nic", "82599", "--partial", "--json", "--constraint", constraint];
    let document = Bench::new().run_words(&words).expect(0).json();
    let left_out = document["impossible"].as_array().unwrap();
    for port in [0, 1] {
        let is_it = |one: &&Value| one["port"] == port && one["class"] == "ipv6-tcp";
        let found = left_out.iter().find(is_it).unwrap();
        assert_eq!(found["cause"], "no-key");
        assert!(!found["needs"].as_array().unwrap().is_empty(), "{found}");
    }
}

#[test]
fn a_symmetric_key_is_called_so_and_a_constraint_it_breaks_is_shown_by_two_packets() {
    let bench = Bench::new();
    let text = bench.run_words(&["rss", "check", "--key", SYMMETRIC]).expect(0).out;
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("ipv")).collect();
    assert_eq!(lines.len(), 6);
    assert!(lines.iter().all(|line| line.contains("7 of 7") && line.contains("yes")), "{text}");
    let words = ["rss", "check", "--key", SYMMETRIC, "--constraint", "p0.ipv4.dst = p0.ipv4.dst"];
    let text = bench.run_words(&words).expect(0).out;
    assert!(text.contains("Broken: first.ipv4.dst = second.ipv4.dst"), "{text}");
    assert!(text.contains("ipv4.src = 0x80000000"), "{text}");
}

#[test]
fn a_capture_spreads_and_a_sample_spreads_it_better() {
    let bench = Bench::new();
    bench.traffic("in.pcap", "flows=3000,packets=6000,uniform");
    let check = ["rss", "check", "--key", SYMMETRIC, "--in", "in.pcap", "--workers", "3", "--json"];
    let spread = bench.run_words(&check).expect(0).json()["spread"].clone();
    let workers: Vec<u64> =
        spread["workers"].as_array().unwrap().iter().map(|load| load.as_u64().unwrap()).collect();
    assert_eq!((workers.len(), workers.iter().sum::<u64>()), (3, 6000));
    assert!(
        spread["imbalance"].as_f64().unwrap() >= 1.0 && spread["entries_used"].as_u64() > Some(100)
    );

    let fullest = |sample: &[&str]| {
        let symmetric =
            "p0.src = p0.dst && p0.dst = p0.src && p0.sport = p0.dport && p0.dport = p0.sport";
        let words = ["rss", "key", "--nic", "82599", "--json", "--constraint", symmetric];
        let key = key(&bench.run_words(&[&words[..], sample].concat()).expect(0).json(), 0);
        let check = ["rss", "check", "--key", &key, "--in", "in.pcap", "--json"];
        bench.run_words(&check).expect(0).json()["spread"]["fullest_entry"].as_u64().unwrap()
    };
    let mean = 6000 / 128;
    let with_sample = fullest(&["--in", "in.pcap"]);
    assert!((mean..4 * mean).contains(&with_sample), "{with_sample}");
}

#[test]
fn mistakes_are_named_where_they_are() {
    let bench = Bench::new();
    let key = |words: &[&str]| bench.run_words(&[&["rss", "key", "--nic", "cx5"], words].concat());
    key(&["--constraint", "p0.sorce = p0.dst"]).expect(2).says("column 4").says("   ^^^^^");
    key(&["--constraint", FIREWALL, "--index-bits", "40"]).expect(2).says("no table of 2^40");
    key(&["--constraint", "p0.src = p0.src", "--in", "none.pcap"]).expect(4).says("none.pcap");
    key(&["--constraint", "p0.src = p0.src", "--in", "p1=a.pcap"]).expect(2).says("1 port");
    // Tables that the model does not have, and models of ports that there are not.
    let e810 = ["rss", "key", "--constraint", "p0.src = p0.src", "--nic", "e810"];
    let of = |words: &[&str]| bench.run_words(&[&e810[..], words].concat());
    of(&["--index-bits", "12"]).expect(2).says("6 (64 entries) or 7 (128 entries) or 9 (512");
    of(&["--index-bits", "9"]).expect(0);
    of(&["--nic", "cx5"]).expect(2).says("2 NIC models for 1 port");
    let words = ["rss", "check", "--key", SYMMETRIC, "--nic", "82599", "--index-bits", "8"];
    bench.run_words(&words).expect(2).says("no table of 2^8 entries: write 7 (128 entries)");
    let words = ["rss", "check", "--key", SYMMETRIC, "--nic", "virtio", "--index-bits", "8"];
    bench.run_words(&words).expect(0);
    let words = ["rss", "key", "--nic", "virtio", "--index-bits", "32", "--constraint", FIREWALL];
    bench.run_words(&words).expect(2).says("7 (128 entries) or what the device has, 15 at most");
    let words = ["rss", "key", "--nic", "cx9", "--constraint", FIREWALL];
    bench.run_words(&words).expect(2).says("did you mean `cx");
    let check = |key: &str| bench.run_words(&["rss", "check", "--key", key]);
    check("6d5x").expect(2).says("`x` at place 4");
    check("6d5").expect(2).says("3 digits");
    check("6d5a").expect(2).says("40 or 52 bytes");
    let words = ["rss", "check", "--key", SYMMETRIC, "--nic", "e810"];
    bench.run_words(&words).expect(2).says("takes keys of 52 bytes");
}

#[test]
fn every_model_is_listed_and_names_its_source() {
    let bench = Bench::new();
    let list = bench.run("rss nics").expect(0).out;
    assert_eq!(list.lines().count(), 11);
    for line in list.lines().skip(1) {
        let model = line.split_whitespace().next().unwrap();
        let text = bench.run(&format!("rss nics {model}")).expect(0).out;
        assert!(text.contains("Source:  ") && text.contains("ipv4-tcp"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

/// The figures of docs/rss.md that do not depend on the machine.
#[test]
fn the_documentation_shows_what_the_program_prints() {
    let page = std::fs::read_to_string(checkout().join("docs/rss.md")).unwrap();
    let bench = Bench::new();
    let list = bench.run("rss nics").expect(0).out;
    assert!(page.contains(list.trim_end()), "docs/rss.md lacks\n{list}");
    let words = ["rss", "check", "--key", SYMMETRIC, "--constraint", "p0.ipv4.dst = p0.ipv4.dst"];
    let check = bench.run_words(&words).expect(0).out;
    assert!(page.contains(check.trim_end()), "docs/rss.md lacks\n{check}");
    let words = ["rss", "key", "--nic", "cx6", "--constraint", "p0.dst = p0.dst"];
    let key = bench.run_words(&words).expect(0).out;
    let (stable, _) = key.split_once("Chosen in").unwrap();
    assert!(page.contains(stable.trim_end()), "docs/rss.md lacks\n{key}");
}

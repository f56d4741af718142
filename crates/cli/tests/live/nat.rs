//! NAT: as a wire, and as a router whose workers tell each other of neighbours.

use std::fs;

use crate::lab::{Kind, Lab, assert_adds_up, wait_for};
use crate::traffic::{fetch, fetch_often, ping, stream, trace_route};

/// The ports of the function, and who is there.
const WIRE: [(&str, &str); 2] = [("lan", "client"), ("wan", "server")];

/// Addresses of `client` inside and `server` outside; as a wire, the NAT answers for nobody, so
/// neighbours are given.
fn address_wire(lab: &Lab) {
    lab.ip("client", "link set e address 02:00:00:00:00:0c");
    lab.ip("server", "link set e address 02:00:00:00:00:05");
    lab.ip("client", "addr add 10.0.0.2/24 dev e");
    lab.ip("client", "neigh replace 10.0.0.1 lladdr 02:00:00:00:00:05 dev e");
    lab.ip("client", "route add default via 10.0.0.1");
    lab.ip("server", "addr add 198.51.100.1/24 dev e");
    lab.ip("server", "neigh replace 198.51.100.2 lladdr 02:00:00:00:00:0c dev e");
}

/// Inside `client`, outside `server`.
fn wire(kind: Kind) {
    let Some(mut lab) = Lab::open(kind) else { return };
    lab.host("client");
    lab.host("server");
    let (large, small) = (lab.file("large", 20_000_000), lab.file("small", 3_000));
    let nat = lab.start("nat", "--set 'public=[\"198.51.100.2\"]'", &WIRE);
    address_wire(&lab);
    let _servers = [lab.web("server", 80), lab.iperf("server")];
    ping(&lab, "client", "198.51.100.1", 56);
    ping(&lab, "client", "198.51.100.1", 1_472);
    fetch(&lab, "client", "http://198.51.100.1", &large);
    fetch_often(&lab, "client", "http://198.51.100.1", &small);
    stream(&lab, "client", "198.51.100.1");
    let unasked = lab.run("server", "ping -c 2 -i 0.1 -W 1 198.51.100.2");
    assert!(unasked.fails(), "{}\n{:?}", unasked.text, nat.report().drops);
    ping(&lab, "client", "198.51.100.1", 4_000);
    ping(&lab, "client", "198.51.100.1", 20_000);
    let report = nat.finish();
    assert_eq!(report.strategy, "shared-nothing");
    assert!(report.drops["reassembled"] >= 2 * (2 + 13), "{:?}", report.drops);
    assert!(report.drops["fragmented"] >= 4, "{:?}", report.drops);
    assert!(report.workers.iter().all(|worker| worker.packets > 0), "{:?}", report.workers);
    assert_adds_up(&report);
}

#[test]
fn nat_is_a_wire_between_hosts_over_packet_sockets() {
    wire(Kind::AfPacket);
}

#[test]
fn nat_is_a_wire_between_hosts_over_taps() {
    wire(Kind::Tap);
}

#[test]
fn nat_is_a_wire_between_hosts_over_xdp() {
    wire(Kind::Xdp);
}

/// A connection goes on though the NAT is killed in the middle of it, and again, and started anew with
/// other numbers of workers; nobody else gets its port.
#[test]
fn a_connection_outlives_the_process_of_the_nat() {
    let Some(mut lab) = Lab::open(Kind::AfPacket) else { return };
    lab.host("client");
    lab.host("server");
    let large = lab.file("large", 2_000_000);
    let options = "--set 'public=[\"198.51.100.2\"]' --store memory:state --instance edge";
    let mut nat = lab.start("nat", options, &WIRE);
    address_wire(&lab);
    let _server = lab.web("server", 80);
    ping(&lab, "client", "198.51.100.1", 56);
    // Ten seconds, at 200 kB/s; without its mapping the NAT would drop what comes from the server.
    let mut fetching = lab.serve("client", "curl -s -o slow http://198.51.100.1/slowly/large");
    for (round, workers) in [3, 1, 2].into_iter().enumerate() {
        let size = || fs::metadata(lab.path("slow")).map_or(0, |file| file.len());
        wait_for("some of the file", || size() > 300_000 * (round as u64 + 1));
        nat.kill();
        fetch_fails_without(&lab);
        let options = format!("{options} --strategy shared-nothing --workers {workers}");
        nat = lab.start_again("nat", &options, &WIRE);
        fetch(&lab, "client", "http://198.51.100.1", &large);
    }
    assert!(fetching.wait().success());
    assert!(fs::read(lab.path("slow")).unwrap() == large, "the file has arrived");
    let live = nat.report().store.unwrap();
    assert!(live.stored > 10 && live.failures == 0, "{live:?}");
    let report = nat.finish();
    let store = report.store.as_ref().unwrap();
    assert_eq!((store.waiting, &store.trouble), (0, &None));
    assert_eq!(report.warnings, [""; 0]);
    assert!(
        report.drops.get("no-mapping").is_none_or(|&dropped| dropped == 0),
        "{:?}",
        report.drops
    );
    assert_adds_up(&report);
}

/// Between two processes nothing gets through.
fn fetch_fails_without(lab: &Lab) {
    assert!(lab.run("client", "ping -c 1 -W 1 198.51.100.1").fails());
}

pub const ROUTER: &str = r#"
public = ["198.51.100.2"]
static_mappings = [{ protocol = "tcp", inside = "10.0.0.3", inside_port = 80, public = "198.51.100.2", public_port = 8080 }]

[interfaces.lan]
mac = "02:00:00:00:01:01"
addresses = ["10.0.0.1/24"]

[interfaces.wan]
mac = "02:00:00:00:01:02"
addresses = ["198.51.100.2/24"]
"#;

/// Two hosts inside, on a switch; the NAT is their router.
fn router(kind: Kind) {
    let Some(mut lab) = Lab::open(kind) else { return };
    lab.switch("switch");
    lab.host("server");
    for (host, address) in [("a", "10.0.0.2/24"), ("b", "10.0.0.3/24")] {
        lab.host(host);
        lab.plug(host, "e", "switch");
        lab.ip(host, &format!("addr add {address} dev e"));
        lab.ip(host, "route add default via 10.0.0.1");
    }
    let (large, small) = (lab.file("large", 5_000_000), lab.file("small", 3_000));
    fs::write(lab.path("nat.toml"), ROUTER).unwrap();
    let nat = lab.start("nat", "--config nat.toml", &[("lan", "switch"), ("wan", "server")]);
    lab.ip("switch", "link set e master sw");
    lab.ip("server", "addr add 198.51.100.1/24 dev e");
    let _servers = [lab.web("server", 80), lab.iperf("server"), lab.web("b", 80)];
    ping(&lab, "a", "10.0.0.1", 56);
    ping(&lab, "a", "198.51.100.1", 1_472);
    fetch(&lab, "a", "http://198.51.100.1", &large);
    fetch_often(&lab, "b", "http://198.51.100.1", &small);
    stream(&lab, "a", "198.51.100.1");
    // From outside, and from inside by way of the public address: hairpinning.
    fetch(&lab, "server", "http://198.51.100.2:8080", &large);
    fetch(&lab, "a", "http://198.51.100.2:8080", &large);
    let hops = trace_route(&lab, "a", "198.51.100.1");
    let report = nat.finish();
    assert_eq!(hops, ["10.0.0.1", "198.51.100.1"], "{:?}", report.drops);
    assert_eq!(report.strategy, "shared-nothing", "{}", report.strategy_why);
    assert!(report.packets_emitted > 0, "it asks and is asked for neighbours");
    assert!(report.drops["ttl-expired"] >= 1, "{:?}", report.drops);
    assert_adds_up(&report);
}

#[test]
fn nat_is_a_router_over_packet_sockets() {
    router(Kind::AfPacket);
}

#[test]
fn nat_is_a_router_over_taps() {
    router(Kind::Tap);
}

#[test]
fn nat_is_a_router_over_xdp() {
    router(Kind::Xdp);
}

//! NAT: as a wire, its state in shards, and as a router, behind one lock.

use std::fs;

use crate::lab::{Kind, Lab, assert_adds_up};
use crate::traffic::{fetch, fetch_often, ping, stream};

/// Inside `client`, outside `server`; as a wire, the NAT answers for nobody, so neighbours are given.
fn wire(kind: Kind) {
    let Some(mut lab) = Lab::open(kind) else { return };
    lab.host("client");
    lab.host("server");
    let (large, small) = (lab.file("large", 20_000_000), lab.file("small", 3_000));
    let nat = lab.start(
        "nat",
        "--set 'public=[\"198.51.100.2\"]'",
        &[("lan", "client"), ("wan", "server")],
    );
    lab.ip("client", "link set e address 02:00:00:00:00:0c");
    lab.ip("server", "link set e address 02:00:00:00:00:05");
    lab.ip("client", "addr add 10.0.0.2/24 dev e");
    lab.ip("client", "neigh replace 10.0.0.1 lladdr 02:00:00:00:00:05 dev e");
    lab.ip("client", "route add default via 10.0.0.1");
    lab.ip("server", "addr add 198.51.100.1/24 dev e");
    lab.ip("server", "neigh replace 198.51.100.2 lladdr 02:00:00:00:00:0c dev e");
    let _servers = [lab.web("server", 80), lab.iperf("server")];
    ping(&lab, "client", "198.51.100.1", 56);
    ping(&lab, "client", "198.51.100.1", 1_472);
    fetch(&lab, "client", "http://198.51.100.1", &large);
    fetch_often(&lab, "client", "http://198.51.100.1", &small);
    stream(&lab, "client", "198.51.100.1");
    assert!(lab.run("server", "ping -c 2 -i 0.1 -W 1 198.51.100.2").fails(), "nobody asked for it");
    assert!(
        lab.run("client", "ping -c 1 -W 1 -s 4000 198.51.100.1").fails(),
        "it comes in fragments"
    );
    let report = nat.finish();
    assert_eq!(report.strategy, "shared-nothing");
    assert!(report.drops["fragment"] >= 2, "{:?}", report.drops);
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
    let route = lab.run("a", "traceroute -n -w 2 -q 1 -m 4 198.51.100.1").expect();
    let hops: Vec<&str> =
        route.lines().skip(1).filter_map(|hop| hop.split_whitespace().nth(1)).collect();
    assert_eq!(hops, ["10.0.0.1", "198.51.100.1"], "{route}");
    let report = nat.finish();
    assert_eq!(report.strategy, "lock");
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

//! Through a NAT, what depends on more than two hosts: names, thousands of connections, a narrow link further on.

use std::fs;

use crate::clients::fetch_at_once;
use crate::lab::{Function, Kind, Lab, assert_adds_up, wait_for};
use crate::nat::ROUTER;
use crate::traffic::{fetch, trace_route};

/// Inside `client`, a NAT that is a router, outside it `hop`, and behind that, over a link of 1,400 bytes, `server`.
fn far_server(lab: &Lab) -> Function<'_> {
    let beyond = "[[routes]]\nto = \"192.0.2.0/24\"\nvia = \"198.51.100.1\"\n";
    fs::write(lab.path("nat.toml"), [ROUTER, beyond].concat()).unwrap();
    let nat = lab.start("nat", "--config nat.toml", &[("lan", "client"), ("wan", "hop")]);
    lab.ip("client", "addr add 10.0.0.2/24 dev e");
    lab.ip("client", "route add default via 10.0.0.1");
    lab.ip("hop", "addr add 198.51.100.1/24 dev e");
    let peer = lab.namespace("server");
    lab.ip("hop", &format!("link add far type veth peer name e netns {peer}"));
    lab.ip("hop", "link set far up mtu 1400");
    lab.ip("hop", "addr add 192.0.2.1/24 dev far");
    lab.run("hop", "sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'").expect();
    lab.ip("server", "link set e up");
    lab.ip("server", "addr add 192.0.2.2/24 dev e");
    lab.ip("server", "route add default via 192.0.2.1");
    nat
}

fn beyond(kind: Kind) {
    const CONNECTIONS: usize = 2_000;
    let Some(mut lab) = Lab::open(kind) else { return };
    let (large, small) = (lab.file("large", 3_000_000), lab.file("small", 3_000));
    ["client", "hop", "server"].iter().for_each(|host| lab.host(host));
    let lab = &lab;
    let nat = far_server(lab);
    let _servers = [
        lab.web("server", 80),
        lab.iperf("server"),
        lab.names("server", "--address=/www.example.org/192.0.2.2 --txt-record=example.org,hello"),
    ];
    // Names, over UDP and TCP.
    for way in ["+notcp", "+tcp"] {
        let ask = |what: &str| {
            let line = format!("dig @192.0.2.2 {what} {way} +short +tries=2 +time=5");
            lab.run("client", &line).expect().trim().to_owned()
        };
        assert_eq!(ask("www.example.org A"), "192.0.2.2");
        assert_eq!(ask("example.org TXT"), "\"hello\"");
    }
    // A packet that is too long for the far link: the hop says so, and the client hears it.
    let long = lab.run("client", "ping -c 1 -W 2 -M do -s 1472 192.0.2.2");
    assert!(long.fails() && long.text.contains("mtu = 1400"), "{}", long.text);
    assert!(lab.run("client", "ip route get 192.0.2.2").expect().contains("mtu 1400"));
    lab.run("client", "ping -c 2 -W 2 -M do -s 1372 192.0.2.2").expect();
    lab.run("client", "ip route flush cache").expect();
    // The same with TCP in a hurry.
    let sent = lab.run("client", "iperf3 -c 192.0.2.2 -t 1 -J").expect();
    let sent: serde_json::Value = serde_json::from_str(&sent).unwrap();
    assert!(sent["end"]["sum_received"]["bytes"].as_f64().unwrap() > 1e6, "{sent}");
    assert_eq!(sent["intervals"][0]["streams"][0]["pmtu"], 1_400, "{sent}");
    fetch(lab, "client", "http://192.0.2.2", &large);
    let hops = trace_route(lab, "client", "192.0.2.2");
    assert_eq!(hops, ["10.0.0.1", "198.51.100.1", "192.0.2.2"]);
    fetch_at_once(lab, "client", "192.0.2.2:80", CONNECTIONS, small.len());
    let seen = nat.report();
    let used = seen.tables.iter().map(|table| table.used).max().unwrap();
    assert!(used >= CONNECTIONS as u64, "{:?}", seen.tables);
    assert_adds_up(&nat.finish());
}

/// The link outside is said to be narrow, and that what is too long for it is not answered: neither end sends any.
fn clamped(kind: Kind) {
    let Some(mut lab) = Lab::open(kind) else { return };
    ["client", "server"].iter().for_each(|host| lab.host(host));
    let lab = &lab;
    let narrow = "[interfaces.wan]\nmtu = 1400\nclamp_mss = true";
    fs::write(lab.path("nat.toml"), ROUTER.replace("[interfaces.wan]", narrow)).unwrap();
    let nat = lab.start("nat", "--config nat.toml", &[("lan", "client"), ("wan", "server")]);
    lab.ip("client", "addr add 10.0.0.2/24 dev e");
    lab.ip("client", "route add default via 10.0.0.1");
    lab.ip("server", "addr add 198.51.100.1/24 dev e");
    let _server = lab.iperf("server");
    let mut streams = lab.serve("client", "iperf3 -c 198.51.100.1 -t 2 --bidir");
    for sender in ["client", "server"] {
        // 40 bytes of headers, and 12 of the timestamps that Linux adds.
        wait_for("segments that fit", || {
            lab.run(sender, "ss -tin").expect().contains(" mss:1348 ")
        });
    }
    assert!(streams.wait().success());
    let report = nat.finish();
    assert_eq!(report.drops.get("packet-too-big"), None, "{:?}", report.drops);
    assert_adds_up(&report);
}

#[test]
fn connections_over_a_narrow_link_announce_what_fits_it_over_packet_sockets() {
    clamped(Kind::AfPacket);
}

#[test]
fn connections_over_a_narrow_link_announce_what_fits_it_over_xdp() {
    clamped(Kind::Xdp);
}

#[test]
fn thousands_of_connections_names_and_a_narrow_link_over_packet_sockets() {
    beyond(Kind::AfPacket);
}

#[test]
fn thousands_of_connections_names_and_a_narrow_link_over_xdp() {
    beyond(Kind::Xdp);
}

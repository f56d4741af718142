//! DNS tunnel: `iodine` by way of a name server, which others ask for what it is there for.

use std::fs;

use crate::lab::{Function, Kind, Lab, Process, assert_adds_up, log, wait_for};
use crate::site::{self, SERVER};
use crate::traffic::ping;

const PORTS: [&str; 2] = ["lan", "wan"];
/// Names of addresses of the server; what is below `t.example` another knows.
const RECORDS: &str = "--synth-domain=web.example,10.0.1.0/24 --local=/example/ \
                       --server=/t.example/127.0.0.1#5353";
const FOUND: &str = "10.0.0.2 seems to tunnel";
/// The other end of the tunnel.
const FAR: &str = "10.9.0.1";

/// The far end, in no other way to be reached than by questions to the name server.
fn far_end(lab: &Lab) -> Process {
    let line = format!("iodined -f -c -p 5353 -l 127.0.0.1 -P secret {FAR}/24 t.example");
    let server = lab.serve("server", &line);
    lab.until_it_listens("server", 5353);
    server
}

/// Digs a tunnel. Without `-r` it would be dug past DNS where it can.
fn dig(lab: &Lab) -> Process {
    let tunnel = lab.serve("digger", &format!("iodine -f -r -P secret {SERVER} t.example"));
    wait_for("a tunnel", || !lab.run("digger", &format!("ping -c 1 -W 1 {FAR}")).fails());
    tunnel
}

/// Has the reader look up thirty names, for IPv4 and IPv6 as the C library does it, and fetch a file from each.
fn reads(lab: &Lab) {
    let line = "curl -sS -f --max-time 20 -o got-#1 http://10-0-1-[1-30].web.example/small";
    lab.run("reader", &lab.with("resolv.conf", "/etc/resolv.conf", line)).expect();
}

/// Echo requests through the tunnel.
fn pings(lab: &Lab) -> String {
    lab.run("digger", &format!("ping -c 10 -i 0.02 -W 0.3 {FAR}")).text
}

fn until_it_is_told(lab: &Lab, function: &Function<'_>) {
    wait_for("the tunnel to be told of", || {
        pings(lab);
        !function.report().log.is_empty()
    });
}

fn tunnels(kind: Kind) {
    let programs = ["iodine", "iodined"];
    let Some(lab) = site::open(kind, &["digger", "reader"], &programs) else { return };
    let small = lab.file("small", 3_000);
    fs::write(lab.path("resolv.conf"), format!("nameserver {SERVER}\n")).unwrap();
    let reports = site::start(&lab, "dns-tunnel", "--set action=report", PORTS);
    let _servers = [lab.web("server", 80), lab.names("server", RECORDS), far_end(&lab)];
    reads(&lab);
    let tunnel = dig(&lab);
    until_it_is_told(&lab, &reports);
    lab.run("digger", &format!("curl -sS -f -o got http://{FAR}/small")).expect();
    assert!(fs::read(lab.path("got")).unwrap() == small);
    reads(&lab);
    drop(tunnel);
    let report = reports.finish();
    assert_eq!(log(&report), [FOUND]);
    assert_adds_up(&report);

    let blocks = site::start_again(&lab, "dns-tunnel", "", PORTS);
    reads(&lab);
    let _tunnel = dig(&lab);
    until_it_is_told(&lab, &blocks);
    assert!(pings(&lab).contains("100% packet loss"));
    assert!(lab.run("digger", &format!("dig @{SERVER} +time=1 +tries=1 web.example")).fails());
    ping(&lab, "digger", SERVER, 56);
    reads(&lab);
    let report = blocks.finish();
    assert!(report.drops["tunnel"] > 2, "{:?}", report.drops);
    assert_eq!(log(&report), [FOUND]);
    assert_adds_up(&report);
}

#[test]
fn a_tunnel_through_names_is_stopped_over_packet_sockets() {
    tunnels(Kind::AfPacket);
}

#[test]
fn a_tunnel_through_names_is_stopped_over_xdp() {
    tunnels(Kind::Xdp);
}

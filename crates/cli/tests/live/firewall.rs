//! The firewall: inside opens, outside sees nothing.

use crate::lab::{Kind, Lab, assert_adds_up};
use crate::traffic::{fetch, ping, stream};

fn between(kind: Kind) {
    let Some(mut lab) = Lab::open(kind) else { return };
    lab.host("in");
    lab.host("out");
    let large = lab.file("large", 10_000_000);
    let firewall = lab.start("firewall", "", &[("inside", "in"), ("outside", "out")]);
    let said = firewall.said();
    let software = "about 1 in 2 packets, copied once more";
    assert!(said.contains(software), "{said}");
    // A virtual link spreads nothing by itself.
    let refused = "the plan's key is not the NIC's: its driver spreads packets as it likes";
    assert_eq!(said.matches(refused).count(), if kind == Kind::Xdp { 2 } else { 0 }, "{said}");
    lab.ip("in", "addr add 10.0.0.1/24 dev e");
    lab.ip("out", "addr add 10.0.0.2/24 dev e");
    let _servers = [lab.web("in", 80), lab.web("out", 80), lab.iperf("out")];
    for bytes in [56, 1_472, 1_473, 4_000, 20_000] {
        ping(&lab, "in", "10.0.0.2", bytes);
    }
    fetch(&lab, "in", "http://10.0.0.2", &large);
    stream(&lab, "in", "10.0.0.2");
    assert!(lab.run("out", "curl -sS --max-time 1 http://10.0.0.1/large").fails());
    assert!(lab.run("out", "ping -c 2 -i 0.1 -W 1 10.0.0.1").fails());
    // As the data connection of active FTP: back to whoever has a connection open meanwhile.
    let mut open = lab.serve("in", "curl -sS -o slowly --limit-rate 2M http://10.0.0.2/large");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let back = lab.run("out", "curl -sS --max-time 2 --local-port 20 http://10.0.0.1/large");
    assert!(back.fails(), "{}", back.text);
    assert!(open.wait().success(), "the connection that was open goes on");
    let scan = "nmap -n -Pn --send-ip -sS -p 1-200 --max-retries 0 --min-rate 200 10.0.0.1";
    let seen = lab.run("out", scan).expect();
    assert!(!seen.contains("open") && !seen.contains(" closed"), "{seen}");
    let report = firewall.finish();
    assert!(report.packets_dropped >= 200, "{:?}", report.drops);
    assert!(report.drops.values().sum::<u64>() == report.packets_dropped);
    assert_adds_up(&report);
}

#[test]
fn nothing_is_seen_from_outside_over_packet_sockets() {
    between(Kind::AfPacket);
}

#[test]
fn nothing_is_seen_from_outside_over_taps() {
    between(Kind::Tap);
}

#[test]
fn nothing_is_seen_from_outside_over_xdp() {
    between(Kind::Xdp);
}

//! State in a Redis beyond a network of its own, which is cut: packets go on, metrics say what waits, and new
//! flows are refused where that is asked for.

use std::time::Duration;

use crate::lab::{Kind, Lab, wait_for};
use crate::observe::metric;
use crate::traffic::ping;

/// A Redis at the host `store`, on a link to the function of which both ends have addresses.
fn store(lab: &mut Lab) -> crate::lab::Process {
    lab.host("store");
    let peer = lab.namespace("store");
    lab.ip("nf", &format!("link add s type veth peer name e netns {peer}"));
    for (host, link, address) in [("nf", "s", "172.16.0.1"), ("store", "e", "172.16.0.2")] {
        lab.ip(host, &format!("addr add {address}/24 dev {link}"));
        lab.ip(host, &format!("link set {link} up"));
    }
    let server = lab.serve("store", "redis-server --save '' --protected-mode no");
    lab.until_it_listens("store", 6379);
    server
}

#[test]
fn a_network_cut_to_the_store_keeps_no_packet_and_is_seen() {
    let Some(mut lab) = Lab::open_with(Kind::AfPacket, &["redis-server"]) else { return };
    let _server = store(&mut lab);
    lab.host("a");
    lab.host("b");
    let options = "--metrics 127.0.0.1:9100 --store redis://172.16.0.2?timeout_ms=300 \
                   --when-behind refuse-new --behind-ms 400";
    let firewall = lab.start("firewall", options, &[("inside", "a"), ("outside", "b")]);
    lab.ip("a", "addr add 10.0.0.1/24 dev e");
    lab.ip("b", "addr add 10.0.0.2/24 dev e");
    ping(&lab, "a", "10.0.0.2", 56);
    let read = |name: &str| {
        let line = "curl -sS --max-time 5 http://127.0.0.1:9100/metrics";
        metric(&lab.run("nf", line).expect(), name, "store=")
    };
    wait_for("the first flow to be stored", || read("store_stored_total") > 0);
    wait_for("nothing to wait", || read("store_waiting") == 0);
    assert_eq!(read("store_refuses_new"), 0);

    // Neither end hears of it: packets are dropped, no connection is closed.
    let pings = "ping -i 0.1 -c 80 -W 5 10.0.0.2 | grep -q \" 0% packet loss\"";
    let mut established = lab.serve("a", &format!("sh -c '{pings}'"));
    let cut =
        "table inet cut {\nchain in {\ntype filter hook input priority 0; policy drop;\n}\n}\n";
    std::fs::write(lab.path("cut"), cut).unwrap();
    lab.run("store", "nft -f cut").expect();
    ping(&lab, "a", "10.0.0.2", 100);
    wait_for("the store to be behind", || read("store_refuses_new") == 1);
    wait_for("it to be said", || firewall.said().contains("store: "));
    assert_eq!(read("store_trouble"), 1);
    assert!(read("store_waiting") > 0 && read("store_oldest_ns") > 400_000_000);
    assert!(lab.run("a", "ping -c 2 -i 0.1 -W 1 10.0.0.2").fails(), "no new flow is taken");
    wait_for("messages to fail", || read("store_failures_total") > 1);

    lab.run("store", "nft delete table inet cut").expect();
    wait_for("the store to have caught up", || read("store_refuses_new") == 0);
    wait_for("nothing to wait", || read("store_waiting") == 0);
    wait_for("that to be said", || firewall.said().contains("store: takes what changes again"));
    ping(&lab, "a", "10.0.0.2", 56);
    assert!(established.wait().success(), "a flow that was there has lost packets");
    let report = firewall.finish();
    let kept = report.store.unwrap();
    assert!(kept.refused_ns > 0 && kept.failures > 1 && kept.waiting == 0, "{kept:?}");
    assert_eq!(kept.trouble, None);
    assert!(kept.pause_ns.max < 250_000_000, "no packet waited: {:?}", kept.pause_ns);
}

/// The table and the documents are there all the same.
#[test]
fn a_store_that_does_not_answer_at_the_end_is_given_up_by_a_second_signal() {
    let Some(mut lab) = Lab::open_with(Kind::AfPacket, &["redis-server"]) else { return };
    let server = store(&mut lab);
    lab.host("a");
    lab.host("b");
    let options =
        "--store redis://172.16.0.2?timeout_ms=300 --when-behind refuse-new --behind-ms 400";
    let firewall = lab.start("firewall", options, &[("inside", "a"), ("outside", "b")]);
    lab.ip("a", "addr add 10.0.0.1/24 dev e");
    lab.ip("b", "addr add 10.0.0.2/24 dev e");
    ping(&lab, "a", "10.0.0.2", 56);
    drop(server);
    ping(&lab, "a", "10.0.0.2", 100);
    wait_for("it to be said", || firewall.said().contains("store: "));
    let (report, waited) = firewall.give_up();
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    let kept = report.store.unwrap();
    assert!(kept.waiting > 0 && kept.trouble.is_some(), "{kept:?}");
    assert!(report.warnings.iter().any(|one| one.contains("not in the store: ")));
}

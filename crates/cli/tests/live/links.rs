//! Links that go down and interfaces that go away, while the function runs; and those it cannot open.

use std::time::Duration;

use crate::lab::{Kind, Lab};
use crate::traffic::ping;

/// Whether a link comes back after it was down, and after its interface was removed.
fn comes_back(kind: Kind) {
    let Some(lab) = Lab::of_two(kind) else { return };
    let nop = lab.start("nop", "", &[("lan", "a"), ("wan", "b")]);
    let address = |lab: &Lab| {
        lab.ip("a", "addr replace 10.0.0.1/24 dev e");
        lab.ip("b", "addr replace 10.0.0.2/24 dev e");
    };
    address(&lab);
    ping(&lab, "a", "10.0.0.2", 56);
    lab.ip("nf", "link set p-wan down");
    assert!(lab.run("a", "ping -c 2 -i 0.1 -W 1 10.0.0.2").fails(), "the link is down");
    std::thread::sleep(Duration::from_millis(300));
    lab.ip("nf", "link set p-wan up");
    // Links are looked at ten times a second.
    std::thread::sleep(Duration::from_millis(500));
    ping(&lab, "a", "10.0.0.2", 56);
    lab.ip("nf", "link del p-wan");
    assert!(lab.run("a", "ping -c 2 -i 0.1 -W 1 10.0.0.2").fails(), "the interface is gone");
    std::thread::sleep(Duration::from_millis(300));
    let peer = lab.namespace("b");
    let queues = "numrxqueues 2 numtxqueues 2";
    lab.ip("nf", &format!("link add p-wan {queues} type veth peer name e {queues} netns {peer}"));
    lab.ip("nf", "link set p-wan up");
    lab.ip("b", "link set e up");
    address(&lab);
    std::thread::sleep(Duration::from_millis(500));
    lab.ip("a", "neigh flush dev e");
    ping(&lab, "a", "10.0.0.2", 56);
    let report = nop.finish();
    let right = report.ports[1].live.as_ref().unwrap();
    assert_eq!(right.reopened, 2, "both queues: {right:?}");
    assert!(right.link_downs >= 3, "{right:?}");
    assert!(report.drops["link-down"] > 0, "{:?}", report.drops);
    let dropped: u64 = report.drops.values().sum();
    assert_eq!(report.packets_read, report.packets_out + dropped, "{:?}", report.drops);
}

#[test]
fn a_link_that_comes_back_is_used_again_by_packet_sockets() {
    comes_back(Kind::AfPacket);
}

#[test]
fn a_link_that_comes_back_is_used_again_by_xdp() {
    comes_back(Kind::Xdp);
}

/// An interface keeps its number in another namespace, and when it is back.
fn is_elsewhere_for_a_while(kind: Kind) {
    let Some(mut lab) = Lab::of_two(kind) else { return };
    lab.host("elsewhere");
    let nop = lab.start("nop", "", &[("lan", "a"), ("wan", "b")]);
    lab.ip("a", "addr replace 10.0.0.1/24 dev e");
    lab.ip("b", "addr replace 10.0.0.2/24 dev e");
    ping(&lab, "a", "10.0.0.2", 56);
    for pause_ms in [300, 0] {
        let (there, here) = (lab.namespace("elsewhere"), lab.namespace("nf"));
        lab.ip("nf", &format!("link set p-wan netns {there}"));
        std::thread::sleep(Duration::from_millis(pause_ms));
        lab.ip("elsewhere", &format!("link set p-wan netns {here}"));
        lab.ip("nf", "link set p-wan up");
        std::thread::sleep(Duration::from_millis(500));
        ping(&lab, "a", "10.0.0.2", 56);
    }
    let report = nop.finish();
    let right = report.ports[1].live.as_ref().unwrap();
    assert_eq!(right.reopened, 4, "both queues, twice: {right:?}");
    let dropped: u64 = report.drops.values().sum();
    assert_eq!(report.packets_read, report.packets_out + dropped, "{:?}", report.drops);
}

#[test]
fn an_interface_that_was_in_another_namespace_is_used_again_by_packet_sockets() {
    is_elsewhere_for_a_while(Kind::AfPacket);
}

#[test]
fn an_interface_that_was_in_another_namespace_is_used_again_by_xdp() {
    is_elsewhere_for_a_while(Kind::Xdp);
}

#[test]
fn what_cannot_be_opened_is_told_with_what_mends_it() {
    let Some(lab) = Lab::open(Kind::AfPacket) else { return };
    lab.ip("nf", "link add here type veth peer name there");
    lab.ip("nf", "link add there2 type veth peer name here2");
    for link in ["there", "there2"] {
        lab.ip("nf", &format!("link set {link} up"));
    }
    let program = env!("CARGO_BIN_EXE_anabranch");
    let refused = |bound: &str| {
        let line = format!("{program} run nop --port lan=afpacket:there --port wan={bound}");
        let done = lab.run("nf", &line);
        assert!(done.fails(), "{bound}");
        done.text
    };
    let gone = refused("afpacket:nowhere");
    assert!(gone.contains("nowhere: there is no such interface"), "{gone}");
    let down = refused("afpacket:here");
    assert!(down.contains("`ip link set here up`"), "{down}");
    let no_ethernet = refused("afpacket:lo");
    assert!(no_ethernet.contains("not an Ethernet interface"), "{no_ethernet}");
    let no_tap = refused("tap:here");
    assert!(no_tap.contains("no TAP"), "{no_tap}");
    let line = format!(
        "sh -c 'ulimit -n 24 && {program} run nop --workers 8 --port lan=afpacket:there --port wan=afpacket:there2'"
    );
    let files = lab.run("nf", &line).text;
    assert!(files.contains("`ulimit -n 65536` first"), "{files}");
    let no_kind = refused("pcap:here");
    assert!(no_kind.contains("write afpacket:"), "{no_kind}");
    let line = format!(
        "setpriv --bounding-set=-all --reuid=65534 --clear-groups {program} run nop \
         --port lan=afpacket:there --port wan=tap:new"
    );
    let unprivileged = lab.run("nf", &line).text;
    assert!(unprivileged.contains("CAP_NET_RAW"), "{unprivileged}");
}

#[test]
fn what_is_due_is_done_without_packets() {
    let Some(lab) = Lab::open(Kind::AfPacket) else { return };
    lab.ip("nf", "link add here type veth peer name there");
    for link in ["here", "there"] {
        lab.ip("nf", &format!("link set {link} up"));
    }
    let program = env!("CARGO_BIN_EXE_anabranch");
    let service = r#"'services=[{ address = "10.0.0.9", port = 80, protocol = "tcp" }]'"#;
    for workers in ["1", "2", "2 --strategy lock"] {
        let line = format!(
            "{program} run lb --set {service} --port clients=afpacket:here \
             --port backends=afpacket:there --workers {workers} --for 1 \
             --control 'at=0.1s add-backend service=0 address=10.1.0.1 port=80' \
             --control 'at=0.2s remove-backend address=10.1.0.2 port=80'"
        );
        let done = lab.run("nf", &line);
        assert!(done.fails() && done.text.contains("refused the command `"), "{}", done.text);
        assert!(!done.text.contains("not carried out"), "{}", done.text);
    }
}

#[test]
fn an_interface_belongs_to_one_run() {
    let Some(lab) = Lab::of_two(Kind::AfPacket) else { return };
    let first = lab.join("nop", "", ["lan", "wan"]);
    let program = env!("CARGO_BIN_EXE_anabranch");
    for kind in ["afpacket", "xdp"] {
        let second =
            format!("{program} run nop --port lan={kind}:p-lan --port wan={kind}:p-wan --for 1");
        let second = lab.run("nf", &second);
        assert!(second.fails() && second.text.contains("another run has"), "{}", second.text);
    }
    let pings = lab.run("a", "ping -c 3 -i 0.1 -W 5 10.0.0.2").expect();
    assert!(!pings.contains("DUP"), "{pings}");
    first.finish();
}

#[test]
fn an_interface_has_one_program() {
    let Some(lab) = Lab::of_two(Kind::Xdp) else { return };
    let first = lab.start("nop", "", &[("lan", "a"), ("wan", "b")]);
    let program = env!("CARGO_BIN_EXE_anabranch");
    let second =
        lab.run("nf", &format!("{program} run nop --port lan=xdp:p-lan --port wan=xdp:p-wan"));
    assert!(
        second.fails() && second.text.contains("another XDP program is on it"),
        "{}",
        second.text
    );
    first.finish();
    let third = format!("{program} run nop --port lan=xdp:p-lan --port wan=xdp:p-wan --for 0.1");
    lab.run("nf", &third).expect();
}

/// Whether packets for a link whose other end is down are counted as such: its cable is out.
fn is_pulled(kind: Kind) {
    let Some(lab) = Lab::of_two(kind) else { return };
    let nop = lab.join("nop", "", ["lan", "wan"]);
    ping(&lab, "a", "10.0.0.2", 56);
    let station = lab.run("b", "cat /sys/class/net/e/address").expect();
    lab.ip("a", &format!("neigh replace 10.0.0.2 lladdr {} dev e", station.trim()));
    lab.ip("b", "link set e down");
    assert!(lab.run("a", "ping -c 40 -i 0.01 -W 1 10.0.0.2").fails(), "the cable is out");
    lab.ip("b", "link set e up");
    std::thread::sleep(Duration::from_millis(500));
    ping(&lab, "a", "10.0.0.2", 56);
    let received = lab.received("b");
    let report = nop.finish();
    let right = report.ports[1].live.as_ref().unwrap();
    assert_eq!((right.link_downs, right.reopened, right.unsent), (2, 0, 0), "both queues");
    let reasons: Vec<_> = report.drops.keys().map(String::as_str).collect();
    assert_eq!((reasons, report.drops["link-down"]), (vec!["link-down"], 40));
    assert_eq!(report.packets_read, report.packets_out + 40);
    assert_eq!(report.ports[1].packets_out, received, "what left has arrived");
}

#[test]
fn a_cable_that_is_out_is_a_link_that_is_down_for_packet_sockets() {
    is_pulled(Kind::AfPacket);
}

#[test]
fn a_cable_that_is_out_is_a_link_that_is_down_for_xdp() {
    is_pulled(Kind::Xdp);
}

/// Whether what the next link does not take is counted, and taken when it does.
fn is_too_long(kind: Kind) {
    let Some(lab) = Lab::of_two(kind) else { return };
    let nop = lab.join("nop", "", ["lan", "wan"]);
    ping(&lab, "a", "10.0.0.2", 56);
    let long = |host: &str, link: &str| lab.ip(host, &format!("link set {link} mtu 3000"));
    long("nf", "p-lan");
    long("a", "e");
    assert!(lab.run("a", "ping -c 5 -i 0.05 -W 1 -M do -s 2000 10.0.0.2").fails());
    assert!(lab.run("a", "ping -c 5 -i 0.05 -W 1 -M do -s 1473 10.0.0.2").fails());
    lab.run("a", "ping -c 5 -i 0.05 -W 1 -M do -s 1472 10.0.0.2").expect();
    long("b", "e");
    long("nf", "p-wan");
    std::thread::sleep(Duration::from_millis(300));
    lab.run("a", "ping -c 5 -i 0.05 -W 1 -M do -s 2000 10.0.0.2").expect();
    let received = lab.received("b");
    let report = nop.finish();
    assert_eq!(report.drops["packet-too-big"], 10, "{:?}", report.drops);
    assert_eq!(report.packets_read, report.packets_out + 10);
    assert_eq!(report.ports[1].packets_out, received, "what left has arrived");
}

#[test]
fn what_the_next_link_does_not_take_is_counted_by_packet_sockets() {
    is_too_long(Kind::AfPacket);
}

#[test]
fn what_the_next_link_does_not_take_is_counted_by_xdp() {
    is_too_long(Kind::Xdp);
}

/// Whether what was missed before an interface went away is still counted when it is back.
fn stays_counted(kind: Kind) {
    let Some(lab) = Lab::of_two(kind) else { return };
    let nop = lab.start("nop", "", &[("lan", "a"), ("wan", "b")]);
    lab.ip("a", "addr add 10.0.0.1/24 dev e");
    lab.ip("a", "neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev e");
    nop.signal("-STOP");
    let flood = "ping -q -c 30000 -l 30000 -s 1400 -W 1 10.0.0.2";
    assert!(lab.run("a", flood).fails(), "nobody answers");
    nop.signal("-CONT");
    // Not asked yet: the socket alone knows.
    lab.ip("nf", "link del p-lan");
    std::thread::sleep(Duration::from_millis(300));
    let peer = lab.namespace("a");
    let queues = "numrxqueues 2 numtxqueues 2";
    lab.ip("nf", &format!("link add p-lan {queues} type veth peer name e {queues} netns {peer}"));
    lab.ip("nf", "link set p-lan up");
    lab.ip("a", "link set e up");
    std::thread::sleep(Duration::from_millis(500));
    let report = nop.finish();
    let left = &report.ports[0];
    let live = left.live.as_ref().unwrap();
    assert!(live.missed > 1_000 && live.reopened == 2, "{live:?}");
    assert!(left.packets_read + live.missed >= 30_000, "{left:?}");
}

#[test]
fn what_was_missed_stays_counted_by_packet_sockets() {
    stays_counted(Kind::AfPacket);
}

#[test]
fn what_was_missed_stays_counted_by_xdp() {
    stays_counted(Kind::Xdp);
}

/// A worker that gets no processor for a while is not to miss anything.
#[test]
fn what_comes_while_workers_stand_still_waits() {
    let Some(lab) = Lab::of_two(Kind::AfPacket) else { return };
    let nop = lab.join("nop", "", ["lan", "wan"]);
    ping(&lab, "a", "10.0.0.2", 56);
    nop.signal("-STOP");
    // As many as each of two rings has room for, if they are of one flow.
    let flood = "ping -q -c 16000 -l 16000 -W 0.1 10.0.0.2";
    assert!(lab.run("a", flood).fails(), "nobody answers");
    nop.signal("-CONT");
    std::thread::sleep(Duration::from_millis(500));
    let sent = lab.sent("a");
    let report = nop.finish();
    let left = &report.ports[0];
    assert!(sent >= 16_000, "{sent}");
    assert_eq!((left.packets_read, left.live.as_ref().unwrap().missed), (sent, 0), "{left:?}");
}

/// Packet sockets hold no packet back, for others to come or for a time.
#[test]
fn what_comes_alone_is_there_at_once() {
    let Some(lab) = Lab::of_two(Kind::AfPacket) else { return };
    let nop = lab.join("nop", "", ["lan", "wan"]);
    ping(&lab, "a", "10.0.0.2", 56);
    // A millisecond each way is what the kernel would hold back a block for: then one in twelve is back so soon. Of the
    // rest the machine decides, which may be busy for a while.
    let rounds: Vec<Vec<f64>> = (0..5).map(|_| fastest_quarter(&lab)).collect();
    assert!(rounds.iter().any(|times| times[9] < 0.4), "in milliseconds: {rounds:?}");
    nop.finish();
}

/// How long the fastest 10 of 40 packets were on their way there and back, in milliseconds.
fn fastest_quarter(lab: &Lab) -> Vec<f64> {
    let said = lab.run("a", "ping -c 40 -i 0.02 10.0.0.2").expect();
    let times = said.lines().filter_map(|line| line.split_once("time=")?.1.split(' ').next());
    let mut times: Vec<f64> = times.map(|ms| ms.parse().unwrap()).collect();
    assert_eq!(times.len(), 40, "{said}");
    times.sort_by(f64::total_cmp);
    times.truncate(10);
    times
}

/// Large packets, as offloads make them, and others take turns in the ring and at the socket: each arrives as it was.
#[test]
fn what_is_larger_than_a_slot_arrives_among_the_rest() {
    let Some(lab) = Lab::of_two(Kind::AfPacket) else { return };
    let nop = lab.join("nop", "", ["lan", "wan"]);
    let sink = lab.serve("b", "iperf3 -s");
    std::thread::sleep(Duration::from_millis(300));
    let (large, small) = std::thread::scope(|threads| {
        let small = threads.spawn(|| lab.run("a", "ping -c 200 -i 0.01 -s 1400 10.0.0.2").expect());
        (lab.run("a", "iperf3 -c 10.0.0.2 -t 2 -J").expect(), small.join().unwrap())
    });
    drop(sink);
    let report = nop.finish();
    let left = report.ports[0].live.as_ref().unwrap();
    assert!(left.segmented > 100, "{left:?}");
    assert!(small.contains(" 0% packet loss"), "{small}");
    assert!(large.contains("bits_per_second"), "{large}");
    assert_eq!(report.drops.get("oversized"), None, "{:?}", report.drops);
    assert_eq!(report.packets_read, report.packets_out, "{:?}", report.drops);
}

/// Whether what had come before an interface went away is handled when it is back already.
fn is_handled_late(kind: Kind) {
    let Some(mut lab) = Lab::of_two(kind) else { return };
    lab.host("elsewhere");
    let nop = lab.join("nop", "", ["lan", "wan"]);
    ping(&lab, "a", "10.0.0.2", 56);
    nop.signal("-STOP");
    let flood = "ping -q -c 400 -l 400 -W 0.1 10.0.0.2";
    assert!(lab.run("a", flood).fails(), "nobody answers");
    let (there, here) = (lab.namespace("elsewhere"), lab.namespace("nf"));
    lab.ip("nf", &format!("link set p-lan netns {there}"));
    lab.ip("elsewhere", &format!("link set p-lan netns {here}"));
    lab.ip("nf", "link set p-lan up");
    nop.signal("-CONT");
    std::thread::sleep(Duration::from_millis(700));
    ping(&lab, "a", "10.0.0.2", 56);
    let sent = lab.sent("a");
    let report = nop.finish();
    let left = &report.ports[0];
    let live = left.live.as_ref().unwrap();
    assert_eq!(live.reopened, 2, "both queues: {live:?}");
    assert_eq!(left.packets_read + live.missed, sent, "{left:?}");
}

#[test]
fn what_came_before_an_interface_went_is_handled_by_packet_sockets() {
    is_handled_late(Kind::AfPacket);
}

#[test]
fn what_came_before_an_interface_went_is_handled_by_xdp() {
    is_handled_late(Kind::Xdp);
}

#[test]
fn what_xdp_still_holds_at_the_end_is_unsent() {
    let Some(lab) = Lab::of_two(Kind::Xdp) else { return };
    let nop = lab.join("nop", "", ["lan", "wan"]);
    ping(&lab, "a", "10.0.0.2", 56);
    nop.signal("-STOP");
    assert!(lab.run("a", "ping -q -c 20 -l 20 -W 0.1 10.0.0.2").fails(), "nobody answers");
    lab.ip("nf", "link set p-wan down");
    nop.signal("-CONT");
    std::thread::sleep(Duration::from_millis(300));
    let received = lab.received("b");
    let report = nop.finish();
    let right = &report.ports[1];
    let unsent = right.live.as_ref().unwrap().unsent;
    assert_eq!((right.packets_out, unsent > 0), (received + unsent, true), "{right:?}");
}

#[test]
fn memory_that_may_not_be_locked_is_told() {
    let Some(lab) = Lab::open(Kind::Xdp) else { return };
    lab.ip("nf", "link add here type veth peer name there");
    for link in ["here", "there"] {
        lab.ip("nf", &format!("link set {link} up"));
    }
    let program = env!("CARGO_BIN_EXE_anabranch");
    let allowed = |capabilities: &str| {
        let given = format!("-all,{capabilities}");
        let line = format!(
            "sh -c 'ulimit -l 8192 && exec setpriv --reuid=65534 --clear-groups --inh-caps={given} \
             --ambient-caps={given} --bounding-set={given} {program} run nop --port lan=xdp:here \
             --port wan=xdp:there --for 0.1'"
        );
        lab.run("nf", &line)
    };
    // One after the other, each with what it was told before.
    let none = allowed("+kill").text;
    assert!(none.contains("`setcap cap_bpf,cap_net_admin+ep`"), "{none}");
    let raw = allowed("+bpf,+net_admin").text;
    assert!(raw.contains("`setcap cap_net_raw,cap_bpf,cap_net_admin+ep`"), "{raw}");
    let locked = allowed("+bpf,+net_admin,+net_raw").text;
    for part in ["locks 24 MiB", "ulimit -l", "cap_net_raw,cap_bpf,cap_net_admin,cap_ipc_lock+ep"] {
        assert!(locked.contains(part), "{locked}");
    }
    allowed("+bpf,+net_admin,+net_raw,+ipc_lock").expect();
}

#[test]
fn queues_that_would_be_passed_by_are_told() {
    let Some(lab) = Lab::open(Kind::Xdp) else { return };
    let queues = "numrxqueues 65 numtxqueues 65";
    lab.ip("nf", &format!("link add here {queues} type veth peer name there {queues}"));
    for link in ["here", "there"] {
        lab.ip("nf", &format!("link set {link} up"));
    }
    let program = env!("CARGO_BIN_EXE_anabranch");
    let refused =
        lab.run("nf", &format!("{program} run nop --port lan=xdp:here --port wan=xdp:there"));
    assert!(refused.fails() && refused.text.contains("more than 64 receive queues"));
    assert!(refused.text.contains("`ethtool -L here combined 64`"), "{}", refused.text);
    let left = lab.run("nf", "ip -d link show here").expect();
    assert!(!left.contains("xdp") && left.contains("promiscuity 0"), "{left}");
}

#[test]
fn a_terminal_that_goes_ends_the_run_as_an_interrupt_does() {
    let Some(lab) = Lab::open(Kind::AfPacket) else { return };
    lab.ip("nf", "link add here type veth peer name there");
    for link in ["here", "there"] {
        lab.ip("nf", &format!("link set {link} up"));
    }
    let program = env!("CARGO_BIN_EXE_anabranch");
    let run = format!(
        "{program} run nop --port lan=afpacket:here --port wan=afpacket:there --for 2 --json r.json"
    );
    for (before, lasts) in [("", false), ("nohup ", true)] {
        let line = format!("sh -c '{before}{run} >out & sleep 1; kill -HUP $!; wait $!'");
        lab.run("nf", &line).expect();
        let json = std::fs::read(lab.path("r.json")).unwrap();
        let report: anabranch_runtime::report::RunReport = serde_json::from_slice(&json).unwrap();
        assert_eq!(report.elapsed_s >= 2.0, lasts, "{before}: {}", report.elapsed_s);
    }
}

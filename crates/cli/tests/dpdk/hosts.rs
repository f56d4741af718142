//! Real hosts on both sides of functions on two workers.

use std::fs;
use std::time::Duration;

use crate::has_dpdk;
use crate::lab::Lab;

const SERVER: &str = "198.51.100.1";
const NAT: &str = "nat --set 'public=[\"198.51.100.2\"]' --workers 2";
const LAN: &str = "dpdk:net_af_packet0,iface=lan,qpairs=2";
const WAN: &str = "dpdk:net_af_packet1,iface=wan,qpairs=2";

/// A laboratory with hosts on both sides of a NAT that is a wire: neighbours are given.
fn lab() -> Option<Lab> {
    let lab = has_dpdk().then(Lab::open)??;
    lab.sh("client", "ip link set e address 02:00:00:00:00:0c");
    lab.sh("client", "ip addr add 10.0.0.2/24 dev e");
    lab.sh("client", "ip neigh replace 10.0.0.1 lladdr 02:00:00:00:00:05 dev e");
    lab.sh("client", "ip route add default via 10.0.0.1");
    address_server(&lab);
    Some(lab)
}

fn address_server(lab: &Lab) {
    lab.sh("server", "ip link set e address 02:00:00:00:00:05");
    lab.sh("server", "ip addr add 198.51.100.1/24 dev e");
    lab.sh("server", "ip neigh replace 198.51.100.2 lladdr 02:00:00:00:00:0c dev e");
}

/// A web server with a large file, which is returned.
fn web(lab: &Lab) -> Vec<u8> {
    let root = lab.path("").display().to_string();
    let large: Vec<u8> =
        (0..10_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(lab.path("large"), &large).unwrap();
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {root}{what}; "))
        .concat();
    let lines = format!(
        "daemon off; master_process off; pid {root}pid; error_log /dev/null; user root; events {{ }} http {{ \
         access_log off; {places} server {{ listen 80; root {root}; }} }}"
    );
    fs::write(lab.path("nginx.conf"), lines).unwrap();
    lab.serve("server", &format!("nginx -c {root}nginx.conf"));
    lab.until("server", "curl -s -o /dev/null http://198.51.100.1/nginx.conf");
    large
}

fn fetch(lab: &Lab, large: &[u8]) {
    for _ in 0..4 {
        lab.sh("client", &format!("curl -sS --max-time 40 -o fetched http://{SERVER}/large"));
        assert!(fs::read(lab.path("fetched")).unwrap() == large, "the file is another one");
    }
}

/// Everything read was sent or dropped for a reason.
fn assert_adds_up(report: &serde_json::Value) {
    let count = |name: &str| report[name].as_u64().unwrap();
    let dropped: u64 =
        report["drops"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(
        count("packets_read") + count("packets_emitted"),
        count("packets_out") + dropped,
        "{report}"
    );
}

/// Of many flows each worker has some.
fn assert_shared(report: &serde_json::Value) {
    let workers = report["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 2);
    let packets = |worker: &serde_json::Value| worker["packets"].as_u64().unwrap();
    assert!(workers.iter().all(|worker| packets(worker) > 0), "{workers:?}");
}

#[test]
fn nat_is_a_wire_between_hosts() {
    let Some(lab) = lab() else { return };
    let large = web(&lab);
    lab.serve("server", "iperf3 -s");
    let nat = lab.start(&format!("{NAT} --port lan={LAN} --port wan={WAN}"));
    let said = nat.said();
    assert!(said.contains("driver net_af_packet, 2 queues, one a worker"), "{said}");
    assert!(said.contains("its driver spreads packets as it likes"), "{said}");
    assert!(said.contains("workers hash what they receive and hand over"), "{said}");
    for bytes in [56, 1_472] {
        let pings = lab.sh("client", &format!("ping -c 5 -i 0.05 -W 5 -s {bytes} {SERVER}"));
        assert!(pings.contains(" 0% packet loss"), "{pings}");
    }
    fetch(&lab, &large);
    for way in ["", "-R", "-u -b 10M -l 1200", "-u -b 10M -l 1200 -R"] {
        let said = lab.sh("client", &format!("timeout 30 iperf3 -c {SERVER} -t 1 -J {way}"));
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        let received = &said["end"]["sum_received"];
        assert!(received["bytes"].as_f64().is_some_and(|bytes| bytes > 5e5), "{way}: {said}");
    }
    assert!(!lab.succeeds("server", "ping -c 2 -i 0.1 -W 1 198.51.100.2"), "nobody asked for it");
    let report = nat.finish();
    assert_eq!(report["strategy"], "shared-nothing");
    assert_adds_up(&report);
    assert_shared(&report);
    let finished = report["ports"][0]["live"]["finished_checksums"].as_u64().unwrap();
    assert!(finished > 0, "veth leaves checksums unfinished: {report}");
}

#[test]
fn kinds_of_ports_may_be_mixed() {
    let Some(lab) = lab() else { return };
    let large = web(&lab);
    let nat = lab.start(&format!("{NAT} --port lan={LAN} --port wan=afpacket:wan"));
    fetch(&lab, &large);
    assert_adds_up(&nat.finish());
}

/// One queue a link: what comes by another one than the worker's, the driver leaves to the kernel.
#[test]
fn nat_on_one_worker_is_a_wire_over_af_xdp() {
    let Some(lab) = lab() else { return };
    for host in ["client", "server"] {
        lab.sh(host, "ethtool -L e tx 1");
    }
    let large = web(&lab);
    let nat = NAT.replace("--workers 2", "--workers 1");
    let nat = lab.start(&format!(
        "{nat} --port lan=dpdk:net_af_xdp0,iface=lan --port wan=dpdk:net_af_xdp1,iface=wan"
    ));
    // What its driver's libraries say would stand there.
    let said = nat.said();
    assert!(said.lines().all(|line| line.starts_with("nat: ")), "{said}");
    fetch(&lab, &large);
    assert_adds_up(&nat.finish());
}

/// DPDK's driver would use the program of the first run, and take it off at the end.
#[test]
fn an_interface_that_another_run_receives_by_is_refused_and_left_alone() {
    let Some(lab) = lab() else { return };
    for host in ["client", "server"] {
        lab.sh(host, "ethtool -L e tx 1");
    }
    let taken = "nop --port lan=dpdk:net_af_xdp0,iface=wan --port wan=dpdk:net_null0";
    let kinds = ["dpdk:net_af_xdp0,iface=lan", "dpdk:net_af_xdp1,iface=wan"];
    for [lan, wan] in [kinds, ["xdp:lan", "xdp:wan"]] {
        let nat = NAT.replace("--workers 2", "--workers 1");
        let nat = lab.start(&format!("{nat} --port lan={lan} --port wan={wan}"));
        let why = lab.refuses(taken);
        assert!(why.contains("receives by AF_XDP on wan") && why.contains("end it first"), "{why}");
        assert_eq!(why.lines().count(), 1, "{why}");
        let pings = lab.sh("client", &format!("ping -c 5 -i 0.05 -W 5 {SERVER}"));
        assert!(pings.contains(" 0% packet loss"), "{pings}");
        nat.finish();
    }
    // What a run leaves that is killed keeps nobody out.
    let ports = kinds.map(|kind| kind.replace("dpdk:", "--port ?=dpdk:"));
    let ports = [ports[0].replace('?', "lan"), ports[1].replace('?', "wan")].join(" ");
    let nat = format!("{} {ports}", NAT.replace("--workers 2", "--workers 1"));
    drop(lab.start(&nat));
    let nat = lab.start(&nat);
    lab.sh("client", &format!("ping -c 5 -i 0.05 -W 5 {SERVER}"));
    nat.finish();
}

#[test]
fn a_tap_of_dpdks_is_a_port() {
    let Some(lab) = lab() else { return };
    if !lab.succeeds("nf", "test -c /dev/net/tun") {
        println!("skipped: there is no /dev/net/tun");
        return;
    }
    let nop = lab
        .start("nop --port lan=dpdk:net_tap0,iface=dt0 --port wan=dpdk:net_af_packet0,iface=lan");
    lab.sh("nf", "ip link set dt0 up; ip addr add 10.0.0.9/24 dev dt0");
    let pings = lab.sh("nf", "ping -c 5 -i 0.05 -W 5 -s 1400 10.0.0.2");
    assert!(pings.contains(" 0% packet loss"), "{pings}");
    let report = nop.finish();
    assert_eq!(report["ports"][0]["live"]["queues"], 1);
    assert!(report["packets_read"].as_u64().unwrap() >= 10, "{report}");
}

#[test]
fn workers_that_poll_nap_where_nothing_comes_and_links_that_go_down_are_counted() {
    let Some(lab) = lab() else { return };
    let nop = lab.start(&format!("nop --workers 2 --port lan={LAN} --port wan={WAN}"));
    std::thread::sleep(Duration::from_millis(300));
    let before = nop.cpu_ms();
    std::thread::sleep(Duration::from_secs(2));
    let spent = nop.cpu_ms() - before;
    assert!(spent < 2_000, "two idle workers had {spent} ms of two cores in two seconds");
    // What is under way as the link goes down leaves when it is back.
    lab.serve("client", "ping -q -c 150 -i 0.002 10.0.0.1");
    std::thread::sleep(Duration::from_millis(150));
    lab.sh("nf", "ip link set wan down");
    std::thread::sleep(Duration::from_millis(500));
    assert!(!lab.succeeds("client", "ping -c 3 -i 0.05 -W 1 198.51.100.1"), "the link is down");
    lab.sh("nf", "ip link set wan up");
    std::thread::sleep(Duration::from_millis(300));
    lab.sh("client", "ip addr add 198.51.100.7/24 dev e");
    lab.sh("client", "ip neigh replace 198.51.100.1 lladdr 02:00:00:00:00:05 dev e");
    lab.sh("server", "ip neigh replace 198.51.100.7 lladdr 02:00:00:00:00:0c dev e");
    lab.sh("client", "ping -c 3 -i 0.05 -W 5 198.51.100.1");
    let report = nop.finish();
    let live = |port: usize| report["ports"][port]["live"]["link_downs"].as_u64().unwrap();
    assert_eq!((live(0), live(1)), (0, 2), "{report}");
    assert_eq!(report["ports"][1]["live"]["unsent"], 0, "{report}");
    assert!(report["drops"]["link-down"].as_u64().unwrap() >= 3, "{report}");
}

#[test]
fn an_interface_that_is_removed_is_taken_in_again_when_it_is_back() {
    let Some(lab) = lab() else { return };
    let nat = lab.start(&format!("{NAT} --port lan={LAN} --port wan={WAN}"));
    lab.sh("client", &format!("ping -c 3 -i 0.05 -W 5 {SERVER}"));
    for _ in 0..2 {
        lab.sh("nf", "ip link del wan");
        std::thread::sleep(Duration::from_millis(300));
        assert!(!lab.succeeds("client", &format!("ping -c 2 -i 0.05 -W 1 {SERVER}")));
        lab.link("wan", "server");
        address_server(&lab);
        lab.until("client", &format!("ping -c 1 -W 1 {SERVER}"));
        lab.sh("client", &format!("ping -c 20 -i 0.02 -W 5 {SERVER}"));
    }
    let report = nat.finish();
    assert_adds_up(&report);
    let live = &report["ports"][1]["live"];
    assert_eq!((&live["reopened"], &live["link_downs"]), (&4.into(), &4.into()), "{report}");
    assert_eq!(report["ports"][0]["live"]["reopened"], 0);
}

/// The driver keeps what it could not send, for the link to come back. Packets come all the while, so that some are
/// handed on between the link's going down and the worker's next look at it, up to 100 ms later; should it look at once,
/// it is tried again.
#[test]
fn what_a_driver_still_holds_at_the_end_is_unsent() {
    let Some(lab) = lab() else { return };
    assert!((0..10).any(|_| held_at_the_end(&lab) > 0), "the link is always seen to be down first");
}

/// How much was unsent of packets that came while the link went down.
fn held_at_the_end(lab: &Lab) -> u64 {
    const COUNT: &str = "cat /sys/class/net/e/statistics/rx_packets";
    lab.sh("nf", "ip link set wan up");
    let count = || lab.sh("server", COUNT).trim().parse::<u64>().unwrap();
    let before = count();
    let nop = lab.start(&format!("nop --workers 2 --port lan={LAN} --port wan={WAN}"));
    lab.serve("client", "ping -q -c 500 -i 0.002 -W 0.1 10.0.0.1");
    lab.until("server", &format!("test $({COUNT}) -ge {}", before + 20));
    lab.sh("nf", "ip link set wan down");
    std::thread::sleep(Duration::from_millis(300));
    let received = count() - before;
    let report = nop.finish();
    assert_adds_up(&report);
    let wan = &report["ports"][1];
    let [out, unsent] = [&wan["packets_out"], &wan["live"]["unsent"]].map(|n| n.as_u64().unwrap());
    assert_eq!(out, received + unsent, "{report}");
    unsent
}

/// Both workers send by an interface that is being removed.
#[test]
fn what_an_interface_takes_with_it_is_unsent_and_what_has_come_is_read() {
    let Some(lab) = lab() else { return };
    let nop = lab.start(&format!("nop --workers 2 --port lan={LAN} --port wan={WAN}"));
    let count = |host: &str, of: &str| {
        let count = lab.sh(host, &format!("cat /sys/class/net/e/statistics/{of}_packets"));
        count.trim().parse::<u64>().unwrap()
    };
    nop.signal("-STOP");
    for host in 11..19 {
        let flood = format!("ping -q -c 40 -l 40 -W 0.1 10.0.0.{host}");
        lab.sh("client", &format!("ip neigh replace 10.0.0.{host} lladdr 02:00:00:00:00:05 dev e"));
        assert!(!lab.succeeds("client", &flood), "nobody answers");
    }
    lab.sh("nf", "ip link del wan");
    nop.signal("-CONT");
    std::thread::sleep(Duration::from_millis(500));
    lab.link("wan", "server");
    std::thread::sleep(Duration::from_millis(700));
    let (sent, received) = (count("client", "tx"), count("server", "rx"));
    let report = nop.finish();
    assert_adds_up(&report);
    let [lan, wan] = [&report["ports"][0], &report["ports"][1]];
    assert_eq!(lan["packets_read"], sent, "{report}");
    let [out, unsent] = [&wan["packets_out"], &wan["live"]["unsent"]].map(|n| n.as_u64().unwrap());
    assert_eq!(out, received + unsent, "{report}");
}

#[test]
fn interfaces_are_left_as_they_were_found_whatever_ends_the_run() {
    let Some(lab) = lab() else { return };
    lab.sh("nf", "ip link set wan promisc on");
    let found = lab.promiscuity();
    assert_eq!(found, [(false, 0), (true, 1)]);
    let run = lab.start(&format!("nop --workers 2 --port lan={LAN} --port wan={WAN}"));
    let during = lab.promiscuity();
    assert!(during.iter().all(|(_, count)| *count > 0), "{during:?}");
    run.finish();
    // Who is dropped is killed.
    drop(lab.start(&format!("nop --workers 2 --port lan={LAN} --port wan={WAN}")));
    assert_eq!(lab.promiscuity(), found);
}

#[test]
fn what_the_next_link_does_not_take_is_counted() {
    let Some(lab) = lab() else { return };
    lab.sh("client", "ip addr add 198.51.100.7/24 dev e");
    lab.sh("client", "ip neigh replace 198.51.100.1 lladdr 02:00:00:00:00:05 dev e");
    lab.sh("server", "ip neigh replace 198.51.100.7 lladdr 02:00:00:00:00:0c dev e");
    let nop = lab.start(&format!("nop --workers 2 --port lan={LAN} --port wan={WAN}"));
    lab.sh("nf", "ip link set wan mtu 1400");
    std::thread::sleep(Duration::from_millis(300));
    lab.sh("client", "ping -c 3 -i 0.05 -W 5 -s 1372 198.51.100.1");
    assert!(!lab.succeeds("client", "ping -c 3 -i 0.05 -W 1 -s 1373 198.51.100.1"));
    let report = nop.finish();
    assert_adds_up(&report);
    assert_eq!(report["drops"]["packet-too-big"], 3, "{report}");
}

const ROUTER: &str = r#"
public = ["198.51.100.2"]
[interfaces.lan]
mac = "02:00:00:00:01:01"
addresses = ["10.0.0.1/24"]
[interfaces.wan]
mac = "02:00:00:00:01:02"
addresses = ["198.51.100.2/24"]
"#;

#[test]
fn a_router_tells_what_the_interface_of_a_device_does_not_carry() {
    let Some(lab) = lab() else { return };
    lab.sh("client", "ip neigh del 10.0.0.1 dev e");
    lab.sh("server", "ip neigh del 198.51.100.2 dev e");
    lab.sh("nf", "ip link set wan mtu 1400");
    lab.sh("server", "ip link set e mtu 1400");
    fs::write(lab.path("nat.toml"), ROUTER).unwrap();
    let nat =
        lab.start(&format!("nat --config nat.toml --workers 2 --port lan={LAN} --port wan={WAN}"));
    lab.sh("client", &format!("ping -c 2 -i 0.2 -W 5 -s 1372 {SERVER}"));
    let told = lab.sh("client", &format!("ping -M do -c 1 -W 1 -s 1400 {SERVER} || true"));
    assert!(told.contains("mtu = 1400"), "{told}");
    assert_eq!(nat.finish()["drops"]["packet-too-big"], 1);
}

#[test]
fn a_cable_that_is_out_is_a_link_that_is_down() {
    let Some(lab) = lab() else { return };
    let nop = lab.start(&format!("nop --workers 2 --port lan={LAN} --port wan={WAN}"));
    lab.sh("server", "ip link set e down");
    std::thread::sleep(Duration::from_millis(300));
    lab.sh("client", "ping -c 3 -i 0.05 -W 1 10.0.0.1 || true");
    let report = nop.finish();
    assert_eq!(report["ports"][1]["live"]["link_downs"], 2, "{report}");
    assert_eq!(report["drops"]["link-down"], 3, "{report}");
}

#[test]
fn what_a_capture_driver_reads_from_an_interface_has_whole_checksums() {
    let Some(lab) = lab() else { return };
    let large = web(&lab);
    let nat = NAT.replace("--workers 2", "--workers 1");
    let nat =
        lab.start(&format!("{nat} --port lan=dpdk:net_pcap0,iface=lan --port wan=afpacket:wan"));
    fetch(&lab, &large[..]);
    let report = nat.finish();
    assert!(report["ports"][0]["live"]["finished_checksums"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn an_argument_that_is_wrong_is_no_want_of_memory() {
    let Some(lab) = lab() else { return };
    for device in ["net_null0,size=0", "net_af_packet0,iface=lan,framesz=4096,blocksz=8192"] {
        let why = lab.refuses(&format!("nop --port lan=dpdk:{device} --port wan=afpacket:wan"));
        assert!(why.contains("it does not start") && !why.contains("hugepages"), "{why}");
    }
    let why = lab.refuses("nop --port lan=dpdk:net_af_packet0,iface= --port wan=afpacket:wan");
    assert!(why.contains("iface=INTERFACE"), "{why}");
}

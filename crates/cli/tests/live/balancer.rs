//! The load balancer before three web servers, of which one is drained, one comes, and one dies.

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::lab::{Function, Kind, Lab, assert_adds_up};

const BALANCER: &str = r#"
services = [{ address = "203.0.113.10", port = 80 }]
backends = [{ address = "10.1.0.1", port = 80 }, { address = "10.1.0.2", port = 80 }]
table_size = "small"

[interfaces.clients]
mac = "02:00:00:00:01:01"
addresses = ["10.0.0.1/24"]
answer_for = ["203.0.113.10/32"]

[interfaces.backends]
mac = "02:00:00:00:01:02"
addresses = ["10.1.0.254/24"]
"#;

/// Bytes of what is downloaded slowly: for six seconds.
const LARGE: usize = 1_200_000;
/// Downloads that begin with two backends, and after that with two others.
const SLOW: usize = 16;

/// Begins to download slowly; `name` tells the downloads apart.
fn download(lab: &Lab, name: &str) -> crate::lab::Process {
    let line = format!(
        "curl -sS --no-keepalive --speed-time 3 --speed-limit 1000 --parallel \
         --parallel-immediate --parallel-max {SLOW} \
         -w '%header{{x-host}} %{{size_download}} %{{exitcode}}\\n' -o '{name}-#1' \
         'http://203.0.113.10/slowly/large?[1-{SLOW}]' > {name}.list"
    );
    lab.serve("client", &format!("sh -c \"{line}\""))
}

/// How many of a list of downloads came whole, and how many did not, by the backend they came from.
fn downloaded(lab: &Lab, name: &str) -> BTreeMap<String, (usize, usize)> {
    let list = fs::read_to_string(lab.path(&format!("{name}.list"))).unwrap();
    let mut hosts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for line in list.lines() {
        let [host, size, exit] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{list}");
        };
        let whole = size == LARGE.to_string() && exit == "0";
        let (came, broke) = hosts.entry(host.to_owned()).or_default();
        *if whole { came } else { broke } += 1;
    }
    assert_eq!(hosts.values().map(|(came, broke)| came + broke).sum::<usize>(), SLOW, "{list}");
    hosts
}

/// Which backends new connections come to.
fn hosts(lab: &Lab) -> Vec<String> {
    let line = "curl -sS --max-time 20 -H 'Connection: close' -w '%header{x-host}\\n' -o small-#1 \
                'http://203.0.113.10/small?[1-24]'";
    let said = lab.run("client", line).expect();
    let mut hosts: Vec<String> = said.lines().map(str::to_owned).collect();
    assert_eq!(hosts.len(), 24, "{said}");
    hosts.sort();
    hosts.dedup();
    hosts
}

fn change(lab: &Lab, balancer: &Function<'_>) {
    let mut first = download(lab, "first");
    sleep(Duration::from_millis(1_000));
    assert_eq!(hosts(lab), ["b1", "b2"]);
    balancer.control("drain-backend address=10.1.0.1 port=80").expect();
    assert_eq!(hosts(lab), ["b2"]);
    balancer.control("add-backend address=10.1.0.3 port=80").expect();
    sleep(Duration::from_millis(200));
    assert_eq!(hosts(lab), ["b2", "b3"]);
    let mut second = download(lab, "second");
    sleep(Duration::from_millis(500));
    lab.ip("b2", "link set e down");
    balancer.control("set-health address=10.1.0.2 healthy=false").expect();
    sleep(Duration::from_millis(200));
    assert_eq!(hosts(lab), ["b3"]);
    first.wait();
    second.wait();
    // Those of the backend that died, and no other.
    let (first, second) = (downloaded(lab, "first"), downloaded(lab, "second"));
    for (list, backends) in [(&first, ["b1", "b2"]), (&second, ["b2", "b3"])] {
        assert!(list.keys().eq(backends), "{first:?} {second:?}");
        for (host, (came, broke)) in list {
            assert!(if host == "b2" { *came == 0 } else { *broke == 0 }, "{first:?} {second:?}");
        }
    }
}

fn three_backends(kind: Kind) {
    let Some(mut lab) = Lab::open(kind) else { return };
    lab.host("client");
    lab.switch("switch");
    for number in 1..=3 {
        let host = format!("b{number}");
        lab.host(&host);
        lab.plug(&host, "e", "switch");
        lab.ip(&host, &format!("addr add 10.1.0.{number}/24 dev e"));
        lab.ip(&host, "route add default via 10.1.0.254");
    }
    lab.file("large", LARGE);
    lab.file("small", 300);
    fs::write(lab.path("lb.toml"), BALANCER).unwrap();
    let balancer =
        lab.start("lb", "--config lb.toml", &[("clients", "client"), ("backends", "switch")]);
    lab.ip("switch", "link set e master sw");
    lab.ip("client", "addr add 10.0.0.2/24 dev e");
    lab.ip("client", "route add default via 10.0.0.1");
    let _servers = ["b1", "b2", "b3"].map(|host| lab.web(host, 80));
    change(&lab, &balancer);
    balancer.control("add-backend address=10.1.0.1 port=80").expect();
    sleep(Duration::from_millis(200));
    assert_eq!(hosts(&lab), ["b1", "b3"], "what was drained is taken up again");
    for (wrong, why) in [
        ("drain-backend address=10.1.0.9 port=80", "no such backend"),
        ("add-backend address=10.1.0.9", "port"),
        ("drain-backends", "drain-backend"),
    ] {
        let done = balancer.control(wrong);
        assert!(done.fails() && done.text.contains(why), "{wrong}: {}", done.text);
    }
    assert_adds_up(&balancer.finish());
}

#[test]
fn no_connection_to_a_living_backend_breaks_over_packet_sockets() {
    three_backends(Kind::AfPacket);
}

#[test]
fn no_connection_to_a_living_backend_breaks_over_xdp() {
    three_backends(Kind::Xdp);
}

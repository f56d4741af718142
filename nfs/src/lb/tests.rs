//! The load balancer: packets in and out, backends that come and go, Maglev's figures.

use std::collections::BTreeMap;

use super::lb;
use crate::frames::{arp, echo, error, hops, redirect, segment, solicitation, tcp, udp};
use anabranch_nf::packet::checksum::{Sum, verify};
use anabranch_nf::packet::craft::IcmpError;
use anabranch_nf::packet::craft::tcp_flags::{ACK, FIN, RST, SYN};
use anabranch_nf::packet::{Frame, Meta, Packet, parse};
use anabranch_runtime::testing::{Harness, Outcome};

const CLIENTS: u8 = 0;
const BACKENDS: u8 = 1;
const SECOND: u64 = 1_000_000_000;
const WEB: &str = "192.0.2.80:80";
const CLIENT: &str = "198.51.100.7:40000";

type Lb = Harness<lb::Function>;

const SERVICES: &str = "services=[\
    { address = \"192.0.2.80\", port = 80 },\
    { address = \"192.0.2.53\", port = 53, protocol = \"udp\" }]";

/// A balancer of a web service, whose backends are 10.0.0.1 and on, and of an empty one over UDP.
fn lb(backends: u32, settings: &[&str]) -> Lb {
    let members: Vec<String> =
        (1..=backends).map(|n| format!("{{ address = \"10.0.0.{n}\", port = 8080 }}")).collect();
    let members = format!("backends=[{}]", members.join(", "));
    let mut all = vec![SERVICES, &members];
    all.extend(settings);
    Lb::new(&all)
}

fn look<T>(frame: &[u8], at: impl FnOnce(&Packet<'_>) -> T) -> T {
    let mut bytes = frame.to_vec();
    let (len, layout) = (bytes.len(), parse(&bytes, bytes.len() as u32));
    assert_eq!(layout.malformed(), None);
    let mut frame = Frame::new(&mut bytes, 0, len, 0, Meta::default());
    let packet = Packet::new(&mut frame, layout);
    assert!(verify(&packet).is_ok(), "{:?}", verify(&packet));
    at(&packet)
}

/// `source > destination`, after all checksums have been found right.
fn flow(frame: &[u8]) -> String {
    look(frame, |packet| {
        let (src, dst) = (packet.src_port().unwrap_or(0), packet.dst_port().unwrap_or(0));
        match (packet.ipv4(), packet.ipv6()) {
            (Some(ip), _) => format!("{}:{src} > {}:{dst}", ip.src(), ip.dst()),
            (_, Some(ip)) => format!("[{}]:{src} > [{}]:{dst}", ip.src(), ip.dst()),
            _ => "no addresses".to_owned(),
        }
    })
}

#[track_caller]
fn left(outcome: &Outcome) -> (u8, String) {
    match outcome.forwarded() {
        [(port, frame)] => (*port, flow(frame)),
        other => panic!("{} packets left; dropped: {:?}", other.len(), outcome.dropped()),
    }
}

/// The backend that a packet of `client` to the web service reaches.
#[track_caller]
fn backend(lb: &mut Lb, client: &str, flags: u8) -> String {
    let (port, flow) = left(&lb.send(CLIENTS, &tcp(client, WEB, flags)));
    assert_eq!(port, BACKENDS);
    assert!(flow.starts_with(client), "{flow}");
    flow.split(" > ").nth(1).unwrap().to_owned()
}

fn client(number: u32) -> String {
    format!("198.51.{}.{}:{}", number >> 8 & 255, number & 255, 1_024 + (number >> 16))
}

/// How many of `clients` new connections reach each backend.
fn shares(lb: &mut Lb, clients: std::ops::Range<u32>) -> BTreeMap<String, u32> {
    let mut shares = BTreeMap::new();
    for number in clients {
        *shares.entry(backend(lb, &client(number), SYN)).or_insert(0) += 1;
    }
    shares
}

#[track_caller]
fn dropped(outcome: &Outcome, reason: &str) {
    assert_eq!(outcome.dropped(), Some(reason), "{:?}", outcome.forwarded());
}

#[test]
fn balances_there_and_back() {
    let mut lb = lb(1, &[]);
    assert_eq!(backend(&mut lb, CLIENT, SYN), "10.0.0.1:8080");
    let back = lb.send(BACKENDS, &tcp("10.0.0.1:8080", CLIENT, SYN | ACK));
    assert_eq!(left(&back), (CLIENTS, format!("{WEB} > {CLIENT}")));
    assert_eq!(lb.table("Connection (IPv4)").used, 1);
}

#[test]
fn balances_over_ipv6_and_udp() {
    let mut lb = Lb::new(&[
        SERVICES,
        "services6=[{ address = \"2001:db8::53\", port = 53, protocol = \"udp\" }]",
        "backends=[{ service = 1, address = \"10.0.0.9\", port = 5353 }]",
        "backends6=[{ address = \"fd00::9\", port = 5353 }]",
    ]);
    let there = lb.send(CLIENTS, &udp(CLIENT, "192.0.2.53:53"));
    assert_eq!(left(&there), (BACKENDS, format!("{CLIENT} > 10.0.0.9:5353")));
    let there = lb.send(CLIENTS, &udp("[2001:db8::7]:999", "[2001:db8::53]:53"));
    assert_eq!(left(&there), (BACKENDS, "[2001:db8::7]:999 > [fd00::9]:5353".to_owned()));
    let back = lb.send(BACKENDS, &udp("[fd00::9]:5353", "[2001:db8::7]:999"));
    assert_eq!(left(&back), (CLIENTS, "[2001:db8::53]:53 > [2001:db8::7]:999".to_owned()));
    lb.control("add-backend6 address=fd00::8 port=5353").unwrap();
    lb.control("remove-backend6 address=fd00::9 port=5353").unwrap();
    let there = lb.send(CLIENTS, &udp("[2001:db8::7]:999", "[2001:db8::53]:53"));
    assert_eq!(left(&there).1, "[2001:db8::7]:999 > [fd00::8]:5353");
    lb.control("set-health6 address=fd00::8 healthy=false").unwrap();
    dropped(&lb.send(CLIENTS, &udp("[2001:db8::7]:999", "[2001:db8::53]:53")), "no-backend");
    lb.control("drain-backend6 address=fd00::8 port=5353").unwrap();
}

#[test]
fn refuses_what_is_not_its_own() {
    let mut lb = lb(2, &[]);
    dropped(&lb.send(CLIENTS, &tcp(CLIENT, "192.0.2.80:81", SYN)), "not-a-service");
    dropped(&lb.send(CLIENTS, &udp(CLIENT, "192.0.2.80:80")), "not-a-service");
    dropped(&lb.send(CLIENTS, &udp(CLIENT, "192.0.2.53:53")), "no-backend");
    dropped(&lb.send(BACKENDS, &tcp("10.0.0.1:8081", CLIENT, ACK)), "not-a-backend");
    dropped(&lb.send(BACKENDS, &tcp("10.0.0.77:8080", CLIENT, ACK)), "not-a-backend");
    dropped(
        &lb.send(CLIENTS, &echo("198.51.100.7", "192.0.2.80", false, 1)),
        "unsupported-protocol",
    );
    let arp = arp("192.0.2.1", "192.0.2.80");
    assert_eq!(lb.send(CLIENTS, &arp).forwarded(), [(BACKENDS, arp)]);
    assert_eq!(lb.table("Connection (IPv4)").used, 0);
}

/// Eisenbud et al. 2016, §5.3: with a table a hundred times the backends, shares are even.
#[test]
fn maglev_shares_are_even() {
    let mut lb = lb(10, &["connections=1000000"]);
    let shares = shares(&mut lb, 0..200_000);
    assert_eq!(shares.len(), 10);
    // One part in a hundred by the table, and three standard deviations of the sample.
    for (backend, share) in shares {
        assert!((19_400..=20_600).contains(&share), "{backend}: {share} of 20,000");
    }
}

/// Also where slots are many, backends few and tables large.
#[test]
fn large_tables_are_whole_from_the_start() {
    for settings in [&["table_size=large"][..], &["backend_slots=4096", "table_size=large"]] {
        let shares = shares(&mut lb(2, settings), 0..2_000);
        let counts: Vec<u32> = shares.values().copied().collect();
        assert!(counts.len() == 2 && counts[0].abs_diff(counts[1]) < 150, "{shares:?}");
    }
}

/// More tables than are built before the first packet: they are filled soon after, and until then connections
/// find a backend.
#[test]
fn what_is_not_built_at_the_start_is_built_soon() {
    let services: Vec<String> =
        (1..=40).map(|n| format!("{{ address = \"192.0.2.{n}\", port = 80 }}")).collect();
    let backends: Vec<String> = (0..80)
        .map(|n| format!("{{ service = {}, address = \"10.0.0.{n}\", port = 80 }}", n / 2))
        .collect();
    let mut lb = Lb::new(&[
        &format!("services=[{}]", services.join(", ")),
        &format!("backends=[{}]", backends.join(", ")),
        "table_size=large",
        "backend_slots=80",
    ]);
    let share = |lb: &mut Lb, port: u32| {
        let to_first = (0..1_000).filter(|number| {
            let client = format!("198.51.{}.{}:{port}", number >> 8, number & 255);
            let (_, flow) = left(&lb.send(CLIENTS, &tcp(&client, "192.0.2.40:80", SYN)));
            flow.ends_with("10.0.0.78:80")
        });
        to_first.count()
    };
    assert!(
        share(&mut lb, 1).abs_diff(500) > 100,
        "the table of the last service is not built yet"
    );
    lb.at(20 * SECOND);
    assert!(share(&mut lb, 2).abs_diff(500) < 100);
}

/// Eisenbud et al. 2016, §5.4: few connections but those of a backend that goes change theirs.
#[test]
fn maglev_disrupts_little() {
    let (mut before, mut after) = (lb(10, &[]), lb(9, &[]));
    let (mut moved, mut stayed) = (0, 0);
    for number in 0..20_000 {
        let name = client(number);
        match backend(&mut before, &name, SYN) {
            gone if gone == "10.0.0.10:8080" => {}
            same if same == backend(&mut after, &name, SYN) => stayed += 1,
            _ => moved += 1,
        }
    }
    assert!(moved * 20 < stayed, "{moved} moved, {stayed} stayed");
}

/// Balancers that know the same backends agree, however they learnt of them.
#[test]
fn balancers_agree() {
    let (mut one, mut other) = (lb(5, &[]), lb(3, &[]));
    other.control("add-backend address=10.0.0.4 port=8080").unwrap();
    other.control("add-backend address=10.0.0.5 port=8080").unwrap();
    // The table is built while packets pass.
    for millisecond in 1..200 {
        other.at(millisecond * 1_000_000);
        other.send(CLIENTS, &tcp("203.0.113.1:5", WEB, SYN));
    }
    for number in 0..2_000 {
        let name = client(number);
        assert_eq!(backend(&mut one, &name, SYN), backend(&mut other, &name, SYN));
    }
}

#[test]
fn connections_stay_when_backends_are_added() {
    let mut lb = lb(3, &[]);
    let before: Vec<String> = (0..500).map(|n| backend(&mut lb, &client(n), SYN)).collect();
    for number in 4..9 {
        lb.control(&format!("add-backend address=10.0.0.{number} port=8080")).unwrap();
    }
    lb.at(SECOND);
    let after: Vec<String> = (0..500).map(|n| backend(&mut lb, &client(n), ACK)).collect();
    assert_eq!(before, after);
    for millisecond in 0..400 {
        lb.at(SECOND + millisecond * 1_000_000);
        backend(&mut lb, CLIENT, ACK);
    }
    assert_eq!(shares(&mut lb, 1_000..3_000).len(), 8, "new connections use the new ones");
}

#[test]
fn a_drained_backend_keeps_what_it_has() {
    for method in ["maglev", "least-connections"] {
        let mut lb = lb(2, &[&format!("method={method}")]);
        let before: Vec<String> = (0..100).map(|n| backend(&mut lb, &client(n), SYN)).collect();
        assert!(before.contains(&"10.0.0.1:8080".to_owned()));
        lb.control("drain-backend address=10.0.0.1 port=8080").unwrap();
        let after: Vec<String> = (0..100).map(|n| backend(&mut lb, &client(n), ACK)).collect();
        assert_eq!(before, after);
        let new = shares(&mut lb, 1_000..1_100);
        assert_eq!(new, BTreeMap::from([("10.0.0.2:8080".to_owned(), 100)]));
        let back = lb.send(BACKENDS, &tcp("10.0.0.1:8080", CLIENT, ACK));
        assert_eq!(left(&back).0, CLIENTS, "its replies pass");
    }
}

/// A client's port that is used again, while the connection before is still kept, begins another.
#[test]
fn a_drained_backend_gets_no_connection_in_place_of_one_that_closes() {
    for (method, closing) in [("maglev", FIN | ACK), ("least-connections", RST)] {
        let mut lb = lb(2, &[&format!("method={method}")]);
        let before: Vec<String> = (0..100).map(|n| backend(&mut lb, &client(n), SYN)).collect();
        let close = |lb: &mut Lb| -> Vec<String> {
            (0..100).map(|n| backend(lb, &client(n), closing)).collect()
        };
        assert_eq!(close(&mut lb), before);
        let again: Vec<String> = (0..100).map(|n| backend(&mut lb, &client(n), SYN)).collect();
        assert_eq!(again, before, "it stays where it may");
        lb.control("drain-backend address=10.0.0.1 port=8080").unwrap();
        assert_eq!(close(&mut lb), before, "what it has, it keeps to the end");
        let all = BTreeMap::from([("10.0.0.2:8080".to_owned(), 100)]);
        assert_eq!(shares(&mut lb, 0..100), all);
        assert_eq!(close(&mut lb), ["10.0.0.2:8080"; 100], "and goes on there");
        lb.control("drain-backend address=10.0.0.2 port=8080").unwrap();
        dropped(&lb.send(CLIENTS, &tcp(&client(0), WEB, SYN)), "no-backend");
    }
}

/// A name server answers over TCP and UDP; who takes it out of service means both.
#[test]
fn commands_mean_both_protocols_of_an_endpoint() {
    for command in ["drain-backend", "remove-backend"] {
        let mut lb = Lb::new(&[
            "services=[{ address = \"192.0.2.53\", port = 53 }, \
             { address = \"192.0.2.53\", port = 53, protocol = \"udp\" }]",
            "backends=[{ address = \"10.0.0.1\", port = 53 }, \
             { service = 1, address = \"10.0.0.1\", port = 53 }]",
        ]);
        assert_eq!(left(&lb.send(CLIENTS, &udp(CLIENT, "192.0.2.53:53"))).0, BACKENDS);
        lb.control(&format!("{command} address=10.0.0.1 port=53")).unwrap();
        dropped(&lb.send(CLIENTS, &udp("198.51.100.8:5", "192.0.2.53:53")), "no-backend");
        dropped(&lb.send(CLIENTS, &tcp(CLIENT, "192.0.2.53:53", SYN)), "no-backend");
    }
}

#[test]
fn connections_of_a_removed_backend_move() {
    for method in ["maglev", "least-connections"] {
        let mut lb = lb(3, &[&format!("method={method}")]);
        let before: Vec<String> = (0..300).map(|n| backend(&mut lb, &client(n), SYN)).collect();
        lb.control("remove-backend address=10.0.0.2 port=8080").unwrap();
        for (n, before) in before.iter().enumerate() {
            let after = backend(&mut lb, &client(n as u32), ACK);
            assert_ne!(after, "10.0.0.2:8080");
            assert!(before == "10.0.0.2:8080" || *before == after);
        }
        dropped(&lb.send(BACKENDS, &tcp("10.0.0.2:8080", CLIENT, ACK)), "not-a-backend");
        // Its slot passes to another, its connections do not.
        lb.control("add-backend address=10.0.0.9 port=8080").unwrap();
        let after: Vec<String> = (0..300).map(|n| backend(&mut lb, &client(n), ACK)).collect();
        assert!(!after.contains(&"10.0.0.9:8080".to_owned()));
    }
}

#[test]
fn an_unhealthy_backend_is_left_at_once_and_taken_up_again() {
    let mut lb = lb(2, &[]);
    assert_eq!(shares(&mut lb, 0..200).len(), 2);
    lb.control("set-health address=10.0.0.1 healthy=false").unwrap();
    let all = BTreeMap::from([("10.0.0.2:8080".to_owned(), 200)]);
    assert_eq!(shares(&mut lb, 0..200), all, "connections move");
    assert_eq!(shares(&mut lb, 1_000..1_200), all, "new ones go there");
    lb.control("set-health address=10.0.0.2 healthy=false").unwrap();
    dropped(&lb.send(CLIENTS, &tcp(CLIENT, WEB, SYN)), "no-backend");
    lb.control("set-health address=10.0.0.1 healthy=true").unwrap();
    assert_eq!(backend(&mut lb, CLIENT, SYN), "10.0.0.1:8080");
}

#[test]
fn commands_that_make_no_sense_are_refused() {
    let mut lb = lb(2, &["backend_slots=3"]);
    for (command, words) in [
        ("add-backend service=2 address=10.0.0.7 port=80", "no such service"),
        ("add-backend address=10.0.0.1 port=8080", "a backend already"),
        ("drain-backend address=10.0.0.9 port=8080", "no such backend"),
        ("remove-backend address=10.0.0.1 port=8081", "no such backend"),
        ("set-health address=10.0.0.9 healthy=true", "no such backend"),
        ("add-backend address=10.0.0.7 port=0", "at least 1"),
    ] {
        let error = lb.control(command).unwrap_err();
        assert!(error.contains(words), "{command}: {error}");
    }
    lb.control("add-backend address=10.0.0.7 port=80").unwrap();
    assert!(lb.control("add-backend address=10.0.0.8 port=80").unwrap_err().contains("no slot"));
}

#[test]
fn least_connections_fills_the_emptiest() {
    let mut lb = lb(2, &["method=least-connections", "closing_s=1"]);
    assert_eq!(shares(&mut lb, 0..100).into_values().collect::<Vec<_>>(), [50, 50]);
    lb.control("add-backend address=10.0.0.3 port=8080").unwrap();
    let new = shares(&mut lb, 100..150);
    assert_eq!(new, BTreeMap::from([("10.0.0.3:8080".to_owned(), 50)]));
    // The connections of one backend end, and make room for others once they are collected.
    for number in 100..150 {
        backend(&mut lb, &client(number), FIN | ACK);
    }
    for at in [0, 80 * SECOND] {
        lb.at(at);
        for number in 0..100 {
            backend(&mut lb, &client(number), ACK);
        }
    }
    let new = shares(&mut lb, 200..250);
    assert_eq!(new, BTreeMap::from([("10.0.0.3:8080".to_owned(), 50)]));
}

/// Who has closed or reset its connection needs the backend no more, though the connection is remembered; and it is
/// not taken off again when it is forgotten.
#[test]
fn connections_that_have_ended_do_not_count() {
    for ending in [FIN | ACK, RST] {
        let mut lb = lb(2, &["method=least-connections"]);
        let first = "10.0.0.1:8080";
        let (ended, stay): (Vec<u32>, Vec<u32>) =
            (0..100).partition(|n| backend(&mut lb, &client(*n), SYN) == first);
        for n in ended.iter().chain(&ended) {
            backend(&mut lb, &client(*n), ending);
        }
        let new = shares(&mut lb, 100..150);
        assert_eq!(new, BTreeMap::from([(first.to_owned(), 50)]));
        // A port that is used again counts again.
        for (flags, until_even) in [(SYN, 10), (ending, 0)] {
            for n in &ended[..10] {
                assert_eq!(backend(&mut lb, &client(*n), flags), first);
            }
            let new = shares(&mut lb, 150..150 + until_even);
            assert_eq!(new.get("10.0.0.2:8080").copied().unwrap_or(0), until_even);
        }
        for n in stay.into_iter().chain(100..150) {
            backend(&mut lb, &client(n), ACK);
        }
        lb.at(200 * SECOND);
        assert_eq!(shares(&mut lb, 200..250).into_values().collect::<Vec<_>>(), [25, 25]);
        assert_eq!(lb.table("Connection (IPv4)").used, 150, "those that ended are forgotten");
    }
}

/// A segment that ends what nobody has seen begin is passed on, and counts for nothing.
#[test]
fn what_ends_before_it_begins_does_not_count() {
    let mut lb = lb(2, &["method=least-connections"]);
    for n in 0..50 {
        backend(&mut lb, &client(n), RST);
    }
    assert_eq!(shares(&mut lb, 100..200).into_values().collect::<Vec<_>>(), [50, 50]);
}

/// Where the connections of a backend that has gone come to, nobody has seen them open: they are refused there, and
/// their clients say no more.
#[test]
fn connections_that_move_count_where_they_come_to_and_not_for_long() {
    let mut lb = lb(2, &["method=least-connections"]);
    let open = |lb: &mut Lb, clients: std::ops::Range<u32>| {
        for flags in [SYN, ACK] {
            clients.clone().for_each(|n| drop(backend(lb, &client(n), flags)));
        }
    };
    open(&mut lb, 0..100);
    lb.control("set-health address=10.0.0.1 healthy=false").unwrap();
    for n in 0..100 {
        assert_eq!(backend(&mut lb, &client(n), ACK), "10.0.0.2:8080");
    }
    lb.control("add-backend address=10.0.0.3 port=8080").unwrap();
    open(&mut lb, 100..200);
    let share = |lb: &mut Lb, clients| shares(lb, clients).into_values().collect::<Vec<_>>();
    assert_eq!(share(&mut lb, 200..300), [50, 50], "a hundred each");
    lb.at(200 * SECOND);
    // The fifty that moved are forgotten, a few with each packet, as are those that never opened.
    (0..30).for_each(|_| drop(backend(&mut lb, &client(100), ACK)));
    assert_eq!(share(&mut lb, 300..350), [50]);
    assert_eq!(share(&mut lb, 350..400), [25, 25]);
    lb.control("set-health address=10.0.0.1 healthy=true").unwrap();
    let first = BTreeMap::from([("10.0.0.1:8080".to_owned(), 100)]);
    assert_eq!(shares(&mut lb, 400..500), first, "none of those that have left it count");
}

/// One segment of a connection whose opening nobody saw may be a forged one.
#[test]
fn connections_end_by_their_state() {
    let cases = [
        (&[SYN][..], 60),
        (&[ACK], 60),
        (&[ACK, ACK], 7_440),
        (&[SYN, ACK], 7_440),
        (&[SYN, ACK, FIN | ACK], 60),
    ];
    for (flags, seconds) in cases {
        for (wait_ns, stays) in [(seconds * SECOND - 5_000_000, true), (seconds * SECOND, false)] {
            let mut lb = lb(1, &[]);
            for &flags in flags {
                backend(&mut lb, CLIENT, flags);
            }
            lb.control("drain-backend address=10.0.0.1 port=8080").unwrap();
            lb.control("add-backend address=10.0.0.2 port=8080").unwrap();
            lb.at(wait_ns + 2_000_000);
            let reached = backend(&mut lb, CLIENT, ACK);
            assert_eq!(reached == "10.0.0.1:8080", stays, "{wait_ns} ns after {flags:?}");
        }
    }
}

/// Path MTU discovery works through the balancer (RFC 1191), and backends' complaints too.
#[test]
fn icmp_errors_are_translated_in_both_directions() {
    let mut lb = lb(10, &[]);
    let reached = backend(&mut lb, CLIENT, SYN);
    let reply = lb.send(BACKENDS, &tcp(&reached, CLIENT, ACK)).forwarded()[0].1.clone();
    let about = error(&reply, "203.0.113.254", IcmpError::TooBig { mtu: 1_400 });
    let outcome = lb.send(CLIENTS, &about);
    let [(BACKENDS, error_there)] = outcome.forwarded() else { panic!("{:?}", outcome.dropped()) };
    assert_eq!(quoted(error_there), format!("{reached} > {CLIENT}"));
    let to = reached.split(':').next().unwrap();
    assert_eq!(flow(error_there), format!("203.0.113.254:0 > {to}:0"));

    let request = lb.send(CLIENTS, &tcp(CLIENT, WEB, ACK)).forwarded()[0].1.clone();
    let about = error(&request, to, IcmpError::PortUnreachable);
    let outcome = lb.send(BACKENDS, &about);
    let [(CLIENTS, error_back)] = outcome.forwarded() else { panic!("{:?}", outcome.dropped()) };
    assert_eq!(quoted(error_back), format!("{CLIENT} > {WEB}"));
    assert_eq!(flow(error_back), "192.0.2.80:0 > 198.51.100.7:0");

    let strange = error(&udp(CLIENT, "203.0.113.1:5"), "203.0.113.1", IcmpError::TimeExceeded);
    dropped(&lb.send(CLIENTS, &strange), "unrelated-error");
    dropped(&lb.send(BACKENDS, &strange), "unrelated-error");
    // A router beside a backend tells that something which is nothing to the client.
    dropped(&lb.send(BACKENDS, &redirect(&reply, "10.0.0.254")), "unsupported-protocol");
}

#[test]
fn a_backend_of_the_settings_that_cannot_be_added_is_told_with_the_reason() {
    let members = "{ address = \"10.0.0.9\", port = 1, service = 7 }, { address = \"10.0.0.1\", port = 8080 }";
    let mut lb =
        Lb::new(&[SERVICES, "backend_slots=1", &format!("backends=[{members}, {members}]")]);
    let why = ["no such service", "no such service", "that endpoint is a backend already"];
    let told = [0, 2, 3].into_iter().zip(why);
    let told: Vec<_> = told.map(|(n, why)| format!("backend {n} cannot be added: {why}")).collect();
    assert_eq!(lb.logged(), told);
}

/// Without interfaces hosts on both sides find each other.
#[test]
fn what_is_of_the_link_passes() {
    let mut lb = lb(1, &[]);
    let asked = solicitation("fe80::1", "fe80::2");
    for (port, other) in [(CLIENTS, BACKENDS), (BACKENDS, CLIENTS)] {
        for frame in [&asked, &arp("10.0.0.1", "10.0.0.2")] {
            assert_eq!(lb.send(port, frame).forwarded(), [(other, frame.clone())]);
        }
        dropped(&lb.send(port, &hops(&asked, 254)), "unsupported-protocol");
    }
}

fn quoted(frame: &[u8]) -> String {
    look(frame, |packet| {
        let quote = packet.embedded().unwrap();
        let (src, dst) = (quote.src_port(), quote.dst_port());
        format!("{}:{src} > {}:{dst}", quote.src(), quote.dst())
    })
}

/// As a router: what is not for this station opens nothing, and errors quote what the client sent.
#[test]
fn a_balancer_that_routes_is_a_router() {
    let network = r#"
        services = [{ address = "192.0.2.80", port = 80 }]
        backends = [{ address = "10.0.0.1", port = 8080 }]
        [interfaces.clients]
        mac = "02:00:00:00:00:02"
        addresses = ["203.0.113.2/24"]
        answer_for = ["192.0.2.80/32"]
        [interfaces.backends]
        mac = "02:00:00:00:00:03"
        addresses = ["10.0.0.254/24"]
        mtu = 68
        [[routes]]
        to = "198.51.100.0/24"
        via = "203.0.113.1"
        [[neighbours]]
        address = "203.0.113.1"
        mac = "02:00:00:00:00:09"
        [[neighbours]]
        address = "10.0.0.1"
        mac = "02:00:00:00:00:08"
    "#;
    let mut lb = Lb::with_table(network.parse().expect("TOML")).expect("a right configuration");
    let request = tcp(CLIENT, WEB, SYN);
    let mut elsewhere = request.clone();
    elsewhere[5] = 0x77;
    dropped(&lb.send(CLIENTS, &elsewhere), "not-for-this-interface");
    assert_eq!(lb.table("Connection (IPv4)").used, 0);
    assert_eq!(backend(&mut lb, CLIENT, SYN), "10.0.0.1:8080");
    for (frame, reason) in [(hops(&request, 1), "ttl-expired"), (long(), "packet-too-big")] {
        let outcome = lb.send(CLIENTS, &frame);
        dropped(&outcome, reason);
        let [(CLIENTS, error)] = outcome.emitted() else { panic!("{:?}", outcome.emitted()) };
        assert_eq!(quoted(error), format!("{CLIENT} > {WEB}"));
    }
}

/// A segment that is too long and may not be cut.
fn long() -> Vec<u8> {
    let mut frame = segment(CLIENT, WEB, &[7; 40]);
    frame[20] |= 0x40;
    frame[24..26].fill(0);
    let sum = Sum::new().bytes(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&sum);
    frame
}

/// After maintenance it is added again, with the connections that it has kept.
#[test]
fn a_drained_backend_is_taken_up_again() {
    for method in ["maglev", "least-connections"] {
        let mut lb = lb(2, &[&format!("method={method}")]);
        let before: Vec<String> = (0..100).map(|n| backend(&mut lb, &client(n), SYN)).collect();
        lb.control("drain-backend address=10.0.0.1 port=8080").unwrap();
        lb.at(SECOND);
        assert_eq!(shares(&mut lb, 100..150).len(), 1);
        lb.control("add-backend address=10.0.0.1 port=8080").unwrap();
        lb.at(2 * SECOND);
        let after: Vec<String> = (0..100).map(|n| backend(&mut lb, &client(n), ACK)).collect();
        assert_eq!(before, after);
        assert!(shares(&mut lb, 200..300)["10.0.0.1:8080"] > 30);
        let error = lb.control("add-backend address=10.0.0.1 port=8080").unwrap_err();
        assert!(error.contains("a backend already"), "{error}");
    }
    let mut lb = Lb::new(&[
        "services=[{ address = \"192.0.2.80\", port = 80 }, { address = \"192.0.2.80\", port = 81 }]",
        "backends=[{ address = \"10.0.0.1\", port = 8080 }]",
    ]);
    lb.control("drain-backend address=10.0.0.1 port=8080").unwrap();
    let error = lb.control("add-backend service=1 address=10.0.0.1 port=8080").unwrap_err();
    assert!(error.contains("a backend already"), "it is another service's: {error}");
    dropped(&lb.send(CLIENTS, &tcp(CLIENT, WEB, SYN)), "no-backend");
}

#[test]
fn what_finds_the_connection_table_full_goes_by_the_hash() {
    let mut lb = lb(2, &["connections=50"]);
    shares(&mut lb, 0..50);
    let first = lb.send(CLIENTS, &tcp(CLIENT, WEB, SYN)).forwarded().to_vec();
    assert_eq!(first.len(), 1);
    for _ in 0..3 {
        assert_eq!(lb.send(CLIENTS, &tcp(CLIENT, WEB, SYN)).forwarded(), first);
    }
    assert_eq!(lb.counter("by_hash"), 4);
    assert_eq!(shares(&mut lb, 0..50).len(), 2, "the others go on");
}

#[test]
fn with_least_connections_a_full_table_says_so() {
    let mut lb = lb(2, &["connections=50", "method=\"least-connections\""]);
    shares(&mut lb, 0..50);
    dropped(&lb.send(CLIENTS, &tcp(CLIENT, WEB, SYN)), "packet-sets-full");
    assert_eq!(shares(&mut lb, 0..50).len(), 2, "the others go on");
}

#[test]
fn wrong_settings_are_refused() {
    let web = "{ address = \"192.0.2.80\", port = 80 }";
    let web6 = "{ address = \"2001:db8::80\", port = 80 }";
    let name = "{ address = \"192.0.2.80\", port = 80, protocol = \"udp\" }";
    for (settings, words) in [
        (&[][..], "must have a service"),
        (&[SERVICES, "table_size=65536"], "one of tiny, small, standard, large"),
        (&[SERVICES, "method=random"], "least-connections"),
        (&["services=[{ address = \"192.0.2.1\" }]"], "port"),
        (&[&format!("services=[{web}, {web}]")], "two services"),
        (&[&format!("services=[{name}, {web}, {name}]")], "two services"),
        (&[SERVICES, &format!("services6=[{web6}, {web6}]")], "two services"),
    ] {
        let error = Lb::try_new(settings).err().expect("a mistake");
        assert!(error.contains(words), "{error}");
    }
}

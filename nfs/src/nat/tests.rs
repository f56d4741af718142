//! The NAT, requirement by requirement: packet in, packet out.

use super::nat;
use crate::frames::{
    arp, datagram, echo, error, fragments, joined, redirect, solicitation, tcp, udp,
};
use anabranch_nf::packet::checksum::verify;
use anabranch_nf::packet::craft::IcmpError;
use anabranch_nf::packet::craft::tcp_flags::{ACK, RST, SYN};
use anabranch_nf::packet::{Frame, Meta, Packet, parse};
use anabranch_runtime::testing::{Harness, Outcome};

const LAN: u8 = 0;
const WAN: u8 = 1;
const SECOND: u64 = 1_000_000_000;
const PUBLIC: &str = "public=[\"192.0.2.1\"]";
const SERVER: &str = "198.51.100.7:53";
const HOST: &str = "10.0.0.5:40000";

mod limits;
mod routing;

type Nat = Harness<nat::Function>;

fn nat(settings: &[&str]) -> Nat {
    let mut all = vec![PUBLIC];
    all.extend(settings);
    Nat::new(&all)
}

/// Looks at a frame as a handler would.
fn look<T>(frame: &[u8], at: impl FnOnce(&Packet<'_>) -> T) -> T {
    let mut bytes = frame.to_vec();
    let (len, layout) = (bytes.len(), parse(&bytes, bytes.len() as u32));
    assert_eq!(layout.malformed(), None);
    let mut frame = Frame::new(&mut bytes, 0, len, 0, Meta::default());
    at(&Packet::new(&mut frame, layout))
}

/// `source > destination`, after all checksums have been computed anew and found right.
fn flow(frame: &[u8]) -> String {
    look(frame, |packet| {
        assert!(verify(packet).is_ok(), "{:?}", verify(packet));
        let (ip, id) = (packet.ipv4().unwrap(), packet.icmpv4().map(|icmp| icmp.id()));
        let port = |port: Option<u16>| port.or(id).unwrap_or(0);
        let (src, dst) = (port(packet.src_port()), port(packet.dst_port()));
        format!("{}:{src} > {}:{dst}", ip.src(), ip.dst())
    })
}

/// As [`flow`], of the packet that an ICMP error quotes.
fn quoted(frame: &[u8]) -> String {
    look(frame, |packet| {
        assert!(verify(packet).is_ok(), "{:?}", verify(packet));
        let quote = packet.embedded().unwrap();
        let (src, dst) = match quote.protocol() {
            1 => (quote.id(), quote.id()),
            _ => (quote.src_port(), quote.dst_port()),
        };
        format!("{}:{src} > {}:{dst}", quote.src(), quote.dst())
    })
}

/// The one packet that left, by port and flow.
#[track_caller]
fn left(outcome: &Outcome) -> (u8, String) {
    match outcome.forwarded() {
        [(port, frame)] => (*port, flow(frame)),
        other => panic!("{} packets left; dropped: {:?}", other.len(), outcome.dropped()),
    }
}

/// Sends from `src` to `dst` over UDP, and returns the public source.
#[track_caller]
fn mapped(nat: &mut Nat, src: &str, dst: &str) -> String {
    mapped_frame(nat, &udp(src, dst))
}

#[track_caller]
fn mapped_frame(nat: &mut Nat, frame: &[u8]) -> String {
    let (port, flow) = left(&nat.send(LAN, frame));
    assert_eq!(port, WAN);
    flow.split(' ').next().unwrap().to_owned()
}

#[track_caller]
fn dropped(outcome: &Outcome, reason: &str) {
    assert_eq!(outcome.dropped(), Some(reason), "{:?}", outcome.forwarded());
}

fn reaches(nat: &mut Nat, from: &str, public: &str) -> bool {
    match nat.send(WAN, &udp(from, public)).dropped() {
        None => true,
        Some(reason) => {
            assert!(matches!(reason, "unsolicited" | "filtered"), "{reason}");
            false
        }
    }
}

#[test]
fn translates_there_and_back() {
    let mut nat = nat(&[]);
    let there = nat.send(LAN, &udp(HOST, SERVER));
    assert_eq!(left(&there), (WAN, format!("192.0.2.1:40000 > {SERVER}")));
    let back = nat.send(WAN, &udp(SERVER, "192.0.2.1:40000"));
    assert_eq!(left(&back), (LAN, format!("{SERVER} > {HOST}")));
    assert_eq!(nat.table("inside").used, 1);
    assert_eq!(nat.table("mappings").used, 1);
}

/// RFC 4787 REQ-1, RFC 5382 REQ-1: endpoint-independent mapping.
#[test]
fn one_inside_endpoint_has_one_public_endpoint() {
    let mut nat = nat(&[]);
    for server in ["198.51.100.7:53", "198.51.100.7:54", "203.0.113.9:53"] {
        assert_eq!(mapped(&mut nat, HOST, server), "192.0.2.1:40000");
        let frame = tcp(HOST, server, SYN);
        assert_eq!(mapped_frame(&mut nat, &frame), "192.0.2.1:40000", "protocols are apart");
    }
    assert_eq!(nat.table("inside").used, 2);
}

/// RFC 4787 REQ-2: paired address pooling, where there is room.
#[test]
fn a_host_keeps_its_public_address() {
    let pool = "public=[\"192.0.2.1\", \"192.0.2.2\", \"192.0.2.3\", \"203.0.113.77\"]";
    let mut nat = Nat::new(&[pool, "first_port=2000", "last_port=2003"]);
    let mut used = std::collections::BTreeSet::new();
    for host in 0..40 {
        let publics: Vec<String> = (0..2)
            .map(|port| mapped(&mut nat, &format!("10.0.{host}.5:{}", 2000 + port), SERVER))
            .map(|public| public.split(':').next().unwrap().to_owned())
            .collect();
        if host < 2 {
            assert_eq!(publics[0], publics[1]);
        }
        used.extend(publics);
        nat.at(host * 400 * SECOND);
    }
    assert_eq!(used.len(), 4, "every address serves somebody: {used:?}");
}

/// RFC 4787 REQ-3: no port is overloaded; an address without a free port leaves its hosts to others.
#[test]
fn every_port_is_given_once() {
    let pool = "public=[\"192.0.2.1\", \"203.0.113.77\"]";
    let mut nat = Nat::new(&[pool, "first_port=2000", "last_port=2007"]);
    let mut given: Vec<String> =
        (0..16).map(|n| mapped(&mut nat, &format!("10.0.0.{n}:2000"), SERVER)).collect();
    dropped(&nat.send(LAN, &udp("10.0.0.99:2000", SERVER)), "ports-exhausted");
    assert_eq!(mapped(&mut nat, "10.0.0.3:2000", SERVER), given[3], "the others go on");
    for (host, public) in given.iter().enumerate() {
        let back = left(&nat.send(WAN, &udp(SERVER, public)));
        assert_eq!(back, (LAN, format!("{SERVER} > 10.0.0.{host}:2000")));
    }
    given.sort();
    given.dedup();
    assert_eq!(given.len(), 16);
}

/// RFC 4787 REQ-4 (§4.2.2): the port's parity is kept, as long as there are ports of both.
#[test]
fn parity_is_kept() {
    let mut nat = nat(&["first_port=2000", "last_port=2009"]);
    let mut parity = |inside: u16, host: u8| {
        let public = mapped(&mut nat, &format!("10.0.0.{host}:{inside}"), SERVER);
        let port: u16 = public.split(':').nth(1).unwrap().parse().unwrap();
        assert!((2000..=2009).contains(&port));
        port % 2
    };
    let odd = [(2001, 1), (2001, 2), (53, 3), (9_999, 4), (2009, 5)];
    assert_eq!(odd.map(|(port, host)| parity(port, host)), [1; 5]);
    assert_eq!(parity(5060, 30), 0);
    assert_eq!(parity(2001, 31), 0, "better another than none");
}

#[test]
fn the_inside_port_is_kept_where_it_is_free() {
    let mut nat = nat(&[]);
    assert_eq!(mapped(&mut nat, "10.0.0.5:5060", SERVER), "192.0.2.1:5060");
    assert_eq!(mapped(&mut nat, "10.0.0.6:5060", SERVER), "192.0.2.1:5062");
    assert_eq!(mapped(&mut nat, "10.0.0.7:65535", SERVER), "192.0.2.1:65535");
    assert_eq!(mapped(&mut nat, "10.0.0.8:65535", SERVER), "192.0.2.1:1025", "round the range");
    let frame = tcp("10.0.0.5:5061", SERVER, SYN);
    assert_eq!(mapped_frame(&mut nat, &frame), "192.0.2.1:5061");
    let frame = tcp("10.0.0.6:5061", SERVER, SYN);
    assert_eq!(mapped_frame(&mut nat, &frame), "192.0.2.1:5062");
}

/// RFC 4787 REQ-5 and REQ-6: five minutes, refreshed by each packet from inside.
#[test]
fn a_udp_mapping_lives_five_minutes_from_its_last_packet() {
    let tick = 1 << 20;
    let mut nat = nat(&["inbound_refresh=false"]);
    mapped(&mut nat, HOST, SERVER);
    nat.at(200 * SECOND);
    mapped(&mut nat, HOST, SERVER);
    nat.at(500 * SECOND - tick);
    assert!(reaches(&mut nat, SERVER, "192.0.2.1:40000"));
    nat.at(500 * SECOND + tick);
    assert!(!reaches(&mut nat, SERVER, "192.0.2.1:40000"), "inbound packets did not refresh it");
    mapped(&mut nat, HOST, SERVER);
    assert_eq!(nat.table("inside").used, 1);
}

/// RFC 4787 REQ-6: inbound refresh is a choice.
#[test]
fn packets_from_outside_refresh_where_set() {
    let mut nat = nat(&[]);
    mapped(&mut nat, HOST, SERVER);
    for minute in 1..20 {
        nat.at(minute * 240 * SECOND);
        assert!(reaches(&mut nat, SERVER, "192.0.2.1:40000"));
    }
}

/// RFC 4787 REQ-8, RFC 5382 REQ-3.
#[test]
fn filters_as_set() {
    let public = "192.0.2.1:40000";
    for (filtering, same_host, stranger) in [
        ("endpoint-independent", true, true),
        ("address-dependent", true, false),
        ("address-and-port-dependent", false, false),
    ] {
        let mut nat = nat(&[&format!("filtering={filtering}")]);
        mapped(&mut nat, HOST, SERVER);
        mapped(&mut nat, HOST, "203.0.113.9:1000");
        for (from, may) in [
            (SERVER, true),
            ("203.0.113.9:1000", true),
            ("198.51.100.7:54", same_host),
            ("203.0.113.9:1001", same_host),
            ("198.51.100.8:53", stranger),
        ] {
            assert_eq!(reaches(&mut nat, from, public), may, "{filtering}, {from}");
        }
    }
}

#[test]
fn a_further_peer_may_answer_as_long_as_it_is_refreshed() {
    let mut nat = nat(&["filtering=address-dependent"]);
    let (first, second) = (SERVER, "203.0.113.9:1000");
    mapped(&mut nat, HOST, first);
    mapped(&mut nat, HOST, second);
    nat.at(200 * SECOND);
    mapped(&mut nat, HOST, first);
    assert!(reaches(&mut nat, second, "192.0.2.1:40000"));
    nat.at(301 * SECOND);
    assert!(!reaches(&mut nat, second, "192.0.2.1:40000"));
    assert!(reaches(&mut nat, first, "192.0.2.1:40000"));
    mapped(&mut nat, HOST, second);
    assert!(reaches(&mut nat, second, "192.0.2.1:40000"));
    assert_eq!(nat.table("peers").used, 1);
}

/// A mapping's openings do not pass to whoever gets its public port next.
#[test]
fn a_new_mapping_begins_with_its_own_peers() {
    let mut nat = nat(&["filtering=address-dependent", "first_port=2000", "last_port=2001"]);
    mapped(&mut nat, "10.0.0.1:2000", SERVER);
    nat.at(250 * SECOND);
    mapped(&mut nat, "10.0.0.1:2000", "203.0.113.9:1000");
    nat.at(549 * SECOND);
    mapped(&mut nat, "10.0.0.9:2001", SERVER);
    assert!(reaches(&mut nat, "203.0.113.9:1000", "192.0.2.1:2000"));
    nat.at(900 * SECOND);
    assert_eq!(mapped(&mut nat, "10.0.0.2:2000", SERVER), "192.0.2.1:2000");
    assert!(!reaches(&mut nat, "203.0.113.9:1000", "192.0.2.1:2000"));
}

#[test]
fn drops_what_nobody_asked_for() {
    let mut nat = nat(&[]);
    dropped(&nat.send(WAN, &udp(SERVER, "192.0.2.1:40000")), "unsolicited");
    dropped(&nat.send(WAN, &tcp(SERVER, "192.0.2.1:40000", SYN)), "unsolicited");
    dropped(&nat.send(WAN, &udp(SERVER, "192.0.2.1:80")), "unsolicited");
    dropped(&nat.send(WAN, &udp(SERVER, "192.0.2.2:40000")), "not-public");
    dropped(&nat.send(WAN, &udp(SERVER, HOST)), "not-public");
    dropped(&nat.send(WAN, &echo("198.51.100.7", "192.0.2.1", true, 7)), "unsolicited");
    dropped(&nat.send(LAN, &tcp(HOST, SERVER, RST)), "no-mapping");
    dropped(&nat.send(LAN, &udp(HOST, "224.0.0.251:5353")), "not-forwardable");
    dropped(&nat.send(LAN, &udp(HOST, "255.255.255.255:67")), "not-forwardable");
    assert_eq!(nat.table("mappings").used, 0);
}

/// RFC 4787 REQ-9: hairpinning, with the public source ("external source IP address and port").
#[test]
fn inside_hosts_reach_each_other_by_public_addresses() {
    let mut nat = nat(&[]);
    mapped(&mut nat, "10.0.0.5:1111", SERVER);
    let there = nat.send(LAN, &udp("10.0.0.6:2222", "192.0.2.1:1111"));
    assert_eq!(left(&there), (LAN, "192.0.2.1:2222 > 10.0.0.5:1111".to_owned()));
    let back = nat.send(LAN, &udp("10.0.0.5:1111", "192.0.2.1:2222"));
    assert_eq!(left(&back), (LAN, "192.0.2.1:1111 > 10.0.0.6:2222".to_owned()));
    dropped(&nat.send(LAN, &udp("10.0.0.6:2222", "192.0.2.1:3333")), "unsolicited");
}

/// RFC 5508 REQ-1, REQ-2: query mappings by identifier, for at least 60 seconds.
#[test]
fn echoes_are_mapped_by_identifier() {
    let mut nat = nat(&[]);
    let request = nat.send(LAN, &echo("10.0.0.5", "198.51.100.7", false, 9000));
    assert_eq!(left(&request), (WAN, "192.0.2.1:9000 > 198.51.100.7:9000".to_owned()));
    let request = nat.send(LAN, &echo("10.0.0.6", "198.51.100.7", false, 9000));
    assert_eq!(left(&request), (WAN, "192.0.2.1:9001 > 198.51.100.7:9001".to_owned()));
    nat.at(59 * SECOND);
    let reply = nat.send(WAN, &echo("198.51.100.7", "192.0.2.1", true, 9001));
    assert_eq!(left(&reply), (LAN, "198.51.100.7:9000 > 10.0.0.6:9000".to_owned()));
    nat.at(61 * SECOND);
    dropped(&nat.send(WAN, &echo("198.51.100.7", "192.0.2.1", true, 9000)), "unsolicited");
}

/// Who pings a public address with an identifier that has a mapping does not reach the host behind it, from
/// wherever; and what answers nobody opens none.
#[test]
fn an_echo_is_asked_from_inside_and_answered_from_outside() {
    let mut nat = nat(&[]);
    for asks in 0..2 {
        let reason = if asks == 0 { "no-mapping" } else { "unsolicited" };
        dropped(&nat.send(LAN, &echo("10.0.0.5", "192.0.2.1", asks == 0, 9000)), reason);
        assert_eq!(nat.table("mappings").used, asks);
    }
    let request = nat.send(LAN, &echo("10.0.0.5", "198.51.100.7", false, 9000));
    assert_eq!(left(&request), (WAN, "192.0.2.1:9000 > 198.51.100.7:9000".to_owned()));
    dropped(&nat.send(WAN, &echo("198.51.100.7", "192.0.2.1", false, 9000)), "unsolicited");
    dropped(&nat.send(LAN, &echo("10.0.0.5", "198.51.100.7", true, 9000)), "no-mapping");
    let reply = nat.send(WAN, &echo("198.51.100.7", "192.0.2.1", true, 9000));
    assert_eq!(left(&reply), (LAN, "198.51.100.7:9000 > 10.0.0.5:9000".to_owned()));
}

/// A packet of each protocol from port 2222 of `host`.
fn first_packets(host: &str) -> [Vec<u8>; 3] {
    let src = format!("{host}:2222");
    [udp(&src, SERVER), tcp(&src, SERVER, SYN), echo(host, "198.51.100.7", false, 2222)]
}

/// RFC 4787 REQ-12, RFC 5508 REQ-4: the quoted packet is translated like the error itself.
#[test]
fn errors_from_outside_reach_the_host_they_are_about() {
    let mut nat = nat(&[]);
    for frame in first_packets("10.0.0.9") {
        nat.send(LAN, &frame);
    }
    for frame in first_packets("10.0.0.5") {
        let there = nat.send(LAN, &frame).forwarded()[0].1.clone();
        assert!(!flow(&there).starts_with("192.0.2.1:2222 "), "{}", flow(&there));
        let about = error(&there, "203.0.113.254", IcmpError::TimeExceeded);
        let outcome = nat.send(WAN, &about);
        let [(LAN, error)] = outcome.forwarded() else { panic!("{:?}", outcome.dropped()) };
        assert_eq!(quoted(error), flow(&frame));
        assert_eq!(addresses(error), ("203.0.113.254".to_owned(), "10.0.0.5".to_owned()));
    }
}

/// RFC 5508 REQ-5: so are errors from inside, whichever router sends them.
#[test]
fn errors_from_inside_leave_as_the_public_endpoint() {
    for router in ["10.0.0.5", "10.0.0.254"] {
        let mut nat = nat(&[]);
        mapped(&mut nat, "10.0.0.9:2222", SERVER);
        let public = mapped(&mut nat, "10.0.0.5:2222", SERVER);
        assert_eq!(public, "192.0.2.1:2224");
        let inside = nat.send(WAN, &udp(SERVER, &public)).forwarded()[0].1.clone();
        let about = error(&inside, router, IcmpError::PortUnreachable);
        let outcome = nat.send(LAN, &about);
        let [(WAN, error)] = outcome.forwarded() else { panic!("{:?}", outcome.dropped()) };
        assert_eq!(quoted(error), format!("{SERVER} > {public}"));
        assert_eq!(addresses(error), ("192.0.2.1".to_owned(), "198.51.100.7".to_owned()));
    }
}

/// RFC 5508 REQ-6: errors between inside hosts are hairpinned, both ends translated.
#[test]
fn errors_between_inside_hosts_come_back_in() {
    let mut nat = nat(&[]);
    mapped(&mut nat, "10.0.0.5:1111", SERVER);
    let there = nat.send(LAN, &udp("10.0.0.6:2222", "192.0.2.1:1111")).forwarded()[0].1.clone();
    let about = error(&there, "10.0.0.5", IcmpError::PortUnreachable);
    let outcome = nat.send(LAN, &about);
    let [(LAN, error)] = outcome.forwarded() else { panic!("{:?}", outcome.dropped()) };
    assert_eq!(quoted(error), "10.0.0.6:2222 > 192.0.2.1:1111");
    assert_eq!(addresses(error), ("192.0.2.1".to_owned(), "10.0.0.6".to_owned()));
}

/// RFC 5508 REQ-3, RFC 5382 REQ-9 and REQ-10: errors end and refresh nothing.
#[test]
fn errors_change_no_mapping() {
    let mut nat = nat(&[]);
    let there = nat.send(LAN, &udp(HOST, SERVER)).forwarded()[0].1.clone();
    let about = error(&there, "198.51.100.7", IcmpError::PortUnreachable);
    nat.at(299 * SECOND);
    assert_eq!(nat.send(WAN, &about).dropped(), None);
    assert_eq!(nat.table("mappings").used, 1);
    nat.at(301 * SECOND);
    dropped(&nat.send(WAN, &about), "unrelated-error");
    let strange = error(&udp("192.0.2.1:5", SERVER), "203.0.113.254", IcmpError::TimeExceeded);
    dropped(&nat.send(WAN, &strange), "unrelated-error");
    let strange = error(&udp(SERVER, HOST), "10.0.0.5", IcmpError::TimeExceeded);
    dropped(&nat.send(LAN, &strange), "unrelated-error");
}

/// They are a router's to the hosts beside it (RFC 792, RFC 1122 3.2.2.2).
#[test]
fn redirects_are_not_translated() {
    let mut nat = nat(&[]);
    let there = nat.send(LAN, &udp(HOST, SERVER)).forwarded()[0].1.clone();
    dropped(&nat.send(WAN, &redirect(&there, "203.0.113.254")), "unsupported-protocol");
    let from_outside = nat.send(WAN, &udp(SERVER, flow(&there).split(" > ").next().unwrap()));
    let back = from_outside.forwarded()[0].1.clone();
    dropped(&nat.send(LAN, &redirect(&back, "10.0.0.5")), "unsupported-protocol");
}

fn addresses(frame: &[u8]) -> (String, String) {
    look(frame, |packet| {
        let ip = packet.ipv4().unwrap();
        (ip.src().to_string(), ip.dst().to_string())
    })
}

const FORWARDED: &str = "static_mappings=[\
    { protocol = \"tcp\", inside = \"10.0.0.80\", inside_port = 8080, public = \"192.0.2.1\", public_port = 80 },\
    { protocol = \"udp\", inside = \"10.0.0.80\", inside_port = 5060, public = \"192.0.2.1\", public_port = 5060 }]";

#[test]
fn static_mappings_are_open_to_anybody_for_ever() {
    let mut nat = nat(&[FORWARDED, "filtering=address-and-port-dependent"]);
    // Longer than ticks are counted from one origin, several times over.
    for days in [0, 1, 2, 30, 90, 1_000, 10_000] {
        nat.at(days * 86_400 * SECOND);
        let there = nat.send(WAN, &tcp("203.0.113.9:1234", "192.0.2.1:80", SYN));
        assert_eq!(left(&there), (LAN, "203.0.113.9:1234 > 10.0.0.80:8080".to_owned()));
        let back = nat.send(LAN, &tcp("10.0.0.80:8080", "203.0.113.9:1234", SYN | ACK));
        assert_eq!(left(&back), (WAN, "192.0.2.1:80 > 203.0.113.9:1234".to_owned()));
        let there = nat.send(WAN, &udp("203.0.113.9:1234", "192.0.2.1:5060"));
        assert_eq!(left(&there), (LAN, "203.0.113.9:1234 > 10.0.0.80:5060".to_owned()));
        nat.send(WAN, &tcp("203.0.113.9:1234", "192.0.2.1:80", RST));
    }
    dropped(&nat.send(WAN, &udp("203.0.113.9:1234", "192.0.2.1:80")), "unsolicited");
    assert_eq!(mapped(&mut nat, "10.0.0.5:5060", SERVER), "192.0.2.1:5062", "never given again");
    let hairpin = nat.send(LAN, &tcp("10.0.0.5:999", "192.0.2.1:80", SYN));
    assert_eq!(left(&hairpin).1, "192.0.2.1:1025 > 10.0.0.80:8080");
}

/// A public address that only static mappings have is no part of the pool.
#[test]
fn a_static_mapping_may_have_an_address_of_its_own() {
    let mut nat = nat(&[&FORWARDED.replace("192.0.2.1", "192.0.2.9")]);
    let there = nat.send(WAN, &udp("203.0.113.9:1234", "192.0.2.9:5060"));
    assert_eq!(left(&there), (LAN, "203.0.113.9:1234 > 10.0.0.80:5060".to_owned()));
    let back = nat.send(LAN, &tcp("10.0.0.80:8080", "203.0.113.9:1234", SYN | ACK));
    assert_eq!(left(&back), (WAN, "192.0.2.9:80 > 203.0.113.9:1234".to_owned()));
    dropped(&nat.send(WAN, &udp("203.0.113.9:1234", "192.0.2.9:5061")), "unsolicited");
    let hairpin = nat.send(LAN, &udp("10.0.0.5:5060", "192.0.2.9:5060"));
    assert_eq!(left(&hairpin), (LAN, "192.0.2.1:5060 > 10.0.0.80:5060".to_owned()));
}

#[test]
fn what_stands_twice_counts_once() {
    let twice = FORWARDED.replace("udp", "tcp").replace("5060", "8080");
    let public = "public=[\"192.0.2.1\", \"203.0.113.5\", \"192.0.2.1\", \"203.0.113.5\"]";
    let mut nat = Nat::new(&[public, &twice, "first_port=2000", "last_port=2001"]);
    let logged = [
        "public address 192.0.2.1 stands twice, and counts once",
        "public address 203.0.113.5 stands twice, and counts once",
        "static mapping 1 repeats another, and is not made",
    ];
    assert_eq!(nat.logged(), logged);
    for host in 1..5 {
        let public = mapped(&mut nat, &format!("10.0.0.{host}:2000"), SERVER);
        assert!(reaches(&mut nat, SERVER, &public), "{public}");
    }
    dropped(&nat.send(LAN, &udp("10.0.0.5:2000", SERVER)), "ports-exhausted");
}

#[test]
fn what_is_not_ipv4_passes_or_not() {
    let (arp, ipv6) = (arp("10.0.0.5", "10.0.0.1"), solicitation("fd00::5", "fd00::1"));
    let mut open = nat(&[]);
    let mut closed = nat(&["ipv6=drop"]);
    for (port, other) in [(LAN, WAN), (WAN, LAN)] {
        assert_eq!(open.send(port, &arp).forwarded(), [(other, arp.clone())]);
        assert_eq!(open.send(port, &ipv6).forwarded(), [(other, ipv6.clone())]);
        assert_eq!(closed.send(port, &arp).forwarded(), [(other, arp.clone())]);
        dropped(&closed.send(port, &ipv6), "ipv6-refused");
    }
}

/// RFC 4787 REQ-14, both ways: in any order, and in fragments as long as those that came.
#[test]
fn fragments_are_translated_with_the_datagram_that_they_make() {
    for reverse in [false, true] {
        let mut nat = nat(&[]);
        let payload: Vec<u8> = (0..4_000_u16).map(|byte| byte as u8).collect();
        let mut out = fragments(&datagram(HOST, SERVER, &payload), 1_280);
        if reverse {
            out.reverse();
        }
        let sent = all_but_last_wait(&mut nat, LAN, &out);
        assert_eq!((out.len(), sent.len()), (4, 4));
        assert!(sent.iter().all(|(port, frame)| *port == WAN && frame.len() <= 14 + 1_280));
        let whole = joined(sent.iter().map(|(_, frame)| frame));
        assert_eq!(flow(&whole), "192.0.2.1:40000 > 198.51.100.7:53");
        assert_eq!(whole[42..], payload);
        let mut back = fragments(&datagram(SERVER, "192.0.2.1:40000", &payload), 600);
        if reverse {
            back.reverse();
        }
        let sent = all_but_last_wait(&mut nat, WAN, &back);
        let whole = joined(sent.iter().map(|(_, frame)| frame));
        assert_eq!(flow(&whole), "198.51.100.7:53 > 10.0.0.5:40000");
        assert_eq!(nat.table("mappings").used, 1);
    }
}

/// What leaves when the last of `fragments` comes; before, nothing does.
fn all_but_last_wait(nat: &mut Nat, port: u8, fragments: &[Vec<u8>]) -> Vec<(u8, Vec<u8>)> {
    let (last, others) = fragments.split_last().unwrap();
    for fragment in others {
        assert!(nat.send(port, fragment).waits());
    }
    let outcome = nat.send(port, last);
    dropped(&outcome, "fragmented");
    outcome.emitted().to_vec()
}

#[test]
fn other_protocols_are_dropped() {
    let mut nat = nat(&[]);
    let mut gre = udp(HOST, SERVER);
    gre[23] = 47;
    dropped(&nat.send(LAN, &gre), "unsupported-protocol");
    dropped(&nat.send(WAN, &gre), "unsupported-protocol");
}

#[test]
fn wrong_settings_are_refused() {
    for (settings, words) in [
        (&["public=[]"][..], "1 to 1024 addresses"),
        (&[PUBLIC, "first_port=1025"], "must be even"),
        (&[PUBLIC, "first_port=4000", "last_port=3999"], "must not be greater"),
        (&[PUBLIC, "udp_s=60"], "between 120 and"),
        (&[PUBLIC, "established_s=3600"], "between 7440 and"),
        (&[PUBLIC, "filtering=none"], "endpoint-independent"),
    ] {
        let error = Nat::try_new(settings).err().expect("a mistake");
        assert!(error.contains(words), "{error}");
    }
}

//! TCP states and their timeouts; limits, floods, exhaustion.

use super::*;
use anabranch_nf::packet::craft::tcp_flags::FIN;

const PUBLIC_ENDPOINT: &str = "192.0.2.1:40000";

/// Lets a connection of `HOST` with `SERVER` be established.
fn connect(nat: &mut Nat) {
    connect_to(nat, SERVER);
}

fn connect_to(nat: &mut Nat, server: &str) {
    for (port, flags) in [(LAN, SYN), (WAN, SYN | ACK), (LAN, ACK)] {
        assert_eq!(segment(nat, port, server, flags), None);
    }
}

/// Sends a segment one way or the other, and returns why it was dropped.
fn segment(nat: &mut Nat, port: u8, server: &str, flags: u8) -> Option<&'static str> {
    let frame = match port {
        LAN => tcp(HOST, server, flags),
        _ => tcp(server, PUBLIC_ENDPOINT, flags),
    };
    nat.send(port, &frame).dropped()
}

/// Whether packets from `SERVER` still come through `seconds` after the last one, and not after.
#[track_caller]
fn lives(nat: &mut Nat, since_s: u64, seconds: u64) {
    let about = error(&tcp(PUBLIC_ENDPOINT, SERVER, ACK), "203.0.113.9", IcmpError::TimeExceeded);
    nat.at((since_s + seconds) * SECOND - SECOND / 100);
    assert_eq!(nat.send(WAN, &about).dropped(), None, "it should live {seconds} s");
    nat.at((since_s + seconds) * SECOND + SECOND / 100);
    dropped(&nat.send(WAN, &about), "unrelated-error");
}

/// RFC 5382 REQ-5: 2 hours and 4 minutes.
#[test]
fn an_established_connection_lives_two_hours_and_four_minutes() {
    let mut nat = nat(&[]);
    connect(&mut nat);
    nat.at(7_000 * SECOND);
    assert_eq!(segment(&mut nat, WAN, SERVER, ACK), None, "either side keeps it alive");
    lives(&mut nat, 7_000, 7_440);
}

/// RFC 7857 §2.1: a connection without an answer lives shorter, as set.
#[test]
fn a_connection_without_an_answer_lives_shortly() {
    let mut nat = nat(&["half_open_s=20"]);
    assert_eq!(segment(&mut nat, LAN, SERVER, SYN), None);
    lives(&mut nat, 0, 20);
}

/// RFC 5382 REQ-5: four minutes while it opens.
#[test]
fn an_answered_connection_waits_four_minutes_for_the_last_step() {
    let mut nat = nat(&[]);
    assert_eq!(segment(&mut nat, LAN, SERVER, SYN), None);
    assert_eq!(segment(&mut nat, WAN, SERVER, SYN | ACK), None);
    lives(&mut nat, 0, 240);
}

/// RFC 5382 REQ-2: simultaneous open; the SYN from outside answers ours.
#[test]
fn a_simultaneous_open_is_a_connection() {
    let mut nat = nat(&[]);
    for (port, flags) in [(LAN, SYN), (WAN, SYN), (LAN, SYN | ACK), (WAN, SYN | ACK), (LAN, ACK)] {
        assert_eq!(segment(&mut nat, port, SERVER, flags), None);
    }
    lives(&mut nat, 0, 7_440);
}

/// RFC 5382 REQ-5: four minutes once both sides have finished, and not before.
#[test]
fn a_closed_connection_lives_four_minutes() {
    for first in [LAN, WAN] {
        let mut nat = nat(&[]);
        connect(&mut nat);
        assert_eq!(segment(&mut nat, first, SERVER, FIN | ACK), None);
        nat.at(3_000 * SECOND);
        assert_eq!(segment(&mut nat, 1 - first, SERVER, ACK), None, "half closed, and busy");
        assert_eq!(segment(&mut nat, 1 - first, SERVER, FIN | ACK), None);
        assert_eq!(segment(&mut nat, first, SERVER, ACK), None);
        lives(&mut nat, 3_000, 240);
    }
}

/// With data in the SYN a server may have finished before it hears more (RFC 7413).
#[test]
fn who_finishes_before_the_last_step_of_opening_has_finished() {
    let mut nat = nat(&[]);
    let early = [(LAN, SYN), (WAN, SYN | ACK), (WAN, FIN | ACK), (LAN, ACK), (LAN, FIN | ACK)];
    for (port, flags) in early {
        assert_eq!(segment(&mut nat, port, SERVER, flags), None);
    }
    lives(&mut nat, 0, 240);
}

/// RFC 7857 §2.2: four minutes after a reset, unless another packet shows that it was none.
#[test]
fn a_reset_connection_ends_unless_it_goes_on() {
    let mut over = nat(&[]);
    connect(&mut over);
    assert_eq!(segment(&mut over, WAN, SERVER, RST), None);
    lives(&mut over, 0, 240);
    let mut forged = nat(&[]);
    connect(&mut forged);
    assert_eq!(segment(&mut forged, WAN, SERVER, RST), None);
    forged.at(100 * SECOND);
    assert_eq!(segment(&mut forged, LAN, SERVER, ACK), None);
    lives(&mut forged, 100, 7_440);
}

#[test]
fn strangers_cannot_prolong_or_reset_a_connection() {
    let mut nat = nat(&["half_open_s=20"]);
    assert_eq!(segment(&mut nat, LAN, SERVER, SYN), None);
    nat.at(15 * SECOND);
    for flags in [SYN | ACK, ACK, RST] {
        assert_eq!(segment(&mut nat, WAN, "203.0.113.9:1", flags), None, "it is let through");
    }
    lives(&mut nat, 0, 20);
    nat.at(1_000 * SECOND);
    connect(&mut nat);
    nat.at(2_000 * SECOND);
    for flags in [RST, ACK] {
        assert_eq!(segment(&mut nat, WAN, "203.0.113.9:1", flags), None);
    }
    lives(&mut nat, 1_000, 7_440);
    nat.at(10_000 * SECOND);
    connect(&mut nat);
    for port in [LAN, WAN] {
        assert_eq!(segment(&mut nat, port, SERVER, FIN | ACK), None);
    }
    nat.at(10_200 * SECOND);
    assert_eq!(segment(&mut nat, WAN, "203.0.113.9:1", ACK), None);
    lives(&mut nat, 10_000, 240);
}

/// Once there is a second connection, its peer keeps the mapping as well as the first.
#[test]
fn every_connection_of_a_shared_mapping_prolongs_it() {
    let mut nat = nat(&[]);
    connect(&mut nat);
    connect_to(&mut nat, "203.0.113.9:80");
    nat.at(5_000 * SECOND);
    assert_eq!(segment(&mut nat, WAN, "203.0.113.9:80", ACK), None);
    lives(&mut nat, 5_000, 7_440);
}

/// RFC 5382 REQ-5: a connection that one side has finished lives on beside another.
#[test]
fn a_half_closed_connection_is_not_cut_off_by_the_next() {
    for first in [LAN, WAN] {
        let mut nat = nat(&["half_open_s=20"]);
        connect(&mut nat);
        assert_eq!(segment(&mut nat, first, SERVER, FIN | ACK), None);
        assert_eq!(segment(&mut nat, LAN, "203.0.113.9:80", SYN), None, "and no answer");
        nat.at(100 * SECOND);
        assert_eq!(segment(&mut nat, WAN, SERVER, ACK), None, "the first goes on");
        lives(&mut nat, 100, 7_440);
    }
}

/// The end of one connection does not cut off another that shares the mapping.
#[test]
fn a_mapping_outlives_the_first_of_its_connections() {
    let mut nat = nat(&[]);
    connect(&mut nat);
    connect_to(&mut nat, "203.0.113.9:80");
    for port in [LAN, WAN] {
        assert_eq!(segment(&mut nat, port, SERVER, FIN | ACK), None);
    }
    assert_eq!(segment(&mut nat, WAN, SERVER, RST), None);
    lives(&mut nat, 0, 7_440);
}

#[test]
fn a_closed_mapping_serves_the_next_connection() {
    let mut nat = nat(&["half_open_s=20"]);
    connect(&mut nat);
    for port in [LAN, WAN] {
        assert_eq!(segment(&mut nat, port, SERVER, FIN | ACK), None);
    }
    nat.at(10 * SECOND);
    connect_to(&mut nat, "203.0.113.9:80");
    lives(&mut nat, 10, 7_440);
}

/// A flood of SYNs takes its share of the table and no more; it is over after `half_open_s`.
#[test]
fn a_flood_of_syns_does_not_fill_the_table() {
    let mut nat = nat(&["sessions=1000", "half_open_percent=20", "half_open_s=20"]);
    connect(&mut nat);
    let flood = |nat: &mut Nat, first: u32| {
        let sent = (first..first + 5_000).map(|n| {
            let src = format!("10.1.{}.{}:{}", n >> 8 & 255, n & 255, 1_024 + n);
            nat.send(LAN, &tcp(&src, SERVER, SYN)).dropped()
        });
        let sent: Vec<_> = sent.collect();
        assert!(sent.iter().all(|why| matches!(why, None | Some("half-open-limit"))));
        sent.iter().filter(|why| why.is_none()).count()
    };
    assert_eq!(flood(&mut nat, 0), 200);
    assert_eq!(nat.table("mappings").used, 201);
    assert_eq!(segment(&mut nat, LAN, SERVER, ACK), None, "who is connected stays so");
    assert_eq!(mapped(&mut nat, "10.0.0.7:5000", SERVER), "192.0.2.1:5000");
    nat.at(10 * SECOND);
    assert_eq!(flood(&mut nat, 10_000), 0);
    nat.at(21 * SECOND);
    assert_eq!(flood(&mut nat, 20_000), 200);
}

/// One host takes half of the places, and what its share is of the rest; others still open.
#[test]
fn a_flood_by_one_host_leaves_places_to_others() {
    let mut nat = nat(&["sessions=2000", "half_open_percent=20"]);
    let opens = |nat: &mut Nat, host: &str, connections: u32| {
        let syn = |n| tcp(&format!("{host}:{}", 2_000 + n), SERVER, SYN);
        (0..connections).filter(|&n| nat.send(LAN, &syn(n)).dropped().is_none()).count()
    };
    assert_eq!(opens(&mut nat, "10.0.0.66", 1_000), 200);
    assert_eq!(opens(&mut nat, "10.0.0.5", 10), 10);
    assert_eq!(opens(&mut nat, "10.0.0.6", 1_000), 65, "64 of them, and one");
}

#[test]
fn the_share_of_few_mappings_is_not_rounded_away() {
    let mut nat = nat(&["sessions=64", "half_open_percent=100"]);
    let syn = |n| tcp(&format!("10.0.0.{n}:5000"), SERVER, SYN);
    assert_eq!((1..=70).filter(|&n| nat.send(LAN, &syn(n)).dropped().is_none()).count(), 64);
}

/// Answers free the places of connections that wait.
#[test]
fn answered_connections_do_not_count_as_half_open() {
    let mut nat = nat(&["sessions=100", "half_open_percent=1"]);
    for port in 2_000..2_050 {
        let inside = format!("10.0.0.5:{port}");
        let public = mapped_frame(&mut nat, &tcp(&inside, SERVER, SYN));
        let next = tcp("10.0.0.6:1", SERVER, SYN);
        dropped(&nat.send(LAN, &next), "half-open-limit");
        assert_eq!(nat.send(WAN, &tcp(SERVER, &public, SYN | ACK)).dropped(), None);
    }
}

/// RFC 4787 §11 and RFC 6888 REQ-3: one host cannot take everything.
#[test]
fn a_host_has_its_limit() {
    let mut nat = nat(&["sessions_per_host=10"]);
    for port in 2_000..2_010 {
        mapped(&mut nat, &format!("10.0.0.5:{port}"), SERVER);
    }
    dropped(&nat.send(LAN, &udp("10.0.0.5:2010", SERVER)), "host-limit");
    mapped(&mut nat, "10.0.0.5:2003", SERVER);
    mapped(&mut nat, "10.0.0.6:2010", SERVER);
    nat.at(301 * SECOND);
    mapped(&mut nat, "10.0.0.5:2010", SERVER);
    let mut waited = 0;
    while nat.table("hosts").used > 1 {
        waited += 1;
        assert!(waited < 100, "the host without mappings is forgotten");
        mapped(&mut nat, "10.0.0.5:2010", SERVER);
    }
    for port in 2_011..2_020 {
        mapped(&mut nat, &format!("10.0.0.5:{port}"), SERVER);
    }
    dropped(&nat.send(LAN, &udp("10.0.0.5:2020", SERVER)), "host-limit");
}

#[test]
fn a_full_table_says_so_and_recovers() {
    let mut nat = nat(&["sessions=20"]);
    for host in 0..20 {
        mapped(&mut nat, &format!("10.0.0.{host}:2000"), SERVER);
    }
    dropped(&nat.send(LAN, &udp("10.0.0.20:2000", SERVER)), "table-full");
    assert_eq!(nat.table("mappings").used, 20, "nothing is left of the attempt");
    assert_eq!(nat.table("hosts").used, 20);
    nat.at(310 * SECOND);
    for host in 20..40 {
        nat.send(LAN, &udp(&format!("10.0.0.{host}:2000"), SERVER));
    }
    mapped(&mut nat, "10.0.0.20:2000", SERVER);
}

/// At most 60 bytes a session, both directions, when all of it is in use: less than half of
/// what is aimed at.
#[test]
fn a_session_takes_little_memory() {
    let nat = nat(&["sessions=64512", "hosts=1024"]);
    let per = |name: &str| nat.table(name).bytes as f64 / nat.table(name).capacity as f64;
    let hosts = nat.table("hosts").bytes as f64 / 64_512.0;
    let session = per("inside") + per("mappings") + hosts;
    println!("{session:.2} bytes");
    assert!(session <= 60.0, "{session} bytes");
}

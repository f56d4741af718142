//! Connections from both sides, their states, timeouts and limits.

use super::firewall;
use crate::frames::{
    arp, datagram, echo, error, ethernet, fragments, redirect, solicitation, tcp, udp,
};
use anabranch_nf::packet::checksum::Sum;
use anabranch_nf::packet::craft::{IcmpError, tcp_flags::*};
use anabranch_runtime::testing::Harness;

type Firewall = Harness<firewall::Function>;

const INSIDE: u8 = 0;
const OUTSIDE: u8 = 1;
const SECOND: u64 = 1_000_000_000;
/// Resolution of lifetimes.
const TICK: u64 = 1 << 20;
const HOST: &str = "10.0.0.1:5000";
const SERVER: &str = "198.51.100.1:80";
const HOST6: &str = "[2001:db8:1::1]:5000";
const SERVER6: &str = "[2001:db8:2::1]:80";

fn firewall(settings: &[&str]) -> Firewall {
    Harness::new(settings)
}

/// `Ok` where it leaves unchanged by the other port, else the reason.
fn sent(firewall: &mut Firewall, port: u8, frame: &[u8]) -> Result<(), &'static str> {
    let outcome = firewall.send(port, frame);
    match outcome.dropped() {
        Some(reason) => Err(reason),
        None => {
            assert_eq!(outcome.forwarded(), [(1 - port, frame.to_vec())]);
            Ok(())
        }
    }
}

fn out(firewall: &mut Firewall, flags: u8) -> Result<(), &'static str> {
    sent(firewall, INSIDE, &tcp(HOST, SERVER, flags))
}

fn back(firewall: &mut Firewall, flags: u8) -> Result<(), &'static str> {
    sent(firewall, OUTSIDE, &tcp(SERVER, HOST, flags))
}

fn established(settings: &[&str]) -> Firewall {
    let mut firewall = firewall(settings);
    assert_eq!(out(&mut firewall, SYN), Ok(()));
    assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
    assert_eq!(out(&mut firewall, ACK), Ok(()));
    firewall
}

/// Whether an answer still passes just before `idle_s` have passed since the last packet, which
/// was sent at `since_s`, and no longer when they have. The probe refreshes, so each is made in a
/// firewall of its own.
fn lives_for(make: impl Fn() -> Firewall, since_s: u64, idle_s: u64) {
    let mut before = make();
    before.at((since_s + idle_s) * SECOND - TICK);
    assert_eq!(back(&mut before, ACK), Ok(()), "still there");
    let mut after = make();
    after.at((since_s + idle_s) * SECOND + TICK);
    assert_eq!(back(&mut after, ACK), Err("unsolicited"), "gone");
}

#[test]
fn inside_opens_and_outside_answers() {
    for (host, server) in [(HOST, SERVER), (SERVER, HOST), (HOST6, SERVER6), (SERVER6, HOST6)] {
        let mut firewall = firewall(&[]);
        let (there, back) = (udp(host, server), udp(server, host));
        assert_eq!(sent(&mut firewall, OUTSIDE, &back), Err("unsolicited"));
        assert_eq!(sent(&mut firewall, INSIDE, &there), Ok(()));
        assert_eq!(sent(&mut firewall, OUTSIDE, &back), Ok(()));
        assert_eq!(sent(&mut firewall, INSIDE, &there), Ok(()));
    }
}

#[test]
fn only_the_same_ends_may_answer() {
    let mut firewall = firewall(&[]);
    assert_eq!(sent(&mut firewall, INSIDE, &udp(HOST, SERVER)), Ok(()));
    for (src, dst) in [
        ("198.51.100.2:80", HOST),
        ("198.51.100.1:81", HOST),
        (SERVER, "10.0.0.2:5000"),
        (SERVER, "10.0.0.1:5001"),
    ] {
        assert_eq!(sent(&mut firewall, OUTSIDE, &udp(src, dst)), Err("unsolicited"));
    }
    assert_eq!(sent(&mut firewall, OUTSIDE, &tcp(SERVER, HOST, SYN)), Err("unsolicited"));
}

#[test]
fn a_source_on_the_wrong_side_is_dropped() {
    for (host, server) in [(HOST, SERVER), (SERVER, HOST), (HOST6, SERVER6)] {
        let mut firewall = firewall(&[]);
        assert_eq!(sent(&mut firewall, INSIDE, &udp(host, server)), Ok(()));
        assert_eq!(sent(&mut firewall, OUTSIDE, &udp(host, server)), Err("wrong-side"));
        assert_eq!(sent(&mut firewall, INSIDE, &udp(server, host)), Err("wrong-side"));
    }
}

#[test]
fn a_connection_from_beginning_to_end() {
    let mut firewall = established(&[]);
    for _ in 0..3 {
        assert_eq!(out(&mut firewall, ACK | PSH), Ok(()));
        assert_eq!(back(&mut firewall, ACK), Ok(()));
    }
    assert_eq!(out(&mut firewall, FIN | ACK), Ok(()));
    assert_eq!(back(&mut firewall, ACK), Ok(()));
    assert_eq!(back(&mut firewall, FIN | ACK), Ok(()));
    assert_eq!(out(&mut firewall, ACK), Ok(()));
    assert_eq!(back(&mut firewall, SYN), Err("out-of-state"), "outside does not open");
    assert_eq!(out(&mut firewall, SYN), Ok(()), "inside may open the same again");
    assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
}

/// The other end has been restarted meanwhile, or has given up waiting for the close (RFC 9293, section 3.5.1).
#[test]
fn a_half_closed_connection_may_be_opened_again() {
    for inside_closes in [true, false] {
        let half_closed = || {
            let mut firewall = established(&[]);
            let close = |firewall: &mut Firewall, inside: bool| match inside {
                true => out(firewall, FIN | ACK),
                false => back(firewall, FIN | ACK),
            };
            assert_eq!(close(&mut firewall, inside_closes), Ok(()));
            assert_eq!(out(&mut firewall, SYN), Ok(()));
            assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
            assert_eq!(out(&mut firewall, ACK), Ok(()));
            assert_eq!(close(&mut firewall, !inside_closes), Ok(()));
            firewall
        };
        lives_for(half_closed, 0, 7_440);
    }
}

#[test]
fn a_late_copy_of_the_first_syn_opens_nothing() {
    let closed = || {
        let mut firewall = established(&[]);
        assert_eq!(out(&mut firewall, FIN | ACK), Ok(()));
        assert_eq!(out(&mut firewall, SYN), Ok(()));
        assert_eq!(back(&mut firewall, ACK), Ok(()));
        assert_eq!(back(&mut firewall, FIN | ACK), Ok(()));
        firewall
    };
    lives_for(closed, 0, 240);
}

#[test]
fn tcp_begins_with_a_syn_from_inside() {
    let mut firewall = firewall(&[]);
    assert_eq!(out(&mut firewall, ACK), Err("not-syn"));
    assert_eq!(out(&mut firewall, SYN | ACK), Err("not-syn"));
    assert_eq!(out(&mut firewall, FIN | ACK), Err("not-syn"));
    assert_eq!(out(&mut firewall, RST), Err("not-syn"));
    assert_eq!(back(&mut firewall, SYN), Err("unsolicited"));
    assert_eq!(firewall.table("Connection (IPv4)").used, 0);
}

#[test]
fn loose_takes_up_what_runs_already() {
    let mut firewall = firewall(&["loose=true"]);
    assert_eq!(back(&mut firewall, ACK), Err("unsolicited"));
    assert_eq!(out(&mut firewall, RST), Err("not-syn"));
    assert_eq!(out(&mut firewall, ACK | PSH), Ok(()));
    assert_eq!(back(&mut firewall, ACK), Ok(()));
    assert_eq!(back(&mut firewall, FIN | ACK), Ok(()));
}

#[test]
fn flags_that_no_host_sends_are_dropped() {
    let bad = [0, PSH, FIN, SYN | FIN, SYN | RST, SYN | FIN | ACK, FIN | RST | ACK, FIN | PSH];
    for flags in bad {
        let mut firewall = firewall(&["loose=true"]);
        assert_eq!(out(&mut firewall, flags), Err("bad-tcp-flags"), "{flags:#x}");
        let mut firewall = established(&[]);
        assert_eq!(out(&mut firewall, flags), Err("bad-tcp-flags"), "{flags:#x}");
        assert_eq!(back(&mut firewall, flags), Err("bad-tcp-flags"), "{flags:#x}");
    }
}

#[test]
fn what_the_state_does_not_allow_is_dropped() {
    let mut firewall = firewall(&[]);
    assert_eq!(out(&mut firewall, SYN), Ok(()));
    assert_eq!(out(&mut firewall, ACK), Err("out-of-state"), "nothing to acknowledge yet");
    assert_eq!(back(&mut firewall, FIN | ACK), Err("out-of-state"));
    assert_eq!(back(&mut firewall, ACK), Ok(()), "of a half-open connection, to be reset");
    assert_eq!(out(&mut firewall, SYN), Ok(()), "again");
    assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
    assert_eq!(back(&mut firewall, SYN | ACK), Ok(()), "again");
    assert_eq!(out(&mut firewall, ACK), Ok(()));
    assert_eq!(back(&mut firewall, SYN), Err("out-of-state"));
}

#[test]
fn both_sides_may_open_at_once() {
    let mut firewall = firewall(&[]);
    assert_eq!(out(&mut firewall, SYN), Ok(()));
    assert_eq!(back(&mut firewall, SYN), Ok(()));
    assert_eq!(out(&mut firewall, SYN | ACK), Ok(()));
    assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
    assert_eq!(out(&mut firewall, ACK), Ok(()));
}

#[test]
fn a_half_open_connection_has_its_own_timeout() {
    for settings in [&[][..], &["half_open_timeout_s=10"]] {
        let idle_s = if settings.is_empty() { 240 } else { 10 };
        let syn_sent = || {
            let mut firewall = firewall(settings);
            assert_eq!(out(&mut firewall, SYN), Ok(()));
            firewall
        };
        lives_for(syn_sent, 0, idle_s);
        let syn_received = || {
            let mut firewall = syn_sent();
            firewall.at(SECOND);
            assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
            firewall
        };
        lives_for(syn_received, 1, idle_s);
    }
}

#[test]
fn an_established_connection_lives_two_hours_and_four_minutes() {
    lives_for(|| established(&[]), 0, 7_440);
    lives_for(|| established(&["established_timeout_s=100"]), 0, 100);
    let half_closed = || {
        let mut firewall = established(&[]);
        assert_eq!(out(&mut firewall, FIN | ACK), Ok(()));
        firewall
    };
    lives_for(half_closed, 0, 7_440);
}

#[test]
fn a_closed_or_reset_connection_is_soon_forgotten() {
    let closed = || {
        let mut firewall = established(&["closing_timeout_s=20"]);
        assert_eq!(out(&mut firewall, FIN | ACK), Ok(()));
        assert_eq!(back(&mut firewall, FIN | ACK), Ok(()));
        firewall
    };
    lives_for(closed, 0, 20);
    for from_inside in [true, false] {
        let reset = || {
            let mut firewall = established(&[]);
            let reset = if from_inside { out } else { back };
            assert_eq!(reset(&mut firewall, RST | ACK), Ok(()));
            firewall
        };
        lives_for(reset, 0, 240);
    }
}

#[test]
fn a_forged_reset_does_not_cut_a_busy_connection() {
    let mut firewall = established(&[]);
    assert_eq!(back(&mut firewall, RST), Ok(()));
    for minute in 0..60 {
        firewall.at(minute * 60 * SECOND);
        assert_eq!(out(&mut firewall, ACK), Ok(()));
    }
    firewall.at((60 * 60 + 7_000) * SECOND);
    assert_eq!(back(&mut firewall, ACK), Ok(()), "it is established again");
    assert_eq!(out(&mut firewall, RST), Ok(()));
    assert_eq!(out(&mut firewall, SYN), Ok(()), "and a real one makes way");
    assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
}

#[test]
fn udp_lives_five_minutes_from_its_last_packet() {
    let probe = |at_ns: u64| {
        let mut firewall = firewall(&[]);
        assert_eq!(sent(&mut firewall, INSIDE, &udp(HOST6, SERVER6)), Ok(()));
        firewall.at(SECOND);
        assert_eq!(sent(&mut firewall, OUTSIDE, &udp(SERVER6, HOST6)), Ok(()));
        firewall.at(at_ns);
        sent(&mut firewall, OUTSIDE, &udp(SERVER6, HOST6))
    };
    assert_eq!(probe(301 * SECOND - TICK), Ok(()));
    assert_eq!(probe(301 * SECOND + TICK), Err("unsolicited"));
}

#[test]
fn echoes_are_requested_inside_and_answered_outside() {
    for (host, peer) in [("10.0.0.1", "198.51.100.1"), ("2001:db8::1", "2001:db8:2::1")] {
        let mut firewall = firewall(&[]);
        assert_eq!(sent(&mut firewall, INSIDE, &echo(host, peer, false, 7)), Ok(()));
        let reply = echo(peer, host, true, 7);
        assert_eq!(sent(&mut firewall, OUTSIDE, &reply), Ok(()));
        let request = echo(peer, host, false, 7);
        assert_eq!(sent(&mut firewall, OUTSIDE, &request), Err("out-of-state"));
        let stranger = echo(peer, host, true, 8);
        assert_eq!(sent(&mut firewall, OUTSIDE, &stranger), Err("unsolicited"));
        firewall.at(61 * SECOND);
        assert_eq!(sent(&mut firewall, OUTSIDE, &reply), Err("unsolicited"));
    }
}

#[test]
fn a_full_table_drops_new_connections_and_keeps_the_old() {
    let mut firewall = firewall(&["flows=2", "udp_timeout_s=10"]);
    let to = |n: u8| udp(HOST, &format!("198.51.100.{n}:53"));
    assert_eq!(sent(&mut firewall, INSIDE, &to(1)), Ok(()));
    assert_eq!(sent(&mut firewall, INSIDE, &to(2)), Ok(()));
    assert_eq!(sent(&mut firewall, INSIDE, &to(3)), Err("packet-sets-full"));
    assert_eq!(sent(&mut firewall, INSIDE, &to(2)), Ok(()));
    assert_eq!(sent(&mut firewall, INSIDE, &udp(HOST6, SERVER6)), Ok(()), "IPv6 has its own");
    firewall.at(11 * SECOND);
    assert_eq!(sent(&mut firewall, INSIDE, &to(3)), Ok(()));
    assert_eq!(firewall.table("Connection (IPv4)").used, 1);
}

#[test]
fn hosts_find_each_other() {
    let mut firewall = firewall(&[]);
    for port in [INSIDE, OUTSIDE] {
        assert_eq!(sent(&mut firewall, port, &arp("10.0.0.1", "10.0.0.2")), Ok(()));
        let mut solicitation = solicitation("fe80::1", "fe80::2");
        assert_eq!(sent(&mut firewall, port, &solicitation), Ok(()));
        solicitation[14 + 7] = 254;
        let forwarded = sent(&mut firewall, port, &solicitation);
        assert_eq!(forwarded, Err("unsupported-protocol"), "a router has forwarded it");
    }
}

#[test]
fn errors_pass_to_whom_they_concern() {
    for (host, server, router) in [(HOST, SERVER, "203.0.113.9"), (HOST6, SERVER6, "2001:db8:9::9")]
    {
        let mut firewall = firewall(&[]);
        let too_big = error(&udp(host, server), router, IcmpError::TooBig { mtu: 1_280 });
        assert_eq!(sent(&mut firewall, OUTSIDE, &too_big), Ok(()));
        let mut forged = too_big.clone();
        let source_of_quote = if host == HOST { 14 + 20 + 8 + 15 } else { 14 + 40 + 8 + 23 };
        forged[source_of_quote] ^= 2;
        assert_eq!(sent(&mut firewall, OUTSIDE, &forged), Err("unwanted-error"));
        let mut strict = Harness::new(&["allow_errors=false"]);
        assert_eq!(sent(&mut strict, OUTSIDE, &too_big), Err("unwanted-error"));
    }
    // Nobody beyond a router tells a host which router to take.
    let redirect = redirect(&udp(HOST, SERVER), "10.0.0.1");
    assert_eq!(sent(&mut firewall(&[]), OUTSIDE, &redirect), Err("unsupported-protocol"));
}

/// What becomes of the datagram whose last fragment comes: as many fragments as left, or the reason.
fn together(
    firewall: &mut Firewall,
    port: u8,
    fragments: &[Vec<u8>],
) -> Result<usize, &'static str> {
    let outcomes = fragments.iter().map(|fragment| firewall.send(port, fragment));
    let last = outcomes.last().unwrap();
    match last.dropped() {
        Some("fragmented") => Ok(last.emitted().len()),
        None if last.waits() => Err("waits"),
        other => Err(other.unwrap_or("passes")),
    }
}

#[test]
fn fragments_pass_as_the_datagram_that_they_make_may() {
    for (host, server) in [(HOST, SERVER), ("[fd00::5]:40000", "[2001:db8::7]:53")] {
        let mut firewall = firewall(&[]);
        let back = fragments(&datagram(server, host, &[7; 2_500]), 1_280);
        assert_eq!(together(&mut firewall, OUTSIDE, &back), Err("unsolicited"));
        let out = fragments(&datagram(host, server, &[8; 2_500]), 1_280);
        assert_eq!(together(&mut firewall, INSIDE, &out), Ok(out.len()));
        assert_eq!(together(&mut firewall, OUTSIDE, &back), Ok(back.len()));
        assert_eq!(together(&mut firewall, OUTSIDE, &back[1..]), Err("waits"));
    }
}

/// RFC 3128: one that begins within the TCP header would overwrite flags that have been looked at.
#[test]
fn overlapping_fragments_do_not_pass() {
    let mut firewall = firewall(&[]);
    let mut pieces = fragments(&datagram(SERVER, HOST, &[7; 2_500]), 1_280);
    let mut overlapping = pieces[0].clone();
    overlapping[20..22].copy_from_slice(&0x2001_u16.to_be_bytes());
    overlapping[24..26].fill(0);
    let checksum = Sum::new().bytes(&overlapping[14..34]).checksum();
    overlapping[24..26].copy_from_slice(&checksum);
    pieces.insert(1, overlapping);
    assert_eq!(together(&mut firewall, OUTSIDE, &pieces[..2]), Err("incomplete-datagram"));
    assert_eq!(together(&mut firewall, OUTSIDE, &pieces[2..]), Err("waits"));
}

#[test]
fn other_protocols_and_malformed_packets_are_dropped() {
    let mut firewall = firewall(&[]);
    let mut gre = udp(HOST, SERVER);
    gre[23] = 47;
    assert_eq!(sent(&mut firewall, INSIDE, &gre), Err("unsupported-protocol"));
    let lldp = ethernet("02:00:00:00:00:01", "01:80:c2:00:00:0e");
    assert_eq!(sent(&mut firewall, OUTSIDE, &lldp), Err("unsupported-protocol"));
    let cut = &tcp(HOST, SERVER, SYN)[..40];
    assert_eq!(sent(&mut firewall, INSIDE, cut), Err("ipv4-total-length"));
}

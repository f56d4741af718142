//! Every real capture through every network function: nothing panics, every packet is accounted
//! for, and what should pass does.

use std::path::Path;

use anabranch_nf::NetworkFunction;
use anabranch_nfs::{bridge, bridge_static, firewall, lb, nat, nop, policer, router};
use anabranch_packet::parse;
use anabranch_runtime::report::ErrorKind;
use anabranch_runtime::run::{RunError, kind_of};
use toml::Table;

use crate::accounts::{Account, HEADING, HELD, assert_adds_up, untold};
use crate::files::{read, run_captures, try_run, write_arrivals};
use crate::play::{Step, Surroundings, play};
use crate::scenarios::{self, LbBackends, NatPeers};
use crate::sides::{Arrival, by_conversation, by_station};
use crate::traces::{self, Capture, Captured, Read};

/// Plays one capture packet by packet, then runs it whole from files, in batches: both must agree in
/// every count and byte.
fn through<N: NetworkFunction>(
    name: &str,
    surroundings: &mut dyn Surroundings,
    arrivals: &[Arrival],
) -> Vec<Step> {
    let steps = play::<N>(surroundings, arrivals);
    let arrived: Vec<Arrival> = steps.iter().map(|step| step.arrival.clone()).collect();
    let folder = tempfile::tempdir().unwrap();
    let inputs = write_arrivals(folder.path(), &arrived);
    let (report, outputs) = run_captures::<N>(&surroundings.settings(), &inputs, folder.path(), 1);
    let account = Account::of(&steps);
    let sent: u64 = steps.iter().map(|step| step.outcome.forwarded().len() as u64).sum();
    assert_adds_up::<N>(&report, sent - account.forwarded - account.flooded);
    assert_eq!(untold(&report.drops), untold(&account.drops), "{name}");
    assert_eq!(report.packets_emitted, account.emitted);
    for (port, file) in outputs.iter().enumerate() {
        let written: Vec<Vec<u8>> = read(file).into_iter().map(|packet| packet.bytes).collect();
        let expected = leaving(&steps, port as u8);
        assert_eq!(written.len(), expected.len(), "{} {name}: port {port}", N::NAME);
        for (number, (is, should)) in written.iter().zip(&expected).enumerate() {
            assert!(is == should, "{} {name}: packet {number} of port {port} differs", N::NAME);
        }
    }
    steps
}

/// What leaves a port, in order. A packet's own precedes it: the function made it meanwhile.
fn leaving(steps: &[Step], port: u8) -> Vec<Vec<u8>> {
    let of_step = |step: &Step| {
        let all = step.outcome.emitted().iter().chain(step.outcome.forwarded());
        let mine = all.filter(|(to, _)| *to == port).map(|(_, bytes)| bytes.clone());
        mine.collect::<Vec<_>>()
    };
    steps.iter().flat_map(of_step).collect()
}

/// The account of all captures through one function, printed.
fn all_through<N: NetworkFunction>(
    sides: fn(&[Captured]) -> Vec<Arrival>,
    mut surroundings: impl FnMut(&[Arrival]) -> Box<dyn Surroundings>,
    mut examine: impl FnMut(&Capture, &[Step]),
) -> Account {
    let mut account = Account::default();
    for capture in traces::captures() {
        let arrivals = sides(&capture.packets);
        let steps = through::<N>(&capture.name, surroundings(&arrivals).as_mut(), &arrivals);
        account.join(&Account::of(&steps));
        examine(&capture, &steps);
    }
    println!("{HEADING}\n{}", account.row(N::NAME));
    account
}

/// The account of a function that needs settings only.
fn with_settings<N: NetworkFunction>(
    sides: fn(&[Captured]) -> Vec<Arrival>,
    settings: impl Fn(&[Arrival]) -> Table,
    examine: impl FnMut(&Capture, &[Step]),
) -> Account {
    all_through::<N>(sides, |arrivals| Box::new(settings(arrivals)), examine)
}

/// Asserts that nothing but these reasons was given.
#[track_caller]
fn assert_only(account: &Account, words: &[&str]) {
    for word in account.drops.keys() {
        assert!(words.contains(word), "{word} is not explained: {account:?}");
    }
}

fn unchanged(_: &Capture, steps: &[Step]) {
    for step in steps {
        let same = |(_, bytes): &(u8, Vec<u8>)| *bytes == step.arrival.packet.bytes;
        assert!(step.outcome.forwarded().iter().all(same));
    }
}

/// Reasons for which any function that looks at IP drops packets of these captures.
const MALFORMED: [&str; 5] = [
    "ipv4-header-length",
    "ipv4-total-length",
    "ipv4-version",
    "tcp-header-truncated",
    "udp-length",
];

/// What becomes of fragments that are put together first.
const OF_FRAGMENTS: [&str; 4] = [HELD, "fragmented", "incomplete-datagram", "ipv4-checksum"];

#[track_caller]
fn assert_explained(account: &Account, words: &[&str], share: f64) {
    assert_only(account, &[words, &MALFORMED].concat());
    assert!(account.read == 0 || account.share() >= share, "{account:?}");
    let left = account.forwarded + account.flooded;
    assert_eq!(account.read, left + account.dropped());
}

#[test]
fn nop() {
    let account = with_settings::<nop::Function>(by_conversation, |_| Table::new(), unchanged);
    assert_explained(&account, &[], 1.0);
}

#[test]
fn policer() {
    let account = with_settings::<policer::Function>(by_conversation, |_| Table::new(), unchanged);
    assert_explained(&account, &["over-rate"], 0.95);
}

#[test]
fn bridge() {
    let account = with_settings::<bridge::Function>(by_station, |_| Table::new(), unchanged);
    assert_explained(&account, &["reserved-address", "group-source", "same-port"], 0.9);
}

#[test]
fn bridge_static() {
    let account =
        with_settings::<bridge_static::Function>(by_station, scenarios::bridge_static, unchanged);
    assert_explained(&account, &["reserved-address", "same-port"], 0.9);
}

#[test]
fn firewall() {
    let settings = |_: &[Arrival]| scenarios::firewall();
    let account = with_settings::<firewall::Function>(by_conversation, settings, unchanged);
    let words = [
        "unsolicited",
        "not-syn",
        "bad-tcp-flags",
        "out-of-state",
        "wrong-side",
        "unwanted-error",
        "unsupported-protocol",
    ];
    assert_explained(&account, &[&words[..], &OF_FRAGMENTS].concat(), 0.9);
}

#[test]
fn router() {
    let settings = |_: &[Arrival]| scenarios::router();
    let account = with_settings::<router::Function>(by_conversation, settings, |_, _| {});
    let words = [
        "not-for-this-interface",
        "not-forwardable",
        "unsupported-protocol",
        "packet-too-big",
        "fragmented",
        "ttl-expired",
    ];
    assert_explained(&account, &words, 0.9);
    assert!(account.emitted >= account.drops.get("packet-too-big").copied().unwrap_or(0) / 2);
}

/// A reply that other hosts addressed to a translated endpoint and that leaves as it was captured.
fn comes_back_as_it_was(step: &Step) -> bool {
    let [(0, bytes)] = step.outcome.forwarded() else { return false };
    let is = Captured { bytes: bytes.clone(), ..step.original.packet.clone() };
    with_one_zero(is) == with_one_zero(step.original.packet.clone())
}

/// In one's complement zero is 0 or -0, and checksums of IPv4 and TCP may be either: 0 here.
fn with_one_zero(mut packet: Captured) -> Captured {
    let layout = parse(&packet.bytes, packet.wire_len);
    let ip = layout.has_ipv4().then_some(layout.l3_offset() + 10);
    let tcp = layout.has_tcp().then_some(layout.l4_offset() + 16);
    for at in [ip, tcp].into_iter().flatten() {
        if let Some(checksum) = packet.bytes.get_mut(at..at + 2)
            && checksum == [0xff, 0xff]
        {
            checksum.fill(0);
        }
    }
    packet
}

#[test]
fn nat() {
    let (mut out, mut back, mut rewritten) = (0, 0, 0);
    let account = all_through::<nat::Function>(
        by_conversation,
        |_| Box::new(NatPeers::default()),
        |capture, steps| {
            for step in steps {
                let changed = step.original != step.arrival;
                rewritten += u64::from(changed && step.is_forwarded());
                if step.original.port == 0 {
                    out += u64::from(step.is_forwarded() && is_translated(step));
                } else if changed && step.is_forwarded() {
                    assert!(comes_back_as_it_was(step), "{}: {:?}", capture.name, step.original);
                    back += 1;
                }
            }
        },
    );
    println!("{out} packets translated on their way out, {back} on their way back, of {rewritten}");
    let words = [
        "unsolicited",
        "not-public",
        "no-mapping",
        "unrelated-error",
        "unsupported-protocol",
        "not-forwardable",
    ];
    assert_explained(&account, &[&words[..], &OF_FRAGMENTS].concat(), 0.8);
    assert!(account.read == 0 || (out > account.read / 3 && back > account.read / 3));
}

fn is_translated(step: &Step) -> bool {
    let sent = |(_, bytes): &(u8, Vec<u8>)| *bytes != step.original.packet.bytes;
    step.outcome.forwarded().iter().all(sent)
}

#[test]
fn lb() {
    let (mut to_backends, mut back) = (0, 0);
    let account = all_through::<lb::Function>(
        by_conversation,
        |arrivals| Box::new(LbBackends::of(arrivals)),
        |capture, steps| {
            for step in steps.iter().filter(|step| step.is_forwarded()) {
                if step.original.port == 0 {
                    to_backends += u64::from(is_translated(step));
                } else if step.original != step.arrival {
                    assert!(comes_back_as_it_was(step), "{}: {:?}", capture.name, step.original);
                    back += 1;
                }
            }
        },
    );
    println!("{to_backends} packets to backends, {back} back from them");
    let words = ["not-a-service", "not-a-backend", "unrelated-error", "unsupported-protocol"];
    assert_explained(&account, &[&words[..], &OF_FRAGMENTS].concat(), 0.8);
    assert!(account.read == 0 || (to_backends > account.read / 3 && back > account.read / 3));
}

#[test]
fn other_link_types_are_refused_as_such() {
    let (mut ethernet, mut other) = (0, 0);
    for file in traces::files() {
        match traces::read(&file) {
            Read::Ethernet(_) => ethernet += 1,
            Read::Other(file) => {
                other += 1;
                assert_eq!(refusal(&file), Some(ErrorKind::LinkType), "{}", file.display());
            }
        }
    }
    println!("{ethernet} captures of Ethernet, {other} of other link types");
    assert!(ethernet + other == 0 || (ethernet > 200 && other > 10));
}

/// Why a run over this capture cannot go on: at once, or where it comes to the packets.
fn refusal(file: &Path) -> Option<ErrorKind> {
    let folder = tempfile::tempdir().unwrap();
    let inputs = [(0, file.to_owned())];
    match try_run::<nop::Function>(&Table::new(), &inputs, folder.path(), 1) {
        Err(RunError::Source(error)) => Some(kind_of(&error)),
        Err(error) => panic!("{error}"),
        Ok((report, _)) => report.errors.first().map(|error| error.kind),
    }
}

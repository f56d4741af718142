//! `tshark` as a judge: which packets have wrong checksums or are malformed, before and after.

use std::path::Path;
use std::process::Command;

use anabranch_nf::NetworkFunction;
use anabranch_nfs::{firewall, lb, nat, router};
use anabranch_runtime::testing::START_NS;

use crate::files;
use crate::play::{Step, Surroundings, play};
use crate::scenarios::{self, LbBackends, NatPeers};
use crate::sides::{Arrival, by_conversation};
use crate::traces::{self, Captured};

/// What tshark says of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Judgement {
    /// Statuses of the checksums of IPv4, TCP, UDP, ICMP and ICMPv6, as tshark numbers them. Those
    /// of a quoted packet follow its carrier's, after a comma.
    checksums: [String; 5],
    malformed: bool,
}

/// How tshark writes the status of a wrong checksum.
const BAD: &str = "0";

impl Judgement {
    fn of_line(line: &str) -> Self {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        let checksums = [next(), next(), next(), next(), next()];
        Self { checksums, malformed: !next().is_empty() }
    }

    fn bad(&self) -> usize {
        self.checksums.iter().flat_map(|all| all.split(',')).filter(|one| *one == BAD).count()
    }

    /// Whether a packet that a function made itself is wrong: an ICMP message, whose transport
    /// checksums are those of a quoted packet, cut off.
    fn is_bad_outside(&self) -> bool {
        let [ip, _, _, icmp, icmpv6] = &self.checksums;
        [ip, icmp, icmpv6].into_iter().any(|all| all.split(',').next() == Some(BAD))
    }
}

/// Installs tshark where it is missing and can be installed; false, with a word, where not.
fn is_installed() -> bool {
    let runs = || Command::new("tshark").arg("--version").output().is_ok();
    if !runs() {
        let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/install");
        let _ = Command::new(install).arg("tests").status();
    }
    let found = runs();
    if !found {
        println!("skipped: tshark is not installed and cannot be");
    }
    found
}

/// Asks tshark about each packet, by itself: nothing is put together again.
fn judge(packets: &[Captured]) -> Vec<Judgement> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("packets.pcap");
    files::write(&file, packets);
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(&file).args(["-T", "fields", "-E", "occurrence=a"]);
    for field in ["ip", "tcp", "udp", "icmp", "icmpv6"] {
        command.args(["-e", &format!("{field}.checksum.status")]);
    }
    command.args(["-e", "_ws.malformed"]);
    let checks = ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum"];
    for check in checks {
        command.args(["-o", &format!("{check}:TRUE")]);
    }
    for off in ["tcp.desegment_tcp_streams", "ip.defragment", "ipv6.defragment"] {
        command.args(["-o", &format!("{off}:FALSE")]);
    }
    // What is above the transport is not changed, and is read differently at another port.
    for above in ["tcp", "udp"] {
        command.args(["-o", &format!("{above}.try_heuristic_first:FALSE")]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let judged: Vec<Judgement> = text.lines().map(Judgement::of_line).collect();
    assert_eq!(judged.len(), packets.len());
    judged
}

/// All captures through `N`, judged before and after.
fn judged<N: NetworkFunction>(surroundings: impl Fn(&[Arrival]) -> Box<dyn Surroundings>) {
    if !is_installed() {
        return;
    }
    let mut steps: Vec<Step> = Vec::new();
    for capture in traces::captures() {
        let arrivals = by_conversation(&capture.packets);
        steps.extend(play::<N>(surroundings(&arrivals).as_mut(), &arrivals));
    }
    let forwarded: Vec<&Step> = steps.iter().filter(|step| step.is_forwarded()).collect();
    let before: Vec<Captured> = forwarded.iter().map(|step| step.original.packet.clone()).collect();
    let after: Vec<Captured> = forwarded.iter().map(|step| sent(step)).collect();
    let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    let (before, after) = (judge(&before), judge(&after));
    for (number, (was, is)) in before.iter().zip(&after).enumerate() {
        assert!(is.bad() <= was.bad(), "{} packet {number}: {was:?} became {is:?}", N::NAME);
        assert!(!is.malformed || was.malformed, "{} packet {number}: malformed", N::NAME);
    }
    let bad = |all: &[Judgement]| all.iter().filter(|one| one.bad() > 0).count();
    let malformed = |all: &[Judgement]| all.iter().filter(|one| one.malformed).count();
    println!(
        "{}: {} packets out, {changed} of them changed; bad checksums {} before, {} after; malformed \
         {} before, {} after",
        N::NAME,
        after.len(),
        bad(&before),
        bad(&after),
        malformed(&before),
        malformed(&after),
    );
    judge_own::<N>(&steps);
}

/// Packets that the function made itself have nothing wrong but what they quote.
fn judge_own<N: NetworkFunction>(steps: &[Step]) {
    let made = |(_, bytes): &(u8, Vec<u8>)| Captured {
        at_ns: START_NS,
        wire_len: bytes.len() as u32,
        bytes: bytes.clone(),
    };
    let own: Vec<Captured> =
        steps.iter().flat_map(|step| step.outcome.emitted().iter().map(made)).collect();
    for (packet, judgement) in own.iter().zip(judge(&own)) {
        assert!(!judgement.is_bad_outside(), "{}: {judgement:?} of {packet:?}", N::NAME);
    }
    println!("{}: {} packets of its own, none wrong", N::NAME, own.len());
}

fn sent(step: &Step) -> Captured {
    let (_, bytes) = &step.outcome.forwarded()[0];
    Captured { bytes: bytes.clone(), ..step.original.packet.clone() }
}

#[test]
fn nat_breaks_nothing() {
    judged::<nat::Function>(|_| Box::new(NatPeers::default()));
}

#[test]
fn lb_breaks_nothing() {
    judged::<lb::Function>(|arrivals| Box::new(LbBackends::of(arrivals)));
}

#[test]
fn firewall_breaks_nothing() {
    judged::<firewall::Function>(|_| Box::new(scenarios::firewall()));
}

#[test]
fn router_breaks_nothing() {
    judged::<router::Function>(|_| Box::new(scenarios::router()));
}

#[test]
fn a_wrong_checksum_is_found() {
    if !is_installed() {
        return;
    }
    let Some(capture) = traces::captures().into_iter().find(|one| one.name == "dns") else {
        return;
    };
    let mut damaged = capture.packets.clone();
    let sound = judge(&damaged);
    for packet in &mut damaged {
        *packet.bytes.last_mut().unwrap() ^= 0x55;
        packet.bytes[22] ^= 1;
    }
    for (sound, damaged) in sound.iter().zip(judge(&damaged)) {
        assert!(damaged.bad() > sound.bad(), "{sound:?} {damaged:?}");
    }
}

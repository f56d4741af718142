//! A living run, seen from another terminal, and by Prometheus.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anabranch_io::capture::CaptureReader;

use crate::lab::{Kind, Lab};
use crate::traffic::ping;

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");

/// The value of a metric with these labels.
pub fn metric(text: &str, name: &str, label: &str) -> u64 {
    let start = format!("anabranch_{name}{{");
    let mut lines = text.lines().filter(|line| line.starts_with(&start) && line.contains(label));
    let line = lines.next().unwrap_or_else(|| panic!("{name} {label}\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn what_is_seen_meanwhile_is_what_is_said_at_the_end() {
    let Some(lab) = Lab::of_two(Kind::AfPacket) else { return };
    let options = "--metrics 127.0.0.1:9100";
    let firewall = lab.join("firewall", options, ["inside", "outside"]);
    ping(&lab, "a", "10.0.0.2", 56);
    assert!(lab.run("b", "ping -c 3 -i 0.1 -W 1 10.0.0.1").fails());
    let metrics = lab.run("nf", "curl -sS --max-time 5 http://127.0.0.1:9100/metrics").expect();
    let table = lab.run("nf", &format!("{PROGRAM} top nf.sock --once")).expect();
    let seen = firewall.report();
    let report = firewall.finish();
    assert!(!lab.path("nf.sock").exists());
    assert!(seen.packets_read >= 13 && seen.packets_dropped == 3, "{seen:?}");
    assert_eq!(seen.strategy, report.strategy);
    for (seen, last) in seen.ports.iter().zip(&report.ports) {
        assert_eq!((&seen.name, &seen.live), (&last.name, &last.live));
        let port = format!("port=\"{}\"", seen.name);
        // Hosts may have sent something of their own accord meanwhile.
        let read = metric(&metrics, "packets_read_total", &port);
        assert!(read >= 5 && read <= seen.packets_read && seen.packets_read <= last.packets_read);
        assert!(metric(&metrics, "bytes_out_total", &port) <= last.bytes_out);
    }
    for (reason, dropped) in &seen.drops {
        assert_eq!(metric(&metrics, "drops_total", &format!("reason=\"{reason}\"")), *dropped);
        assert!(table.contains(reason), "{table}");
    }
    assert!(seen.tables.iter().any(|table| table.used > 0), "{:?}", seen.tables);
    assert_eq!((seen.tables.len(), seen.workers.len()), (report.tables.len(), 2));
    let gone = lab.run("nf", &format!("{PROGRAM} top nf.sock --json"));
    assert!(gone.fails() && gone.text.contains("no run answers"), "{}", gone.text);
}

#[test]
fn a_capture_is_not_written_to_a_terminal() {
    let Some(lab) = Lab::of_two(Kind::AfPacket) else { return };
    let nop = lab.join("nop", "", ["lan", "wan"]);
    let capture = format!("{PROGRAM} capture nf.sock in --for 0.1");
    // `script` runs it on a terminal of its own.
    let shown = lab.run("nf", &format!("script -qec '{capture}' /dev/null"));
    assert!(shown.fails() && shown.text.contains("give `-o FILE`"), "{}", shown.text);
    lab.run("nf", &format!("{capture} -o some.pcapng")).expect();
    // Who reads what is copied may go, which is no failure.
    lab.run("nf", &format!("bash -c 'set -o pipefail; {capture} | true'")).expect();
    nop.finish();
}

#[test]
fn a_doctor_says_what_to_run() {
    let Some(lab) = Lab::open(Kind::AfPacket) else { return };
    lab.ip("nf", "link add here type veth peer name there");
    lab.ip("nf", "link set there up");
    lab.ip("nf", "addr add 192.0.2.1/24 dev there");
    let unwrapped = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = unwrapped(lab.run("nf", &format!("{PROGRAM} doctor")).expect());
    for part in [
        "$ ip link set here up",
        "$ ip addr flush dev there",
        "address 192.0.2.1",
        "takes no key or table: workers hash",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let json = lab.run("nf", &format!("{PROGRAM} doctor there --json")).expect();
    let findings: serde_json::Value = serde_json::from_str(&json).unwrap();
    let about = |what: &str| findings.as_array().unwrap().iter().any(|one| one["about"] == what);
    assert!(about("capabilities") && about("there") && !about("here"), "{json}");
    let line = format!("setpriv --bounding-set=-all --reuid=65534 --clear-groups {PROGRAM} doctor");
    let unprivileged = unwrapped(lab.run("nf", &line).expect());
    assert!(unprivileged.contains("cap_net_admin, cap_net_raw, cap_bpf missing"), "{unprivileged}");
    assert!(unprivileged.contains("$ setcap cap_net_admin,cap_net_raw,cap_bpf+ep"));
}

/// The packets of a capture: their number, and how many comments say why they were dropped.
fn count(lab: &Lab, file: &str) -> (usize, usize) {
    let mut reader = CaptureReader::open(lab.path(file)).unwrap();
    let mut packets = 0;
    while reader.next_record().unwrap().is_some() {
        packets += 1;
    }
    let bytes = std::fs::read(lab.path(file)).unwrap();
    (packets, bytes.windows(9).filter(|some| some == b"dropped: ").count())
}

#[test]
fn packets_are_copied_with_the_reason_why_they_were_dropped() {
    let Some(lab) = Lab::of_two(Kind::Xdp) else { return };
    let firewall = lab.join("firewall", "", ["inside", "outside"]);
    ping(&lab, "a", "10.0.0.2", 56);
    let capture = |file: &str, filter: &str, options: &str| {
        lab.serve("nf", &format!("{PROGRAM} capture nf.sock -o {file} {options} {filter}"))
    };
    let mut captures = [
        capture("all.pcapng", "host=10.0.0.1", ""),
        capture("dropped.pcapng", "dropped port=outside snap=34", ""),
        capture("short.pcapng", "in port=inside host=10.0.0.1", "--for 2"),
    ];
    std::thread::sleep(Duration::from_millis(500));
    ping(&lab, "a", "10.0.0.2", 56);
    assert!(lab.run("b", "ping -c 3 -i 0.1 -W 1 10.0.0.1").fails());
    assert!(captures[2].wait().success());
    ping(&lab, "a", "10.0.0.2", 56);
    for (wrong, part) in [
        ("port=dmz", "inside, outside"),
        ("tcp", "no filter"),
        ("reason=oversized", "before a worker has them"),
    ] {
        let refused = lab.run("nf", &format!("{PROGRAM} capture nf.sock {wrong}"));
        assert!(refused.fails() && refused.text.contains(part), "{}", refused.text);
    }
    let report = firewall.finish();
    captures.iter_mut().for_each(|capture| assert!(capture.wait().success()));
    // Ten requests, ten answers, each in and out, and three that come in and are dropped.
    assert_eq!(count(&lab, "all.pcapng"), (46, 3));
    assert_eq!(count(&lab, "dropped.pcapng"), (3, 3));
    assert_eq!(count(&lab, "short.pcapng"), (5, 0));
    assert_eq!(report.packets_dropped, 3, "{:?}", report.drops);
}

#[test]
fn a_copy_without_an_end_is_told() {
    let Some(lab) = Lab::of_two(Kind::AfPacket) else { return };
    let nop = lab.join("nop", "", ["lan", "wan"]);
    let mut capture = lab.serve("nf", &format!("{PROGRAM} capture nf.sock -o ends.pcapng"));
    std::thread::sleep(Duration::from_millis(500));
    ping(&lab, "a", "10.0.0.2", 56);
    // What was copied has been handed over.
    std::thread::sleep(Duration::from_millis(500));
    nop.kill();
    assert_eq!(capture.wait().code(), Some(4));
    assert!(count(&lab, "ends.pcapng").0 >= 20, "what has come is there");
}

/// How often a capture says that a packet was dropped for a reason, by the reason.
fn reasons(lab: &Lab, file: &str) -> BTreeMap<String, u64> {
    const SAYS: &[u8] = b"dropped: ";
    let bytes = std::fs::read(lab.path(file)).unwrap();
    let mut reasons = BTreeMap::new();
    for at in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(SAYS)) {
        let word = bytes[at + SAYS.len()..].iter().take_while(|byte| byte.is_ascii_graphic());
        let word = word.map(|byte| char::from(*byte)).collect();
        *reasons.entry(word).or_insert(0) += 1;
    }
    reasons
}

/// Fragments that are put together, packets that are too long for the link, and packets for a link that is down.
fn drops_of_the_runtime(kind: Kind) {
    let Some(lab) = Lab::of_two(kind) else { return };
    let firewall = lab.join("firewall", "", ["inside", "outside"]);
    ping(&lab, "a", "10.0.0.2", 56);
    let before = firewall.report().drops;
    assert_eq!(before.len(), 0, "{before:?}");
    let capture = |file: &str, filter: &str| {
        lab.serve("nf", &format!("{PROGRAM} capture nf.sock -o {file} {filter}"))
    };
    let mut captures = [capture("all.pcapng", ""), capture("dropped.pcapng", "dropped")];
    std::thread::sleep(Duration::from_millis(500));
    lab.run("a", "ping -c 2 -i 0.1 -s 3000 10.0.0.2").expect();
    lab.ip("nf", "link set p-outside mtu 1400");
    std::thread::sleep(Duration::from_millis(300));
    assert!(lab.run("a", "ping -c 3 -i 0.1 -W 1 -s 1450 10.0.0.2").fails());
    lab.ip("nf", "link set p-outside down");
    assert!(lab.run("a", "ping -c 4 -i 0.1 -W 1 10.0.0.2").fails());
    // The first of three fragments waits, and the others never come.
    for line in [
        "add table netdev cut",
        r"add chain netdev cut out { type filter hook egress device e priority 0 \; }",
        r"add rule netdev cut out ip frag-off \& 0x1fff != 0 drop",
    ] {
        lab.run("a", &format!("nft {line}")).expect();
    }
    assert!(lab.run("a", "ping -c 1 -W 1 -s 3000 10.0.0.2").fails());
    let report = firewall.finish();
    captures.iter_mut().for_each(|capture| assert!(capture.wait().success()));
    let counted = |word: &str| report.drops.get(word).copied().unwrap_or_default();
    assert_eq!((counted("reassembled"), counted("fragmented")), (8, 4), "{:?}", report.drops);
    assert!(counted("packet-too-big") >= 3 && counted("link-down") >= 3, "{:?}", report.drops);
    assert!(counted("incomplete-datagram") >= 1, "{:?}", report.drops);
    assert_eq!(reasons(&lab, "dropped.pcapng"), report.drops);
    assert_eq!(reasons(&lab, "all.pcapng"), report.drops);
}

#[test]
fn what_the_runtime_drops_is_copied_over_packet_sockets() {
    drops_of_the_runtime(Kind::AfPacket);
}

#[test]
fn what_the_runtime_drops_is_copied_over_xdp() {
    drops_of_the_runtime(Kind::Xdp);
}

#[test]
fn a_function_goes_on_when_nobody_reads_what_it_says() {
    let Some(lab) = Lab::open(Kind::AfPacket) else { return };
    lab.ip("nf", "link add here type veth peer name there");
    for link in ["here", "there"] {
        lab.ip("nf", &format!("link set {link} up"));
    }
    let line = format!(
        "sh -c '(sleep 0.3; {PROGRAM} run nop --port lan=afpacket:here --port wan=afpacket:there \
         --for 0.2 --json report.json; echo $? > code) 2>&1 >/dev/null | true; sleep 2'"
    );
    lab.run("nf", &line).expect();
    assert_eq!(std::fs::read_to_string(lab.path("code")).unwrap().trim(), "0");
    assert!(lab.path("report.json").exists());
}

#[test]
fn who_pauses_reading_a_capture_loses_packets_and_no_more() {
    let Some(lab) = Lab::of_two(Kind::AfPacket) else { return };
    let nop = lab.join("nop", "", ["lan", "wan"]);
    let mut stream = UnixStream::connect(lab.path("nf.sock")).unwrap();
    stream.write_all(b"capture \n").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    lab.run("a", "ping -f -q -c 5000 -s 1400 10.0.0.2").expect();
    // Longer than the run waits for anybody else.
    std::thread::sleep(Duration::from_secs(6));
    // It goes on reading, until nothing comes for a second.
    let mut bytes = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!(stream.read_to_end(&mut bytes).is_err(), "the run ended in the middle");
    stream.set_read_timeout(None).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.read_to_end(&mut bytes).unwrap();
    std::fs::write(lab.path("paused.pcapng"), &bytes).unwrap();
    let number = |from_end: usize| {
        let at = bytes.len() - from_end;
        u64::from_le_bytes(*bytes[at..].first_chunk().unwrap())
    };
    let (received, lost) = (number(28), number(16));
    assert!(received >= 20_000 && lost > 0, "{received}, {lost}");
    assert_eq!(count(&lab, "paused.pcapng").0 as u64, received - lost);
    nop.finish();
}

#[test]
fn a_terminal_is_as_it_was_whatever_ends_who_watches() {
    let Some(lab) = Lab::of_two(Kind::AfPacket) else { return };
    let nop = lab.join("nop", "", ["lan", "wan"]);
    for signal in ["INT", "TERM", "HUP"] {
        let steps = format!(
            "stty rows 30 cols 100; stty -g > before
             (until grep -aq packets/s shown; do sleep 0.1; done; kill -{signal} $(cat watcher)) &
             sh -c 'echo $$ > watcher; exec env --default-signal=HUP,INT,TERM {PROGRAM} top nf.sock'
             stty -g > after"
        );
        std::fs::write(lab.path("steps"), steps).unwrap();
        std::fs::write(lab.path("shown"), "").unwrap();
        // `script` runs it on a terminal of its own.
        lab.run("nf", "script -qefc 'sh steps' shown").expect();
        let modes = |name: &str| std::fs::read_to_string(lab.path(name)).unwrap();
        let shown = modes("shown");
        assert_eq!(modes("before"), modes("after"), "{signal}");
        assert!(shown.contains("packets/s"), "{signal}: {shown}");
        for restored in ["\x1b[?1049l", "\x1b[?25h"] {
            assert!(shown.contains(restored), "{signal}: {shown:?}");
        }
    }
    nop.finish();
}

/// Whose terminal has gone reads nothing any more, and is told so by a signal alone.
#[test]
fn who_watches_ends_with_the_terminal() {
    let Some(lab) = Lab::of_two(Kind::AfPacket) else { return };
    let nop = lab.join("nop", "", ["lan", "wan"]);
    let steps = format!("stty rows 30 cols 100; echo $$ > watcher; exec {PROGRAM} top nf.sock");
    std::fs::write(lab.path("steps"), steps).unwrap();
    std::fs::write(lab.path("shown"), "").unwrap();
    // Who started the tests may have this signal ignored.
    let terminal = lab.serve("nf", "env --default-signal=HUP script -qefc 'sh steps' shown");
    let until = |what: &str| lab.run("nf", &format!("sh -c 'until {what}; do sleep 0.1; done'"));
    until("grep -aq packets/s shown").expect();
    drop(terminal);
    until("! grep -q top /proc/$(cat watcher)/cmdline").expect();
    nop.finish();
}

#[test]
fn a_run_without_an_end_does_not_fill_a_journal() {
    let Some(lab) = Lab::open(Kind::AfPacket) else { return };
    lab.ip("nf", "link add here type veth peer name there");
    for link in ["here", "there"] {
        lab.ip("nf", &format!("link set {link} up"));
    }
    let ports = "--port lan=afpacket:here --port wan=afpacket:there";
    let said = |how: &str| {
        lab.run("nf", &format!("sh -c '{how} 2> said > /dev/null'")).expect();
        let said = std::fs::read_to_string(lab.path("said")).unwrap();
        assert!(said.contains("nop: running: "), "{said}");
        said
    };
    let endless = said(&format!(
        "timeout --foreground -k 9 --preserve-status -s INT 5 {PROGRAM} run nop {ports}"
    ));
    assert!(!endless.contains("Mpps"), "{endless}");
    let ending = said(&format!("{PROGRAM} run nop {ports} --for 5"));
    assert!(ending.contains(" % done, "), "{ending}");
}

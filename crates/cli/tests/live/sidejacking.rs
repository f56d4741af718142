//! Sidejacking: a session that `nginx` has given to one host, and `curl` of another sends its cookie.

use std::fs;

use crate::lab::{Kind, Lab, assert_adds_up, log};
use crate::site;

const PORTS: [&str; 2] = ["clients", "servers"];
const STOLEN: &str = "10.0.0.3 uses a session of 10.0.0.2";

/// Has `host` log in; its cookies are in `jar`.
fn log_in(lab: &Lab, host: &str, jar: &str) {
    lab.run(host, &format!("curl -sS -f -c {jar} http://{}/login", site::SERVER)).expect();
    let cookies = fs::read_to_string(lab.path(jar)).unwrap();
    assert!(cookies.contains("PHPSESSID") && cookies.contains("lang"), "{cookies}");
}

/// Whether `host` gets to see what only those see who have logged in, three times over one connection.
fn sees(lab: &Lab, host: &str, jar: &str) -> bool {
    let url = format!("http://{}/inside/small?[1-3]", site::SERVER);
    let line = format!("curl -sS -f --fail-early --max-time 2 -b {jar} -o seen {url}");
    let _ = fs::remove_file(lab.path("seen"));
    !lab.run(host, &line).fails()
        && fs::read(lab.path("seen")).ok() == fs::read(lab.path("small")).ok()
}

fn one_session(kind: Kind) {
    let Some(lab) = site::open(kind, &["owner", "thief"], &[]) else { return };
    lab.file("small", 3_000);
    let reports = site::start(&lab, "sidejacking", "--set action=report", PORTS);
    let _server = lab.web("server", 80);
    log_in(&lab, "owner", "owner.jar");
    assert!(sees(&lab, "owner", "owner.jar"));
    assert!(!sees(&lab, "thief", "no.jar"), "it takes a session");
    assert!(sees(&lab, "thief", "owner.jar"), "nothing but the function is in his way");
    let report = reports.finish();
    assert_eq!(log(&report), [STOLEN; 3]);
    assert_adds_up(&report);

    let blocks = site::start_again(&lab, "sidejacking", "", PORTS);
    assert!(sees(&lab, "owner", "owner.jar"));
    assert!(!sees(&lab, "thief", "owner.jar"));
    assert!(sees(&lab, "owner", "owner.jar"), "the owner goes on");
    log_in(&lab, "thief", "thief.jar");
    assert!(sees(&lab, "thief", "thief.jar"), "he may have one of his own");
    assert!(!sees(&lab, "thief", "owner.jar"));
    let report = blocks.finish();
    // Each request, and as often as it was sent again.
    let stolen = report.drops["stolen-session"];
    assert!(stolen >= 2 && report.log.len() as u64 == stolen, "{stolen}: {:?}", report.log);
    assert!(log(&report).iter().all(|line| *line == STOLEN), "{:?}", report.log);
    assert_adds_up(&report);
}

#[test]
fn a_stolen_session_is_of_no_use_over_packet_sockets() {
    one_session(Kind::AfPacket);
}

#[test]
fn a_stolen_session_is_of_no_use_over_xdp() {
    one_session(Kind::Xdp);
}

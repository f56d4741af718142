//! The program: traffic written to a capture, a function run on it, captures that other programs
//! read.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::files::read;
use crate::traces;

fn anabranch(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(line.split_whitespace()).current_dir(folder).output().unwrap()
}

#[track_caller]
fn expect(folder: &Path, line: &str, code: i32) -> String {
    let output = anabranch(folder, line);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "anabranch {line}\n{error}");
    String::from_utf8(output.stdout).unwrap() + &error
}

const TRAFFIC: &str = "traffic flows=200,packets=5000,size=imix,tcp=0.5,ipv6=0.2,seed=5";

#[test]
fn traffic_runs_through_and_comes_out_valid() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    expect(folder, &format!("{TRAFFIC} --out inside=in.pcapng --out outside=out.pcap"), 0);
    let made = read(&folder.join("in.pcapng")).len() + read(&folder.join("out.pcap")).len();
    assert_eq!(made, 5_000);
    for ending in ["pcap", "pcapng"] {
        let line = format!(
            "run firewall --in inside=in.pcapng --in outside=out.pcap --out outside=o.{ending} \
             --out inside=i.{ending} --json report.json"
        );
        expect(folder, &line, 0);
        assert_is_format(&folder.join(format!("o.{ending}")), ending);
    }
    let packets = |name: &str| read(&folder.join(name));
    assert_eq!(packets("o.pcap"), packets("in.pcapng"), "all that is sent out passes");
    assert_eq!(packets("o.pcap"), packets("o.pcapng"));
    assert_eq!(packets("i.pcap"), packets("i.pcapng"));
    let report = fs::read_to_string(folder.join("report.json")).unwrap();
    assert!(report.contains("\"packets_read\": 5000"), "{report}");
}

/// The magic numbers of the formats, and another program's opinion where there is one.
fn assert_is_format(file: &Path, ending: &str) {
    let bytes = fs::read(file).unwrap();
    let magic: [u8; 4] = match ending {
        "pcap" => 0xa1b2_3c4d_u32.to_le_bytes(),
        _ => 0x0a0d_0d0a_u32.to_be_bytes(),
    };
    assert_eq!(bytes[..4], magic);
    match Command::new("capinfos").args(["-c", "-M", "-T", "-r"]).arg(file).output() {
        Ok(output) => {
            let text = String::from_utf8(output.stdout).unwrap();
            let counted = text.trim().rsplit('\t').next().and_then(|count| count.parse().ok());
            assert_eq!(counted, Some(read(file).len()), "{text}");
        }
        Err(_) => println!("skipped: capinfos is not installed"),
    }
}

#[test]
fn a_capture_run_through_nop_is_the_same_capture() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    expect(folder, &format!("{TRAFFIC} --out all.pcap"), 0);
    expect(folder, "run nop --in lan=all.pcap --out wan=out.pcap --workers 2", 0);
    assert!(
        fs::read(folder.join("all.pcap")).unwrap() == fs::read(folder.join("out.pcap")).unwrap()
    );
}

#[test]
fn other_link_types_have_their_own_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let other = traces::files().into_iter().find_map(|file| match traces::read(&file) {
        traces::Read::Other(file) => Some(file),
        traces::Read::Ethernet(_) => None,
    });
    if let Some(file) = other {
        let line = format!("run nop --in lan={} --out wan=out.pcap", file.display());
        let said = expect(folder.path(), &line, 5);
        assert!(said.contains("link type"), "{said}");
    }
}

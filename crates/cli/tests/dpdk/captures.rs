//! `net_pcap`: what leaves is, byte by byte, what leaves when the same captures are run over without DPDK.

use std::fs::{File, read};
use std::io::Read;
use std::path::Path;

use crate::{anabranch, has_dpdk, said};

/// The packets of a classic capture of this machine's byte order (as both write it), without their times.
fn packets(file: &Path) -> Vec<Vec<u8>> {
    const HEAD: usize = 24;
    const RECORD: usize = 16;
    let mut bytes = Vec::new();
    File::open(file).unwrap().read_to_end(&mut bytes).unwrap();
    let mut rest = &bytes[HEAD..];
    let mut packets = Vec::new();
    while let Some(record) = rest.get(..RECORD) {
        let len = u32::from_ne_bytes(record[8..12].try_into().unwrap()) as usize;
        packets.push(rest[RECORD..RECORD + len].to_vec());
        rest = &rest[RECORD + len..];
    }
    packets
}

/// Runs `nf` both ways.
fn compare(nf: &str) {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let run = |line: &str| {
        let output = anabranch(directory, line);
        assert!(output.status.success(), "{line}: {}", said(&output));
        output
    };
    run("traffic flows=300,packets=20000,size=imix --out in.pcap");
    run(&format!("run {nf} --in lan=in.pcap --out wan=expected.pcap"));
    run(&format!(
        "run {nf} --port lan=dpdk:net_pcap0,rx_pcap=in.pcap,tx_pcap=back.pcap \
         --port wan=dpdk:net_pcap1,tx_pcap=out.pcap --for 2 --json report.json"
    ));
    let (expected, out) =
        (packets(&directory.join("expected.pcap")), packets(&directory.join("out.pcap")));
    assert!(expected.len() > 10_000, "{}", expected.len());
    assert_eq!(out.len(), expected.len(), "{nf}");
    assert!(out == expected, "{nf}: what left is something else");
    assert_eq!(packets(&directory.join("back.pcap")).len(), 0);
    let report: serde_json::Value =
        serde_json::from_slice(&read(directory.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["packets_read"], 20_000);
    assert_eq!(report["ports"][0]["live"]["missed"], 0, "{report}");
}

#[test]
fn captures_are_forwarded_as_they_are() {
    if has_dpdk() {
        compare("nop");
    }
}

#[test]
fn captures_are_translated_as_without_dpdk() {
    if has_dpdk() {
        compare("nat --set public=[\"198.51.100.2\"]");
    }
}

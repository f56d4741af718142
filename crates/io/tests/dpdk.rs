//! DPDK's virtual devices, opened as ports are.
#![cfg(feature = "dpdk")]
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use anabranch_io::live::{LivePort, LiveSpec, OpenError, open};
use anabranch_packet::{Frame, Port};

fn try_open(device: &str, workers: usize) -> Result<LivePort, OpenError> {
    let spec: LiveSpec = format!("dpdk:{device}").parse().unwrap();
    open(&spec, Port::new(0), workers)
}

#[track_caller]
fn refusal(device: &str, workers: usize) -> String {
    try_open(device, workers).err().unwrap().to_string()
}

#[test]
fn errors_say_what_to_do() {
    let why = refusal("net_nosuch0", 1);
    println!("{why}");
    let why2 = refusal("net_null0,nonsense=1", 1);
    println!("{why2}");
    let why3 = refusal("net_af_packet0,iface=no-such-one", 1);
    println!("{why3}");
    let why3 = refusal("net_af_packet0", 1);
    println!("{why3}");
    let why3 = refusal("net_af_packet0,iface=lo", 2);
    println!("{why3}");
    let why3 = refusal("net_pcap0,rx_pcap=/nonexistent/a.pcap,tx_pcap=/tmp/x.pcap", 1);
    println!("{why3}");
    let why3 = refusal("0000:ff:00.0", 1);
    println!("{why3}");
    let ok = try_open("net_null3", 2).unwrap();
    println!("{}", ok.about);
}

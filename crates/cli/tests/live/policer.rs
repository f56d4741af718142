//! The policer: what comes through is what was set.

use crate::lab::{Kind, Lab};
use crate::traffic::ping;

const RATE_BPS: f64 = 20e6;
const SECONDS: f64 = 4.0;
/// In bytes; at that rate a tenth of a second's, for which the machine may let the function wait.
const BURST: f64 = 250_000.0;
/// Bytes of a datagram, and of the frame around it.
const PAYLOAD: f64 = 1_400.0;
const FRAME: f64 = PAYLOAD + 42.0;

fn measure(kind: Kind) {
    let Some(mut lab) = Lab::open(kind) else { return };
    lab.host("lan");
    lab.host("wan");
    let set = format!("--set rate_bps={RATE_BPS} --set burst_bytes={BURST}");
    let policer = lab.start("policer", &set, &[("lan", "lan"), ("wan", "wan")]);
    lab.ip("lan", "addr add 10.0.0.1/24 dev e");
    lab.ip("wan", "addr add 10.0.0.2/24 dev e");
    let _server = lab.iperf("lan");
    ping(&lab, "wan", "10.0.0.1", 56);
    let line = format!("iperf3 -c 10.0.0.1 -u -b 40M -l {PAYLOAD} -t {SECONDS} -J");
    let said: serde_json::Value = serde_json::from_str(&lab.run("wan", &line).expect()).unwrap();
    let sum = &said["end"]["sum"];
    let figure = |name: &str| sum[name].as_f64().unwrap();
    let received = figure("packets") - figure("lost_packets");
    let bits = (received * FRAME - BURST) * 8.0;
    let measured = bits / figure("seconds") / RATE_BPS;
    assert!((0.97..1.03).contains(&measured), "{measured} of the rate: {sum}");
    let report = policer.finish();
    let over = report.drops["over-rate"] as f64;
    // Nothing else is lost on the way.
    assert!(over >= figure("lost_packets") * 0.99, "{:?} {sum}", report.drops);
    crate::lab::assert_adds_up(&report);
}

#[test]
fn what_comes_through_is_what_was_set_over_packet_sockets() {
    measure(Kind::AfPacket);
}

#[test]
fn what_comes_through_is_what_was_set_over_xdp() {
    measure(Kind::Xdp);
}

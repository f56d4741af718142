//! At full rate, for a while: nothing leaks, nothing stalls, every packet is accounted for, by the kernel's own
//! counts too. `make soak` has it take twenty minutes.

use std::time::{Duration, Instant};

use crate::clients::{echo, flood};
use crate::lab::{Kind, Lab};
use crate::traffic::ping;

/// Seconds that each kind of port is at work, unless `LIVE_SOAK_S` says otherwise.
const SECONDS: u64 = 8;
/// How much more memory may be resident at the end than after a quarter of the time.
const GROWTH_KB: u64 = 2_048;

fn soak(kind: Kind) {
    let seconds = std::env::var("LIVE_SOAK_S").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(SECONDS));
    let Some(mut lab) = Lab::open(kind) else { return };
    lab.host("in");
    lab.host("out");
    // Flows end while it runs, and make room for others.
    let options = "--set udp_timeout_s=1 --set flows=16384";
    let firewall = lab.start("firewall", options, &[("inside", "in"), ("outside", "out")]);
    lab.ip("in", "addr add 10.0.0.1/24 dev e");
    lab.ip("out", "addr add 10.0.0.2/24 dev e");
    ping(&lab, "in", "10.0.0.2", 56);
    let mut echo = echo(&lab, "out", time);
    let mut flood = flood(&lab, "in", "10.0.0.2:7", time);
    let started = Instant::now();
    let (mut out, mut resident) = (firewall.report().packets_out, None);
    while started.elapsed() + Duration::from_secs(1) < time {
        std::thread::sleep(Duration::from_secs(1));
        let report = firewall.report();
        assert!(
            report.packets_out > out + 5_000,
            "it stalls after {:?}: {report:?}",
            started.elapsed()
        );
        out = report.packets_out;
        if started.elapsed() > time / 4 {
            resident.get_or_insert_with(|| firewall.resident_kb());
        }
    }
    let grown = firewall.resident_kb().saturating_sub(resident.unwrap());
    assert!(flood.wait().success() && echo.wait().success());
    std::thread::sleep(Duration::from_millis(500));
    let hosts = ["in", "out"].map(|host| (lab.sent(host), lab.received(host)));
    let report = firewall.finish();
    assert!(grown <= GROWTH_KB, "{grown} kB more after {time:?}");
    let dropped: u64 = report.drops.values().sum();
    assert_eq!(report.packets_read, report.packets_out + dropped, "{:?}", report.drops);
    assert!(report.workers.iter().all(|worker| worker.packets > 0), "{:?}", report.workers);
    for (port, (sent, received)) in report.ports.iter().zip(hosts) {
        let live = port.live.as_ref().unwrap();
        assert_eq!((live.link_downs, live.reopened), (0, 0));
        assert_eq!(sent, port.packets_read + live.missed, "{port:?}");
        assert_eq!(received, port.packets_out, "{port:?}");
    }
    println!(
        "{kind:?}: {:.3} Mpps for {time:?}, {} missed, {:?}, {grown} kB grown",
        report.mpps,
        report.ports.iter().filter_map(|port| Some(port.live.as_ref()?.missed)).sum::<u64>(),
        report.drops
    );
}

#[test]
fn nothing_leaks_or_stalls_over_packet_sockets() {
    soak(Kind::AfPacket);
}

#[test]
fn nothing_leaks_or_stalls_over_xdp() {
    soak(Kind::Xdp);
}

//! A NAT that shares nothing: every reply comes home to the worker that has its mapping, by the port
//! that was chosen for it, and packets between inside hosts change workers on the way.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anabranch_nfs::nat;
use anabranch_runtime::report::RunReport;

use crate::files::{read, run_captures, write_arrivals};
use crate::generated::traffic;
use crate::scenarios::settings;
use crate::sides::{Arrival, ends, view};
use crate::traces::Captured;

const PUBLIC: &str = "public = ['203.0.113.1', '203.0.113.2']";

/// The packets that left to the inside and to the outside.
fn translated(
    arrivals: &[Arrival],
    folder: &Path,
    workers: usize,
) -> (RunReport, [Vec<Captured>; 2]) {
    let inputs = write_arrivals(folder, arrivals);
    let (report, outputs) =
        run_captures::<nat::Function>(&settings(PUBLIC), &inputs, folder, workers);
    let strategy = if workers == 1 { "one-worker" } else { "shared-nothing" };
    assert_eq!(report.strategy, strategy, "{}", report.strategy_why);
    assert!(report.workers.iter().all(|worker| worker.packets > 0), "{:?}", report.workers);
    (report, [read(&outputs[0]), read(&outputs[1])])
}

/// The packet with both ends changed as `change` says, a millisecond later.
fn changed(packet: &Captured, src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16)) -> Captured {
    let mut packet = packet.clone();
    packet.at_ns += 1_000_000;
    view(&mut packet.bytes, packet.wire_len, |pkt| {
        pkt.set_source(src.0, src.1);
        pkt.set_destination(dst.0, dst.1);
    });
    packet
}

fn v4((address, port): (IpAddr, u16)) -> (Ipv4Addr, u16) {
    match address {
        IpAddr::V4(address) => (address, port),
        IpAddr::V6(_) => panic!("the traffic is IPv4"),
    }
}

#[test]
fn replies_come_home_and_inside_hosts_reach_each_other() {
    let mut outbound = traffic("flows=2000,packets=12000,tcp=0.4,seed=5");
    outbound.retain(|arrival| arrival.port == 0);
    let mut known: Option<Vec<Captured>> = None;
    for workers in [2, 3, 4] {
        let folder = tempfile::tempdir().unwrap();
        let (report, [_, left]) = translated(&outbound, folder.path(), workers);
        assert_eq!(left.len(), outbound.len(), "{:?}", report.drops);
        let publics: BTreeSet<_> =
            left.iter().map(|packet| ends(packet).unwrap()).map(|e| (e.protocol, e.src)).collect();
        let insides: BTreeSet<_> = outbound
            .iter()
            .map(|a| ends(&a.packet).unwrap())
            .map(|e| (e.protocol, e.src))
            .collect();
        assert_eq!(publics.len(), insides.len(), "one public endpoint for each inside one");
        // Shards do not depend on how many workers there are, and neither do their ports.
        assert!(*known.get_or_insert(left.clone()) == left, "{workers} workers");

        let mut all = outbound.clone();
        let (mut replies, mut calls) = (0, 0);
        // Calls open mappings too: after all others, so that these get the ports they had.
        let spent_ns = outbound[outbound.len() - 1].packet.at_ns - outbound[0].packet.at_ns;
        for (number, (packet, out)) in outbound.iter().zip(&left).enumerate() {
            let (inside, outside) = (ends(&packet.packet).unwrap(), ends(out).unwrap());
            let reply = changed(out, v4(outside.dst), v4(outside.src));
            all.push(Arrival { port: 1, packet: reply });
            replies += 1;
            if number % 7 == 0 {
                // Another inside host calls this one by its public endpoint.
                let (caller, port) = v4(inside.src);
                let caller = Ipv4Addr::from(u32::from(caller) ^ 0x0080_0000);
                let mut call = changed(&packet.packet, (caller, port), v4(outside.src));
                call.at_ns += spent_ns;
                all.push(Arrival { port: 0, packet: call });
                calls += 1;
            }
        }
        all.sort_by_key(|arrival| arrival.packet.at_ns);
        let folder = tempfile::tempdir().unwrap();
        let (report, [inward, _]) = translated(&all, folder.path(), workers);
        assert!(report.drops.is_empty(), "{workers} workers: {:?}", report.drops);
        assert_eq!(inward.len(), replies + calls);
        let reached: BTreeSet<_> = inward
            .iter()
            .map(|packet| ends(packet).unwrap())
            .map(|e| (e.protocol, e.dst))
            .collect();
        assert_eq!(reached, insides, "each inside endpoint has its replies");
        println!("nat, {workers} workers: {replies} replies and {calls} calls came home");
    }
}

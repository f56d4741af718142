//! Keys on real captures: what a NIC model sees in a frame is what the packet crate sees, and both
//! directions of a connection meet.

#![allow(clippy::print_stdout)] // says what is skipped

use std::collections::HashMap;
use std::path::PathBuf;

use anabranch_io::Trace;
use anabranch_nf::packet::{Frame, Meta, Packet, Port, parse};
use anabranch_rss::{
    Class, Field, Need, Nic, Problem, SampleFrame, Side, broken_needs, solve, solve_most,
};

use crate::checkout;

/// The captures of Ethernet frames; none, with a word about it, where they are not at hand.
fn traces() -> Vec<Trace> {
    let folder = checkout().join("../shared/traces");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: there are no captures in ../shared/traces");
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().filter_map(|file| Trace::from_capture(file, Port::new(0)).ok()).collect()
}

/// The class of a frame, and its addresses and ports, as the packet crate reads them; `None` for
/// what has no ports, and for what NICs see differently: tags, extension headers.
fn read(bytes: &[u8], wire_len: u32) -> Option<(Class, Vec<u8>)> {
    let layout = parse(bytes, wire_len);
    let mut copy = bytes.to_vec();
    let len = copy.len();
    let mut frame = Frame::new(&mut copy, 0, len, 0, Meta::default());
    let packet: Packet<'_> = Packet::new(&mut frame, layout);
    let ports = [packet.src_port()?.to_be_bytes(), packet.dst_port()?.to_be_bytes()].concat();
    if packet.vlan().is_some() || packet.is_fragment() {
        return None;
    }
    let (addresses, classes) = match (packet.ipv4(), packet.ipv6()) {
        (Some(ip), _) => {
            ([ip.src().octets(), ip.dst().octets()].concat(), [Class::Ipv4Tcp, Class::Ipv4Udp])
        }
        // Next header, without extensions before it.
        (_, Some(ip)) if bytes.get(20) == Some(&packet.protocol()) => {
            ([ip.src().octets(), ip.dst().octets()].concat(), [Class::Ipv6Tcp, Class::Ipv6Udp])
        }
        _ => return None,
    };
    let class = if packet.tcp().is_some() { classes[0] } else { classes[1] };
    Some((class, [addresses, ports].concat()))
}

#[test]
fn a_nic_model_sees_in_a_frame_what_the_packet_crate_sees() {
    let mut compared = 0;
    let traces = traces();
    for trace in &traces {
        for (index, record) in trace.records().iter().enumerate() {
            let bytes = trace.bytes(index);
            let Some((class, input)) = read(bytes, record.wire_len) else { continue };
            for nic in Nic::ALL {
                let seen = nic.parse(bytes);
                assert_eq!(seen.class(), class, "{nic:?} packet {index}");
                assert_eq!(seen.input(&nic.richest(class)), input, "{nic:?} packet {index}");
            }
            compared += 1;
        }
    }
    assert!(traces.is_empty() || compared > 40_000, "{compared} frames compared");
}

/// A connection: class, the lower end first.
type Connection = (Class, Vec<u8>, Vec<u8>);

fn connection(class: Class, input: &[u8]) -> Connection {
    let address = (input.len() - 4) / 2;
    let (addresses, ports) = input.split_at(2 * address);
    let src = [&addresses[..address], &ports[..2]].concat();
    let dst = [&addresses[address..], &ports[2..]].concat();
    if src < dst { (class, src, dst) } else { (class, dst, src) }
}

#[test]
fn both_directions_of_every_connection_meet() {
    let side = |class| Side { port: 0, class };
    let traces = traces();
    for (seed, nic) in Nic::ALL.into_iter().enumerate() {
        let classes = [Class::Ipv4Tcp, Class::Ipv4Udp, Class::Ipv6Tcp, Class::Ipv6Udp];
        let needs = classes.map(|c| Need::reply(side(c), side(c), &c.fields()[2..]));
        let problem = Problem { needs: needs.into(), seed: seed as u64, ..Problem::new(&[nic]) };
        let solution = solve(&problem).unwrap();
        let mut entries: HashMap<Connection, u32> = HashMap::new();
        let mut used = std::collections::BTreeSet::new();
        for trace in &traces {
            for (index, record) in trace.records().iter().enumerate() {
                let bytes = trace.bytes(index);
                let Some((class, input)) = read(bytes, record.wire_len) else { continue };
                let entry = solution.entry(0, bytes);
                let first = *entries.entry(connection(class, &input)).or_insert(entry);
                assert_eq!(first, entry, "{nic:?} packet {index}: {input:?}");
                used.insert(entry);
            }
        }
        assert!(traces.is_empty() || used.len() > 100, "{nic:?}: {} entries", used.len());
    }
}

/// A key chosen with a real capture as the sample still meets all needs, also where only part of
/// the classes can be served.
#[test]
fn keys_for_real_traffic_keep_what_must_meet() {
    let policer = [Class::Ipv4Tcp, Class::Ipv4Udp, Class::Ipv6Tcp, Class::Ipv6Udp].map(|class| {
        let side = Side { port: 0, class };
        let dst = if class.name().starts_with("ipv4") { Field::Ipv4Dst } else { Field::Ipv6Dst };
        Need::same(side, &[dst])
    });
    let nic = Nic::named("x710").unwrap();
    for trace in traces().into_iter().step_by(20) {
        let frame = |index| SampleFrame { port: 0, bytes: trace.bytes(index).to_vec() };
        let sample = (0..trace.len().min(500)).map(frame).collect();
        let problem = Problem { needs: policer.to_vec(), sample, ..Problem::new(&[nic]) };
        let most = solve_most(&problem).unwrap();
        assert_eq!(most.left_out.len(), 2);
        let out: Vec<Side> = most.left_out.iter().map(|class| class.side).collect();
        for broken in broken_needs(&problem, &most.solution).unwrap() {
            assert!(out.contains(&problem.needs[broken.need].sides[0]));
        }
    }
}

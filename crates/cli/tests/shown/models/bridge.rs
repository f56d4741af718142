//! A learning bridge (IEEE 802.1Q, clauses 8.6 to 8.8) with ages in whole seconds.

use std::collections::HashMap;

use anabranch_io::traffic::Random;
use anabranch_nfs::bridge;
use anabranch_packet::MacAddr;
use anabranch_runtime::testing::{Harness, START_NS};

use super::packets::ethernet;
use super::{SECOND, one, pause};

const PORTS: u8 = 4;

struct Model {
    ageing_s: u64,
    refresh_s: u64,
    /// Port, and the second in which the station was last noted.
    stations: HashMap<MacAddr, (u8, u64)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    To(Vec<u8>),
    Dropped(&'static str),
}

impl Model {
    fn verdict(&mut self, port: u8, src: MacAddr, dst: MacAddr, now_s: u64) -> Verdict {
        if dst.octets()[..5] == [1, 0x80, 0xc2, 0, 0] && dst.octets()[5] < 16 {
            return Verdict::Dropped("reserved-address");
        }
        if src.octets()[0] & 1 == 1 {
            return Verdict::Dropped("group-source");
        }
        let ageing_s = self.ageing_s;
        self.stations.retain(|_, (_, heard_s)| now_s < *heard_s + ageing_s);
        match self.stations.get(&src) {
            Some((known, heard_s)) if *known == port && now_s - heard_s <= self.refresh_s => {}
            _ => drop(self.stations.insert(src, (port, now_s))),
        }
        let others = (0..PORTS).filter(|&other| other != port).collect();
        match self.stations.get(&dst) {
            Some((known, _)) if *known == port => Verdict::Dropped("same-port"),
            Some((known, _)) => Verdict::To(vec![*known]),
            None => Verdict::To(others),
        }
    }
}

fn station(random: &mut Random) -> MacAddr {
    match random.below(30) {
        0 => MacAddr::new(1, 0x80, 0xc2, 0, 0, random.below(20) as u8),
        1 => MacAddr::new(0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
        2 => MacAddr::new(1, 0, 0x5e, 0, 0, 1),
        _ => MacAddr::new(2, 0, 0, 0, 0, random.below(12) as u8),
    }
}

#[test]
fn the_bridge_knows_who_is_where() {
    let mut totals = [0; 4];
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let (ageing_s, refresh_s) = one(&mut random, &[(10, 0), (10, 3), (300, 0), (300, 100)]);
        let settings = [format!("ageing_s={ageing_s}"), format!("refresh_interval_s={refresh_s}")];
        let mut nf = Harness::<bridge::Function>::new(&[&settings[0], &settings[1]]);
        let mut model = Model { ageing_s, refresh_s, stations: HashMap::new() };
        let mut now_ns = 0;
        for number in 0..2_000 {
            now_ns += pause(&mut random, &[1, 1, ageing_s]);
            nf.at(now_ns);
            let (src, dst) = (station(&mut random), station(&mut random));
            // Stations move now and then.
            let home = src.octets()[5] % PORTS;
            let port = if random.chance(0.05) { random.below(4) as u8 } else { home };
            let outcome = nf.send(port, &ethernet(src, dst));
            let expected = model.verdict(port, src, dst, (START_NS + now_ns) / SECOND);
            let ports = outcome.forwarded().iter().map(|(port, _)| *port).collect();
            let verdict = outcome.dropped().map_or(Verdict::To(ports), Verdict::Dropped);
            assert_eq!(verdict, expected, "seed {seed}, packet {number}: {src} to {dst} on {port}");
            totals[match &verdict {
                Verdict::To(ports) => ports.len() / 2,
                Verdict::Dropped("same-port") => 2,
                Verdict::Dropped(_) => 3,
            }] += 1;
        }
    }
    assert!(totals.iter().all(|&count| count > 3_000), "{totals:?}");
}

/// Stations for which there is no room are not learnt: frames to them go everywhere, others are not
/// disturbed.
#[test]
fn a_full_bridge_floods() {
    let mut nf = Harness::<bridge::Function>::new(&["stations=8", "ageing_s=300"]);
    let station = |number: u8| MacAddr::new(2, 0, 0, 0, 0, number);
    for number in 0..20 {
        nf.at(u64::from(number) * SECOND);
        nf.send(number % PORTS, &ethernet(station(number), station(200)));
    }
    for number in 0..20 {
        let sent_from = (number + 1) % PORTS;
        let outcome = nf.send(sent_from, &ethernet(station(201), station(number)));
        let ports = if number < 8 { 1 } else { 3 };
        assert_eq!(outcome.forwarded().len(), ports, "station {number}");
    }
    nf.at(400 * SECOND);
    for _ in 0..8 {
        nf.send(0, &ethernet(station(201), station(200)));
    }
    nf.send(1, &ethernet(station(19), station(200)));
    assert_eq!(nf.send(0, &ethernet(station(201), station(19))).forwarded().len(), 1);
}

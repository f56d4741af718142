//! A function of which a later release keeps more goes on with what an earlier one has stored.

use anabranch_nf::NetworkFunction;
use anabranch_packet::craft::{Link, udp};
use anabranch_plan::Strategy;
use anabranch_runtime::report::RunReport;
use anabranch_runtime::run::{RunError, run};

use super::case::{Case, Sent, planned};

/// Has packets of a host go on from the third one; of one that it takes for idle none does.
mod first {
    use anabranch_nf::prelude::network_function;

    #[network_function(ports(inside, outside))]
    pub mod tally {
        pub enum Phase {
            New,
            Known,
        }
        pub struct Host {
            phase: Phase,
            packets: u16,
        }
        pub struct Tally {
            #[capacity(512)]
            hosts: Map<Ipv4Addr, Host>,
        }
        impl Tally {
            fn packet(&mut self, pkt: &mut Packet, _cx: &mut Context) -> Verdict {
                let Some(ip) = pkt.ipv4() else { return Drop(Builtin::UnsupportedProtocol) };
                let src = ip.src();
                let Some(host) = self.hosts.get(&src) else {
                    self.hosts.insert(src, Host { phase: Phase::New, packets: 1 });
                    return Forward(INSIDE);
                };
                let packets = host.packets + 1;
                self.hosts.insert(src, Host { phase: Phase::Known, packets });
                if packets > 2 { Forward(OUTSIDE) } else { Forward(INSIDE) }
            }
        }
    }
}

/// The same, which counts further, and more.
mod second {
    use anabranch_nf::prelude::network_function;

    #[network_function(ports(inside, outside))]
    pub mod tally {
        pub enum Phase {
            New,
            Idle,
            Known,
        }
        pub struct Host {
            packets: u64,
            late: bool,
            phase: Phase,
        }
        pub struct Tally {
            #[capacity(512)]
            hosts: Map<Ipv4Addr, Host>,
        }
        impl Tally {
            fn packet(&mut self, pkt: &mut Packet, _cx: &mut Context) -> Verdict {
                let Some(ip) = pkt.ipv4() else { return Drop(Builtin::UnsupportedProtocol) };
                let src = ip.src();
                let Some(host) = self.hosts.get(&src) else {
                    self.hosts.insert(src, Host { packets: 1, late: true, phase: Phase::New });
                    return Forward(INSIDE);
                };
                let packets = host.packets + 1;
                self.hosts.insert(src, Host { packets, late: host.late, phase: Phase::Known });
                if host.late || host.phase == Phase::Idle {
                    return Drop(Builtin::UnsupportedProtocol);
                }
                if packets > 2 { Forward(OUTSIDE) } else { Forward(INSIDE) }
            }
        }
    }
}

/// The first again, with another variant: names and bytes are what they were.
mod third {
    use anabranch_nf::prelude::network_function;

    #[network_function(ports(inside, outside))]
    pub mod tally {
        pub enum Phase {
            New,
            Idle,
        }
        pub struct Host {
            phase: Phase,
            packets: u16,
        }
        pub struct Tally {
            #[capacity(512)]
            hosts: Map<Ipv4Addr, Host>,
        }
        impl Tally {
            fn packet(&mut self, pkt: &mut Packet, _cx: &mut Context) -> Verdict {
                let Some(ip) = pkt.ipv4() else { return Drop(Builtin::UnsupportedProtocol) };
                self.hosts.insert(ip.src(), Host { phase: Phase::Idle, packets: 1 });
                Forward(OUTSIDE)
            }
        }
    }
}

/// Of which hosts were kept once, and are no more.
mod fourth {
    use anabranch_nf::prelude::network_function;

    #[network_function(ports(inside, outside))]
    pub mod tally {
        pub struct Tally {
            #[capacity(512)]
            seen: Map<Ipv4Addr, u16>,
        }
        impl Tally {
            fn packet(&mut self, pkt: &mut Packet, _cx: &mut Context) -> Verdict {
                let Some(ip) = pkt.ipv4() else { return Drop(Builtin::UnsupportedProtocol) };
                self.seen.insert(ip.src(), 1);
                Forward(OUTSIDE)
            }
        }
    }
}

/// `each` packets of 200 hosts.
fn packets(each: u64) -> Sent {
    let packet = |number: u64| {
        let host = number % 200;
        let from = format!("10.0.{}.{}:5", host / 100, host % 100 + 1).parse().unwrap();
        let mut bytes = [0; 128];
        let to = "198.51.100.1:53".parse().unwrap();
        let len = udp(&mut bytes, &Link::default(), from, to, &[0; 20]).unwrap();
        (0, 1_767_225_600_000_000_000 + number * 1_000_000, bytes[..len].to_vec())
    };
    (0..200 * each).map(packet).collect()
}

fn goes_on<N: NetworkFunction>(
    case: &Case,
    part: usize,
    workers: usize,
) -> Result<RunReport, RunError> {
    run::<N>(&case.options::<N>(part, workers, true), &mut |_, _| {})
}

#[test]
fn a_later_release_goes_on_with_the_state_of_an_earlier_one() {
    for (strategy, workers) in [
        (None, 1),
        (Some(Strategy::SharedNothing), 2),
        (Some(Strategy::Lock), 2),
        (Some(Strategy::Transactional), 2),
    ] {
        let mut case = Case::of::<first::tally::Function>("");
        case.plan = strategy.map(|strategy| planned::<first::tally::Function>(Some(strategy)));
        case.write_packets::<first::tally::Function>(&packets(4), 2);
        let (_, sent) = case.run::<first::tally::Function>(1, workers, true);
        assert!(sent.len() == 400 && sent.iter().all(|(port, ..)| *port == 0));
        for round in 0..2 {
            let report = goes_on::<second::tally::Function>(&case, 2, workers).unwrap();
            let out: Vec<u64> = report.ports.iter().map(|port| port.packets_out).collect();
            assert_eq!(out, [0, 400], "{strategy:?} {round}: {:?}", report.drops);
            let told = report.warnings.join("\n");
            let says = "200 stored entries of `hosts` are of another release of this function, and are read: \
                        `.late` is new, and zero";
            assert_eq!(told, if round == 0 { says } else { "" }, "{strategy:?}");
        }
        let refused = goes_on::<first::tally::Function>(&case, 2, workers).err().unwrap();
        assert!(refused.to_string().contains("and here they are"), "{refused}");
    }
}

#[test]
fn what_only_seems_to_be_the_same_is_refused() {
    let case = Case::of::<first::tally::Function>("");
    case.write_packets::<first::tally::Function>(&packets(4), 2);
    case.run::<first::tally::Function>(1, 1, true);
    let refused = goes_on::<third::tally::Function>(&case, 2, 1).err().unwrap();
    assert!(refused.to_string().contains("phase 2<New, Idle>"), "{refused}");
}

/// It is not for want of room in a table that it does not have.
#[test]
fn what_a_release_keeps_no_more_is_named_and_stays_for_the_release_before() {
    for workers in [1, 2] {
        let case = Case::of::<first::tally::Function>("");
        case.write_packets::<first::tally::Function>(&packets(4), 2);
        case.run::<first::tally::Function>(1, workers, true);
        let report = goes_on::<fourth::tally::Function>(&case, 2, workers).unwrap();
        let says = "200 stored entries of `hosts` are not read: this release of the function keeps nothing of this \
                    name; they stay in the store";
        assert_eq!(report.warnings, [says], "{workers} workers");
        let report = goes_on::<first::tally::Function>(&case, 2, workers).unwrap();
        let out: Vec<u64> = report.ports.iter().map(|port| port.packets_out).collect();
        assert_eq!(out, [0, 400], "{workers} workers");
        let told = report.warnings.join("\n");
        assert!(
            told.contains("stored entries of `seen` are not read"),
            "{workers} workers: {told}"
        );
    }
}

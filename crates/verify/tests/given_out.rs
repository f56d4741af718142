//! What a NAT may have given out is not asked for unasked, wherever its ports begin and from wherever.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use anabranch_nfs::nat::Function;
use anabranch_packet::craft::{self, Link};
use anabranch_plan::{Options, Plan};
use anabranch_rss::Nic;
use anabranch_runtime::deployment::plan_of;
use anabranch_verify::{Act, Effort, Fault, Mutation, Program, Setup, Step, Subject, Template};
use anabranch_verify::{example, verify};

fn planned() -> Plan {
    plan_of::<Function>(&Options::new(Nic::named("e810").unwrap())).unwrap()
}

/// Seeds that differ under these settings, where first packets of `ends`, from whom to whom, come from inside.
fn differences(
    settings: &str,
    packets: usize,
    ends: &[(&str, &str)],
    mutation: Option<&Mutation>,
) -> u64 {
    let (plan, workers) = (&planned(), 4);
    let settings = format!("public = [\"203.0.113.1\"]\n{settings}").parse().unwrap();
    let setup = Setup::exemplified::<Function>(settings, example("nat"));
    let avoid = setup.clone().under::<Function>(plan, None).allocated;
    let steps = ends.iter().zip(0..).map(|((from, to), name)| {
        let mut out = vec![0; 100];
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        let len = craft::udp(&mut out, &Link::default(), from, to, b"a").unwrap();
        out.truncate(len);
        Step { name, act: Act::Packet(Template::literal(0, out)) }
    });
    let programs = [Program { steps: steps.collect(), avoid }];
    let programs = if ends.is_empty() { &[][..] } else { &programs };
    let subject = Subject { setup: &setup, plan, workers, mutation, programs, paths: None };
    let effort = Effort { packets, seeds: 3, first_seed: 1, rest: 0 };
    let found = verify::<Function>(&subject, effort, &mut |_| {}).unwrap();
    if let Some(difference) = &found.difference {
        println!("seed {}\n{}", difference.seed, difference.to_text());
    }
    assert!(found.differences > 0 || found.packets >= 3 * packets, "{}", found.packets);
    found.differences
}

#[test]
fn ports_that_begin_low_are_given_out_too() {
    let planted = Mutation::Runtime(Fault::MovesShards);
    for settings in ["first_port = 1000", "first_port = 2\nlast_port = 1023", "first_port = 4"] {
        assert_eq!(differences(settings, 20_000, &[], None), 0, "{settings}");
        assert_eq!(differences(settings, 20_000, &[], Some(&planted)), 3, "{settings}");
    }
}

/// As from outside.
#[test]
fn what_is_asked_for_from_within_is_chance_too() {
    let hosts: Vec<String> = (1..=40).map(|host| format!("10.0.0.{host}:5000")).collect();
    let publics: Vec<String> = (1_024..1_224).map(|port| format!("203.0.113.1:{port}")).collect();
    let opening = hosts.iter().map(|host| (host.as_str(), "198.51.100.1:53"));
    let asking = publics.iter().map(|public| ("10.0.0.200:5000", public.as_str()));
    let packets: Vec<(&str, &str)> = opening.chain(asking).collect();
    assert_eq!(differences("last_port = 1223", 240, &packets, None), 0);
}

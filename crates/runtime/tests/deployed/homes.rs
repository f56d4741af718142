//! Where steered values are at home: each shard has as many as another, and what lies under values near one
//! another is one worker's.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anabranch_nf::packet::MacAddr;
use anabranch_nf::packet::craft::{Link, udp};
use anabranch_nfs::nat;
use anabranch_packet::Port;
use anabranch_plan::Options;
use anabranch_rss::Nic;
use anabranch_runtime::deployment::{Deployment, plan_of};

const FIRST: u16 = 1_024;
const WAN: Port = Port::new(1);

fn deployed(nic: &str, workers: usize) -> Deployment {
    let plan = plan_of::<nat::Function>(&Options::new(Nic::named(nic).unwrap())).unwrap();
    let settings = "public = ['203.0.113.1']".parse().unwrap();
    let ports = ["lan".to_owned(), "wan".to_owned()];
    Deployment::new::<nat::Function>(&plan, &settings, &ports, workers).unwrap()
}

/// The shard of what comes to each port of the NAT's address.
fn shards(deployment: &Deployment) -> Vec<u32> {
    let mac = |last| MacAddr::new(2, 0, 0, 0, 0, last);
    let link = Link { src: mac(1), dst: mac(2), tags: [None; 2] };
    let from = SocketAddr::from(([198, 51, 100, 7], 53));
    let mut bytes = [0; 200];
    let mut shard = |port| {
        let to = SocketAddr::from(([203, 0, 113, 1], port));
        let len = udp(&mut bytes, &link, from, to, b"anabranch").unwrap();
        deployment.steering.shard(WAN, &bytes[..len], len as u32)
    };
    (FIRST..=u16::MAX).map(&mut shard).collect()
}

#[test]
fn shards_have_as_many_values_to_within_a_sixteenth() {
    for nic in ["e810", "82599", "x710", "cx5", "software"] {
        let deployment = deployed(nic, 1);
        let mut sizes = vec![0u32; deployment.steering.shards()];
        shards(&deployment).iter().for_each(|&shard| sizes[shard as usize] += 1);
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(least * 16 >= most * 15, "{nic}: {least} to {most}");
    }
}

#[test]
fn values_near_one_another_are_one_workers() {
    for nic in ["e810", "82599", "x710", "cx5", "software"] {
        for workers in [2, 3, 4, 6, 8, 12, 16] {
            let deployment = deployed(nic, workers);
            let shards = shards(&deployment);
            // A page of state: 64 values with 64 bytes each, 512 with 8; and how many workers may touch it, on
            // the average.
            for (near, most) in [(64, 1.2), (512, 2.0)] {
                let owners = |block: &[u32]| {
                    let owners = block.iter().map(|&shard| deployment.table.worker(shard));
                    owners.collect::<BTreeSet<u16>>().len()
                };
                let blocks = shards.chunks(near).map(owners);
                let pages = blocks.len() as f64;
                let touched = blocks.sum::<usize>() as f64;
                assert!(touched <= most * pages, "{nic}, {workers} workers: {touched} of {pages}");
            }
        }
    }
}

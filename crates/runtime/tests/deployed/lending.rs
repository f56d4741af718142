//! Shards that lend one another values: a NAT on several workers gives out every port that one core
//! would, and every answer finds its way.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anabranch_nf::packet::MacAddr;
use anabranch_nf::packet::craft::{Link, udp};
use anabranch_nf::state::ShardSet;
use anabranch_nf::{DropReason, NetworkFunction};
use anabranch_nfs::nat;
use anabranch_packet::{Frame, Meta, Packet, Port, parse};
use anabranch_plan::{Options, Plan};
use anabranch_rss::Nic;
use anabranch_runtime::deployment::{Deployment, plan_of};
use anabranch_runtime::instance::{Instance, Making, Release};
use anabranch_runtime::mailbox::{Again, Parcel};

const LAN: u8 = 0;
const WAN: u8 = 1;
const START_NS: u64 = 1_700_000_000_000_000_000;
const PORTS: usize = 96;
const PUBLIC: [u8; 4] = [203, 0, 113, 1];
const SERVER: ([u8; 4], u16) = ([198, 51, 100, 7], 53);

/// The workers of a NAT that has 96 ports for its 512 shards.
struct Workers {
    deployment: Deployment,
    instances: Vec<Instance<nat::Function>>,
    sent: u64,
    now_ns: u64,
}

/// What becomes of a packet at one worker.
enum Became {
    Forwarded(Vec<u8>),
    Dropped(&'static str),
    HandedOver(Parcel, u16),
}

#[derive(Default)]
struct Only(Option<Became>);

impl Release for Only {
    fn forward(&mut self, frame: &Frame<'_>, _: Port) {
        self.0 = Some(Became::Forwarded(frame.bytes().to_vec()));
    }

    fn flood(&mut self, _: &Frame<'_>) {
        unreachable!("a NAT does not flood");
    }

    fn discard(&mut self, _: &Frame<'_>, reason: DropReason) {
        self.0 = Some(Became::Dropped(reason.word(nat::Function::REASONS)));
    }

    fn hand_over(&mut self, frame: &Frame<'_>, worker: u16, again: Again) {
        let mut parcel = Parcel::default();
        parcel.push(frame, Some(again));
        self.0 = Some(Became::HandedOver(parcel, worker));
    }

    fn emit(&mut self, _: &Meta, _: Port, _: &[u8]) {
        unreachable!("it has no interfaces");
    }
}

fn plan() -> Plan {
    plan_of::<nat::Function>(&Options::new(Nic::named("e810").unwrap())).unwrap()
}

impl Workers {
    fn new(plan: &Plan, count: usize) -> Self {
        let settings = format!(
            "public = ['203.0.113.1']\nfirst_port = 2048\nlast_port = {}",
            2048 + PORTS - 1
        );
        let making = Making {
            seed: 3,
            settings: settings.parse().unwrap(),
            ports: vec!["lan".to_owned(), "wan".to_owned()],
            ..Making::default()
        };
        let deployment =
            Deployment::new::<nat::Function>(plan, &making.settings, &making.ports, count).unwrap();
        let mut instances = deployment.instances(&making).unwrap();
        instances.iter_mut().for_each(|instance| instance.start(START_NS));
        Self { deployment, instances, sent: 0, now_ns: START_NS }
    }

    /// What comes out, and how often the packet was handed over.
    fn send(
        &mut self,
        port: u8,
        from: ([u8; 4], u16),
        to: ([u8; 4], u16),
    ) -> (Result<Vec<u8>, &'static str>, u32) {
        let mac = |last| MacAddr::new(2, 0, 0, 0, 0, last);
        let link = Link { src: mac(1), dst: mac(2), tags: [None; 2] };
        let socket = |(address, port)| SocketAddr::new(Ipv4Addr::from(address).into(), port);
        let mut bytes = vec![0; 200];
        let len = udp(&mut bytes, &link, socket(from), socket(to), b"anabranch").unwrap();
        bytes.truncate(len);
        let port = Port::new(port);
        let shard = self.deployment.steering.shard(port, &bytes, len as u32);
        let meta = Meta {
            arrival_ns: self.now_ns,
            number: self.sent,
            steering_hash: shard,
            wire_len: len as u32,
            port,
            ..Meta::default()
        };
        self.sent += 1;
        let (mut worker, mut times) = (self.deployment.table.worker(shard), 0);
        let mut parcel = Parcel::default();
        parcel.push(&Frame::new(&mut bytes, 0, len, 0, meta), None);
        loop {
            let (mut only, now_ns) = (Only::default(), self.now_ns);
            let instance = &mut self.instances[usize::from(worker)];
            parcel.open(|frame, again| {
                assert_eq!(frame.meta().arrival_ns, now_ns, "whoever had it before was ahead");
                match again {
                    Some(again) => instance.accept(frame, again, &mut only),
                    None => drop(instance.handle(std::slice::from_mut(frame), &mut only)),
                }
            });
            match only.0.unwrap() {
                Became::Forwarded(bytes) => return (Ok(bytes), times),
                Became::Dropped(why) => return (Err(why), times),
                Became::HandedOver(handed, to) => {
                    (parcel, worker) = (handed, to);
                    times += 1;
                }
            }
        }
    }

    /// The public port that `inside` gets.
    fn open(&mut self, inside: ([u8; 4], u16)) -> Result<u16, &'static str> {
        let (left, times) = self.send(LAN, inside, SERVER);
        assert_eq!(times, 0, "who opens stays where it is");
        left.map(|left| ends(left).0.1)
    }

    /// Where an answer to `public` comes to, and how often it was handed over.
    fn answer(&mut self, public: u16) -> (Result<([u8; 4], u16), &'static str>, u32) {
        let (left, times) = self.send(WAN, SERVER, (PUBLIC, public));
        (left.map(|left| ends(left).1), times)
    }

    /// Gives every shard to the next worker.
    fn move_shards(&mut self) {
        let count = self.instances.len() as u16;
        let before = Arc::clone(&self.deployment.table);
        let table = Arc::make_mut(&mut self.deployment.table);
        for shard in 0..table.shards() as u16 {
            table.move_shard(shard, (before.worker(shard.into()) + 1) % count).unwrap();
        }
        let table = Arc::clone(&self.deployment.table);
        let bundles: Vec<_> = (0..count)
            .map(|worker| {
                let instance = &mut self.instances[usize::from(worker)];
                instance.adopt(Arc::clone(&table), ShardSet::default());
                let all = 0..table.shards() as u16;
                let own = all.filter(|&shard| before.worker(shard.into()) == worker);
                instance.take_shards(own.collect())
            })
            .collect();
        for (worker, bundle) in (0..count).zip(bundles) {
            self.instances[usize::from((worker + 1) % count)].put_shards(bundle);
        }
    }
}

/// Source and destination of a frame.
fn ends(mut bytes: Vec<u8>) -> (([u8; 4], u16), ([u8; 4], u16)) {
    let (len, layout) = (bytes.len(), parse(&bytes, bytes.len() as u32));
    let mut frame = Frame::new(&mut bytes, 0, len, 0, Meta::default());
    let packet: Packet<'_> = Packet::new(&mut frame, layout);
    let ip = packet.ipv4().unwrap();
    let ports = (packet.src_port().unwrap(), packet.dst_port().unwrap());
    ((ip.src().octets(), ports.0), (ip.dst().octets(), ports.1))
}

fn inside(number: usize) -> ([u8; 4], u16) {
    ([10, 0, 0, (number % 7) as u8 + 1], 30_000 + number as u16)
}

/// Every port is given out, and no more; an answer to each finds its host.
fn all_ports_are_used(workers: &mut Workers, shift: usize) -> u32 {
    let mut given = BTreeMap::new();
    for number in shift..shift + PORTS {
        let public = workers.open(inside(number)).unwrap();
        assert!(given.insert(public, inside(number)).is_none(), "{public} was given twice");
    }
    assert_eq!(workers.open(inside(shift + PORTS)), Err("ports-exhausted"));
    let mut handed_over = 0;
    for (&public, &inside) in &given {
        let (came_to, times) = workers.answer(public);
        assert_eq!(came_to, Ok(inside));
        assert_eq!(workers.open(inside), Ok(public), "the mapping is the same ever after");
        handed_over += times;
    }
    handed_over
}

#[test]
fn a_nat_gives_out_every_port_and_every_answer_finds_its_way() {
    let plan = plan();
    for count in [1, 2, 5] {
        let mut workers = Workers::new(&plan, count);
        let handed_over = all_ports_are_used(&mut workers, 0);
        assert_eq!(handed_over > 20, count > 1, "{count} workers: {handed_over}");
        workers.move_shards();
        for number in 0..PORTS {
            let public = workers.open(inside(number)).unwrap();
            assert_eq!(workers.answer(public).0, Ok(inside(number)), "after shards have moved");
        }
        // Mappings end, and their ports go to others: what is over is collected as packets come.
        workers.now_ns += 400_000_000_000;
        for public in 2048..2048 + PORTS as u16 {
            assert_eq!(workers.answer(public).0, Err("unsolicited"));
        }
        for _ in 0..4 * PORTS {
            assert_eq!(workers.answer(9).0, Err("unsolicited"));
        }
        all_ports_are_used(&mut workers, 5 * PORTS);
    }
}

#[test]
fn where_the_plan_says_so_nothing_is_lent() {
    let mut plan = plan();
    plan.steered[0].lends = false;
    let mut workers = Workers::new(&plan, 2);
    let refused = (0..PORTS).filter(|&number| workers.open(inside(number)).is_err()).count();
    assert!(refused > PORTS / 2, "{refused}");
}

/// Over captures workers are at different times. A packet that two hand over comes to the third as it arrived, however
/// far the second is ahead, so that nothing of the third's ends before its time.
#[test]
fn who_is_ahead_takes_nobody_along() {
    let mut workers = Workers::new(&plan(), 4);
    let given: Vec<u16> = (0..PORTS).map(|n| workers.open(inside(n)).unwrap()).collect();
    let mut handed_over_twice = 0;
    for (ahead, &public) in given.iter().enumerate() {
        // Less than a mapping lasts.
        let later = Meta { arrival_ns: workers.now_ns + 100_000_000_000, ..Meta::default() };
        workers.instances[ahead % 4].advance(&later, &mut Only::default());
        let (left, times) = workers.send(LAN, inside(ahead), (PUBLIC, public));
        assert_eq!(left.map(ends), Ok(((PUBLIC, public), inside(ahead))));
        handed_over_twice += u32::from(times > 1);
        workers.now_ns += 1;
    }
    assert!(handed_over_twice > 10, "{handed_over_twice}");
}

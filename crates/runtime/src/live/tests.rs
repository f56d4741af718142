//! Workers over queues that are lists: whatever the queues, packets come to their owners in order, and each is
//! accounted for.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anabranch_io::live::{LivePort, LiveSpec, Opened, Queue, QueueStatistics, Sent};
use anabranch_io::port::{FreeBuffers, HEADROOM, Pool};
use anabranch_nf::NetworkFunction;
use anabranch_nfs::{firewall, nat};
use anabranch_packet::craft::{Link, udp};
use anabranch_packet::{Frame, Meta, Port};
use anabranch_plan::Options as Planning;
use anabranch_rss::Nic;
use anabranch_store::{Durability, Flusher, Location, Settings};

use super::clock::LiveClock;
use super::{Begun, begin};
use super::{Crew, Moment, Watched, Workplace};
use crate::account::Account;
use crate::balance::Balancing;
use crate::deployment::plan_of;
use crate::instance::Making;
use crate::keeping::Keeping;
use crate::report::RunReport;
use crate::run::{Arrangement, Options};

/// What left by a port, in order.
type Left = Arc<Mutex<Vec<Vec<u8>>>>;

/// A queue whose packets are given.
struct Listed {
    port: Port,
    packets: VecDeque<Vec<u8>>,
    left: Left,
    pool: Pool,
    /// Packets that there is room to send.
    room: u64,
    /// Time from one batch to the next.
    pace: Duration,
    late: Late,
}

/// Packets that come when the run is told to end, every other time that the queue is looked at.
#[derive(Default)]
struct Late {
    ending: Arc<AtomicBool>,
    packets: VecDeque<Vec<u8>>,
    looks: usize,
}

struct ListedQueue<'m> {
    port: Port,
    late: &'m mut Late,
    packets: &'m mut VecDeque<Vec<u8>>,
    left: &'m Left,
    free: FreeBuffers<'m>,
    room: u64,
    pace: Duration,
    last: Instant,
}

impl Opened for Listed {
    fn queue(&mut self) -> Box<dyn Queue<'_> + '_> {
        let Self { port, packets, left, pool, room, pace, late } = self;
        let (free, last) = (pool.buffers(), Instant::now());
        let (port, room, pace) = (*port, *room, *pace);
        Box::new(ListedQueue { port, late, packets, left, free, room, pace, last })
    }
}

impl<'m> Queue<'m> for ListedQueue<'m> {
    fn receive(&mut self, batch: &mut Vec<Frame<'m>>, max: usize) -> usize {
        if self.late.ending.load(Ordering::SeqCst) {
            self.late.looks += 1;
            if self.late.looks.is_multiple_of(2) {
                self.packets.extend(self.late.packets.pop_front());
            }
        }
        if self.last.elapsed() < self.pace {
            return 0;
        }
        self.last = Instant::now();
        let count = self.packets.len().min(max);
        for packet in self.packets.drain(..count) {
            let buffer = self.free.take().expect("every buffer comes back");
            buffer[HEADROOM..HEADROOM + packet.len()].copy_from_slice(&packet);
            let wire_len = packet.len() as u32;
            let meta = Meta { wire_len, port: self.port, ..Meta::default() };
            batch.push(Frame::new(buffer, HEADROOM, packet.len(), 0, meta));
        }
        count
    }

    fn release(&mut self, batch: &mut Vec<Frame<'m>>) {
        batch.drain(..).for_each(|frame| self.free.give(frame.into_buffer().0));
    }

    fn send(&mut self, packets: &[&[u8]]) -> Sent {
        let mut sent = Sent::default();
        for packet in packets {
            if sent.packets == self.room {
                sent.full += 1;
                continue;
            }
            sent.packets += 1;
            sent.bytes += packet.len() as u64;
            self.left.lock().unwrap().push(packet.to_vec());
        }
        self.room -= sent.packets;
        sent
    }

    fn attend(&mut self) {}

    fn fds(&self, _: &mut Vec<RawFd>) {}

    fn is_polled(&self) -> bool {
        !self.late.packets.is_empty() || !self.pace.is_zero()
    }

    fn statistics(&mut self) -> QueueStatistics {
        QueueStatistics::default()
    }
}

const FLOWS: usize = 40;
const PACKETS: usize = 8_000;

/// Packet `number` of a flow from inside; the payload holds both.
fn datagram(flow: usize, number: usize) -> Vec<u8> {
    let mut bytes = [0; 80];
    let inside: SocketAddr = (Ipv4Addr::new(10, 0, 0, flow as u8 + 1), 4_000 + flow as u16).into();
    let outside = (Ipv4Addr::new(198, 18, 0, 1), 53).into();
    let payload = [(flow as u32).to_be_bytes(), (number as u32).to_be_bytes()].concat();
    let len = udp(&mut bytes, &Link::default(), inside, outside, &payload).unwrap();
    bytes[..len].to_vec()
}

/// Flow and number of a packet, translated or not.
fn label(packet: &[u8]) -> (u32, u32) {
    let word = |at: usize| packet[at..at + 4].try_into().map(u32::from_be_bytes).unwrap();
    (word(42), word(46))
}

/// Packets by queue; a flow comes by one, as the kernel spreads them, whoever owns it.
fn packets(workers: usize, numbers: Range<usize>) -> Vec<VecDeque<Vec<u8>>> {
    let mut packets = vec![VecDeque::new(); workers];
    for number in numbers {
        let flow = number * 7 % FLOWS;
        packets[flow % workers].push_back(datagram(flow, number));
    }
    packets
}

/// Two ports; what comes comes by the first.
fn ports(
    packets: Vec<VecDeque<Vec<u8>>>,
    late: Vec<Late>,
    room: u64,
    pace: Duration,
) -> (Vec<LivePort>, Left) {
    let (workers, left) = (packets.len(), Left::default());
    let port = |number, packets: Vec<VecDeque<Vec<u8>>>, late: Vec<Late>| {
        let queue = |(packets, late)| {
            let (port, left, pool) = (Port::new(number), Arc::clone(&left), Pool::new(64, 128));
            Box::new(Listed { port, packets, left, pool, room, pace, late }) as Box<dyn Opened>
        };
        LivePort {
            queues: packets.into_iter().zip(late).map(queue).collect(),
            about: String::new(),
            driver: None,
        }
    };
    let nothing = vec![VecDeque::new(); workers];
    let ports = vec![port(0, packets, late), port(1, nothing, never(workers))];
    (ports, left)
}

/// Nothing that is late.
fn never(workers: usize) -> Vec<Late> {
    (0..workers).map(|_| Late::default()).collect()
}

/// All packets, over queues with so much room.
fn run<N: NetworkFunction>(
    settings: &str,
    planned: bool,
    workers: usize,
    room: u64,
) -> (RunReport, Vec<Vec<u8>>) {
    run_at::<N>(settings, planned, workers, room, (Duration::ZERO, Balancing::Still), None)
}

/// As above, each queue with a batch after so long, shards that move, and a store that keeps the state.
fn run_at<N: NetworkFunction>(
    settings: &str,
    planned: bool,
    workers: usize,
    room: u64,
    (pace, balancing): (Duration, Balancing),
    store: Option<&Keeping>,
) -> (RunReport, Vec<Vec<u8>>) {
    let ports = ports(packets(workers, 0..PACKETS), never(workers), room, pace);
    let never = AtomicBool::new(false);
    run_until::<N>(settings, planned, (balancing, store), ports, PACKETS, &never)
}

/// Until so many packets are handled, or those that are not are dropped.
fn run_until<N: NetworkFunction>(
    settings: &str,
    planned: bool,
    (balancing, store): (Balancing, Option<&Keeping>),
    (ports, left): (Vec<LivePort>, Left),
    enough: usize,
    ending: &AtomicBool,
) -> (RunReport, Vec<Vec<u8>>) {
    let workers = ports.first().map_or(0, |port| port.queues.len());
    let planning = Planning::new(Nic::named("e810").unwrap());
    let plan = planned.then(|| plan_of::<N>(&planning).unwrap()).ok_or("not planned".to_owned());
    let names = N::PORTS.iter().map(|name| name.to_string()).collect();
    let making =
        Making { seed: 3, settings: settings.parse().unwrap(), ports: names, ..Making::default() };
    let (inputs, outputs, commands) = (Vec::new(), Vec::new(), Vec::new());
    let store = store.cloned();
    let options = Options { making, inputs, outputs, workers, plan, balancing, commands, store };
    let arrangement = Arrangement::of::<N>(&options);
    let mut states = arrangement.states::<N>(&options.making).unwrap();
    let clock = LiveClock::start();
    let mut warnings = Vec::new();
    let keeping = options.store.as_ref().map(|keeping| (keeping, &options.making));
    let beginning = (clock.origin_ns(), &[][..]);
    let begun = begin(keeping, &mut states, &arrangement, beginning, &mut warnings);
    let Begun { kept, ahead_ns } = begun.unwrap();
    let clock = clock.ahead_by(ahead_ns);
    assert_eq!(warnings, Vec::<String>::new());
    let account = Account::new::<N>(&options.making.ports, &[]);
    let states = states.share(&options.making, workers);
    let crew = Crew::new(states, ports, &arrangement, balancing, clock).unwrap();
    let specs: [LiveSpec; 0] = [];
    let (_, requests) = std::sync::mpsc::channel();
    let mut last = (0, Instant::now());
    let mut watch = |moment: Moment<'_>| match moment {
        Moment::Handled(packets) => {
            if packets > last.0 {
                last = (packets, Instant::now());
            }
            let goes_on = packets < enough as u64 && last.1.elapsed() < Duration::from_secs(3);
            ending.store(!goes_on, Ordering::SeqCst);
            goes_on
        }
        _ => true,
    };
    let kept_here = kept.as_ref().map(Watched::new);
    let (specs, requests, looked) = (&specs[..], &requests, Instant::now());
    let workplace = Workplace { specs, requests, account, looked, kept: kept_here };
    let mut report = crew.work(workplace, &arrangement, &mut watch).unwrap();
    kept.into_iter().for_each(|kept| kept.close(&mut report, &mut |_| true));
    let left = std::mem::take(&mut *left.lock().unwrap());
    (report, left)
}

/// All that was to come has come once, and in order within its flow.
fn assert_in_order(left: &[Vec<u8>]) {
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for packet in left {
        let (flow, number) = label(packet);
        let before = last.insert(flow, number);
        assert!(
            before.is_none_or(|before| before < number),
            "flow {flow}: {number} after {before:?}"
        );
    }
    assert_eq!(last.len(), FLOWS);
}

fn assert_accounted(report: &RunReport, left: usize) {
    assert_eq!(report.packets_read, PACKETS as u64);
    assert_eq!(
        report.packets_read,
        report.packets_out + report.packets_dropped,
        "{:?}",
        report.drops
    );
    assert_eq!(report.packets_out, left as u64);
}

#[test]
fn packets_come_to_their_owners_in_order() {
    for workers in [1, 2, 5] {
        let (report, left) = run::<firewall::Function>("", true, workers, u64::MAX);
        assert_accounted(&report, left.len());
        assert!(left.len() == PACKETS || report.drops.keys().eq(["mailbox-full"]));
        assert_in_order(&left);
        let shares = report.workers.iter().filter(|worker| worker.packets > 0).count();
        assert_eq!(shares, workers, "{:?}", report.workers);
    }
}

#[test]
fn one_state_in_transactions_is_as_good() {
    let settings = "public = ['203.0.113.1']";
    let (report, left) = run::<nat::Function>(settings, false, 3, u64::MAX);
    assert_eq!((report.strategy.as_str(), left.len()), ("transactional", PACKETS));
    assert_accounted(&report, left.len());
    assert_in_order(&left);
}

#[test]
fn translations_do_not_depend_on_who_received() {
    let settings = "public = ['203.0.113.1']";
    let (report, left) = run::<nat::Function>(settings, true, 4, u64::MAX);
    assert_eq!(report.strategy, "shared-nothing");
    assert_accounted(&report, left.len());
    assert_in_order(&left);
    assert_translated_alike(&left);
}

/// All packets of a flow have one public endpoint.
fn assert_translated_alike(left: &[Vec<u8>]) {
    let mut public: BTreeMap<u32, &[u8]> = BTreeMap::new();
    for packet in left {
        let endpoint = *public.entry(label(packet).0).or_insert(&packet[26..36]);
        // Address and port; between them stands the destination.
        assert_eq!((&endpoint[..4], &endpoint[8..]), (&packet[26..30], &packet[34..36]));
    }
}

/// Runs during which shards move, until they have often enough: how often depends on who else is at work
/// on this machine. `check` is told of each.
fn restless<N: NetworkFunction>(
    settings: &str,
    workers: usize,
    check: impl Fn(&RunReport, &[Vec<u8>]),
) {
    let restless = (Duration::from_micros(200), Balancing::Restless(20));
    let (mut steps, mut entries) = (0, 0);
    for _ in 0..200 {
        let (report, left) = run_at::<N>(settings, true, workers, u64::MAX, restless, None);
        assert_eq!(report.strategy, "shared-nothing");
        assert_accounted(&report, left.len());
        assert!(left.len() == PACKETS || report.drops.keys().eq(["mailbox-full"]));
        assert_in_order(&left);
        check(&report, &left);
        let balance = report.balance.unwrap_or_default();
        steps += balance.steps;
        entries += balance.entries_moved;
        if steps > 40 && entries > 400 {
            return;
        }
    }
    panic!("{steps} steps, {entries} entries moved");
}

/// Each packet comes to the state that the ones before it made, wherever that is just then.
#[test]
fn shards_that_move_lose_and_reorder_nothing() {
    for workers in [2, 3, 5] {
        restless::<firewall::Function>("", workers, |report, _| {
            let table = report.tables.iter().find(|table| table.used > 0).unwrap();
            assert_eq!(table.used, FLOWS as u64, "no connection is there twice");
        });
    }
}

#[test]
fn translations_move_with_their_shards() {
    let settings = "public = ['203.0.113.1']";
    restless::<nat::Function>(settings, 4, |_, left| assert_translated_alike(left));
}

/// Stopped again and again while a store keeps the state of shards that move, and gone on with by another number
/// of workers, flows keep their translations.
#[test]
fn translations_outlive_runs_while_shards_move() {
    let folder = tempfile::tempdir().unwrap();
    let store = Keeping {
        location: Location::Durable(folder.path().join("state"), Durability::default().sync),
        instance: "a".to_owned(),
        settings: Settings::default(),
        say: |_| {},
    };
    let restless = (Duration::from_micros(200), Balancing::Restless(20));
    let settings = "public = ['203.0.113.1']";
    let (mut all, mut entries) = (Vec::new(), 0);
    for (runs, workers) in [4, 2, 3, 5].into_iter().cycle().enumerate().take(200) {
        let (report, left) =
            run_at::<nat::Function>(settings, true, workers, u64::MAX, restless, Some(&store));
        assert_eq!((report.strategy.as_str(), report.workers.len()), ("shared-nothing", workers));
        assert_eq!(report.warnings, Vec::<String>::new());
        assert_accounted(&report, left.len());
        assert_in_order(&left);
        let kept = report.store.unwrap();
        assert!(kept.waiting == 0 && kept.trouble.is_none(), "{kept:?}");
        entries += report.balance.map_or(0, |balance| balance.entries_moved);
        all.extend(left);
        assert_translated_alike(&all);
        if runs >= 4 && entries > 400 {
            return;
        }
    }
    panic!("{entries} entries moved");
}

/// As after a run with a clock that was an hour ahead.
#[test]
fn a_clock_that_was_ahead_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Durable(folder.path().join("state"), Durability::default().sync);
    let (instance, settings) = ("a".to_owned(), Settings::default());
    let store = Keeping { location, instance, settings, say: |_| {} };
    let still = (Duration::ZERO, Balancing::Still);
    let run = || {
        run_at::<nat::Function>("public = ['203.0.113.1']", true, 2, u64::MAX, still, Some(&store))
    };
    run();
    let open =
        || Flusher::open(store.location.open().unwrap(), "nat", "a", store.settings).unwrap().0;
    let flusher = open();
    let real_ns = LiveClock::start().origin_ns();
    assert!((real_ns - 60_000_000_000..=real_ns).contains(&flusher.clock_ns()));
    let ahead_ns = real_ns + 3_600_000_000_000;
    flusher.feed().note_clock(ahead_ns);
    flusher.close(Duration::from_secs(20));
    run();
    let now_ns = open().clock_ns();
    assert!((ahead_ns + 1..ahead_ns + 60_000_000_000).contains(&now_ns), "{now_ns}, {ahead_ns}");
    assert_eq!(super::warning_of(999_999_999), None);
    assert!(super::warning_of(7_200_000_000_000).unwrap().contains("7200 s ahead"));
}

#[test]
fn a_full_transmit_queue_is_a_drop() {
    let (report, left) = run::<firewall::Function>("", true, 2, 1_000);
    assert_accounted(&report, left.len());
    assert_eq!(left.len(), 2_000);
    assert!(report.drops["transmit-full"] > 0);
}

/// Who has nothing to do when the run is to end receives no more: another that ends meanwhile would never open what it
/// is handed, and nobody else would end.
#[test]
fn what_comes_while_workers_end_does_not_keep_them() {
    const WORKERS: usize = 2;
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..10 {
            let ending = Arc::new(AtomicBool::new(false));
            let late = packets(WORKERS, 100..800).into_iter();
            let late = late.map(|packets| Late { ending: Arc::clone(&ending), packets, looks: 0 });
            let ports = ports(packets(WORKERS, 0..100), late.collect(), u64::MAX, Duration::ZERO);
            done.send(run_until::<firewall::Function>(
                "",
                true,
                (Balancing::Still, None),
                ports,
                100,
                &ending,
            ))
            .unwrap();
        }
    });
    for _ in 0..10 {
        let (report, left) = is_done.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(report.packets_out, left.len() as u64);
        // There is room in mailboxes for all of them.
        assert_eq!(report.drops, BTreeMap::new());
    }
}

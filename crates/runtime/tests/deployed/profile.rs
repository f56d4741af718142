//! Every cause that a structure or the runtime declares is provoked, and found named first.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anabranch_io::source::Input;
use anabranch_nf::packet_set::{SetKey4, SetShape};
use anabranch_nf::prelude::*;
use anabranch_nf::tracked::causes::{Contended, Operation};
use anabranch_nf::tracked::{
    Found, PacketSets, Profile, SharedAllocator, SharedCell, SharedCounter, SharedDistributed,
    SharedMap, SharedSets, SharedVector, Sharing, Tracked,
};
use anabranch_nf::world::{Profiled, Watched};
use anabranch_nf::{Builder, Environment, Key, NetworkFunction};
use anabranch_runtime::balance::Balancing;
use anabranch_runtime::instance::Making;
use anabranch_runtime::profile::{Finding, RUNTIME, findings, profile};
use anabranch_runtime::report::RunReport;
use anabranch_runtime::run::Options;
use anabranch_txn::{Batch, Cause, Domain, Memory, Place, Shape, Trail, Transaction, Worker};

const MS: u64 = 1_000_000;
const OWN: Shape = Shape { objects: 1, tracked: 1, deadlines: 0, apart: true };

/// One worker's transactions of one item.
struct Turn<'a> {
    trail: &'a Trail,
    act: &'a mut dyn FnMut(),
}

impl Batch for Turn<'_> {
    fn run(&mut self, range: Range<usize>, _: &Transaction) -> usize {
        self.trail.begin();
        (self.act)();
        range.len()
    }
    fn needs_read_log(&self) -> bool {
        self.trail.needs_read_log()
    }
    fn committed(&mut self, _: &Transaction) {
        self.trail.committed();
    }
    fn given_up(&mut self, cause: Cause, ran: usize) {
        self.trail.given_up(cause, ran, None);
    }
    fn runs_irrevocably(&mut self) {
        self.trail.runs_irrevocably();
    }
    fn undo(&mut self, _: Range<usize>) {}
    fn release(&mut self, _: Range<usize>, _: Place) {}
}

/// What both workers have of one object.
struct Bed<O> {
    profile: Arc<Profile>,
    objects: [O; 2],
    /// What worker 0 writes, so that what it has read has to be true in the end.
    own: Arc<Memory>,
}

/// An operation on an object at a time.
type Act<'a, O> = &'a dyn Fn(&mut O, &mut Context<'_, Profiled>, &Trail);

impl<O: Contended> Bed<Watched<O>> {
    /// Two workers with an object `it`.
    fn new(make: impl Fn(&mut Builder) -> O) -> Self {
        let profile = Arc::new(Profile::default());
        let domain = Arc::new(Domain::new(2, false).with_turns(Some(false)));
        let own = domain.memory(OWN);
        let mut sharing = Some(Sharing::new(&domain).watched_by(&profile));
        let objects = [(); 2].map(|()| {
            let builder = Builder::new(1, Vec::new(), toml::Table::new());
            let mut builder = builder.sharing(sharing.take().unwrap());
            let object = make(&mut builder);
            let watched = builder.watched("it", object).unwrap();
            sharing = builder.into_sharing().map(Sharing::next);
            watched
        });
        Self { profile, objects, own }
    }
}

impl<O> Bed<O> {
    /// Worker 0 does `ours`, and in its midst worker 1 does `theirs` and commits.
    fn meet(
        self,
        before: Act<'_, O>,
        ours: Act<'_, O>,
        theirs: Option<Act<'_, O>>,
    ) -> Vec<Finding> {
        self.meet_often(before, ours, theirs.map(|theirs| (theirs, 1)), 1)
    }

    /// The same as often as it says, each time that worker 0 tries again, and all that in so many rounds.
    fn meet_often(
        self,
        before: Act<'_, O>,
        ours: Act<'_, O>,
        theirs: Option<(Act<'_, O>, u32)>,
        rounds: u32,
    ) -> Vec<Finding> {
        let [mut a, mut b] = self.objects;
        let trails = self.profile.trails();
        let [first, second] = [&*trails[0], &*trails[1]];
        let [mut one, mut other] =
            [first, second].map(|trail| Worker::new(Arc::clone(trail.transaction())));
        let (mut early, mut late) = (Environment::new(1), Environment::new(1));
        early.begin(0, 0);
        late.begin(100 * MS, 1);
        one.alone(|_| before(&mut a, &mut Context::new(&mut early), first));
        let own = self.own;
        for _ in 0..rounds {
            let mut theirs = theirs;
            let mut act = || {
                ours(&mut a, &mut Context::new(&mut late), first);
                if let Some((theirs, left)) = theirs.as_mut().filter(|(_, left)| *left > 0) {
                    *left -= 1;
                    let mut act = || theirs(&mut b, &mut Context::new(&mut early), second);
                    other.handle(&mut Turn { trail: second, act: &mut act }, 1);
                }
                first.transaction().write(&own, 0, |words| words.set(0, 1));
            };
            one.handle(&mut Turn { trail: first, act: &mut act }, 1);
        }
        findings(&self.profile)
    }
}

#[track_caller]
fn named<'f>(findings: &'f [Finding], cause: &str) -> &'f Finding {
    let first = findings.first().expect("a transaction was given up");
    assert_eq!(first.cause.name, cause, "{findings:?}");
    assert!(!first.cause.why.is_empty());
    first
}

type Numbers = Watched<Tracked<SharedMap<u32, u32>>>;

/// A map in one bucket, with two entries.
fn map() -> Bed<Numbers> {
    Bed::new(|builder| builder.shared_map("it", 2).unwrap())
}

fn filled(map: &mut Numbers, _: &mut Context<'_, Profiled>, _: &Trail) {
    assert!(map.insert(1, 10) && map.insert(2, 20));
}

/// The first line of this file that is this one.
fn line_of(text: &str) -> u32 {
    let lines = include_str!("profile.rs").lines();
    lines.zip(1..).find(|(line, _)| line.trim().starts_with(text)).unwrap().1
}

#[test]
fn maps() {
    let found = map().meet(
        &filled,
        &|map, _, _| {
            let _ = map.get(&1);
        },
        Some(&|map, _, _| {
            let _ = map.insert(1, 11);
        }),
    );
    let same = named(&found, "same entry");
    assert_eq!((same.object.as_deref(), same.kind), (Some("it"), "Map"));
    let sites = [same.ours.unwrap(), same.theirs.unwrap()];
    assert_eq!(sites.map(|site| site.operation), [Operation::Get, Operation::Insert]);
    let lines = ["let _ = map.get(&1)", "let _ = map.insert(1, 11)"].map(line_of);
    assert_eq!(sites.map(|site| site.line), lines);
    assert_eq!(same.keys, [("1".to_owned(), 1)]);
    assert_eq!((same.times, same.packets, same.alone), (1, 1, 0));

    let theirs: Act<'_, Numbers> = &|map, _, _| {
        let _ = map.update(&2, |value| *value += 1);
    };
    let found = map().meet(
        &filled,
        &|map, _, _| {
            let _ = map.get(&1);
        },
        Some(theirs),
    );
    assert_eq!(named(&found, "shared bucket").theirs.unwrap().operation, Operation::Update);

    let found = map().meet(
        &filled,
        &|map, _, _| {
            let _ = map.insert(3, 1);
        },
        None,
    );
    let full = named(&found, "nearly full");
    assert_eq!((full.alone, full.theirs, full.is_conflict()), (1, None, false));
    let found = map().meet(
        &filled,
        &|map, _, _| {
            let _ = map.len();
        },
        None,
    );
    named(&found, "length asked");
}

/// Who has been given up eight times keeps all others waiting: that is the conflict's cost, too.
#[test]
fn packets_that_run_alone_in_the_end_are_the_conflicts() {
    let theirs: Act<'_, Numbers> = &|map, _, _| {
        map.update(&1, |value| *value += 1);
    };
    let ours: Act<'_, Numbers> = &|map, _, _| {
        let _ = map.get(&1);
    };
    for (times, alone) in [(7, 0), (8, 1)] {
        let found = map().meet_often(&filled, ours, Some((theirs, times)), 1);
        let same = named(&found, "same entry");
        assert_eq!((same.times, same.alone), (u64::from(times), alone), "{found:?}");
    }
}

/// Few transactions are looked at so closely that it is known what they have read; all that are given up count.
#[test]
fn what_was_not_looked_at_counts_as_what_was() {
    let ours: Act<'_, Numbers> = &|map, _, _| {
        let _ = map.get(&1);
    };
    let theirs: Act<'_, Numbers> = &|map, _, _| {
        map.update(&1, |value| *value += 1);
    };
    let found = map().meet_often(&filled, ours, Some((theirs, 8)), 5_000);
    let same = named(&found, "same entry");
    // Now and then it is tried to go without a log of what is read.
    let over: u64 = found[1..].iter().map(|one| one.times).sum();
    assert!(found[1..].iter().all(|one| one.cause.name == "overtaken") && over < 200, "{found:?}");
    assert_eq!((same.times + over, same.times), (40_000, same.packets), "{found:?}");
    assert!((4_900..=5_000).contains(&same.alone), "{found:?}");
    assert_eq!(same.ours.unwrap().operation, Operation::Get);
    let (key, times) = &same.keys[0];
    assert!(key == "1" && (39_000..=40_000).contains(times), "{found:?}");
}

/// What writes is known of all, what reads of few: what is not known of is what reads.
#[test]
fn what_writes_is_not_counted_for_what_reads() {
    let calls = AtomicU32::new(0);
    let ours: Act<'_, Numbers> = &|map, _, _| {
        // Nine times a round.
        if (calls.fetch_add(1, Ordering::Relaxed) / 9).is_multiple_of(2) {
            let _ = map.get(&1);
        } else {
            map.update(&1, |value| *value += 1);
        }
    };
    let theirs: Act<'_, Numbers> = &|map, _, _| {
        map.update(&1, |value| *value += 1);
    };
    let found = map().meet_often(&filled, ours, Some((theirs, 8)), 5_000);
    let times = |operation| {
        let of =
            found.iter().filter(move |one| one.ours.is_some_and(|one| one.operation == operation));
        of.map(|one| one.times).sum::<u64>()
    };
    for operation in [Operation::Get, Operation::Update] {
        assert!((19_000..=21_000).contains(&times(operation)), "{operation:?}: {found:?}");
    }
    assert_eq!(found.iter().map(|one| one.times).sum::<u64>(), 40_000);
}

/// Nobody knows what a transaction has read that keeps no log: the other is named that committed.
#[test]
fn who_keeps_no_log_is_overtaken() {
    type Elements = Watched<Tracked<SharedVector<u32>>>;
    let ours: Act<'_, Elements> = &|vector, _, _| {
        let _ = vector.read(3);
    };
    let theirs: Act<'_, Elements> = &|vector, _, _| vector.update(5, |value| *value += 1);
    // The first keep one.
    for (rounds, times) in [(512, 0..=0), (513, 1..=1), (700, 2..=20)] {
        let bed = Bed::new(|builder| builder.shared_vector::<u32>("it", 8).unwrap());
        let found = bed.meet_often(&|_, _, _| {}, ours, Some((theirs, 1)), rounds);
        let all: u64 = found.iter().map(|one| one.times).sum();
        assert!(times.contains(&all), "{found:?}");
        if rounds > 512 {
            let over = named(&found, "overtaken");
            assert_eq!((over.ours, over.theirs.unwrap().operation), (None, Operation::Update));
            assert_eq!((over.packets, over.alone, over.is_conflict()), (over.times, 0, true));
        }
    }
}

#[test]
fn vectors_and_cells() {
    let bed = Bed::new(|builder| builder.shared_vector::<u32>("it", 8).unwrap());
    let found = bed.meet(
        &|_, _, _| {},
        &|vector: &mut Watched<Tracked<SharedVector<u32>>>, _, _| {
            let _ = vector.read(3);
        },
        Some(&|vector, _, _| vector.write(3, 1)),
    );
    let same = named(&found, "same element");
    assert_eq!(same.keys, [("3".to_owned(), 1)]);
    let bed = Bed::new(|builder| builder.shared_cell::<u32>("it").unwrap());
    let found = bed.meet(
        &|_, _, _| {},
        &|cell: &mut Watched<Tracked<SharedCell<u32>>>, _, _| cell.update(|value| *value += 1),
        Some(&|cell, _, _| cell.set(7)),
    );
    assert!(named(&found, "one value").keys.is_empty());
}

#[test]
fn what_nobody_has_changed_yet() {
    let bed = Bed::new(|builder| builder.shared_vector::<u32>("it", 8).unwrap());
    let found = bed.meet(
        &|_, _, trail| trail.transaction().domain().settle(),
        &|vector: &mut Watched<Tracked<SharedVector<u32>>>, _, _| vector.write(3, 1),
        None,
    );
    let first = named(&found, "first change");
    assert_eq!((first.object.as_deref(), first.keys.len()), (Some("it"), 1));
}

#[test]
fn values_in_parts() {
    let merge = |one: u32, other: u32| one + other;
    let bed = Bed::new(|builder| builder.shared_distributed("it", merge, 0).unwrap());
    let found = bed.meet(
        &|_, _, _| {},
        &|parts: &mut Watched<Tracked<SharedDistributed<u32>>>, _, _| {
            let _ = parts.read();
        },
        Some(&|parts, _, _| parts.update(|value| *value += 1)),
    );
    named(&found, "read while updated");
    let bed = Bed::new(|builder| builder.shared_counter("it").unwrap());
    let read: Act<'_, Watched<Tracked<SharedCounter>>> = &|counter, _, _| {
        anabranch_nf::world::CounterOperations::read(counter);
    };
    named(&bed.meet(&|_, _, _| {}, read, None), "count asked");
}

type Places = Watched<Tracked<SharedAllocator<u32>>>;

fn allocator(capacity: u64) -> Bed<Places> {
    Bed::new(|builder| builder.shared_allocator("it", capacity).unwrap())
}

#[test]
fn allocators() {
    let none: Act<'_, Places> = &|_, _, _| {};
    let taken: Act<'_, Places> = &|places, cx, _| assert!(places.allocate_at(1, 7, 1_000 * MS, cx));
    let found = allocator(4_096).meet(
        none,
        &|places, cx, _| {
            let _ = places.allocate_at(1, 7, 1_000 * MS, cx);
        },
        Some(&|places, cx, _| {
            let _ = places.allocate_at(3, 7, 1_000 * MS, cx);
        }),
    );
    let word = named(&found, "shared word of indices");
    assert_eq!(word.keys, [("1".to_owned(), 1)]);
    let touch: Act<'_, Places> = &|places, cx, _| {
        let _ = places.touch(1, cx);
    };
    let found = allocator(4_096).meet(
        taken,
        touch,
        Some(&|places, _, _| {
            let _ = places.set(1, 8);
        }),
    );
    named(&found, "same object");
    let any: Act<'_, Places> = &|places, cx, _| {
        let _ = places.allocate(7, 1_000 * MS, cx);
    };
    named(&allocator(64).meet(none, any, None), "nearly full");
    let short: Act<'_, Places> = &|places, cx, _| assert!(places.allocate_at(1, 7, MS, cx));
    let over = allocator(4_096).meet(short, touch, None);
    assert_eq!(named(&over, "end may have come").ours.unwrap().operation, Operation::Touch);
    let found = allocator(4_096).meet(
        taken,
        &|places, _, _| {
            let _ = places.len();
        },
        None,
    );
    named(&found, "length asked");
}

type Sets = Arc<SharedSets<SetKey4, [u64; 3]>>;

/// Two sets to a bucket.
fn sets(capacity: u32) -> Bed<Sets> {
    let profile = Arc::new(Profile::default());
    let domain = Arc::new(Domain::new(2, false).with_turns(Some(false)));
    let shape = SetShape { capacity, lifetime_ns: 50 * MS };
    let mut sets = SharedSets::new(&domain, shape, 1);
    let number = profile.watch("Flow (IPv4)", &sets);
    sets.numbered(number);
    let (sets, own) = (Arc::new(sets), domain.memory(OWN));
    drop(Sharing::new(&domain).watched_by(&profile).next());
    Bed { profile, objects: [Arc::clone(&sets), sets], own }
}

fn flow(host: u8) -> SetKey4 {
    SetKey4::new(Ipv4Addr::new(10, 0, 0, host), Ipv4Addr::UNSPECIFIED, 0, 0, 1)
}

/// An operation on the sets, noted.
fn noted<R>(
    sets: &Sets,
    trail: &Trail,
    (operation, key): (Operation, &SetKey4),
    act: impl FnOnce() -> R,
) -> R {
    let done = act();
    if trail.is_told_of() {
        PacketSets::note(&&**sets, trail, operation, key);
    }
    done
}

fn open(sets: &Sets, trail: &Trail, host: u8) {
    let key = flow(host);
    noted(sets, trail, (Operation::Open, &key), || {
        sets.open(trail.transaction(), (sets.hash(&key), &key), [1; 3], 1)
    });
}

/// A packet of the set at this tick, which adds to its state.
fn packet(sets: &Sets, trail: &Trail, host: u8, tick: u32) {
    let key = flow(host);
    let found = noted(sets, trail, (Operation::Find, &key), || {
        sets.find(trail.transaction(), (sets.hash(&key), &key), tick)
    });
    if let Found::Alive(set) = found {
        let mut state = set.state;
        state[0] += 1;
        noted(sets, trail, (Operation::Keep, &key), || {
            sets.keep(trail.transaction(), (&set, &state), tick, 0);
        });
    }
}

#[test]
fn packet_sets() {
    let opened: Act<'_, Sets> =
        &|sets, _, trail| [1, 2].iter().for_each(|&host| open(sets, trail, host));
    let one: Act<'_, Sets> = &|sets, _, trail| packet(sets, trail, 1, 2);
    let found = sets(2).meet(opened, one, Some(one));
    let same = named(&found, "same packet set");
    assert_eq!(same.object.as_deref(), Some("Flow (IPv4)"));
    assert_eq!(same.keys, [("10.0.0.1".to_owned(), 1)]);
    assert_eq!(same.theirs.unwrap().operation, Operation::Keep);
    // With two sets to a bucket and two buckets some host shares that of the first.
    let shares = |host: u8| {
        let opened: Act<'_, Sets> =
            &|sets, _, trail| [1, host].iter().for_each(|&host| open(sets, trail, host));
        let other: Act<'_, Sets> = &|sets, _, trail| packet(sets, trail, host, 2);
        sets(2).meet(opened, one, Some(other)).into_iter().next()
    };
    let shared: Vec<Finding> = (2..20).filter_map(shares).collect();
    assert!(shared.len() < 18, "not all do");
    named(&shared, "shared bucket");
    let third: Act<'_, Sets> = &|sets, _, trail| open(sets, trail, 3);
    named(&sets(4).meet(opened, third, None), "nearly full");
    let late: Act<'_, Sets> = &|sets, _, trail| packet(sets, trail, 1, 1_000);
    named(&sets(2).meet(opened, late, None), "end may have come");
}

/// Asks the runtime for one thing at each packet.
#[network_function(ports(inside, outside))]
pub mod asking {
    pub struct Settings {
        /// 0: a line of the log, 1: a timer, 2: to re-enter, 3: more than a transaction has room for.
        #[setting(default = 0)]
        pub what: u32,
    }
    pub struct Asking {
        settings: Settings,
        #[capacity(1024)]
        elements: Vector<u32>,
    }
    impl Asking {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            match self.settings.what {
                0 => log!(cx, info, "packet"),
                1 => cx.set_timer(3_600_000_000_000, 1),
                2 if pkt.port() == INSIDE => return Recirculate(OUTSIDE),
                3 => {
                    for index in 0..600 {
                        self.elements.update(index, |element| *element += 1);
                    }
                }
                _ => {}
            }
            Forward(OUTSIDE)
        }
        fn timer(&mut self, token: u64, cx: &mut Context) {}
    }
}

/// Has something to do every millisecond.
#[network_function(ports(inside, outside))]
pub mod ticking {
    pub struct Ticking {
        ticks: Cell<u64>,
    }
    impl Ticking {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(OUTSIDE)
        }
        #[every_ms(1)]
        fn periodic(&mut self, cx: &mut Context) {
            self.ticks.update(|ticks| *ticks += 1);
            cx.set_timer(1_000, 1);
        }
        fn timer(&mut self, token: u64, cx: &mut Context) {}
    }
}

fn profiled<N: NetworkFunction>(settings: &str) -> Vec<Finding> {
    measured::<N>(settings).1
}

fn measured<N: NetworkFunction>(settings: &str) -> (RunReport, Vec<Finding>) {
    let spec = "gen:flows=10,packets=2000,rate=100000".parse().unwrap();
    let ports = N::PORTS.iter().map(ToString::to_string).collect();
    let settings = settings.parse().unwrap();
    let options = Options {
        making: Making { settings, ports, seed: 1, ..Making::default() },
        inputs: vec![Input { port: None, spec }],
        outputs: Vec::new(),
        workers: 2,
        plan: Err("none is asked for".to_owned()),
        balancing: Balancing::Still,
        commands: Vec::new(),
        store: None,
    };
    let (report, findings) = profile::<N>(&options, &mut |_, _| {}).unwrap();
    assert!(report.complete && report.packets_read == 2_000, "{report:?}");
    let alone = report.transactions.map(|all| all.alone + all.irrevocable);
    assert_eq!(alone, Some(findings.iter().map(|finding| finding.alone).sum()), "{findings:?}");
    let given_up = report.transactions.map(|all| all.conflicts + all.unfit);
    assert_eq!(given_up, Some(findings.iter().map(|finding| finding.times).sum()), "{findings:?}");
    (report, findings)
}

#[test]
fn the_runtime() {
    for (what, cause, operation) in [
        (0, "line logged", Operation::Log),
        (1, "timer set", Operation::SetTimer),
        (2, "packet re-enters", Operation::Reenter),
        (3, "too large", Operation::Update),
    ] {
        let found = profiled::<asking::Function>(&format!("what = {what}"));
        let first = named(&found, cause);
        assert_eq!(first.ours.unwrap().operation, operation);
        assert!(first.alone > 100, "{first:?}");
        let line = first.ours.unwrap().line;
        assert_eq!(line == 0, what == 2, "{first:?}");
    }
    let found = profiled::<ticking::Function>("");
    assert!(named(&found, "event due").alone >= 10, "{found:?}");
}

#[test]
fn handlers_are_counted_each_for_itself() {
    let calls = |report: &RunReport, name: &str| {
        let of = report.handlers.iter().find(|one| one.handler == name);
        assert!(of.is_none_or(|one| one.time_s > 0.0), "{of:?}");
        of.map_or(0, |one| one.calls)
    };
    let (report, _) = measured::<ticking::Function>("");
    assert!(calls(&report, "packet") >= 2_000, "{:?}", report.handlers);
    let periods = calls(&report, "periodic");
    assert!((18..=20).contains(&periods), "{:?}", report.handlers);
    assert!((periods - 1..=periods).contains(&calls(&report, "timer")), "{:?}", report.handlers);
    assert_eq!(calls(&report, "control"), 0);
}

/// What is declared is what the tests above provoke.
#[test]
fn every_declared_cause_is_provoked_here() {
    let structures = [
        <Tracked<SharedMap<u32, u32>> as Contended>::STRUCTURE,
        <Tracked<SharedVector<u32>> as Contended>::STRUCTURE,
        <Tracked<SharedCell<u32>> as Contended>::STRUCTURE,
        <Tracked<SharedAllocator<u32>> as Contended>::STRUCTURE,
        <Tracked<SharedDistributed<u32>> as Contended>::STRUCTURE,
        <Tracked<SharedCounter> as Contended>::STRUCTURE,
        <SharedSets<SetKey4, u32> as Contended>::STRUCTURE,
        &RUNTIME,
    ];
    let text = include_str!("profile.rs");
    let declared: BTreeSet<&str> =
        structures.iter().flat_map(|structure| structure.causes).map(|cause| cause.name).collect();
    assert!(declared.len() >= 18, "{declared:?}");
    for name in declared {
        assert!(text.contains(&format!("\"{name}\"")), "nothing provokes `{name}`");
    }
}

#[test]
fn keys_are_readable() {
    let both = SetKey4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), 53, 1_024, 2);
    assert_eq!(format!("{both:?}"), "10.0.0.1 port 53, 10.0.0.2 port 1024");
    assert_eq!(format!("{:?}", flow(9)), "10.0.0.9");
    assert_ne!(both.hash(1), flow(9).hash(1));
}

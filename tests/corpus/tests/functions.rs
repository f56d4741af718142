//! Whole network functions through the interface that the macro implements for them.

#![allow(clippy::unwrap_used)] // a test that cannot go on fails

use std::net::Ipv4Addr;

use anabranch_nf::elements;
use anabranch_nf::packet::{Frame, Hollow, Meta, Packet, Port, parse};
use anabranch_nf::packet_set::{SetKey, SetKey4};
use anabranch_nf::settings::{Command as _, Settings as _, set};
use anabranch_nf::{
    Builder, Builtin, Context, DropReason, Environment, LookAhead, NetworkFunction, Verdict,
};
use anabranch_tests::idioms::{allocation, balance, bounds_nf, buckets, learning, quota, watch};

fn settings<N: NetworkFunction>(assignments: &[&str]) -> Result<N::Settings, String> {
    let mut table = toml::Table::new();
    assignments.iter().try_for_each(|one| set(&mut table, one))?;
    N::Settings::read(&table).map_err(|errors| errors.to_string())
}

fn built<N: NetworkFunction>(assignments: &[&str]) -> N {
    let ports = N::PORTS.iter().map(ToString::to_string).collect();
    let mut builder = Builder::new(1, ports, toml::Table::new());
    N::build(settings::<N>(assignments).unwrap(), &mut builder).unwrap()
}

/// A UDP packet from `src` to `dst`, arrived on `port` at `now`.
struct Udp {
    src: ([u8; 4], u16),
    dst: ([u8; 4], u16),
    port: u8,
    now: u64,
}

impl Udp {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        bytes.extend([0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0]);
        bytes.extend(self.src.0);
        bytes.extend(self.dst.0);
        bytes.extend(self.src.1.to_be_bytes());
        bytes.extend(self.dst.1.to_be_bytes());
        bytes.extend([0, 8, 0, 0]);
        bytes
    }

    fn with<T>(&self, bytes: &mut [u8], run: impl FnOnce(&mut Packet<'_>) -> T) -> T {
        let (wire_len, end) = (bytes.len() as u32, bytes.len());
        let layout = parse(bytes, wire_len);
        let port = Port::new(self.port);
        let meta = Meta { arrival_ns: self.now, number: 0, wire_len, port, ..Meta::default() };
        let mut frame = Frame::new(bytes, 0, end, 0, meta);
        run(&mut Packet::new(&mut frame, layout))
    }

    fn through<N: NetworkFunction<Set = ()>>(
        &self,
        nf: &mut N,
        environment: &mut Environment,
    ) -> (Verdict, Vec<u8>) {
        let mut bytes = self.bytes();
        environment.begin(self.now, 0);
        nf.expire(environment, 64);
        let verdict = self
            .with(&mut bytes, |packet| nf.packet(&mut (), packet, &mut Context::new(environment)));
        (verdict, bytes)
    }
}

const INSIDE: ([u8; 4], u16) = ([10, 0, 0, 1], 5000);
const SERVER: ([u8; 4], u16) = ([192, 0, 2, 9], 53);

#[test]
fn a_translator_translates_both_ways_and_forgets() {
    let mut nf = built::<allocation::Function>(&["sessions=4", "timeout_s=10"]);
    let mut environment = Environment::new(1);
    let out = Udp { src: INSIDE, dst: SERVER, port: 0, now: 0 };
    let (verdict, bytes) = out.through(&mut nf, &mut environment);
    assert_eq!(verdict, Verdict::Forward(allocation::WAN));
    assert_eq!(bytes[26..30], [192, 0, 2, 1]);
    let port = u16::from_be_bytes([bytes[34], bytes[35]]);
    let reply = |now| Udp { src: SERVER, dst: ([192, 0, 2, 1], port), port: 1, now };
    let (verdict, bytes) = reply(5_000_000_000).through(&mut nf, &mut environment);
    assert_eq!(verdict, Verdict::Forward(allocation::LAN));
    assert_eq!(bytes[30..34], INSIDE.0);
    let (verdict, _) = reply(20_000_000_000).through(&mut nf, &mut environment);
    let Verdict::Discard(reason) = verdict else { panic!("{verdict:?}") };
    assert_eq!(reason.word(allocation::Function::REASONS), "unsolicited");
    assert_eq!(nf.tables().iter().map(|table| table.used).collect::<Vec<_>>(), [0, 0, 4]);
    let lines = environment.log().take();
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/idioms/state.rs"));
    let text = text.unwrap();
    let line = text.lines().nth(lines[0].source_line as usize - 1).unwrap();
    assert_eq!(line.trim(), "log!(", "not that of its level");
}

#[test]
fn hollow_passes_change_nothing() {
    let mut nf = built::<allocation::Function>(&[]);
    let mut environment = Environment::new(1);
    let out = Udp { src: INSIDE, dst: SERVER, port: 0, now: 0 };
    let mut bytes = out.bytes();
    let layout = parse(&bytes, 42);
    let meta =
        Meta { arrival_ns: 0, number: 0, wire_len: 42, port: Port::new(0), ..Meta::default() };
    let mut frame = Frame::new(&mut bytes, 0, 42, 0, meta);
    for _ in 0..2 {
        let mut packet = Packet::<Hollow>::new(&mut frame, layout);
        nf.ahead().look(&mut packet, &mut environment);
        nf.beyond().look(&mut packet, &mut environment);
    }
    assert_eq!(frame.bytes(), out.bytes());
    assert_eq!(nf.tables()[0].used, 0);
    out.through(&mut nf, &mut environment);
    assert_eq!(nf.tables()[0].used, 1);
}

/// Past the end of the list and of the vector: zero, nothing written, and counted.
#[test]
fn indices_past_the_end_are_defined_and_counted() {
    let mut nf = built::<bounds_nf::Function>(&["weights=[7, 8]"]);
    let mut environment = Environment::new(1);
    let before = elements::faults();
    let mut verdict = |port: u16| {
        let packet = Udp { src: INSIDE, dst: (SERVER.0, port), port: 0, now: 5 };
        packet.through(&mut nf, &mut environment).0
    };
    assert_eq!(verdict(8_001), Verdict::Forward(bounds_nf::RIGHT));
    assert_eq!(elements::faults(), before);
    assert_eq!(verdict(8_003), Verdict::Flood, "no such weight");
    let weightless: DropReason = bounds_nf::Reason::Weightless.into();
    assert_eq!(verdict(8_004), Verdict::Discard(weightless), "no such place to note it");
    assert_eq!(elements::faults(), before + 2);
    assert_eq!(nf.tables()[0].faults, 3, "a write, an update, a read");
}

#[test]
fn a_loop_without_end_is_broken_off_and_counted() {
    let before = elements::faults();
    assert_eq!(bounds_nf::endless(0), (0, 7));
    assert_eq!(elements::faults(), before);
    assert_eq!(bounds_nf::endless(1), (1 << 24, 0));
    assert_eq!(elements::faults(), before + 2);
}

#[test]
fn settings_are_read_and_refused_in_the_operators_words() {
    let read = settings::<balance::Function>(&[
        "backends=[{ address = \"192.0.2.7\", weight = 3 }, { address = \"192.0.2.8\" }]",
        "choice=least-connections",
    ]);
    let read = read.unwrap();
    assert_eq!(read.backends.len(), 2);
    assert_eq!(read.backends.get(1).map(|backend| backend.weight), Some(1));
    assert_eq!(read.choice, balance::Choice::LeastConnections);
    let many = vec!["{ address = \"192.0.2.8\" }"; 17].join(",");
    for (assignment, words) in [
        ("choice=round-robin".to_owned(), "one of hash, least-connections"),
        ("backends=[{ address = \"192.0.2.7\", weight = 101 }]".to_owned(), "between 1 and 100"),
        ("backends=[{ adress = \"192.0.2.7\" }]".to_owned(), "did you mean `address`?"),
        ("backends=[7]".to_owned(), "expected a table of address, weight"),
        (format!("backends=[{many}]"), "at most 16 backends"),
        ("connections=0".to_owned(), "at least 1"),
    ] {
        let error = settings::<balance::Function>(&[&assignment]).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    let schema = balance::Settings::schema();
    let defaults: Vec<_> = schema.iter().map(|setting| setting.default.clone()).collect();
    let wanted = ["[]", "\"hash\"", "1024"].map(|text| Some(text.to_owned()));
    assert_eq!(defaults, wanted);
    assert_eq!(schema[1].help, "How a backend is chosen.");
    let public = &allocation::Settings::schema()[1];
    assert_eq!(public.default.as_deref(), Some("\"192.0.2.1\""));
}

#[test]
fn commands_are_read_and_obeyed() {
    let mut nf = built::<balance::Function>(&["choice=least-connections"]);
    let mut environment = Environment::new(1);
    let packet = Udp { src: INSIDE, dst: SERVER, port: 0, now: 0 };
    let (verdict, _) = packet.through(&mut nf, &mut environment);
    assert_eq!(verdict, anabranch_nf::Drop(balance::Reason::NoBackend));
    let command = balance::Command::read("add-backend address=198.51.100.1").unwrap();
    assert_eq!(nf.control(command, &mut Context::new(&mut environment)), Ok(()));
    let (verdict, bytes) = packet.through(&mut nf, &mut environment);
    assert_eq!(verdict, Verdict::Forward(balance::SERVERS));
    assert_eq!(bytes[30..34], [198, 51, 100, 1]);
    for (text, words) in [
        ("remove", "the commands are: add-backend, clear"),
        ("add-backend", "must be given"),
        ("add-backend address=x", "is no IPv4 address"),
    ] {
        let error = balance::Command::read(text).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn packet_sets_are_keyed_as_declared() {
    let key = |udp: &Udp, of: fn(&Packet<'_>) -> SetKey| {
        let mut bytes = udp.bytes();
        udp.with(&mut bytes, |packet| of(packet))
    };
    let there = Udp { src: INSIDE, dst: SERVER, port: 0, now: 0 };
    let back = Udp { src: SERVER, dst: INSIDE, port: 1, now: 0 };
    let both = key(&there, quota::Function::set_key);
    assert_eq!(both, key(&back, quota::Function::set_key));
    let (inside, server) = (Ipv4Addr::from(INSIDE.0), Ipv4Addr::from(SERVER.0));
    assert_eq!(both, SetKey::V4(SetKey4::between(inside, server, 5000, 53, 2)));
    assert_eq!(key(&there, buckets::Function::set_key), SetKey::None, "only port wan");
    let only_destination = SetKey4::new(Ipv4Addr::UNSPECIFIED, inside, 0, 0, 1);
    assert_eq!(key(&back, buckets::Function::set_key), SetKey::V4(only_destination));
    let sets = (quota::Function::SET, buckets::Function::SET);
    assert_eq!(sets, (Some("Connection"), Some("Bucket")));
    let shape = built::<quota::Function>(&[]).set_shape();
    assert_eq!((shape.capacity, shape.lifetime_ns), (65_536, 60_000_000_000));
}

#[test]
fn handlers_of_packet_sets_are_the_authors() {
    let mut nf = built::<quota::Function>(&["packets=1", "opens=1"]);
    let mut environment = Environment::new(1);
    let wrong = Udp { src: INSIDE, dst: SERVER, port: 0, now: 0 };
    let right = Udp { port: 1, ..wrong };
    let mut open = |udp: &Udp| {
        let mut bytes = udp.bytes();
        udp.with(&mut bytes, |packet| {
            nf.packet_set_opened(packet, &mut Context::new(&mut environment))
        })
    };
    assert_eq!(open(&wrong), Err(anabranch_nf::Drop(quota::Reason::WrongWay)));
    let mut set = open(&right).unwrap();
    let verdicts = [(); 2].map(|()| {
        let mut bytes = right.bytes();
        right.with(&mut bytes, |packet| {
            nf.packet(&mut set, packet, &mut Context::new(&mut environment))
        })
    });
    let full = right.with(&mut right.bytes(), |packet| {
        nf.packet_set_full(&set, packet, &mut Context::new(&mut environment))
    });
    assert_eq!(full, Verdict::Discard(Builtin::PacketSetsFull.into()), "it is new no more");
    let over: DropReason = quota::Reason::OverQuota.into();
    assert_eq!(verdicts, [Verdict::Forward(quota::INSIDE), Verdict::Discard(over)]);
}

#[test]
fn timers_periods_and_emitted_packets() {
    let mut nf = built::<watch::Function>(&[]);
    let mut environment = Environment::new(1);
    environment.begin(0, 0);
    nf.init(&mut Context::new(&mut environment));
    let timer = environment.take_timer(1_000_000_000);
    assert_eq!(timer.map(|timer| timer.token), Some(7));
    nf.timer(7, &mut Context::new(&mut environment));
    let mut sent = Vec::new();
    environment.emitted().drain(|port, bytes| sent.push((port, bytes.len())));
    assert_eq!(sent, [(watch::RIGHT, 60)]);
    assert_eq!(watch::Function::PERIOD_MS, 100);
    let packet = Udp { src: INSIDE, dst: SERVER, port: 0, now: 5 };
    for _ in 0..4 {
        let (verdict, _) = packet.through(&mut nf, &mut environment);
        assert_eq!(verdict, Verdict::Forward(watch::RIGHT));
    }
    environment.begin(20_000_000_000, 0);
    nf.periodic(&mut Context::new(&mut environment));
    nf.shutdown(&mut Context::new(&mut environment));
    let lines: Vec<String> = environment.log().take().into_iter().map(|line| line.text).collect();
    assert_eq!(lines, ["no packet since 5 ns", "1 beats, 4 slots"]);
}

#[test]
fn the_macro_says_what_it_is_made_for() {
    assert_eq!((learning::Function::LAYER, quota::Function::LAYER), (2, 3));
    assert_eq!(learning::Function::PORTS, [""; 0]);
    assert_eq!(quota::Function::PORTS, ["inside", "outside"]);
}

#[test]
fn capacities_out_of_range_are_refused() {
    let settings = settings::<allocation::Function>(&["sessions=16777216"]).unwrap();
    let mut builder = Builder::new(1, vec![], toml::Table::new());
    assert!(builder.capacity("sessions", 0).unwrap_err().to_string().contains("1 to"));
    assert!(allocation::Function::build(settings.clone(), &mut builder).is_ok());
    let none = allocation::Settings { sessions: 0, ..settings };
    let refused = allocation::Function::build(none, &mut builder).err().unwrap().to_string();
    let words = "would hold 0 entries by `settings.sessions`: set `sessions` so that it holds 1 to";
    assert!(refused.contains(words), "{refused}");
}

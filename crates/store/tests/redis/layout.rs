//! How state stands in Redis, by its own types: as it always did, so that a later release finds it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anabranch_store::behind::{Action, Mark};
use anabranch_store::{
    Bytes, Call, Change, Content, Driver, Entry, Flusher, Key, Kind, Operation, Outcome, Place,
    Reply, Scope, Settings, WriteBehind, view,
};
use redis::{Cmd, ConnectionLike as _, Value};

use crate::server::{Server, available};
use crate::{ask, by_socket, driver};

/// What [`write`] left in a server when the layout was new. Where that changes, the new program has to read the old
/// one: this stays, and another is put beside it.
const STATE_1: &str = include_str!("state-1");
/// Milliseconds for which the values that end were armed: time goes on, and the commands say so many hours.
const HOUR_MS: u64 = 3_600_000;
/// The writer's epoch.
const EPOCH: u64 = 1_700_000_000_000;

fn bytes(text: &str) -> Bytes {
    text.as_bytes().to_vec()
}

fn place(place: Place) -> Scope {
    Scope::new("nat", "edge 1", place).unwrap()
}

/// Objects of each type, of a core and a shard, with bytes that are no text.
fn behind() -> BTreeMap<Key, Content> {
    let (core, shard) = (place(Place::Core(0)), place(Place::Shard(17)));
    let address = |last: u8, port: u16| [&[10, 0, 0, last][..], &port.to_le_bytes()].concat();
    let key = |scope: &Scope, kind, id: &str| scope.key(kind, id).unwrap();
    let layout = "0.address .port (6 bytes) -> .public_port .state (3 bytes)";
    [
        (key(&core, Kind::Value, ".layout.inside"), Content::Value(bytes(layout))),
        (key(&core, Kind::Value, "leader"), Content::Value(vec![0, 255, b'"', b'\\', b'\n'])),
        (key(&core, Kind::Counter, "packets"), Content::Counter(-42)),
        (key(&core, Kind::List, "recent"), Content::List(vec![bytes("b"), vec![7], bytes("b")])),
        (key(&core, Kind::Set, "blocked"), Content::Set([address(9, 53), address(8, 53)].into())),
        (
            key(&core, Kind::Map, "inside"),
            Content::Map([(address(2, 1_024), vec![0, 4, 1]), (address(3, 80), vec![])].into()),
        ),
        (
            key(&core, Kind::CounterMap, "hosts"),
            Content::CounterMap([(bytes("a"), i64::MAX), (bytes("b"), i64::MIN)].into()),
        ),
        (key(&shard, Kind::Map, "inside"), Content::Map([(vec![], bytes("cell"))].into())),
    ]
    .into()
}

/// What is no writer's: written by calls, one of them for an hour.
fn beside() -> [(Key, Content); 2] {
    let all = place(Place::Instance);
    [
        (all.key(Kind::Value, "leader:lock").unwrap(), Content::Value(bytes("me"))),
        (all.key(Kind::Counter, "leader:lock:fence").unwrap(), Content::Counter(3)),
    ]
}

/// Writes all of it, in the ways in which it is written in the field.
fn write(driver: &mut impl Driver) {
    let [(lock, Content::Value(me)), (fence, _)] = beside() else { panic!("a value") };
    let calls =
        [Call::new(&lock, Operation::Arm(me, HOUR_MS)), Call::new(&fence, Operation::Add(3))];
    driver.run(&calls).unwrap().into_iter().for_each(|answer| assert!(answer.is_ok()));
    let mut writer = WriteBehind::new(Settings::default(), EPOCH, []).unwrap();
    let changes = behind().into_iter().flat_map(|(key, content)| match key.kind() {
        Kind::Value | Kind::Counter | Kind::List => vec![Change::put(&key, content)],
        _ => {
            let entries = content.entries().into_iter();
            entries.map(|entry: Entry| Change::insert(&key, entry)).collect()
        }
    });
    writer.changes(changes.collect(), 0).unwrap();
    let mut now_ns = 0;
    while !writer.is_settled() {
        now_ns += 1_000_000;
        if let Action::Commit(batches) = writer.next(now_ns) {
            let outcomes = driver.commit(&batches).unwrap();
            assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Committed));
            writer.committed(Ok(outcomes), now_ns);
        }
    }
}

/// A word of a command, in quotes, bytes that are not printed as `\x` and two digits.
fn quoted(word: &[u8]) -> String {
    let mut text = "\"".to_owned();
    for byte in word {
        match byte {
            b' '..=b'~' if !b"\"\\".contains(byte) => text.push(char::from(*byte)),
            byte => write!(text, "\\x{byte:02x}").unwrap(),
        }
    }
    text + "\""
}

fn unquoted(line: &str) -> Vec<Bytes> {
    let mut words = Vec::new();
    for quoted in line.split('"').skip(1).step_by(2) {
        let mut parts = quoted.split("\\x");
        let mut word = bytes(parts.next().unwrap());
        for part in parts {
            word.push(u8::from_str_radix(&part[..2], 16).unwrap());
            word.extend(&part.as_bytes()[2..]);
        }
        words.push(word);
    }
    words
}

/// The commands that make what a server holds, a line each, in the order of its keys and of what is in them.
fn held(server: &Server) -> String {
    let mut connection = server.connect();
    let mut ask = |words: &[&[u8]]| connection.req_command(Cmd::new().arg(words)).unwrap();
    let text = |answer: Value| redis::from_redis_value::<String>(answer).unwrap();
    let words = |answer: Value| redis::from_redis_value::<Vec<Bytes>>(answer).unwrap();
    let mut keys = words(ask(&[b"KEYS", b"*"]));
    keys.sort();
    let mut lines = String::new();
    for key in &keys {
        let (command, mut pieces) = match &*text(ask(&[b"TYPE", key])) {
            "string" => {
                let value = redis::from_redis_value::<Bytes>(ask(&[b"GET", key])).unwrap();
                ("SET", vec![vec![value]])
            }
            "list" => ("RPUSH", vec![words(ask(&[b"LRANGE", key, b"0", b"-1"]))]),
            "set" => {
                let mut members = words(ask(&[b"SMEMBERS", key]));
                members.sort();
                ("SADD", vec![members])
            }
            "hash" => {
                let found = words(ask(&[b"HGETALL", key]));
                let mut pairs: Vec<Vec<Bytes>> = found.chunks(2).map(<[Bytes]>::to_vec).collect();
                pairs.sort();
                ("HSET", pairs)
            }
            other => panic!("{other} is no type that is used"),
        };
        let left: i64 = redis::from_redis_value(ask(&[b"PTTL", key])).unwrap();
        if let Ok(left) = u64::try_from(left) {
            let ends = left.div_ceil(HOUR_MS) * HOUR_MS;
            pieces.push(vec![bytes("PX"), bytes(&ends.to_string())]);
        }
        let words: Vec<String> = pieces.concat().iter().map(|word| quoted(word)).collect();
        writeln!(lines, "{command} {} {}", quoted(key), words.join(" ")).unwrap();
    }
    lines
}

/// Has a server carry out what [`held`] has given.
fn restore(server: &Server, lines: &str) {
    let mut connection = server.connect();
    for line in lines.lines() {
        let (name, rest) = line.split_once(' ').unwrap();
        connection.req_command(redis::cmd(name).arg(unquoted(rest))).unwrap();
    }
}

#[test]
fn state_is_written_as_it_always_was() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    write(&mut driver(&by_socket(&server)));
    let now = held(&server);
    assert!(now == STATE_1, "another layout than that of `state-1`:\n{now}");
    server.ask::<()>(&["FLUSHALL"]);
    restore(&server, STATE_1);
    assert_eq!(held(&server), STATE_1, "nothing of it is lost on the way");
}

#[test]
fn state_that_an_older_release_has_written_is_gone_on_with() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let open = || driver(&by_socket(&server));
    restore(&server, STATE_1);
    let mut expected = behind();
    let all = || view::state(&mut open(), "nat", Some("edge 1")).unwrap();
    let whole = |behind: &BTreeMap<Key, Content>| {
        behind.clone().into_iter().chain(beside()).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(all(), whole(&expected));
    let [(lock, _), (fence, _)] = beside();
    let left = ask(&mut open(), &lock, Operation::TimeLeft).unwrap();
    assert!(
        matches!(left, Reply::TimeLeft(Some(1..=HOUR_MS))),
        "it ends as it would have: {left:?}"
    );
    assert_eq!(ask(&mut open(), &fence, Operation::Add(0)), Ok(Reply::Number(3)));
    let mark = |place_of: Place| {
        let key = Mark::key(&place(place_of)).unwrap();
        match ask(&mut open(), &key, Operation::Read) {
            Ok(Reply::Content(Some(Content::Value(bytes)))) => Mark::decode(&key, &bytes).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    for place in [Place::Core(0), Place::Shard(17)] {
        assert_eq!(mark(place), Mark { epoch: EPOCH, batch: 1, clock_ns: 0 });
    }
    let (flusher, found) = Flusher::open(open(), "nat", "edge 1", Settings::default()).unwrap();
    assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), expected);
    let mut feed = flusher.feed();
    for (key, content) in &mut expected {
        let entry = match content {
            Content::Set(_) => Entry::Member(bytes("new")),
            Content::Map(_) => Entry::Pair(bytes("new"), bytes("v")),
            Content::CounterMap(_) => Entry::Count(bytes("new"), 1),
            Content::List(elements) => {
                elements.push(bytes("new"));
                feed.change(Change::put(key, content.clone()));
                continue;
            }
            Content::Counter(count) => {
                *count += 1;
                feed.change(Change::put(key, content.clone()));
                continue;
            }
            Content::Value(_) => continue,
        };
        content.insert(entry.clone());
        feed.change(Change::insert(key, entry));
    }
    drop(feed);
    let status = flusher.close(Duration::from_secs(20));
    assert_eq!((status.waiting, status.rebuilds, status.trouble), (0, 0, None));
    assert_eq!(all(), whole(&expected));
    for place in [Place::Core(0), Place::Shard(17)] {
        assert!(mark(place).epoch > EPOCH, "who wrote before is fenced");
    }
}

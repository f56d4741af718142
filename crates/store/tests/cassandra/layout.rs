//! State as releases have written it, in `layout_1.cql`: this one reads it, goes on with it, and writes the same.
//!
//! A release that writes something else adds a file of its own; that of an earlier one stays, and is read.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_store::behind::Mark;
use anabranch_store::{
    Call, Change, Content, Driver as _, End, Entry, Flusher, Key, Kind, Operation, Place, Reply,
    Scope, Settings, view,
};
use scylla::value::{CqlValue, Row};

use crate::cql::Cql;
use crate::driver;
use crate::server::Server;

/// As somebody would load it who has nothing but the file.
const WRITTEN: &str = include_str!("layout_1.cql");
/// What stands in it for what differs from run to run: a version, a mark, an end (in 2100) and, in seconds, how long
/// the store remembers it.
const VERSION: i64 = 1;
const MARK: &str = "1 4102444800000 1";
const ENDS: i64 = 4_102_444_800_000;
const TTL: i32 = 30 * 86_400 + 60;

fn scope(place: Place) -> Scope {
    Scope::new("nat", "edge", place).unwrap()
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// What workers have, by its keys.
fn kept() -> BTreeMap<Key, Content> {
    let of = |place, kind, id: &str, content| (scope(place).key(kind, id).unwrap(), content);
    let flows = |flows: &[(&[u8], &[u8])]| {
        Content::Map(flows.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
    };
    let (core, shard) = (Place::Core(0), Place::Shard(17));
    BTreeMap::from([
        of(core, Kind::Map, "flows", flows(&[(&[10, 0, 0, 1], &[0xff]), (b"text", b"")])),
        of(shard, Kind::Map, "flows", flows(&[(b"", b"of the empty key")])),
        of(core, Kind::Value, ".layout.flows", Content::Value(bytes("address (4 bytes) -> n"))),
        of(core, Kind::Value, "gate way's", Content::Value(bytes("10.0.0.1"))),
        of(core, Kind::Counter, "packets", Content::Counter(-42)),
        of(core, Kind::List, "log", Content::List(vec![bytes("b"), bytes("a"), bytes("b")])),
        of(core, Kind::Set, "seen", Content::Set([bytes("x"), bytes("")].into())),
        of(
            core,
            Kind::CounterMap,
            "hosts",
            Content::CounterMap([(bytes("a"), 7), (bytes("b"), i64::MIN)].into()),
        ),
    ])
}

/// What typed calls have left beside.
fn called() -> [(Key, Operation); 6] {
    let key = |kind, id| scope(Place::Instance).key(kind, id).unwrap();
    let queue = |end, element| (key(Kind::List, "queue"), Operation::Push(end, bytes(element)));
    [
        queue(End::Back, "b"),
        queue(End::Front, "a"),
        queue(End::Back, "c"),
        (key(Kind::Counter, "sum"), Operation::Add(5)),
        (key(Kind::CounterMap, "sums"), Operation::AddTo(bytes("k"), 3)),
        (key(Kind::Value, "lease"), Operation::Arm(bytes("held"), 30 * 86_400_000)),
    ]
}

fn state() -> BTreeMap<Key, Content> {
    let key = |kind, id| scope(Place::Instance).key(kind, id).unwrap();
    let queue = Content::List(["a", "b", "c"].map(bytes).to_vec());
    let beside = [
        (key(Kind::List, "queue"), queue),
        (key(Kind::Counter, "sum"), Content::Counter(5)),
        (key(Kind::CounterMap, "sums"), Content::CounterMap([(bytes("k"), 3)].into())),
        (key(Kind::Value, "lease"), Content::Value(bytes("held"))),
    ];
    kept().into_iter().chain(beside).collect()
}

pub fn what_this_release_wrote_is_gone_on_with(server: &Server) {
    let cql = Cql::of(&server.node());
    let address = |keyspace| server.address_in(keyspace, "consistency=one&timeout_ms=30000");
    cql.run(WRITTEN);
    is_written_still(&cql, &address("layout_now"));
    is_read_and_gone_on_with(&address("layout_1"));
}

/// What is written now is what stands in the file.
fn is_written_still(cql: &Cql, address: &str) {
    let (flusher, found) =
        Flusher::open(driver(address), "nat", "edge", Settings::default()).unwrap();
    assert_eq!(found, []);
    let mut feed = flusher.feed();
    for (key, content) in kept() {
        feed.change(Change::put(&key, content));
    }
    feed.hand_over();
    drop(feed);
    assert_eq!(flusher.close(Duration::from_secs(120)).trouble, None);
    for (key, operation) in called() {
        driver(address).run(&[Call::new(&key, operation)]).unwrap().remove(0).unwrap();
    }
    let written: Vec<&str> = WRITTEN.lines().filter(|line| line.starts_with("INSERT")).collect();
    let now = rows(cql, "layout_now").join("\n").replace("layout_now", "layout_1");
    assert!(now == written.join("\n"), "other rows than in the file are written:\n{now}");
    let columns = |keyspace| {
        let columns = format!(
            "SELECT column_name, type, kind, position, clustering_order FROM system_schema.columns \
             WHERE keyspace_name = '{keyspace}' AND table_name = 'anabranch_state'"
        );
        let kept = format!(
            "SELECT gc_grace_seconds FROM system_schema.tables \
             WHERE keyspace_name = '{keyspace}' AND table_name = 'anabranch_state'"
        );
        format!("{:?} {:?}", cql.ask(&columns), cql.ask(&kept))
    };
    assert_eq!(columns("layout_now"), columns("layout_1"), "the table");
}

fn is_read_and_gone_on_with(address: &str) {
    let mut beside = driver(address);
    let mut ask =
        |key: &Key, operation| beside.run(&[Call::new(key, operation)]).unwrap().remove(0).unwrap();
    assert_eq!(view::state(&mut driver(address), "nat", Some("edge")).unwrap(), state());
    let key = |kind, id| scope(Place::Instance).key(kind, id).unwrap();
    let Reply::TimeLeft(Some(left_ms)) = ask(&key(Kind::Value, "lease"), Operation::TimeLeft)
    else {
        panic!("it ends")
    };
    assert!(left_ms < ENDS as u64 && left_ms > ENDS as u64 / 4, "until 2100: {left_ms}");
    let queue = key(Kind::List, "queue");
    assert_eq!(ask(&queue, Operation::Push(End::Front, bytes("0"))), Reply::Size(4));
    assert_eq!(ask(&queue, Operation::Push(End::Back, bytes("d"))), Reply::Size(5));
    assert_eq!(ask(&key(Kind::Counter, "sum"), Operation::Add(1)), Reply::Number(6));
    let add = Operation::AddTo(bytes("k"), 1);
    assert_eq!(ask(&key(Kind::CounterMap, "sums"), add), Reply::Number(4));
    let read = Reply::Content(Some(Content::List(["0", "a", "b", "c", "d"].map(bytes).to_vec())));
    assert_eq!(ask(&queue, Operation::Read), read);

    let (flusher, found) =
        Flusher::open(driver(address), "nat", "edge", Settings::default()).unwrap();
    let mut expected = kept();
    assert!(found.into_iter().collect::<BTreeMap<_, _>>() == expected, "what a start finds");
    let flows = scope(Place::Core(0)).key(Kind::Map, "flows").unwrap();
    let mut feed = flusher.feed();
    feed.change(Change::erase(&flows, bytes("text")));
    feed.change(Change::insert(&flows, Entry::Pair(bytes("new"), bytes("1"))));
    feed.hand_over();
    drop(feed);
    let status = flusher.close(Duration::from_secs(120));
    assert_eq!((status.rebuilds, &status.trouble), (0, &None), "{status:?}");
    let content = [(vec![10, 0, 0, 1], vec![0xff]), (bytes("new"), bytes("1"))];
    expected.insert(flows, Content::Map(content.into()));
    let mut left = view::state(&mut driver(address), "nat", Some("edge")).unwrap();
    left.retain(|key, _| key.scope().place() != Place::Instance);
    assert!(left == expected, "what it leaves");
    let key = scope(Place::Core(0)).key(Kind::Value, ".mark").unwrap();
    let mark = ask(&key, Operation::Read);
    let Reply::Content(Some(Content::Value(mark))) = mark else { panic!("{mark:?}") };
    let epoch = |mark: &[u8]| Mark::decode(&key, mark).unwrap().epoch;
    assert!(epoch(&mark) > epoch(MARK.as_bytes()), "who wrote before is fenced");
}

/// The rows of a key space as statements, in the order of their keys as the server has it, scope by scope.
fn rows(cql: &Cql, keyspace: &str) -> Vec<String> {
    let all = format!(
        "SELECT scope, kind, id, entry, value, number, ends, TTL(value) FROM {keyspace}.anabranch_state"
    );
    let mut rows: Vec<(String, String)> =
        cql.ask(&all).into_iter().map(|row| statement(keyspace, row)).collect();
    rows.sort_by(|(one, _), (other, _)| one.cmp(other));
    rows.into_iter().map(|(_, statement)| statement).collect()
}

/// A row's scope, and the statement that makes it.
fn statement(keyspace: &str, row: Row) -> (String, String) {
    let [scope, kind, id, entry, value, number, ends, ttl] = row.columns.try_into().unwrap();
    let text = |text: Option<CqlValue>| text.unwrap().into_string().unwrap();
    let (scope, kind, id) = (text(scope), text(kind), text(id));
    let value = value.map(|value| match value.into_blob().unwrap() {
        mark if id == ".mark" && mark.starts_with(b"1 ") => bytes(MARK),
        value => value,
    });
    let number = number.map(|number| match kind.is_empty() {
        true => VERSION,
        false => number.as_bigint().unwrap(),
    });
    let columns = [
        ("value", value.map(|value| literal(&value))),
        ("number", number.map(|number| number.to_string())),
        ("ends", ends.map(|_| ENDS.to_string())),
    ];
    let (names, values): (Vec<&str>, Vec<String>) =
        columns.into_iter().filter_map(|(name, value)| Some((name, value?))).unzip();
    let ttl = ttl.map(|ttl| ttl.as_int().unwrap());
    assert!(ttl.is_none_or(|left| (TTL - 600..=TTL).contains(&left)), "{ttl:?}");
    let ttl = ttl.map(|_| format!(" USING TTL {TTL}")).unwrap_or_default();
    let made = format!(
        "INSERT INTO {keyspace}.anabranch_state (scope, kind, id, entry, {}) \
         VALUES ('{scope}', '{kind}', '{id}', {}, {}){ttl};",
        names.join(", "),
        literal(&entry.unwrap().into_blob().unwrap()),
        values.join(", "),
    );
    (scope, made)
}

fn literal(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'\'' || *byte == b' ';
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(plain) => format!("textAsBlob('{text}')"),
        _ => bytes.iter().fold("0x".to_string(), |text, byte| format!("{text}{byte:02x}")),
    }
}

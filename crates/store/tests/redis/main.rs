//! The driver `redis` against real servers: right, and right again after each fault.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "redis-tls")]
#[path = "../authority/mod.rs"]
mod authority;
#[path = "../cable/mod.rs"]
mod cable;
#[path = "../failing/mod.rs"]
mod failing;
mod faults;
mod layout;
mod relay;
mod resharding;
mod sentinels;
mod server;

use std::thread;
use std::time::{Duration, Instant};

use anabranch_store::conformance::{self, Settings};
use anabranch_store::redis::{Address, Redis};
use anabranch_store::{
    Batch, Call, Content, Driver, End, Entry, Error, Key, Kind, Location, Operation, Outcome,
    Place, Reply, Scope,
};
use relay::Relay;
use server::{Cluster, Server, Watched, available, until};

fn driver(address: &str) -> Redis {
    Redis::new(Address::parse(address).unwrap())
}

fn by_socket(server: &Server) -> String {
    format!("redis+unix://{}?timeout_ms=300", server.socket().display())
}

fn key(kind: Kind, shard: u16) -> Key {
    Scope::new("nat", "edge", Place::Shard(shard)).unwrap().key(kind, "x").unwrap()
}

fn ask(driver: &mut Redis, key: &Key, operation: Operation) -> Result<Reply, Error> {
    driver.run(&[Call::new(key, operation)])?.remove(0)
}

fn count(count: i64) -> Operation {
    Operation::Put(Content::Counter(count))
}

fn conforms(address: &str, sequences: u32) {
    let settings = Settings { sequences, ..Settings::default() };
    let report = conformance::check(|| Ok(Box::new(driver(address))), &settings).unwrap();
    assert!(report.calls() > u64::from(sequences + settings.connections) * 200, "{report:?}");
}

#[test]
fn one_server_is_right() {
    if !available() {
        return;
    }
    let server = Server::start(&["--requirepass", "s3cret"]);
    conforms(&format!("redis+unix://:s3cret@{}", server.socket().display()), 60);
    conforms(&format!("redis://:s3cret@{}/3", server.node()), 10);
    let wrong = ask(
        &mut driver(&format!("redis://:other@{}", server.node())),
        &key(Kind::Map, 0),
        Operation::Read,
    );
    let message = wrong.unwrap_err().to_string();
    assert!(message.contains("127.0.0.1") && !message.contains("other"), "{message}");
    for (address, look) in [
        (format!("redis://:other@{}", server.node()), "are user and password right"),
        (format!("redis://{}", server.node()), "are user and password right"),
        (format!("redis://{}/3", server.node()), "are user and password right"),
        (format!("redis://:s3cret@{}/99", server.node()), "name a database that it has"),
    ] {
        let refused = ask(&mut driver(&address), &key(Kind::Map, 0), Operation::Read).unwrap_err();
        assert!(refused.is_unavailable(), "it may be asked again: {refused}");
        assert!(refused.to_string().contains(look), "{refused}");
    }
}

#[test]
fn whoever_opens_it_is_told_of_a_server_that_evicts_state() {
    if !available() {
        return;
    }
    let servers = ["noeviction", "volatile-lru", "allkeys-lru"]
        .map(|policy| Server::start(&["--maxmemory-policy", policy]));
    let remark = |server: &Server| {
        let location: Location = by_socket(server).parse().unwrap();
        location.open().unwrap().remark().map(str::to_owned)
    };
    let told = servers.each_ref().map(remark);
    assert_eq!(told[..2], [None, None]);
    assert!(told[2].as_ref().is_some_and(|why| why.contains("allkeys-lru")), "{told:?}");
    servers[2].ask::<()>(&["ACL", "SETUSER", "default", "-info"]);
    assert_eq!(remark(&servers[2]), None, "nobody may know, and it is used all the same");
    let cluster = Cluster::start(false);
    cluster.masters[2].ask::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    let told = cluster.address().parse::<Location>().unwrap().open().unwrap();
    let node = cluster.masters[2].node();
    assert!(told.remark().is_some_and(|why| why.contains(&format!("{node} evicts"))));
}

#[test]
fn users_are_let_in_by_their_names() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    server.ask::<()>(&["ACL", "SETUSER", "me", "on", ">s+3@c&t", "~nat@*", "+@all"]);
    server.ask::<()>(&["ACL", "SETUSER", "default", "off"]);
    let file = server.socket().with_extension("password");
    std::fs::write(&file, "s+3@c&t\n").unwrap();
    let read = |who: &str, query: &str| {
        let by_socket = format!("redis+unix://{who}{}?{query}", server.socket().display());
        let by_port = format!("redis://{who}{}?{query}", server.node());
        [by_socket, by_port]
            .map(|address| ask(&mut driver(&address), &key(Kind::Counter, 1), Operation::Read))
    };
    let by_file = format!("password_file={}", file.display());
    for (who, query) in [("me:s+3%40c&t@", ""), ("me@", &*by_file)] {
        assert_eq!(read(who, query), [const { Ok(Reply::Content(None)) }; 2], "{who}");
    }
    for who in [":s+3%40c&t@", "you:s+3%40c&t@", "me:s%203%40c&t@", ""] {
        for refused in read(who, "").map(Result::unwrap_err) {
            assert!(refused.to_string().contains("are user and password right"), "{refused}");
        }
    }
}

#[test]
fn a_cluster_is_right() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(false);
    conforms(&cluster.address(), 25);
    let mut driver = driver(&cluster.address());
    let calls: Vec<Call> = (0..64).map(|n| Call::new(&key(Kind::Counter, n), count(7))).collect();
    driver.run(&calls).unwrap().into_iter().for_each(|answer| assert_eq!(answer, Ok(Reply::Done)));
    let used = cluster.masters.iter().filter(|one| one.ask::<u64>(&["DBSIZE"]) > 5).count();
    assert_eq!(used, 3, "shards spread over the nodes");
    assert_eq!(driver.keys("nat@edge@").unwrap().len(), 64);
    assert_eq!(driver.keys("nat@edge@s1@").unwrap().len(), 1);
    let named = |name| move |one: &Server| one.ask::<Vec<String>>(&["KEYS", name]).len();
    assert_eq!(cluster.masters.iter().map(named("{nat@edge@s1}@counter@x")).sum::<usize>(), 1);
}

/// A server reads whatever of a message has come: each round trip is at least one read.
#[test]
fn a_message_takes_few_round_trips_and_not_one_for_each_call_or_batch() {
    if !available() {
        return;
    }
    const MANY: u16 = 512;
    let server = Server::start(&[]);
    let calls: Vec<Call> = (0..MANY).map(|n| Call::new(&key(Kind::Counter, n), count(7))).collect();
    let batch = |call: &Call| Batch {
        mark: call.key.scope().key(Kind::Value, "mark").unwrap(),
        expected: None,
        next: b"1".to_vec(),
        present: Vec::new(),
        calls: vec![call.clone()],
    };
    let batches: Vec<Batch> = calls.iter().map(batch).collect();
    let reads = |what: &mut dyn FnMut()| {
        let told = || server.number("stats", "total_reads_processed");
        let before = told();
        what();
        told() - before
    };
    for address in [by_socket(&server), format!("redis://{}", server.node())] {
        server.ask::<()>(&["FLUSHALL"]);
        let mut driver = driver(&address);
        let asked = server.number("stats", "total_commands_processed");
        let one_by_one = reads(&mut || {
            for call in &calls {
                driver.run(std::slice::from_ref(call)).unwrap();
            }
        });
        assert!(one_by_one >= u64::from(MANY), "{one_by_one}: this counts nothing");
        let together =
            reads(&mut || assert!(driver.run(&calls).unwrap().iter().all(Result::is_ok)));
        assert!(together < u64::from(MANY) / 8, "{together} reads, calls");
        let together = reads(&mut || {
            let outcomes = driver.commit(&batches).unwrap();
            assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Committed));
        });
        // Each brings its script, half a kilobyte, and a server takes 16 KiB at once.
        assert!(together < u64::from(MANY) / 4, "{together} reads, batches");
        let asked = server.number("stats", "total_commands_processed") - asked;
        assert!(asked > u64::from(MANY) * 3, "{asked} commands");
    }
}

#[test]
fn objects_are_of_the_servers_own_types() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let mut driver = driver(&by_socket(&server));
    let text = |text: &str| text.as_bytes().to_vec();
    let made = [
        (Kind::Value, Operation::Put(Content::Value(text("v"))), "string"),
        (Kind::Counter, Operation::Add(41), "string"),
        (Kind::List, Operation::Push(End::Back, text("e")), "list"),
        (Kind::Set, Operation::Insert(Entry::Member(text("m"))), "set"),
        (Kind::Map, Operation::Insert(Entry::Pair(text("k"), text("v"))), "hash"),
        (Kind::CounterMap, Operation::AddTo(text("k"), 5), "hash"),
    ];
    for (kind, operation, of_type) in made {
        ask(&mut driver, &key(kind, 1), operation).unwrap();
        let name = format!("nat@edge@s1@{kind}@x");
        assert_eq!(server.ask::<String>(&["TYPE", &name]), of_type, "{name}");
    }
    assert_eq!(server.ask::<i64>(&["INCRBY", "nat@edge@s1@counter@x", "1"]), 42);
    assert_eq!(server.ask::<String>(&["HGET", "nat@edge@s1@countermap@x", "k"]), "5");
}

#[test]
fn what_others_wrote_is_told() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let mut driver = driver(&by_socket(&server));
    server.ask::<()>(&["SET", "nat@edge@s1@counter@x", "many"]);
    server.ask::<()>(&["SET", "nat@edge@s1@map@x", "one"]);
    server.ask::<()>(&["SET", "nat@edge@s1@map@x@y", "not a key of ours"]);
    for (kind, operation) in [
        (Kind::Counter, Operation::Read),
        (Kind::Counter, Operation::Add(1)),
        (Kind::Map, Operation::Read),
        (Kind::Map, Operation::Erase(Vec::new())),
        (Kind::Map, Operation::CompareAndInsert { key: vec![], from: None, to: vec![] }),
    ] {
        let answer = ask(&mut driver, &key(kind, 1), operation);
        assert!(matches!(answer, Err(Error::Foreign { .. })), "{answer:?}");
    }
    assert_eq!(driver.keys("nat@").unwrap(), [key(Kind::Counter, 1), key(Kind::Map, 1)]);
}

#[test]
fn a_killed_server_is_found_again() {
    if !available() {
        return;
    }
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    for address in [by_socket(&server), format!("redis://{}?timeout_ms=300", server.node())] {
        let mut driver = driver(&address);
        ask(&mut driver, &key(Kind::Counter, 1), count(5)).unwrap();
        server.kill();
        let gone = ask(&mut driver, &key(Kind::Counter, 1), Operation::Read).unwrap_err();
        assert!(gone.is_unavailable(), "{gone}");
        server.restart();
        let read = ask(&mut driver, &key(Kind::Counter, 1), Operation::Read);
        assert_eq!(read, Ok(Reply::Content(Some(Content::Counter(5)))));
        // Restarted between two calls: what may be repeated does not notice; an addition is not
        // tried again, since nobody knows whether it was done.
        server.restart();
        ask(&mut driver, &key(Kind::Counter, 1), Operation::Read).unwrap();
        server.restart();
        let added = ask(&mut driver, &key(Kind::Counter, 1), Operation::Add(1));
        assert!(added.unwrap_err().is_unavailable());
        assert_eq!(
            ask(&mut driver, &key(Kind::Counter, 1), Operation::Add(1)),
            Ok(Reply::Number(6))
        );
    }
}

#[test]
fn counts_are_neither_lost_nor_doubled_while_a_server_stops() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    failing::adds(driver(&by_socket(&server)), || {
        for _ in 0..2 {
            thread::sleep(Duration::from_millis(200));
            server.signal("STOP");
            thread::sleep(Duration::from_millis(1_000));
            server.signal("CONT");
        }
        thread::sleep(Duration::from_millis(500));
    });
}

#[test]
fn a_stopped_server_is_waited_for_no_longer_than_configured() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    for address in [by_socket(&server), format!("redis://{}?timeout_ms=300", server.node())] {
        let mut driver = driver(&address);
        let calls: Vec<Call> = (0..2_000)
            .map(|n| Call::new(&key(Kind::Counter, n % 9), count(i64::from(n))))
            .collect();
        driver.run(&calls).unwrap();
        server.signal("STOP");
        for _ in 0..2 {
            let began = Instant::now();
            assert!(driver.run(&calls).unwrap_err().is_unavailable());
            assert!(began.elapsed() < Duration::from_millis(1_500), "{:?}", began.elapsed());
        }
        server.signal("CONT");
        until("it answers again", || driver.run(&calls).is_ok());
        // Answers of before are not taken for those of now.
        for n in 0..9 {
            let read = ask(&mut driver, &key(Kind::Counter, n), Operation::Read).unwrap();
            let last = calls.iter().rev().find(|call| call.key == key(Kind::Counter, n)).unwrap();
            assert_eq!(
                Operation::Put(match read {
                    Reply::Content(Some(content)) => content,
                    other => panic!("{other:?}"),
                }),
                last.operation
            );
        }
    }
}

/// A value is asked for by way of `relay`, and set, while it dribbles and when it does not.
fn does_not_wait_for_what_is_dribbled(relay: &Relay, address: &str) {
    let at = key(Kind::Value, 1);
    let put = |letter| Operation::Put(Content::Value(vec![letter; 200]));
    let batch = |number: u8| Batch {
        mark: at.scope().key(Kind::Value, "mark").unwrap(),
        expected: (number > 1).then(|| vec![b'm'; 100 + usize::from(number) - 1]),
        next: vec![b'm'; 100 + usize::from(number)],
        present: Vec::new(),
        calls: vec![Call::new(&at, put(number))],
    };
    let mut open = driver(address);
    assert_eq!(open.commit(&[batch(1)]), Ok(vec![Outcome::Committed]), "{address}");
    relay.dribble(true);
    // The mark that the server has is in the answer to one that is not right.
    for (mut driver, what) in [(open, "connected"), (driver(address), "not connected")] {
        let began = Instant::now();
        let late = driver.commit(&[batch(9)]).unwrap_err();
        // A connection is made within the timeout, and so long is waited then.
        let took = began.elapsed();
        assert!(took < Duration::from_millis(700), "{address}, {what}: {took:?}");
        assert!(late.to_string().contains("no answer within 200 ms"), "{address}: {late}");
        let began = Instant::now();
        let late = ask(&mut driver, &at, Operation::Read).unwrap_err();
        let took = began.elapsed();
        assert!(took < Duration::from_millis(1_100), "{address}, {what}: {took:?}");
        assert!(late.to_string().contains("no answer within 200 ms"), "{address}: {late}");
        relay.dribble(false);
        let read = ask(&mut driver, &at, Operation::Read).unwrap();
        assert_eq!(read, Reply::Content(Some(Content::Value(vec![1; 200]))), "{address}");
        relay.dribble(true);
    }
    relay.dribble(false);
}

#[test]
fn an_answer_that_is_dribbled_is_waited_for_no_longer_than_configured() {
    if !available() {
        return;
    }
    let server = Server::start(&["--requirepass", "s3cret"]);
    let relay = Relay::to(server.node());
    let address = format!("redis://:s3cret@{}/3?timeout_ms=200", relay.node());
    does_not_wait_for_what_is_dribbled(&relay, &address);
    let cluster = Server::start(&["--cluster-enabled", "yes"]);
    let relay = Relay::to(cluster.node());
    let port = relay.node().rsplit(':').next().unwrap().to_owned();
    cluster.ask::<()>(&["CONFIG", "SET", "cluster-announce-port", &port]);
    cluster.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    until("it works", || cluster.ask::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
    let address = format!("redis+cluster://{}?timeout_ms=200", relay.node());
    does_not_wait_for_what_is_dribbled(&relay, &address);
}

#[test]
fn a_sentinel_that_dribbles_is_waited_for_no_longer_than_configured() {
    if !available() {
        return;
    }
    let servers = Watched::start();
    let relay = Relay::to(servers.sentinel.node());
    let address = format!("redis+sentinel://{}/main?timeout_ms=200", relay.node());
    relay.dribble(true);
    let mut driver = driver(&address);
    let began = Instant::now();
    let late = ask(&mut driver, &key(Kind::Counter, 1), Operation::Read).unwrap_err();
    assert!(began.elapsed() < Duration::from_millis(1_000), "{:?}", began.elapsed());
    assert!(late.to_string().contains("no answer within 200 ms"), "{late}");
    relay.dribble(false);
    let read = ask(&mut driver, &key(Kind::Counter, 1), Operation::Read);
    assert_eq!(read, Ok(Reply::Content(None)));
}

#[test]
fn a_cluster_fails_over() {
    if !available() {
        return;
    }
    let mut cluster = Cluster::start(true);
    let mut driver = driver(&cluster.address());
    let calls = |to: i64| -> Vec<Call> {
        (0..32).map(|n| Call::new(&key(Kind::Counter, n), count(to))).collect()
    };
    driver.run(&calls(1)).unwrap();
    cluster.masters[0].kill();
    assert!(driver.run(&calls(2)).unwrap_err().is_unavailable());
    until("the replica has taken over", || driver.run(&calls(3)).is_ok());
    let replica = cluster.replica.as_ref().unwrap();
    assert!(replica.ask::<u64>(&["DBSIZE"]) > 5);
    let reads: Vec<Call> =
        calls(0).into_iter().map(|one| Call::new(&one.key, Operation::Read)).collect();
    for answer in driver.run(&reads).unwrap() {
        assert_eq!(answer, Ok(Reply::Content(Some(Content::Counter(3)))));
    }
}

#[cfg(feature = "redis-tls")]
#[test]
fn connections_are_encrypted_and_only_the_right_authority_is_trusted() {
    if !available() {
        return;
    }
    let made = authority::Certificates::make();
    let port = server::free_port().to_string();
    let arguments = [
        "--tls-port",
        &port,
        "--tls-cert-file",
        &made.path("s.crt"),
        "--tls-key-file",
        &made.path("s.key"),
        "--tls-ca-cert-file",
        &made.path("ca.crt"),
        "--tls-auth-clients",
        "no",
    ];
    let _server = Server::start(&arguments);
    let relay = Relay::to(format!("127.0.0.1:{port}"));
    let trusted = format!("ca={}&timeout_ms=200", made.path("ca.crt"));
    let address = format!("rediss://{}?{trusted}", relay.node());
    does_not_wait_for_what_is_dribbled(&relay, &address);
    let nothing = key(Kind::Value, 0);
    conforms(&format!("rediss://127.0.0.1:{port}?ca={}", made.path("ca.crt")), 5);
    let silent = Server::start(&[]);
    let plain = format!("rediss://{}?{trusted}", silent.node());
    for (address, why) in [
        (format!("rediss://127.0.0.1:{port}?ca={}", made.path("other.crt")), "UnknownIssuer"),
        (format!("rediss://127.0.0.1:{port}"), "no TLS: invalid peer certificate"),
        (format!("rediss://localhost:{port}?{trusted}"), "not valid for name \"localhost\""),
        // It waits for the end of a line.
        (plain, "no TLS: no answer within 200 ms): does it speak TLS at this port"),
        (
            format!("redis://127.0.0.1:{port}?timeout_ms=300"),
            "where it wants TLS, begin with rediss",
        ),
    ] {
        let refused = ask(&mut driver(&address), &nothing, Operation::Read).unwrap_err();
        assert!(refused.is_unavailable() && refused.to_string().contains(why), "{refused}");
    }
}

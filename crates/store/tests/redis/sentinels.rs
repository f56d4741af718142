//! Sentinels: who they say has the data, and the passwords that they and the servers want to hear.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use anabranch_store::redis::Address;
use anabranch_store::{Driver as _, Kind};

use crate::server::{Cluster, Server, Watched, available, until};
use crate::{ask, count, driver, key};

/// A file with a password beside a server's socket, as an option of an address.
fn of_file(beside: &Server, password: &str) -> String {
    let file = beside.socket().with_file_name(password);
    std::fs::write(&file, format!("{password}\n")).unwrap();
    format!("&sentinel_password_file={}", file.display())
}

#[test]
fn sentinels_say_who_has_taken_over() {
    if !available() {
        return;
    }
    let mut servers = Watched::start_guarded();
    let address = servers.address_of(":s3cret@", &of_file(&servers.replica, "watch"));
    let mut driver = driver(&address);
    ask(&mut driver, &key(Kind::Counter, 1), count(8)).unwrap();
    until("the replica has it", || servers.replica.ask::<u64>(&["DBSIZE"]) == 1);
    servers.master.kill();
    assert!(ask(&mut driver, &key(Kind::Counter, 1), count(9)).unwrap_err().is_unavailable());
    until("it is written again", || ask(&mut driver, &key(Kind::Counter, 1), count(9)).is_ok());
    assert_eq!(servers.replica.ask::<String>(&["GET", "nat@edge@s1@counter@x"]), "9");
}

/// What an address is answered with: nothing wrong, or what a user is told.
fn told(address: &str) -> Result<(), String> {
    let shown = Address::parse(address).unwrap().to_string();
    let answer = ask(&mut driver(address), &key(Kind::Counter, 1), count(1));
    answer.map(drop).map_err(|error| {
        let text = error.to_string();
        assert!(error.is_unavailable(), "it may be asked again: {text}");
        assert!(text.contains(&shown), "{text}");
        assert!(["s3cret", "watch", "guess"].iter().all(|word| !text.contains(word)), "{text}");
        text
    })
}

#[test]
fn sentinels_have_passwords_of_their_own() {
    if !available() {
        return;
    }
    let master = Server::start(&["--requirepass", "s3cret"]);
    let sentinels = [&[][..], &["--requirepass", "watch"]].map(|arguments| {
        let sentinel = Server::start(&[&["--sentinel"], arguments].concat());
        let port = master.port.to_string();
        sentinel.ask::<()>(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &port, "1"]);
        sentinel.ask::<()>(&["SENTINEL", "SET", "main", "auth-pass", "s3cret"]);
        sentinel
    });
    let [open, guarded] = &sentinels;
    let address = |user: &str, sentinels: &[String], query: &str| {
        format!("redis+sentinel://{user}{}/main?timeout_ms=2000{query}", sentinels.join(","))
    };
    let (right, wrong) = (of_file(&master, "watch"), of_file(&master, "guess"));
    let away = "127.0.0.1:1".to_string();
    assert_eq!(told(&address(":s3cret@", &[guarded.node()], &right)), Ok(()));
    assert_eq!(told(&address(":s3cret@", &[open.node()], "")), Ok(()));
    // Of several, whoever lets in is enough.
    assert_eq!(told(&address(":s3cret@", &[guarded.node(), open.node()], "")), Ok(()));
    // The sentinel's is not the servers', and who does not let in is told, not who is away.
    for (sentinel, query) in [(guarded, ""), (guarded, &*wrong), (open, &*right)] {
        for others in [vec![], vec![away.clone()]] {
            let sentinels = [&[sentinel.node()][..], &others].concat();
            let error = told(&address(":s3cret@", &sentinels, query)).unwrap_err();
            assert!(error.contains(&format!("({}: ", sentinel.node())), "{error}");
            assert!(error.contains("refuses what is asked of it"), "{error}");
            assert!(error.contains("?sentinel_password_file=FILE"), "{error}");
        }
    }
    for user in ["", ":guess@"] {
        let error = told(&address(user, &[guarded.node()], &right)).unwrap_err();
        assert!(error.contains("refuses what is asked of it"), "{error}");
        assert!(error.contains("are user and password right"), "{error}");
        assert!(!error.contains("sentinel_password_file"), "{error}");
    }
    let nobody = told(&address(":s3cret@", std::slice::from_ref(&away), &right)).unwrap_err();
    assert!(nobody.contains("is it running"), "{nobody}");
    // Only the sentinel wants to hear one.
    master.ask::<()>(&["CONFIG", "SET", "requirepass", ""]);
    assert_eq!(told(&address("", &[guarded.node()], &right)), Ok(()));
}

/// A sentinel that watches one server.
fn sentinel_of(master: &Server) -> Server {
    let sentinel = Server::start(&["--sentinel"]);
    let port = master.port.to_string();
    sentinel.ask::<()>(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &port, "1"]);
    sentinel
}

#[test]
fn whom_sentinels_have_named_last_is_asked_while_none_of_them_is_there() {
    if !available() {
        return;
    }
    let master = Server::start(&[]);
    let mut sentinel = sentinel_of(&master);
    let address = format!("redis+sentinel://{}/main?timeout_ms=2000", sentinel.node());
    let mut driver = driver(&address);
    ask(&mut driver, &key(Kind::Counter, 1), count(8)).unwrap();
    sentinel.kill();
    let closes = || master.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    assert!(closes() > 0);
    ask(&mut driver, &key(Kind::Counter, 1), count(9)).unwrap();
    assert_eq!(master.ask::<String>(&["GET", "nat@edge@s1@counter@x"]), "9");
    // Who starts now has nobody to ask.
    assert!(told(&address).unwrap_err().contains("is it running"));
    master.ask::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    closes();
    let error = ask(&mut driver, &key(Kind::Counter, 1), count(10)).unwrap_err().to_string();
    assert!(error.contains("is no master yet"), "{error}");
}

/// Answers as a web server does, until the tests are over.
fn web_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let node = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 512]);
            let _ =
                stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>");
        }
    });
    node
}

#[test]
fn another_kind_of_server_than_the_address_says_is_told() {
    if !available() {
        return;
    }
    let server = Server::start(&[]);
    let sentinel = sentinel_of(&server);
    let (server, sentinel) = (server.node(), sentinel.node());
    for (address, look) in [
        (format!("redis://{sentinel}"), "a sentinel is named as redis+sentinel://HOST:PORT,…/NAME"),
        (format!("redis+cluster://{sentinel}"), "a sentinel is named as redis+sentinel://"),
        (format!("redis+sentinel://{server}/main"), "it is no sentinel"),
        (format!("redis+sentinel://{sentinel}/other"), "knows no `other`): behind the / stands"),
        (format!("redis+cluster://{server}"), "that is in no cluster as redis://HOST:PORT"),
        (format!("redis://{}", web_server()), "name the port of a Redis; where it wants TLS"),
    ] {
        let address = format!("{address}?timeout_ms=2000");
        let error = told(&address).unwrap_err();
        assert!(error.contains(look) && !error.contains("is it running"), "{address}: {error}");
        assert!(!error.contains("with args") && !error.contains('\n'), "{error}");
    }
    // A key is at one of them.
    let cluster = Cluster::start(false);
    let nodes = cluster.masters.iter().map(|master| format!("redis://{}", master.node()));
    let errors: Vec<String> = nodes.filter_map(|node| told(&node).err()).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    let look = "is named as redis+cluster://HOST:PORT";
    assert!(errors.iter().all(|error| error.contains(look)), "{errors:?}");
    let listed = driver(&format!("redis://{sentinel}")).keys("nat@").unwrap_err().to_string();
    assert!(listed.contains("unknown command 'SCAN'): a sentinel is named"), "{listed}");
}

#[test]
fn a_server_that_takes_nobody_says_why_and_no_password_is_shown() {
    if !available() {
        return;
    }
    let quiet = Server::start(&["--rename-command", "AUTH", "\"\""]);
    let full = Server::start(&["--maxclients", "1"]);
    let _only = full.connect();
    for (node, says) in [
        (quiet.node(), "unknown command 'AUTH'): a sentinel is named as"),
        (full.node(), "max number of clients reached): see how the server is"),
    ] {
        for who in ["me:s3cret@", ""] {
            let answer = told(&format!("redis://{who}{node}?timeout_ms=2000"));
            if who.is_empty() && says.contains("AUTH") {
                assert_eq!(answer, Ok(()));
                continue;
            }
            let error = answer.unwrap_err();
            assert!(error.contains(says) && !error.contains("is it running"), "{error}");
        }
    }
}

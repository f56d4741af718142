//! Sentinels: who they say has the data, and the passwords that they and the servers want to hear.

use anabranch_store::Kind;
use anabranch_store::redis::Address;

use crate::server::{Server, Watched, available, until};
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

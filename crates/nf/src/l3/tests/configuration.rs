use super::{NETWORK, read};

#[test]
fn nothing_configured_is_disabled() {
    assert!(!read("").unwrap().enabled());
    assert!(read(NETWORK).unwrap().enabled());
}

/// One interface with `rest` after it.
fn lan(rest: &str) -> String {
    let head = "[interfaces.lan]\nmac = \"02:00:00:00:00:01\"\n";
    format!("{head}addresses = [\"10.0.0.1/24\"]\n{rest}")
}

#[test]
fn says_what_is_wrong_and_what_to_write() {
    let both = "[interfaces.wan]\nmac = \"02:00:00:00:00:02\"\n";
    for (text, words) in [
        ("route = 1".to_owned(), "setting `route` does not exist; did you mean `routes`?"),
        ("interfaces = 1".to_owned(), "write a table for each interface, such as [interfaces.lan]"),
        ("[interfaces]\nlan = 1".to_owned(), "setting `interfaces.lan`: write a table"),
        ("routes = 1".to_owned(), "write a table for each, headed [[routes]]"),
        ("neighbours = [1]".to_owned(), "write a table for each, headed [[neighbours]]"),
        (
            lan("").replace("interfaces.lan", "interfaces.lann"),
            "`lann` is no port of this run; did you mean `lan`?",
        ),
        (lan("mtv = 3"), "setting `interfaces.lan.mtv` does not exist; did you mean `mtu`?"),
        (
            lan("mtu = 40"),
            "setting `interfaces.lan.mtu`: 40 is out of range: write a value between",
        ),
        (lan("").replace("02:", "03:"), "03:00:00:00:00:01 is no station's address"),
        (lan("").replace("mac = ", "# "), "setting `interfaces.lan.mac`: must be given"),
        (
            lan("").replace("/24", ""),
            "\"10.0.0.1\" has no prefix length; write that of its network, as in \"10.0.0.1/24\"",
        ),
        (lan("").replace("0.1/24", "0.0/24"), "10.0.0.0/24 is no host's address"),
        (lan("").replace("10.0.0.1", "224.0.0.1"), "224.0.0.1/24 is no host's address"),
        (
            lan("mtu = 1000").replace("10.0.0.1/24", "2001:db8::1/64"),
            "2001:db8::1/64 needs an mtu of 1280 or more",
        ),
        (
            lan(&format!("{both}addresses = [\"10.0.0.1/25\"]")),
            "10.0.0.1 is given twice, to `lan` too",
        ),
        (
            lan(&format!("{both}addresses = [\"10.0.0.2/24\"]")),
            "10.0.0.0/24 is on the link of `wan` too; one prefix, one link",
        ),
        (
            lan("answer_for = [\"10.0.0.17/28\"]"),
            "`interfaces.lan.answer_for`: \"10.0.0.17/28\" has host bits set; write \"10.0.0.16/28\"",
        ),
        (
            lan("answer_for = [\"224.0.0.0/4\"]"),
            "224.0.0.0/4 has no hosts' addresses; leave it out",
        ),
        (lan("answer_for = [\"ffff::/120\"]"), "ffff::/120 has no hosts' addresses; leave it out"),
        (
            lan("answer_for = [\"10.0.0.0/23\"]"),
            "10.0.0.0/23 has all hosts of the link 10.0.0.0/24; write a part of it",
        ),
    ] {
        let error = read(&text).unwrap_err();
        assert!(error.contains(words), "{text}\n gives: {error}");
    }
}

/// Of an interface and each `rest` after it something is wrong, which is said in these words.
fn says(cases: &[(&str, &str)]) {
    for (rest, words) in cases {
        let error = read(&lan(rest)).unwrap_err();
        assert!(error.contains(words), "{rest}\n gives: {error}");
    }
}

#[test]
fn says_what_is_wrong_with_routes() {
    says(&[
        (
            "[[routes]]\nto = \"10.1.0.1/16\"",
            "setting `routes[0].to`: \"10.1.0.1/16\" has host bits set; write \"10.1.0.0/16\"",
        ),
        (
            "[[routes]]\nto = \"10.1.0.0/16\"",
            "setting `routes[0]`: give `via`, the next router, or `port`",
        ),
        ("[[routes]]\nto = \"10.1.0.0/16\"\nvia = \"::1\"", "are of different versions of IP"),
        ("[[routes]]\nto = \"10.1.0.0/16\"\nvia = \"10.0.0.1\"", "10.0.0.1 is our own address"),
        (
            "[[routes]]\nto = \"10.1.0.0/16\"\nvia = \"10.0.0.255\"",
            "10.0.0.255 is no host's address",
        ),
        (
            "[[routes]]\nto = \"10.1.0.0/16\"\nvia = \"ten\"",
            "\"ten\" is no IP address; write one such as",
        ),
        (
            "[[routes]]\nto = \"10.1.0.0/16\"\nvia = \"10.9.0.1\"",
            "no interface has 10.9.0.1 on its link; give `port` too",
        ),
        (
            "[[routes]]\nto = \"10.1.0.0/16\"\nport = \"wan\"",
            "port `wan` has no interface; add [interfaces.wan]",
        ),
        (
            "[[routes]]\nto = \"10.1.0.0/16\"\nport = \"w\"",
            "`w` is no port of this run; there are: lan, wan",
        ),
        (
            "[[routes]]\nto = \"2001:db8::/32\"\nvia = \"fe80::1\"",
            "fe80::1 is on every link: give `port` too",
        ),
        (
            "[[routes]]\nto = \"2001:db8::/32\"\nport = \"lan\"",
            "interface `lan` has no IPv6 address; give it one",
        ),
        (
            "[[routes]]\nto = \"10.0.0.0/24\"\nport = \"lan\"",
            "10.0.0.0/24 is on the link of `lan` already",
        ),
        (
            "[[routes]]\nto = \"224.0.0.0/4\"\nport = \"lan\"",
            "nothing is forwarded to 224.0.0.0/3; leave the route out",
        ),
        (
            "[[routes]]\nto = \"10.1.0.0/16\"\nvia = \"10.0.0.2\"\nmetric = 1",
            "setting `routes[0].metric` does not exist",
        ),
    ]);
}

#[test]
fn says_what_is_wrong_with_neighbours() {
    says(&[
        (
            "[[neighbours]]\naddress = \"10.0.0.0\"\nmac = \"02:00:00:00:00:09\"",
            "setting `neighbours[0].address`: 10.0.0.0 is no host's address",
        ),
        (
            "[[neighbours]]\naddress = \"10.0.0.1\"\nmac = \"02:00:00:00:00:09\"",
            "10.0.0.1 is our own address",
        ),
        (
            "[[neighbours]]\naddress = \"10.0.0.9\"\nmac = \"ff:ff:ff:ff:ff:ff\"",
            "ff:ff:ff:ff:ff:ff is no station's address",
        ),
        (
            "[[neighbours]]\naddress = \"10.1.0.9\"\nmac = \"02:00:00:00:00:09\"",
            "no interface has 10.1.0.9 on its link",
        ),
        (
            "[[neighbours]]\nmac = \"02:00:00:00:00:09\"",
            "setting `neighbours[0].address`: must be given (IP address)",
        ),
    ]);
}

#[test]
fn says_what_is_given_twice_and_every_mistake_at_once() {
    let route = "[[routes]]\nto = \"10.1.0.0/16\"\nvia = \"10.0.0.2\"\n";
    let error = read(&lan(&[route, route].concat())).unwrap_err();
    assert_eq!(error, "setting `routes`: there are two routes to 10.1.0.0/16; keep one");
    let neighbour = "[[neighbours]]\naddress = \"10.0.0.9\"\nmac = \"02:00:00:00:00:09\"\n";
    let error = read(&lan(&[neighbour, neighbour].concat())).unwrap_err();
    assert_eq!(error, "setting `neighbours`: 10.0.0.9 is given twice; keep one");
    let error = read(&lan("mtu = 1\nmtw = 2\n[[routes]]\nto = 3")).unwrap_err();
    assert_eq!(error.lines().count(), 3, "{error}");
}

#[test]
fn the_link_local_address_brings_no_mistakes_of_its_own() {
    let ipv6 = lan("mtu = 1000").replace("10.0.0.1/24", "2001:db8::1/64");
    assert_eq!(read(&ipv6).unwrap_err().lines().count(), 1);
    let given = lan("").replace("10.0.0.1/24", "fe80::ff:fe00:1/64");
    assert!(read(&given).unwrap().enabled());
    // Each link may have the same one, of whichever station.
    let twice = NETWORK.replace("02:00:00:00:00:02", "02:00:00:00:00:01");
    assert!(read(&twice).unwrap().enabled());
    let gateway = NETWORK.replace("2001:db8:1::1/64\"", "2001:db8:1::1/64\", \"fe80::1/64\"");
    let gateway = gateway.replace("via = \"2001:db8:2::1\"", "via = \"fe80::1\"\nport = \"wan\"");
    assert!(read(&gateway).unwrap().enabled());
    let own = gateway.replace("port = \"wan\"", "port = \"lan\"");
    assert!(read(&own).unwrap_err().contains("fe80::1 is our own address"));
}

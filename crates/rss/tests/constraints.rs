//! Constraints as text.

#![allow(clippy::unwrap_used)]

use anabranch_rss::{
    Bits, Cause, Class, Equality, Field, Impossible, Need, Nic, Problem, Side, Which, needs_of,
    ports_of, solve,
};

fn nics(count: usize) -> Vec<&'static Nic> {
    vec![Nic::named("82599").unwrap(); count]
}

#[track_caller]
fn needs(text: &str) -> Vec<Need> {
    needs_of(text, &nics(ports_of(text).unwrap())).unwrap()
}

fn at(port: usize, class: Class) -> Side {
    Side { port, class }
}

#[test]
fn short_names_stand_for_both_families_and_both_protocols() {
    let text = "p0.src = p1.dst && p0.dst = p1.src && p0.sport = p1.dport && p0.dport = p1.sport";
    let flow = |class: Class| Need::reply(at(0, class), at(1, class), &class.fields()[2..]);
    let classes = [Class::Ipv4Tcp, Class::Ipv4Udp, Class::Ipv6Tcp, Class::Ipv6Udp];
    assert_eq!(needs(text), classes.map(flow));
}

#[test]
fn a_need_is_about_every_class_that_has_the_fields() {
    // Of the classes that an 82599 tells apart, three have IPv4 addresses.
    let found = needs("p0.ipv4.dst = p0.ipv4.dst");
    let classes = [Class::Ipv4Tcp, Class::Ipv4Udp, Class::Ipv4];
    let pairs = classes.map(|first| classes.map(|second| (first, second))).concat();
    let expected: Vec<Need> = pairs
        .into_iter()
        .map(|(first, second)| {
            Need::new(at(0, first), at(0, second), vec![Equality::same(Field::Ipv4Dst)])
        })
        .collect();
    assert_eq!(found, expected);
    assert_eq!(needs("p0.dst = p0.dst").len(), 18);
    assert_eq!(needs("p0.ethernet.src = p0.ethernet.src").len(), 49);
}

#[test]
fn the_tag_of_sctp_is_a_field_as_others() {
    let nic = Nic::named("x710").unwrap();
    let found = needs_of("p0.sctp.tag = p0.sctp.tag", &[nic]).unwrap();
    let classes = [Class::Ipv4Sctp, Class::Ipv6Sctp];
    let pairs = classes.map(|first| classes.map(|second| (first, second))).concat();
    let same = || vec![Equality::same(Field::SctpTag)];
    let expected =
        pairs.into_iter().map(|(first, second)| Need::new(at(0, first), at(0, second), same()));
    assert_eq!(found, expected.collect::<Vec<_>>());
    for field in Field::HASHED {
        let text = format!("p0.{field} = p0.{field}");
        assert!(needs_of(&text, &[nic]).is_ok(), "{text}");
    }
}

/// Packets that a NIC does not tell apart have the fields all the same.
#[test]
fn what_a_nic_does_not_look_for_is_not_hashed() {
    let nic = Nic::named("cx6").unwrap();
    let needs = needs_of("p0.sctp.src = p0.sctp.src", &[nic]).unwrap();
    let sides = needs[0].sides.map(|side| side.class);
    assert_eq!((needs.len(), sides), (4, [Class::Ipv4; 2]));
    let problem = Problem { needs, ..Problem::new(&[nic]) };
    let Err(Impossible::Unsteerable(classes)) = solve(&problem) else { panic!("a key") };
    let found: Vec<_> = classes.iter().map(|class| (class.side.class, &class.cause)).collect();
    let unhashed = Cause::Unhashed(vec![Field::SctpSrc]);
    assert_eq!(found, [(Class::Ipv4, &unhashed), (Class::Ipv6, &unhashed)]);
    // Together with what is hashed there is a key.
    let text = "p0.ipv4.src = p0.ipv4.src && p0.sctp.src = p0.sctp.src";
    let needs = needs_of(text, &[nic]).unwrap();
    assert!(solve(&Problem { needs, ..Problem::new(&[nic]) }).is_ok());
}

#[test]
fn cases_ranges_constants_and_sums_are_read() {
    let of = |text: &str| needs(text).remove(0).equalities;
    let bits = |field, first, len| Bits { field, first, len };
    assert_eq!(
        of("p0.ipv4.src/24 = p0.ipv4.src/24"),
        [Equality::between(Field::Ipv4Src.prefix(24), Field::Ipv4Src.prefix(24))]
    );
    assert_eq!(
        of("p0.tcp.src[8..16] == p1.tcp.dst [8..16]"),
        [Equality::between(bits(Field::TcpSrc, 8, 8), bits(Field::TcpDst, 8, 8))]
    );
    assert_eq!(
        of("p0.ipv4.src ^ p0.ipv4.dst = p1.ipv4.dst ^ 0.0.0.255"),
        [Equality {
            terms: vec![
                (Which::First, Field::Ipv4Src.bits()),
                (Which::First, Field::Ipv4Dst.bits()),
                (Which::Second, Field::Ipv4Dst.bits()),
            ],
            constant: 255,
        }]
    );
    // One port, no mark: constants are about both packets, an address gives its first bits.
    assert_eq!(
        of("p0.tcp.dst = 0x50 && p0.ipv4.src/8 = 10.0.0.0"),
        [
            Equality::constant(Which::First, Field::TcpDst.bits(), 80),
            Equality::constant(Which::Second, Field::TcpDst.bits(), 80),
            Equality::constant(Which::First, Field::Ipv4Src.prefix(8), 10),
            Equality::constant(Which::Second, Field::Ipv4Src.prefix(8), 10),
        ]
    );
    // With a mark, they are about the packet that is named.
    assert_eq!(
        of("p0'.tcp.dst = 80 && p0.tcp.src = p0'.tcp.src"),
        [
            Equality::constant(Which::Second, Field::TcpDst.bits(), 80),
            Equality::between(Field::TcpSrc.bits(), Field::TcpSrc.bits()),
        ]
    );
    let either = needs("p0.tcp.src = p0.tcp.src || p0.tcp.dst = p0.tcp.dst");
    assert_eq!(either.len(), 2 * 4);
    let mac = "p0.ethernet.src = 02:00:00:00:00:01 && p0.ethernet.dst = p0.ethernet.dst";
    assert_eq!(of(mac)[0].constant, 0x0200_0000_0001);
    assert_eq!(of("p0.ipv6.src/32 = 2001:db8::")[0].constant, 0x2001_0db8);
}

/// Constants of two packets, or of fields of their own, contradict nothing.
#[test]
fn what_can_hold_is_taken() {
    for text in [
        "p0.src = 10.0.0.1 && p0.dst = 10.0.0.2",
        "p0.tcp.dst = 80 && p0\'.tcp.dst = 81",
        "p0.src = 10.0.0.1 || p0.src = 10.0.0.2",
        "p0.src/8 = 10.0.0.0 && p0.src[8..16] = 3",
        "p0.src/8 = 10.0.0.0 && p0.src = 10.0.0.1",
        "p0.src = 2001:db8::1",
    ] {
        assert!(!needs(text).is_empty(), "{text}");
    }
    let of_ipv6 = needs("p0.src = 2001:db8::1");
    assert!(of_ipv6.iter().all(|need| need.fields(Which::First) == [Field::Ipv6Src]));
}

#[test]
fn a_length_that_suits_one_family_is_about_that_one() {
    let found = needs("p0.src/64 = p0.src/64");
    assert!(!found.is_empty());
    assert!(found.iter().all(|need| need.fields(Which::First) == [Field::Ipv6Src]));
}

/// What is wrong, where it is marked, and a word of what to write instead.
#[test]
fn errors_name_the_place_and_what_to_write() {
    let cases = [
        ("", "", "packet's field"),
        ("p0.src", "", "`=`"),
        ("p0.src =", "", "packet's field"),
        ("p0.src = p0.dst &&", "", "packet's field"),
        ("p0.src = p0.dst p0", "p0", "`&&`"),
        ("p0.sorce = p0.dst", "sorce", "sport"),
        ("p0.src = q0.dst", "q0.dst", "`p0.src`"),
        ("p0.src = p999.dst", "p999.dst", "`p0.src`"),
        ("p0.src & p0.dst", "&", "`&&`"),
        ("p0.src = p0.dst/x", "x", "number of bits"),
        ("p0.src = p0.dst/0", "0", "number of bits"),
        ("p0.src[3] = p0.dst", "3", "[8..16]"),
        ("p0.src[9..3] = p0.dst", "9..3", "[8..16]"),
        ("p0.src[3..9 = p0.dst", "=", "`]`"),
        ("p0.tcp.src/17 = p0.tcp.src/17", "p0.tcp.src/17", "has 16 bits: write `/16` at most"),
        ("p0.tcp.src[9..20] = p0.dst", "p0.tcp.src[9..20]", "such as `[8..16]`"),
        ("p0.ipv4.src/24 = p0.ipv4.src", "p0.ipv4.src", "24"),
        (
            "p0.tcp.dst = 65536",
            "65536",
            "too large for the 16 bits it is compared with: write 0 to 65535",
        ),
        ("p0.ipv6.src = 10.0.0.1", "10.0.0.1", "has 32 bits, and is compared with 128"),
        (
            "p0.src/24 = 10.0.0.7",
            "10.0.0.7",
            "set after the first 24, which are compared: write `10.0.0.0`",
        ),
        ("p0.ipv6.src/32 = 2001:db8::1", "2001:db8::1", "write `2001:db8::`"),
        (
            "p0.ethernet.dst/24 = 02:00:00:00:00:01",
            "02:00:00:00:00:01",
            "write `02:00:00:00:00:00`",
        ),
        (
            "p0.src = 10.0.0.1 && p0.dport = 80 && p0.src = 10.0.0.2",
            "p0.src = 10.0.0.1 && p0.dport = 80 && p0.src = 10.0.0.2",
            "`p0.src = 10.0.0.1`, `p0.src = 10.0.0.2` never hold together: leave one of them away, or write `||`",
        ),
        (
            "p0.tcp.src = p1.tcp.dst && p0.tcp.src ^ p1.tcp.dst = 1 || p0.src = p1.src",
            "p0.tcp.src = p1.tcp.dst && p0.tcp.src ^ p1.tcp.dst = 1",
            "never hold together",
        ),
        (
            "p0.tcp.dst = 80 && p0.tcp.src ^ p0.tcp.src = 5",
            "p0.tcp.src ^ p0.tcp.src = 5",
            "no two packets",
        ),
        ("1 = 2", "1 = 2", "name a field"),
        ("p0.tcp.src = p0.udp.src && p0.tcp.dst = p0.tcp.dst", "", "one protocol"),
        ("p0.src = p1.src && p1.dst = p2.dst", "p1.dst = p2.dst", "two packets"),
        ("p0.ipv4.src = p0.ipv6.src", "p0.ipv6.src", "128 bits are compared with 32"),
        ("p0.src = p0.dst ü", "ü", "`&&`"),
    ];
    for (text, marked, says) in cases {
        let error = needs_of(text, &nics(3)).expect_err(text);
        if !marked.is_empty() {
            assert_eq!(&text[error.span.clone()], marked, "{text}");
        }
        assert!(error.message.contains(says), "{text}: {}", error.message);
        assert_eq!(error.to_string().lines().count(), 3);
    }
    let error = needs_of("p3.src = p3.src", &nics(1)).unwrap_err();
    assert!(error.to_string().contains("column 1: there are 1 ports"), "{error}");
}

/// Nothing that is typed makes the reader fail.
#[test]
fn any_text_is_read_or_refused() {
    let words = [
        "p0",
        ".",
        "src",
        "=",
        "&&",
        "||",
        "p1.dst",
        "/",
        "24",
        "[",
        "8..16",
        "]",
        "^",
        "0x",
        "é",
        "'",
        " ",
        "10.0.0.1",
        "::",
        "p0.tcp.src",
        "\u{0}",
        "99999999999999999999999999999999999999999",
    ];
    let mut state = 1u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..state % 12 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push_str(words[(state >> 33) as usize % words.len()]);
        }
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if let Err(error) = needs_of(&text, &nics(2)) {
            assert!(error.span.end <= text.len() && !error.to_string().is_empty());
        }
    }
}

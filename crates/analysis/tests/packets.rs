//! Every idiom over a packet has, for any packet, the one path that it takes natively.

use std::net::{Ipv4Addr, Ipv6Addr};

use anabranch_analysis::{Given, Source, follow_all};
use anabranch_packet::{Frame, Hollow, MacAddr, Meta, Packet, Port, parse};
use anabranch_tests::{PACKET_IDIOMS, PacketIdiom};

/// A field's value as paths have it.
trait Number {
    fn number(self) -> u128;
}

macro_rules! numbers {
    ($($of:ty: |$value:ident| $number:expr;)*) => {
        $(impl Number for $of {
            fn number(self) -> u128 {
                let $value = self;
                $number
            }
        })*
    };
}

numbers! {
    bool: |value| u128::from(value);
    u8: |value| u128::from(value);
    u16: |value| u128::from(value);
    u32: |value| u128::from(value);
    Ipv4Addr: |value| u128::from(u32::from(value));
    Ipv6Addr: |value| u128::from(value);
    MacAddr: |value| value.octets().iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
}

macro_rules! views {
    ($given:ident from $packet:ident $($view:ident: $($field:ident)*;)*) => {
        $(if let Some(view) = $packet.$view() {
            $given.numbers.insert(stringify!($view).to_owned(), 1);
            $($given.numbers.insert(
                concat!(stringify!($view), ".", stringify!($field)).to_owned(),
                Number::number(view.$field()),
            );)*
        })*
    };
}

/// What is known of a packet, by the names that paths use.
fn given(packet: &Packet<'_>) -> Given {
    let payload = packet.payload().to_vec();
    let mut given = Given { payload, ..Given::default() };
    let ethernet = packet.ethernet();
    for (name, number) in [
        ("port", u128::from(packet.port().index())),
        ("packet.len", u128::from(packet.len())),
        ("payload.len", given.payload.len() as u128),
        ("packet.protocol", u128::from(packet.protocol())),
        ("packet.is_fragment", u128::from(packet.is_fragment())),
        ("packet.is_first_fragment", u128::from(packet.is_first_fragment())),
        ("ethernet.dst", ethernet.dst().number()),
        ("ethernet.src", ethernet.src().number()),
        ("ethernet.ethertype", ethernet.ethertype().number()),
    ] {
        given.numbers.insert(name.to_owned(), number);
    }
    // A header that is not there has fields all the same, which contradict each other nowhere.
    given.numbers.insert("icmpv4.kind".to_owned(), 255);
    given.numbers.insert("icmpv6.kind".to_owned(), 255);
    views! { given from packet
        vlan: id priority;
        arp: operation sender_mac sender_ip target_mac target_ip;
        ipv4: src dst protocol ttl dscp ecn total_len identification dont_fragment more_fragments
            fragment_offset header_len;
        ipv6: src dst protocol hop_limit traffic_class flow_label payload_len;
        tcp: src dst sequence acknowledgement window flags syn ack fin rst psh urg header_len mss;
        udp: src dst length;
        icmpv4: kind code id sequence is_echo is_error mtu;
        icmpv6: kind code id sequence is_echo is_error mtu;
        embedded: src dst src6 dst6 protocol src_port dst_port id;
    }
    given
}

fn with<T>(bytes: &[u8], run: impl FnOnce(&mut Frame<'_>) -> T) -> T {
    let (mut bytes, wire_len, end) = (bytes.to_vec(), bytes.len() as u32, bytes.len());
    let port = Port::new((end % 2) as u8);
    let meta = Meta { arrival_ns: 9, number: 0, wire_len, port, ..Meta::default() };
    run(&mut Frame::new(&mut bytes, 0, end, 0, meta))
}

fn of_packet<T>(bytes: &[u8], read: impl FnOnce(&mut Packet<'_>) -> T) -> T {
    with(bytes, |frame| {
        let layout = parse(frame.bytes(), frame.meta().wire_len);
        read(&mut Packet::new(frame, layout))
    })
}

fn ipv4(protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    bytes.extend((20 + rest.len() as u16).to_be_bytes());
    bytes.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 192, 0, 2, 9]);
    bytes.extend(rest);
    bytes
}

fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 0];
    bytes.extend((rest.len() as u16).to_be_bytes());
    bytes.extend([next, 64]);
    bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    bytes.extend(rest);
    bytes
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x1f, 0x90, 0, 53];
    bytes.extend((8 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

fn tcp(flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x10, 0, 0, 80, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, flags, 4, 0, 0, 0, 0, 0];
    bytes.extend(payload);
    bytes
}

/// A segment that opens a connection and announces a maximum segment size.
fn opening(mss: u16) -> Vec<u8> {
    let mut bytes = tcp(2, &[1, 2, 4, 0, 0, 1, 1, 0]);
    bytes[12] = 7 << 4;
    bytes[23..25].copy_from_slice(&mss.to_be_bytes());
    bytes
}

/// Packets of every protocol, whole and with payloads of every short length.
fn packets() -> Vec<Vec<u8>> {
    let arp =
        [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    let mut over_ethernet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6];
    over_ethernet.extend(arp);
    let mut tagged = ipv4(17, &udp(b"GET /abc"));
    tagged.splice(12..12, [0x81, 0, 0x60, 5]);
    let mut error = vec![3, 1, 0, 0, 0, 0, 0, 0];
    error.extend(&ipv4(17, &udp(b""))[14..]);
    let mut later = ipv4(17, b"the rest");
    later[20] = 0x20;
    later[21] = 9;
    let mut packets = vec![
        over_ethernet,
        tagged,
        ipv4(1, &error),
        ipv4(1, &[8, 0, 0, 0, 0, 7, 0, 1]),
        ipv6(58, &[128, 0, 0, 0, 0, 7, 0, 1]),
        ipv4(47, b"abc"),
        later,
    ];
    packets.extend([1_460, 1_320, 536, 0].map(|mss| ipv4(6, &opening(mss))));
    for length in 0..=12 {
        let payload = &b"GET /abcdefg"[..length];
        packets.push(ipv4(17, &udp(payload)));
        packets.push(ipv4(6, &tcp(length as u8 * 3, payload)));
        packets.push(ipv6(17, &udp(payload)));
    }
    packets
}

/// The packets, and what becomes of them when some bytes are other ones or missing.
fn inputs() -> Vec<Vec<u8>> {
    let mut inputs = packets();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for mut bytes in packets().into_iter().cycle().take(400) {
        for _ in 0..next(4) {
            let at = next(bytes.len());
            bytes[at] = next(256) as u8;
        }
        bytes.truncate(bytes.len() - next(4) * next(4));
        inputs.push(bytes);
    }
    inputs
}

/// How many inputs were compared: paths that go on in a loop after ten iterations are not listed.
fn check(
    idiom: &PacketIdiom,
    inputs: &[Vec<u8>],
    given: &[Given],
    failures: &mut Vec<String>,
) -> usize {
    let source =
        Source { text: idiom.source.text, file: idiom.source.file, line: idiom.source.line };
    let results = match follow_all(&source, idiom.name, given) {
        Ok(results) => results,
        Err(error) => {
            failures.push(error.to_string());
            return 0;
        }
    };
    let mut count = 0;
    for (bytes, found) in inputs.iter().zip(results) {
        let native = of_packet(bytes, |packet| (idiom.run)(packet));
        count += usize::from(found.is_some());
        if found.is_some_and(|found| found != u128::from(native)) {
            let name = idiom.name;
            failures.push(format!("{name}: {found:?}, natively {native}: {bytes:02x?}"));
            break;
        }
    }
    count
}

#[test]
fn every_packet_idiom_has_the_paths_that_it_takes() {
    let inputs = inputs();
    let given: Vec<Given> =
        inputs.iter().map(|bytes| of_packet(bytes, |packet| given(packet))).collect();
    let mut failures = Vec::new();
    let compared: usize =
        PACKET_IDIOMS.iter().map(|idiom| check(idiom, &inputs, &given, &mut failures)).sum();
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
    let all = inputs.len() * PACKET_IDIOMS.len();
    assert!(compared * 100 > all * 98, "only {compared} of {all} results compared");
}

/// Setters do nothing in hollow worlds; everything else is as in the real one.
#[test]
fn idioms_that_write_nothing_are_the_same_in_hollow_worlds() {
    const WRITERS: [&str; 7] =
        ["idiom_206", "idiom_207", "idiom_211", "idiom_220", "idiom_227", "idiom_235", "idiom_236"];
    for bytes in inputs() {
        for idiom in PACKET_IDIOMS.iter().filter(|idiom| !WRITERS.contains(&idiom.name)) {
            let real = of_packet(&bytes, |packet| (idiom.run)(packet));
            let hollow = with(&bytes, |frame| {
                let layout = parse(frame.bytes(), frame.meta().wire_len);
                (idiom.look_ahead)(&mut Packet::<Hollow>::new(frame, layout))
            });
            assert_eq!(real, hollow, "{}: {bytes:02x?}", idiom.name);
        }
    }
}

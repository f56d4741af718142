//! The corpus in the native worlds, and its text as analysis reads it.

use anabranch_language::Module;
use anabranch_nf::Source;
use anabranch_nf::packet::{Frame, Meta, Packet, Port, parse};
use anabranch_tests::{IDIOMS, PACKET_IDIOMS, SOURCES};

/// Numbers that look random and are the same in every run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

fn read(source: &Source) -> Module {
    match Module::from_source(source.text, source.line) {
        Ok(module) => module,
        Err(problems) => panic!("{}: {problems:?}", source.file),
    }
}

#[test]
fn there_are_more_than_a_hundred_and_no_two_alike() {
    let mut names: Vec<&str> = IDIOMS.iter().map(|idiom| idiom.name).collect();
    names.extend(PACKET_IDIOMS.iter().map(|idiom| idiom.name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count >= 180, "{count}");
}

#[test]
fn every_source_is_read_and_every_idiom_found_in_it_on_its_line() {
    let idioms = IDIOMS.iter().map(|idiom| (idiom.name, idiom.source));
    let packets = PACKET_IDIOMS.iter().map(|idiom| (idiom.name, idiom.source));
    for (name, source) in idioms.chain(packets) {
        let module = read(&source);
        let function = module.fn_named(name).unwrap_or_else(|| panic!("no {name}"));
        let line = module.line(function.sig.ident.span()) as usize;
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        let file = std::fs::read_to_string(format!("{path}{}", source.file)).unwrap();
        let text = file.lines().nth(line - 1).unwrap();
        assert!(text.contains(&format!("fn {name}(")), "{name}: line {line} is `{text}`");
    }
    for source in SOURCES {
        assert!(read(source).handlers.packet, "{}", source.file);
    }
}

#[test]
fn every_idiom_runs_on_any_input() {
    let mut numbers = Numbers(1);
    let edges = [u64::MAX, 1 << 31, 0x7fff, 0x0a00_0001, 0xc0a8_0001, 0x7f00_0001, 0xff00];
    let small = (0..300).map(|x| (x as u16, x as u32, x)).collect::<Vec<_>>();
    let edges = edges.map(|x| (x as u16, x as u32, x));
    let mut constant_ones = Vec::new();
    for idiom in IDIOMS {
        let large =
            (0..200).map(|_| (numbers.next() as u16, numbers.next() as u32, numbers.next()));
        let inputs = small.iter().copied().chain(edges).chain(large);
        let mut results = Vec::new();
        for (a, b, c) in inputs {
            let result = (idiom.run)(a, b, c);
            assert_eq!(result, (idiom.run)(a, b, c), "{}", idiom.name);
            results.push(result);
        }
        results.dedup();
        if results.len() == 1 {
            constant_ones.push(idiom.name);
        }
    }
    assert_eq!(constant_ones, ["idiom_011", "idiom_012", "idiom_016", "idiom_098"]);
}

/// Some results worked out by hand, so that all worlds are not wrong together.
#[test]
fn idioms_mean_what_rust_means() {
    let run = |name: &str, a, b, c| {
        let idiom = IDIOMS.iter().find(|idiom| idiom.name == name).unwrap();
        (idiom.run)(a, b, c)
    };
    assert_eq!(run("idiom_010", 8080, 0, 0), 2);
    assert_eq!(run("idiom_019", 0, 0, 5), 0, "division by zero yields zero");
    assert_eq!(run("idiom_021", 65, 0, 1), 2, "shifts are taken modulo the width");
    assert_eq!(
        run("idiom_024", 0, 0, 0),
        u64::from(((7u32.wrapping_sub(9)).wrapping_mul(3) ^ 0xff | 1) & !2)
    );
    assert_eq!(run("idiom_030", 3, 0, 0), 27);
    assert_eq!(run("idiom_037", 5, 20, 0), 4, "remainder by zero yields zero");
    assert_eq!(run("idiom_045", 4, 4, 0), 4 - 1);
    assert_eq!(run("idiom_053", 8, 0, 0), 14);
    assert_eq!(run("idiom_066", 0, 0, 12), 3);
    assert_eq!(run("idiom_068", 0, 0, 1_000_007), 7);
    assert_eq!(run("idiom_085", 5, 0, 1_000), 0);
    assert_eq!(run("idiom_087", 2, 41, 0), 42);
    assert_eq!(run("idiom_089", 0, 0, 2), 22);
    assert_eq!(run("idiom_105", 0x01, 0, 0), 0x0102_0304);
    assert_eq!(run("idiom_113", 0, 0x7f00_0001, 0), 1);
    assert_eq!(run("idiom_118", 0, 0xc0a8_0063, 0), 1);
    assert_eq!(run("idiom_121", 0, 0, 0x0102_0304_0506_0708), 0x0807_0605_0403_0201);
    assert_eq!(run("idiom_153", 24, 0xc0a8_0163, 0), 0xc0a8_0100 ^ 0xff);
    assert_eq!(run("idiom_156", 0, 0x58, 0), 3);
    assert_eq!(run("idiom_159", 0, 0x4745_5420, 0), 2);
    assert_eq!(run("idiom_161", 3, 7, 0), 4);
}

/// A UDP packet over IPv4 with a payload.
fn udp() -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    bytes.extend([0x45, 0, 0, 36, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 9]);
    bytes.extend([0x1f, 0x90, 0, 53, 0, 16, 0, 0]);
    bytes.extend(b"GET /abc");
    bytes
}

fn with_packet<T>(bytes: &mut [u8], run: impl FnOnce(&mut Packet<'_>) -> T) -> T {
    let wire_len = bytes.len() as u32;
    let layout = parse(bytes, wire_len);
    let end = bytes.len();
    let meta = Meta { arrival_ns: 9, number: 0, wire_len, port: Port::new(0), ..Meta::default() };
    let mut frame = Frame::new(bytes, 0, end, 0, meta);
    run(&mut Packet::new(&mut frame, layout))
}

#[test]
fn packet_idioms_read_and_rewrite() {
    let run = |name: &str| {
        let idiom = PACKET_IDIOMS.iter().find(|idiom| idiom.name == name).unwrap();
        let mut bytes = udp();
        (with_packet(&mut bytes, |packet| (idiom.run)(packet)), bytes)
    };
    assert_eq!(run("idiom_201").0, 50);
    assert_eq!(run("idiom_202").0, 0x0800);
    assert_eq!(run("idiom_203").0, 0x0a00_0001 + 64);
    assert_eq!(run("idiom_205").0, 36 + 53);
    let (ttl, bytes) = run("idiom_206");
    assert_eq!((ttl, &bytes[26..30]), (63, &[203, 0, 113, 7][..]));
    assert_eq!(run("idiom_207").0, 4096);
    assert_eq!(run("idiom_208").0, 8080);
    assert_eq!(run("idiom_209").0, 1);
    assert_eq!(run("idiom_219").0, 8080);
    let (sum, bytes) = run("idiom_227");
    assert_eq!((sum, bytes[22]), (61 * 4 + 2, 61));
    assert_eq!(run("idiom_228").0, 101);
    assert_eq!(run("idiom_229").0, 1 + 4);
    assert_eq!(run("idiom_231").0, 2);
    assert_eq!(run("idiom_232").0, u64::from(b'G' >> 4));
    assert_eq!(run("idiom_233").0, 1);
}

#[test]
fn packet_idioms_run_on_any_bytes() {
    let mut numbers = Numbers(7);
    for _ in 0..300 {
        let mut bytes = udp();
        let length = 14 + numbers.next() as usize % (bytes.len() - 13);
        bytes.truncate(length);
        for _ in 0..numbers.next() % 8 {
            let at = numbers.next() as usize % bytes.len();
            bytes[at] = numbers.next() as u8;
        }
        for idiom in PACKET_IDIOMS {
            let mut bytes = bytes.clone();
            with_packet(&mut bytes, |packet| (idiom.run)(packet));
        }
    }
}

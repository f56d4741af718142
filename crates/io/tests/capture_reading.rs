//! Every form a capture may have, and every way it may be damaged.

#![allow(clippy::unwrap_used)]

mod common;

use anabranch_io::capture::CaptureError;
use anabranch_io::traffic::Random;
use common::{Order, read_all};

const BOTH: [Order; 2] = [Order { big: false }, Order { big: true }];
const SECOND: u64 = 1_000_000_000;

#[test]
fn pcap_of_both_resolutions_and_byte_orders() {
    for order in BOTH {
        for (magic, unit) in [(0xa1b2_c3d4, 1_000), (0xa1b2_3c4d, 1)] {
            let mut file = order.pcap_header(magic, 1);
            file.extend(order.pcap_record(1_700_000_000, 5, 1_514, &[7; 60]));
            file.extend(order.pcap_record(1_700_000_001, 999_999, 0, &[]));
            let (packets, error) = read_all(&file);
            assert!(error.is_none());
            let first = 1_700_000_000 * SECOND + 5 * unit;
            let second = 1_700_000_001 * SECOND + 999_999 * unit;
            assert_eq!(packets, [(first, 1_514, vec![7; 60]), (second, 0, vec![])]);
        }
    }
}

#[test]
fn check_sequences_are_no_part_of_packets() {
    for (order, (network, expected)) in BOTH.into_iter().flat_map(|order| {
        [
            (0x2400_0001, [(60, 60), (60, 40), (60, 58)]),
            (0x2000_0001, [(64, 64), (64, 40), (64, 58)]),
        ]
        .map(|kind| (order, kind))
    }) {
        let mut file = order.pcap_header(0xa1b2_c3d4, network);
        for captured in [64, 40, 58] {
            file.extend(order.pcap_record(1, 0, 64, &vec![7; captured]));
        }
        let packets = read_all(&file).0;
        let lengths: Vec<_> = packets.iter().map(|(_, len, bytes)| (*len, bytes.len())).collect();
        assert_eq!(lengths, expected, "{network:#x}");
    }
}

/// An enhanced packet of interface 0 with its flags.
fn flagged_packet(order: Order, wire_len: u32, bytes: &[u8], flags: u32) -> Vec<u8> {
    let mut body = order.words(&[0, 0, 1, bytes.len() as u32, wire_len]);
    body.extend_from_slice(bytes);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend([order.half(2), order.half(4)].concat());
    body.extend(order.word(flags));
    order.block(6, &body)
}

/// Of all packets of an interface, in bytes or in bits; or of one, by its flags.
#[test]
fn pcapng_says_of_interfaces_and_of_packets_whether_they_have_check_sequences() {
    for order in BOTH {
        for (len, flags, expected) in [
            (4, 0, [(60, 60), (60, 40), (60, 58)]),
            (32, 1, [(60, 60), (60, 40), (60, 58)]),
            (0, 4 << 5 | 2, [(60, 60), (60, 40), (60, 58)]),
            (4, 2 << 5, [(62, 62), (62, 40), (62, 58)]),
            (0, 2, [(64, 64), (64, 40), (64, 58)]),
        ] {
            let mut file = order.section();
            file.extend(order.interface(1, 0, &[(13, vec![len])]));
            for captured in [64, 40, 58] {
                file.extend(flagged_packet(order, 64, &vec![7; captured], flags));
            }
            let (packets, error) = read_all(&file);
            assert!(error.is_none(), "{error:?}");
            let lengths: Vec<_> =
                packets.iter().map(|(_, len, bytes)| (*len, bytes.len())).collect();
            assert_eq!(lengths, expected, "{len}, {flags:#x}");
        }
    }
}

#[test]
fn pcapng_with_interfaces_of_different_clocks() {
    for order in BOTH {
        let offset: i64 = -10;
        let offset = if order.big { offset.to_be_bytes() } else { offset.to_le_bytes() };
        let mut file = order.section();
        file.extend(order.interface(1, 0, &[]));
        file.extend(order.interface(1, 0, &[(9, vec![9]), (14, offset.to_vec())]));
        file.extend(order.interface(1, 0, &[(2, b"eth0".to_vec()), (9, vec![0x80 | 20])]));
        file.extend(order.packet(0, 5_000_000, 60, &[1; 60]));
        file.extend(order.packet(1, 20 * SECOND, 61, &[2; 61]));
        file.extend(order.packet(2, 3 << 20, 62, &[3; 62]));
        let (packets, error) = read_all(&file);
        assert!(error.is_none(), "{error:?}");
        let times: Vec<u64> = packets.iter().map(|packet| packet.0 / SECOND).collect();
        assert_eq!(times, [5, 10, 3]);
        assert_eq!(packets[1].2, [2; 61]);
    }
}

#[test]
fn pcapng_sections_have_their_own_byte_order_and_interfaces() {
    let mut file = Vec::new();
    for order in BOTH {
        file.extend(order.section());
        file.extend(order.block(0x0bad, &[0; 40]));
        file.extend(order.interface(1, 0, &[]));
        file.extend(order.block(4, &[0; 2_000_000]));
        file.extend(order.packet(0, 1_000_000, 60, &[1; 59]));
    }
    file.extend(BOTH[0].section());
    file.extend(BOTH[0].packet(0, 1, 60, &[1; 60]));
    let (packets, error) = read_all(&file);
    assert_eq!(packets, [(SECOND, 60, vec![1; 59]), (SECOND, 60, vec![1; 59])]);
    let error = error.unwrap();
    assert!(matches!(error, CaptureError::Corrupt { records: 2, .. }), "{error}");
    assert!(error.to_string().contains("interface that is not described"));
}

#[test]
fn pcapng_simple_and_obsolete_packets() {
    for order in BOTH {
        let mut file = order.section();
        file.extend(order.interface(1, 50, &[]));
        let mut obsolete = order.half(0).to_vec();
        obsolete.extend(order.half(3));
        obsolete.extend(order.words(&[0, 7, 5, 100]));
        obsolete.extend([9; 5]);
        file.extend(order.block(2, &obsolete));
        let simple = [&order.word(100)[..], &[4; 50]].concat();
        file.extend(order.block(3, &simple));
        let (packets, error) = read_all(&file);
        assert!(error.is_none());
        assert_eq!(packets, [(7_000, 100, vec![9; 5]), (7_000, 100, vec![4; 50])]);
    }
}

#[test]
fn other_link_types_are_named() {
    let order = BOTH[0];
    let (_, error) = read_all(&order.pcap_header(0xa1b2_c3d4, 113));
    let error = error.unwrap();
    assert!(matches!(error, CaptureError::UnsupportedLinkType { number: 113, .. }));
    assert!(error.to_string().contains("link type 113 (LINUX_SLL, cooked) is not supported"));
    let mut file = order.section();
    file.extend(order.interface(1, 0, &[]));
    file.extend(order.interface(101, 0, &[]));
    file.extend(order.packet(0, 0, 60, &[0; 60]));
    file.extend(order.packet(1, 0, 60, &[0; 60]));
    let (packets, error) = read_all(&file);
    assert_eq!(packets.len(), 1);
    assert!(matches!(error, Some(CaptureError::UnsupportedLinkType { number: 101, .. })));
}

#[test]
fn foreign_files_are_no_captures() {
    for (file, found) in [
        (&b""[..], "an empty file"),
        (b"\x1f\x8b\x08\0", "a gzip file"),
        (b"\x28\xb5\x2f\xfd", "a zstd file"),
        (b"hello world", "something else"),
        (b"GI", "something else"),
    ] {
        let (_, error) = read_all(file);
        let error = error.unwrap();
        assert!(matches!(error, CaptureError::NotACapture { .. }));
        assert!(error.to_string().contains(found), "{error}");
    }
    let error = anabranch_io::capture::CaptureReader::open("/nonexistent/x.pcap").unwrap_err();
    assert!(matches!(error, CaptureError::Open { .. }));
    let error = anabranch_io::capture::CaptureReader::open(env!("CARGO_MANIFEST_DIR")).unwrap_err();
    assert!(error.to_string().contains("a directory"), "{error}");
}

/// A capture of each format with three packets.
fn samples() -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    for order in BOTH {
        let mut pcap = order.pcap_header(0xa1b2_c3d4, 1);
        let mut pcapng = order.section();
        pcapng.extend(order.interface(1, 0, &[(9, vec![6])]));
        for n in 0..3u8 {
            pcap.extend(order.pcap_record(n.into(), 0, 64, &[n; 61]));
            pcapng.extend(order.packet(0, n.into(), 64, &[n; 61]));
        }
        samples.extend([pcap, pcapng]);
    }
    samples
}

#[test]
fn a_capture_cut_anywhere_yields_what_is_whole_and_says_where_it_ends() {
    for file in samples() {
        for len in 0..file.len() {
            let (packets, error) = read_all(&file[..len]);
            for (n, (_, wire_len, bytes)) in packets.iter().enumerate() {
                assert_eq!((*wire_len, bytes), (64, &vec![n as u8; 61]));
            }
            match error {
                None => assert!(packets.len() < 3),
                Some(CaptureError::Truncated { offset, records, .. }) => {
                    assert_eq!(records, packets.len() as u64);
                    assert!(offset < len as u64);
                }
                Some(CaptureError::NotACapture { .. }) => assert!(len < 4),
                Some(error) => panic!("{error}"),
            }
        }
        assert_eq!(read_all(&file).0.len(), 3);
    }
}

#[test]
fn damaged_captures_never_panic_nor_take_much_memory() {
    let mut random = Random::new(2);
    for file in samples() {
        for _ in 0..5_000 {
            let mut damaged = file.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len() as u32) as usize;
                damaged[at] = random.next_u64() as u8;
            }
            damaged.truncate(1 + random.below(damaged.len() as u32) as usize);
            let (packets, _) = read_all(&damaged);
            let held: usize = packets.iter().map(|packet| packet.2.len()).sum();
            assert!(held <= damaged.len());
        }
    }
}

#[test]
fn impossible_lengths_are_damage() {
    let order = BOTH[0];
    let mut pcap = order.pcap_header(0xa1b2_c3d4, 1);
    pcap.extend(order.words(&[0, 0, 300_000, 300_000]));
    assert!(matches!(read_all(&pcap).1, Some(CaptureError::Corrupt { offset: 24, .. })));
    for (len, at) in [(8, "under 12"), (62, "multiple of 4"), (0x7fff_fff0, "16 MiB")] {
        let mut pcapng = order.section();
        pcapng.extend(order.words(&[6, len, 0, 0, 0, 0, 0]));
        let error = read_all(&pcapng).1.unwrap().to_string();
        assert!(error.contains(at), "{error}");
    }
    let mut pcapng = order.section();
    let mut block = order.interface(1, 0, &[]);
    *block.last_mut().unwrap() = 9;
    pcapng.extend(block);
    assert!(read_all(&pcapng).1.unwrap().to_string().contains("two lengths differ"));
}

//! Sources: merged, repeated, bounded, and sound up to the first damage.

#![allow(clippy::unwrap_used)]

use anabranch_io::capture::{CaptureError, CaptureWriter, Record};
use anabranch_io::source::{
    self, CHUNK_PACKETS, Input, MemorySource, MergedSource, ProgressUnit, Repeat, Source,
    SourceError,
};
use anabranch_io::{Chunk, Trace};
use anabranch_packet::Port;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Writes a capture of packets that hold `mark` and arrive at the given times.
fn capture(folder: &Path, name: &str, mark: u8, arrivals: &[u64]) -> PathBuf {
    let path = folder.join(name);
    let mut writer = CaptureWriter::create(&path).unwrap();
    for &timestamp_ns in arrivals {
        writer.write(&Record { timestamp_ns, wire_len: 60, bytes: &[mark; 60] }).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn input(port: u8, spec: &str) -> Input {
    Input { port: Some(Port::new(port)), spec: spec.parse().unwrap() }
}

/// Number, time, port and mark of a packet.
type Seen = (u64, u64, u8, u8);

/// All packets, and the error at the end.
fn drain(source: &mut dyn Source) -> (Vec<Seen>, Option<SourceError>) {
    let mut packets = Vec::new();
    loop {
        match source.next_chunk() {
            Ok(Some(chunk)) => packets.extend(of_chunk(&chunk)),
            Ok(None) => return (packets, None),
            Err(error) => {
                assert!(source.next_chunk().is_ok_and(|chunk| chunk.is_none()), "stays ended");
                return (packets, Some(error));
            }
        }
    }
}

fn of_chunk(chunk: &Chunk) -> impl Iterator<Item = Seen> {
    assert!(!chunk.is_empty() && chunk.len() <= CHUNK_PACKETS);
    (0..chunk.len()).map(|index| {
        let meta = chunk.meta(index).unwrap();
        (meta.number, meta.arrival_ns, meta.port.index(), chunk.bytes(index)[0])
    })
}

#[test]
fn captures_are_merged_by_time_and_numbered() {
    let folder = tempfile::tempdir().unwrap();
    let lan = capture(folder.path(), "lan.pcap", 1, &[10, 30, 20, 40]);
    let wan = capture(folder.path(), "wan.pcapng", 2, &[10, 25]);
    for kind in ["", "pcap:", "mem:"] {
        let spec = |file: &PathBuf| format!("{kind}{}", file.display());
        let inputs = [input(0, &spec(&lan)), input(1, &spec(&wan))];
        let mut source = source::open(&inputs).unwrap();
        let (packets, error) = drain(&mut *source);
        assert!(error.is_none());
        let expected = [
            (0, 10, 0, 1),
            (1, 10, 1, 2),
            (2, 25, 1, 2),
            (3, 30, 0, 1),
            (4, 20, 0, 1),
            (5, 40, 0, 1),
        ];
        assert_eq!(packets, expected, "{kind}");
        assert_eq!(source.progress().fraction(), Some(1.0));
    }
}

#[test]
fn long_inputs_come_in_chunks_however_they_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let times: Vec<u64> = (0..150_000).map(|n| n * 2).collect();
    let lan = capture(folder.path(), "lan.pcap", 1, &times);
    let spec = lan.display().to_string();
    for inputs in [vec![input(0, &spec)], vec![input(0, &spec), input(1, &spec)]] {
        let mut source = source::open(&inputs).unwrap();
        let first = source.next_chunk().unwrap().unwrap();
        assert_eq!((first.len(), first.first_number()), (CHUNK_PACKETS, 0));
        let fraction = source.progress().fraction().unwrap();
        assert!((0.1..0.6).contains(&fraction), "{fraction}");
        let (rest, error) = drain(&mut *source);
        assert!(error.is_none());
        assert_eq!(rest.len(), inputs.len() * 150_000 - CHUNK_PACKETS);
        assert!(rest.is_sorted());
        assert_eq!(rest.last().unwrap().0, inputs.len() as u64 * 150_000 - 1);
    }
}

#[test]
fn memory_is_repeated_without_copies_and_time_goes_on() {
    let mut trace = Trace::new();
    for timestamp_ns in [100, 110, 120] {
        trace.push(Port::new(0), &Record { timestamp_ns, wire_len: 60, bytes: &[1; 60] });
    }
    let trace = Arc::new(trace);
    let mut source = MemorySource::new(Arc::clone(&trace), Repeat::Times(3));
    let first = source.next_chunk().unwrap().unwrap();
    assert!(Arc::ptr_eq(first.trace(), &trace));
    assert_eq!(source.progress().done, 3);
    let (rest, _) = drain(&mut source);
    let times: Vec<u64> = rest.iter().map(|packet| packet.1).collect();
    assert_eq!(times, [130, 140, 150, 160, 170, 180]);
    assert_eq!(rest.last().unwrap().0, 8);
    assert!(drain(&mut MemorySource::new(trace, Repeat::Times(0))).0.is_empty());
}

#[test]
fn memory_can_be_repeated_for_a_time_and_an_empty_trace_ends_at_once() {
    let one = || {
        let mut trace = Trace::new();
        trace.push(Port::new(0), &Record { timestamp_ns: 1, wire_len: 60, bytes: &[1; 60] });
        trace
    };
    let time = Duration::from_millis(50);
    let mut source = MemorySource::new(one(), Repeat::For(time));
    assert_eq!(source.progress().done, 0);
    let started = Instant::now();
    let (packets, _) = drain(&mut source);
    assert!(started.elapsed() >= time && packets.len() > 10);
    assert_eq!(source.progress().unit, ProgressUnit::Nanoseconds);
    assert_eq!(source.progress().fraction(), Some(1.0));
    let mut late = MemorySource::new(one(), Repeat::For(time));
    late.next_chunk().unwrap().unwrap();
    std::thread::sleep(2 * time);
    let (packets, _) = drain(&mut late);
    assert!(packets.len() > 10, "what is done with the first chunk takes none of the time");
    let hour = Repeat::For(Duration::from_secs(3_600));
    assert!(drain(&mut MemorySource::new(Trace::new(), hour)).0.is_empty());
}

#[test]
fn what_comes_before_damage_is_yielded_first() {
    let folder = tempfile::tempdir().unwrap();
    let whole = capture(folder.path(), "whole.pcap", 1, &[1, 2, 3, 4, 5]);
    let bytes = fs::read(&whole).unwrap();
    let cut = folder.path().join("cut.pcap");
    fs::write(&cut, &bytes[..bytes.len() - 100]).unwrap();
    let other = capture(folder.path(), "other.pcap", 2, &[2, 9]);
    for (kind, extra) in [("pcap", ""), ("mem", ""), ("mem", "?loop=2")] {
        let spec = format!("{kind}:{}{extra}", cut.display());
        let (packets, error) = drain(&mut *source::open(&[input(0, &spec)]).unwrap());
        assert_eq!(packets.len(), if extra.is_empty() { 3 } else { 6 });
        let truncated =
            matches!(error, Some(SourceError::Capture(CaptureError::Truncated { records: 3, .. })));
        assert!(truncated, "{error:?}");
    }
    let inputs = [input(0, &cut.display().to_string()), input(1, &other.display().to_string())];
    let (packets, error) = drain(&mut *source::open(&inputs).unwrap());
    assert!(error.is_some());
    assert!(packets.iter().filter(|packet| packet.2 == 0).count() == 3);
}

#[test]
fn any_sources_can_be_merged() {
    let mut trace = Trace::new();
    trace.push(Port::new(3), &Record { timestamp_ns: 5, wire_len: 60, bytes: &[3; 60] });
    trace.push(Port::new(3), &Record { timestamp_ns: 6, wire_len: 60, bytes: &[3; 60] });
    let looped = MemorySource::new(trace, Repeat::Times(2));
    let mut late = Trace::new();
    late.push(Port::new(4), &Record { timestamp_ns: 7, wire_len: 60, bytes: &[4; 60] });
    let late = MemorySource::new(late, Repeat::Times(1));
    let mut merged = MergedSource::new(vec![Box::new(looped), Box::new(late)]);
    let (packets, _) = drain(&mut merged);
    let order: Vec<_> = packets.iter().map(|packet| (packet.1, packet.2)).collect();
    assert_eq!(order, [(5, 3), (6, 3), (7, 3), (7, 4), (8, 3)]);
    assert!(drain(&mut MergedSource::new(Vec::new())).0.is_empty());
    assert!(drain(&mut *source::open(&[]).unwrap()).0.is_empty());
}

#[test]
fn inputs_that_cannot_be_opened_fail_at_once() {
    let missing = [input(0, "/nonexistent/x.pcap")];
    assert!(matches!(
        source::open(&missing).err(),
        Some(SourceError::Capture(CaptureError::Open { .. }))
    ));
    let missing = [input(0, "mem:/nonexistent/x.pcap?loop=5")];
    assert!(source::open(&missing).is_err());
}

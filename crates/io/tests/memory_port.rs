//! The in-memory port, and the way of packets out to the sinks.

#![allow(clippy::unwrap_used)]

use anabranch_io::capture::Record;
use anabranch_io::port::{BATCH, HEADROOM, MemoryPort, PacketIo, Pool, PortError, TAILROOM};
use anabranch_io::sink::{Output, Outputs, PortCount, Sinks, write_in_order};
use anabranch_io::{Chunk, Trace};
use anabranch_packet::Port;
use anabranch_rss::{FieldSet, IndirectionTable, Steering};
use std::fs;
use std::sync::Arc;

/// Packets of many lengths, each filled with bytes of its own.
fn trace() -> Trace {
    let mut trace = Trace::new();
    for (n, len) in [60, 64, 65, 1, 128, 1_514, 9_018, 0, 63, 2_048].into_iter().enumerate() {
        let bytes = vec![n as u8 + 1; len];
        let record = Record { timestamp_ns: n as u64, wire_len: len as u32 + 4, bytes: &bytes };
        trace.push(Port::new(n as u8 % 2), &record);
    }
    trace.set_steering_hashes(|bytes, record| bytes.len() as u32 * 10 + record.captured_len);
    trace
}

#[test]
fn frames_hold_what_the_trace_holds() {
    let chunk = Chunk::new(Arc::new(trace()), 0..10, 1_000, 50);
    let mut pool = Pool::new(BATCH, 9_018);
    let mut port = MemoryPort::new(pool.buffers());
    port.assign_all(chunk.clone());
    let mut batch = Vec::with_capacity(BATCH);
    let mut received = 0;
    while port.receive(&mut batch, 3) > 0 {
        assert!(batch.len() <= 3);
        for frame in &batch {
            assert_eq!(frame.bytes(), chunk.bytes(received));
            assert_eq!(*frame.meta(), chunk.meta(received).unwrap());
            assert_eq!(frame.meta().steering_hash as usize, frame.captured_len() * 11);
            assert_eq!(frame.headroom(), HEADROOM);
            assert!(frame.tailroom() >= TAILROOM);
            assert!((frame.bytes().as_ptr() as usize).is_multiple_of(64));
            received += 1;
        }
        port.release(&mut batch);
    }
    assert_eq!((received, port.remaining()), (10, 0));
    assert_eq!(
        port.statistics().received_bytes,
        trace().records().iter().map(|r| u64::from(r.captured_len)).sum()
    );
}

#[test]
fn a_worker_gets_the_packets_on_its_list() {
    let chunk = Chunk::new(Arc::new(trace()), 2..10, 0, 0);
    let mut pool = Pool::new(BATCH, 9_018);
    let mut port = MemoryPort::new(pool.buffers());
    let mut batch = Vec::with_capacity(BATCH);
    assert_eq!(port.receive(&mut batch, BATCH), 0);
    assert!(port.assign(chunk.clone(), vec![1, 5, 700, 6]).is_empty());
    assert_eq!((port.remaining(), port.receive(&mut batch, BATCH)), (3, 3));
    let numbers: Vec<u64> = batch.iter().map(|frame| frame.meta().number).collect();
    assert_eq!((numbers, port.remaining()), (vec![1, 5, 6], 0));
    assert_eq!(port.receive(&mut batch, BATCH), 0);
    port.release(&mut batch);
    assert_eq!(port.assign(chunk, vec![0]), [1, 5, 6]);
    assert_eq!(port.clear(), [0]);
}

#[test]
fn a_dry_pool_holds_packets_back_and_loses_none() {
    let mut pool = Pool::new(4, 9_018);
    let mut port = MemoryPort::new(pool.buffers());
    port.assign_all(Chunk::whole(Arc::new(trace())));
    let mut batch = Vec::with_capacity(BATCH);
    assert_eq!(port.receive(&mut batch, BATCH), 4);
    assert_eq!(port.receive(&mut batch, BATCH), 0);
    let mut rest = batch.split_off(1);
    port.release(&mut batch);
    assert_eq!(port.receive(&mut batch, BATCH), 1);
    assert_eq!(batch[0].meta().number, 4);
    port.release(&mut rest);
    assert_eq!(port.receive(&mut batch, BATCH), 3);
    assert_eq!(batch.last().unwrap().meta().number, 7);
}

#[test]
fn packets_longer_than_a_buffer_are_cut_and_counted() {
    let mut pool = Pool::new(BATCH, 64);
    let room = pool.buffer_len() - HEADROOM;
    let mut port = MemoryPort::new(pool.buffers());
    port.assign_all(Chunk::whole(Arc::new(trace())));
    let mut batch = Vec::with_capacity(BATCH);
    assert_eq!(port.receive(&mut batch, BATCH), 10);
    assert_eq!((batch[6].captured_len(), batch[6].meta().wire_len), (room, 9_022));
    assert!(batch[6].bytes().iter().all(|&byte| byte == 7));
    assert_eq!(port.statistics().cut, 1);
}

#[test]
fn memory_ports_do_not_hash() {
    let mut pool = Pool::new(1, 64);
    let mut port = MemoryPort::new(pool.buffers());
    let table = IndirectionTable::new(128, 128, 1).unwrap();
    let steering = Steering::new(FieldSet::FOUR_TUPLE);
    let refused = port.program_rss(Port::new(1), &steering, &table);
    assert_eq!(refused, Err(PortError::NoRss { port: Port::new(1) }));
}

#[test]
fn what_many_workers_send_is_written_in_the_order_of_the_input() {
    let folder = tempfile::tempdir().unwrap();
    let chunk = Chunk::whole(Arc::new(trace()));
    let write = |name: &str, lists: &[&[u32]]| {
        let file = folder.path().join(name);
        let spec = file.display().to_string().parse().unwrap();
        let mut sinks = Sinks::open(&[(Some(Port::new(1)), spec)]).unwrap();
        let mut outputs: Vec<Outputs> = lists.iter().map(|list| forward(&chunk, list)).collect();
        write_in_order(&mut outputs, &mut sinks).unwrap();
        assert!(outputs.iter().all(Outputs::is_empty));
        assert_eq!(sinks.count(Port::new(1)).packets, 20);
        sinks.finish().unwrap();
        fs::read(file).unwrap()
    };
    let one = write("one.pcap", &[&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]);
    let many = write("many.pcap", &[&[1, 4, 9], &[0, 2, 7], &[], &[8, 3, 5, 6]]);
    assert_eq!(one, many);
}

/// Sends each listed packet out of port 1, and a note after it.
fn forward(chunk: &Chunk, list: &[u32]) -> Outputs {
    let mut pool = Pool::new(BATCH, 9_018);
    let mut port = MemoryPort::new(pool.buffers());
    port.assign(chunk.clone(), list.to_vec());
    let mut batch = Vec::with_capacity(BATCH);
    while port.receive(&mut batch, 1) > 0 {
        let meta = *batch[0].meta();
        assert_eq!(port.transmit(Port::new(1), &mut batch), 1);
        port.outputs_mut().push(&Output {
            number: meta.number,
            sub: 1,
            port: Port::new(1),
            timestamp_ns: meta.arrival_ns,
            wire_len: 4,
            bytes: b"note",
        });
    }
    assert_eq!(port.statistics().transmitted, list.len() as u64);
    std::mem::take(port.outputs_mut())
}

#[test]
fn sinks_are_shared_defaulted_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let spec = |name: &str| folder.path().join(name).display().to_string().parse().unwrap();
    let (zero, one, two) = (Port::new(0), Port::new(1), Port::new(2));
    let three = Port::new(3);
    let bindings = [
        (None, spec("rest.pcap")),
        (Some(zero), spec("a.pcap")),
        (Some(one), spec(&format!("../{}/a.pcap", folder.path().file_name().unwrap().display()))),
        (Some(three), "null".parse().unwrap()),
    ];
    let mut sinks = Sinks::open(&bindings).unwrap();
    assert!(sinks.is_discarded(three) && !sinks.is_discarded(two));
    sinks.add(three, PortCount { packets: 5, bytes: 300 });
    for port in [zero, one, two, three, two] {
        let bytes = &[port.index(); 60];
        let output = Output { number: 0, sub: 0, port, timestamp_ns: 0, wire_len: 60, bytes };
        sinks.write(&output).unwrap();
    }
    assert_eq!(sinks.count(two), PortCount { packets: 2, bytes: 120 });
    assert_eq!(sinks.count(three), PortCount { packets: 6, bytes: 360 });
    sinks.finish().unwrap();
    let count = |name: &str| Trace::from_capture(folder.path().join(name), zero).unwrap().len();
    assert_eq!((count("a.pcap"), count("rest.pcap")), (2, 2));
    let bad = [(None, spec("a.pcap")), (Some(one), spec("missing/b.pcap"))];
    assert!(Sinks::open(&bad).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

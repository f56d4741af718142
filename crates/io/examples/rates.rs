//! Measures what this crate costs per packet: `cargo run --release -p anabranch-io --example rates`.
//!
//! Each line is the best of several repetitions, in nanoseconds of processor time per packet, so
//! that a busy machine disturbs little. With an argument, only
//! the lines that contain it are measured: `… --example rates -- receive`.

#![allow(clippy::print_stdout)]

use anabranch_io::capture::CaptureReader;
use anabranch_io::port::{BATCH, MemoryPort, PacketIo, Pool};
use anabranch_io::sink::{Output, Outputs, Sinks, write_in_order};
use anabranch_io::source::{CaptureSource, Source};
use anabranch_io::traffic::{Traffic, TrafficSource, TrafficSpec};
use anabranch_io::{Chunk, Trace};
use anabranch_packet::Port;
use anabranch_rss::{FieldSet, Steering};
use std::error::Error;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PACKETS: u64 = 2_000_000;
const REPETITIONS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("anabranch-rates-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let measured = measure_all(&folder);
    std::fs::remove_dir_all(&folder)?;
    measured
}

fn measure_all(folder: &Path) -> Result<(), Box<dyn Error>> {
    let spec: TrafficSpec = format!("flows=65536,packets={PACKETS},udp").parse()?;
    measure("generate", || Ok(Traffic::new(&spec)?.into_trace().len()))?;
    for name in ["t.pcap", "t.pcapng"] {
        let file = folder.join(name);
        measure(&format!("generate and write {name}"), || write(&spec, &file))?;
        measure(&format!("read {name}, records"), || read_records(&file))?;
        measure(&format!("read {name}, chunks"), || read_chunks(&file))?;
    }
    let trace = Arc::new(Traffic::new(&spec)?.into_trace());
    let hot = Chunk::new(Arc::clone(&trace), 0..256, 0, 0);
    measure("receive and release, hot", || Ok(receive(&hot, 50 * PACKETS as usize / 256)))?;
    let all = Chunk::whole(Arc::clone(&trace));
    measure("receive and release, from memory", || Ok(receive(&all, 5)))?;
    measure("collect and write to no sink", || forward(&trace))?;
    measure("steering hash, IPv4 4-tuple", || Ok(hash(20 * PACKETS)))
}

/// Prints the best time per packet of something that returns how many packets it did.
fn measure(
    what: &str,
    mut run: impl FnMut() -> Result<usize, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).is_some_and(|wanted| !what.contains(&wanted)) {
        return Ok(());
    }
    let mut best = f64::INFINITY;
    for _ in 0..REPETITIONS {
        let started = processor_time();
        let packets = run()?;
        best = best.min((processor_time() - started).as_nanos() as f64 / packets as f64);
    }
    println!("{what:<36} {best:8.2} ns {:8.1} Mpps", 1_000.0 / best);
    Ok(())
}

/// What this thread has had of a processor (Linux); elsewhere the time of day must do.
fn processor_time() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    match statistics.split(' ').next().and_then(|ns| ns.parse().ok()) {
        Some(ns) => Duration::from_nanos(ns),
        None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
    }
}

fn write(spec: &TrafficSpec, file: &Path) -> Result<usize, Box<dyn Error>> {
    let mut sinks = Sinks::open(&[(None, file.display().to_string().parse()?)])?;
    let mut source = TrafficSource::new(spec, None)?;
    while let Some(chunk) = source.next_chunk()? {
        sinks.write_chunk(&chunk)?;
    }
    sinks.finish()?;
    Ok(source.traffic().emitted() as usize)
}

fn read_records(file: &Path) -> Result<usize, Box<dyn Error>> {
    let mut reader = CaptureReader::open(file)?;
    while let Some(record) = reader.next_record()? {
        black_box(record);
    }
    Ok(reader.records() as usize)
}

fn read_chunks(file: &Path) -> Result<usize, Box<dyn Error>> {
    let mut source = CaptureSource::open(file, Port::new(0))?;
    let mut packets = 0;
    while let Some(chunk) = source.next_chunk()? {
        packets += chunk.len();
    }
    Ok(packets)
}

fn receive(chunk: &Chunk, turns: usize) -> usize {
    let mut pool = Pool::new(BATCH, 2_048);
    let mut port = MemoryPort::new(pool.buffers());
    let mut batch = Vec::with_capacity(BATCH);
    for _ in 0..turns {
        port.assign_all(chunk.clone());
        while port.receive(&mut batch, BATCH) > 0 {
            black_box(&mut batch);
            port.release(&mut batch);
        }
    }
    turns * chunk.len()
}

fn forward(trace: &Arc<Trace>) -> Result<usize, Box<dyn Error>> {
    let mut sinks = Sinks::discarding();
    let mut outputs = [Outputs::default()];
    let mut start = 0;
    while start < trace.len() {
        let chunk = Chunk::new(Arc::clone(trace), start..start + 65_536, start as u64, 0);
        for (meta, bytes) in (0..chunk.len()).filter_map(|index| chunk.packet(index)) {
            outputs[0].push(&Output {
                number: meta.number,
                sub: 0,
                port: meta.port.other(),
                timestamp_ns: meta.arrival_ns,
                wire_len: meta.wire_len,
                bytes,
            });
        }
        write_in_order(&mut outputs, &mut sinks)?;
        start += chunk.len();
    }
    Ok(start)
}

fn hash(count: u64) -> usize {
    let steering = Steering::new(FieldSet::FOUR_TUPLE);
    let outside = Ipv4Addr::new(198, 18, 0, 1);
    let hashes = (0..count as u32).map(|n| {
        let inside = Ipv4Addr::from_bits(0x0a00_0000 | n >> 4);
        steering.hash_ipv4(inside, outside, Some((n as u16, 443)))
    });
    black_box(hashes.fold(0, |sum, hash| sum ^ hash));
    count as usize
}

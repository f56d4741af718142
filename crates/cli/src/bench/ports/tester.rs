//! Sends at a set rate, whatever happens, and counts what comes through, with the time that it took.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anabranch_io::live::{LiveKind, LivePort, LiveSpec, Queue, open};
use anabranch_nf::packet::Port;
use anabranch_packet::Frame;
use anabranch_packet::craft::{Link, udp};

/// Packets that are sent, and received, at once.
const BATCH: usize = 32;
/// How late a packet may be sent before the tester is too slow for its rate, in packets.
const LATEST: u64 = 20_000;
/// Time for packets that are under way at the end.
const SETTLE: Duration = Duration::from_millis(60);
/// The station that packets come from; a bridge takes none from nobody.
const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 8];
/// What every packet that is sent has, before the time at which it was.
const MARK: [u8; 8] = *b"anabench";
/// Bytes of a packet: the shortest that hold all this.
const LEN: usize = 60;
/// Widths of latency's classes: 16 for each doubling.
const CLASSES: usize = 16 * 48;

/// Two interfaces that have been opened, one to send, one to receive by.
pub(super) struct Ends([LivePort; 2]);

/// What sends and receives.
pub(super) struct Tester<'e> {
    sender: Box<dyn Queue<'e> + 'e>,
    receiver: Box<dyn Queue<'e> + 'e>,
    /// Packets of as many flows.
    packets: Vec<[u8; LEN]>,
}

/// What came of a trial.
pub(super) struct Outcome {
    /// Packets that were to be sent.
    pub(super) sent: u64,
    /// Packets that came through.
    pub(super) received: u64,
    /// Packets of each class of latency.
    latency: Vec<u64>,
}

impl Outcome {
    /// The latency in nanoseconds that so large a part of the packets stayed below.
    pub(super) fn percentile(&self, part: f64) -> Option<u64> {
        let wanted = (self.received as f64 * part).ceil() as u64;
        let mut seen = 0;
        let class = self.latency.iter().position(|count| {
            seen += count;
            seen >= wanted.max(1)
        });
        class.map(|class| 2_f64.powf((class as f64 + 1.0) / 16.0) as u64)
    }

    fn note(&mut self, ns: u64) {
        self.received += 1;
        let class = ((ns.max(1) as f64).log2() * 16.0) as usize;
        if let Some(count) = self.latency.get_mut(class.min(CLASSES - 1)) {
            *count += 1;
        }
    }
}

impl Ends {
    /// Opens both interfaces.
    ///
    /// # Errors
    /// What cannot be opened.
    pub(super) fn open(ends: &[String; 2]) -> Result<Self, String> {
        let [sender, receiver] = ends.each_ref().map(|end| {
            let spec = LiveSpec { kind: LiveKind::Xdp, interface: end.clone() };
            open(&spec, Port::new(0), 1).map_err(|cause| cause.to_string())
        });
        Ok(Self([sender?, receiver?]))
    }

    /// A tester whose packets, of so many flows, go to this station.
    ///
    /// # Errors
    /// There are no queues.
    pub(super) fn tester(
        &mut self,
        destination: [u8; 6],
        flows: usize,
    ) -> Result<Tester<'_>, String> {
        let Self([sender, receiver]) = self;
        let (Some(sender), Some(receiver)) =
            (sender.queues.first_mut(), receiver.queues.first_mut())
        else {
            return Err("the tester has no queue".to_owned());
        };
        let packets = (0..flows.max(BATCH)).map(|flow| packet(flow, destination)).collect();
        Ok(Tester { sender: sender.queue(), receiver: receiver.queue(), packets })
    }
}

impl Tester<'_> {
    /// Sends `pps` packets a second for a time.
    pub(super) fn trial(&mut self, pps: f64, time: Duration) -> Outcome {
        let Self { sender, receiver, packets } = self;
        let mut outcome = Outcome { sent: 0, received: 0, latency: vec![0; CLASSES] };
        let (mut batch, started) = (Vec::with_capacity(BATCH), Instant::now());
        // What an earlier trial has left.
        while receiver.receive(&mut batch, BATCH) > 0 {
            receiver.release(&mut batch);
        }
        loop {
            let elapsed = started.elapsed();
            if elapsed >= time + SETTLE {
                break;
            }
            let due = (elapsed.min(time).as_secs_f64() * pps) as u64;
            let late = due - outcome.sent.min(due);
            if late > 0 {
                // A tester that is too slow loses packets for the contestant: the rate is too high for both.
                let skipped = late.saturating_sub(LATEST);
                outcome.sent += skipped;
                let count = (late - skipped).min(BATCH as u64) as usize;
                send(packets, outcome.sent, count, started, &mut **sender);
                outcome.sent += count as u64;
            }
            if receiver.receive(&mut batch, BATCH) > 0 {
                let now_ns = started.elapsed().as_nanos() as u64;
                batch.iter().filter_map(sent_at).for_each(|sent_ns| {
                    outcome.note(now_ns.saturating_sub(sent_ns));
                });
                receiver.release(&mut batch);
            }
        }
        outcome
    }
}

/// Sends the next packets, each with the time.
fn send<'q>(
    packets: &mut [[u8; LEN]],
    from: u64,
    count: usize,
    started: Instant,
    queue: &mut (impl Queue<'q> + ?Sized),
) {
    let start = from as usize % (packets.len() - BATCH + 1);
    let now_ns = (started.elapsed().as_nanos() as u64).to_be_bytes();
    let Some(next) = packets.get_mut(start..start + count) else { return };
    let mut slices: [&[u8]; BATCH] = [&[]; BATCH];
    for (packet, slice) in next.iter_mut().zip(&mut slices) {
        packet[LEN - 8..].copy_from_slice(&now_ns);
        *slice = packet;
    }
    queue.send(&slices[..count]);
}

/// A datagram of this flow, without a checksum (RFC 768), so that the time can be written into it.
fn packet(flow: usize, destination: [u8; 6]) -> [u8; LEN] {
    const CHECKSUM: usize = 40;
    let mut bytes = [0; LEN];
    let inside: SocketAddr = (Ipv4Addr::new(10, 9, 0, 2), 1_024 + flow as u16).into();
    let server: SocketAddr = (Ipv4Addr::new(198, 18, 9, 2), 9).into();
    let payload = [&MARK[..], &[0; 10]].concat();
    // It is as long as it is meant to be.
    let _ = udp(&mut bytes, &Link::default(), inside, server, &payload);
    bytes[..6].copy_from_slice(&destination);
    bytes[6..12].copy_from_slice(&SOURCE);
    bytes[CHECKSUM..CHECKSUM + 2].fill(0);
    bytes
}

/// When a packet of ours was sent, in nanoseconds of its trial.
fn sent_at(frame: &Frame<'_>) -> Option<u64> {
    let bytes = frame.bytes();
    let is_ours = bytes.get(42..50)? == MARK;
    let time = bytes.get(LEN - 8..LEN)?.first_chunk().copied().map(u64::from_be_bytes);
    time.filter(|_| is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_carry_their_time() {
        let mut bytes = packet(7, [2, 0, 0, 0, 0, 9]);
        assert_eq!(bytes[..6], [2, 0, 0, 0, 0, 9]);
        assert_eq!(
            (&bytes[16..18], &bytes[34..36], &bytes[40..42]),
            (&[0, 46][..], &[4, 7][..], &[0, 0][..])
        );
        bytes[LEN - 8..].copy_from_slice(&1_234_u64.to_be_bytes());
        let time = |mut bytes: [u8; LEN]| {
            let meta = anabranch_packet::Meta::default();
            sent_at(&Frame::new(&mut bytes, 0, LEN, 0, meta))
        };
        assert_eq!(time(bytes), Some(1_234));
        bytes[42] = 0;
        assert_eq!(time(bytes), None);
    }

    #[test]
    fn percentiles_are_above_what_they_say_by_little() {
        let mut outcome = Outcome { sent: 1_000, received: 0, latency: vec![0; CLASSES] };
        (1..=1_000).for_each(|number| outcome.note(number * 1_000));
        for (part, least) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let ns = outcome.percentile(part).unwrap();
            assert!(ns >= least && ns <= least * 11 / 10, "{part}: {ns}");
        }
        let none = Outcome { sent: 0, received: 0, latency: vec![0; CLASSES] };
        assert_eq!(none.percentile(0.5), None);
    }
}

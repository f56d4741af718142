//! Copies of packets as a pcapng stream (draft-ietf-opsawg-pcapng): an interface for each port, the direction of
//! each packet, why it was dropped as its comment, and how many were lost at the end.

use anabranch_runtime::live::{Copied, Event};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Link type of Ethernet.
const ETHERNET: u16 = 1;
/// Options.
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const FLAGS: u16 = 2;
const RESOLUTION: u16 = 9;
const RECEIVED: u16 = 4;
const LOST: u16 = 7;
/// Direction of a packet, in its flags.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// A block that is written.
struct Block(Vec<u8>);

impl Block {
    fn new(kind: u32) -> Self {
        Self([kind.to_le_bytes(), [0; 4]].concat())
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn word(self, word: u32) -> Self {
        self.bytes(&word.to_le_bytes())
    }

    fn pad(mut self) -> Self {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn option(self, code: u16, value: &[u8]) -> Self {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        let value = &value[..usize::from(len)];
        self.bytes(&code.to_le_bytes()).bytes(&len.to_le_bytes()).bytes(value).pad()
    }

    /// The end of the options, and the block's length at both its ends.
    fn end(self) -> Vec<u8> {
        let mut block = self.option(0, &[]).0;
        let len = (block.len() as u32 + 4).to_le_bytes();
        block[4..8].copy_from_slice(&len);
        block.extend_from_slice(&len);
        block
    }
}

fn time(block: Block, at_ns: u64) -> Block {
    block.word((at_ns >> 32) as u32).word(at_ns as u32)
}

/// What stands before the packets: ports of these names, times in nanoseconds.
pub(super) fn head(ports: &[String]) -> Vec<u8> {
    let version = [1_u16.to_le_bytes(), 0_u16.to_le_bytes()].concat();
    let section = Block::new(SECTION).word(BYTE_ORDER).bytes(&version).bytes(&[0xff; 8]).end();
    let interface = |name: &String| {
        let block = Block::new(INTERFACE).bytes(&ETHERNET.to_le_bytes()).bytes(&[0; 2]).word(0);
        block.option(NAME, name.as_bytes()).option(RESOLUTION, &[9]).end()
    };
    [section].into_iter().chain(ports.iter().map(interface)).flatten().collect()
}

/// One packet.
pub(super) fn packet(copied: &Copied) -> Vec<u8> {
    let block = time(Block::new(PACKET).word(copied.port.into()), copied.at_ns);
    let block = block.word(copied.bytes.len() as u32).word(copied.len).bytes(&copied.bytes).pad();
    let leaves = matches!(copied.event, Event::Left | Event::Unsent(_));
    let direction = if leaves { OUTBOUND } else { INBOUND };
    let block = block.option(FLAGS, &direction.to_le_bytes());
    match copied.event {
        Event::Dropped(reason) | Event::Unsent(reason) => {
            block.option(COMMENT, format!("dropped: {reason}").as_bytes())
        }
        Event::Entered | Event::Left => block,
    }
    .end()
}

/// What stands behind them: how many were copied, and how many lost.
pub(super) fn tail(copied: u64, lost: u64, at_ns: u64) -> Vec<u8> {
    let block = time(Block::new(STATISTICS).word(0), at_ns);
    let received = (copied + lost).to_le_bytes();
    block.option(RECEIVED, &received).option(LOST, &lost.to_le_bytes()).end()
}

/// How many were copied or lost, and how many of them lost, by the end of a stream; `None`: it has none.
pub(super) fn counted(stream: &[u8]) -> Option<(u64, u64)> {
    const LEN: usize = 52;
    let tail = stream.get(stream.len().checked_sub(LEN)?..)?;
    let is_tail = tail.starts_with(&STATISTICS.to_le_bytes());
    let number = |at: usize| tail.get(at..)?.first_chunk().copied().map(u64::from_le_bytes);
    if is_tail { Some((number(24)?, number(36)?)) } else { None }
}

#[cfg(test)]
mod tests {
    use anabranch_io::capture::CaptureReader;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let ports = ["lan".to_owned(), "wan".to_owned()];
        let events = [Event::Entered, Event::Left, Event::Dropped("no-route")];
        let mut bytes = head(&ports);
        for (number, event) in events.into_iter().enumerate() {
            let len = 60 + number;
            let copied = Copied {
                event,
                port: number as u8 % 2,
                at_ns: 1_700_000_000_123_456_789 + number as u64,
                len: len as u32,
                bytes: vec![number as u8; len.min(61)],
            };
            bytes.extend(packet(&copied));
        }
        bytes.extend(tail(3, 2, 1_700_000_000_123_456_999));
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(counted(&bytes), Some((5, 2)));
        assert_eq!(counted(&bytes[..bytes.len() - 4]), None);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let mut reader = CaptureReader::open(file.path()).unwrap();
        for number in 0..3_u64 {
            let record = reader.next_record().unwrap().unwrap();
            assert_eq!(record.timestamp_ns, 1_700_000_000_123_456_789 + number);
            assert_eq!(u64::from(record.wire_len), 60 + number);
            assert_eq!(record.bytes, vec![number as u8; (60 + number as usize).min(61)]);
        }
        assert!(reader.next_record().unwrap().is_none());
        assert!(bytes.windows(17).any(|some| some == b"dropped: no-route"));
    }
}

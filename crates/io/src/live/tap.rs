//! `tap:NAME`: a TAP interface, whose other end is the kernel (Documentation/networking/tuntap.rst).
//!
//! An interface that is not there is made, set up, and goes when the run ends. Each worker has a queue;
//! the kernel gives a flow to the queue that its packets were last sent by. No offload is asked for, so that
//! the kernel cuts large packets and finishes checksums itself.

use super::error::{Capability, OpenError};
use super::system::{Ask, InterfaceRequest, ask, set_offloads};
use super::{LivePort, Opened, Queue, QueueStatistics, Sent, interface};
use crate::port::{FreeBuffers, HEADROOM, Pool};
use anabranch_packet::{Frame, Meta, Port};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

const DEVICE: &str = "/dev/net/tun";
/// Frames that may be lent at once.
const BUFFERS: usize = 128;
/// Longest frame: as long as an IP packet can be, with Ethernet header and VLAN tag.
const LONGEST: usize = 65_536 + 18;

/// Queues of a TAP at most (`MAX_TAP_QUEUES` in `drivers/net/tun.c`).
const MOST_QUEUES: usize = 256;

/// Attaches a queue of the interface `name`, which is made if there is none.
fn attach(name: &str, several: bool) -> Result<File, OpenError> {
    let device =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE);
    let device =
        device.map_err(OpenError::of(name, "opening /dev/net/tun", Capability::NetAdmin))?;
    let exists = interface::index(name).is_some();
    let become_queue = |several: bool| {
        let mut request = InterfaceRequest::new(name);
        let queues = if several { libc::IFF_MULTI_QUEUE } else { 0 };
        let flags = (libc::IFF_TAP | libc::IFF_NO_PI | queues) as u16;
        request.value[..2].copy_from_slice(&flags.to_ne_bytes());
        ask(device.as_fd(), Ask::Attach, &mut request)
    };
    let mut attached = become_queue(several);
    let is_refused = |done: &io::Result<()>| {
        done.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
    };
    if exists && !several && is_refused(&attached) {
        attached = become_queue(true);
    }
    if exists && is_refused(&attached) {
        return Err(OpenError::WrongType {
            interface: name.to_owned(),
            what: "an interface of this name is no TAP, or has one queue only",
            instead: format!(
                "`ip tuntap add dev {name} mode tap multi_queue` makes one for several workers; give \
                 another name, and it is made"
            ),
        });
    }
    attached.map_err(OpenError::of(name, "attaching to the TAP", Capability::NetAdmin))?;
    // A TAP that stays keeps what the one who had it before, a virtual machine perhaps, asked for.
    let step = OpenError::of(name, "asking the TAP for no offload", Capability::NetAdmin);
    set_offloads(device.as_fd(), 0).map_err(step)?;
    if !exists {
        interface::set_up(name)?;
    }
    Ok(device)
}

/// Opens `name` with a queue for each of `workers` workers.
pub(super) fn open(name: &str, port: Port, workers: usize) -> Result<LivePort, OpenError> {
    if workers > MOST_QUEUES {
        return Err(OpenError::WrongType {
            interface: name.to_owned(),
            what: "a TAP has 256 queues at most (MAX_TAP_QUEUES), one for each worker",
            instead: format!("give `--workers {MOST_QUEUES}` or fewer"),
        });
    }
    let existed = interface::index(name).is_some();
    if existed && interface::is_tap_in_use(name) {
        return Err(OpenError::WrongType {
            interface: name.to_owned(),
            what: "somebody has this TAP open, another run perhaps, and each would get some of the packets",
            instead: "`ip -d tuntap` says who: end that, or give another name, and it is made"
                .to_owned(),
        });
    }
    let several = workers > 1;
    let queues = (0..workers.max(1)).map(|_| {
        let file = attach(name, several)?;
        let pool = Pool::new(BUFFERS, LONGEST);
        let memory = Memory { name: name.to_owned(), port, several, file, pool };
        Ok(Box::new(memory) as Box<dyn Opened>)
    });
    let queues = queues.collect::<Result<_, OpenError>>()?;
    if !interface::is_up(name) {
        return Err(OpenError::Down { interface: name.to_owned() });
    }
    let made = if existed { "was there" } else { "made for this run" };
    let spread = match several {
        false => "1 queue",
        true => "a queue for each worker, the kernel keeps a flow on one",
    };
    let about = format!("{made}; {spread}; packets are copied, no offload is asked for");
    Ok(LivePort { queues, about, driver: None })
}

struct Memory {
    name: String,
    port: Port,
    several: bool,
    file: File,
    pool: Pool,
}

impl Opened for Memory {
    fn queue(&mut self) -> Box<dyn Queue<'_> + '_> {
        Box::new(Tap {
            name: &self.name,
            port: self.port,
            several: self.several,
            file: &mut self.file,
            free: self.pool.buffers(),
            statistics: QueueStatistics::default(),
            longest: longest(&self.name),
            is_down: false,
            is_gone: false,
        })
    }
}

struct Tap<'m> {
    name: &'m str,
    port: Port,
    several: bool,
    file: &'m mut File,
    free: FreeBuffers<'m>,
    statistics: QueueStatistics,
    longest: usize,
    is_down: bool,
    is_gone: bool,
}

/// Bytes of the longest packet that the interface sends, with the Ethernet header: the kernel does not hold what is
/// written to a TAP against its MTU.
fn longest(name: &str) -> usize {
    interface::longest(name).unwrap_or(LONGEST)
}

impl Tap<'_> {
    fn note(&mut self, error: &io::Error) {
        match error.raw_os_error() {
            Some(libc::EBADFD | libc::ENODEV) => self.is_gone = true,
            Some(libc::EIO) => {}
            _ => return,
        }
        self.statistics.link_downs += u64::from(!self.is_down);
        self.is_down = true;
    }

    fn send_one(&mut self, packet: &[u8]) -> Sent {
        let mut sent = Sent::default();
        if !interface::fits(packet, self.longest) {
            sent.too_big = 1;
            return sent;
        }
        match self.file.write(packet) {
            Ok(len) => {
                (sent.packets, sent.bytes) = (1, len as u64);
                self.is_down = false;
            }
            Err(error) => {
                self.note(&error);
                match error.raw_os_error() {
                    Some(libc::EBADFD | libc::ENODEV | libc::EIO) => sent.down = 1,
                    Some(libc::EMSGSIZE | libc::EINVAL) => sent.too_big = 1,
                    _ => sent.full = 1,
                }
            }
        }
        sent
    }
}

impl<'m> Queue<'m> for Tap<'m> {
    fn receive(&mut self, batch: &mut Vec<Frame<'m>>, max: usize) -> usize {
        let before = batch.len();
        while batch.len() - before < max && !self.is_gone {
            let Some(buffer) = self.free.take() else { break };
            match self.file.read(buffer.get_mut(HEADROOM..).unwrap_or_default()) {
                Ok(len) if len > 0 => {
                    let meta = Meta { wire_len: len as u32, port: self.port, ..Meta::default() };
                    batch.push(Frame::new(buffer, HEADROOM, len, 0, meta));
                }
                end => {
                    self.free.give(buffer);
                    if let Err(error) = end {
                        self.note(&error);
                    }
                    break;
                }
            }
        }
        batch.len() - before
    }

    fn release(&mut self, batch: &mut Vec<Frame<'m>>) {
        batch.drain(..).for_each(|frame| self.free.give(frame.into_buffer().0));
    }

    fn send(&mut self, packets: &[&[u8]]) -> Sent {
        let mut sent = Sent::default();
        packets.iter().for_each(|packet| sent.add(self.send_one(packet)));
        sent
    }

    fn attend(&mut self) {
        if self.is_gone
            && let Ok(file) = attach(self.name, self.several)
        {
            *self.file = file;
            (self.is_gone, self.is_down) = (false, false);
            self.statistics.reopened += 1;
        }
        self.longest = longest(self.name);
    }

    fn fds(&self, fds: &mut Vec<RawFd>) {
        fds.extend((!self.is_gone).then(|| self.file.as_raw_fd()));
    }

    fn statistics(&mut self) -> QueueStatistics {
        self.statistics
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::UdpSocket;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::super::offload::finish_unmarked;
    use super::super::system::leave_network;
    use super::*;

    fn ip(line: &str) -> bool {
        Command::new("ip").args(line.split(' ')).status().is_ok_and(|done| done.success())
    }

    #[test]
    fn more_workers_than_a_tap_has_queues_are_refused_at_once() {
        let why = open("many", Port::new(0), 257).err().map(|why| why.to_string());
        let why = why.unwrap_or_default();
        assert!(why.contains("256 queues at most") && why.contains("`--workers 256`"), "{why}");
    }

    /// A TAP that stays, and somebody who has it open; `None`: none may be made here.
    fn opened_before(name: &str) -> Option<File> {
        let made = leave_network().is_ok()
            && ip(&format!("tuntap add dev {name} mode tap multi_queue"))
            && ip(&format!("link set {name} up"));
        let before = made.then(|| attach(name, true).unwrap());
        if before.is_none() {
            println!("skipped: no TAP may be made here");
        }
        before
    }

    /// Closes what has `name` open. A program that another test starts just then holds it a little longer.
    fn close<T>(opened: T, name: &str) {
        drop(opened);
        let begun = Instant::now();
        while interface::is_tap_in_use(name) && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Packets of UDP over IPv4 that a queue has, all of them with finished checksums.
    fn finished<'m>(queue: &mut (dyn Queue<'m> + 'm)) -> usize {
        let (mut batch, mut seen) = (Vec::new(), 0);
        queue.receive(&mut batch, BUFFERS);
        for frame in &mut batch {
            seen += usize::from(frame.bytes()[12..14] == [8, 0] && frame.bytes()[23] == 17);
            assert!(!finish_unmarked(frame.bytes_mut()), "{:?}", frame.bytes());
        }
        queue.release(&mut batch);
        seen
    }

    #[test]
    fn a_tap_has_one_owner() {
        let Some(before) = opened_before("owned") else { return };
        for workers in [1, 2] {
            let refused = open("owned", Port::new(0), workers).err().map(|why| why.to_string());
            let why = refused.unwrap();
            assert!(why.starts_with("owned: somebody has this TAP open"), "{why}");
        }
        close(before, "owned");
        let first = open("owned", Port::new(0), 2).unwrap();
        assert!(open("owned", Port::new(0), 2).is_err());
        close(first, "owned");
        assert!(open("owned", Port::new(0), 1).is_ok());
        assert!(open("new", Port::new(0), 2).is_ok());
    }

    #[test]
    fn what_is_longer_than_its_mtu_is_not_sent() {
        let Some(before) = opened_before("short") else { return };
        close(before, "short");
        let mut port = open("short", Port::new(0), 1).unwrap();
        let mut queue = port.queues[0].queue();
        let mut sent = |len: usize, kind: [u8; 2]| {
            let mut packet = vec![2; len];
            packet[12..14].copy_from_slice(&kind);
            let sent = queue.send(&[&packet]);
            queue.attend();
            (sent.packets, sent.too_big)
        };
        assert_eq!([1_514, 1_515].map(|len| sent(len, [8, 0])), [(1, 0), (0, 1)]);
        assert_eq!([1_518, 1_519].map(|len| sent(len, [0x88, 0xa8])), [(1, 0), (0, 1)]);
        assert!(ip("link set short mtu 9000"));
        assert_eq!([9_014, 9_014].map(|len| sent(len, [8, 0])), [(0, 1), (1, 0)], "once looked at");
    }

    #[test]
    fn what_another_asked_for_before_is_asked_for_no_more() {
        const CHECKSUMS: u32 = 1;
        let Some(before) = opened_before("before") else { return };
        set_offloads(before.as_fd(), CHECKSUMS).unwrap();
        for line in [
            "addr add 10.9.0.1/24 dev before",
            "neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev before",
        ] {
            assert!(ip(line), "{line}");
        }
        close(before, "before");
        let mut port = open("before", Port::new(0), 2).unwrap();
        let (sender, begun) = (UdpSocket::bind("10.9.0.1:0").unwrap(), Instant::now());
        let mut seen = 0;
        // An interface that somebody has opened anew drops what is sent for a moment.
        while seen == 0 && begun.elapsed() < Duration::from_secs(10) {
            sender.send_to(b"hello", "10.9.0.2:9").unwrap();
            std::thread::sleep(Duration::from_millis(20));
            seen = port.queues.iter_mut().map(|opened| finished(&mut *opened.queue())).sum();
        }
        assert!(seen > 0);
    }
}

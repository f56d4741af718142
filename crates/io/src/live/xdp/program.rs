//! The XDP program that gives packets to sockets: loaded by bpf(2), and gone with this process.
//! This is why there is `unsafe` here: the call takes pointers.
//!
//! ```text
//! return redirect_map(sockets, queue the packet came by, XDP_PASS if that has no socket)
//! ```

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Commands of bpf(2), and what they are given (linux/bpf.h).
const MAP_CREATE: c_long = 0;
const MAP_UPDATE_ELEM: c_long = 2;
const PROG_LOAD: c_long = 5;
const LINK_CREATE: c_long = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// Queues that an interface may have here.
pub(super) const QUEUES: u32 = 64;

/// The argument of bpf(2): as many bytes as any command used here reads, the rest zero.
#[repr(C, align(8))]
struct Argument([u8; 128]);

impl Argument {
    fn new(numbers: &[(usize, u32)]) -> Self {
        let mut argument = Self([0; 128]);
        for (at, number) in numbers {
            argument.put(*at, &number.to_ne_bytes());
        }
        argument
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Has the field at `at` point to `bytes`.
    fn point(&mut self, at: usize, bytes: &[u8]) {
        self.put(at, &(bytes.as_ptr() as u64).to_ne_bytes());
    }

    /// Calls bpf(2). What the argument points to is alive, and only read.
    fn call(&self, command: c_long) -> io::Result<i32> {
        let len = self.0.len() as c_long;
        // SAFETY: the argument has `len` bytes; what its pointers lead to is borrowed by our callers
        // for the time of the call, as long as the command reads, and the commands used write nothing.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_ptr(), len) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
    }

    fn open(&self, command: c_long) -> io::Result<OwnedFd> {
        let fd = self.call(command)?;
        // SAFETY: the commands that come here return a new descriptor, ours alone.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// The program, and the sockets it gives packets to, by queue.
pub(super) struct Program {
    sockets: OwnedFd,
    program: OwnedFd,
}

/// The program on an interface. Dropping it takes it off: so does the end of the process, however it comes.
pub(super) struct Link {
    _fd: OwnedFd,
    /// In the driver, not behind it.
    pub(super) native: bool,
}

impl Program {
    /// Loads the program.
    pub(super) fn load() -> io::Result<Self> {
        let map = [(0, MAP_TYPE_XSKMAP), (4, 4), (8, 4), (12, QUEUES)];
        let sockets = Argument::new(&map).open(MAP_CREATE)?;
        let program = load(&sockets)?;
        Ok(Self { sockets, program })
    }

    /// Puts it onto `interface`: in the driver where that can be, else behind it.
    pub(super) fn attach(&self, interface: i32) -> io::Result<Link> {
        const DRIVER: u32 = 1 << 2;
        const BEHIND: u32 = 1 << 1;
        let link = |mode| {
            let fields = [
                (0, self.program.as_raw_fd() as u32),
                (4, interface.unsigned_abs()),
                (8, ATTACH_XDP),
                (12, mode),
            ];
            Argument::new(&fields).open(LINK_CREATE)
        };
        match link(DRIVER) {
            Ok(fd) => Ok(Link { _fd: fd, native: true }),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Err(error),
            Err(_) => Ok(Link { _fd: link(BEHIND)?, native: false }),
        }
    }

    /// Gives what comes by `queue` to `socket`.
    pub(super) fn add(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let (key, value) = (queue.to_ne_bytes(), socket.as_raw_fd().to_ne_bytes());
        let mut update = Argument::new(&[(0, self.sockets.as_raw_fd() as u32)]);
        update.point(8, &key);
        update.point(16, &value);
        update.call(MAP_UPDATE_ELEM).map(drop)
    }
}

/// Loads the program, which looks into `sockets`.
fn load(sockets: &OwnedFd) -> io::Result<OwnedFd> {
    const QUEUE: i16 = 16;
    const PASS: i32 = 2;
    const REDIRECT_MAP: i32 = 51;
    let instruction = |code: u8, registers: u8, offset: i16, value: i32| {
        let mut bytes = [code, registers, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        bytes[4..].copy_from_slice(&value.to_ne_bytes());
        bytes
    };
    let program = [
        instruction(0x61, 0x12, QUEUE, 0), // r2 = context.rx_queue_index
        instruction(0x18, 0x11, 0, sockets.as_raw_fd()), // r1 = sockets
        instruction(0, 0, 0, 0),           // (its upper half)
        instruction(0xb7, 0x03, 0, PASS),  // r3 = XDP_PASS
        instruction(0x85, 0, 0, REDIRECT_MAP), // r0 = redirect_map(r1, r2, r3)
        instruction(0x95, 0, 0, 0),        // return r0
    ];
    let bytes = program.concat();
    let licence = b"Apache-2.0\0";
    let fields = [(0, PROG_TYPE_XDP), (4, program.len() as u32), (68, ATTACH_XDP)];
    let mut argument = Argument::new(&fields);
    argument.point(8, &bytes);
    argument.point(16, licence);
    argument.open(PROG_LOAD)
}

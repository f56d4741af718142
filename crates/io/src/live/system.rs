//! The system calls that live ports need and the standard library lacks, each behind a safe function.
//! This is why there is `unsafe` here: the calls take pointers.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::time::Duration;

/// Values that the kernel may read from and write to as bytes.
///
/// # Safety
/// The implementor has no padding, and any bytes are a value of it.
pub(super) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),+) => { $(
        // SAFETY: integers and structs of integers without padding.
        unsafe impl Plain for $type {}
    )+ };
}

plain!(
    c_int,
    u32,
    libc::tpacket_req,
    libc::tpacket_stats,
    libc::packet_mreq,
    libc::sockaddr_ll,
    libc::xdp_umem_reg,
    libc::xdp_mmap_offsets,
    libc::xdp_statistics,
    libc::sockaddr_xdp
);

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A new socket, closed when another program is executed.
pub(super) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor is new, and ours alone.
    unsafe {
        let fd = check(libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Sets an option of a socket.
pub(super) fn set_option<T: Plain>(
    fd: &OwnedFd,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast::<c_void>();
    // SAFETY: `value` points to `len` initialised bytes.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value, len) }).map(drop)
}

/// An option of a socket. A shorter answer than `T` leaves the rest zero.
pub(super) fn option<T: Plain>(fd: &OwnedFd, level: c_int, name: c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    let to = value.as_mut_ptr().cast::<c_void>();
    // SAFETY: the kernel writes at most `len` bytes; any bytes are a `T`.
    unsafe {
        check(libc::getsockopt(fd.as_raw_fd(), level, name, to, &mut len))?;
        Ok(value.assume_init())
    }
}

/// Has a socket refuse every packet, until [`refuse_none`].
pub(super) fn refuse_all(fd: &OwnedFd) -> io::Result<()> {
    let mut program = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0 }]; // return 0
    let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    let len = size_of::<libc::sock_fprog>() as libc::socklen_t;
    let to = std::ptr::from_ref(&filter).cast::<c_void>();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    // SAFETY: the filter points to one instruction; the kernel copies it.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, to, len) }).map(drop)
}

/// Takes the filter of [`refuse_all`] off.
pub(super) fn refuse_none(fd: &OwnedFd) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0_i32)
}

/// Binds a socket to an address.
pub(super) fn bind<T: Plain>(fd: &OwnedFd, address: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let address = std::ptr::from_ref(address).cast::<libc::sockaddr>();
    // SAFETY: `address` points to `len` initialised bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), address, len) }).map(drop)
}

/// The number of the interface that a packet socket is bound to. One whose interface was taken away, were it only to
/// another namespace and back, is bound to none.
pub(super) fn bound_interface(fd: &OwnedFd) -> io::Result<i32> {
    let mut address = MaybeUninit::<libc::sockaddr_ll>::zeroed();
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let to = address.as_mut_ptr().cast::<libc::sockaddr>();
    // SAFETY: the kernel writes at most `len` bytes; any bytes are an address.
    unsafe {
        check(libc::getsockname(fd.as_raw_fd(), to, &mut len))?;
        Ok(address.assume_init().sll_ifindex)
    }
}

/// Packets that [`send_batch`] sends at once.
pub(super) const SEND_BATCH: usize = 32;

/// Sends the first [`SEND_BATCH`] of `packets`, and returns how many were.
///
/// # Errors
/// Why the first one could not be sent.
pub(super) fn send_batch(fd: &OwnedFd, packets: &[&[u8]]) -> io::Result<usize> {
    let count = packets.len().min(SEND_BATCH);
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; SEND_BATCH];
    // SAFETY: all zero is a valid message: no name, no parts, no control.
    let mut messages: [libc::mmsghdr; SEND_BATCH] = unsafe { std::mem::zeroed() };
    for ((part, message), packet) in parts.iter_mut().zip(&mut messages).zip(packets) {
        part.iov_base = packet.as_ptr().cast_mut().cast();
        part.iov_len = packet.len();
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: the first `count` messages point to parts on the stack and these to `packets`, which the
    // kernel only reads.
    let sent = unsafe {
        let flags = libc::MSG_DONTWAIT;
        libc::sendmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), count as u32, flags as _)
    };
    check(sent).map(|sent| sent as usize)
}

/// Receives a packet that waits at a socket, and returns its length, which may be more than `to` has room for.
///
/// # Errors
/// `WouldBlock`: none waits. Other errors are the socket's, told once.
pub(super) fn receive(fd: &OwnedFd, to: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the kernel writes at most as many bytes as `to` has.
    let len = unsafe { libc::recv(fd.as_raw_fd(), to.as_mut_ptr().cast(), to.len(), flags) };
    usize::try_from(len).map_err(|_| io::Error::last_os_error())
}

/// Has the kernel look at the transmit ring of a socket. True: the device refused a packet, which the kernel
/// has dropped, and it looked no further.
///
/// # Errors
/// As `send(2)` has them; that it has not got through the whole ring is none.
pub(super) fn kick(fd: &OwnedFd) -> io::Result<bool> {
    // SAFETY: nothing is pointed to.
    let done = check(unsafe {
        libc::sendto(fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
    } as c_int);
    match done {
        Err(error) => match error.raw_os_error() {
            Some(libc::EBUSY) => Ok(true),
            Some(libc::EAGAIN | libc::ENOBUFS) => Ok(false),
            _ => Err(error),
        },
        Ok(_) => Ok(false),
    }
}

/// As [`live::wait`](super::wait).
pub(super) fn wait(fds: &[RawFd], timeout: Duration, failed: &mut Vec<bool>) -> io::Result<()> {
    const FEW: usize = 64;
    const NONE: libc::pollfd = libc::pollfd { fd: -1, events: 0, revents: 0 };
    let (mut few, mut many) = ([NONE; FEW], Vec::new());
    let count = fds.len();
    let polled = match few.get_mut(..count) {
        Some(few) => few,
        None => {
            // Ports with many queues each, and few workers.
            many.resize(count, NONE);
            &mut many[..]
        }
    };
    for (poll, fd) in polled.iter_mut().zip(fds) {
        (poll.fd, poll.events) = (*fd, libc::POLLIN);
    }
    let seconds = libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX);
    let limit = libc::timespec { tv_sec: seconds, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: `polled` has `count` elements; the limit outlives the call; no signal mask is given.
    let ready =
        unsafe { check(libc::ppoll(polled.as_mut_ptr(), count as _, &limit, std::ptr::null())) };
    failed.clear();
    let wrong = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
    failed.extend(polled.iter().map(|poll| poll.revents & wrong != 0));
    match ready {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// As [`live::realtime_ns`](super::realtime_ns).
pub(super) fn realtime_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut now) };
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// What `ioctl(2)` is asked about an interface (`struct ifreq`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    /// The answer or the argument, as the request defines it.
    pub value: [u8; 24],
}

impl InterfaceRequest {
    /// A request about the interface `name`, whose end is cut off if it is too long.
    pub(super) fn new(name: &str) -> Self {
        let mut request = Self { name: [0; libc::IFNAMSIZ], value: [0; 24] };
        let places = request.name.iter_mut().take(libc::IFNAMSIZ - 1);
        places.zip(name.bytes()).for_each(|(place, byte)| *place = byte);
        request
    }

    /// The first two bytes of the value, as a number.
    pub(super) fn short(&self) -> u16 {
        u16::from_ne_bytes([self.value[0], self.value[1]])
    }

    /// The first four bytes of the value, as a number.
    pub(super) fn number(&self) -> i32 {
        i32::from_ne_bytes([self.value[0], self.value[1], self.value[2], self.value[3]])
    }
}

/// Requests whose argument is a `struct ifreq` without pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// `SIOCGIFINDEX`: its number.
    Index,
    /// `SIOCGIFFLAGS`: its flags.
    Flags,
    /// `SIOCSIFFLAGS`: has these flags.
    SetFlags,
    /// `SIOCGIFHWADDR`: its hardware type and address.
    Hardware,
    /// `SIOCGIFADDR`: its IPv4 address.
    Address,
    /// `SIOCGIFMTU`: bytes of the longest packet that it sends, without the Ethernet header.
    Mtu,
    /// `TUNSETIFF`: the descriptor of /dev/net/tun becomes a queue of it.
    Attach,
}

/// Asks about, or changes, an interface.
pub(super) fn ask(fd: BorrowedFd<'_>, ask: Ask, about: &mut InterfaceRequest) -> io::Result<()> {
    let request = match ask {
        Ask::Index => libc::SIOCGIFINDEX,
        Ask::Flags => libc::SIOCGIFFLAGS,
        Ask::SetFlags => libc::SIOCSIFFLAGS,
        Ask::Hardware => libc::SIOCGIFHWADDR,
        Ask::Address => libc::SIOCGIFADDR,
        Ask::Mtu => libc::SIOCGIFMTU,
        Ask::Attach => libc::TUNSETIFF as _,
    };
    // SAFETY: each of the requests reads and writes one `struct ifreq`, of 40 bytes.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(about)) }).map(drop)
}

/// Has the TAP of which `fd` is a queue be given what these offloads (`TUN_F_…`) leave to be done, and nothing else.
pub(super) fn set_offloads(fd: BorrowedFd<'_>, offloads: u32) -> io::Result<()> {
    let offloads = libc::c_ulong::from(offloads);
    // SAFETY: nothing is pointed to.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads) }).map(drop)
}

/// Puts this thread alone into a network without interfaces.
#[cfg(test)]
pub(super) fn leave_network() -> io::Result<()> {
    // SAFETY: nothing is pointed to.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Memory that a file descriptor shares with the kernel; unmapped when dropped.
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is owned as a `Box<[u8]>` is; it may be used from any one thread at a time.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` from `offset`, to be read and written.
    pub(super) fn new(fd: &OwnedFd, len: usize, offset: i64) -> io::Result<Self> {
        Self::map(fd.as_raw_fd(), len, libc::MAP_SHARED | libc::MAP_POPULATE, offset)
    }

    fn map(fd: RawFd, len: usize, flags: c_int, offset: i64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice touches no other memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, offset) };
        match NonNull::new(start.cast::<u8>()) {
            Some(mapped) if start != libc::MAP_FAILED => Ok(Self { start: mapped, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Maps `len` bytes of memory that belong to no file.
    pub(super) fn anonymous(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Self::map(-1, len, flags, 0)
    }

    /// Its first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody lends out of it any more: who does borrows it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

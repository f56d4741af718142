//! DPDK by way of `shim.c`: what concerns no packet memory, each behind a safe function. Ports are checked by DPDK.
//! This is why there is `unsafe` here: the calls take pointers.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The part of an mbuf (`struct rte_mbuf`) that is used here; its places are checked where `shim.c` is compiled.
#[repr(C, align(64))]
pub(super) struct Mbuf {
    /// The first byte of its buffer.
    pub(super) buf_addr: *mut u8,
    _iova: u64,
    /// Where the packet begins in the buffer.
    pub(super) data_off: u16,
    _refcnt: u16,
    /// Buffers that the packet is scattered over.
    pub(super) nb_segs: u16,
    _port: u16,
    /// What it is (`RTE_MBUF_F_…`).
    pub(super) ol_flags: u64,
    _packet_type: u32,
    /// Bytes of the packet.
    pub(super) pkt_len: u32,
    /// Of them in this buffer.
    pub(super) data_len: u16,
    _vlan_tci: u16,
    _hash: [u32; 2],
    _vlan_tci_outer: u16,
    /// Bytes of its buffer.
    pub(super) buf_len: u16,
    _pool: *mut RawPool,
    _second_line: [u8; 64],
}

const _: () = assert!(
    size_of::<Mbuf>() == 128
        && std::mem::offset_of!(Mbuf, nb_segs) == 20
        && std::mem::offset_of!(Mbuf, ol_flags) == 24
        && std::mem::offset_of!(Mbuf, data_len) == 40
        && std::mem::offset_of!(Mbuf, buf_len) == 54
);

/// `struct rte_mempool`.
#[repr(C)]
pub(super) struct RawPool {
    _opaque: [u8; 0],
}

/// What DPDK says of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Description {
    /// Fields that it can hash (`RTE_ETH_RSS_…`).
    pub(super) rss: u64,
    /// NUMA node; negative: any.
    pub(super) socket: i32,
    /// The kernel's interface below it, by number; 0: none.
    pub(super) interface: u32,
    /// Entries of its indirection table.
    pub(super) reta_size: u32,
    /// Bytes of its key.
    pub(super) key_size: u32,
    /// Receive queues at most.
    pub(super) max_rx: u16,
    /// Transmit queues at most.
    pub(super) max_tx: u16,
    driver: [u8; 36],
}

const _: () = assert!(size_of::<Description>() == 64);

impl Description {
    /// The name of its driver: `net_null`.
    pub(super) fn driver(&self) -> &str {
        let len = self.driver.iter().position(|byte| *byte == 0).unwrap_or(0);
        self.driver.get(..len).and_then(|name| str::from_utf8(name).ok()).unwrap_or_default()
    }
}

/// What a device has counted.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Packets for which there was no room in a receive queue.
    pub(super) missed: u64,
    /// Packets for which there was no buffer.
    pub(super) no_memory: u64,
    /// Packets received with an error.
    pub(super) rx_errors: u64,
    /// Packets that were taken, and not sent.
    pub(super) tx_errors: u64,
}

/// A buffer of this many bytes more than the longest packet (`RTE_PKTMBUF_HEADROOM`).
pub(super) const HEADROOM: usize = 128;

unsafe extern "C" {
    fn anabranch_dpdk_take_log(to: *mut u8, room: usize) -> usize;
    fn anabranch_dpdk_version() -> *const c_char;
    fn anabranch_dpdk_start_eal(argc: c_int, argv: *mut *mut c_char) -> c_int;
    fn anabranch_dpdk_first_core() -> c_int;
    fn anabranch_dpdk_register_thread() -> c_int;
    fn anabranch_dpdk_unregister_thread();
    fn anabranch_dpdk_probe(devargs: *const c_char, name: *const c_char, port: *mut u16) -> c_int;
    fn anabranch_dpdk_describe(port: u16, to: *mut Description) -> c_int;
    fn anabranch_dpdk_set_promiscuous(port: u16, on: c_int) -> c_int;
    fn anabranch_dpdk_longest(port: u16) -> u32;
    fn anabranch_dpdk_has_link(port: u16) -> c_int;
    fn anabranch_dpdk_counts(port: u16, to: *mut Counts) -> c_int;
    fn anabranch_dpdk_hash(port: u16, key: *mut u8, len: u8, fields: *mut u64) -> c_int;
    fn anabranch_dpdk_set_hash(port: u16, key: *mut u8, len: u8, fields: u64) -> c_int;
    fn anabranch_dpdk_table(port: u16, queues: *mut u16, size: u16) -> c_int;
    fn anabranch_dpdk_set_table(port: u16, queues: *const u16, size: u16) -> c_int;
}

/// Calls of [`memory`](super::memory), which sees to what they need.
pub(super) mod packets {
    use super::{Mbuf, RawPool};
    use std::ffi::{c_char, c_int, c_uint};

    unsafe extern "C" {
        pub(in super::super) fn anabranch_dpdk_make_pool(
            name: *const c_char,
            count: c_uint,
            cache: c_uint,
            room: u16,
            socket: c_int,
        ) -> *mut RawPool;
        pub(in super::super) fn anabranch_dpdk_free_pool(pool: *mut RawPool);
        pub(in super::super) fn anabranch_dpdk_bounds(
            pool: *mut RawPool,
            start: *mut usize,
            end: *mut usize,
        );
        pub(in super::super) fn anabranch_dpdk_start(
            port: u16,
            queues: u16,
            rx_room: u16,
            tx_room: u16,
            pool: *mut RawPool,
        ) -> c_int;
        pub(in super::super) fn anabranch_dpdk_close(port: u16);
        pub(in super::super) fn anabranch_dpdk_receive(
            port: u16,
            queue: u16,
            to: *mut *mut Mbuf,
            most: u16,
        ) -> u16;
        pub(in super::super) fn anabranch_dpdk_send(
            port: u16,
            queue: u16,
            from: *mut *mut Mbuf,
            count: u16,
        ) -> u16;
        pub(in super::super) fn anabranch_dpdk_allocate(
            pool: *mut RawPool,
            to: *mut *mut Mbuf,
            count: c_uint,
        ) -> c_int;
        pub(in super::super) fn anabranch_dpdk_free(from: *mut *mut Mbuf, count: c_uint);
        pub(in super::super) fn anabranch_dpdk_gather(
            packet: *mut Mbuf,
            pool: *mut RawPool,
        ) -> *mut Mbuf;
    }
}

/// Keys are shorter.
const LONGEST_KEY: usize = 512;

/// DPDK's results: below zero a negative error number. Drivers say -1 for whatever went wrong, which as a number would
/// be "not permitted".
pub(super) fn check(result: c_int) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::other("its driver says -1, and not why")),
        ..0 => Err(io::Error::from_raw_os_error(-result)),
        _ => Ok(()),
    }
}

/// A text as C has it. `None`: there is a zero byte in it.
fn c_string(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// DPDK's version: `DPDK 22.11.11`.
pub(super) fn version() -> String {
    // SAFETY: it returns a constant text.
    unsafe { CStr::from_ptr(anabranch_dpdk_version()) }.to_string_lossy().into_owned()
}

/// What DPDK has said since it was asked last.
pub(super) fn take_log() -> String {
    let mut text = vec![0; 2_048];
    // SAFETY: at most so many bytes are written as there are.
    let len = unsafe { anabranch_dpdk_take_log(text.as_mut_ptr(), text.len()) };
    text.truncate(len);
    String::from_utf8_lossy(&text).into_owned()
}

/// Starts DPDK's environment; once a process.
pub(super) fn start_eal(arguments: &[String]) -> io::Result<()> {
    let texts = arguments.iter().map(|text| Ok(c_string(text)?.into_raw()));
    // Never freed: the environment may keep them.
    let mut texts = texts.collect::<io::Result<Vec<*mut c_char>>>()?;
    let count = texts.len() as c_int;
    texts.push(std::ptr::null_mut());
    // SAFETY: as many texts as `count`, each ended by a zero byte, and a null pointer after them.
    check(unsafe { anabranch_dpdk_start_eal(count, texts.as_mut_ptr()) })
}

/// The first core that this thread may run on.
pub(super) fn first_core() -> i32 {
    // SAFETY: no pointers.
    unsafe { anabranch_dpdk_first_core() }
}

/// A thread that DPDK knows, so that it has caches of its own before pools.
struct Registered(bool);

impl Registered {
    fn new() -> Self {
        // SAFETY: no pointers; the environment has been started by whoever has a device.
        Self(unsafe { anabranch_dpdk_register_thread() } == 0)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: this thread has been registered.
            unsafe { anabranch_dpdk_unregister_thread() };
        }
    }
}

/// Tells DPDK of this thread, until it ends. There may be too many: then they share.
pub(super) fn register_thread() {
    thread_local! {
        static THREAD: Registered = Registered::new();
    }
    THREAD.with(|_| ());
}

/// DPDK's lists of devices are nobody's: held by who adds a device or takes one away.
static DEVICES: Mutex<()> = Mutex::new(());

/// Nobody who holds it panics.
fn devices() -> MutexGuard<'static, ()> {
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes a port that is not used any more.
pub(super) fn close(port: u16) {
    let _devices = devices();
    // SAFETY: no pointers; nobody receives or sends by it.
    unsafe { packets::anabranch_dpdk_close(port) };
}

/// Makes the device `devargs`, which is called `name`, and returns its port.
///
/// # Errors
/// `EEXIST`: it is there already; else as the driver has it.
pub(super) fn probe(devargs: &str, name: &str) -> io::Result<u16> {
    let (devargs, name, mut port) = (c_string(devargs)?, c_string(name)?, 0);
    let _devices = devices();
    // SAFETY: two texts ended by a zero byte, and a number to write to.
    check(unsafe { anabranch_dpdk_probe(devargs.as_ptr(), name.as_ptr(), &mut port) })?;
    Ok(port)
}

/// What there is to know of a port.
pub(super) fn describe(port: u16) -> io::Result<Description> {
    let (rss, driver) = (0, [0; 36]);
    let (socket, interface, reta_size, key_size, max_rx, max_tx) = (-1, 0, 0, 0, 0, 0);
    let mut to =
        Description { rss, socket, interface, reta_size, key_size, max_rx, max_tx, driver };
    // SAFETY: it writes one description.
    check(unsafe { anabranch_dpdk_describe(port, &mut to) })?;
    Ok(to)
}

/// Has a port receive what is for other stations, or not.
pub(super) fn set_promiscuous(port: u16, on: bool) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { anabranch_dpdk_set_promiscuous(port, c_int::from(on)) })
}

/// The longest frame that a port takes, in bytes without FCS and VLAN tag.
pub(super) fn longest(port: u16) -> usize {
    // SAFETY: no pointers.
    unsafe { anabranch_dpdk_longest(port) as usize }
}

/// Whether a port's link is up.
pub(super) fn has_link(port: u16) -> bool {
    // SAFETY: no pointers.
    unsafe { anabranch_dpdk_has_link(port) != 0 }
}

/// What a port has counted; zeros where it does not count.
pub(super) fn counts(port: u16) -> Counts {
    let mut counts = Counts::default();
    // SAFETY: it writes one set of counts, or none.
    let _ = check(unsafe { anabranch_dpdk_counts(port, &mut counts) });
    counts
}

/// The key of a port's hash, of `len` bytes, and the fields that are hashed.
pub(super) fn hash(port: u16, len: u8) -> io::Result<(Vec<u8>, u64)> {
    // Drivers write the key that they have, whatever `len` is.
    let (mut key, mut fields) = (vec![0; LONGEST_KEY], 0);
    // SAFETY: it writes a key, of which there is none so long, and a number.
    check(unsafe { anabranch_dpdk_hash(port, key.as_mut_ptr(), len, &mut fields) })?;
    key.truncate(usize::from(len));
    Ok((key, fields))
}

/// Sets key and fields of a port's hash.
pub(super) fn set_hash(port: u16, key: &[u8], fields: u64) -> io::Result<()> {
    let mut key = key.to_vec();
    // SAFETY: it reads as many bytes as it is told; keys are shorter than 256.
    check(unsafe { anabranch_dpdk_set_hash(port, key.as_mut_ptr(), key.len() as u8, fields) })
}

/// The indirection table of a port, of `size` entries.
pub(super) fn table(port: u16, size: u16) -> io::Result<Vec<u16>> {
    let mut queues = vec![0; usize::from(size)];
    // SAFETY: it writes `size` numbers.
    check(unsafe { anabranch_dpdk_table(port, queues.as_mut_ptr(), size) })?;
    Ok(queues)
}

/// Sets the indirection table of a port.
pub(super) fn set_table(port: u16, queues: &[u16]) -> io::Result<()> {
    // SAFETY: it reads as many numbers as it is told.
    check(unsafe { anabranch_dpdk_set_table(port, queues.as_ptr(), queues.len() as u16) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drivers_say_is_an_error_number_but_for_one() {
        let error = |result| check(result).err();
        assert!(error(0).is_none() && error(7).is_none());
        assert_eq!(error(-libc::EINVAL).and_then(|why| why.raw_os_error()), Some(libc::EINVAL));
        let why = error(-1).map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains("-1") && !why.contains("permitted"), "{why}");
    }
}

//! A device of DPDK's: found, looked at, started; and what to do where one of these fails.

use super::eal::{self, Pages};
use super::ffi::{self, Description};
use super::memory::{Seat, Started, megabytes};
use crate::live::afpacket::{open_sender, receive_all};
use crate::live::claim::{Claim, claim};
use crate::live::error::{Capability, OpenError};
use crate::live::interface;
use crate::live::spec::{argument, driver_of, on_interface};
use crate::live::xdp;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Drivers of the kernel's that leave a device to programs, or share it with them.
const DRIVERS: [&str; 7] =
    ["vfio-pci", "igb_uio", "uio_pci_generic", "mlx5_core", "mlx4_core", "mana", "nfp"];

/// A device that has been started.
pub(super) struct Device {
    devargs: String,
    name: String,
    /// What DPDK says of it.
    pub(super) description: Description,
    /// The kernel's interface that it is on.
    pub(super) interface: Option<String>,
    /// The number that this had at first.
    pub(super) interface_index: Option<i32>,
    /// Bytes of the longest packet that its driver sends.
    longest: usize,
    pub(super) pages: Pages,
    pub(super) started: Arc<Started>,
    /// As long as it is open, its interface receives what is for other stations.
    listener: Mutex<Option<OwnedFd>>,
    _claim: Option<Claim>,
}

/// Arguments by which `net_pcap` reads an interface, and no capture.
const CAPTURED: [&str; 3] = ["iface", "rx_iface", "rx_iface_in"];

impl Device {
    /// Starts `written` with a queue for each worker.
    pub(super) fn start(written: &str, workers: usize) -> Result<(Self, Vec<Seat>), OpenError> {
        let fails = |what: String, instead: String| OpenError::Device {
            interface: written.to_owned(),
            what,
            instead,
        };
        let (devargs, name) = names(written);
        let is_pci = is_pci(&name);
        let interface = on_interface(&devargs);
        let was_promiscuous = interface.is_some_and(interface::is_promiscuous);
        if let Some(interface) = interface {
            let index = interface::usable(interface)?;
            check_unserved(&name, interface, index)
                .map_err(|(what, instead)| fails(what, instead))?;
        }
        let _claim = interface.map(claim).transpose()?;
        if is_pci {
            check_pci(&name, Path::new("/sys/bus/pci/devices"))
                .map_err(|(what, instead)| fails(what, instead))?;
            if eal::free_hugepages() == 0 {
                let what = "devices on the PCI bus need hugepages, and there are none free";
                return Err(fails(what.to_owned(), MORE_PAGES.to_owned()));
            }
        }
        let pages = eal::start().map_err(|why| {
            let what = format!("DPDK does not start: {why}");
            fails(what, "`anabranch doctor` looks for what it needs".to_owned())
        })?;
        let port = ffi::probe(&devargs, &name).map_err(|cause| {
            let (what, instead) = not_found(is_pci, &name, &cause);
            fails(what, instead)
        })?;
        let looked = ffi::describe(port).map_err(|cause| format!("it does not answer: {cause}"));
        let description = looked.and_then(|seen| enough(&seen, workers)).map_err(|what| {
            ffi::close(port);
            fails(what, other_queues(&name, workers))
        })?;
        let started = Started::new(port, workers, description.socket).map_err(|cause| {
            let (what, instead) = not_started(&cause, workers);
            fails(what, instead)
        })?;
        let (started, seats) = started.seats();
        let interface = interface.map(str::to_owned);
        let interface_index = interface.as_deref().and_then(interface::index);
        let longest = ffi::longest(port);
        let listener = Mutex::default();
        let device = Self {
            devargs,
            name,
            description,
            interface,
            interface_index,
            longest,
            pages,
            started,
            listener,
            _claim,
        };
        device.receive_all(was_promiscuous);
        ffi::take_log();
        Ok((device, seats))
    }

    /// Has it receive what is for other stations. An interface is asked by a socket: it ends with the process, whatever
    /// ends that. DPDK has taken off the flag that somebody had set.
    fn receive_all(&self, was_promiscuous: bool) {
        let ask = |name: &str| {
            let index = interface::usable(name)?;
            let socket = open_sender(name, index)?;
            receive_all(&socket, index).map_err(OpenError::of(
                name,
                "receiving what is for others",
                Capability::NetRaw,
            ))?;
            Ok::<_, OpenError>(socket)
        };
        let interface = self.interface.as_deref().filter(|_| !was_promiscuous);
        let listener = interface.and_then(|name| ask(name).ok());
        if listener.is_none() {
            self.started.receive_all(was_promiscuous);
        }
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = listener;
    }

    /// Whether its packets come from this machine's own network, with checksums that an offload may have left unfinished.
    pub(super) fn may_be_unfinished(&self) -> bool {
        let is_capture = self.description.driver() == "net_pcap";
        let is_given = |word: &&str| argument(&self.devargs, word).is_some();
        self.interface.is_some() || is_capture && CAPTURED.iter().any(is_given)
    }

    /// Bytes of the longest packet that it sends now, without a VLAN tag.
    pub(super) fn longest(&self) -> usize {
        let interface = self.interface.as_deref().and_then(interface::longest);
        interface.map_or(self.longest, |longest| self.longest.min(longest))
    }

    /// Starts it again, whose interface was gone and is back, when nobody uses it. False: not yet.
    pub(super) fn restart(&self, generation: u64) -> io::Result<bool> {
        let was_promiscuous = self.interface.as_deref().is_some_and(interface::is_promiscuous);
        let probe = || {
            let refused = self
                .interface
                .as_deref()
                .and_then(|name| check_unserved(&self.name, name, interface::index(name)?).err());
            match refused {
                Some((what, _)) => Err(io::Error::other(what)),
                None => ffi::probe(&self.devargs, &self.name),
            }
        };
        let restarted = self.started.replace(generation, probe)?;
        if restarted {
            self.receive_all(was_promiscuous);
        }
        ffi::take_log();
        Ok(restarted)
    }
}

const MORE_PAGES: &str = "`sysctl vm.nr_hugepages=256` makes some";

/// What DPDK is given, and what it calls the device.
fn names(written: &str) -> (String, String) {
    let name = written.split(',').next().unwrap_or_default();
    // The domain may be left out.
    if is_pci(name) && name.matches(':').count() == 1 {
        return (format!("0000:{written}"), format!("0000:{name}"));
    }
    (written.to_owned(), name.to_owned())
}

/// Whether a device is called so for its place on the PCI bus.
pub(super) fn is_pci(name: &str) -> bool {
    name.bytes().next().is_some_and(|byte| byte.is_ascii_hexdigit()) && name.contains(':')
}

/// Whether a PCI device is there, and may be taken.
fn check_pci(name: &str, devices: &Path) -> Result<(), (String, String)> {
    let device = devices.join(name);
    if !device.exists() {
        let instead = "`dpdk-devbind.py --status` lists those that are there".to_owned();
        return Err(("there is no such device on the PCI bus".to_owned(), instead));
    }
    let driver = device.join("driver").read_link().ok();
    let driver = driver.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    match driver {
        Some(driver) if DRIVERS.contains(&driver) => Ok(()),
        other => {
            let what = match other {
                Some(driver) => format!("it belongs to the kernel's driver {driver}"),
                None => "no driver has it".to_owned(),
            };
            Err((what, format!("`dpdk-devbind.py -b vfio-pci {name}` gives it to programs")))
        }
    }
}

/// Whether nobody has AF_XDP sockets on the interface of a device. DPDK would find the program of another run there, use
/// it, and take it off at the end, so that the other receives nothing any more.
fn check_unserved(name: &str, interface: &str, index: i32) -> Result<(), (String, String)> {
    if driver_of(name) != "net_af_xdp" || !xdp::is_served(interface, index).unwrap_or(false) {
        return Ok(());
    }
    let what = format!("another run or program receives by AF_XDP on {interface}");
    Err((what, "end it first, or give another interface".to_owned()))
}

/// Why a device could not be made.
fn not_found(is_pci: bool, name: &str, cause: &io::Error) -> (String, String) {
    if cause.raw_os_error() == Some(libc::EEXIST) {
        let instead = "give each port a device of its own: `net_ring0`, `net_ring1`".to_owned();
        return ("another port is this device already".to_owned(), instead);
    }
    let what = match eal::said() {
        Some(said) => format!("DPDK cannot take this device: {said}"),
        None => format!("DPDK's driver does not take these arguments ({cause})"),
    };
    let instead = match (is_pci, driver_of(name)) {
        (true, _) => "reading /dev/vfio takes root, or a group that may".to_owned(),
        (_, "net_af_packet") => {
            "write `net_af_packet0,iface=INTERFACE,qpairs=WORKERS`, and run with CAP_NET_RAW and CAP_NET_ADMIN"
                .to_owned()
        }
        (_, "net_af_xdp") => {
            "write `net_af_xdp0,iface=INTERFACE,queue_count=WORKERS` for an interface with as many combined \
             queues (`ethtool -l INTERFACE`), and run with CAP_BPF and CAP_NET_ADMIN"
                .to_owned()
        }
        (_, "net_tap") => "write `net_tap0,iface=NAME`, and run with CAP_NET_ADMIN".to_owned(),
        (_, "net_pcap") => "write `net_pcap0,rx_pcap=FILE,tx_pcap=FILE`".to_owned(),
        _ => "`ls /usr/lib/*/dpdk/pmds-*` lists its drivers, and \"Network Interface Controller Drivers\" on \
              doc.dpdk.org their arguments"
            .to_owned(),
    };
    (what, instead)
}

/// Drivers whose arguments say how many queues there are: packets come by all of them, whether anybody looks or not.
const SET_QUEUES: [&str; 3] = ["net_af_packet", "net_af_xdp", "net_pcap"];

/// The description of a device that has a queue for each worker, and none that nobody would look at.
fn enough(seen: &Description, workers: usize) -> Result<Description, String> {
    let (receive, send) = (usize::from(seen.max_rx), usize::from(seen.max_tx));
    let too_many = SET_QUEUES.contains(&seen.driver()) && receive > workers;
    match receive.min(send) >= workers && !too_many {
        true => Ok(*seen),
        false => Err(format!(
            "its receive queues are {receive} and its transmit queues {send}, and each of the {workers} workers \
             takes one of each"
        )),
    }
}

/// How a device gets as many queues as there are workers.
fn other_queues(name: &str, workers: usize) -> String {
    let run = "run with as many `--workers`";
    match driver_of(name) {
        "net_af_packet" => format!("write `qpairs={workers}` in its arguments, or {run}"),
        "net_af_xdp" => format!("write `queue_count={workers}` in its arguments, or {run}"),
        "net_pcap" => format!("give `rx_pcap` and `tx_pcap` {workers} times, or {run}"),
        "net_virtio_user" => format!("write `queues={workers}` in its arguments, or {run}"),
        _ => "run with fewer `--workers`".to_owned(),
    }
}

/// Why a device could not be started.
fn not_started(cause: &io::Error, workers: usize) -> (String, String) {
    // Drivers say that there is no memory, where an argument is wrong.
    if cause.raw_os_error().is_none() && cause.kind() == io::ErrorKind::OutOfMemory {
        let what = format!("no memory for its packets, {} MB", megabytes(workers));
        let instead = "`sysctl vm.nr_hugepages=1024` makes more hugepages (`anabranch doctor` \
                       shows how many are free)";
        return (what, instead.to_owned());
    }
    let what = eal::said().unwrap_or_else(|| cause.to_string());
    (
        format!("it does not start: {what}"),
        "look at its arguments, and run with CAP_NET_ADMIN".to_owned(),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_called_as_dpdk_calls_them() {
        let name = |written| names(written).1;
        assert_eq!(name("net_af_packet0,iface=eth2,qpairs=2"), "net_af_packet0");
        assert_eq!(name("03:00.0"), "0000:03:00.0");
        assert_eq!(names("03:00.1,a=b").0, "0000:03:00.1,a=b");
        assert_eq!(name("0001:03:00.0"), "0001:03:00.0");
        assert_eq!(on_interface("net_af_packet0,iface=eth2,qpairs=2"), Some("eth2"));
        assert_eq!(on_interface("net_af_packet0,ifaces=3"), None);
        assert_eq!(on_interface("net_tap0,iface=t0"), None);
        assert_eq!(driver_of(&name("net_tap12,iface=t0")), "net_tap");
    }

    #[test]
    fn devices_on_the_bus_are_looked_at() {
        let devices = tempfile::tempdir().unwrap();
        let why = |name| check_pci(name, devices.path()).err();
        for (name, driver) in [("0000:03:00.0", "ixgbe"), ("0000:04:00.0", "vfio-pci")] {
            let device = devices.path().join(name);
            std::fs::create_dir(&device).unwrap();
            std::os::unix::fs::symlink(format!("../drivers/{driver}"), device.join("driver"))
                .unwrap();
        }
        std::fs::create_dir(devices.path().join("0000:05:00.0")).unwrap();
        let (what, instead) = why("0000:03:00.0").unwrap();
        assert_eq!(what, "it belongs to the kernel's driver ixgbe");
        assert_eq!(instead, "`dpdk-devbind.py -b vfio-pci 0000:03:00.0` gives it to programs");
        assert_eq!(why("0000:04:00.0"), None);
        assert_eq!(why("0000:05:00.0").unwrap().0, "no driver has it");
        assert!(why("0000:06:00.0").unwrap().0.contains("no such device"));
    }
}

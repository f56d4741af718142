//! Why a live port cannot be opened.

use rustix::thread::{CapabilitySet, capabilities};
use std::io;
use thiserror::Error;

/// What kept a live port from being opened, with what mends it.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is no such interface.
    #[error("{interface}: there is no such interface here; `ip link` lists them")]
    NoSuchInterface {
        /// Its name.
        interface: String,
    },
    /// The interface is down.
    #[error("{interface}: the interface is down; `ip link set {interface} up` sets it up")]
    Down {
        /// Its name.
        interface: String,
    },
    /// The interface carries no Ethernet frames.
    #[error(
        "{interface}: not an Ethernet interface (its hardware type is {hardware}); give one that is"
    )]
    NotEthernet {
        /// Its name.
        interface: String,
        /// The ARP hardware type (`ARPHRD_…`).
        hardware: u16,
    },
    /// This process may not.
    #[error(
        "{interface}: {what} needs {capability}; run as root, or `setcap {setcap}+ep` the program"
    )]
    NotPermitted {
        /// Its name.
        interface: String,
        /// What was tried.
        what: &'static str,
        /// The capability that is missing.
        capability: &'static str,
        /// The capability as `setcap` wants it, with those that the process has: it leaves no others.
        setcap: String,
    },
    /// This process may not keep so much memory in place.
    #[error(
        "{interface}: an `xdp` port locks {mib} MiB of memory for each queue, over this process's limit; `ulimit -l \
         unlimited` first (LimitMEMLOCK=infinity in a unit), run as root, or `setcap {setcap}+ep` the program"
    )]
    Locked {
        /// Its name.
        interface: String,
        /// Memory of a queue, in MiB.
        mib: usize,
        /// The capabilities, as `setcap` wants them.
        setcap: String,
    },
    /// An interface of that name is something else.
    #[error("{interface}: {what}; {instead}")]
    WrongType {
        /// Its name.
        interface: String,
        /// What it is.
        what: &'static str,
        /// What to do instead.
        instead: String,
    },
    /// DPDK has no such device, or does not start it.
    #[error("dpdk:{interface}: {what}; {instead}")]
    Device {
        /// The device, as it was written.
        interface: String,
        /// What is wrong, with what DPDK says of it.
        what: String,
        /// What to do instead.
        instead: String,
    },
    /// This program has no DPDK.
    #[error(
        "dpdk:{interface}: this program was built without DPDK; `apt-get install libdpdk-dev` and `cargo build \
         --release --features dpdk` build it with (Debian 12, DPDK 22.11), or give `xdp:INTERFACE`"
    )]
    BuiltWithout {
        /// The device, as it was written.
        interface: String,
    },
    /// This process may open no more files.
    #[error(
        "{interface}: {what} failed: this process has as many files open as it may, and each worker needs some for each \
         port; `ulimit -n 65536` first (LimitNOFILE=65536 in a unit), or give fewer `--workers`"
    )]
    Files {
        /// Its name.
        interface: String,
        /// What was tried.
        what: &'static str,
    },
    /// A system call failed.
    #[error("{interface}: {what} failed: {cause}")]
    System {
        /// Its name.
        interface: String,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        cause: io::Error,
    },
}

impl OpenError {
    /// Whether there is not as much memory as was asked for.
    pub(super) fn is_for_memory(&self) -> bool {
        matches!(self, Self::System { cause, .. } if cause.raw_os_error() == Some(libc::ENOMEM))
    }

    /// Why a step of opening `interface` failed, with the capability (`net_raw` for `CAP_NET_RAW`)
    /// that it needs.
    pub(super) fn of<'a>(
        interface: &'a str,
        what: &'static str,
        needs: Capability,
    ) -> impl FnOnce(io::Error) -> Self + 'a {
        move |cause| {
            let interface = interface.to_owned();
            match cause.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    let (capability, setcap) = (needs.name(), needs.setcap(held()));
                    Self::NotPermitted { interface, what, capability, setcap }
                }
                Some(libc::ENODEV | libc::ENXIO) => Self::NoSuchInterface { interface },
                Some(libc::ENETDOWN) => Self::Down { interface },
                Some(libc::EMFILE) => Self::Files { interface, what },
                _ => Self::System { interface, what, cause },
            }
        }
    }
}

/// What a process may need to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capability {
    /// Packet sockets.
    NetRaw,
    /// Making and changing interfaces.
    NetAdmin,
    /// Programs in the kernel.
    Bpf,
    /// Memory that stays in place, without a limit.
    IpcLock,
}

/// Capabilities in the order of messages, as `setcap` calls them.
const WORDS: [(&str, CapabilitySet); 4] = [
    ("cap_net_raw", CapabilitySet::NET_RAW),
    ("cap_bpf", CapabilitySet::BPF),
    ("cap_net_admin", CapabilitySet::NET_ADMIN),
    ("cap_ipc_lock", CapabilitySet::IPC_LOCK),
];

impl Capability {
    const fn name(self) -> &'static str {
        match self {
            Self::NetRaw => "CAP_NET_RAW",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::Bpf => "CAP_BPF and CAP_NET_ADMIN",
            Self::IpcLock => "CAP_IPC_LOCK",
        }
    }

    /// What `setcap` is to be told, for a process that has the capabilities `held`: it takes those away that it is not
    /// told, so that a port that needs two would be refused for one of them for ever.
    pub(super) fn setcap(self, held: CapabilitySet) -> String {
        let needed = match self {
            Self::NetRaw => CapabilitySet::NET_RAW,
            Self::NetAdmin => CapabilitySet::NET_ADMIN,
            Self::Bpf => CapabilitySet::BPF | CapabilitySet::NET_ADMIN,
            Self::IpcLock => CapabilitySet::IPC_LOCK,
        };
        let told = if held.contains(needed) { needed } else { needed | held };
        let words = WORDS.iter().filter(|(_, one)| told.contains(*one));
        words.map(|(word, _)| *word).collect::<Vec<_>>().join(",")
    }
}

/// The capabilities that this process has.
pub(super) fn held() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_become_what_mends_them() {
        let error = |code| {
            let cause = io::Error::from_raw_os_error(code);
            OpenError::of("veth1", "opening a packet socket", Capability::NetRaw)(cause).to_string()
        };
        assert_eq!(
            error(libc::EPERM),
            "veth1: opening a packet socket needs CAP_NET_RAW; run as root, or `setcap \
             cap_net_raw+ep` the program"
        );
        assert_eq!(Capability::Bpf.setcap(CapabilitySet::empty()), "cap_bpf,cap_net_admin");
        let raw = CapabilitySet::NET_RAW;
        assert_eq!(Capability::Bpf.setcap(raw), "cap_net_raw,cap_bpf,cap_net_admin");
        let three = CapabilitySet::BPF | CapabilitySet::NET_RAW | CapabilitySet::NET_ADMIN;
        let all = "cap_net_raw,cap_bpf,cap_net_admin,cap_ipc_lock";
        assert_eq!(Capability::IpcLock.setcap(three), all);
        assert!(error(libc::ENODEV).contains("`ip link` lists them"));
        assert!(error(libc::ENETDOWN).contains("`ip link set veth1 up`"));
        assert!(
            error(libc::EMFILE).contains("opening a packet socket failed: this process has as")
        );
        assert!(error(libc::EMFILE).contains("`ulimit -n 65536`"));
        assert!(error(libc::ENOMEM).contains("opening a packet socket failed"));
    }
}

//! Two virtual links into a namespace, for as long as a contestant is measured.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::signals::{Leaving, undisturbed};

/// Addresses of the router that a NAT is, and of whom it is between.
const INSIDE: &str = "10.9.0.1/24";
const OUTSIDE: &str = "198.18.9.1/24";
/// Where packets go.
const SERVER: &str = "198.18.9.2";

/// The links and the namespace, which go when this goes.
pub(super) struct Bed {
    name: String,
    directory: PathBuf,
    _leaving: Leaving,
}

impl Bed {
    /// Makes them.
    ///
    /// # Errors
    /// That this process may not, or that there is no `ip`.
    pub(super) fn lay() -> Result<Self, String> {
        let name = format!("ab{}", std::process::id());
        let directory = std::env::temp_dir().join(&name);
        let there = (name.clone(), directory.clone());
        let _leaving = Leaving::new(move || remove(&there.0, &there.1));
        let bed = Self { name, directory, _leaving };
        undisturbed(|| bed.make())?;
        Ok(bed)
    }

    fn make(&self) -> Result<(), String> {
        ip(&format!("netns add {}", self.name))?;
        std::fs::create_dir_all(&self.directory).map_err(|cause| cause.to_string())?;
        let queues = "numrxqueues 1 numtxqueues 1";
        for (end, port) in self.ends().iter().zip(["p0", "p1"]) {
            let name = &self.name;
            ip(&format!(
                "link add {end} {queues} type veth peer name {port} {queues} netns {name}"
            ))?;
            // Nobody but the tester speaks.
            ip(&format!("link set {end} addrgenmode none"))?;
            self.ip(&format!("link set {port} addrgenmode none"))?;
            ip(&format!("link set {end} up"))?;
            self.ip(&format!("link set {port} up"))?;
        }
        Ok(())
    }

    /// The ends on this side.
    pub(super) fn ends(&self) -> [String; 2] {
        ends(&self.name)
    }

    /// Where a contestant's socket is made.
    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("run.sock")
    }

    /// The station that packets are sent to: the router's, or the other end itself.
    pub(super) fn destination(&self, routed: bool) -> [u8; 6] {
        let read = |line: &str| {
            let output = self.inside(line).output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let text = match routed {
            true => read("cat /sys/class/net/p0/address"),
            false => None,
        };
        station(&text.unwrap_or_default()).unwrap_or([2, 0, 0, 0, 0, 9])
    }

    /// Has the kernel bridge between the links.
    ///
    /// # Errors
    /// What cannot be set up.
    pub(super) fn bridge(&self) -> Result<(), String> {
        self.ip("link add name sw type bridge forward_delay 0")?;
        for port in ["p0", "p1"] {
            self.ip(&format!("link set {port} master sw"))?;
        }
        self.ip("link set sw up")?;
        // It bridges, and nothing else, where it would show frames to netfilter too.
        let _ =
            run(self.inside("echo 0 > /proc/sys/net/bridge/bridge-nf-call-iptables"), "bridging");
        self.spread();
        Ok(())
    }

    /// Has the kernel route between the links, and translate addresses.
    ///
    /// # Errors
    /// What cannot be set up.
    pub(super) fn translate(&self) -> Result<(), String> {
        self.ip(&format!("addr add {INSIDE} dev p0"))?;
        self.ip(&format!("addr add {OUTSIDE} dev p1"))?;
        self.ip(&format!("neigh replace {SERVER} lladdr 02:00:00:00:00:09 dev p1"))?;
        for line in [
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
            "nft 'add table ip nat'",
            "nft 'add chain ip nat post { type nat hook postrouting priority 100 ; }'",
            "nft 'add rule ip nat post oifname p1 masquerade'",
        ] {
            run(self.inside(line), line)?;
        }
        self.spread();
        Ok(())
    }

    /// Has the kernel work on another core than the tester: who sends over a virtual link does the receiver's work
    /// otherwise.
    fn spread(&self) {
        // On one core there is no other.
        let line = "echo 1 > /sys/class/net/p0/queues/rx-0/rps_cpus";
        let _ = run(self.inside(line), "receive packet steering");
    }

    /// Starts this program in the namespace.
    ///
    /// # Errors
    /// That it cannot be started.
    pub(super) fn spawn(&self, words: &[String]) -> Result<Child, String> {
        let program = std::env::current_exe().map_err(|cause| cause.to_string())?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|cause| cause.to_string())
    }

    fn inside(&self, line: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, "sh", "-c", line]);
        command
    }

    fn ip(&self, line: &str) -> Result<(), String> {
        ip(&format!("-n {} {line}", self.name))
    }
}

/// Takes away what there is of a bed.
fn remove(name: &str, directory: &Path) {
    // The other ends go with theirs; what is not there need not go.
    for end in ends(name) {
        let _ = ip(&format!("link del {end}"));
    }
    let _ = ip(&format!("netns del {name}"));
    let _ = std::fs::remove_dir_all(directory);
}

fn ends(name: &str) -> [String; 2] {
    ["a", "b"].map(|end| format!("{name}{end}"))
}

fn ip(line: &str) -> Result<(), String> {
    let mut command = Command::new("ip");
    command.args(line.split_whitespace());
    run(command, &format!("ip {line}"))
}

fn run(mut command: Command, what: &str) -> Result<(), String> {
    let output = command.output().map_err(|cause| format!("`{what}`: {cause}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("`{what}`: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// A station's address, as it is written.
fn station(text: &str) -> Option<[u8; 6]> {
    let parts: Option<Vec<u8>> =
        text.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    parts?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations_are_read() {
        assert_eq!(station("02:00:00:00:00:ff"), Some([2, 0, 0, 0, 0, 255]));
        assert_eq!(station("02:00:00"), None);
        assert_eq!(station(""), None);
    }

    #[test]
    fn what_fails_is_told_with_its_line() {
        assert!(ip("link show no-such-one").is_err_and(|why| why.starts_with("`ip link show")));
    }
}

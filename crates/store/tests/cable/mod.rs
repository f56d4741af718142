//! A server behind a cable that is cut and joined again. The server is in a network namespace of its own; while the
//! cable is cut every packet is dropped, both ways, and neither end is told.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// What drops packets in the server's namespace, where the cable is `e`.
const DROPS: &str = "table ip cut { \
                     chain come { type filter hook input priority 0; iifname e drop; }; \
                     chain go { type filter hook output priority 0; oifname e drop; }; }";

/// Dropped, it is gone with the namespace, when the server is too.
pub struct Cable {
    name: String,
    far: Ipv4Addr,
}

impl Cable {
    /// `None`, with the reason printed: there is no cable to be had.
    pub fn lay() -> Option<Self> {
        static LAID: AtomicU32 = AtomicU32::new(0);
        for tool in ["ip", "nft"] {
            if Command::new(tool).arg("-V").output().is_err() {
                return skipped(&format!("there is no `{tool}` (.ci/install tests)"));
            }
        }
        let laid = LAID.fetch_add(1, Ordering::Relaxed);
        let name = format!("ab{}-{laid}", std::process::id());
        if !does("ip", &["netns", "add", &name]) {
            return skipped("no network namespaces may be made here (that takes CAP_SYS_ADMIN)");
        }
        // Four addresses of those that tests of networks have (RFC 2544), which nobody else should use.
        let first = u32::from(Ipv4Addr::new(198, 18, 0, 0))
            + (std::process::id() * 4 + laid) % (1 << 15) * 4;
        let cable = Self { name, far: Ipv4Addr::from(first + 2) };
        let (name, near) = (&cable.name, Ipv4Addr::from(first + 1));
        for line in [
            format!("link add {name} type veth peer name e netns {name}"),
            format!("addr add {near}/30 dev {name}"),
            format!("link set {name} up"),
            format!("-n {name} addr add {}/30 dev e", cable.far),
            format!("-n {name} link set e up"),
            format!("-n {name} link set lo up"),
        ] {
            assert!(does("ip", &line.split(' ').collect::<Vec<_>>()), "ip {line}");
        }
        cable.cut();
        cable.join();
        Some(cable)
    }

    /// The server's address.
    pub fn host(&self) -> String {
        self.far.to_string()
    }

    /// A program at the far end.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    pub fn cut(&self) {
        self.filter(DROPS);
    }

    pub fn join(&self) {
        self.filter("delete table ip cut");
    }

    fn filter(&self, rules: &str) {
        let changed = self.command("nft").arg(rules).output().unwrap();
        assert!(changed.status.success(), "nft: {}", String::from_utf8_lossy(&changed.stderr));
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // The end here too, which the namespace would keep until its last process is gone.
        does("ip", &["link", "del", &self.name]);
        does("ip", &["netns", "del", &self.name]);
    }
}

#[allow(clippy::explicit_write)] // what a test prints otherwise is shown only where it fails
fn skipped(why: &str) -> Option<Cable> {
    writeln!(std::io::stderr(), "skipped: a network that is cut: {why}").unwrap();
    None
}

fn does(program: &str, words: &[&str]) -> bool {
    Command::new(program).args(words).output().is_ok_and(|done| done.status.success())
}

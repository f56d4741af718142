//! A server behind a cable that is cut and joined again, or several, each behind its own, that a bridge joins. A server
//! is in a network namespace of its own; while its cable is cut every packet is dropped, both ways, or every packet to
//! and from some of the others, and neither end is told.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Dropped, it is gone with the namespace, when the server is too.
pub struct Cable {
    name: String,
    far: Ipv4Addr,
    /// What joins it with others.
    _bridge: Option<Arc<Bridge>>,
}

/// Where cables meet, on this side; it ends with the last of them.
struct Bridge(String);

impl Cable {
    /// `None`, with the reason printed: there is no cable to be had.
    pub fn lay() -> Option<Self> {
        let first = Self::addresses(4)?;
        let cable = Self::with(first + 2, None)?;
        let (name, near) = (&cable.name, Ipv4Addr::from(first + 1));
        ip(&format!("addr add {near}/30 dev {name}"));
        ip(&format!("-n {name} addr add {}/30 dev e", cable.far));
        cable.cut();
        cable.join();
        Some(cable)
    }

    /// So many that meet at a bridge, up to five: each server reaches the others, and is reached from here.
    #[allow(dead_code)] // not each driver has servers that talk to each other
    pub fn star(servers: u32) -> Option<Vec<Self>> {
        let first = Self::addresses(8)?;
        let bridge = Arc::new(Bridge(unused_name()));
        if !does("ip", &["link", "add", &bridge.0, "type", "bridge"]) {
            return skipped("no bridge may be made here (that takes CAP_NET_ADMIN)");
        }
        ip(&format!("addr add {}/29 dev {}", Ipv4Addr::from(first + 1), bridge.0));
        ip(&format!("link set {} up", bridge.0));
        let cables = (2..2 + servers).map(|number| {
            let cable = Self::with(first + number, Some(&bridge))?;
            ip(&format!("link set {} master {}", cable.name, bridge.0));
            ip(&format!("-n {} addr add {}/29 dev e", cable.name, cable.far));
            Some(cable)
        });
        cables.collect()
    }

    /// The first of so many addresses of those that tests of networks have (RFC 2544), which nobody else should use.
    fn addresses(so_many: u32) -> Option<u32> {
        for tool in ["ip", "nft"] {
            if Command::new(tool).arg("-V").output().is_err() {
                return skipped(&format!("there is no `{tool}` (.ci/install tests)"));
            }
        }
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let taken = TAKEN.fetch_add(1, Ordering::Relaxed);
        let at = (std::process::id() * 4 + taken) % (1 << 14) * 8;
        Some(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + at.next_multiple_of(so_many))
    }

    /// A namespace with one end, `e`; the other one, here, has the name of it.
    fn with(far: u32, bridge: Option<&Arc<Bridge>>) -> Option<Self> {
        let name = unused_name();
        if !does("ip", &["netns", "add", &name]) {
            return skipped("no network namespaces may be made here (that takes CAP_SYS_ADMIN)");
        }
        let cable = Self { name, far: Ipv4Addr::from(far), _bridge: bridge.cloned() };
        let name = &cable.name;
        ip(&format!("link add {name} type veth peer name e netns {name}"));
        ip(&format!("link set {name} up"));
        ip(&format!("-n {name} link set e up"));
        ip(&format!("-n {name} link set lo up"));
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
        self.drops("iifname e", "oifname e");
    }

    /// Cuts it for the others alone: from here the server is reached as before.
    #[allow(dead_code)] // as above
    pub fn cut_from(&self, others: &[&Self]) {
        let hosts: Vec<String> = others.iter().map(|other| other.host()).collect();
        let hosts = hosts.join(", ");
        self.drops(&format!("ip saddr {{ {hosts} }}"), &format!("ip daddr {{ {hosts} }}"));
    }

    /// Drops what comes so, and what goes so.
    fn drops(&self, come: &str, go: &str) {
        self.filter(&format!(
            "table ip cut {{ \
             chain come {{ type filter hook input priority 0; {come} drop; }}; \
             chain go {{ type filter hook output priority 0; {go} drop; }}; }}"
        ));
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

impl Drop for Bridge {
    fn drop(&mut self) {
        does("ip", &["link", "del", &self.0]);
    }
}

/// Of a namespace or a link.
fn unused_name() -> String {
    static NAMED: AtomicU32 = AtomicU32::new(0);
    format!("ab{}-{}", std::process::id(), NAMED.fetch_add(1, Ordering::Relaxed))
}

fn ip(line: &str) {
    assert!(does("ip", &line.split(' ').collect::<Vec<_>>()), "ip {line}");
}

#[allow(clippy::explicit_write)] // what a test prints otherwise is shown only where it fails
fn skipped<T>(why: &str) -> Option<T> {
    writeln!(std::io::stderr(), "skipped: a network that is cut: {why}").unwrap();
    None
}

fn does(program: &str, words: &[&str]) -> bool {
    Command::new(program).args(words).output().is_ok_and(|done| done.status.success())
}

//! Each interface: link, driver, queues, spreading, offloads, addresses.

use anabranch_io::live::{Driver, Interface};

use super::State::{Good, Note, Wrong};
use super::{Files, Finding};
use crate::arguments::cores;
use crate::error::Error;

/// Hardware type of Ethernet (RFC 826).
const ETHERNET: u32 = 1;
/// Largest MTU whose packets an `xdp` port receives in one piece in the driver, and behind it.
const XDP_MTU: u32 = 3_500;
const XDP_MTU_BEHIND: u32 = 3_826;
/// Flag of an interface that is up.
const UP: u32 = 1;
/// `TCP_V4_FLOW` and `UDP_V4_FLOW`, and the bits of the four fields (linux/ethtool.h).
const KINDS: [(&str, u32); 2] = [("TCP", 1), ("UDP", 2)];
const FIELDS: [(&str, u64); 4] = [
    ("source", 1 << 4),
    ("destination", 1 << 5),
    ("source port", 1 << 6),
    ("destination port", 1 << 7),
];

/// What there is to say of the interfaces of these names; of every Ethernet interface if there are none.
///
/// # Errors
/// [`Error::Input`]: there is no such interface.
pub(super) fn examine(files: &Files, names: &[String]) -> Result<Vec<Finding>, Error> {
    let there_are = files.list("sys/class/net");
    if let Some(name) = names.iter().find(|name| !there_are.contains(name)) {
        let list = there_are.join(", ");
        return Err(Error::Input(format!("{name}: there is no such interface; there are: {list}")));
    }
    let is_ethernet = |name: &&String| files.number(&class(name, "type")) == Some(ETHERNET);
    let all = || there_are.iter().filter(is_ethernet).cloned().collect();
    let chosen: Vec<String> = if names.is_empty() { all() } else { names.to_vec() };
    Ok(chosen.iter().flat_map(|name| interface(files, name)).collect())
}

fn class(name: &str, file: &str) -> String {
    format!("sys/class/net/{name}/{file}")
}

fn interface(files: &Files, name: &str) -> Vec<Finding> {
    if files.number(&class(name, "type")) != Some(ETHERNET) {
        return vec![Finding::new(name, Wrong, "not an Ethernet interface")];
    }
    let driver = Interface::named(name).ok();
    let each = [
        Some(link(files, name, driver.as_ref())),
        driver.as_ref().map(|driver| queues(name, driver)),
        driver.map(|driver| spreading(name, driver)),
        offloads(name),
        mtu(files, name),
        addresses(name),
        addresses_of_ipv6(files, name),
        master(files, name),
        node(files, name),
    ];
    each.into_iter().flatten().collect()
}

fn link(files: &Files, name: &str, driver: Option<&Interface>) -> Finding {
    let flags = files.read(&class(name, "flags")).unwrap_or_default();
    let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(0);
    if flags & UP == 0 {
        return Finding::new(name, Wrong, "it is down").run(format!("ip link set {name} up"));
    }
    let driver_name = driver.and_then(|driver| driver.driver().ok());
    let driver_name = driver_name.unwrap_or_else(|| "unknown".to_owned());
    if driver.is_some_and(|driver| driver.has_link().is_ok_and(|link| !link)) {
        return Finding::new(name, Wrong, format!("no link (driver {driver_name})"));
    }
    Finding::new(name, Good, format!("up, driver {driver_name}"))
}

fn queues(name: &str, driver: &Interface) -> Finding {
    let Ok(channels) = driver.channels() else {
        let says = "its driver does not tell its queues: `xdp` takes those it finds";
        return Finding::new(name, Note, says);
    };
    let (receive, most, cores) = (channels.receive, channels.most, cores() as u32);
    let says = format!("receive queues: {receive} of at most {most}, for {cores} cores");
    match cores.min(most) {
        could if receive < could => {
            Finding::new(name, Note, says).run(channels.command(name, could as usize))
        }
        _ if receive < cores => Finding::new(name, Note, says + ": other workers hand over"),
        _ => Finding::new(name, Good, says),
    }
}

fn spreading(name: &str, mut driver: Interface) -> Finding {
    let spreading = match driver.spreading() {
        Ok(spreading) if !spreading.table.is_empty() && !spreading.key.is_empty() => spreading,
        _ => {
            let says =
                "its driver takes no key or table: workers hash, and hand over what others own";
            return Finding::new(name, Note, says);
        }
    };
    let by = KINDS.iter().filter_map(|(kind, number)| {
        let fields = driver.fields(*number).ok()?;
        let named = FIELDS.iter().filter(|(_, bit)| fields & bit != 0).map(|(name, _)| *name);
        Some(format!("{kind} by {}", named.collect::<Vec<_>>().join(", ")))
    });
    let by: Vec<String> = by.collect();
    let says = format!(
        "spreads by a key of {} bytes over a table of {}; {}",
        spreading.key.len(),
        spreading.table.len(),
        by.join("; ")
    );
    Finding::new(name, Good, says)
}

fn offloads(name: &str) -> Option<Finding> {
    let merges = Interface::named(name).and_then(|driver| driver.merges()).ok()?;
    merges.then(|| {
        let says = "merges what it receives (GRO): `xdp` behind the driver misses such packets";
        Finding::new(name, Note, says).run(format!("ethtool -K {name} gro off lro off"))
    })
}

fn mtu(files: &Files, name: &str) -> Option<Finding> {
    let mtu: u32 = files.number(&class(name, "mtu"))?;
    (mtu > XDP_MTU).then(|| {
        let says = format!(
            "packets of up to {mtu} bytes: `xdp` takes {XDP_MTU} at most in the driver, {XDP_MTU_BEHIND} behind it"
        );
        Finding::new(name, Note, says).run(format!("ip link set {name} mtu 1500"))
    })
}

fn addresses(name: &str) -> Option<Finding> {
    let address = anabranch_io::live::address(name)?;
    let says = format!(
        "has the address {address}, as an interface that is a function's alone has not: behind `afpacket` \
         the kernel answers as well, behind `xdp` nobody does"
    );
    Some(Finding::new(name, Note, says).run(format!("ip addr flush dev {name}")))
}

/// The link-local address, which it has of itself, among them: the kernel solicits and answers from it.
fn addresses_of_ipv6(files: &Files, name: &str) -> Option<Finding> {
    let all = files.read("proc/net/if_inet6")?;
    all.lines().find(|line| line.split_whitespace().next_back() == Some(name))?;
    let says = "has an IPv6 address, as an interface that is a function's alone has not: the kernel speaks from it";
    Some(
        Finding::new(name, Note, says)
            .run(format!("sysctl -w net.ipv6.conf.{name}.disable_ipv6=1")),
    )
}

/// What the kernel hands its packets to besides: a bridge, a bond.
fn master(files: &Files, name: &str) -> Option<Finding> {
    let told = files.read(&class(name, "master/uevent"))?;
    let master = told.lines().find_map(|line| line.strip_prefix("INTERFACE=")).unwrap_or("another");
    let says = format!(
        "is a port of {master}: the kernel forwards behind `afpacket` what a function does too"
    );
    Some(Finding::new(name, Note, says).run(format!("ip link set {name} nomaster")))
}

/// Where the NIC is, on machines with several sockets.
fn node(files: &Files, name: &str) -> Option<Finding> {
    let node: u32 = files.number(&class(name, "device/numa_node"))?;
    if files.read("sys/devices/system/node/online").is_none_or(|online| online == "0") {
        return None;
    }
    let local = files.read(&format!("sys/devices/system/node/node{node}/cpulist"))?;
    let says = format!("on node {node}, with the cores {local}: workers on others reach it slowly");
    Some(Finding::new(name, Note, says).run(format!("taskset -c {local} anabranch run …")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;
    use super::*;

    #[test]
    fn what_is_not_ready_is_told_with_what_mends_it() {
        let (_directory, files) = machine(&[
            ("sys/class/net/down9/type", "1\n"),
            ("sys/class/net/down9/flags", "0x1002\n"),
            ("sys/class/net/down9/mtu", "9000\n"),
            ("sys/class/net/down9/device/numa_node", "1\n"),
            ("sys/devices/system/node/online", "0-1\n"),
            ("sys/devices/system/node/node1/cpulist", "8-15\n"),
            ("sys/class/net/down9/master/uevent", "DEVTYPE=bridge\nINTERFACE=br9\nIFINDEX=7\n"),
            ("proc/net/if_inet6", "fe80000000000000000000fffe000001 05 40 20 80    down9\n"),
            ("sys/class/net/wg9/type", "65534\n"),
        ]);
        // Of its own accord only Ethernet.
        let findings = examine(&files, &[]).unwrap();
        assert!(findings.iter().all(|one| one.about == "down9"));
        let lines: Vec<&str> =
            findings.iter().flat_map(|one| &one.run).map(String::as_str).collect();
        assert_eq!(
            lines,
            [
                "ip link set down9 up",
                "ip link set down9 mtu 1500",
                "sysctl -w net.ipv6.conf.down9.disable_ipv6=1",
                "ip link set down9 nomaster",
                "taskset -c 8-15 anabranch run …"
            ]
        );
        let other = examine(&files, &["wg9".to_owned()]).unwrap();
        assert!(other.len() == 1 && other[0].state == Wrong, "{other:?}");
    }
}

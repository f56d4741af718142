//! A port's key and fields as `ethtool`, DPDK and VPP take them, and what they cannot be told.

use std::fmt::Write;

use anabranch_rss::{Class, ClassSolution, Field, HashInput, Hashing, Nic, PortSolution};

use super::document::hex;
use crate::table::wrap;

/// Bytes of a C array on one line.
const BYTES_A_LINE: usize = 12;

/// What of a header is hashed: none, one end or both, of addresses and of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    None,
    Src,
    Dst,
    Both,
}

/// How to set port `number`.
pub(super) fn configuration(number: usize, port: &PortSolution) -> String {
    if port.nic.is_software() {
        let hint = "computed by workers: there is nothing to set in a NIC";
        return format!("\n  key {}\n  ({hint})\n\n", port.key);
    }
    let text = ["\n".to_owned(), ethtool(port), dpdk(number, port), vpp(port)].concat();
    text + "\n"
}

/// The classes that a need is about.
fn constrained(port: &PortSolution) -> impl Iterator<Item = &ClassSolution> {
    port.classes.iter().filter(|class| class.constrained && !class.input.fields().is_empty())
}

fn ethtool(port: &PortSolution) -> String {
    let mut text = format!("  ethtool -X DEV hkey {}\n", port.key);
    let (mut without, mut refused) = (Vec::new(), Vec::new());
    for class in constrained(port) {
        match flow_type(class.class) {
            Some(flow) if port.nic.can_be_told(class.class, &class.input) => {
                let fields = letters(class);
                let _ = writeln!(text, "  ethtool -N DEV rx-flow-hash {flow} {fields}");
            }
            Some(_) => refused.push(class),
            None => without.push(class),
        }
    }
    for (classes, why) in [
        (without, "ethtool -N has no word for some classes"),
        (refused, "Linux's driver does not take this of ethtool -N for some classes"),
    ] {
        let chosen = classes.into_iter().filter(|class| has_choice(port.nic, class.class));
        let needed = needed(chosen);
        if !needed.is_empty() {
            text += &remark(&format!("{why}, to be hashed by: {needed}"));
        }
    }
    text
}

/// A comment of a shell and of VPP.
fn remark(line: &str) -> String {
    wrap("  # ", line, 4).replace("\n    ", "\n  #   ")
}

/// Whether the NIC can hash packets of `class` in several ways.
fn has_choice(nic: &Nic, class: Class) -> bool {
    match nic.hashing(class) {
        Hashing::AnyOf(fields) => fields.len() > 1,
        Hashing::OneOf(lists) => lists.len() > 1,
        Hashing::QueueZero | Hashing::Undocumented => false,
    }
}

/// `ipv4-fragment ipv4 (ipv4.dst), ipv6 (ipv6.dst)`.
fn needed<'a>(classes: impl Iterator<Item = &'a ClassSolution>) -> String {
    let groups = grouped(classes.map(|class| (class.input.clone(), class.class.name())));
    let words =
        |(input, classes): (HashInput, Vec<&str>)| format!("{} ({input})", classes.join(" "));
    groups.into_iter().map(words).collect::<Vec<_>>().join(", ")
}

/// What belongs to equal keys, in the order in which these come first.
fn grouped<K: PartialEq, V>(all: impl Iterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in all {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

fn dpdk(number: usize, port: &PortSolution) -> String {
    let mut text = "\n  /* DPDK: rte_eth_rss_conf.rss_key */\n".to_owned();
    let bytes = port.key.as_bytes();
    let _ = writeln!(text, "  static uint8_t rss_key_{number}[{}] = {{", bytes.len());
    for line in bytes.chunks(BYTES_A_LINE) {
        let bytes: Vec<String> = line.iter().map(|byte| format!("0x{byte:02x},")).collect();
        let _ = writeln!(text, "      {}", bytes.join(" "));
    }
    text += "  };\n";
    let all = constrained(port).map(|class| (types(port.nic, class), class));
    let (told, not): (Vec<_>, Vec<_>) = all.partition(|(types, _)| types.is_some());
    let told = told.into_iter().filter_map(|(types, class)| Some((types?, class)));
    let ways = grouped(told.map(|((word, ends), class)| (ends, (word, class.class.name()))));
    text += &match &ways[..] {
        [] => String::new(),
        [(ends, classes)] => {
            let place = match is_for_all_drivers(port.nic, *ends, classes) {
                true => "rte_eth_rss_conf.rss_hf */",
                false => {
                    "rte_eth_rss_conf.rss_hf or, where the driver does not take that there (ice), the types \
                     of a flow rule with the action RSS for packets of each class */"
                }
            };
            wrap("  /* ", place, 5) + &mask(&format!("rss_hf_{number}"), *ends, classes)
        }
        several => {
            let mut text = wrap(
                "  /* ",
                "rss_hf has one selection of fields for all classes, and there are several here: a flow rule \
                 with the action RSS (rte_flow_action_rss.types) for packets of each */",
                5,
            );
            for (at, (ends, classes)) in several.iter().enumerate() {
                text += &mask(&format!("rss_types_{number}_{at}"), *ends, classes);
            }
            text
        }
    };
    if !not.is_empty() {
        let needed = needed(not.into_iter().map(|(_, class)| class));
        text += &wrap("  /* ", &format!("no types of DPDK say: {needed} */"), 5);
    }
    text
}

/// Whether every driver of `nic` hashes so by `rss_hf` alone. The E810's takes no part of a selection there,
/// and IPv4 for what is neither TCP, UDP nor SCTP.
fn is_for_all_drivers(nic: &Nic, ends: (Ends, Ends), classes: &[(String, &str)]) -> bool {
    let with_ports = classes.iter().any(|(word, class)| {
        !word.contains("NONFRAG")
            && !matches!(*class, "ipv4" | "ipv6" | "ipv4-fragment" | "ipv6-fragment")
    });
    let is_cut = [ends.0, ends.1].iter().any(|ends| matches!(ends, Ends::Src | Ends::Dst));
    !(is_cut || with_ports && nic.name == "e810")
}

/// A mask of types, with the classes that it is of.
fn mask(name: &str, (addresses, ports): (Ends, Ends), classes: &[(String, &str)]) -> String {
    let names: Vec<&str> = classes.iter().map(|(_, name)| *name).collect();
    let mut words: Vec<&str> = Vec::new();
    for (word, _) in classes {
        if !words.contains(&word.as_str()) {
            words.push(word);
        }
    }
    words.extend(match addresses {
        Ends::Src => Some("RTE_ETH_RSS_L3_SRC_ONLY"),
        Ends::Dst => Some("RTE_ETH_RSS_L3_DST_ONLY"),
        _ => None,
    });
    words.extend(match ports {
        Ends::Src => Some("RTE_ETH_RSS_L4_SRC_ONLY"),
        Ends::Dst => Some("RTE_ETH_RSS_L4_DST_ONLY"),
        _ => None,
    });
    let head = format!("  static const uint64_t {name} = /* {} */\n", names.join(" "));
    head + &wrap("      ", &format!("{};", words.join(" | ")), 6)
}

/// The type of DPDK, and which ends it is to be cut down to; `None` where no types say that, or where
/// drivers differ in what they take them for.
fn types(nic: &Nic, class: &ClassSolution) -> Option<(String, (Ends, Ends))> {
    let (family, transport) = match class.class {
        Class::Ipv4Tcp => ("IPV4", "TCP"),
        Class::Ipv4Udp => ("IPV4", "UDP"),
        Class::Ipv4Sctp => ("IPV4", "SCTP"),
        Class::Ipv6Tcp => ("IPV6", "TCP"),
        Class::Ipv6Udp => ("IPV6", "UDP"),
        Class::Ipv6Sctp => ("IPV6", "SCTP"),
        Class::Ipv4 => ("IPV4", ""),
        Class::Ipv6 => ("IPV6", ""),
        Class::Ipv4Fragment => ("IPV4", "FRAG"),
        Class::Ipv6Fragment => ("IPV6", "FRAG"),
        Class::NonIp => return None,
    };
    let addresses = ends(class, [Field::Ipv4Src, Field::Ipv6Src], [Field::Ipv4Dst, Field::Ipv6Dst]);
    let ports = ends(
        class,
        [Field::TcpSrc, Field::UdpSrc, Field::SctpSrc],
        [Field::TcpDst, Field::UdpDst, Field::SctpDst],
    );
    let of_transport = || format!("RTE_ETH_RSS_NONFRAG_{family}_{transport}");
    match (addresses, ports) {
        (Ends::None, Ends::None) => None,
        (_, Ends::None) if transport == "FRAG" => Some(format!("RTE_ETH_RSS_FRAG_{family}")),
        (_, Ends::None) => Some(format!("RTE_ETH_RSS_{family}")),
        (Ends::Both, Ends::Both) => Some(of_transport()),
        (Ends::Src | Ends::Dst, Ends::Src | Ends::Dst) => Some(of_transport()),
        // Where only ports are asked for, drivers of ConnectX hash both addresses, too.
        (Ends::None, Ends::Src | Ends::Dst) if nic.name == "e810" => Some(of_transport()),
        _ => None,
    }
    .map(|word| (word, (addresses, ports)))
}

fn ends<const N: usize>(class: &ClassSolution, src: [Field; N], dst: [Field; N]) -> Ends {
    let has = |fields: [Field; N]| class.input.fields().iter().any(|field| fields.contains(field));
    match (has(src), has(dst)) {
        (false, false) => Ends::None,
        (true, false) => Ends::Src,
        (false, true) => Ends::Dst,
        (true, true) => Ends::Both,
    }
}

fn vpp(port: &PortSolution) -> String {
    let mut text = format!(
        "\n  # VPP: startup.conf\n  devices {{ dev DEV {{ port 0 {{ rss-key {} }} }} }}\n",
        hex(&port.key)
    );
    let cut = |class: &&ClassSolution| class.input != port.nic.richest(class.class);
    let needed = needed(constrained(port).filter(cut));
    if !needed.is_empty() {
        let line = format!("what is hashed cannot be chosen there, and has to be: {needed}");
        text += &remark(&line);
    }
    text
}

/// What `ethtool` calls packets of `class`, where it has a word for them.
fn flow_type(class: Class) -> Option<&'static str> {
    Some(match class {
        Class::Ipv4Tcp => "tcp4",
        Class::Ipv4Udp => "udp4",
        Class::Ipv4Sctp => "sctp4",
        Class::Ipv6Tcp => "tcp6",
        Class::Ipv6Udp => "udp6",
        Class::Ipv6Sctp => "sctp6",
        _ => return None,
    })
}

/// The fields as letters of `ethtool -N … rx-flow-hash`.
fn letters(class: &ClassSolution) -> String {
    let letter = |field: &Field| match field {
        Field::Ipv4Src | Field::Ipv6Src => "s",
        Field::Ipv4Dst | Field::Ipv6Dst => "d",
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => "f",
        Field::TcpDst | Field::UdpDst | Field::SctpDst => "n",
        Field::EthernetDst => "m",
        _ => "",
    };
    class.input.fields().iter().map(letter).collect()
}

//! The models.

use super::Hashing::{AnyOf, OneOf, QueueZero, Undocumented};
use super::{HashInput, Hashing, KeyOrder, Nic, Parsing};
use crate::class::Class;
use crate::field::Field::{self, *};

const TCP4: &[Field] = &[Ipv4Src, Ipv4Dst, TcpSrc, TcpDst];
const UDP4: &[Field] = &[Ipv4Src, Ipv4Dst, UdpSrc, UdpDst];
const SCTP4: &[Field] = &[Ipv4Src, Ipv4Dst, SctpSrc, SctpDst];
const SCTP4_TAG: &[Field] = &[Ipv4Src, Ipv4Dst, SctpSrc, SctpDst, SctpTag];
const IP4: &[Field] = &[Ipv4Src, Ipv4Dst];
const TCP6: &[Field] = &[Ipv6Src, Ipv6Dst, TcpSrc, TcpDst];
const UDP6: &[Field] = &[Ipv6Src, Ipv6Dst, UdpSrc, UdpDst];
const SCTP6: &[Field] = &[Ipv6Src, Ipv6Dst, SctpSrc, SctpDst];
const SCTP6_TAG: &[Field] = &[Ipv6Src, Ipv6Dst, SctpSrc, SctpDst, SctpTag];
const IP6: &[Field] = &[Ipv6Src, Ipv6Dst];

/// Microsoft's hash types: ports where the type with ports is enabled, else addresses.
fn hash_types(class: Class) -> Hashing {
    match class {
        Class::Ipv4Tcp => OneOf(&[TCP4, IP4]),
        Class::Ipv4Udp => OneOf(&[UDP4, IP4]),
        Class::Ipv4 | Class::Ipv4Fragment | Class::Ipv4Sctp => OneOf(&[IP4]),
        Class::Ipv6Tcp => OneOf(&[TCP6, IP6]),
        Class::Ipv6Udp => OneOf(&[UDP6, IP6]),
        Class::Ipv6 | Class::Ipv6Fragment | Class::Ipv6Sctp => OneOf(&[IP6]),
        Class::NonIp => QueueZero,
    }
}

fn x710(class: Class) -> Hashing {
    match class {
        Class::Ipv4Tcp => OneOf(&[TCP4]),
        Class::Ipv4Udp => OneOf(&[UDP4]),
        Class::Ipv4Sctp => OneOf(&[SCTP4_TAG]),
        Class::Ipv6Tcp => OneOf(&[TCP6]),
        Class::Ipv6Udp => OneOf(&[UDP6]),
        Class::Ipv6Sctp => OneOf(&[SCTP6_TAG]),
        other => hash_types(other),
    }
}

fn selectable(class: Class) -> Hashing {
    match class {
        Class::Ipv4Tcp => AnyOf(TCP4),
        Class::Ipv4Udp => AnyOf(UDP4),
        Class::Ipv4Sctp => AnyOf(SCTP4),
        Class::Ipv4 | Class::Ipv4Fragment => AnyOf(IP4),
        Class::Ipv6Tcp => AnyOf(TCP6),
        Class::Ipv6Udp => AnyOf(UDP6),
        Class::Ipv6Sctp => AnyOf(SCTP6),
        Class::Ipv6 | Class::Ipv6Fragment => AnyOf(IP6),
        Class::NonIp => QueueZero,
    }
}

fn ena(class: Class) -> Hashing {
    match class {
        Class::Ipv4Tcp => OneOf(&[TCP4]),
        Class::Ipv4Udp => OneOf(&[UDP4]),
        Class::Ipv6Tcp => OneOf(&[TCP6]),
        Class::Ipv6Udp => OneOf(&[UDP6]),
        Class::NonIp => Undocumented,
        other => hash_types(other),
    }
}

fn software(class: Class) -> Hashing {
    AnyOf(class.fields())
}

/// ixgbe_set_rss_hash_opt: TCP by addresses and ports only, UDP with and without ports.
fn told_82599(class: Class, input: &HashInput) -> bool {
    let is_tcp = matches!(class, Class::Ipv4Tcp | Class::Ipv6Tcp);
    !is_tcp || input.fields().len() == TCP4.len()
}

/// i40e_set_rss_hash_opt: of SCTP no ports.
fn told_x710(class: Class, input: &HashInput) -> bool {
    let is_sctp = matches!(class, Class::Ipv4Sctp | Class::Ipv6Sctp);
    !(is_sctp && input.fields().contains(&SctpSrc))
}

fn told_all(_: Class, _: &HashInput) -> bool {
    true
}

fn told_nothing(_: Class, _: &HashInput) -> bool {
    false
}

const PLAIN: Parsing =
    Parsing { vlan_tags: 1, ipv6_extensions: false, fragments: false, sctp: false };
const DEEP: Parsing = Parsing { vlan_tags: 2, ipv6_extensions: true, fragments: true, sctp: true };

const INTEL_82599: Nic = Nic {
    name: "82599",
    title: "Intel 82599",
    key_len: 40,
    key_order: KeyOrder::Natural,
    table_sizes: &[128],
    source: "Intel 82599 10 GbE Controller Datasheet, section 7.1.2.8 (receive-side scaling); Linux driver ixgbe (ixgbe_set_rss_hash_opt)",
    remarks: "UDP is hashed by addresses alone unless `ethtool -N DEV rx-flow-hash udp4 sdfn` is set; an entry names one of 16 queues",
    table_is_of_device: false,
    parsing: PLAIN,
    hashing: hash_types,
    told: told_82599,
};

const X710: Nic = Nic {
    name: "x710",
    title: "Intel X710, XL710, XXV710",
    key_len: 52,
    key_order: KeyOrder::Natural,
    table_sizes: &[64, 512],
    source: "Intel Ethernet Controller X710/XXV710/XL710 Datasheet, section 7.1.8 (hash filter); Linux and DPDK drivers i40e (i40e_set_rss_hash_opt)",
    remarks: "other selections of fields (GLQF_HASH_INSET) hold for all ports of the adapter and are not modelled; virtual functions have a table of 64 entries",
    table_is_of_device: false,
    parsing: Parsing { ipv6_extensions: true, fragments: true, sctp: true, ..PLAIN },
    hashing: x710,
    told: told_x710,
};

const E810: Nic = Nic {
    name: "e810",
    title: "Intel E810",
    key_len: 52,
    key_order: KeyOrder::Natural,
    table_sizes: &[64, 128, 512, 2048],
    source: "Intel Ethernet Controller E810 Datasheet, receive-side scaling; Linux and DPDK drivers ice (ice_set_rss_hash_opt)",
    remarks: "fields are selected with `ethtool -N DEV rx-flow-hash` or DPDK's L3_SRC_ONLY and its like; virtual functions have a table of 64 entries",
    table_is_of_device: false,
    parsing: DEEP,
    hashing: selectable,
    told: told_all,
};

const fn connectx(name: &'static str, title: &'static str) -> Nic {
    Nic {
        name,
        title,
        key_len: 40,
        key_order: KeyOrder::Natural,
        table_sizes: &[128, 256, 512],
        source: "NVIDIA Adapters Programmer's Reference Manual, TIR context (rx_hash_field_select); Linux and DPDK drivers mlx5 (mlx5e_set_rss_hash_opt)",
        remarks: "any of the fields per traffic type, each in a TIR of its own",
        table_is_of_device: false,
        parsing: Parsing { sctp: false, fragments: false, ..DEEP },
        hashing: selectable,
        told: told_all,
    }
}

const VIRTIO: Nic = Nic {
    name: "virtio",
    title: "virtio-net",
    key_len: 40,
    key_order: KeyOrder::Natural,
    table_sizes: &[128],
    source: "OASIS Virtual I/O Device (VIRTIO) 1.3, section 5.1.6.4.3 (hash calculation for incoming packets); Linux driver virtio_net (virtnet_set_hashflow)",
    remarks: "needs VIRTIO_NET_F_RSS; the device names the longest key and table it takes",
    table_is_of_device: true,
    parsing: PLAIN,
    hashing: hash_types,
    told: told_all,
};

const GVNIC: Nic = Nic {
    name: "gvnic",
    title: "Google gVNIC",
    key_len: 40,
    key_order: KeyOrder::Natural,
    table_sizes: &[128],
    source: "Linux and DPDK drivers gve (RSS configuration of the admin queue; gve_set_rxnfc)",
    remarks: "the device may name other sizes of key and table",
    table_is_of_device: true,
    parsing: PLAIN,
    hashing: hash_types,
    told: told_nothing,
};

const ENA: Nic = Nic {
    name: "ena",
    title: "Amazon ENA",
    key_len: 40,
    key_order: KeyOrder::ReversedByDriver,
    table_sizes: &[128],
    source: "Linux, FreeBSD and DPDK drivers ena (ena_com: default hash control, order of the key; ena_set_rss_hash)",
    remarks: "the fields are fixed; not every instance type lets the key be set, and until it is set some drivers hash with CRC32",
    table_is_of_device: false,
    parsing: PLAIN,
    hashing: ena,
    told: told_all,
};

const SOFTWARE: Nic = Nic {
    name: "software",
    title: "Software steering",
    key_len: 52,
    key_order: KeyOrder::Natural,
    table_sizes: &[128, 256, 512],
    source: "this crate",
    remarks: "computed by the worker that receives the packet; hashes every field, MAC addresses too",
    table_is_of_device: false,
    parsing: DEEP,
    hashing: software,
    told: told_nothing,
};

impl Nic {
    /// All models.
    pub const ALL: [&'static Nic; 10] = [
        &INTEL_82599,
        &X710,
        &E810,
        &connectx("cx5", "NVIDIA ConnectX-5"),
        &connectx("cx6", "NVIDIA ConnectX-6"),
        &connectx("cx7", "NVIDIA ConnectX-7"),
        &VIRTIO,
        &GVNIC,
        &ENA,
        &SOFTWARE,
    ];
}

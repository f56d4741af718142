//! Everything a module may name, beside its own items: one table for the checker, the macro and
//! the interpreter. What is not here is not in the language.

/// A method of a built-in type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its name.
    pub name: &'static str,
    /// How many arguments it takes beside `self`.
    pub arguments: usize,
    /// Whether it may change state that a later packet sees.
    pub writes: bool,
}

const fn reads(name: &'static str, arguments: usize) -> Operation {
    Operation { name, arguments, writes: false }
}

const fn writes(name: &'static str, arguments: usize) -> Operation {
    Operation { name, arguments, writes: true }
}

/// `Map<K, V>`.
pub const MAP: &[Operation] = &[
    reads("get", 1),
    reads("contains", 1),
    writes("insert", 2),
    writes("remove", 1),
    writes("update", 2),
    reads("len", 0),
];

/// `Vector<T>`.
pub const VECTOR: &[Operation] =
    &[reads("read", 1), writes("write", 2), writes("update", 2), reads("len", 0)];

/// `Allocator<T>`.
pub const ALLOCATOR: &[Operation] = &[
    writes("allocate", 3),
    writes("allocate_at", 4),
    writes("allocate_within", 7),
    writes("free", 1),
    writes("refresh", 3),
    writes("touch", 2),
    reads("is_allocated", 2),
    reads("get", 2),
    writes("set", 2),
    writes("update", 2),
    reads("len", 0),
];

/// `Distributed<T>`.
pub const DISTRIBUTED: &[Operation] = &[writes("update", 1), reads("read", 0)];

/// `Counter`.
pub const COUNTER: &[Operation] = &[writes("add", 1), reads("read", 0)];

/// `Cell<T>`.
pub const CELL: &[Operation] = &[reads("get", 0), writes("set", 1), writes("update", 1)];

/// `L3`: neighbours are learnt and packets wait for them, so what answers and what sends on writes.
pub const L3: &[Operation] = &[
    reads("enabled", 0),
    reads("admit", 2),
    reads("leads_nowhere", 1),
    writes("receive", 2),
    writes("forward", 2),
];

/// The operations of each type of state object.
pub const STATE_OBJECTS: &[(&str, &[Operation])] = &[
    ("Map", MAP),
    ("Vector", VECTOR),
    ("Allocator", ALLOCATOR),
    ("Distributed", DISTRIBUTED),
    ("Counter", COUNTER),
    ("Cell", CELL),
    ("L3", L3),
];

/// `Context`; what it writes is no state of the NF.
pub const CONTEXT: &[Operation] = &[
    reads("now", 0),
    reads("random", 0),
    reads("set_expiry", 1),
    reads("set_timer", 2),
    reads("emit", 2),
];

/// `Packet`.
pub const PACKET: &[Operation] = &[
    reads("port", 0),
    reads("len", 0),
    reads("protocol", 0),
    reads("is_fragment", 0),
    reads("is_first_fragment", 0),
    reads("src_port", 0),
    reads("dst_port", 0),
    reads("set_src_port", 1),
    reads("set_dst_port", 1),
    reads("set_source", 2),
    reads("set_destination", 2),
    reads("payload", 0),
];

/// A header field: its name, its type, and whether it can be set.
pub type Field = (&'static str, &'static str, bool);

/// The views of a packet: `pkt.NAME()` (an `Option` but for `ethernet`), `pkt.NAME_mut()`, and
/// the fields, in the order of `docs/nf-language.md`.
pub const VIEWS: &[(&str, &[Field])] = &[
    (
        "ethernet",
        &[("dst", "MacAddr", true), ("src", "MacAddr", true), ("ethertype", "u16", false)],
    ),
    ("vlan", &[("id", "u16", true), ("priority", "u8", true)]),
    (
        "arp",
        &[
            ("operation", "u16", false),
            ("sender_mac", "MacAddr", false),
            ("sender_ip", "Ipv4Addr", false),
            ("target_mac", "MacAddr", false),
            ("target_ip", "Ipv4Addr", false),
        ],
    ),
    (
        "ipv4",
        &[
            ("src", "Ipv4Addr", true),
            ("dst", "Ipv4Addr", true),
            ("protocol", "u8", false),
            ("ttl", "u8", true),
            ("dscp", "u8", true),
            ("ecn", "u8", true),
            ("total_len", "u16", false),
            ("identification", "u16", false),
            ("dont_fragment", "bool", false),
            ("more_fragments", "bool", false),
            ("fragment_offset", "u16", false),
            ("header_len", "u8", false),
        ],
    ),
    (
        "ipv6",
        &[
            ("src", "Ipv6Addr", true),
            ("dst", "Ipv6Addr", true),
            ("protocol", "u8", false),
            ("hop_limit", "u8", true),
            ("traffic_class", "u8", true),
            ("flow_label", "u32", false),
            ("payload_len", "u16", false),
        ],
    ),
    (
        "tcp",
        &[
            ("src", "u16", true),
            ("dst", "u16", true),
            ("sequence", "u32", true),
            ("acknowledgement", "u32", true),
            ("window", "u16", true),
            ("flags", "u8", false),
            ("syn", "bool", false),
            ("ack", "bool", false),
            ("fin", "bool", false),
            ("rst", "bool", false),
            ("psh", "bool", false),
            ("urg", "bool", false),
            ("header_len", "u8", false),
            ("mss", "u16", true),
        ],
    ),
    ("udp", &[("src", "u16", true), ("dst", "u16", true), ("length", "u16", false)]),
    ("icmpv4", ICMP),
    ("icmpv6", ICMP),
    (
        "embedded",
        &[
            ("src", "Ipv4Addr", true),
            ("dst", "Ipv4Addr", true),
            ("src6", "Ipv6Addr", true),
            ("dst6", "Ipv6Addr", true),
            ("protocol", "u8", false),
            ("src_port", "u16", true),
            ("dst_port", "u16", true),
            ("id", "u16", true),
        ],
    ),
];

const ICMP: &[Field] = &[
    ("kind", "u8", false),
    ("code", "u8", false),
    ("id", "u16", true),
    ("sequence", "u16", false),
    ("is_echo", "bool", false),
    ("is_error", "bool", false),
    ("mtu", "u32", false),
];

/// `Port`.
pub const PORT: &[Operation] = &[reads("index", 0), reads("other", 0)];

/// Slices, arrays and `List`.
pub const SLICE: &[Operation] = &[
    reads("len", 0),
    reads("first", 0),
    reads("get", 1),
    reads("starts_with", 1),
    reads("iter", 0),
];

/// `Option` and `Result`.
pub const OPTION: &[Operation] = &[
    reads("is_some", 0),
    reads("is_none", 0),
    reads("is_ok", 0),
    reads("is_err", 0),
    reads("map", 1),
    reads("and_then", 1),
    reads("unwrap_or", 1),
    reads("unwrap_or_default", 0),
    reads("ok_or", 1),
    reads("filter", 1),
    reads("map_or", 2),
    reads("is_some_and", 1),
    reads("ok", 0),
];

/// Integers.
pub const INTEGER: &[Operation] = &[
    reads("wrapping_add", 1),
    reads("wrapping_sub", 1),
    reads("wrapping_mul", 1),
    reads("saturating_add", 1),
    reads("saturating_sub", 1),
    reads("checked_add", 1),
    reads("checked_sub", 1),
    reads("min", 1),
    reads("max", 1),
    reads("pow", 1),
    reads("count_ones", 0),
    reads("leading_zeros", 0),
    reads("trailing_zeros", 0),
    reads("swap_bytes", 0),
    reads("rotate_left", 1),
    reads("rotate_right", 1),
    reads("to_be_bytes", 0),
    reads("abs_diff", 1),
    reads("is_power_of_two", 0),
    reads("clamp", 2),
];

/// Methods of integers that panic for some operands: the macro writes others in their place, whatever
/// they are called on, so that no method of a module has such a name.
pub const MADE_TOTAL: &[&str] = &["pow", "clamp"];

/// `Ipv4Addr`.
pub const IPV4_ADDR: &[Operation] = &[
    reads("octets", 0),
    reads("is_loopback", 0),
    reads("is_multicast", 0),
    reads("is_broadcast", 0),
    reads("is_private", 0),
    reads("is_unspecified", 0),
];

/// `Ipv6Addr`.
pub const IPV6_ADDR: &[Operation] =
    &[reads("octets", 0), reads("segments", 0), reads("is_multicast", 0)];

/// `MacAddr`.
pub const MAC_ADDR: &[Operation] =
    &[reads("octets", 0), reads("is_multicast", 0), reads("is_broadcast", 0)];

/// Every list of methods that is not of a state object or a view.
pub const METHODS: &[(&str, &[Operation])] = &[
    ("Context", CONTEXT),
    ("Packet", PACKET),
    ("Port", PORT),
    ("slice", SLICE),
    ("Option", OPTION),
    ("integer", INTEGER),
    ("Ipv4Addr", IPV4_ADDR),
    ("Ipv6Addr", IPV6_ADDR),
    ("MacAddr", MAC_ADDR),
];

/// Integer types.
pub const INTEGERS: &[&str] =
    &["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128"];

/// Types of the prelude that are plain values.
pub const VALUE_TYPES: &[&str] =
    &["bool", "Option", "Result", "Ipv4Addr", "Ipv6Addr", "MacAddr", "Port"];

/// Types of the prelude that stand only in signatures and local variables.
pub const SIGNATURE_TYPES: &[&str] = &["Packet", "Context", "Verdict", "Builtin", "List"];

/// Values and constructors of the prelude.
pub const VALUES: &[&str] =
    &["Some", "None", "Ok", "Err", "Forward", "Drop", "Flood", "Recirculate"];

/// Associated functions and constants of integers: `u32::from`, `u8::MAX`.
pub const INTEGER_ASSOCIATED: &[&str] = &["from", "from_be_bytes", "MAX", "MIN", "BITS"];

/// Associated functions of the other types of the prelude.
pub const ASSOCIATED: &[(&str, &[&str])] = &[
    ("Ipv4Addr", &["new", "from"]),
    ("Ipv6Addr", &["from"]),
    ("MacAddr", &["new"]),
    ("Port", &["new"]),
    ("Verdict", &["Forward", "Drop", "Flood", "Recirculate"]),
    ("Option", &["Some", "None"]),
    ("Result", &["Ok", "Err"]),
];

/// Bounds that a type parameter of a function may have; `Value` is implied.
pub const BOUNDS: &[&str] =
    &["Copy", "PartialEq", "Eq", "PartialOrd", "Ord", "Value", "Key", "Fn", "FnMut"];

/// The words of the reasons of `Builtin`, in its order: what `anabranch-nf` declares.
pub const BUILTIN_REASONS: &[&str] = &[
    "no-packet-set",
    "packet-sets-full",
    "recirculation-limit",
    "no-such-port",
    "answered",
    "ttl-expired",
    "no-route",
    "neighbour-unresolved",
    "packet-too-big",
    "not-for-this-interface",
    "not-forwardable",
    "unsupported-protocol",
    "ipv4-checksum",
    "fragmented",
    "transmit-full",
    "link-down",
    "mailbox-full",
    "oversized",
    "reassembled",
    "incomplete-datagram",
];

/// The words for packets that are malformed, in the order of `anabranch-packet`.
pub const MALFORMED_REASONS: &[&str] = &[
    "ethernet-header-truncated",
    "vlan-tag-truncated",
    "vlan-tags-too-many",
    "arp-truncated",
    "ipv4-header-truncated",
    "ipv4-version",
    "ipv4-header-length",
    "ipv4-total-length",
    "ipv6-header-truncated",
    "ipv6-version",
    "ipv6-payload-length",
    "ipv6-extension-truncated",
    "ipv6-extensions-too-many",
    "tcp-header-truncated",
    "tcp-header-length",
    "udp-header-truncated",
    "udp-length",
    "icmpv4-header-truncated",
    "icmpv6-header-truncated",
];

/// Levels of `log!`.
pub const LOG_LEVELS: &[&str] = &["error", "warn", "info", "debug"];

/// The names of the handlers, in the order of `docs/nf-language.md`.
pub const HANDLERS: &[&str] = &[
    "init",
    "packet_set_opened",
    "packet_set_full",
    "packet",
    "packet_set_expired",
    "orphan",
    "control",
    "timer",
    "periodic",
    "shutdown",
];

/// The operations of the state object type `kind`.
pub fn operations(kind: &str) -> &'static [Operation] {
    STATE_OBJECTS.iter().find(|(name, _)| *name == kind).map_or(&[], |(_, operations)| operations)
}

/// Whether some built-in type has a method of that name.
pub fn is_method(name: &str) -> bool {
    let listed = |lists: &[(&str, &[Operation])]| {
        lists.iter().any(|(_, list)| list.iter().any(|operation| operation.name == name))
    };
    listed(METHODS) || listed(STATE_OBJECTS) || is_view_method(name)
}

fn is_view_method(name: &str) -> bool {
    let setter = name.strip_prefix("set_").unwrap_or(name);
    let view = name.strip_suffix("_mut").unwrap_or(name);
    VIEWS.iter().any(|(header, fields)| {
        *header == view
            || fields
                .iter()
                .any(|(field, _, settable)| *field == name || (*settable && *field == setter))
    })
}

/// The associated names of a type of the prelude; `None`: it is no such type.
pub fn associated(of: &str) -> Option<&'static [&'static str]> {
    if INTEGERS.contains(&of) {
        return Some(INTEGER_ASSOCIATED);
    }
    ASSOCIATED.iter().find(|(name, _)| *name == of).map(|(_, names)| *names)
}

/// Whether a type or function of a module may not be called so: it is the prelude's, or one that the
/// macro makes.
pub fn is_taken(name: &str) -> bool {
    INTEGERS.contains(&name)
        || VALUE_TYPES.contains(&name)
        || SIGNATURE_TYPES.contains(&name)
        || VALUES.contains(&name)
        || STATE_OBJECTS.iter().any(|(object, _)| *object == name)
        || name.starts_with("__")
        || name == "Function"
}

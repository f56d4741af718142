//! What an author meant by something that is refused, and what to write instead.

use crate::names;

/// Names that are refused wherever they stand: names, what they are, what to write instead.
const NAMES: &[(&[&str], &str, &str)] = &[
    (&["f32", "f64"], "a float", "write a ratio as two integers, or a fixed-point integer"),
    (&["String", "ToString"], "a heap type", "write a byte string `b\"…\"`, or `[u8; N]`"),
    (
        &["Vec", "VecDeque", "LinkedList", "BinaryHeap"],
        "a heap type",
        "write an array `[T; N]`, or a state object: `Vector<T>`",
    ),
    (
        &["HashMap", "BTreeMap", "HashSet", "BTreeSet", "DashMap"],
        "a heap type",
        "write a state object as a field of the network function: `Map<K, V>`",
    ),
    (
        &["Box", "Rc", "Arc", "Weak", "Cow", "Pin"],
        "a heap type",
        "write the value itself: structs and enums are copied",
    ),
    (
        &["Mutex", "RwLock", "Condvar", "Barrier", "Once", "OnceLock", "LazyLock", "OnceCell"],
        "a lock",
        "write a state object as a field of the network function: nothing else is shared",
    ),
    (
        &["RefCell", "UnsafeCell", "LazyCell"],
        "a cell of std",
        "write the state object `Cell<T>` as a field of the network function",
    ),
    (
        &[
            "AtomicBool",
            "AtomicU8",
            "AtomicU16",
            "AtomicU32",
            "AtomicU64",
            "AtomicUsize",
            "AtomicI8",
            "AtomicI16",
            "AtomicI32",
            "AtomicI64",
            "AtomicIsize",
            "AtomicPtr",
        ],
        "an atomic",
        "write the state object `Counter` or `Cell<T>` as a field of the network function",
    ),
    (&["Ordering"], "an ordering", "compare with `<`, `==` and `>`"),
    (
        &["Sender", "Receiver", "SyncSender", "mpsc", "channel"],
        "a channel",
        "write `cx.emit(port, bytes)` to send a packet, or a `Command` to receive one",
    ),
    (
        &["thread", "Thread", "JoinHandle", "spawn"],
        "a thread",
        "write sequential code: it is run on all cores for you",
    ),
    (
        &["Instant", "SystemTime", "Duration", "UNIX_EPOCH"],
        "a clock",
        "write `cx.now()`, in nanoseconds as `u64`",
    ),
    (
        &["rand", "Rng", "thread_rng", "RandomState", "DefaultHasher"],
        "randomness",
        "write `cx.random()`",
    ),
    (
        &["File", "TcpStream", "TcpListener", "UdpSocket", "stdin", "stdout", "stderr", "fs", "io"],
        "I/O",
        "write `cx.emit(port, bytes)` for packets, `log!` for lines, settings for files",
    ),
    (&["char"], "a character", "write a byte: `u8`, `b'x'`"),
    (&["isize"], "an integer of the machine's width", "write `i64`"),
    (
        &["IpAddr", "SocketAddr", "SocketAddrV4"],
        "an address of another type",
        "write `Ipv4Addr` or `Ipv6Addr`, or an enum of both",
    ),
    (
        &["PhantomData", "MaybeUninit", "ManuallyDrop", "NonNull", "transmute"],
        "memory of the machine",
        "write plain structs and enums",
    ),
    (
        &["std", "core", "alloc", "crate", "super", "self"],
        "a path outside the module",
        "write the prelude's name itself, or an item of this module",
    ),
];

/// Macros that are refused.
const MACROS: &[(&[&str], &str)] = &[
    (
        &[
            "panic",
            "unreachable",
            "todo",
            "unimplemented",
            "assert",
            "assert_eq",
            "assert_ne",
            "debug_assert",
            "debug_assert_eq",
            "debug_assert_ne",
        ],
        "return `Drop(reason)`, or `Err(\"…\")` from `check` and `control`",
    ),
    (
        &["println", "print", "eprintln", "eprint", "dbg", "write", "writeln"],
        "write `log!(cx, info, \"text {}\", value)`",
    ),
    (&["vec"], "write an array: `[0; N]`"),
    (&["format", "concat", "stringify"], "write `log!`, or a byte string `b\"…\"`"),
    (&["include", "include_str", "include_bytes", "env", "option_env"], "make it a setting"),
    (&["thread_local"], "write a state object as a field of the network function"),
    (&["try"], "write `?`"),
];

/// Methods that are refused.
const METHODS: &[(&[&str], &str)] = &[
    (
        &["unwrap", "expect", "unwrap_unchecked", "unwrap_err", "expect_err"],
        "write `let Some(x) = … else { return Drop(reason) };`, `unwrap_or(…)` or `?`",
    ),
    (&["unwrap_or_else"], "write `unwrap_or(value)`, or a `match`"),
    (&["ok_or_else"], "write `ok_or(value)`"),
    (&["replace", "get_or_insert"], "copy the old value, and assign the new one"),
    (&["then", "then_some"], "write `if condition { Some(value) } else { None }`"),
    (
        &["copy_from_slice", "clone_from_slice", "fill"],
        "write a `for` loop: `for i in 0..n { a[i] = b[i]; }`",
    ),
    (
        &["options", "options_mut", "set_options", "mss", "set_mss", "header", "as_raw"],
        "a view has the fields that the language page lists, and no other bytes of a header",
    ),
    (
        &["map_or_else", "map_err", "or_else", "or", "and", "xor", "zip", "inspect", "is_none_or"],
        "write a `match`",
    ),
    (&["clone", "to_owned", "copied", "cloned"], "leave it away: values are copied"),
    (&["into", "try_into"], "write `u32::from(x)` to widen, `x as u8` to narrow"),
    (
        &["to_string", "to_vec", "as_str", "as_bytes", "push", "extend", "collect"],
        "write arrays and byte strings: nothing is allocated",
    ),
    (
        &[
            "iter_mut",
            "into_iter",
            "enumerate",
            "skip",
            "windows",
            "chunks",
            "fold",
            "sum",
            "any",
            "all",
            "find",
            "position",
            "for_each",
            "next",
            "last",
        ],
        "write a `for` loop: `for i in 0..n { … }`",
    ),
    (&["rev"], "write a `for` loop: `for i in 0..n { let i = n - 1 - i; … }`"),
    (&["step_by"], "write a `for` loop: `for i in 0..n / step { let i = i * step; … }`"),
    (&["take"], "of an `Option`, copy it and write `None`; of elements, write a `for` loop"),
    (&["swap"], "write `(a[i], a[j]) = (a[j], a[i])`, or a state object for what is shared"),
    (
        &["as_ref", "as_mut", "as_deref", "borrow", "borrow_mut", "as_slice"],
        "leave it away: values are copied, and slices are written `&array`",
    ),
    (
        &[
            "lock",
            "read_lock",
            "write_lock",
            "load",
            "store",
            "fetch_add",
            "fetch_sub",
            "compare_exchange",
            "try_lock",
        ],
        "write a state object as a field of the network function",
    ),
    (
        &["spawn", "join", "sleep", "await", "send", "recv"],
        "write sequential code: it is run on all cores for you",
    ),
    (&["elapsed", "duration_since", "as_secs", "as_nanos"], "write `cx.now()`, in nanoseconds"),
    (
        &["wrapping_div", "checked_div", "checked_rem", "wrapping_rem"],
        "write `/` or `%`: division by zero yields zero",
    ),
    (
        &["wrapping_shl", "wrapping_shr", "checked_shl", "checked_shr"],
        "write `<<` or `>>`: shifts are taken modulo the width",
    ),
    (
        &[
            "checked_mul",
            "saturating_mul",
            "overflowing_mul",
            "checked_pow",
            "wrapping_pow",
            "saturating_pow",
        ],
        "widen first: `u64::from(a) * u64::from(b)`",
    ),
    (
        &["overflowing_add", "carrying_add"],
        "write `let sum = a.wrapping_add(b);`: it has wrapped where `sum < a`",
    ),
    (
        &["overflowing_sub", "borrowing_sub"],
        "write `a.wrapping_sub(b)`: it has wrapped where `a < b`",
    ),
    (&["to_le_bytes", "to_ne_bytes", "to_be", "to_le"], "write `to_be_bytes()`, or `swap_bytes()`"),
    (&["eq", "ne", "lt", "le", "gt", "ge", "cmp", "partial_cmp"], "write `==`, `<`, `>`"),
    (
        &["keys", "values", "entry", "get_mut", "contains_key", "drain", "clear", "retain"],
        "write `get`, `contains`, `insert`, `update` or `remove`: state is reached by its key",
    ),
    (&["is_multiple_of"], "write `a % b == 0`"),
    (&["div_ceil"], "write `(a + b - 1) / b`"),
    (&["rem_euclid", "div_euclid"], "write `%` and `/` of unsigned integers"),
    (&["ilog2"], "write `u32::BITS - 1 - x.leading_zeros()`"),
    (&["count_zeros"], "write `(!x).count_ones()`"),
    (&["trailing_ones", "leading_ones"], "write `(!x).trailing_zeros()`, `(!x).leading_zeros()`"),
    (&["wrapping_neg"], "write `-x`, or `!x + 1` of an unsigned one: sums wrap"),
    (&["abs", "unsigned_abs", "wrapping_abs"], "write `if x < 0 { -x } else { x }`"),
    (&["signum"], "compare with `<`, `==` and `>`"),
    (
        &["split_at", "split_first", "split_last", "ends_with", "chunks_exact", "as_chunks"],
        "write `&bytes[from..to]`, which is empty past the end",
    ),
    (&["to_bits"], "write `u32::from(address)`"),
    (&["is_link_local"], "compare what `octets()` gives"),
    (&["parse"], "make it a setting: settings are read from text"),
    (
        &["payload_mut", "set_payload", "push_vlan", "pop_vlan", "data", "bytes", "as_slice_mut"],
        "packets have `payload()` to read and setters of fields; \
         what is to leave otherwise is sent with `cx.emit(port, bytes)`",
    ),
    (&["get_unchecked", "get_unchecked_mut"], "write `get(i)`, or `a[i]`"),
];

fn find<'a>(table: &[(&[&str], &'a str)], name: &str) -> Option<&'a str> {
    table.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| *instead)
}

/// What the refused name is, and what to write instead.
pub(super) fn name(name: &str) -> Option<(&'static str, &'static str)> {
    let row = NAMES.iter().find(|(names, ..)| names.contains(&name))?;
    Some((row.1, row.2))
}

/// What to write instead of the refused macro.
pub(super) fn macro_call(name: &str) -> &'static str {
    find(MACROS, name).unwrap_or("write a function: only `matches!` and `log!` are macros here")
}

/// What to write instead of a method of an iterator.
pub(super) const OF_ITERATOR: &str = "write a `for` loop: `for x in array { … }`";

/// What to write instead of the refused method.
pub(super) fn method(name: &str) -> &'static str {
    find(METHODS, name).unwrap_or(
        "write it as a method or function of this module; the language page lists the rest",
    )
}

/// Of a setter that there is not, for a header field that there is: what it is, and what can be set in the headers
/// that have the field.
pub(super) fn read_only(setter: &str) -> Option<(String, String)> {
    let name = setter.strip_prefix("set_")?;
    let has_it = |(_, fields): &&(&str, &[names::Field])| fields.iter().any(|of| of.0 == name);
    let all: Vec<String> = names::VIEWS
        .iter()
        .filter(has_it)
        .map(|(header, fields)| {
            let settable = fields.iter().filter(|(_, _, settable)| *settable);
            let settable: Vec<&str> = settable.map(|(field, ..)| *field).collect();
            match settable.is_empty() {
                true => format!("of `{header}` nothing"),
                false => format!("of `{header}` `{}`", settable.join(" ")),
            }
        })
        .collect();
    let what = format!("the header field `{name}` can be read only");
    (!all.is_empty()).then(|| (what, format!("these can be set: {}", all.join(", "))))
}

/// What std has a name for and the language has not, written out.
pub(super) fn associated(of: &str, name: &str) -> Option<&'static str> {
    match (of, name) {
        (_, "try_from") => Some("x as u8` after a comparison with `u8::MAX"),
        (_, "from_le_bytes") => Some("u32::from_be_bytes(bytes).swap_bytes()"),
        ("Ipv4Addr", "from_bits") => Some("Ipv4Addr::from(number)"),
        ("Ipv6Addr", "new") => Some("Ipv6Addr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])"),
        ("MacAddr", "BROADCAST") => Some("MacAddr::new(255, 255, 255, 255, 255, 255)"),
        ("MacAddr", "from") => Some("MacAddr::new(a[0], a[1], a[2], a[3], a[4], a[5])"),
        ("Ipv4Addr", "UNSPECIFIED") => Some("Ipv4Addr::new(0, 0, 0, 0)"),
        ("Ipv4Addr", "LOCALHOST") => Some("Ipv4Addr::new(127, 0, 0, 1)"),
        ("Ipv4Addr", "BROADCAST") => Some("Ipv4Addr::new(255, 255, 255, 255)"),
        ("Ipv6Addr", "UNSPECIFIED") => Some("Ipv6Addr::from(0u128)"),
        ("Ipv6Addr", "LOCALHOST") => Some("Ipv6Addr::from(1u128)"),
        _ => None,
    }
}

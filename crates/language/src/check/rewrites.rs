//! What an author meant by something that is refused, and what to write instead.

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
            "overflowing_add",
            "overflowing_sub",
            "overflowing_mul",
            "checked_pow",
            "wrapping_pow",
            "saturating_pow",
        ],
        "widen first: `u64::from(a) * u64::from(b)`",
    ),
    (&["to_le_bytes", "to_ne_bytes", "to_be", "to_le"], "write `to_be_bytes()`, or `swap_bytes()`"),
    (&["eq", "ne", "lt", "le", "gt", "ge", "cmp", "partial_cmp"], "write `==`, `<`, `>`"),
    (
        &["keys", "values", "entry", "get_mut", "contains_key", "drain", "clear", "retain"],
        "write `get`, `contains`, `insert`, `update` or `remove`: state is reached by its key",
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

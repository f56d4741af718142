//! What the author of a network function imports.
//!
//! An NF is one module under [`network_function`], written in the NF language (`docs/nf-language.md`)
//! against the [`prelude`]: handlers, packets, [state objects](state), a [context](Context). The
//! attribute makes it generic over the [worlds](world) and implements [`NetworkFunction`], which is
//! all that the runtime and the tools know of it.
//!
//! Depends on `anabranch-packet`, `anabranch-memory` and `anabranch-txn`; `anabranch-runtime`, `anabranch-nfs`, `anabranch-analysis` and the
//! program depend on it.

pub mod arith;
mod context;
pub mod elements;
mod function;
mod key;
pub mod l3;
mod log;
pub mod pack;
pub mod packet_set;
pub mod settings;
pub mod shape;
#[allow(unsafe_code)]
pub mod state;
pub mod trace;
pub mod tracked;
mod verdict;
pub mod world;

pub use anabranch_memory as memory;
pub use anabranch_nf_macros::network_function;
pub use anabranch_packet as packet;
pub use context::{Context, Emitted, Environment, to_ns, to_ticks};
pub use function::{BuildError, Builder, LookAhead, NetworkFunction, Occupancy, Source};
pub use key::{Fold, Hash, Key, Value};
pub use log::{Level, Line, Log};
pub use verdict::{Builtin, Drop, DropReason, Verdict, Word};

/// What the source of an NF sees.
pub mod prelude {
    pub use std::net::{Ipv4Addr, Ipv6Addr};

    pub use anabranch_packet::{MacAddr, Packet, Port};

    pub use crate::context::Context;
    pub use crate::elements::{Elements as _, Parts as _, Places as _, Seen as _};
    pub use crate::l3::L3;
    pub use crate::log;
    pub use crate::network_function;
    pub use crate::settings::List;
    pub use crate::state::{Allocator, Cell, Counter, Distributed, Map, Vector};
    pub use crate::verdict::Verdict::{self, Flood, Forward, Recirculate};
    pub use crate::verdict::{Builtin, Drop};
    pub use crate::world::{
        AllocatorOperations as _, CellOperations as _, CounterOperations as _,
        DistributedOperations as _, L3Operations as _, MapOperations as _, VectorOperations as _,
    };
}

/// Writes a line to the log: `log!(cx, info, "text {}", value)`. Each worker keeps at most
/// 10 lines a second from each place, and counts the rest.
#[macro_export]
macro_rules! log {
    ($cx:expr, $level:ident, $($text:tt)+) => {
        $cx.write_log($crate::Level::$level, ::core::line!(), ::core::format_args!($($text)+))
    };
}

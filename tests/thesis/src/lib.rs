//! The network functions of Pereira's thesis "Parallel NF Synthesis" (2021), in our language: what
//! its listings 3.1, 3.3 and 4.1 to 4.7 do, so that the planner's constraints can be held against
//! its figures 4.1 to 4.5. They are kept as the thesis has them, faults included; the library's own
//! functions do more.
//!
//! Nothing depends on this crate; its tests depend on the planner.

#![allow(clippy::module_inception)] // a function's module, named by the author, stands in its file

pub mod bridge;
pub mod bridge_static;
pub mod counters;
pub mod counters_ageing;
pub mod counters_default;
pub mod firewall;
pub mod lb;
pub mod nat;
pub mod nop;
pub mod policer;

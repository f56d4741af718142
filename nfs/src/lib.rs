//! The library of network functions: sequential code in the NF language (`docs/nf-language.md`), one
//! file each.
//!
//! Each module says what its function does and does not do, with the RFC or paper, then the
//! function, then its tests. [`functions!`] names them all, for a program or a test that takes
//! every one.
//!
//! Depends on `anabranch-nf` alone (its tests on `anabranch-runtime`, to run packets through);
//! `anabranch` and the benchmark depend on it.

#![allow(clippy::module_inception)] // a function's module, named by the author, stands in its file

pub mod bridge;
pub mod bridge_static;
pub mod firewall;
#[cfg(test)]
mod frames;
pub mod lb;
pub mod nat;
pub mod nop;
pub mod policer;
pub mod router;

/// Calls the macro `$each` with the types of all functions, as `each![path, path, …]`.
#[macro_export]
macro_rules! functions {
    ($($each:tt)+) => {
        $($each)+![
            $crate::nop::Function,
            $crate::policer::Function,
            $crate::firewall::Function,
            $crate::bridge::Function,
            $crate::bridge_static::Function,
            $crate::nat::Function,
            $crate::router::Function,
            $crate::lb::Function,
        ]
    };
}

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

#[cfg(feature = "security")]
pub mod anti_ddos;
pub mod bridge;
pub mod bridge_static;
#[cfg(feature = "security")]
pub mod dns_tunnel;
pub mod firewall;
#[cfg(test)]
mod frames;
pub mod lb;
pub mod nat;
pub mod nop;
pub mod policer;
#[cfg(feature = "security")]
pub mod portscan;
#[cfg(feature = "security")]
pub mod prads;
pub mod router;
#[cfg(feature = "security")]
pub mod sidejacking;
#[cfg(feature = "security")]
pub mod synthetic;
#[cfg(feature = "security")]
pub mod trojan;

/// Functions that are not compiled in, by their names and the feature that each needs. Empty where
/// all are there.
pub const ABSENT: &[(&str, &str)] = if cfg!(feature = "security") { &[] } else { OF_FEATURES };

const OF_FEATURES: &[(&str, &str)] = &[
    ("anti-ddos", "security"),
    ("portscan", "security"),
    ("dns-tunnel", "security"),
    ("trojan", "security"),
    ("sidejacking", "security"),
    ("prads", "security"),
    ("synthetic", "security"),
];

/// Calls the macro `$each` with the types of all functions, as `each![path, path, …]`.
#[macro_export]
macro_rules! functions {
    ($($each:tt)+) => {
        $crate::and_security! {
            [$($each)+]
            $crate::nop::Function,
            $crate::policer::Function,
            $crate::firewall::Function,
            $crate::bridge::Function,
            $crate::bridge_static::Function,
            $crate::nat::Function,
            $crate::router::Function,
            $crate::lb::Function,
        }
    };
}

/// The second half of [`functions!`]: adds those of the feature `security`.
#[cfg(feature = "security")]
#[doc(hidden)]
#[macro_export]
macro_rules! and_security {
    ([$($each:tt)+] $($others:tt)*) => {
        $($each)+![
            $($others)*
            $crate::anti_ddos::Function,
            $crate::portscan::Function,
            $crate::dns_tunnel::Function,
            $crate::trojan::Function,
            $crate::sidejacking::Function,
            $crate::prads::Function,
            $crate::synthetic::Function,
        ]
    };
}

/// The second half of [`functions!`]: adds nothing.
#[cfg(not(feature = "security"))]
#[doc(hidden)]
#[macro_export]
macro_rules! and_security {
    ([$($each:tt)+] $($others:tt)*) => {
        $($each)+![$($others)*]
    };
}

#[cfg(test)]
mod tests {
    use anabranch_nf::NetworkFunction;

    macro_rules! names {
        ($($nf:ty),* $(,)?) => { [$(<$nf as NetworkFunction>::NAME),*] };
    }

    #[test]
    fn functions_are_there_or_absent() {
        let there = functions!(names);
        for (name, _) in super::OF_FEATURES {
            let is_absent = super::ABSENT.iter().any(|(absent, _)| absent == name);
            assert_ne!(there.contains(name), is_absent, "{name}");
        }
        assert!(there.contains(&"nop"));
    }

    /// What is taken not to rewrite packets is not given their heads back when it runs again.
    #[test]
    fn who_rewrites_packets_and_has_them_enter_again_is_known() {
        use super::{bridge, firewall, lb, nat, nop, policer, router};
        let kept = [
            nop::Function::REWRITES,
            bridge::Function::REWRITES,
            firewall::Function::REWRITES,
            policer::Function::REWRITES,
        ];
        let rewritten =
            [nat::Function::REWRITES, lb::Function::REWRITES, router::Function::REWRITES];
        assert_eq!((kept, rewritten), ([false; 4], [true; 3]));
        // Nobody looks into what is opaque, as a part of `lb` is.
        let again = [nat::Function::REENTERS, lb::Function::REENTERS, bridge::Function::REENTERS];
        assert_eq!(again, [true, true, false]);
    }
}

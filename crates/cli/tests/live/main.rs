//! Functions between real hosts: network namespaces, each with the kernel's own TCP/IP, and the programs that
//! people use. On two workers, over each kind of live port.
//!
//! Skipped, with the reason printed, where no namespaces may be made or a program is missing.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod balancer;
mod bridge;
mod clients;
mod dns_tunnel;
mod firewall;
mod lab;
mod links;
mod nat;
mod observe;
mod paths;
mod policer;
mod portscan;
mod rates;
mod scan;
mod shards;
mod sidejacking;
mod site;
mod soak;
mod stored;
mod traffic;
mod trojan;
mod tunnels;

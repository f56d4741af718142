//! Compiles the part of live ports that is written in C, where DPDK is wanted.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk::build();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::process::Command;

    const SHIM: &str = "src/live/dpdk/shim.c";
    /// What the shim calls; drivers are loaded by DPDK from its own directory.
    const LIBRARIES: [&str; 5] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"];

    pub(super) fn build() {
        println!("cargo:rerun-if-changed={SHIM}");
        println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
        let flags = pkg_config(&["--cflags", "libdpdk >= 22.11"]);
        let directory = pkg_config(&["--variable=libdir", "libdpdk"]);
        let mut shim = cc::Build::new();
        shim.file(SHIM).opt_level(3);
        flags.split_whitespace().for_each(|flag| {
            shim.flag(flag);
        });
        shim.compile("anabranch_dpdk");
        println!("cargo:rustc-link-search=native={}", directory.trim());
        for library in LIBRARIES {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }

    fn pkg_config(arguments: &[&str]) -> String {
        let output = Command::new("pkg-config").args(arguments).output();
        let found = output.ok().filter(|output| output.status.success());
        match found {
            Some(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
            None => panic!(
                "the feature `dpdk` needs DPDK 22.11 and pkg-config, which does not find it: \
                 `apt-get install libdpdk-dev pkg-config` (Debian 12)"
            ),
        }
    }
}

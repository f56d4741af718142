//! What all interfaces have in common: kernel, rights, clock, cores, memory.

use std::ffi::OsStr;

use anabranch_runtime::hardware::Hardware;

use super::State::{Good, Note, Wrong};
use super::{Files, Finding};

/// Capabilities, by the number of their bit (linux/capability.h).
const CAPABILITIES: [(&str, u32); 3] =
    [("cap_net_admin", 12), ("cap_net_raw", 13), ("cap_bpf", 39)];
/// It stands for CAP_BPF on kernels that had none.
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
/// With it there is no limit of locked memory.
const IPC_LOCK: u32 = 14;
/// The first kernel whose AF_XDP sockets say when they want to be woken.
const OLDEST: (u32, u32) = (5, 4);

/// Everything there is to say of the machine.
pub(super) fn examine(files: &Files) -> Vec<Finding> {
    let each = [
        Some(kernel(files)),
        Some(capabilities(files)),
        locked(files),
        clock(files),
        Some(cores(files)),
        governor(files),
        Some(hugepages(files)),
        Some(dpdk(anabranch_io::live::dpdk_version())),
        devices(files),
        counters(files, Hardware::open().is_some()),
        compiler(files),
        Some(tun(files)),
        Some(solver(&std::env::var_os("PATH").unwrap_or_default())),
    ];
    each.into_iter().flatten().collect()
}

fn kernel(files: &Files) -> Finding {
    let release = files.read("proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version {
        _ if version >= OLDEST => Finding::new("kernel", Good, format!("Linux {release}")),
        _ => {
            Finding::new("kernel", Wrong, format!("Linux {release}: `xdp` ports need 5.4 or later"))
        }
    }
}

fn effective(files: &Files) -> u64 {
    let status = files.read("proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

fn capabilities(files: &Files) -> Finding {
    let effective = effective(files);
    let has = |bit: u32| effective >> bit & 1 == 1;
    let missing = CAPABILITIES
        .into_iter()
        .filter(|(name, bit)| !(has(*bit) || *name == "cap_bpf" && has(SYS_ADMIN)));
    let missing: Vec<&str> = missing.map(|(name, _)| name).collect();
    if missing.is_empty() {
        return Finding::new("capabilities", Good, "cap_net_admin, cap_net_raw, cap_bpf");
    }
    let program = std::env::current_exe().unwrap_or_else(|_| "anabranch".into());
    let says = format!(
        "{} missing: `afpacket` takes cap_net_raw, `tap` cap_net_admin, `xdp` all three",
        missing.join(", ")
    );
    let line = format!("setcap cap_net_admin,cap_net_raw,cap_bpf+ep {}", program.display());
    Finding::new("capabilities", Wrong, says).run(line)
}

/// Whether memory for `xdp` ports may be kept in place.
fn locked(files: &Files) -> Option<Finding> {
    let limits = files.read("proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    let limit = line.split_whitespace().next()?;
    if effective(files) >> IPC_LOCK & 1 == 1 {
        return Some(Finding::new("locked memory", Good, "cap_ipc_lock: no limit"));
    }
    match limit.parse::<u64>() {
        Err(_) => Some(Finding::new("locked memory", Good, limit)),
        Ok(bytes) => {
            let says = format!(
                "{} MiB at most: an `xdp` port takes 24 MiB for each queue (LimitMEMLOCK=infinity in a unit, or \
                 cap_ipc_lock)",
                bytes >> 20
            );
            Some(Finding::new("locked memory", Note, says).run("ulimit -l unlimited"))
        }
    }
}

fn clock(files: &Files) -> Option<Finding> {
    let directory = "sys/devices/system/clocksource/clocksource0";
    let current = files.read(&format!("{directory}/current_clocksource"))?;
    if current == "tsc" || current == "arch_sys_counter" {
        return Some(Finding::new("clock", Good, current));
    }
    let says = format!("{current}: reading the time is slow, and is done for every batch");
    let finding = Finding::new("clock", Note, says);
    let available = files.read(&format!("{directory}/available_clocksource")).unwrap_or_default();
    let has_tsc = available.split_whitespace().any(|one| one == "tsc");
    let line = format!("echo tsc > /{directory}/current_clocksource");
    Some(if has_tsc { finding.run(line) } else { finding })
}

fn cores(files: &Files) -> Finding {
    let online = files.read("sys/devices/system/cpu/online").unwrap_or_default();
    let isolated = files.read("sys/devices/system/cpu/isolated").unwrap_or_default();
    let siblings = files.read("sys/devices/system/cpu/smt/active").as_deref() == Some("1");
    let shared = if siblings { "; two to a core, which workers share" } else { "" };
    if isolated.is_empty() {
        let says = format!(
            "{online} online, none isolated: workers share them with everything else{shared} (kernel \
             parameters `isolcpus=…` and `nohz_full=…` keep some free)"
        );
        return Finding::new("cores", Note, says);
    }
    Finding::new("cores", Good, format!("{online} online, {isolated} isolated{shared}"))
}

fn governor(files: &Files) -> Option<Finding> {
    let governor = files.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")?;
    if governor == "performance" {
        return Some(Finding::new("frequency", Good, governor));
    }
    let says = format!("{governor}: cores slow down between packets, and figures differ");
    Some(Finding::new("frequency", Note, says).run("cpupower frequency-set -g performance"))
}

fn hugepages(files: &Files) -> Finding {
    let memory = files.read("proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    let (total, free) = (field("HugePages_Total"), field("HugePages_Free"));
    let size_kb = field("Hugepagesize").unwrap_or(0);
    match (total.unwrap_or(0), free.unwrap_or(0)) {
        (0, _) => {
            let says =
                "none: `dpdk` ports of devices on the PCI bus need them, others are slower without";
            Finding::new("hugepages", Note, says).run("sysctl vm.nr_hugepages=256")
        }
        (total, free) => {
            Finding::new("hugepages", Good, format!("{free} of {total} free, of {size_kb} kB each"))
        }
    }
}

/// Whether this program has DPDK; of `version`, if so.
fn dpdk(version: Option<String>) -> Finding {
    let without = || {
        let says = "this program was built without DPDK: no `dpdk` ports";
        Finding::new("dpdk", Note, says)
            .run("apt-get install libdpdk-dev && cargo build --release --features dpdk")
    };
    version.map_or_else(without, |version| Finding::new("dpdk", Good, version))
}

/// Drivers that leave devices on the PCI bus to programs.
const LEFT_TO_PROGRAMS: [&str; 3] = ["vfio-pci", "igb_uio", "uio_pci_generic"];

/// Devices on the PCI bus that belong to programs, if there are any.
fn devices(files: &Files) -> Option<Finding> {
    let of = |driver: &&str| files.list(&format!("sys/bus/pci/drivers/{driver}"));
    let all = LEFT_TO_PROGRAMS.iter().flat_map(of);
    let names: Vec<String> = all.filter(|name| name.contains(':')).collect();
    let says = || format!("devices for `dpdk` ports: {}", names.join(", "));
    (!names.is_empty()).then(|| Finding::new("dpdk", Good, says()))
}

/// Whether the processor counts: what this program may ask, and, as it was tried, whether there is an answer.
fn counters(files: &Files, counted: bool) -> Option<Finding> {
    let paranoid: i32 = files.number("proc/sys/kernel/perf_event_paranoid")?;
    let may = effective(files) >> PERFMON & 1 == 1 || effective(files) >> SYS_ADMIN & 1 == 1;
    let without = "instructions and cycles cannot be counted (`bench`, `profile`)";
    if paranoid > 2 && !may {
        let finding = Finding::new("counters", Note, without);
        return Some(finding.run("sysctl kernel.perf_event_paranoid=2"));
    }
    if counted {
        return Some(Finding::new("counters", Good, "instructions and cycles can be counted"));
    }
    let says =
        format!("{without}: the processor's counters are not here, as in most virtual machines");
    Some(Finding::new("counters", Note, says))
}

fn compiler(files: &Files) -> Option<Finding> {
    let enabled: u32 = files.number("proc/sys/net/core/bpf_jit_enable")?;
    if enabled > 0 {
        return Some(Finding::new("bpf", Good, "programs are compiled"));
    }
    let says = "the kernel interprets programs: `xdp` and `afpacket` ports are slower";
    Some(Finding::new("bpf", Note, says).run("sysctl net.core.bpf_jit_enable=1"))
}

fn tun(files: &Files) -> Finding {
    if files.exists("dev/net/tun") {
        return Finding::new("tap", Good, "/dev/net/tun is there");
    }
    Finding::new("tap", Note, "there is no /dev/net/tun: no `tap` ports").run("modprobe tun")
}

/// It rules out call paths that no packet takes. Plans are made without it too.
fn solver(path: &OsStr) -> Finding {
    if std::env::split_paths(path).any(|directory| directory.join("z3").exists()) {
        return Finding::new("solver", Good, "z3");
    }
    let says = "there is no z3: `paths` needs it, and `trace` to number call paths; `plan` and `verify` do without, \
                and count paths that no packet takes";
    Finding::new("solver", Note, says).run("apt-get install z3")
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;
    use super::*;

    const GOOD: [(&str, &str); 9] = [
        ("proc/sys/kernel/osrelease", "6.1.0-25-amd64\n"),
        ("proc/self/status", "Name:\tx\nCapEff:\t0000008000003000\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("sys/devices/system/cpu/online", "0-7\n"),
        ("sys/devices/system/cpu/isolated", "2-7\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        (
            "proc/meminfo",
            "HugePages_Total:     256\nHugePages_Free:     250\nHugepagesize:       2048 kB\n",
        ),
        ("proc/sys/net/core/bpf_jit_enable", "1\n"),
        ("dev/net/tun", ""),
    ];

    /// What is not among a machine's files.
    const OF_ELSEWHERE: [&str; 2] = ["solver", "dpdk"];

    #[test]
    fn dpdk_is_told_or_missed_and_its_devices_are_listed() {
        assert!(dpdk(None).run[0].contains("--features dpdk"));
        assert_eq!(dpdk(Some("DPDK 22.11.1".to_owned())).says, "DPDK 22.11.1");
        let (_directory, files) = machine(&[
            ("sys/bus/pci/drivers/vfio-pci/0000:03:00.0/vendor", "0x8086"),
            ("sys/bus/pci/drivers/vfio-pci/new_id", ""),
            ("sys/bus/pci/drivers/ixgbe/0000:04:00.0/vendor", "0x8086"),
        ]);
        let found = devices(&files).unwrap();
        assert_eq!(found.says, "devices for `dpdk` ports: 0000:03:00.0");
        assert_eq!(devices(&machine(&[]).1), None);
    }

    #[test]
    fn counters_are_good_only_where_they_count() {
        let paranoid = |level: &str| machine(&[("proc/sys/kernel/perf_event_paranoid", level)]);
        let says = |level: &str, counted| {
            let found = counters(&paranoid(level).1, counted).unwrap();
            (found.state == Good, found.run.len(), found.says.contains("virtual machines"))
        };
        assert_eq!(says("2", true), (true, 0, false));
        assert_eq!(says("2", false), (false, 0, true));
        assert_eq!(says("4", false), (false, 1, false));
    }

    #[test]
    fn without_a_solver_there_are_plans() {
        let (directory, _files) = machine(&[("bin/z3", "")]);
        assert_eq!(solver(directory.path().join("bin").as_os_str()).state, Good);
        let found = solver(OsStr::new(""));
        assert!(found.says.contains("do without") && !found.says.contains("lock"), "{found:?}");
        assert_eq!(found.run, ["apt-get install z3"]);
    }

    #[test]
    fn a_machine_that_is_ready_has_nothing_to_run() {
        let (_directory, files) = machine(&GOOD);
        let findings: Vec<_> = examine(&files)
            .into_iter()
            .filter(|one| !OF_ELSEWHERE.contains(&one.about.as_str()))
            .collect();
        assert!(findings.iter().all(|one| one.state == Good && one.run.is_empty()), "{findings:?}");
        assert!(findings.iter().any(|one| one.says == "250 of 256 free, of 2048 kB each"));
    }

    #[test]
    fn each_thing_that_lacks_is_found_alone() {
        for (path, text, about, part) in [
            (0, "4.19.0\n", "kernel", "5.4"),
            (1, "CapEff:\t0000000000002000\n", "capabilities", "cap_net_admin, cap_bpf missing"),
            (2, "hpet\n", "clock", "hpet: reading the time is slow"),
            (4, "\n", "cores", "none isolated"),
            (5, "powersave\n", "frequency", "powersave"),
            (6, "HugePages_Total:       0\n", "hugepages", "none"),
            (7, "0\n", "bpf", "interprets"),
        ] {
            let mut changed = GOOD;
            changed[path].1 = text;
            let (_directory, files) = machine(&changed);
            let found: Vec<_> = examine(&files)
                .into_iter()
                .filter(|one| one.state != Good && !OF_ELSEWHERE.contains(&one.about.as_str()))
                .collect();
            assert!(found.len() == 1 && found[0].about == about, "{found:?}");
            assert!(found[0].says.contains(part), "{found:?}");
        }
    }

    #[test]
    fn memory_that_may_not_be_locked_is_told() {
        let status = |bits: &str| format!("CapEff:\t{bits}\n");
        for (limit, bits, state) in [
            ("8388608", "0000008000003000", Note),
            ("8388608", "0000008000007000", Good),
            ("unlimited", "0000008000003000", Good),
        ] {
            let limits =
                format!("Max processes 9 9 processes\nMax locked memory {limit} {limit} bytes\n");
            let texts =
                [("proc/self/limits", &limits[..]), ("proc/self/status", &status(bits)[..])];
            let (_directory, files) = machine(&texts);
            let found = locked(&files).unwrap();
            assert_eq!(found.state, state, "{found:?}");
            assert_eq!(found.says.contains("8 MiB at most"), state == Note, "{found:?}");
        }
        assert_eq!(locked(&machine(&[]).1), None);
    }

    #[test]
    fn a_slow_clock_is_replaced_where_there_is_a_better_one() {
        let directory = "sys/devices/system/clocksource/clocksource0";
        for (available, lines) in [("tsc hpet", 1), ("hpet acpi_pm", 0)] {
            let (_directory, files) = machine(&[
                (&format!("{directory}/current_clocksource"), "hpet"),
                (&format!("{directory}/available_clocksource"), available),
            ]);
            assert_eq!(clock(&files).unwrap().run.len(), lines);
        }
    }
}

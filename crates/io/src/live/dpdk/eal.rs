//! DPDK's environment (EAL): started once a process, with the first port.

use super::ffi;
use std::fs;
use std::sync::OnceLock;

/// Pages that packets lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// Hugepages.
    Huge,
    /// Ordinary ones.
    Small,
}

/// Memory of packets without hugepages, in MB; mapped as it is touched.
const SMALL_MB: &str = "1024";
/// No PCI device has this address: where it alone is allowed, none is taken but those that are asked for.
const NOWHERE: &str = "ffff:ff:1f.7";

/// Starts the environment if nobody has.
///
/// # Errors
/// Why it cannot be started, in DPDK's words.
pub(super) fn start() -> Result<Pages, String> {
    static STARTED: OnceLock<Result<Pages, String>> = OnceLock::new();
    STARTED.get_or_init(start_now).clone()
}

fn start_now() -> Result<Pages, String> {
    let pages = if free_hugepages() > 0 { Pages::Huge } else { Pages::Small };
    ffi::start_eal(&arguments(pages))
        .map_err(|cause| said().unwrap_or_else(|| cause.to_string()))?;
    // What it says when all is well concerns nobody.
    ffi::take_log();
    Ok(pages)
}

fn arguments(pages: Pages) -> Vec<String> {
    // One thread, this one, on a core that it may run on; workers are threads of the run's.
    let core = format!("0@{}", ffi::first_core());
    let common = ["anabranch", "--no-telemetry", "-a", NOWHERE, "--lcores", &core];
    // Without files of their own, whether they are for other processes or for hugepages.
    let memory: &[&str] = match pages {
        Pages::Huge => &["--in-memory"],
        Pages::Small => &["--no-shconf", "--no-huge", "-m", SMALL_MB],
    };
    common.iter().chain(memory).map(|&word| word.to_owned()).collect()
}

/// Hugepages of all sizes that nobody uses.
pub(super) fn free_hugepages() -> usize {
    let Ok(sizes) = fs::read_dir("/sys/kernel/mm/hugepages") else { return 0 };
    let free = sizes.flatten().filter_map(|size| {
        fs::read_to_string(size.path().join("free_hugepages")).ok()?.trim().parse::<usize>().ok()
    });
    free.sum()
}

/// What DPDK says whenever a device cannot be had, or is given back.
const AFTERWARDS: [&str; 3] =
    ["EAL: Driver cannot attach", "EAL: Failed to attach device", "Device with port_id="];

/// What DPDK has said last, on one line, if that is of use.
pub(super) fn said() -> Option<String> {
    last_lines(&ffi::take_log())
}

fn last_lines(text: &str) -> Option<String> {
    let says = |line: &&str| {
        !line.is_empty() && !AFTERWARDS.iter().any(|afterwards| line.starts_with(afterwards))
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(says).collect();
    let last = lines.get(lines.len().saturating_sub(2)..).unwrap_or_default();
    (!last.is_empty()).then(|| last.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_afterwards_is_left_out() {
        let said = "one\n\ntwo\nthree \nEAL: Driver cannot attach the device (net_x0)\n";
        assert_eq!(last_lines(said).as_deref(), Some("two; three"));
        assert_eq!(last_lines("EAL: Failed to attach device on primary process\n"), None);
        assert_eq!(last_lines("Device with port_id=0 already stopped\n"), None);
    }
}

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
    let common = ["anabranch", "--in-memory", "--no-telemetry", "-a", NOWHERE, "--lcores", &core];
    let small: &[&str] = if pages == Pages::Small { &["--no-huge", "-m", SMALL_MB] } else { &[] };
    common.iter().chain(small).map(|&word| word.to_owned()).collect()
}

/// Hugepages of all sizes that nobody uses.
pub(super) fn free_hugepages() -> usize {
    let Ok(sizes) = fs::read_dir("/sys/kernel/mm/hugepages") else { return 0 };
    let free = sizes.flatten().filter_map(|size| {
        fs::read_to_string(size.path().join("free_hugepages")).ok()?.trim().parse::<usize>().ok()
    });
    free.sum()
}

/// What DPDK has said last, on one line; it says the cause before what fails for it.
pub(super) fn said() -> Option<String> {
    let text = ffi::take_log();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default();
    (!last.is_empty()).then(|| last.join("; "))
}

//! `nop` over DPDK's null device, beside DPDK's own `testpmd` on the same device: what the port itself costs, as the
//! device receives and sends for nothing.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Turns that each takes; the fastest counts.
const TURNS: u32 = 3;
/// Seconds of a turn; the peer takes some of them to begin.
const SECONDS: &str = "2";
const PEER_SECONDS: &str = "2.5";

/// The rows of the peer and of `nop`.
///
/// # Errors
/// What is missing, or does not run.
pub(super) fn measure() -> Result<Vec<Value>, String> {
    let (mut peer, mut ours) = (0_f64, 0_f64);
    for _ in 0..TURNS {
        peer = peer.max(testpmd()?);
        ours = ours.max(nop()?);
    }
    Ok(vec![row("testpmd-null", peer, peer), row("dpdk-null", ours, peer)])
}

fn row(port: &str, mpps: f64, peer: f64) -> Value {
    let ratio = super::ratio(Some(mpps), Some(peer));
    let mpps = (mpps * 1e3).round() / 1e3;
    json!({
        "nf": "nop", "port": port, "workers": 1, "flows": 0, "mpps": mpps, "loss": 0.0, "trials": TURNS,
        "latency_ns_at_50": null, "latency_ns_at_90": null, "ratio_to_peer": ratio,
    })
}

/// Million packets a second of `testpmd` that swaps the addresses of each.
fn testpmd() -> Result<f64, String> {
    let fails = |cause: std::io::Error| format!("dpdk-testpmd (`apt-get install dpdk`): {cause}");
    // It goes on until its input ends.
    let mut input = Command::new("sleep");
    let mut input = input.arg(PEER_SECONDS).stdout(Stdio::piped()).spawn().map_err(fails)?;
    let mut command = Command::new("dpdk-testpmd");
    command.args(["-l", "0,1", "--no-pci", "--in-memory", "--no-telemetry"]);
    command.args(["--vdev", "net_null0", "--vdev", "net_null1", "--", "--forward-mode=macswap"]);
    command.args([
        "--nb-cores=1",
        "--auto-start",
        "--record-core-cycles",
        "--total-num-mbufs=16384",
    ]);
    command.stdin(input.stdout.take().map_or_else(Stdio::null, Stdio::from));
    let output = command.output().map_err(fails);
    // It has ended by itself, or is of no use any more.
    let _ = input.kill();
    let _ = input.wait();
    let said = String::from_utf8_lossy(&output?.stdout).into_owned();
    cycles(&said)
        .ok_or_else(|| "dpdk-testpmd does not run: has it two cores and hugepages?".to_owned())
}

/// Million packets a second, from `CPU cycles/packet=28.75 (…) at 2700 MHz Clock`.
fn cycles(said: &str) -> Option<f64> {
    let (_, rest) = said.split_once("CPU cycles/packet=")?;
    let (cycles, rest) = rest.split_once(' ')?;
    let (_, rest) = rest.split_once(" at ")?;
    let (mhz, _) = rest.split_once(" MHz")?;
    let (cycles, mhz): (f64, f64) = (cycles.parse().ok()?, mhz.parse().ok()?);
    (cycles > 0.0).then_some(mhz / cycles)
}

/// Million packets a second of this program, on the core that `testpmd` works on.
fn nop() -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|cause| cause.to_string())?;
    let mut command = Command::new("taskset");
    command.args(["-c", "1"]).arg(program);
    command.args(["run", "nop", "--port", "lan=dpdk:net_null0", "--port", "wan=dpdk:net_null1"]);
    command.args(["--for", SECONDS, "--json", "-"]);
    let output = command.output().map_err(|cause| format!("taskset: {cause}"))?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned())?;
    report["mpps"].as_f64().ok_or_else(|| "the run has no rate".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_figure_is_read() {
        let said = "x\n  CPU cycles/packet=28.75 (total cycles=82 / total macswap packets=28) at 2875 MHz Clock\n";
        assert_eq!(cycles(said), Some(100.0));
        assert_eq!(cycles("CPU cycles/packet=0.00 (a) at 2875 MHz Clock"), None);
        assert_eq!(cycles("EAL: no free hugepages"), None);
        assert_eq!(row("dpdk-null", 50.0, 100.0)["ratio_to_peer"], 0.5);
    }
}

//! State in a real Redis: the program beside it, killed, and with a server that stands still.

#![allow(clippy::print_stdout)] // says what is skipped

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Bench;
use crate::state::{NAT, is_gone_on_with};

/// A server on the loopback, gone at the end.
struct Server {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Server {
    /// `None`, and why: there is none here.
    fn start() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            println!("skipped: redis-server is not installed (.ci/install tests)");
            return None;
        };
        let server = Self { child, port, _directory: directory };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed().as_secs() < 30, "the server does not serve");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    fn store(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Has it stand still (`STOP`) or go on (`CONT`).
    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_killed_run_is_gone_on_with_from_redis() {
    let Some(server) = Server::start() else { return };
    is_gone_on_with(&server.store(), "--workers 2", "--workers 3", false);
}

/// Named in a configuration file, in which the function's settings are.
#[test]
fn which_store_it_is_stands_in_the_configuration() {
    let Some(server) = Server::start() else { return };
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=50,packets=500,seed=1");
    let file = format!(
        "public = [\"203.0.113.1\"]\n[store]\nlocation = \"{}\"\ninstance = \"edge\"\nflush_ms = 2\n",
        server.store()
    );
    std::fs::write(bench.path("nat.toml"), file).unwrap();
    let line = "run nat --config nat.toml --in lan=a.pcap --json -";
    let restart = |line: &str| bench.run(line).expect(0).json()["store"]["restart"].clone();
    assert_eq!(restart(line)["entries"], 0);
    assert!(restart(line)["entries"].as_u64().unwrap() > 50, "it goes on");
    // Options win.
    assert_eq!(restart(&format!("{line} --instance other"))["entries"], 0);
    assert_eq!(restart(&format!("{line} --store memory"))["entries"], 0);
    let shown = bench.run("state show nat --config nat.toml --instance edge").expect(0);
    assert!(shown.out.contains("nat@edge@0@map@inside"), "{}", shown.out);
    // Commands that keep no state read the same file.
    bench.run("profile nat --config nat.toml --in lan=a.pcap --workers 2").expect(0);
}

#[test]
fn packets_go_on_while_the_store_stands_still() {
    let Some(server) = Server::start() else { return };
    let bench = Bench::new();
    bench.traffic("a.pcap", "flows=2000,packets=40000,seed=1");
    let line = format!("{NAT} --in lan=mem:a.pcap?loop=20 --json - --out wan=");
    let alone = bench.run(&format!("{line}alone.pcap")).expect(0).json();
    let store = format!("--store {}?timeout_ms=300", server.store());
    let words = format!("{line}kept.pcap {store}");
    let words: Vec<&str> = words.split(' ').collect();
    let mut running = bench.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    // Once it has stored something.
    let began = Instant::now();
    let shown = || bench.run(&format!("state show nat {}", store)).out;
    while !shown().contains("nat@main@") {
        assert!(began.elapsed().as_secs() < 30 && running.try_wait().unwrap().is_none());
    }
    server.signal("STOP");
    let kept = running.wait_with_output();
    server.signal("CONT");
    let kept: serde_json::Value = serde_json::from_slice(&kept.unwrap().stdout).unwrap();
    assert_eq!(kept["packets_out"], alone["packets_out"]);
    let sent = |name: &str| std::fs::read(bench.path(name)).unwrap();
    assert!(sent("alone.pcap") == sent("kept.pcap"), "a store changes nothing");
    let store = &kept["store"];
    assert!(store["waiting"].as_u64().unwrap() > 0 && store["failures"].as_u64().unwrap() > 0);
    assert!(store["pause_ns"]["max"].as_u64().unwrap() < 250_000_000, "{store}");
    assert!(kept["warnings"].to_string().contains("does not answer"), "{}", kept["warnings"]);
}

//! Hosts in network namespaces, two links into a third one, and the program there.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Programs that hosts run.
const TOOLS: [&str; 6] = ["ip", "ethtool", "curl", "nginx", "iperf3", "ping"];
/// Time for what is awaited.
const PATIENCE: Duration = Duration::from_secs(40);

/// One at a time: they share the machine's cores.
static ALONE: Mutex<()> = Mutex::new(());
static LABS: AtomicUsize = AtomicUsize::new(0);

/// Namespaces `client`, `nf` and `server`, which go when this goes; in `nf` the ends `lan` and `wan` of links to the
/// others, who call theirs `e`.
pub struct Lab {
    tag: String,
    directory: tempfile::TempDir,
    running: Mutex<Vec<Child>>,
    _alone: MutexGuard<'static, ()>,
}

const HOSTS: [&str; 3] = ["client", "nf", "server"];

impl Lab {
    /// `None`, with the reason printed: this machine has no namespaces for us, or lacks a program.
    pub fn open() -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let lacks = |tool: &&&str| {
            let which = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
            !which.is_ok_and(|which| which.status.success())
        };
        if let Some(tool) = TOOLS.iter().find(lacks) {
            println!("skipped: there is no `{tool}` (`.ci/install tests` installs it)");
            return None;
        }
        let tag = format!("dp{}-{}", std::process::id(), LABS.fetch_add(1, Ordering::Relaxed));
        let directory = tempfile::tempdir().unwrap();
        let lab = Self { tag, directory, running: Mutex::default(), _alone: alone };
        for host in HOSTS {
            let name = lab.namespace(host);
            if !ip(&format!("netns add {name}")).status.success() {
                println!(
                    "skipped: no network namespaces may be made here (that takes CAP_SYS_ADMIN)"
                );
                return None;
            }
            lab.sh(
                host,
                "ip link set lo up; echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6",
            );
        }
        lab.link("lan", "client");
        lab.link("wan", "server");
        Some(lab)
    }

    /// A link from `end` in `nf` to `e` at a host.
    pub fn link(&self, end: &str, host: &str) {
        let (peer, queues) = (self.namespace(host), "numrxqueues 2 numtxqueues 2");
        self.sh(
            "nf",
            &format!("ip link add {end} {queues} type veth peer name e {queues} netns {peer}"),
        );
        self.sh("nf", &format!("ip link set {end} up"));
        // DPDK's driver cuts off what is longer than a packet.
        self.sh(host, "ip link set e up; ethtool -K e tso off gso off");
    }

    fn namespace(&self, host: &str) -> String {
        format!("{}-{host}", self.tag)
    }

    fn command(&self, host: &str, line: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(host), "sh", "-c", line]);
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    /// What a command line writes at `host`; it must not fail.
    #[track_caller]
    pub fn sh(&self, host: &str, line: &str) -> String {
        let output = self.command(host, line).output().unwrap();
        let text =
            String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{host}: {line}: {text}");
        text
    }

    /// Whether a command line succeeds at `host`.
    pub fn succeeds(&self, host: &str, line: &str) -> bool {
        self.command(host, line).output().unwrap().status.success()
    }

    /// Of `lan` and `wan`, whether somebody has set them promiscuous, and how many want them so.
    pub fn promiscuity(&self) -> [(bool, u32); 2] {
        ["lan", "wan"].map(|end| {
            let shown = self.sh("nf", &format!("ip -d link show {end} || true"));
            let after = shown.split_once("promiscuity ").map_or("0", |(_, after)| after);
            let count = after.split_whitespace().next().unwrap_or("0");
            (shown.contains("PROMISC"), count.parse().unwrap())
        })
    }

    /// Starts what goes on until the end.
    pub fn serve(&self, host: &str, line: &str) {
        let mut command = self.command(host, &format!("exec {line}"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.running.lock().unwrap().push(child);
    }

    /// A file in the laboratory's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Waits until a command line succeeds at `host`.
    #[track_caller]
    pub fn until(&self, host: &str, line: &str) {
        let started = Instant::now();
        while !self.succeeds(host, line) {
            assert!(started.elapsed() < PATIENCE, "{host}: waited in vain for {line}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Why `anabranch run` does not run in `nf`.
    #[track_caller]
    pub fn refuses(&self, line: &str) -> String {
        let program = env!("CARGO_BIN_EXE_anabranch");
        let output = self.command("nf", &format!("{program} run {line} --for 1")).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{line}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Starts `anabranch run` in `nf`, and waits until it runs.
    #[track_caller]
    pub fn start(&self, line: &str) -> Function<'_> {
        let program = env!("CARGO_BIN_EXE_anabranch");
        // DPDK's AF_XDP keeps its program there; where it cannot be mounted, it says so.
        let bpf = "mount -t bpf bpf /sys/fs/bpf 2>/dev/null";
        let line = format!("{bpf}; exec {program} run {line} --for 300 --json report.json");
        let mut command = self.command("nf", &line);
        let errors = File::create(self.path("errors")).unwrap();
        let found = self.promiscuity();
        let process = command.stdout(Stdio::null()).stderr(errors).spawn().unwrap();
        let mut function = Function { lab: self, process, found };
        let started = Instant::now();
        while !function.said().contains("running: ") {
            let gone = function.process.try_wait().unwrap();
            assert!(gone.is_none() && started.elapsed() < PATIENCE, "{line}: {}", function.said());
            std::thread::sleep(Duration::from_millis(20));
        }
        function
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in self.running.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        for host in HOSTS {
            ip(&format!("netns del {}", self.namespace(host)));
        }
    }
}

fn ip(line: &str) -> Output {
    Command::new("ip").args(line.split_whitespace()).output().unwrap()
}

/// A function that runs; killed when it is dropped.
pub struct Function<'l> {
    lab: &'l Lab,
    process: Child,
    /// [`Lab::promiscuity`] before it was started.
    found: [(bool, u32); 2],
}

impl Function<'_> {
    /// What it has said on standard error.
    pub fn said(&self) -> String {
        fs::read_to_string(self.lab.path("errors")).unwrap_or_default()
    }

    /// The milliseconds that it has had of all cores so far.
    pub fn cpu_ms(&self) -> u64 {
        const TICK_MS: u64 = 10;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
        fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap() * TICK_MS).sum()
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Interrupts it, and reads its report. Interfaces are as they were.
    pub fn finish(mut self) -> serde_json::Value {
        self.signal("-INT");
        let status = self.process.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.said());
        assert_eq!(self.lab.promiscuity(), self.found);
        serde_json::from_slice(&fs::read(self.lab.path("report.json")).unwrap()).unwrap()
    }
}

impl Drop for Function<'_> {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

//! Hosts in network namespaces of their own, a network function between them, and what they do.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anabranch_runtime::report::RunReport;

/// Programs that hosts of every laboratory may run, from the packages that `.ci/install tests` installs.
const TOOLS: [&str; 10] =
    ["ip", "curl", "nginx", "iperf3", "nmap", "ping", "traceroute", "dnsmasq", "dig", "nft"];

/// One laboratory at a time: they share the machine's cores.
static ALONE: Mutex<()> = Mutex::new(());
static LABS: AtomicUsize = AtomicUsize::new(0);

/// How a port of the function is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    AfPacket,
    Tap,
    Xdp,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::AfPacket => "afpacket",
            Self::Tap => "tap",
            Self::Xdp => "xdp",
        }
    }
}

/// Namespaces that go when it is dropped.
pub struct Lab {
    tag: String,
    hosts: Vec<String>,
    directory: tempfile::TempDir,
    kind: Kind,
    _alone: MutexGuard<'static, ()>,
}

/// A program that is ended when it is dropped.
pub struct Process(Child);

impl Process {
    /// Waits for it to end by itself.
    pub fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where the function runs.
const MIDDLE: &str = "nf";
/// Seconds after which a function ends by itself, where its test has gone: longer than any soak.
const LONGEST_S: u64 = 900;

impl Lab {
    /// A laboratory whose function has ports of `kind`. `None`, with the reason printed: this machine has
    /// no namespaces for us, or lacks a program.
    pub fn open(kind: Kind) -> Option<Self> {
        Self::open_with(kind, &[])
    }

    /// The same, for hosts that run these programs too.
    pub fn open_with(kind: Kind, more: &[&str]) -> Option<Self> {
        for tool in TOOLS.iter().chain(more) {
            let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
            if !found.is_ok_and(|found| found.status.success()) {
                println!("skipped: there is no `{tool}` (`.ci/install tests` installs it)");
                return None;
            }
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let tag = format!("ab{}-{number}", std::process::id());
        let directory = tempfile::tempdir().unwrap();
        let mut lab = Self { tag, hosts: Vec::new(), directory, kind, _alone: alone };
        if !lab.add(MIDDLE) {
            println!("skipped: no network namespaces may be made here (that takes CAP_SYS_ADMIN)");
            return None;
        }
        let needs_tun = kind == Kind::Tap || more.contains(&"iodine");
        if needs_tun && File::open("/dev/net/tun").is_err() {
            println!("skipped: there is no /dev/net/tun");
            return None;
        }
        Some(lab)
    }

    /// With the hosts `a` and `b`, which a function is to join.
    pub fn of_two(kind: Kind) -> Option<Self> {
        let mut lab = Self::open(kind)?;
        lab.host("a");
        lab.host("b");
        Some(lab)
    }

    /// The name of `host`'s namespace.
    pub fn namespace(&self, host: &str) -> String {
        self.name(host)
    }

    fn name(&self, host: &str) -> String {
        format!("{}-{host}", self.tag)
    }

    fn add(&mut self, host: &str) -> bool {
        let name = self.name(host);
        if !ip(&format!("netns add {name}")).status.success() {
            return false;
        }
        self.hosts.push(host.to_owned());
        // No neighbours are looked for by IPv6, and every probe is told that its port is closed: Linux limits that,
        // for each address (behind a NAT all share one) and for all together.
        let quiet = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; \
                     echo 0 > /proc/sys/net/ipv4/icmp_ratemask";
        let quiet = Command::new("ip").args(["netns", "exec", &name, "sh", "-ec", quiet]).output();
        quiet.is_ok_and(|quiet| quiet.status.success()) && self.try_ip(host, "link set lo up")
    }

    /// A host without links.
    pub fn host(&mut self, host: &str) {
        assert!(self.add(host), "{host} cannot be made");
    }

    fn try_ip(&self, host: &str, line: &str) -> bool {
        ip(&format!("-n {} {line}", self.name(host))).status.success()
    }

    /// `ip` in the namespace of `host`.
    #[track_caller]
    pub fn ip(&self, host: &str, line: &str) {
        let output = ip(&format!("-n {} {line}", self.name(host)));
        assert!(output.status.success(), "ip {line} at {host}: {}", text(&output));
    }

    /// A link from `host`, where it is `name`, to `switch`, where it is a port of the bridge `sw`.
    pub fn plug(&self, host: &str, name: &str, switch: &str) {
        let peer = self.name(switch);
        self.ip(host, &format!("link add {name} type veth peer name to-{host} netns {peer}"));
        self.ip(host, &format!("link set {name} up"));
        self.ip(switch, &format!("link set to-{host} up master sw"));
    }

    /// A host that is an Ethernet switch.
    pub fn switch(&mut self, host: &str) {
        self.host(host);
        self.ip(host, "link add name sw type bridge forward_delay 0");
        self.ip(host, "link set sw up");
    }

    fn command(&self, host: &str, line: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(host), "sh", "-c", &format!("exec {line}")]);
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    /// Runs a command line at `host`.
    pub fn run(&self, host: &str, line: &str) -> Done {
        let output = self.command(host, &format!("timeout 60 {line}")).output().unwrap();
        Done { line: line.to_owned(), status: output.status, text: text(&output) }
    }

    /// Starts a server, or anything that goes on meanwhile, at `host`.
    pub fn serve(&self, host: &str, line: &str) -> Process {
        let mut command = self.command(host, line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Process(command.spawn().unwrap())
    }

    /// A command line that has a file or folder of the laboratory's directory in another's place, for itself only:
    /// `ip netns exec` gives every command mounts of its own.
    pub fn with(&self, name: &str, place: &str, line: &str) -> String {
        let name = self.path(name);
        format!("sh -c 'mount --bind {} {place} && exec {line}'", name.display())
    }

    /// A web server at `host`, with the files of the laboratory's directory; below `/slowly` at 200 kB/s. Who is at
    /// `/login` is given a session, without which there is nothing below `/inside`.
    pub fn web(&self, host: &str, port: u16) -> Process {
        let root = self.directory.path().display();
        let lines = format!(
            "daemon off; master_process off; pid {root}/{host}.pid; error_log /dev/null; user root; \
             worker_rlimit_nofile 8192; events {{ worker_connections 4096; }} http {{ access_log off; \
             add_header X-Host {host}; \
             client_body_temp_path {root}/t1; proxy_temp_path {root}/t2; fastcgi_temp_path {root}/t3; \
             uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5; server {{ listen {port}; root {root}; \
             location /slowly/ {{ alias {root}/; limit_rate 200k; }} \
             location /login {{ add_header Set-Cookie lang=en; \
             add_header Set-Cookie PHPSESSID=$request_id; return 204; }} \
             location /inside/ {{ if ($cookie_phpsessid = '') {{ return 403; }} alias {root}/; }} }} }}"
        );
        let file = self.path(&format!("{host}.conf"));
        fs::write(&file, lines).unwrap();
        let server = self.serve(host, &format!("nginx -c {}", file.display()));
        self.until_it_listens(host, port);
        server
    }

    /// An iperf3 server at `host`.
    pub fn iperf(&self, host: &str) -> Process {
        let server = self.serve(host, "iperf3 -s");
        self.until_it_listens(host, 5201);
        server
    }

    /// A name server at `host`.
    pub fn names(&self, host: &str, records: &str) -> Process {
        let line = format!(
            "dnsmasq --no-daemon --conf-file=/dev/null --no-resolv --no-hosts --bind-interfaces \
             --interface=e --user=root --pid-file= {records}"
        );
        let server = self.serve(host, &line);
        self.until_it_listens(host, 53);
        server
    }

    /// Waits until a server at `host` has opened its port, of TCP or UDP.
    pub fn until_it_listens(&self, host: &str, port: u16) {
        let files = "/proc/net/tcp /proc/net/tcp6 /proc/net/udp";
        let listening = format!("grep -qi ':{port:04X} 0*:0000 0[7A]' {files}");
        wait_for("a server", || self.run(host, &listening).status.success());
    }

    /// Packets that `host` has received by its link `e`.
    pub fn received(&self, host: &str) -> u64 {
        self.count(host, "rx_packets")
    }

    /// Packets that `host` has sent by its link `e`.
    pub fn sent(&self, host: &str) -> u64 {
        self.count(host, "tx_packets")
    }

    fn count(&self, host: &str, of: &str) -> u64 {
        let count = self.run(host, &format!("cat /sys/class/net/e/statistics/{of}")).expect();
        count.trim().parse().unwrap()
    }

    /// Prints what the kernel has counted at every host.
    pub fn print_counters(&self) {
        for host in &self.hosts {
            let counted = self.run(host, "grep -h Icmp /proc/net/snmp /proc/net/netstat").text;
            println!("{host}:\n{counted}{}", self.run(host, "ip -s link").text);
        }
    }

    /// A file in the laboratory's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A file of `len` bytes that do not repeat soon.
    pub fn file(&self, name: &str, len: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        let bytes: Vec<u8> = std::iter::repeat_with(next).take(len).collect();
        fs::write(self.path(name), &bytes).unwrap();
        bytes
    }

    /// Starts the function with each of `ports` attached to a host, where the link is called `e`.
    pub fn start(&self, nf: &str, options: &str, ports: &[(&str, &str)]) -> Function<'_> {
        for (port, host) in ports.iter().filter(|_| self.kind != Kind::Tap) {
            let peer = self.name(host);
            let queues = "numrxqueues 2 numtxqueues 2";
            self.ip(
                MIDDLE,
                &format!("link add p-{port} {queues} type veth peer name e {queues} netns {peer}"),
            );
            self.ip(MIDDLE, &format!("link set p-{port} up"));
            self.ip(host, "link set e up");
        }
        self.start_again(nf, &format!("{options} --workers 2"), ports)
    }

    /// Starts a function with these ports between `a`, which is 10.0.0.1 then, and `b`, 10.0.0.2.
    pub fn join(&self, nf: &str, options: &str, [one, other]: [&str; 2]) -> Function<'_> {
        let function = self.start(nf, options, &[(one, "a"), (other, "b")]);
        self.ip("a", "addr add 10.0.0.1/24 dev e");
        self.ip("b", "addr add 10.0.0.2/24 dev e");
        function
    }

    /// Starts the function on interfaces that are there.
    pub fn start_again(&self, nf: &str, options: &str, ports: &[(&str, &str)]) -> Function<'_> {
        let kind = self.kind;
        let mut line = format!("{} run {nf} {options}", env!("CARGO_BIN_EXE_anabranch"));
        for (port, _) in ports {
            line += &format!(" --port {port}={}:p-{port}", kind.word());
        }
        line += &format!(" --for {LONGEST_S} --listen nf.sock --json report.json");
        line += " --report report.html";
        let errors = self.path("errors");
        let mut command = self.command(MIDDLE, &line);
        command.stdout(Stdio::null()).stderr(File::create(&errors).unwrap());
        let process = Process(command.spawn().unwrap());
        let said = || fs::read_to_string(&errors).unwrap_or_default();
        let mut function = Function { lab: self, process, ports: Vec::new() };
        wait_for(&line, || {
            let gone = function.process.0.try_wait().unwrap();
            assert!(gone.is_none(), "{line}: {}", said());
            said().contains("running: ")
        });
        for (port, host) in ports {
            function.ports.push(format!("p-{port}"));
            if kind == Kind::Tap {
                let to = self.name(host);
                self.ip(MIDDLE, &format!("link set p-{port} netns {to} name e"));
                self.ip(host, "link set e up");
            }
        }
        function
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in &self.hosts {
            ip(&format!("netns del {}", self.name(host)));
        }
    }
}

/// A function that runs.
pub struct Function<'l> {
    lab: &'l Lab,
    process: Process,
    ports: Vec<String>,
}

impl Function<'_> {
    /// What it has said on standard error.
    pub fn said(&self) -> String {
        fs::read_to_string(self.lab.path("errors")).unwrap()
    }

    /// What it has done so far.
    pub fn report(&self) -> RunReport {
        let program = env!("CARGO_BIN_EXE_anabranch");
        let done = self.lab.run(MIDDLE, &format!("{program} top nf.sock --json"));
        serde_json::from_str(&done.expect()).unwrap()
    }

    /// Memory that it has in the machine's, in kB.
    pub fn resident_kb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Gives it a command.
    pub fn control(&self, command: &str) -> Done {
        let program = env!("CARGO_BIN_EXE_anabranch");
        self.lab.run(MIDDLE, &format!("{program} control nf.sock {command}"))
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.process.0.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Interrupts it, and once more when it says that it waits for its store. Its report, and for how long it waited.
    pub fn give_up(mut self) -> (RunReport, Duration) {
        self.signal("-INT");
        wait_for("it to say what it waits for", || self.said().contains("waiting at most 10 s"));
        let said = Instant::now();
        self.signal("-INT");
        let status = self.process.0.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.said());
        (read(&self.lab.path("report.json")), said.elapsed())
    }

    /// Kills it at once. Its interfaces stay, but for taps, and [`Lab::start_again`] starts it on them.
    pub fn kill(self) {
        drop(self.process);
    }

    /// Interrupts it, and reads its report. Interfaces are left as they were found.
    pub fn finish(mut self) -> RunReport {
        self.signal(if self.lab.kind == Kind::AfPacket { "-INT" } else { "-TERM" });
        let status = self.process.0.wait().unwrap();
        let errors = fs::read_to_string(self.lab.path("errors")).unwrap();
        assert_eq!(status.code(), Some(0), "{errors}");
        if self.lab.kind != Kind::Tap {
            for port in &self.ports {
                let shown = ip(&format!("-d -n {} link show {port}", self.lab.name(MIDDLE)));
                let shown = text(&shown);
                assert!(shown.contains("promiscuity 0") && !shown.contains("xdp"), "{shown}");
            }
        }
        let page = fs::read_to_string(self.lab.path("report.html")).unwrap();
        let kind = self.lab.kind.word();
        assert!(self.ports.iter().all(|port| page.contains(&format!("{kind}:{port}"))), "{page}");
        read(&self.lab.path("report.json"))
    }
}

fn read(file: &Path) -> RunReport {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// What the function has logged.
pub fn log(report: &RunReport) -> Vec<&str> {
    report.log.iter().map(|line| &line.text[..]).collect()
}

/// What a command line came to.
pub struct Done {
    line: String,
    status: ExitStatus,
    pub text: String,
}

impl Done {
    #[track_caller]
    pub fn expect(self) -> String {
        assert!(self.status.success(), "{}: {}\n{}", self.line, self.status, self.text);
        self.text
    }

    pub fn fails(&self) -> bool {
        !self.status.success()
    }
}

fn ip(line: &str) -> Output {
    Command::new("ip").args(line.split_whitespace()).output().unwrap()
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[track_caller]
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Everything read was sent or dropped for a reason, and what was sent besides was made by the function.
#[track_caller]
pub fn assert_adds_up(report: &RunReport) {
    let dropped: u64 = report.drops.values().sum();
    assert_eq!(
        report.packets_read + report.packets_emitted,
        report.packets_out + dropped,
        "{:?}",
        report.drops
    );
    assert!(report.complete && report.workers.len() == 2);
    for port in &report.ports {
        let live = port.live.as_ref().unwrap();
        assert_eq!((live.queues, live.reopened, live.link_downs), (2, 0, 0), "{port:?}");
    }
}

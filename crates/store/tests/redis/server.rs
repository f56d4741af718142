//! Real servers: each in a fresh directory, on the loopback, gone at the end.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use redis::{Cmd, Connection, FromRedisValue, RedisResult};

use crate::cable::Cable;

/// The server's program: `ANABRANCH_REDIS_SERVER`, a path to `valkey-server` for one, or Redis.
fn program() -> String {
    std::env::var("ANABRANCH_REDIS_SERVER").unwrap_or_else(|_| "redis-server".into())
}

/// Whether there is a server to test with; says so if not. One that was asked for has to be there.
#[allow(clippy::print_stdout)] // a test that is skipped says why
pub fn available() -> bool {
    let there = Command::new(program()).arg("--version").output().is_ok();
    if !there {
        let asked = std::env::var_os("ANABRANCH_REDIS_SERVER").is_some();
        assert!(!asked, "ANABRANCH_REDIS_SERVER: cannot run {}", program());
        println!("skipped: redis-server is not installed (.ci/install tests)");
    }
    there
}

/// A running server.
pub struct Server {
    child: Option<Child>,
    directory: tempfile::TempDir,
    arguments: Vec<String>,
    pub port: u16,
    pub cable: Option<Cable>,
}

impl Server {
    /// A server with these arguments beside its own; it listens on its port and on a socket.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_behind(None, arguments)
    }

    /// The same, behind a cable if there is one.
    pub fn start_behind(cable: Option<Cable>, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let mut server = Self { child: None, directory, arguments, port: free_port(), cable };
        server.restart();
        server
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    fn host(&self) -> String {
        self.cable.as_ref().map_or("127.0.0.1".to_owned(), Cable::host)
    }

    /// `host:port`.
    pub fn node(&self) -> String {
        format!("{}:{}", self.host(), self.port)
    }

    /// Starts it again with what is in its directory.
    pub fn restart(&mut self) {
        self.kill();
        let path = self.directory.path();
        let here = || Command::new(program());
        let mut command = self.cable.as_ref().map_or_else(here, |cable| cable.command(&program()));
        if self.arguments.iter().any(|argument| argument == "--sentinel") {
            command.arg(path.join("sentinel.conf"));
        }
        let (port, socket) = (self.port.to_string(), self.socket());
        command.args(["--port", &port, "--bind", &self.host(), "--unixsocket"]).arg(&socket);
        command.arg("--dir").arg(path).args(["--save", "", "--protected-mode", "no"]);
        command.args(&self.arguments).stdout(Stdio::null()).stderr(Stdio::null());
        let sentinel = self.arguments.iter().any(|argument| argument == "--sentinel");
        if sentinel {
            std::fs::write(path.join("sentinel.conf"), "").unwrap();
        }
        self.child = Some(command.spawn().unwrap());
        // A server that loads what it kept listens, and answers each command that it is loading.
        until("the server serves", || self.serves());
    }

    /// Whether it answers, and has loaded what it kept; who wants a password or TLS first has said so.
    fn serves(&self) -> bool {
        let Ok(mut stream) = UnixStream::connect(self.socket()) else { return false };
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut answer = [0; 8];
        let asked = stream.write_all(b"PING\r\n").and_then(|()| stream.read(&mut answer));
        asked.is_ok_and(|bytes| bytes > 0) && answer != *b"-LOADING"
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends the process a signal: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// A connection beside the driver's, which no cut cable is in the way of.
    pub fn connect(&self) -> Connection {
        self.connected().unwrap()
    }

    fn connected(&self) -> RedisResult<Connection> {
        let mut words = self.arguments.iter();
        let password = words.find(|word| *word == "--requirepass").and_then(|_| words.next());
        let query = password.map_or(String::new(), |password| format!("?pass={password}"));
        let address = format!("redis+unix://{}{query}", self.socket().display());
        let client = redis::Client::open(address)?;
        client.get_connection_with_timeout(Duration::from_secs(2))
    }

    pub fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = Cmd::new();
        command.arg(words);
        command.query(&mut self.connect()).unwrap()
    }

    /// The number behind `name` and whatever else is before it in that section of what it tells of itself, 0 if none.
    pub fn number(&self, section: &str, name: &str) -> u64 {
        let told = self.ask::<String>(&["INFO", section]);
        let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.map(|line| line.rsplit('=').next().unwrap_or(line));
        number.map_or(0, |number| number.parse().unwrap())
    }

    /// How often it has answered with this error.
    pub fn errors(&self, code: &str) -> u64 {
        self.number("errorstats", &format!("errorstat_{code}"))
    }

    /// Whether it says, and this stands in that section of what it tells of itself. A sentinel that makes it the
    /// master has it close its connections, this one too.
    pub fn says(&self, section: &str, what: &str) -> bool {
        let ask = |mut connection| redis::cmd("INFO").arg(section).query::<String>(&mut connection);
        self.connected().and_then(ask).is_ok_and(|told| told.contains(what))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for at most a minute.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port that nobody listens on, and 10000 above it one for the cluster's bus; both below those that the kernel
/// gives connections (32768 and up): a server whose bus has none ends after it has begun to listen.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 10_000 + (std::process::id() % 1_200) as u16 * 10;
    loop {
        let port = base + NEXT.fetch_add(1, Ordering::Relaxed);
        let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
}

/// A master, its replica and a sentinel that knows them as `main`.
pub struct Watched {
    pub master: Server,
    pub replica: Server,
    pub sentinel: Server,
}

impl Watched {
    pub fn start() -> Self {
        Self::start_with(&[], &[])
    }

    /// The same; servers and sentinel want to hear passwords, `s3cret` and `watch`.
    pub fn start_guarded() -> Self {
        let servers = ["--requirepass", "s3cret", "--masterauth", "s3cret"];
        Self::start_with(&servers, &["--requirepass", "watch"])
    }

    fn start_with(of_servers: &[&str], of_sentinel: &[&str]) -> Self {
        let master = Server::start(of_servers);
        let port = master.port.to_string();
        let follows = ["--replicaof", "127.0.0.1", &port];
        let replica = Server::start(&[of_servers, &follows].concat());
        until("the replica follows", || replica.says("replication", "master_link_status:up"));
        let sentinel = Server::start(&[&["--sentinel"], of_sentinel].concat());
        sentinel.ask::<()>(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &port, "1"]);
        if let [_, password, ..] = of_servers {
            sentinel.ask::<()>(&["SENTINEL", "SET", "main", "auth-pass", password]);
        }
        // A second of it may have gone by already when the master goes: nobody takes over at once.
        sentinel.ask::<()>(&["SENTINEL", "SET", "main", "down-after-milliseconds", "1600"]);
        sentinel.ask::<()>(&["SENTINEL", "SET", "main", "failover-timeout", "2000"]);
        until("the sentinel knows the replica", || sentinel.says("sentinel", "slaves=1"));
        Self { master, replica, sentinel }
    }

    /// By the sentinel, and one that is not there.
    pub fn address(&self) -> String {
        self.address_of("", "")
    }

    /// The same with a user and password before, and something behind.
    pub fn address_of(&self, user: &str, query: &str) -> String {
        let sentinel = self.sentinel.node();
        format!("redis+sentinel://{user}127.0.0.1:1,{sentinel}/main?timeout_ms=300{query}")
    }
}

/// A replica takes over however long a machine with other work has kept it from its master.
const OF_CLUSTER: [&str; 6] = [
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "1000",
    "--cluster-replica-validity-factor",
    "0",
];

/// Masters with all slots between them, and a replica of the first.
pub struct Cluster {
    pub masters: Vec<Server>,
    pub replica: Option<Server>,
}

impl Cluster {
    pub fn start(with_replica: bool) -> Self {
        let masters: Vec<Server> = (0..3).map(|_| Server::start(&OF_CLUSTER)).collect();
        for (master, range) in masters.iter().zip([(0, 5_460), (5_461, 10_922), (10_923, 16_383)]) {
            let range = [range.0.to_string(), range.1.to_string()];
            master.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]);
            master.ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &masters[0].port.to_string()]);
        }
        let all_ok = |servers: &[Server]| {
            servers.iter().all(|one| {
                let state = one.ask::<String>(&["CLUSTER", "INFO"]);
                let known = format!("cluster_known_nodes:{}", servers.len());
                state.contains("cluster_state:ok") && state.contains(&known)
            })
        };
        until("the cluster works", || all_ok(&masters));
        let replica = with_replica.then(|| Self::add_replica(&masters[0]));
        Self { masters, replica }
    }

    /// One more master, which has no slot; all know it.
    pub fn add_master(&mut self) {
        let added = Self::meet(&self.masters[0]);
        let id: String = added.ask(&["CLUSTER", "MYID"]);
        for other in &self.masters {
            until("the others know the new one", || {
                let nodes = other.ask::<String>(&["CLUSTER", "NODES"]);
                nodes.lines().any(|line| line.starts_with(&id) && !line.contains("handshake"))
            });
            let id: String = other.ask(&["CLUSTER", "MYID"]);
            until("it knows the others", || {
                added.ask::<String>(&["CLUSTER", "NODES"]).contains(&id)
            });
        }
        until("it works", || {
            added.ask::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
        });
        self.masters.push(added);
    }

    /// A server that knows `one` of a cluster.
    fn meet(one: &Server) -> Server {
        let added = Server::start(&OF_CLUSTER);
        added.ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &one.port.to_string()]);
        let id: String = one.ask(&["CLUSTER", "MYID"]);
        until("they have met", || added.ask::<String>(&["CLUSTER", "NODES"]).contains(&id));
        added
    }

    fn add_replica(master: &Server) -> Server {
        let replica = Self::meet(master);
        let id: String = master.ask(&["CLUSTER", "MYID"]);
        replica.ask::<()>(&["CLUSTER", "REPLICATE", &id]);
        until("the replica follows", || replica.says("replication", "master_link_status:up"));
        until("the others know the replica", || master.says("replication", "connected_slaves:1"));
        replica
    }

    pub fn address(&self) -> String {
        let nodes: Vec<String> = self.masters.iter().map(Server::node).collect();
        format!("redis+cluster://{}?timeout_ms=500", nodes.join(","))
    }
}

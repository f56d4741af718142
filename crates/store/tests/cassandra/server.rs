//! A real Cassandra: from its Maven artefacts, in a fresh directory, on the loopback, gone at the end.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cable::Cable;

/// Where the recipe is: how to configure and start it.
const RECIPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/cassandra");
/// Longest that it may take to start.
const START: Duration = Duration::from_secs(120);

/// The libraries that a release is. `None`, with the reason printed: they are not there.
#[allow(clippy::print_stdout)] // a test that is skipped says why
fn libraries(release: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cassandra-{release}"));
    let is_there = folder.join("complete").is_file();
    if !is_there || Command::new("java").arg("-version").output().is_err() {
        println!("skipped: there is no Cassandra {release} (`make stores` says how to get it)");
        return None;
    }
    Some(folder)
}

/// A running server, alone or a node of a cluster.
pub struct Server {
    child: Option<Child>,
    libraries: PathBuf,
    directory: tempfile::TempDir,
    /// Its number, from 1 on.
    node: u8,
    /// The host of the first node, where there are several.
    seed: Option<String>,
    /// For clients and for other nodes, the same of all nodes, and for its management.
    ports: [u16; 3],
    pub cable: Option<Cable>,
}

impl Server {
    /// A server of this release, unless none can be had.
    pub fn start(release: &str) -> Option<Self> {
        Self::start_with(release, "")
    }

    /// The same with more settings.
    pub fn start_with(release: &str, more: &str) -> Option<Self> {
        let mut server = Self::nodes(release, 1)?.pop()?;
        std::fs::write(server.directory.path().join("more.yaml"), more).unwrap();
        server.restart();
        Some(server)
    }

    /// The same behind a cable, if there is one.
    pub fn start_behind(cable: Option<Cable>, release: &str) -> Option<Self> {
        let mut server = Self::nodes(release, 1)?.pop()?;
        server.cable = cable;
        server.restart();
        Some(server)
    }

    /// So many nodes of one cluster, unless none can be had; each behind a cable, where there are some.
    pub fn cluster(release: &str, nodes: u8) -> Option<Vec<Self>> {
        let mut nodes = Self::nodes(release, nodes)?;
        let cables = Cable::star(nodes.len() as u32).into_iter().flatten();
        nodes.iter_mut().zip(cables).for_each(|(node, cable)| node.cable = Some(cable));
        let seed = nodes[0].host();
        nodes.iter_mut().for_each(|node| node.seed = Some(seed.clone()));
        // Others ask the first how they join.
        let (first, others) = nodes.split_at_mut(1);
        for some in [first, others] {
            some.iter_mut().for_each(Self::spawn);
            some.iter_mut().for_each(Self::await_start);
        }
        Some(nodes)
    }

    /// Nodes that are not started yet.
    fn nodes(release: &str, nodes: u8) -> Option<Vec<Self>> {
        let libraries = libraries(release)?;
        // Below those that the system gives to clients: one would find itself at the other end.
        let mut free = (10_000 + (std::process::id() % 5_000) as u16..)
            .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
        let [port, storage] = [(); 2].map(|()| free.next().unwrap());
        let node = |node| Self {
            child: None,
            libraries: libraries.clone(),
            directory: tempfile::tempdir().unwrap(),
            node,
            seed: None,
            ports: [port, storage, free.next().unwrap()],
            cable: None,
        };
        Some((1..=nodes).map(node).collect())
    }

    fn host(&self) -> String {
        let here = || format!("127.0.0.{}", self.node);
        self.cable.as_ref().map_or_else(here, Cable::host)
    }

    /// `host:port`.
    pub fn node(&self) -> String {
        format!("{}:{}", self.host(), self.ports[0])
    }

    pub fn address(&self, options: &str) -> String {
        self.address_in("anabranch", options)
    }

    /// Of another key space.
    pub fn address_in(&self, keyspace: &str, options: &str) -> String {
        format!("cassandra://{}/{keyspace}?{options}", self.node())
    }

    /// The address of them all.
    pub fn address_of(nodes: &[Self], options: &str) -> String {
        let hosts: Vec<String> = nodes.iter().map(Self::node).collect();
        format!("cassandra://{}/anabranch?{options}", hosts.join(","))
    }

    /// Starts it again with what is in its directory.
    pub fn restart(&mut self) {
        self.kill();
        self.spawn();
        self.await_start();
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn spawn(&mut self) {
        let output = File::create(self.log()).unwrap();
        let start = format!("{RECIPE}/start");
        let here = || Command::new(&start);
        let mut command = self.cable.as_ref().map_or_else(here, |cable| cable.command(&start));
        command.arg(&self.libraries).arg(self.directory.path());
        command.args(self.ports.map(|port| port.to_string()));
        command.arg(self.host()).args(&self.seed);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        self.child = Some(command.spawn().unwrap());
    }

    fn await_start(&mut self) {
        let began = Instant::now();
        while TcpStream::connect(self.node()).is_err() {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            if ended.is_some() || began.elapsed() > START {
                panic!("it does not start: {}", std::fs::read_to_string(self.log()).unwrap());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts it again with nothing.
    pub fn restart_empty(&mut self) {
        self.kill();
        for kept in ["data", "commitlog", "hints", "caches", "cdc"] {
            // What was never made is not there.
            let _ = std::fs::remove_dir_all(self.directory.path().join(kept));
        }
        self.restart();
    }

    pub fn signal(&self, signal: &str) {
        let process = self.child.as_ref().unwrap().id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &process]).status().unwrap();
        assert!(sent.success());
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

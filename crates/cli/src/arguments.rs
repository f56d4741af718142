//! The command line: every subcommand and option, with the help that `--help`, the man pages and
//! the completions show.

use std::path::PathBuf;
use std::time::Duration;

use anabranch_io::traffic::MAX_FLOWS;
use anabranch_runtime::steer::SHARDS;
use clap::{Args, Parser, Subcommand};

use crate::store::{BEHIND_MS, FLUSH_MS};

/// What a script can rely on; shown at the end of `--help` and in the man page.
const EXIT_CODES: &str = "\
Exit codes:
   0  done
   2  the command line is wrong, or an output would overwrite an input
   3  a setting, configuration file, control command or edited plan is wrong
   4  an input cannot be read, ends early or is not a capture; no interface or thread can be had
   5  an input's link type is not supported
   6  an output cannot be written
   7  there is no such network function
   8  a network function cannot be analysed, planned as asked or measured, or there is no key
   9  many cores do not do what one core does (`verify`)
  70  a fault in Anabranch itself
 130  a run over interfaces was interrupted twice; `bench` was interrupted";

/// Runs network functions, written once as sequential code, on one core or many.
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, after_help = EXIT_CODES)]
#[command(max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a network function over captures, traces in memory or generated traffic.
    Run(Box<RunArguments>),
    /// Watch a run over interfaces: rates, workers, drops, tables.
    Top(crate::live::arguments::TopArguments),
    /// Give a command to the network function of a run over interfaces.
    Control(crate::live::arguments::ControlArguments),
    /// Copy packets that enter, leave or are dropped by a run over interfaces into a capture.
    Capture(crate::live::arguments::CaptureArguments),
    /// Follow packets of a capture: call path, every access to state, what becomes of them.
    Trace(TraceArguments),
    /// Check whether this machine is ready for live ports, and say what to run where it is not.
    Doctor(DoctorArguments),
    /// List the network functions, or describe one: settings, drop reasons, commands.
    Nfs(NfsArguments),
    /// Print every call path of a network function.
    Paths(PathsArguments),
    /// Plan how a network function runs on many cores: which packets must meet, keys, and why.
    Plan(PlanArguments),
    /// Profile a network function in transactions: what makes workers wait for each other, at which
    /// lines, and what to change.
    Profile(ProfileArguments),
    /// Verify that a network function on many cores does what it does on one.
    Verify(VerifyArguments),
    /// Find keys of receive-side scaling, and check them.
    Rss(crate::rss::arguments::RssArguments),
    /// Show the state of network functions that a store keeps.
    State(StateArguments),
    /// Generate traffic and write it to a capture.
    Traffic(TrafficArguments),
    /// Measure network functions against the same job written by hand.
    Bench(BenchArguments),
    /// Write a crate with one network function, its test and a program that runs it.
    New(NewArguments),
    /// Print completions for a shell, to be sourced or saved where the shell looks for them.
    Completions(CompletionsArguments),
    /// Print the manual page, of the program or of one subcommand, or write all of them.
    Man(ManArguments),
}

/// `anabranch run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Sources:  FILE or pcap:FILE   a capture (pcap or pcapng)
          mem:FILE?loop=N     a capture held in memory, N times over
          mem:FILE?for=10s    the same, again and again for so long (us, ms, s, m or h)
          gen:KEY=VALUE,...   generated traffic, see `anabranch traffic --help`
Sinks:    FILE or pcap:FILE   a capture
          null                nothing; counted only
Ports:    afpacket:INTERFACE  packet sockets on an Ethernet interface (CAP_NET_RAW)
          tap:NAME            a TAP interface, made if there is none (CAP_NET_ADMIN)
          xdp:INTERFACE       AF_XDP sockets (CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_IPC_LOCK)
          dpdk:DEVICE         DPDK: a PCI address, or a virtual device and its arguments, as in
                              dpdk:net_af_packet0,iface=eth1,qpairs=2 (built with --features dpdk)

Example:  anabranch run firewall --in inside=in.pcap --in outside=out.pcap --out passed.pcap
          anabranch run nat --set 'public=[\"203.0.113.1\"]' --port lan=afpacket:eth1 \\
            --port wan=afpacket:eth2 --workers 2")]
pub(crate) struct RunArguments {
    /// The network function, as `anabranch nfs` lists it.
    pub(crate) nf: String,
    /// What a port receives; once a port.
    #[arg(long = "in", value_name = "PORT=SOURCE")]
    pub(crate) inputs: Vec<String>,
    /// Where what leaves a port goes; a port without one is counted only.
    #[arg(long = "out", value_name = "PORT=SINK")]
    pub(crate) outputs: Vec<String>,
    /// The interface that a port is, instead of inputs and outputs; once a port. The run then goes on
    /// until it is interrupted.
    #[arg(long = "port", value_name = "PORT=KIND:INTERFACE", conflicts_with_all = ["inputs", "outputs"])]
    pub(crate) ports: Vec<String>,
    /// End a run over interfaces after so many seconds.
    #[arg(long = "for", value_name = "SECONDS")]
    pub(crate) seconds: Option<Seconds>,
    /// Be asked and commanded over a socket that is made at PATH, while a run over interfaces goes on
    /// (`anabranch top`, `control`); of its owner alone.
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    #[arg(default_missing_value = crate::live::arguments::SOCKET)]
    pub(crate) listen: Option<PathBuf>,
    /// Answer http://ADDRESS:PORT/metrics in the format of Prometheus, while a run over interfaces goes on.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = endpoint)]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// Change a setting; wins over the configuration file.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Read settings from a TOML file.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Workers, one a core; `all` takes every core.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) workers: Workers,
    /// Several workers follow this plan, which may have been edited, instead of one made now.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "nic"])]
    pub(crate) plan: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) planning: PlanningArguments,
    /// Leave every shard with its worker; else shards, with their state, move away from workers that
    /// have more to do than others.
    #[arg(long)]
    pub(crate) no_balance: bool,
    /// Seed of everything random: two runs of one worker with the same seed are the same.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Give the network function a command at a time after the first packet, in ns, us, ms, s or m, as in
    /// "at=1.5s add-backend address=10.0.0.1"; without `at=` before it.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) control: Vec<String>,
    #[command(flatten)]
    pub(crate) keeping: StoreArguments,
    /// Write the report as JSON; `-` is standard output, which then holds nothing else.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the report as an HTML page with charts; `-` is standard output, which then holds nothing else.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// How a run keeps its state; a configuration file says the same in its table `[store]`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct StoreArguments {
    /// Keep the state in a store: memory:DIRECTORY, redis://HOST:PORT or cassandra://HOST/KEYSPACE, with TLS
    /// rediss or cassandra+tls. A later run of the same instance goes on with it, by one worker or several;
    /// where each is to own its part, one worker whose state several are to go on with is given --strategy
    /// shared-nothing. In a configuration file: the table [store] with location, instance, flush_ms,
    /// when_behind and behind_ms.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<String>,
    /// Name of the instance in the store, `main` where none is given; two that run at once have different names.
    #[arg(long, value_name = "NAME", value_parser = instance_name)]
    pub(crate) instance: Option<String>,
    /// Milliseconds from one flush to the store to the next, 1 by default; packets wait for none.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(FLUSH_MS))]
    pub(crate) flush_ms: Option<u64>,
    /// What to do when the store is behind, as one that is slow or gone; keep-on by default.
    #[arg(long, value_name = "WORD")]
    pub(crate) when_behind: Option<WhenBehind>,
    /// Milliseconds that the oldest change may wait until the store is behind, 1000 by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(BEHIND_MS))]
    pub(crate) behind_ms: Option<u64>,
}

impl StoreArguments {
    /// An option that is given and says how state is kept.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let all = [
            ("--instance", self.instance.is_some()),
            ("--flush-ms", self.flush_ms.is_some()),
            ("--when-behind", self.when_behind.is_some()),
            ("--behind-ms", self.behind_ms.is_some()),
        ];
        all.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }
}

/// What to do when a store is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WhenBehind {
    /// Go on; what waits is shown, and bounded by the state.
    KeepOn,
    /// Take no new flows until it has caught up: what needs room in a table is answered as if there were
    /// none.
    RefuseNew,
}

/// `anabranch state`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:  anabranch run firewall --in inside=in.pcap --store memory:state --instance edge-1
          anabranch state show firewall --store memory:state --merged --json")]
pub(crate) struct StateArguments {
    #[command(subcommand)]
    pub(crate) command: StateCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Print what a store has of a network function.
    Show(StateShowArguments),
}

/// `anabranch state show`.
#[derive(Debug, Args)]
pub(crate) struct StateShowArguments {
    /// The network function.
    pub(crate) nf: String,
    /// The store, as `run --store` names it.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<String>,
    /// The configuration file whose table [store] names it, where --store does not.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Only this instance.
    #[arg(long, value_name = "NAME", value_parser = instance_name)]
    pub(crate) instance: Option<String>,
    /// One value over all cores, shards and instances: counts add up, entries unite.
    #[arg(long)]
    pub(crate) merged: bool,
    /// Print one JSON document with all content instead of a line for each object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `anabranch trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Filters:  in | out | dropped  all that enters, what is not dropped, what is; all where none is named
          port=NAME           the port by which packets come
          host=ADDRESS        an IP address that packets come from or go to
          reason=WORD         dropped for this reason

Example:  anabranch trace firewall --in inside=in.pcap --in outside=out.pcap dropped
          anabranch trace nat --set 'public=[\"203.0.113.1\"]' --in lan=lan.pcap --packet 17")]
pub(crate) struct TraceArguments {
    /// The network function.
    pub(crate) nf: String,
    /// Which packets are shown: those that meet all filters; all are handled.
    #[arg(value_name = "FILTER")]
    pub(crate) filters: Vec<String>,
    /// What a port receives; once a port.
    #[arg(long = "in", value_name = "PORT=SOURCE", required = true)]
    pub(crate) inputs: Vec<String>,
    /// Show the packet of this number, counted from 0 over all inputs in the order of time.
    #[arg(long, value_name = "N", conflicts_with = "filters")]
    pub(crate) packet: Option<u64>,
    /// Show at most so many.
    #[arg(long, value_name = "N", default_value = "10", value_parser = at_least_one)]
    pub(crate) count: usize,
    /// Change a setting; wins over the configuration file.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Read settings from a TOML file.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Give the network function a command at a time of the capture, as for `run`.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) control: Vec<String>,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `anabranch doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 whatever is found, of which a script reads `state` in --json (good, note or wrong);
4 where an interface that is named is not there.")]
pub(crate) struct DoctorArguments {
    /// The interfaces to look at; every Ethernet interface when none is named.
    #[arg(value_name = "INTERFACE")]
    pub(crate) interfaces: Vec<String>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `anabranch nfs`.
#[derive(Debug, Args)]
pub(crate) struct NfsArguments {
    /// The network function to describe.
    pub(crate) nf: Option<String>,
}

/// `anabranch paths`.
#[derive(Debug, Args)]
pub(crate) struct PathsArguments {
    /// The network function.
    pub(crate) nf: String,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `anabranch plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:  anabranch plan nat --nic e810 -o nat.toml
          anabranch plan nat --check nat.toml")]
pub(crate) struct PlanArguments {
    /// The network function.
    #[arg(required_unless_present = "all")]
    pub(crate) nf: Option<String>,
    /// Plan every function there is, and print what they come to as a table (Markdown).
    #[arg(long, conflicts_with_all = ["nf", "out", "json", "html", "check"])]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) planning: PlanningArguments,
    /// Seed of the choice among the keys.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the plan as a TOML file that may be edited; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write call paths, accesses, constraints and plan as an HTML page; `-` is standard output.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) html: Option<PathBuf>,
    /// Instead of planning, check a plan that was edited.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["out", "json", "html", "strategy", "nic", "seed"])]
    pub(crate) check: Option<PathBuf>,
}

/// What a plan is to be like.
#[derive(Debug, Args)]
pub(crate) struct PlanningArguments {
    /// The NIC that keys are for, as `anabranch rss nics` lists them.
    #[arg(long, value_name = "MODEL", default_value = "e810")]
    pub(crate) nic: String,
    /// How several workers share state; `auto` takes the first of the others that is right.
    #[arg(long, value_enum, default_value_t = StrategyChoice::Auto)]
    pub(crate) strategy: StrategyChoice,
}

impl Default for PlanningArguments {
    fn default() -> Self {
        Self { nic: "e810".to_owned(), strategy: StrategyChoice::Auto }
    }
}

/// A strategy that may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StrategyChoice {
    /// Whatever is right and shares least.
    Auto,
    /// Every shard has its own state.
    SharedNothing,
    /// Some state sharded, some shared.
    Mixed,
    /// All state shared, changed by all workers at once in transactions.
    Transactional,
    /// One lock around everything.
    Lock,
}

/// `anabranch profile`.
#[derive(Debug, Args)]
#[command(after_help = "\
Sources:  as for `anabranch run`: FILE, mem:FILE?loop=N, mem:FILE?for=10s, gen:KEY=VALUE,...

Example:  anabranch profile bridge --in p0=gen:packets=1000000 --in p1=gen:packets=1000000
          anabranch profile nat --set 'public=[\"203.0.113.1\"]' --in lan=lan.pcap --in wan=wan.pcap \\
            --workers 4 --apply --save nat.toml")]
pub(crate) struct ProfileArguments {
    /// The network function.
    pub(crate) nf: String,
    /// What a port receives; once a port.
    #[arg(long = "in", value_name = "PORT=SOURCE", required = true)]
    pub(crate) inputs: Vec<String>,
    /// Change a setting; wins over the configuration file.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Read settings from a TOML file.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Workers, two at least; `all` takes every core.
    #[arg(long, value_name = "N", default_value = "2")]
    pub(crate) workers: Workers,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Give the network function a command at a time of the capture, as for `run`.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) control: Vec<String>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the profile as an HTML page; `-` is standard output.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) html: Option<PathBuf>,
    /// Try each recipe that a setting can follow on the same traffic, and those that helped together.
    #[arg(long)]
    pub(crate) apply: bool,
    /// Write the settings with the recipes that helped to a TOML file; `-` is standard output.
    #[arg(long, value_name = "FILE", requires = "apply")]
    pub(crate) save: Option<PathBuf>,
}

/// `anabranch verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:  anabranch verify nat
          anabranch verify firewall --in inside=in.pcap --workers 8 --json
          anabranch verify nat --plan nat.toml --seed 7 --seeds 1")]
pub(crate) struct VerifyArguments {
    /// The network function.
    pub(crate) nf: String,
    /// A capture that is sent before random traffic, under every seed, its packets among those of
    /// --packets, of which half are random all the same; once a port.
    #[arg(long = "in", value_name = "PORT=CAPTURE")]
    pub(crate) inputs: Vec<String>,
    /// The plan to follow, as `anabranch plan -o` writes it, instead of making one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "nic"])]
    pub(crate) plan: Option<PathBuf>,
    /// Follow the plan even where it breaks a constraint, to see what comes of that.
    #[arg(long, requires = "plan")]
    pub(crate) unchecked: bool,
    #[command(flatten)]
    pub(crate) planning: PlanningArguments,
    /// Workers that are simulated.
    #[arg(long, value_name = "N", default_value = "4")]
    pub(crate) workers: Workers,
    /// Packets under each seed, those of captures (--in) among them. Captures are sent whole: where they
    /// have more than half of these packets, half as many random ones come after them.
    #[arg(long, value_name = "N", default_value = "100000", value_parser = at_least_one)]
    pub(crate) packets: usize,
    /// Seeds of traffic, interleaving and settings. After more than one, half as many packets again
    /// are led to call paths that none of them has taken.
    #[arg(long, value_name = "N", default_value = "20", value_parser = at_least_one)]
    pub(crate) seeds: usize,
    /// The first of them. Seed 1 has the settings as they are; others draw those that are a choice
    /// and that nobody has set.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Change a setting; wins over the configuration file.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Read settings from a TOML file.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Show the call paths that no packet has taken, with their conditions and lines.
    #[arg(long)]
    pub(crate) unreached: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `anabranch traffic`.
#[derive(Debug, Args)]
#[command(after_help = "\
Traffic:  flows=N  packets=N  uniform | zipf=EXPONENT | mice=SHARE  elephants=SHARE
          size=64 | size=imix | size=64-1500  tcp=SHARE  tcp | udp  handshake=BOOL  rst=SHARE
          ipv6=SHARE  reply=SHARE  churn=FLOWS_A_SECOND  rate=PACKETS_A_SECOND  seed=N
          inside=PREFIX  outside=PREFIX  hosts=N  servers=N  port=N  macs=N

Example:  anabranch traffic flows=1000,zipf=1.1 --out inside=in.pcap --out outside=out.pcap")]
pub(crate) struct TrafficArguments {
    /// The traffic, as KEY=VALUE,KEY=VALUE…
    pub(crate) traffic: String,
    /// The capture to write: of what one side sends, or of both where none is named.
    #[arg(long = "out", value_name = "[inside=|outside=]FILE", required = true)]
    pub(crate) outputs: Vec<String>,
}

/// What `bench --strategies` takes.
const BENCH_STRATEGIES: [&str; 7] =
    ["all", "sequential", "shared-nothing", "mixed", "transactional", "lock", "mutex"];

/// `anabranch bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// The network functions to measure; when none is named, all that have a job written by hand.
    /// `synthetic/read-write-zipf` is one of the loads of `synthetic`; `bridge/each-frame` and
    /// `bridge/refresh-interval`, `nat/tight-pool` and `nat/overprovisioned`, `anti-ddos/exact` and
    /// `anti-ddos/stale` are measured where they are named: before a recipe of the profile, and after it.
    pub(crate) nfs: Vec<String>,
    /// Measure workers that share state by each of these strategies, in turn, and nothing beside them but one
    /// worker alone (`sequential`). `mutex` is one mutex around the whole function.
    #[arg(long, value_name = "WORD,WORD", value_delimiter = ',', value_parser = BENCH_STRATEGIES)]
    #[arg(conflicts_with_all = ["ports", "stores"])]
    pub(crate) strategies: Vec<String>,
    /// Measure `nop` and `nat` over live ports on virtual links, against Linux's bridge and nftables over the
    /// same ones: the highest rate with under 0.1 % loss (RFC 2544), and latency below it. Takes root. With DPDK also
    /// `nop` over its null device, against `dpdk-testpmd`.
    #[arg(long, conflicts_with_all = ["flows", "workers", "settings"])]
    pub(crate) ports: bool,
    /// Measure functions (`nat`, `lb`, `firewall` and `counting` when none is named) without a store and with each of these,
    /// in turn: memory, durable (memory with files in the temporary directory), redis://HOST:PORT, … and how long a
    /// restart takes with what it has. `counting` is a counter of packets, which is also made to wait for the store.
    #[arg(long, value_name = "STORE,STORE", value_delimiter = ',', num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "memory,durable", conflicts_with = "ports")]
    pub(crate) stores: Option<Vec<String>>,
    /// Numbers of flows, one measurement each.
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    #[arg(default_values_t = [1_000, 65_536, 1_000_000])]
    #[arg(value_parser = one_to::<{ MAX_FLOWS as usize }>)]
    pub(crate) flows: Vec<usize>,
    /// Numbers of workers, one measurement each.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = [1])]
    #[arg(value_parser = one_to::<SHARDS>)]
    pub(crate) workers: Vec<usize>,
    /// Change a setting of functions without a job written by hand.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Write the results as JSON; `-` is standard output, which then holds nothing else.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl BenchArguments {
    /// The strategies that are asked for; none: not by strategies.
    pub(crate) fn strategies(&self) -> Vec<String> {
        if self.strategies.iter().any(|word| word == "all") {
            return BENCH_STRATEGIES[1..].iter().map(|&word| word.to_owned()).collect();
        }
        self.strategies.clone()
    }
}

/// `anabranch new`.
#[derive(Debug, Args)]
pub(crate) struct NewArguments {
    /// Name of the crate and of its network function; a directory of that name is made.
    pub(crate) name: String,
    /// The Anabranch checkout the crate is to build on.
    #[arg(long, value_name = "PATH")]
    pub(crate) anabranch: Option<PathBuf>,
}

/// `anabranch completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

/// `anabranch man`.
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// The subcommand to describe instead of the program, as in `man run` or `man rss key`.
    pub(crate) subcommand: Vec<String>,
    /// Write the pages of the program and of every subcommand into a directory.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "subcommand")]
    pub(crate) out: Option<PathBuf>,
}

/// A time in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl std::str::FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seconds, String> {
        let seconds: Option<f64> = text.strip_suffix('s').unwrap_or(text).parse().ok();
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        time.map(Seconds).ok_or_else(|| "write a number of seconds, such as 10 or 1.5".to_string())
    }
}

/// A number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workers {
    /// One a core.
    All,
    /// That many, at least one.
    Count(usize),
}

/// Workers that can be asked for; far above the cores of any machine, far below what a typing
/// error asks for.
const MAX_WORKERS: usize = 1024;

impl std::str::FromStr for Workers {
    type Err = String;

    fn from_str(text: &str) -> Result<Workers, String> {
        match text.parse() {
            _ if text == "all" => Ok(Workers::All),
            Ok(count) if (1..=MAX_WORKERS).contains(&count) => Ok(Workers::Count(count)),
            _ => Err(format!("write a number from 1 to {MAX_WORKERS}, or `all`")),
        }
    }
}

impl Workers {
    /// The number of workers on this machine.
    pub(crate) fn count(self) -> usize {
        match self {
            Workers::Count(count) => count,
            Workers::All => cores(),
        }
    }
}

/// A number of what is measured.
fn one_to<const MOST: usize>(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MOST).contains(count));
    count.ok_or_else(|| format!("write a number from 1 to {MOST}"))
}

/// A number of what there has to be one of, lest nothing is looked at and all is well.
fn at_least_one(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|&count| count > 0);
    count.ok_or_else(|| "write a number from 1 on".to_owned())
}

/// Where metrics are asked for.
fn endpoint(text: &str) -> Result<std::net::SocketAddr, String> {
    text.parse().map_err(|_| "write an address and a port, such as 127.0.0.1:9464".to_owned())
}

/// The name of an instance, as stores take it.
pub(crate) fn instance_name(text: &str) -> Result<String, String> {
    let scope = anabranch_store::Scope::new("nf", text, anabranch_store::Place::Instance);
    let wrong = |_| format!("write a name of 1 to {} bytes", anabranch_store::MOST_NAME_BYTES);
    scope.map(|_| text.to_owned()).map_err(wrong)
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn workers_are_a_sensible_number_or_all() {
        assert_eq!("all".parse(), Ok(Workers::All));
        assert_eq!("2".parse(), Ok(Workers::Count(2)));
        for wrong in ["0", "-1", "1025", "two", ""] {
            assert!(wrong.parse::<Workers>().is_err(), "{wrong}");
        }
        assert!(Workers::All.count() >= 1);
    }

    #[test]
    fn seconds_are_a_time() {
        assert_eq!("1.5".parse(), Ok(Seconds(Duration::from_millis(1_500))));
        assert_eq!("10s".parse(), Ok(Seconds(Duration::from_secs(10))));
        for wrong in ["", "-1", "soon", "1e300", "NaN"] {
            assert!(wrong.parse::<Seconds>().is_err(), "{wrong}");
        }
    }
}

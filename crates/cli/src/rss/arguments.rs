//! The command line of `rss`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `anabranch rss`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct RssArguments {
    #[command(subcommand)]
    pub(crate) command: RssCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RssCommand {
    /// Find keys under which packets meet that must, and spread otherwise.
    Key(RssKeyArguments),
    /// Say what a key does: whether it is symmetric, what it ignores, how it spreads a capture.
    Check(RssCheckArguments),
    /// List the NIC models with what they hash, or describe one.
    Nics(RssNicsArguments),
}

/// `anabranch rss key`.
#[derive(Debug, Args)]
#[command(after_help = "\
Constraint:  EQUALITY && EQUALITY ... || EQUALITY && ...
Equality:    FIELDS = FIELDS, each side one or more joined by ^ (exclusive or)
Fields:      p0.ipv4.src  p1.tcp.dst ...   of a packet that arrives at that port
             p0.src  .dst  .sport  .dport  addresses, IPv4 and IPv6; ports, TCP and UDP
             p0.src/24  p0.src[8..16]      some of its bits, from the most significant one
             p0'.src                       of a second packet at the same port
             80  0x1f  10.0.0.1  ...       a constant
All packets between which the constraint holds reach the same entry of the table.

Examples:    anabranch rss key --nic e810 --constraint 'p0.dst = p0.dst'
             anabranch rss key --nic cx6 --constraint \\
               'p0.src = p1.dst && p0.dst = p1.src && p0.sport = p1.dport && p0.dport = p1.sport'")]
pub(crate) struct RssKeyArguments {
    /// What must meet; several must all hold.
    #[arg(long, value_name = "CONSTRAINT", required = true)]
    pub(crate) constraint: Vec<String>,
    /// The NIC model, as `anabranch rss nics` lists it: one for all ports, or one a port.
    #[arg(long, value_name = "MODEL", required = true)]
    pub(crate) nic: Vec<String>,
    /// Bits of the hash that select the entry, of a table that all ports have: demand equality of those
    /// only. Default: of the largest one.
    #[arg(long, value_name = "N")]
    pub(crate) index_bits: Option<u32>,
    /// Another seed finds another key.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Traffic to balance: a capture of what port 0 receives, or p1=FILE for another port.
    #[arg(long = "in", value_name = "[PORT=]FILE")]
    pub(crate) inputs: Vec<String>,
    /// Where no key serves all packet classes, find one that serves most.
    #[arg(long)]
    pub(crate) partial: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `anabranch rss check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:  anabranch rss check --key 6d:5a:6d:5a:... --nic cx6 --in traffic.pcap --workers 8

Exit code: 0 whatever the key does; a script reads `broken` and `symmetric` in --json.")]
pub(crate) struct RssCheckArguments {
    /// The key in hexadecimal, with or without colons: 40 or 52 bytes.
    #[arg(long, value_name = "HEX")]
    pub(crate) key: String,
    /// The NIC model; by default x710 for 52 bytes and 82599 for 40.
    #[arg(long, value_name = "MODEL")]
    pub(crate) nic: Option<String>,
    /// Bits of the hash that select the entry, of a table that the NIC has. Default: of its largest one.
    #[arg(long, value_name = "N")]
    pub(crate) index_bits: Option<u32>,
    /// A constraint to check, as of `rss key`, about port 0.
    #[arg(long, value_name = "CONSTRAINT")]
    pub(crate) constraint: Vec<String>,
    /// A capture to spread.
    #[arg(long = "in", value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Workers over which the table's entries are dealt out.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: u16,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `anabranch rss nics`.
#[derive(Debug, Args)]
pub(crate) struct RssNicsArguments {
    /// The model to describe.
    pub(crate) model: Option<String>,
}

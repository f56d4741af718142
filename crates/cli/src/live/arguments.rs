//! The command lines that look at a living run.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::Seconds;

/// The socket of a run, where no other is named.
pub(crate) const SOCKET: &str = "/run/anabranch.sock";

/// `anabranch top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:  anabranch run nat … --port lan=xdp:eth1 --port wan=xdp:eth2 --listen /run/nat.sock
          anabranch top /run/nat.sock")]
pub(crate) struct TopArguments {
    /// The socket that the run was given by `--listen`.
    #[arg(value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
    /// Print the tables of this moment, and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print the report of this moment as JSON, and end.
    #[arg(long, conflicts_with = "once")]
    pub(crate) json: bool,
    /// Time between two looks.
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    pub(crate) every: Seconds,
}

/// `anabranch capture`.
#[derive(Debug, Args)]
#[command(after_help = "\
Filters:  in | out | dropped  what enters, leaves, is dropped; several of them; all where none is named
          port=NAME           a port of the network function
          host=ADDRESS        an IP address that packets come from or go to
          reason=WORD         dropped for this reason
          snap=BYTES          the first bytes of each packet

Example:  anabranch capture /run/nat.sock -o drops.pcapng dropped port=wan
          anabranch capture /run/nat.sock host=10.0.0.7 | tshark -r -")]
pub(crate) struct CaptureArguments {
    /// The socket that the run was given by `--listen`.
    #[arg(value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// Which packets are copied: those that meet all filters.
    #[arg(value_name = "FILTER")]
    pub(crate) filters: Vec<String>,
    /// Where the capture is written; `-` is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) out: PathBuf,
    /// End after so many seconds, instead of when interrupted.
    #[arg(long = "for", value_name = "SECONDS")]
    pub(crate) seconds: Option<Seconds>,
}

/// `anabranch control`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:  anabranch control /run/lb.sock drain-backend address=10.0.0.3 port=80")]
pub(crate) struct ControlArguments {
    /// The socket that the run was given by `--listen`.
    #[arg(value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// The command, as `anabranch nfs NF` describes it.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<String>,
}

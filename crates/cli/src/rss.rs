//! `rss`: keys of receive-side scaling, found, checked, and the NICs that take them.

pub(crate) mod arguments;
mod check;
mod configuration;
mod document;
mod key;
mod nics;
mod text;

use std::path::Path;

use anabranch_io::Trace;
use anabranch_nf::packet::Port;
use anabranch_nf::settings::nearest;
use anabranch_rss::{Nic, SampleFrame};

use crate::error::Error;
use arguments::{RssArguments, RssCommand};

/// Does what the command says.
///
/// # Errors
/// [`Error::Usage`] for a constraint, key or model that cannot be understood, [`Error::Analysis`]
/// when no key serves, [`Error::Input`] and [`Error::LinkType`] for captures, [`Error::Output`].
pub(crate) fn rss(arguments: &RssArguments) -> Result<(), Error> {
    match &arguments.command {
        RssCommand::Key(arguments) => key::key(arguments),
        RssCommand::Check(arguments) => check::check(arguments),
        RssCommand::Nics(arguments) => nics::nics(arguments),
    }
}

/// The model called `name`.
fn nic(name: &str) -> Result<&'static Nic, Error> {
    Nic::named(name).ok_or_else(|| {
        let names = || Nic::ALL.iter().map(|nic| nic.name);
        Error::Usage(match nearest(name, names()) {
            Some(meant) => format!("there is no NIC model `{name}`; did you mean `{meant}`?"),
            None => {
                let all: Vec<&str> = names().collect();
                format!("there is no NIC model `{name}`; there are: {}", all.join(", "))
            }
        })
    })
}

/// That `nic` has a table of 2^`index_bits` entries.
fn check_table(nic: &Nic, index_bits: u32) -> Result<(), Error> {
    let wrong = |cause: String| Err(Error::Usage(format!("--index-bits {index_bits}: {cause}")));
    if nic.has_table_of(index_bits) {
        return Ok(());
    }
    let sizes =
        nic.table_sizes.iter().map(|entries| format!("{} ({entries} entries)", entries.ilog2()));
    let of_device =
        nic.device_index_bits().map(|bits| format!("what the device has, {} at most", bits.end()));
    let sizes: Vec<String> = sizes.chain(of_device).collect();
    let title = nic.title;
    wrong(format!("{title} has no table of 2^{index_bits} entries: write {}", sizes.join(" or ")))
}

/// The frames of a capture, as they arrived at port number `port`.
fn frames(path: &Path, port: usize) -> Result<Vec<SampleFrame>, Error> {
    let trace = Trace::from_capture(path, Port::new(0));
    let trace = trace.map_err(|cause| Error::of_capture(&cause))?;
    let frame = |index| SampleFrame { port, bytes: trace.bytes(index).to_vec() };
    Ok((0..trace.len()).map(frame).collect())
}

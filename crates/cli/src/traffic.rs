//! `traffic`: generated traffic, written to captures.

use anabranch_io::capture::WriteError;
use anabranch_io::sink::Sinks;
use anabranch_io::source::Source;
use anabranch_io::spec::{PortBinding, SinkSpec, SpecError};
use anabranch_io::traffic::{TrafficSource, TrafficSpec};
use anabranch_nf::packet::Port;

use crate::arguments::TrafficArguments;
use crate::error::Error;
use crate::figures::{bytes, counted};
use crate::file::print;
use crate::progress::Progress;
use crate::run::of_spec;

/// The sides of generated traffic, in the order of their port numbers.
const SIDES: [&str; 2] = ["inside", "outside"];

/// Generates and writes.
///
/// # Errors
/// [`Error::Usage`] for traffic that cannot be understood, [`Error::Output`].
pub(crate) fn traffic(arguments: &TrafficArguments) -> Result<(), Error> {
    let spec: Result<TrafficSpec, SpecError> = arguments.traffic.parse();
    let spec = spec.map_err(|cause| Error::Usage(of_spec(&cause)))?;
    let outputs = arguments.outputs.iter().map(|text| side(text)).collect::<Result<Vec<_>, _>>()?;
    for (at, (port, _)) in outputs.iter().enumerate() {
        if outputs[..at].iter().any(|(before, _)| before == port) {
            let text = &arguments.outputs[at];
            return Err(Error::Usage(format!("--out {text}: what a side sends goes to one file")));
        }
    }
    print(&generate(&spec, &outputs)?)
}

/// Writes the traffic of `spec` to `outputs` and says how much it was.
///
/// # Errors
/// [`Error::Usage`] for traffic that contradicts itself, [`Error::Output`].
pub(crate) fn generate(
    spec: &TrafficSpec,
    outputs: &[(Option<Port>, SinkSpec)],
) -> Result<String, Error> {
    let source = TrafficSource::new(spec, None);
    let mut source = source.map_err(|cause| Error::Usage(cause.to_string()))?;
    let mut sinks = Sinks::open(outputs).map_err(output)?;
    let mut progress = Progress::start("traffic");
    while let Some(chunk) = source.next_chunk().map_err(|cause| Error::Input(cause.to_string()))? {
        sinks.write_chunk(&chunk).map_err(output)?;
        let done = source.progress();
        progress.update(done.done, done.fraction());
    }
    progress.finish();
    let written = summary(&sinks);
    sinks.finish().map_err(output)?;
    Ok(written)
}

/// An output with the port whose packets it takes.
fn side(text: &str) -> Result<(Option<Port>, SinkSpec), Error> {
    let usage = |cause: String| Error::Usage(format!("--out {text}: {cause}"));
    let binding: PortBinding<SinkSpec> = text.parse().map_err(|cause| usage(format!("{cause}")))?;
    match binding.port.as_deref() {
        None => Ok((None, binding.spec)),
        Some("inside") => Ok((Some(Port::new(0)), binding.spec)),
        Some("outside") => Ok((Some(Port::new(1)), binding.spec)),
        Some(other) => Err(usage(format!("`{other}` is no side; write inside= or outside="))),
    }
}

fn summary(sinks: &Sinks) -> String {
    let side = |(index, name): (u8, &str)| {
        let count = sinks.count(Port::new(index));
        format!("{name}: {}, {}\n", counted(count.packets, "packet"), bytes(count.bytes))
    };
    (0..).zip(SIDES).map(side).collect()
}

fn output(error: WriteError) -> Error {
    Error::Output(error.to_string())
}

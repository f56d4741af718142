//! Runs over live ports: which interface is which port, the start lines, and the end by a signal.

pub(crate) mod arguments;
pub(crate) mod client;
mod endpoint;
mod exposition;
mod metrics;
pub(crate) mod mtu;
mod pcapng;
#[cfg(feature = "terminal")]
mod screen;
pub(crate) mod speaker;
mod timely;
pub(crate) mod top;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anabranch_io::live::LiveSpec;
use anabranch_io::spec::PortBinding;
use anabranch_nf::NetworkFunction;
use anabranch_runtime::live::{Moment, run as run_live};
use anabranch_runtime::report::RunReport;
use anabranch_runtime::run::{Options, RunError};
use signal_hook::low_level;

use crate::error::Error;
use crate::progress::Progress;
use crate::run::PortNames;
use crate::signals::{INTERRUPTED, beside, stop_signal};
use endpoint::{Endpoint, SocketFile};
use mtu::Links;
use speaker::{Said, Speaker, last_words};

/// From where a run is seen and commanded; none, if nothing is named.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    /// A socket to be made.
    pub(crate) socket: Option<PathBuf>,
    /// Where metrics are asked for.
    pub(crate) metrics: Option<SocketAddr>,
}

/// The interface of each port, by the port's number; empty: the run is not over live ports.
///
/// # Errors
/// [`Error::Usage`]: a port without an interface or with two, or an interface that is two ports.
pub(crate) fn specs(
    bindings: &[PortBinding<LiveSpec>],
    ports: &PortNames,
) -> Result<Vec<LiveSpec>, Error> {
    let mut specs: Vec<Option<LiveSpec>> = vec![None; ports.0.len()];
    for PortBinding { port, spec } in bindings {
        let Some(port) = ports.find(port.as_deref())? else {
            let example = ports.0.first().map_or("PORT", String::as_str);
            return Err(Error::Usage(format!(
                "--port {spec}: say which port it is, as in `--port {example}={spec}`"
            )));
        };
        let is_same = |other: &LiveSpec| other.kernel_interface() == spec.kernel_interface();
        let twice = specs.iter().flatten().any(is_same);
        let place = specs.get_mut(usize::from(port.index()));
        match place.filter(|place| place.is_none() && !twice) {
            Some(place) => *place = Some(spec.clone()),
            None => {
                return Err(Error::Usage(format!(
                    "--port {spec}: each port is one interface, and each interface one port"
                )));
            }
        }
    }
    if bindings.is_empty() {
        return Ok(Vec::new());
    }
    let missing = specs.iter().zip(&ports.0).find(|(spec, _)| spec.is_none());
    match missing {
        Some((_, name)) => Err(Error::Usage(format!(
            "port `{name}` has no interface: give `--port {name}=afpacket:INTERFACE` too"
        ))),
        None => Ok(specs.into_iter().flatten().collect()),
    }
}

/// Time for a run to begin that is to end already.
const BEGINNING: Duration = Duration::from_secs(3);
/// Time between two looks at what interfaces carry.
const LOOKING: Duration = Duration::from_millis(100);

/// What a signal does while the end of a run waits for its store.
const GIVING_UP: &str = "another signal (Ctrl-C) gives that up, and the run ends without";

/// Runs over live ports until `duration` is over or SIGINT, SIGTERM or SIGHUP comes. A second signal ends the
/// program at once, but where the run is over and waits for its store: it does not any more then. One while ports are
/// being opened ends it soon.
///
/// # Errors
/// Outside: where the run was to be seen from cannot be opened; inside: it cannot begin.
pub(crate) fn run<F: NetworkFunction>(
    options: &Options,
    specs: &[LiveSpec],
    openings: &Openings,
    duration: Option<Duration>,
    progress: Progress,
) -> Result<Result<RunReport, RunError>, Error> {
    let (tell, requests) = channel();
    // Before there is anything that a signal would leave behind.
    let stop = stop_signal();
    let socket = openings.socket.as_deref();
    // Dropped when the run is over, which takes the socket away.
    let endpoint = socket.map(|path| Endpoint::open(path, tell.clone())).transpose()?;
    openings.metrics.map(|address| metrics::open(address, tell.clone())).transpose()?;
    let begun = Arc::new(AtomicBool::new(false));
    let file = endpoint.as_ref().map(|endpoint| endpoint.file().clone());
    end_what_does_not_begin(&stop, &begun, file)?;
    let mut started = Instant::now();
    let mut speaker = speak_by(progress);
    let mut links = Links::new(&options.making.settings, specs, &options.making.ports);
    let mut looked = Instant::now();
    let mut ended_by_signal = None;
    let done = run_live::<F>(options, specs, &requests, &mut |moment| {
        match moment {
            Moment::Ending(line) => {
                // The signal that ended it has been heard: one more gives up what is waited for.
                ended_by_signal.get_or_insert_with(|| stop.swap(false, Ordering::Relaxed));
                let line = line.map(|line| format!("store: {line}; {GIVING_UP}"));
                line.into_iter().for_each(|line| speaker.say(line));
                return !stop.load(Ordering::Relaxed);
            }
            Moment::Opened { port, about } => speaker.say(format!("port {port}: {about}")),
            Moment::Started(steering) => {
                begun.store(true, Ordering::Relaxed);
                // Opening a port may take seconds, which are none of the run.
                started = Instant::now();
                speaker.say(format!("running: {steering}"));
            }
            Moment::Logged(line) => {
                speaker.say(format!("{:?} (line {}): {}", line.level, line.source_line, line.text));
            }
            Moment::Stored(Some(why)) => speaker.say(format!("store: {why}")),
            Moment::Stored(None) => speaker.say("store: takes what changes again".to_owned()),
            Moment::Handled(packets) => {
                let part = |whole: Duration| {
                    (started.elapsed().as_secs_f64() / whole.as_secs_f64().max(1e-9)).min(1.0)
                };
                speaker.update(packets, duration.map(part));
                if looked.elapsed() >= LOOKING {
                    looked = Instant::now();
                    links.look(LiveSpec::mtu).into_iter().for_each(|line| speaker.say(line));
                }
            }
        }
        let over = duration.is_some_and(|duration| started.elapsed() >= duration);
        !over && !stop.load(Ordering::Relaxed)
    });
    begun.store(true, Ordering::Relaxed);
    // What is left is to be written, which a further signal ends at once.
    stop.fetch_or(ended_by_signal.unwrap_or(false), Ordering::Relaxed);
    speaker.finish();
    Ok(done)
}

/// Says what a run says by way of `progress`.
fn speak_by(progress: Progress) -> Speaker {
    let mut progress = Some(progress);
    Speaker::start(move |said| match (said, &mut progress) {
        (Said::Line(line), Some(progress)) => progress.say(&line),
        (Said::Far(packets, None), Some(progress)) => progress.draw(packets, None),
        (Said::Far(packets, part), Some(progress)) => progress.update(packets, part),
        (Said::Over, progress) => progress.take().into_iter().for_each(Progress::finish),
        _ => {}
    })
}

/// Ends the program some time after `stop` is set where the run has not begun: a device may wait for its other end, and
/// asks nobody meanwhile whether it is to go on.
///
/// # Errors
/// [`Error::Input`]: there is no thread for it.
fn end_what_does_not_begin(
    stop: &Arc<AtomicBool>,
    begun: &Arc<AtomicBool>,
    socket: Option<SocketFile>,
) -> Result<(), Error> {
    let (stop, begun) = (Arc::clone(stop), Arc::clone(begun));
    let has_begun = move || begun.load(Ordering::Relaxed);
    let wait = move || {
        while !has_begun() && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(BEGINNING / 40);
        }
        let until = Instant::now() + BEGINNING;
        while !has_begun() && Instant::now() < until {
            std::thread::sleep(BEGINNING / 40);
        }
        if !has_begun() {
            socket.iter().for_each(SocketFile::remove);
            // Where nobody reads, what was said before keeps this one waiting.
            last_words("run: ended before its ports were open".to_owned());
            low_level::exit(INTERRUPTED);
        }
    };
    beside(wait)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn bound(texts: &[&str]) -> Result<Vec<String>, String> {
        let bindings: Vec<_> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let ports = PortNames(vec!["lan".to_string(), "wan".to_string()]);
        let specs = specs(&bindings, &ports).map_err(|error| error.to_string())?;
        Ok(specs.iter().map(LiveSpec::to_string).collect())
    }

    #[test]
    fn each_port_is_one_interface() {
        let specs = bound(&["wan=tap:t0", "lan=afpacket:veth1"]);
        assert_eq!(specs, Ok(vec!["afpacket:veth1".to_string(), "tap:t0".to_string()]));
        assert_eq!(bound(&[]), Ok(vec![]));
        for (wrong, part) in [
            (&["lan=tap:a"][..], "port `wan` has no interface"),
            (&["lan=tap:a", "lan=tap:b"], "each port is one interface"),
            (&["lan=tap:a", "wan=tap:a"], "each port is one interface"),
            (&["lan=xdp:a", "wan=dpdk:net_af_packet0,iface=a"], "each port is one interface"),
            (
                &["lan=dpdk:net_af_xdp0,iface=a", "wan=dpdk:net_af_packet0,qpairs=2,iface=a"],
                "each port is one interface",
            ),
            (&["tap:a"], "say which port"),
            (&["dmz=tap:a"], "there is no port `dmz`"),
        ] {
            assert!(bound(wrong).is_err_and(|error| error.contains(part)), "{wrong:?}");
        }
    }
}

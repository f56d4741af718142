//! Progress of long work, on standard error: a bar that moves on a terminal, a plain line every few
//! seconds elsewhere, nothing at all for work that is over at once.

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::figures::{percent, rate, thousands};
use crate::file::tell;

/// Time between two plain lines, and before the first one.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// Redraws of the bar a second.
const DRAWS_A_SECOND: u8 = 8;

/// Share of the work below which nothing can be said of the time left.
const FORESEEABLE: f64 = 0.02;
/// Steps of the bar; its length is a share of the work, whatever the work is counted in.
const STEPS: u64 = 10_000;

const BAR: &str = "{prefix} [{bar:30}] {percent:>3} %  {msg}  {eta} left";
const SPINNER: &str = "{prefix} {spinner}  {msg}  {elapsed}";

/// Shows how far a piece of work is.
pub(crate) struct Progress {
    what: String,
    started: Instant,
    /// The work begins with the first update.
    begins: bool,
    /// The bar, on a terminal.
    bar: Option<ProgressBar>,
    /// When the next plain line is due.
    next: Instant,
}

impl Progress {
    /// Begins to show the progress of `what`.
    pub(crate) fn start(what: &str) -> Progress {
        let started = Instant::now();
        let next = started + LINE_EVERY;
        let bar = std::io::stderr().is_terminal().then(|| bar(what));
        Progress { what: what.to_string(), started, begins: false, bar, next }
    }

    /// The same of a run, which begins with the first update: what is made ready before takes its time, and is none of
    /// the work.
    pub(crate) fn of_run(what: &str) -> Progress {
        Progress { begins: true, ..Progress::start(what) }
    }

    /// Begins now, if that is still to come.
    fn begin(&mut self) {
        if std::mem::take(&mut self.begins) {
            self.started = Instant::now();
            self.next = self.started + LINE_EVERY;
            self.bar.iter().for_each(|bar| {
                bar.reset_elapsed();
                bar.reset_eta();
            });
        }
    }

    /// Says that `packets` are done, which is `fraction` (0 to 1) of the work where that is known.
    /// Cheap enough to be called every few thousand packets.
    pub(crate) fn update(&mut self, packets: u64, fraction: Option<f64>) {
        self.begin();
        let now = Instant::now();
        if self.bar.is_some() {
            self.draw(packets, fraction);
        } else if now >= self.next {
            self.next = now + LINE_EVERY;
            tell(&line(&self.what, packets, fraction, now - self.started));
        }
    }

    /// As `update`, on a terminal only: lines about work that has no end would fill a journal.
    pub(crate) fn draw(&mut self, packets: u64, fraction: Option<f64>) {
        self.begin();
        let Some(bar) = &self.bar else { return };
        match fraction {
            Some(fraction) => bar.set_position((fraction * STEPS as f64) as u64),
            None => bar.set_style(style(SPINNER)),
        }
        bar.set_message(speed(packets, self.started.elapsed()));
    }

    /// Prints a line that stays.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| tell(&format!("{}: {text}", self.what))),
            None => tell(&format!("{}: {text}", self.what)),
        }
    }

    /// Takes the bar away: the tables that follow say it all.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Shows how far several passes over the same packets are, one after the other.
pub(crate) struct Passes {
    progress: Progress,
    /// In all, and those that are over.
    all: usize,
    over: usize,
    /// Packets of those that are over, and of the one that goes on.
    before: u64,
    packets: u64,
}

impl Passes {
    /// So many passes, of which `progress` shows how far all are.
    pub(crate) fn of(progress: Progress, all: usize) -> Passes {
        Passes { progress, all, over: 0, before: 0, packets: 0 }
    }

    /// Says how far the pass is that goes on.
    pub(crate) fn update(&mut self, packets: u64, fraction: Option<f64>) {
        let (packets, fraction) = self.so_far(packets, fraction);
        self.progress.update(packets, fraction);
    }

    fn so_far(&mut self, packets: u64, fraction: Option<f64>) -> (u64, Option<f64>) {
        self.packets = packets;
        let part = |fraction: f64| (self.over as f64 + fraction) / self.all.max(1) as f64;
        (self.before + packets, fraction.map(part))
    }

    /// A pass is over.
    pub(crate) fn next(&mut self) {
        self.over += 1;
        self.before += std::mem::take(&mut self.packets);
    }

    /// As [`Progress::finish`].
    pub(crate) fn finish(self) {
        self.progress.finish();
    }
}

/// Does `work`, of which nothing can be counted, and says what it is and for how long it has lasted.
pub(crate) fn meanwhile<T>(what: &str, said: &'static str, work: impl FnOnce() -> T) -> T {
    let progress = Progress::start(what);
    let (done, is_over) = mpsc::channel::<()>();
    let done = thread::scope(|scope| {
        match &progress.bar {
            Some(bar) => {
                bar.set_style(style(SPINNER));
                bar.set_message(said);
                bar.enable_steady_tick(Duration::from_secs(1) / u32::from(DRAWS_A_SECOND));
            }
            None => {
                let started = progress.started;
                let tell_now_and_then = move || {
                    while is_over.recv_timeout(LINE_EVERY) == Err(RecvTimeoutError::Timeout) {
                        let lasts_s = started.elapsed().as_secs();
                        tell(&format!("{what}: {said}: {lasts_s} s"));
                    }
                };
                // Where no thread can be had it is done without a word.
                let _ = thread::Builder::new().spawn_scoped(scope, tell_now_and_then);
            }
        }
        let result = work();
        drop(done);
        result
    });
    progress.finish();
    done
}

fn bar(what: &str) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(DRAWS_A_SECOND);
    let bar = ProgressBar::with_draw_target(Some(STEPS), target);
    bar.with_style(style(BAR)).with_prefix(what.to_string())
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━━╌")
}

fn speed(packets: u64, elapsed: Duration) -> String {
    if packets == 0 {
        return "no packets yet".to_owned();
    }
    let per_second = packets as f64 / elapsed.as_secs_f64().max(1e-9);
    format!("{} packets, {} Mpps", thousands(packets), rate(per_second / 1e6))
}

/// One plain line: how much, how fast, which part of the whole, how long still.
fn line(what: &str, packets: u64, fraction: Option<f64>, elapsed: Duration) -> String {
    let mut line = format!("{what}: {}", speed(packets, elapsed));
    if let Some(fraction) = fraction.filter(|fraction| *fraction >= FORESEEABLE) {
        let left_s = elapsed.as_secs_f64() * (1.0 - fraction) / fraction;
        line.push_str(&format!(", {} done, {left_s:.0} s left", percent(fraction)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_long_it_will_take() {
        let text = line("nat", 250_000, Some(0.25), Duration::from_millis(500));
        assert_eq!(text, "nat: 250,000 packets, 0.500 Mpps, 25.0 % done, 2 s left");
        let text = line("nat", 10, None, Duration::from_secs(1));
        assert_eq!(text, "nat: 10 packets, 0.000 Mpps");
        assert_eq!(line("nat", 0, Some(0.0), Duration::ZERO), "nat: no packets yet");
        let text = line("nat", 0, Some(0.131), Duration::from_secs(2));
        assert_eq!(text, "nat: no packets yet, 13.1 % done, 13 s left");
    }

    #[test]
    fn what_is_made_ready_before_a_run_is_none_of_it() {
        let hour = Duration::from_secs(3_600);
        for (mut progress, is_run) in
            [(Progress::of_run("nat"), true), (Progress::start("nat"), false)]
        {
            progress.started = progress.started.checked_sub(hour).unwrap();
            progress.update(0, Some(0.5));
            assert_eq!(progress.started.elapsed() < hour, is_run);
            let begun = progress.started;
            progress.update(0, Some(0.6));
            assert_eq!(progress.started, begun, "it begins once");
        }
    }

    #[test]
    fn passes_are_counted_together() {
        let mut passes = Passes::of(Progress::start("nat"), 4);
        assert_eq!(passes.so_far(50, Some(0.5)), (50, Some(0.125)));
        assert_eq!(passes.so_far(100, Some(1.0)), (100, Some(0.25)));
        passes.next();
        assert_eq!(passes.so_far(50, Some(0.5)), (150, Some(0.375)));
        assert_eq!(passes.so_far(60, None), (160, None));
    }

    #[test]
    fn the_bars_templates_are_valid() {
        for template in [BAR, SPINNER] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }
}

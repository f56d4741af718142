//! Progress of long work, on standard error: a bar that moves on a terminal, a plain line every few
//! seconds elsewhere, nothing at all for work that is over at once.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::figures::{percent, ratio, thousands};

/// Time between two plain lines, and before the first one.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// Redraws of the bar a second.
const DRAWS_A_SECOND: u8 = 8;

const BAR: &str = "{msg} [{bar:30}] {percent:>3} %  {human_pos} packets  {per_sec}  {eta} left";
const SPINNER: &str = "{msg} {spinner} {human_pos} packets  {per_sec}  {elapsed}";

/// Shows how far a piece of work is.
pub(crate) struct Progress {
    what: String,
    /// Packets there will be, where that is known.
    total: Option<u64>,
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Lines { started: Instant, next: Instant },
}

impl Progress {
    /// Begins to show the progress of `what`, of `total` packets.
    pub(crate) fn start(what: &str, total: Option<u64>) -> Progress {
        let shown = if std::io::stderr().is_terminal() {
            Shown::Bar(bar(what, total))
        } else {
            let started = Instant::now();
            let next = started + LINE_EVERY;
            Shown::Lines { started, next }
        };
        let what = what.to_string();
        Progress { what, total, shown }
    }

    /// Says that `packets` are done. Cheap enough to be called every few thousand packets.
    pub(crate) fn update(&mut self, packets: u64) {
        match &mut self.shown {
            Shown::Bar(bar) => bar.set_position(packets),
            Shown::Lines { started, next } => {
                let now = Instant::now();
                if now >= *next {
                    *next = now + LINE_EVERY;
                    let text = line(&self.what, packets, self.total, now - *started);
                    // There is nowhere left to report that standard error is gone.
                    let _ = writeln!(std::io::stderr(), "{text}");
                }
            }
        }
    }

    /// Takes the bar away: the tables that follow say it all.
    pub(crate) fn finish(self) {
        if let Shown::Bar(bar) = self.shown {
            bar.finish_and_clear();
        }
    }
}

fn bar(what: &str, total: Option<u64>) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(DRAWS_A_SECOND);
    let template = if total.is_some() { BAR } else { SPINNER };
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━━╌");
    let bar = ProgressBar::with_draw_target(total, target);
    bar.with_style(style).with_message(what.to_string())
}

/// One plain line: how much, which part of the whole, how fast, how long still.
fn line(what: &str, packets: u64, total: Option<u64>, elapsed: Duration) -> String {
    let per_second = packets as f64 / elapsed.as_secs_f64().max(1e-9);
    let mut line = format!("{what}: {} packets", thousands(packets));
    if let Some(total) = total {
        let share = percent(ratio(packets.min(total), total));
        line.push_str(&format!(" ({share})"));
    }
    line.push_str(&format!(", {} a second", thousands(per_second as u64)));
    if let Some(total) = total.filter(|_| packets > 0) {
        let left_s = total.saturating_sub(packets) as f64 / per_second;
        line.push_str(&format!(", {left_s:.0} s left"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_long_it_will_take() {
        let text = line("nat", 250_000, Some(1_000_000), Duration::from_millis(500));
        assert_eq!(
            text,
            "nat: 250,000 packets (25.0 %), 500,000 a second, 2 s left"
        );
        let text = line("nat", 10, None, Duration::from_secs(1));
        assert_eq!(text, "nat: 10 packets, 10 a second");
        assert!(!line("nat", 0, Some(10), Duration::ZERO).contains("left"));
    }

    #[test]
    fn the_bars_templates_are_valid() {
        for template in [BAR, SPINNER] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }
}

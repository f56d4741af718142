//! The screen of `anabranch top`: rates since the last look, beside what has come together so far.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anabranch_runtime::report::{RunReport, StoreReport};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::crossterm::terminal::disable_raw_mode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::widgets::{Block, Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::low_level;

use super::LOOKING;
use crate::error::Error;
use crate::figures::{nanoseconds, percent, rate, ratio, seconds, thousands};
use crate::signals::{INTERRUPTED, beside, stop_signal};
use crate::summary::headline;

/// Shows what `report` returns, every so often, until a key is pressed or a first signal comes that ends it; the terminal
/// is then as it was found.
///
/// # Errors
/// [`Error::Usage`]: standard output is no terminal; [`Error::Output`]: it cannot be drawn on; whatever keeps the first
/// report from being had.
pub(super) fn watch(
    report: impl Fn() -> Result<RunReport, Error>,
    every: Duration,
) -> Result<(), Error> {
    if !std::io::stdout().is_terminal() {
        let message = "standard output is no terminal: give --once or --json";
        return Err(Error::Usage(message.to_owned()));
    }
    let first = report()?;
    let stop = stop_signal();
    end_soon_after(&stop)?;
    let shown = ratatui::try_init().map_err(broken).and_then(|terminal| {
        // Dropped it would tell on standard error what fails, and panic where that has gone too.
        let mut terminal = std::mem::ManuallyDrop::new(terminal);
        let shown = show(&mut terminal, first, report, every, &stop);
        let _ = terminal.show_cursor();
        shown
    });
    // A terminal that has gone needs nothing.
    let _ = ratatui::try_restore();
    shown
}

/// Ends the program some time after `stop` is set: crossterm reads for ever at a terminal that has gone, and a run that
/// is asked for its report may not answer.
///
/// # Errors
/// [`Error::Input`]: there is no thread for it.
fn end_soon_after(stop: &Arc<AtomicBool>) -> Result<(), Error> {
    let stop = Arc::clone(stop);
    let wait = move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOKING);
        }
        std::thread::sleep(20 * LOOKING);
        // Nothing that takes standard output: who holds it may never give it back.
        let _ = disable_raw_mode();
        low_level::exit(INTERRUPTED);
    };
    beside(wait)
}

fn broken(cause: std::io::Error) -> Error {
    Error::Output(format!("the terminal cannot be drawn on: {cause}; give --once or --json"))
}

fn show(
    terminal: &mut DefaultTerminal,
    first: RunReport,
    report: impl Fn() -> Result<RunReport, Error>,
    every: Duration,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let mut view = View { before: None, now: first };
    loop {
        terminal.draw(|frame| view.draw(frame)).map_err(broken)?;
        if wait(every.max(LOOKING), stop).map_err(broken)? {
            return Ok(());
        }
        // The run is over: what was seen last stays on the terminal's other page.
        let Ok(now) = report() else { return Ok(()) };
        view = View { before: Some(view.now), now };
    }
}

/// Waits so long, or until a key or a signal says that it is enough.
fn wait(time: Duration, stop: &AtomicBool) -> std::io::Result<bool> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if stop.load(Ordering::Relaxed) {
            return Ok(true);
        }
        if !event::poll(until.saturating_duration_since(Instant::now()).min(LOOKING))? {
            continue;
        }
        if let Event::Key(key) = event::read()? {
            let control_c =
                key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
            if control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Title of the part that only runs with a store have.
const STORE: &str = "store";

/// Two looks at a run.
struct View {
    before: Option<RunReport>,
    now: RunReport,
}

impl View {
    /// What has been counted a second since the last look, or since the beginning.
    fn rate(&self, count: impl Fn(&RunReport) -> u64) -> f64 {
        let (before, before_s) = match &self.before {
            Some(before) => (count(before), before.elapsed_s),
            None => (0, 0.0),
        };
        let time_s = self.now.elapsed_s - before_s;
        if time_s > 0.0 { count(&self.now).saturating_sub(before) as f64 / time_s } else { 0.0 }
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let now = &self.now;
        let tables = [self.ports(), self.workers(), self.drops(), self.state(), self.store()];
        let tables =
            tables.into_iter().filter(|table| table.title != STORE || !table.rows.is_empty());
        let tables: Vec<Part> = tables.collect();
        let heights = [3].into_iter().chain(tables.iter().map(|one| one.rows.len() as u16 + 3));
        let areas = Layout::vertical(heights.map(Constraint::Length)).split(frame.area());
        let latency = now.latency_ns.map_or(String::new(), |latency| {
            format!(
                ", half within {}, 99 % within {}",
                nanoseconds(latency.p50),
                nanoseconds(latency.p99)
            )
        });
        let head = format!(
            "{}{} for {}: {} Mpps, {} Gbps{latency}  (q ends this, not the run)",
            headline(now),
            now.nf,
            seconds(now.elapsed_s),
            rate(self.rate(|report| report.packets_read) / 1e6),
            rate(self.rate(|report| report.bytes_read) * 8.0 / 1e9),
        );
        let mut areas = areas.iter().copied();
        if let Some(area) = areas.next() {
            frame.render_widget(Paragraph::new(head), area);
        }
        tables.into_iter().zip(areas).for_each(|(table, area)| table.draw(frame, area));
    }

    fn ports(&self) -> Part {
        let ports = self.now.ports.iter().enumerate().map(|(number, port)| {
            let rate_of = |count: fn(&anabranch_runtime::report::PortReport) -> u64| {
                let a_second = self.rate(|report| report.ports.get(number).map_or(0, count));
                thousands(a_second as u64)
            };
            let live = port.live.as_ref();
            vec![
                port.name.clone(),
                live.map_or(String::new(), |live| live.interface.clone()),
                rate_of(|port| port.packets_read),
                rate_of(|port| port.packets_out),
                thousands(port.packets_read),
                thousands(port.packets_out),
                live.map_or(String::new(), |live| thousands(live.missed)),
            ]
        });
        let headings = ["port", "interface", "in/s", "out/s", "in", "out", "missed"];
        Part::new("ports", &headings, ports.collect())
    }

    fn workers(&self) -> Part {
        let workers = (0..self.now.workers.len()).map(|number| {
            let a_second =
                self.rate(|report| report.workers.get(number).map_or(0, |one| one.packets));
            let busy_ns = |report: &RunReport| {
                report.workers.get(number).map_or(0, |one| (one.busy_s * 1e9) as u64)
            };
            let busy = (self.rate(busy_ns) / 1e9).min(1.0);
            let bar = "█".repeat((busy * 30.0).round() as usize);
            vec![number.to_string(), thousands(a_second as u64), percent(busy), bar]
        });
        Part::new("workers", &["worker", "packets/s", "busy", ""], workers.collect())
    }

    fn drops(&self) -> Part {
        let drops = self.now.drops.iter().map(|(reason, count)| {
            let a_second = self.rate(|report| report.drops.get(reason).copied().unwrap_or(0));
            vec![reason.clone(), thousands(a_second as u64), thousands(*count)]
        });
        Part::new("drops", &["reason", "packets/s", "packets"], drops.collect())
    }

    fn state(&self) -> Part {
        let tables = self.now.tables.iter().filter(|table| !table.whole).map(|table| {
            let part = ratio(table.used, table.capacity);
            let bar = "█".repeat((part * 30.0).round() as usize);
            vec![table.name.clone(), thousands(table.used), percent(part), bar]
        });
        Part::new("state", &["table", "entries", "full", ""], tables.collect())
    }

    fn store(&self) -> Part {
        let store = self.now.store.iter().map(|store| {
            let a_second =
                self.rate(|report| report.store.as_ref().map_or(0, |store| store.stored));
            vec![
                store.store.clone(),
                thousands(a_second as u64),
                thousands(store.waiting),
                nanoseconds(store.oldest_ns),
                nanoseconds(store.recent_lag_ns.p99),
                trouble(store),
            ]
        });
        let headings = ["store", "stored/s", "waiting", "oldest", "99 % within", "trouble"];
        Part::new(STORE, &headings, store.collect())
    }
}

/// What is wrong with a store, and what comes of it.
fn trouble(store: &StoreReport) -> String {
    let refuses = store.refuses_new.then_some("takes no new flows");
    let parts = refuses.into_iter().chain(store.trouble.as_deref());
    parts.collect::<Vec<_>>().join("; ")
}

/// A part of the screen.
struct Part {
    title: &'static str,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Part {
    fn new(title: &'static str, headings: &[&str], rows: Vec<Vec<String>>) -> Self {
        let headings = headings.iter().map(|&heading| heading.to_owned()).collect();
        Self { title, headings, rows }
    }

    fn draw(self, frame: &mut Frame<'_>, area: Rect) {
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&self.headings]).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0) as u16 + 1
        };
        let widths: Vec<u16> = (0..self.headings.len()).map(width).collect();
        let rows = self.rows.into_iter().map(Row::new);
        let table = Table::new(rows, widths.into_iter().map(Constraint::Length))
            .header(Row::new(self.headings).style(Style::new().dim()))
            .block(Block::bordered().title(self.title));
        frame.render_widget(table, area);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_runtime::report::{PortReport, TableReport, WorkerReport};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn report(packets: u64, elapsed_s: u64) -> RunReport {
        let mut report = RunReport::new("nat");
        report.packets_read = packets;
        let port =
            PortReport { name: "lan".to_owned(), packets_read: packets, ..PortReport::default() };
        report.ports = vec![port];
        report.workers = vec![WorkerReport {
            packets,
            share: 1.0,
            busy: 0.5,
            busy_s: 0.5 * elapsed_s as f64,
            ..WorkerReport::default()
        }];
        report.tables = vec![TableReport {
            name: "flows".to_owned(),
            used: 1,
            capacity: 4,
            bytes: 64,
            whole: false,
        }];
        report.count_drop("no-route", packets / 2);
        report.finish(Duration::from_secs(elapsed_s));
        report
    }

    #[test]
    fn the_screen_shows_rates_since_the_last_look() {
        let view = View { before: Some(report(1_000_000, 10)), now: report(3_000_000, 12) };
        let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let cells = terminal.backend().buffer().content().iter();
        let text: String = cells.map(|cell| cell.symbol()).collect();
        for part in ["1.00 Mpps", "1,000,000", "no-route", "500,000", "50.0 %", "flows", "25.0 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_small_terminal_shows_what_fits() {
        let view = View { before: None, now: report(10, 0) };
        for (width, height) in [(1, 1), (20, 5), (200, 4)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| view.draw(frame)).unwrap();
        }
    }
}

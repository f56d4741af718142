//! A log that cannot flood.

use std::collections::BTreeMap;
use std::fmt;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(non_camel_case_types)]
pub enum Level {
    /// Something is wrong.
    error,
    /// Something may go wrong.
    warn,
    /// Worth knowing.
    info,
    /// For the NF's author.
    debug,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Nanoseconds since the Unix epoch, by the NF's clock.
    pub at_ns: u64,
    /// How much it matters.
    pub level: Level,
    /// Line of the NF's source.
    pub source_line: u32,
    /// What it says.
    pub text: String,
}

/// Lines of one place per second that are kept.
const PER_SECOND: u32 = 10;
/// Lines kept until they are taken; beyond, they are counted.
const KEPT: usize = 1_000;

/// Keeps at most 10 lines a second from each place in the source, and counts the rest: one worker's.
#[derive(Debug, Default)]
pub struct Log {
    lines: Vec<Line>,
    places: BTreeMap<u32, (u64, u32)>,
    suppressed: u64,
}

impl Log {
    #[cold]
    pub(crate) fn write(&mut self, now: u64, level: Level, line: u32, text: fmt::Arguments<'_>) {
        let second = now / 1_000_000_000;
        let place = self.places.entry(line).or_default();
        if place.0 != second {
            *place = (second, 0);
        }
        place.1 += 1;
        if place.1 > PER_SECOND || self.lines.len() >= KEPT {
            self.suppressed += 1;
            return;
        }
        self.lines.push(Line { at_ns: now, level, source_line: line, text: text.to_string() });
    }

    /// Takes the lines written since the last call.
    pub fn take(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// Lines counted but not kept so far.
    pub fn suppressed(&self) -> u64 {
        self.suppressed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_a_second_and_place() {
        let mut log = Log::default();
        for number in 0..100 {
            log.write(5, Level::info, 40, format_args!("packet {number}"));
        }
        log.write(5, Level::warn, 41, format_args!("another place"));
        log.write(1_000_000_005, Level::info, 40, format_args!("a second later"));
        assert_eq!(log.suppressed(), 90);
        let lines = log.take();
        assert_eq!(lines.len(), 12);
        assert_eq!(
            (lines[0].text.as_str(), lines[11].text.as_str()),
            ("packet 0", "a second later")
        );
    }
}

//! The report's charts, as inline SVG: throughput over time, bars with a label and a figure each.

use anabranch_runtime::report::{LatencyReport, RunReport, Sample};

use super::svg::{Anchor, Drawing};
use crate::figures::{nanoseconds, percent, rate, ratio, seconds, thousands};
use crate::summary::by_count;

/// Width of every chart: half of the page's, so that two stand side by side.
const WIDTH: f64 = 520.0;
/// Most points of a line.
const POINTS: usize = 60;
/// Longest name shown beside a bar, in characters; the rest is in the bar's title.
const NAME_LENGTH: usize = 22;

/// One bar of [`bars`].
struct Bar {
    name: String,
    figure: String,
    /// Length, 0 to 1 of the room there is.
    length: f64,
}

/// Throughput over the run; nothing when there were too few samples for a line.
pub(super) fn throughput(samples: &[Sample]) -> Option<String> {
    // A line through hundreds of points shows nothing but how busy the machine was.
    let samples = Sample::joined(samples, samples.len().div_ceil(POINTS));
    let last = samples.last().filter(|_| samples.len() > 1)?;
    let highest = samples.iter().map(|sample| sample.mpps).fold(0.0, f64::max);
    let top = round_up(highest);
    let (left, right, head, foot) = (46.0, WIDTH - 12.0, 12.0, 192.0);
    let place = |sample: &Sample| {
        let x = left + (right - left) * sample.t_s / last.t_s.max(f64::MIN_POSITIVE);
        (x, foot - (foot - head) * sample.mpps / top)
    };
    let mut drawing = Drawing::new(WIDTH, 220.0);
    for quarter in 0..=4 {
        let value = top * f64::from(quarter) / 4.0;
        let y = foot - (foot - head) * f64::from(quarter) / 4.0;
        drawing.line("grid", (left, y), (right, y));
        drawing.text("axis", (left - 8.0, y + 4.0), Anchor::End, &rate(value));
    }
    let line: Vec<(f64, f64)> = samples.iter().map(place).collect();
    let mut area = vec![(line[0].0, foot)];
    area.extend(&line);
    area.push((line[line.len() - 1].0, foot));
    drawing.path("area", &area, true);
    drawing.path("curve", &line, false);
    if let Some(peak) = samples.iter().max_by(|a, b| a.mpps.total_cmp(&b.mpps)) {
        let title = format!("peak {} Mpps at {}", rate(peak.mpps), seconds(peak.t_s));
        drawing.dot("peak", place(peak), &title);
    }
    drawing.text("axis", (left, foot + 20.0), Anchor::Start, "0 s");
    let end = seconds(last.t_s);
    drawing.text("axis", (right, foot + 20.0), Anchor::End, &end);
    let label = format!("Throughput over {end}, at most {} Mpps", rate(highest));
    Some(drawing.finish(&label))
}

/// Each worker's share of the packets, against the equal share.
pub(super) fn workers(report: &RunReport) -> Option<String> {
    let largest = report.workers.iter().map(|w| w.share).fold(0.0, f64::max);
    let equal = 1.0 / report.workers.len().max(1) as f64;
    let bar = |(index, worker): (usize, &anabranch_runtime::report::WorkerReport)| Bar {
        name: format!("worker {index}"),
        figure: format!("{} · {} busy", percent(worker.share), percent(worker.busy)),
        length: worker.share / largest.max(equal).max(f64::MIN_POSITIVE),
    };
    let all: Vec<Bar> = report.workers.iter().enumerate().map(bar).collect();
    let mark = (all.len() > 1).then(|| equal / largest.max(equal));
    bars("Share of the packets per worker", &all, mark)
}

/// Latency percentiles on a logarithmic scale that begins a decade below the smallest.
pub(super) fn latency(latency: &LatencyReport) -> Option<String> {
    let low = (latency.p50.max(1) as f64).log10().floor() - 0.3;
    let high = (latency.max.max(10) as f64).log10().max(low + 1.0);
    let bar = |(name, ns): (&str, u64)| Bar {
        name: name.to_string(),
        figure: nanoseconds(ns),
        length: ((ns.max(1) as f64).log10() - low) / (high - low),
    };
    let all = [
        ("p50", latency.p50),
        ("p90", latency.p90),
        ("p99", latency.p99),
        ("p99.9", latency.p99_9),
        ("max", latency.max),
    ]
    .map(bar);
    bars("Latency percentiles, logarithmic", &all, None)
}

/// The drop reasons, the most frequent first.
pub(super) fn drops(report: &RunReport) -> Option<String> {
    let drops = by_count(report);
    let most = drops.first()?.1;
    let bar = |(reason, count): (&str, u64)| Bar {
        name: reason.to_string(),
        figure: format!("{} · {}", thousands(count), percent(ratio(count, report.packets_read))),
        length: ratio(count, most),
    };
    let all: Vec<Bar> = drops.into_iter().map(bar).collect();
    bars("Packets dropped by reason", &all, None)
}

/// How full each state object is, of those that can fill up.
pub(super) fn state(report: &RunReport) -> Option<String> {
    let bar = |object: &anabranch_runtime::report::TableReport| Bar {
        name: object.name.clone(),
        figure: format!("{} of {}", thousands(object.used), thousands(object.capacity)),
        length: ratio(object.used, object.capacity),
    };
    let all: Vec<Bar> = report.tables.iter().filter(|object| !object.whole).map(bar).collect();
    bars("State objects: entries in use", &all, None)
}

/// Horizontal bars, name above on the left and figure on the right, with an optional mark at the
/// same length of each. `None` when there are no bars.
fn bars(label: &str, bars: &[Bar], mark: Option<f64>) -> Option<String> {
    let (pitch, thickness) = (38.0, 12.0);
    let mut drawing = Drawing::new(WIDTH, pitch * bars.len().max(1) as f64);
    for (index, bar) in bars.iter().enumerate() {
        let y = pitch * index as f64;
        let title = format!("{}: {}", bar.name, bar.figure);
        let length = WIDTH * bar.length.clamp(0.0, 1.0);
        drawing.text("name", (0.0, y + 14.0), Anchor::Start, &shortened(&bar.name));
        drawing.text("figure", (WIDTH, y + 14.0), Anchor::End, &bar.figure);
        drawing.bar("track", (0.0, y + 20.0), (WIDTH, thickness), &title);
        drawing.bar("bar", (0.0, y + 20.0), (length, thickness), &title);
        if let Some(mark) = mark {
            let x = WIDTH * mark.clamp(0.0, 1.0) - 1.0;
            drawing.line("mark", (x, y + 18.5), (x, y + 22.0 + thickness));
        }
    }
    (!bars.is_empty()).then(|| drawing.finish(label))
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_LENGTH {
        return name.to_string();
    }
    let start: String = name.chars().take(NAME_LENGTH - 1).collect();
    format!("{start}…")
}

/// The next of 1, 2, 4, 5 or 8 times a power of ten at or above `value`: each has a quarter that
/// is short to write.
fn round_up(value: f64) -> f64 {
    let decade = 10_f64.powf(value.max(1e-6).log10().floor());
    [1.0, 2.0, 4.0, 5.0, 8.0]
        .map(|step| step * decade)
        .into_iter()
        .find(|top| *top >= value)
        .unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_on_a_short_figure() {
        for (value, top) in [(0.9, 1.0), (2.3, 4.0), (4.7, 5.0), (8.1, 10.0), (41.0, 50.0)] {
            assert!((round_up(value) - top).abs() < 1e-9, "{value}");
        }
        assert!(round_up(0.0) > 0.0);
    }

    #[test]
    fn charts_without_figures_are_left_out() {
        let empty = RunReport::new("nop");
        assert!(throughput(&empty.samples).is_none());
        assert!(workers(&empty).is_none());
        assert!(drops(&empty).is_none());
        assert!(state(&empty).is_none());
    }

    #[test]
    fn no_coordinate_is_out_of_its_drawing() {
        let report = crate::summary::example();
        let svg = throughput(&report.samples).unwrap() + &workers(&report).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let zero = [Sample::default(), Sample::default()];
        let svg = throughput(&zero).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let svg = latency(&LatencyReport::default()).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn long_names_are_shortened() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"x".repeat(40)).chars().count(), NAME_LENGTH);
    }
}

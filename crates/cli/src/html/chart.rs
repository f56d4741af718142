//! The report's charts: throughput over time as inline SVG, bars with a label and a figure each.

use anabranch_runtime::report::{LatencyReport, RunReport, Sample};

use super::svg::{Anchor, Drawing, escape};
use crate::figures::{nanoseconds, percent, rate, ratio, seconds, thousands};
use crate::summary::by_count;

/// Width of the drawing: half of the page's, so that two charts stand side by side.
const WIDTH: f64 = 520.0;
/// Most steps of a line.
const STEPS: usize = 60;

/// One bar of [`bars`].
struct Bar {
    name: String,
    figure: String,
    /// Length, 0 to 1 of the room there is.
    length: f64,
}

/// The samples that are drawn: a line of hundreds of steps shows nothing but how busy the machine was.
fn drawn(samples: &[Sample]) -> Vec<Sample> {
    Sample::joined(samples, samples.len().div_ceil(STEPS))
}

/// The highest step of the line that [`throughput`] draws.
pub(super) fn peak(samples: &[Sample]) -> Option<Sample> {
    drawn(samples).into_iter().max_by(|one, other| one.mpps.total_cmp(&other.mpps))
}

/// Throughput over the run; nothing when there were too few samples for a line.
pub(super) fn throughput(samples: &[Sample]) -> Option<String> {
    let highest = peak(samples)?;
    let samples = drawn(samples);
    let last = samples.last().filter(|_| samples.len() > 1)?;
    let top = round_up(highest.mpps);
    let (left, right, head, foot) = (58.0, WIDTH - 12.0, 12.0, 192.0);
    let place = |t_s: f64, mpps: f64| {
        let x = left + (right - left) * t_s / last.t_s.max(f64::MIN_POSITIVE);
        (x, foot - (foot - head) * mpps / top)
    };
    let mut drawing = Drawing::new(WIDTH, 220.0);
    for quarter in 0..=4 {
        let value = top * f64::from(quarter) / 4.0;
        let y = foot - (foot - head) * f64::from(quarter) / 4.0;
        drawing.line("grid", (left, y), (right, y));
        drawing.text("axis", (left - 8.0, y + 4.0), Anchor::End, &figure_on(value, top / 4.0));
    }
    // A sample is of all the time since the one before.
    let begins_s = std::iter::once(0.0).chain(samples.iter().map(|sample| sample.t_s));
    let steps = begins_s
        .zip(&samples)
        .flat_map(|(begin_s, &Sample { t_s, mpps })| [place(begin_s, mpps), place(t_s, mpps)]);
    let line: Vec<(f64, f64)> = steps.collect();
    let mut area = vec![(left, foot)];
    area.extend(&line);
    area.push((right, foot));
    drawing.path("area", &area, true);
    drawing.path("curve", &line, false);
    let title = format!("peak {} Mpps at {}", rate(highest.mpps), seconds(highest.t_s));
    drawing.dot("peak", place(highest.t_s, highest.mpps), &title);
    drawing.text("axis", (left, foot + 20.0), Anchor::Start, "0 s");
    let end = seconds(last.t_s);
    drawing.text("axis", (right, foot + 20.0), Anchor::End, &end);
    let label = format!("Throughput over {end}, at most {} Mpps", rate(highest.mpps));
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
/// same length of each: text of the page, which no scale makes small. `None` when there are no bars.
fn bars(label: &str, bars: &[Bar], mark: Option<f64>) -> Option<String> {
    let percent = |length: f64| format!("{:.1}%", 100.0 * length.clamp(0.0, 1.0));
    let mark = mark.map_or_else(String::new, |mark| {
        format!("<div class=\"mark\" style=\"left:{}\"></div>", percent(mark))
    });
    let rows: String = bars
        .iter()
        .map(|bar| {
            format!(
                "<li><span class=\"name\">{}</span><span class=\"figure\">{}</span><div class=\"track\">\
                 <div class=\"bar\" style=\"width:{}\"></div>{mark}</div></li>\n",
                escape(&bar.name),
                escape(&bar.figure),
                percent(bar.length)
            )
        })
        .collect();
    (!bars.is_empty()).then(|| format!("<ul class=\"bars\" aria-label=\"{label}\">\n{rows}</ul>"))
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

/// A figure on an axis with as many decimals as its steps need, so that all of them have as many.
fn figure_on(value: f64, step: f64) -> String {
    let is_whole = |decimals: &usize| {
        let shown = step * 10_f64.powi(*decimals as i32);
        (shown - shown.round()).abs() < 1e-6 * shown
    };
    let decimals = (0..9).find(is_whole).unwrap_or(9);
    if value == 0.0 { "0".to_owned() } else { format!("{value:.decimals$}") }
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
    fn the_line_begins_where_the_run_does() {
        let samples = [(0.5, 2.0), (1.0, 1.0)].map(|(t_s, mpps)| Sample { t_s, mpps });
        let svg = throughput(&samples).unwrap();
        let curve = "d=\"M58.0 12.0L283.0 12.0L283.0 102.0L508.0 102.0\"";
        assert!(svg.contains(curve), "{svg}");
    }

    #[test]
    fn the_figures_of_an_axis_have_as_many_decimals() {
        for (top, shown) in [
            (20.0, ["5", "10", "15", "20"]),
            (5.0, ["1.25", "2.50", "3.75", "5.00"]),
            (0.02, ["0.005", "0.010", "0.015", "0.020"]),
        ] {
            let figures = [1.0, 2.0, 3.0, 4.0].map(|nth| figure_on(nth * top / 4.0, top / 4.0));
            assert_eq!(figures, shown);
        }
        assert_eq!(figure_on(0.0, 0.25), "0");
    }

    #[test]
    fn bars_are_text_that_no_scale_makes_small() {
        let bar = Bar { name: "<lan>".to_owned(), figure: "1 of 2".to_owned(), length: 2.0 };
        let shown = bars("", &[bar], Some(0.25)).unwrap();
        assert!(!shown.contains("<svg") && shown.contains("&lt;lan&gt;"), "{shown}");
        assert!(shown.contains("width:100.0%") && shown.contains("left:25.0%"), "{shown}");
    }
}

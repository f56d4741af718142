//! A run's report as one HTML page that needs nothing but itself: no script, no font, no image
//! from elsewhere; light or dark as the reader's system is.

mod chart;
pub(crate) mod plan;
pub(crate) mod profile;
mod svg;

use anabranch_runtime::report::{ErrorKind, RunReport};

use crate::advice::uneven;
use crate::figures::{bytes, counted, percent, rate, ratio, seconds, thousands};
use crate::summary;
use svg::escape;

const STYLE: &str = include_str!("html/style.css");

/// The page as a document. `command`, which made it, is quoted at its end.
pub(crate) fn render(report: &RunReport, command: &str) -> String {
    let title = format!("anabranch: {}", report.nf);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         {}{}{}<div class=\"charts\">\n{}{}</div>\n{}</main>\n</body>\n</html>\n",
        escape(&title),
        header(report),
        remarks(report),
        headline_figures(report),
        charts(report),
        tables(report),
        footer(command),
    )
}

/// The end of a page: what made it.
fn footer(command: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("<footer>anabranch {version}: <code>{}</code></footer>\n", escape(command))
}

fn header(report: &RunReport) -> String {
    let workers = match report.workers.len() {
        1 => "1 worker".to_string(),
        count => format!("{count} workers"),
    };
    format!(
        "<header>\n<p class=\"brand\">anabranch <span>run report</span></p>\n<h1>{}</h1>\n\
         <p class=\"strategy\"><b>{}</b> on {workers}: {}</p>\n</header>\n",
        escape(&report.nf),
        escape(&report.strategy),
        plan::prose(&report.strategy_why),
    )
}

/// Errors first, then warnings, then advice.
fn remarks(report: &RunReport) -> String {
    let errors = report.errors.iter().map(|error| {
        let message = plan::prose(&error.message);
        let rest = match error.kind {
            ErrorKind::Control => "",
            _ => "; the figures are those of what was read",
        };
        format!("<p class=\"remark error\">{message}{rest}</p>\n")
    });
    let warnings = summary::warnings(report)
        .into_iter()
        .map(|warning| format!("<p class=\"remark\">{}</p>\n", plan::prose(&warning)));
    let advice =
        uneven(report).map(|advice| format!("<p class=\"note\">{}</p>\n", plan::prose(&advice)));
    errors.chain(warnings).chain(advice).collect()
}

fn headline_figures(report: &RunReport) -> String {
    let dropped = percent(ratio(report.packets_dropped, report.packets_read));
    let figures = [
        (rate(report.mpps), "Mpps", format!("in {}", seconds(report.elapsed_s))),
        (rate(report.gbps), "Gbps", format!("{} read", bytes(report.bytes_read))),
        (
            thousands(report.packets_read),
            "packets",
            format!("read; {} out", thousands(report.packets_out)),
        ),
        (thousands(report.packets_dropped), "dropped", format!("{dropped} of those read")),
    ];
    let cards: String = figures
        .iter()
        .map(|(figure, unit, note)| {
            format!("<div><b>{figure}</b> <span>{unit}</span><small>{note}</small></div>\n")
        })
        .collect();
    format!("<section class=\"figures\">\n{cards}</section>\n")
}

fn charts(report: &RunReport) -> String {
    let latency = report.latency_ns.as_ref().and_then(chart::latency);
    let charts = [
        ("Throughput", over_time(report), chart::throughput(&report.samples)),
        ("Latency", "arrival at a worker to release, logarithmic".to_string(), latency),
        ("Workers", shares(report), chart::workers(report)),
        ("Dropped packets", "by reason".to_string(), chart::drops(report)),
        ("State", "entries in use at the end".to_string(), chart::state(report)),
    ];
    charts
        .into_iter()
        .filter_map(|(title, note, chart)| Some((title, note, chart?)))
        .map(|(title, note, chart)| panel("", &format!("{title} <span>{note}</span>"), &chart))
        .collect()
}

/// A part of the page, of a further CSS class if there is one.
fn panel(class: &str, title: &str, body: &str) -> String {
    format!("<section class=\"panel{class}\">\n<h2>{title}</h2>\n{body}\n</section>\n")
}

/// What the chart of the throughput shows.
fn over_time(report: &RunReport) -> String {
    let peak = chart::peak(&report.samples);
    peak.map_or_else(String::new, |peak| {
        format!("Mpps over time; the dot is the most, {}", rate(peak.mpps))
    })
}

/// What the chart of the workers' shares shows, and what the balancer did about them.
fn shares(report: &RunReport) -> String {
    let mut note = "share of the packets; the mark is an equal share".to_string();
    if let Some(balance) = report.balance.filter(|balance| balance.steps > 0) {
        note += &format!(
            "; {} moved: the busiest worker had {:.2} × the average at first, {:.2} × at last",
            counted(balance.shards_moved, "shard"),
            balance.busiest_first,
            balance.busiest_last
        );
    }
    note
}

fn tables(report: &RunReport) -> String {
    let ports = report.ports.iter().map(|port| {
        vec![
            port.name.clone(),
            thousands(port.packets_read),
            bytes(port.bytes_read),
            thousands(port.packets_out),
            bytes(port.bytes_out),
        ]
    });
    let state = report.tables.iter().map(|object| {
        vec![
            object.name.clone(),
            thousands(object.used),
            thousands(object.capacity),
            bytes(object.bytes),
        ]
    });
    let counters =
        report.counters.iter().map(|(name, value)| vec![name.clone(), thousands(*value)]);
    let live = report.ports.iter().filter_map(|port| port.live.as_ref());
    let live = live.map(|live| summary::interface(live).to_vec());
    let store = report.store.iter().map(|store| summary::store_figures(store).to_vec());
    let restart = summary::read_back(report)
        .into_iter()
        .map(|restart| summary::restart_figures(restart).to_vec());
    let restart_headings = summary::RESTART.map(|heading| heading.trim_start_matches('>'));
    let store_headings = summary::STORE.map(|heading| heading.trim_start_matches('>'));
    let interfaces = [
        "interface",
        "queues",
        "missed",
        "unsent",
        "segmented",
        "checksums finished",
        "downs",
        "reopened",
    ];
    let shared = summary::sharing(report).into_iter().map(|row| row.to_vec());
    let balanced = summary::balanced(report).into_iter().map(|row| row.to_vec());
    let balance_headings = summary::BALANCE.map(|heading| heading.trim_start_matches('>'));
    let headings = ["port", "packets in", "bytes in", "packets out", "bytes out"];
    titled("Memory", &["state", "used", "capacity", "memory"], state.collect())
        + &titled("Ports", &headings, ports.collect())
        + &titled("Sharing", &["shared state", "", "of all", ""], shared.collect())
        + &titled("Balance", &balance_headings, balanced.collect())
        + &titled("Interfaces", &interfaces, live.collect())
        + &titled("Store", &store_headings, store.collect())
        + &titled("Restart", &restart_headings, restart.collect())
        + &titled("Counters", &["counter", "value"], counters.collect())
}

/// Columns that half of the page has room for.
const COLUMNS: usize = 5;

/// A panel with a table in it; nothing without rows.
fn titled(title: &str, headings: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let class = if headings.len() > COLUMNS { " across" } else { "" };
    panel(class, title, &table(headings, rows))
}

/// A table whose first column holds words and whose others hold figures.
fn table(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let rows = rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect());
    table_of("numbers", headings, rows)
}

/// A table of CSS class `class` whose cells are HTML. Each has its heading with it, which stands before it where the page
/// is narrow.
fn table_of(class: &str, headings: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let names: Vec<String> = headings.iter().map(|name| escape(name)).collect();
    let cell = |(name, cell): (&String, &String)| match name.is_empty() || cell.is_empty() {
        true => format!("<td>{cell}</td>"),
        false => format!("<td data-head=\"{name}\">{cell}</td>"),
    };
    let row = |row: Vec<String>| {
        let cells: String = names.iter().zip(&row).map(cell).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = rows.map(row).collect();
    let head: String = names.iter().map(|name| format!("<th>{name}</th>")).collect();
    format!(
        "<table class=\"{class}\">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_but_itself() {
        let page = render(&summary::example(), "anabranch run '<b>'");
        for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script"] {
            assert!(!page.contains(outside), "{outside} in the page");
        }
        assert!(page.contains("prefers-color-scheme: dark"));
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
        assert!(page.contains("<code>anabranch run &#39;&lt;b&gt;&#39;</code>"));
    }

    #[test]
    fn the_page_says_what_the_table_says() {
        let mut report = summary::example();
        report.strategy_why = "`flows` < are its own".to_owned();
        let page = render(&report, "");
        assert!(page.contains("<code>flows</code> &lt; are its own"));
        let rows = summary::sharing(&report).concat();
        let cells = [rows, summary::balanced(&report).concat()].concat();
        assert!(cells.contains(&"98,001".to_owned()) && cells.contains(&"61 shards".to_owned()));
        for cell in cells {
            assert!(page.contains(&format!(">{}</td>", escape(&cell))), "{cell}");
        }
        assert!(page.contains("1,204 lines of the NF&#39;s log were not printed"), "{page}");
        let page = render(&RunReport { balance: None, ..report }, "");
        assert!(page.contains("<p class=\"note\">worker 0 has 31.2 % of the packets: "), "{page}");
    }

    #[test]
    fn tables_with_many_columns_go_across_the_page() {
        let page = render(&summary::example(), "");
        assert!(page.contains("<section class=\"panel across\">\n<h2>Interfaces</h2>"), "{page}");
        assert!(page.contains("<section class=\"panel\">\n<h2>Ports</h2>"), "{page}");
        // Where the page is narrow.
        assert!(page.contains("<td data-head=\"queues\">4</td>"), "{page}");
    }

    #[test]
    fn every_element_is_closed() {
        let page = render(&summary::example(), "anabranch run '<b>'");
        for element in
            ["section", "div", "svg", "table", "tr", "td", "main", "p", "span", "h2", "ul", "li"]
        {
            let opened = page.matches(&format!("<{element}>")).count()
                + page.matches(&format!("<{element} ")).count();
            assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
        }
    }

    #[test]
    fn an_empty_report_is_a_page_too() {
        let page = render(&RunReport::new("nop"), "");
        assert!(page.contains("<h1>nop</h1>") && page.ends_with("</html>\n"));
    }
}

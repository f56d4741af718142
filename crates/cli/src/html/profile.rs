//! A profile as one page: what limits the NF, why transactions were given up, what to change.

use super::svg::escape;
use super::{STYLE, plan};
use crate::figures::{counted, percent, rate, thousands};
use crate::profile::{Cause, Document, LimitKind, NOT_COUNTED, Step};

/// The page as a document. `command`, which made it, is quoted at its end.
pub(crate) fn render(document: &Document, command: &str) -> String {
    let title = escape(&format!("anabranch: profile of {}", document.nf));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>\n\
         {}{}{}{}{}{}{}{}{}{}</main>\n</body>\n</html>\n",
        plan::OWN_STYLE,
        header(document),
        figures(document),
        causes(document),
        lines(document),
        handlers(document),
        load(document),
        entries(document),
        pools(document),
        applied(document),
        super::footer(command),
    )
}

fn header(document: &Document) -> String {
    let notes: String = document
        .notes
        .iter()
        .map(|note| format!("<p class=\"remark\">{}</p>\n", plan::prose(note)))
        .collect();
    let verb = if document.limit.kind == LimitKind::Nothing { "not limited" } else { "limited" };
    format!(
        "<header>\n<p class=\"brand\">anabranch <span>profile</span></p>\n<h1>{}</h1>\n\
         <p class=\"strategy\"><b>{verb}</b> on {} workers: {}</p>\n</header>\n{notes}",
        escape(&document.nf),
        document.workers,
        plan::prose(&document.limit.text),
    )
}

fn figures(document: &Document) -> String {
    let cards = [
        (percent(document.limit.share), "of the work", "lost to what limits it".to_owned()),
        (
            thousands(document.aborts),
            "aborts",
            format!("{} committed", thousands(document.transactions.commits)),
        ),
        (
            thousands(document.transactions.alone + document.irrevocable),
            "packets",
            "ran alone".to_owned(),
        ),
        (rate(document.mpps), "Mpps", document.overhead.sentence()),
    ];
    let cards: String = cards
        .iter()
        .map(|(figure, unit, note)| {
            format!("<div><b>{figure}</b> <span>{unit}</span><small>{note}</small></div>\n")
        })
        .collect();
    let hardware = document.hardware.map_or(NOT_COUNTED.to_owned(), |hardware| hardware.text());
    format!(
        "<section class=\"figures\">\n{cards}</section>\n<p class=\"note\">{}</p>\n",
        escape(&hardware)
    )
}

fn causes(document: &Document) -> String {
    let rows = document.causes.iter().map(|cause| {
        let unknown = (!cause.is_own_known && !cause.operations.is_empty())
            .then(|| "<small>not known</small>".to_owned());
        let operations: Vec<String> = unknown
            .into_iter()
            .chain(cause.operations.iter().map(|one| {
                let line = one.line.map(|line| plan::lines(&[line])).unwrap_or_default();
                format!(
                    "<code>{}</code> {line}<br><small>{}</small>",
                    one.operation,
                    escape(&one.source)
                )
            }))
            .collect();
        let keys: Vec<String> = cause
            .keys
            .iter()
            .map(|key| format!("{} ({}×)", escape(&key.key), thousands(key.aborts)))
            .collect();
        let object = cause.object.as_deref().unwrap_or_default();
        vec![
            format!("{}<br><small>{}</small>", percent(cause.lost), counted(cause.aborts, "abort")),
            format!("<b>{}</b><br><small>{}</small>", escape(cause.cause), plan::prose(cause.why)),
            format!(
                "{} <small>{}</small><br><small>{}</small>",
                escape(object),
                cause.kind,
                keys.join("<br>")
            ),
            operations.join("<br>"),
            recipes(cause),
        ]
    });
    let head = ["lost", "cause", "object, hottest keys", "given up, committed", "what to do"];
    given_up("Why transactions were given up", &head, rows.collect())
}

fn recipes(cause: &Cause) -> String {
    cause.recipes.iter().map(recipe).collect()
}

fn recipe(step: &Step) -> String {
    let relaxes = if step.relaxes.is_empty() { "nothing" } else { step.relaxes };
    // What is no setting's is advice, in words; some of it is about no line.
    let after = match step.by {
        "source" => plan::prose(&step.after),
        _ => format!("<code>{}</code>", escape(&step.after)),
    };
    let change = match (step.by, step.before.is_empty()) {
        ("source", true) => after,
        _ => {
            let (parameter, before) = (plan::prose(&step.parameter), escape(&step.before));
            let line = step.line.map(|line| plan::lines(&[line])).unwrap_or_default();
            format!("{parameter} {line}: <code>{before}</code> → {after}")
        }
    };
    let (relaxes, effect) = (plan::prose(relaxes), plan::prose(step.effect));
    format!("<p>{change}<br><small>relaxes: {relaxes}; effect: {effect}</small></p>\n")
}

fn lines(document: &Document) -> String {
    let rows = document.lines.iter().map(|line| {
        vec![
            percent(line.share),
            thousands(line.aborts),
            if line.line == 0 { String::new() } else { plan::lines(&[line.line]) },
            format!("<code>{}</code>", escape(&line.source)),
        ]
    });
    let title = format!("Aborts by line <span>{}</span>", escape(&document.file));
    given_up(&title, &["share", "aborts", "line", ""], rows.collect())
}

/// A panel about transactions that were given up, of which there may be none.
fn given_up(title: &str, headings: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return plan::panel(title, "<p>None was.</p>\n");
    }
    plan::panel(title, &plan::table(headings, rows.into_iter()))
}

fn handlers(document: &Document) -> String {
    let (head, rows) = document.handler_table();
    let head: Vec<&str> = head.iter().map(|head| head.trim_start_matches('>')).collect();
    let rows = rows.into_iter().map(|row| row[..head.len()].to_vec()).collect();
    figures_of("Handlers", &head, rows)
}

fn load(document: &Document) -> String {
    let rows = document.load.iter().enumerate().map(|(number, worker)| {
        vec![
            number.to_string(),
            thousands(worker.packets),
            percent(worker.share),
            percent(worker.busy),
        ]
    });
    figures_of("Workers", &["worker", "packets", "share", "busy"], rows.collect())
}

/// A panel with a table of figures; nothing without rows.
fn figures_of(title: &str, headings: &[&str], rows: Vec<Vec<String>>) -> String {
    super::titled(title, headings, rows)
}

fn entries(document: &Document) -> String {
    let rows = document.shards.heaviest.iter().map(|shard| {
        let (packets, share) = (thousands(shard.packets), percent(shard.share));
        vec![shard.entry.to_string(), packets, share, shard.worker.to_string()]
    });
    let (used, median) = (document.shards.used, thousands(document.shards.median));
    let title = format!(
        "Heaviest entries <span>of {used} with packets; the middle one has {median}</span>"
    );
    figures_of(&title, &["entry", "packets", "share", "worker"], rows.collect())
}

fn pools(document: &Document) -> String {
    let rows = document.pools.iter().map(|pool| {
        let full = if pool.nearly_full { "nearly full" } else { "" };
        vec![
            pool.object.clone(),
            thousands(pool.used),
            thousands(pool.capacity),
            percent(pool.share),
            full.to_owned(),
        ]
    });
    figures_of("How full", &["object", "in use", "of", "full", ""], rows.collect())
}

fn applied(document: &Document) -> String {
    if document.applied.is_empty() {
        return String::new();
    }
    let rows = document.applied.iter().map(|one| {
        vec![
            escape(&one.parameter),
            escape(&one.before),
            escape(&one.after),
            format!("{} → {}", rate(one.before_mpps), rate(one.after_mpps)),
            format!("{} → {}", thousands(one.before_aborts), thousands(one.after_aborts)),
            if one.helped { "helped" } else { "no help" }.to_owned(),
        ]
    });
    let together = document.together.as_ref().map(|all| {
        let (mpps, aborts) = (rate(all.mpps), thousands(all.aborts));
        vec![
            "what helped, together".to_owned(),
            String::new(),
            String::new(),
            format!("{} → {mpps}", rate(document.mpps)),
            format!("{} → {aborts}", thousands(document.aborts)),
            String::new(),
        ]
    });
    let head = ["tried, each alone", "before", "after", "Mpps", "aborts", ""];
    plan::panel("Recipes tried", &plan::table(&head, rows.chain(together)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_of_the_source_says_what_is_changed_there() {
        let step = Step {
            parameter: "capacity of `mappings`".to_owned(),
            line: Some(251),
            before: "1 << 16".to_owned(),
            after: "(1 << 16) * 8".to_owned(),
            relaxes: "see `#[merge(function)]`",
            effect: "",
            by: "source",
        };
        let shown = recipe(&step);
        assert!(shown.contains("capacity of <code>mappings</code> <span"), "{shown}");
        assert!(
            shown.contains(":251</span>: <code>1 &lt;&lt; 16</code> → (1 &lt;&lt; 16) * 8"),
            "{shown}"
        );
        assert!(shown.contains("<code>#[merge(function)]</code>"), "{shown}");
        let setting = Step { by: "setting", ..step };
        assert!(recipe(&setting).contains("→ <code>(1 &lt;&lt; 16) * 8</code>"));
    }
}

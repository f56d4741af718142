//! A plan as one HTML page: what must meet, how state is kept, what is programmed, and the tree of
//! decisions that leads to each access (figure A.2 of Pereira's thesis "Parallel NF Synthesis").

mod accesses;
mod tree;

use anabranch_analysis::Paths;
use anabranch_plan::{Class, Difference, Plan, Port, Steerer};

use super::svg::escape;
use super::{STYLE, footer, table_of};

pub(super) const OWN_STYLE: &str = include_str!("plan.css");

/// The page as a document. `command`, which made it, is quoted at its end.
pub(crate) fn render(paths: &Paths, plan: &Plan, command: &str) -> String {
    let title = escape(&format!("anabranch: plan of {}", plan.nf));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{OWN_STYLE}</style>\n</head>\n<body>\n<main>\n\
         {}{}{}{}{}{}{}{}{}{}</main>\n</body>\n</html>\n",
        header(paths, plan),
        state(plan),
        matrix(plan),
        meetings(plan),
        ports(plan),
        remarks("Where it may differ from one core", &plan.differences),
        remarks("Not used", &plan.notes),
        accesses::render(paths),
        tree::render(paths),
        footer(command),
    )
}

fn header(paths: &Paths, plan: &Plan) -> String {
    let impossible = plan.impossible.as_ref().map_or_else(String::new, |impossible| {
        let why = prose(&impossible.why);
        format!("<p class=\"remark\">No sharding: {why} {}</p>\n", lines(&impossible.lines))
    });
    format!(
        "<header>\n<p class=\"brand\">anabranch <span>plan</span></p>\n<h1>{}</h1>\n\
         <p class=\"strategy\"><b>{}</b> for {}: {} call paths of {}, planned in {} ms, keys in {} µs\
         </p>\n</header>\n{impossible}",
        escape(&plan.nf),
        plan.strategy.name(),
        escape(&plan.nic),
        paths.paths.len(),
        escape(&paths.file),
        plan.total_ms,
        plan.solve_us,
    )
}

pub(super) fn lines(numbers: &[u32]) -> String {
    let all: Vec<String> = numbers.iter().map(|line| format!(":{line}")).collect();
    format!("<span class=\"lines\">{}</span>", all.join(" "))
}

pub(super) fn panel(title: &str, body: &str) -> String {
    format!("<section class=\"panel\">\n<h2>{title}</h2>\n{body}</section>\n")
}

/// A table of words, whose cells are HTML.
pub(super) fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    table_of("text", head, rows)
}

fn state(plan: &Plan) -> String {
    let rows = plan.objects.iter().map(|object| {
        vec![
            format!("<b>{}</b>", escape(&object.name)),
            escape(&object.kind),
            format!("<span class=\"mode {0}\">{0}</span>", object.mode.name()),
            prose(&object.why),
            lines(&object.lines),
        ]
    });
    panel("State", &table(&["object", "kind", "mode", "why", "lines"], rows))
}

/// The constraint matrix of the class that has most to say.
fn matrix(plan: &Plan) -> String {
    let filled =
        |matrix: &Vec<Vec<String>>| matrix.iter().flatten().filter(|one| *one != "F").count();
    let matrices = Class::ALL.map(|class| (class, plan.matrix(class)));
    let best = matrices.iter().rev().max_by_key(|(_, matrix)| filled(matrix));
    let Some((class, matrix)) = best.filter(|(_, matrix)| filled(matrix) > 0) else {
        return panel("Packets that must meet", "<p>None.</p>\n");
    };
    let mut head = vec![""];
    head.extend(plan.ports.iter().map(|port| port.port.as_str()));
    let rows = matrix.iter().zip(&plan.ports).map(|(row, port)| {
        let cells = row.iter().map(|cell| match cell.as_str() {
            "F" => "<i>never</i>".to_owned(),
            cell => {
                escape(cell).replace(" &amp;&amp; ", "<br>").replace(" || ", "<br><i>or</i><br>")
            }
        });
        std::iter::once(format!("<b>{}</b>", escape(&port.port))).chain(cells).collect()
    });
    panel(
        &format!("Packets that must meet <span>{class}</span>"),
        &table(&head, rows).replacen("class=\"text\"", "class=\"text matrix\"", 1),
    )
}

fn meetings(plan: &Plan) -> String {
    if plan.constraints.is_empty() {
        return String::new();
    }
    let rows = plan.constraints.iter().map(|meeting| {
        let [first, second] = &meeting.classes;
        let classes = match first == second {
            true => first.join(", "),
            false => format!("{} · {}", first.join(", "), second.join(", ")),
        };
        vec![
            escape(&meeting.ports.join(" · ")),
            escape(&classes),
            meeting.equalities.iter().map(|one| escape(one)).collect::<Vec<_>>().join("<br>"),
            escape(&meeting.objects.join(", ")),
            lines(&meeting.lines),
        ]
    });
    let body = table(&["ports", "classes", "when", "objects", "lines"], rows);
    let count = plan.constraints.len();
    format!(
        "<section class=\"panel\">\n<details><summary>All {count} constraints, class by class\
         </summary>\n{body}</details>\n</section>\n"
    )
}

fn ports(plan: &Plan) -> String {
    let mut body: String = plan.ports.iter().map(port).collect();
    for steered in &plan.steered {
        let base = if steered.base.is_empty() { "0" } else { &steered.base };
        let fields: Vec<String> = steered
            .fields
            .iter()
            .map(|(class, field)| format!("{} ({})", escape(field), escape(class)))
            .collect();
        body.push_str(&format!(
            "<p><b>Steered allocation.</b> {}: at {}, <code>{} + index % {}</code> is {} {}</p>\n",
            escape(&steered.object),
            escape(&steered.port),
            escape(base),
            escape(&steered.modulus),
            fields.join(", "),
            lines(&steered.lines)
        ));
    }
    panel("Steering", &body)
}

/// A port's key, and what is hashed; classes that are treated alike in one row.
fn port(port: &Port) -> String {
    let mut rows: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for class in &port.classes {
        let input: Vec<String> = class
            .input
            .iter()
            .map(|input| match input.place == input.field {
                true => escape(&input.field),
                false => {
                    format!("{} <small>as {}</small>", escape(&input.field), escape(&input.place))
                }
            })
            .collect();
        let by = match class.by {
            Steerer::Nic => "NIC",
            Steerer::Software => "software",
            Steerer::OneShard => "one shard",
        };
        let how = vec![by.to_owned(), input.join(", "), class.rank.to_string()];
        match rows.iter_mut().find(|(known, _)| *known == how) {
            Some((_, classes)) => classes.push(class.class.clone()),
            None => rows.push((how, vec![class.class.clone()])),
        }
    }
    let rows = rows.into_iter().map(|(mut how, classes)| {
        how.push(escape(&classes.join(", ")));
        how
    });
    format!(
        "<h3>{}</h3>\n<p class=\"key\"><code>{}</code></p>\n{}",
        escape(&port.port),
        escape(&port.key),
        table(&["by", "hash of", "rank", "packets"], rows)
    )
}

/// Text with its names in backquotes set as code.
pub(super) fn prose(text: &str) -> String {
    let parts = escape(text);
    let parts = parts.split('`').enumerate();
    parts
        .map(
            |(at, part)| if at % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() },
        )
        .collect()
}

fn remarks(title: &str, all: &[Difference]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let items: String = all
        .iter()
        .map(|one| format!("<li>{} {}</li>\n", prose(&one.what), lines(&one.lines)))
        .collect();
    panel(title, &format!("<ul>\n{items}</ul>\n"))
}

//! Every access to state, by the line that makes it.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::{Mode, Paths};

use super::{panel, table};
use crate::html::svg::escape;

/// Keys of one line that are written out; more are counted.
const KEYS: usize = 3;

/// What is known of the accesses of one line.
#[derive(Default)]
struct Row {
    writes: bool,
    ports: BTreeSet<String>,
    keys: BTreeSet<String>,
    paths: BTreeSet<usize>,
}

/// The table.
pub(crate) fn render(paths: &Paths) -> String {
    let mut rows: BTreeMap<(String, u32, String), Row> = BTreeMap::new();
    for path in &paths.paths {
        let port = path.port.and_then(|port| paths.words.ports.get(port));
        for access in &path.accesses {
            let place = (access.object.clone(), access.line, access.operation.clone());
            let row = rows.entry(place).or_default();
            row.writes |= access.mode == Mode::Write;
            row.ports.insert(port.cloned().unwrap_or_else(|| path.handler.clone()));
            row.paths.insert(path.number);
            let key: Vec<String> = access
                .key
                .iter()
                .map(|part| paths.terms.print_as(part.term, &part.kind, &paths.words))
                .collect();
            row.keys.insert(key.join(", "));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let cells = rows.into_iter().map(|((object, line, operation), row)| {
        vec![
            format!("<b>{}</b>.{}", escape(&object), escape(&operation)),
            if row.writes { "write" } else { "read" }.to_owned(),
            escape(&row.ports.iter().cloned().collect::<Vec<_>>().join(", ")),
            keys(&row.keys),
            row.paths.len().to_string(),
            format!("<span class=\"lines\">:{line}</span>"),
        ]
    });
    panel("Accesses", &table(&["access", "", "from", "under", "paths", "line"], cells))
}

fn keys(keys: &BTreeSet<String>) -> String {
    let mut shown: Vec<String> =
        keys.iter().take(KEYS).map(|key| format!("<code>{}</code>", escape(key))).collect();
    if keys.len() > KEYS {
        shown.push(format!("<small>and {} more</small>", keys.len() - KEYS));
    }
    shown.join("<br>")
}

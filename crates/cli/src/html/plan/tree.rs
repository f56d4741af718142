//! The decisions of a network function as a tree that opens and closes: a node asks, its branches
//! are what holds, a leaf is a call path with its accesses and its verdict.

use anabranch_analysis::{CallPath, Mode, Paths};

use crate::html::svg::escape;

/// Leaves of one handler that are drawn; more are counted.
const LEAVES: usize = 400;

/// A decision and what follows it.
#[derive(Default)]
struct Branch<'p> {
    text: String,
    line: u32,
    branches: Vec<Branch<'p>>,
    leaf: Option<&'p CallPath>,
}

/// All handlers, each with its tree.
pub(crate) fn render(paths: &Paths) -> String {
    let mut trees: Vec<(String, Branch<'_>, usize)> = Vec::new();
    for path in &paths.paths {
        let title = title(paths, path);
        let at = match trees.iter().position(|(known, ..)| *known == title) {
            Some(at) => at,
            None => {
                trees.push((title, Branch::default(), 0));
                trees.len() - 1
            }
        };
        let (_, tree, count) = &mut trees[at];
        *count += 1;
        if *count <= LEAVES {
            insert(tree, paths, path);
        }
    }
    let body: String = trees
        .iter()
        .map(|(title, tree, count)| {
            let more = count.saturating_sub(LEAVES);
            let rest = match more {
                0 => String::new(),
                more => format!("<p>{more} further paths: <code>anabranch paths</code></p>\n"),
            };
            let open = if *count <= 24 { " open" } else { "" };
            format!(
                "<details{open}><summary><b>{}</b> <span>{count} paths</span></summary>\n\
                 <ul class=\"tree\">{}</ul>\n{rest}</details>\n",
                escape(title),
                branches(paths, tree)
            )
        })
        .collect();
    format!("<section class=\"panel\">\n<h2>Call paths</h2>\n{body}</section>\n")
}

fn title(paths: &Paths, path: &CallPath) -> String {
    let port = path.port.and_then(|port| paths.words.ports.get(port));
    let from = port.map_or_else(String::new, |port| format!(" from {port}"));
    let class = path.class.as_ref().map_or_else(String::new, |class| format!(", {class}"));
    format!("{}{class}{from}", path.handler)
}

fn insert<'p>(tree: &mut Branch<'p>, paths: &Paths, path: &'p CallPath) {
    let mut here = tree;
    for condition in &path.conditions {
        let text = paths.terms.print(condition.term, &paths.words);
        let known = here.branches.iter().position(|branch| branch.text == text);
        let at = known.unwrap_or_else(|| {
            here.branches.push(Branch { text, line: condition.line, ..Branch::default() });
            here.branches.len() - 1
        });
        here = &mut here.branches[at];
    }
    here.leaf = Some(path);
}

/// What follows a decision. Decisions with one way on are written in one node.
fn branches(paths: &Paths, branch: &Branch<'_>) -> String {
    let own = branch.leaf.map_or_else(String::new, |path| leaf(paths, path));
    let below: String = branch.branches.iter().map(|below| node(paths, below)).collect();
    format!("{own}{below}")
}

fn node(paths: &Paths, branch: &Branch<'_>) -> String {
    let mut asked = vec![decision(branch)];
    let mut last = branch;
    while let ([only], None) = (&last.branches[..], last.leaf) {
        asked.push(decision(only));
        last = only;
    }
    let asked = asked.join("<br>");
    let below = branches(paths, last);
    if last.branches.is_empty() {
        return format!("<li><div class=\"ask\">{asked}</div><ul>{below}</ul></li>\n");
    }
    format!(
        "<li><details open><summary class=\"ask\">{asked}</summary><ul>{below}</ul></details></li>\n"
    )
}

fn decision(branch: &Branch<'_>) -> String {
    format!("{} <span class=\"lines\">:{}</span>", escape(&branch.text), branch.line)
}

fn leaf(paths: &Paths, path: &CallPath) -> String {
    let accesses: String = path
        .accesses
        .iter()
        .map(|access| {
            let key: Vec<String> = access
                .key
                .iter()
                .map(|part| escape(&paths.terms.print_as(part.term, &part.kind, &paths.words)))
                .collect();
            let class = if access.mode == Mode::Write { "write" } else { "read" };
            format!(
                "<span class=\"access {class}\">{}.{}({}) <span class=\"lines\">:{}</span></span>",
                escape(&access.object),
                escape(&access.operation),
                key.join(", "),
                access.line
            )
        })
        .collect();
    format!(
        "<li class=\"leaf\">{accesses}<b>{}</b> <span class=\"lines\">path {}, :{}</span></li>\n",
        escape(&paths.verdict_of(path)),
        path.number,
        path.line
    )
}

//! Call paths as trees of decisions: every condition on the way decides between the paths that are
//! left, so that a packet takes one path for certain.

use std::collections::HashMap;

use anabranch_analysis::expr::Term;
use anabranch_analysis::{CallPath, Paths};

/// The paths of one handler, for one port and class.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
}

/// Paths that have gone the same way so far.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// What may hold next, and where it leads.
    pub(crate) ways: Vec<(Term, usize)>,
    /// Position of the path that ends here.
    pub(crate) path: Option<usize>,
}

/// Handler, port, packet class.
pub(crate) type Entry = (String, Option<usize>, Option<String>);

/// A tree for each entry.
pub(crate) fn trees(paths: &Paths) -> HashMap<Entry, Tree> {
    let mut trees: HashMap<Entry, Tree> = HashMap::new();
    for (position, path) in paths.paths.iter().enumerate() {
        let entry = (path.handler.clone(), path.port, path.class.clone());
        trees.entry(entry).or_default().add(position, path);
    }
    trees
}

impl Tree {
    fn add(&mut self, position: usize, path: &CallPath) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        for made in &path.conditions {
            at = self.step(at, made.term);
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.path.get_or_insert(position);
        }
    }

    fn step(&mut self, at: usize, condition: Term) -> usize {
        let next = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else { return at };
        if let Some((_, way)) = node.ways.iter().find(|(term, _)| *term == condition) {
            return *way;
        }
        node.ways.push((condition, next));
        self.nodes.push(Node::default());
        next
    }
}

/// Where a walk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At the end of this path, by position.
    Path(usize),
    /// None of the ways on is open: the path is not listed.
    Unlisted,
    /// It is not known which way is open.
    Unknown(Term),
}

impl Tree {
    /// Goes the way on which everything holds; returns the nodes that it passes and where it ends.
    pub(crate) fn walk(&self, mut holds: impl FnMut(Term) -> Option<bool>) -> (Vec<usize>, End) {
        let mut passed = vec![0];
        let mut at = 0;
        while let Some(node) = self.nodes.get(at) {
            let mut open = None;
            let mut unknown = None;
            for (condition, way) in &node.ways {
                match holds(*condition) {
                    Some(true) => open = open.or(Some(*way)),
                    Some(false) => {}
                    None => unknown = Some(*condition),
                }
            }
            match (open, unknown, node.path) {
                (Some(way), ..) => at = way,
                (None, Some(condition), _) => return (passed, End::Unknown(condition)),
                (None, None, Some(path)) => return (passed, End::Path(path)),
                (None, None, None) => return (passed, End::Unlisted),
            }
            passed.push(at);
        }
        (passed, End::Unlisted)
    }
}

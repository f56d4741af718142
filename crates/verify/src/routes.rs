//! Call paths as trees of decisions: every condition on the way decides between the paths that are
//! left, so that a packet takes one path for certain.

use std::collections::HashMap;

use anabranch_analysis::expr::Term;
use anabranch_analysis::{CallPath, Paths};

/// The paths of one handler, for one port and class.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    /// For each node, paths behind it that have not been taken.
    left: Vec<usize>,
    /// How many there were.
    all: Vec<usize>,
    /// Nodes that have been passed under this seed, and under any.
    passed: Vec<[bool; 2]>,
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

/// A tree for each entry, and where it stands.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    places: HashMap<Entry, usize>,
    pub(crate) all: Vec<Tree>,
}

impl Trees {
    /// Of all paths.
    pub(crate) fn of(paths: &Paths) -> Self {
        let mut trees = Self::default();
        for (position, path) in paths.paths.iter().enumerate() {
            let entry = (path.handler.clone(), path.port, path.class.clone());
            let next = trees.all.len();
            let place = *trees.places.entry(entry).or_insert(next);
            if place == next {
                trees.all.push(Tree::default());
            }
            if let Some(tree) = trees.all.get_mut(place) {
                tree.add(position, path);
            }
        }
        for tree in &mut trees.all {
            tree.all = tree.left.clone();
            tree.passed = vec![[false; 2]; tree.nodes.len()];
        }
        trees
    }

    /// Where the tree of `entry` stands.
    pub(crate) fn place(&self, entry: &Entry) -> Option<usize> {
        self.places.get(entry).copied()
    }

    /// Each with its entry.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Entry, &Tree)> {
        self.places.iter().filter_map(|(entry, place)| Some((entry, self.all.get(*place)?)))
    }

    /// A seed begins: nothing has been passed or taken.
    pub(crate) fn begin_seed(&mut self) {
        for tree in &mut self.all {
            tree.left.clone_from(&tree.all);
            tree.passed.iter_mut().for_each(|[here, _]| *here = false);
        }
    }

    /// What is left begins: what has been passed under any seed has been passed, and of all paths those are
    /// taken of which `is_taken` says so, by position.
    pub(crate) fn begin_rest(&mut self, is_taken: impl Fn(usize) -> bool) {
        for tree in &mut self.all {
            tree.passed.iter_mut().for_each(|[here, ever]| *here = *ever);
            // Every node comes after the one that leads to it.
            for at in (0..tree.nodes.len()).rev() {
                let node = &tree.nodes[at];
                let own = usize::from(node.path.is_some_and(|path| !is_taken(path)));
                let behind = node.ways.iter().map(|(_, way)| tree.left[*way]).sum::<usize>();
                tree.left[at] = own + behind;
            }
        }
    }
}

impl Tree {
    fn add(&mut self, position: usize, path: &CallPath) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        let mut passed = vec![0];
        for made in &path.conditions {
            at = self.step(at, made.term);
            passed.push(at);
        }
        self.left.resize(self.nodes.len(), 0);
        if self.nodes.get(at).is_some_and(|node| node.path.is_none()) {
            for node in passed {
                if let Some(left) = self.left.get_mut(node) {
                    *left += 1;
                }
            }
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
    /// Notes that these nodes are passed; whether one of them had not been under this seed, or under any.
    pub(crate) fn pass(&mut self, nodes: &[usize]) -> [bool; 2] {
        let mut is_new = [false; 2];
        for node in nodes {
            if let Some(passed) = self.passed.get_mut(*node) {
                is_new = [is_new[0] | !passed[0], is_new[1] | !passed[1]];
                *passed = [true; 2];
            }
        }
        is_new
    }

    /// The path at the end of these nodes has been taken for the first time.
    pub(crate) fn took(&mut self, passed: &[usize]) {
        for node in passed {
            if let Some(left) = self.left.get_mut(*node) {
                *left = left.saturating_sub(1);
            }
        }
    }

    /// Paths behind the node `at` that have not been taken.
    pub(crate) fn left(&self, at: usize) -> usize {
        self.left.get(at).copied().unwrap_or(0)
    }

    /// Ways off these nodes that lead to paths not taken: the number of nodes passed before, what has
    /// to hold instead, and where it leads.
    pub(crate) fn open_ways(&self, passed: &[usize]) -> Vec<(usize, Term, usize)> {
        let mut open = Vec::new();
        for (depth, at) in passed.iter().enumerate() {
            let next = passed.get(depth + 1);
            let ways = self.nodes.get(*at).into_iter().flat_map(|node| &node.ways);
            for (term, way) in ways {
                if Some(way) != next && self.left.get(*way).is_some_and(|left| *left > 0) {
                    open.push((depth, *term, *way));
                }
            }
        }
        open
    }

    /// Conditions that lead from nodes that have been passed to others, with the number of paths behind;
    /// `None`: not even the first has been.
    pub(crate) fn barriers(&self) -> Vec<(Option<Term>, usize)> {
        let reached = |node: usize| self.passed.get(node).is_some_and(|passed| passed[1]);
        if !reached(0) {
            return vec![(None, self.all.first().copied().unwrap_or(0))];
        }
        let nodes = self.nodes.iter().enumerate().filter(|(at, _)| reached(*at));
        let ways = nodes.flat_map(|(_, node)| &node.ways);
        let shut = ways.filter(|(_, way)| !reached(*way));
        shut.map(|(term, way)| (Some(*term), self.all.get(*way).copied().unwrap_or(0))).collect()
    }

    /// The first condition of a path that never held though all before it did; `None`: all have.
    pub(crate) fn barrier(&self, path: &CallPath) -> Option<Term> {
        let mut at = 0;
        path.conditions.iter().map(|made| made.term).find(|term| {
            let ways = self.nodes.get(at).map(|node| &node.ways).into_iter().flatten();
            let way = ways.filter(|(held, _)| held == term).map(|(_, way)| *way).next();
            at = way.unwrap_or(usize::MAX);
            !self.passed.get(at).is_some_and(|passed| passed[1])
        })
    }

    /// Whether anything has come here.
    pub(crate) fn is_entered(&self) -> bool {
        self.passed.first().is_some_and(|passed| passed[1])
    }

    /// What has held at each of these nodes but the first.
    pub(crate) fn held(&self, passed: &[usize]) -> Vec<Term> {
        let steps = passed.windows(2);
        let held = steps.filter_map(|step| {
            let [from, to] = step else { return None };
            let ways = &self.nodes.get(*from)?.ways;
            ways.iter().find(|(_, way)| way == to).map(|(term, _)| *term)
        });
        held.collect()
    }

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

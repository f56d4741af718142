//! Addresses that stand in a function's source: what its packets are given, and compared with.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch_analysis::expr::{Binary, Node, Term, Terms, operands};
use anabranch_analysis::{CallPath, Paths};

/// Fields that hold addresses.
const FIELDS: [&str; 4] = ["src", "dst", "src6", "dst6"];
const HEADERS: [&str; 3] = ["ipv4", "ipv6", "embedded"];

/// The constants that paths put where a packet has an address, or compare one with.
pub(crate) fn addresses(paths: &Paths) -> BTreeSet<IpAddr> {
    let terms = &paths.terms;
    let mut found = BTreeSet::new();
    for path in &paths.paths {
        for put in path.rewrites.iter().filter(|put| is_address(put.header, put.field)) {
            constants(put.term, terms, &mut found);
        }
        compared(path, terms, &mut found);
    }
    found
}

fn is_address(header: &str, field: &str) -> bool {
    HEADERS.contains(&header) && FIELDS.contains(&field)
}

/// All constants of the width of an address that a value may come to.
fn constants(term: Term, terms: &Terms, found: &mut BTreeSet<IpAddr>) {
    if let Node::Ite(_, yes, no) = *terms.node(term) {
        [yes, no].into_iter().for_each(|one| constants(one, terms, found));
    }
    let constant = terms.constant_of(term);
    found.extend(constant.and_then(|value| address(value, terms.width(term))));
}

/// What addresses of packets are compared with on a path.
fn compared(path: &CallPath, terms: &Terms, found: &mut BTreeSet<IpAddr>) {
    let mut next: Vec<Term> = path.conditions.iter().map(|condition| condition.term).collect();
    while let Some(term) = next.pop() {
        if let Node::Binary(Binary::Equal, a, b) = *terms.node(term)
            && let Node::Symbol(id) = *terms.node(a)
            && let Some((header, field)) = terms.symbol_of(id).name.split_once('.')
            && is_address(header, field)
        {
            constants(b, terms, found);
        }
        if terms.width(term) == 1 {
            next.extend(operands(terms.node(term)));
        }
    }
}

fn address(value: u128, width: u8) -> Option<IpAddr> {
    match width {
        32 => Some(Ipv4Addr::from(value as u32).into()),
        128 => Some(Ipv6Addr::from(value).into()),
        _ => None,
    }
}

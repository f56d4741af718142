//! Fields of packets that bring an index back: whoever was given it has sent it out, and answers bear it.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::expr::{Binary, Node, SymbolId, Term, Terms};
use anabranch_analysis::{Access, CallPath, Mode, Paths, Verdict};

use crate::filter::{Caller, caller};
use crate::owned::ASKING;
use crate::stale::indices;

/// A port, and a field of packets that arrive there.
pub(crate) type Arriving = (usize, String);

/// The fields in which an index of `pool` comes back that a packet has been sent out with, and the lines that put it
/// there.
pub(crate) fn returned(paths: &Paths, pool: &str) -> BTreeMap<Arriving, u32> {
    let mut returned = BTreeMap::new();
    let indices = indices(paths, pool);
    // Where nothing changes once it is made each index has its value, whoever has it.
    let changes = paths.accesses().map(|(_, one)| one).filter(|one| one.mode == Mode::Write);
    let changed: BTreeSet<&str> = changes.map(|one| &*one.object).collect();
    for path in paths.paths.iter().filter(|path| !path.rewrites.is_empty()) {
        let mut own: BTreeSet<SymbolId> = indices(path);
        // In the order in which they are made: of one's result another's key may be made.
        for one in path.accesses.iter().filter(|one| !changed.contains(&*one.object)) {
            let mut key = one.key.iter().flat_map(|part| paths.terms.unknowns(part.term).iter());
            if key.any(|id| own.contains(id)) {
                let found = one.result.iter();
                let found = found.flat_map(|part| paths.terms.unknowns(part.term).iter().copied());
                own.extend(found);
            }
        }
        let bears = |term: Term| paths.terms.unknowns(term).iter().any(|id| own.contains(id));
        for made in path.rewrites.iter().filter(|made| bears(made.term)) {
            for port in answered_at(path, paths) {
                let fields = answering(made.header, made.field);
                returned.extend(fields.into_iter().map(|field| ((port, field), made.line)));
            }
        }
    }
    returned
}

/// The ports at which an answer to what a path sends may come: wherever it may be sent to, and, as ways back differ from
/// ways out, all but the one at which it came. A route leads back there too, unless the path has asked whether it does.
fn answered_at(path: &CallPath, paths: &Paths) -> Vec<usize> {
    let all = 0..paths.words.ports.len().max(1);
    let asks = |one: &Access| one.operation == "leads_nowhere";
    let may_turn = match path.verdict {
        Verdict::Forward(port) => {
            let port = paths.terms.constant_of(port).and_then(|port| usize::try_from(port).ok());
            port.is_none() || port == path.port
        }
        Verdict::Flood => false,
        Verdict::Object(_) => !path.accesses.iter().any(asks),
        _ => return Vec::new(),
    };
    all.filter(|port| may_turn || path.port != Some(*port)).collect()
}

/// What has the value of a field in the answer to a packet, and in an error about it.
fn answering(header: &str, field: &str) -> Vec<String> {
    let turned = match field {
        "src" => "dst",
        "dst" => "src",
        "sequence" => "acknowledgement",
        "acknowledgement" => "sequence",
        other => other,
    };
    let quoted = match (header, field) {
        ("tcp" | "udp", "src") => Some("src_port"),
        ("tcp" | "udp", "dst") => Some("dst_port"),
        ("ipv6", "src") => Some("src6"),
        ("ipv6", "dst") => Some("dst6"),
        ("ethernet" | "vlan" | "arp", _) => None,
        _ => Some(field),
    };
    let quoted = quoted.map(|field| format!("embedded.{field}"));
    [format!("{header}.{turned}")].into_iter().chain(quoted).collect()
}

/// The fields that stand whole in the key of an access.
fn whole(one: &Access, terms: &Terms) -> BTreeSet<SymbolId> {
    let field = |mut term: Term| loop {
        match terms.node(term) {
            Node::Symbol(id) => return Some(*id),
            Node::Extend { signed: false, of, .. } => term = *of,
            _ => return None,
        }
    };
    one.key.iter().filter_map(|part| field(part.term)).collect()
}

/// Whether two values of one of a term's unknowns make two values of it, but where it carries: sums and products have no
/// bits that do not count.
fn counts_all(term: Term, terms: &Terms) -> bool {
    match *terms.node(term) {
        Node::Symbol(_) | Node::Constant { .. } => true,
        Node::Extend { of, .. } => counts_all(of, terms),
        Node::Binary(Binary::Add | Binary::Sub | Binary::Mul, a, b) => {
            counts_all(a, terms) && counts_all(b, terms)
        }
        _ => false,
    }
}

/// A line that writes an entry of `object` by a field that brings an index of `pool`, and has not found that the index
/// of this key is out.
pub(crate) fn unasked(
    paths: &Paths,
    object: &str,
    pool: &str,
    fields: &BTreeSet<Arriving>,
) -> Option<u32> {
    let terms = &paths.terms;
    let mut of_packets = paths.paths.iter().filter(|path| caller(path) == Caller::Packet);
    of_packets.find_map(|path| {
        let name = |id: &SymbolId| (path.port.unwrap_or(0), terms.symbol_of(*id).name.clone());
        let unknowns = |one: &Access| -> BTreeSet<SymbolId> {
            one.key.iter().flat_map(|part| terms.unknowns(part.term).iter().copied()).collect()
        };
        let brings = |one: &Access| unknowns(one).iter().any(|id| fields.contains(&name(id)));
        let asked: Vec<BTreeSet<SymbolId>> = path
            .accesses
            .iter()
            .filter(|one| one.object == pool && ASKING.contains(&&*one.operation))
            .filter(|one| path.outcome(one, terms) == Some(true) && brings(one))
            .filter(|one| one.key.iter().all(|part| counts_all(part.term, terms)))
            .map(|one| {
                let mut of_packet = unknowns(one);
                of_packet.retain(|id| !terms.symbol_of(*id).name.starts_with("settings."));
                of_packet
            })
            .collect();
        let is_asked = |one: &Access| {
            let whole = whole(one, terms);
            asked.iter().any(|of_index| of_index.is_subset(&whole))
        };
        let writes = |one: &&Access| one.object == object && one.mode == Mode::Write;
        let mut writes = path.accesses.iter().filter(writes);
        writes.find(|one| brings(one) && !is_asked(one)).map(|one| one.line)
    })
}

//! Fields of packets that bring an index back: whoever was given it has sent it out, and answers bear it.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::expr::{SymbolId, Term};
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
    for path in paths.paths.iter().filter(|path| !path.rewrites.is_empty()) {
        let own: BTreeSet<SymbolId> = indices(path);
        let bears = |term: Term| paths.terms.unknowns(term).iter().any(|id| own.contains(id));
        for made in path.rewrites.iter().filter(|made| bears(made.term)) {
            for port in sent_to(path, paths) {
                let fields = answering(made.header, made.field);
                returned.extend(fields.into_iter().map(|field| ((port, field), made.line)));
            }
        }
    }
    returned
}

/// The ports out of which a path sends its packet: of a flood, or a route, all but the one at which it came.
fn sent_to(path: &CallPath, paths: &Paths) -> Vec<usize> {
    let count = paths.words.ports.len();
    let is_sent = matches!(path.verdict, Verdict::Forward(_) | Verdict::Flood | Verdict::Object(_));
    if count == 0 && is_sent {
        return vec![0];
    }
    match path.verdict {
        Verdict::Forward(port) if paths.terms.constant_of(port).is_some() => {
            let port = paths.terms.constant_of(port);
            port.and_then(|port| usize::try_from(port).ok()).into_iter().collect()
        }
        Verdict::Forward(_) => (0..count).collect(),
        Verdict::Flood | Verdict::Object(_) => {
            (0..count).filter(|port| path.port != Some(*port)).collect()
        }
        _ => Vec::new(),
    }
}

/// What has the value of a field in the answer to a packet, and in an error about it.
fn answering(header: &str, field: &str) -> Vec<String> {
    let turned = match field {
        "src" => "dst",
        "dst" => "src",
        other => other,
    };
    let quoted = match (header, field) {
        ("tcp" | "udp", "src") => "src_port",
        ("tcp" | "udp", "dst") => "dst_port",
        _ => field,
    };
    vec![format!("{header}.{turned}"), format!("embedded.{quoted}")]
}

/// A line that writes an entry of `object` by a field that brings an index of `pool`, and has not found that the index
/// is out.
pub(crate) fn unasked(
    paths: &Paths,
    object: &str,
    pool: &str,
    fields: &BTreeSet<Arriving>,
) -> Option<u32> {
    let terms = &paths.terms;
    let mut of_packets = paths.paths.iter().filter(|path| caller(path) == Caller::Packet);
    of_packets.find_map(|path| {
        let brings = |one: &Access| {
            let names = one.key.iter().flat_map(|part| terms.unknowns(part.term).iter());
            let names = names.map(|id| (path.port.unwrap_or(0), terms.symbol_of(*id).name.clone()));
            names.filter(|field| fields.contains(field)).collect::<BTreeSet<Arriving>>()
        };
        let asks = path.accesses.iter().filter(|one| {
            let asks = one.object == pool && ASKING.contains(&&*one.operation);
            asks && path.outcome(one, terms) == Some(true)
        });
        let asked: BTreeSet<Arriving> = asks.flat_map(brings).collect();
        let writes = |one: &&Access| one.object == object && one.mode == Mode::Write;
        let mut writes = path.accesses.iter().filter(writes).filter(|one| {
            let brought = brings(one);
            !brought.is_empty() && brought.is_disjoint(&asked)
        });
        writes.next().map(|one| one.line)
    })
}

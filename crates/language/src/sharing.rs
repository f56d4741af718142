//! What the packet path writes, by a scan of its code.

use std::collections::BTreeSet;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Block, Expr, ExprMethodCall, ExprPath, Member};

use crate::names;
use crate::{Module, StateKind};

/// What the handlers of the packet path write: whether shards may share nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nothing: the state is read-only, or there is none.
    ReadOnly,
    /// Only the state of packet sets, each touched by the shard it is steered to.
    PacketSets,
    /// A state object that shards would have to share.
    Aggregate {
        /// The field of the NF struct.
        object: String,
        /// A line that writes it.
        line: u32,
    },
    /// A packet may re-enter, as a step that another shard may have to do.
    Recirculates {
        /// The line that says so.
        line: u32,
    },
}

/// Handlers that run beside packets; `init`, `control` and `shutdown` may write anything.
const PACKET_PATH: &[&str] =
    &["packet_set_opened", "packet", "packet_set_expired", "orphan", "timer", "periodic"];

/// Scans `module`.
pub(crate) fn of(module: &Module) -> Sharing {
    let mut scan = Scan { module, written: None, recirculates: None, calls: BTreeSet::new() };
    for name in reachable(module) {
        for block in blocks(module, &name) {
            scan.visit_block(block);
        }
    }
    match (scan.written, scan.recirculates) {
        (Some((_, object, span)), _) => Sharing::Aggregate { object, line: module.line(span) },
        (None, Some(span)) => Sharing::Recirculates { line: module.line(span) },
        (None, None) if module.packet_set.is_some() => Sharing::PacketSets,
        (None, None) => Sharing::ReadOnly,
    }
}

/// The functions and methods that the packet path may run, by name.
fn reachable(module: &Module) -> BTreeSet<String> {
    let expired = module.nf.fields.iter().filter_map(|field| field.expired.as_ref());
    let mut open: Vec<String> = PACKET_PATH.iter().map(|name| (*name).to_owned()).collect();
    open.extend(expired.map(ToString::to_string));
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        if !found.insert(name.clone()) {
            continue;
        }
        let mut scan = Scan { module, written: None, recirculates: None, calls: BTreeSet::new() };
        for block in blocks(module, &name) {
            scan.visit_block(block);
        }
        open.extend(scan.calls);
    }
    found
}

fn blocks<'a>(module: &'a Module, name: &'a str) -> impl Iterator<Item = &'a Block> {
    let methods = module.methods().map(|method| (&method.function.sig, &method.function.block));
    let functions = module.fns.iter().map(|function| (&function.sig, &*function.block));
    methods.chain(functions).filter(move |(sig, _)| sig.ident == name).map(|(_, block)| block)
}

struct Scan<'a> {
    module: &'a Module,
    written: Option<((u8, usize), String, Span)>,
    recirculates: Option<Span>,
    /// Every name that may be a call of the module's own code.
    calls: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Scan<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let operation = call.method.to_string();
        if let Expr::Field(field) = &*call.receiver
            && let Member::Named(name) = &field.member
            && let Some(object) = self.module.state(&name.to_string())
            && writes(object.kind.name(), &operation)
        {
            let found = (rank(&object.kind), call.method.span().start().line);
            if self.written.as_ref().is_none_or(|(best, ..)| found < *best) {
                self.written = Some((found, name.to_string(), call.method.span()));
            }
        }
        self.calls.insert(operation);
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        if let Some(last) = path.path.segments.last() {
            if last.ident == "Recirculate" {
                self.recirculates.get_or_insert(path.span());
            }
            self.calls.insert(last.ident.to_string());
        }
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        if let Ok(matches) = crate::macros::matches(mac) {
            self.visit_expr(&matches.value);
            matches.guard.iter().for_each(|guard| self.visit_expr(guard));
        } else if let Ok(log) = crate::macros::log(mac) {
            log.values.iter().for_each(|value| self.visit_expr(value));
        }
    }
}

/// Which object to name of several: first what no shard could keep apart, last what commutes.
fn rank(kind: &StateKind) -> u8 {
    match kind {
        StateKind::Counter | StateKind::Distributed(_) => 2,
        StateKind::L3 => 1,
        _ => 0,
    }
}

fn writes(kind: &str, operation: &str) -> bool {
    names::operations(kind).iter().any(|known| known.name == operation && known.writes)
}

//! The state objects of a network function, and where its text touches them.

use std::collections::BTreeSet;

use anabranch_language::{Module, names};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprMethodCall, ExprPath, Member};

/// A state object: a field of the NF struct, or the packet set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateObject {
    /// The field, or the packet set's type.
    pub name: String,
    /// `Map`, `Vector`, …, or `PacketSet`.
    pub kind: &'static str,
    /// Its capacity as the author wrote it, over `settings`.
    pub capacity: Option<String>,
    /// How stale a merged reading may be, of a `Distributed`, in milliseconds as the author wrote it, over
    /// `settings`.
    pub staleness_ms: Option<String>,
    /// Line of its declaration in the author's file.
    pub line: u32,
    /// The calls of its operations, by line; none for a packet set, which the runtime looks up.
    pub sites: Vec<Site>,
}

/// A call of an operation of a state object, in the author's text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// Line in the author's file.
    pub line: u32,
    /// The operation.
    pub operation: String,
    /// Whether it may change what a later packet sees.
    pub writes: bool,
    /// The handlers whose code it may be part of: `init`, `packet`, methods of `#[expired]`.
    pub handlers: BTreeSet<String>,
}

impl StateObject {
    /// The line at which `handler` first writes it, if it does.
    pub fn written_by(&self, handler: &str) -> Option<u32> {
        let mut sites = self.sites.iter();
        sites.find(|site| site.writes && site.handlers.contains(handler)).map(|site| site.line)
    }
}

/// Every state object of a module: its packet set first, then the fields in order.
pub(crate) fn objects(module: &Module) -> Vec<StateObject> {
    let mut objects = Vec::new();
    if let Some(set) = &module.packet_set {
        objects.push(StateObject {
            name: set.ident.to_string(),
            kind: "PacketSet",
            capacity: written(&set.capacity),
            staleness_ms: None,
            line: set.line,
            sites: Vec::new(),
        });
    }
    for field in module.nf.fields.iter().filter(|field| field.kind.name() != "Settings") {
        objects.push(StateObject {
            name: field.ident.to_string(),
            kind: field.kind.name(),
            capacity: field.capacity.as_ref().and_then(written),
            staleness_ms: field.staleness_ms.as_ref().and_then(written),
            line: field.line,
            sites: Vec::new(),
        });
    }
    for handler in handlers(module) {
        for (object, site) in calls_of(module, &handler) {
            if let Some(object) = objects.iter_mut().find(|known| known.name == object) {
                add(object, site, &handler);
            }
        }
    }
    objects
}

fn written(expression: &Expr) -> Option<String> {
    let text = expression.span().source_text()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn add(object: &mut StateObject, site: Site, handler: &str) {
    let same = |known: &&mut Site| (known.line, &known.operation) == (site.line, &site.operation);
    match object.sites.iter_mut().find(same) {
        Some(known) => {
            known.handlers.insert(handler.to_owned());
        }
        None => object.sites.push(site),
    }
    object.sites.sort();
}

/// The methods that the runtime calls.
fn handlers(module: &Module) -> Vec<String> {
    let expired = module.nf.fields.iter().filter_map(|field| field.expired.as_ref());
    let mut all: Vec<String> = names::HANDLERS.iter().map(|name| (*name).to_owned()).collect();
    all.extend(expired.map(ToString::to_string));
    all
}

/// The calls that a handler may come to, by name: what is called as something of the module is
/// taken to be that.
fn calls_of(module: &Module, handler: &str) -> Vec<(String, Site)> {
    let mut scan = Scan { module, handler, found: Vec::new(), open: vec![handler.to_owned()] };
    let mut seen = BTreeSet::new();
    while let Some(name) = scan.open.pop() {
        if seen.insert(name.clone()) {
            bodies(module, &name).for_each(|body| scan.visit_block(body));
        }
    }
    scan.found
}

fn bodies<'m>(module: &'m Module, name: &str) -> impl Iterator<Item = &'m Block> {
    let of_methods = module.methods().filter(move |method| method.function.sig.ident == name);
    let of_methods: Vec<&Block> = of_methods.map(|method| &method.function.block).collect();
    let function = module.fn_named(name).map(|function| &*function.block);
    of_methods.into_iter().chain(function)
}

struct Scan<'m> {
    module: &'m Module,
    handler: &'m str,
    found: Vec<(String, Site)>,
    open: Vec<String>,
}

impl Scan<'_> {
    fn operation(&mut self, object: String, operation: &str, span: Span) {
        let Some(field) = self.module.state(&object) else { return };
        let known = names::operations(field.kind.name());
        let Some(known) = known.iter().find(|known| known.name == operation) else { return };
        let site = Site {
            line: self.module.line(span),
            operation: operation.to_owned(),
            writes: known.writes,
            handlers: BTreeSet::from([self.handler.to_owned()]),
        };
        self.found.push((object, site));
    }
}

impl<'ast> Visit<'ast> for Scan<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let name = call.method.to_string();
        let on_field = match &*call.receiver {
            Expr::Field(field) => Some(&field.member),
            _ => None,
        };
        if let Some(Member::Named(object)) = on_field {
            self.operation(object.to_string(), &name, call.method.span());
        }
        // No field holds the network function: on one, methods of other types alone can be meant.
        let mut of = self.module.methods().filter(|one| one.function.sig.ident == name);
        if on_field.is_none() || of.any(|one| self.module.nf.ident != one.of()) {
            self.open.push(name);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        let last = path.path.segments.last();
        self.open.extend(last.map(|segment| segment.ident.to_string()));
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        let values = match (anabranch_language::macros::matches(mac), mac) {
            (Ok(matches), _) => {
                [Some(matches.value), matches.guard].into_iter().flatten().collect()
            }
            (Err(_), mac) => {
                anabranch_language::macros::log(mac).map_or(Vec::new(), |log| log.values)
            }
        };
        values.iter().for_each(|value| self.visit_expr(value));
    }
}

//! Recursion: refused, so that every call path ends and none overflows the stack.

use std::collections::BTreeMap;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Block, Expr, ExprMethodCall, ExprPath, FnArg, Member, Pat, Signature};

use crate::Module;
use crate::error::Errors;
use crate::macros;
use crate::module::type_name;

/// A function: its type (empty for free functions) and its name.
type Node = (String, String);
type Calls = BTreeMap<Node, Vec<(Node, Span)>>;

/// Refuses every cycle of calls, at one call in it.
pub(super) fn check(module: &Module, errors: &mut Errors) {
    let calls = calls(module);
    let mut state = BTreeMap::new();
    for node in calls.keys() {
        walk(node, &calls, &mut state, errors);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Open,
    Done,
}

/// Depth first; an edge back to an open node closes a cycle. Modules are small: the depth is
/// bounded by the number of functions.
fn walk(node: &Node, calls: &Calls, state: &mut BTreeMap<Node, Seen>, errors: &mut Errors) {
    if state.contains_key(node) {
        return;
    }
    state.insert(node.clone(), Seen::Open);
    for (callee, span) in calls.get(node).into_iter().flatten() {
        if state.get(callee) == Some(&Seen::Open) {
            let name = shown(callee);
            let what = if callee == node {
                format!("`{name}` calls itself")
            } else {
                format!("`{name}` calls itself through `{}`", shown(node))
            };
            errors.refuse(*span, what, "write a bounded loop: `for i in 0..n { … }`");
        }
        walk(callee, calls, state, errors);
    }
    state.insert(node.clone(), Seen::Done);
}

fn shown((of, name): &Node) -> String {
    if of.is_empty() { name.clone() } else { format!("{of}::{name}") }
}

fn calls(module: &Module) -> Calls {
    let mut all = Calls::new();
    for function in &module.fns {
        let node = (String::new(), function.sig.ident.to_string());
        all.insert(node, calls_of(module, None, &function.sig, &function.block));
    }
    for method in module.methods() {
        let of = method.of();
        let function = method.function;
        let found = calls_of(module, Some(&of), &function.sig, &function.block);
        all.insert((of, function.sig.ident.to_string()), found);
    }
    all
}

fn calls_of(
    module: &Module,
    of: Option<&str>,
    signature: &Signature,
    body: &Block,
) -> Vec<(Node, Span)> {
    let (mut types, mut parameters) = (BTreeMap::new(), Bound::default());
    for input in &signature.inputs {
        parameters.visit_fn_arg(input);
        if let FnArg::Typed(typed) = input
            && let (Pat::Ident(name), Some(ty)) = (&*typed.pat, type_name(&typed.ty))
        {
            types.insert(name.ident.to_string(), ty);
        }
    }
    // A name that is bound again may be of another type.
    let mut rebound = Bound::default();
    rebound.visit_block(body);
    types.retain(|name, _| !rebound.0.contains(name));
    let mut found = Found { module, of, types, parameters: parameters.0, calls: Vec::new() };
    found.visit_block(body);
    found.calls
}

/// Names that patterns bind.
#[derive(Default)]
struct Bound(Vec<String>);

impl<'ast> Visit<'ast> for Bound {
    fn visit_pat_ident(&mut self, name: &'ast syn::PatIdent) {
        self.0.push(name.ident.to_string());
    }
}

struct Found<'a> {
    module: &'a Module,
    of: Option<&'a str>,
    /// Parameters' types, by name.
    types: BTreeMap<String, String>,
    /// Their names: such a one that is called is a closure, whatever functions there are.
    parameters: Vec<String>,
    calls: Vec<(Node, Span)>,
}

impl Found<'_> {
    /// The type of a receiver, where the source says it.
    fn type_of(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Path(path) if path.path.is_ident("self") => self.of.map(str::to_owned),
            Expr::Path(path) => self.types.get(&path.path.get_ident()?.to_string()).cloned(),
            Expr::Paren(paren) => self.type_of(&paren.expr),
            Expr::Field(field) => {
                let of = self.type_of(&field.base)?;
                let Member::Named(name) = &field.member else { return None };
                let nf = &self.module.nf;
                let item = match nf.ident == of {
                    true => &nf.item,
                    false => self.module.struct_named(&of)?,
                };
                let fields = item.fields.iter();
                let field = fields.into_iter().find(|field| field.ident.as_ref() == Some(name))?;
                type_name(&field.ty)
            }
            _ => None,
        }
    }

    fn call(&mut self, of: &str, name: &str, span: Span) {
        let of = if of == "Self" { self.of.unwrap_or(of) } else { of };
        self.calls.push(((of.to_owned(), name.to_owned()), span));
    }
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let name = call.method.to_string();
        match self.type_of(&call.receiver) {
            Some(of) => self.call(&of, &name, call.method.span()),
            // Any type's method of that name may be meant.
            None => {
                let module = self.module;
                for method in module.methods().filter(|method| method.takes_self()) {
                    if method.function.sig.ident == name {
                        self.call(&method.of(), &name, call.method.span());
                    }
                }
            }
        }
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        let names: Vec<String> = path.path.segments.iter().map(|s| s.ident.to_string()).collect();
        match names.as_slice() {
            [name] if self.parameters.contains(name) => {}
            [name] => self.call("", name, path.span()),
            [of, name] => self.call(of, name, path.span()),
            _ => {}
        }
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        if let Ok(matches) = macros::matches(mac) {
            self.visit_expr(&matches.value);
            matches.guard.iter().for_each(|guard| self.visit_expr(guard));
        } else if let Ok(log) = macros::log(mac) {
            log.values.iter().for_each(|value| self.visit_expr(value));
        }
    }
}

//! Packet and context are lent to cold functions and to routing, not handed on.
//!
//! What is handed on by reference has an address, and whoever has one may be written through: from then on the
//! handler would read the headers' places and the clock's from memory for every packet, for the sake of a
//! function that hardly ever runs. A copy, made where the call is, has that address instead:
//!
//! ```text
//! self.arrive(pkt, cx)   becomes   self.arrive(&mut pkt.lent(), &mut cx.lent())
//! ```
//!
//! That is done where nothing could show it: with parameters of the caller that are not shadowed, that no
//! other argument mentions (what is handed on may still be read there, what is lent may not), and to functions
//! that return values, nothing that borrows. What is only read is handed on all the same: the caller may hold
//! a view of it.

use anabranch_language::{Module, StateKind};
use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Block, Expr, FnArg, Ident, Member, Pat, ReturnType, Signature, Type, parse_quote,
};

/// What an `L3` does with packet and context.
const ROUTING: [&str; 3] = ["admit", "receive", "forward"];

/// The parameters of a function of this signature that it may lend: its packet and its context.
pub(crate) fn lendables(signature: &Signature) -> Vec<Ident> {
    signature.inputs.iter().filter_map(|input| lendable(input).cloned()).collect()
}

/// Rewrites the calls in `block`, the body of a function with these parameters.
pub(crate) fn rewrite(module: &Module, mut own: Vec<Ident>, block: &mut Block) {
    let mut bound = Bound(Vec::new());
    bound.visit_block(block);
    own.retain(|name| !bound.0.contains(name));
    if !own.is_empty() {
        Calls { module, own }.visit_block_mut(block);
    }
}

/// The name of a parameter that is a packet or a context to be changed.
fn lendable(input: &FnArg) -> Option<&Ident> {
    let FnArg::Typed(typed) = input else { return None };
    let (Pat::Ident(pattern), Type::Reference(reference)) = (&*typed.pat, &*typed.ty) else {
        return None;
    };
    let Type::Path(path) = &*reference.elem else { return None };
    let is_lendable = ["Packet", "Context"].iter().any(|name| path.path.is_ident(name));
    (reference.mutability.is_some() && is_lendable).then_some(&pattern.ident)
}

fn is_lendable(input: &FnArg) -> bool {
    lendable(input).is_some()
}

fn is_self(expr: &Expr) -> bool {
    matches!(expr, Expr::Path(path) if path.path.is_ident("self"))
}

/// Names bound in a body.
struct Bound(Vec<Ident>);

impl Visit<'_> for Bound {
    fn visit_pat_ident(&mut self, pattern: &syn::PatIdent) {
        self.0.push(pattern.ident.clone());
        syn::visit::visit_pat_ident(self, pattern);
    }
}

struct Calls<'a> {
    module: &'a Module,
    /// Parameters of the caller that can be lent.
    own: Vec<Ident>,
}

impl VisitMut for Calls<'_> {
    fn visit_expr_method_call_mut(&mut self, call: &mut syn::ExprMethodCall) {
        visit_mut::visit_expr_method_call_mut(self, call);
        let routes = ROUTING.iter().any(|method| call.method == method);
        if routes && self.is_router(&call.receiver) {
            return self.lend(std::iter::repeat(true), &mut call.args);
        }
        let is_self = is_self(&call.receiver);
        let functions = self.module.methods().map(|method| method.function);
        let mut named = functions.filter(|function| is_self && function.sig.ident == call.method);
        // Of one name: whose type it is cannot be told here.
        let (Some(callee), None) = (named.next(), named.next()) else { return };
        if self.suits(&callee.sig, &callee.attrs) {
            // The receiver is none of the arguments.
            self.lend(callee.sig.inputs.iter().skip(1).map(is_lendable), &mut call.args);
        }
    }

    fn visit_expr_call_mut(&mut self, call: &mut syn::ExprCall) {
        visit_mut::visit_expr_call_mut(self, call);
        let Expr::Path(path) = &*call.func else { return };
        let Some(name) = path.path.get_ident() else { return };
        let callee = self.module.fns.iter().find(|function| function.sig.ident == *name);
        if let Some(callee) = callee.filter(|callee| self.suits(&callee.sig, &callee.attrs)) {
            self.lend(callee.sig.inputs.iter().map(is_lendable), &mut call.args);
        }
    }
}

impl Calls<'_> {
    /// Whether the callee is cold and returns nothing that could borrow.
    fn suits(&self, callee: &Signature, attrs: &[Attribute]) -> bool {
        let is_cold = attrs.iter().any(|attr| attr.path().is_ident("cold"));
        let returns_value = match &callee.output {
            ReturnType::Default => true,
            ReturnType::Type(_, returned) => self.is_value(returned),
        };
        is_cold && returns_value
    }

    fn is_value(&self, returned: &Type) -> bool {
        const PLAIN: [&str; 20] = [
            "Verdict", "Option", "Result", "Reason", "Builtin", "Port", "MacAddr", "Ipv4Addr",
            "Ipv6Addr", "bool", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32",
            "i64",
        ];
        let mut names = Names(Vec::new());
        names.visit_type(returned);
        let (structs, enums) = (&self.module.structs, &self.module.enums);
        let is_own = |name: &Ident| {
            structs.iter().any(|own| own.ident == *name)
                || enums.iter().any(|own| own.ident == *name)
        };
        names.0.iter().all(|name| PLAIN.iter().any(|plain| name == plain) || is_own(name))
    }

    /// Whether it is a field that routes. Where there are no interfaces nothing calls it, so that it
    /// is as good as cold.
    fn is_router(&self, receiver: &Expr) -> bool {
        let Expr::Field(field) = receiver else { return false };
        let Member::Named(name) = &field.member else { return false };
        let state = self.module.state(&name.to_string());
        is_self(&field.base) && state.is_some_and(|state| matches!(state.kind, StateKind::L3))
    }

    /// `lendable`: which of the arguments may be lent.
    fn lend(
        &self,
        lendable: impl Iterator<Item = bool>,
        arguments: &mut syn::punctuated::Punctuated<Expr, syn::Token![,]>,
    ) {
        let mut mentioned = Vec::new();
        identifiers(arguments.to_token_stream(), &mut mentioned);
        for (lendable, argument) in lendable.zip(arguments) {
            let Expr::Path(path) = &*argument else { continue };
            let Some(name) = path.path.get_ident() else { continue };
            let is_alone = mentioned.iter().filter(|mentioned| *mentioned == name).count() == 1;
            if lendable && self.own.contains(name) && is_alone {
                let lent = name.clone();
                *argument = parse_quote!(&mut #lent.lent());
            }
        }
    }
}

fn identifiers(tokens: proc_macro2::TokenStream, found: &mut Vec<Ident>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => found.push(ident),
            TokenTree::Group(group) => identifiers(group.stream(), found),
            _ => {}
        }
    }
}

/// Every name in a type; one that is not a path counts as its own kind, which is no value.
struct Names(Vec<Ident>);

impl Visit<'_> for Names {
    fn visit_type(&mut self, kind: &Type) {
        match kind {
            Type::Path(_) | Type::Tuple(_) | Type::Array(_) => syn::visit::visit_type(self, kind),
            _ => self.0.push(Ident::new("other", proc_macro2::Span::call_site())),
        }
    }

    fn visit_path_segment(&mut self, segment: &syn::PathSegment) {
        self.0.push(segment.ident.clone());
        syn::visit::visit_path_segment(self, segment);
    }
}

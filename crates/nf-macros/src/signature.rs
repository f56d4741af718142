//! Functions and methods: generic over the world where they touch it.

use anabranch_language::Module;
use proc_macro2::TokenStream;
use quote::quote;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, ExprPath, GenericParam, Generics, ImplItem, ItemFn, ItemImpl, PathArguments,
    Signature, TypeParamBound, TypePath, parse_quote,
};

use crate::arithmetic;

/// What a function knows of the world it runs in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Nothing, and needs nothing.
    Nothing,
    /// How packets behave: it takes a `Packet` alone.
    Mode,
    /// The world: it takes a `Context` or the NF.
    World,
}

/// The module's free functions.
pub(crate) fn functions(module: &Module) -> TokenStream {
    arithmetic::tokens(module.fns.iter().map(|function| {
        let mut function = function.clone();
        let cold = is_cold(&function.attrs);
        emit(module, &mut function, Known::Nothing);
        function.attrs.extend(inlining(cold, &function.block));
        function
    }))
}

/// The module's `impl` blocks.
pub(crate) fn methods(module: &Module) -> TokenStream {
    arithmetic::tokens(module.impls.iter().map(|block| implementation(module, block)))
}

fn implementation(module: &Module, block: &ItemImpl) -> ItemImpl {
    let mut block = block.clone();
    let nf = &module.nf.ident;
    let of_nf = matches!(&*block.self_ty, syn::Type::Path(path) if path.path.is_ident(nf));
    plain_bounds(&mut block.generics);
    if of_nf {
        block.generics = parse_quote!(<__W: ::anabranch_nf::world::World>);
        block.self_ty = parse_quote!(#nf<__W>);
    }
    let known = if of_nf { Known::World } else { Known::Nothing };
    for item in &mut block.items {
        if let ImplItem::Fn(method) = item {
            let mut function = ItemFn {
                attrs: Vec::new(),
                vis: method.vis.clone(),
                sig: method.sig.clone(),
                block: Box::new(method.block.clone()),
            };
            emit(module, &mut function, known);
            let cold = is_cold(&method.attrs);
            kept(&mut method.attrs);
            method.attrs.extend(inlining(cold, &method.block));
            method.sig = function.sig;
            method.block = *function.block;
        }
    }
    block
}

fn is_cold(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident("cold"))
}

/// A handler and what it calls become part of the batch loop, in every world: the hollow ones
/// vanish only where the compiler sees all of it. For the same reason what is cold may be inlined:
/// where it is hollow, little is left of it. Loops cost more than a call.
fn inlining(cold: bool, body: &syn::Block) -> Vec<Attribute> {
    let mut loops = Loops(false);
    loops.visit_block(body);
    match (cold, loops.0) {
        (true, _) => vec![parse_quote!(#[cold]), parse_quote!(#[inline])],
        (false, true) => vec![parse_quote!(#[inline])],
        (false, false) => vec![parse_quote!(#[inline(always)])],
    }
}

struct Loops(bool);

impl Visit<'_> for Loops {
    fn visit_expr(&mut self, expr: &syn::Expr) {
        self.0 |= matches!(expr, syn::Expr::ForLoop(_) | syn::Expr::While(_) | syn::Expr::Loop(_));
        syn::visit::visit_expr(self, expr);
    }
}

/// Rewrites one function; `outer` is what its `impl` block knows.
fn emit(module: &Module, function: &mut ItemFn, outer: Known) {
    kept(&mut function.attrs);
    plain_bounds(&mut function.sig.generics);
    let needs = needs(module, &function.sig);
    let known = match outer {
        Known::World => Known::World,
        _ => needs,
    };
    if outer != Known::World {
        match needs {
            Known::Nothing => {}
            Known::Mode => {
                function.sig.generics.params.push(parse_quote!(__M: ::anabranch_nf::packet::Mode))
            }
            Known::World => {
                function.sig.generics.params.push(parse_quote!(__W: ::anabranch_nf::world::World))
            }
        }
    }
    let mut worlds = Worlds { module, known, in_nf: outer == Known::World };
    worlds.visit_signature_mut(&mut function.sig);
    worlds.visit_block_mut(&mut function.block);
    arithmetic::rewrite(module, hollow(known), &mut function.block);
}

/// The constant that says whether the world is hollow.
fn hollow(known: Known) -> Option<TokenStream> {
    match known {
        Known::Nothing => None,
        Known::Mode => Some(quote!(<__M as ::anabranch_nf::packet::Mode>::HOLLOW)),
        Known::World => Some(quote!(<__W as ::anabranch_nf::world::World>::HOLLOW)),
    }
}

/// Attributes that are Rust's: documentation.
fn kept(attrs: &mut Vec<Attribute>) {
    attrs.retain(|attr| attr.path().is_ident("doc"));
}

/// Every type parameter is a plain value, but for closures.
fn plain_bounds(generics: &mut Generics) {
    for parameter in &mut generics.params {
        let GenericParam::Type(parameter) = parameter else { continue };
        let closure = parameter.bounds.iter().any(|bound| match bound {
            TypeParamBound::Trait(bound) => {
                bound.path.is_ident("Fn")
                    || bound.path.segments.iter().any(|s| s.ident == "Fn" || s.ident == "FnMut")
            }
            _ => false,
        });
        if !closure {
            for bound in &mut parameter.bounds {
                qualify(bound);
            }
            parameter.bounds.push(parse_quote!(::anabranch_nf::Value));
        }
    }
}

/// The prelude has no `Value` and `Key`: nothing else of the language needs them.
fn qualify(bound: &mut TypeParamBound) {
    if let TypeParamBound::Trait(bound) = bound {
        let name = bound.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "Value" => bound.path = parse_quote!(::anabranch_nf::Value),
            "Key" => bound.path = parse_quote!(::anabranch_nf::Key),
            _ => {}
        }
    }
}

fn needs(module: &Module, signature: &Signature) -> Known {
    let mut mentions = Mentions { module, known: Known::Nothing };
    mentions.visit_signature(signature);
    mentions.known
}

struct Mentions<'a> {
    module: &'a Module,
    known: Known,
}

impl<'ast> Visit<'ast> for Mentions<'_> {
    fn visit_type_path(&mut self, path: &'ast TypePath) {
        if path.path.is_ident("Context") || path.path.is_ident(&self.module.nf.ident) {
            self.known = Known::World;
        } else if path.path.is_ident("Packet") && self.known == Known::Nothing {
            self.known = Known::Mode;
        }
        syn::visit::visit_type_path(self, path);
    }
}

/// Writes the world into types and paths.
struct Worlds<'a> {
    module: &'a Module,
    known: Known,
    in_nf: bool,
}

impl VisitMut for Worlds<'_> {
    fn visit_type_path_mut(&mut self, path: &mut TypePath) {
        visit_mut::visit_type_path_mut(self, path);
        let arguments: Option<PathArguments> = if path.path.is_ident("Packet") {
            match self.known {
                Known::World => {
                    Some(bracketed(quote!('_, <__W as ::anabranch_nf::world::World>::Mode)))
                }
                Known::Mode => Some(bracketed(quote!('_, __M))),
                Known::Nothing => None,
            }
        } else if path.path.is_ident("Context") {
            Some(bracketed(quote!('_, __W)))
        } else if path.path.is_ident(&self.module.nf.ident) {
            Some(bracketed(quote!(__W)))
        } else {
            None
        };
        if let (Some(arguments), Some(segment)) = (arguments, path.path.segments.last_mut()) {
            segment.arguments = arguments;
        }
    }

    fn visit_expr_path_mut(&mut self, path: &mut ExprPath) {
        visit_mut::visit_expr_path_mut(self, path);
        let several = path.path.segments.len() > 1;
        if let Some(first) = path.path.segments.first_mut().filter(|_| several)
            && first.ident == self.module.nf.ident
        {
            match (self.in_nf, self.known) {
                (true, _) => first.ident = syn::Ident::new("Self", first.ident.span()),
                (false, Known::World) => first.arguments = turbofish(quote!(__W)),
                (false, _) => first.arguments = turbofish(quote!(::anabranch_nf::world::Solo)),
            }
        }
    }
}

fn bracketed(arguments: TokenStream) -> PathArguments {
    PathArguments::AngleBracketed(parse_quote!(<#arguments>))
}

fn turbofish(arguments: TokenStream) -> PathArguments {
    PathArguments::AngleBracketed(parse_quote!(::<#arguments>))
}

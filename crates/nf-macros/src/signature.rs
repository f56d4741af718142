//! Functions and methods: generic over the world where they touch it.

use anabranch_language::Module;
use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Expr, ExprField, ExprPath, GenericParam, Generics, ImplItem, ItemFn, ItemImpl,
    Member, PathArguments, Signature, TypeParamBound, TypePath, parse_quote, parse_quote_spanned,
};

use crate::state::settings_field;
use crate::{arithmetic, lending};

/// The module's free functions.
pub(crate) fn functions(module: &Module) -> TokenStream {
    arithmetic::tokens(module.fns.iter().map(|function| {
        let mut function = function.clone();
        let cold = is_cold(&function.attrs);
        emit(module, &mut function, false);
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
    for item in &mut block.items {
        if let ImplItem::Fn(method) = item {
            let mut function = ItemFn {
                attrs: Vec::new(),
                vis: method.vis.clone(),
                sig: method.sig.clone(),
                block: Box::new(method.block.clone()),
            };
            emit(module, &mut function, of_nf);
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
    fn visit_expr(&mut self, expr: &Expr) {
        self.0 |= matches!(expr, Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_));
        syn::visit::visit_expr(self, expr);
    }
}

/// Rewrites one function; `of_nf`: it is in an `impl` block of the NF, which knows the world.
fn emit(module: &Module, function: &mut ItemFn, of_nf: bool) {
    kept(&mut function.attrs);
    let lendables = lending::lendables(&function.sig);
    plain_bounds(&mut function.sig.generics);
    let mut needs = Needs::of(module, &function.sig);
    let parameters = &mut function.sig.generics.params;
    if needs.mode {
        parameters.push(parse_quote!(__M: ::anabranch_nf::packet::Mode));
    }
    if needs.world && !of_nf {
        parameters.push(parse_quote!(__W: ::anabranch_nf::world::World));
    }
    needs.world |= of_nf;
    let mut worlds = Worlds { module, world: needs.world, of_nf };
    worlds.visit_signature_mut(&mut function.sig);
    worlds.visit_block_mut(&mut function.block);
    arithmetic::rewrite(module, needs.hollow(), &mut function.block);
    // Of what is written out, too.
    lending::rewrite(module, lendables, &mut function.block);
}

/// What a function knows of where it runs.
#[derive(Clone, Copy)]
struct Needs {
    /// How packets behave: it takes a `Packet`.
    mode: bool,
    /// The world: it takes a `Context` or the NF.
    world: bool,
}

impl Needs {
    fn of(module: &Module, signature: &Signature) -> Self {
        let mut mentions = Mentions { module, needs: Self { mode: false, world: false } };
        mentions.visit_signature(signature);
        mentions.needs
    }

    /// The constant that says whether the world is hollow.
    fn hollow(self) -> Option<TokenStream> {
        if self.world {
            return Some(quote!(<__W as ::anabranch_nf::world::World>::HOLLOW));
        }
        self.mode.then(|| quote!(<__M as ::anabranch_nf::packet::Mode>::HOLLOW))
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

struct Mentions<'a> {
    module: &'a Module,
    needs: Needs,
}

impl<'ast> Visit<'ast> for Mentions<'_> {
    fn visit_type_path(&mut self, path: &'ast TypePath) {
        let nf = &self.module.nf.ident;
        self.needs.world |= path.path.is_ident("Context") || path.path.is_ident(nf);
        self.needs.mode |= path.path.is_ident("Packet");
        syn::visit::visit_type_path(self, path);
    }
}

/// Writes the world into types and paths.
struct Worlds<'a> {
    module: &'a Module,
    /// The function knows it.
    world: bool,
    of_nf: bool,
}

impl Worlds<'_> {
    /// `self.settings`, in a method of the NF.
    fn is_settings(&self, expr: &Expr) -> bool {
        let Expr::Field(field) = expr else { return false };
        let Expr::Path(base) = &*field.base else { return false };
        let Member::Named(name) = &field.member else { return false };
        self.of_nf && base.path.is_ident("self") && settings_field(self.module) == Some(name)
    }
}

impl VisitMut for Worlds<'_> {
    /// The field holds them by a type of the world's: the author means the settings themselves.
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if self.is_settings(expr) {
            *expr = parse_quote_spanned!(expr.span()=> (*#expr));
        } else {
            visit_mut::visit_expr_mut(self, expr);
        }
    }

    /// A field is reached either way.
    fn visit_expr_field_mut(&mut self, field: &mut ExprField) {
        if !self.is_settings(&field.base) {
            visit_mut::visit_expr_field_mut(self, field);
        }
    }

    fn visit_type_path_mut(&mut self, path: &mut TypePath) {
        visit_mut::visit_type_path_mut(self, path);
        let arguments: Option<PathArguments> = if path.path.is_ident("Packet") {
            Some(bracketed(quote!('_, __M)))
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
            match (self.of_nf, self.world) {
                (true, _) => first.ident = syn::Ident::new("Self", first.ident.span()),
                (false, true) => first.arguments = turbofish(quote!(__W)),
                (false, false) => first.arguments = turbofish(quote!(::anabranch_nf::world::Solo)),
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

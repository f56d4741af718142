//! Whether a module's functions may rewrite packets, and have them enter again.

use anabranch_language::names::PACKET;
use anabranch_language::{Module, StateKind};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{ImplItem, Signature};

/// False only where certainly none rewrites one: no name of what rewrites stands in them, there is no routing, and
/// what analysis does not look into is given no packet.
pub(crate) fn rewrites(module: &Module) -> bool {
    module.nf.fields.iter().any(|field| matches!(field.kind, StateKind::L3))
        || some(module, &names_a_setter, &|sig| names(sig.inputs.to_token_stream(), "Packet"))
}

/// False only where certainly none has one enter again: the verdict stands nowhere, and there is nothing that analysis
/// does not look into.
pub(crate) fn reenters(module: &Module) -> bool {
    let names_it = |body: TokenStream| names(body, "Recirculate");
    module.consts.iter().any(|item| names_it(item.expr.to_token_stream()))
        || some(module, &names_it, &|_| true)
}

/// Whether a function has such a body, or is opaque and has such a signature.
fn some(
    module: &Module,
    body: &dyn Fn(TokenStream) -> bool,
    opaque: &dyn Fn(&Signature) -> bool,
) -> bool {
    let functions = module.fns.iter().map(|item| (&item.attrs, &item.sig, &*item.block));
    let methods =
        module.impls.iter().flat_map(|block| &block.items).filter_map(|item| match item {
            ImplItem::Fn(method) => Some((&method.attrs, &method.sig, &method.block)),
            _ => None,
        });
    functions.chain(methods).any(|(attrs, sig, block)| {
        let is_opaque = attrs.iter().any(|attr| attr.path().is_ident("opaque"));
        body(block.to_token_stream()) || is_opaque && opaque(sig)
    })
}

fn names(tokens: TokenStream, wanted: &str) -> bool {
    any(tokens, &|name| name == wanted)
}

/// What rewrites a packet are its own setters, and those of the views that end in `_mut`.
fn names_a_setter(tokens: TokenStream) -> bool {
    let is_setter =
        |name: &str| name.starts_with("set_") && PACKET.iter().any(|one| one.name == name);
    any(tokens, &|name| name.ends_with("_mut") || is_setter(name))
}

/// Whether one of the names in `tokens` is such.
fn any(tokens: TokenStream, is_such: &dyn Fn(&str) -> bool) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Group(group) => any(group.stream(), is_such),
        TokenTree::Ident(name) => is_such(name.to_string().trim_start_matches("r#")),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

//! Whether a module's functions may rewrite packets.

use anabranch_language::names::PACKET;
use anabranch_language::{Module, StateKind};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ImplItem;

/// False only where certainly none does: no name of what rewrites stands in them, there is no routing, and
/// what analysis does not look into is given no packet.
pub(crate) fn rewrites(module: &Module) -> bool {
    let routes = module.nf.fields.iter().any(|field| matches!(field.kind, StateKind::L3));
    let functions =
        module.fns.iter().map(|item| (&item.attrs, &item.sig, &item.block as &dyn ToTokens));
    let methods =
        module.impls.iter().flat_map(|block| &block.items).filter_map(|item| match item {
            ImplItem::Fn(method) => {
                Some((&method.attrs, &method.sig, &method.block as &dyn ToTokens))
            }
            _ => None,
        });
    routes
        || functions.chain(methods).any(|(attrs, sig, body)| {
            let is_opaque = attrs.iter().any(|attr| attr.path().is_ident("opaque"));
            let takes_packet = any(sig.inputs.to_token_stream(), &|name| name == "Packet");
            names_a_setter(body.to_token_stream()) || is_opaque && takes_packet
        })
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

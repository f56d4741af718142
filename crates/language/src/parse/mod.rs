//! From tokens to a [`Module`]: sorts the items, reads the attributes.

mod attributes;
mod commands;
mod handlers;
mod items;
mod opaque;
mod packet_set;
mod port_list;
mod settings;
mod state;

use proc_macro2::TokenStream;
use syn::ItemMod;

use crate::error::Errors;
use crate::{Module, Ports};

pub(crate) use attributes::docs;
pub use opaque::{Opaque, opaque};

/// Reads a module whose first line is line `lines_before + 1` of its file.
pub(crate) fn module(attr: TokenStream, item: ItemMod, lines_before: u32) -> syn::Result<Module> {
    let mut errors = Errors::default();
    let header = errors.take(port_list::parse(attr));
    let (ports, packets) = header.unwrap_or((Ports::Any, crate::Packets::WellFormed));
    attributes::only(&item.attrs, &["doc"], &mut errors);
    let Some((_, content)) = item.content else {
        let message = "a network function's module has its code in it: write `mod name { … }`";
        return Err(syn::Error::new(item.ident.span(), message));
    };
    let sorted = items::sort(content, &item.ident, lines_before, &mut errors);
    let Some(items) = sorted else {
        return Err(errors.finish(()).err().unwrap_or_else(|| no_nf(&item.ident)));
    };
    let handlers = handlers::find(&items, &mut errors);
    let module = Module {
        ident: item.ident,
        vis: item.vis,
        docs: docs(&item.attrs),
        ports,
        packets,
        settings: items.settings,
        setting_structs: items.setting_structs,
        reasons: items.reasons,
        commands: items.commands,
        packet_set: items.packet_set,
        nf: items.nf,
        handlers,
        structs: items.structs,
        enums: items.enums,
        consts: items.consts,
        fns: items.fns,
        impls: items.impls,
        lines_before,
    };
    match errors.any() {
        // What the checker finds is worth saying too.
        true => {
            let error = errors.finish(()).err();
            Err(combine(error, crate::check::check(&module).err(), &module))
        }
        false => Ok(module),
    }
}

fn combine(first: Option<syn::Error>, second: Option<syn::Error>, module: &Module) -> syn::Error {
    match (first, second) {
        (Some(mut first), Some(second)) => {
            first.combine(second);
            first
        }
        (Some(error), None) | (None, Some(error)) => error,
        (None, None) => no_nf(&module.ident),
    }
}

fn no_nf(name: &syn::Ident) -> syn::Error {
    let message = format!(
        "`{name}` has no network function struct: write a struct with `settings: Settings` or a \
         state object as a field, and `fn packet` in its `impl`"
    );
    syn::Error::new(name.span(), message)
}

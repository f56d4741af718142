//! `#[network_function]`: from an author's module to native code.
//!
//! The module is parsed and checked by `anabranch-language`; what passes is emitted once, generic
//! over the world (`impl<W: World> Nat<W>`), so that the solo run, the prefetch pass and the peek
//! pass are monomorphised from one copy. Beside it stand the implementations that no author writes:
//! settings, commands, keys, the packet set's key, and the author's exact text for analysis.
//!
//! **Invariant** every token of the author's keeps his span; what is added mentions only
//! `::anabranch_nf`, so that an error never points into generated code.
//!
//! Only `anabranch-nf` depends on it, and re-exports the attribute.

mod arithmetic;
mod commands;
mod elsewhere;
mod function;
mod indices;
mod initial;
mod lending;
mod loops;
mod module;
mod packet_set;
mod rewrites;
mod settings;
mod signature;
mod source;
mod state;
mod values;

use anabranch_language::Module;
use proc_macro::TokenStream;
use quote::quote;
use syn::{Ident, ItemMod, Visibility, parse_macro_input, parse_quote};

/// Makes a network function of a module. The language is described in `docs/nf-language.md`.
#[proc_macro_attribute]
pub fn network_function(attr: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as ItemMod);
    let arguments = proc_macro2::TokenStream::from(attr);
    let source = source::of(&arguments, &item);
    let name = (item.vis.clone(), item.ident.clone());
    match Module::parse(arguments, item) {
        Ok(module) => module::expand(&module, &source).into(),
        Err(error) => refused(&error, &name),
    }
}

/// The errors, and a network function that does nothing under the module's name: what mentions the
/// module elsewhere is no mistake of the author's.
fn refused(error: &syn::Error, name: &(Visibility, Ident)) -> TokenStream {
    let (vis, ident) = name;
    let arguments = quote!(ports(..));
    let stands_in: ItemMod = parse_quote! {
        #vis mod #ident {
            pub struct Refused {}
            impl Refused {
                fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict { Flood }
            }
        }
    };
    let source = source::of(&arguments, &stands_in);
    let stands_in = Module::parse(arguments, stands_in);
    let stands_in = stands_in.map(|module| module::expand(&module, &source)).unwrap_or_default();
    let errors = error.to_compile_error();
    quote!(#errors #stands_in).into()
}

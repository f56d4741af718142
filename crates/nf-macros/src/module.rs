//! The module as it is emitted.

use anabranch_language::Module;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

use crate::source::Source;
use crate::{commands, function, settings, signature, state, values};

/// Everything that stands for the author's module.
pub(crate) fn expand(module: &Module, source: &Source) -> TokenStream {
    let (vis, name, docs) = (&module.vis, &module.ident, &module.docs);
    let parts = [
        ports(module),
        settings::expand(module),
        commands::expand(module),
        commands::reasons(module),
        values::expand(module),
        constants(module),
        signature::functions(module),
        signature::methods(module),
        state::structure(module),
        function::expand(module, source),
    ];
    quote! {
        #[doc = #docs]
        #[allow(
            dead_code, missing_docs, unused_imports, unused_mut, unused_parens, unused_variables,
            unused_qualifications, unused_labels, clippy::all
        )]
        #vis mod #name {
            use ::anabranch_nf::prelude::*;
            #(#parts)*
        }
    }
}

fn ports(module: &Module) -> TokenStream {
    let constants = module.port_constants().into_iter().map(|(name, index)| {
        quote_spanned! {name.span()=>
            #[doc = "A port of the network function."]
            pub const #name: Port = Port::new(#index);
        }
    });
    constants.collect()
}

fn constants(module: &Module) -> TokenStream {
    let constants = module.consts.iter().map(|item| quote!(#item));
    constants.collect()
}

//! `Command` and `Reason`.

use anabranch_language::Module;
use proc_macro2::TokenStream;
use quote::quote;

use crate::{settings, values};

/// The commands, and how they are read.
pub(crate) fn expand(module: &Module) -> TokenStream {
    let Some(commands) = &module.commands else { return TokenStream::new() };
    let mut item = commands.item.clone();
    item.vis = syn::parse_quote!(pub);
    item.attrs = values::docs(&item.attrs);
    for variant in &mut item.variants {
        variant.attrs = values::docs(&variant.attrs);
        values::plain_fields(&mut variant.fields);
    }
    let derives = values::derives();
    let schemas = commands.variants.iter().map(|command| {
        let (text, fields, help) =
            (&command.text, settings::schema(&command.fields), &command.docs);
        quote!((#text, #fields, #help))
    });
    let arms = commands.variants.iter().map(|command| {
        let (name, text) = (&command.ident, &command.text);
        let take = settings::take(&command.fields, &quote!(Self::#name));
        quote!(#text => { #take })
    });
    quote! {
        #derives
        #item
        impl ::anabranch_nf::settings::Command for Command {
            fn schema() -> ::std::vec::Vec<(
                &'static str, ::std::vec::Vec<::anabranch_nf::settings::Setting>, &'static str,
            )> {
                ::std::vec![#(#schemas),*]
            }
            fn take(
                name: &str,
                __fields: &mut ::anabranch_nf::settings::Fields<'_>,
            ) -> ::core::option::Option<Self> {
                match name { #(#arms)* _ => ::core::option::Option::None }
            }
        }
    }
}

/// The drop reasons, as verdicts carry them.
pub(crate) fn reasons(module: &Module) -> TokenStream {
    let Some(reasons) = &module.reasons else { return TokenStream::new() };
    let mut item = reasons.item.clone();
    item.vis = syn::parse_quote!(pub);
    item.attrs = values::docs(&item.attrs);
    for variant in &mut item.variants {
        variant.attrs = values::docs(&variant.attrs);
    }
    let derives = values::derives();
    let arms = reasons.variants.iter().zip(0u16..).map(|(reason, number)| {
        let name = &reason.ident;
        quote!(Reason::#name => #number,)
    });
    quote! {
        #derives
        #item
        impl ::core::convert::From<Reason> for ::anabranch_nf::DropReason {
            #[inline(always)]
            fn from(reason: Reason) -> Self {
                Self::own(match reason { #(#arms)* })
            }
        }
    }
}

/// The words of the reasons.
pub(crate) fn words(module: &Module) -> TokenStream {
    let variants = module.reasons.iter().flat_map(|reasons| &reasons.variants);
    let words = variants.map(|reason| {
        let (name, help) = (&reason.text, &reason.docs);
        quote!(::anabranch_nf::Word { name: #name, help: #help })
    });
    quote!(&[#(#words),*])
}

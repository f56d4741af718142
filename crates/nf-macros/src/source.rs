//! The author's exact text, for analysis.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ItemMod;

/// What is embedded: text, arguments and first line.
pub(crate) struct Source {
    text: String,
    arguments: String,
    line: u32,
}

/// The text of a module.
///
/// Its head (attribute, docs, name) is put on the line of the opening brace, so that every line
/// after it is the author's. A module made by a macro has no text: its tokens stand in for it.
pub(crate) fn of(arguments: &TokenStream, item: &ItemMod) -> Source {
    let (vis, name, attrs) = (&item.vis, &item.ident, &item.attrs);
    let head = quote!(#[network_function(#arguments)] #(#attrs)* #vis mod #name);
    let brace = item.content.as_ref().map(|(brace, _)| brace.span.join());
    let body = brace.and_then(|span| span.source_text());
    let body = body.unwrap_or_else(|| {
        let tokens = item.content.iter().flat_map(|(_, items)| items);
        let items: TokenStream = tokens.map(ToTokens::to_token_stream).collect();
        quote!({ #items }).to_string()
    });
    let line = brace.map_or(1, |span| span.start().line);
    Source {
        text: format!("{} {body}", head.to_string().replace('\n', " ")),
        arguments: arguments.to_string(),
        line: u32::try_from(line).unwrap_or(1),
    }
}

impl ToTokens for Source {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { text, arguments, line } = self;
        tokens.extend(quote! {
            ::anabranch_nf::Source {
                text: #text,
                arguments: #arguments,
                file: ::core::file!(),
                line: #line,
            }
        });
    }
}

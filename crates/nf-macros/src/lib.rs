//! (being written)
use proc_macro::TokenStream;

/// Placeholder.
#[proc_macro_attribute]
pub fn network_function(_: TokenStream, item: TokenStream) -> TokenStream {
    item
}

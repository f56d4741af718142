//! The subset of Rust that the language is.
use crate::Module;
pub(crate) fn check(_module: &Module) -> syn::Result<()> {
    Ok(())
}

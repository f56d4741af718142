//! The subset of Rust that the language is: an allow-list, walked in order of the source.
//!
//! **Invariant** whatever is not named in [`crate::names`] or declared by the module is refused
//! here, so that neither the compiler nor the interpreter meets it.

mod closed;
mod expressions;
mod items;
mod operands;
mod paths;
mod patterns;
mod recursion;
mod rewrites;
mod scope;
mod settings;
mod statements;
mod types;

use crate::Module;
use crate::error::Errors;

use scope::Scopes;

/// Checks a parsed module against the language.
///
/// # Errors
/// Every departure from it, combined.
pub(crate) fn check(module: &Module) -> syn::Result<()> {
    let mut checker = Checker::new(module);
    checker.items();
    recursion::check(module, &mut checker.errors);
    checker.errors.finish(())
}

struct Checker<'a> {
    module: &'a Module,
    errors: Errors,
    scopes: Scopes,
    /// Type parameters in scope.
    generics: Vec<String>,
    /// The type of the `impl` block in hand.
    self_type: Option<String>,
}

impl<'a> Checker<'a> {
    fn new(module: &'a Module) -> Self {
        Self {
            module,
            errors: Errors::default(),
            scopes: Scopes::default(),
            generics: Vec::new(),
            self_type: None,
        }
    }

    fn refuse(&mut self, span: proc_macro2::Span, what: impl AsRef<str>, instead: impl AsRef<str>) {
        self.errors.refuse(span, what, instead);
    }

    fn is_nf(&self, name: &str) -> bool {
        self.module.nf.ident == name
    }

    /// Whether the code in hand is a method of the NF.
    fn in_nf(&self) -> bool {
        self.self_type.as_ref().is_some_and(|name| self.is_nf(name))
    }
}

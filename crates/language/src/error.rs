//! Errors: collected, so that an author sees all of them at once.

use proc_macro2::Span;

/// One thing wrong with a module, for readers outside the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line in the author's file, from 1.
    pub line: u32,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// Collects every error of a module.
#[derive(Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    /// Adds what is wrong at `span`, and what to write instead.
    pub(crate) fn refuse(&mut self, span: Span, what: impl AsRef<str>, instead: impl AsRef<str>) {
        let (what, instead) = (what.as_ref(), instead.as_ref());
        self.push(syn::Error::new(span, format!("{what}: {instead}")));
    }

    /// Adds an error made elsewhere.
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Adds the error of `result`, or gives its value.
    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// `value` if nothing was wrong.
    pub(crate) fn finish<T>(self, value: T) -> syn::Result<T> {
        match self.0 {
            Some(error) => Err(error),
            None => Ok(value),
        }
    }

    /// Whether anything was wrong so far.
    pub(crate) fn any(&self) -> bool {
        self.0.is_some()
    }
}

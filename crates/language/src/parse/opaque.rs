//! `#[opaque]`, and what it declares of the function's result.

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, FnArg, Meta, Pat, ReturnType, Signature, Type};

use super::attributes;
use crate::error::Errors;
use crate::names::INTEGERS;

/// What `#[opaque]` declares of a function; `None`: it is not opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// The parameter that every result is below, by position, `self` apart.
    pub below: Option<usize>,
}

/// What an attribute of this function declares, if it is `#[opaque]`. What it has that is wrong is left out:
/// modules that have it are refused.
pub fn opaque(attrs: &[Attribute], signature: &Signature) -> Option<Opaque> {
    let attribute = attrs.iter().find(|attr| attr.path().is_ident("opaque"))?;
    Some(Opaque { below: read(attribute, signature).ok().flatten() })
}

/// Refuses what is no form of `#[opaque]`.
pub(super) fn check(attrs: &[Attribute], signature: &Signature, errors: &mut Errors) {
    let attribute = attributes::one(attrs, "opaque", errors);
    if let Some(Err(error)) = attribute.map(|attribute| read(attribute, signature)) {
        errors.push(error);
    }
}

/// The same on a method, of whose result nothing is declared: it is not listed with what is trusted.
pub(super) fn check_method(attrs: &[Attribute], errors: &mut Errors) {
    let attribute = attributes::one(attrs, "opaque", errors);
    if let Some(attribute) = attribute.filter(|attr| !matches!(attr.meta, Meta::Path(_))) {
        let message = "nothing is declared of a method's result: write `#[opaque]`, or a function of \
                       the module that has it declared";
        errors.push(syn::Error::new(attribute.span(), message));
    }
}

fn read(attribute: &Attribute, signature: &Signature) -> syn::Result<Option<usize>> {
    const FORMS: &str = "write `#[opaque]`, or `#[opaque(below = limit)]` where every result is below \
                         the parameter `limit`";
    let refused =
        |what: &str, at: &dyn Spanned| Err(syn::Error::new(at.span(), format!("{what}: {FORMS}")));
    if matches!(attribute.meta, Meta::Path(_)) {
        return Ok(None);
    }
    let written = attribute.parse_args_with(Punctuated::<Meta, syn::Token![,]>::parse_terminated);
    let Ok(Some(Meta::NameValue(pair))) =
        written.map(|all| (all.len() == 1).then(|| all[0].clone()))
    else {
        return refused("this declares nothing", attribute);
    };
    let syn::Expr::Path(limit) = &pair.value else {
        return refused("the limit is no parameter", &pair.value);
    };
    let (Some(limit), true) = (limit.path.get_ident(), pair.path.is_ident("below")) else {
        return refused("this declares nothing", &pair);
    };
    let typed = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    });
    let named = |pat: &Pat| matches!(pat, Pat::Ident(pat) if pat.ident == *limit);
    let found = typed.enumerate().find(|(_, typed)| named(&typed.pat));
    let Some((position, parameter)) = found else {
        return refused(&format!("`{limit}` is no parameter"), limit);
    };
    let returned = match &signature.output {
        ReturnType::Type(_, of) => unsigned(of),
        ReturnType::Default => None,
    };
    match unsigned(&parameter.ty) {
        Some(of) if returned.as_ref() == Some(&of) => Ok(Some(position)),
        _ => refused(&format!("`{limit}` and the result are not unsigned and of one type"), limit),
    }
}

/// The name of an unsigned integer type.
fn unsigned(of: &Type) -> Option<String> {
    let Type::Path(path) = of else { return None };
    let name = path.path.get_ident()?.to_string();
    (INTEGERS.contains(&name.as_str()) && name.starts_with('u')).then_some(name)
}

//! Attributes: those of the language, and no others.

use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

use crate::error::Errors;

/// What an author meant by an attribute that is refused.
const ATTRIBUTE_REWRITES: &[(&str, &str)] = &[
    ("derive", "leave it away: every struct and enum is `Copy` and compared with `==`"),
    ("allow", "leave it away: unused items are no warning in a network function"),
    ("cfg", "leave it away: a network function is the same everywhere; make it a setting"),
    ("test", "write tests beside the module, not in it"),
    ("inline", "leave it away: everything is inlined where it pays"),
    ("repr", "leave it away: layout is not visible in a network function"),
    ("must_use", "leave it away"),
    ("every_ms", "it stands on the method `fn periodic(&mut self, cx: &mut Context)`: name it so"),
];

/// The text of the doc comments, lines joined by `\n`.
pub(crate) fn docs(attrs: &[Attribute]) -> String {
    let lines: Vec<String> = attrs.iter().filter_map(doc_line).collect();
    lines.join("\n").trim().to_owned()
}

fn doc_line(attr: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attr.meta else {
        return None;
    };
    match &pair.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if pair.path.is_ident("doc") => {
            let text = text.value();
            Some(text.strip_prefix(' ').unwrap_or(&text).to_owned())
        }
        _ => None,
    }
}

/// Refuses every attribute that is not among `allowed`.
pub(crate) fn only(attrs: &[Attribute], allowed: &[&str], errors: &mut Errors) {
    for attr in attrs {
        if allowed.iter().any(|name| attr.path().is_ident(name)) {
            continue;
        }
        let name = attr.path().segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        let rewrite = ATTRIBUTE_REWRITES.iter().find(|(known, _)| *known == name);
        let place = match allowed {
            ["doc"] => "leave it away: only doc comments stand here".to_owned(),
            _ => format!("here stand only {}", list(allowed)),
        };
        let instead = rewrite.map_or(place.as_str(), |(_, instead)| instead);
        errors.refuse(attr.span(), format!("`#[{name}]` is refused"), instead);
    }
}

fn list(names: &[&str]) -> String {
    let shown: Vec<String> = names
        .iter()
        .map(|name| match *name {
            "doc" => "doc comments".to_owned(),
            "opaque" | "cold" => format!("`#[{name}]`"),
            name => format!("`#[{name}(…)]`"),
        })
        .collect();
    shown.join(", ")
}

/// The attribute `name`, which may stand at most once.
pub(super) fn one<'a>(
    attrs: &'a [Attribute],
    name: &str,
    errors: &mut Errors,
) -> Option<&'a Attribute> {
    let mut all = attrs.iter().filter(|attr| attr.path().is_ident(name));
    let first = all.next();
    for again in all {
        errors.refuse(again.span(), format!("a second `#[{name}]`"), "write it once");
    }
    first
}

//! `Reason` and `Command`.

use syn::spanned::Spanned;
use syn::{Fields, ItemEnum, Variant};

use super::{attributes, docs, settings};
use crate::declare::{Command, Commands, Reason, Reasons, SettingType};
use crate::error::Errors;
use crate::kebab;

/// Reads `enum Reason`.
pub(super) fn reasons(item: ItemEnum, errors: &mut Errors) -> Reasons {
    attributes::only(&item.attrs, &["doc"], errors);
    let variants = item.variants.iter().map(|variant| reason(variant, errors)).collect();
    Reasons { variants, item }
}

fn reason(variant: &Variant, errors: &mut Errors) -> Reason {
    attributes::only(&variant.attrs, &["doc"], errors);
    if !variant.fields.is_empty() {
        let instead = "leave the fields away: reasons are counted by name";
        errors.refuse(variant.fields.span(), "a drop reason has no fields", instead);
    }
    let text = kebab(&variant.ident.to_string());
    Reason { ident: variant.ident.clone(), text, docs: docs(&variant.attrs) }
}

/// Reads `enum Command`.
pub(super) fn read(
    item: ItemEnum,
    kinds: &settings::Kinds,
    before: u32,
    errors: &mut Errors,
) -> Commands {
    attributes::only(&item.attrs, &["doc"], errors);
    let variants =
        item.variants.iter().map(|variant| command(variant, kinds, before, errors)).collect();
    Commands { variants, item }
}

fn command(
    variant: &Variant,
    kinds: &settings::Kinds,
    before: u32,
    errors: &mut Errors,
) -> Command {
    attributes::only(&variant.attrs, &["doc"], errors);
    let fields = match &variant.fields {
        Fields::Unit => Vec::new(),
        Fields::Named(named) => named
            .named
            .iter()
            .filter_map(|field| settings::setting(field, kinds, before, errors))
            .collect(),
        Fields::Unnamed(unnamed) => {
            let what = "a command's arguments have names";
            errors.refuse(unnamed.span(), what, "write `Variant { name: type }`");
            Vec::new()
        }
    };
    for field in &fields {
        if matches!(field.kind, SettingType::List(_)) {
            let instead = "write a command that adds one element, and give it several times";
            errors.refuse(field.ty.span(), "a command's argument is no list", instead);
        }
    }
    let text = kebab(&variant.ident.to_string());
    Command { ident: variant.ident.clone(), text, fields, docs: docs(&variant.attrs) }
}

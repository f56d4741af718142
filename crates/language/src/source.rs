//! Reading a module from its embedded text.

use syn::ItemMod;

use crate::{Module, Problem, check, parse};

/// Parses `text`, one module under its attribute, whose first line is `first_line` of its file.
pub(crate) fn parse(text: &str, first_line: u32) -> Result<Module, Vec<Problem>> {
    let before = first_line.saturating_sub(1);
    read(text, before).map_err(|error| problems(&error, before))
}

fn read(text: &str, before: u32) -> syn::Result<Module> {
    let mut item: ItemMod = syn::parse_str(text)?;
    let place = item.attrs.iter().position(|attribute| is_network_function(attribute.path()));
    let attr = match place.map(|place| item.attrs.remove(place).meta) {
        Some(syn::Meta::List(list)) => list.tokens,
        Some(_) => Default::default(),
        None => {
            let message = "no `#[network_function(…)]`: write it above the module";
            return Err(syn::Error::new(item.ident.span(), message));
        }
    };
    let module = parse::module(attr, item, before)?;
    check::check(&module)?;
    Ok(module)
}

fn is_network_function(path: &syn::Path) -> bool {
    path.segments.last().is_some_and(|segment| segment.ident == "network_function")
}

fn problems(error: &syn::Error, before: u32) -> Vec<Problem> {
    error
        .clone()
        .into_iter()
        .map(|error| Problem {
            line: before + u32::try_from(error.span().start().line).unwrap_or(u32::MAX),
            message: error.to_string(),
        })
        .collect()
}

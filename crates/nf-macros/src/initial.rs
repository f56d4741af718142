//! The settings that `init` reads.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_language::{Module, Setting};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

/// The settings that `init`, or what it may call, reads: what it makes of them is state. All, where they are handed on as
/// a whole.
pub(crate) fn settings(module: &Module) -> Vec<&Setting> {
    let functions = module.fns.iter().map(|item| (&item.sig, item.block.to_token_stream()));
    let methods = module.methods().map(|method| {
        let function = method.function;
        (&function.sig, function.block.to_token_stream())
    });
    let mut bodies: BTreeMap<String, Vec<TokenStream>> = BTreeMap::new();
    for (signature, body) in functions.chain(methods) {
        bodies.entry(signature.ident.to_string()).or_default().push(body);
    }
    let mut read = BTreeSet::new();
    let mut waiting = vec!["init".to_owned()];
    while let Some(name) = waiting.pop() {
        for body in bodies.remove(&name).into_iter().flatten() {
            look(body, &mut read, &mut waiting);
        }
    }
    let all = module.settings.iter().flat_map(|settings| &settings.fields);
    all.filter(|field| read.contains(WHOLE) || read.contains(&field.ident.to_string())).collect()
}

/// What stands for all settings.
const WHOLE: &str = "";

/// Notes the settings that `tokens` read, and every name there is in them: it may be a function's.
fn look(tokens: TokenStream, read: &mut BTreeSet<String>, names: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(tree) = tokens.next() {
        match tree {
            TokenTree::Group(group) => look(group.stream(), read, names),
            TokenTree::Ident(name) if name == "settings" => {
                let dot = tokens.next_if(is_dot);
                read.insert(match (dot, tokens.peek()) {
                    (Some(_), Some(TokenTree::Ident(field))) => field.to_string(),
                    _ => WHOLE.to_owned(),
                });
            }
            TokenTree::Ident(name) => names.push(name.to_string()),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn is_dot(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == '.')
}

//! Names: the field's words, none that say nothing.

use proc_macro2::Span;
use syn::visit::{self, Visit};

use crate::house::House;
use crate::{Source, Violation};

/// Words that say nothing of a type or a file; compared with each word of the name.
const EMPTY_WORDS: [&str; 8] =
    ["manager", "helper", "helpers", "util", "utils", "data", "info", "misc"];
/// `get_` says nothing either, but in the names that std has for a second form of `get`.
const GET_ALLOWED: [&str; 3] = ["get_mut", "get_unchecked", "get_or_insert"];

/// Types, modules and files named by an empty word, public functions that begin with `get_`.
pub fn check(house: &House) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in &house.sources {
        let file = source.path.rsplit('/').next().unwrap_or_default();
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        if let Some(word) = empty_word(stem) {
            violations.push(Violation::new(
                source,
                0,
                format!("a file named `{word}`: name what is in it"),
            ));
        }
    }
    for (source, file) in house.rust() {
        let mut walk = Walk { source, violations: &mut violations };
        walk.visit_file(file);
    }
    violations
}

fn empty_word(name: &str) -> Option<String> {
    words(name).into_iter().find(|word| EMPTY_WORDS.contains(&word.as_str()))
}

/// The words of a name in camel, snake or kebab case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter.is_uppercase() || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

struct Walk<'a> {
    source: &'a Source,
    violations: &'a mut Vec<Violation>,
}

impl Walk<'_> {
    fn item(&mut self, name: &syn::Ident) {
        if let Some(word) = empty_word(&name.to_string()) {
            self.add(
                name.span(),
                format!("`{name}`: `{word}` says nothing, use a word of the field"),
            );
        }
    }

    fn function(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        let text = name.to_string();
        let public = matches!(visibility, syn::Visibility::Public(_));
        if public && text.starts_with("get_") && !GET_ALLOWED.contains(&text.as_str()) {
            let rest = text.trim_start_matches("get_");
            self.add(name.span(), format!("`{text}`: call it `{rest}`"));
        }
    }

    fn add(&mut self, span: Span, message: String) {
        self.violations.push(Violation::new(self.source, span.start().line, message));
    }
}

impl<'a> Visit<'a> for Walk<'_> {
    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.item(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.item(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.item(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'a syn::ItemType) {
        self.item(&item.ident);
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        self.item(&item.ident);
        visit::visit_item_mod(self, item);
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(&item.vis, &item.sig.ident);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.function(&item.vis, &item.sig.ident);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_words_are_found_in_every_case() {
        let text = "struct FlowManager;\nenum PacketInfo {}\nmod utils {}\ntype Database = u8;\n\
                    struct Datagram;\npub fn get_port() {}\nfn get_own() {}\nimpl A { pub fn get_mut(&mut self) {} }\n";
        let found = check(&House::of(&[("crates/nf/src/state.rs", text)]));
        let lines: Vec<usize> = found.iter().map(|one| one.line).collect();
        assert_eq!(lines, [1, 2, 3, 6]);
    }

    #[test]
    fn files_are_named_too() {
        assert_eq!(
            check(&House::of(&[("src/packet_util.rs", ""), ("src/packet.rs", "")])).len(),
            1
        );
    }

    #[test]
    fn names_fall_into_words() {
        assert_eq!(words("PacketInfo")[1..], ["packet", "info"]);
        assert_eq!(words("packet_info"), ["packet", "info"]);
    }
}

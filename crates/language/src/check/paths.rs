//! Names of values: locals, the module's items, the prelude.

use syn::spanned::Spanned;
use syn::{ExprPath, Path};

use super::types::Place;
use super::{Checker, rewrites};
use crate::names;

impl Checker<'_> {
    pub(super) fn path_expr(&mut self, path: &ExprPath) {
        if path.qself.is_some() {
            let instead = "write `Type::function(…)`, or a method call";
            self.refuse(path.span(), "a qualified path is refused", instead);
            return;
        }
        for segment in &path.path.segments {
            self.type_arguments(&segment.arguments, Place::Signature);
        }
        if !self.is_value(&path.path) {
            self.refuse_value(&path.path);
        }
    }

    /// Whether the path names a value, a constructor or a function of the language.
    pub(super) fn is_value(&self, path: &Path) -> bool {
        if path.leading_colon.is_some() {
            return false;
        }
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        match names.as_slice() {
            [name] => self.scopes.has(name) || self.is_item(name),
            [of, name] => self.is_associated(of, name),
            _ => false,
        }
    }

    /// Whether the module or the prelude has a value of that name.
    pub(super) fn is_item(&self, name: &str) -> bool {
        let module = self.module;
        names::VALUES.contains(&name)
            || module.const_named(name).is_some()
            || module.fn_named(name).is_some()
            || module.struct_named(name).is_some()
            || (name == "Self" && self.self_type.is_some())
            || self.is_port(name)
    }

    fn is_port(&self, name: &str) -> bool {
        self.module.port_constants().iter().any(|(port, _)| port == name)
    }

    fn is_associated(&self, of: &str, name: &str) -> bool {
        let of = match (of, &self.self_type) {
            ("Self", Some(own)) => own.as_str(),
            _ => of,
        };
        if of == "Builtin" {
            return true;
        }
        let variant = self
            .module
            .enum_named(of)
            .is_some_and(|item| item.variants.iter().any(|variant| variant.ident == name));
        variant
            || self.module.method(of, name).is_some()
            || names::associated(of).is_some_and(|known| known.contains(&name))
    }

    fn refuse_value(&mut self, path: &Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let [of, name] = names.as_slice() else {
            self.refuse_path(path);
            return;
        };
        if let Some(known) = names::associated(of) {
            let known: Vec<String> = known.iter().map(|name| format!("`{of}::{name}`")).collect();
            let instead = match rewrites::associated(of, name) {
                Some(written) => format!("write `{written}`"),
                None => format!("write one of {}", known.join(", ")),
            };
            self.refuse(path.span(), format!("`{of}::{name}` is not in the language"), instead);
        } else if self.module.struct_named(of).is_some() || self.module.enum_named(of).is_some() {
            let instead = format!("write it in `impl {of} {{ … }}`, or as a variant");
            self.refuse(path.span(), format!("`{of}` has no `{name}`"), instead);
        } else {
            self.refuse_path(path);
        }
    }
}

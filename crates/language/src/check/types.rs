//! Types.

use syn::spanned::Spanned;
use syn::{GenericArgument, Path, PathArguments, Type, TypeReference};

use super::{Checker, rewrites};
use crate::names::{INTEGERS, SIGNATURE_TYPES, STATE_OBJECTS, VALUE_TYPES};

/// Where a type stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a struct, an enum, a constant or a state object: a plain value.
    Value,
    /// In a function's signature or on a local variable.
    Signature,
    /// Behind a reference in a signature.
    Referenced,
}

impl Checker<'_> {
    pub(super) fn ty(&mut self, ty: &Type, place: Place) {
        match ty {
            Type::Path(path) if path.qself.is_none() => self.path_type(&path.path, place),
            Type::Tuple(tuple) => tuple.elems.iter().for_each(|element| self.ty(element, place)),
            Type::Array(array) => {
                self.ty(&array.elem, place);
                self.expr(&array.len);
            }
            Type::Slice(slice) if place == Place::Referenced => {
                self.ty(&slice.elem, Place::Value);
            }
            Type::Paren(paren) => self.ty(&paren.elem, place),
            Type::Group(group) => self.ty(&group.elem, place),
            Type::Infer(_) if place == Place::Signature => {}
            Type::Reference(reference) => self.reference(reference, place),
            other => self.refuse_type(other),
        }
    }

    fn reference(&mut self, reference: &TypeReference, place: Place) {
        let text = matches!(&*reference.elem, Type::Path(path) if path.path.is_ident("str"));
        let fixed = reference.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident == "static");
        if place == Place::Value {
            let instead = "write the value itself, or an index: values are copied";
            self.refuse(reference.span(), "a reference in a value is refused", instead);
        } else if text {
            if !fixed {
                let instead = "write `&'static str` for errors, `&[u8]` for bytes";
                self.refuse(reference.span(), "text is for errors only", instead);
            }
        } else if let Some(lifetime) = &reference.lifetime {
            let instead = "leave it away, or pass an index instead of a reference";
            self.refuse(lifetime.span(), "a named lifetime is refused", instead);
        } else {
            self.ty(&reference.elem, Place::Referenced);
        }
    }

    fn path_type(&mut self, path: &Path, place: Place) {
        let Some(segment) = path.segments.last() else { return };
        let name = segment.ident.to_string();
        if path.segments.len() > 1 || path.leading_colon.is_some() {
            self.refuse_path(path);
            return;
        }
        self.type_arguments(&segment.arguments, place);
        if name == "Result" && place == Place::Value {
            let instead = "write an enum, or `Option`";
            self.refuse(path.span(), "a `Result` is not stored", instead);
        }
        if INTEGERS.contains(&name.as_str())
            || VALUE_TYPES.contains(&name.as_str())
            || self.generics.contains(&name)
            || (name == "Self" && self.self_type.is_some())
        {
            return;
        }
        let state = STATE_OBJECTS.iter().any(|(object, _)| *object == name);
        if self.module.struct_named(&name).is_some() || self.module.enum_named(&name).is_some() {
            let settings = self.module.settings.as_ref().is_some_and(|s| s.ident == name);
            if settings && place != Place::Referenced {
                let instead = "write `&Settings`";
                self.refuse(path.span(), "settings are not copied", instead);
            }
        } else if self.is_nf(&name) || matches!(name.as_str(), "Packet" | "Context") {
            if place != Place::Referenced {
                let instead = format!("write `&mut {name}` in the signature of a function");
                self.refuse(path.span(), format!("`{name}` is no plain value"), instead);
            }
        } else if SIGNATURE_TYPES.contains(&name.as_str()) {
            if place == Place::Value {
                let instead = "write a plain value; `List` stands in `Settings`";
                self.refuse(path.span(), format!("`{name}` is not stored"), instead);
            }
        } else if state {
            let instead =
                "write it as a field of the network function, and pass the values it holds";
            self.refuse(path.span(), format!("the state object `{name}` stands here"), instead);
        } else {
            self.refuse_path(path);
        }
    }

    pub(super) fn type_arguments(&mut self, arguments: &PathArguments, place: Place) {
        match arguments {
            PathArguments::None => {}
            PathArguments::AngleBracketed(arguments) => {
                for argument in &arguments.args {
                    match argument {
                        GenericArgument::Type(ty) => self.ty(ty, place),
                        other => {
                            let instead = "write types only: `Pair<u32, u16>`";
                            self.refuse(other.span(), "this argument is refused", instead);
                        }
                    }
                }
            }
            PathArguments::Parenthesized(parenthesized) => {
                let instead =
                    "write `<F: Fn(u32) -> u32>` where the function's parameters are declared";
                self.refuse(parenthesized.span(), "a closure type is refused here", instead);
            }
        }
    }

    /// A path that leads nowhere in the language.
    pub(super) fn refuse_path(&mut self, path: &Path) {
        let known = path.segments.iter().rev().find_map(|segment| {
            let name = segment.ident.to_string();
            rewrites::name(&name).map(|(what, instead)| (name, what, instead))
        });
        let shown: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let shown = shown.join("::");
        match known {
            Some((name, what, instead)) if name == shown => {
                self.refuse(path.span(), format!("`{name}` is {what}, and refused"), instead);
            }
            Some((name, what, instead)) => {
                let what = format!("`{shown}` is refused: `{name}` is {what}");
                self.refuse(path.span(), what, instead);
            }
            None => {
                let instead = "write an item of this module, or a name of the prelude";
                self.refuse(path.span(), format!("`{shown}` is no name of this module"), instead);
            }
        }
    }

    fn refuse_type(&mut self, ty: &Type) {
        let (what, instead) = match ty {
            Type::BareFn(_) => (
                "a function pointer is refused",
                "write `<F: Fn(u32) -> u32>` and pass a closure, or an enum and a `match`",
            ),
            Type::ImplTrait(_) => (
                "`impl Trait` is refused",
                "write the type, or a type parameter: `<F: Fn(u32) -> u32>`",
            ),
            Type::TraitObject(_) => ("`dyn` is refused", "write an enum and a `match`"),
            Type::Ptr(_) => ("a raw pointer is refused", "write a reference, or an index"),
            Type::Slice(_) => ("a slice stands behind a reference", "write `&[T]`"),
            Type::Never(_) => ("`!` is refused", "write the type of the other paths"),
            Type::Infer(_) => ("`_` is refused here", "write the type"),
            _ => ("this type is refused", "write a plain type of the language page"),
        };
        self.refuse(ty.span(), what, instead);
    }
}

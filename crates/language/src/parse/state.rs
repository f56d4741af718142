//! The NF struct: settings and state objects.

use syn::spanned::Spanned;
use syn::{Field, Fields, GenericArgument, ItemStruct, PathArguments, Type};

use super::attributes;
use crate::declare::{NfStruct, StateField, StateKind};
use crate::error::Errors;
use crate::module::line_of;
use crate::names::STATE_OBJECTS;

const OBJECTS: &str = "write a state object (`Map<K, V>`, `Vector<T>`, `Allocator<T>`, \
                       `Distributed<T>`, `Counter`, `Cell<T>`, `L3`) or `settings: Settings`";
const ATTRIBUTES: &[&str] = &["doc", "capacity", "expired", "merge", "staleness_ms"];

/// Whether a type of that name is a state object.
pub(super) fn is_state_type(name: &str) -> bool {
    STATE_OBJECTS.iter().any(|(object, _)| *object == name)
}

/// Reads the NF struct.
pub(super) fn read(item: ItemStruct, before: u32, errors: &mut Errors) -> NfStruct {
    attributes::only(&item.attrs, &["doc"], errors);
    if !item.generics.params.is_empty() {
        let instead = "leave the type parameters away: make what differs a setting";
        errors.refuse(item.generics.span(), "the network function is generic", instead);
    }
    let fields = match &item.fields {
        Fields::Named(named) => {
            named.named.iter().filter_map(|field| state(field, before, errors)).collect()
        }
        _ => Vec::new(),
    };
    NfStruct { ident: item.ident.clone(), fields, item }
}

fn state(field: &Field, before: u32, errors: &mut Errors) -> Option<StateField> {
    attributes::only(&field.attrs, ATTRIBUTES, errors);
    let ident = field.ident.clone()?;
    let Some(kind) = kind(&field.ty) else {
        let what = format!("field `{ident}` of the network function is no state object");
        errors.refuse(field.ty.span(), what, OBJECTS);
        return None;
    };
    let object = StateField {
        line: before + line_of(&ident),
        docs: super::docs(&field.attrs),
        capacity: argument(field, "capacity", errors),
        expired: argument(field, "expired", errors),
        merge: argument(field, "merge", errors),
        staleness_ms: argument(field, "staleness_ms", errors),
        ident,
        kind,
    };
    attributes_fit(field, &object, errors);
    Some(object)
}

fn argument<T: syn::parse::Parse>(field: &Field, name: &str, errors: &mut Errors) -> Option<T> {
    let attr = attributes::one(&field.attrs, name, errors)?;
    errors.take(attr.parse_args())
}

fn attributes_fit(field: &Field, object: &StateField, errors: &mut Errors) {
    use StateKind::{Allocator, Distributed, Map, Vector};
    let sized = matches!(object.kind, Map(..) | Vector(_) | Allocator(_));
    let (name, kind) = (&object.ident, object.kind.name());
    if sized && object.capacity.is_none() {
        let instead = format!("write `#[capacity(settings.{name})]` above it");
        errors.refuse(name.span(), format!("`{name}` has no size"), instead);
    }
    if matches!(object.kind, Distributed(_)) && object.merge.is_none() {
        let instead = "write `#[merge(function)]` above it, with a `fn(T, T) -> T` of the module";
        errors.refuse(name.span(), format!("`{name}` cannot be merged over shards"), instead);
    }
    let fits: [(&str, bool); 4] = [
        ("capacity", sized),
        ("expired", matches!(object.kind, Allocator(_))),
        ("merge", matches!(object.kind, Distributed(_))),
        ("staleness_ms", matches!(object.kind, Distributed(_))),
    ];
    for (attribute, fits) in fits {
        let given = field.attrs.iter().find(|attr| attr.path().is_ident(attribute));
        if let (Some(attr), false) = (given, fits) {
            let what = format!("`{kind}` has no `#[{attribute}]`");
            errors.refuse(attr.span(), what, "leave it away");
        }
    }
}

fn kind(ty: &Type) -> Option<StateKind> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last().filter(|_| path.path.segments.len() == 1)?;
    let mut types = type_arguments(&segment.arguments)?.into_iter();
    let kind = match (segment.ident.to_string().as_str(), types.next(), types.next()) {
        ("Settings", None, None) => StateKind::Settings,
        ("Counter", None, None) => StateKind::Counter,
        ("L3", None, None) => StateKind::L3,
        ("Map", Some(key), Some(value)) => StateKind::Map(key, value),
        ("Vector", Some(element), None) => StateKind::Vector(element),
        ("Allocator", Some(object), None) => StateKind::Allocator(object),
        ("Distributed", Some(part), None) => StateKind::Distributed(part),
        ("Cell", Some(value), None) => StateKind::Cell(value),
        _ => return None,
    };
    types.next().is_none().then_some(kind)
}

fn type_arguments(arguments: &PathArguments) -> Option<Vec<Type>> {
    match arguments {
        PathArguments::None => Some(Vec::new()),
        PathArguments::AngleBracketed(arguments) => arguments
            .args
            .iter()
            .map(|argument| match argument {
                GenericArgument::Type(ty) => Some(ty.clone()),
                _ => None,
            })
            .collect(),
        PathArguments::Parenthesized(_) => None,
    }
}

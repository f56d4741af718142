//! Sorts a module's items by what they are to the network function.

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;
use syn::{Fields, Item, ItemConst, ItemEnum, ItemFn, ItemImpl, ItemStruct, PathArguments, Type};

use super::{attributes, commands, no_nf, packet_set, settings, state};
use crate::declare::{Commands, NfStruct, PacketSet, Reasons, Settings};
use crate::error::Errors;
use crate::module::type_name;

/// A module's items, sorted.
pub(super) struct Items {
    pub(super) settings: Option<Settings>,
    pub(super) setting_structs: Vec<Settings>,
    pub(super) reasons: Option<Reasons>,
    pub(super) commands: Option<Commands>,
    pub(super) packet_set: Option<PacketSet>,
    pub(super) nf: NfStruct,
    pub(super) structs: Vec<ItemStruct>,
    pub(super) enums: Vec<ItemEnum>,
    pub(super) consts: Vec<ItemConst>,
    pub(super) fns: Vec<ItemFn>,
    pub(super) impls: Vec<ItemImpl>,
}

#[derive(Default)]
struct Raw {
    structs: Vec<ItemStruct>,
    enums: Vec<ItemEnum>,
    consts: Vec<ItemConst>,
    fns: Vec<ItemFn>,
    impls: Vec<ItemImpl>,
}

/// Sorts `content`; `None`: there is no NF struct, or nothing else would make sense.
pub(super) fn sort(
    content: Vec<Item>,
    module: &Ident,
    lines_before: u32,
    errors: &mut Errors,
) -> Option<Items> {
    let mut raw = Raw::default();
    for item in content {
        raw.add(item, errors);
    }
    let settings_item = take(&mut raw.structs, |item| item.ident == "Settings");
    let set_item = take(&mut raw.structs, is_packet_set);
    let reasons = take(&mut raw.enums, |item| item.ident == "Reason");
    let commands_item = take(&mut raw.enums, |item| item.ident == "Command");
    let nf_item = take(&mut raw.structs, is_nf).or_else(|| raw.take_stateless());
    refuse_second(&raw.structs, errors);
    let kinds = settings::Kinds { structs: &raw.structs, enums: &raw.enums };
    let settings = settings_item.map(|item| settings::read(item, &kinds, lines_before, errors));
    let setting_structs = settings::list_elements(settings.as_ref(), &kinds, lines_before, errors);
    let reasons = reasons.map(|item| commands::reasons(item, errors));
    let commands = commands_item.map(|item| commands::read(item, &kinds, lines_before, errors));
    let packet_set = set_item.map(|item| packet_set::read(item, lines_before, errors));
    let Some(nf_item) = nf_item else {
        errors.push(no_nf(module));
        return None;
    };
    let nf = state::read(nf_item, lines_before, errors);
    plain(&raw, &setting_structs, errors);
    let Raw { structs, enums, consts, fns, impls } = raw;
    Some(Items {
        settings,
        setting_structs,
        reasons,
        commands,
        packet_set,
        nf,
        structs,
        enums,
        consts,
        fns,
        impls,
    })
}

impl Raw {
    /// A network function without any state has no field to know it by, only its handler.
    fn take_stateless(&mut self) -> Option<ItemStruct> {
        let block = self.impls.iter().find(|block| {
            block.items.iter().any(
                |item| matches!(item, syn::ImplItem::Fn(function) if function.sig.ident == "packet"),
            )
        })?;
        let name = type_name(&block.self_ty)?;
        take(&mut self.structs, |item| item.ident == name)
    }

    fn add(&mut self, item: Item, errors: &mut Errors) {
        match item {
            Item::Struct(item) => self.structs.push(item),
            Item::Enum(item) => self.enums.push(item),
            Item::Const(item) => self.consts.push(item),
            Item::Fn(item) => self.fns.push(item),
            Item::Impl(item) => self.impls.push(item),
            other => refuse_item(&other, errors),
        }
    }
}

fn refuse_item(item: &Item, errors: &mut Errors) {
    let (what, instead) = match item {
        Item::Use(_) => ("`use` is refused", "the module sees the prelude: write the name itself"),
        Item::Static(_) => (
            "`static` is refused",
            "write a `const`, or for state a field of the network function: `Cell<T>`, `Vector<T>`",
        ),
        Item::Mod(_) => ("a nested module is refused", "write its items in this module"),
        Item::Trait(_) | Item::TraitAlias(_) => {
            ("a trait is refused", "write methods in `impl Type { … }`, or an enum and a `match`")
        }
        Item::Type(_) => ("a type alias is refused", "write the type itself, or a struct"),
        Item::Union(_) => ("a union is refused", "write an enum, and `to_be_bytes` for bytes"),
        Item::Macro(mac) if mac.ident.is_some() => {
            ("`macro_rules!` is refused", "write a function, generic if need be")
        }
        Item::Macro(_) => ("this macro is refused", "only `matches!` and `log!` are macros here"),
        Item::ExternCrate(_) | Item::ForeignMod(_) => {
            ("`extern` is refused", "the module sees the prelude and its own items, nothing else")
        }
        _ => ("this item is refused", "write a struct, an enum, a `const`, a `fn` or an `impl`"),
    };
    errors.refuse(item.span(), what, instead);
}

fn take<T>(from: &mut Vec<T>, wanted: impl Fn(&T) -> bool) -> Option<T> {
    let place = from.iter().position(wanted)?;
    Some(from.remove(place))
}

fn is_packet_set(item: &ItemStruct) -> bool {
    item.attrs.iter().any(|attr| attr.path().is_ident("packet_set"))
}

fn is_nf(item: &ItemStruct) -> bool {
    nf_field(item).is_some()
}

/// The first field that makes a struct the NF: settings or a state object.
fn nf_field(item: &ItemStruct) -> Option<Span> {
    let Fields::Named(fields) = &item.fields else {
        return None;
    };
    fields.named.iter().find(|field| is_state(&field.ty)).map(|field| field.ty.span())
}

fn is_state(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let plain = path.path.segments.last().is_some_and(|segment| {
        let arguments = !matches!(segment.arguments, PathArguments::None);
        let name = segment.ident.to_string();
        arguments || matches!(name.as_str(), "Counter" | "L3" | "Settings")
    });
    plain && type_name(ty).is_some_and(|name| state::is_state_type(&name) || name == "Settings")
}

fn refuse_second(structs: &[ItemStruct], errors: &mut Errors) {
    for item in structs {
        if is_packet_set(item) {
            let instead = "a network function has one: give it several key lists";
            errors.refuse(item.ident.span(), "a second `#[packet_set]`", instead);
        } else if let Some(span) = nf_field(item) {
            let instead =
                "state objects stand in one struct, the network function: move the field there";
            errors.refuse(span, format!("`{}` holds a state object too", item.ident), instead);
        }
    }
}

fn plain(raw: &Raw, setting_structs: &[Settings], errors: &mut Errors) {
    for item in &raw.structs {
        attributes::only(&item.attrs, &["doc"], errors);
        let in_list = setting_structs.iter().any(|settings| settings.ident == item.ident);
        let allowed: &[&str] = if in_list { &["doc", "setting"] } else { &["doc"] };
        for field in &item.fields {
            attributes::only(&field.attrs, allowed, errors);
        }
    }
    for item in &raw.enums {
        attributes::only(&item.attrs, &["doc"], errors);
        for variant in &item.variants {
            attributes::only(&variant.attrs, &["doc"], errors);
            if let Some((_, value)) = &variant.discriminant {
                let instead =
                    "leave it away, and write a method that gives the number with a `match`";
                errors.refuse(value.span(), "a discriminant is refused", instead);
            }
        }
    }
    for item in &raw.consts {
        attributes::only(&item.attrs, &["doc"], errors);
    }
    for item in &raw.fns {
        attributes::only(&item.attrs, super::handlers::METHOD_ATTRIBUTES, errors);
        super::opaque::check(&item.attrs, &item.sig, errors);
    }
    for item in &raw.impls {
        attributes::only(&item.attrs, &["doc"], errors);
    }
}

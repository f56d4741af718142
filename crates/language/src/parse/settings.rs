//! `Settings`, and everything read like a setting.

use syn::parse::ParseStream;
use syn::parse::discouraged::Speculative;
use syn::spanned::Spanned;
use syn::{
    Expr, ExprLit, Field, Fields, GenericArgument, ItemEnum, ItemStruct, Lit, PathArguments, Token,
    Type,
};

use super::attributes;
use crate::declare::{Setting, SettingType, Settings};
use crate::error::Errors;
use crate::module::line_of;
use crate::names::INTEGERS;

const TYPES: &str = "an integer, `bool`, a field-less enum of the module, `Ipv4Addr`, `Ipv6Addr`, \
                     `MacAddr`, `Port` or `List<T>`";

/// The module's own types that a setting may have.
pub(super) struct Kinds<'a> {
    pub(super) structs: &'a [ItemStruct],
    pub(super) enums: &'a [ItemEnum],
}

/// Reads a struct of settings.
pub(super) fn read(item: ItemStruct, kinds: &Kinds, before: u32, errors: &mut Errors) -> Settings {
    attributes::only(&item.attrs, &["doc"], errors);
    let fields = match &item.fields {
        Fields::Named(named) => {
            named.named.iter().filter_map(|field| setting(field, kinds, before, errors)).collect()
        }
        other => {
            let instead = "write `struct Settings { name: type, … }`";
            errors.refuse(other.span(), "settings have names", instead);
            Vec::new()
        }
    };
    Settings { ident: item.ident.clone(), fields, item }
}

/// Reads one field as a setting.
pub(super) fn setting(
    field: &Field,
    kinds: &Kinds,
    before: u32,
    errors: &mut Errors,
) -> Option<Setting> {
    attributes::only(&field.attrs, &["doc", "setting"], errors);
    let ident = field.ident.clone()?;
    let Some(kind) = kinds.of(&field.ty) else {
        let what = format!("`{ident}` has no type of a setting");
        errors.refuse(field.ty.span(), what, format!("write {TYPES}"));
        return None;
    };
    let mut setting = Setting {
        line: before + line_of(&ident),
        docs: super::docs(&field.attrs),
        ty: field.ty.clone(),
        ident,
        kind,
        default: None,
        min: None,
        max: None,
        grows: false,
    };
    if let Some(attr) = attributes::one(&field.attrs, "setting", errors) {
        let read = attr.parse_nested_meta(|meta| argument(&meta, &mut setting));
        errors.take(read);
    }
    Some(setting)
}

fn argument(meta: &syn::meta::ParseNestedMeta, setting: &mut Setting) -> syn::Result<()> {
    let integer = matches!(setting.kind, SettingType::Integer { .. });
    let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
    let bound = matches!(name.as_str(), "min" | "max");
    if name == "grows" {
        if !matches!(setting.kind, SettingType::List(..)) {
            return Err(meta.error("`grows` is for lists: leave it away"));
        }
        setting.grows = true;
        return Ok(());
    }
    if bound && !integer {
        return Err(meta.error(format!("`{name}` is for integers: leave it away")));
    }
    if name != "default" && !bound {
        return Err(meta.error(
            "a setting has `default`, `min` and `max`, a list `grows`: leave the rest away",
        ));
    }
    meta.input.parse::<Token![=]>()?;
    let value = match setting.kind.is_of_addresses() {
        true => address(meta.input)?,
        false => meta.input.parse()?,
    };
    match name.as_str() {
        "default" => setting.default = Some(value),
        "min" => setting.min = Some(value),
        _ => setting.max = Some(value),
    }
    Ok(())
}

/// The value of an address or of a list of them, which an author may have written as operators do.
fn address(input: ParseStream) -> syn::Result<Expr> {
    let bare = input.error(
        "an address stands in quotes here: write `\"192.0.2.1\"`, `\"2001:db8::1\"` or \
         `\"02:00:00:00:00:01\"`",
    );
    let ahead = input.fork();
    let Ok(value) = ahead.parse::<Expr>() else { return Err(bare) };
    let is_bare = |value: &Expr| {
        let is_float = matches!(value, Expr::Lit(ExprLit { lit: Lit::Float(_), .. }));
        is_float || matches!(value, Expr::Field(_))
    };
    let within = match &value {
        Expr::Array(array) => array.elems.iter().any(is_bare),
        _ => false,
    };
    if is_bare(&value) || within || !(ahead.is_empty() || ahead.peek(Token![,])) {
        return Err(bare);
    }
    input.advance_to(&ahead);
    Ok(value)
}

impl Kinds<'_> {
    /// The type of a setting, if `ty` is one.
    pub(super) fn of(&self, ty: &Type) -> Option<SettingType> {
        let Type::Path(path) = ty else { return None };
        let segment = path.path.segments.last().filter(|_| path.path.segments.len() == 1)?;
        let name = segment.ident.to_string();
        if name == "List" {
            let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
                return None;
            };
            let Some(GenericArgument::Type(element)) = arguments.args.first() else {
                return None;
            };
            return self.element(element).map(|kind| SettingType::List(Box::new(kind)));
        }
        self.scalar(&name)
    }

    fn scalar(&self, name: &str) -> Option<SettingType> {
        match name {
            "bool" => Some(SettingType::Bool),
            "Ipv4Addr" => Some(SettingType::Ipv4Addr),
            "Ipv6Addr" => Some(SettingType::Ipv6Addr),
            "MacAddr" => Some(SettingType::MacAddr),
            "Port" => Some(SettingType::Port),
            _ => self.integer(name).or_else(|| self.choice(name)),
        }
    }

    fn integer(&self, name: &str) -> Option<SettingType> {
        // TOML's integers have 64 bits.
        (INTEGERS.contains(&name) && !name.ends_with("128")).then_some(())?;
        let bits = name[1..].parse().unwrap_or(usize::BITS);
        Some(SettingType::Integer { bits, signed: name.starts_with('i') })
    }

    fn choice(&self, name: &str) -> Option<SettingType> {
        let item = self.enums.iter().find(|item| item.ident == name)?;
        let fieldless = item.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit));
        fieldless.then(|| SettingType::Enum(item.ident.clone()))
    }

    fn element(&self, ty: &Type) -> Option<SettingType> {
        if let Some(kind) = self.of(ty) {
            return Some(kind).filter(|kind| !matches!(kind, SettingType::List(_)));
        }
        let name = crate::module::type_name(ty)?;
        let item = self.structs.iter().find(|item| item.ident == name)?;
        Some(SettingType::Struct(item.ident.clone()))
    }
}

/// The structs that are elements of lists in `settings`.
pub(super) fn list_elements(
    settings: Option<&Settings>,
    kinds: &Kinds,
    before: u32,
    errors: &mut Errors,
) -> Vec<Settings> {
    let mut found: Vec<Settings> = Vec::new();
    for setting in settings.into_iter().flat_map(|settings| &settings.fields) {
        let SettingType::List(element) = &setting.kind else {
            continue;
        };
        let SettingType::Struct(name) = &**element else {
            continue;
        };
        if found.iter().any(|known| known.ident == *name) {
            continue;
        }
        if let Some(item) = kinds.structs.iter().find(|item| item.ident == *name) {
            let element = read(item.clone(), kinds, before, errors);
            refuse_nested(&element, errors);
            found.push(element);
        }
    }
    found
}

fn refuse_nested(element: &Settings, errors: &mut Errors) {
    for field in &element.fields {
        if matches!(field.kind, SettingType::List(_)) {
            let instead = "write a second list, whose elements name the first one's by a number";
            errors.refuse(field.ty.span(), "a list within a list is refused", instead);
        }
    }
}

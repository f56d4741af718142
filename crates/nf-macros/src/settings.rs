//! `Settings`, read from TOML; and the types that only settings have.

use anabranch_language::{Module, Setting, SettingType, Settings, kebab};
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Expr, ExprLit, ItemEnum, Lit};

use crate::arithmetic::tokens;
use crate::values;

/// The settings struct and what it is read by.
pub(crate) fn expand(module: &Module) -> TokenStream {
    let settings = module.settings.as_ref().map(|settings| structure(module, settings));
    let elements = tokens(module.setting_structs.iter().map(element));
    let enums = module
        .enums
        .iter()
        .filter(|item| item.variants.iter().all(|v| matches!(v.fields, syn::Fields::Unit)));
    let choices = tokens(enums.map(choice));
    quote!(#settings #elements #choices)
}

fn structure(module: &Module, settings: &Settings) -> TokenStream {
    let mut item = settings.item.clone();
    item.attrs = values::docs(&item.attrs);
    item.vis = syn::parse_quote!(pub);
    values::plain_fields(&mut item.fields);
    let name = &settings.ident;
    let schema = schema(&settings.fields);
    let take = take(&settings.fields, &quote!(Self));
    let check = module.handlers.check.then(|| {
        quote! {
            fn check(&self) -> ::core::result::Result<(), &'static str> { check(self) }
        }
    });
    quote! {
        #[derive(Clone, Debug, PartialEq, Eq)]
        #item
        impl ::anabranch_nf::settings::Settings for #name {
            fn schema() -> ::std::vec::Vec<::anabranch_nf::settings::Setting> { #schema }
            fn take(
                __fields: &mut ::anabranch_nf::settings::Fields<'_>,
            ) -> ::core::option::Option<Self> { #take }
            #check
        }
    }
}

/// The descriptions of some settings.
pub(crate) fn schema(settings: &[Setting]) -> TokenStream {
    let described = settings.iter().map(|setting| {
        let (name, ty, help) = (setting.ident.to_string(), &setting.ty, &setting.docs);
        let text = |value: &Option<Expr>| match typed(setting, value) {
            Some(value) => quote! {
                ::core::option::Option::Some(
                    <#ty as ::anabranch_nf::settings::SettingType>::to_text(&(#value))
                )
            },
            None => quote!(::core::option::Option::None),
        };
        let (default, min, max) = (text(&setting.default), text(&setting.min), text(&setting.max));
        quote! {
            ::anabranch_nf::settings::Setting {
                name: #name,
                kind: <#ty as ::anabranch_nf::settings::SettingType>::kind(),
                default: #default,
                min: #min,
                max: #max,
                help: #help,
                fields: <#ty as ::anabranch_nf::settings::SettingType>::fields(),
            }
        }
    });
    quote!(::std::vec![#(#described),*])
}

/// Takes each setting from `__fields`, all of them before giving up, into `constructor { … }`.
pub(crate) fn take(settings: &[Setting], constructor: &TokenStream) -> TokenStream {
    let names: Vec<&Ident> = settings.iter().map(|setting| &setting.ident).collect();
    let values = settings.iter().map(|setting| {
        let (ident, ty, name) = (&setting.ident, &setting.ty, setting.ident.to_string());
        let optional = |value: &Option<Expr>| match typed(setting, value) {
            Some(value) => quote!(::core::option::Option::Some(#value)),
            None => quote!(::core::option::Option::None),
        };
        let default = optional(&setting.default);
        if setting.min.is_none() && setting.max.is_none() {
            return quote!(let #ident = __fields.take::<#ty>(#name, #default););
        }
        let (min, max) = (optional(&setting.min), optional(&setting.max));
        quote!(let #ident = __fields.take_within::<#ty>(#name, #default, #min, #max);)
    });
    quote! {
        #(#values)*
        ::core::option::Option::Some(#constructor { #(#names: #names?),* })
    }
}

/// A default or bound as a value of the setting's type; text stands for an address.
fn typed(setting: &Setting, value: &Option<Expr>) -> Option<TokenStream> {
    let value = value.as_ref()?;
    let ty = &setting.ty;
    if let Some(read) = address(&setting.kind, value) {
        return Some(read);
    }
    Some(match (&setting.kind, value) {
        (SettingType::List(_), Expr::Array(array)) if array.elems.is_empty() => {
            quote!(<#ty as ::core::default::Default>::default())
        }
        (SettingType::List(_), Expr::Array(array)) => {
            let elements = &array.elems;
            quote!(<#ty as ::core::convert::From<_>>::from(::std::vec![#elements]))
        }
        _ => quote!(#value),
    })
}

fn address(kind: &SettingType, value: &Expr) -> Option<TokenStream> {
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = value else { return None };
    match kind {
        SettingType::Ipv4Addr => {
            let bits = u32::from(text.value().parse::<std::net::Ipv4Addr>().ok()?);
            Some(quote!(::std::net::Ipv4Addr::from_bits(#bits)))
        }
        SettingType::Ipv6Addr => {
            let bits = u128::from(text.value().parse::<std::net::Ipv6Addr>().ok()?);
            Some(quote!(::std::net::Ipv6Addr::from_bits(#bits)))
        }
        SettingType::MacAddr => {
            let octets = anabranch_language::mac_octets(&text.value())?;
            Some(quote!(MacAddr::from([#(#octets),*])))
        }
        _ => None,
    }
}

/// An element of a list: a table with its own names.
fn element(settings: &Settings) -> TokenStream {
    let name = &settings.ident;
    let take = take(&settings.fields, &quote!(Self));
    let kind = settings.fields.iter().map(|field| field.ident.to_string()).collect::<Vec<_>>();
    let kind = format!("table of {}", kind.join(", "));
    let schema = schema(&settings.fields);
    let texts = settings.fields.iter().map(|field| {
        let (ident, ty, name) = (&field.ident, &field.ty, field.ident.to_string());
        quote! {
            ::std::format!(
                "{} = {}", #name, <#ty as ::anabranch_nf::settings::SettingType>::to_text(&self.#ident)
            )
        }
    });
    quote! {
        impl #name {
            fn __take(
                __fields: &mut ::anabranch_nf::settings::Fields<'_>,
            ) -> ::core::option::Option<Self> { #take }
        }
        impl ::anabranch_nf::settings::SettingType for #name {
            fn kind() -> ::std::string::String { ::std::string::String::from(#kind) }
            fn from_toml(
                value: &::anabranch_nf::settings::Value,
            ) -> ::core::result::Result<Self, ::std::string::String> {
                let ::core::option::Option::Some(table) = value.as_table() else {
                    return ::core::result::Result::Err(
                        ::std::format!("expected a {}, found `{}`", #kind, value)
                    );
                };
                let mut fields = ::anabranch_nf::settings::Fields::new(table, "");
                let taken = Self::__take(&mut fields);
                let errors = fields.finish();
                match taken {
                    ::core::option::Option::Some(taken) if errors.0.is_empty() => {
                        ::core::result::Result::Ok(taken)
                    }
                    _ => ::core::result::Result::Err(errors.to_string()),
                }
            }
            fn to_text(&self) -> ::std::string::String {
                ::std::format!("{{ {} }}", [#(#texts),*].join(", "))
            }
            fn fields() -> ::std::vec::Vec<::anabranch_nf::settings::Setting> { #schema }
        }
    }
}

/// A field-less enum: its variants by name.
fn choice(item: &ItemEnum) -> TokenStream {
    let name = &item.ident;
    let variants: Vec<&Ident> = item.variants.iter().map(|variant| &variant.ident).collect();
    let texts: Vec<String> = variants.iter().map(|variant| kebab(&variant.to_string())).collect();
    let kind = format!("one of {}", texts.join(", "));
    quote! {
        impl ::anabranch_nf::settings::SettingType for #name {
            fn kind() -> ::std::string::String { ::std::string::String::from(#kind) }
            fn from_toml(
                value: &::anabranch_nf::settings::Value,
            ) -> ::core::result::Result<Self, ::std::string::String> {
                match value.as_str() {
                    #(::core::option::Option::Some(#texts) => {
                        ::core::result::Result::Ok(Self::#variants)
                    })*
                    _ => ::core::result::Result::Err(::std::format!(
                        "`{}` is not {}", value, #kind
                    )),
                }
            }
            fn to_text(&self) -> ::std::string::String {
                let text = match self { #(Self::#variants => #texts),* };
                ::std::format!("\"{text}\"")
            }
        }
    }
}

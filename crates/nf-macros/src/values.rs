//! Plain structs and enums: copies, `==`, a zero value, and their bits as a key.

use anabranch_language::Module;
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, Field, Fields, GenericParam, Generics, Ident, ItemEnum, ItemStruct, Visibility,
    parse_quote,
};

use crate::arithmetic::tokens;

/// The module's plain types, and the packet set's state.
pub(crate) fn expand(module: &Module) -> TokenStream {
    let set = module.packet_set.iter().map(|set| &set.item);
    let structs = tokens(module.structs.iter().chain(set).map(structure));
    let enums = tokens(module.enums.iter().map(choice));
    quote!(#structs #enums)
}

/// What every plain type derives.
pub(crate) fn derives() -> TokenStream {
    quote!(#[derive(Clone, Copy, Debug, PartialEq, Eq)])
}

/// The documentation among `attrs`.
pub(crate) fn docs(attrs: &[Attribute]) -> Vec<Attribute> {
    attrs.iter().filter(|attr| attr.path().is_ident("doc")).cloned().collect()
}

/// The fields of a struct without the language's attributes.
pub(crate) fn plain_fields(fields: &mut Fields) {
    for field in fields {
        field.attrs = docs(&field.attrs);
    }
}

fn structure(item: &ItemStruct) -> TokenStream {
    let mut item = item.clone();
    item.attrs = docs(&item.attrs);
    item.vis = public();
    plain_fields(&mut item.fields);
    let derives = derives();
    let name = &item.ident;
    let zero = filled(&item.fields, zero);
    let bindings = bound(&item.fields);
    let (folds, described) = (folded(&item.fields), described("", &item.fields));
    let (writes, read) = (written(&item.fields), filled(&item.fields, read));
    let bits = Bits {
        folded: quote!(let Self #bindings = self; #folds),
        described: quote!(let Self #bindings = self; #described),
        stored: quote!(let Self #bindings = self; #writes),
        loaded: quote!(::core::option::Option::Some(Self #read)),
    };
    let given = implementations(name, &item.generics, &quote!(Self #zero), &bits);
    quote!(#derives #item #given)
}

fn choice(item: &ItemEnum) -> TokenStream {
    let mut item = item.clone();
    item.attrs = docs(&item.attrs);
    item.vis = public();
    for variant in &mut item.variants {
        variant.attrs = docs(&variant.attrs);
        plain_fields(&mut variant.fields);
    }
    let derives = derives();
    let first = item.variants.first().map(|variant| {
        let (name, zero) = (&variant.ident, filled(&variant.fields, zero));
        quote!(Self::#name #zero)
    });
    let width = (usize::BITS - item.variants.len().leading_zeros()).max(1);
    let arms = item.variants.iter().enumerate().map(|(index, variant)| {
        let (name, index) = (&variant.ident, index as u64);
        let (bindings, folds) = (bound(&variant.fields), folded(&variant.fields));
        let word = format!("{}.", anabranch_language::kebab(&name.to_string()));
        let described = described(&word, &variant.fields);
        (
            quote!(Self::#name #bindings => { let __fold = __fold.push(#index, #width); #folds }),
            quote!(Self::#name #bindings => { __parts.leaf(#index as u128); #described }),
        )
    });
    let (folds, parts): (Vec<_>, Vec<_>) = arms.unzip();
    let (writes, reads) = variants_stored(&item);
    let bits = Bits {
        folded: quote!(match self { #(#folds)* }),
        described: quote!(match self { #(#parts)* }),
        stored: quote!(match self { #writes }),
        loaded: quote!(match __from.number(2)? {
            #reads
            _ => ::core::option::Option::None,
        }),
    };
    let given = implementations(&item.ident, &item.generics, &quote!(#first), &bits);
    quote!(#derives #item #given)
}

fn public() -> Visibility {
    parse_quote!(pub)
}

/// What a value is made of: bodies of `Key::fold`, `Value::parts`, `store` and `load`.
struct Bits {
    folded: TokenStream,
    described: TokenStream,
    stored: TokenStream,
    loaded: TokenStream,
}

/// The arms of `Value::store` and `load` of an enum: each variant's number, then its fields.
fn variants_stored(item: &ItemEnum) -> (TokenStream, TokenStream) {
    let arms = item.variants.iter().enumerate().map(|(index, variant)| {
        let (name, index) = (&variant.ident, index as u128);
        let (bindings, writes) = (bound(&variant.fields), written(&variant.fields));
        let read = filled(&variant.fields, read);
        (
            quote!(Self::#name #bindings => { __to.number(#index, 2); #writes }),
            quote!(#index => ::core::option::Option::Some(Self::#name #read),),
        )
    });
    arms.unzip()
}

/// `Value`, `Key` and `Default`.
fn implementations(
    name: &Ident,
    generics: &Generics,
    zero: &TokenStream,
    bits: &Bits,
) -> TokenStream {
    let Bits { folded, described, stored, loaded } = bits;
    let with = |bound: &TokenStream| {
        let mut generics = generics.clone();
        for parameter in &mut generics.params {
            if let GenericParam::Type(parameter) = parameter {
                parameter.bounds = parse_quote!(#bound);
            }
        }
        generics
    };
    let (value, key) = (with(&quote!(::anabranch_nf::Value)), with(&quote!(::anabranch_nf::Key)));
    let (value_impl, ty, _) = value.split_for_impl();
    let (key_impl, ..) = key.split_for_impl();
    quote! {
        impl #value_impl ::anabranch_nf::Value for #name #ty {
            #[inline(always)]
            fn zero() -> Self { #zero }
            fn parts(&self, __parts: &mut ::anabranch_nf::trace::Parts) { #described }
            fn store(&self, __to: &mut ::anabranch_nf::state::journal::Writer) { #stored }
            fn load(
                __from: &mut ::anabranch_nf::state::journal::Reader<'_>,
            ) -> ::core::option::Option<Self> {
                #loaded
            }
        }
        impl #key_impl ::anabranch_nf::Key for #name #ty {
            #[inline(always)]
            fn fold(&self, __fold: ::anabranch_nf::Fold) -> ::anabranch_nf::Fold { #folded }
        }
        impl #value_impl ::core::default::Default for #name #ty {
            #[inline(always)]
            fn default() -> Self { ::anabranch_nf::Value::zero() }
        }
    }
}

fn zero(field: &Field) -> TokenStream {
    quote_spanned!(field.ty.span()=> ::anabranch_nf::Value::zero())
}

fn read(field: &Field) -> TokenStream {
    quote_spanned!(field.ty.span()=> ::anabranch_nf::Value::load(__from)?)
}

/// Fields filled by `value`: `{ a: …, b: … }`, `(…, …)` or nothing.
fn filled(fields: &Fields, value: impl Fn(&Field) -> TokenStream) -> TokenStream {
    let values = fields.iter().map(&value);
    match fields {
        Fields::Named(_) => {
            let names = fields.iter().map(|field| &field.ident);
            quote!({ #(#names: #values),* })
        }
        Fields::Unnamed(_) => quote!((#(#values),*)),
        Fields::Unit => TokenStream::new(),
    }
}

fn binding(index: usize, field: &Field) -> Ident {
    format_ident!("__{index}", span = field.ty.span())
}

/// A pattern that binds every field.
fn bound(fields: &Fields) -> TokenStream {
    let bindings: Vec<Ident> =
        fields.iter().enumerate().map(|(index, field)| binding(index, field)).collect();
    match fields {
        Fields::Named(_) => {
            let names = fields.iter().map(|field| &field.ident);
            quote!({ #(#names: #bindings),* })
        }
        Fields::Unnamed(_) => quote!((#(#bindings),*)),
        Fields::Unit => TokenStream::new(),
    }
}

/// The bound fields folded, in order.
fn folded(fields: &Fields) -> TokenStream {
    let folds = fields.iter().enumerate().map(|(index, field)| {
        let binding = binding(index, field);
        quote_spanned!(field.ty.span()=> let __fold = ::anabranch_nf::Key::fold(#binding, __fold);)
    });
    quote!(#(#folds)* __fold)
}

/// The bound fields written, in order.
fn written(fields: &Fields) -> TokenStream {
    let writes = fields.iter().enumerate().map(|(index, field)| {
        let binding = binding(index, field);
        quote_spanned!(field.ty.span()=> ::anabranch_nf::Value::store(#binding, __to);)
    });
    quote!(#(#writes)*)
}

/// The bound fields described, under names that begin with `word`.
fn described(word: &str, fields: &Fields) -> TokenStream {
    let parts = fields.iter().enumerate().map(|(index, field)| {
        let name = field.ident.as_ref().map_or_else(|| index.to_string(), ToString::to_string);
        let (binding, name) = (binding(index, field), format!("{word}{name}"));
        quote!(__parts.field(#name, #binding);)
    });
    quote!(#(#parts)*)
}

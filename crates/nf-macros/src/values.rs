//! Plain structs and enums: copies, `==`, a zero value, and their bits as a key.

use anabranch_language::{Module, kebab};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, Field, Fields, GenericParam, Generics, Ident, ItemEnum, ItemStruct, Visibility,
    parse_quote,
};

use crate::arithmetic::tokens;
use crate::packet_set;

/// The module's plain types, and the packet set's state.
pub(crate) fn expand(module: &Module) -> TokenStream {
    let structs = tokens(module.structs.iter().map(|item| structure(item, &TokenStream::new())));
    let set = module.packet_set.as_ref();
    let set = set.map(|set| structure(&set.item, &packet_set::addresses(set)));
    let enums = tokens(module.enums.iter().map(choice));
    quote!(#structs #set #enums)
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

/// A struct; `more` of its `Value`.
fn structure(item: &ItemStruct, more: &TokenStream) -> TokenStream {
    let mut item = item.clone();
    item.attrs = docs(&item.attrs);
    item.vis = public();
    plain_fields(&mut item.fields);
    let derives = derives();
    let name = &item.ident;
    let zero = filled(&item.fields, zero);
    let bindings = bound(&item.fields);
    let (folds, described) = (folded(&item.fields), described("", &item.fields));
    let (width, packed) = (width(&item.fields), packed(&item.fields));
    let unpacked = filled(&item.fields, unpacked);
    let bits = Bits {
        folded: quote!(let Self #bindings = self; #folds),
        described: quote!(let Self #bindings = self; #described),
        width,
        packed: quote!(let Self #bindings = self; #packed),
        unpacked: quote!(Self #unpacked),
        shape: shape(&item.fields),
        more: more.clone(),
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
        let variant_word = kebab(&name.to_string());
        let word = format!("{variant_word}.");
        let described = described(&word, &variant.fields);
        (
            quote!(Self::#name #bindings => { let __fold = __fold.push(#index, #width); #folds }),
            quote!(Self::#name #bindings => { __parts.variant(#index as u128, #variant_word); #described }),
        )
    });
    let (folds, parts): (Vec<_>, Vec<_>) = arms.unzip();
    let bits = Bits {
        folded: quote!(match self { #(#folds)* }),
        described: quote!(match self { #(#parts)* }),
        ..packed_choice(&item, width)
    };
    let given = implementations(&item.ident, &item.generics, &quote!(#first), &bits);
    quote!(#derives #item #given)
}

/// How the variants of an enum are packed: which one it is, in `tag` bits, and its fields, in as many
/// bits as those of the widest.
fn packed_choice(item: &ItemEnum, tag: u32) -> Bits {
    let arms = item.variants.iter().enumerate().map(|(index, variant)| {
        let (name, index) = (&variant.ident, index as u64);
        let (bindings, packed) = (bound(&variant.fields), packed(&variant.fields));
        let unpacked = filled(&variant.fields, unpacked);
        // What was never packed is the first variant, as zero is.
        let number = if index == 0 { quote!(_) } else { quote!(#index) };
        (
            quote!(Self::#name #bindings => { __pack.put(#index, #tag); #packed }),
            quote!(#number => Self::#name #unpacked,),
        )
    });
    let (pack, mut unpack): (Vec<_>, Vec<_>) = arms.unzip();
    unpack.reverse();
    let widths = item.variants.iter().map(|variant| width(&variant.fields));
    let widest = widths.fold(quote!(0), |a, b| quote!(::anabranch_nf::pack::wider(#a, #b)));
    let shapes = item.variants.iter().map(|variant| {
        let (name, shape) = (variant.ident.to_string(), shape(&variant.fields));
        quote!((#name, #shape))
    });
    Bits {
        shape: quote!(::anabranch_nf::shape::Shape::choice(#tag, [#(#shapes),*])),
        more: TokenStream::new(),
        folded: TokenStream::new(),
        described: TokenStream::new(),
        width: quote!(#tag + #widest),
        packed: quote! {
            let __end = __pack.at() + <Self as ::anabranch_nf::Value>::BITS;
            match self { #(#pack)* }
            __pack.seek(__end);
        },
        unpacked: quote! {
            let __end = __unpack.at() + <Self as ::anabranch_nf::Value>::BITS;
            let __value = match __unpack.take(#tag) { #(#unpack)* };
            __unpack.seek(__end);
            __value
        },
    }
}

fn public() -> Visibility {
    parse_quote!(pub)
}

/// What a value is made of: `Value::BITS`, and bodies of functions of `Key` and `Value`.
struct Bits {
    folded: TokenStream,
    described: TokenStream,
    width: TokenStream,
    packed: TokenStream,
    unpacked: TokenStream,
    shape: TokenStream,
    more: TokenStream,
}

/// `Value`, `Key` and `Default`.
fn implementations(
    name: &Ident,
    generics: &Generics,
    zero: &TokenStream,
    bits: &Bits,
) -> TokenStream {
    let Bits { folded, described, width, packed, unpacked, shape, more } = bits;
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
            #more
            const BITS: u32 = #width;
            #[inline(always)]
            fn zero() -> Self { #zero }
            #[inline(always)]
            fn pack(&self, __pack: &mut ::anabranch_nf::pack::Pack<'_>) { #packed }
            #[inline(always)]
            fn unpack(__unpack: &mut ::anabranch_nf::pack::Unpack<'_>) -> Self { #unpacked }
            fn shape() -> ::anabranch_nf::shape::Shape { #shape }
            fn parts(&self, __parts: &mut ::anabranch_nf::trace::Parts) { #described }
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

fn unpacked(field: &Field) -> TokenStream {
    quote_spanned!(field.ty.span()=> ::anabranch_nf::Value::unpack(__unpack))
}

/// Bits of all fields.
fn width(fields: &Fields) -> TokenStream {
    let types = fields.iter().map(|field| &field.ty);
    quote!(0 #(+ <#types as ::anabranch_nf::Value>::BITS)*)
}

/// The shape of these fields, one after the other.
fn shape(fields: &Fields) -> TokenStream {
    let shapes = fields.iter().enumerate().map(|(index, field)| {
        let (name, ty) = (field_name(index, field), &field.ty);
        quote_spanned!(ty.span()=> (#name, <#ty as ::anabranch_nf::Value>::shape()))
    });
    quote!(::anabranch_nf::shape::Shape::fields([#(#shapes),*]))
}

/// Its name, or its number.
fn field_name(index: usize, field: &Field) -> String {
    field.ident.as_ref().map_or_else(|| index.to_string(), ToString::to_string)
}

/// The bound fields packed, in order.
fn packed(fields: &Fields) -> TokenStream {
    let packed = fields.iter().enumerate().map(|(index, field)| {
        let binding = binding(index, field);
        quote_spanned!(field.ty.span()=> ::anabranch_nf::Value::pack(#binding, __pack);)
    });
    quote!(#(#packed)*)
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

/// The bound fields described, under names that begin with `word`.
fn described(word: &str, fields: &Fields) -> TokenStream {
    let parts = fields.iter().enumerate().map(|(index, field)| {
        let (binding, name) = (binding(index, field), field_name(index, field));
        let name = format!("{word}{name}");
        quote!(__parts.field(#name, #binding);)
    });
    quote!(#(#parts)*)
}

//! The NF struct: state objects of a world, made, shown, expired.

use anabranch_language::{Module, StateField, StateKind};
use proc_macro2::TokenStream;
use quote::quote;

use crate::arithmetic;
use crate::values;

/// `pub struct Nat<W: World = Solo> { … }`.
pub(crate) fn structure(module: &Module) -> TokenStream {
    let docs = values::docs(&module.nf.item.attrs);
    let name = &module.nf.ident;
    let fields = module.nf.fields.iter().map(|field| {
        let (ident, ty) = (&field.ident, field_type(field));
        let docs = &field.docs;
        quote!(#[doc = #docs] #ident: #ty)
    });
    quote! {
        #(#docs)*
        pub struct #name<__W: ::anabranch_nf::world::World = ::anabranch_nf::world::Solo> {
            #(#fields,)*
            __world: ::core::marker::PhantomData<fn() -> __W>,
        }
    }
}

fn field_type(field: &StateField) -> TokenStream {
    match &field.kind {
        StateKind::Settings => quote!(__W::Fixed<Settings>),
        StateKind::Map(key, value) => quote!(__W::Map<#key, #value>),
        StateKind::Vector(element) => quote!(__W::Vector<#element>),
        StateKind::Allocator(object) => quote!(__W::Allocator<#object>),
        StateKind::Distributed(part) => quote!(__W::Distributed<#part>),
        StateKind::Cell(value) => quote!(__W::Cell<#value>),
        StateKind::Counter => quote!(__W::Counter),
        StateKind::L3 => quote!(__W::L3),
    }
}

/// The name of the field that holds the settings.
pub(crate) fn settings_field(module: &Module) -> Option<&syn::Ident> {
    let field = module.nf.fields.iter().find(|field| matches!(field.kind, StateKind::Settings))?;
    Some(&field.ident)
}

/// `let settings`, where there are any, from `self`.
pub(crate) fn settings_in_sight(module: &Module) -> TokenStream {
    let field = settings_field(module);
    field.map(|field| quote!(let settings = &*self.#field;)).unwrap_or_default()
}

/// The worlds that make objects of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// Those of one worker.
    Owned,
    /// The same, which tell what is asked of them.
    Told,
    /// Those of all workers.
    Shared,
    /// The same, which leave traces of what is asked of them.
    Watched,
}

/// `NetworkFunction::build`.
pub(crate) fn build(module: &Module, how: Made) -> TokenStream {
    let name = &module.nf.ident;
    let sizes = sizes(module);
    let made = module.nf.fields.iter().filter_map(|field| {
        let value = match how {
            Made::Shared | Made::Watched => shared_made(module, field),
            Made::Owned | Made::Told => made(module, field),
        };
        let (ident, name, value) = (&field.ident, field.ident.to_string(), value?);
        Some(match how {
            Made::Told => quote!(let #ident = ::anabranch_nf::world::Told::new(#name, #value);),
            Made::Watched => quote! {
                let __shared = #value;
                let #ident = __builder.watched(#name, __shared)?;
            },
            Made::Owned | Made::Shared => quote!(let #ident = #value;),
        })
    });
    let set = module.packet_set.as_ref().map(|set| {
        let capacity = arithmetic::size(module, &set.capacity, "u64");
        let name = set.ident.to_string();
        quote!(__builder.capacity(#name, #capacity)?;)
    });
    let idents: Vec<&syn::Ident> = module
        .nf
        .fields
        .iter()
        .filter(|field| !matches!(field.kind, StateKind::Settings))
        .map(|field| &field.ident)
        .collect();
    let settings =
        settings_field(module).map(|field| quote!(#field: ::anabranch_nf::world::Owned(settings),));
    quote! {
        fn build(
            settings: Self::Settings,
            __builder: &mut ::anabranch_nf::Builder,
        ) -> ::core::result::Result<Self, ::anabranch_nf::BuildError> {
            #(#sizes)*
            #set
            #(#made)*
            ::core::result::Result::Ok(#name {
                #settings
                #(#idents,)*
                __world: ::core::marker::PhantomData,
            })
        }
    }
}

/// What says of each object by which expression it is as large as it is.
fn sizes(module: &Module) -> Vec<TokenStream> {
    let of_set = module.packet_set.iter().map(|set| (&set.ident, &set.capacity));
    let fields = module.nf.fields.iter();
    let of_fields = fields.filter_map(|field| Some((&field.ident, field.capacity.as_ref()?)));
    let told = |(ident, size): (&syn::Ident, &syn::Expr)| {
        let name = ident.to_string();
        let size = quote!(#size)
            .to_string()
            .replace(" . ", ".")
            .replace(" (", "(")
            .replace("( ", "(")
            .replace(" )", ")");
        quote!(__builder.sized(#name, #size);)
    };
    of_set.chain(of_fields).map(told).collect()
}

fn made(module: &Module, field: &StateField) -> Option<TokenStream> {
    let name = field.ident.to_string();
    let capacity = field.capacity.as_ref().map(|size| arithmetic::size(module, size, "u64"));
    Some(match &field.kind {
        StateKind::Settings => return None,
        StateKind::Map(..) => quote!(__builder.map(#name, #capacity)?),
        StateKind::Vector(_) => quote!(__builder.vector(#name, #capacity)?),
        StateKind::Allocator(_) => quote!(__builder.allocator(#name, #capacity)?),
        StateKind::Distributed(_) => {
            let merge = &field.merge;
            quote!(::anabranch_nf::state::Distributed::new(#merge))
        }
        StateKind::Cell(_) => quote!(__builder.cell(#name)),
        StateKind::Counter => quote!(::anabranch_nf::state::Counter::default()),
        StateKind::L3 => quote!(__builder.l3(#name)?),
    })
}

fn shared_made(module: &Module, field: &StateField) -> Option<TokenStream> {
    let name = field.ident.to_string();
    let capacity = field.capacity.as_ref().map(|size| arithmetic::size(module, size, "u64"));
    Some(match &field.kind {
        StateKind::Settings => return None,
        StateKind::Map(..) => quote!(__builder.shared_map(#name, #capacity)?),
        StateKind::Vector(_) => quote!(__builder.shared_vector(#name, #capacity)?),
        StateKind::Allocator(_) => quote!(__builder.shared_allocator(#name, #capacity)?),
        StateKind::Distributed(_) => {
            let (merge, staleness) = (&field.merge, &field.staleness_ms);
            let staleness = staleness.as_ref().map(|ms| arithmetic::size(module, ms, "u64"));
            let staleness = staleness.unwrap_or_else(|| quote!(0));
            quote!(__builder.shared_distributed(#name, #merge, #staleness)?)
        }
        StateKind::Cell(_) => quote!(__builder.shared_cell(#name)?),
        StateKind::Counter => quote!(__builder.shared_counter(#name)?),
        StateKind::L3 => quote!(__builder.shared_l3(#name)?),
    })
}

/// The NF in a hollow world, over this one's state; `peek`: maps answer; `watched`: this one's objects
/// are.
pub(crate) fn hollow(module: &Module, peek: bool, watched: bool) -> TokenStream {
    let name = &module.nf.ident;
    let fields = module.nf.fields.iter().map(|field| {
        let ident = &field.ident;
        match field.kind {
            StateKind::Settings => quote!(#ident: &*self.#ident),
            StateKind::Map(..) if peek => {
                quote!(#ident: ::anabranch_nf::world::Peeked(&self.#ident))
            }
            _ if watched => {
                quote!(#ident: ::anabranch_nf::world::Fetched(self.#ident.unwatched()))
            }
            _ => quote!(#ident: ::anabranch_nf::world::Fetched(&self.#ident)),
        }
    });
    quote!(#name { #(#fields,)* __world: ::core::marker::PhantomData })
}

/// The NF in the Speculative world, over this one's state.
pub(crate) fn shared(module: &Module) -> TokenStream {
    let name = &module.nf.ident;
    let fields = module.nf.fields.iter().map(|field| {
        let ident = &field.ident;
        match field.kind {
            StateKind::Settings => quote!(#ident: &*self.#ident),
            _ => quote!(#ident: ::anabranch_nf::world::Shared::new(&self.#ident, __speculation)),
        }
    });
    quote!(#name { #(#fields,)* __world: ::core::marker::PhantomData })
}

/// `NetworkFunction::share`.
pub(crate) fn share(module: &Module) -> TokenStream {
    let counters = module.nf.fields.iter().filter(|f| matches!(f.kind, StateKind::Counter));
    let idents = counters.map(|field| &field.ident);
    quote! {
        fn share(&mut self, __workers: usize) {
            #(self.#idents.share(__workers);)*
        }
    }
}

fn allocators(module: &Module) -> impl Iterator<Item = &StateField> {
    module.nf.fields.iter().filter(|field| matches!(field.kind, StateKind::Allocator(_)))
}

/// `NetworkFunction::rebase`.
pub(crate) fn rebase(module: &Module) -> TokenStream {
    let idents = allocators(module).map(|field| &field.ident);
    quote! {
        fn rebase(&mut self, __by: ::anabranch_nf::state::wheel::Tick) {
            #(self.#idents.rebase(__by);)*
        }
    }
}

/// `NetworkFunction::expire`.
pub(crate) fn expire(module: &Module, how: Made) -> TokenStream {
    let loops = allocators(module).map(|field| {
        let ident = &field.ident;
        let handler = field.expired.as_ref().map(|method| {
            let call = quote!(Self::#method(self, __index, __object, &mut __cx););
            let call = if how == Made::Told { told(ident, method, &call) } else { call };
            quote! {
                let mut __cx = ::anabranch_nf::Context::new(__environment);
                #call
            }
        });
        quote! {
            let mut __left = __budget;
            while let ::core::option::Option::Some((__index, __object)) =
                self.#ident.expire(__environment, &mut __left)
            {
                #handler
            }
            __done &= __left > 0;
        }
    });
    quote! {
        fn expire(
            &mut self, __environment: &mut ::anabranch_nf::Environment, __budget: u32,
        ) -> bool {
            let mut __done = true;
            #(#loops)*
            __done
        }
    }
}

/// `NetworkFunction::follow_up`.
pub(crate) fn follow_up(module: &Module) -> TokenStream {
    let routes = module.nf.fields.iter().filter(|field| matches!(field.kind, StateKind::L3));
    let idents: Vec<_> = routes.map(|field| &field.ident).collect();
    if idents.is_empty() {
        return TokenStream::new();
    }
    quote! {
        fn follow_up(
            &mut self, __cx: &mut ::anabranch_nf::Context<'_, ::anabranch_nf::world::Solo>,
        ) {
            #(::anabranch_nf::world::L3Operations::follow_up(&mut self.#idents, __cx);)*
        }
    }
}

/// `NetworkFunction::take_shards`, `put_shards`, `immovable`.
pub(crate) fn shards(module: &Module) -> TokenStream {
    let holds =
        |field: &&StateField| is_sized(&field.kind) || matches!(field.kind, StateKind::Cell(_));
    let idents: Vec<_> = module.nf.fields.iter().filter(holds).map(|field| &field.ident).collect();
    let names: Vec<_> = idents.iter().map(|ident| ident.to_string()).collect();
    quote! {
        fn take_shards(&mut self, __bundle: &mut ::anabranch_nf::state::Bundle) {
            #(::anabranch_nf::state::Movable::take_shards(&mut self.#idents, __bundle);)*
        }
        fn put_shards(
            &mut self,
            __bundle: &mut ::anabranch_nf::state::Bundle,
            __shift: ::anabranch_nf::state::Shift,
        ) {
            #(::anabranch_nf::state::Movable::put_shards(&mut self.#idents, __bundle, __shift);)*
        }
        fn immovable(&self) -> ::core::option::Option<(&'static str, &'static str)> {
            #(
                if let ::core::option::Option::Some(__why) =
                    ::anabranch_nf::state::Movable::immovable(&self.#idents)
                {
                    return ::core::option::Option::Some((#names, __why));
                }
            )*
            ::core::option::Option::None
        }
    }
}

/// `NetworkFunction::layouts`, `keep`, `drain`, `restore`.
pub(crate) fn kept(module: &Module) -> TokenStream {
    let holds = |field: &&StateField| !matches!(field.kind, StateKind::Settings | StateKind::L3);
    let idents: Vec<_> = module.nf.fields.iter().filter(holds).map(|field| &field.ident).collect();
    let names: Vec<_> = idents.iter().map(|ident| ident.to_string()).collect();
    quote! {
        fn layouts(&self) -> ::std::vec::Vec<(
            &'static str, ::anabranch_nf::state::journal::Layout,
        )> {
            ::std::vec![#(
                (#names, ::anabranch_nf::state::journal::Journaled::layout(&self.#idents))
            ),*]
        }
        fn keep(&mut self, __steps: &::anabranch_nf::state::journal::Steps) {
            #(::anabranch_nf::state::journal::Journaled::keep(&mut self.#idents, __steps);)*
        }
        fn drain(
            &mut self,
            __moment: &::anabranch_nf::state::journal::Moment,
            __sink: &mut dyn ::anabranch_nf::state::journal::Sink,
        ) {
            #(::anabranch_nf::state::journal::Journaled::drain(
                &mut self.#idents, #names, __moment, __sink,
            );)*
        }
        fn restore(
            &mut self,
            __object: &str,
            __key: &[u8],
            __value: &[u8],
            __moment: &::anabranch_nf::state::journal::Moment,
        ) -> bool {
            match __object {
                #(#names => ::anabranch_nf::state::journal::Journaled::restore(
                    &mut self.#idents, __key, __value, __moment,
                ),)*
                _ => false,
            }
        }
    }
}

/// The call of a handler of expired objects, noted under the name that the analysis gives it.
fn told(object: &syn::Ident, method: &syn::Ident, call: &TokenStream) -> TokenStream {
    let name = format!("{method} ({object} expired)");
    quote! {
        ::anabranch_nf::trace::other(#name, __cx.now(), &(__index, __object), || { #call });
    }
}

/// `NetworkFunction::tables`.
pub(crate) fn tables(module: &Module) -> TokenStream {
    let sized = module.nf.fields.iter().filter(|field| is_sized(&field.kind)).map(|field| {
        let (ident, name) = (&field.ident, field.ident.to_string());
        quote!(::anabranch_nf::Occupancy::table_use(&self.#ident, #name))
    });
    quote! {
        fn tables(&self) -> ::std::vec::Vec<::anabranch_nf::state::TableUse> {
            ::std::vec![#(#sized),*]
        }
    }
}

/// `NetworkFunction::counters`.
pub(crate) fn counters(module: &Module) -> TokenStream {
    let counters = module.nf.fields.iter().filter(|f| matches!(f.kind, StateKind::Counter));
    let counters = counters.map(|field| {
        let (ident, name) = (&field.ident, field.ident.to_string());
        quote!((#name, self.#ident.read()))
    });
    quote! {
        fn counters(&self) -> ::std::vec::Vec<(&'static str, u64)> {
            ::std::vec![#(#counters),*]
        }
    }
}

/// Whether it is a map, a vector or an allocator.
pub(crate) fn is_sized(kind: &StateKind) -> bool {
    matches!(kind, StateKind::Map(..) | StateKind::Vector(_) | StateKind::Allocator(_))
}

//! `impl NetworkFunction`: what the runtime and the tools know of the NF.

use anabranch_language::{Module, Packets, Ports, StateKind};
use proc_macro2::TokenStream;
use quote::quote;

use crate::rewrites::{reenters, rewrites};
use crate::source::Source;
use crate::state::Made;
use crate::{commands, elsewhere, initial, packet_set, state};

/// The implementation for the Solo world.
pub(crate) fn expand(module: &Module, source: &Source) -> TokenStream {
    let nf = &module.nf.ident;
    let constants = constants(module, source);
    let types = types(module);
    let build = state::build(module, Made::Owned);
    let settings = state::settings_in_sight(module);
    let set = packet_set::functions(module, &settings);
    let handlers = handlers(module);
    let (passes, look_ahead) = (passes(module), look_ahead(module));
    let (expire, tables) = (state::expire(module, Made::Owned), state::tables(module));
    let (shards, kept) = (state::shards(module), state::kept(module));
    let (counters, rebase) = (state::counters(module), state::rebase(module));
    let (speculation, share) = (speculation(module), state::share(module));
    let follow_up = state::follow_up(module);
    let elsewhere =
        [Made::Told, Made::Shared, Made::Watched].map(|made| elsewhere::expand(module, made));
    quote! {
        /// The type that names the network function to the runtime.
        pub type Function = #nf<::anabranch_nf::world::Solo>;

        impl ::anabranch_nf::NetworkFunction for #nf<::anabranch_nf::world::Solo> {
            #constants
            #types
            #build
            #set
            #handlers
            #passes
            #speculation
            #share
            #expire
            #follow_up
            #rebase
            #shards
            #kept
            #tables
            #counters
        }

        #look_ahead

        #(#elsewhere)*
    }
}

fn constants(module: &Module, source: &Source) -> TokenStream {
    let name = module.ident.to_string().replace('_', "-");
    let docs = &module.docs;
    let ports = match &module.ports {
        Ports::Named(names) => names.iter().map(ToString::to_string).collect(),
        Ports::Any => Vec::new(),
    };
    let layer: u8 = match module.packets {
        Packets::Frames => 2,
        Packets::WellFormed => 3,
        Packets::Datagrams => 4,
    };
    let (reasons, set) = (commands::words(module), packet_set::name(module));
    let objects = has_objects(module);
    let routes = module.nf.fields.iter().any(|field| matches!(field.kind, StateKind::L3));
    let (rewrites, reenters) = (rewrites(module), reenters(module));
    let initial = initial::settings(module).into_iter().map(|setting| {
        let (name, grows) = (setting.ident.to_string(), setting.grows);
        quote!((#name, #grows))
    });
    let period = module.handlers.periodic.map_or(0, |periodic| periodic.every_ms);
    quote! {
        const NAME: &'static str = #name;
        const DOCS: &'static str = #docs;
        const SOURCE: ::anabranch_nf::Source = #source;
        const PORTS: &'static [&'static str] = &[#(#ports),*];
        const LAYER: u8 = #layer;
        const REASONS: &'static [::anabranch_nf::Word] = #reasons;
        const SET: ::core::option::Option<&'static str> = #set;
        const OBJECTS: bool = #objects;
        const ROUTES: bool = #routes;
        const INITIAL: &'static [(&'static str, bool)] = &[#(#initial),*];
        const REWRITES: bool = #rewrites;
        const REENTERS: bool = #reenters;
        const PERIOD_MS: u64 = #period;
    }
}

fn types(module: &Module) -> TokenStream {
    let settings = match &module.settings {
        Some(settings) => {
            let name = &settings.ident;
            quote!(#name)
        }
        None => quote!(::anabranch_nf::settings::NoSettings),
    };
    let set = match &module.packet_set {
        Some(set) => {
            let name = &set.ident;
            quote!(#name)
        }
        None => quote!(()),
    };
    let command = match &module.commands {
        Some(_) => quote!(Command),
        None => quote!(::anabranch_nf::settings::NoCommand),
    };
    let nf = &module.nf.ident;
    quote! {
        type Settings = #settings;
        type Set = #set;
        type Command = #command;
        type Traced = #nf<::anabranch_nf::world::Traced>;
        type Parallel = #nf<::anabranch_nf::world::Parallel>;
        type Profiled = #nf<::anabranch_nf::world::Profiled>;
    }
}

/// The NF's own methods stand before the trait's in `Self::…`, so each calls the author's.
fn handlers(module: &Module) -> TokenStream {
    let given = module.handlers;
    let context = quote!(&mut ::anabranch_nf::Context<'_, ::anabranch_nf::world::Solo>);
    let packet = quote!(&mut Packet<'_, __M>);
    let mode = quote!(<__M: ::anabranch_nf::packet::Mode>);
    let simple = |there: bool, name: &str| {
        let name = quote::format_ident!("{name}");
        there.then(|| quote!(fn #name(&mut self, cx: #context) { Self::#name(self, cx) }))
    };
    let simple = [
        simple(given.init, "init"),
        simple(given.periodic.is_some(), "periodic"),
        simple(given.shutdown, "shutdown"),
    ];
    let simple = simple.iter().flatten();
    let opened = given.packet_set_opened.then(|| {
        quote! {
            #[inline]
            fn packet_set_opened #mode(
                &mut self, packet: #packet, cx: #context,
            ) -> ::core::result::Result<Self::Set, Verdict> {
                Self::packet_set_opened(self, packet, cx)
            }
        }
    });
    let full = given.packet_set_full.then(|| {
        quote! {
            fn packet_set_full #mode(
                &mut self, set: &Self::Set, packet: #packet, cx: #context,
            ) -> Verdict {
                Self::packet_set_full(self, set, packet, cx)
            }
        }
    });
    let set = module.packet_set.as_ref().map(|_| quote!(set,));
    let expired = given.packet_set_expired.then(|| {
        quote! {
            fn packet_set_expired(&mut self, set: &Self::Set, cx: #context) {
                Self::packet_set_expired(self, set, cx)
            }
        }
    });
    let orphan = given.orphan.then(|| {
        quote! {
            #[inline(always)]
            fn orphan #mode(&mut self, packet: #packet, cx: #context) -> Verdict {
                Self::orphan(self, packet, cx)
            }
        }
    });
    let control = given.control.then(|| {
        quote! {
            fn control(
                &mut self, command: Self::Command, cx: #context,
            ) -> ::core::result::Result<(), &'static str> {
                Self::control(self, command, cx)
            }
        }
    });
    let timer = given.timer.then(
        || quote!(fn timer(&mut self, token: u64, cx: #context) { Self::timer(self, token, cx) }),
    );
    quote! {
        #[inline(always)]
        fn packet #mode(&mut self, set: &mut Self::Set, packet: #packet, cx: #context) -> Verdict {
            Self::packet(self, #set packet, cx)
        }
        #(#simple)* #opened #full #expired #orphan #control #timer
    }
}

/// The handlers of packets in the Speculative world. Compiled once, for packets of any layout.
fn speculation(module: &Module) -> TokenStream {
    let nf = &module.nf.ident;
    let fields = state::shared(module);
    let handler = |name: &str, handler: &str, taken: TokenStream, given: TokenStream| {
        let (name, handler) = (quote::format_ident!("{name}"), quote::format_ident!("{handler}"));
        quote! {
            fn #name<'__a>(
                &'__a self,
                #taken
                packet: &mut Packet<'_>,
                environment: &mut ::anabranch_nf::Environment,
                __speculation: &::anabranch_nf::world::Speculation<'__a>,
            ) -> Verdict {
                let mut shared: #nf<::anabranch_nf::world::Speculative<'__a, '_>> = #fields;
                shared.#handler(#given packet, &mut ::anabranch_nf::Context::new(environment))
            }
        }
    };
    let set = module.packet_set.as_ref().map(|_| quote!(__set,)).unwrap_or_default();
    let packet = handler("speculate", "packet", quote!(__set: &mut Self::Set,), set);
    let none = TokenStream::new;
    let orphan =
        module.handlers.orphan.then(|| handler("speculate_orphan", "orphan", none(), none()));
    quote!(#packet #orphan)
}

/// The hollow passes over one worker's state.
fn passes(module: &Module) -> TokenStream {
    let ahead = pass(module, "ahead", Some("Prefetch"), false);
    let beyond = pass(module, "beyond", Some("Peek"), false);
    quote!(#ahead #beyond)
}

/// The type and the function of a pass: `ahead` or `beyond`, in the hollow world `world`, over objects that may be
/// `watched`. Nothing where there is no such pass, or nothing to fetch.
pub(crate) fn pass(module: &Module, name: &str, world: Option<&str>, watched: bool) -> TokenStream {
    let (peek, kind) = match name {
        "beyond" => (true, quote!(Beyond)),
        _ => (false, quote!(Ahead)),
    };
    let name = quote::format_ident!("{name}");
    let Some(world) = world.filter(|_| has_objects(module)) else {
        return quote! {
            type #kind<'__a> = ();
            #[inline(always)]
            fn #name(&self) {}
        };
    };
    let nf = &module.nf.ident;
    let hollow = state::hollow(module, peek, watched);
    let world = quote::format_ident!("{world}");
    quote! {
        type #kind<'__a> = #nf<::anabranch_nf::world::#world<'__a>>;
        #[inline(always)]
        fn #name(&self) -> Self::#kind<'_> { #hollow }
    }
}

/// The handler of packets in hollow worlds.
fn look_ahead(module: &Module) -> Option<TokenStream> {
    let nf = &module.nf.ident;
    let set = module.packet_set.as_ref().map(|set| {
        let name = &set.ident;
        quote!(&mut <#name as ::anabranch_nf::Value>::zero(),)
    });
    has_objects(module).then(|| {
        quote! {
            impl<__W: ::anabranch_nf::world::World> ::anabranch_nf::LookAhead for #nf<__W> {
                #[inline(always)]
                fn look<__M: ::anabranch_nf::packet::Mode>(
                    &mut self,
                    packet: &mut Packet<'_, __M>,
                    environment: &mut ::anabranch_nf::Environment,
                ) {
                    const {
                        ::core::assert!(<__W as ::anabranch_nf::world::World>::HOLLOW);
                        ::core::assert!(<__M as ::anabranch_nf::packet::Mode>::HOLLOW);
                    }
                    let _ = self.packet(#set packet, &mut ::anabranch_nf::Context::new(environment));
                }
            }
        }
    })
}

/// Whether there is state whose lines are worth fetching.
fn has_objects(module: &Module) -> bool {
    module.nf.fields.iter().any(|field| state::is_sized(&field.kind))
}

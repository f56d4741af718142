//! `impl NetworkFunction` in worlds other than Solo that run: Traced, where each handler is noted from
//! its beginning to its end, Parallel and Profiled. The same handlers, on other objects.

use anabranch_language::Module;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::state::Made;
use crate::{function, packet_set, state};

/// The implementation for the world whose objects are made so.
pub(crate) fn expand(module: &Module, made: Made) -> TokenStream {
    let nf = &module.nf.ident;
    let told = made == Made::Told;
    let watched = made == Made::Watched;
    let world = match made {
        Made::Told => quote!(Traced),
        Made::Watched => quote!(Profiled),
        Made::Owned | Made::Shared => quote!(Parallel),
    };
    let parallel = if watched { quote!(Profiled) } else { quote!(Parallel) };
    let solo = quote!(#nf<::anabranch_nf::world::Solo> as ::anabranch_nf::NetworkFunction);
    let build = state::build(module, made);
    let set = packet_set::functions(module, &state::settings_in_sight(module));
    let (handlers, with_packet) = (handlers(module, told), with_packet(module, made));
    let (expire, follow_up) = (state::expire(module, made), state::follow_up(module));
    let ahead = function::pass(module, "ahead", (!told).then_some("Ahead"), watched);
    let beyond = function::pass(module, "beyond", (!told).then_some("Beyond"), watched);
    let (rebase, tables, counters) =
        (state::rebase(module), state::tables(module), state::counters(module));
    let kept = (made == Made::Shared).then(|| state::kept(module));
    quote! {
        impl ::anabranch_nf::NetworkFunction for #nf<::anabranch_nf::world::#world> {
            const NAME: &'static str = <#solo>::NAME;
            const DOCS: &'static str = <#solo>::DOCS;
            const SOURCE: ::anabranch_nf::Source = <#solo>::SOURCE;
            const PORTS: &'static [&'static str] = <#solo>::PORTS;
            const LAYER: u8 = <#solo>::LAYER;
            const REASONS: &'static [::anabranch_nf::Word] = <#solo>::REASONS;
            const SET: ::core::option::Option<&'static str> = <#solo>::SET;
            const OBJECTS: bool = <#solo>::OBJECTS;
            const ROUTES: bool = <#solo>::ROUTES;
            const INITIAL: &'static [(&'static str, bool)] = <#solo>::INITIAL;
            const REWRITES: bool = <#solo>::REWRITES;
            const REENTERS: bool = <#solo>::REENTERS;
            const PERIOD_MS: u64 = <#solo>::PERIOD_MS;
            const PROFILED: bool = #watched;
            type Settings = <#solo>::Settings;
            type Set = <#solo>::Set;
            type Command = <#solo>::Command;
            type Traced = #nf<::anabranch_nf::world::Traced>;
            type Parallel = #nf<::anabranch_nf::world::#parallel>;
            type Profiled = #nf<::anabranch_nf::world::Profiled>;
            #build
            #set
            #handlers
            #with_packet
            #ahead
            #beyond
            #expire
            #follow_up
            #rebase
            #kept
            #tables
            #counters
        }
    }
}

fn context() -> TokenStream {
    quote!(&mut ::anabranch_nf::Context<'_, ::anabranch_nf::world::Solo>)
}

/// `run`, noted under `name` with the value `given`.
fn other(told: bool, name: &str, given: &TokenStream, run: &TokenStream) -> TokenStream {
    match told {
        true => quote!(::anabranch_nf::trace::other(#name, cx.now(), #given, || { #run })),
        false => run.clone(),
    }
}

/// Handlers without a packet.
fn handlers(module: &Module, told: bool) -> TokenStream {
    let given = module.handlers;
    let context = context();
    let simple = |there: bool, name: &str| {
        let ident = format_ident!("{name}");
        let run = quote!(Self::#ident(self, &mut cx.elsewhere()));
        let run = other(told, name, &quote!(&()), &run);
        there.then(|| quote!(fn #ident(&mut self, cx: #context) { #run }))
    };
    let simple = [simple(given.periodic.is_some(), "periodic"), simple(given.shutdown, "shutdown")];
    let simple = simple.iter().flatten();
    // No call path is known of what it leaves behind.
    let init = given.init.then(
        || quote!(fn init(&mut self, cx: #context) { Self::init(self, &mut cx.elsewhere()) }),
    );
    let expired = given.packet_set_expired.then(|| {
        let run = quote!(Self::packet_set_expired(self, set, &mut cx.elsewhere()));
        let run = other(told, "packet_set_expired", &quote!(set), &run);
        quote!(fn packet_set_expired(&mut self, set: &Self::Set, cx: #context) { #run })
    });
    let control = given.control.then(|| {
        let run = quote!(Self::control(self, command, &mut cx.elsewhere()));
        let run = other(told, "control", &quote!(&()), &run);
        quote! {
            fn control(
                &mut self, command: Self::Command, cx: #context,
            ) -> ::core::result::Result<(), &'static str> { #run }
        }
    });
    let timer = given.timer.then(|| {
        let run = quote!(Self::timer(self, token, &mut cx.elsewhere()));
        let run = other(told, "timer", &quote!(&token), &run);
        quote!(fn timer(&mut self, token: u64, cx: #context) { #run })
    });
    quote!(#init #(#simple)* #expired #control #timer)
}

/// Handlers of a packet.
fn with_packet(module: &Module, made: Made) -> TokenStream {
    let (told, context) = (made == Made::Told, context());
    // As in Solo they become part of the loop over a batch.
    let inline = (made != Made::Told).then(|| quote!(#[inline(always)]));
    let mode = quote!(<__M: ::anabranch_nf::packet::Mode>);
    let set = module.packet_set.as_ref().map(|_| quote!(set,));
    let opened = module.packet_set.as_ref().map(|_| {
        let run = match module.handlers.packet_set_opened {
            true => quote!(Self::packet_set_opened(self, packet, &mut cx.elsewhere())),
            false => {
                quote!(::core::result::Result::Ok(<Self::Set as ::anabranch_nf::Value>::zero()))
            }
        };
        let run = match told {
            true => quote!(::anabranch_nf::trace::opened(cx.now(), packet, |packet| #run)),
            false => run,
        };
        quote! {
            fn packet_set_opened #mode(
                &mut self, packet: &mut Packet<'_, __M>, cx: #context,
            ) -> ::core::result::Result<Self::Set, Verdict> { #run }
        }
    });
    let full = module.handlers.packet_set_full.then(|| {
        let run = quote!(Self::packet_set_full(self, set, packet, &mut cx.elsewhere()));
        let run = match told {
            true => quote! {
                ::anabranch_nf::trace::packet(
                    "packet_set_full", cx.now(), &mut (), packet, |_, packet| #run,
                )
            },
            false => run,
        };
        quote! {
            fn packet_set_full #mode(
                &mut self, set: &Self::Set, packet: &mut Packet<'_, __M>, cx: #context,
            ) -> Verdict { #run }
        }
    });
    let orphan = module.packet_set.as_ref().map(|_| {
        let run = match module.handlers.orphan {
            true => quote!(Self::orphan(self, packet, &mut cx.elsewhere())),
            false => quote!(::anabranch_nf::Drop(::anabranch_nf::Builtin::NoPacketSet)),
        };
        let run = match told {
            true => quote! {
                ::anabranch_nf::trace::packet("orphan", cx.now(), &mut (), packet, |_, packet| #run)
            },
            false => run,
        };
        quote! {
            #inline
            fn orphan #mode(&mut self, packet: &mut Packet<'_, __M>, cx: #context) -> Verdict { #run }
        }
    });
    let run = quote!(Self::packet(self, #set packet, &mut cx.elsewhere()));
    let run = match told {
        true => quote! {
            ::anabranch_nf::trace::packet("packet", cx.now(), set, packet, |set, packet| #run)
        },
        false => run,
    };
    quote! {
        #inline
        fn packet #mode(
            &mut self, set: &mut Self::Set, packet: &mut Packet<'_, __M>, cx: #context,
        ) -> Verdict { #run }
        #opened #full #orphan
    }
}

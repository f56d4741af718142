//! The packet set: its name, its sizes, and the key of a packet.

use anabranch_language::{KeyField, KeyList, Module, PacketSet, Protocol};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::arithmetic;

/// `NetworkFunction::SET`.
pub(crate) fn name(module: &Module) -> TokenStream {
    match &module.packet_set {
        Some(set) => {
            let name = set.ident.to_string();
            quote!(::core::option::Option::Some(#name))
        }
        None => quote!(::core::option::Option::None),
    }
}

/// `Value::ADDRESSES` of the state of a packet set.
pub(crate) fn addresses(set: &PacketSet) -> TokenStream {
    let (ipv4, ipv6) = (address(set, true), address(set, false));
    quote! {
        const ADDRESSES: [::core::option::Option<::anabranch_nf::packet_set::OneAddress>; 2] =
            [#ipv4, #ipv6];
    }
}

/// The address that is all of the only key of one version of IP.
fn address(set: &PacketSet, ipv4: bool) -> TokenStream {
    let mut lists = lists(set, ipv4);
    let end = match (lists.next(), lists.next()) {
        (Some((number, list)), None) if !set.bidirectional => match list.fields[..] {
            [KeyField::SrcAddress] => Some((number, format_ident!("Source"))),
            [KeyField::DstAddress] => Some((number, format_ident!("Destination"))),
            _ => None,
        },
        _ => None,
    };
    match end {
        Some((number, end)) => quote! {
            ::core::option::Option::Some(::anabranch_nf::packet_set::OneAddress::#end(#number))
        },
        None => quote!(::core::option::Option::None),
    }
}

/// The key lists of one version of IP, with their numbers among all.
fn lists(set: &PacketSet, ipv4: bool) -> impl Iterator<Item = (u8, &KeyList)> {
    let all = (1..=u8::MAX).zip(&set.keys);
    all.filter(move |(_, list)| if ipv4 { list.ipv4 } else { list.ipv6 })
}

fn constant(port: &Ident) -> Ident {
    Ident::new(&port.to_string().to_uppercase(), port.span())
}

/// `set_shape` and `set_key`.
pub(crate) fn functions(module: &Module, settings: &TokenStream) -> TokenStream {
    let Some(set) = &module.packet_set else { return TokenStream::new() };
    let capacity = arithmetic::size(module, &set.capacity, "u32");
    let expires = arithmetic::size(module, &set.expires_s, "u64");
    let key = key(set);
    quote! {
        fn set_shape(&self) -> ::anabranch_nf::packet_set::SetShape {
            #settings
            ::anabranch_nf::packet_set::SetShape {
                capacity: #capacity,
                lifetime_ns: (#expires).saturating_mul(1_000_000_000),
            }
        }
        #[inline(always)]
        fn set_key<__M: ::anabranch_nf::packet::Mode>(
            __packet: &Packet<'_, __M>,
        ) -> ::anabranch_nf::packet_set::SetKey { #key }
    }
}

fn key(set: &PacketSet) -> TokenStream {
    let port = set.port.as_ref().map(|port| {
        let port = constant(port);
        quote! {
            if __packet.port() != #port { return ::anabranch_nf::packet_set::SetKey::None; }
        }
    });
    let family = |ipv4: bool| {
        let lists = lists(set, ipv4);
        let tests = lists.map(|(number, list)| test(list, number, set.bidirectional, ipv4));
        tests.collect::<TokenStream>()
    };
    let (ipv4, ipv6) = (family(true), family(false));
    quote! {
        #port
        if let ::core::option::Option::Some(__ip) = __packet.ipv4() {
            #ipv4
        } else if let ::core::option::Option::Some(__ip) = __packet.ipv6() {
            #ipv6
        }
        ::anabranch_nf::packet_set::SetKey::None
    }
}

/// Returns the key if the packet has the list's protocol.
fn test(list: &KeyList, number: u8, bidirectional: bool, ipv4: bool) -> TokenStream {
    let (variant, key) = match ipv4 {
        true => (format_ident!("V4"), format_ident!("SetKey4")),
        false => (format_ident!("V6"), format_ident!("SetKey6")),
    };
    let has = |field| list.fields.contains(&field);
    let unspecified = match ipv4 {
        true => quote!(::std::net::Ipv4Addr::UNSPECIFIED),
        false => quote!(::std::net::Ipv6Addr::UNSPECIFIED),
    };
    let address = |field, value| if has(field) { value } else { unspecified.clone() };
    let src = address(KeyField::SrcAddress, quote!(__ip.src()));
    let dst = address(KeyField::DstAddress, quote!(__ip.dst()));
    let (transport, src_value, dst_value) = transport(list.protocol, ipv4);
    let port = |field, value| if has(field) { value } else { quote!(0) };
    let src_port = port(KeyField::SrcPort, src_value);
    let dst_port = port(KeyField::DstPort, dst_value);
    let make = if bidirectional { format_ident!("between") } else { format_ident!("new") };
    let found = quote! {
        return ::anabranch_nf::packet_set::SetKey::#variant(
            ::anabranch_nf::packet_set::#key::#make(#src, #dst, #src_port, #dst_port, #number)
        );
    };
    match transport {
        Some(condition) => quote!(if #condition { #found }),
        None => quote!(if true { #found }),
    }
}

/// The condition that binds `__l4`, and the ports in it.
fn transport(protocol: Protocol, ipv4: bool) -> (Option<TokenStream>, TokenStream, TokenStream) {
    let some = |header: &str, more: TokenStream| {
        let header = format_ident!("{header}");
        Some(quote!(let ::core::option::Option::Some(__l4) = __packet.#header() #more))
    };
    let ports = || (quote!(__l4.src()), quote!(__l4.dst()));
    match protocol {
        Protocol::Tcp => (some("tcp", TokenStream::new()), ports().0, ports().1),
        Protocol::Udp => (some("udp", TokenStream::new()), ports().0, ports().1),
        Protocol::Icmp => {
            let header = if ipv4 { "icmpv4" } else { "icmpv6" };
            (some(header, quote!(&&__l4.is_echo())), quote!(__l4.id()), quote!(__l4.id()))
        }
        Protocol::Ipv4 | Protocol::Ipv6 => (None, quote!(0), quote!(0)),
    }
}

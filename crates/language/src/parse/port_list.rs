//! `#[network_function(ports(lan, wan), layer = 2)]`.

use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Ident, LitInt, Token};

use crate::{Packets, Ports};

const FORM: &str =
    "write `#[network_function(ports(lan, wan))]`, or `ports(..)` for any number of ports";

/// Most ports that can be named: `Flood` reaches every one.
const PORTS_MAX: usize = 64;

pub(super) fn parse(attr: TokenStream) -> syn::Result<(Ports, Packets)> {
    header.parse2(attr)
}

fn header(input: ParseStream) -> syn::Result<(Ports, Packets)> {
    let mut ports = None;
    let mut packets = Packets::WellFormed;
    while !input.is_empty() {
        let name: Ident = input.parse().map_err(|error| syn::Error::new(error.span(), FORM))?;
        match name.to_string().as_str() {
            "ports" => ports = Some(port_names(input)?),
            "layer" => packets = layer(input)?,
            _ => {
                return Err(syn::Error::new(name.span(), format!("no argument `{name}`: {FORM}")));
            }
        }
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    let ports = ports.ok_or_else(|| syn::Error::new(input.span(), format!("no ports: {FORM}")))?;
    Ok((ports, packets))
}

fn port_names(input: ParseStream) -> syn::Result<Ports> {
    let content;
    let parentheses = syn::parenthesized!(content in input);
    if content.parse::<Option<Token![..]>>()?.is_some() {
        return Ok(Ports::Any);
    }
    let names = Punctuated::<Ident, Token![,]>::parse_terminated(&content)?;
    if names.is_empty() || names.len() > PORTS_MAX {
        let message = format!("a network function has 1 to {PORTS_MAX} named ports: {FORM}");
        return Err(syn::Error::new(parentheses.span.open(), message));
    }
    let names: Vec<Ident> = names.into_iter().collect();
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            let message = format!("port `{name}` is named twice: give each port its own name");
            return Err(syn::Error::new(name.span(), message));
        }
    }
    Ok(Ports::Named(names))
}

fn layer(input: ParseStream) -> syn::Result<Packets> {
    input.parse::<Token![=]>()?;
    let layer: LitInt = input.parse()?;
    match layer.base10_digits() {
        "2" => Ok(Packets::Frames),
        "3" => Ok(Packets::WellFormed),
        "4" => Ok(Packets::Datagrams),
        _ => {
            let message = "`layer` is 2 (every frame, malformed network headers too), 3 (the default), or 4 \
                           (fragments are put together first)";
            Err(syn::Error::new(layer.span(), message))
        }
    }
}

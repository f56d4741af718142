//! `#[packet_set(tcp(ip.src, ip.dst, tcp.src, tcp.dst), bidirectional, …)]`.

use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, ItemStruct, Token, parse_quote};

use super::attributes;
use crate::declare::{KeyField, KeyList, PacketSet, Protocol};
use crate::error::Errors;
use crate::module::line_of;

const FORM: &str = "write `#[packet_set(tcp(ip.src, ip.dst, tcp.src, tcp.dst), bidirectional, \
                    capacity = settings.flows, expires_s = settings.timeout_s)]`";

#[derive(Default)]
struct Arguments {
    keys: Vec<KeyList>,
    bidirectional: bool,
    port: Option<Ident>,
    capacity: Option<Expr>,
    expires_s: Option<Expr>,
}

/// Reads the packet set's struct. Of an attribute that does not parse the set is there all the same: its handlers are
/// no mistakes for that.
pub(super) fn read(item: ItemStruct, before: u32, errors: &mut Errors) -> PacketSet {
    attributes::only(&item.attrs, &["doc", "packet_set"], errors);
    for field in &item.fields {
        attributes::only(&field.attrs, &["doc"], errors);
    }
    let read = attributes::one(&item.attrs, "packet_set", errors).and_then(|attr| {
        let list = errors.take(attr.meta.require_list())?;
        errors.take(list.parse_args_with(|input: ParseStream| arguments(input, before)))
    });
    let is_read = read.is_some();
    let arguments = read.unwrap_or_default();
    let mut missing = |name: &str| {
        if is_read {
            errors.push(syn::Error::new(item.ident.span(), format!("no `{name}`: {FORM}")));
        }
    };
    if arguments.keys.is_empty() {
        missing("key list");
    }
    let mut given = |size: Option<Expr>, name: &str| {
        size.unwrap_or_else(|| {
            missing(name);
            parse_quote!(1)
        })
    };
    let capacity = given(arguments.capacity, "capacity");
    let expires_s = given(arguments.expires_s, "expires_s");
    PacketSet {
        ident: item.ident.clone(),
        line: before + line_of(&item.ident),
        keys: arguments.keys,
        bidirectional: arguments.bidirectional,
        port: arguments.port,
        capacity,
        expires_s,
        item,
    }
}

fn arguments(input: ParseStream, before: u32) -> syn::Result<Arguments> {
    let mut found = Arguments::default();
    while !input.is_empty() {
        let name: Ident = input.parse().map_err(|error| syn::Error::new(error.span(), FORM))?;
        match name.to_string().as_str() {
            "bidirectional" => found.bidirectional = true,
            "port" => found.port = Some(value(input)?),
            "capacity" => found.capacity = Some(value(input)?),
            "expires_s" => found.expires_s = Some(value(input)?),
            _ => found.keys.push(key_list(&name, input, before)?),
        }
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    for key in &found.keys {
        symmetric(key, found.bidirectional, input)?;
    }
    Ok(found)
}

fn value<T: syn::parse::Parse>(input: ParseStream) -> syn::Result<T> {
    input.parse::<Token![=]>()?;
    input.parse()
}

fn key_list(name: &Ident, input: ParseStream, before: u32) -> syn::Result<KeyList> {
    let protocol = match name.to_string().as_str() {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "icmp" => Protocol::Icmp,
        "ipv4" => Protocol::Ipv4,
        "ipv6" => Protocol::Ipv6,
        _ => {
            let message = format!(
                "no protocol or argument `{name}`: key lists are `tcp(…)`, `udp(…)`, `icmp(…)`, \
                 `ipv4(…)`, `ipv6(…)`; {FORM}"
            );
            return Err(syn::Error::new(name.span(), message));
        }
    };
    let content;
    syn::parenthesized!(content in input);
    let names = Punctuated::<FieldName, Token![,]>::parse_terminated(&content)?;
    let mut list = KeyList {
        protocol,
        ipv4: protocol != Protocol::Ipv6,
        ipv6: protocol != Protocol::Ipv4,
        fields: Vec::new(),
        line: before + line_of(name),
    };
    for field in &names {
        field.add_to(&mut list)?;
    }
    if list.fields.is_empty() {
        return Err(syn::Error::new(name.span(), format!("a key list without fields: {FORM}")));
    }
    list.fields.sort_by_key(|field| *field as u8);
    Ok(list)
}

/// `header.field`.
struct FieldName {
    header: Ident,
    field: Ident,
}

impl syn::parse::Parse for FieldName {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let header = input.parse()?;
        input.parse::<Token![.]>()?;
        Ok(Self { header, field: input.parse()? })
    }
}

impl FieldName {
    fn add_to(&self, list: &mut KeyList) -> syn::Result<()> {
        let header = self.header.to_string();
        let address = matches!(header.as_str(), "ip" | "ipv4" | "ipv6");
        let field = match self.field.to_string().as_str() {
            "src" if address => KeyField::SrcAddress,
            "dst" if address => KeyField::DstAddress,
            "src" if self.is_ports_of(list.protocol) => KeyField::SrcPort,
            "dst" if self.is_ports_of(list.protocol) => KeyField::DstPort,
            "id" if header == "icmp" && list.protocol == Protocol::Icmp => {
                return self.push(list, &[KeyField::SrcPort, KeyField::DstPort]);
            }
            _ => return Err(self.unknown(list.protocol)),
        };
        match header.as_str() {
            "ipv4" => list.ipv6 = false,
            "ipv6" => list.ipv4 = false,
            _ => {}
        }
        if !list.ipv4 && !list.ipv6 {
            let message =
                "no packet has these fields: write `ip` for IPv4 or IPv6, or one key list each";
            return Err(syn::Error::new(self.header.span(), message));
        }
        self.push(list, &[field])
    }

    fn is_ports_of(&self, protocol: Protocol) -> bool {
        match protocol {
            Protocol::Tcp => self.header == "tcp",
            Protocol::Udp => self.header == "udp",
            _ => false,
        }
    }

    fn push(&self, list: &mut KeyList, fields: &[KeyField]) -> syn::Result<()> {
        if fields.iter().any(|field| list.fields.contains(field)) {
            let message = "this field is already in the key list: write it once";
            return Err(syn::Error::new(self.field.span(), message));
        }
        list.fields.extend(fields);
        Ok(())
    }

    fn unknown(&self, protocol: Protocol) -> syn::Error {
        let fields = match protocol {
            Protocol::Tcp => "`ip.src ip.dst ipv4.src ipv4.dst ipv6.src ipv6.dst tcp.src tcp.dst`",
            Protocol::Udp => "`ip.src ip.dst ipv4.src ipv4.dst ipv6.src ipv6.dst udp.src udp.dst`",
            Protocol::Icmp => "`ip.src ip.dst ipv4.src ipv4.dst ipv6.src ipv6.dst icmp.id`",
            Protocol::Ipv4 => "`ipv4.src ipv4.dst`",
            Protocol::Ipv6 => "`ipv6.src ipv6.dst`",
        };
        let message = format!(
            "`{}.{}` is no field of this key list: its fields are {fields}",
            self.header, self.field
        );
        syn::Error::new(self.header.span(), message)
    }
}

/// A reply swaps source and destination, so a two-way set needs both or it would hold strangers.
fn symmetric(key: &KeyList, bidirectional: bool, input: ParseStream) -> syn::Result<()> {
    let has = |field| key.fields.contains(&field);
    let addresses = has(KeyField::SrcAddress) == has(KeyField::DstAddress);
    let ports = has(KeyField::SrcPort) == has(KeyField::DstPort);
    if bidirectional && !(addresses && ports) {
        let message = "a `bidirectional` set names source and destination both, or neither: \
                       add the missing field, or leave `bidirectional` away";
        return Err(syn::Error::new(input.span(), message));
    }
    Ok(())
}

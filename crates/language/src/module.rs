//! A parsed and checked NF module.

use proc_macro2::{Ident, Span, TokenStream};
use syn::spanned::Spanned;
use syn::{ImplItem, ImplItemFn, ItemConst, ItemEnum, ItemFn, ItemImpl, ItemMod, ItemStruct, Type};

use crate::declare::{
    Commands, Handlers, NfStruct, PacketSet, Packets, Ports, Reasons, Settings, StateField,
};
use crate::{Problem, check, parse, source};

/// An NF module: what it declares, and its code.
///
/// Every node keeps the author's span; [`Module::line`] turns it into a line of the author's file.
/// Spans of [`Module::from_source`] are known only to the thread that parsed them.
#[derive(Clone, Debug)]
pub struct Module {
    /// The module's name, which is the NF's.
    pub ident: Ident,
    /// `pub` or not.
    pub vis: syn::Visibility,
    /// What the author says of the NF: paragraphs, lines kept.
    pub docs: String,
    /// Its ports.
    pub ports: Ports,
    /// Which packets it is handed.
    pub packets: Packets,
    /// `Settings`.
    pub settings: Option<Settings>,
    /// Structs that are elements of lists of settings; also in `structs`.
    pub setting_structs: Vec<Settings>,
    /// `Reason`.
    pub reasons: Option<Reasons>,
    /// `Command`.
    pub commands: Option<Commands>,
    /// The `#[packet_set]` struct.
    pub packet_set: Option<PacketSet>,
    /// The NF struct.
    pub nf: NfStruct,
    /// Handlers that exist.
    pub handlers: Handlers,
    /// Plain structs (without `Settings`, the packet set's and the NF).
    pub structs: Vec<ItemStruct>,
    /// Plain enums (without `Reason` and `Command`).
    pub enums: Vec<ItemEnum>,
    /// Constants.
    pub consts: Vec<ItemConst>,
    /// Functions.
    pub fns: Vec<ItemFn>,
    /// `impl` blocks, those of the NF included.
    pub impls: Vec<ItemImpl>,
    /// Lines of the author's file before the first line of the text parsed.
    pub(crate) lines_before: u32,
}

/// A method or associated function, and the type it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Method<'a> {
    /// The `impl` block it stands in.
    pub block: &'a ItemImpl,
    /// The function.
    pub function: &'a ImplItemFn,
}

impl Module {
    /// Parses and checks a module: `attr` is what stands in `#[network_function(…)]`.
    ///
    /// # Errors
    /// Everything wrong with the module, combined into one error.
    pub fn parse(attr: TokenStream, item: ItemMod) -> syn::Result<Self> {
        let module = parse::module(attr, item, 0)?;
        check::check(&module)?;
        Ok(module)
    }

    /// Parses and checks the text of a module, `#[network_function(…)]` included, whose first line
    /// is line `first_line` of the author's file.
    ///
    /// # Errors
    /// Everything wrong with the module, by line.
    pub fn from_source(text: &str, first_line: u32) -> Result<Self, Vec<Problem>> {
        source::parse(text, first_line)
    }

    /// The line of the author's file where `span` starts, from 1.
    pub fn line(&self, span: Span) -> u32 {
        self.lines_before + u32::try_from(span.start().line).unwrap_or(u32::MAX)
    }

    /// The plain struct, settings struct or packet-set struct of that name.
    pub fn struct_named(&self, name: &str) -> Option<&ItemStruct> {
        let settings = self.settings.iter().map(|settings| &settings.item);
        let packet_set = self.packet_set.iter().map(|set| &set.item);
        self.structs.iter().chain(settings).chain(packet_set).find(|item| item.ident == name)
    }

    /// The enum of that name, `Reason` and `Command` included.
    pub fn enum_named(&self, name: &str) -> Option<&ItemEnum> {
        let reasons = self.reasons.iter().map(|reasons| &reasons.item);
        let commands = self.commands.iter().map(|commands| &commands.item);
        self.enums.iter().chain(reasons).chain(commands).find(|item| item.ident == name)
    }

    /// The function of that name.
    pub fn fn_named(&self, name: &str) -> Option<&ItemFn> {
        self.fns.iter().find(|item| item.sig.ident == name)
    }

    /// The constant of that name.
    pub fn const_named(&self, name: &str) -> Option<&ItemConst> {
        self.consts.iter().find(|item| item.ident == name)
    }

    /// Every method and associated function of the module.
    pub fn methods(&self) -> impl Iterator<Item = Method<'_>> {
        self.impls.iter().flat_map(|block| {
            block.items.iter().filter_map(move |item| match item {
                ImplItem::Fn(function) => Some(Method { block, function }),
                _ => None,
            })
        })
    }

    /// The method or associated function `name` of the type `of`.
    pub fn method(&self, of: &str, name: &str) -> Option<&ImplItemFn> {
        self.methods()
            .find(|method| method.function.sig.ident == name && method.of() == of)
            .map(|method| method.function)
    }

    /// The handler or other method of that name of the NF.
    pub fn nf_method(&self, name: &str) -> Option<&ImplItemFn> {
        self.method(&self.nf.ident.to_string(), name)
    }

    /// The state object of that name.
    pub fn state(&self, name: &str) -> Option<&StateField> {
        self.nf.fields.iter().find(|field| field.ident == name)
    }

    /// The constants of the ports, in order: `(LAN, 0)`, `(WAN, 1)`.
    pub fn port_constants(&self) -> Vec<(Ident, u8)> {
        let Ports::Named(names) = &self.ports else {
            return Vec::new();
        };
        let upper = |name: &Ident| Ident::new(&name.to_string().to_uppercase(), name.span());
        (0..=u8::MAX).zip(names).map(|(index, name)| (upper(name), index)).collect()
    }
}

impl Method<'_> {
    /// The name of the type it belongs to.
    pub fn of(&self) -> String {
        type_name(&self.block.self_ty).unwrap_or_default()
    }

    /// Whether it takes `self`.
    pub fn takes_self(&self) -> bool {
        self.function.sig.receiver().is_some()
    }
}

/// The last segment of a path type.
pub(crate) fn type_name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        Type::Reference(reference) => type_name(&reference.elem),
        Type::Paren(paren) => type_name(&paren.elem),
        Type::Group(group) => type_name(&group.elem),
        _ => None,
    }
}

/// The first line of a node, before the offset of the file.
pub(crate) fn line_of(node: &impl Spanned) -> u32 {
    u32::try_from(node.span().start().line).unwrap_or(u32::MAX)
}

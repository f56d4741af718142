//! Structs, enums, constants, functions and `impl` blocks.

use syn::spanned::Spanned;
use syn::{
    Expr, Fields, FnArg, GenericParam, Generics, ImplItem, ItemConst, ItemImpl, Pat, ReturnType,
    Signature, Type, TypeParamBound,
};

use super::types::Place;
use super::{Checker, closed};
use crate::declare::StateKind;
use crate::module::type_name;
use crate::names::{self, BOUNDS, MADE_TOTAL};

/// Most type parameters of a plain type.
const TYPE_PARAMETERS_MAX: usize = 2;

impl Checker<'_> {
    pub(super) fn items(&mut self) {
        let module = self.module;
        self.item_names();
        for item in &module.structs {
            self.plain_type(&item.generics, item.fields.iter().map(|field| &field.ty));
        }
        for item in &module.enums {
            let fields = item.variants.iter().flat_map(|variant| &variant.fields);
            self.plain_type(&item.generics, fields.map(|field| &field.ty));
            if item.variants.is_empty() {
                let instead = "write at least one variant: the first is its zero value";
                self.refuse(item.ident.span(), "an enum without variants", instead);
            }
        }
        self.reasons();
        self.declarations();
        for item in &module.consts {
            self.constant(item);
        }
        for item in &module.fns {
            self.function(&item.sig, &item.block, None);
        }
        for block in &module.impls {
            self.implementation(block);
        }
    }

    /// No item takes a name of the prelude, or one that the macro makes.
    fn item_names(&mut self) {
        let module = self.module;
        let types = module.structs.iter().map(|item| &item.ident);
        let types = types.chain(module.enums.iter().map(|item| &item.ident));
        let types = types.chain(module.packet_set.iter().map(|set| &set.ident));
        let types = types.chain([&module.nf.ident]);
        let values = module.consts.iter().map(|item| &item.ident);
        let values = values.chain(module.fns.iter().map(|item| &item.sig.ident));
        for name in types.chain(values) {
            let text = name.to_string();
            if names::is_taken(&text) {
                let what = format!("`{text}` has a meaning of its own");
                self.refuse(name.span(), what, "give the item another name");
            }
        }
    }

    /// No reason has a word that the runtime counts under, nor another one's.
    fn reasons(&mut self) {
        let module = self.module;
        let mut seen = std::collections::BTreeSet::new();
        for reason in module.reasons.iter().flat_map(|reasons| &reasons.variants) {
            let (name, text) = (&reason.ident, &reason.text);
            let instead = if names::BUILTIN_REASONS.contains(&text.as_str()) {
                format!("write `Drop(Builtin::{name})`, or give the reason another name")
            } else if names::MALFORMED_REASONS.contains(&text.as_str()) {
                "give the reason another name".to_owned()
            } else {
                if !seen.insert(text) {
                    let what = format!("another reason is counted as `{text}` too");
                    self.refuse(name.span(), what, "give the reason another name");
                }
                continue;
            };
            let what = format!("every network function has a reason `{text}`");
            self.refuse(name.span(), what, instead);
        }
    }

    fn plain_type<'t>(&mut self, generics: &Generics, fields: impl Iterator<Item = &'t Type>) {
        self.type_parameters(generics, false);
        for ty in fields {
            self.ty(ty, Place::Value);
        }
        self.generics.clear();
    }

    /// `Settings`, `Command`, the packet set and the NF.
    fn declarations(&mut self) {
        let module = self.module;
        module.settings.iter().for_each(|settings| self.setting_names(settings));
        let settings = module.settings.iter().chain(&module.setting_structs);
        let commands = module.commands.iter().flat_map(|commands| &commands.variants);
        for setting in settings.flat_map(|settings| &settings.fields) {
            self.setting(setting);
        }
        for setting in commands.flat_map(|command| &command.fields) {
            self.setting(setting);
        }
        if let Some(set) = &module.packet_set {
            self.plain_type(&set.item.generics, set.item.fields.iter().map(|field| &field.ty));
            if !matches!(set.item.fields, Fields::Named(_) | Fields::Unit) {
                let instead = "write `struct X { name: type, … }`";
                self.refuse(set.ident.span(), "the state of a packet set has names", instead);
            }
            if !set.item.generics.params.is_empty() {
                let instead = "leave the type parameters away";
                self.refuse(set.ident.span(), "the state of a packet set is generic", instead);
            }
            self.over_settings(&set.capacity);
            self.over_settings(&set.expires_s);
            self.set_port(set.port.as_ref());
        }
        for field in &module.nf.fields {
            let numbers = [&field.capacity, &field.staleness_ms];
            self.state_field(&field.kind, numbers.into_iter().flatten());
        }
        self.merge_functions();
        self.settings_held();
    }

    /// Settings and the field that holds them come together.
    fn settings_held(&mut self) {
        let module = self.module;
        let nf = &module.nf.ident;
        let held = module.nf.fields.iter().find(|field| matches!(field.kind, StateKind::Settings));
        match (&module.settings, held) {
            (Some(settings), None) => {
                let instead = format!("write `settings: Settings` in `struct {nf}`");
                self.refuse(settings.ident.span(), "nobody holds the settings", instead);
            }
            (None, Some(field)) => {
                let instead = "write `pub struct Settings { … }`";
                self.refuse(field.ident.span(), "the module has no settings", instead);
            }
            _ => {}
        }
    }

    fn set_port(&mut self, port: Option<&syn::Ident>) {
        let crate::Ports::Named(names) = &self.module.ports else { return };
        if let Some(port) = port.filter(|port| !names.contains(port)) {
            let instead = "write a port of `#[network_function(ports(…))]`";
            self.refuse(port.span(), format!("no port `{port}`"), instead);
        }
    }

    fn state_field<'e>(&mut self, kind: &StateKind, numbers: impl Iterator<Item = &'e Expr>) {
        match kind {
            StateKind::Map(key, value) => {
                self.ty(key, Place::Value);
                self.ty(value, Place::Value);
            }
            StateKind::Vector(ty)
            | StateKind::Allocator(ty)
            | StateKind::Distributed(ty)
            | StateKind::Cell(ty) => self.ty(ty, Place::Value),
            StateKind::Settings | StateKind::Counter | StateKind::L3 => {}
        }
        numbers.for_each(|number| self.over_settings(number));
    }

    /// An expression that sees `settings` and nothing else.
    fn over_settings(&mut self, size: &Expr) {
        self.scopes.open();
        self.scopes.bind("settings");
        self.expr(size);
        self.scopes.close();
    }

    fn merge_functions(&mut self) {
        let module = self.module;
        for merge in module.nf.fields.iter().filter_map(|field| field.merge.as_ref()) {
            if module.fn_named(&merge.to_string()).is_none() {
                let instead = format!("write `fn {merge}(a: T, b: T) -> T` in the module");
                self.refuse(merge.span(), format!("no function `{merge}`"), instead);
            }
        }
    }

    fn constant(&mut self, item: &ItemConst) {
        match &*item.ty {
            Type::Reference(bytes) if bytes.mutability.is_none() => match &*bytes.elem {
                Type::Slice(slice) => self.ty(&slice.elem, Place::Value),
                array => self.ty(array, Place::Value),
            },
            plain => self.ty(plain, Place::Value),
        }
        self.expr(&item.expr);
    }

    fn implementation(&mut self, block: &ItemImpl) {
        if let Some((_, path, _)) = &block.trait_ {
            let instead =
                "write the methods in `impl Type { … }`; zero values, copies and `==` are given";
            self.refuse(path.span(), "a trait implementation is refused", instead);
            return;
        }
        if let Some(unsafety) = &block.unsafety {
            self.refuse(unsafety.span, "`unsafe` is refused", "write safe code");
        }
        let name = type_name(&block.self_ty).unwrap_or_default();
        let nf = self.is_nf(&name);
        if !nf
            && self.module.struct_named(&name).is_none()
            && self.module.enum_named(&name).is_none()
        {
            let instead = "write `impl` for a struct or an enum of this module";
            self.refuse(
                block.self_ty.span(),
                format!("`{name}` is no type of this module"),
                instead,
            );
        }
        self.self_type = Some(name);
        for item in &block.items {
            self.generics.clear();
            self.type_parameters(&block.generics, true);
            match item {
                ImplItem::Fn(function) => {
                    self.method_name(&function.sig);
                    self.function(&function.sig, &function.block, Some(block));
                }
                other => {
                    let instead = "write a `const` of the module, or a method";
                    self.refuse(other.span(), "only methods stand in an `impl`", instead);
                }
            }
        }
        self.generics.clear();
        self.self_type = None;
    }

    /// No method has the name of one of integers that the macro makes total.
    fn method_name(&mut self, signature: &Signature) {
        let name = signature.ident.to_string();
        if signature.receiver().is_some() && MADE_TOTAL.contains(&name.as_str()) {
            let what = format!("`{name}` is a method of integers, and of nothing else");
            self.refuse(signature.ident.span(), what, "give the method another name");
        }
    }

    fn function(&mut self, signature: &Signature, body: &syn::Block, block: Option<&ItemImpl>) {
        self.qualifiers(signature);
        if block.is_none() {
            self.generics.clear();
        }
        self.type_parameters(&signature.generics, true);
        self.scopes.open();
        for input in &signature.inputs {
            self.parameter(input);
        }
        if let ReturnType::Type(_, ty) = &signature.output {
            self.ty(ty, Place::Signature);
        }
        closed::no_attributes(body, &mut self.errors);
        self.block(body);
        self.scopes.close();
        if block.is_none() {
            self.generics.clear();
        }
    }

    fn parameter(&mut self, input: &FnArg) {
        match input {
            FnArg::Receiver(receiver) => {
                if receiver.colon_token.is_some() || receiver.lifetime().is_some() {
                    let instead = "write `self`, `&self` or `&mut self`";
                    self.refuse(receiver.span(), "this form of `self` is refused", instead);
                }
                self.scopes.bind("self");
            }
            FnArg::Typed(typed) => {
                self.ty(&typed.ty, Place::Signature);
                if let Pat::Ident(name) = &*typed.pat {
                    self.scopes.bind(&name.ident.to_string());
                } else {
                    self.pattern(&typed.pat);
                }
            }
        }
    }

    fn qualifiers(&mut self, signature: &Signature) {
        let refused = [
            (signature.unsafety.map(|token| token.span), "`unsafe`", "write safe code"),
            (
                signature.asyncness.map(|token| token.span),
                "`async`",
                "write sequential code, and `cx.set_timer` to come back later",
            ),
            (signature.constness.map(|token| token.span), "`const fn`", "write a plain `fn`"),
            (
                signature.abi.as_ref().map(|abi| abi.extern_token.span),
                "`extern`",
                "write a plain `fn`",
            ),
        ];
        for (span, what, instead) in refused {
            if let Some(span) = span {
                self.refuse(span, format!("{what} is refused"), instead);
            }
        }
    }

    fn type_parameters(&mut self, generics: &Generics, bounds: bool) {
        for parameter in &generics.params {
            match parameter {
                GenericParam::Type(ty) => {
                    self.generics.push(ty.ident.to_string());
                    self.bounds(&ty.bounds, bounds);
                }
                GenericParam::Lifetime(lifetime) => {
                    let instead = "leave it away, or pass an index instead of a reference";
                    self.refuse(lifetime.span(), "a named lifetime is refused", instead);
                }
                GenericParam::Const(constant) => {
                    let instead = "write a `const` of the module, or take a slice `&[T]`";
                    self.refuse(constant.ident.span(), "a const parameter is refused", instead);
                }
            }
        }
        if let Some(clause) = &generics.where_clause {
            let instead = "write the bounds where the parameter is declared: `<T: Copy>`";
            self.refuse(clause.span(), "a `where` clause is refused", instead);
        }
        let types = generics.type_params().count();
        if !bounds && types > TYPE_PARAMETERS_MAX {
            let instead = "write at most two, or a tuple or struct of them";
            self.refuse(generics.span(), format!("{types} type parameters"), instead);
        }
    }

    fn bounds<'b>(
        &mut self,
        bounds: impl IntoIterator<Item = &'b TypeParamBound>,
        functions: bool,
    ) {
        for bound in bounds {
            let name = match bound {
                TypeParamBound::Trait(bound) => {
                    bound.path.segments.last().map(|segment| segment.ident.to_string())
                }
                _ => None,
            }
            .unwrap_or_default();
            let closure = matches!(name.as_str(), "Fn" | "FnMut");
            if !BOUNDS.contains(&name.as_str()) || (closure && !functions) {
                let instead = "write one of `Copy`, `PartialEq`, `Eq`, `PartialOrd`, `Ord`, \
                               `Value`, `Key`; `Fn(…)` and `FnMut(…)` on functions";
                self.refuse(bound.span(), format!("the bound `{name}` is refused"), instead);
            }
        }
    }
}

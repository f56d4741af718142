//! Which handlers there are, and whether their signatures are those of the language page.

use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Attribute, FnArg, ImplItem, ImplItemFn, ItemImpl, LitInt, ReturnType, Signature, Type};

use super::attributes;
use super::items::Items;
use crate::declare::{Handlers, Periodic, StateKind};
use crate::error::Errors;
use crate::module::type_name;

const CONTEXT: &str = "&mut Context";
const PACKET: &str = "&mut Packet";

/// What may stand on a function or a method.
pub(super) const METHOD_ATTRIBUTES: &[&str] = &["doc", "opaque", "cold"];

/// A handler's form: its parameters after `&mut self`, and what it returns (`""`: nothing).
struct Form {
    name: String,
    parameters: Vec<(&'static str, String)>,
    output: String,
}

/// Finds the handlers, and refuses those whose signature is not the page's.
pub(super) fn find(items: &Items, errors: &mut Errors) -> Handlers {
    let forms = signatures(items);
    let mut handlers = Handlers::default();
    let name = items.nf.ident.to_string();
    let methods: Vec<&ImplItemFn> = items.impls.iter().flat_map(functions).collect();
    let of_nf: Vec<&ImplItemFn> = items
        .impls
        .iter()
        .filter(|block| type_name(&block.self_ty).as_ref() == Some(&name))
        .flat_map(functions)
        .collect();
    for function in of_nf {
        let handler = function.sig.ident.to_string();
        if let Some(form) = forms.iter().find(|form| form.name == handler) {
            form.check(&function.sig, errors);
        }
        note(&mut handlers, &handler, function, errors);
    }
    for function in methods {
        let periodic = function.sig.ident == "periodic";
        let allowed: &[&str] = if periodic { &["doc", "every_ms"] } else { METHOD_ATTRIBUTES };
        attributes::only(&function.attrs, allowed, errors);
        super::opaque::check_method(&function.attrs, errors);
    }
    check_required(items, &handlers, errors);
    if let Some(function) = items.fns.iter().find(|function| function.sig.ident == "check") {
        handlers.check = check_settings(&function.sig, items, errors);
    }
    handlers
}

fn functions(block: &ItemImpl) -> impl Iterator<Item = &ImplItemFn> {
    block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(function) => Some(function),
        _ => None,
    })
}

fn note(handlers: &mut Handlers, name: &str, function: &ImplItemFn, errors: &mut Errors) {
    match name {
        "init" => handlers.init = true,
        "packet_set_opened" => handlers.packet_set_opened = true,
        "packet_set_full" => handlers.packet_set_full = true,
        "packet" => handlers.packet = true,
        "packet_set_expired" => handlers.packet_set_expired = true,
        "orphan" => handlers.orphan = true,
        "control" => handlers.control = true,
        "timer" => handlers.timer = true,
        "periodic" => handlers.periodic = periodic(function, errors),
        "shutdown" => handlers.shutdown = true,
        _ => {}
    }
}

fn periodic(function: &ImplItemFn, errors: &mut Errors) -> Option<Periodic> {
    let instead = "write `#[every_ms(100)]` above it";
    let Some(attr) = attributes::one(&function.attrs, "every_ms", errors) else {
        errors.refuse(function.sig.ident.span(), "`periodic` has no period", instead);
        return None;
    };
    let every_ms = errors.take(period(attr))?;
    if every_ms == 0 {
        errors.refuse(attr.span(), "a period of 0 ms", instead);
    }
    Some(Periodic { every_ms })
}

fn period(attr: &Attribute) -> syn::Result<u64> {
    attr.parse_args::<LitInt>()?.base10_parse()
}

/// The forms of this module's handlers.
fn signatures(items: &Items) -> Vec<Form> {
    let set = items.packet_set.as_ref().map(|set| set.ident.to_string());
    let packet_cx = || vec![("pkt", PACKET.to_owned()), ("cx", CONTEXT.to_owned())];
    let mut packet = packet_cx();
    if let Some(set) = &set {
        packet.insert(0, ("set", format!("&mut {set}")));
    }
    let set = set.unwrap_or_else(|| "X".to_owned());
    let mut full = packet_cx();
    full.insert(0, ("set", format!("&{set}")));
    let cx = || ("cx", CONTEXT.to_owned());
    let form = |name: &str, parameters, output: &str| Form {
        name: name.to_owned(),
        parameters,
        output: output.to_owned(),
    };
    let mut forms = vec![
        form("init", vec![cx()], ""),
        form("packet_set_opened", packet_cx(), &format!("Result<{set}, Verdict>")),
        form("packet_set_full", full, "Verdict"),
        form("packet", packet, "Verdict"),
        form("packet_set_expired", vec![("set", format!("&{set}")), cx()], ""),
        form("orphan", packet_cx(), "Verdict"),
        form("control", vec![("command", "Command".into()), cx()], "Result<(), &'static str>"),
        form("timer", vec![("token", "u64".into()), cx()], ""),
        form("periodic", vec![cx()], ""),
        form("shutdown", vec![cx()], ""),
    ];
    for field in &items.nf.fields {
        if let (Some(method), StateKind::Allocator(object)) = (&field.expired, &field.kind) {
            let object = object.to_token_stream().to_string();
            let parameters = vec![("index", "u32".into()), ("object", object), cx()];
            forms.push(form(&method.to_string(), parameters, ""));
        }
    }
    forms
}

impl Form {
    fn check(&self, signature: &Signature, errors: &mut Errors) {
        let receiver = matches!(signature.inputs.first(), Some(FnArg::Receiver(receiver))
            if receiver.reference.is_some() && receiver.mutability.is_some());
        let types: Vec<String> = signature
            .inputs
            .iter()
            .filter_map(|input| match input {
                FnArg::Typed(typed) => Some(plain(&typed.ty)),
                FnArg::Receiver(_) => None,
            })
            .collect();
        let wanted = self.parameters.iter().map(|(_, ty)| squeeze(ty));
        let output = match &signature.output {
            ReturnType::Default => String::new(),
            ReturnType::Type(_, ty) => plain(ty),
        };
        let fits = receiver && types.iter().cloned().eq(wanted) && output == squeeze(&self.output);
        if !fits || !signature.generics.params.is_empty() {
            let what = format!("the handler `{}` has another signature", self.name);
            errors.refuse(signature.ident.span(), what, format!("write `{}`", self.text()));
        }
    }

    fn text(&self) -> String {
        let parameters: Vec<String> =
            self.parameters.iter().map(|(name, ty)| format!(", {name}: {ty}")).collect();
        let output = match self.output.as_str() {
            "" => String::new(),
            output => format!(" -> {output}"),
        };
        format!("fn {}(&mut self{}){output}", self.name, parameters.concat())
    }
}

fn plain(ty: &Type) -> String {
    squeeze(&ty.to_token_stream().to_string())
}

fn squeeze(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace()).collect()
}

fn check_required(items: &Items, handlers: &Handlers, errors: &mut Errors) {
    let nf = &items.nf.ident;
    // Commands that nobody carries out would all be accepted, and do nothing.
    let lacks_control = items.commands.is_some() && !handlers.control;
    for (name, is_missing) in [("packet", !handlers.packet), ("control", lacks_control)] {
        if is_missing {
            let form = signatures(items).into_iter().find(|form| form.name == name);
            let text = form.map(|form| form.text()).unwrap_or_default();
            let instead = format!("write `{text} {{ … }}` in `impl {nf}`");
            errors.refuse(nf.span(), format!("`{nf}` has no handler `{name}`"), instead);
        }
    }
    let sets = [
        ("packet_set_opened", handlers.packet_set_opened),
        ("packet_set_full", handlers.packet_set_full),
        ("packet_set_expired", handlers.packet_set_expired),
        ("orphan", handlers.orphan),
    ];
    for (name, given) in sets {
        if given && items.packet_set.is_none() {
            let instead =
                "write `#[packet_set(…)]` on the struct of its state, or leave the handler away";
            let what = format!("`{name}` without a packet set");
            errors.refuse(nf.span(), what, instead);
        }
    }
    for field in &items.nf.fields {
        let Some(method) = &field.expired else {
            continue;
        };
        let found = items.impls.iter().flat_map(functions).any(|f| f.sig.ident == *method);
        if !found {
            let instead =
                format!("write `fn {method}(&mut self, index: u32, object: T, cx: &mut Context)`");
            errors.refuse(method.span(), format!("no method `{method}`"), instead);
        }
    }
}

fn check_settings(signature: &Signature, items: &Items, errors: &mut Errors) -> bool {
    let types: Vec<String> = signature
        .inputs
        .iter()
        .map(|input| match input {
            FnArg::Typed(typed) => plain(&typed.ty),
            FnArg::Receiver(_) => String::new(),
        })
        .collect();
    let output = match &signature.output {
        ReturnType::Default => String::new(),
        ReturnType::Type(_, ty) => plain(ty),
    };
    let fits = types == ["&Settings"] && output == "Result<(),&'staticstr>";
    if !fits || items.settings.is_none() {
        let instead = "write `fn check(settings: &Settings) -> Result<(), &'static str>`, or \
                       give the function another name";
        errors.refuse(signature.ident.span(), "`check` validates the settings", instead);
    }
    fits
}

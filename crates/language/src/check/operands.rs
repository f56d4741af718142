//! Calls, fields, operators: what may be done to a value.

use syn::spanned::Spanned;
use syn::{
    BinOp, Expr, ExprBinary, ExprCall, ExprField, ExprIndex, ExprMethodCall, ExprReference, Lit,
    Member,
};

use super::types::Place;
use super::{Checker, rewrites};
use crate::declare::{StateField, StateKind};
use crate::names::{self, Operation};

impl Checker<'_> {
    pub(super) fn binary(&mut self, binary: &ExprBinary) {
        if is_compound_assignment(&binary.op) {
            self.assigned(&binary.left);
        }
        self.both(&binary.left, &binary.right);
    }

    pub(super) fn index(&mut self, index: &ExprIndex) {
        self.expr(&index.expr);
        self.range_or(&index.index);
    }

    pub(super) fn reference_expr(&mut self, reference: &ExprReference) {
        if reference.mutability.is_some() {
            self.assigned(&reference.expr);
        }
        self.expr(&reference.expr);
    }

    /// A place that is written: settings are not.
    pub(super) fn assigned(&mut self, place: &Expr) {
        let mut place = place;
        loop {
            place = match place {
                Expr::Field(field) => {
                    if matches!(self.state_field_of(field), Some(StateKind::Settings)) {
                        let instead = "keep what changes in a `Cell<T>` of the network function";
                        self.refuse(field.span(), "settings do not change", instead);
                        return;
                    }
                    &field.base
                }
                Expr::Index(index) => &index.expr,
                Expr::Paren(paren) => &paren.expr,
                Expr::Unary(unary) => &unary.expr,
                _ => return,
            };
        }
    }

    /// Names that are given a value. None gets its first one in a `loop`: that may be broken off before.
    pub(super) fn first_value(&mut self, place: &Expr) {
        match place {
            Expr::Paren(paren) => self.first_value(&paren.expr),
            Expr::Tuple(tuple) => tuple.elems.iter().for_each(|element| self.first_value(element)),
            Expr::Path(path) => {
                let Some(name) = path.path.get_ident().map(ToString::to_string) else { return };
                if self.scopes.first_in_loop(&name) {
                    let instead = format!(
                        "write `let mut {name} = …` with a value, or `let {name} = loop {{ … break value; }}`"
                    );
                    let what = format!("`{name}` gets its first value in a `loop`");
                    self.refuse(path.span(), what, instead);
                }
            }
            _ => {}
        }
    }

    /// The state object or settings that `self.field` is, in a method of the NF.
    fn state_field_of(&self, field: &ExprField) -> Option<StateKind> {
        self.object(field).map(|object| object.kind.clone())
    }

    fn object(&self, field: &ExprField) -> Option<&StateField> {
        let Member::Named(name) = &field.member else { return None };
        self.of_nf(field).then(|| self.module.state(&name.to_string())).flatten()
    }

    /// Whether it is `self.name` in a method of the NF, of no field that the NF has.
    fn lacks(&self, field: &ExprField) -> bool {
        self.of_nf(field) && self.object(field).is_none()
    }

    fn of_nf(&self, field: &ExprField) -> bool {
        matches!(&*field.base, Expr::Path(base) if base.path.is_ident("self")) && self.in_nf()
    }

    /// Where a value is bound or passed: settings are lent, not copied.
    pub(super) fn given(&mut self, value: &Expr) {
        if let Expr::Field(field) = value
            && matches!(self.state_field_of(field), Some(StateKind::Settings))
        {
            let instead = "write a reference: `&self.settings`";
            self.refuse(field.span(), "settings are not copied", instead);
        } else {
            self.expr(value);
        }
    }

    pub(super) fn field(&mut self, field: &ExprField) {
        match self.state_field_of(field) {
            None if self.lacks(field) => {
                let fields = self.module.nf.fields.iter().map(|field| format!("`{}`", field.ident));
                let fields = fields.collect::<Vec<_>>().join(", ");
                let instead = format!("write one of {fields}, or a state object of that name");
                self.refuse(field.member.span(), "the network function has no such field", instead);
            }
            None | Some(StateKind::Settings) => self.expr(&field.base),
            Some(kind) => {
                let name = kind.name();
                let operations = list(names::operations(name));
                let instead = format!("write the operation itself: {operations}");
                self.refuse(field.member.span(), format!("this `{name}` is no value"), instead);
            }
        }
    }

    pub(super) fn call(&mut self, call: &ExprCall) {
        let mut text_allowed = false;
        match &*call.func {
            Expr::Path(path) => {
                text_allowed = path.path.is_ident("Err");
                self.path_expr(path);
            }
            other => {
                let instead = "write the name of a function, a constructor or a parameter";
                self.refuse(other.span(), "a computed function is refused", instead);
            }
        }
        self.arguments(call.args.iter(), text_allowed);
    }

    pub(super) fn method_call(&mut self, call: &ExprMethodCall) {
        let name = call.method.to_string();
        if let Some(turbofish) = &call.turbofish {
            let arguments = syn::PathArguments::AngleBracketed(turbofish.clone());
            self.type_arguments(&arguments, Place::Signature);
        }
        match self.receiver_object(&call.receiver) {
            Some(kind) => self.operation(kind, call),
            None => {
                self.expr(&call.receiver);
                self.known_method(call, &name);
            }
        }
        match call.args.first() {
            Some(part @ Expr::Range(_)) if name == "get" => {
                let instead = "write `&bytes[from..to]`, which is empty past the end";
                self.refuse(part.span(), "`get` takes one index", instead);
            }
            _ => self.arguments(call.args.iter(), name == "ok_or"),
        }
    }

    fn receiver_object(&self, receiver: &Expr) -> Option<&'static str> {
        let Expr::Field(field) = receiver else { return None };
        match self.state_field_of(field)? {
            StateKind::Settings => None,
            kind => Some(kind.name()),
        }
    }

    fn operation(&mut self, kind: &'static str, call: &ExprMethodCall) {
        let operations = names::operations(kind);
        let known = operations.iter().find(|known| call.method == known.name);
        match known {
            None => {
                let what = format!("`{kind}` has no operation `{}`", call.method);
                self.refuse(call.method.span(), what, format!("write one of {}", list(operations)));
            }
            Some(known) if known.arguments != call.args.len() => {
                let (wanted, given) = (known.arguments, call.args.len());
                let what =
                    format!("`{kind}::{}` takes {wanted} arguments, not {given}", known.name);
                let instead = "write them as on the language page";
                self.refuse(call.method.span(), what, instead);
            }
            Some(_) => {}
        }
    }

    fn known_method(&mut self, call: &ExprMethodCall, name: &str) {
        let own = self
            .module
            .methods()
            .any(|method| method.takes_self() && method.function.sig.ident == name);
        if !own && !names::is_method(name) {
            let of_context = matches!(&*call.receiver, Expr::Path(of) if of.path.is_ident("cx"));
            let read_only = rewrites::read_only(name).filter(|_| !of_context);
            let (what, instead) = read_only.unwrap_or_else(|| {
                let instead = match of_context {
                    true => format!("write one of {}", list(names::CONTEXT)),
                    false => rewrites::method(name).to_owned(),
                };
                (format!("the method `{name}` is not in the language"), instead)
            });
            self.refuse(call.method.span(), what, instead);
        } else if !own && is_iterated(&call.receiver, name) {
            let what = format!("the method `{name}` of elements is not in the language");
            self.refuse(call.method.span(), what, rewrites::OF_ITERATOR);
        }
    }

    fn arguments<'e>(&mut self, arguments: impl Iterator<Item = &'e Expr>, text_allowed: bool) {
        for argument in arguments {
            match argument {
                Expr::Closure(closure) => self.closure(closure),
                Expr::Lit(literal) if text_allowed && matches!(literal.lit, Lit::Str(_)) => {}
                other => self.given(other),
            }
        }
    }
}

/// Whether a method of that name would go through all elements: an iterator's, or an array's of which another
/// is made.
fn is_iterated(receiver: &Expr, name: &str) -> bool {
    match receiver {
        Expr::Paren(inner) => is_iterated(&inner.expr, name),
        Expr::MethodCall(call) => call.method == "iter" && call.args.is_empty(),
        Expr::Array(_) | Expr::Repeat(_) => name == "map",
        _ => false,
    }
}

fn list(operations: &[Operation]) -> String {
    let names: Vec<String> = operations.iter().map(|known| format!("`{}`", known.name)).collect();
    names.join(", ")
}

/// Whether the operator writes its left side.
fn is_compound_assignment(operator: &BinOp) -> bool {
    matches!(
        operator,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

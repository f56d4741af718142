//! Expressions.

use syn::spanned::Spanned;
use syn::{Expr, ExprClosure, ExprForLoop, ExprIf, ExprMatch, ExprStruct, Type};

use super::Checker;
use super::types::Place;
use crate::module::type_name;
use crate::names::INTEGERS;

impl Checker<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Lit(literal) => self.literal(&literal.lit),
            Expr::Path(path) => self.path_expr(path),
            Expr::Paren(paren) => self.expr(&paren.expr),
            Expr::Group(group) => self.expr(&group.expr),
            Expr::Array(array) => array.elems.iter().for_each(|element| self.expr(element)),
            Expr::Tuple(tuple) => tuple.elems.iter().for_each(|element| self.expr(element)),
            Expr::Repeat(repeat) => self.both(&repeat.expr, &repeat.len),
            Expr::Binary(binary) => self.binary(binary),
            Expr::Unary(unary) => self.expr(&unary.expr),
            Expr::Assign(assign) => {
                self.assigned(&assign.left);
                self.first_value(&assign.left);
                self.both(&assign.left, &assign.right);
            }
            Expr::Cast(cast) => {
                self.expr(&cast.expr);
                self.cast(&cast.ty);
            }
            Expr::Field(field) => self.field(field),
            Expr::Index(index) => self.index(index),
            Expr::Reference(reference) => self.reference_expr(reference),
            Expr::Call(call) => self.call(call),
            Expr::MethodCall(call) => self.method_call(call),
            Expr::Struct(literal) => self.struct_literal(literal),
            Expr::Try(attempt) => self.expr(&attempt.expr),
            Expr::Macro(mac) => self.macro_call(&mac.mac),
            other => self.control(other),
        }
    }

    fn control(&mut self, expr: &Expr) {
        match expr {
            Expr::Block(block) => self.block(&block.block),
            Expr::If(branch) => self.branch(branch),
            Expr::Let(condition) => {
                self.expr(&condition.expr);
                self.pattern(&condition.pat);
            }
            Expr::Match(choice) => self.choice(choice),
            Expr::ForLoop(each) => self.for_loop(each),
            Expr::While(repeat) => {
                self.scopes.open();
                self.expr(&repeat.cond);
                self.block(&repeat.body);
                self.scopes.close();
            }
            Expr::Loop(repeat) => {
                self.scopes.enter_loop();
                self.block(&repeat.body);
                self.scopes.leave_loop();
            }
            Expr::Break(exit) => exit.expr.iter().for_each(|value| self.expr(value)),
            Expr::Continue(_) => {}
            Expr::Return(exit) => exit.expr.iter().for_each(|value| self.expr(value)),
            Expr::Closure(closure) => {
                let instead = "write a `fn`, or write the closure where it is passed";
                self.refuse(closure.span(), "a closure stands only as an argument", instead);
            }
            Expr::Range(range) => {
                let instead = "write `matches!(x, a..=b)`, or `for i in a..b`";
                self.refuse(range.span(), "a range is no value", instead);
            }
            other => self.refuse_expr(other),
        }
    }

    pub(super) fn both(&mut self, first: &Expr, second: &Expr) {
        self.expr(first);
        self.expr(second);
    }

    fn cast(&mut self, ty: &Type) {
        let integer = type_name(ty).is_some_and(|name| INTEGERS.contains(&name.as_str()));
        if !integer {
            let instead = "`as` is between integers: write `as u32`, or a `match`";
            self.refuse(ty.span(), "this cast is refused", instead);
        }
    }

    fn struct_literal(&mut self, literal: &ExprStruct) {
        self.constructor(&literal.path);
        literal.fields.iter().for_each(|field| self.expr(&field.expr));
        literal.rest.iter().for_each(|rest| self.expr(rest));
    }

    fn branch(&mut self, branch: &ExprIf) {
        self.scopes.open();
        self.expr(&branch.cond);
        self.block(&branch.then_branch);
        self.scopes.close();
        if let Some((_, otherwise)) = &branch.else_branch {
            self.expr(otherwise);
        }
    }

    fn choice(&mut self, choice: &ExprMatch) {
        self.expr(&choice.expr);
        for arm in &choice.arms {
            self.scopes.open();
            self.pattern(&arm.pat);
            arm.guard.iter().for_each(|(_, guard)| self.expr(guard));
            self.expr(&arm.body);
            self.scopes.close();
        }
    }

    fn for_loop(&mut self, each: &ExprForLoop) {
        self.range_or(&each.expr);
        self.scopes.open();
        self.pattern(&each.pat);
        self.block(&each.body);
        self.scopes.close();
    }

    /// A range where ranges may stand, or any expression.
    pub(super) fn range_or(&mut self, expr: &Expr) {
        match expr {
            Expr::Range(range) => {
                range.start.iter().for_each(|bound| self.expr(bound));
                range.end.iter().for_each(|bound| self.expr(bound));
            }
            Expr::Paren(paren) => self.range_or(&paren.expr),
            other => self.expr(other),
        }
    }

    pub(super) fn closure(&mut self, closure: &ExprClosure) {
        if let Some(asyncness) = &closure.asyncness {
            self.refuse(asyncness.span, "`async` is refused", "write sequential code");
        }
        self.scopes.open();
        closure.inputs.iter().for_each(|input| self.pattern(input));
        if let syn::ReturnType::Type(_, ty) = &closure.output {
            self.ty(ty, Place::Signature);
        }
        self.expr(&closure.body);
        self.scopes.close();
    }

    fn refuse_expr(&mut self, expr: &Expr) {
        let (what, instead) = match expr {
            Expr::Unsafe(_) => ("`unsafe` is refused", "write safe code"),
            Expr::Async(_) | Expr::Await(_) => (
                "`async` is refused",
                "write sequential code, and `cx.set_timer` to come back later",
            ),
            Expr::RawAddr(_) => ("a raw pointer is refused", "write a reference: `&x`"),
            Expr::Const(_) => ("a `const` block is refused", "write a `const` of the module"),
            Expr::TryBlock(_) => {
                ("a `try` block is refused", "write a function that returns `Option`")
            }
            Expr::Yield(_) => ("`yield` is refused", "write sequential code"),
            Expr::Infer(_) => ("`_` is no value", "write a name: `let _unused = …`"),
            _ => ("this expression is refused", "write one of the forms of the language page"),
        };
        self.refuse(expr.span(), what, instead);
    }
}

//! `while` and `loop`, which end in every world.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut;
use syn::{Block, Expr, ExprBreak, ExprClosure, ExprForLoop, ExprLoop, ExprWhile, Label, Stmt};

use crate::arithmetic::Bodies;

impl Bodies<'_> {
    /// Rewrites a `while` or a `loop`; false: it is neither.
    pub(crate) fn bounded(&mut self, expr: &mut Expr) -> bool {
        match expr {
            Expr::While(repeat) => {
                visit_mut::visit_expr_while_mut(self, repeat);
                self.bound(&mut repeat.body, &quote!(break;));
            }
            Expr::Loop(repeat) => {
                let value = Breaks::of(repeat);
                visit_mut::visit_expr_loop_mut(self, repeat);
                self.bound(&mut repeat.body, &value);
            }
            _ => return false,
        }
        *expr = Expr::Verbatim(quote_spanned!(expr.span()=> { let mut __turns = 0u32; #expr }));
        true
    }

    fn bound(&self, body: &mut Block, end: &TokenStream) {
        let span = body.brace_token.span.open();
        let too_far = quote_spanned!(span=> ::anabranch_nf::arith::goes_too_far);
        let most = match &self.hollow {
            Some(hollow) => quote!(::anabranch_nf::arith::most_turns(#hollow)),
            None => quote!(::anabranch_nf::arith::TURNS),
        };
        let check = quote_spanned!(span=> if #too_far(&mut __turns, #most) { #end });
        body.stmts.insert(0, Stmt::Expr(Expr::Verbatim(check), None));
    }
}

/// How a `loop` is left: with or without a value.
struct Breaks<'a> {
    label: Option<&'a Label>,
    /// Loops within this one.
    depth: usize,
    without_value: bool,
}

impl<'a> Breaks<'a> {
    /// The `break` that ends the loop early.
    fn of(repeat: &'a ExprLoop) -> TokenStream {
        let mut breaks = Self { label: repeat.label.as_ref(), depth: 0, without_value: false };
        breaks.visit_block(&repeat.body);
        match breaks.without_value {
            true => quote!(break;),
            false => quote!(break ::anabranch_nf::Value::zero();),
        }
    }
}

impl<'ast> Visit<'ast> for Breaks<'_> {
    fn visit_expr_break(&mut self, exit: &'ast ExprBreak) {
        let ours = match (&exit.label, self.label) {
            (None, _) => self.depth == 0,
            (Some(named), Some(own)) => named.ident == own.name.ident,
            (Some(_), None) => false,
        };
        self.without_value |= ours && exit.expr.is_none();
        visit::visit_expr_break(self, exit);
    }

    fn visit_expr_loop(&mut self, inner: &'ast ExprLoop) {
        self.depth += 1;
        visit::visit_expr_loop(self, inner);
        self.depth -= 1;
    }

    fn visit_expr_while(&mut self, inner: &'ast ExprWhile) {
        self.depth += 1;
        visit::visit_expr_while(self, inner);
        self.depth -= 1;
    }

    fn visit_expr_for_loop(&mut self, inner: &'ast ExprForLoop) {
        self.depth += 1;
        visit::visit_expr_for_loop(self, inner);
        self.depth -= 1;
    }

    fn visit_expr_closure(&mut self, _: &'ast ExprClosure) {}
}

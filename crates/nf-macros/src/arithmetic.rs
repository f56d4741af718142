//! Bodies: operators, indices and loops made total, `matches!` and `log!` written out.
//!
//! Sums wrap, division by zero yields zero, and shifts are taken modulo the width, natively as in
//! the symbolic world, whatever the author's build profile. A division or shift that a literal
//! already makes total stays an operator. `a[i]` past the end reads zero and writes nothing. A
//! `while` or `loop` ends after very many iterations, and sooner in a hollow world, where the write
//! that would end it has no effect.

use anabranch_language::Module;
use anabranch_language::macros;
use anabranch_language::names::MADE_TOTAL;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    BinOp, Block, Expr, ExprBinary, ExprLit, ExprMacro, ExprMethodCall, ExprRepeat, ExprUnary,
    Ident, Lit, Stmt, Type, UnOp,
};

use crate::indices;

/// Rewrites a body in place. `hollow` is the constant that says whether its world is; `None`: it
/// does not know.
pub(crate) fn rewrite(module: &Module, hollow: Option<TokenStream>, body: &mut Block) {
    Bodies { module, hollow, spares: None, named: 0 }.visit_block_mut(body);
}

/// Rewrites an expression in place.
pub(crate) fn rewrite_expr(module: &Module, expr: &mut Expr) {
    Bodies { module, hollow: None, spares: None, named: 0 }.visit_expr_mut(expr);
}

pub(crate) struct Bodies<'a> {
    pub(crate) module: &'a Module,
    pub(crate) hollow: Option<TokenStream>,
    /// What stands in for elements that are not there, in a `let` whose value may be a reference
    /// to it.
    pub(crate) spares: Option<Vec<Ident>>,
    /// How many of them have been named so far.
    pub(crate) named: usize,
}

impl VisitMut for Bodies<'_> {
    fn visit_block_mut(&mut self, block: &mut Block) {
        let mut outer = self.spares.take();
        for mut statement in std::mem::take(&mut block.stmts) {
            if let Stmt::Expr(value, None) = &mut statement {
                // The last of a block: its value outlives the block with the `let` around it.
                self.spares = outer.take();
                self.visit_expr_mut(value);
                outer = self.spares.take();
                block.stmts.push(statement);
                continue;
            }
            self.spares = matches!(statement, Stmt::Local(_)).then(Vec::new);
            self.visit_stmt_mut(&mut statement);
            block.stmts.extend(self.spares.take().into_iter().flatten().map(indices::spare));
            block.stmts.push(statement);
        }
        self.spares = outer;
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if self.indexed(expr) || self.bounded(expr) {
            return;
        }
        if let Expr::Macro(mac) = expr
            && let Some(written) = self.written_out(mac)
        {
            *expr = written;
            return;
        }
        self.parts(expr);
        let total = match expr {
            Expr::Binary(binary) => total(binary),
            Expr::Unary(unary) => negation(unary),
            Expr::MethodCall(call) => total_method(call),
            _ => None,
        };
        if let Some(total) = total {
            *expr = Expr::Verbatim(total);
        }
    }

    /// Lengths are the compiler's to compute, as are those within types.
    fn visit_expr_repeat_mut(&mut self, repeat: &mut ExprRepeat) {
        self.visit_expr_mut(&mut repeat.expr);
    }

    fn visit_type_mut(&mut self, _: &mut Type) {}

    fn visit_stmt_mut(&mut self, statement: &mut Stmt) {
        if let Stmt::Macro(mac) = statement {
            let mut expr = Expr::Macro(ExprMacro { attrs: Vec::new(), mac: mac.mac.clone() });
            self.visit_expr_mut(&mut expr);
            *statement = Stmt::Expr(expr, mac.semi_token);
            return;
        }
        visit_mut::visit_stmt_mut(self, statement);
    }
}

impl Bodies<'_> {
    fn written_out(&mut self, mac: &ExprMacro) -> Option<Expr> {
        if mac.mac.path.is_ident("matches") {
            let mut matches = macros::matches(&mac.mac).ok()?;
            self.visit_expr_mut(&mut matches.value);
            if let Some(guard) = &mut matches.guard {
                self.visit_expr_mut(guard);
            }
            let (value, pattern) = (&matches.value, &matches.pattern);
            let guard = matches.guard.as_ref().map(|guard| quote!(if #guard));
            let span = mac.span();
            return Some(Expr::Verbatim(quote_spanned! {span=>
                (match (#value) { #pattern #guard => true, _ => false })
            }));
        }
        let mut log = macros::log(&mac.mac).ok()?;
        log.values.iter_mut().for_each(|value| self.visit_expr_mut(value));
        let (cx, level, text, values) = (&log.cx, &log.level, &log.text, &log.values);
        let line = self.module.line(mac.mac.path.span());
        let span = mac.span();
        Some(Expr::Verbatim(quote_spanned! {span=>
            #cx.write_log(
                ::anabranch_nf::Level::#level, #line, ::core::format_args!(#text, #(#values),*)
            )
        }))
    }
}

/// Methods of [`MADE_TOTAL`] panic for some operands; these forms do not.
fn total_method(call: &mut ExprMethodCall) -> Option<TokenStream> {
    let name = MADE_TOTAL.iter().find(|name| call.method == *name)?;
    match (*name, call.args.len()) {
        ("pow", _) => {
            call.method = Ident::new("wrapping_pow", call.method.span());
            None
        }
        ("clamp", 2) => {
            let (receiver, low, high) = (&call.receiver, &call.args[0], &call.args[1]);
            Some(quote_spanned! {call.method.span()=> (#receiver).max(#low).min(#high)})
        }
        _ => None,
    }
}

fn total(binary: &ExprBinary) -> Option<TokenStream> {
    let (function, assigns) = match binary.op {
        BinOp::Add(_) => ("add", false),
        BinOp::Sub(_) => ("sub", false),
        BinOp::Mul(_) => ("mul", false),
        BinOp::Div(_) => ("div", false),
        BinOp::Rem(_) => ("rem", false),
        BinOp::Shl(_) => ("shl", false),
        BinOp::Shr(_) => ("shr", false),
        BinOp::AddAssign(_) => ("add", true),
        BinOp::SubAssign(_) => ("sub", true),
        BinOp::MulAssign(_) => ("mul", true),
        BinOp::DivAssign(_) => ("div", true),
        BinOp::RemAssign(_) => ("rem", true),
        BinOp::ShlAssign(_) => ("shl", true),
        BinOp::ShrAssign(_) => ("shr", true),
        _ => return None,
    };
    let wraps = matches!(function, "add" | "sub" | "mul");
    if !wraps && is_harmless(&binary.right) {
        return None;
    }
    let span = binary.op.span();
    let function = Ident::new(function, span);
    let (left, right) = (&binary.left, &binary.right);
    Some(match assigns {
        false => quote_spanned!(span=> ::anabranch_nf::arith::#function(#left, #right)),
        // The right side first, as for the operator; the place once.
        true => quote_spanned! {span=>
            match #right {
                __right => match &mut #left {
                    __place => *__place = ::anabranch_nf::arith::#function(*__place, __right),
                },
            }
        },
    })
}

fn negation(unary: &ExprUnary) -> Option<TokenStream> {
    let literal = matches!(&*unary.expr, Expr::Lit(_));
    if !matches!(unary.op, UnOp::Neg(_)) || literal {
        return None;
    }
    let value = &unary.expr;
    Some(quote_spanned!(unary.op.span()=> ::anabranch_nf::arith::neg(#value)))
}

/// A literal that is not zero; a distance that is too long the compiler refuses.
fn is_harmless(right: &Expr) -> bool {
    match right {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
            number.base10_parse::<u128>().is_ok_and(|number| number != 0)
        }
        Expr::Paren(paren) => is_harmless(&paren.expr),
        _ => false,
    }
}

/// An expression of `settings` as an integer of the type `to`.
pub(crate) fn size(module: &Module, size: &Expr, to: &str) -> TokenStream {
    let mut size = size.clone();
    rewrite_expr(module, &mut size);
    let to = Ident::new(to, proc_macro2::Span::call_site());
    quote!((#size) as #to)
}

/// Tokens of a list of nodes.
pub(crate) fn tokens<T: ToTokens>(nodes: impl Iterator<Item = T>) -> TokenStream {
    nodes.map(|node| node.to_token_stream()).collect()
}

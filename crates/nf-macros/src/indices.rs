//! `a[i]` for every `i`: a value where it is read, a place where it is written.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr, ExprIndex, Ident, Stmt};

use crate::arithmetic::Bodies;

impl Bodies<'_> {
    /// Rewrites what says by its form how the elements in it are used; false: it says nothing.
    pub(crate) fn indexed(&mut self, expr: &mut Expr) -> bool {
        match expr {
            Expr::Index(index) => {
                match is_range(&index.index) {
                    true => self.seen(&mut index.expr),
                    false => self.visit_expr_mut(&mut index.expr),
                }
                *expr = self.read(index);
            }
            Expr::Assign(assign) => {
                self.visit_expr_mut(&mut assign.right);
                self.changed(&mut assign.left);
            }
            Expr::Reference(reference) if reference.mutability.is_some() => {
                self.place(&mut reference.expr);
            }
            _ => return false,
        }
        true
    }

    /// Rewrites the parts of an expression, what it changes as places.
    pub(crate) fn parts(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Binary(binary) if is_compound_assignment(&binary.op) => {
                self.visit_expr_mut(&mut binary.right);
                self.changed(&mut binary.left);
            }
            Expr::MethodCall(call) if self.changes_its_receiver(&call.method) => {
                self.changed(&mut call.receiver);
                call.args.iter_mut().for_each(|argument| self.visit_expr_mut(argument));
            }
            other => visit_mut::visit_expr_mut(self, other),
        }
    }

    /// Whether the module has such a method: those of the language's own types change no element.
    fn changes_its_receiver(&self, method: &Ident) -> bool {
        self.module.methods().any(|known| {
            let signature = &known.function.sig;
            let receiver = signature.receiver();
            signature.ident == *method
                && receiver.is_some_and(|receiver| {
                    receiver.reference.is_some() && receiver.mutability.is_some()
                })
        })
    }

    /// What an assignment or a method call changes: the place lives no longer than the statement.
    fn changed(&mut self, expr: &mut Expr) {
        let spares = self.spares.take();
        self.place(expr);
        self.spares = spares;
    }

    /// Rewrites a place that may be written.
    fn place(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Index(index) => {
                self.place(&mut index.expr);
                *expr = self.written(index);
            }
            Expr::Field(field) => self.place(&mut field.base),
            Expr::Paren(paren) => self.place(&mut paren.expr),
            Expr::Tuple(tuple) => tuple.elems.iter_mut().for_each(|element| self.place(element)),
            other => self.visit_expr_mut(other),
        }
    }

    /// Rewrites what a part is taken of: that may outlive the expression, so no copy is made.
    fn seen(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Index(index) if !is_range(&index.index) => {
                self.seen(&mut index.expr);
                self.visit_index(&mut index.index);
                let (of, at, span) = (&index.expr, &index.index, index.bracket_token.span.join());
                let spare = self.spare(span);
                *expr = Expr::Verbatim(quote_spanned!(span=> (*(#of).__seen(#at, #spare))));
            }
            Expr::Field(field) => self.seen(&mut field.base),
            Expr::Paren(paren) => self.seen(&mut paren.expr),
            other => self.visit_expr_mut(other),
        }
    }

    fn read(&mut self, index: &mut ExprIndex) -> Expr {
        self.visit_index(&mut index.index);
        let (of, at, span) = (&index.expr, &index.index, index.bracket_token.span.join());
        Expr::Verbatim(match is_range(at) {
            true => quote_spanned!(span=> (*(#of).__part(#at))),
            false => quote_spanned!(span=> (#of).__at(#at)),
        })
    }

    fn written(&mut self, index: &mut ExprIndex) -> Expr {
        // An index that may look into the same array is computed before that is borrowed.
        let first = !is_plain(&index.index) && !matches!(&*index.expr, Expr::Verbatim(_));
        self.visit_index(&mut index.index);
        let (of, at, span) = (&index.expr, &index.index, index.bracket_token.span.join());
        Expr::Verbatim(if is_range(at) {
            quote_spanned!(span=> (*(#of).__part_mut(#at)))
        } else {
            let spare = self.spare(span);
            match first {
                true => quote_spanned! {span=>
                    (*::anabranch_nf::elements::place(#at, (#of).__all(), #spare))
                },
                false => quote_spanned!(span=> (*(#of).__place(#at, #spare))),
            }
        })
    }

    fn visit_index(&mut self, index: &mut Expr) {
        match index {
            Expr::Range(range) => {
                for bound in [&mut range.start, &mut range.end].into_iter().flatten() {
                    self.visit_expr_mut(bound);
                }
            }
            Expr::Paren(paren) => self.visit_index(&mut paren.expr),
            other => self.visit_expr_mut(other),
        }
    }

    /// What stands in for an element: a new variable before the `let` that is being rewritten, a
    /// value of the statement elsewhere.
    fn spare(&mut self, span: Span) -> TokenStream {
        let Some(spares) = &mut self.spares else {
            return quote_spanned!(span=> &mut ::anabranch_nf::Value::zero());
        };
        let name =
            format_ident!("__spare{}", self.named, span = span.resolved_at(Span::mixed_site()));
        self.named += 1;
        spares.push(name.clone());
        quote_spanned!(span=> &mut #name)
    }
}

/// Declares what stands in for an element that is not there.
pub(crate) fn spare(name: Ident) -> Stmt {
    let declared = quote_spanned!(name.span()=> let mut #name = ::anabranch_nf::Value::zero(););
    Stmt::Expr(Expr::Verbatim(declared), None)
}

fn is_compound_assignment(operator: &BinOp) -> bool {
    use BinOp::{
        AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, DivAssign, MulAssign, RemAssign,
        ShlAssign, ShrAssign, SubAssign,
    };
    matches!(
        operator,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | BitXorAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

/// Whether an index only computes with variables and literals.
fn is_plain(index: &Expr) -> bool {
    match index {
        Expr::Lit(_) | Expr::Path(_) => true,
        Expr::Cast(cast) => is_plain(&cast.expr),
        Expr::Paren(paren) => is_plain(&paren.expr),
        Expr::Unary(unary) => is_plain(&unary.expr),
        Expr::Binary(binary) => is_plain(&binary.left) && is_plain(&binary.right),
        _ => false,
    }
}

fn is_range(index: &Expr) -> bool {
    match index {
        Expr::Range(_) => true,
        Expr::Paren(paren) => is_range(&paren.expr),
        _ => false,
    }
}

//! Patterns, and the names they bind.

use syn::spanned::Spanned;
use syn::{Lit, Pat, PatIdent, Path};

use super::Checker;
use super::types::Place;

impl Checker<'_> {
    pub(super) fn pattern(&mut self, pattern: &Pat) {
        match pattern {
            Pat::Ident(name) => self.binding(name),
            Pat::Lit(literal) => self.literal(&literal.lit),
            Pat::Or(or) => or.cases.iter().for_each(|case| self.pattern(case)),
            Pat::Paren(paren) => self.pattern(&paren.pat),
            Pat::Path(path) => self.path_expr(path),
            Pat::Range(range) => {
                range.start.iter().for_each(|bound| self.expr(bound));
                range.end.iter().for_each(|bound| self.expr(bound));
            }
            Pat::Reference(reference) => self.pattern(&reference.pat),
            Pat::Struct(fields) => {
                self.constructor(&fields.path);
                fields.fields.iter().for_each(|field| self.pattern(&field.pat));
            }
            Pat::Tuple(tuple) => tuple.elems.iter().for_each(|element| self.pattern(element)),
            Pat::TupleStruct(tuple) => {
                self.constructor(&tuple.path);
                tuple.elems.iter().for_each(|element| self.pattern(element));
            }
            Pat::Type(typed) => {
                self.ty(&typed.ty, Place::Signature);
                self.pattern(&typed.pat);
            }
            Pat::Wild(_) | Pat::Rest(_) => {}
            Pat::Slice(slice) => {
                let instead = "write `a[0]`, `a.len()`, or a tuple";
                self.refuse(slice.span(), "a slice pattern is refused", instead);
                slice.elems.iter().for_each(|element| self.pattern(element));
            }
            other => {
                let instead = "write a literal, a range, a tuple, a struct or an enum";
                self.refuse(other.span(), "this pattern is refused", instead);
            }
        }
    }

    fn binding(&mut self, name: &PatIdent) {
        if let Some(by_ref) = &name.by_ref {
            let instead = "leave it away: values are copied; to change one, match on `&mut x`";
            self.refuse(by_ref.span, "`ref` is refused", instead);
        }
        if let Some((_, pattern)) = &name.subpat {
            self.pattern(pattern);
        }
        let text = name.ident.to_string();
        let constant = text.chars().next().is_some_and(char::is_uppercase);
        if !(constant && self.is_item(&text)) {
            self.scopes.bind(&text);
        }
    }

    /// The struct or variant that a pattern or a literal is made of.
    pub(super) fn constructor(&mut self, path: &Path) {
        let nf = path.is_ident(&self.module.nf.ident) || (path.is_ident("Self") && self.in_nf());
        if nf {
            let instead = "leave it away: its state objects are made from their `#[capacity]`";
            self.refuse(path.span(), "the network function is made by the runtime", instead);
        } else if !self.is_value(path) {
            self.refuse_path(path);
        }
    }

    pub(super) fn literal(&mut self, literal: &Lit) {
        let (what, instead) = match literal {
            Lit::Int(number) if matches!(number.suffix(), "f32" | "f64") => {
                ("a float is refused", "write a ratio as two integers, or a fixed-point integer")
            }
            Lit::Int(_) | Lit::Bool(_) | Lit::Byte(_) | Lit::ByteStr(_) => return,
            Lit::Float(_) => {
                ("a float is refused", "write a ratio as two integers, or a fixed-point integer")
            }
            Lit::Str(_) => ("text is for `log!` and errors only", "write a byte string: `b\"…\"`"),
            Lit::Char(_) => ("a character is refused", "write a byte: `b'x'`"),
            _ => ("this literal is refused", "write an integer, a `bool`, or a byte string"),
        };
        self.refuse(literal.span(), what, instead);
    }
}

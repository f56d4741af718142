//! Blocks, statements and the two macros.

use syn::spanned::Spanned;
use syn::{Block, Local, Macro, Pat, Stmt};

use super::{Checker, rewrites};
use crate::macros;

impl Checker<'_> {
    pub(super) fn block(&mut self, block: &Block) {
        self.scopes.open();
        for statement in &block.stmts {
            match statement {
                Stmt::Local(local) => self.local(local),
                Stmt::Expr(expr, _) => self.expr(expr),
                Stmt::Macro(mac) => self.macro_call(&mac.mac),
                Stmt::Item(item) => {
                    let instead = "write it in the module, beside the function";
                    self.refuse(item.span(), "an item in a function is refused", instead);
                }
            }
        }
        self.scopes.close();
    }

    fn local(&mut self, local: &Local) {
        if let Some(init) = &local.init {
            let named = match &local.pat {
                Pat::Type(typed) => &typed.pat,
                pattern => pattern,
            };
            match named {
                Pat::Ident(_) => self.given(&init.expr),
                _ => self.expr(&init.expr),
            }
            if let Some((_, diverge)) = &init.diverge {
                self.expr(diverge);
            }
        }
        let before = self.scopes.count();
        self.pattern(&local.pat);
        if local.init.is_none() {
            self.scopes.wait(before);
        }
    }

    pub(super) fn macro_call(&mut self, mac: &Macro) {
        let name = mac.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        match name.as_str() {
            "matches" if mac.path.segments.len() == 1 => self.matches(mac),
            "log" if mac.path.segments.len() == 1 => self.log(mac),
            _ => {
                let what = format!("`{name}!` is refused");
                self.refuse(mac.path.span(), what, rewrites::macro_call(&name));
            }
        }
    }

    fn matches(&mut self, mac: &Macro) {
        let Some(matches) = self.errors.take(macros::matches(mac)) else { return };
        self.expr(&matches.value);
        self.scopes.open();
        self.pattern(&matches.pattern);
        matches.guard.iter().for_each(|guard| self.expr(guard));
        self.scopes.close();
    }

    fn log(&mut self, mac: &Macro) {
        let Some(log) = self.errors.take(macros::log(mac)) else { return };
        self.expr(&log.cx);
        log.values.iter().for_each(|value| self.expr(value));
    }
}

//! The program that is interpreted: a checked module and what is read once from it.

use std::collections::HashMap;

use anabranch_language::macros::{self, Log, Matches};
use anabranch_language::{Module, Ports};
use syn::visit::{self, Visit};

use crate::error::AnalysisError;
use crate::expr::Words;

/// A network function's module, ready to be interpreted. Spans belong to the thread that read it.
pub struct Program {
    pub(crate) module: Module,
    pub(crate) file: String,
    /// The name under which expressions over settings see them.
    pub(crate) settings: syn::Ident,
    /// The constants of the ports, `LAN` and its number.
    pub(crate) ports: Vec<(syn::Ident, u8)>,
    macros: HashMap<(usize, usize), Invocation>,
}

/// A macro of the language, read.
pub(crate) enum Invocation {
    Matches(Box<Matches>),
    Log(Box<Log>),
}

impl Program {
    /// Reads a module from its text: `first_line` is the line of `file` it starts at.
    ///
    /// # Errors
    /// Everything the language refuses, by line.
    pub fn read(text: &str, file: &str, first_line: u32) -> Result<Self, AnalysisError> {
        let module = Module::from_source(text, first_line)
            .map_err(|problems| AnalysisError::Language { file: file.to_owned(), problems })?;
        Ok(Self::new(module, file))
    }

    /// A module that is already checked, of this file.
    pub fn new(module: Module, file: &str) -> Self {
        let mut reader = MacroReader { found: HashMap::new() };
        module.fns.iter().for_each(|item| reader.visit_item_fn(item));
        module.impls.iter().for_each(|item| reader.visit_item_impl(item));
        module.consts.iter().for_each(|item| reader.visit_item_const(item));
        let settings = syn::Ident::new("settings", proc_macro2::Span::call_site());
        let ports = module.port_constants();
        Self { file: file.to_owned(), settings, ports, macros: reader.found, module }
    }

    pub(crate) fn invocation(&self, mac: &syn::Macro) -> Option<&Invocation> {
        self.macros.get(&place_of(mac))
    }

    /// What constants of this module are called.
    pub fn words(&self) -> Words {
        let ports = match &self.module.ports {
            Ports::Named(names) => names.iter().map(ToString::to_string).collect(),
            Ports::Any => Vec::new(),
        };
        Words { ports }
    }
}

fn place_of(mac: &syn::Macro) -> (usize, usize) {
    let segment = mac.path.segments.last();
    let start = segment.map(|segment| segment.ident.span().start());
    start.map_or((0, 0), |start| (start.line, start.column))
}

struct MacroReader {
    found: HashMap<(usize, usize), Invocation>,
}

impl<'ast> Visit<'ast> for MacroReader {
    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        if mac.path.is_ident("matches") {
            self.matches(mac);
        } else if let Ok(log) = macros::log(mac) {
            log.values.iter().for_each(|value| self.visit_value(value));
            self.found.insert(place_of(mac), Invocation::Log(Box::new(log)));
        }
        visit::visit_macro(self, mac);
    }
}

impl MacroReader {
    fn matches(&mut self, mac: &syn::Macro) {
        let Ok(matches) = macros::matches(mac) else {
            return;
        };
        self.visit_value(&matches.value);
        if let Some(guard) = &matches.guard {
            self.visit_value(guard);
        }
        self.found.insert(place_of(mac), Invocation::Matches(Box::new(matches)));
    }

    /// Macros inside the arguments of a macro.
    fn visit_value(&mut self, value: &syn::Expr) {
        let mut inner = MacroReader { found: HashMap::new() };
        inner.visit_expr(value);
        self.found.extend(inner.found);
    }
}

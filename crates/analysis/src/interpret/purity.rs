//! What only computes, as far as the text shows: decided once for each place, so that every run
//! of a handler takes the same branches for paths.

use syn::visit::{self, Visit};
use syn::{Expr, Member};

use super::program::{Invocation, Program};
use crate::hash::FastMap;

/// Methods that touch more than their receiver wherever they stand.
const TOUCHING: [&str; 4] = ["random", "emit", "set_expiry", "set_timer"];

/// What evaluating something may change besides its own locals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Touch {
    Nothing,
    /// Header fields of the packet.
    Fields,
    /// State, the log, the time, what is sent.
    More,
}

/// Remembers what has been found out, by place in the syntax tree and by function.
#[derive(Default)]
pub(crate) struct Purity {
    places: FastMap<usize, (Touch, bool)>,
    functions: FastMap<String, Touch>,
}

impl Purity {
    /// Whether evaluating the expression may touch state, the packet or the log.
    pub(crate) fn touches(&mut self, expression: &Expr, program: &Program) -> bool {
        self.known(expression, program).0 != Touch::Nothing
    }

    /// The same of a block.
    pub(crate) fn block_touches(&mut self, block: &syn::Block, program: &Program) -> bool {
        let place = std::ptr::from_ref(block) as usize;
        self.found(place, program, |reader| reader.visit_block(block)).0 != Touch::Nothing
    }

    /// Whether it only computes and sets header fields, and nothing in it leaves the function or a loop around it.
    pub(crate) fn computes(&mut self, expression: &Expr, program: &Program) -> bool {
        matches!(self.known(expression, program), (Touch::Nothing | Touch::Fields, false))
    }

    /// The same of every function and method of this name.
    pub(crate) fn function_computes(&mut self, name: &str, program: &Program) -> bool {
        self.function(name, program) <= Touch::Fields
    }

    fn known(&mut self, expression: &Expr, program: &Program) -> (Touch, bool) {
        let place = std::ptr::from_ref(expression) as usize;
        self.found(place, program, |reader| reader.visit_expr(expression))
    }

    fn found(
        &mut self,
        place: usize,
        program: &Program,
        read: impl FnOnce(&mut Reader<'_>),
    ) -> (Touch, bool) {
        if let Some(known) = self.places.get(&place) {
            return *known;
        }
        let mut reader = Reader { purity: self, program, touch: Touch::Nothing, leaves: false };
        read(&mut reader);
        let found = (reader.touch, reader.leaves);
        self.places.insert(place, found);
        found
    }

    fn function(&mut self, name: &str, program: &Program) -> Touch {
        if let Some(known) = self.functions.get(name) {
            return *known;
        }
        // Recursion is not in the language: what is asked again here is a name shared by types.
        self.functions.insert(name.to_owned(), Touch::Nothing);
        let bodies: Vec<&syn::Block> = bodies(name, program);
        let mut reader = Reader { purity: self, program, touch: Touch::Nothing, leaves: false };
        bodies.into_iter().for_each(|body| reader.visit_block(body));
        let touch = reader.touch;
        self.functions.insert(name.to_owned(), touch);
        touch
    }
}

fn bodies<'m>(name: &str, program: &'m Program) -> Vec<&'m syn::Block> {
    let functions = program.module.fns.iter().filter(|item| item.sig.ident == name);
    let functions = functions.map(|item| &*item.block);
    let methods = program.module.methods().map(|method| method.function);
    let methods = methods.filter(|item| item.sig.ident == name).map(|item| &item.block);
    functions.chain(methods).collect()
}

struct Reader<'a> {
    purity: &'a mut Purity,
    program: &'a Program,
    touch: Touch,
    leaves: bool,
}

impl Reader<'_> {
    /// `self.field`, a state object.
    fn is_state(&self, receiver: &Expr) -> bool {
        let Expr::Field(field) = receiver else {
            return false;
        };
        let Member::Named(name) = &field.member else {
            return false;
        };
        let of_self = matches!(&*field.base, Expr::Path(path) if path.path.is_ident("self"));
        of_self && name != "settings" && self.program.module.state(&name.to_string()).is_some()
    }

    fn method(&mut self, call: &syn::ExprMethodCall) {
        let name = call.method.to_string();
        let own = if self.is_state(&call.receiver) || TOUCHING.contains(&name.as_str()) {
            Touch::More
        } else if name.starts_with("set_") {
            Touch::Fields
        } else {
            Touch::Nothing
        };
        self.touch = self.touch.max(own).max(self.purity.function(&name, self.program));
    }

    fn invocation(&mut self, mac: &syn::Macro) {
        match self.program.invocation(mac) {
            Some(Invocation::Matches(matches)) => {
                self.visit_expr(&matches.value);
                if let Some(guard) = &matches.guard {
                    self.visit_expr(guard);
                }
            }
            _ => self.touch = Touch::More,
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::Break(_) | Expr::Continue(_) | Expr::Return(_) | Expr::Try(_) => {
                self.leaves = true;
            }
            Expr::MethodCall(call) => self.method(call),
            _ => {}
        }
        visit::visit_expr(self, expression);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        if let Some(last) = path.path.segments.last() {
            let name = last.ident.to_string();
            self.touch = self.touch.max(self.purity.function(&name, self.program));
        }
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.invocation(mac);
    }
}

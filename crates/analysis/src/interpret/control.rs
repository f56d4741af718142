//! Blocks, branches and the ways out of them.

use syn::spanned::Spanned;
use syn::{Expr, Stmt};

use super::pattern::Subject;
use super::types::Type;
use super::value::Value;
use super::{Eval, Exit, Interpreter};
use crate::expr::Term;

impl<'p> Interpreter<'p> {
    pub(crate) fn control(&mut self, expression: &'p Expr, want: &Type) -> Eval {
        match expression {
            Expr::Block(block) => self.labelled_block(block, want),
            Expr::If(branch) => self.joined_if(expression, |this| this.branch(branch, want)),
            Expr::Match(choice) => self.joined_if(expression, |this| this.choose_arm(choice, want)),
            Expr::Loop(forever) => self.forever(forever),
            Expr::While(repeated) => self.repeat_while(repeated),
            Expr::ForLoop(each) => self.for_each(each),
            Expr::Try(attempt) => self.attempt(attempt),
            Expr::Return(exit) => self.leave(exit),
            Expr::Break(exit) => {
                let value = match &exit.expr {
                    Some(value) => self.value(value)?,
                    None => Value::Unit,
                };
                Err(Box::new(Exit::Break(label(&exit.label), value)))
            }
            Expr::Continue(exit) => Err(Box::new(Exit::Continue(label(&exit.label)))),
            other => {
                self.at(other.span());
                self.error("this expression isn't in the language")
            }
        }
    }

    /// A branch that only computes is a value with conditions in it, not a path.
    fn joined_if(&mut self, branch: &'p Expr, body: impl Fn(&mut Self) -> Eval) -> Eval {
        if self.purity.computes(branch, self.program)
            && let Some(value) = self.merged(&body)?
        {
            return Ok(value);
        }
        body(self)
    }

    fn leave(&mut self, exit: &'p syn::ExprReturn) -> Eval {
        let want = self.frame().returns.clone();
        let value = match &exit.expr {
            Some(value) => self.expression(value, &want)?,
            None => Value::Unit,
        };
        Err(Box::new(Exit::Return(value)))
    }

    fn labelled_block(&mut self, block: &'p syn::ExprBlock, want: &Type) -> Eval {
        let result = self.block(&block.block, want);
        let Some(own) = &block.label else {
            return result;
        };
        match result {
            Err(exit) => match *exit {
                Exit::Break(Some(name), value) if own.name.ident == name => Ok(value),
                other => Err(Box::new(other)),
            },
            value => value,
        }
    }

    /// The value of a block: its last expression.
    pub(crate) fn block(&mut self, block: &'p syn::Block, want: &Type) -> Eval {
        self.scoped(|this| {
            let mut value = Value::Unit;
            for (position, statement) in block.stmts.iter().enumerate() {
                let last = position + 1 == block.stmts.len();
                value = this.statement(statement, if last { want } else { &Type::Unknown })?;
            }
            Ok(value)
        })
    }

    fn statement(&mut self, statement: &'p Stmt, want: &Type) -> Eval {
        match statement {
            Stmt::Local(local) => {
                self.at(local.let_token.span);
                self.declare(local)?;
                Ok(Value::Unit)
            }
            Stmt::Expr(expression, end) => {
                let value = self.expression(expression, want)?;
                Ok(if end.is_some() { Value::Unit } else { value })
            }
            Stmt::Macro(invocation) => {
                self.invocation_statement(&invocation.mac)?;
                Ok(Value::Unit)
            }
            Stmt::Item(syn::Item::Const(item)) => {
                let want = self.resolve(&item.ty)?;
                let value = self.expression(&item.expr, &want)?;
                let value = self.coerce(value, &want)?;
                self.bind(&item.ident, value);
                Ok(Value::Unit)
            }
            Stmt::Item(item) => {
                self.at(item.span());
                self.error("an item inside a function: write it in the module")
            }
        }
    }

    fn declare(&mut self, local: &'p syn::Local) -> Eval<()> {
        let (pattern, want) = match &local.pat {
            syn::Pat::Type(typed) => (&*typed.pat, self.resolve(&typed.ty)?),
            pattern => (pattern, Type::Unknown),
        };
        let Some(start) = &local.init else {
            return self.declare_later(pattern, &want);
        };
        let value = self.expression(&start.expr, &want)?;
        let value = self.coerce(value, &want)?;
        let matched = self.match_value(pattern, value)?;
        match &start.diverge {
            None => self.implied(matched),
            Some((_, otherwise)) => {
                let bound = self.frame().locals.len();
                if self.decide(matched)? {
                    return Ok(());
                }
                self.frame().locals.truncate(bound);
                self.expression(otherwise, &Type::Unknown).map(|_| ())
            }
        }
    }

    /// Names that get their values later: until then they hold the zero of their type, where one is written.
    fn declare_later(&mut self, pattern: &'p syn::Pat, want: &Type) -> Eval<()> {
        match pattern {
            syn::Pat::Ident(name) => {
                let unset = super::fresh::zero_of(want, &mut self.terms);
                let unset = unset.filter(|_| *want != Type::Unknown).unwrap_or(Value::Unit);
                self.bind(&name.ident, unset);
                Ok(())
            }
            syn::Pat::Paren(inner) => self.declare_later(&inner.pat, want),
            syn::Pat::Tuple(names) => {
                let types = match want {
                    Type::Tuple(types) => types.as_slice(),
                    _ => &[],
                };
                names.elems.iter().enumerate().try_for_each(|(position, name)| {
                    self.declare_later(name, types.get(position).unwrap_or(&Type::Unknown))
                })
            }
            _ => self.error("a `let` without a value takes names: write each on a line of its own"),
        }
    }

    fn branch(&mut self, branch: &'p syn::ExprIf, want: &Type) -> Eval {
        let depth = self.frame().locals.len();
        let condition = self.condition(&branch.cond)?;
        self.at(branch.if_token.span);
        if self.decide(condition)? {
            let value = self.block(&branch.then_branch, want);
            self.frame().locals.truncate(depth);
            return value;
        }
        self.frame().locals.truncate(depth);
        match &branch.else_branch {
            Some((_, otherwise)) => self.expression(otherwise, want),
            None => Ok(Value::Unit),
        }
    }

    fn choose_arm(&mut self, choice: &'p syn::ExprMatch, want: &Type) -> Eval {
        let subject = self.subject(&choice.expr)?;
        for (position, arm) in choice.arms.iter().enumerate() {
            let depth = self.frame().locals.len();
            let last = position + 1 == choice.arms.len();
            self.at(arm.fat_arrow_token.spans[0]);
            if self.arm_taken(arm, &subject, last)? {
                let value = self.expression(&arm.body, want);
                self.frame().locals.truncate(depth);
                return value;
            }
            self.frame().locals.truncate(depth);
        }
        super::stop(super::Stop::Infeasible)
    }

    /// The last arm needs no decision: a `match` is exhaustive.
    fn arm_taken(&mut self, arm: &'p syn::Arm, subject: &Subject, last: bool) -> Eval<bool> {
        if let Some((_, guard)) = &arm.guard {
            let both = self.matched_guarded(&arm.pat, subject, guard)?;
            return self.decide(both);
        }
        let matched = self.match_pattern(&arm.pat, subject)?;
        if last {
            self.implied(matched)?;
            return Ok(true);
        }
        self.decide(matched)
    }

    /// Whether a pattern matches whose guard holds.
    fn matched_guarded(
        &mut self,
        pattern: &'p syn::Pat,
        subject: &Subject,
        guard: &'p Expr,
    ) -> Eval<Term> {
        if let Some(known) = self.guarded_one_by_one(pattern, subject, guard)? {
            return Ok(self.terms.bool(known));
        }
        let matched = self.before_guard(pattern, subject, guard)?;
        self.guarded_condition(true, matched, guard)
    }

    /// The same of alternatives that bind, and `None` of other patterns: the guard is asked after each that matches, and
    /// where it does not hold the next is looked at.
    fn guarded_one_by_one(
        &mut self,
        pattern: &'p syn::Pat,
        subject: &Subject,
        guard: &'p Expr,
    ) -> Eval<Option<bool>> {
        let syn::Pat::Or(alternatives) = unwrapped(pattern) else { return Ok(None) };
        for alternative in &alternatives.cases {
            let depth = self.frame().locals.len();
            let matched = self.before_guard(alternative, subject, guard)?;
            if self.terms.bool_of(matched) != Some(false) {
                if self.frame().locals.len() == depth {
                    return Ok(None);
                }
                let both = self.guarded_condition(true, matched, guard)?;
                if self.decide(both)? {
                    return Ok(Some(true));
                }
            }
            self.frame().locals.truncate(depth);
        }
        Ok(Some(false))
    }

    /// The condition under which a pattern with this guard matches.
    fn before_guard(
        &mut self,
        pattern: &'p syn::Pat,
        subject: &Subject,
        guard: &'p Expr,
    ) -> Eval<Term> {
        self.has_chosen = false;
        let matched = self.match_pattern(pattern, subject)?;
        if self.has_chosen {
            self.at(guard.span());
            return self.error(
                "this guard is asked for each alternative inside the pattern: write an arm for each of them",
            );
        }
        Ok(matched)
    }

    /// `expression?`.
    fn attempt(&mut self, attempt: &'p syn::ExprTry) -> Eval {
        let value = self.settled_value(&attempt.expr)?;
        self.at(attempt.question_token.span);
        let Value::Enum(value) = value else {
            return self
                .error(format!("`?` needs an `Option` or `Result`, not {}", value.describe()));
        };
        let good = value.is_variant(1, &mut self.terms);
        if self.decide(good)? {
            return self.payload(&value, 1);
        }
        // What it would have held otherwise is of another type than what the function returns.
        let why = value.payloads.first().cloned().flatten().unwrap_or_default();
        Err(Box::new(Exit::Return(Value::variant(&value.shape, 0, why))))
    }

    /// The first field of a variant the value is known to be.
    pub(crate) fn payload(&self, value: &super::value::EnumValue, variant: usize) -> Eval {
        let fields = value.payloads.get(variant).and_then(Option::as_ref);
        match fields.and_then(|fields| fields.first()) {
            Some(field) => Ok(field.clone()),
            None => self.error("this value isn't known here: match on it"),
        }
    }

    fn invocation_statement(&mut self, mac: &'p syn::Macro) -> Eval<()> {
        self.at_path(&mac.path);
        match self.program.invocation(mac) {
            Some(super::program::Invocation::Log(log)) => {
                self.effect()?;
                log.values.iter().try_for_each(|value| self.value(value).map(|_| ()))
            }
            _ => self.error("this macro isn't in the language: write `matches!` or `log!`"),
        }
    }

    /// The condition of `matches!`.
    pub(crate) fn matches(
        &mut self,
        matches: &'p anabranch_language::macros::Matches,
    ) -> Eval<Term> {
        let subject = self.subject(&matches.value)?;
        self.scoped(|this| match &matches.guard {
            Some(guard) => this.matched_guarded(&matches.pattern, &subject, guard),
            None => this.match_pattern(&matches.pattern, &subject),
        })
    }
}

/// The pattern inside brackets.
fn unwrapped(pattern: &syn::Pat) -> &syn::Pat {
    match pattern {
        syn::Pat::Paren(inner) => unwrapped(&inner.pat),
        other => other,
    }
}

fn label(label: &Option<syn::Lifetime>) -> Option<String> {
    label.as_ref().map(|label| label.ident.to_string())
}

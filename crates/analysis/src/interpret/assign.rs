//! Assignment.

use syn::{BinOp, Expr};

use super::types::Type;
use super::value::{Step, Value};
use super::{Eval, Interpreter};
use crate::interpret::operators::arithmetic_of;

/// Paths on which a line is asked for faults: a line that is right on these is taken as right.
const FAULT_QUESTIONS: u32 = 8;

impl<'p> Interpreter<'p> {
    pub(crate) fn assign(&mut self, assign: &'p syn::ExprAssign) -> Eval {
        if matches!(*assign.left, Expr::Infer(_)) {
            self.value(&assign.right)?;
            return Ok(Value::Unit);
        }
        if let Expr::Tuple(targets) = &*assign.left {
            return self.assign_tuple(targets, &assign.right);
        }
        let want = self.type_at(&assign.left)?;
        let value = self.expression(&assign.right, &want)?;
        self.at(assign.eq_token.span);
        self.store(&assign.left, value)?;
        Ok(Value::Unit)
    }

    /// The type of what a place holds now.
    fn type_at(&mut self, target: &'p Expr) -> Eval<Type> {
        let Some(place) = self.place_of(target)? else {
            return Ok(Type::Unknown);
        };
        let value = self.read(&place)?;
        Ok(self.type_of(&value))
    }

    fn assign_tuple(&mut self, targets: &'p syn::ExprTuple, right: &'p Expr) -> Eval {
        let value = self.settled_value(right)?;
        let Value::Tuple(parts) = value else {
            return self.error(format!("{} isn't a tuple", value.describe()));
        };
        for (target, part) in targets.elems.iter().zip(parts.iter()) {
            self.store(target, part.clone())?;
        }
        Ok(Value::Unit)
    }

    fn store(&mut self, target: &'p Expr, value: Value) -> Eval<()> {
        if matches!(target, Expr::Infer(_)) {
            return Ok(());
        }
        let Some(place) = self.place_of(target)? else {
            return self.error("this can't be assigned to: write `let mut` and assign to that");
        };
        let old = self.read(&place)?;
        let value = self.like(value, &old)?;
        self.write(&place, value)
    }

    /// `a += b` and the like.
    pub(crate) fn compound(&mut self, binary: &'p syn::ExprBinary) -> Eval {
        let Some(operator) = arithmetic_of(&binary.op) else {
            return self.error("this operator isn't in the language");
        };
        let want = match operator {
            BinOp::Shl(_) | BinOp::Shr(_) => Type::Unknown,
            _ => self.type_at(&binary.left)?,
        };
        let right = self.expression(&binary.right, &want)?;
        let right = self.settled(right)?;
        self.at(syn::spanned::Spanned::span(&binary.op));
        let Some(mut place) = self.place_of(&binary.left)? else {
            return self.error("this can't be assigned to: write `let mut` and assign to that");
        };
        if let Value::Reference(target) = self.read(&place)? {
            place = target;
        }
        let old = self.read(&place)?;
        let old = self.settled(old)?;
        let new = self.operate(&operator, old, right)?;
        self.write(&place, new)?;
        Ok(Value::Unit)
    }

    /// The step to an element, known to be inside from here on.
    pub(crate) fn element_step(&mut self, index: Value, length: usize) -> Eval<Step> {
        let index = self.settled(index)?;
        if let Some(known) = self.known_number(&index) {
            return match usize::try_from(known) {
                Ok(known) if known < length => Ok(Step::Index(known)),
                _ => self.out_of_range(known, length),
            };
        }
        let Value::Scalar(_, term) = index else {
            return self.error(format!("{} can't be an index", index.describe()));
        };
        self.guarded()?;
        let end = self.terms.constant(length as u128, self.terms.width(term));
        let inside = self.terms.binary(crate::expr::Binary::LessUnsigned, term, end);
        self.require(inside, || format!("the index can be past the end of {length} elements"))?;
        Ok(Step::Symbolic(term))
    }

    fn out_of_range<T>(&mut self, index: u128, length: usize) -> Eval<T> {
        self.effect()?;
        let message = format!("index {index} is past the end of {length} elements");
        self.warn(message);
        super::stop(super::Stop::Infeasible)
    }

    /// Goes on only with packets that meet the condition; a warning where some don't.
    pub(crate) fn require(
        &mut self,
        condition: crate::expr::Term,
        otherwise: impl FnOnce() -> String,
    ) -> Eval<()> {
        let failing = self.terms.not(condition);
        self.warn_if(failing, otherwise)?;
        self.implied(condition)
    }

    /// Warns where a fault is possible. Each line is asked about a few times and warned of once.
    pub(crate) fn warn_if(
        &mut self,
        fault: crate::expr::Term,
        message: impl FnOnce() -> String,
    ) -> Eval<()> {
        let asked = self.faults.get(&self.line).copied().unwrap_or(0);
        if asked >= FAULT_QUESTIONS || self.known(fault) == Some(false) {
            return Ok(());
        }
        let possible = self.certainly_possible(fault)?;
        let asked = if possible { FAULT_QUESTIONS } else { asked + 1 };
        self.faults.insert(self.line, asked);
        if possible {
            self.warn(message());
        }
        Ok(())
    }

    /// Reports something that can go wrong on the line being executed.
    pub(crate) fn warn(&mut self, message: String) {
        self.run.warnings.insert(crate::path::Warning { line: self.line, message });
    }
}

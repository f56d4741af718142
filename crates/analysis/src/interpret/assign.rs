//! Assignment.

use syn::{BinOp, Expr};

use super::types::Type;
use super::value::Value;
use super::{Eval, Here, Interpreter};
use crate::interpret::operators::arithmetic_of;

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
        self.here = Here::Operator(&binary.op);
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
}

//! Assignment.

use syn::{BinOp, Expr, Member, UnOp};

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

    /// The type of what a place holds now. Which element it is does not matter: an index is evaluated once, after
    /// the right side.
    fn type_at(&mut self, target: &'p Expr) -> Eval<Type> {
        Ok(match target {
            Expr::Paren(inner) => self.type_at(&inner.expr)?,
            Expr::Group(inner) => self.type_at(&inner.expr)?,
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => {
                self.type_at(&unary.expr)?
            }
            Expr::Index(index) => match self.type_at(&index.expr)? {
                Type::Array(element, _) | Type::Slice(element) => *element,
                _ => Type::Unknown,
            },
            Expr::Field(field) => match (self.type_at(&field.base)?, &field.member) {
                (Type::Struct(shape), Member::Named(name)) => {
                    let at = shape.position(&name.to_string());
                    at.map_or(Type::Unknown, |at| shape.fields[at].1.clone())
                }
                (Type::Tuple(types), Member::Unnamed(at)) => {
                    types.get(at.index as usize).cloned().unwrap_or(Type::Unknown)
                }
                _ => Type::Unknown,
            },
            Expr::Path(_) => match self.place_of(target)? {
                Some(place) => {
                    let value = self.read(&place)?;
                    self.type_of(&value)
                }
                None => Type::Unknown,
            },
            _ => Type::Unknown,
        })
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

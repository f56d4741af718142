//! Literals take the type of what they meet; `as` converts.

use std::rc::Rc;

use syn::Expr;

use super::literals;
use super::types::{Scalar, Type};
use super::value::{EnumValue, Slot, Tag, Value};
use super::{Eval, Interpreter};
use crate::expr::{Binary, Node, Term, mask};

impl<'p> Interpreter<'p> {
    /// The value with the type written for it: literals get their width.
    pub(crate) fn coerce(&mut self, value: Value, want: &Type) -> Eval {
        match (value, want) {
            (value, Type::Unknown) => Ok(value),
            (value, Type::Scalar(scalar)) if value.is_untyped() => {
                match literals::bits(&value, scalar.width(), &mut self.terms) {
                    Some(term) => Ok(Value::Scalar(*scalar, term)),
                    None => Ok(value),
                }
            }
            (Value::Scalar(have, _), Type::Scalar(want)) if have != *want => {
                let (have, want) = (have.name(), want.name());
                self.error(format!(
                    "a `{have}` stands where a `{want}` is needed: write `as {want}`"
                ))
            }
            (Value::Tuple(parts), Type::Tuple(types)) => {
                Ok(Value::tuple(self.coerce_each(&parts, types.iter())?))
            }
            (Value::Array(items), Type::Array(element, _) | Type::Slice(element)) => {
                let element = std::iter::repeat(&**element);
                Ok(Value::array(self.coerce_each(&items, element)?))
            }
            (Value::Enum(value), Type::Option(some)) => {
                let types = [vec![], vec![(**some).clone()]];
                self.coerce_variants(value, &types)
            }
            (Value::Enum(value), Type::Result(ok, error)) => {
                let types = [vec![(**error).clone()], vec![(**ok).clone()]];
                self.coerce_variants(value, &types)
            }
            (value, _) => Ok(value),
        }
    }

    fn coerce_each<'t>(
        &mut self,
        values: &[Value],
        types: impl Iterator<Item = &'t Type>,
    ) -> Eval<Vec<Value>> {
        values.iter().zip(types).map(|(value, want)| self.coerce(value.clone(), want)).collect()
    }

    fn coerce_variants(&mut self, value: EnumValue, types: &[Vec<Type>]) -> Eval {
        let mut payloads = Vec::new();
        for (payload, types) in value.payloads.iter().zip(types) {
            payloads.push(match payload {
                Some(fields) => Some(self.coerce_each(fields, types.iter())?),
                None => None,
            });
        }
        Ok(Value::Enum(EnumValue { payloads: Rc::new(payloads), ..value }))
    }

    /// An integer that has met a type: so has the local, from there on, for which none was written.
    pub(crate) fn met(&mut self, expression: &Expr, value: Value, of: &Type) -> Eval {
        if !value.is_untyped() || !matches!(of, Type::Scalar(_)) {
            return Ok(value);
        }
        let value = self.coerce(value, of)?;
        if let Some(local) = self.untyped(expression) {
            local.value.replace(value.clone());
        }
        Ok(value)
    }

    /// The local that an expression is, if it holds an integer that has not met a type.
    pub(super) fn untyped(&mut self, expression: &Expr) -> Option<Slot> {
        let local = match expression {
            Expr::Paren(inner) => return self.untyped(&inner.expr),
            Expr::Group(inner) => return self.untyped(&inner.expr),
            Expr::Path(path) => self.local(path.path.get_ident()?)?,
            _ => return None,
        };
        let is_untyped = local.value.borrow().is_untyped();
        is_untyped.then_some(local)
    }

    /// Gives the literals of `value` the types that `other` has in the same places.
    pub(crate) fn like(&mut self, value: Value, other: &Value) -> Eval {
        if !has_literal(&value) {
            return Ok(value);
        }
        let want = self.type_of(other);
        self.coerce(value, &want)
    }

    /// The type of a value, as far as it shows.
    pub(crate) fn type_of(&mut self, value: &Value) -> Type {
        match value {
            Value::Unit => Type::Unit,
            Value::Bool(_) => Type::Bool,
            Value::Scalar(scalar, _) => Type::Scalar(*scalar),
            Value::Tuple(parts) => {
                Type::Tuple(parts.iter().map(|part| self.type_of(part)).collect())
            }
            Value::Array(items) => {
                let element = items.first().map_or(Type::Unknown, |item| self.type_of(item));
                Type::Array(Box::new(element), items.len())
            }
            Value::Struct(shape, _) => Type::Struct(shape.clone()),
            Value::Enum(value) => self.type_of_enum(value),
            Value::Reference(place) => match super::place::read(place, &mut self.terms) {
                Some(value) => self.type_of(&value),
                None => Type::Unknown,
            },
            _ => Type::Unknown,
        }
    }

    fn type_of_enum(&mut self, value: &EnumValue) -> Type {
        let mut field = |variant: usize| match &value.payloads[variant] {
            Some(fields) => fields.first().map_or(Type::Unknown, |field| self.type_of(field)),
            None => Type::Unknown,
        };
        match value.shape.name.as_str() {
            "Option" => Type::Option(Box::new(field(1))),
            "Result" => {
                let error = field(0);
                Type::Result(Box::new(field(1)), Box::new(error))
            }
            _ => Type::Enum(value.shape.clone()),
        }
    }

    /// `value as T`.
    pub(crate) fn cast(&mut self, cast: &'p syn::ExprCast) -> Eval {
        let want = self.resolve(&cast.ty)?;
        let value = self.settled_value(&cast.expr)?;
        self.at(cast.as_token.span);
        let Type::Scalar(scalar) = want else {
            return match (&want, &value) {
                (Type::Bool, Value::Bool(_)) | (Type::Unknown, _) => Ok(value),
                _ => self.error("`as` converts between integers only"),
            };
        };
        let term = match value {
            Value::Bool(term) => self.terms.from_bool(term, scalar.width()),
            Value::Scalar(from, term) if from.is_integer() => self.converted(from, term, scalar),
            Value::Enum(value) if value.shape.is_plain() => self.discriminant(&value, scalar),
            other => match literals::bits(&other, scalar.width(), &mut self.terms) {
                Some(term) => term,
                None => {
                    let message = format!("{} can't be converted with `as`", other.describe());
                    return self.error(message);
                }
            },
        };
        Ok(Value::Scalar(scalar, term))
    }

    /// An integer in as many bits as `to` has. One that was narrowed before is itself again where it has fitted:
    /// `u32::from(slot as u16)` is `slot` where there are no more slots.
    pub(super) fn converted(&mut self, from: Scalar, term: Term, to: Scalar) -> Term {
        let (narrow, width) = (from.width(), to.width());
        if !from.is_signed()
            && let Node::Extract { low: 0, of, .. } = *self.terms.node(term)
            && self.terms.width(of) == width
        {
            let last = self.terms.constant(mask(narrow), width);
            let exceeds = self.terms.binary(Binary::LessUnsigned, last, of);
            if self.explorer.refutes(exceeds, &self.terms) {
                return of;
            }
        }
        self.terms.extend(term, width, from.is_signed())
    }

    /// The number of a field-less variant.
    fn discriminant(&mut self, value: &EnumValue, scalar: Scalar) -> Term {
        let width = scalar.width();
        let variants = &value.shape.variants;
        if let Tag::Known(variant) = value.tag {
            return self.terms.constant(variants[variant].discriminant as u128, width);
        }
        let number = value.number(&mut self.terms);
        let counted = variants.iter().zip(0..).all(|(variant, n)| variant.discriminant == n);
        if counted {
            return self.terms.extend(number, width, false);
        }
        let mut chosen = self.terms.constant(0, width);
        for (position, variant) in variants.iter().enumerate() {
            let here = value.is_variant(position, &mut self.terms);
            let this = self.terms.constant(variant.discriminant as u128, width);
            chosen = self.terms.ite(here, this, chosen);
        }
        chosen
    }

    /// The term of a scalar or boolean; a literal counts as `i32`.
    pub(crate) fn term_of(&mut self, value: &Value) -> Option<Term> {
        match value {
            Value::Bool(term) | Value::Scalar(_, term) => Some(*term),
            untyped => literals::bits(untyped, 32, &mut self.terms),
        }
    }

    /// The term of a value of this scalar type.
    pub(crate) fn scalar(&mut self, value: Value, want: Scalar) -> Eval<Term> {
        let value = self.settled(value)?;
        match self.coerce(value, &Type::Scalar(want))? {
            Value::Scalar(_, term) => Ok(term),
            other => {
                let (have, want) = (other.describe(), want.name());
                self.error(format!("{have} stands where a `{want}` is needed"))
            }
        }
    }
}

/// Whether a literal without a type is left in the value.
fn has_literal(value: &Value) -> bool {
    match value {
        Value::Literal(_) | Value::OneOf(_) => true,
        Value::Tuple(parts) | Value::Array(parts) => parts.iter().any(has_literal),
        Value::Enum(value) => {
            value.payloads.iter().flatten().any(|fields| fields.iter().any(has_literal))
        }
        _ => false,
    }
}

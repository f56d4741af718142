//! Operators.

use syn::spanned::Spanned;
use syn::{BinOp, Expr, UnOp};

use super::literals::{self, alike};
use super::place;
use super::types::{Scalar, Type};
use super::value::Value;
use super::{Eval, Here, Interpreter};
use crate::expr::{Binary, Term};

impl<'p> Interpreter<'p> {
    pub(crate) fn unary(&mut self, unary: &'p syn::ExprUnary, want: &Type) -> Eval {
        let inner = self.expression(&unary.expr, want)?;
        let inner = self.settled(inner)?;
        match (&unary.op, inner) {
            (UnOp::Deref(_), value) => Ok(value),
            (UnOp::Not(_), Value::Bool(term)) => Ok(Value::Bool(self.terms.not(term))),
            (UnOp::Not(_), Value::Scalar(scalar, term)) if scalar.is_integer() => {
                Ok(Value::Scalar(scalar, self.terms.complement(term)))
            }
            (UnOp::Not(_), value) if value.is_untyped() => {
                self.of_untyped(value.clone(), value, |number, _| alike([number; 2], !number))
            }
            (UnOp::Neg(_), value) if value.is_untyped() => {
                self.of_untyped(value.clone(), value, |number, _| number.checked_neg())
            }
            (UnOp::Neg(_), Value::Scalar(scalar, term)) if scalar.is_integer() => {
                Ok(Value::Scalar(scalar, self.terms.negate(term)))
            }
            (operator, value) => {
                self.at(operator.span());
                self.error(format!("this operator has no meaning on {}", value.describe()))
            }
        }
    }

    pub(crate) fn binary_expression(&mut self, binary: &'p syn::ExprBinary, want: &Type) -> Eval {
        match binary.op {
            BinOp::And(_) => return self.connective(true, &binary.left, &binary.right),
            BinOp::Or(_) => return self.connective(false, &binary.left, &binary.right),
            _ if arithmetic_of(&binary.op).is_some() => return self.compound(binary),
            _ => {}
        }
        let wanted = match is_comparison(&binary.op) {
            true => &Type::Unknown,
            false => want,
        };
        let is_shift = matches!(binary.op, BinOp::Shl(_) | BinOp::Shr(_));
        let is_first = !is_shift && self.is_untyped(&binary.left) && changes_nothing(&binary.right);
        let (left, right) = match is_first {
            // It is of the type of what stands beside it.
            true => {
                let right = self.settled_value_as(&binary.right, wanted)?;
                let want = match self.type_of(&right) {
                    Type::Unknown => wanted.clone(),
                    known => known,
                };
                (self.settled_value_as(&binary.left, &want)?, right)
            }
            false => {
                let left = self.settled_value_as(&binary.left, wanted)?;
                let want = if is_shift { Type::Unknown } else { self.type_of(&left) };
                let right = self.settled_value_as(&binary.right, &want)?;
                (left, right)
            }
        };
        let (left, right) = match binary.op {
            BinOp::Shl(_) | BinOp::Shr(_) => (self.met(&binary.left, left, wanted)?, right),
            _ => {
                let of = self.type_of(&right);
                let left = self.met(&binary.left, left, &of)?;
                // Of two integers an operator makes one of the same type.
                (self.met(&binary.left, left, wanted)?, self.met(&binary.right, right, wanted)?)
            }
        };
        self.here = Here::Operator(&binary.op);
        self.operate(&binary.op, left, right)
    }

    /// Whether an expression is made of nothing but numbers that have met no type.
    fn is_untyped(&mut self, expression: &Expr) -> bool {
        match expression {
            Expr::Lit(literal) => matches!(literal.lit, syn::Lit::Int(_)),
            Expr::Paren(inner) => self.is_untyped(&inner.expr),
            Expr::Group(inner) => self.is_untyped(&inner.expr),
            Expr::Unary(unary) => self.is_untyped(&unary.expr),
            Expr::Binary(binary) => {
                arithmetic_of(&binary.op).is_none()
                    && self.is_untyped(&binary.left)
                    && self.is_untyped(&binary.right)
            }
            Expr::Path(_) => self.untyped(expression).is_some(),
            _ => false,
        }
    }

    /// `&&` and `||`. The right side joins the condition where evaluating it early cannot be
    /// noticed; otherwise the left side decides first.
    fn connective(&mut self, both: bool, left: &'p Expr, right: &'p Expr) -> Eval {
        let first = self.condition(left)?;
        let term = self.guarded_condition(both, first, right)?;
        Ok(Value::Bool(term))
    }

    /// `first && second` (or `||`) where `second` is an expression.
    pub(crate) fn guarded_condition(
        &mut self,
        both: bool,
        first: Term,
        second: &'p Expr,
    ) -> Eval<Term> {
        if self.terms.bool_of(first).is_none() && self.purity.touches(second, self.program) {
            return match self.decide(first)? == both {
                true => self.condition(second),
                false => Ok(self.terms.bool(!both)),
            };
        }
        self.connected(both, first, |this| this.condition(second))
    }

    pub(crate) fn connected(
        &mut self,
        both: bool,
        first: Term,
        second: impl Fn(&mut Self) -> Eval<Term>,
    ) -> Eval<Term> {
        if let Some(known) = self.terms.bool_of(first) {
            return if known == both { second(self) } else { Ok(first) };
        }
        if let Some(second) = self.ahead(&second)? {
            let operator = if both { Binary::Both } else { Binary::Either };
            return Ok(self.terms.binary(operator, first, second));
        }
        match self.decide(first)? == both {
            true => second(self),
            false => Ok(self.terms.bool(!both)),
        }
    }

    /// An operator other than `&&`, `||` and assignments.
    pub(crate) fn operate(&mut self, operator: &BinOp, left: Value, right: Value) -> Eval {
        if is_comparison(operator) {
            return self.compare(operator, left, right).map(Value::Bool);
        }
        match (&left, &right) {
            (Value::Bool(a), Value::Bool(b)) => self.logic(operator, *a, *b),
            _ if left.is_untyped() && right.is_untyped() => {
                self.of_untyped(left, right, |a, b| literals::arithmetic(operator, a, b))
            }
            _ if matches!(operator, BinOp::Shl(_) | BinOp::Shr(_)) => {
                self.shift(operator, left, right)
            }
            _ => {
                let (scalar, a, b) = self.same_integers(left, right)?;
                self.arithmetic(operator, scalar, a, b)
            }
        }
    }

    fn logic(&mut self, operator: &BinOp, a: Term, b: Term) -> Eval {
        Ok(Value::Bool(match operator {
            BinOp::BitAnd(_) => self.terms.both(a, b),
            BinOp::BitOr(_) => self.terms.either(a, b),
            BinOp::BitXor(_) => {
                let same = self.terms.equal(a, b);
                self.terms.not(same)
            }
            _ => return self.error("this operator has no meaning on `bool`"),
        }))
    }

    /// Two integers brought to one type.
    pub(crate) fn same_integers(
        &mut self,
        left: Value,
        right: Value,
    ) -> Eval<(Scalar, Term, Term)> {
        let (a, b) = self.unified(left, right)?;
        match (a, b) {
            (Value::Scalar(s, a), Value::Scalar(t, b)) if s == t && s.is_integer() => Ok((s, a, b)),
            (a, b) => {
                let (a, b) = (a.describe(), b.describe());
                self.error(format!("{a} and {b} don't go together: convert one with `as`"))
            }
        }
    }

    /// Gives a literal the type of what it meets.
    pub(crate) fn unified(&mut self, left: Value, right: Value) -> Eval<(Value, Value)> {
        let (left, right) = (self.settled(left)?, self.settled(right)?);
        let left = self.like(left, &right)?;
        let right = self.like(right, &left)?;
        Ok((left, right))
    }

    fn arithmetic(&mut self, operator: &BinOp, scalar: Scalar, a: Term, b: Term) -> Eval {
        let signed = scalar.is_signed();
        let operator = match operator {
            BinOp::Add(_) => Binary::Add,
            BinOp::Sub(_) => Binary::Sub,
            BinOp::Mul(_) => Binary::Mul,
            BinOp::Div(_) if signed => Binary::DivSigned,
            BinOp::Div(_) => Binary::DivUnsigned,
            BinOp::Rem(_) if signed => Binary::RemSigned,
            BinOp::Rem(_) => Binary::RemUnsigned,
            BinOp::BitAnd(_) => Binary::And,
            BinOp::BitOr(_) => Binary::Or,
            BinOp::BitXor(_) => Binary::Xor,
            _ => return self.error("this operator isn't in the language"),
        };
        if matches!(operator, Binary::DivSigned | Binary::DivUnsigned)
            || matches!(operator, Binary::RemSigned | Binary::RemUnsigned)
        {
            self.check_divisor(b)?;
        }
        Ok(Value::Scalar(scalar, self.terms.binary(operator, a, b)))
    }

    /// Division by zero is defined, and rarely meant.
    fn check_divisor(&mut self, divisor: Term) -> Eval<()> {
        let zero = self.terms.constant(0, self.terms.width(divisor));
        let is_zero = self.terms.equal(divisor, zero);
        if self.terms.bool_of(is_zero) != Some(false) {
            self.guarded()?;
            if self.explorer.explores() {
                let message = "the divisor can be zero: the quotient is then zero";
                self.warn_if(is_zero, || message.to_owned())?;
            }
        }
        Ok(())
    }

    fn shift(&mut self, operator: &BinOp, left: Value, right: Value) -> Eval {
        if left.is_untyped() {
            return self.error("the type of this literal isn't known: write it, as in `1u32`");
        }
        let Value::Scalar(scalar, a) = left else {
            return self.error(format!("{} can't be shifted", left.describe()));
        };
        let by = match right {
            Value::Scalar(_, by) => self.terms.extend(by, scalar.width(), false),
            other => match literals::bits(&other, scalar.width(), &mut self.terms) {
                Some(by) => by,
                None => return self.error(format!("{} can't be shifted by", other.describe())),
            },
        };
        let operator = match operator {
            BinOp::Shl(_) => Binary::ShiftLeft,
            _ if scalar.is_signed() => Binary::ShiftRightSigned,
            _ => Binary::ShiftRight,
        };
        Ok(Value::Scalar(scalar, self.terms.binary(operator, a, by)))
    }

    fn compare(&mut self, operator: &BinOp, left: Value, right: Value) -> Eval<Term> {
        let (left, right) = self.unified(left, right)?;
        if matches!(operator, BinOp::Eq(_) | BinOp::Ne(_)) {
            let same = self.equality(&left, &right)?;
            return Ok(match operator {
                BinOp::Ne(_) => self.terms.not(same),
                _ => same,
            });
        }
        let (a, b) = match operator {
            BinOp::Gt(_) | BinOp::Ge(_) => (right, left),
            _ => (left, right),
        };
        let strict = matches!(operator, BinOp::Lt(_) | BinOp::Gt(_));
        self.less(strict, &a, &b)
    }

    /// The condition under which two values are equal.
    pub(crate) fn equality(&mut self, left: &Value, right: &Value) -> Eval<Term> {
        if let (Value::Payload(bytes), Value::Array(items))
        | (Value::Array(items), Value::Payload(bytes)) = (left, right)
        {
            return self.payload_is(*bytes, items);
        }
        match place::equal(left, right, &mut self.terms) {
            Some(same) => Ok(same),
            None => {
                let (a, b) = (left.describe(), right.describe());
                self.error(format!("{a} and {b} can't be compared: compare values of one type"))
            }
        }
    }

    /// `a < b`, or `a <= b`.
    pub(crate) fn less(&mut self, strict: bool, a: &Value, b: &Value) -> Eval<Term> {
        if let Some(less) =
            literals::compared(a, b, &mut self.terms, |a, b| a < b || !strict && a == b)
        {
            return Ok(less);
        }
        match (a, b) {
            (Value::Bool(a), Value::Bool(b)) => {
                let (a, b) = (self.terms.from_bool(*a, 8), self.terms.from_bool(*b, 8));
                Ok(self.less_terms(strict, false, a, b))
            }
            (Value::Scalar(s, a), Value::Scalar(t, b)) if s == t => {
                Ok(self.less_terms(strict, s.is_signed(), *a, *b))
            }
            (Value::Tuple(a), Value::Tuple(b)) | (Value::Array(a), Value::Array(b)) => {
                self.less_lexical(strict, a, b)
            }
            _ => {
                let (a, b) = (a.describe(), b.describe());
                self.error(format!("{a} and {b} have no order: compare their numbers"))
            }
        }
    }

    fn less_lexical(&mut self, strict: bool, a: &[Value], b: &[Value]) -> Eval<Term> {
        let mut result = self.terms.bool(!strict);
        for (x, y) in a.iter().zip(b).rev() {
            let (x, y) = self.unified(x.clone(), y.clone())?;
            let less = self.less(true, &x, &y)?;
            let same = self.equality(&x, &y)?;
            let rest = self.terms.both(same, result);
            result = self.terms.either(less, rest);
        }
        Ok(result)
    }

    pub(crate) fn less_terms(&mut self, strict: bool, signed: bool, a: Term, b: Term) -> Term {
        let operator = match (strict, signed) {
            (true, false) => Binary::LessUnsigned,
            (true, true) => Binary::LessSigned,
            (false, false) => Binary::LessEqualUnsigned,
            (false, true) => Binary::LessEqualSigned,
        };
        self.terms.binary(operator, a, b)
    }
}

/// Whether certainly no local is another one after an expression.
fn changes_nothing(expression: &Expr) -> bool {
    match expression {
        Expr::Lit(_) | Expr::Path(_) => true,
        Expr::Paren(inner) => changes_nothing(&inner.expr),
        Expr::Group(inner) => changes_nothing(&inner.expr),
        Expr::Cast(cast) => changes_nothing(&cast.expr),
        Expr::Field(field) => changes_nothing(&field.base),
        Expr::Unary(unary) => changes_nothing(&unary.expr),
        Expr::Reference(inner) => inner.mutability.is_none() && changes_nothing(&inner.expr),
        Expr::Index(index) => changes_nothing(&index.expr) && changes_nothing(&index.index),
        Expr::Binary(binary) => {
            arithmetic_of(&binary.op).is_none()
                && changes_nothing(&binary.left)
                && changes_nothing(&binary.right)
        }
        Expr::Call(call) => call.args.iter().all(changes_nothing),
        Expr::MethodCall(call) => {
            changes_nothing(&call.receiver) && call.args.iter().all(changes_nothing)
        }
        _ => false,
    }
}

fn is_comparison(operator: &BinOp) -> bool {
    use BinOp::*;
    matches!(operator, Eq(_) | Ne(_) | Lt(_) | Le(_) | Gt(_) | Ge(_))
}

/// The operator of a compound assignment.
pub(crate) fn arithmetic_of(operator: &BinOp) -> Option<BinOp> {
    use BinOp::*;
    Some(match operator {
        AddAssign(token) => Add(syn::Token![+](token.spans[0])),
        SubAssign(token) => Sub(syn::Token![-](token.spans[0])),
        MulAssign(token) => Mul(syn::Token![*](token.spans[0])),
        DivAssign(token) => Div(syn::Token![/](token.spans[0])),
        RemAssign(token) => Rem(syn::Token![%](token.spans[0])),
        BitAndAssign(token) => BitAnd(syn::Token![&](token.spans[0])),
        BitOrAssign(token) => BitOr(syn::Token![|](token.spans[0])),
        BitXorAssign(token) => BitXor(syn::Token![^](token.spans[0])),
        ShlAssign(token) => Shl(syn::Token![<<]([token.spans[0]; 2])),
        ShrAssign(token) => Shr(syn::Token![>>]([token.spans[0]; 2])),
        _ => return None,
    })
}

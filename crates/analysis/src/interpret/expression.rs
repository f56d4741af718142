//! Expressions.

use syn::{Expr, Lit};

use super::place;
use super::program::Invocation;
use super::types::{Scalar, Type};
use super::value::{LocalCell, Place, Range, Step, Value};
use super::{Eval, Exit, Interpreter};
use crate::expr::Term;

impl<'p> Interpreter<'p> {
    /// The value of an expression; literals take the type `want` where it is known.
    pub(crate) fn expression(&mut self, expression: &'p Expr, want: &Type) -> Eval {
        match expression {
            Expr::Lit(literal) => self.literal(&literal.lit, want),
            Expr::Path(path) => {
                let value = self.path_value(path)?;
                self.met(expression, value, want)
            }
            Expr::Paren(inner) => self.expression(&inner.expr, want),
            Expr::Group(inner) => self.expression(&inner.expr, want),
            Expr::Unary(unary) => self.unary(unary, want),
            Expr::Binary(binary) => self.binary_expression(binary, want),
            Expr::Assign(assign) => self.assign(assign),
            Expr::Cast(cast) => self.cast(cast),
            Expr::Reference(reference) => self.reference(reference, want),
            Expr::Field(field) => self.field(field),
            Expr::Index(index) => self.index(index),
            Expr::Tuple(tuple) => self.tuple(tuple, want),
            Expr::Array(array) => self.array_literal(array, want),
            Expr::Repeat(repeat) => self.repeat(repeat, want),
            Expr::Struct(literal) => self.struct_literal(literal, want),
            Expr::Range(range) => self.range(range, want),
            Expr::Call(call) => self.call(call, want),
            Expr::MethodCall(call) => self.method_call(call, want),
            Expr::Closure(closure) => Ok(self.closure(closure)),
            Expr::Macro(invocation) => self.invocation(&invocation.mac),
            Expr::Let(_) => Ok(Value::Bool(self.condition(expression)?)),
            _ => self.control(expression, want),
        }
    }

    /// An expression whose type is of no consequence.
    pub(crate) fn value(&mut self, expression: &'p Expr) -> Eval {
        self.expression(expression, &Type::Unknown)
    }

    /// The value of an expression, references followed.
    pub(crate) fn settled_value(&mut self, expression: &'p Expr) -> Eval {
        self.settled_value_as(expression, &Type::Unknown)
    }

    /// The same, of the type that is wanted.
    pub(crate) fn settled_value_as(&mut self, expression: &'p Expr, want: &Type) -> Eval {
        let value = self.expression(expression, want)?;
        self.settled(value)
    }

    /// Follows references.
    pub(crate) fn settled(&mut self, value: Value) -> Eval {
        match value {
            Value::Reference(place) => {
                let inner = self.read(&place)?;
                self.settled(inner)
            }
            value => Ok(value),
        }
    }

    pub(crate) fn read(&mut self, place: &Place) -> Eval {
        match place::read(place, &mut self.terms) {
            Some(value) => Ok(value),
            None => self.error("this value can't be read here: copy it into a local first"),
        }
    }

    pub(crate) fn write(&mut self, place: &Place, value: Value) -> Eval<()> {
        self.guarded()?;
        self.note_write(&target_slot(place));
        match place::write(place, value, self.line(), &mut self.terms) {
            Some(()) => Ok(()),
            None => self.error("this place can't be written: write to a local and store that"),
        }
    }

    pub(crate) fn literal(&mut self, literal: &Lit, want: &Type) -> Eval {
        Ok(match literal {
            Lit::Bool(literal) => Value::Bool(self.terms.bool(literal.value)),
            Lit::Int(literal) => return self.integer_literal(literal, want),
            Lit::Byte(literal) => self.byte(literal.value()),
            Lit::ByteStr(literal) => {
                Value::array(literal.value().iter().map(|byte| self.byte(*byte)).collect())
            }
            Lit::Str(literal) => Value::Text(literal.value().into()),
            _ => {
                self.at(literal.span());
                return self.error("this literal isn't in the language: write an integer");
            }
        })
    }

    fn byte(&mut self, byte: u8) -> Value {
        Value::Scalar(Scalar::Unsigned(8), self.terms.constant(u128::from(byte), 8))
    }

    fn integer_literal(&mut self, literal: &syn::LitInt, want: &Type) -> Eval {
        let digits = literal.base10_digits();
        let number = match digits.starts_with('-') {
            true => digits.parse::<i128>().map(|number| number as u128),
            false => digits.parse::<u128>(),
        };
        let Ok(number) = number else {
            self.at(literal.span());
            return self.error("this literal is too large: 128 bits at most");
        };
        let scalar = match (Scalar::named(literal.suffix()), want) {
            (Some(scalar), _) => scalar,
            (None, Type::Scalar(scalar)) => *scalar,
            _ => return Ok(Value::Literal(number as i128)),
        };
        Ok(Value::Scalar(scalar, self.terms.constant(number, scalar.width())))
    }

    /// The term of a boolean expression.
    pub(crate) fn condition(&mut self, expression: &'p Expr) -> Eval<Term> {
        if let Expr::Let(binding) = expression {
            return self.let_condition(binding);
        }
        let value = self.expression(expression, &Type::Bool)?;
        match self.settled(value)? {
            Value::Bool(term) => Ok(term),
            other => self.error(format!("{} stands where a `bool` is needed", other.describe())),
        }
    }

    fn reference(&mut self, reference: &'p syn::ExprReference, want: &Type) -> Eval {
        if reference.mutability.is_none() {
            let value = self.expression(&reference.expr, want)?;
            return self.settled(value);
        }
        match self.place_of(&reference.expr)? {
            Some(place) => {
                let place = self.solid(place)?;
                Ok(self.reborrow(place))
            }
            None => {
                let value = self.expression(&reference.expr, want)?;
                Ok(match value {
                    Value::Packet | Value::Context | Value::Nf | Value::State(_) => value,
                    value => Value::Reference(Place::of(LocalCell::new(value))),
                })
            }
        }
    }

    /// `&mut *r` is `r`.
    fn reborrow(&mut self, place: Place) -> Value {
        let target = place::read(&place, &mut self.terms);
        match target {
            Some(inner @ (Value::Reference(_) | Value::Packet | Value::Context)) => inner,
            _ => Value::Reference(place),
        }
    }

    /// The place an expression stands for; `None` where it is a value.
    pub(crate) fn place_of(&mut self, expression: &'p Expr) -> Eval<Option<Place>> {
        match expression {
            Expr::Paren(inner) => self.place_of(&inner.expr),
            Expr::Group(inner) => self.place_of(&inner.expr),
            Expr::Path(path) => {
                let name = path.path.get_ident();
                Ok(name.and_then(|name| self.local(name)).map(Place::of))
            }
            Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Deref(_)) => {
                self.dereferenced(&unary.expr)
            }
            Expr::Field(field) => {
                let Some(base) = self.place_of(&field.base)? else {
                    return Ok(None);
                };
                let value = self.read(&base)?;
                let value = self.settled(value)?;
                let step = self.field_step(&value, &field.member);
                Ok(step.map(|step| base.then(step)))
            }
            Expr::Index(index) => self.element_place(index),
            _ => Ok(None),
        }
    }

    fn dereferenced(&mut self, inner: &'p Expr) -> Eval<Option<Place>> {
        match self.place_of(inner)? {
            Some(place) => match self.read(&place)? {
                Value::Reference(target) => Ok(Some(target)),
                _ => Ok(Some(place)),
            },
            None => match self.value(inner)? {
                Value::Reference(target) => Ok(Some(target)),
                _ => Ok(None),
            },
        }
    }

    fn element_place(&mut self, index: &'p syn::ExprIndex) -> Eval<Option<Place>> {
        let Some(base) = self.place_of(&index.expr)? else {
            return Ok(None);
        };
        let value = self.read(&base)?;
        let Value::Array(items) = self.settled(value)? else {
            return Ok(None);
        };
        let number = self.expression(&index.index, &Type::Unknown)?;
        self.at(index.bracket_token.span.open());
        if let Value::Range(range) = &number {
            let part = self.part_within(range, items.len())?;
            return Ok(Some(match part {
                Some(part) => base.then(Step::Part(part.start, part.len())),
                None => Place::of(LocalCell::new(Value::array(Vec::new()))),
            }));
        }
        let step = self.element_step(number, items.len())?;
        Ok(Some(base.then(step)))
    }

    pub(crate) fn field_step(&self, value: &Value, member: &syn::Member) -> Option<Step> {
        let position = match (value, member) {
            (Value::Struct(shape, _), syn::Member::Named(name)) => {
                shape.position(&name.to_string())
            }
            (Value::Struct(..) | Value::Tuple(_), syn::Member::Unnamed(index)) => {
                usize::try_from(index.index).ok()
            }
            _ => None,
        };
        position.map(Step::Field)
    }

    fn field(&mut self, field: &'p syn::ExprField) -> Eval {
        let base = self.settled_value(&field.base)?;
        // Not the span of a `Member`, which is printed to tokens for it.
        self.at(match &field.member {
            syn::Member::Named(name) => name.span(),
            syn::Member::Unnamed(index) => index.span,
        });
        if matches!(base, Value::Nf)
            && let syn::Member::Named(name) = &field.member
        {
            return self.nf_field(name);
        }
        let step = self.field_step(&base, &field.member);
        let part = step.and_then(|step| place::part(&base, step, &mut self.terms));
        match part {
            Some(value) => Ok(value),
            None => self.error(format!("{} has no such field", base.describe())),
        }
    }

    fn tuple(&mut self, tuple: &'p syn::ExprTuple, want: &Type) -> Eval {
        if tuple.elems.is_empty() {
            return Ok(Value::Unit);
        }
        let mut values = Vec::new();
        for (position, element) in tuple.elems.iter().enumerate() {
            let want = match want {
                Type::Tuple(types) => types.get(position).unwrap_or(&Type::Unknown),
                _ => &Type::Unknown,
            };
            let value = self.expression(element, want)?;
            values.push(self.coerce(value, want)?);
        }
        Ok(Value::tuple(values))
    }

    fn range(&mut self, range: &'p syn::ExprRange, want: &Type) -> Eval {
        let mut bound = |bound: &'p Option<Box<Expr>>| -> Eval<Option<Value>> {
            let Some(bound) = bound else {
                return Ok(None);
            };
            let value = self.expression(bound, want)?;
            Ok(Some(self.settled(value)?))
        };
        let (start, end) = (bound(&range.start)?, bound(&range.end)?);
        let inclusive = matches!(range.limits, syn::RangeLimits::Closed(_));
        let range = Range { start, end, inclusive, step: 1, reversed: false };
        Ok(Value::Range(std::rc::Rc::new(range)))
    }

    fn invocation(&mut self, mac: &'p syn::Macro) -> Eval {
        let program = self.program;
        match program.invocation(mac) {
            Some(Invocation::Matches(matches)) => {
                self.at_path(&mac.path);
                let condition = self.matches(matches)?;
                Ok(Value::Bool(condition))
            }
            Some(Invocation::Log(log)) => {
                self.effect()?;
                for value in &log.values {
                    self.value(value)?;
                }
                Ok(Value::Unit)
            }
            None => {
                self.at_path(&mac.path);
                self.error("this macro isn't in the language: write `matches!` or `log!`")
            }
        }
    }

    /// Evaluates ahead of the condition that guards it; `None` where that could be noticed.
    pub(crate) fn ahead<T>(&mut self, body: impl FnOnce(&mut Self) -> Eval<T>) -> Eval<Option<T>> {
        let before = std::mem::replace(&mut self.ahead, true);
        let here = self.here;
        let frames = self.frames.len();
        let result = body(self);
        self.ahead = before;
        self.frames.truncate(frames);
        match result {
            Ok(value) => Ok(Some(value)),
            Err(exit) if matches!(*exit, Exit::Stop(super::Stop::Solver(_))) => Err(exit),
            Err(_) => {
                self.here = here;
                Ok(None)
            }
        }
    }
}

/// The local that a write to a place ends up in.
fn target_slot(place: &Place) -> super::value::Slot {
    let mut slot = place.slot.clone();
    loop {
        let inner = match &*slot.value.borrow() {
            Value::Reference(inner) if !place.steps.is_empty() => inner.slot.clone(),
            _ => break,
        };
        slot = inner;
    }
    slot
}

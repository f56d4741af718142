//! Integers that have met no type yet: one number, or one of several, whichever way the program went.
//!
//! What is computed of them is exact, and refused where it depends on the type.

use std::collections::BTreeMap;
use std::rc::Rc;

use syn::BinOp;

use super::value::Value;
use super::{Eval, Interpreter};
use crate::expr::{Term, Terms};

/// Numbers that one integer may be; where there are more, each is a path.
const NUMBERS: usize = 64;

/// Numbers and when the integer is which: always exactly one of them.
pub(crate) type Numbers = Rc<BTreeMap<i128, Term>>;

impl Value {
    /// Whether it is an integer that has met no type.
    pub(crate) fn is_untyped(&self) -> bool {
        matches!(self, Self::Literal(_) | Self::OneOf(_))
    }
}

impl<'p> Interpreter<'p> {
    /// What two integers without a type come to.
    pub(crate) fn of_untyped(
        &mut self,
        left: Value,
        right: Value,
        of: impl Fn(i128, i128) -> Option<i128>,
    ) -> Eval {
        if let Some(value) = of_each(&left, &right, &of, &mut self.terms) {
            return Ok(value);
        }
        // Not of each pair: of those that can be.
        let (left, right) = (self.one(left)?, self.one(right)?);
        match (left, right) {
            (Value::Literal(a), Value::Literal(b)) => match of(a, b) {
                Some(value) => Ok(Value::Literal(value)),
                None => self.error(
                    "what this comes to depends on the type of its integers, and none is written: write it, as in `1u32`",
                ),
            },
            (a, b) => {
                let (a, b) = (a.describe(), b.describe());
                self.error(format!("{a} and {b} don't go together: convert one with `as`"))
            }
        }
    }

    /// Makes paths of an integer that is one of several.
    pub(crate) fn one(&mut self, value: Value) -> Eval {
        let Value::OneOf(numbers) = value else { return Ok(value) };
        let mut left = numbers.len();
        for (number, condition) in numbers.iter() {
            left -= 1;
            if left == 0 || self.decide(*condition)? {
                return Ok(Value::Literal(*number));
            }
        }
        Ok(Value::OneOf(numbers))
    }
}

/// An integer without a type as it is in so many bits; `None` of anything else.
pub(super) fn bits(value: &Value, width: u8, terms: &mut Terms) -> Option<Term> {
    let mut chosen = None;
    for (number, condition) in numbers(value, terms)?.iter() {
        let number = terms.constant(*number as u128, width);
        chosen = Some(match chosen {
            Some(others) => terms.ite(*condition, number, others),
            None => number,
        });
    }
    chosen
}

/// The condition under which two integers without a type compare so; `None` where they are something else.
pub(super) fn compared(
    a: &Value,
    b: &Value,
    terms: &mut Terms,
    holds: impl Fn(i128, i128) -> bool,
) -> Option<Term> {
    let (a, b) = (numbers(a, terms)?, numbers(b, terms)?);
    let mut any = terms.bool(false);
    for (a, here) in a.iter() {
        for (_, there) in b.iter().filter(|(b, _)| holds(*a, **b)) {
            let both = terms.both(*here, *there);
            any = terms.either(any, both);
        }
    }
    Some(any)
}

/// One integer without a type or another; `None` where they are something else, or too many.
pub(super) fn chosen(condition: Term, a: &Value, b: &Value, terms: &mut Terms) -> Option<Value> {
    let (a, b) = (numbers(a, terms)?, numbers(b, terms)?);
    let otherwise = terms.not(condition);
    let mut all = BTreeMap::new();
    for (side, numbers) in [(condition, a), (otherwise, b)] {
        for (number, here) in numbers.iter() {
            let here = terms.both(side, *here);
            add(&mut all, *number, here, terms);
        }
    }
    untyped(all, terms)
}

/// What each pair of numbers comes to; `None` where they are something else, one comes to nothing, or too many.
fn of_each(
    a: &Value,
    b: &Value,
    of: &impl Fn(i128, i128) -> Option<i128>,
    terms: &mut Terms,
) -> Option<Value> {
    let (a, b) = (numbers(a, terms)?, numbers(b, terms)?);
    let mut all = BTreeMap::new();
    for (a, here) in a.iter() {
        for (b, there) in b.iter() {
            let both = terms.both(*here, *there);
            if terms.bool_of(both) != Some(false) {
                add(&mut all, of(*a, *b)?, both, terms);
            }
        }
    }
    untyped(all, terms)
}

fn numbers(value: &Value, terms: &mut Terms) -> Option<Numbers> {
    match value {
        Value::Literal(number) => Some(Rc::new(BTreeMap::from([(*number, terms.bool(true))]))),
        Value::OneOf(numbers) => Some(numbers.clone()),
        _ => None,
    }
}

fn add(all: &mut BTreeMap<i128, Term>, number: i128, when: Term, terms: &mut Terms) {
    let other = all.entry(number).or_insert_with(|| terms.bool(false));
    *other = terms.either(*other, when);
}

fn untyped(mut all: BTreeMap<i128, Term>, terms: &Terms) -> Option<Value> {
    all.retain(|_, condition| terms.bool_of(*condition) != Some(false));
    match (all.len(), all.keys().next()) {
        (1, Some(number)) => Some(Value::Literal(*number)),
        (2..=NUMBERS, _) => Some(Value::OneOf(Rc::new(all))),
        _ => None,
    }
}

/// Arithmetic of literals; `None` where what it comes to depends on the type.
pub(super) fn arithmetic(operator: &BinOp, a: i128, b: i128) -> Option<i128> {
    // The amount of a shift has a type of its own; of all of them 7 is the most that every one shifts by.
    let shift = u32::try_from(b).ok().filter(|shift| *shift < 8);
    let value = match operator {
        BinOp::Add(_) => a.checked_add(b),
        BinOp::Sub(_) => a.checked_sub(b),
        BinOp::Mul(_) => a.checked_mul(b),
        BinOp::BitAnd(_) => Some(a & b),
        BinOp::BitOr(_) => Some(a | b),
        BinOp::BitXor(_) => Some(a ^ b),
        BinOp::Shl(_) => shift.and_then(|shift| a.checked_mul(1 << shift)),
        BinOp::Shr(_) => shift.map(|shift| a >> shift),
        // By zero nothing comes to zero.
        BinOp::Div(_) => Some(a.checked_div(b).unwrap_or(0)),
        BinOp::Rem(_) => Some(a.checked_rem(b).unwrap_or(0)),
        _ => None,
    };
    let operands = match operator {
        BinOp::Shl(_) | BinOp::Shr(_) => [a, a],
        _ => [a, b],
    };
    alike(operands, value?)
}

/// Methods of two literals, in the same way.
pub(super) fn method(name: &str, a: i128, b: i128) -> Option<i128> {
    let value = match name {
        "min" => Some(a.min(b)),
        "max" => Some(a.max(b)),
        "wrapping_add" => a.checked_add(b),
        "wrapping_mul" => a.checked_mul(b),
        _ => None,
    };
    alike([a, b], value?)
}

/// The value, if each type of integers that holds the operands holds it: then no type makes it another one.
pub(super) fn alike(operands: [i128; 2], value: i128) -> Option<i128> {
    let holds = |bits: u32, signed: bool, number: i128| {
        let most = 1_i128 << (bits - u32::from(signed));
        number < most && number >= if signed { -most } else { 0 }
    };
    let types = [8, 16, 32, 64].into_iter().flat_map(|bits| [(bits, false), (bits, true)]);
    let is_alike = types.into_iter().all(|(bits, signed)| {
        let fits = |number| holds(bits, signed, number);
        fits(value) || !operands.into_iter().all(fits)
    });
    is_alike.then_some(value)
}

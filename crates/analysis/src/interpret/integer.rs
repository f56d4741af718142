//! Methods of integers.

use super::literals;
use super::types::Scalar;
use super::value::Value;
use super::{Eval, Interpreter};
use crate::expr::{Binary, Term, Terms, mask};

/// Methods whose results are written as they are asked for.
const METHODS: [&str; 4] = ["saturating_add", "saturating_sub", "min", "max"];

impl<'p> Interpreter<'p> {
    pub(crate) fn integer_method(
        &mut self,
        name: &str,
        receiver: Value,
        mut arguments: Vec<Value>,
    ) -> Eval {
        let receiver = match arguments.first() {
            Some(first) if !matches!(name, "pow" | "rotate_left" | "rotate_right") => {
                let first = first.clone();
                self.like(receiver, &first)?
            }
            _ => receiver,
        };
        if let Some(first) = arguments.first()
            && receiver.is_untyped()
            && first.is_untyped()
        {
            let first = first.clone();
            return self.of_untyped(receiver, first, |a, b| literals::method(name, a, b));
        }
        let Value::Scalar(scalar, a) = receiver else {
            return self.error("the type of this literal isn't known: write it, as in `1u32`");
        };
        match arguments.len() {
            0 => self.unary_method(name, scalar, a),
            1 => {
                let b = arguments.remove(0);
                self.binary_method(name, scalar, a, b)
            }
            2 if name == "clamp" => {
                let low = self.scalar(arguments.remove(0), scalar)?;
                let high = self.scalar(arguments.remove(0), scalar)?;
                let at_least = self.maximum(scalar, a, low);
                Ok(Value::Scalar(scalar, self.minimum(scalar, at_least, high)))
            }
            _ => self.no_integer_method(name),
        }
    }

    fn no_integer_method(&self, name: &str) -> Eval {
        self.error(format!("integers have no method `{name}` in the language"))
    }

    fn unary_method(&mut self, name: &str, scalar: Scalar, a: Term) -> Eval {
        let width = scalar.width();
        let terms = &mut self.terms;
        Ok(match name {
            "count_ones" => number(ones(terms, a)),
            "leading_zeros" => number(zeros(terms, a, true)),
            "trailing_zeros" => number(zeros(terms, a, false)),
            "is_power_of_two" => {
                let count = ones(terms, a);
                let one = terms.constant(1, 32);
                Value::Bool(terms.equal(count, one))
            }
            "swap_bytes" => {
                let mut bytes = bytes_of(terms, a);
                bytes.reverse();
                Value::Scalar(scalar, joined(terms, &bytes))
            }
            "to_be_bytes" => byte_array(bytes_of(terms, a)),
            "clone" => Value::Scalar(scalar, a),
            "abs" if scalar.is_signed() => {
                let zero = terms.constant(0, width);
                let negative = terms.binary(Binary::LessSigned, a, zero);
                let turned = terms.negate(a);
                Value::Scalar(scalar, terms.ite(negative, turned, a))
            }
            _ => return self.no_integer_method(name),
        })
    }

    fn binary_method(&mut self, name: &str, scalar: Scalar, a: Term, b: Value) -> Eval {
        if matches!(name, "pow" | "rotate_left" | "rotate_right") {
            return self.counted_method(name, scalar, a, b);
        }
        let b = self.scalar(b, scalar)?;
        let term = match name {
            "wrapping_add" => self.terms.binary(Binary::Add, a, b),
            "wrapping_sub" => self.terms.binary(Binary::Sub, a, b),
            "wrapping_mul" => self.terms.binary(Binary::Mul, a, b),
            "saturating_add" | "saturating_sub" => self.saturating(name, scalar, a, b),
            "checked_add" | "checked_sub" => return self.checked(name, scalar, a, b),
            "min" => self.minimum(scalar, a, b),
            "max" => self.maximum(scalar, a, b),
            "abs_diff" => return Ok(self.distance(scalar, a, b)),
            _ => return self.no_integer_method(name),
        };
        if let Some(name) = METHODS.iter().find(|known| **known == name) {
            self.terms.call(term, name, &[a, b]);
        }
        Ok(Value::Scalar(scalar, term))
    }

    fn counted_method(&mut self, name: &str, scalar: Scalar, a: Term, b: Value) -> Eval {
        if name == "pow" {
            return self.power(scalar, a, b);
        }
        let by = self.scalar(b, Scalar::Unsigned(32))?;
        let width = scalar.width();
        let by = self.terms.extend(by, width, false);
        let back = self.terms.negate(by);
        let (left, right) = if name == "rotate_left" { (by, back) } else { (back, by) };
        let high = self.terms.binary(Binary::ShiftLeft, a, left);
        let low = self.terms.binary(Binary::ShiftRight, a, right);
        Ok(Value::Scalar(scalar, self.terms.binary(Binary::Or, high, low)))
    }

    /// By the bits of the exponent, so that it need not be known; modulo the range, as arithmetic is here.
    fn power(&mut self, scalar: Scalar, a: Term, exponent: Value) -> Eval {
        let exponent = self.scalar(exponent, Scalar::Unsigned(32))?;
        let (mut result, mut factor) = (self.terms.constant(1, scalar.width()), a);
        let zero = self.terms.constant(0, 32);
        for bit in 0..32 {
            let mask = self.terms.constant(1 << bit, 32);
            let bit = self.terms.binary(Binary::And, exponent, mask);
            let is_clear = self.terms.equal(bit, zero);
            let more = self.terms.binary(Binary::Mul, result, factor);
            result = self.terms.ite(is_clear, result, more);
            factor = self.terms.binary(Binary::Mul, factor, factor);
        }
        Ok(Value::Scalar(scalar, result))
    }

    pub(crate) fn minimum(&mut self, scalar: Scalar, a: Term, b: Term) -> Term {
        let below = self.less_terms(false, scalar.is_signed(), a, b);
        self.terms.ite(below, a, b)
    }

    fn maximum(&mut self, scalar: Scalar, a: Term, b: Term) -> Term {
        let below = self.less_terms(false, scalar.is_signed(), a, b);
        self.terms.ite(below, b, a)
    }

    /// The sum or difference, and whether it overflows.
    fn overflowing(&mut self, name: &str, scalar: Scalar, a: Term, b: Term) -> (Term, Term) {
        let adds = name.ends_with("add");
        let operator = if adds { Binary::Add } else { Binary::Sub };
        let result = self.terms.binary(operator, a, b);
        let overflows = match (scalar.is_signed(), adds) {
            (false, true) => self.terms.binary(Binary::LessUnsigned, result, a),
            (false, false) => self.terms.binary(Binary::LessUnsigned, a, b),
            (true, _) => self.signed_overflow(adds, a, b, result),
        };
        (result, overflows)
    }

    /// Signed: adding a negative must make it smaller, anything else must not.
    fn signed_overflow(&mut self, adds: bool, a: Term, b: Term, result: Term) -> Term {
        let zero = self.terms.constant(0, self.terms.width(a));
        let down = match adds {
            true => self.terms.binary(Binary::LessSigned, b, zero),
            false => self.terms.binary(Binary::LessSigned, zero, b),
        };
        let smaller = self.terms.binary(Binary::LessSigned, result, a);
        let same = self.terms.equal(down, smaller);
        self.terms.not(same)
    }

    fn saturating(&mut self, name: &str, scalar: Scalar, a: Term, b: Term) -> Term {
        let (result, overflows) = self.overflowing(name, scalar, a, b);
        let width = scalar.width();
        let (low, high) = ends(scalar);
        let (low, high) = (self.terms.constant(low, width), self.terms.constant(high, width));
        let bound = match (scalar.is_signed(), name.ends_with("add")) {
            (false, true) => high,
            (false, false) => low,
            (true, _) => {
                let zero = self.terms.constant(0, width);
                let negative = self.terms.binary(Binary::LessSigned, a, zero);
                self.terms.ite(negative, low, high)
            }
        };
        self.terms.ite(overflows, bound, result)
    }

    fn checked(&mut self, name: &str, scalar: Scalar, a: Term, b: Term) -> Eval {
        let (result, overflows) = self.overflowing(name, scalar, a, b);
        let fits = self.terms.not(overflows);
        Ok(self.option(fits, Value::Scalar(scalar, result)))
    }

    fn distance(&mut self, scalar: Scalar, a: Term, b: Term) -> Value {
        let below = self.less_terms(true, scalar.is_signed(), a, b);
        let up = self.terms.binary(Binary::Sub, b, a);
        let down = self.terms.binary(Binary::Sub, a, b);
        let unsigned = match scalar {
            Scalar::Signed(width) => Scalar::Unsigned(width),
            same => same,
        };
        Value::Scalar(unsigned, self.terms.ite(below, up, down))
    }

    /// `u8::MAX` and the like.
    pub(crate) fn integer_constant(&mut self, scalar: Scalar, name: &syn::Ident) -> Eval {
        let (low, high) = ends(scalar);
        let width = scalar.width();
        let value = match name.to_string().as_str() {
            "MAX" => self.terms.constant(high, width),
            "MIN" => self.terms.constant(low, width),
            "BITS" => {
                let bits = self.terms.constant(u128::from(width), 32);
                return Ok(Value::Scalar(Scalar::Unsigned(32), bits));
            }
            other => return Ok(Value::Function(format!("{}::{other}", scalar.name()).into())),
        };
        Ok(Value::Scalar(scalar, value))
    }

    /// `u32::from(x)` and `u16::from_be_bytes([a, b])`.
    pub(crate) fn integer_function(&mut self, scalar: Scalar, name: &str, argument: Value) -> Eval {
        let width = scalar.width();
        let term = match (name, self.settled(argument)?) {
            ("from", Value::Bool(term)) => self.terms.from_bool(term, width),
            ("from", Value::Scalar(from, term)) => self.converted(from, term, scalar),
            ("from_be_bytes", Value::Array(bytes)) => {
                let bytes = self.bytes(&bytes)?;
                if bytes.len() * 8 != usize::from(width) {
                    let needed = width / 8;
                    return self.error(format!("`from_be_bytes` needs {needed} bytes here"));
                }
                joined(&mut self.terms, &bytes)
            }
            (name, other) => {
                if name == "from"
                    && let Some(term) = literals::bits(&other, width, &mut self.terms)
                {
                    return Ok(Value::Scalar(scalar, term));
                }
                let (of, what) = (scalar.name(), other.describe());
                return self.error(format!("`{of}::{name}` takes no {what}"));
            }
        };
        Ok(Value::Scalar(scalar, term))
    }

    /// Terms of an array of bytes.
    pub(crate) fn bytes(&mut self, values: &[Value]) -> Eval<Vec<Term>> {
        values.iter().map(|value| self.scalar(value.clone(), Scalar::Unsigned(8))).collect()
    }

    /// An unsigned number of any width as a `usize` index or length of 64 bits.
    pub(crate) fn index_term(&mut self, value: Value) -> Eval<Term> {
        match self.settled(value)? {
            Value::Scalar(scalar, term) if scalar.is_integer() => {
                Ok(self.terms.extend(term, 64, false))
            }
            other => match literals::bits(&other, 64, &mut self.terms) {
                Some(term) => Ok(term),
                None => self.error(format!("{} can't be an index", other.describe())),
            },
        }
    }
}

fn number(term: Term) -> Value {
    Value::Scalar(Scalar::Unsigned(32), term)
}

/// Smallest and largest value, as bits.
fn ends(scalar: Scalar) -> (u128, u128) {
    let width = scalar.width();
    match scalar.is_signed() {
        true => (1 << (width - 1), mask(width - 1)),
        false => (0, mask(width)),
    }
}

fn bit(terms: &mut Terms, a: Term, at: u8) -> Term {
    terms.extract(a, at, at)
}

/// How many bits are set, 32 bits wide.
fn ones(terms: &mut Terms, a: Term) -> Term {
    let mut count = terms.constant(0, 32);
    for at in 0..terms.width(a) {
        let one = bit(terms, a, at);
        let one = terms.extend(one, 32, false);
        count = terms.binary(Binary::Add, count, one);
    }
    count
}

/// How many zeros stand before the first one, 32 bits wide.
fn zeros(terms: &mut Terms, a: Term, leading: bool) -> Term {
    let width = terms.width(a);
    let mut count = terms.constant(u128::from(width), 32);
    for step in (0..width).rev() {
        let at = if leading { width - 1 - step } else { step };
        let one = bit(terms, a, at);
        let set = terms.constant(1, 1);
        let set = terms.equal(one, set);
        let here = terms.constant(u128::from(step), 32);
        count = terms.ite(set, here, count);
    }
    count
}

/// The bytes of a term, highest first.
pub(crate) fn bytes_of(terms: &mut Terms, a: Term) -> Vec<Term> {
    let count = terms.width(a) / 8;
    (0..count).rev().map(|byte| terms.extract(a, byte * 8 + 7, byte * 8)).collect()
}

/// Terms joined, the first highest.
pub(crate) fn joined(terms: &mut Terms, parts: &[Term]) -> Term {
    let first = parts.first().copied().unwrap_or_else(|| terms.constant(0, 8));
    parts.iter().skip(1).fold(first, |whole, part| terms.concat(whole, *part))
}

/// An array of bytes.
pub(crate) fn byte_array(bytes: Vec<Term>) -> Value {
    let byte = |term| Value::Scalar(Scalar::Unsigned(8), term);
    Value::array(bytes.into_iter().map(byte).collect())
}

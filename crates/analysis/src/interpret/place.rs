//! Reading and writing parts of values, and choosing between values by a condition.

use std::rc::Rc;

use super::fresh::zero_like;
use super::literals;
use super::value::{EnumValue, Place, Step, Tag, Value};
use crate::expr::{Term, Terms};

/// The value at a place.
pub(crate) fn read(place: &Place, terms: &mut Terms) -> Option<Value> {
    let root = place.slot.value.borrow().clone();
    place.steps.iter().try_fold(root, |value, step| part(&value, *step, terms))
}

/// Writes a place; `None` where the place does not exist or choices cannot be joined.
pub(crate) fn write(place: &Place, new: Value, line: u32, terms: &mut Terms) -> Option<()> {
    let mut root = place.slot.value.borrow_mut();
    if let Value::Reference(inner) = &*root
        && !place.steps.is_empty()
    {
        let mut target = inner.clone();
        target.steps.extend_from_slice(&place.steps);
        drop(root);
        return write(&target, new, line, terms);
    }
    if place.slot.written_at.get() == 0 {
        place.slot.written_at.set(line);
    }
    replace(&mut root, &place.steps, new, line, terms)
}

/// A part of a value.
pub(crate) fn part(value: &Value, step: Step, terms: &mut Terms) -> Option<Value> {
    match (value, step) {
        (Value::Reference(place), _) => {
            let inner = read(place, terms)?;
            part(&inner, step, terms)
        }
        (Value::Struct(_, fields) | Value::Tuple(fields), Step::Field(n)) => fields.get(n).cloned(),
        (Value::Array(items), Step::Index(n)) => items.get(n).cloned(),
        (Value::Array(items), Step::Symbolic(index)) => {
            let (last, others) = items.split_last()?;
            element(others, index, last.clone(), terms)
        }
        (Value::Array(items), Step::Part(from, count)) => {
            Some(Value::array(items.get(from..from + count)?.to_vec()))
        }
        (Value::Array(items), Step::Anywhere(index)) => {
            let zero = items.first().map_or(Some(Value::Literal(0)), |item| zero_like(item, terms));
            element(items, index, zero?, terms)
        }
        (Value::Enum(value), Step::Payload(variant, n)) => {
            value.payloads.get(variant)?.as_ref()?.get(n).cloned()
        }
        _ => None,
    }
}

/// The element at a symbolic index, `otherwise` where none of `items` is.
fn element(items: &[Value], index: Term, otherwise: Value, terms: &mut Terms) -> Option<Value> {
    let width = terms.width(index);
    let mut chosen = otherwise;
    for (n, item) in items.iter().enumerate().rev() {
        let n = terms.constant(n as u128, width);
        let here = terms.equal(index, n);
        chosen = choose(here, item, &chosen, terms)?;
    }
    Some(chosen)
}

fn replace(
    value: &mut Value,
    steps: &[Step],
    new: Value,
    line: u32,
    terms: &mut Terms,
) -> Option<()> {
    let Some((step, rest)) = steps.split_first() else {
        *value = new;
        return Some(());
    };
    match (value, *step) {
        (Value::Reference(place), _) => {
            let mut target = place.clone();
            target.steps.extend_from_slice(steps);
            write(&target, new, line, terms)
        }
        (Value::Struct(_, fields) | Value::Tuple(fields), Step::Field(n)) => {
            replace(Rc::make_mut(fields).get_mut(n)?, rest, new, line, terms)
        }
        (Value::Array(items), Step::Index(n)) => {
            replace(Rc::make_mut(items).get_mut(n)?, rest, new, line, terms)
        }
        (Value::Array(items), Step::Symbolic(index) | Step::Anywhere(index)) => {
            replace_element(Rc::make_mut(items).as_mut_slice(), index, rest, &new, line, terms)
        }
        (Value::Array(items), Step::Part(from, count)) => {
            let items = Rc::make_mut(items).get_mut(from..from + count)?;
            let mut part = Value::array(items.to_vec());
            replace(&mut part, rest, new, line, terms)?;
            let Value::Array(part) = part else {
                return None;
            };
            (part.len() == count).then(|| items.clone_from_slice(&part))
        }
        (Value::Enum(value), Step::Payload(variant, n)) => {
            let payload = Rc::make_mut(&mut value.payloads).get_mut(variant)?.as_mut()?;
            replace(payload.get_mut(n)?, rest, new, line, terms)
        }
        _ => None,
    }
}

fn replace_element(
    items: &mut [Value],
    index: Term,
    rest: &[Step],
    new: &Value,
    line: u32,
    terms: &mut Terms,
) -> Option<()> {
    let width = terms.width(index);
    for (n, item) in items.iter_mut().enumerate() {
        let n = terms.constant(n as u128, width);
        let here = terms.equal(index, n);
        let mut written = item.clone();
        replace(&mut written, rest, new.clone(), line, terms)?;
        *item = choose(here, &written, item, terms)?;
    }
    Some(())
}

/// `if condition { a } else { b }` on whole values; `None` where they have no common form.
pub(crate) fn choose(condition: Term, a: &Value, b: &Value, terms: &mut Terms) -> Option<Value> {
    match terms.bool_of(condition) {
        Some(true) => return Some(a.clone()),
        Some(false) => return Some(b.clone()),
        None => {}
    }
    Some(match (a, b) {
        (Value::Unit, Value::Unit) => Value::Unit,
        (Value::Bool(x), Value::Bool(y)) => Value::Bool(terms.ite(condition, *x, *y)),
        (Value::Scalar(s, x), Value::Scalar(t, y)) if s == t => {
            Value::Scalar(*s, terms.ite(condition, *x, *y))
        }
        (Value::Scalar(s, x), untyped) if untyped.is_untyped() => {
            let y = literals::bits(untyped, s.width(), terms)?;
            Value::Scalar(*s, terms.ite(condition, *x, y))
        }
        (untyped, Value::Scalar(s, y)) if untyped.is_untyped() => {
            let x = literals::bits(untyped, s.width(), terms)?;
            Value::Scalar(*s, terms.ite(condition, x, *y))
        }
        (a, b) if a.is_untyped() => literals::chosen(condition, a, b, terms)?,
        (Value::Tuple(x), Value::Tuple(y)) => Value::tuple(choose_all(condition, x, y, terms)?),
        (Value::Array(x), Value::Array(y)) => Value::array(choose_all(condition, x, y, terms)?),
        (Value::Struct(shape, x), Value::Struct(other, y)) if shape.name == other.name => {
            Value::Struct(shape.clone(), Rc::new(choose_all(condition, x, y, terms)?))
        }
        (Value::Enum(x), Value::Enum(y)) if x.shape.name == y.shape.name => {
            Value::Enum(choose_variant(condition, x, y, terms)?)
        }
        _ => return None,
    })
}

fn choose_all(c: Term, a: &[Value], b: &[Value], terms: &mut Terms) -> Option<Vec<Value>> {
    if a.len() != b.len() {
        return None;
    }
    a.iter().zip(b).map(|(x, y)| choose(c, x, y, terms)).collect()
}

fn choose_variant(c: Term, a: &EnumValue, b: &EnumValue, terms: &mut Terms) -> Option<EnumValue> {
    let tag = if a.tag == b.tag {
        a.tag
    } else if a.shape.variants.len() == 2 {
        let (x, y) = (a.is_variant(1, terms), b.is_variant(1, terms));
        Tag::Choice(terms.ite(c, x, y))
    } else {
        let (x, y) = (a.number(terms), b.number(terms));
        Tag::Number(terms.ite(c, x, y))
    };
    let mut payloads = Vec::new();
    for (x, y) in a.payloads.iter().zip(b.payloads.iter()) {
        payloads.push(match (x, y) {
            (Some(x), Some(y)) => Some(choose_all(c, x, y, terms)?),
            (Some(only), None) | (None, Some(only)) => Some(only.clone()),
            (None, None) => None,
        });
    }
    Some(EnumValue { shape: a.shape.clone(), tag, payloads: Rc::new(payloads) })
}

/// The condition under which two values are equal; `None` where they cannot be compared.
pub(crate) fn equal(a: &Value, b: &Value, terms: &mut Terms) -> Option<Term> {
    Some(match (a, b) {
        (Value::Unit, Value::Unit) => terms.bool(true),
        (Value::Bool(x), Value::Bool(y)) => terms.equal(*x, *y),
        (Value::Scalar(s, x), Value::Scalar(t, y)) if s == t => terms.equal(*x, *y),
        (Value::Scalar(s, x), untyped) | (untyped, Value::Scalar(s, x)) if untyped.is_untyped() => {
            let y = literals::bits(untyped, s.width(), terms)?;
            terms.equal(*x, y)
        }
        (a, b) if a.is_untyped() => literals::compared(a, b, terms, |a, b| a == b)?,
        (Value::Tuple(x), Value::Tuple(y)) | (Value::Array(x), Value::Array(y)) => {
            equal_all(x, y, terms)?
        }
        (Value::Struct(s, x), Value::Struct(t, y)) if s.name == t.name => equal_all(x, y, terms)?,
        (Value::Enum(x), Value::Enum(y)) if x.shape.name == y.shape.name => {
            equal_variant(x, y, terms)?
        }
        _ => return None,
    })
}

fn equal_all(a: &[Value], b: &[Value], terms: &mut Terms) -> Option<Term> {
    if a.len() != b.len() {
        return Some(terms.bool(false));
    }
    let mut all = terms.bool(true);
    for (x, y) in a.iter().zip(b) {
        let same = equal(x, y, terms)?;
        all = terms.both(all, same);
    }
    Some(all)
}

/// The variants agree, and so do the fields of whichever variant it is.
fn equal_variant(a: &EnumValue, b: &EnumValue, terms: &mut Terms) -> Option<Term> {
    if a.shape.is_plain() {
        let (x, y) = (a.number(terms), b.number(terms));
        return Some(terms.equal(x, y));
    }
    let mut any = terms.bool(false);
    for variant in 0..a.shape.variants.len() {
        let (x, y) = (a.is_variant(variant, terms), b.is_variant(variant, terms));
        let mut here = terms.both(x, y);
        if terms.bool_of(here) == Some(false) {
            continue;
        }
        if let (Some(x), Some(y)) = (&a.payloads[variant], &b.payloads[variant]) {
            let same = equal_all(x, y, terms)?;
            here = terms.both(here, same);
        }
        any = terms.either(any, here);
    }
    Some(any)
}

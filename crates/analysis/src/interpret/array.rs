//! Arrays, slices, the payload, lists of the settings, ranges and iterators over them.

use std::rc::Rc;

use super::types::{Scalar, Type};
use super::value::{List, Range, Value, Window};
use super::{Eval, Interpreter};
use crate::expr::Term;

impl<'p> Interpreter<'p> {
    pub(crate) fn array_literal(&mut self, array: &'p syn::ExprArray, want: &Type) -> Eval {
        let element = element_type(want);
        let mut values: Vec<Value> = Vec::new();
        for item in &array.elems {
            let value = self.expression(item, &element)?;
            let value = self.settled(value)?;
            values.push(self.coerce(value, &element)?);
        }
        if let Some(typed) = values.iter().find(|value| !value.is_untyped()) {
            let typed = typed.clone();
            values =
                values.into_iter().map(|value| self.like(value, &typed)).collect::<Eval<_>>()?;
        }
        Ok(Value::array(values))
    }

    pub(crate) fn repeat(&mut self, repeat: &'p syn::ExprRepeat, want: &Type) -> Eval {
        let element = element_type(want);
        let value = self.typed(&repeat.expr, &element)?;
        let length = self.settled_value(&repeat.len)?;
        match self.known_number(&length) {
            Some(length) if length <= 65_536 => Ok(Value::array(vec![value; length as usize])),
            _ => self.error("the length of this array must be a constant of at most 65,536"),
        }
    }

    /// `sequence[index]`.
    pub(crate) fn index(&mut self, index: &'p syn::ExprIndex) -> Eval {
        let over = self.settled_value(&index.expr)?;
        let at = self.settled_value(&index.index)?;
        self.at(index.bracket_token.span.open());
        if let Value::Range(range) = &at {
            return self.slice(over, range);
        }
        match over {
            Value::Array(_) => self.element(over, at),
            Value::Payload(window) => self.payload_at(window, at),
            Value::List(list) => self.list_at(&list, at),
            other => self.error(format!("{} has no elements", other.describe())),
        }
    }

    fn list_at(&mut self, list: &Rc<List>, at: Value) -> Eval {
        let index = self.scalar_or_narrow(at)?;
        let inside = self.less_terms(true, false, index, list.length);
        let reach =
            self.reach(inside, || "the index can be past the end of the list".to_owned())?;
        let element = self.list_element(list, index)?;
        let zero = self.zero(&list.element)?;
        self.or_zero(&reach, element, zero)
    }

    /// An index into a list: 32 bits.
    fn scalar_or_narrow(&mut self, value: Value) -> Eval<Term> {
        let wide = self.index_term(value)?;
        Ok(self.terms.extend(wide, 32, false))
    }

    /// `sequence[range]`, empty where that ends past the end.
    fn slice(&mut self, over: Value, range: &Range) -> Eval {
        if let Value::Payload(window) = over {
            return self.slice_of_payload(window, range);
        }
        let Value::Array(items) = over else {
            return self.error(format!("{} has no slices", over.describe()));
        };
        let part = self.part_within(range, items.len())?;
        Ok(Value::array(part.map_or_else(Vec::new, |part| items[part].to_vec())))
    }

    /// A range of so many elements; `None` where it ends past the end.
    pub(crate) fn part_within(
        &mut self,
        range: &Range,
        length: usize,
    ) -> Eval<Option<std::ops::Range<usize>>> {
        let known = |this: &Self, bound: &Option<Value>, otherwise: usize| match bound {
            None => Some(otherwise),
            Some(value) => this.known_number(value).and_then(|n| usize::try_from(n).ok()),
        };
        let start = known(self, &range.start, 0);
        let end = known(self, &range.end, length);
        let (Some(start), Some(end)) = (start, end) else {
            return self.error("a slice of unknown bounds: write a loop with a condition");
        };
        let end = end.checked_add(usize::from(range.inclusive));
        let part = end.filter(|end| start <= *end && *end <= length).map(|end| start..end);
        let inside = self.terms.bool(part.is_some());
        self.reach(inside, || format!("the slice ends past {length} elements"))?;
        Ok(part)
    }

    pub(crate) fn list_element(&mut self, list: &Rc<List>, index: Term) -> Eval {
        let name = format!("{}[]", list.name);
        self.unknown(&name, &list.element, &[index])
    }

    pub(crate) fn sequence_method(&mut self, over: Value, call: &'p syn::ExprMethodCall) -> Eval {
        let mut arguments: Vec<Value> = Vec::new();
        for argument in &call.args {
            arguments.push(self.settled_value(argument)?);
        }
        self.at(call.method.span());
        let name = call.method.to_string();
        match (name.as_str(), arguments.pop()) {
            ("iter" | "into_iter" | "as_slice" | "clone" | "copied", None) => Ok(over),
            ("len", None) => self.length(over),
            ("is_empty", None) => {
                let length = self.length(over)?;
                Ok(Value::Bool(self.equality_with_zero(&length)?))
            }
            ("first", None) => self.get(over, Value::Literal(0)),
            ("last", None) => self.last(over),
            ("get", Some(index)) => self.get(over, index),
            ("starts_with", Some(Value::Array(prefix))) => {
                Ok(Value::Bool(self.begins_with(&over, &prefix)?))
            }
            ("contains", Some(item)) => self.contains(over, item),
            ("rev", None) => self.reversed(over),
            ("step_by", Some(step)) => self.stepped(over, step),
            ("enumerate", None) => self.enumerated(over),
            _ => self.error(format!("{} has no method `{name}` in the language", over.describe())),
        }
    }

    fn equality_with_zero(&mut self, length: &Value) -> Eval<Term> {
        let (length, zero) = self.unified(length.clone(), Value::Literal(0))?;
        self.equality(&length, &zero)
    }

    fn length(&mut self, over: Value) -> Eval {
        let (scalar, term) = match over {
            Value::Array(items) | Value::Items(items) => {
                (Scalar::Usize, self.terms.constant(items.len() as u128, 64))
            }
            Value::Payload(window) => (Scalar::Usize, self.payload_left(window)),
            Value::List(list) => (Scalar::Unsigned(32), list.length),
            other => return self.error(format!("{} has no length", other.describe())),
        };
        Ok(Value::Scalar(scalar, term))
    }

    fn last(&mut self, over: Value) -> Eval {
        match over {
            Value::Array(items) => {
                Ok(items.last().map_or(self.none(), |last| self.some(last.clone())))
            }
            other => self.error(format!("{} has no method `last`", other.describe())),
        }
    }

    /// `get(index)`, `None` past the end.
    fn get(&mut self, over: Value, index: Value) -> Eval {
        match over {
            Value::Array(items) => self.get_of_array(&items, index),
            Value::Payload(window) => {
                let index = self.index_term(index)?;
                let left = self.payload_left(window);
                let inside = self.less_terms(true, false, index, left);
                let byte = self.payload_byte(window, index);
                Ok(self.option(inside, byte))
            }
            Value::List(list) => {
                let index = self.scalar_or_narrow(index)?;
                let inside = self.less_terms(true, false, index, list.length);
                let element = self.list_element(&list, index)?;
                Ok(self.option(inside, element))
            }
            other => self.error(format!("{} has no elements", other.describe())),
        }
    }

    fn get_of_array(&mut self, items: &Rc<Vec<Value>>, index: Value) -> Eval {
        if let Some(known) = self.known_number(&index) {
            let found = usize::try_from(known).ok().and_then(|known| items.get(known));
            return Ok(found.map_or(self.none(), |item| self.some(item.clone())));
        }
        let index = self.index_term(index)?;
        let end = self.terms.constant(items.len() as u128, 64);
        let inside = self.less_terms(true, false, index, end);
        let step = super::value::Step::Symbolic(index);
        match super::place::part(&Value::Array(items.clone()), step, &mut self.terms) {
            Some(item) => Ok(self.option(inside, item)),
            None => self.error("these elements can't be chosen from by an unknown index"),
        }
    }

    /// Whether a part of the payload is these bytes, and no more.
    pub(crate) fn payload_is(&mut self, window: Window, bytes: &[Value]) -> Eval<Term> {
        let length = self.payload_left(window);
        let wanted = self.terms.constant(bytes.len() as u128, 64);
        let as_long = self.terms.equal(length, wanted);
        let begins = self.begins_with(&Value::Payload(window), bytes)?;
        Ok(self.terms.both(as_long, begins))
    }

    fn begins_with(&mut self, over: &Value, prefix: &[Value]) -> Eval<Term> {
        let length = self.length(over.clone())?;
        let length = self.index_term(length)?;
        let needed = self.terms.constant(prefix.len() as u128, 64);
        let mut all = self.less_terms(false, false, needed, length);
        for (position, wanted) in prefix.iter().enumerate() {
            let found = match over {
                Value::Payload(window) => {
                    let index = self.terms.constant(position as u128, 64);
                    self.payload_byte(*window, index)
                }
                Value::Array(items) => match items.get(position) {
                    Some(item) => item.clone(),
                    None => return Ok(self.terms.bool(false)),
                },
                other => return self.error(format!("{} has no bytes", other.describe())),
            };
            let (found, wanted) = self.unified(found, wanted.clone())?;
            let same = self.equality(&found, &wanted)?;
            all = self.terms.both(all, same);
        }
        Ok(all)
    }

    fn contains(&mut self, over: Value, wanted: Value) -> Eval {
        if let Value::Range(range) = over {
            return self.range_contains(&range, wanted);
        }
        let items = self.known_items(over)?;
        let mut any = self.terms.bool(false);
        for item in items.iter() {
            let (item, wanted) = self.unified(item.clone(), wanted.clone())?;
            let same = self.equality(&item, &wanted)?;
            any = self.terms.either(any, same);
        }
        Ok(Value::Bool(any))
    }

    fn range_contains(&mut self, range: &Range, wanted: Value) -> Eval {
        let mut all = self.terms.bool(true);
        if let Some(start) = &range.start {
            let (start, wanted) = self.unified(start.clone(), wanted.clone())?;
            let above = self.less(false, &start, &wanted)?;
            all = self.terms.both(all, above);
        }
        if let Some(end) = &range.end {
            let (end, wanted) = self.unified(end.clone(), wanted)?;
            let below = self.less(!range.inclusive, &wanted, &end)?;
            all = self.terms.both(all, below);
        }
        Ok(Value::Bool(all))
    }

    fn reversed(&mut self, over: Value) -> Eval {
        match over {
            Value::Range(range) => {
                Ok(Value::Range(Rc::new(Range { reversed: !range.reversed, ..(*range).clone() })))
            }
            over => {
                let items = self.known_items(over)?;
                Ok(Value::Items(Rc::new(items.iter().rev().cloned().collect())))
            }
        }
    }

    fn stepped(&mut self, over: Value, step: Value) -> Eval {
        let step = self.known_number(&step).and_then(|step| u64::try_from(step).ok());
        match (over, step) {
            (Value::Range(range), Some(step)) => {
                Ok(Value::Range(Rc::new(Range { step, ..(*range).clone() })))
            }
            (over, Some(step)) => {
                let items = self.known_items(over)?;
                let step = usize::try_from(step).unwrap_or(1).max(1);
                Ok(Value::Items(Rc::new(items.iter().step_by(step).cloned().collect())))
            }
            _ => self.error("`step_by` needs a constant"),
        }
    }

    fn enumerated(&mut self, over: Value) -> Eval {
        let items = self.known_items(over)?;
        let mut pairs = Vec::new();
        for (position, item) in items.iter().enumerate() {
            let position = self.terms.constant(position as u128, 64);
            pairs.push(Value::tuple(vec![Value::Scalar(Scalar::Usize, position), item.clone()]));
        }
        Ok(Value::Items(Rc::new(pairs)))
    }
}

fn element_type(want: &Type) -> Type {
    match want {
        Type::Array(element, _) | Type::Slice(element) => (**element).clone(),
        _ => Type::Unknown,
    }
}

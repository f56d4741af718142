//! Symbolic values of a type, zero values, and the terms a value is made of.

use std::rc::Rc;

use super::types::{EnumShape, Type};
use super::value::{EnumValue, List, Tag, Value};
use super::{Eval, Interpreter};
use crate::access::Part;
use crate::expr::{Binary, Kind, Sort, Term, Terms};

impl<'p> Interpreter<'p> {
    /// An unknown value of a type: its leaves are symbols named `name.field`, or unknown functions
    /// of `arguments`.
    pub(crate) fn unknown(&mut self, name: &str, of: &Type, arguments: &[Term]) -> Eval {
        Ok(match of {
            Type::Unit => Value::Unit,
            Type::Bool => Value::Bool(self.leaf(name, Sort::Bool, Kind::Number, arguments)),
            Type::Scalar(scalar) => {
                let sort = Sort::Bits(scalar.width());
                Value::Scalar(*scalar, self.leaf(name, sort, scalar.kind(), arguments))
            }
            Type::Tuple(types) => Value::tuple(self.unknown_fields(name, types, arguments)?),
            Type::Array(element, length) => {
                let types = vec![(**element).clone(); *length];
                Value::array(self.unknown_fields(name, &types, arguments)?)
            }
            Type::Option(some) => {
                let present = self.leaf(name, Sort::Bool, Kind::Presence, arguments);
                let value = self.unknown(&format!("{name}.value"), some, arguments)?;
                self.option(present, value)
            }
            Type::Struct(shape) => {
                let mut fields = Vec::new();
                for (field, of) in &shape.fields {
                    fields.push(self.unknown(&format!("{name}.{field}"), of, arguments)?);
                }
                Value::Struct(shape.clone(), Rc::new(fields))
            }
            Type::Enum(shape) => self.unknown_variant(name, shape, arguments)?,
            Type::List(element) => {
                let length = format!("{name}.len");
                let length = self.terms.symbol(&length, Sort::Bits(32), Kind::Number);
                let element = (**element).clone();
                Value::List(Rc::new(List { name: name.to_owned(), element, length }))
            }
            Type::Result(..) | Type::Slice(_) | Type::Unknown => {
                let message = format!("the type of `{name}` isn't known: write a plain value type");
                return self.error(message);
            }
        })
    }

    /// A part of an unknown value: what it is known to be, else a symbol or an unknown function.
    fn leaf(&mut self, name: &str, sort: Sort, kind: Kind, arguments: &[Term]) -> Term {
        match self.aliases.iter().find(|(alias, _)| alias == name) {
            Some((_, term)) if self.terms.sort(*term) == sort => *term,
            _ => self.terms.apply(name, sort, kind, arguments),
        }
    }

    fn unknown_fields(
        &mut self,
        name: &str,
        types: &[Type],
        arguments: &[Term],
    ) -> Eval<Vec<Value>> {
        let mut values = Vec::new();
        for (position, of) in types.iter().enumerate() {
            values.push(self.unknown(&format!("{name}.{position}"), of, arguments)?);
        }
        Ok(values)
    }

    fn unknown_variant(&mut self, name: &str, shape: &Rc<EnumShape>, arguments: &[Term]) -> Eval {
        let kind = variants_kind(shape);
        let number = self.leaf(name, Sort::Bits(8), kind, arguments);
        let count = self.terms.constant(shape.variants.len() as u128, 8);
        let exists = self.terms.binary(Binary::LessUnsigned, number, count);
        self.assume(exists)?;
        let mut payloads = Vec::new();
        for variant in &shape.variants {
            let mut fields = Vec::new();
            for (field, of) in &variant.fields {
                let name = format!("{name}.{}.{field}", anabranch_language::kebab(&variant.name));
                fields.push(self.unknown(&name, of, arguments)?);
            }
            payloads.push(Some(fields));
        }
        let payloads = Rc::new(payloads);
        Ok(Value::Enum(EnumValue { shape: shape.clone(), tag: Tag::Number(number), payloads }))
    }

    /// The value whose bits are all zero: what new state holds.
    pub(crate) fn zero(&mut self, of: &Type) -> Eval {
        match zero_of(of, &mut self.terms) {
            Some(zero) => Ok(zero),
            None => self.error("this type has no default: write the value"),
        }
    }

    /// The named terms a value is made of.
    pub(crate) fn parts(&mut self, value: &Value, name: &str) -> Eval<Vec<Part>> {
        let mut parts = Vec::new();
        self.collect_parts(value, name, &mut parts)?;
        Ok(parts)
    }

    fn collect_parts(&mut self, value: &Value, name: &str, into: &mut Vec<Part>) -> Eval<()> {
        match value {
            Value::Unit => {}
            Value::Bool(_) | Value::Scalar(..) | Value::Literal(_) | Value::OneOf(_) => {
                if let Some(term) = self.term_of(value) {
                    let kind = match value {
                        Value::Scalar(scalar, _) => scalar.kind(),
                        _ => Kind::Number,
                    };
                    into.push(Part { name: name.to_owned(), term, kind });
                }
            }
            Value::Tuple(values) | Value::Array(values) => {
                for (position, value) in values.iter().enumerate() {
                    self.collect_parts(value, &joined(name, &position.to_string()), into)?;
                }
            }
            Value::Struct(shape, values) => {
                for ((field, _), value) in shape.fields.iter().zip(values.iter()) {
                    self.collect_parts(value, &joined(name, field), into)?;
                }
            }
            Value::Enum(value) => self.collect_variant(value, name, into)?,
            Value::Reference(place) => {
                let value = self.read(place)?;
                self.collect_parts(&value, name, into)?;
            }
            other => {
                return self
                    .error(format!("{} can't be stored or used as a key", other.describe()));
            }
        }
        Ok(())
    }

    fn collect_variant(&mut self, value: &EnumValue, name: &str, into: &mut Vec<Part>) -> Eval<()> {
        let number = value.number(&mut self.terms);
        let kind = variants_kind(&value.shape);
        into.push(Part { name: joined(name, "variant"), term: number, kind });
        for (variant, fields) in value.shape.variants.iter().zip(value.payloads.iter()) {
            let fields = fields.as_deref().unwrap_or_default();
            for ((field, _), value) in variant.fields.iter().zip(fields) {
                let field = joined(&anabranch_language::kebab(&variant.name), field);
                self.collect_parts(value, &joined(name, &field), into)?;
            }
        }
        Ok(())
    }
}

/// The terms that a value is made of, each with what its symbol's name ends in where the value is
/// [`unknown`](Interpreter::unknown).
pub(crate) fn leaves(value: &Value, terms: &mut Terms) -> Vec<(String, Term)> {
    let mut all = Vec::new();
    collect_leaves(value, String::new(), terms, &mut all);
    all
}

fn collect_leaves(value: &Value, name: String, terms: &mut Terms, into: &mut Vec<(String, Term)>) {
    match value {
        Value::Bool(term) | Value::Scalar(_, term) => into.push((name, *term)),
        Value::Tuple(values) | Value::Array(values) => {
            for (position, value) in values.iter().enumerate() {
                collect_leaves(value, format!("{name}.{position}"), terms, into);
            }
        }
        Value::Struct(shape, values) => {
            for ((field, _), value) in shape.fields.iter().zip(values.iter()) {
                collect_leaves(value, format!("{name}.{field}"), terms, into);
            }
        }
        Value::Enum(value) if value.shape.name == "Option" => {
            let is_some = value.number(terms);
            let some = terms.constant(1, 8);
            into.push((name.clone(), terms.equal(is_some, some)));
            if let Some(Some([value])) = value.payloads.get(1).map(Option::as_deref) {
                collect_leaves(value, format!("{name}.value"), terms, into);
            }
        }
        Value::Enum(value) => {
            into.push((name.clone(), value.number(terms)));
            for (variant, values) in value.shape.variants.iter().zip(value.payloads.iter()) {
                let name = format!("{name}.{}", anabranch_language::kebab(&variant.name));
                for ((field, _), value) in variant.fields.iter().zip(values.iter().flatten()) {
                    collect_leaves(value, format!("{name}.{field}"), terms, into);
                }
            }
        }
        _ => {}
    }
}

/// The zero of a type; `None` where it has none.
pub(crate) fn zero_of(of: &Type, terms: &mut Terms) -> Option<Value> {
    Some(match of {
        Type::Unit => Value::Unit,
        Type::Bool => Value::Bool(terms.bool(false)),
        Type::Scalar(scalar) => Value::Scalar(*scalar, terms.constant(0, scalar.width())),
        Type::Tuple(types) => Value::tuple(zeros(types.iter(), terms)?),
        Type::Array(element, length) => Value::array(vec![zero_of(element, terms)?; *length]),
        Type::Slice(_) => Value::array(Vec::new()),
        Type::Option(_) => Value::variant(&EnumShape::option(), 0, Vec::new()),
        Type::Struct(shape) => {
            let fields = zeros(shape.fields.iter().map(|(_, of)| of), terms)?;
            Value::Struct(shape.clone(), Rc::new(fields))
        }
        Type::Enum(shape) => {
            let fields = &shape.variants.first()?.fields;
            Value::variant(shape, 0, zeros(fields.iter().map(|(_, of)| of), terms)?)
        }
        Type::Unknown => Value::Literal(0),
        Type::Result(..) | Type::List(_) => return None,
    })
}

fn zeros<'t>(types: impl Iterator<Item = &'t Type>, terms: &mut Terms) -> Option<Vec<Value>> {
    types.map(|of| zero_of(of, terms)).collect()
}

/// The zero of the type that a value has; `None` where it has none.
pub(crate) fn zero_like(value: &Value, terms: &mut Terms) -> Option<Value> {
    Some(match value {
        Value::Unit => Value::Unit,
        Value::Bool(_) => zero_of(&Type::Bool, terms)?,
        Value::Scalar(scalar, _) => zero_of(&Type::Scalar(*scalar), terms)?,
        Value::Literal(_) | Value::OneOf(_) => Value::Literal(0),
        Value::Tuple(parts) => Value::tuple(zeros_like(parts, terms)?),
        Value::Array(items) => Value::array(zeros_like(items, terms)?),
        Value::Struct(shape, fields) => {
            Value::Struct(shape.clone(), Rc::new(zeros_like(fields, terms)?))
        }
        Value::Enum(value) if value.shape.name == "Option" => {
            Value::variant(&value.shape, 0, Vec::new())
        }
        Value::Enum(value) => zero_of(&Type::Enum(value.shape.clone()), terms)?,
        Value::Text(_) => Value::Text("".into()),
        _ => return None,
    })
}

fn zeros_like(values: &[Value], terms: &mut Terms) -> Option<Vec<Value>> {
    values.iter().map(|value| zero_like(value, terms)).collect()
}

fn joined(name: &str, field: &str) -> String {
    match name.is_empty() {
        true => field.to_owned(),
        false => format!("{name}.{field}"),
    }
}

/// Variants are written by name.
fn variants_kind(shape: &EnumShape) -> Kind {
    let names = shape.variants.iter().map(|variant| anabranch_language::kebab(&variant.name));
    Kind::Variants(names.collect())
}

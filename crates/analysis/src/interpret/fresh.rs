//! Symbolic values of a type, zero values, and the terms a value is made of.

use std::rc::Rc;

use super::types::{EnumShape, Type};
use super::value::{EnumValue, List, Tag, Value};
use super::{Eval, Interpreter};
use crate::access::Part;
use crate::expr::{Binary, Kind, Sort, Term};

impl<'p> Interpreter<'p> {
    /// An unknown value of a type: its leaves are symbols named `name.field`, or unknown functions
    /// of `arguments`.
    pub(crate) fn unknown(&mut self, name: &str, of: &Type, arguments: &[Term]) -> Eval {
        Ok(match of {
            Type::Unit => Value::Unit,
            Type::Bool => Value::Bool(self.terms.apply(name, Sort::Bool, Kind::Number, arguments)),
            Type::Scalar(scalar) => {
                let sort = Sort::Bits(scalar.width());
                Value::Scalar(*scalar, self.terms.apply(name, sort, scalar.kind(), arguments))
            }
            Type::Tuple(types) => Value::tuple(self.unknown_fields(name, types, arguments)?),
            Type::Array(element, length) => {
                let types = vec![(**element).clone(); *length];
                Value::array(self.unknown_fields(name, &types, arguments)?)
            }
            Type::Option(some) => {
                let present = self.terms.apply(name, Sort::Bool, Kind::Presence, arguments);
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
        let number = self.terms.apply(name, Sort::Bits(8), kind, arguments);
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
        Ok(match of {
            Type::Unit => Value::Unit,
            Type::Bool => Value::Bool(self.terms.bool(false)),
            Type::Scalar(scalar) => Value::Scalar(*scalar, self.terms.constant(0, scalar.width())),
            Type::Tuple(types) => {
                Value::tuple(types.iter().map(|of| self.zero(of)).collect::<Eval<_>>()?)
            }
            Type::Array(element, length) => Value::array(vec![self.zero(element)?; *length]),
            Type::Option(_) => self.none(),
            Type::Struct(shape) => {
                let fields = shape.fields.iter().map(|(_, of)| self.zero(of));
                let fields = fields.collect::<Eval<_>>()?;
                Value::Struct(shape.clone(), Rc::new(fields))
            }
            Type::Enum(shape) => {
                let fields = shape.variants.first().map(|variant| &variant.fields);
                let fields = fields.into_iter().flatten().map(|(_, of)| self.zero(of));
                let fields = fields.collect::<Eval<_>>()?;
                Value::variant(shape, 0, fields)
            }
            Type::Unknown => Value::Literal(0),
            Type::Result(..) | Type::Slice(_) | Type::List(_) => {
                return self.error("this type has no default: write the value");
            }
        })
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
            Value::Bool(_) | Value::Scalar(..) | Value::Literal(_) => {
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

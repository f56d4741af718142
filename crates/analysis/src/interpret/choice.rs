//! Methods of `Option` and `Result`.

use super::types::Type;
use super::value::{EnumValue, Tag, Value};
use super::{Eval, Interpreter};

impl<'p> Interpreter<'p> {
    pub(crate) fn choice_method(
        &mut self,
        value: EnumValue,
        call: &'p syn::ExprMethodCall,
        want: &Type,
    ) -> Eval {
        let name = call.method.to_string();
        let kind = value.shape.name.as_str();
        self.at(call.method.span());
        if name == "clone" || name == "copied" || name == "cloned" {
            return Ok(Value::Enum(value));
        }
        if kind != "Option" && kind != "Result" {
            return self.error(format!("`{kind}` has no method `{name}`: write it in an `impl`"));
        }
        match name.as_str() {
            "is_some" | "is_ok" => Ok(Value::Bool(value.is_variant(1, &mut self.terms))),
            "is_none" | "is_err" => Ok(Value::Bool(value.is_variant(0, &mut self.terms))),
            "is_some_and" | "is_ok_and" => self.good_and(value, call),
            "ok" => self.ok(value),
            _ => self.asked(value, call, want),
        }
    }

    /// `is_some_and`: one condition where the closure only computes.
    fn good_and(&mut self, value: EnumValue, call: &'p syn::ExprMethodCall) -> Eval {
        let good = value.is_variant(1, &mut self.terms);
        let test = self.argument(call, 0)?;
        let both = self.connected(true, good, |this| {
            let inner = this.payload(&value, 1)?;
            match this.invoke(&test, vec![inner])? {
                Value::Bool(term) => Ok(term),
                other => this.error(format!("{} isn't a `bool`", other.describe())),
            }
        })?;
        Ok(Value::Bool(both))
    }

    fn ok(&mut self, value: EnumValue) -> Eval {
        let good = value.is_variant(1, &mut self.terms);
        match self.payload(&value, 1) {
            Ok(inner) => Ok(self.option(good, inner)),
            Err(_) => Ok(self.none()),
        }
    }

    fn argument(&mut self, call: &'p syn::ExprMethodCall, at: usize) -> Eval {
        match call.args.iter().nth(at) {
            Some(argument) => self.value(argument),
            None => self.error(format!("`{}` needs an argument", call.method)),
        }
    }

    /// Methods that first ask which variant it is.
    fn asked(&mut self, value: EnumValue, call: &'p syn::ExprMethodCall, want: &Type) -> Eval {
        let arguments = self.choice_arguments(call, want)?;
        let good = value.is_variant(1, &mut self.terms);
        self.at(call.method.span());
        let good = self.decide(good)?;
        let name = call.method.to_string();
        if good {
            let inner = self.payload(&value, 1)?;
            return self.when_good(&name, &value, inner, arguments);
        }
        self.when_bad(&name, value, arguments)
    }

    /// Arguments are evaluated before the method asks, as in Rust.
    fn choice_arguments(&mut self, call: &'p syn::ExprMethodCall, want: &Type) -> Eval<Vec<Value>> {
        let mut values = Vec::new();
        for argument in &call.args {
            values.push(self.expression(argument, want)?);
        }
        Ok(values)
    }

    fn when_good(
        &mut self,
        name: &str,
        value: &EnumValue,
        inner: Value,
        mut arguments: Vec<Value>,
    ) -> Eval {
        let shape = value.shape.clone();
        match (name, arguments.pop()) {
            ("map", Some(make)) => {
                let made = self.invoke(&make, vec![inner])?;
                Ok(Value::variant(&shape, 1, vec![made]))
            }
            ("and_then" | "map_or" | "map_or_else", Some(make)) => self.invoke(&make, vec![inner]),
            ("unwrap_or", Some(other)) => {
                let other = self.settled(other)?;
                self.like(inner, &other)
            }
            ("unwrap_or_default", None) | ("unwrap_or_else", Some(_)) => Ok(inner),
            ("ok_or" | "ok_or_else", Some(_)) => {
                Ok(Value::variant(&self.prelude.result, 1, vec![inner]))
            }
            ("or" | "or_else" | "map_err", Some(_)) => Ok(Value::variant(&shape, 1, vec![inner])),
            ("filter", Some(test)) => self.filtered(inner, &test),
            ("take", None) => self.error("`take` isn't in the language: assign `None`"),
            _ => self.no_choice_method(name),
        }
    }

    fn filtered(&mut self, inner: Value, test: &Value) -> Eval {
        match self.invoke(test, vec![inner.clone()])? {
            Value::Bool(keeps) => Ok(self.option(keeps, inner)),
            other => self.error(format!("{} isn't a `bool`", other.describe())),
        }
    }

    fn when_bad(&mut self, name: &str, value: EnumValue, mut arguments: Vec<Value>) -> Eval {
        let is_result = value.shape.name == "Result";
        let error = || value.payloads[0].clone().unwrap_or_default();
        match name {
            "map" | "and_then" | "filter" => {
                Ok(Value::Enum(EnumValue { tag: Tag::Known(0), ..value }))
            }
            "unwrap_or" | "or" => {
                let other = arguments.pop().unwrap_or(Value::Unit);
                let other = self.settled(other)?;
                self.like_payload(other, &value)
            }
            "map_or" if !arguments.is_empty() => Ok(arguments.swap_remove(0)),
            "unwrap_or_else" | "or_else" if !arguments.is_empty() => {
                let given = if is_result { error() } else { Vec::new() };
                self.invoke(&arguments.swap_remove(0), given)
            }
            "unwrap_or_default" => self.default_payload(&value),
            "ok_or" => {
                let error = arguments.pop().unwrap_or(Value::Unit);
                Ok(Value::variant(&self.prelude.result, 0, vec![error]))
            }
            "map_err" if is_result && !arguments.is_empty() => {
                let error = self.invoke(&arguments.swap_remove(0), error())?;
                Ok(Value::variant(&self.prelude.result, 0, vec![error]))
            }
            _ => self.no_choice_method(name),
        }
    }

    fn no_choice_method(&self, name: &str) -> Eval {
        self.error(format!("`Option` and `Result` have no method `{name}`: write a `match`"))
    }

    /// A literal beside a value of known type gets that type.
    fn like_payload(&mut self, other: Value, value: &EnumValue) -> Eval {
        match self.payload(value, 1) {
            Ok(inner) => self.like(other, &inner),
            Err(_) => Ok(other),
        }
    }

    fn default_payload(&mut self, value: &EnumValue) -> Eval {
        let inner = self.payload(value, 1);
        match inner {
            Ok(inner) => {
                let of = self.type_of(&inner);
                self.zero(&of)
            }
            Err(_) => Ok(Value::Literal(0)),
        }
    }
}

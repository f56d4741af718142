//! The context, and the settings.

use anabranch_language::{Setting, SettingType};

use super::types::{Scalar, Type};
use super::value::{LocalCell, Value};
use super::{Eval, Frame, Interpreter};
use crate::expr::{Kind, Sort, Term};
use crate::path::Effect;

impl<'p> Interpreter<'p> {
    pub(crate) fn context_method(&mut self, call: &'p syn::ExprMethodCall) -> Eval {
        let mut arguments = Vec::new();
        for argument in &call.args {
            arguments.push(self.settled_value(argument)?);
        }
        self.at(call.method.span());
        let name = call.method.to_string();
        if name == "now" {
            return Ok(Value::Scalar(Scalar::Unsigned(64), self.now()));
        }
        self.effect()?;
        let line = self.line();
        let mut next = arguments.into_iter();
        let mut number = |this: &mut Self, scalar: Scalar| match next.next() {
            Some(value) => this.scalar(value, scalar),
            None => this.error("this needs more arguments"),
        };
        let effect = match name.as_str() {
            "random" => return Ok(self.random()),
            "set_expiry" => {
                Effect::SetExpiry { lifetime_ns: number(self, Scalar::Unsigned(64))?, line }
            }
            "set_timer" => Effect::SetTimer {
                delay_ns: number(self, Scalar::Unsigned(64))?,
                token: number(self, Scalar::Unsigned(64))?,
                line,
            },
            "emit" => {
                let port = number(self, Scalar::Port)?;
                let (len, bytes) = self.emitted(next.next())?;
                Effect::Emit { port, len, bytes, line }
            }
            _ => {
                return self.error(format!("the context has no `{name}`: see docs/nf-language.md"));
            }
        };
        self.run.effects.push(effect);
        Ok(Value::Unit)
    }

    /// The packet's arrival time in nanoseconds.
    pub(crate) fn now(&mut self) -> Term {
        self.terms.symbol("now", Sort::Bits(64), Kind::Number)
    }

    fn random(&mut self) -> Value {
        self.run.randoms += 1;
        let name = format!("random#{}", self.run.randoms);
        Value::Scalar(Scalar::Unsigned(64), self.terms.symbol(&name, Sort::Bits(64), Kind::Number))
    }

    /// The length of what is emitted, and its bytes.
    fn emitted(&mut self, frame: Option<Value>) -> Eval<(Term, Vec<Term>)> {
        match frame {
            Some(Value::Array(bytes)) => {
                let known = bytes.iter().filter_map(|byte| match byte {
                    Value::Scalar(_, term) => Some(*term),
                    _ => None,
                });
                let known = known.collect();
                Ok((self.terms.constant(bytes.len() as u128, 64), known))
            }
            Some(Value::Payload(window)) => Ok((self.payload_left(window), Vec::new())),
            _ => self.error("`emit` needs a port and the bytes of a packet"),
        }
    }

    /// The settings: unknown, within the bounds their author set.
    pub(crate) fn settings(&mut self) -> Eval {
        if let Some(known) = &self.run.settings {
            return Ok(known.clone());
        }
        let program = self.program;
        let Some(settings) = &program.module.settings else {
            return self.error("this network function has no settings");
        };
        let of = self.named_type(&settings.ident.to_string(), Vec::new())?;
        let value = self.unknown("settings", &of, &[])?;
        self.run.settings = Some(value.clone());
        if let Value::Struct(_, fields) = &value {
            for (setting, field) in settings.fields.iter().zip(fields.iter()) {
                self.bound_setting(setting, field)?;
            }
        }
        for accepted in self.accepted.clone() {
            self.assume(accepted)?;
        }
        Ok(value)
    }

    /// What is so of all settings.
    pub(crate) fn given(&mut self) -> Vec<Term> {
        self.restart();
        match self.settings() {
            Ok(_) => self.explorer.assertions().to_vec(),
            Err(_) => Vec::new(),
        }
    }

    pub(crate) fn bound_setting(&mut self, setting: &'p Setting, value: &Value) -> Eval<()> {
        if !matches!(setting.kind, SettingType::Integer { .. }) {
            return Ok(());
        }
        let want = self.type_of(value);
        if let Some(least) = &setting.min {
            let least = self.typed(least, &want)?;
            let rule = self.less(false, &least, value)?;
            self.assume(rule)?;
        }
        if let Some(most) = &setting.max {
            let most = self.typed(most, &want)?;
            let rule = self.less(false, value, &most)?;
            self.assume(rule)?;
        }
        Ok(())
    }

    /// The value of an expression over `settings`.
    pub(crate) fn over_settings(&mut self, expression: &'p syn::Expr, want: &Type) -> Eval {
        let program = self.program;
        let settings = match &program.module.settings {
            Some(_) => self.settings()?,
            None => Value::Unit,
        };
        let here = self.here;
        let mut frame = Frame::empty();
        frame.locals.push((&program.settings, LocalCell::new(settings)));
        let value = self.in_frame(frame, |this| this.expression(expression, want));
        self.here = here;
        value
    }

    /// How many entries an object holds, 64 bits.
    pub(crate) fn capacity(&mut self, object: usize) -> Eval<Term> {
        let program = self.program;
        match &program.module.nf.fields[object].capacity {
            Some(capacity) => {
                let capacity = self.over_settings(capacity, &Type::Unknown)?;
                self.index_term(capacity)
            }
            None => Ok(self.terms.constant(u128::from(u32::MAX), 64)),
        }
    }
}

//! Calls: functions, methods, closures.

use std::rc::Rc;

use anabranch_language::{Opaque, opaque};
use syn::spanned::Spanned;
use syn::{Expr, FnArg, GenericParam, ReturnType, Signature};

use super::resolve::{Generics, bound};
use super::types::Type;
use super::value::{LocalCell, Place, Value};
use super::{Closure, Eval, Exit, Frame, Interpreter};
use crate::expr::Binary;

/// A function of the module, free or of a type.
#[derive(Clone, Copy)]
pub(crate) struct Function<'p> {
    pub(crate) signature: &'p Signature,
    pub(crate) body: &'p syn::Block,
    pub(crate) opaque: Option<Opaque>,
}

impl<'p> Interpreter<'p> {
    pub(crate) fn function_named(&self, name: &str) -> Option<Function<'p>> {
        let program = self.program;
        program.module.fn_named(name).map(|item| Function {
            signature: &item.sig,
            body: &item.block,
            opaque: opaque(&item.attrs, &item.sig),
        })
    }

    pub(crate) fn method_named(&self, of: &str, name: &str) -> Option<Function<'p>> {
        let program = self.program;
        program.module.method(of, name).map(|item| Function {
            signature: &item.sig,
            body: &item.block,
            opaque: opaque(&item.attrs, &item.sig),
        })
    }

    /// `f(…)`: a function of the module, a constructor, an associated function or a closure.
    pub(crate) fn call(&mut self, call: &'p syn::ExprCall, want: &Type) -> Eval {
        let Expr::Path(path) = &*call.func else {
            let callee = self.value(&call.func)?;
            let arguments = self.values(call.args.iter())?;
            return self.invoke(&callee, arguments);
        };
        let segments = &path.path.segments;
        let Some(last) = segments.last() else {
            return self.error("a path without a name");
        };
        let name = last.ident.to_string();
        if segments.len() == 1 {
            if let Some(slot) = self.local(&last.ident) {
                let callee = slot.value.borrow().clone();
                let arguments = self.values(call.args.iter())?;
                return self.invoke(&callee, arguments);
            }
            if let Some(function) = self.function_named(&name) {
                let given = self.type_arguments(&last.arguments)?;
                let arguments = self.arguments(function, call.args.iter())?;
                self.at(last.ident.span());
                return self.call_function(function, &name, None, arguments, given);
            }
        }
        self.construct_or_associated(path, call, want)
    }

    /// Values of argument expressions.
    pub(crate) fn values(&mut self, written: impl Iterator<Item = &'p Expr>) -> Eval<Vec<Value>> {
        written.map(|argument| self.value(argument)).collect()
    }

    /// Values of the arguments of a function, literals typed where the parameter's type shows.
    pub(crate) fn arguments(
        &mut self,
        function: Function<'p>,
        written: impl Iterator<Item = &'p Expr>,
    ) -> Eval<Vec<Value>> {
        let mut values = Vec::new();
        let mut parameters = parameters(function.signature);
        for argument in written {
            let want = match parameters.next().map(|typed| &*typed.ty) {
                Some(written) if is_scalar_name(written) => self.resolve(written)?,
                _ => Type::Unknown,
            };
            values.push(self.expression(argument, &want)?);
        }
        Ok(values)
    }

    /// Runs a function of the module; one that only computes is a value, not paths.
    pub(crate) fn call_function(
        &mut self,
        function: Function<'p>,
        name: &str,
        receiver: Option<(Value, Type)>,
        arguments: Vec<Value>,
        given: Vec<Type>,
    ) -> Eval {
        let here = self.here;
        let run = |this: &mut Self| {
            this.run_body(function, name, receiver.clone(), &arguments, given.clone())
        };
        let joined = match self.purity.function_computes(name, self.program) {
            true => self.merged(run)?,
            false => None,
        };
        let value = match joined {
            Some(value) => value,
            None => run(self)?,
        };
        self.here = here;
        Ok(value)
    }

    /// Runs a function, its branches as paths.
    pub(crate) fn run_body(
        &mut self,
        function: Function<'p>,
        name: &str,
        receiver: Option<(Value, Type)>,
        arguments: &[Value],
        given: Vec<Type>,
    ) -> Eval {
        let self_type = receiver.as_ref().map_or(Type::Unknown, |(_, of)| of.clone());
        let frame = Frame {
            locals: Vec::new(),
            receiver: receiver.map(|(value, _)| LocalCell::new(value)),
            generics: self.generics_of(function.signature, arguments, given, &self_type),
            self_type,
            returns: Type::Unknown,
        };
        self.in_frame(frame, |this| {
            this.bind_parameters(function.signature, arguments)?;
            let returns = match &function.signature.output {
                ReturnType::Default => Type::Unit,
                ReturnType::Type(_, written) => this.resolve(written)?,
            };
            if let Some(declared) = function.opaque
                && let Some(value) = this.opaque_call(name, declared, arguments, &returns)?
            {
                return Ok(value);
            }
            this.frame().returns = returns.clone();
            let value = match this.block(function.body, &returns) {
                Err(exit) => match *exit {
                    Exit::Return(value) => value,
                    other => return Err(Box::new(other)),
                },
                Ok(value) => value,
            };
            this.coerce(value, &returns)
        })
    }

    /// Type parameters: those given, else those that show in the arguments.
    fn generics_of(
        &mut self,
        signature: &'p Signature,
        arguments: &[Value],
        given: Vec<Type>,
        of: &Type,
    ) -> Generics {
        let mut generics: Vec<(String, Type)> = (*bound(&signature.generics, given)).clone();
        for (typed, value) in parameters(signature).zip(arguments) {
            let Some(name) = plain_name(&typed.ty) else {
                continue;
            };
            let place = generics
                .iter()
                .position(|(known, bound)| *known == name && *bound == Type::Unknown);
            if let Some(place) = place {
                generics[place].1 = self.type_of(value);
            }
        }
        generics.push(("Self".to_owned(), of.clone()));
        Rc::new(generics)
    }

    fn bind_parameters(&mut self, signature: &'p Signature, arguments: &[Value]) -> Eval<()> {
        for (parameter, value) in parameters(signature).zip(arguments) {
            self.bind_length(&signature.generics, &parameter.ty, value);
            let want = self.resolve(&parameter.ty)?;
            let value = self.coerce(value.clone(), &want)?;
            let matched = self.match_value(&parameter.pat, value)?;
            self.implied(matched)?;
        }
        Ok(())
    }

    /// `[T; N]`: the length of the array is `N`.
    fn bind_length(&mut self, generics: &'p syn::Generics, written: &'p syn::Type, value: &Value) {
        let mut written = written;
        while let syn::Type::Reference(reference) = written {
            written = &reference.elem;
        }
        let (syn::Type::Array(array), Value::Array(items)) = (written, value) else {
            return;
        };
        let Expr::Path(length) = &array.len else {
            return;
        };
        for parameter in &generics.params {
            if let GenericParam::Const(constant) = parameter
                && length.path.is_ident(&constant.ident)
            {
                self.bind(&constant.ident, Value::Literal(items.len() as i128));
            }
        }
    }

    /// An opaque function is an unknown function of its arguments, a part of the payload standing
    /// for where it begins and ends; of known arguments its value is known. What is declared of its result is so.
    fn opaque_call(
        &mut self,
        name: &str,
        declared: Opaque,
        arguments: &[Value],
        returns: &Type,
    ) -> Eval<Option<Value>> {
        let mut terms = Vec::new();
        for argument in arguments {
            let argument = self.settled(argument.clone())?;
            if let Value::Payload(window) = argument {
                terms.extend([window.from, window.to]);
                continue;
            }
            for part in self.parts(&argument, "")? {
                terms.push(part.term);
            }
        }
        if terms.iter().all(|term| self.terms.known_value(*term).is_some()) {
            return Ok(None);
        }
        let value = self.unknown(name, returns, &terms)?;
        let limit = declared.below.and_then(|position| arguments.get(position));
        if let Some(limit) = limit {
            let limit = self.settled(limit.clone())?;
            let limit = self.coerce(limit, returns)?;
            if let (Some(value), Some(limit)) = (self.term_of(&value), self.term_of(&limit)) {
                let below = self.terms.binary(Binary::LessUnsigned, value, limit);
                // Of what is merged, only where it is called.
                let here = self.local_conditions();
                self.assume_where(here, below)?;
            }
        }
        Ok(Some(value))
    }

    pub(crate) fn closure(&mut self, code: &'p syn::ExprClosure) -> Value {
        let frame = self.frame().clone();
        self.closures.push(Closure { code, frame });
        Value::Closure(self.closures.len() - 1)
    }

    /// Calls a closure or a function passed as a value.
    pub(crate) fn invoke(&mut self, callee: &Value, arguments: Vec<Value>) -> Eval {
        match callee {
            Value::Reference(place) => {
                let callee = self.read(place)?;
                self.invoke(&callee, arguments)
            }
            Value::Closure(number) => {
                let closure = self.closures[*number].clone();
                self.invoke_closure(closure, arguments)
            }
            Value::Function(name) => match self.function_named(name) {
                Some(function) => self.call_function(function, name, None, arguments, Vec::new()),
                None => self.construct_named(name, arguments),
            },
            other => self.error(format!("{} can't be called", other.describe())),
        }
    }

    fn invoke_closure(&mut self, closure: Closure<'p>, arguments: Vec<Value>) -> Eval {
        let Closure { code, mut frame } = closure;
        frame.returns = match &code.output {
            ReturnType::Default => Type::Unknown,
            ReturnType::Type(_, written) => self.resolve(written)?,
        };
        let returns = frame.returns.clone();
        let result = self.in_frame(frame, |this| {
            for (pattern, value) in code.inputs.iter().zip(arguments) {
                let matched = this.match_value(pattern, value)?;
                this.implied(matched)?;
            }
            let value = this.expression(&code.body, &returns)?;
            this.coerce(value, &returns)
        });
        match result {
            Err(exit) => match *exit {
                Exit::Return(value) => Ok(value),
                other => Err(Box::new(other)),
            },
            value => value,
        }
    }

    /// `receiver.method(…)`.
    pub(crate) fn method_call(&mut self, call: &'p syn::ExprMethodCall, want: &Type) -> Eval {
        let place = self.place_of(&call.receiver)?;
        let raw = match &place {
            Some(place) => self.read(place)?,
            None => self.expression(&call.receiver, &self.receiver_hint(call, want))?,
        };
        let value = self.settled(raw.clone())?;
        let name = call.method.to_string();
        if let Some(of) = self.module_type(&value)
            && let Some(function) = self.method_named(&of, &name)
        {
            let receiver = self.receiver(function, raw, value, place)?;
            let given = self.type_arguments_of(call)?;
            let arguments = self.arguments(function, call.args.iter())?;
            self.at(call.method.span());
            return self.call_function(function, &name, Some(receiver), arguments, given);
        }
        self.built_in_method(call, &name, value, want)
    }

    /// A literal receiver takes the type its result is wanted in.
    fn receiver_hint(&self, call: &syn::ExprMethodCall, want: &Type) -> Type {
        match (&*call.receiver, want) {
            (Expr::Lit(_), Type::Scalar(scalar)) => Type::Scalar(*scalar),
            _ => Type::Unknown,
        }
    }

    fn type_arguments_of(&mut self, call: &'p syn::ExprMethodCall) -> Eval<Vec<Type>> {
        let Some(list) = &call.turbofish else {
            return Ok(Vec::new());
        };
        let types = list.args.iter().filter_map(|argument| match argument {
            syn::GenericArgument::Type(written) => Some(written),
            _ => None,
        });
        types.map(|written| self.resolve(written)).collect()
    }

    /// The type of the module a value belongs to.
    fn module_type(&self, value: &Value) -> Option<String> {
        match value {
            Value::Nf => Some(self.program.module.nf.ident.to_string()),
            Value::Struct(shape, _) => Some(shape.name.clone()),
            Value::Enum(value) => Some(value.shape.name.clone()),
            _ => None,
        }
    }

    /// What `self` is: a reference where the method may write.
    fn receiver(
        &mut self,
        function: Function<'p>,
        raw: Value,
        value: Value,
        place: Option<Place>,
    ) -> Eval<(Value, Type)> {
        let of = self.type_of(&value);
        let writes = match function.signature.receiver() {
            Some(receiver) => receiver.mutability.is_some() && receiver.reference.is_some(),
            None => false,
        };
        let receiver = match (raw, place) {
            (raw, _) if !writes => match raw {
                Value::Nf => Value::Nf,
                _ => value,
            },
            (raw @ (Value::Reference(_) | Value::Nf), _) => raw,
            (_, Some(place)) => Value::Reference(self.solid(place)?),
            (raw, None) => Value::Reference(Place::of(LocalCell::new(raw))),
        };
        Ok((receiver, of))
    }

    fn built_in_method(
        &mut self,
        call: &'p syn::ExprMethodCall,
        name: &str,
        value: Value,
        want: &Type,
    ) -> Eval {
        let span = call.method.span();
        match value {
            Value::State(object) => self.state_method(object, call),
            Value::Packet => self.packet_method(call),
            Value::Context => self.context_method(call),
            Value::Header(header) => self.header_method(header, call),
            Value::Enum(value) => self.choice_method(value, call, want),
            Value::Scalar(scalar, term) if scalar.is_integer() => {
                let arguments = self.settled_values(call)?;
                self.at(span);
                self.integer_method(name, Value::Scalar(scalar, term), arguments)
            }
            value if value.is_untyped() => {
                let arguments = self.settled_values(call)?;
                self.at(span);
                self.integer_method(name, value, arguments)
            }
            Value::Scalar(scalar, term) => {
                self.at(span);
                self.address_method(name, scalar, term)
            }
            Value::Array(_)
            | Value::Payload(_)
            | Value::List(_)
            | Value::Items(_)
            | Value::Range(_) => self.sequence_method(value, call),
            Value::Bool(term) => self.bool_method(name, term, call),
            Value::Struct(..) | Value::Tuple(_) if name == "clone" => Ok(value),
            other => {
                self.at(call.span());
                self.error(format!("{} has no method `{name}`", other.describe()))
            }
        }
    }

    fn settled_values(&mut self, call: &'p syn::ExprMethodCall) -> Eval<Vec<Value>> {
        call.args.iter().map(|argument| self.settled_value(argument)).collect()
    }

    fn bool_method(
        &mut self,
        name: &str,
        term: crate::expr::Term,
        call: &'p syn::ExprMethodCall,
    ) -> Eval {
        match (name, call.args.first()) {
            ("then", Some(make)) => {
                let make = self.value(make)?;
                match self.decide(term)? {
                    true => {
                        let value = self.invoke(&make, Vec::new())?;
                        Ok(self.some(value))
                    }
                    false => Ok(self.none()),
                }
            }
            ("then_some", Some(value)) => {
                let value = self.value(value)?;
                Ok(self.option(term, value))
            }
            ("clone", None) => Ok(Value::Bool(term)),
            _ => {
                self.at(call.method.span());
                self.error(format!("`bool` has no method `{name}` in the language: write `if`"))
            }
        }
    }
}

/// Parameters but `self`.
pub(crate) fn parameters(signature: &Signature) -> impl Iterator<Item = &syn::PatType> {
    signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    })
}

/// The name of a type parameter or plain type, references taken off.
fn plain_name(written: &syn::Type) -> Option<String> {
    match written {
        syn::Type::Path(path) => path.path.get_ident().map(ToString::to_string),
        syn::Type::Reference(reference) => plain_name(&reference.elem),
        _ => None,
    }
}

fn is_scalar_name(written: &syn::Type) -> bool {
    plain_name(written).is_some_and(|name| super::types::Scalar::named(&name).is_some())
}

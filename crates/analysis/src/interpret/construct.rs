//! Constructors, constants and associated functions: whatever a path may name.

use std::rc::Rc;

use syn::{Expr, Ident};

use super::types::{EnumShape, Scalar, Type};
use super::value::{EnumValue, Tag, Value};
use super::{Eval, Interpreter};
use crate::expr::Term;

impl<'p> Interpreter<'p> {
    pub(crate) fn some(&self, value: Value) -> Value {
        Value::variant(&self.prelude.option, 1, vec![value])
    }

    pub(crate) fn none(&self) -> Value {
        Value::variant(&self.prelude.option, 0, Vec::new())
    }

    /// `Some(value)` where the condition holds, else `None`.
    pub(crate) fn option(&self, some: Term, value: Value) -> Value {
        let tag = match self.terms.bool_of(some) {
            Some(true) => Tag::Known(1),
            Some(false) => Tag::Known(0),
            None => Tag::Choice(some),
        };
        let payloads = Rc::new(vec![Some(Vec::new()), Some(vec![value])]);
        Value::Enum(EnumValue { shape: self.prelude.option.clone(), tag, payloads })
    }

    /// What a path stands for where a value is needed.
    pub(crate) fn path_value(&mut self, path: &'p syn::ExprPath) -> Eval {
        let segments = &path.path.segments;
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
            return self.error("a path without a name");
        };
        if segments.len() == 1 {
            if let Some(slot) = self.local(&last.ident) {
                return Ok(slot.value.borrow().clone());
            }
            return self.named_value(&last.ident);
        }
        if first.ident == "Builtin" {
            return Ok(Value::Reason(anabranch_language::kebab(&last.ident.to_string()).into()));
        }
        let of = self.resolve_segment(first)?;
        self.at(last.ident.span());
        self.associated_value(of, &first.ident, &last.ident)
    }

    fn resolve_segment(&mut self, segment: &'p syn::PathSegment) -> Eval<Type> {
        let name = segment.ident.to_string();
        if let Some(scalar) = Scalar::named(&name) {
            return Ok(Type::Scalar(scalar));
        }
        let generics = self.frame().generics.clone();
        if let Some((_, bound)) = generics.iter().find(|(known, _)| *known == name) {
            return Ok(bound.clone());
        }
        match name.as_str() {
            "Self" => Ok(self.frame().self_type.clone()),
            "Verdict" => Ok(Type::Enum(self.prelude.verdict.clone())),
            "Option" => Ok(Type::Enum(self.prelude.option.clone())),
            "Result" => Ok(Type::Enum(self.prelude.result.clone())),
            _ => {
                let arguments = self.type_arguments(&segment.arguments)?;
                self.named_type(&name, arguments)
            }
        }
    }

    /// A constant, a port, or a constructor by name.
    fn named_value(&mut self, name: &'p Ident) -> Eval {
        match name.to_string().as_str() {
            "None" => Ok(self.none()),
            "Flood" => {
                self.at(name.span());
                self.verdict("Flood", Vec::new())
            }
            "Self" => self.error("`Self` isn't a value here: write its fields"),
            _ => self.named_constant(name),
        }
    }

    /// A constant of the module, a port, or a function used as a value.
    pub(crate) fn named_constant(&mut self, name: &'p Ident) -> Eval {
        let program = self.program;
        let text = name.to_string();
        if let Some(known) = self.constants.get(&text) {
            return Ok(known.clone());
        }
        if let Some(item) = program.module.const_named(&text) {
            let value = self.in_frame(super::Frame::empty(), |this| {
                let want = this.resolve(&item.ty)?;
                let value = this.expression(&item.expr, &want)?;
                this.coerce(value, &want)
            })?;
            self.constants.insert(text, value.clone());
            return Ok(value);
        }
        if let Some(number) = self.port_constant(name) {
            return Ok(Value::Scalar(Scalar::Port, self.terms.constant(u128::from(number), 8)));
        }
        if self.function_named(&text).is_some() || is_constructor(&text) {
            return Ok(Value::Function(text.into()));
        }
        if let Type::Struct(shape) = self.named_type(&text, Vec::new())? {
            return Ok(match shape.fields.is_empty() {
                true => Value::Struct(shape, Rc::default()),
                false => Value::Function(text.into()),
            });
        }
        self.at(name.span());
        self.error(format!("`{text}` isn't known here: use names of the module and its prelude"))
    }

    pub(crate) fn port_constant(&self, name: &Ident) -> Option<u8> {
        let mut ports = self.program.ports.iter();
        ports.find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    fn associated_value(&mut self, of: Type, owner: &'p Ident, name: &'p Ident) -> Eval {
        match of {
            Type::Scalar(scalar) if scalar.is_integer() => self.integer_constant(scalar, name),
            Type::Enum(shape) => match shape.position(&name.to_string()) {
                Some(variant) if shape.variants[variant].fields.is_empty() => {
                    Ok(self.variant(&shape, variant, Vec::new()))
                }
                Some(_) => Ok(Value::Function(format!("{owner}::{name}").into())),
                None => self.associated_constant(&shape.name, name),
            },
            Type::Struct(shape) => self.associated_constant(&shape.name, name),
            _ => {
                let owner = self.owner_name(owner);
                self.associated_constant(&owner, name)
            }
        }
    }

    /// The type a path starts with; `Self` that is no plain type is the network function.
    fn owner_name(&self, owner: &Ident) -> String {
        match owner == "Self" {
            true => self.program.module.nf.ident.to_string(),
            false => owner.to_string(),
        }
    }

    /// `const` of an `impl` block, or a function of it used as a value.
    fn associated_constant(&mut self, of: &str, name: &'p Ident) -> Eval {
        let program = self.program;
        let items = program.module.impls.iter().filter(|block| owner_is(block, of));
        for item in items.flat_map(|block| &block.items) {
            if let syn::ImplItem::Const(item) = item
                && item.ident == *name
            {
                let want = self.resolve(&item.ty)?;
                let value = self.expression(&item.expr, &want)?;
                return self.coerce(value, &want);
            }
        }
        if self.method_named(of, &name.to_string()).is_some() {
            return Ok(Value::Function(format!("{of}::{name}").into()));
        }
        self.error(format!("`{of}::{name}` isn't known: see docs/nf-language.md for what is"))
    }

    fn variant(&mut self, shape: &Rc<EnumShape>, variant: usize, fields: Vec<Value>) -> Value {
        if shape.name == "Verdict" {
            self.run.verdict_line = self.line();
        }
        Value::variant(shape, variant, fields)
    }

    /// A verdict by name.
    pub(crate) fn verdict(&mut self, name: &str, fields: Vec<Value>) -> Eval {
        let shape = self.prelude.verdict.clone();
        self.make_variant(&shape, name, fields)
    }

    /// A variant with its fields, literals typed.
    fn make_variant(&mut self, shape: &Rc<EnumShape>, name: &str, fields: Vec<Value>) -> Eval {
        let Some(variant) = shape.position(name) else {
            return self.error(format!("`{}` has no variant `{name}`", shape.name));
        };
        let types = shape.variants[variant].fields.iter().map(|(_, of)| of);
        let mut typed = Vec::new();
        for (value, want) in fields.into_iter().zip(types) {
            typed.push(self.coerce(value, want)?);
        }
        Ok(self.variant(shape, variant, typed))
    }

    /// `Some(x)`, `Forward(p)`, `Point(1, 2)`, `Shape::Round(r)`, `u32::from(x)`, `Type::new(…)`.
    pub(crate) fn construct_or_associated(
        &mut self,
        path: &'p syn::ExprPath,
        call: &'p syn::ExprCall,
        want: &Type,
    ) -> Eval {
        let segments = &path.path.segments;
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
            return self.error("a path without a name");
        };
        let name = last.ident.to_string();
        if segments.len() == 1 {
            let arguments = self.constructor_arguments(&name, call, want)?;
            self.at(last.ident.span());
            return self.construct_named(&name, arguments);
        }
        let of = self.resolve_segment(first)?;
        let owner = match &of {
            Type::Struct(shape) => shape.name.clone(),
            Type::Enum(shape) => shape.name.clone(),
            _ => self.owner_name(&first.ident),
        };
        if let Some(function) = self.method_named(&owner, &name) {
            return self.call_associated(function, of, last, call);
        }
        let arguments = match &of {
            Type::Enum(shape) => self.variant_arguments(&shape.clone(), &name, call)?,
            _ => self.values(call.args.iter())?,
        };
        self.at(last.ident.span());
        match of {
            Type::Enum(shape) => self.make_variant(&shape, &name, arguments),
            Type::Scalar(scalar) => self.scalar_function(scalar, &name, arguments),
            _ => self.error(format!("`{owner}::{name}` isn't known: see docs/nf-language.md")),
        }
    }

    /// `Type::function(…)`; a first argument may be `self`.
    fn call_associated(
        &mut self,
        function: super::call::Function<'p>,
        of: Type,
        last: &'p syn::PathSegment,
        call: &'p syn::ExprCall,
    ) -> Eval {
        let given = self.type_arguments(&last.arguments)?;
        let takes_self = function.signature.receiver().is_some();
        let mut arguments = self.arguments(function, call.args.iter().skip(takes_self as usize))?;
        let receiver = match (takes_self, call.args.first()) {
            (true, Some(receiver)) => self.value(receiver)?,
            _ => Value::Unit,
        };
        self.at(last.ident.span());
        let name = last.ident.to_string();
        self.call_function(
            function,
            &name,
            Some((receiver, of)),
            std::mem::take(&mut arguments),
            given,
        )
    }

    fn constructor_arguments(
        &mut self,
        name: &str,
        call: &'p syn::ExprCall,
        want: &Type,
    ) -> Eval<Vec<Value>> {
        let want = match (name, want) {
            ("Some", Type::Option(some)) => (**some).clone(),
            ("Ok", Type::Result(ok, _)) => (**ok).clone(),
            ("Err", Type::Result(_, error)) => (**error).clone(),
            _ => Type::Unknown,
        };
        call.args.iter().map(|argument| self.expression(argument, &want)).collect()
    }

    fn variant_arguments(
        &mut self,
        shape: &EnumShape,
        name: &str,
        call: &'p syn::ExprCall,
    ) -> Eval<Vec<Value>> {
        let types = shape.position(name).map(|at| &shape.variants[at].fields);
        let mut values = Vec::new();
        for (position, argument) in call.args.iter().enumerate() {
            let want = types.and_then(|types| types.get(position)).map(|(_, of)| of.clone());
            values.push(self.expression(argument, &want.unwrap_or(Type::Unknown))?);
        }
        Ok(values)
    }

    /// Calls a constructor by name.
    pub(crate) fn construct_named(&mut self, name: &str, mut arguments: Vec<Value>) -> Eval {
        let shape = match name {
            "Some" => self.prelude.option.clone(),
            "Ok" | "Err" => self.prelude.result.clone(),
            "Forward" | "Drop" | "Flood" | "Recirculate" => return self.verdict(name, arguments),
            _ => return self.construct_tuple(name, arguments),
        };
        if arguments.len() != 1 {
            return self.error(format!("`{name}` takes one value"));
        }
        let variant = shape.position(name).unwrap_or(0);
        Ok(Value::variant(&shape, variant, vec![arguments.remove(0)]))
    }

    /// A tuple struct, or a qualified function passed as a value.
    fn construct_tuple(&mut self, name: &str, arguments: Vec<Value>) -> Eval {
        if let Some((of, function)) = name.split_once("::") {
            return self.call_qualified(of, function, arguments);
        }
        match self.named_type(name, Vec::new())? {
            Type::Struct(shape) => {
                let mut fields = Vec::new();
                for (value, (_, want)) in arguments.into_iter().zip(&shape.fields) {
                    fields.push(self.coerce(value, want)?);
                }
                Ok(Value::Struct(shape, Rc::new(fields)))
            }
            _ => self.error(format!("`{name}` isn't known here: use functions of the module")),
        }
    }

    fn call_qualified(&mut self, of: &str, name: &str, mut arguments: Vec<Value>) -> Eval {
        if let Some(function) = self.method_named(of, name) {
            let receiver = match function.signature.receiver() {
                Some(_) if !arguments.is_empty() => arguments.remove(0),
                _ => Value::Unit,
            };
            let own = self.type_of(&receiver);
            return self.call_function(
                function,
                name,
                Some((receiver, own)),
                arguments,
                Vec::new(),
            );
        }
        if let Some(scalar) = Scalar::named(of) {
            return self.scalar_function(scalar, name, arguments);
        }
        match self.named_type(of, Vec::new())? {
            Type::Enum(shape) => self.make_variant(&shape, name, arguments),
            _ => self.error(format!("`{of}::{name}` isn't known: see docs/nf-language.md")),
        }
    }

    /// `Point { x: 1, ..base }` or `Shape::Box { w, h }`.
    pub(crate) fn struct_literal(&mut self, literal: &'p syn::ExprStruct, want: &Type) -> Eval {
        self.at_path(&literal.path);
        let segments = &literal.path.segments;
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
            return self.error("a path without a name");
        };
        if segments.len() > 1
            && let Type::Enum(shape) = self.resolve_segment(first)?
        {
            return self.variant_literal(literal, &shape, &last.ident);
        }
        let named = self.resolve_path(&literal.path)?;
        let shape = match (named, want) {
            (Type::Struct(named), Type::Struct(wanted)) if named.name == wanted.name => {
                wanted.clone()
            }
            (Type::Struct(named), _) => named,
            _ => return self.error("this isn't a struct of the module"),
        };
        let base = match &literal.rest {
            Some(base) => Some(self.settled_value(base)?),
            None => None,
        };
        let mut fields = Vec::new();
        for (position, (name, want)) in shape.fields.iter().enumerate() {
            fields.push(match written(literal, name) {
                Some(value) => self.typed(value, want)?,
                None => self.base_field(&base, position, name)?,
            });
        }
        Ok(Value::Struct(shape, Rc::new(fields)))
    }

    /// The value of an expression in a place of known type, references followed.
    pub(crate) fn typed(&mut self, expression: &'p Expr, want: &Type) -> Eval {
        let value = self.expression(expression, want)?;
        let value = self.settled(value)?;
        self.coerce(value, want)
    }

    fn base_field(&mut self, base: &Option<Value>, position: usize, name: &str) -> Eval {
        match base {
            Some(Value::Struct(_, fields)) if position < fields.len() => {
                Ok(fields[position].clone())
            }
            _ => self.error(format!("the field `{name}` is missing")),
        }
    }

    fn variant_literal(
        &mut self,
        literal: &'p syn::ExprStruct,
        shape: &Rc<EnumShape>,
        name: &'p Ident,
    ) -> Eval {
        let Some(variant) = shape.position(&name.to_string()) else {
            return self.error(format!("`{}` has no variant `{name}`", shape.name));
        };
        let mut fields = Vec::new();
        for (field, want) in &shape.variants[variant].fields {
            match written(literal, field) {
                Some(value) => fields.push(self.typed(value, want)?),
                None => return self.error(format!("the field `{field}` is missing")),
            }
        }
        Ok(self.variant(shape, variant, fields))
    }
}

fn written<'p>(literal: &'p syn::ExprStruct, name: &str) -> Option<&'p Expr> {
    let same = |member: &syn::Member| match member {
        syn::Member::Named(known) => known == name,
        syn::Member::Unnamed(index) => index.index.to_string() == name,
    };
    literal.fields.iter().find(|field| same(&field.member)).map(|field| &field.expr)
}

fn owner_is(block: &syn::ItemImpl, name: &str) -> bool {
    match &*block.self_ty {
        syn::Type::Path(path) => {
            path.path.segments.last().is_some_and(|segment| segment.ident == name)
        }
        _ => false,
    }
}

fn is_constructor(name: &str) -> bool {
    matches!(name, "Some" | "Ok" | "Err" | "Forward" | "Drop" | "Recirculate")
}

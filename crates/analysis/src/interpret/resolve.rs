//! From the author's types to the interpreter's.

use std::rc::Rc;

use syn::{Fields, GenericArgument, PathArguments};

use super::types::{EnumShape, Scalar, StructShape, Type, Variant};
use super::value::Value;
use super::{Eval, Interpreter};

/// Type arguments in force.
pub(crate) type Generics = Rc<Vec<(String, Type)>>;

impl<'p> Interpreter<'p> {
    /// The type the author wrote, with the type arguments of the current function.
    pub(crate) fn resolve(&mut self, written: &'p syn::Type) -> Eval<Type> {
        match written {
            syn::Type::Path(path) => self.resolve_path(&path.path),
            syn::Type::Reference(reference) => self.resolve(&reference.elem),
            syn::Type::Paren(inner) => self.resolve(&inner.elem),
            syn::Type::Group(inner) => self.resolve(&inner.elem),
            syn::Type::Slice(slice) => Ok(Type::Slice(Box::new(self.resolve(&slice.elem)?))),
            syn::Type::Array(array) => self.resolve_array(array),
            syn::Type::Tuple(tuple) if tuple.elems.is_empty() => Ok(Type::Unit),
            syn::Type::Tuple(tuple) => {
                let elements = tuple.elems.iter().map(|element| self.resolve(element));
                Ok(Type::Tuple(elements.collect::<Eval<_>>()?))
            }
            _ => Ok(Type::Unknown),
        }
    }

    fn resolve_array(&mut self, array: &'p syn::TypeArray) -> Eval<Type> {
        let element = Box::new(self.resolve(&array.elem)?);
        match self.known_length(&array.len)? {
            Some(length) => Ok(Type::Array(element, length)),
            None => Ok(Type::Slice(element)),
        }
    }

    /// A length that is known; `None` where it is a type parameter not yet bound.
    pub(crate) fn known_length(&mut self, length: &'p syn::Expr) -> Eval<Option<usize>> {
        if let syn::Expr::Path(path) = length
            && let Some(name) = path.path.get_ident()
            && self.frame().generics.iter().all(|(known, _)| name != known)
            && self.program.module.const_named(&name.to_string()).is_none()
        {
            return Ok(None);
        }
        let value = self.expression(length, &Type::Scalar(Scalar::Usize))?;
        match self.known_number(&value) {
            Some(number) => Ok(usize::try_from(number).ok()),
            None => self.error("this length isn't known: write a constant"),
        }
    }

    /// The number of a constant integer.
    pub(crate) fn known_number(&self, value: &Value) -> Option<u128> {
        match value {
            Value::Literal(number) => u128::try_from(*number).ok(),
            Value::Scalar(_, term) => self.terms.constant_of(*term),
            _ => None,
        }
    }

    /// The type a path names.
    pub(crate) fn resolve_path(&mut self, path: &'p syn::Path) -> Eval<Type> {
        let Some(segment) = path.segments.last() else {
            return Ok(Type::Unknown);
        };
        let name = segment.ident.to_string();
        if let Some(scalar) = Scalar::named(&name) {
            return Ok(Type::Scalar(scalar));
        }
        if let Some(bound) = self.type_argument(&name) {
            return Ok(bound);
        }
        let mut arguments = self.type_arguments(&segment.arguments)?;
        Ok(match (name.as_str(), arguments.len()) {
            ("bool", _) => Type::Bool,
            ("Option", 1) => Type::Option(Box::new(arguments.remove(0))),
            ("Result", 2) => {
                let error = arguments.remove(1);
                Type::Result(Box::new(arguments.remove(0)), Box::new(error))
            }
            ("List", 1) => Type::List(Box::new(arguments.remove(0))),
            ("Self", _) => self.frame().self_type.clone(),
            ("Verdict", _) => Type::Enum(self.prelude.verdict.clone()),
            _ => self.named_type(&name, arguments)?,
        })
    }

    fn type_argument(&mut self, name: &str) -> Option<Type> {
        let generics = self.frame().generics.clone();
        let bound = generics.iter().find(|(known, _)| known == name);
        bound.map(|(_, bound)| bound.clone())
    }

    pub(crate) fn type_arguments(&mut self, written: &'p PathArguments) -> Eval<Vec<Type>> {
        let PathArguments::AngleBracketed(list) = written else {
            return Ok(Vec::new());
        };
        let types = list.args.iter().filter_map(|argument| match argument {
            GenericArgument::Type(written) => Some(written),
            _ => None,
        });
        types.map(|written| self.resolve(written)).collect()
    }

    /// A struct or enum of the module; `Unknown` for anything else.
    pub(crate) fn named_type(&mut self, name: &str, arguments: Vec<Type>) -> Eval<Type> {
        if self.program.module.struct_named(name).is_some() {
            return Ok(Type::Struct(self.struct_shape(name, arguments)?));
        }
        if self.program.module.enum_named(name).is_some() {
            return Ok(Type::Enum(self.enum_shape(name, arguments)?));
        }
        Ok(Type::Unknown)
    }

    fn struct_shape(&mut self, name: &str, arguments: Vec<Type>) -> Eval<Rc<StructShape>> {
        if let Some(known) = self.structs.get(name)
            && arguments.is_empty()
        {
            return Ok(known.clone());
        }
        let program = self.program;
        let Some(item) = program.module.struct_named(name) else {
            return self.error(format!("`{name}` isn't a struct of this module"));
        };
        let plain = arguments.is_empty();
        let fields =
            self.with_generics(&item.generics, arguments, |this| this.fields(&item.fields))?;
        let shape = Rc::new(StructShape { name: name.to_owned(), fields });
        if plain {
            self.structs.insert(name.to_owned(), shape.clone());
        }
        Ok(shape)
    }

    fn enum_shape(&mut self, name: &str, arguments: Vec<Type>) -> Eval<Rc<EnumShape>> {
        if let Some(known) = self.enums.get(name)
            && arguments.is_empty()
        {
            return Ok(known.clone());
        }
        let program = self.program;
        let Some(item) = program.module.enum_named(name) else {
            return self.error(format!("`{name}` isn't an enum of this module"));
        };
        let plain = arguments.is_empty();
        let variants = self.with_generics(&item.generics, arguments, |this| this.variants(item))?;
        let shape = Rc::new(EnumShape { name: name.to_owned(), variants });
        if plain {
            self.enums.insert(name.to_owned(), shape.clone());
        }
        Ok(shape)
    }

    fn variants(&mut self, item: &'p syn::ItemEnum) -> Eval<Vec<Variant>> {
        let mut next = 0;
        let mut variants = Vec::new();
        for variant in &item.variants {
            if let Some((_, value)) = &variant.discriminant {
                let value = self.expression(value, &Type::Unknown)?;
                next = self.known_number(&value).map_or(next, |number| number as i128);
            }
            variants.push(Variant {
                name: variant.ident.to_string(),
                discriminant: next,
                fields: self.fields(&variant.fields)?,
            });
            next += 1;
        }
        Ok(variants)
    }

    fn fields(&mut self, fields: &'p Fields) -> Eval<Vec<(String, Type)>> {
        let mut named = Vec::new();
        for (position, field) in fields.iter().enumerate() {
            let name = field.ident.as_ref().map_or(position.to_string(), ToString::to_string);
            named.push((name, self.resolve(&field.ty)?));
        }
        Ok(named)
    }

    /// Evaluates `body` with type parameters bound; those without an argument stay unknown.
    pub(crate) fn with_generics<T>(
        &mut self,
        generics: &'p syn::Generics,
        arguments: Vec<Type>,
        body: impl FnOnce(&mut Self) -> Eval<T>,
    ) -> Eval<T> {
        let frame = super::Frame { generics: bound(generics, arguments), ..super::Frame::empty() };
        self.in_frame(frame, body)
    }
}

/// Type parameters with their arguments, `Unknown` where there are fewer.
pub(crate) fn bound(generics: &syn::Generics, arguments: Vec<Type>) -> Generics {
    let given = arguments.into_iter().chain(std::iter::repeat(Type::Unknown));
    let names = generics.type_params().map(|parameter| parameter.ident.to_string());
    Rc::new(names.zip(given).collect())
}

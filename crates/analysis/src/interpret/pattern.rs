//! Patterns: the condition under which one matches, and the names it binds.

use syn::spanned::Spanned;
use syn::{Expr, Pat};

use super::place;
use super::value::{EnumValue, Place, Step, Value};
use super::{Eval, Interpreter};
use crate::expr::Term;

/// What a pattern is held against.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) value: Value,
    /// Where the value lives, if names bound to parts of it may write there.
    pub(crate) place: Option<Place>,
    /// Whether names bind as `&mut`, because the value is seen through one.
    pub(crate) by_reference: bool,
}

impl Subject {
    fn part(&self, value: Value, step: Step) -> Self {
        Self {
            value,
            place: self.place.as_ref().map(|place| place.then(step)),
            by_reference: self.by_reference,
        }
    }
}

impl<'p> Interpreter<'p> {
    /// What a `match` or `if let` looks at.
    pub(crate) fn subject(&mut self, expression: &'p Expr) -> Eval<Subject> {
        let place = match expression {
            Expr::Path(_) | Expr::Field(_) => self.place_of(expression)?,
            _ => None,
        };
        let value = self.value(expression)?;
        self.subject_of(value, place)
    }

    fn subject_of(&mut self, value: Value, place: Option<Place>) -> Eval<Subject> {
        match value {
            Value::Reference(target) => {
                let inner = self.read(&target)?;
                let mut subject = self.subject_of(inner, Some(target))?;
                subject.by_reference = true;
                Ok(subject)
            }
            value => Ok(Subject { value, place, by_reference: false }),
        }
    }

    /// `let pattern = expression` as a condition.
    pub(crate) fn let_condition(&mut self, binding: &'p syn::ExprLet) -> Eval<Term> {
        let subject = self.subject(&binding.expr)?;
        self.at(binding.let_token.span);
        self.match_pattern(&binding.pat, &subject)
    }

    /// Binds a value that is no place.
    pub(crate) fn match_value(&mut self, pattern: &'p Pat, value: Value) -> Eval<Term> {
        if let Pat::Ident(name) = pattern
            && name.subpat.is_none()
            && !self.names_value(&name.ident)
        {
            self.bind(&name.ident, value);
            return Ok(self.terms.bool(true));
        }
        let subject = self.subject_of(value, None)?;
        self.match_pattern(pattern, &subject)
    }

    /// The condition under which the pattern matches; its names are bound in the current scope.
    pub(crate) fn match_pattern(&mut self, pattern: &'p Pat, subject: &Subject) -> Eval<Term> {
        match pattern {
            Pat::Wild(_) | Pat::Rest(_) => Ok(self.terms.bool(true)),
            Pat::Paren(inner) => self.match_pattern(&inner.pat, subject),
            Pat::Reference(inner) => self.match_pattern(&inner.pat, subject),
            Pat::Type(typed) => self.match_pattern(&typed.pat, subject),
            Pat::Ident(name) => self.match_name(name, subject),
            Pat::Lit(literal) => {
                let want = self.type_of(&subject.value);
                let value = self.literal(&literal.lit, &want)?;
                self.match_equal(subject, value)
            }
            Pat::Const(_) | Pat::Verbatim(_) => self.error("this pattern isn't in the language"),
            Pat::Range(range) => self.match_range(range, subject),
            Pat::Or(alternatives) => self.match_any(alternatives, subject),
            Pat::Path(path) => self.match_path(path, subject),
            Pat::Tuple(tuple) => self.match_tuple(&tuple.elems, subject),
            Pat::Slice(slice) => self.match_tuple(&slice.elems, subject),
            Pat::TupleStruct(tuple) => self.match_tuple_struct(tuple, subject),
            Pat::Struct(fields) => self.match_struct(fields, subject),
            other => {
                self.at(other.span());
                self.error("this pattern isn't in the language")
            }
        }
    }

    fn match_equal(&mut self, subject: &Subject, value: Value) -> Eval<Term> {
        let (a, b) = self.unified(subject.value.clone(), value)?;
        self.equality(&a, &b)
    }

    /// A name that stands for a value rather than binding one.
    fn names_value(&self, name: &syn::Ident) -> bool {
        name == "None"
            || name == "Flood"
            || self.program.module.consts.iter().any(|known| known.ident == *name)
            || self.port_constant(name).is_some()
    }

    fn match_name(&mut self, name: &'p syn::PatIdent, subject: &Subject) -> Eval<Term> {
        if self.names_value(&name.ident) {
            return self.match_named_value(&name.ident, subject);
        }
        let by_reference =
            subject.by_reference || (name.by_ref.is_some() && name.mutability.is_some());
        let value = match &subject.place {
            Some(place) if by_reference => Value::Reference(place.clone()),
            _ => subject.value.clone(),
        };
        self.bind(&name.ident, value);
        match &name.subpat {
            Some((_, inner)) => self.match_pattern(inner, subject),
            None => Ok(self.terms.bool(true)),
        }
    }

    fn match_named_value(&mut self, name: &'p syn::Ident, subject: &Subject) -> Eval<Term> {
        match &subject.value {
            Value::Enum(value) if name == "None" || name == "Flood" => {
                self.is_named_variant(value, &name.to_string())
            }
            _ => {
                let value = self.named_constant(name)?;
                self.match_equal(subject, value)
            }
        }
    }

    fn is_named_variant(&mut self, value: &EnumValue, name: &str) -> Eval<Term> {
        match value.shape.position(name) {
            Some(variant) => Ok(value.is_variant(variant, &mut self.terms)),
            None => self.error(format!("`{}` has no variant `{name}`", value.shape.name)),
        }
    }

    fn match_range(&mut self, range: &'p syn::PatRange, subject: &Subject) -> Eval<Term> {
        let want = self.type_of(&subject.value);
        let mut condition = self.terms.bool(true);
        if let Some(start) = &range.start {
            let start = self.expression(start, &want)?;
            let (start, value) = self.unified(start, subject.value.clone())?;
            let above = self.less(false, &start, &value)?;
            condition = self.terms.both(condition, above);
        }
        if let Some(end) = &range.end {
            let strict = matches!(range.limits, syn::RangeLimits::HalfOpen(_));
            let end = self.expression(end, &want)?;
            let (end, value) = self.unified(end, subject.value.clone())?;
            let below = self.less(strict, &value, &end)?;
            condition = self.terms.both(condition, below);
        }
        Ok(condition)
    }

    /// Alternatives that bind nothing are one condition; others are asked one by one.
    fn match_any(&mut self, alternatives: &'p syn::PatOr, subject: &Subject) -> Eval<Term> {
        let depth = self.frame().locals.len();
        let mut any = self.terms.bool(false);
        for alternative in &alternatives.cases {
            let condition = self.match_pattern(alternative, subject)?;
            if self.frame().locals.len() == depth {
                any = self.terms.either(any, condition);
                continue;
            }
            self.has_chosen = true;
            if self.terms.bool_of(condition) != Some(false) && self.decide(condition)? {
                return Ok(self.terms.bool(true));
            }
            self.frame().locals.truncate(depth);
        }
        Ok(any)
    }

    fn match_path(&mut self, path: &'p syn::PatPath, subject: &Subject) -> Eval<Term> {
        if let Value::Enum(value) = &subject.value
            && let Some(last) = path.path.segments.last()
        {
            return self.is_named_variant(value, &last.ident.to_string());
        }
        let value = self.path_value(path)?;
        self.match_equal(subject, value)
    }

    /// Elements of a tuple or slice; `..` stands for those in between.
    fn match_tuple(
        &mut self,
        patterns: &'p syn::punctuated::Punctuated<Pat, syn::Token![,]>,
        subject: &Subject,
    ) -> Eval<Term> {
        let (parts, is_array) = match &subject.value {
            Value::Tuple(parts) => (parts.clone(), false),
            Value::Array(parts) => (parts.clone(), true),
            Value::Unit => (Default::default(), false),
            other => {
                return self.error(format!("this pattern doesn't fit {}", other.describe()));
            }
        };
        let rest = patterns.iter().position(is_rest);
        let fits = match rest {
            Some(_) => parts.len() + 1 >= patterns.len(),
            None => parts.len() == patterns.len(),
        };
        if !fits {
            return Ok(self.terms.bool(false));
        }
        let mut all = self.terms.bool(true);
        for (position, pattern) in patterns.iter().enumerate() {
            let after = patterns.len() - position - 1;
            let at = match rest {
                Some(rest) if position > rest => parts.len() - after - 1,
                Some(rest) if position == rest => {
                    self.bind_rest(pattern, &parts[position..parts.len() - after]);
                    continue;
                }
                _ => position,
            };
            let step = if is_array { Step::Index(at) } else { Step::Field(at) };
            let matched = self.match_pattern(pattern, &subject.part(parts[at].clone(), step))?;
            all = self.terms.both(all, matched);
        }
        Ok(all)
    }

    /// `rest @ ..`.
    fn bind_rest(&mut self, pattern: &'p Pat, parts: &[Value]) {
        if let Pat::Ident(name) = pattern {
            self.bind(&name.ident, Value::array(parts.to_vec()));
        }
    }

    fn match_tuple_struct(
        &mut self,
        pattern: &'p syn::PatTupleStruct,
        subject: &Subject,
    ) -> Eval<Term> {
        self.at_path(&pattern.path);
        if let Value::Struct(_, fields) = &subject.value {
            let parts = Value::Tuple(fields.clone());
            return self.match_tuple(&pattern.elems, &Subject { value: parts, ..subject.clone() });
        }
        let (value, variant) = self.variant_of(&pattern.path, subject)?;
        let mut all = value.is_variant(variant, &mut self.terms);
        if self.terms.bool_of(all) == Some(false) {
            return Ok(all);
        }
        let fields = value.payloads[variant].clone().unwrap_or_default();
        let rest = pattern.elems.iter().position(is_rest);
        for (position, inner) in pattern.elems.iter().enumerate() {
            if rest == Some(position) {
                continue;
            }
            let from_end = pattern.elems.len() - position;
            let at = match rest {
                Some(rest) if position > rest => fields.len().saturating_sub(from_end),
                _ => position,
            };
            let matched = self.match_payload(inner, subject, &fields, (variant, at))?;
            all = self.terms.both(all, matched);
        }
        Ok(all)
    }

    fn match_payload(
        &mut self,
        pattern: &'p Pat,
        subject: &Subject,
        fields: &[Value],
        (variant, at): (usize, usize),
    ) -> Eval<Term> {
        match fields.get(at) {
            Some(field) => {
                let part = subject.part(field.clone(), Step::Payload(variant, at));
                let part = self.through(part)?;
                self.match_pattern(pattern, &part)
            }
            None => self.error("this value isn't known here: match on it where it is made"),
        }
    }

    /// A reference inside a value is followed, and its parts bind by reference.
    fn through(&mut self, part: Subject) -> Eval<Subject> {
        match part.value {
            Value::Reference(_) => Ok(Subject { place: None, by_reference: false, ..part }),
            _ => Ok(part),
        }
    }

    fn variant_of(&mut self, path: &'p syn::Path, subject: &Subject) -> Eval<(EnumValue, usize)> {
        let Value::Enum(value) = &subject.value else {
            return self.error(format!("this pattern doesn't fit {}", subject.value.describe()));
        };
        let name = path.segments.last().map(|segment| segment.ident.to_string());
        match value.shape.position(&name.unwrap_or_default()) {
            Some(variant) => Ok((value.clone(), variant)),
            None => self.error(format!("`{}` has no such variant", value.shape.name)),
        }
    }

    fn match_struct(&mut self, pattern: &'p syn::PatStruct, subject: &Subject) -> Eval<Term> {
        self.at_path(&pattern.path);
        if let Value::Struct(shape, _) = &subject.value {
            let shape = shape.clone();
            let mut all = self.terms.bool(true);
            for field in &pattern.fields {
                let step = self.field_step(&subject.value, &field.member);
                let part = step.and_then(|step| place::part(&subject.value, step, &mut self.terms));
                let (Some(step), Some(part)) = (step, part) else {
                    return self.error(format!("`{}` has no such field", shape.name));
                };
                let matched = self.match_pattern(&field.pat, &subject.part(part, step))?;
                all = self.terms.both(all, matched);
            }
            return Ok(all);
        }
        let (value, variant) = self.variant_of(&pattern.path, subject)?;
        let mut all = value.is_variant(variant, &mut self.terms);
        if self.terms.bool_of(all) == Some(false) {
            return Ok(all);
        }
        let fields = value.payloads[variant].clone().unwrap_or_default();
        for field in &pattern.fields {
            let at = variant_field(&value, variant, &field.member);
            let at = at.unwrap_or(usize::MAX);
            let matched = self.match_payload(&field.pat, subject, &fields, (variant, at))?;
            all = self.terms.both(all, matched);
        }
        Ok(all)
    }
}

fn variant_field(value: &EnumValue, variant: usize, member: &syn::Member) -> Option<usize> {
    let name = match member {
        syn::Member::Named(name) => name.to_string(),
        syn::Member::Unnamed(index) => index.index.to_string(),
    };
    value.shape.variants[variant].fields.iter().position(|(known, _)| *known == name)
}

fn is_rest(pattern: &Pat) -> bool {
    match pattern {
        Pat::Rest(_) => true,
        Pat::Ident(name) => {
            matches!(&name.subpat, Some((_, inner)) if matches!(**inner, Pat::Rest(_)))
        }
        _ => false,
    }
}

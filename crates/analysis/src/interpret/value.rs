//! Values the interpreter computes with: plain Rust values whose leaves are terms.

use std::cell::RefCell;
use std::rc::Rc;

use super::types::{EnumShape, Scalar, StructShape};
use crate::expr::{Term, Terms};

/// A value. Cheap to copy: aggregates are shared until written.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Unit,
    Bool(Term),
    Scalar(Scalar, Term),
    /// An integer literal, or arithmetic of literals, that has not met a type yet.
    Literal(i128),
    /// One of several such integers.
    OneOf(super::literals::Numbers),
    Tuple(Rc<Vec<Value>>),
    /// An array, or a slice of one.
    Array(Rc<Vec<Value>>),
    Struct(Rc<StructShape>, Rc<Vec<Value>>),
    Enum(EnumValue),
    Range(Rc<Range>),
    /// `&mut` to a local, a field or an element.
    Reference(Place),
    /// A closure, by number in the interpreter.
    Closure(usize),
    /// A function of the module by name, passed as a value.
    Function(Rc<str>),
    /// Text of an error.
    Text(Rc<str>),
    /// A reason that every NF has, as it is written in tables.
    Reason(Rc<str>),
    /// The reason of a state object that drops packets itself.
    OwnReason(Rc<str>),
    /// What follows the transport header, or a part of it.
    Payload(Window),
    /// `List<T>` of the settings.
    List(Rc<List>),
    Packet,
    Context,
    /// `self` in a method of the NF.
    Nf,
    /// A state object, by position among the fields of the NF.
    State(usize),
    /// A header view, by name; the packet has the header on this path.
    Header(&'static str),
    /// An iterator over values known in number.
    Items(Rc<Vec<Value>>),
}

/// A range of integers; an end that is not there is open.
#[derive(Debug, Clone)]
pub(crate) struct Range {
    pub(crate) start: Option<Value>,
    pub(crate) end: Option<Value>,
    pub(crate) inclusive: bool,
    /// Steps between numbers, from `step_by`.
    pub(crate) step: u64,
    pub(crate) reversed: bool,
}

/// A part of the payload: offsets of 64 bits, the first no larger than the second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: Term,
    pub(crate) to: Term,
}

/// A list among the settings: its length and elements are unknown.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) name: String,
    pub(crate) element: super::types::Type,
    pub(crate) length: Term,
}

/// A value of an enum, `Option`, `Result` and `Verdict` included.
#[derive(Debug, Clone)]
pub(crate) struct EnumValue {
    pub(crate) shape: Rc<EnumShape>,
    pub(crate) tag: Tag,
    /// Fields of each variant the value may be.
    pub(crate) payloads: Rc<Vec<Option<Vec<Value>>>>,
}

/// Which variant a value is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Tag {
    Known(usize),
    /// Variant 1 where the condition holds, else variant 0.
    Choice(Term),
    /// The variant of this number, 8 bits.
    Number(Term),
}

/// A local variable, or another place that can be written.
pub(crate) type Slot = Rc<LocalCell>;

/// Storage of a local variable.
#[derive(Debug)]
pub(crate) struct LocalCell {
    pub(crate) value: RefCell<Value>,
    /// Line of the first write to it after it was made; 0: none.
    pub(crate) written_at: std::cell::Cell<u32>,
}

impl LocalCell {
    pub(crate) fn new(value: Value) -> Slot {
        Rc::new(Self { value: RefCell::new(value), written_at: std::cell::Cell::new(0) })
    }
}

/// A part of a local variable.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) slot: Slot,
    pub(crate) steps: Vec<Step>,
}

/// One step from a value into a part of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// A field of a struct or tuple.
    Field(usize),
    /// A field of a variant.
    Payload(usize, usize),
    /// An element at a known place.
    Index(usize),
    /// An element at a symbolic place, known to be inside.
    Symbolic(Term),
    /// An element at a place that may be past the end: there it reads zero and is not written.
    Anywhere(Term),
    /// Elements from a known place on, so many.
    Part(usize, usize),
}

impl Place {
    pub(crate) fn of(slot: Slot) -> Self {
        Self { slot, steps: Vec::new() }
    }

    pub(crate) fn then(&self, step: Step) -> Self {
        let mut steps = self.steps.clone();
        steps.push(step);
        Self { slot: self.slot.clone(), steps }
    }
}

impl Value {
    pub(crate) fn tuple(values: Vec<Value>) -> Self {
        Self::Tuple(Rc::new(values))
    }

    pub(crate) fn array(values: Vec<Value>) -> Self {
        Self::Array(Rc::new(values))
    }

    /// A value of a known variant.
    pub(crate) fn variant(shape: &Rc<EnumShape>, variant: usize, fields: Vec<Value>) -> Self {
        let mut payloads = vec![None; shape.variants.len()];
        payloads[variant] = Some(fields);
        Self::Enum(EnumValue {
            shape: shape.clone(),
            tag: Tag::Known(variant),
            payloads: Rc::new(payloads),
        })
    }

    /// What the value is, for errors.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Unit => "`()`".to_owned(),
            Self::Bool(_) => "a `bool`".to_owned(),
            Self::Scalar(scalar, _) => format!("a `{}`", scalar.name()),
            Self::Literal(_) | Self::OneOf(_) => "an integer literal".to_owned(),
            Self::Tuple(_) => "a tuple".to_owned(),
            Self::Array(_) => "an array".to_owned(),
            Self::Struct(shape, _) => format!("a `{}`", shape.name),
            Self::Enum(value) => format!("a `{}`", value.shape.name),
            Self::Range(_) => "a range".to_owned(),
            Self::Reference(_) => "a reference".to_owned(),
            Self::Closure(_) | Self::Function(_) => "a function".to_owned(),
            Self::Text(_) => "a text".to_owned(),
            Self::Reason(_) | Self::OwnReason(_) => "a reason".to_owned(),
            Self::Payload(_) => "the payload".to_owned(),
            Self::List(_) => "a `List`".to_owned(),
            Self::Packet => "a `Packet`".to_owned(),
            Self::Context => "the `Context`".to_owned(),
            Self::Nf => "the network function".to_owned(),
            Self::State(_) => "a state object".to_owned(),
            Self::Header(name) => format!("the `{name}` header"),
            Self::Items(_) => "an iterator".to_owned(),
        }
    }
}

impl EnumValue {
    /// The condition under which the value is this variant.
    pub(crate) fn is_variant(&self, variant: usize, terms: &mut Terms) -> Term {
        match self.tag {
            Tag::Known(known) => terms.bool(known == variant),
            Tag::Choice(condition) if variant == 1 => condition,
            Tag::Choice(condition) => terms.not(condition),
            Tag::Number(number) => {
                let width = terms.width(number);
                let variant = terms.constant(variant as u128, width);
                terms.equal(number, variant)
            }
        }
    }

    /// The variant's number as a term of 8 bits.
    pub(crate) fn number(&self, terms: &mut Terms) -> Term {
        match self.tag {
            Tag::Known(known) => terms.constant(known as u128, 8),
            Tag::Choice(condition) => terms.from_bool(condition, 8),
            Tag::Number(number) => number,
        }
    }
}

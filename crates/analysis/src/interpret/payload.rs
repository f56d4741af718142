//! The payload: bytes of unknown number, and parts of them.

use super::bounds::Reach;
use super::types::Scalar;
use super::value::{Range, Value, Window};
use super::{Eval, Interpreter};
use crate::expr::circuit::PAYLOAD;
use crate::expr::{Binary, Kind, Sort, Term};

impl<'p> Interpreter<'p> {
    /// All of it.
    pub(crate) fn whole_payload(&mut self) -> Value {
        let length = self.terms.symbol("payload.len", Sort::Bits(16), Kind::Number);
        let to = self.terms.extend(length, 64, false);
        Value::Payload(Window { from: self.terms.constant(0, 64), to })
    }

    /// Bytes of a part, 64 bits.
    pub(crate) fn payload_left(&mut self, window: Window) -> Term {
        self.terms.binary(Binary::Sub, window.to, window.from)
    }

    /// A byte that is inside the part.
    pub(crate) fn payload_byte(&mut self, window: Window, index: Term) -> Value {
        let at = self.terms.binary(Binary::Add, window.from, index);
        let at = self.terms.extend(at, 16, false);
        let byte = self.terms.apply(PAYLOAD, Sort::Bits(8), Kind::Number, &[at]);
        Value::Scalar(Scalar::Unsigned(8), byte)
    }

    /// `payload[index]`.
    pub(crate) fn payload_at(&mut self, window: Window, index: Value) -> Eval {
        let index = self.index_term(index)?;
        let left = self.payload_left(window);
        let inside = self.less_terms(true, false, index, left);
        let past = || "the index can be past the end of the payload".to_owned();
        let reach = self.reach(inside, past)?;
        let byte = self.payload_byte(window, index);
        let zero = Value::Scalar(Scalar::Unsigned(8), self.terms.constant(0, 8));
        self.or_zero(&reach, byte, zero)
    }

    /// `&payload[range]`, empty where that ends past the end.
    pub(crate) fn slice_of_payload(&mut self, window: Window, range: &Range) -> Eval {
        let left = self.payload_left(window);
        let (start, end, inside) = self.bounds_within(range, left)?;
        let past = || "the slice can end past the end of the payload".to_owned();
        let mut part = Window {
            from: self.terms.binary(Binary::Add, window.from, start),
            to: self.terms.binary(Binary::Add, window.from, end),
        };
        match self.reach(inside, past)? {
            Reach::Inside => {}
            Reach::Outside => part = Window { from: window.from, to: window.from },
            Reach::Perhaps(inside) => {
                part.from = self.terms.ite(inside, part.from, window.from);
                part.to = self.terms.ite(inside, part.to, window.from);
            }
        }
        Ok(Value::Payload(part))
    }

    /// First byte, end, and when both are within `length`.
    fn bounds_within(&mut self, range: &Range, length: Term) -> Eval<(Term, Term, Term)> {
        let start = match &range.start {
            Some(start) => self.index_term(start.clone())?,
            None => self.terms.constant(0, 64),
        };
        let Some(end) = &range.end else {
            let inside = self.less_terms(false, false, start, length);
            return Ok((start, length, inside));
        };
        let mut end = self.index_term(end.clone())?;
        let mut inside = self.less_terms(range.inclusive, false, end, length);
        if range.inclusive {
            let one = self.terms.constant(1, 64);
            end = self.terms.binary(Binary::Add, end, one);
        }
        let ordered = self.less_terms(false, false, start, end);
        inside = self.terms.both(ordered, inside);
        Ok((start, end, inside))
    }
}

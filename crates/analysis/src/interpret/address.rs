//! Addresses and ports.

use super::integer::{byte_array, bytes_of, joined};
use super::types::Scalar;
use super::value::Value;
use super::{Eval, Interpreter};
use crate::expr::{Binary, Term};

/// Questions about an address that are written as they are asked.
const METHODS: [&str; 5] =
    ["is_loopback", "is_multicast", "is_broadcast", "is_unspecified", "is_private"];

impl<'p> Interpreter<'p> {
    pub(crate) fn address_method(&mut self, name: &str, scalar: Scalar, a: Term) -> Eval {
        let condition = match (scalar, name) {
            (_, "clone") => return Ok(Value::Scalar(scalar, a)),
            (Scalar::Port, "index") => return Ok(Value::Scalar(Scalar::Unsigned(8), a)),
            (Scalar::Port, "other") => return Ok(self.other_port(a)),
            (Scalar::Ipv4 | Scalar::Ipv6 | Scalar::Mac, "octets") => {
                return Ok(byte_array(bytes_of(&mut self.terms, a)));
            }
            (Scalar::Ipv6, "segments") => return Ok(self.segments(a)),
            (Scalar::Ipv4, "is_loopback") => self.prefix(a, 127, 8),
            (Scalar::Ipv4, "is_multicast") => self.prefix(a, 0xe, 4),
            (Scalar::Ipv6, "is_multicast") => self.prefix(a, 0xff, 8),
            (Scalar::Mac, "is_multicast") => {
                let group = self.terms.extract(a, 40, 40);
                let one = self.terms.constant(1, 1);
                self.terms.equal(group, one)
            }
            (Scalar::Ipv4 | Scalar::Mac, "is_broadcast") => self.is_number(a, u128::MAX),
            (Scalar::Ipv4 | Scalar::Ipv6, "is_unspecified") => self.is_number(a, 0),
            (Scalar::Ipv6, "is_loopback") => self.is_number(a, 1),
            (Scalar::Ipv4, "is_private") => self.is_private(a),
            _ => {
                let of = scalar.name();
                return self.error(format!("`{of}` has no method `{name}` in the language"));
            }
        };
        if let Some(name) = METHODS.iter().find(|known| **known == name) {
            self.terms.call(condition, name, &[a]);
        }
        Ok(Value::Bool(condition))
    }

    fn is_number(&mut self, a: Term, value: u128) -> Term {
        let value = self.terms.constant(value, self.terms.width(a));
        self.terms.equal(a, value)
    }

    /// Whether the highest `bits` bits are `value`.
    fn prefix(&mut self, a: Term, value: u128, bits: u8) -> Term {
        let width = self.terms.width(a);
        let high = self.terms.extract(a, width - 1, width - bits);
        self.is_number(high, value)
    }

    /// RFC 1918.
    fn is_private(&mut self, a: Term) -> Term {
        let blocks = [(10, 8), (0xac1, 12), (0xc0a8, 16)];
        let blocks = blocks.map(|(value, bits)| self.prefix(a, value, bits));
        self.terms.any(&blocks)
    }

    /// Of two ports, the other one.
    fn other_port(&mut self, port: Term) -> Value {
        let one = self.terms.constant(1, 8);
        Value::Scalar(Scalar::Port, self.terms.binary(Binary::Xor, port, one))
    }

    fn segments(&mut self, a: Term) -> Value {
        let segments = (0..8u8).rev().map(|at| {
            let segment = self.terms.extract(a, at * 16 + 15, at * 16);
            Value::Scalar(Scalar::Unsigned(16), segment)
        });
        Value::array(segments.collect())
    }

    /// Associated functions of integers, addresses and ports.
    pub(crate) fn scalar_function(
        &mut self,
        scalar: Scalar,
        name: &str,
        mut arguments: Vec<Value>,
    ) -> Eval {
        if name == "default" && arguments.is_empty() {
            return Ok(Value::Scalar(scalar, self.terms.constant(0, scalar.width())));
        }
        if scalar.is_integer() && arguments.len() == 1 {
            return self.integer_function(scalar, name, arguments.remove(0));
        }
        if arguments.len() > 1 {
            return self.address_of_parts(scalar, arguments);
        }
        let Some(argument) = arguments.pop() else {
            return self.error(format!("`{}::{name}` needs an argument", scalar.name()));
        };
        let term = match self.settled(argument)? {
            Value::Array(parts) => return self.address_of_parts(scalar, parts.to_vec()),
            Value::Scalar(from, term) if from == scalar => term,
            value => {
                let bits = Scalar::Unsigned(scalar.width());
                self.scalar(value, bits)?
            }
        };
        Ok(Value::Scalar(scalar, term))
    }

    /// An address from its bytes, or an IPv6 address from its segments.
    fn address_of_parts(&mut self, scalar: Scalar, parts: Vec<Value>) -> Eval {
        let bits = usize::from(scalar.width()) / parts.len().max(1);
        if bits * parts.len() != usize::from(scalar.width()) || !matches!(bits, 8 | 16) {
            return self.error(format!("`{}` can't be made of these parts", scalar.name()));
        }
        let part = Scalar::Unsigned(bits as u8);
        let parts: Eval<Vec<Term>> =
            parts.into_iter().map(|value| self.scalar(value, part)).collect();
        let parts = parts?;
        Ok(Value::Scalar(scalar, joined(&mut self.terms, &parts)))
    }
}

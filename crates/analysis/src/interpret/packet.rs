//! The packet: header fields as they arrived, and as the handler left them.

use anabranch_language::names;

use super::types::Scalar;
use super::value::Value;
use super::{Eval, Interpreter};
use crate::expr::{Kind, Sort, Term};

/// A field of a header: `("ipv4", "src")`.
pub(crate) type FieldName = (&'static str, &'static str);

impl<'p> Interpreter<'p> {
    /// Whether the packet has a header of this name.
    pub(crate) fn presence(&mut self, header: &str) -> Term {
        match header {
            "ethernet" => self.terms.bool(true),
            _ => self.terms.symbol(header, Sort::Bool, Kind::Presence),
        }
    }

    /// The field as it arrived: an unknown of as many bits as it has on the wire.
    pub(crate) fn arrived(&mut self, field: FieldName) -> Term {
        if let Some(known) = self.arrivals.get(&field) {
            return *known;
        }
        let (header, name) = field;
        let text = format!("{header}.{name}");
        let term = match Scalar::named(field_type(header, name).unwrap_or("u16")) {
            Some(scalar) => {
                let bits = bits_on_the_wire(field).unwrap_or(scalar.width()).min(scalar.width());
                let term = self.terms.symbol(&text, Sort::Bits(bits), scalar.kind());
                self.terms.extend(term, scalar.width(), false)
            }
            None => self.terms.symbol(&text, Sort::Bool, Kind::Number),
        };
        self.arrivals.insert(field, term);
        term
    }

    /// The field as it is now.
    pub(crate) fn field_now(&mut self, field: FieldName) -> Term {
        match self.run.fields.get(&field) {
            Some((term, _)) => *term,
            None => self.arrived(field),
        }
    }

    /// Higher bits than the field has are lost.
    fn set_field(&mut self, field: FieldName, term: Term) -> Eval<()> {
        self.guarded()?;
        self.note_field(field);
        let width = self.terms.width(term);
        let term = match bits_on_the_wire(field) {
            Some(bits) if bits < width => {
                let kept = self.terms.extract(term, bits - 1, 0);
                self.terms.extend(kept, width, false)
            }
            _ => term,
        };
        self.run.fields.insert(field, (term, self.line()));
        Ok(())
    }

    pub(crate) fn packet_method(&mut self, call: &'p syn::ExprMethodCall) -> Eval {
        let name = call.method.to_string();
        if let Some(setter) = name.strip_prefix("set_") {
            return self.set_port(setter, call);
        }
        self.at(call.method.span());
        let number = |scalar, term| Ok(Value::Scalar(scalar, term));
        match name.as_str() {
            "port" => self.arrival_port(),
            "len" => {
                let length = self.terms.symbol("packet.len", Sort::Bits(32), Kind::Number);
                number(Scalar::Unsigned(32), length)
            }
            "protocol" => {
                let protocol = self.protocol()?;
                number(Scalar::Unsigned(8), protocol)
            }
            "is_fragment" | "is_first_fragment" => {
                let name = format!("packet.{name}");
                Ok(Value::Bool(self.terms.symbol(&name, Sort::Bool, Kind::Number)))
            }
            "src_port" => self.transport_port("src"),
            "dst_port" => self.transport_port("dst"),
            "payload" => Ok(self.whole_payload()),
            _ => self.header(&name),
        }
    }

    fn arrival_port(&mut self) -> Eval {
        match self.run.port {
            Some(port) => Ok(Value::Scalar(Scalar::Port, port)),
            None => self.error("there is no packet here"),
        }
    }

    /// `pkt.ipv4()` and `pkt.ipv4_mut()`.
    fn header(&mut self, name: &str) -> Eval {
        let view = name.strip_suffix("_mut").unwrap_or(name);
        let Some((view, _)) = names::VIEWS.iter().find(|(known, _)| *known == view) else {
            return self.error(format!("a packet has no `{name}`: see docs/nf-language.md"));
        };
        if *view == "ethernet" {
            return Ok(Value::Header(view));
        }
        let present = self.presence(view);
        Ok(self.option(present, Value::Header(view)))
    }

    /// The protocol after extension headers; 0 where there is neither IPv4 nor IPv6.
    fn protocol(&mut self) -> Eval<Term> {
        for header in ["ipv4", "ipv6"] {
            if self.has(header) == Some(true) {
                return Ok(self.field_now((header, "protocol")));
            }
        }
        let protocol = self.terms.symbol("packet.protocol", Sort::Bits(8), Kind::Number);
        let mut neither = self.terms.bool(true);
        for header in ["ipv4", "ipv6"] {
            let present = self.presence(header);
            let absent = self.terms.not(present);
            neither = self.terms.both(neither, absent);
            let field = self.arrived((header, "protocol"));
            let same = self.terms.equal(protocol, field);
            let rule = self.terms.either(absent, same);
            self.assume(rule)?;
        }
        let zero = self.terms.constant(0, 8);
        let none = self.terms.equal(protocol, zero);
        let some = self.terms.not(neither);
        let rule = self.terms.either(some, none);
        self.assume(rule)?;
        Ok(protocol)
    }

    /// What the path knows about a header.
    pub(crate) fn has(&mut self, header: &str) -> Option<bool> {
        let present = self.presence(header);
        let absent = self.terms.not(present);
        self.explorer.already(present, absent)
    }

    /// `src_port()` and `dst_port()`: TCP or UDP, each a path of its own.
    fn transport_port(&mut self, field: &'static str) -> Eval {
        for header in ["tcp", "udp"] {
            let present = self.presence(header);
            if self.decide(present)? {
                let port = self.field_now((header, field));
                return Ok(self.some(Value::Scalar(Scalar::Unsigned(16), port)));
            }
        }
        Ok(self.none())
    }

    fn set_port(&mut self, setter: &str, call: &'p syn::ExprMethodCall) -> Eval {
        let (field, address) = match setter {
            "src_port" => ("src", false),
            "dst_port" => ("dst", false),
            "source" => ("src", true),
            "destination" => ("dst", true),
            _ => return self.error(format!("a packet has no `set_{setter}`")),
        };
        let Some(value) = call.args.last() else {
            return self.error(format!("`set_{setter}` needs a value"));
        };
        let address = call.args.first().filter(|_| address);
        let address = match address {
            Some(address) => {
                let address = self.value(address)?;
                Some(self.scalar(address, Scalar::Ipv4)?)
            }
            None => None,
        };
        let value = self.value(value)?;
        let port = self.scalar(value, Scalar::Unsigned(16))?;
        self.at(call.method.span());
        if let Some(address) = address {
            let present = self.presence("ipv4");
            if !self.decide(present)? {
                return Ok(Value::Unit);
            }
            self.set_field(("ipv4", field), address)?;
        }
        for header in ["tcp", "udp"] {
            let present = self.presence(header);
            if self.decide(present)? {
                self.set_field((header, field), port)?;
                break;
            }
        }
        Ok(Value::Unit)
    }

    /// Fields of a header view.
    pub(crate) fn header_method(
        &mut self,
        header: &'static str,
        call: &'p syn::ExprMethodCall,
    ) -> Eval {
        let name = call.method.to_string();
        if let Some(setter) = name.strip_prefix("set_") {
            return self.set_header_field(header, setter, call);
        }
        self.at(call.method.span());
        let Some((field, of)) = known_field(header, &name) else {
            return self
                .error(format!("`{header}` has no field `{name}`: see docs/nf-language.md"));
        };
        self.field_rules((header, field))?;
        let term = self.field_now((header, field));
        Ok(match Scalar::named(of) {
            Some(scalar) => Value::Scalar(scalar, term),
            None => Value::Bool(term),
        })
    }

    fn set_header_field(
        &mut self,
        header: &'static str,
        setter: &str,
        call: &'p syn::ExprMethodCall,
    ) -> Eval {
        let (Some((field, of)), Some(value)) = (known_field(header, setter), call.args.first())
        else {
            self.at(call.method.span());
            return self.error(format!("`{header}` has no field `{setter}` to set"));
        };
        let value = self.value(value)?;
        self.at(call.method.span());
        let term = match Scalar::named(of) {
            Some(scalar) => self.scalar(value, scalar)?,
            None => match self.settled(value)? {
                Value::Bool(term) => term,
                other => return self.error(format!("{} isn't a `bool`", other.describe())),
            },
        };
        let term = match (header, field) {
            ("icmpv4" | "icmpv6", "id") => self.if_echo(header, term)?,
            ("tcp", "mss") => self.if_announced(term)?,
            _ => Some(term),
        };
        if let Some(term) = term {
            self.set_field((header, field), term)?;
        }
        Ok(Value::Unit)
    }

    /// Only echoes have an identifier to set.
    fn if_echo(&mut self, header: &'static str, set: Term) -> Eval<Option<Term>> {
        self.field_rules((header, "is_echo"))?;
        let is_echo = self.arrived((header, "is_echo"));
        self.if_there(is_echo, (header, "id"), set)
    }

    /// Only where a segment size is announced there is one to set.
    fn if_announced(&mut self, set: Term) -> Eval<Option<Term>> {
        let before = self.field_now(("tcp", "mss"));
        let zero = self.terms.constant(0, 16);
        let none = self.terms.equal(before, zero);
        let some = self.terms.not(none);
        self.if_there(some, ("tcp", "mss"), set)
    }

    /// The value of a field after it was set to `set`, if it `is_there`; `None`: as it was.
    fn if_there(&mut self, is_there: Term, field: FieldName, set: Term) -> Eval<Option<Term>> {
        Ok(match self.known(is_there) {
            Some(there) => there.then_some(set),
            None if !self.possible(is_there)? => None,
            None => {
                let before = self.field_now(field);
                Some(self.terms.ite(is_there, set, before))
            }
        })
    }

    /// What ties a field to others, assumed when it is first read.
    pub(crate) fn field_rules(&mut self, field: FieldName) -> Eval<()> {
        match field {
            ("tcp", "flags") => self.once("tcp.flags", Self::flag_rules),
            ("icmpv4", "is_echo" | "is_error") => {
                self.once("icmpv4", |this| this.icmp_rules("icmpv4", &[0, 8], &[3, 11, 12]))
            }
            ("icmpv6", "is_echo" | "is_error") => {
                self.once("icmpv6", |this| this.icmp_rules("icmpv6", &[128, 129], &[1, 2, 3, 4]))
            }
            _ => Ok(()),
        }
    }

    fn once(&mut self, rule: &'static str, assume: impl FnOnce(&mut Self) -> Eval<()>) -> Eval<()> {
        if self.explorer.explores() && self.run.axioms.insert(rule) {
            assume(self)?;
        }
        Ok(())
    }

    /// RFC 9293: FIN is the lowest bit of the flags.
    fn flag_rules(&mut self) -> Eval<()> {
        let flags = self.arrived(("tcp", "flags"));
        let order = ["fin", "syn", "rst", "psh", "ack", "urg"];
        for (bit, name) in (0..).zip(order) {
            let flag = self.terms.symbol(&format!("tcp.{name}"), Sort::Bool, Kind::Number);
            let bit = self.terms.extract(flags, bit, bit);
            let one = self.terms.constant(1, 1);
            let set = self.terms.equal(bit, one);
            let rule = self.terms.equal(flag, set);
            self.assume(rule)?;
        }
        Ok(())
    }

    /// Echo and error messages, by type.
    fn icmp_rules(&mut self, header: &'static str, echo: &[u8], error: &[u8]) -> Eval<()> {
        let kind = self.arrived((header, "kind"));
        for (field, kinds) in [("is_echo", echo), ("is_error", error)] {
            let flag = self.arrived((header, field));
            let mut any = self.terms.bool(false);
            for number in kinds {
                let number = self.terms.constant(u128::from(*number), 8);
                let same = self.terms.equal(kind, number);
                any = self.terms.either(any, same);
            }
            let rule = self.terms.equal(flag, any);
            self.assume(rule)?;
        }
        Ok(())
    }
}

/// The type of a header field.
pub(crate) fn field_type(header: &str, field: &str) -> Option<&'static str> {
    known_field(header, field).map(|(_, of)| of)
}

fn known_field(header: &str, field: &str) -> Option<(&'static str, &'static str)> {
    let (_, fields) = names::VIEWS.iter().find(|(known, _)| *known == header)?;
    fields.iter().find(|(known, ..)| *known == field).map(|(name, of, _)| (*name, *of))
}

/// The field's bits in the table that the native views are made from.
fn bits_on_the_wire((header, name): FieldName) -> Option<u8> {
    let mut fields = anabranch_packet::fields();
    let field = fields.find(|field| field.header == header && field.name == name)?;
    u8::try_from(field.bits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_packet::Kind as Wire;

    /// The language's table and the packet's say the same of every field both have.
    #[test]
    fn fields_are_those_of_the_native_views() {
        let mut compared = 0;
        for field in anabranch_packet::fields() {
            let Some(of) = field_type(field.header, field.name) else { continue };
            compared += 1;
            let of = Scalar::named(of);
            let width = of.map_or(1, Scalar::width);
            let name = format!("{}.{}", field.header, field.name);
            assert!(field.bits <= u16::from(width), "{name}: {} bits", field.bits);
            let expected = match field.kind {
                Wire::Bool => None,
                Wire::Ipv4 => Some(Scalar::Ipv4),
                Wire::Ipv6 => Some(Scalar::Ipv6),
                Wire::Mac => Some(Scalar::Mac),
                Wire::Uint => of.filter(|scalar| scalar.is_integer()),
            };
            assert_eq!(of, expected, "{name}");
        }
        assert!(compared > 40, "{compared}");
        let fields = names::VIEWS
            .iter()
            .flat_map(|(view, fields)| fields.iter().map(move |(field, ..)| (*view, *field)));
        let missing: Vec<_> = fields.filter(|field| bits_on_the_wire(*field).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

//! What is true of the headers of every packet that reaches a handler: malformed packets have
//! been dropped before.

use anabranch_language::Packets;

use crate::expr::{Binary, Node, Term};
use crate::interpret::{Eval, Interpreter};

/// Headers of which a packet has one at most.
pub(super) const NETWORK: [&str; 3] = ["ipv4", "ipv6", "arp"];
pub(super) const TRANSPORT: [&str; 4] = ["tcp", "udp", "icmpv4", "icmpv6"];

impl<'p> Interpreter<'p> {
    /// Takes it as given that the headers are those of one packet.
    pub(crate) fn assume_headers(&mut self) -> Eval<()> {
        self.network_headers()?;
        self.fragments()?;
        self.transport("tcp", &[("ipv4", 6), ("ipv6", 6)])?;
        self.transport("udp", &[("ipv4", 17), ("ipv6", 17)])?;
        self.transport("icmpv4", &[("ipv4", 1)])?;
        self.transport("icmpv6", &[("ipv6", 58)])?;
        self.embedded()
    }

    /// A header that is there keeps others out: known, so that no branch on them needs the solver.
    pub(crate) fn learn_absent(&mut self, condition: Term) {
        let Node::Symbol(id) = *self.terms.node(condition) else {
            return;
        };
        let name = self.terms.symbol_of(id).name.clone();
        for group in [&NETWORK[..], &TRANSPORT[..]] {
            if !group.contains(&name.as_str()) {
                continue;
            }
            for other in group.iter().filter(|other| **other != name) {
                let present = self.presence(other);
                let absent = self.terms.not(present);
                self.explorer.learn(absent);
            }
        }
    }

    fn number(&mut self, field: (&'static str, &'static str), value: u128) -> Term {
        let field = self.arrived(field);
        let value = self.terms.constant(value, self.terms.width(field));
        self.terms.equal(field, value)
    }

    fn implies(&mut self, condition: Term, then: Term) -> Eval<()> {
        let not = self.terms.not(condition);
        let rule = self.terms.either(not, then);
        self.assume(rule)
    }

    /// At most one network header, as the Ethernet type says; exactly then where frames with a
    /// malformed one are dropped before.
    fn network_headers(&mut self) -> Eval<()> {
        let well_formed = self.program.module.packets != Packets::Frames;
        for (header, ethertype) in [("ipv4", 0x0800), ("ipv6", 0x86dd), ("arp", 0x0806)] {
            let present = self.presence(header);
            let announced = self.number(("ethernet", "ethertype"), ethertype);
            self.implies(present, announced)?;
            if well_formed && header != "arp" {
                self.implies(announced, present)?;
            }
        }
        Ok(())
    }

    fn fragment(&mut self) -> Term {
        self.terms.symbol("packet.is_fragment", crate::expr::Sort::Bool, NUMBER)
    }

    fn later_fragment(&mut self) -> Term {
        let fragment = self.fragment();
        let first = self.terms.symbol("packet.is_first_fragment", crate::expr::Sort::Bool, NUMBER);
        let later = self.terms.not(first);
        self.terms.both(fragment, later)
    }

    fn fragments(&mut self) -> Eval<()> {
        let bool = crate::expr::Sort::Bool;
        let fragment = self.fragment();
        let first = self.terms.symbol("packet.is_first_fragment", bool, NUMBER);
        self.implies(first, fragment)?;
        if self.program.module.packets == Packets::Datagrams {
            let whole = self.terms.not(fragment);
            self.assume(whole)?;
        }
        let (ipv4, ipv6) = (self.presence("ipv4"), self.presence("ipv6"));
        let ip = self.terms.either(ipv4, ipv6);
        self.implies(fragment, ip)?;
        let more = self.arrived(("ipv4", "more_fragments"));
        let start = self.number(("ipv4", "fragment_offset"), 0);
        let moved = self.terms.not(start);
        let divided = self.terms.either(more, moved);
        let says = self.terms.equal(fragment, divided);
        self.implies(ipv4, says)?;
        let begins = self.terms.both(more, start);
        let says = self.terms.equal(first, begins);
        self.implies(ipv4, says)
    }

    /// A transport header is there when the protocol says so, but for later fragments, and for a TCP header that goes
    /// on in one.
    fn transport(&mut self, header: &str, over: &[(&'static str, u128)]) -> Eval<()> {
        let well_formed = self.program.module.packets != Packets::Frames;
        let present = self.presence(header);
        let mut announced = self.terms.bool(false);
        for (network, protocol) in over {
            let under = self.presence(network);
            let named = self.number((network, "protocol"), *protocol);
            let both = self.terms.both(under, named);
            announced = self.terms.either(announced, both);
        }
        let later = self.later_fragment();
        let whole = self.terms.not(later);
        let expected = self.terms.both(announced, whole);
        self.implies(present, expected)?;
        if !well_formed {
            return Ok(());
        }
        let (fragment, ipv4) = (self.fragment(), self.presence("ipv4"));
        let goes_on = match header {
            "tcp" => self.terms.both(fragment, ipv4),
            _ => later,
        };
        let all = self.terms.not(goes_on);
        let surely = self.terms.both(expected, all);
        self.implies(surely, present)
    }

    /// Only ICMP errors hold another packet.
    fn embedded(&mut self) -> Eval<()> {
        let embedded = self.presence("embedded");
        let mut holders = self.terms.bool(false);
        for header in ["icmpv4", "icmpv6"] {
            let present = self.presence(header);
            let error = self.arrived((header, "is_error"));
            let holder = self.terms.binary(Binary::Both, present, error);
            holders = self.terms.either(holders, holder);
        }
        self.implies(embedded, holders)
    }
}

const NUMBER: crate::expr::Kind = crate::expr::Kind::Number;

//! Packet classes as a network function tells them apart, and those of a call path.

use std::fmt;

use anabranch_analysis::CallPath;
use anabranch_analysis::expr::{Binary, Kind, Node, Term, Terms};

/// Packets that have the same headers, and so the same fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// IPv4 with a TCP header: whole packets and first fragments.
    Ipv4Tcp,
    /// IPv4 with a UDP header: whole packets and first fragments.
    Ipv4Udp,
    /// IPv4 with an ICMP header that quotes no packet.
    Ipv4Icmp,
    /// ICMPv4 errors that quote another packet than of ICMP.
    Ipv4Error,
    /// ICMPv4 errors that quote a packet of ICMP, which has no ports.
    Ipv4EchoError,
    /// Other IPv4, fragments without a transport header among them.
    Ipv4,
    /// IPv6 with a TCP header.
    Ipv6Tcp,
    /// IPv6 with a UDP header.
    Ipv6Udp,
    /// IPv6 with an ICMPv6 header that quotes no packet.
    Ipv6Icmp,
    /// ICMPv6 errors that quote another packet than of ICMPv6.
    Ipv6Error,
    /// ICMPv6 errors that quote a packet of ICMPv6, which has no ports.
    Ipv6EchoError,
    /// Other IPv6, fragments without a transport header among them.
    Ipv6,
    /// ARP and everything else.
    NonIp,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 13] = [
        Self::Ipv4Tcp,
        Self::Ipv4Udp,
        Self::Ipv4Icmp,
        Self::Ipv4Error,
        Self::Ipv4EchoError,
        Self::Ipv4,
        Self::Ipv6Tcp,
        Self::Ipv6Udp,
        Self::Ipv6Icmp,
        Self::Ipv6Error,
        Self::Ipv6EchoError,
        Self::Ipv6,
        Self::NonIp,
    ];

    /// The class in one word: `ipv4-tcp`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4Tcp => "ipv4-tcp",
            Self::Ipv4Udp => "ipv4-udp",
            Self::Ipv4Icmp => "ipv4-icmp",
            Self::Ipv4Error => "ipv4-icmp-error",
            Self::Ipv4EchoError => "ipv4-icmp-error-of-icmp",
            Self::Ipv4 => "ipv4",
            Self::Ipv6Tcp => "ipv6-tcp",
            Self::Ipv6Udp => "ipv6-udp",
            Self::Ipv6Icmp => "ipv6-icmp",
            Self::Ipv6Error => "ipv6-icmp-error",
            Self::Ipv6EchoError => "ipv6-icmp-error-of-icmp",
            Self::Ipv6 => "ipv6",
            Self::NonIp => "non-ip",
        }
    }

    /// The class of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Headers that every packet of the class has, beside Ethernet.
    pub(crate) const fn headers(self) -> &'static [&'static str] {
        match self {
            Self::Ipv4Tcp => &["ipv4", "tcp"],
            Self::Ipv4Udp => &["ipv4", "udp"],
            Self::Ipv4Icmp => &["ipv4", "icmpv4"],
            Self::Ipv4Error | Self::Ipv4EchoError => &["ipv4", "icmpv4", "embedded"],
            Self::Ipv4 => &["ipv4"],
            Self::Ipv6Tcp => &["ipv6", "tcp"],
            Self::Ipv6Udp => &["ipv6", "udp"],
            Self::Ipv6Icmp => &["ipv6", "icmpv6"],
            Self::Ipv6Error | Self::Ipv6EchoError => &["ipv6", "icmpv6", "embedded"],
            Self::Ipv6 => &["ipv6"],
            Self::NonIp => &[],
        }
    }

    /// The protocol number that the network header has, where it is known.
    pub(crate) const fn protocol(self) -> Option<u8> {
        match self {
            Self::Ipv4Tcp | Self::Ipv6Tcp => Some(6),
            Self::Ipv4Udp | Self::Ipv6Udp => Some(17),
            Self::Ipv4Icmp | Self::Ipv4Error | Self::Ipv4EchoError => Some(1),
            Self::Ipv6Icmp | Self::Ipv6Error | Self::Ipv6EchoError => Some(58),
            _ => None,
        }
    }

    /// Whether the quoted packet's protocol is `number`: known where errors are told apart by it.
    pub(crate) const fn quotes(self, number: u128) -> Option<bool> {
        match (self, number) {
            (Self::Ipv4EchoError, 1) | (Self::Ipv6EchoError, 58) => Some(true),
            (Self::Ipv4EchoError | Self::Ipv6EchoError, _) => Some(false),
            (Self::Ipv4Error, 1) | (Self::Ipv6Error, 58) => Some(false),
            _ => None,
        }
    }

    /// Whether most traffic is of this class: TCP and UDP.
    pub const fn carries_flows(self) -> bool {
        matches!(self, Self::Ipv4Tcp | Self::Ipv4Udp | Self::Ipv6Tcp | Self::Ipv6Udp)
    }

    /// Whether a packet may have the header.
    fn may_have(self, header: &str) -> bool {
        match header {
            "ethernet" | "vlan" => true,
            "arp" => self == Self::NonIp,
            _ => self.headers().contains(&header),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Classes(u16);

impl Classes {
    pub(crate) const ALL: Self = Self((1 << Class::ALL.len()) - 1);

    pub(crate) fn where_(keep: impl Fn(Class) -> bool) -> Self {
        let bits = Class::ALL.iter().enumerate().filter(|(_, class)| keep(**class));
        Self(bits.fold(0, |all, (at, _)| all | 1 << at))
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn contains(self, class: Class) -> bool {
        self.0 >> class as u16 & 1 == 1
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Class> {
        Class::ALL.into_iter().filter(move |class| self.contains(*class))
    }

    /// Classes whose packets may have a header of this name.
    pub(crate) fn with(header: &str) -> Self {
        Self::where_(|class| class.may_have(header))
    }

    fn without(header: &str) -> Self {
        match header {
            "ethernet" | "vlan" | "arp" => Self::ALL,
            _ => Self::where_(|class| !class.headers().contains(&header)),
        }
    }
}

/// The classes of the packets that can take a path.
pub(crate) fn classes_of(path: &CallPath, terms: &Terms) -> Classes {
    let mut classes = path.class.as_deref().map_or(Classes::ALL, of_packet_set);
    for condition in &path.conditions {
        classes = classes.and(narrowed(condition.term, true, terms));
    }
    classes
}

/// `ipv4 tcp`, `icmpv6 echo`, `ipv4`: the words of a packet set's classes.
fn of_packet_set(name: &str) -> Classes {
    name.split(' ').fold(Classes::ALL, |classes, word| match word {
        "echo" => classes.and(Classes::without("embedded")),
        header => classes.and(Classes::with(header)),
    })
}

/// What a condition says of headers: presence alone, negated, and joined by `&&`.
fn narrowed(term: Term, holds: bool, terms: &Terms) -> Classes {
    match *terms.node(term) {
        Node::Symbol(id) if terms.symbol_of(id).kind == Kind::Presence => {
            let name = &terms.symbol_of(id).name;
            if Classes::with(name).is_empty() {
                return Classes::ALL;
            }
            if holds { Classes::with(name) } else { Classes::without(name) }
        }
        Node::Symbol(id) if is_echo(&terms.symbol_of(id).name) && holds => {
            Classes::without("embedded")
        }
        Node::Binary(Binary::Equal, a, b) => quoting(a, b, holds, terms),
        Node::Not(inner) => narrowed(inner, !holds, terms),
        Node::Binary(Binary::Both, a, b) if holds => {
            narrowed(a, true, terms).and(narrowed(b, true, terms))
        }
        Node::Binary(Binary::Either, a, b) if !holds => {
            narrowed(a, false, terms).and(narrowed(b, false, terms))
        }
        _ => Classes::ALL,
    }
}

/// Whether that is the packet's own field, and no setting or part of state of that name.
fn is_echo(name: &str) -> bool {
    matches!(name, "icmpv4.is_echo" | "icmpv6.is_echo")
}

/// Whether a term is `embedded.protocol == NUMBER`, and the number.
pub(crate) fn quoted_protocol(a: Term, b: Term, terms: &Terms) -> Option<u128> {
    let Node::Symbol(id) = *terms.node(a) else { return None };
    let field = terms.symbol_of(id).name == "embedded.protocol";
    terms.constant_of(b).filter(|_| field)
}

fn quoting(a: Term, b: Term, holds: bool, terms: &Terms) -> Classes {
    match quoted_protocol(a, b, terms) {
        Some(number) => Classes::where_(|class| class.quotes(number) != Some(!holds)),
        None => Classes::ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_analysis::expr::Sort;

    fn presence(terms: &mut Terms, name: &str) -> Term {
        terms.symbol(name, Sort::Bool, Kind::Presence)
    }

    #[test]
    fn names_lead_back() {
        for class in Class::ALL {
            assert_eq!(Class::named(class.name()), Some(class));
            assert!(Classes::ALL.contains(class));
        }
    }

    #[test]
    fn presence_narrows_and_absence_keeps_out() {
        let mut terms = Terms::new();
        let (tcp, ipv6) = (presence(&mut terms, "tcp"), presence(&mut terms, "ipv6"));
        let both = terms.both(tcp, ipv6);
        let only = |classes: Classes| classes.iter().collect::<Vec<_>>();
        assert_eq!(only(narrowed(both, true, &terms)), [Class::Ipv6Tcp]);
        assert_eq!(narrowed(both, false, &terms), Classes::ALL, "one of them may be there");
        let neither = terms.either(tcp, ipv6);
        assert_eq!(only(narrowed(neither, false, &terms)).len(), 6);
        let state = presence(&mut terms, "backends.get#1");
        assert_eq!(narrowed(state, false, &terms), Classes::ALL);
    }

    #[test]
    fn only_the_packet_says_that_it_is_an_echo() {
        let mut terms = Terms::new();
        let mut classes = |name: &str| {
            let echo = terms.symbol(name, Sort::Bool, Kind::Number);
            narrowed(echo, true, &terms)
        };
        assert!(!classes("icmpv4.is_echo").contains(Class::Ipv4Error));
        assert_eq!(classes("settings.is_echo"), Classes::ALL);
    }

    #[test]
    fn packet_sets_name_their_class() {
        assert_eq!(of_packet_set("ipv4 tcp").iter().collect::<Vec<_>>(), [Class::Ipv4Tcp]);
        assert_eq!(of_packet_set("icmpv6 echo").iter().collect::<Vec<_>>(), [Class::Ipv6Icmp]);
        assert_eq!(of_packet_set("ipv4").iter().count(), 6);
    }
}

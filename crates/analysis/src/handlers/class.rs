//! Packet classes of a packet set's key lists, and the key each has.

use anabranch_language::{KeyField, KeyList, PacketSet, Protocol};

use crate::access::Part;
use crate::expr::{Kind, Term};
use crate::interpret::{Eval, Interpreter};

/// Packets of one key list over one version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class {
    /// Position among the key lists.
    pub(crate) list: usize,
    pub(crate) ipv6: bool,
}

/// Every class of a packet set, in order of its key lists.
pub(crate) fn classes(set: &PacketSet) -> Vec<Class> {
    let lists = set.keys.iter().enumerate();
    lists
        .flat_map(|(list, keys)| {
            let versions = [(keys.ipv4, false), (keys.ipv6, true)];
            versions.into_iter().filter(|(has, _)| *has).map(move |(_, ipv6)| Class { list, ipv6 })
        })
        .collect()
}

impl Class {
    fn network(self) -> &'static str {
        if self.ipv6 { "ipv6" } else { "ipv4" }
    }

    /// The header below the network layer that the key list asks for.
    fn transport(self, keys: &KeyList) -> Option<&'static str> {
        match keys.protocol {
            Protocol::Tcp => Some("tcp"),
            Protocol::Udp => Some("udp"),
            Protocol::Icmp if self.ipv6 => Some("icmpv6"),
            Protocol::Icmp => Some("icmpv4"),
            Protocol::Ipv4 | Protocol::Ipv6 => None,
        }
    }

    /// What packets of the class are called: `ipv4 tcp`.
    pub(crate) fn name(self, set: &PacketSet) -> String {
        let keys = &set.keys[self.list];
        match self.transport(keys) {
            Some(transport) if keys.protocol == Protocol::Icmp => {
                format!("{} echo", transport)
            }
            Some(transport) => format!("{} {transport}", self.network()),
            None => self.network().to_owned(),
        }
    }
}

impl<'p> Interpreter<'p> {
    /// The conditions under which a packet matches the key list of a class, earlier lists apart.
    pub(crate) fn class_conditions(&mut self, set: &PacketSet, class: Class) -> Eval<Vec<Term>> {
        let keys = &set.keys[class.list];
        let mut conditions = vec![self.presence(class.network())];
        if let Some(transport) = class.transport(keys) {
            conditions.push(self.presence(transport));
            if keys.protocol == Protocol::Icmp {
                let field = (transport, "is_echo");
                self.field_rules(field)?;
                conditions.push(self.arrived(field));
            }
        }
        Ok(conditions)
    }

    /// Takes it as given that the packet belongs to a class and to none before it.
    pub(crate) fn assume_class(&mut self, set: &PacketSet, class: Class) -> Eval<()> {
        for condition in self.class_conditions(set, class)? {
            self.assume(condition)?;
            self.learn_absent(condition);
        }
        for earlier in classes(set) {
            if earlier.list >= class.list || earlier.ipv6 != class.ipv6 {
                continue;
            }
            let conditions = self.class_conditions(set, earlier)?;
            let matches = self.terms.all(&conditions[1..]);
            let other = self.terms.not(matches);
            self.assume(other)?;
        }
        Ok(())
    }

    /// Takes it as given that the packet belongs to no class.
    pub(crate) fn assume_no_class(&mut self, set: &PacketSet) -> Eval<()> {
        for class in classes(set) {
            let conditions = self.class_conditions(set, class)?;
            let matches = self.terms.all(&conditions);
            let other = self.terms.not(matches);
            self.assume(other)?;
        }
        Ok(())
    }

    /// The key of a packet of a class, on its fields as they arrived.
    pub(crate) fn class_key(&mut self, set: &PacketSet, class: Class) -> Vec<Part> {
        let keys = &set.keys[class.list];
        let network = class.network();
        let mut parts: Vec<Part> = Vec::new();
        for field in &keys.fields {
            let transport = class.transport(keys).unwrap_or(network);
            let port = |name| match keys.protocol {
                Protocol::Icmp => (transport, "id"),
                _ => (transport, name),
            };
            let field = match field {
                KeyField::SrcAddress => (network, "src"),
                KeyField::DstAddress => (network, "dst"),
                KeyField::SrcPort => port("src"),
                KeyField::DstPort => port("dst"),
            };
            let part = Part {
                name: format!("{}.{}", field.0, field.1),
                term: self.arrived(field),
                kind: Kind::Number,
            };
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        parts
    }
}

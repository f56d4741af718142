//! The ways into a network function.

use anabranch_language::{Module, Ports, StateKind};

use super::class::{Class, classes};

/// One way into a network function, explored by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Validation of the settings, explored first: every other entry takes it as passed.
    Check,
    /// The beginning of a shard: explored only for what it leaves behind.
    Init,
    /// A packet, without packet sets.
    Packet {
        port: Option<usize>,
    },
    /// A packet of a packet set.
    SetPacket {
        port: Option<usize>,
        class: Class,
        opened: bool,
    },
    /// A packet in no packet set; `unclassed`: it arrived where packets may belong to one.
    Orphan {
        port: Option<usize>,
        unclassed: bool,
    },
    /// A packet set has expired.
    SetExpired,
    /// A command, by position.
    Control(usize),
    Timer,
    Periodic,
    Shutdown,
    /// An object of this allocator has expired.
    ObjectExpired(usize),
}

/// Every entry of a module, in the order in which they are shown.
pub(crate) fn entries(module: &Module) -> Vec<Entry> {
    let mut entries = Vec::new();
    for port in ports(module) {
        packet_entries(module, port, &mut entries);
    }
    let handlers = &module.handlers;
    let fixed = [
        (handlers.packet_set_expired, Entry::SetExpired),
        (handlers.timer, Entry::Timer),
        (handlers.periodic.is_some(), Entry::Periodic),
        (handlers.shutdown, Entry::Shutdown),
    ];
    entries.extend(fixed.into_iter().filter(|(there, _)| *there).map(|(_, entry)| entry));
    if let (true, Some(commands)) = (handlers.control, &module.commands) {
        entries.extend((0..commands.variants.len()).map(Entry::Control));
    }
    for (position, field) in module.nf.fields.iter().enumerate() {
        if matches!(field.kind, StateKind::Allocator(_)) && field.expired.is_some() {
            entries.push(Entry::ObjectExpired(position));
        }
    }
    entries
}

/// Named ports one by one; any number of ports as one unknown port.
fn ports(module: &Module) -> Vec<Option<usize>> {
    match &module.ports {
        Ports::Named(names) => (0..names.len()).map(Some).collect(),
        Ports::Any => vec![None],
    }
}

fn packet_entries(module: &Module, port: Option<usize>, entries: &mut Vec<Entry>) {
    let Some(set) = &module.packet_set else {
        entries.push(Entry::Packet { port });
        return;
    };
    let here = match (&set.port, &module.ports, port) {
        (Some(only), Ports::Named(names), Some(port)) => names[port] == *only,
        _ => true,
    };
    if here {
        for class in classes(set) {
            for opened in [true, false] {
                entries.push(Entry::SetPacket { port, class, opened });
            }
        }
    }
    entries.push(Entry::Orphan { port, unclassed: here });
}

impl Entry {
    /// What the handler is called in the output.
    pub(crate) fn name(&self, module: &Module) -> String {
        match self {
            Self::Check => "check".to_owned(),
            Self::Init => "init".to_owned(),
            Self::Packet { .. } => "packet".to_owned(),
            Self::SetPacket { opened: true, .. } => "packet (new packet set)".to_owned(),
            Self::SetPacket { .. } => "packet (existing packet set)".to_owned(),
            Self::Orphan { .. } => "orphan".to_owned(),
            Self::SetExpired => "packet_set_expired".to_owned(),
            Self::Control(at) => {
                let commands = module.commands.as_ref();
                let name = commands.and_then(|commands| commands.variants.get(*at));
                format!("control {}", name.map_or("", |command| &command.text))
            }
            Self::Timer => "timer".to_owned(),
            Self::Periodic => "periodic".to_owned(),
            Self::Shutdown => "shutdown".to_owned(),
            Self::ObjectExpired(at) => {
                let field = &module.nf.fields[*at];
                let method = field.expired.as_ref().map(ToString::to_string);
                format!("{} ({} expired)", method.unwrap_or_default(), field.ident)
            }
        }
    }

    pub(crate) fn port(&self) -> Option<usize> {
        match self {
            Self::Packet { port } | Self::SetPacket { port, .. } | Self::Orphan { port, .. } => {
                *port
            }
            _ => None,
        }
    }

    pub(crate) fn class(&self) -> Option<Class> {
        match self {
            Self::SetPacket { class, .. } => Some(*class),
            _ => None,
        }
    }
}

//! What a module declares, in the words of `docs/nf-language.md`.

use proc_macro2::Ident;
use syn::{Expr, ItemEnum, ItemStruct, Type};

/// The ports an NF sees.
#[derive(Clone, Debug)]
pub enum Ports {
    /// Named by the author, in order: `ports(lan, wan)`.
    Named(Vec<Ident>),
    /// Any number, named on the command line: `ports(..)`.
    Any,
}

/// Which packets reach the NF's handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {
    /// Frames whose headers are well formed; others are dropped with the parser's reason.
    WellFormed,
    /// `layer = 4`: the same, but that no fragments come: datagrams are put together before.
    Datagrams,
    /// `layer = 2`: also frames whose network layer is malformed.
    Frames,
}

/// The type of a setting, or of a field of a command.
#[derive(Clone, Debug)]
pub enum SettingType {
    /// An integer of so many bits.
    Integer {
        /// Width in bits.
        bits: u32,
        /// Whether it is `i…`.
        signed: bool,
    },
    /// `bool`.
    Bool,
    /// A field-less enum of the module, written in kebab case.
    Enum(Ident),
    /// `Ipv4Addr`.
    Ipv4Addr,
    /// `Ipv6Addr`.
    Ipv6Addr,
    /// `MacAddr`.
    MacAddr,
    /// `Port`.
    Port,
    /// `List<T>`.
    List(Box<SettingType>),
    /// A settings struct of the module: only as the element of a list.
    Struct(Ident),
}

impl SettingType {
    /// Whether it is an address, or a list of them.
    pub(crate) fn is_of_addresses(&self) -> bool {
        match self {
            Self::List(element) => element.is_of_addresses(),
            _ => matches!(self, Self::Ipv4Addr | Self::Ipv6Addr | Self::MacAddr),
        }
    }
}

/// One setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The field.
    pub ident: Ident,
    /// Its type, as the language knows it.
    pub kind: SettingType,
    /// Its type, as the author wrote it.
    pub ty: Type,
    /// Its value when not given; `None`: it must be given.
    pub default: Option<Expr>,
    /// The smallest value allowed.
    pub min: Option<Expr>,
    /// The largest value allowed.
    pub max: Option<Expr>,
    /// Of a list that `init` reads: whether what is made of its elements stays as it is when more are put to its end,
    /// and to the end of the list that grows before it where this one is empty.
    pub grows: bool,
    /// Its help text.
    pub docs: String,
    /// Line in the author's file.
    pub line: u32,
}

/// The `Settings` struct, or a struct that is an element of a list of settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The struct's name.
    pub ident: Ident,
    /// Its fields, in order.
    pub fields: Vec<Setting>,
    /// The item, as written.
    pub item: ItemStruct,
}

/// One drop reason.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The variant.
    pub ident: Ident,
    /// As written in tables: `over-quota`.
    pub text: String,
    /// Its help text.
    pub docs: String,
}

/// The `Reason` enum.
#[derive(Clone, Debug)]
pub struct Reasons {
    /// Its variants, in order.
    pub variants: Vec<Reason>,
    /// The item, as written.
    pub item: ItemEnum,
}

/// One command that `control` accepts.
#[derive(Clone, Debug)]
pub struct Command {
    /// The variant.
    pub ident: Ident,
    /// As written from outside: `add-backend`.
    pub text: String,
    /// Its arguments, all of which must be given unless they have a default.
    pub fields: Vec<Setting>,
    /// Its help text.
    pub docs: String,
}

/// The `Command` enum.
#[derive(Clone, Debug)]
pub struct Commands {
    /// Its variants, in order.
    pub variants: Vec<Command>,
    /// The item, as written.
    pub item: ItemEnum,
}

/// The protocol of a key list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// UDP over IPv4 or IPv6.
    Udp,
    /// ICMP echo, over IPv4 or IPv6.
    Icmp,
    /// Any IPv4 packet.
    Ipv4,
    /// Any IPv6 packet.
    Ipv6,
}

/// A field of a key list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyField {
    /// Source address.
    SrcAddress,
    /// Destination address.
    DstAddress,
    /// Source port, or the identifier of an ICMP echo.
    SrcPort,
    /// Destination port, or the identifier of an ICMP echo.
    DstPort,
}

/// One key list of a packet set: `tcp(ipv4.src, tcp.dst)`.
#[derive(Clone, Debug)]
pub struct KeyList {
    /// Which packets it is for.
    pub protocol: Protocol,
    /// Whether IPv4 packets have this key.
    pub ipv4: bool,
    /// Whether IPv6 packets have this key.
    pub ipv6: bool,
    /// The fields, without repetition, in the order of [`KeyField`].
    pub fields: Vec<KeyField>,
    /// Line in the author's file.
    pub line: u32,
}

/// The `#[packet_set]` struct.
#[derive(Clone, Debug)]
pub struct PacketSet {
    /// The state's type.
    pub ident: Ident,
    /// Key lists; a packet belongs to the first that it matches.
    pub keys: Vec<KeyList>,
    /// Whether a reply belongs to its request's set.
    pub bidirectional: bool,
    /// The only port whose packets belong to sets.
    pub port: Option<Ident>,
    /// Sets at once, over `settings`.
    pub capacity: Expr,
    /// Lifetime in seconds, over `settings`.
    pub expires_s: Expr,
    /// The item, as written.
    pub item: ItemStruct,
    /// Line in the author's file.
    pub line: u32,
}

/// What a field of the NF struct is.
#[allow(clippy::large_enum_variant)] // A module has a handful of them.
#[derive(Clone, Debug)]
pub enum StateKind {
    /// `Settings`.
    Settings,
    /// `Map<K, V>`.
    Map(Type, Type),
    /// `Vector<T>`.
    Vector(Type),
    /// `Allocator<T>`.
    Allocator(Type),
    /// `Distributed<T>`.
    Distributed(Type),
    /// `Counter`.
    Counter,
    /// `Cell<T>`.
    Cell(Type),
    /// `L3`.
    L3,
}

impl StateKind {
    /// The type's name: `Map`, `Vector`, …
    pub fn name(&self) -> &'static str {
        match self {
            Self::Settings => "Settings",
            Self::Map(..) => "Map",
            Self::Vector(_) => "Vector",
            Self::Allocator(_) => "Allocator",
            Self::Distributed(_) => "Distributed",
            Self::Counter => "Counter",
            Self::Cell(_) => "Cell",
            Self::L3 => "L3",
        }
    }
}

/// A field of the NF struct.
#[derive(Clone, Debug)]
pub struct StateField {
    /// The field.
    pub ident: Ident,
    /// What it is.
    pub kind: StateKind,
    /// `#[capacity(EXPR)]`, over `settings`: on every `Map`, `Vector` and `Allocator`.
    pub capacity: Option<Expr>,
    /// `#[expired(method)]` of an `Allocator`.
    pub expired: Option<Ident>,
    /// `#[merge(function)]` of a `Distributed`.
    pub merge: Option<Ident>,
    /// `#[staleness_ms(EXPR)]` of a `Distributed`, over `settings`.
    pub staleness_ms: Option<Expr>,
    /// What the author says of it.
    pub docs: String,
    /// Line in the author's file.
    pub line: u32,
}

/// The NF itself.
#[derive(Clone, Debug)]
pub struct NfStruct {
    /// Its name.
    pub ident: Ident,
    /// Its fields, in order.
    pub fields: Vec<StateField>,
    /// The item, as written.
    pub item: ItemStruct,
}

/// `#[every_ms(N)]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periodic {
    /// The period in milliseconds, at least 1.
    pub every_ms: u64,
}

/// Which handlers the NF has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handlers {
    /// `init`.
    pub init: bool,
    /// `packet_set_opened`.
    pub packet_set_opened: bool,
    /// `packet_set_full`.
    pub packet_set_full: bool,
    /// `packet`: always there in a module that passed the check.
    pub packet: bool,
    /// `packet_set_expired`.
    pub packet_set_expired: bool,
    /// `orphan`.
    pub orphan: bool,
    /// `control`.
    pub control: bool,
    /// `timer`.
    pub timer: bool,
    /// `periodic`.
    pub periodic: Option<Periodic>,
    /// `shutdown`.
    pub shutdown: bool,
    /// The free function `check` over the settings.
    pub check: bool,
}

//! Which shard a packet belongs to: the hash of a plan, computed where no NIC has.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_packet::header::quoted_protocol;
use anabranch_packet::{Field, Frame, Layout, Port, parse};
use anabranch_plan::{Class, Plan, PortClass, Steerer};
use anabranch_rss::{Field as Place, Key, ToeplitzTable};

use crate::deployment::Refusal;

/// Shards at most: the entries of the largest indirection table.
pub const SHARDS: usize = 512;

const ICMP: u8 = 1;
const SCTP: u8 = 132;
const ICMPV6: u8 = 58;

/// Packets of a class that a NIC treats alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Fragment,
    Sctp,
}

const KINDS: usize = 3;

/// Steers packets to shards as a plan says, class by class.
#[derive(Clone, Debug)]
pub struct Steering {
    /// By port; the last one serves all further ports where their number is open.
    ports: Vec<Arc<[Lane]>>,
    shards: usize,
}

/// How packets of one class are hashed at one port.
#[derive(Clone, Debug, Default)]
struct Lane(Vec<Piece>);

/// A field, and where it stands in the input of the hash.
#[derive(Clone, Debug)]
struct Piece {
    field: &'static Field,
    /// First byte in the hash's input, of as many as the field touches.
    at: usize,
    table: Arc<ToeplitzTable>,
}

impl Steering {
    /// The steering of a plan, for ports named `ports`.
    ///
    /// # Errors
    /// The plan has no entry for a port, a key that is no key, or a field that packets do not have.
    pub fn new(plan: &Plan, ports: &[String]) -> Result<Self, Refusal> {
        let mut tables = BTreeMap::new();
        for port in &plan.ports {
            let key = key(&port.key).ok_or_else(|| {
                Refusal(format!("the key of port `{}` has not 40 or 52 bytes", port.port))
            })?;
            tables.insert(port.port.as_str(), Arc::new(ToeplitzTable::full(&key)));
        }
        let lanes_of = |port: &anabranch_plan::Port| -> Result<Arc<[Lane]>, Refusal> {
            let mut lanes = vec![Lane::default(); Class::ALL.len() * KINDS];
            for class in &port.classes {
                let name = class.key_of.as_deref().unwrap_or(&port.port);
                let table = tables.get(name);
                let table = table.ok_or_else(|| Refusal(format!("there is no port `{name}`")))?;
                let lane = lane_named(&class.class).and_then(|at| lanes.get_mut(at));
                let lane =
                    lane.ok_or_else(|| Refusal(format!("there is no class `{}`", class.class)))?;
                *lane = Lane::new(class, table)?;
            }
            Ok(lanes.into())
        };
        let named = |name: &str| plan.ports.iter().find(|port| port.port == name);
        let ports: Result<Vec<_>, Refusal> = match named("any") {
            Some(any) => lanes_of(any).map(|lanes| vec![lanes]),
            None => ports
                .iter()
                .map(|name| {
                    let port = named(name);
                    lanes_of(port.ok_or_else(|| Refusal(format!("there is no port `{name}`")))?)
                })
                .collect(),
        };
        let shards = SHARDS.min(1 << plan.index_bits.min(16));
        Ok(Self { ports: ports?, shards })
    }

    /// Steering where there is no plan: by flows, either way round, so that each keeps its order.
    pub fn by_flow() -> Self {
        let table = Arc::new(ToeplitzTable::full(&Key::SYMMETRIC));
        let lane = |fields: &[&str]| {
            let mut at = 0;
            let piece = |name: &&str| {
                let field = Field::named(name)?;
                let piece = Piece { field, at, table: Arc::clone(&table) };
                at += bytes_of(field);
                Some(piece)
            };
            Lane(fields.iter().filter_map(piece).collect())
        };
        let mut lanes = vec![Lane::default(); Class::ALL.len() * KINDS];
        for (at, place) in lanes.iter_mut().enumerate() {
            *place = lane(match (Class::ALL[at / KINDS], at % KINDS) {
                (Class::Ipv4Tcp, 0) => &["ipv4.src", "ipv4.dst", "tcp.src", "tcp.dst"],
                (Class::Ipv4Udp, 0) => &["ipv4.src", "ipv4.dst", "udp.src", "udp.dst"],
                (Class::Ipv6Tcp, 0) => &["ipv6.src", "ipv6.dst", "tcp.src", "tcp.dst"],
                (Class::Ipv6Udp, 0) => &["ipv6.src", "ipv6.dst", "udp.src", "udp.dst"],
                (Class::NonIp, _) => &["ethernet.dst", "ethernet.src"],
                (class, _) if class.name().starts_with("ipv4") => &["ipv4.src", "ipv4.dst"],
                _ => &["ipv6.src", "ipv6.dst"],
            });
        }
        Self { ports: vec![lanes.into()], shards: SHARDS }
    }

    /// Number of shards, a power of two.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// The shard of a packet that was captured as `bytes` and arrived at `port`.
    #[inline]
    pub fn shard(&self, port: Port, bytes: &[u8], wire_len: u32) -> u32 {
        let layout = parse(bytes, wire_len);
        let lane = self.lane(port, lane_of(bytes, layout));
        lane.map_or(0, |lane| lane.hash(bytes, layout)) & (self.shards as u32 - 1)
    }

    /// The shard of a packet of `class` at `port` whose only field other than zero is `field`.
    pub(crate) fn shard_of_value(&self, port: Port, class: Class, field: &str, value: u128) -> u32 {
        let lane = self.lane(port, class as usize * KINDS);
        let hash = lane.map_or(0, |lane| lane.hash_of_value(field, value));
        hash & (self.shards as u32 - 1)
    }

    /// Gives every frame of a batch the shard that its port did not supply as a hash.
    #[inline]
    pub fn hash_batch(&self, frames: &mut [Frame<'_>]) {
        for frame in frames {
            let meta = *frame.meta();
            frame.meta_mut().steering_hash = self.shard(meta.port, frame.bytes(), meta.wire_len);
        }
    }

    #[inline]
    fn lane(&self, port: Port, lane: usize) -> Option<&Lane> {
        let port = usize::from(port.index()).min(self.ports.len().saturating_sub(1));
        self.ports.get(port)?.get(lane)
    }
}

impl Lane {
    fn new(class: &PortClass, table: &Arc<ToeplitzTable>) -> Result<Self, Refusal> {
        let mut lane = Self::default();
        if class.by == Steerer::OneShard {
            return Ok(lane);
        }
        let mut end = 0;
        for input in &class.input {
            let place = Place::named(&input.place);
            let place = place
                .ok_or_else(|| Refusal(format!("no hash has a place for `{}`", input.place)))?;
            end += usize::from(place.width() / 8);
            // SCTP's ports are no fields of the language: no packets of which it speaks need them.
            if input.field == "-" || input.field.starts_with("sctp.") {
                continue;
            }
            let field = Field::named(&input.field);
            let field =
                field.ok_or_else(|| Refusal(format!("packets have no field `{}`", input.field)))?;
            let at = end.saturating_sub(bytes_of(field));
            lane.0.push(Piece { field, at, table: Arc::clone(table) });
        }
        Ok(lane)
    }

    #[inline]
    fn hash(&self, bytes: &[u8], layout: Layout) -> u32 {
        self.0.iter().fold(0, |hash, piece| hash ^ piece.hash(bytes, layout))
    }

    fn hash_of_value(&self, field: &str, value: u128) -> u32 {
        let of_field = |piece: &&Piece| {
            let (header, name) = (piece.field.header, piece.field.name);
            field.strip_prefix(header).and_then(|rest| rest.strip_prefix('.')) == Some(name)
        };
        let pieces = self.0.iter().filter(of_field);
        pieces.fold(0, |hash, piece| hash ^ piece.hash_of(value))
    }
}

impl Piece {
    #[inline]
    fn hash(&self, bytes: &[u8], layout: Layout) -> u32 {
        let (offset, bits) = (usize::from(self.field.offset_bits), usize::from(self.field.bits));
        match self.field.header_offset(layout) {
            Some(header) if (offset | bits) % 8 == 0 => {
                let start = header + offset / 8;
                let field = bytes.get(start..start + bits / 8).unwrap_or_default();
                self.table.part(self.at, field)
            }
            _ => self.hash_of(self.field.value(bytes, layout)),
        }
    }

    fn hash_of(&self, value: u128) -> u32 {
        let bytes = value.to_be_bytes();
        self.table.part(self.at, &bytes[bytes.len() - bytes_of(self.field)..])
    }
}

/// Bytes that a field touches in a hash's input, where it ends with its last bit.
fn bytes_of(field: &Field) -> usize {
    usize::from(field.bits).div_ceil(8)
}

fn key(hex: &str) -> Option<Key> {
    let digits: Option<Vec<u8>> = hex.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let bytes: Vec<u8> =
        digits?.chunks(2).map(|pair| pair.iter().fold(0, |b, d| b << 4 | d)).collect();
    Key::try_from(&bytes[..]).ok()
}

/// The lane that a plan calls `name`.
fn lane_named(name: &str) -> Option<usize> {
    let kinds = [
        ("-first-fragment", Kind::Fragment),
        ("-later-fragment", Kind::Fragment),
        ("-sctp", Kind::Sctp),
        ("", Kind::Whole),
    ];
    kinds.into_iter().find_map(|(suffix, kind)| {
        let class = Class::named(name.strip_suffix(suffix)?)?;
        Some(class as usize * KINDS + kind as usize)
    })
}

/// The lane of a packet.
#[inline]
fn lane_of(bytes: &[u8], layout: Layout) -> usize {
    let class = class_of(bytes, layout);
    let kind = match layout.protocol() {
        _ if layout.is_fragment() => Kind::Fragment,
        SCTP => Kind::Sctp,
        _ => Kind::Whole,
    };
    class as usize * KINDS + kind as usize
}

#[inline]
fn class_of(bytes: &[u8], layout: Layout) -> Class {
    if layout.has_ipv4() {
        return match (layout.has_tcp(), layout.has_udp()) {
            (true, _) => Class::Ipv4Tcp,
            (_, true) => Class::Ipv4Udp,
            _ if !layout.has_icmpv4() => Class::Ipv4,
            _ => match quoted_protocol(bytes, layout) {
                None => Class::Ipv4Icmp,
                Some(ICMP) => Class::Ipv4EchoError,
                Some(_) => Class::Ipv4Error,
            },
        };
    }
    match (layout.has_tcp(), layout.has_udp()) {
        _ if !layout.has_ipv6() => Class::NonIp,
        (true, _) => Class::Ipv6Tcp,
        (_, true) => Class::Ipv6Udp,
        _ if !layout.has_icmpv6() => Class::Ipv6,
        _ => match quoted_protocol(bytes, layout) {
            None => Class::Ipv6Icmp,
            Some(ICMPV6) => Class::Ipv6EchoError,
            Some(_) => Class::Ipv6Error,
        },
    }
}

//! Which shard a packet belongs to: the hash of a plan, computed where no NIC has.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_nf::state::MOST_SHARDS;
use anabranch_packet::header::quoted_protocol;
use anabranch_packet::{Field, Frame, Layout, Port, parse_any, parse_common};
use anabranch_plan::{Class, Plan, PortClass, Steerer};
use anabranch_rss::{ByteTable, Field as Place, IndirectionTable, Key, ToeplitzTable};

use crate::deployment::Refusal;

/// Shards at most: the entries of the largest indirection table.
pub const SHARDS: usize = MOST_SHARDS;

/// Set in what stands for the shard of a fragment that is to be put together with others: it belongs to
/// no shard, and goes to the same worker wherever shards move.
const GATHERED: u32 = 1 << 31;

/// Whether that is no shard, but what stands for one of a fragment that waits for others.
#[inline]
pub(crate) fn is_gathered(shard: u32) -> bool {
    shard & GATHERED != 0
}

/// The worker that handles packets of `shard`, as [`Steering::shard`] has it.
#[inline]
pub fn worker_of(shard: u32, table: &IndirectionTable) -> u16 {
    match shard & GATHERED {
        0 => table.worker(shard),
        _ => ((shard & !GATHERED) as usize % table.workers()) as u16,
    }
}

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

/// Where addresses and ports are in packets of the common layout: the last 16 of the bytes that every
/// one of them has.
const WINDOW: usize = Layout::COMMON_LEN - 16;

/// Steers packets to shards as a plan says, class by class.
#[derive(Clone, Debug)]
pub struct Steering {
    /// By port; the last one serves all further ports where their number is open.
    ports: Vec<Arc<[Lane]>>,
    shards: usize,
    /// By which fragments come together, where they are to.
    gathers: Option<[Lane; 2]>,
    fingerprint: String,
}

/// How packets of one class are hashed at one port.
#[derive(Clone, Debug)]
struct Lane {
    pieces: Vec<Piece>,
    table: Arc<ToeplitzTable>,
    /// In packets of the common layout, which nearly all are: each byte of the window that is hashed,
    /// and what its values contribute. `None`: not all fields lie there.
    common: Option<Vec<(u8, ByteTable)>>,
}

/// A field, and where it stands in the input of the hash.
#[derive(Clone, Copy, Debug)]
struct Piece {
    field: &'static Field,
    /// First byte in the hash's input, of as many as the field touches.
    at: usize,
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
            let none = Lane::new(
                Vec::new(),
                tables.values().next().ok_or_else(|| Refusal("the plan has no port".to_owned()))?,
            );
            let mut lanes = vec![none; Class::ALL.len() * KINDS];
            for class in &port.classes {
                let name = class.key_of.as_deref().unwrap_or(&port.port);
                let table = tables.get(name);
                let table = table.ok_or_else(|| Refusal(format!("there is no port `{name}`")))?;
                let lane = lane_named(&class.class).and_then(|at| lanes.get_mut(at));
                let lane =
                    lane.ok_or_else(|| Refusal(format!("there is no class `{}`", class.class)))?;
                *lane = Lane::new(pieces_of(class)?, table);
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
        Ok(Self { ports: ports?, shards, gathers: None, fingerprint: fingerprint(plan, shards) })
    }

    /// The same, with all fragments between two addresses at one worker if `layer`, that of the function,
    /// asks for whole datagrams.
    pub fn gathering(self, layer: u8) -> Self {
        let table = Arc::new(ToeplitzTable::full(&Key::SYMMETRIC));
        let lane = |names: [&str; 2]| Lane::of_fields(&names, &table);
        let lanes = || [lane(["ipv4.src", "ipv4.dst"]), lane(["ipv6.src", "ipv6.dst"])];
        Self { gathers: (layer == 4).then(lanes), ..self }
    }

    /// What says whether packets belong to the same shards under another steering: how many there are,
    /// and a digest of keys and fields.
    pub fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    /// Steering where there is no plan: by flows, either way round, so that each keeps its order.
    pub fn by_flow() -> Self {
        let table = Arc::new(ToeplitzTable::full(&Key::SYMMETRIC));
        let lane = |fields: &[&str]| Lane::of_fields(fields, &table);
        let mut lanes = vec![lane(&[]); Class::ALL.len() * KINDS];
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
        let fingerprint = "flows".to_owned();
        Self { ports: vec![lanes.into()], shards: SHARDS, gathers: None, fingerprint }
    }

    /// Number of shards, a power of two.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// The shard of a packet that was captured as `bytes` and arrived at `port`; of a fragment that waits
    /// for others what [`worker_of`] knows.
    #[inline]
    pub fn shard(&self, port: Port, bytes: &[u8], wire_len: u32) -> u32 {
        match parse_common(bytes, wire_len) {
            Some(layout) => {
                let class = if layout.has_tcp() { Class::Ipv4Tcp } else { Class::Ipv4Udp };
                let lane = self.lane(port, class as usize * KINDS);
                let hash = lane.map_or(0, |lane| lane.hash_common(bytes, layout));
                hash & (self.shards as u32 - 1)
            }
            None => self.shard_any(port, bytes, parse_any(bytes, wire_len)),
        }
    }

    #[inline(never)]
    fn shard_any(&self, port: Port, bytes: &[u8], layout: Layout) -> u32 {
        if let (Some([v4, v6]), true) = (&self.gathers, layout.is_fragment()) {
            let lane = if layout.has_ipv4() { v4 } else { v6 };
            return lane.hash(bytes, layout) | GATHERED;
        }
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

/// What decides a packet's shard, in short.
fn fingerprint(plan: &Plan, shards: usize) -> String {
    let mut text = String::new();
    for port in &plan.ports {
        text += &format!("{} {}\n", port.port, port.key);
        for class in &port.classes {
            let key_of = class.key_of.as_deref().unwrap_or_default();
            text += &format!(" {} {key_of}", class.class);
            class.input.iter().for_each(|one| text += &format!(" {}={}", one.place, one.field));
        }
    }
    format!("{shards} shards, keys {:016x}", digest(&text))
}

/// FNV-1a, 64 bits: a text in short that a store keeps, the same in every release.
pub(crate) fn digest(text: &str) -> u64 {
    let step = |digest: u64, byte: u8| (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

impl Lane {
    /// By whole fields, one after the other.
    fn of_fields(fields: &[&str], table: &Arc<ToeplitzTable>) -> Self {
        let mut at = 0;
        let piece = |name: &&str| {
            let field = Field::named(name)?;
            let piece = Piece { field, at };
            at += bytes_of(field);
            Some(piece)
        };
        Self::new(fields.iter().filter_map(piece).collect(), table)
    }

    fn new(pieces: Vec<Piece>, table: &Arc<ToeplitzTable>) -> Self {
        let common: Option<Vec<_>> = pieces.iter().map(|piece| piece.in_common(table)).collect();
        Self { pieces, table: Arc::clone(table), common: common.map(|bytes| bytes.concat()) }
    }

    #[inline]
    fn hash_common(&self, bytes: &[u8], layout: Layout) -> u32 {
        let window = bytes.get(WINDOW..).and_then(<[u8]>::first_chunk::<16>);
        let (Some(common), Some(window)) = (&self.common, window) else {
            return self.hash(bytes, layout);
        };
        let part = |(at, table): &(u8, ByteTable)| table[usize::from(window[usize::from(at % 16)])];
        common.iter().fold(0, |hash, byte| hash ^ part(byte))
    }

    #[inline(never)]
    fn hash(&self, bytes: &[u8], layout: Layout) -> u32 {
        let pieces = self.pieces.iter();
        pieces.fold(0, |hash, piece| hash ^ self.part(piece, piece.field.value(bytes, layout)))
    }

    fn hash_of_value(&self, field: &str, value: u128) -> u32 {
        let of_field = |piece: &&Piece| {
            let (header, name) = (piece.field.header, piece.field.name);
            field.strip_prefix(header).and_then(|rest| rest.strip_prefix('.')) == Some(name)
        };
        let pieces = self.pieces.iter().filter(of_field);
        pieces.fold(0, |hash, piece| hash ^ self.part(piece, value))
    }

    fn part(&self, piece: &Piece, value: u128) -> u32 {
        let bytes = value.to_be_bytes();
        self.table.part(piece.at, &bytes[bytes.len() - bytes_of(piece.field)..])
    }
}

impl Piece {
    /// Its bytes in the window of the common layout, if it lies there.
    fn in_common(&self, table: &ToeplitzTable) -> Option<Vec<(u8, ByteTable)>> {
        let Piece { field, at } = *self;
        let header = match field.header {
            "ipv4" => 14,
            "tcp" | "udp" => 34,
            _ => return None,
        };
        let (offset, bits) = (usize::from(field.offset_bits), usize::from(field.bits));
        let start = (header + offset / 8).checked_sub(WINDOW)?;
        let bytes = bits / 8;
        let is_whole = offset.is_multiple_of(8) && bits.is_multiple_of(8) && !field.derived;
        if !is_whole || start + bytes > 16 {
            return None;
        }
        (0..bytes).map(|byte| Some(((start + byte) as u8, *table.of_byte(at + byte)?))).collect()
    }
}

/// What is hashed of a class, and where it stands.
fn pieces_of(class: &PortClass) -> Result<Vec<Piece>, Refusal> {
    let mut pieces = Vec::new();
    if class.by == Steerer::OneShard {
        return Ok(pieces);
    }
    let mut end = 0;
    for input in &class.input {
        let place = Place::named(&input.place);
        let place =
            place.ok_or_else(|| Refusal(format!("no hash has a place for `{}`", input.place)))?;
        end += usize::from(place.width() / 8);
        // SCTP's ports are no fields of the language: no packets of which it speaks need them.
        if input.field == "-" || input.field.starts_with("sctp.") {
            continue;
        }
        let field = Field::named(&input.field);
        let field =
            field.ok_or_else(|| Refusal(format!("packets have no field `{}`", input.field)))?;
        pieces.push(Piece { field, at: end.saturating_sub(bytes_of(field)) });
    }
    Ok(pieces)
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
        // What an error quotes stands in its first fragment too.
        _ if is_error(class) => Kind::Whole,
        _ if layout.is_fragment() => Kind::Fragment,
        SCTP => Kind::Sctp,
        _ => Kind::Whole,
    };
    class as usize * KINDS + kind as usize
}

#[inline]
fn is_error(class: Class) -> bool {
    use Class::{Ipv4EchoError, Ipv4Error, Ipv6EchoError, Ipv6Error};
    matches!(class, Ipv4Error | Ipv4EchoError | Ipv6Error | Ipv6EchoError)
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::deployment::plan_of;
    use anabranch_nf::NetworkFunction;
    use anabranch_nfs::{bridge, firewall, nat, policer};
    use anabranch_packet::fuzzing::samples;
    use anabranch_packet::parse;
    use anabranch_plan::Options;
    use anabranch_rss::{Nic, toeplitz};

    /// The hash as the plan has it: every field at its place in the input, hashed bit by bit.
    fn by_the_plan(plan: &Plan, port: usize, bytes: &[u8]) -> u32 {
        let layout = parse(bytes, bytes.len() as u32);
        let port = plan.ports.get(port).unwrap_or(&plan.ports[0]);
        let of_packet =
            |class: &&PortClass| lane_named(&class.class) == Some(lane_of(bytes, layout));
        let Some(class) = port.classes.iter().find(of_packet) else {
            assert!(layout.is_fragment(), "all others have a class");
            return 0;
        };
        let owner = class.key_of.as_deref().unwrap_or(&port.port);
        let owner = plan.ports.iter().find(|one| one.port == owner).unwrap();
        let mut input = Vec::new();
        for part in class.input.iter().filter(|_| class.by != Steerer::OneShard) {
            let width = usize::from(Place::named(&part.place).unwrap().width() / 8);
            let value = Field::named(&part.field).map_or(0, |field| field.value(bytes, layout));
            input.extend_from_slice(&value.to_be_bytes()[16 - width..]);
        }
        toeplitz(&key(&owner.key).unwrap(), &input) & (SHARDS as u32 - 1)
    }

    fn agrees<N: NetworkFunction>(nic: &str) {
        let plan = plan_of::<N>(&Options::new(Nic::named(nic).unwrap())).unwrap();
        let names: Vec<String> = plan.ports.iter().map(|port| port.port.clone()).collect();
        let steering = Steering::new(&plan, &names).unwrap();
        let mut hashes = std::collections::BTreeSet::new();
        for bytes in samples() {
            for port in 0..2 {
                let shard = steering.shard(Port::new(port), &bytes, bytes.len() as u32);
                assert_eq!(shard, by_the_plan(&plan, port.into(), &bytes), "{}", N::NAME);
                hashes.insert(shard);
            }
        }
        assert!(hashes.len() > 5, "{}: {hashes:?}", N::NAME);
    }

    #[test]
    fn packets_are_hashed_as_the_plan_says() {
        agrees::<policer::Function>("e810");
        agrees::<firewall::Function>("cx5");
        agrees::<nat::Function>("e810");
        agrees::<bridge::Function>("x710");
    }

    #[test]
    fn without_a_plan_both_ways_of_a_flow_meet() {
        let steering = Steering::by_flow();
        let mut seen = 0;
        for mut bytes in samples() {
            let len = bytes.len() as u32;
            let layout = parse(&bytes, len);
            let shard = steering.shard(Port::new(0), &bytes, len);
            let (at, width) = match (layout.has_ipv4(), layout.has_ipv6()) {
                (true, _) => (layout.l3_offset() + 12, 4),
                (_, true) => (layout.l3_offset() + 8, 16),
                _ => continue,
            };
            let (src, dst) = bytes[at..at + 2 * width].split_at_mut(width);
            src.swap_with_slice(dst);
            if layout.has_ports() {
                let at = layout.l4_offset();
                bytes[at..at + 4].rotate_left(2);
            }
            assert_eq!(steering.shard(Port::new(1), &bytes, len), shard);
            seen += 1;
        }
        assert!(seen > 10, "{seen}");
    }
}

//! Which shard a packet belongs to, and so which worker.

use anabranch_nf::NetworkFunction;
use anabranch_nf::packet_set::SetSpec;
use anabranch_packet::{Frame, Layout, parse};
use anabranch_rss::{FieldSet, Steering};

/// Computes steering hashes where no NIC has.
#[derive(Clone, Debug)]
pub struct Steerer {
    steering: Steering,
}

impl Steerer {
    /// Steering for `N`: by the fields of its packet set, so that a set meets in one shard; by
    /// addresses and ports where it has none, so that flows keep their order.
    pub fn new<N: NetworkFunction>() -> Self {
        let steering = match N::SET {
            Some(spec) if spec.bidirectional => Steering::symmetric(fields(spec)),
            Some(spec) => Steering::new(fields(spec)),
            None => Steering::symmetric(FieldSet::FOUR_TUPLE),
        };
        Self { steering }
    }

    /// The steering hash of a packet that was captured as `bytes`.
    pub fn hash(&self, bytes: &[u8], wire_len: u32) -> u32 {
        let layout = parse(bytes, wire_len);
        self.hash_of(bytes, layout)
    }

    /// Gives every frame of a batch the steering hash that its port did not supply.
    #[inline]
    pub fn hash_batch(&self, frames: &mut [Frame<'_>]) {
        for frame in frames {
            let hash = self.hash(frame.bytes(), frame.meta().wire_len);
            frame.meta_mut().steering_hash = hash;
        }
    }

    #[inline]
    fn hash_of(&self, bytes: &[u8], layout: Layout) -> u32 {
        let l3 = bytes.get(layout.l3_offset()..).unwrap_or_default();
        let ports = ports(bytes, layout);
        if layout.has_ipv4()
            && let (Some(src), Some(dst)) = (field(l3, 12), field(l3, 16))
        {
            return self.steering.hash_ipv4(<[u8; 4]>::into(src), dst.into(), ports);
        }
        if layout.has_ipv6()
            && let (Some(src), Some(dst)) = (field(l3, 8), field(l3, 24))
        {
            return self.steering.hash_ipv6(<[u8; 16]>::into(src), dst.into(), ports);
        }
        self.steering.hash_bytes(bytes.get(..12).unwrap_or(bytes))
    }
}

fn field<const N: usize>(header: &[u8], at: usize) -> Option<[u8; N]> {
    header.get(at..)?.first_chunk().copied()
}

fn ports(bytes: &[u8], layout: Layout) -> Option<(u16, u16)> {
    if !(layout.has_tcp() || layout.has_udp()) {
        return None;
    }
    let [a, b, c, d] = field(bytes, layout.l4_offset())?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// The fields that every key list of `spec` names.
fn fields(spec: SetSpec) -> FieldSet {
    [
        (spec.src, FieldSet::SRC_ADDR),
        (spec.dst, FieldSet::DST_ADDR),
        (spec.src_port, FieldSet::SRC_PORT),
        (spec.dst_port, FieldSet::DST_PORT),
    ]
    .into_iter()
    .filter(|(named, _)| *named)
    .fold(FieldSet::EMPTY, |set, (_, field)| set.with(field))
}

//! What the pass ahead finds out about a packet: its headers, and where its set is looked for.

use anabranch_nf::packet_set::{SetKey, SetKey4, SetKey6};
use anabranch_nf::{Hash, NetworkFunction};
use anabranch_packet::{Frame, Layout, Mode, Packet};

/// Tables in which packet sets have their places.
pub(crate) trait Places {
    /// The hash of an IPv4 set's key.
    fn hash(&self, key: &SetKey4) -> Hash;
    /// Fetches the line where the IPv4 set of this hash is looked for.
    fn prefetch(&self, hash: Hash);
    /// Fetches the line where the IPv6 set of `key` is looked for.
    fn prefetch_v6(&self, key: &SetKey6);
}

/// What is known of a packet. IPv6 keys are larger than the rest together and are made again instead
/// of kept.
#[derive(Clone, Copy)]
pub(crate) struct Finding {
    pub(crate) layout: Layout,
    pub(crate) key: SetKey4,
    pub(crate) hash: Hash,
    pub(crate) kind: Kind,
}

/// Which table a packet's set is in.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// It belongs to none.
    Orphan,
    V4,
    V6,
}

impl Default for Finding {
    fn default() -> Self {
        let layout = Layout::default();
        Self { layout, key: SetKey4::NONE, hash: Hash(0), kind: Kind::Orphan }
    }
}

impl Finding {
    /// Finds the place of a packet's set. `fetch`: the line there will be needed soon.
    #[inline(always)]
    pub(crate) fn new<N: NetworkFunction, M: Mode>(
        sets: &impl Places,
        frame: &mut Frame<'_>,
        layout: Layout,
        fetch: bool,
    ) -> Self {
        let mut finding = Self { layout, ..Self::default() };
        if N::SET.is_none() {
            return finding;
        }
        match N::set_key(&Packet::<M>::new(frame, layout)) {
            SetKey::V4(key) => {
                finding.kind = Kind::V4;
                finding.key = key;
                finding.hash = sets.hash(&key);
                if fetch {
                    sets.prefetch(finding.hash);
                }
            }
            SetKey::V6(key) => {
                finding.kind = Kind::V6;
                if fetch {
                    sets.prefetch_v6(&key);
                }
            }
            SetKey::None => {}
        }
        finding
    }
}

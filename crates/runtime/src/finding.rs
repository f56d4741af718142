//! What the pass ahead finds out about a packet: its headers, and where its set is looked for.

use std::hint::cold_path;

use anabranch_nf::packet_set::{Ends, SetKey, SetKey4, SetKey6, SetTable};
use anabranch_nf::state::TableUse;
use anabranch_nf::tracked::{DividedSets, SharedSets};
use anabranch_nf::{Environment, Hash, LookAhead as _, NetworkFunction, Value, elements};
use anabranch_packet::{Common, Frame, Hollow, Layout, Mode, Packet, parse_any, parse_common_word};
use anabranch_txn::MOST_ITEMS;

use crate::instance::BATCH;
use crate::tuner::Pass;

/// The packet sets of both address families.
pub(crate) struct Sets<V4, V6> {
    pub(crate) v4: V4,
    pub(crate) v6: V6,
}

/// A table in which packet sets have their places.
pub(crate) trait Places<K> {
    /// The hash of a set's key.
    fn hash(&self, key: &K) -> Hash;
    /// Fetches the line where the set of this hash is looked for.
    fn prefetch(&self, hash: Hash);
    /// How full it is.
    fn table_use(&self, name: &str) -> TableUse;
}

macro_rules! places {
    ($($table:ident)*) => {$(
        impl<K: Ends, S: Value> Places<K> for $table<K, S> {
            #[inline(always)]
            fn hash(&self, key: &K) -> Hash {
                self.hash(key)
            }
            #[inline(always)]
            fn prefetch(&self, hash: Hash) {
                self.prefetch(hash);
            }
            fn table_use(&self, name: &str) -> TableUse {
                self.table_use(name)
            }
        }
    )*};
}
places!(SetTable SharedSets DividedSets);

/// The tables of an NF whose packet sets are called `name`, as reports name them.
pub(crate) fn family_names(name: &str) -> [String; 2] {
    [format!("{name} (IPv4)"), format!("{name} (IPv6)")]
}

impl<V4: Places<SetKey4>, V6: Places<SetKey6>> Sets<V4, V6> {
    /// How full they are, and the objects of `nf`.
    pub(crate) fn tables<N: NetworkFunction>(&self, nf: &N) -> Vec<TableUse> {
        let mut tables = Vec::new();
        if let Some([v4, v6]) = N::SET.map(family_names) {
            tables.push(self.v4.table_use(&v4));
            tables.push(self.v6.table_use(&v6));
        }
        tables.extend(nf.tables());
        tables
    }
}

/// What is known of each packet of a batch, room for which is made once.
pub(crate) type Findings = Box<[Finding; BATCH]>;

/// What is known of a packet. As far apart as frames, so that one step goes through both.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct Finding {
    /// Its layout, if that is common; else 0.
    word: u64,
    /// If the function has packet sets: where the packet's is.
    pub(crate) place: SetPlace,
    /// Likewise, and the layout is not common.
    pub(crate) layout: Layout,
}

const _: () = assert!(size_of::<Finding>() == size_of::<Frame<'_>>());
// Transactions look at as many packets ahead.
const _: () = assert!(MOST_ITEMS <= BATCH);

impl Finding {
    /// The packet's layout, if it is common.
    #[inline(always)]
    pub(crate) fn common(&self, frame: &Frame<'_>) -> Option<Layout> {
        if self.word == 0 {
            return None;
        }
        // Such a packet is as long, which is asked so that who reads its fields need not.
        if frame.bytes().len() < Layout::COMMON_LEN {
            cold_path();
            debug_assert!(false, "a frame has been cut since its layout was found");
            return None;
        }
        Some(Layout::of_word(self.word))
    }
}

/// Where a packet's set is looked for. IPv6 keys are larger than the rest together and are made again
/// instead of kept.
#[derive(Clone, Copy)]
pub(crate) struct SetPlace {
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

impl Default for SetPlace {
    fn default() -> Self {
        Self { key: SetKey4::NONE, hash: Hash::NONE, kind: Kind::Orphan }
    }
}

/// Packet sets, as what comes ahead looks for them.
pub(crate) trait Finds {
    /// Finds the place of a packet's set. `fetch`: the line there will be needed soon.
    fn find<N: NetworkFunction, M: Mode>(&self, packet: &Packet<'_, M>, fetch: bool) -> SetPlace;
}

impl<V4: Places<SetKey4>, V6: Places<SetKey6>> Finds for Sets<V4, V6> {
    #[inline(always)]
    fn find<N: NetworkFunction, M: Mode>(&self, packet: &Packet<'_, M>, fetch: bool) -> SetPlace {
        let mut place = SetPlace::default();
        if N::SET.is_none() {
            return place;
        }
        match N::set_key(packet) {
            SetKey::V4(key) => {
                let hash = self.v4.hash(&key);
                place = SetPlace { key, hash, kind: Kind::V4 };
                if fetch {
                    self.v4.prefetch(hash);
                }
            }
            SetKey::V6(key) => {
                place.kind = Kind::V6;
                if fetch {
                    self.v6.prefetch(self.v6.hash(&key));
                }
            }
            SetKey::None => {}
        }
        place
    }
}

/// Fetches the lines that a batch will touch: looks for the packets' sets, and runs their handlers where nothing
/// has an effect. `findings`: what is found.
#[inline(always)]
pub(crate) fn look_ahead<N: NetworkFunction>(
    (nf, sets): (&N, &impl Finds),
    environment: &mut Environment,
    frames: &mut [Frame<'_>],
    findings: &mut [Finding; BATCH],
    pass: Pass,
) {
    elements::hollow(|| {
        let mut ahead = nf.ahead();
        for (frame, finding) in frames.iter_mut().zip(&mut *findings) {
            match parse_common_word(frame.bytes(), frame.meta().wire_len) {
                Some((layout, word)) => {
                    let packet = &mut Packet::<Common<Hollow>>::new(frame, layout);
                    finding.word = word;
                    find::<N, _>(sets, packet, finding);
                    ahead.look(packet, environment);
                }
                None => {
                    let packet = &mut any(frame);
                    (finding.word, finding.layout) = (0, packet.layout());
                    find::<N, _>(sets, packet, finding);
                    ahead.look(packet, environment);
                }
            }
        }
        if pass != Pass::Two || !N::OBJECTS {
            return;
        }
        let mut beyond = nf.beyond();
        for (frame, finding) in frames.iter_mut().zip(findings) {
            match finding.common(frame) {
                Some(layout) => {
                    let packet = &mut Packet::<Common<Hollow>>::new(frame, layout);
                    beyond.look(packet, environment);
                }
                None => beyond.look(&mut any(frame), environment),
            }
        }
    });
}

/// Finds the packet's set, if the function has packet sets.
#[inline(always)]
fn find<N: NetworkFunction, M: Mode>(
    sets: &impl Finds,
    packet: &Packet<'_, M>,
    finding: &mut Finding,
) {
    if N::SET.is_some() {
        finding.place = sets.find::<N, M>(packet, true);
    }
}

/// A packet that is not of the common layout.
fn any<'a>(frame: &'a mut Frame<'_>) -> Packet<'a, Hollow> {
    let layout = parse_any(frame.bytes(), frame.meta().wire_len);
    Packet::new(frame, layout)
}

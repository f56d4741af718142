//! Longest-prefix match: a multibit trie over the octets of an address.

use crate::memory::Zeroed;

/// Set in an entry that leads to a node; the rest of the entry is the node's number.
const NODE: u32 = 1 << 31;

/// From prefixes to values, for addresses of any number of octets, at least two.
///
/// The first two octets select an entry of the root, each further octet one of a node. An entry is
/// a value, 0 for none, or leads to a node; values of shorter prefixes are copied into what longer
/// ones add, so that no look-up ever goes back. An IPv4 address takes one line for prefixes up to
/// 16 bits, two up to 24, three beyond. A node is 1 KiB, the root 256 KiB, mapped as touched.
pub(super) struct Trie {
    root: Zeroed<u32>,
    nodes: Vec<[u32; 256]>,
}

impl Trie {
    /// A trie that knows no prefix, and costs next to nothing.
    pub fn empty() -> Self {
        Self { root: Zeroed::new(0), nodes: Vec::new() }
    }

    /// The trie of `routes`: prefix, its length in bits, and a value below 2^31. Of two with one
    /// prefix the later one counts.
    pub fn new<const N: usize>(routes: &[([u8; N], u8, u32)]) -> Self {
        let mut trie = Self { root: Zeroed::new(1 << 16), nodes: Vec::new() };
        let mut routes = routes.to_vec();
        // Shorter ones first: then a longer one never has to look what it covers.
        routes.sort_by_key(|&(_, length, _)| length);
        for (prefix, length, value) in routes {
            trie.insert(prefix, length, value & !NODE);
        }
        trie
    }

    fn insert<const N: usize>(&mut self, prefix: [u8; N], length: u8, value: u32) {
        let length = usize::from(length).min(8 * N);
        let first = usize::from(root_index(prefix));
        if length <= 16 {
            fill(&mut self.root, first, 16 - length, value);
            return;
        }
        let mut node = self.descend(None, first);
        let mut depth = 2;
        while length > 8 * (depth + 1) {
            node = self.descend(Some(node), usize::from(prefix[depth]));
            depth += 1;
        }
        let free = 8 * (depth + 1) - length;
        fill(&mut self.nodes[node], usize::from(prefix[depth]), free, value);
    }

    /// The node behind entry `index` of the root or of a node, made where there was a value.
    fn descend(&mut self, node: Option<usize>, index: usize) -> usize {
        let made = self.nodes.len();
        let entry = match node {
            None => &mut self.root[index],
            Some(node) => &mut self.nodes[node][index],
        };
        let old = *entry;
        if old & NODE != 0 {
            return (old & !NODE) as usize;
        }
        *entry = NODE | made as u32;
        self.nodes.push([old; 256]);
        made
    }

    /// The value of the longest prefix that `address` has; 0 for none.
    #[inline(always)]
    pub fn look_up<const N: usize>(&self, address: [u8; N]) -> u32 {
        let mut entry = self.root.get(usize::from(root_index(address))).copied().unwrap_or(0);
        for &octet in &address[2..] {
            if entry & NODE == 0 {
                break;
            }
            let node = self.nodes.get((entry & !NODE) as usize);
            entry = node.map_or(0, |node| node[usize::from(octet)]);
        }
        entry
    }

    /// Makes every address with the first three octets of `block` settable by
    /// [`set_host`](Self::set_host).
    pub fn deepen(&mut self, block: [u8; 4]) {
        let node = self.descend(None, usize::from(root_index(block)));
        self.descend(Some(node), usize::from(block[2]));
    }

    /// Sets the value of one IPv4 address, where that was prepared by [`deepen`](Self::deepen); in
    /// constant time and without allocation.
    pub fn set_host(&mut self, address: [u8; 4], value: u32) {
        let node = |entry: &u32| (entry & NODE != 0).then_some((entry & !NODE) as usize);
        let first = self.root.get(usize::from(root_index(address))).and_then(node);
        let second = first.and_then(|at| node(&self.nodes[at][usize::from(address[2])]));
        if let Some(second) = second {
            self.nodes[second][usize::from(address[3])] = value & !NODE;
        }
    }
}

#[inline(always)]
fn root_index<const N: usize>(address: [u8; N]) -> u16 {
    const { assert!(N >= 2) };
    u16::from_be_bytes([address[0], address[1]])
}

/// Fills the 2^`free` entries that agree with `index` in all but the lowest `free` bits.
fn fill(entries: &mut [u32], index: usize, free: usize, value: u32) {
    let first = index >> free << free;
    entries[first..first + (1 << free)].fill(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What longest-prefix match means, by looking at every route.
    fn scan<const N: usize>(routes: &[([u8; N], u8, u32)], address: [u8; N]) -> u32 {
        let agrees = |prefix: [u8; N], length: u8| {
            (0..usize::from(length))
                .all(|bit| (prefix[bit / 8] ^ address[bit / 8]) << (bit % 8) & 0x80 == 0)
        };
        let covering = routes.iter().filter(|(prefix, length, _)| agrees(*prefix, *length));
        // Of equal ones `max_by_key` takes the last.
        covering.max_by_key(|(_, length, _)| *length).map_or(0, |(.., value)| *value)
    }

    /// Octets drawn from few values, so that prefixes nest.
    fn octets<const N: usize>() -> impl Strategy<Value = [u8; N]> {
        let octet = prop_oneof![Just(0), Just(1), Just(10), Just(127), Just(128), Just(255)];
        prop::collection::vec(octet, N).prop_map(|octets| octets.try_into().unwrap())
    }

    fn routes<const N: usize>() -> impl Strategy<Value = Vec<([u8; N], u8, u32)>> {
        let route = (octets::<N>(), 0..=(8 * N) as u8, 1..NODE);
        prop::collection::vec(route, 0..24)
    }

    proptest! {
        #[test]
        fn agrees_with_a_scan_in_ipv4(routes in routes::<4>(), addresses in prop::collection::vec(octets::<4>(), 32)) {
            let trie = Trie::new(&routes);
            let probes = addresses.iter().chain(routes.iter().map(|(prefix, ..)| prefix));
            for &address in probes {
                prop_assert_eq!(trie.look_up(address), scan(&routes, address), "{:?}", address);
            }
        }

        #[test]
        fn agrees_with_a_scan_in_ipv6(routes in routes::<16>(), addresses in prop::collection::vec(octets::<16>(), 16)) {
            let trie = Trie::new(&routes);
            let probes = addresses.iter().chain(routes.iter().map(|(prefix, ..)| prefix));
            for &address in probes {
                prop_assert_eq!(trie.look_up(address), scan(&routes, address), "{:?}", address);
            }
        }
    }

    #[test]
    fn hosts_are_set_where_prepared() {
        let mut trie = Trie::new(&[([10, 0, 0, 0], 23, 7), ([10, 0, 0, 9], 32, 8)]);
        trie.deepen([10, 0, 1, 77]);
        trie.set_host([10, 0, 1, 5], 9);
        trie.set_host([10, 0, 2, 5], 9);
        trie.set_host([11, 0, 2, 5], 9);
        let expected =
            [([10, 0, 1, 5], 9), ([10, 0, 1, 6], 7), ([10, 0, 0, 5], 7), ([10, 0, 2, 5], 0)];
        for (address, value) in expected.into_iter().chain([([10, 0, 0, 9], 8), ([11, 0, 2, 5], 0)])
        {
            assert_eq!(trie.look_up(address), value, "{address:?}");
        }
    }

    #[test]
    fn the_edges_of_a_prefix() {
        let trie = Trie::new(&[([10, 0, 0, 128], 25, 7), ([10, 0, 1, 255], 32, 8)]);
        for (address, value) in [
            ([10, 0, 0, 127], 0),
            ([10, 0, 0, 128], 7),
            ([10, 0, 0, 255], 7),
            ([10, 0, 1, 254], 0),
            ([10, 0, 1, 255], 8),
        ] {
            assert_eq!(trie.look_up(address), value, "{address:?}");
        }
        assert_eq!(Trie::empty().look_up([10, 0, 0, 1]), 0);
    }
}

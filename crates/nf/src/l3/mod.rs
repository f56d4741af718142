//! Routing for NFs that are routers too: interfaces, routes, neighbours. `docs/l3.md` is the
//! operator's page.
//!
//! ```text
//!            receive                                                forward
//!  frame ──▶ MAC address ours? ──▶ destination ours? ──no──▶ (NF) ──▶ route ──▶ neighbour ──▶ TTL, MTU,
//!              │ no: dropped         │ yes: ARP, ND, MLD, echo answered  │          │            MAC addresses
//!              │                     │ else None, for the NF             │          │
//!              ▼                     ▼                                   ▼          ▼
//!         not-for-this-interface   answered                       ICMP errors    asked for, held
//! ```
//!
//! Everything is built from the configuration; what changes later is the table of learned
//! neighbours, of fixed size. Nothing allocates on the packet path. Each worker has all of it to
//! itself; what one learns of neighbours it tells the others ([`Learned`]).

mod address_set;
mod arrival;
mod configuration;
mod forward;
mod held;
mod learned;
mod limiter;
mod listen;
mod neighbours;
mod next_hop;
mod notation;
mod prefix;
mod receive;
mod report;
mod resolve;
mod special;
#[cfg(test)]
mod tests;
mod trie;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use anabranch_packet::Port;

use self::address_set::AddressSet;
pub use self::arrival::Arrival;
pub use self::configuration::TABLES;
use self::configuration::{Configuration, Interface, Route};
pub use self::learned::Learned;
use self::learned::Turn;
use self::limiter::Limiter;
pub use self::limiter::{BURST as ERRORS_AT_ONCE, INTERVAL_NS as ERROR_INTERVAL_NS};
use self::neighbours::{Neighbour, Neighbours};
use self::next_hop::NextHop;
use self::prefix::Prefix;
use self::receive::Gate;
use self::trie::Trie;

/// Longest frame that is built: a packet of 65,535 bytes with Ethernet header and tags.
const SCRATCH_LEN: usize = 65_535 + 64;
/// Prefixes of so many bits or more have an entry for each host: 256 KiB for the largest.
const HOSTS_FROM: u8 = 16;
/// As much of a packet as an error may quote, with the Ethernet header.
const QUOTED_LEN: usize = 1_280 + 64;

/// Interfaces, routes and neighbours of one NF.
///
/// Without interfaces in the configuration it is disabled: [`receive`](Self::receive) lets all
/// packets pass, [`forward`](Self::forward) drops all, and next to no memory is used.
pub struct L3 {
    /// What admits frames, by port; empty where disabled.
    gates: Vec<Gate>,
    interfaces: Vec<Option<Interface>>,
    /// Multicast groups that they listen to, by port.
    groups: Vec<Vec<Ipv6Addr>>,
    /// Whether an interface clamps segment sizes.
    clamps: bool,
    /// Our addresses, link-local ones of all links among them: whose they are says `is_own`.
    own: AddressSet,
    /// The broadcast addresses of our links.
    broadcasts: AddressSet,
    ipv4: Trie,
    ipv6: Trie,
    neighbours: Neighbours,
    /// The rate of errors while another worker is far ahead, over captures.
    limiter: Limiter,
    /// What all workers have learned, and how many of its changes are in `neighbours`.
    learned: Arc<Learned>,
    seen: u64,
    /// Where packets of our own are built.
    scratch: Box<[u8]>,
    /// Where a packet is put together as it arrived, for an error to quote.
    quoted: Box<[u8]>,
}

impl L3 {
    /// Reads the tables `interfaces`, `routes` and `neighbours` of `configuration`; `ports` are the
    /// names of the run's ports, and `seed` makes the hash functions. What is `learned` of neighbours, the
    /// workers of a run have in common; `learned` is of one network function.
    ///
    /// # Errors
    /// Every mistake, one a line: what is wrong, where, and what to write.
    pub fn new(
        configuration: &toml::Table,
        ports: &[String],
        seed: u64,
        learned: Arc<Learned>,
    ) -> Result<Self, String> {
        let configuration = Configuration::read(configuration, ports)?;
        if configuration.interfaces.is_empty() {
            return Ok(Self::default());
        }
        let mut interfaces: Vec<Option<Interface>> = vec![None; ports.len()];
        for interface in &configuration.interfaces {
            interfaces[usize::from(interface.port.index())] = Some(interface.clone());
        }
        let pinned = configuration.neighbours.len() + configuration.routes.len();
        let neighbours = Neighbours::new(u32::try_from(pinned).unwrap_or(u32::MAX), seed);
        let addresses = configuration.interfaces.iter().flat_map(|at| &at.addresses);
        let mut l3 = Self {
            gates: interfaces.iter().map(|interface| Gate::new(interface.as_ref())).collect(),
            groups: interfaces.iter().map(|interface| listen::groups(interface.as_ref())).collect(),
            clamps: configuration.interfaces.iter().any(|interface| interface.clamp_mss),
            interfaces,
            own: AddressSet::new(addresses.map(|own| own.address)),
            broadcasts: AddressSet::new(
                configuration.interfaces.iter().flat_map(Interface::broadcasts),
            ),
            neighbours,
            learned,
            scratch: vec![0; SCRATCH_LEN].into(),
            quoted: vec![0; QUOTED_LEN].into(),
            ..Self::default()
        };
        l3.fix_neighbours(&configuration)?;
        l3.fill_tables(&configuration)?;
        l3.learned.join(&l3.neighbours);
        Ok(l3)
    }

    fn fix_neighbours(&mut self, configuration: &Configuration) -> Result<(), String> {
        for neighbour in &configuration.neighbours {
            let index = self.pin(neighbour.address, neighbour.port)?;
            self.neighbours.fix(index, neighbour.mac);
        }
        Ok(())
    }

    fn pin(&mut self, address: IpAddr, port: Port) -> Result<u32, String> {
        let interface = self.interfaces.get(usize::from(port.index())).and_then(Option::as_ref);
        let index = interface.map(|interface| self.neighbours.pin(address, interface));
        index.ok_or_else(|| format!("there is no interface for the neighbour {address}"))
    }

    fn fill_tables(&mut self, configuration: &Configuration) -> Result<(), String> {
        // Of two next hops for one prefix the later counts: ours before what is nobody's.
        let mut table: Vec<_> =
            special::not_forwardable().map(|prefix| (prefix, NextHop::Nowhere)).collect();
        for &Route { to, via, port } in &configuration.routes {
            let gateway = via.map(|via| self.pin(via, port).map(NextHop::Neighbour));
            table.push((to, gateway.transpose()?.unwrap_or(NextHop::OnLink(port))));
        }
        for interface in &configuration.interfaces {
            table.extend(interface.addresses.iter().flat_map(|own| connected(interface, *own)));
        }
        let own = configuration.interfaces.iter().flat_map(|at| &at.addresses);
        table.extend(own.map(|own| (Prefix::host(own.address), NextHop::Own)));
        self.ipv4 = Trie::new(&rows(&table, |address| match address {
            IpAddr::V4(address) => Some(address.octets()),
            IpAddr::V6(_) => None,
        }));
        self.ipv6 = Trie::new(&rows(&table, |address| match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => Some(address.octets()),
        }));
        self.make_room_for_hosts(&table);
        Ok(())
    }

    /// Prefixes on our links get an entry for each host, where they are not too large for that: a
    /// route then leads straight to a neighbour, without a second look-up.
    fn make_room_for_hosts(&mut self, table: &[(Prefix, NextHop)]) {
        for (prefix, hop) in table {
            let IpAddr::V4(first) = prefix.address else { continue };
            if matches!(hop, NextHop::OnLink(_)) && prefix.length >= HOSTS_FROM {
                let blocks = 1_u32 << 24_u8.saturating_sub(prefix.length);
                for block in 0..blocks {
                    self.ipv4.deepen((first.to_bits() + (block << 8)).to_be_bytes());
                }
            }
        }
        self.neighbours.pinned().for_each(|index| self.route_straight(index));
    }

    /// Whether the operator configured interfaces.
    #[inline(always)]
    pub fn enabled(&self) -> bool {
        !self.gates.is_empty()
    }

    /// Knows all that any worker has learned, and may change it: no other does meanwhile.
    fn turn<'a>(&mut self, learned: &'a Learned) -> Turn<'a> {
        let turn = learned.turn();
        for (index, neighbour) in turn.since(self.seen) {
            self.put(index, neighbour);
        }
        self.seen = turn.changes();
        turn
    }

    /// Takes over what other workers have learned.
    #[inline(always)]
    pub fn listen(&mut self) {
        if self.learned.changes() != self.seen {
            self.catch_up();
        }
    }

    #[cold]
    #[inline(never)]
    fn catch_up(&mut self) {
        let learned = Arc::clone(&self.learned);
        self.turn(&learned);
    }

    /// Entry `index` is `neighbour` from now on, for all workers.
    fn change(&mut self, index: u32, neighbour: Neighbour, turn: &mut Turn<'_>) {
        self.put(index, neighbour);
        turn.change(index, neighbour);
        self.seen = turn.changes();
    }

    /// Changes neighbour `index`, for all workers.
    fn update<R>(
        &mut self,
        index: u32,
        turn: &mut Turn<'_>,
        act: impl FnOnce(&mut Neighbour) -> R,
    ) -> Option<R> {
        let before = *self.neighbours.get(index)?;
        let mut neighbour = before;
        let found = act(&mut neighbour);
        if neighbour != before {
            self.change(index, neighbour, turn);
        }
        Some(found)
    }

    /// Entry `index` is `neighbour` from now on. The route to a neighbour's address leads straight to its entry,
    /// where the routing table has room for hosts.
    fn put(&mut self, index: u32, neighbour: Neighbour) {
        if let Some((IpAddr::V4(old), port)) = self.neighbours.put(index, neighbour) {
            let value = self.ipv4.look_up(old.octets());
            if NextHop::from_value(value) == NextHop::Neighbour(index) {
                self.ipv4.set_host(old.octets(), NextHop::OnLink(port).to_value());
            }
        }
        self.route_straight(index);
    }

    /// Where the route to neighbour `index` says to look it up, it says which it is instead.
    fn route_straight(&mut self, index: u32) {
        let Some(neighbour) = self.neighbours.get(index) else { return };
        if let IpAddr::V4(address) = neighbour.address {
            let value = self.ipv4.look_up(address.octets());
            if NextHop::from_value(value) == NextHop::OnLink(neighbour.port) {
                self.ipv4.set_host(address.octets(), NextHop::Neighbour(index).to_value());
            }
        }
    }

    /// Whether `address` is ours where a packet has come by `port`.
    fn is_own(&self, port: Port, address: IpAddr) -> bool {
        is_own(&self.own, self.interface(port), address)
    }

    #[inline(always)]
    fn interface(&self, port: Port) -> Option<&Interface> {
        self.interfaces.get(usize::from(port.index()))?.as_ref()
    }
}

/// Whether `address` is one of our `own` at `interface`: a link-local one is on its own link only.
fn is_own(own: &AddressSet, interface: Option<&Interface>, address: IpAddr) -> bool {
    let here = || interface.is_some_and(|interface| interface.has(address));
    own.has(address) && (!special::is_link_local(address) || here())
}

/// The next hops that an interface's own address brings: those of its prefix, which is nowhere
/// where link-local, and of its broadcast addresses (RFC 2644).
fn connected(interface: &Interface, own: Prefix) -> impl Iterator<Item = (Prefix, NextHop)> {
    let link_local = special::is_link_local(own.address);
    let hop = if link_local { NextHop::Nowhere } else { NextHop::OnLink(interface.port) };
    let broadcasts = own.broadcasts().into_iter().flatten();
    let nowhere = broadcasts.map(|address| (Prefix::host(address), NextHop::Nowhere));
    std::iter::once((own.network(), hop)).chain(nowhere)
}

/// The rows of a trie: those of `table` whose address `octets` takes.
fn rows<const N: usize>(
    table: &[(Prefix, NextHop)],
    octets: fn(IpAddr) -> Option<[u8; N]>,
) -> Vec<([u8; N], u8, u32)> {
    let row = |(prefix, hop): &(Prefix, NextHop)| {
        octets(prefix.address).map(|octets| (octets, prefix.length, hop.to_value()))
    };
    table.iter().filter_map(row).collect()
}

impl Default for L3 {
    /// Disabled.
    fn default() -> Self {
        Self {
            gates: Vec::new(),
            interfaces: Vec::new(),
            groups: Vec::new(),
            clamps: false,
            own: AddressSet::default(),
            broadcasts: AddressSet::default(),
            ipv4: Trie::empty(),
            ipv6: Trie::empty(),
            neighbours: Neighbours::none(),
            limiter: Limiter::default(),
            learned: Arc::default(),
            seen: 0,
            scratch: Box::default(),
            quoted: Box::default(),
        }
    }
}

impl fmt::Debug for L3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("L3").field("interfaces", &self.interfaces).finish_non_exhaustive()
    }
}

//! Network address and port translation for IPv4: inside hosts (`lan`) share a few public addresses
//! towards the outside (`wan`).
//!
//! What it does, and where that is asked for:
//!
//! - **Endpoint-independent mapping**: one inside address and port keeps one public address and
//!   port, whomever it talks to (RFC 4787 REQ-1, RFC 5382 REQ-1). Public addresses are *paired*: one
//!   host keeps one as long as that has a port left (RFC 4787 REQ-2); a port is never given twice
//!   (REQ-3), is the inside one where that is free (with several workers seldom: each has its own), and has its
//!   parity for UDP (REQ-4).
//! - **Filtering** as set: anybody may answer, or only addresses, or only addresses and ports, that
//!   the inside endpoint has sent to (RFC 4787 REQ-8, RFC 5382 REQ-3). The first peer of a mapping
//!   may answer as long as the mapping lasts, each further one as long as it is itself refreshed.
//! - **Lifetimes**: UDP 5 minutes (RFC 4787 REQ-5), refreshed from inside and, as set, from outside
//!   (REQ-6); ICMP queries 60 s (RFC 5508 REQ-2); TCP 2 hours 4 minutes while a connection is
//!   established, 4 minutes while it closes (RFC 5382 REQ-5). A reset closes nothing at once: later
//!   packets reopen (RFC 7857 §2.2). Connections that nobody has answered yet have a shorter
//!   lifetime (RFC 7857 §2.1 allows it) and a limit of their own, so that a flood of SYNs cannot
//!   fill the table; of the last half of those places a host gets none that has more than 64 mappings
//!   and than a sixteenth of the places. Each inside host has a limit too (RFC 4787 §11).
//! - **Hairpinning**: packets between inside hosts by way of public addresses, seen with their
//!   public sources (RFC 4787 REQ-9, RFC 5382 REQ-8, RFC 5508 REQ-7), by `Recirculate`. For routers:
//!   a wire knows no host's MAC address; what it sends back keeps the ones it had, and no host takes it.
//! - **ICMP**: echo by identifier (RFC 5508 REQ-1), requests from inside, replies from outside. Errors both ways are
//!   translated with what they quote; they refresh and close nothing (REQ-3 to REQ-6, but that wrong checksums are
//!   left for hosts to find; RFC 4787 REQ-12, RFC 5382 REQ-9, REQ-10). Redirects are dropped.
//! - **Static mappings** (port forwarding): open to anybody, for ever.
//! - Unsolicited packets are dropped in silence, SYNs included: RFC 5382 REQ-4 asks that for 6 s, and then for a *port
//!   unreachable*, unless policy forbids it. Here it does.
//!
//! A TCP mapping follows the connection of its first peer, and lives by its packets: others may send to it, but do
//! not prolong it. As soon as a second one shares the mapping, everybody's do, and FIN and RST end nothing sooner.
//!
//! Without `interfaces` it is a wire between two networks: TTL and Ethernet addresses stay, and what
//! is not IPv4 passes unchanged (IPv6 as set). With them it is a router, and routes IPv6 and what stays
//! inside untranslated; it asks for a smaller MTU after translation.
//!
//! Fragments, in any order, are put together first, and leave as long (RFC 4787 REQ-14).
//!
//! What it does not do: application-level gateways (RFC 4787 REQ-10 wants them off), ports below `first_port` for
//! inside ports below it, protocols but TCP, UDP and ICMP, IPv4 to IPv6, identifications of its own for fragments
//! (RFC 6864, 5.3).
//!
//! Memory: an inside endpoint takes 19 bytes of `inside` (11 in a full line), a mapping 32 bytes and
//! its place in the queue 4: both directions 59 bytes. The inbound direction needs no table:
//! protocol, public address and port make the index of the mapping.

use anabranch_nf::prelude::*;

pub use nat::Function;

/// Network address and port translation (RFC 4787, 5382, 5508, 7857): inside hosts share public
/// IPv4 addresses; endpoint-independent mapping, filtering as set, hairpinning, ICMP errors.
#[network_function(ports(lan, wan), layer = 4)]
pub mod nat {
    /// What the operator sets.
    pub struct Settings {
        /// Public addresses. One range without gaps is fastest: others cost a look-up per packet.
        pub public: List<Ipv4Addr>,
        /// First public port given to mappings, an even one.
        #[setting(default = 1_024, min = 2, max = 65_534)]
        pub first_port: u16,
        /// Last public port given to mappings, an odd one.
        #[setting(default = 65_535, min = 3)]
        pub last_port: u16,
        /// Who may send to a mapping: anybody, addresses or endpoints it has been used towards.
        #[setting(default = Filtering::EndpointIndependent)]
        pub filtering: Filtering,
        /// Mappings at once.
        #[setting(default = 65_536, min = 1, max = 67_108_864)]
        pub sessions: u32,
        /// Inside hosts at once.
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub hosts: u32,
        /// Mappings that one inside host may have.
        #[setting(default = 16_384, min = 1)]
        pub sessions_per_host: u32,
        /// Share of the mappings, in percent, that may be TCP connections without an answer yet.
        #[setting(default = 25, min = 1, max = 100)]
        pub half_open_percent: u32,
        /// Seconds that a TCP connection may wait for its first answer.
        #[setting(default = 30, min = 6, max = 2_246_400)]
        pub half_open_s: u64,
        /// Seconds of silence after which a TCP connection ends that opens or closes.
        #[setting(default = 240, min = 60, max = 2_246_400)]
        pub transitory_s: u64,
        /// Seconds of silence after which an established TCP connection ends.
        #[setting(default = 7_440, min = 7_440, max = 2_246_400)]
        pub established_s: u64,
        /// Seconds of silence after which a UDP mapping ends.
        #[setting(default = 300, min = 120, max = 2_246_400)]
        pub udp_s: u64,
        /// Seconds of silence after which a mapping of ICMP queries ends.
        #[setting(default = 60, min = 60, max = 2_246_400)]
        pub icmp_s: u64,
        /// Whether packets from outside refresh UDP and ICMP mappings too.
        #[setting(default = true)]
        pub inbound_refresh: bool,
        /// Endpoints beside the first that mappings may be answered by, where filtering is on.
        #[setting(default = 65_536, min = 1, max = 67_108_864)]
        pub peers: u32,
        /// Inside endpoints that are reached from outside by a fixed public one.
        #[setting(default = [])]
        pub static_mappings: List<StaticMapping>,
        /// What becomes of IPv6 packets.
        #[setting(default = Ipv6::Pass)]
        pub ipv6: Ipv6,
    }

    /// Who may send to a mapping (RFC 4787 §5).
    pub enum Filtering {
        EndpointIndependent,
        AddressDependent,
        AddressAndPortDependent,
    }

    pub enum Ipv6 {
        Pass,
        Drop,
    }

    pub enum Protocol {
        Tcp,
        Udp,
    }

    pub struct StaticMapping {
        pub protocol: Protocol,
        pub inside: Ipv4Addr,
        #[setting(min = 1)]
        pub inside_port: u16,
        pub public: Ipv4Addr,
        #[setting(min = 1)]
        pub public_port: u16,
    }

    /// Why a packet is not forwarded.
    pub enum Reason {
        /// From outside, to a public endpoint that no inside endpoint has, or an echo request.
        Unsolicited,
        /// From outside, by a sender whom the filtering does not let through.
        Filtered,
        /// From outside, to an address that is not public.
        NotPublic,
        /// From inside, a reset without a mapping, or an echo reply.
        NoMapping,
        /// An ICMP error about no known mapping.
        UnrelatedError,
        /// Every public port is in use.
        PortsExhausted,
        /// The tables of mappings or of hosts are full.
        TableFull,
        /// The inside host has as many mappings as one may have.
        HostLimit,
        /// Too many TCP connections wait for their first answer.
        HalfOpenLimit,
        /// IPv6 is set to be dropped.
        Ipv6Refused,
    }

    const TCP: u8 = 6;
    const UDP: u8 = 17;
    const ICMP: u8 = 1;
    const ECHO_REPLY: u8 = 0;
    const ECHO_REQUEST: u8 = 8;
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const FOREVER_NS: u64 = u64::MAX;
    /// The number of public addresses that only static mappings have.
    const OUTSIDE_POOL: u32 = u32::MAX;

    /// An address with its TCP or UDP port, or with an echo identifier: an inside or a public one.
    pub struct Endpoint {
        address: Ipv4Addr,
        port: u16,
        protocol: u8,
    }

    /// The other end of a flow.
    pub struct Peer {
        address: Ipv4Addr,
        port: u16,
    }

    /// A further endpoint that may answer.
    pub struct Permission {
        inside: Endpoint,
        peer: Peer,
    }

    /// How far a mapping is (RFC 5382, RFC 7857); all but TCP is `Open` from the start.
    pub enum State {
        Open,
        /// Nobody has answered yet.
        HalfOpen,
        /// The outside has answered, the inside has not acknowledged.
        Answered,
        FinInside,
        FinOutside,
        /// Both ends have finished.
        Closed,
        /// Reset, if no other packet follows.
        Reset,
        Static,
    }

    /// 22 bytes: with its deadline half a cache line.
    pub struct Mapping {
        inside: Endpoint,
        public: Ipv4Addr,
        public_port: u16,
        /// The first peer, whose connection is followed.
        peer: Peer,
        state: State,
        /// A second connection has used the mapping.
        shared: bool,
    }

    /// Where the indices of mappings lie: by protocol, public address, port.
    pub struct Pool {
        /// The first address as a number; `range` addresses follow one another from there.
        first: u32,
        range: u32,
        addresses: u32,
        /// Whether there are others.
        has_others: bool,
        first_port: u16,
        /// Ports of an address.
        ports: u32,
    }

    pub struct Nat {
        settings: Settings,
        pool: Cell<Pool>,
        /// The public addresses by number, and the numbers of those outside the range.
        #[capacity(settings.public.len())]
        addresses: Vector<Ipv4Addr>,
        #[capacity(settings.public.len() + settings.static_mappings.len())]
        others: Map<Ipv4Addr, u32>,
        /// Indices of the mappings of inside endpoints.
        #[capacity(settings.sessions)]
        inside: Map<Endpoint, u32>,
        /// The mappings: first those of the pool, then static ones outside its ports.
        #[capacity(
            u64::from(settings.public.len())
                * (u64::from(settings.last_port) - u64::from(settings.first_port) + 1) * 3
                + u64::from(settings.static_mappings.len())
        )]
        #[expired(mapping_expired)]
        mappings: Allocator<Mapping>,
        #[capacity(settings.static_mappings.len() + 1)]
        forwarded: Map<Endpoint, u32>,
        /// Mappings of each inside host.
        #[capacity(settings.hosts)]
        hosts: Map<Ipv4Addr, u32>,
        half_open: Cell<u32>,
        #[capacity(settings.peers)]
        peers: Map<Permission, u32>,
        #[capacity(settings.peers)]
        #[expired(permission_expired)]
        permissions: Allocator<Permission>,
        l3: L3,
    }

    fn check(settings: &Settings) -> Result<(), &'static str> {
        if settings.public.len() == 0 || settings.public.len() > 1_024 {
            return Err("`public` takes 1 to 1024 addresses");
        }
        for one in settings.public.iter() {
            if one.is_unspecified() || is_for_many(one) {
                return Err("`public` takes addresses of one host: no group, broadcast, 0.0.0.0");
            }
        }
        if settings.first_port % 2 != 0 || settings.last_port % 2 != 1 {
            return Err("`first_port` must be even and `last_port` odd: parity is kept");
        }
        if settings.first_port > settings.last_port {
            return Err("`first_port` must not be greater than `last_port`");
        }
        if settings.static_mappings.len() > 1_024 {
            return Err("`static_mappings` takes at most 1024");
        }
        Ok(())
    }

    /// Which third of the indices a protocol has.
    fn third(protocol: u8) -> u32 {
        u32::from(protocol == UDP) + 2 * u32::from(protocol == ICMP)
    }

    /// Multicast, broadcast and reserved destinations.
    fn is_for_many(address: Ipv4Addr) -> bool {
        u32::from(address) >= 0xe000_0000
    }

    /// The flags that matter to a mapping; 0 for all but TCP.
    fn flags_of(pkt: &Packet) -> u8 {
        match pkt.tcp() {
            Some(tcp) => tcp.flags() & (FIN | SYN | RST),
            None => 0,
        }
    }

    /// The port of our endpoint and of its peer; of an echo its identifier, and none.
    fn ports_of(pkt: &Packet, from_inside: bool) -> Option<(u16, u16)> {
        if let (Some(src), Some(dst)) = (pkt.src_port(), pkt.dst_port()) {
            return Some(if from_inside { (src, dst) } else { (dst, src) });
        }
        identifier_of(pkt, from_inside)
    }

    /// The inside asks and the outside answers: an identifier does not tell which of both it is.
    #[cold]
    fn identifier_of(pkt: &Packet, from_inside: bool) -> Option<(u16, u16)> {
        let icmp = pkt.icmpv4()?;
        let kind = if from_inside { ECHO_REQUEST } else { ECHO_REPLY };
        if icmp.is_echo() && icmp.kind() == kind { Some((icmp.id(), 0)) } else { None }
    }

    /// What becomes of a packet that has no ports, answers no echo and is no error about a known mapping.
    #[cold]
    fn without_ports(pkt: &Packet, from_inside: bool) -> Verdict {
        match pkt.icmpv4() {
            Some(icmp) if icmp.is_error() => Drop(Reason::UnrelatedError),
            Some(icmp) if icmp.is_echo() && from_inside => Drop(Reason::NoMapping),
            Some(icmp) if icmp.is_echo() => Drop(Reason::Unsolicited),
            _ => Drop(Builtin::UnsupportedProtocol),
        }
    }

    fn set_source(pkt: &mut Packet, mapping: Mapping) {
        pkt.set_source(mapping.public, mapping.public_port);
        if let Some(mut icmp) = pkt.icmpv4_mut() {
            icmp.set_id(mapping.public_port);
        }
    }

    fn set_destination(pkt: &mut Packet, mapping: Mapping) {
        pkt.set_destination(mapping.inside.address, mapping.inside.port);
        if let Some(mut icmp) = pkt.icmpv4_mut() {
            icmp.set_id(mapping.inside.port);
        }
    }

    impl State {
        /// Whether a SYN from inside begins a new connection.
        fn is_ending(self) -> bool {
            self.is_over() || matches!(self, State::FinInside | State::FinOutside)
        }

        /// Whether nothing more is expected of the connection.
        fn is_over(self) -> bool {
            matches!(self, State::Closed | State::Reset)
        }

        /// The state after a packet of the followed connection, or of any one where `shared`.
        fn after(self, flags: u8, from_inside: bool, shared: bool) -> State {
            if flags & RST != 0 {
                let ends = !shared && self != State::HalfOpen;
                return if ends { State::Reset } else { self };
            }
            let fin = flags & FIN != 0 && !shared;
            match (self, from_inside) {
                // One that is half closed goes on beside the new one.
                _ if flags & SYN != 0 && from_inside && self.is_ending() => {
                    if shared {
                        State::Open
                    } else {
                        State::HalfOpen
                    }
                }
                (State::HalfOpen, false) => State::Answered,
                (State::Answered | State::Open, true) if fin => State::FinInside,
                (State::Answered, true) if flags & SYN == 0 => State::Open,
                (State::Answered | State::Open, false) if fin => State::FinOutside,
                (State::FinInside, false) | (State::FinOutside, true) if fin => State::Closed,
                (State::Reset, _) => State::Open,
                _ => self,
            }
        }
    }

    impl Mapping {
        /// The mapping after a packet of `peer` or to it.
        fn after(self, peer: Peer, flags: u8, from_inside: bool) -> Mapping {
            let mut after = self;
            let further = peer != self.peer && from_inside && flags & SYN != 0;
            // A further connection takes the place of one that is over.
            let follows = further && self.state.is_over() && !self.shared;
            after.peer = if follows { peer } else { self.peer };
            after.shared = self.shared || (further && !follows);
            if peer == after.peer || after.shared {
                after.state = self.state.after(flags, from_inside, after.shared);
            }
            after
        }
    }

    impl Nat {
        fn init(&mut self, cx: &mut Context) {
            let first_port = self.settings.first_port;
            let ports = u32::from(self.settings.last_port) - u32::from(first_port) + 1;
            let first = self.settings.public.get(0).map_or(0, |address| u32::from(address));
            let (range, addresses, has_others) = (0, 0, false);
            self.pool.set(Pool { first, range, addresses, has_others, first_port, ports });
            for position in 0..self.settings.public.len() {
                if let Some(address) = self.settings.public.get(position) {
                    self.add_address(address, cx);
                }
            }
            for position in 0..self.settings.static_mappings.len() {
                if let Some(one) = self.settings.static_mappings.get(position) {
                    self.forward_port(one, position, cx);
                }
            }
        }

        /// Gives a public address the next number, unless it stood in the list before.
        fn add_address(&mut self, address: Ipv4Addr, cx: &mut Context) {
            if self.number_of(address).is_some() {
                log!(cx, warn, "public address {} stands twice, and counts once", address);
                return;
            }
            let mut pool = self.pool.get();
            self.addresses.write(pool.addresses, address);
            let follows = u32::from(address).wrapping_sub(pool.first) == pool.range;
            if follows && pool.range == pool.addresses {
                pool.range += 1;
            } else {
                self.others.insert(address, pool.addresses);
                pool.has_others = true;
            }
            pool.addresses += 1;
            self.pool.set(pool);
        }

        /// Makes a static mapping, behind those of the pool where its endpoint is not one of them.
        fn forward_port(&mut self, one: StaticMapping, position: u32, cx: &mut Context) {
            if self.number_of(one.public).is_none() {
                self.others.insert(one.public, OUTSIDE_POOL);
                self.pool.update(|pool| pool.has_others = true);
            }
            let protocol = if one.protocol == Protocol::Tcp { TCP } else { UDP };
            let inside = Endpoint { address: one.inside, port: one.inside_port, protocol };
            let public = Endpoint { address: one.public, port: one.public_port, protocol };
            let pool = self.pool.get();
            let behind = pool.addresses * pool.ports * 3 + position;
            let index = self.index_of(public).unwrap_or(behind);
            let mapping = Mapping {
                inside,
                public: one.public,
                public_port: one.public_port,
                peer: Peer { address: one.inside, port: 0 },
                state: State::Static,
                shared: true,
            };
            let is_first = !self.inside.contains(&inside);
            if !is_first || !self.mappings.allocate_at(index, mapping, FOREVER_NS, cx) {
                log!(cx, error, "static mapping {} repeats another, and is not made", position);
                return;
            }
            self.inside.insert(inside, index);
            if index == behind {
                self.forwarded.insert(public, index);
            }
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let routes = self.l3.enabled();
            if routes && let Some(verdict) = self.arrive(pkt, cx) {
                return verdict;
            }
            let verdict =
                if pkt.port() == LAN { self.outbound(pkt, cx) } else { self.inbound(pkt, cx) };
            if routes { self.depart(verdict, pkt, cx) } else { verdict }
        }

        /// As a router: what is not to be translated.
        #[cold]
        fn arrive(&mut self, pkt: &mut Packet, cx: &mut Context) -> Option<Verdict> {
            if self.is_to_public(pkt) {
                return self.l3.admit(pkt, cx);
            }
            if let Some(verdict) = self.l3.receive(pkt, cx) {
                return Some(verdict);
            }
            match (pkt.ipv4(), pkt.ipv6()) {
                // What runs out of hops here takes no mapping.
                (Some(ip), _) if ip.ttl() <= 1 => Some(self.l3.forward(pkt, cx)),
                // What stays inside, where its addresses are known.
                (Some(_), _) if pkt.port() == LAN && self.l3.leads_nowhere(pkt) => {
                    Some(self.l3.forward(pkt, cx))
                }
                (Some(_), _) => None,
                (_, Some(_)) if self.settings.ipv6 == Ipv6::Pass => Some(self.l3.forward(pkt, cx)),
                (_, Some(_)) => Some(Drop(Reason::Ipv6Refused)),
                _ => Some(Drop(Builtin::UnsupportedProtocol)),
            }
        }

        /// As a router: routes what has been translated. What is addressed to a public address and
        /// belongs to no mapping may be the router's own.
        #[cold]
        fn depart(&mut self, verdict: Verdict, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            match verdict {
                Forward(_) => self.l3.forward(pkt, cx),
                Recirculate(port) => Recirculate(port),
                dropped if self.is_to_public(pkt) => self.l3.receive(pkt, cx).unwrap_or(dropped),
                dropped => dropped,
            }
        }

        fn is_to_public(&self, pkt: &Packet) -> bool {
            match pkt.ipv4() {
                Some(ip) => pkt.port() == WAN && self.number_of(ip.dst()).is_some(),
                None => false,
            }
        }

        fn outbound(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return self.not_ipv4(pkt) };
            let (src, dst, protocol) = (ip.src(), ip.dst(), ip.protocol());
            if is_for_many(dst) {
                return Drop(Builtin::NotForwardable);
            }
            let Some((src_port, dst_port)) = ports_of(pkt, true) else {
                return self.outbound_error(pkt, cx).unwrap_or(without_ports(pkt, true));
            };
            let inside = Endpoint { address: src, port: src_port, protocol };
            let peer = Peer { address: dst, port: dst_port };
            let mapping = match self.leaving(inside, peer, flags_of(pkt), cx) {
                Ok(mapping) => mapping,
                Err(verdict) => return verdict,
            };
            set_source(pkt, mapping);
            self.out(dst)
        }

        /// An inside host, or a router before it, complains of a packet from outside.
        #[cold]
        fn outbound_error(&mut self, pkt: &mut Packet, cx: &mut Context) -> Option<Verdict> {
            let quote = pkt.embedded()?;
            let (dst, protocol) = (pkt.ipv4()?.dst(), quote.protocol());
            let port = if protocol == ICMP { quote.id() } else { quote.dst_port() };
            let index = self.inside.get(&Endpoint { address: quote.dst(), port, protocol })?;
            let mapping = self.mappings.get(index, cx)?;
            if let Some(mut quote) = pkt.embedded_mut() {
                quote.set_dst(mapping.public);
                quote.set_dst_port(mapping.public_port);
                quote.set_id(mapping.public_port);
            }
            set_source(pkt, mapping);
            Some(self.out(dst))
        }

        /// To the outside, or back in where the destination is a public address.
        fn out(&self, dst: Ipv4Addr) -> Verdict {
            if self.number_of(dst).is_some() { Recirculate(WAN) } else { Forward(WAN) }
        }

        fn inbound(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(ip) = pkt.ipv4() else { return self.not_ipv4(pkt) };
            let (src, dst, protocol) = (ip.src(), ip.dst(), ip.protocol());
            let Some((dst_port, src_port)) = ports_of(pkt, false) else {
                return self.inbound_error(pkt, cx).unwrap_or(without_ports(pkt, false));
            };
            let public = Endpoint { address: dst, port: dst_port, protocol };
            let peer = Peer { address: src, port: src_port };
            let mapping = match self.entering(public, peer, flags_of(pkt), cx) {
                Ok(mapping) => mapping,
                Err(verdict) => return verdict,
            };
            set_destination(pkt, mapping);
            Forward(LAN)
        }

        /// Somebody outside complains of a packet that was translated here.
        #[cold]
        fn inbound_error(&mut self, pkt: &mut Packet, cx: &mut Context) -> Option<Verdict> {
            let quote = pkt.embedded()?;
            let protocol = quote.protocol();
            let port = if protocol == ICMP { quote.id() } else { quote.src_port() };
            let public = Endpoint { address: quote.src(), port, protocol };
            if pkt.ipv4()?.dst() != public.address {
                return None;
            }
            let index = self.index_of(public)?;
            let mapping = self.mappings.get(index, cx)?;
            if let Some(mut quote) = pkt.embedded_mut() {
                quote.set_src(mapping.inside.address);
                quote.set_src_port(mapping.inside.port);
                quote.set_id(mapping.inside.port);
            }
            set_destination(pkt, mapping);
            Some(Forward(LAN))
        }

        #[cold]
        fn not_ipv4(&self, pkt: &Packet) -> Verdict {
            if self.settings.ipv6 == Ipv6::Drop && pkt.ipv6().is_some() {
                return Drop(Reason::Ipv6Refused);
            }
            Forward(pkt.port().other())
        }

        /// The mapping of an inside endpoint that sends to `peer`, made if there is none.
        fn leaving(
            &mut self,
            inside: Endpoint,
            peer: Peer,
            flags: u8,
            cx: &mut Context,
        ) -> Result<Mapping, Verdict> {
            let known = self.inside.get(&inside);
            if let Some(index) = known
                && let Some(mapping) = self.mappings.touch(index, cx)
            {
                if inside.protocol == TCP && (flags != 0 || mapping.state != State::Open) {
                    self.follow(index, mapping, peer, flags, true, cx);
                }
                if self.settings.filtering != Filtering::EndpointIndependent {
                    self.permit(mapping, peer, cx);
                }
                return Ok(mapping);
            }
            // By its index: a mapping handed over in memory would make every packet wait for it.
            let index = self.open(inside, known, peer, flags, cx)?;
            self.mappings.get(index, cx).ok_or(Drop(Reason::TableFull))
        }

        /// The mapping of a public endpoint that `peer` sends to.
        fn entering(
            &mut self,
            public: Endpoint,
            peer: Peer,
            flags: u8,
            cx: &mut Context,
        ) -> Result<Mapping, Verdict> {
            let Some(index) = self.index_of(public) else {
                let known = self.number_of(public.address).is_some();
                let reason = if known { Reason::Unsolicited } else { Reason::NotPublic };
                return Err(Drop(reason));
            };
            if self.settings.filtering != Filtering::EndpointIndependent
                && let Some(mapping) = self.mappings.get(index, cx)
                && !self.is_permitted(mapping, peer, cx)
            {
                return Err(Drop(Reason::Filtered));
            }
            let refreshes = self.settings.inbound_refresh && public.protocol != TCP;
            let found = match refreshes {
                true => self.mappings.touch(index, cx),
                false => self.mappings.get(index, cx),
            };
            let Some(mapping) = found else { return Err(Drop(Reason::Unsolicited)) };
            // A stranger is let through, but keeps no connection alive.
            if public.protocol == TCP && (peer == mapping.peer || mapping.shared) {
                self.mappings.touch(index, cx);
                if flags != 0 || mapping.state != State::Open {
                    self.follow(index, mapping, peer, flags, false, cx);
                }
            }
            Ok(mapping)
        }

        /// The number of a public address.
        fn number_of(&self, address: Ipv4Addr) -> Option<u32> {
            let pool = self.pool.get();
            let number = u32::from(address).wrapping_sub(pool.first);
            if number < pool.range {
                return Some(number);
            }
            if pool.has_others { self.others.get(&address) } else { None }
        }

        /// The index that a mapping of this public endpoint has.
        fn index_of(&self, public: Endpoint) -> Option<u32> {
            let pool = self.pool.get();
            let number = self.number_of(public.address)?;
            let port = u32::from(public.port.wrapping_sub(pool.first_port));
            if port >= pool.ports || number == OUTSIDE_POOL {
                return self.forwarded_index(public);
            }
            Some((third(public.protocol) * pool.addresses + number) * pool.ports + port)
        }

        #[cold]
        fn forwarded_index(&self, public: Endpoint) -> Option<u32> {
            self.forwarded.get(&public)
        }

        /// Makes a mapping, in place of one that has expired at that index. Limits are checked once
        /// there is a port for it: hollow worlds, which have none, then see no more of this.
        #[cold]
        fn open(
            &mut self,
            inside: Endpoint,
            expired: Option<u32>,
            peer: Peer,
            flags: u8,
            cx: &mut Context,
        ) -> Result<u32, Verdict> {
            if flags & RST != 0 {
                return Err(Drop(Reason::NoMapping));
            }
            if let Some(index) = expired {
                self.collect(index, inside);
            }
            let state = if inside.protocol == TCP { State::HalfOpen } else { State::Open };
            let public = inside.address;
            let mapping = Mapping { inside, public, public_port: 0, peer, state, shared: false };
            let Some(index) = self.take_port(mapping, cx) else {
                return Err(Drop(Reason::PortsExhausted));
            };
            if let Err(reason) = self.admit(mapping, index) {
                self.mappings.free(index);
                return Err(Drop(reason));
            }
            let pool = self.pool.get();
            let number = index / pool.ports - third(inside.protocol) * pool.addresses;
            let public = self.addresses.read(number);
            let public_port = pool.first_port + (index % pool.ports) as u16;
            let mapping = Mapping { inside, public, public_port, peer, state, shared: false };
            self.mappings.set(index, mapping);
            Ok(index)
        }

        /// A free index for a mapping: of the inside port or one after it with its parity, else any
        /// of the host's own address, else any.
        #[cold]
        fn take_port(&mut self, mapping: Mapping, cx: &mut Context) -> Option<u32> {
            let pool = self.pool.get();
            let (inside, all) = (mapping.inside, pool.addresses * pool.ports);
            let first = third(inside.protocol) * all;
            // The host's own address: a number that depends on the host alone.
            let spread = u32::from(inside.address).wrapping_mul(0x9e37_79b1);
            let own = (u64::from(spread) * u64::from(pool.addresses)) >> 32;
            let home = first + own as u32 * pool.ports;
            let offset = u32::from(inside.port.wrapping_sub(pool.first_port));
            let offset = if offset < pool.ports { offset } else { u32::from(inside.port) & 1 };
            let step = if inside.protocol == UDP { 2 } else { 1 };
            let (ports, start) = (pool.ports, home + offset);
            let lifetime = self.lifetime_ns(mapping);
            let index =
                self.mappings.allocate_within(home, ports, step, start, mapping, lifetime, cx);
            if index.is_some() {
                return index;
            }
            let index = self.mappings.allocate_within(home, ports, 1, start, mapping, lifetime, cx);
            if index.is_some() {
                return index;
            }
            self.mappings.allocate_within(first, all, 1, start, mapping, lifetime, cx)
        }

        /// Whether the limits allow one more mapping; if so it is entered everywhere.
        #[cold]
        fn admit(&mut self, mapping: Mapping, index: u32) -> Result<(), Reason> {
            let inside = mapping.inside;
            let half_open = mapping.state == State::HalfOpen;
            let count = self.hosts.get(&inside.address).unwrap_or(0);
            if half_open && !self.may_open(count) {
                return Err(Reason::HalfOpenLimit);
            }
            if count >= self.settings.sessions_per_host {
                return Err(Reason::HostLimit);
            }
            if !self.inside.insert(inside, index) {
                return Err(Reason::TableFull);
            }
            if !self.hosts.insert(inside.address, count + 1) {
                self.inside.remove(&inside);
                return Err(Reason::TableFull);
            }
            self.half_open.update(|count| *count += u32::from(half_open));
            Ok(())
        }

        /// Whether a host with so many mappings may have one more TCP connection without an answer: of the last
        /// half of the places hosts that have much else get none, so that one alone cannot take them all.
        fn may_open(&self, count: u32) -> bool {
            let (sessions, percent) = (self.settings.sessions, self.settings.half_open_percent);
            let limit = (u64::from(sessions) * u64::from(percent) / 100).max(1);
            let used = u64::from(self.half_open.get());
            used < limit - limit / 2 || (used < limit && u64::from(count) <= (limit / 16).max(64))
        }

        fn lifetime_ns(&self, mapping: Mapping) -> u64 {
            let seconds = match (mapping.inside.protocol, mapping.state) {
                (_, State::Static) => return FOREVER_NS,
                (UDP, _) => self.settings.udp_s,
                (ICMP, _) => self.settings.icmp_s,
                (_, State::HalfOpen) => self.settings.half_open_s,
                (_, State::Answered | State::Closed | State::Reset) => self.settings.transitory_s,
                _ => self.settings.established_s,
            };
            seconds * 1_000_000_000
        }

        /// Follows the TCP connection that a mapping was made for.
        #[cold]
        fn follow(
            &mut self,
            index: u32,
            before: Mapping,
            peer: Peer,
            flags: u8,
            from_inside: bool,
            cx: &mut Context,
        ) {
            // That it is of the packet's protocol follows from its index, which the analysis cannot know.
            if before.inside.protocol != TCP || before.state == State::Static {
                return;
            }
            let after = before.after(peer, flags, from_inside);
            if after == before {
                return;
            }
            self.mappings.set(index, after);
            self.mappings.refresh(index, self.lifetime_ns(after), cx);
            let more = u32::from(after.state == State::HalfOpen);
            let fewer = u32::from(before.state == State::HalfOpen);
            self.half_open.update(|count| *count = (*count + more).saturating_sub(fewer));
        }

        /// The part of a peer that the filtering looks at.
        fn filtered(&self, peer: Peer) -> Peer {
            let by_port = self.settings.filtering == Filtering::AddressAndPortDependent;
            Peer { address: peer.address, port: if by_port { peer.port } else { 0 } }
        }

        #[cold]
        fn is_permitted(&self, mapping: Mapping, peer: Peer, cx: &mut Context) -> bool {
            let peer = self.filtered(peer);
            if mapping.state == State::Static || peer == self.filtered(mapping.peer) {
                return true;
            }
            match self.peers.get(&Permission { inside: mapping.inside, peer }) {
                Some(index) => self.permissions.is_allocated(index, cx),
                None => false,
            }
        }

        /// Lets `peer` answer. Where there is no room it cannot, until the next packet to it.
        #[cold]
        fn permit(&mut self, mapping: Mapping, peer: Peer, cx: &mut Context) {
            let peer = self.filtered(peer);
            if mapping.state == State::Static || peer == self.filtered(mapping.peer) {
                return;
            }
            let permission = Permission { inside: mapping.inside, peer };
            let lifetime = self.lifetime_ns(mapping);
            if let Some(index) = self.peers.get(&permission) {
                if self.permissions.refresh(index, lifetime, cx) {
                    return;
                }
                // Where there is no room for it now, the index may be another's later.
                self.permissions.free(index);
                self.peers.remove(&permission);
            }
            if let Some(index) = self.permissions.allocate(permission, lifetime, cx)
                && !self.peers.insert(permission, index)
            {
                self.permissions.free(index);
            }
        }

        fn permission_expired(&mut self, index: u32, permission: Permission, cx: &mut Context) {
            self.peers.remove(&permission);
        }

        fn mapping_expired(&mut self, index: u32, mapping: Mapping, cx: &mut Context) {
            self.forget(mapping.inside, mapping.state == State::HalfOpen);
        }

        /// Frees a mapping whose time has run out, before its turn.
        fn collect(&mut self, index: u32, inside: Endpoint) {
            let mut half_open = false;
            self.mappings.update(index, |mapping| half_open = mapping.state == State::HalfOpen);
            if self.mappings.free(index) {
                self.forget(inside, half_open);
            }
        }

        fn forget(&mut self, inside: Endpoint, half_open: bool) {
            self.inside.remove(&inside);
            self.half_open.update(|count| *count = count.saturating_sub(u32::from(half_open)));
            let left = self.hosts.get(&inside.address).unwrap_or(1) - 1;
            if left > 0 {
                self.hosts.insert(inside.address, left);
            } else {
                self.hosts.remove(&inside.address);
            }
        }
    }
}

#[cfg(test)]
mod tests;

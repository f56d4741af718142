//! Load balancer: clients reach a virtual address, and each connection one of the backends behind.
//!
//! A *service* is a virtual IPv4 or IPv6 address with a TCP or UDP port. The first packet of a connection picks a
//! backend of its service, and the connection table keeps it there while that backend lives, whatever is added or
//! removed meanwhile. The destination of the client's packets becomes the backend's address and port, the source
//! of its replies the virtual ones; both directions pass here. Backends are picked as set:
//!
//! - **Maglev** (Eisenbud et al., NSDI 2016, §3.4): the client's address and port hash to an entry of a table of
//!   prime size, which each backend fills in turn by its own permutation. Shares are equal within about
//!   `backends / table_size`; when a backend goes, few connections of the others would hash elsewhere, and
//!   several balancers to which the same backends were added in the same order agree. The table is built beside
//!   the one in use, 1024 entries at a time from a timer; a command begins it anew. Until it is done, connections
//!   that hash to a backend that is gone take the next one in order.
//! - **Least connections**: the backend with the fewest that their clients have not ended; the first of equals.
//!
//! Backends come and go by commands. A *drained* backend keeps its connections and gets no more until it is added
//! again; a *removed* one loses them; an unhealthy one too, until it is healthy again. Their connections then pick
//! anew with their next packet. Health is told from outside by `set-health`.
//!
//! A connection lives by its client's packets (`opening_s` from a SYN, or from its first packet where that was
//! none; `closing_s` from FIN or RST), since replies need no table beyond the backends': a service that only
//! sends is picked anew by the same hash. ICMP errors are translated in both directions. A client's, and what
//! finds the table full (`by_hash` counts it: a flood takes away no more than that connections stay when backends
//! change), go by the hash alone; with least connections they are dropped. A connection that only its backend ends
//! counts on. Fragments are put together first, and keep their identifications (RFC 6864, 5.3 asks for others).
//!
//! What it does not do: backends of one endpoint in several services, weights, direct server return, IPv4 to IPv6,
//! pings to virtual addresses, health checks, redirects. Without `interfaces`, non-IP and neighbour discovery pass.
//!
//! Memory: 62 bytes a connection over IPv4 and 128 over IPv6 in full tables, replies included; a table for each
//! IP version, of `connections` entries. 12 bytes for each entry of a service's two Maglev tables.

use anabranch_nf::prelude::*;

pub use lb::Function;

/// Load balancer: each connection to a virtual address goes to one of the backends behind it, by
/// Maglev hashing (Eisenbud et al., NSDI 2016) or to the one with the fewest connections.
#[network_function(ports(clients, backends), layer = 4)]
pub mod lb {
    pub struct Settings {
        /// Virtual endpoints over IPv4.
        #[setting(default = [])]
        pub services: List<Service>,
        /// Virtual endpoints over IPv6.
        #[setting(default = [])]
        pub services6: List<Service6>,
        /// Backends at the start; `service` counts within `services`, from 0.
        #[setting(default = [], grows)]
        pub backends: List<Member>,
        /// Backends over IPv6; `service` counts within `services6`, from 0.
        #[setting(default = [], grows)]
        pub backends6: List<Member6>,
        /// How a new connection's backend is picked.
        #[setting(default = Method::Maglev)]
        pub method: Method,
        /// Size of a service's Maglev table: tiny 251, small 4093, standard 65537 or large 655373
        /// entries; shares are even with a hundred entries for each backend.
        #[setting(default = TableSize::Standard)]
        pub table_size: TableSize,
        /// Backends at once, of all services.
        #[setting(default = 64, min = 1, max = 4_096)]
        pub backend_slots: u32,
        /// Connections at once, of each IP version.
        #[setting(default = 65_536, min = 1, max = 67_108_864)]
        pub connections: u32,
        /// Seconds of the client's silence after which a UDP flow ends.
        #[setting(default = 300, min = 1, max = 2_246_400)]
        pub udp_s: u64,
        /// Seconds that a TCP connection may take to open.
        #[setting(default = 60, min = 1, max = 2_246_400)]
        pub opening_s: u64,
        /// Seconds of the client's silence after which an established TCP connection ends.
        #[setting(default = 7_440, min = 1, max = 2_246_400)]
        pub established_s: u64,
        /// Seconds that a TCP connection is kept after FIN or RST.
        #[setting(default = 60, min = 1, max = 2_246_400)]
        pub closing_s: u64,
    }

    pub enum Method {
        Maglev,
        LeastConnections,
    }

    /// Primes, so that every backend's permutation has all entries.
    pub enum TableSize {
        Tiny,
        Small,
        Standard,
        Large,
    }

    impl TableSize {
        fn entries(self) -> u32 {
            match self {
                TableSize::Tiny => 251,
                TableSize::Small => 4_093,
                TableSize::Standard => 65_537,
                TableSize::Large => 655_373,
            }
        }
    }

    pub enum Protocol {
        Tcp,
        Udp,
    }

    pub struct Service {
        pub address: Ipv4Addr,
        #[setting(min = 1)]
        pub port: u16,
        #[setting(default = Protocol::Tcp)]
        pub protocol: Protocol,
    }

    pub struct Service6 {
        pub address: Ipv6Addr,
        #[setting(min = 1)]
        pub port: u16,
        #[setting(default = Protocol::Tcp)]
        pub protocol: Protocol,
    }

    pub struct Member {
        #[setting(default = 0)]
        pub service: u32,
        pub address: Ipv4Addr,
        #[setting(min = 1)]
        pub port: u16,
    }

    pub struct Member6 {
        #[setting(default = 0)]
        pub service: u32,
        pub address: Ipv6Addr,
        #[setting(min = 1)]
        pub port: u16,
    }

    pub enum Command {
        /// Adds a backend to a service, counted within `services` from 0, or takes up again one of it that drains.
        AddBackend {
            #[setting(default = 0)]
            service: u32,
            address: Ipv4Addr,
            #[setting(min = 1)]
            port: u16,
        },
        /// Gives the backends of an endpoint, by TCP and UDP, no further connections.
        DrainBackend { address: Ipv4Addr, port: u16 },
        /// Takes the backends of an endpoint away, with their connections.
        RemoveBackend { address: Ipv4Addr, port: u16 },
        /// Says whether the backends of an address can be used.
        SetHealth { address: Ipv4Addr, healthy: bool },
        /// As `add-backend`, counted within `services6`.
        AddBackend6 {
            #[setting(default = 0)]
            service: u32,
            address: Ipv6Addr,
            #[setting(min = 1)]
            port: u16,
        },
        /// As `drain-backend`, over IPv6.
        DrainBackend6 { address: Ipv6Addr, port: u16 },
        /// As `remove-backend`, over IPv6.
        RemoveBackend6 { address: Ipv6Addr, port: u16 },
        /// As `set-health`, over IPv6.
        SetHealth6 { address: Ipv6Addr, healthy: bool },
    }

    pub enum Reason {
        /// From a client, to what is no virtual endpoint.
        NotAService,
        /// The service has no backend that can be used.
        NoBackend,
        /// From a backend's side, by what is no backend.
        NotABackend,
        /// An ICMP error about no known connection.
        UnrelatedError,
    }

    const TCP: u8 = 6;
    const UDP: u8 = 17;
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const SECOND_NS: u64 = 1_000_000_000;
    /// Entries of Maglev tables tried before the first packet; later, at a time; the pause between.
    const FIRST_STEPS: u32 = 16_000_000;
    const BUILD_STEPS: u32 = 1_024;
    const BUILD_PAUSE_NS: u64 = 100_000;

    pub enum Address {
        V4(Ipv4Addr),
        V6(Ipv6Addr),
    }

    pub struct Endpoint {
        address: Address,
        port: u16,
        protocol: u8,
    }

    pub enum Standing {
        /// The slot is empty.
        Free,
        Active,
        Draining,
    }

    /// What a command makes of a backend.
    pub enum Change {
        /// Active again, where it drains.
        TakeUp,
        Drain,
        Remove,
        Health(bool),
    }

    pub struct Backend {
        endpoint: Endpoint,
        service: u32,
        /// Where its permutation of the Maglev table begins, and how it goes on.
        offset: u32,
        skip: u32,
        connections: u32,
        /// How often the slot has been given and taken back.
        generation: u16,
        standing: Standing,
        healthy: bool,
    }

    pub enum Progress {
        New,
        Opening,
        Open,
        Closing,
    }

    impl Progress {
        /// Whether its backend has it among its connections.
        fn counts(self) -> bool {
            (self != Progress::New) & (self != Progress::Closing)
        }
    }

    #[packet_set(
        tcp(ip.src, ip.dst, tcp.src, tcp.dst),
        udp(ip.src, ip.dst, udp.src, udp.dst),
        port = clients,
        capacity = settings.connections,
        expires_s = settings.udp_s
    )]
    pub struct Connection {
        backend: u16,
        generation: u16,
        progress: Progress,
    }

    /// An entry of a Maglev table: a backend's slot, if it was filled in the round it stands in.
    pub struct Entry {
        round: u32,
        backend: u16,
    }

    /// How far a backend is in its permutation.
    pub struct Turn {
        round: u32,
        next: u32,
    }

    /// A service's slots in the ring, as of this build.
    pub struct Ends {
        number: u64,
        first: u32,
        last: u32,
    }

    /// A Maglev table under way.
    pub struct Build {
        running: bool,
        number: u64,
        /// Entries of a table, services.
        size: u32,
        services: u32,
        /// Which of the two tables is built.
        half: u32,
        service: u32,
        /// Counts services built, so that older entries are known.
        round: u32,
        filled: u32,
        /// The slot whose turn it is.
        slot: u32,
    }

    pub struct Lb {
        settings: Settings,
        /// Virtual endpoints, by service and back.
        #[capacity(settings.services.len() + settings.services6.len() + 1)]
        services: Map<Endpoint, u32>,
        #[capacity(settings.services.len() + settings.services6.len() + 1)]
        virtuals: Vector<Endpoint>,
        #[capacity(settings.backend_slots)]
        backends: Vector<Backend>,
        /// The virtual endpoint that a backend's packets come from.
        #[capacity(settings.backend_slots)]
        replies: Map<Endpoint, Endpoint>,
        /// Two Maglev tables: one in use, one to build.
        #[capacity(
            2 * u64::from(settings.services.len() + settings.services6.len() + 1)
                * u64::from(settings.table_size.entries())
        )]
        table: Vector<Entry>,
        #[capacity(settings.backend_slots)]
        turns: Vector<Turn>,
        /// For each slot the one before it that takes connections of its service; for the first itself.
        #[capacity(settings.backend_slots)]
        ring: Vector<u16>,
        #[capacity(settings.services.len() + settings.services6.len() + 1)]
        ends: Vector<Ends>,
        build: Cell<Build>,
        /// Which of the two tables is in use.
        half: Cell<u32>,
        /// Packets of connections that found the table full.
        by_hash: Counter,
        l3: L3,
    }

    fn check(settings: &Settings) -> Result<(), &'static str> {
        let (ipv4, ipv6) = (settings.services.len(), settings.services6.len());
        if ipv4 == 0 && ipv6 == 0 {
            return Err("`services` or `services6` must have a service");
        }
        if ipv4 > 256 || ipv6 > 256 - ipv4 {
            return Err("at most 256 services");
        }
        for at in 0..ipv4.max(ipv6) {
            for before in 0..at {
                let same4 = at < ipv4 && settings.services[at] == settings.services[before];
                let same6 = at < ipv6 && settings.services6[at] == settings.services6[before];
                if same4 || same6 {
                    return Err("two services have the same address, port and protocol; keep one");
                }
            }
        }
        Ok(())
    }

    /// Mixes two words, as MurmurHash3 finishes (Appleby 2011).
    #[opaque]
    fn mix(a: u64, b: u64) -> u64 {
        let mut word = a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        word ^ (word >> 33)
    }

    impl Endpoint {
        fn hash(self, salt: u64) -> u64 {
            let ends = (u64::from(self.port) << 8) | u64::from(self.protocol);
            match self.address {
                Address::V4(address) => mix((u64::from(u32::from(address)) << 24) | ends, salt),
                Address::V6(address) => {
                    let bits = u128::from(address);
                    mix(mix((bits >> 64) as u64, salt), mix(bits as u64, ends))
                }
            }
        }
    }

    impl Backend {
        /// A new connection to it.
        fn connection(self, slot: u16) -> Connection {
            Connection { backend: slot, generation: self.generation, progress: Progress::New }
        }

        /// Whether it is a backend at this address and port, or at any.
        fn is_at(self, address: Address, port: Option<u16>) -> bool {
            self.standing != Standing::Free
                && self.endpoint.address == address
                && port.unwrap_or(self.endpoint.port) == self.endpoint.port
        }

        /// Whether it takes further connections of `service`.
        fn takes(self, service: u32) -> bool {
            self.standing == Standing::Active && self.healthy && self.service == service
        }
    }

    fn end_of(pkt: &Packet, is_source: bool) -> Option<Endpoint> {
        let address = match (pkt.ipv4(), is_source) {
            (Some(ip), true) => Address::V4(ip.src()),
            (Some(ip), false) => Address::V4(ip.dst()),
            (None, true) => Address::V6(pkt.ipv6()?.src()),
            (None, false) => Address::V6(pkt.ipv6()?.dst()),
        };
        let port = if is_source { pkt.src_port()? } else { pkt.dst_port()? };
        Some(Endpoint { address, port, protocol: pkt.protocol() })
    }

    fn set_end(pkt: &mut Packet, to: Endpoint, is_source: bool) {
        match (to.address, is_source) {
            (Address::V4(address), true) => pkt.set_source(address, to.port),
            (Address::V4(address), false) => pkt.set_destination(address, to.port),
            (Address::V6(address), _) => {
                if let Some(mut ip) = pkt.ipv6_mut() {
                    if is_source { ip.set_src(address) } else { ip.set_dst(address) }
                }
                if is_source { pkt.set_src_port(to.port) } else { pkt.set_dst_port(to.port) }
            }
        }
    }

    /// Source and destination of the packet that an ICMP error quotes.
    fn quoted(pkt: &Packet) -> Option<(Endpoint, Endpoint)> {
        let quote = pkt.embedded()?;
        let protocol = quote.protocol();
        let (src, dst) = match pkt.icmpv4() {
            Some(_) => (Address::V4(quote.src()), Address::V4(quote.dst())),
            None => (Address::V6(quote.src6()), Address::V6(quote.dst6())),
        };
        let src = Endpoint { address: src, port: quote.src_port(), protocol };
        Some((src, Endpoint { address: dst, port: quote.dst_port(), protocol }))
    }

    /// The other end of the quoted packet is that of the error.
    fn set_quoted(pkt: &mut Packet, to: Endpoint, is_source: bool) {
        set_end(pkt, to, !is_source);
        if let Some(mut quote) = pkt.embedded_mut() {
            match (to.address, is_source) {
                (Address::V4(address), true) => quote.set_src(address),
                (Address::V4(address), false) => quote.set_dst(address),
                (Address::V6(address), true) => quote.set_src6(address),
                (Address::V6(address), false) => quote.set_dst6(address),
            }
            if is_source { quote.set_src_port(to.port) } else { quote.set_dst_port(to.port) }
        }
    }

    /// What is no IP, and neighbour discovery and listener messages that no router has forwarded.
    fn is_of_the_link(pkt: &Packet) -> bool {
        let Some(ip) = pkt.ipv6() else { return pkt.ipv4().is_none() };
        let kind = pkt.icmpv6().map_or(0, |icmp| icmp.kind());
        matches!((kind, ip.hop_limit()), (133..=136, 255) | (130..=132 | 143, 1))
    }

    /// What becomes of an IP packet that is not balanced.
    #[cold]
    fn refused(pkt: &mut Packet) -> Verdict {
        let is_error = pkt.embedded().is_some();
        if is_error { Drop(Reason::UnrelatedError) } else { Drop(Builtin::UnsupportedProtocol) }
    }

    impl Build {
        /// After a step that has filled an entry or not, before that of `next`; or where the service has no backend.
        fn after(self, fills: bool, next: u32, is_empty: bool) -> Build {
            let filled = self.filled + u32::from(fills);
            let done = filled == self.size || is_empty;
            let mut after = self;
            after.service += u32::from(done);
            after.running = after.service < self.services;
            after.round += u32::from(done);
            after.filled = if done { 0 } else { filled };
            after.slot = if fills { next } else { self.slot };
            after
        }
    }

    impl Lb {
        fn init(&mut self, cx: &mut Context) {
            for position in 0..self.settings.services.len() {
                let one = self.settings.services[position];
                self.serve(position, Address::V4(one.address), one.port, one.protocol);
            }
            for position in 0..self.settings.services6.len() {
                let one = self.settings.services6[position];
                let service = self.settings.services.len() + position;
                self.serve(service, Address::V6(one.address), one.port, one.protocol);
            }
            for position in 0..self.settings.backends.len() {
                let one = self.settings.backends[position];
                if let Err(why) = self.add(one.service, Address::V4(one.address), one.port) {
                    log!(cx, error, "backend {} cannot be added: {}", position, why);
                }
            }
            for position in 0..self.settings.backends6.len() {
                let one = self.settings.backends6[position];
                if let Err(why) = self.add(one.service, Address::V6(one.address), one.port) {
                    log!(cx, error, "IPv6 backend {} cannot be added: {}", position, why);
                }
            }
            self.begin_build();
            self.go_on_building(FIRST_STEPS, cx);
        }

        fn packet_set_opened(
            &mut self,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Result<Connection, Verdict> {
            let routes = self.l3.enabled();
            if routes && let Some(verdict) = self.l3.admit(pkt, cx) {
                return Err(verdict);
            }
            let to = end_of(pkt, false).ok_or(Drop(Reason::NotAService))?;
            let service = self.services.get(&to).ok_or(Drop(Reason::NotAService))?;
            self.choose(service, pkt).ok_or(Drop(Reason::NoBackend))
        }

        /// Its next packet is a first one again, and picks the same by Maglev.
        fn packet_set_full(
            &mut self,
            connection: &Connection,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Verdict {
            if self.settings.method != Method::Maglev {
                return Drop(Builtin::PacketSetsFull);
            }
            self.by_hash.add(1);
            self.send(self.backends.read(u32::from(connection.backend)).endpoint, pkt, cx)
        }

        fn packet(
            &mut self,
            connection: &mut Connection,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Verdict {
            // As a router: errors about it quote it as the client knows it.
            let routes = self.l3.enabled();
            if routes && let Some(verdict) = self.l3.admit(pkt, cx) {
                return verdict;
            }
            // No connection has generation 0: hollow worlds, which hold none, see no more of this.
            if connection.generation == 0 {
                return Drop(Reason::NoBackend);
            }
            let flags = pkt.tcp().map_or(0, |tcp| tcp.flags() & (FIN | SYN | RST));
            let slot = u32::from(connection.backend);
            let mut backend = self.backends.read(slot);
            let is_gone = backend.generation != connection.generation || !backend.healthy;
            // The client's port is used again, for another connection.
            let begins = flags == SYN && connection.progress == Progress::Closing;
            // Read again: else each packet would unpack what this alone asks. A new one's has just been picked.
            let is_left = is_gone || begins && !self.backends.read(slot).takes(backend.service);
            if is_left && connection.progress != Progress::New {
                if !self.reconnect(connection, pkt) {
                    return Drop(Reason::NoBackend);
                }
                backend = self.backends.read(u32::from(connection.backend));
            }
            if flags != 0 || connection.progress != Progress::Open {
                self.follow(connection, flags, pkt.protocol() == TCP, cx);
            }
            self.send(backend.endpoint, pkt, cx)
        }

        fn send(&mut self, backend: Endpoint, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            set_end(pkt, backend, false);
            if self.l3.enabled() { self.l3.forward(pkt, cx) } else { Forward(BACKENDS) }
        }

        fn packet_set_expired(&mut self, connection: &Connection, cx: &mut Context) {
            self.count(connection, false);
        }

        fn orphan(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let routes = self.l3.enabled();
            if routes && let Some(verdict) = self.l3.receive(pkt, cx) {
                return verdict;
            }
            match self.orphan_there(pkt) {
                Forward(_) if routes => self.l3.forward(pkt, cx),
                verdict => verdict,
            }
        }

        fn orphan_there(&mut self, pkt: &mut Packet) -> Verdict {
            if is_of_the_link(pkt) {
                return Forward(pkt.port().other());
            }
            if pkt.port() == CLIENTS {
                return self.error_from_client(pkt).unwrap_or(refused(pkt));
            }
            let Some(from) = end_of(pkt, true) else {
                return self.error_from_backend(pkt).unwrap_or(refused(pkt));
            };
            let Some(endpoint) = self.replies.get(&from) else { return Drop(Reason::NotABackend) };
            set_end(pkt, endpoint, true);
            Forward(CLIENTS)
        }

        /// An ICMP error about a reply: the quoted packet's destination is the client.
        #[cold]
        fn error_from_client(&mut self, pkt: &mut Packet) -> Option<Verdict> {
            let (from, to) = quoted(pkt)?;
            let service = self.services.get(&from)?;
            if self.settings.method != Method::Maglev {
                return None;
            }
            let slot = u32::from(self.pick(service, to)?.backend);
            set_quoted(pkt, self.backends.read(slot).endpoint, true);
            Some(Forward(BACKENDS))
        }

        /// An ICMP error about a client's packet: the quoted packet's destination is the backend.
        #[cold]
        fn error_from_backend(&mut self, pkt: &mut Packet) -> Option<Verdict> {
            let (_, to) = quoted(pkt)?;
            set_quoted(pkt, self.replies.get(&to)?, false);
            Some(Forward(CLIENTS))
        }

        fn control(&mut self, command: Command, cx: &mut Context) -> Result<(), &'static str> {
            match command {
                Command::AddBackend { service, address, port } => {
                    self.add(service, Address::V4(address), port)?;
                }
                Command::AddBackend6 { service, address, port } => {
                    self.add(service, Address::V6(address), port)?;
                }
                Command::DrainBackend { address, port } => {
                    self.edit(Address::V4(address), Some(port), Change::Drain)?;
                }
                Command::DrainBackend6 { address, port } => {
                    self.edit(Address::V6(address), Some(port), Change::Drain)?;
                }
                Command::RemoveBackend { address, port } => {
                    self.edit(Address::V4(address), Some(port), Change::Remove)?;
                }
                Command::RemoveBackend6 { address, port } => {
                    self.edit(Address::V6(address), Some(port), Change::Remove)?;
                }
                Command::SetHealth { address, healthy } => {
                    self.edit(Address::V4(address), None, Change::Health(healthy))?;
                }
                Command::SetHealth6 { address, healthy } => {
                    self.edit(Address::V6(address), None, Change::Health(healthy))?;
                }
            }
            self.begin_build();
            cx.set_timer(BUILD_PAUSE_NS, self.build.get().number);
            Ok(())
        }

        /// Goes on building the Maglev tables, unless another build has begun meanwhile.
        fn timer(&mut self, token: u64, cx: &mut Context) {
            if self.build.get().number == token {
                self.go_on_building(BUILD_STEPS, cx);
            }
        }

        /// Tries so many entries, and has the rest wait.
        fn go_on_building(&mut self, steps: u32, cx: &mut Context) {
            let mut build = self.build.get();
            let mut left = steps;
            while left > 0 && build.running {
                build = self.build_step(build);
                left -= 1;
            }
            self.build.set(build);
            if build.running {
                cx.set_timer(BUILD_PAUSE_NS, build.number);
            }
        }

        /// Where a new connection goes.
        fn choose(&self, service: u32, pkt: &Packet) -> Option<Connection> {
            match self.settings.method {
                Method::Maglev => self.pick(service, end_of(pkt, true)?),
                Method::LeastConnections => self.least_connected(service),
            }
        }

        /// Finds another backend for a connection whose own is gone, or for one that begins anew.
        #[cold]
        fn reconnect(&mut self, connection: &mut Connection, pkt: &mut Packet) -> bool {
            let Some(to) = end_of(pkt, false) else { return false };
            let Some(service) = self.services.get(&to) else { return false };
            let Some(found) = self.choose(service, pkt) else { return false };
            self.count(connection, false);
            *connection = found;
            true
        }

        /// Its backend has one more, once there is room for it; or, if it counted, has it no more.
        fn count(&mut self, connection: &Connection, more: bool) {
            if !more && !connection.progress.counts() {
                return;
            }
            self.backends.update(u32::from(connection.backend), |backend| {
                if backend.generation == connection.generation {
                    let count = backend.connections;
                    backend.connections = if more { count + 1 } else { count.saturating_sub(1) };
                }
            });
        }

        /// A connection of a client, by the hash of its endpoint.
        fn pick(&self, service: u32, client: Endpoint) -> Option<Connection> {
            let hash = client.hash(u64::from(service));
            let services = self.settings.services.len() + self.settings.services6.len();
            let row = self.half.get() * services + service;
            let size = self.settings.table_size.entries();
            let position = ((hash >> 32) * u64::from(size)) >> 32;
            let entry = self.table.read(row * size + position as u32);
            let backend = self.backends.read(u32::from(entry.backend));
            // One that was never filled stands for no backend.
            if (entry.round != 0) & backend.takes(service) {
                return Some(backend.connection(entry.backend));
            }
            let slots = self.settings.backend_slots;
            let start = ((hash & 0xffff_ffff) * u64::from(slots)) >> 32;
            for step in 0..slots {
                let slot = (start as u32 + step) % slots;
                let backend = self.backends.read(slot);
                if backend.takes(service) {
                    return Some(backend.connection(slot as u16));
                }
            }
            None
        }

        fn least_connected(&self, service: u32) -> Option<Connection> {
            let mut found = None;
            let mut fewest = u32::MAX;
            for slot in 0..self.settings.backend_slots {
                let backend = self.backends.read(slot);
                if backend.takes(service) && backend.connections < fewest {
                    fewest = backend.connections;
                    found = Some(backend.connection(slot as u16));
                }
            }
            found
        }

        #[cold]
        fn follow(&mut self, connection: &mut Connection, flags: u8, tcp: bool, cx: &mut Context) {
            let before = connection.progress;
            let (after, seconds) = match before {
                _ if !tcp => (Progress::Open, self.settings.udp_s),
                _ if flags & (FIN | RST) != 0 => (Progress::Closing, self.settings.closing_s),
                // Nobody has seen it open here: it is not kept for hours because of one packet.
                _ if flags != 0 || before == Progress::New => {
                    (Progress::Opening, self.settings.opening_s)
                }
                Progress::Closing => (before, self.settings.closing_s),
                _ => (Progress::Open, self.settings.established_s),
            };
            if before.counts() != after.counts() {
                self.count(connection, after.counts());
            }
            connection.progress = after;
            cx.set_expiry(seconds * SECOND_NS);
        }

        fn serve(&mut self, service: u32, address: Address, port: u16, protocol: Protocol) {
            let protocol = if protocol == Protocol::Tcp { TCP } else { UDP };
            let endpoint = Endpoint { address, port, protocol };
            self.services.insert(endpoint, service);
            self.virtuals.write(service, endpoint);
        }

        /// The number of a service among all, if it is one of the address's kind.
        fn service_number(&self, service: u32, address: Address) -> Option<u32> {
            let (before, count) = match address {
                Address::V4(_) => (0, self.settings.services.len()),
                Address::V6(_) => (self.settings.services.len(), self.settings.services6.len()),
            };
            if service < count { Some(before + service) } else { None }
        }

        fn add(&mut self, service: u32, address: Address, port: u16) -> Result<(), &'static str> {
            let service = self.service_number(service, address).ok_or("no such service")?;
            let served = self.virtuals.read(service);
            let endpoint = Endpoint { address, port, protocol: served.protocol };
            if let Some(found) = self.replies.get(&endpoint) {
                let is_its_own = found == served;
                let back = is_its_own && self.edit(address, Some(port), Change::TakeUp).is_ok();
                return if back { Ok(()) } else { Err("that endpoint is a backend already") };
            }
            let slot = self.free_slot().ok_or("no slot is left: raise `backend_slots`")?;
            let size = u64::from(self.settings.table_size.entries());
            let backend = Backend {
                endpoint,
                service,
                offset: (endpoint.hash(1) % size) as u32,
                skip: (endpoint.hash(2) % (size - 1)) as u32 + 1,
                connections: 0,
                generation: self.backends.read(slot).generation.wrapping_add(1).max(1),
                standing: Standing::Active,
                healthy: true,
            };
            self.backends.write(slot, backend);
            self.replies.insert(endpoint, served);
            Ok(())
        }

        fn free_slot(&self) -> Option<u32> {
            for slot in 0..self.settings.backend_slots {
                if self.backends.read(slot).standing == Standing::Free {
                    return Some(slot);
                }
            }
            None
        }

        /// Changes the backends at an address, of one port or of all.
        fn edit(&mut self, at: Address, port: Option<u16>, to: Change) -> Result<(), &'static str> {
            let mut known = false;
            for slot in 0..self.settings.backend_slots {
                let mut backend = self.backends.read(slot);
                let drains = backend.standing == Standing::Draining;
                if backend.is_at(at, port) && (drains || to != Change::TakeUp) {
                    known = true;
                    match to {
                        Change::TakeUp => backend.standing = Standing::Active,
                        Change::Drain => backend.standing = Standing::Draining,
                        Change::Health(healthy) => backend.healthy = healthy,
                        Change::Remove => {
                            self.replies.remove(&backend.endpoint);
                            backend.standing = Standing::Free;
                            backend.connections = 0;
                            backend.generation = backend.generation.wrapping_add(1);
                        }
                    }
                    self.backends.write(slot, backend);
                }
            }
            if known { Ok(()) } else { Err("no such backend") }
        }

        fn begin_build(&mut self) {
            let last = self.build.get();
            self.link(last.number + 1);
            self.build.set(Build {
                running: self.settings.method == Method::Maglev,
                number: last.number + 1,
                size: self.settings.table_size.entries(),
                services: self.settings.services.len() + self.settings.services6.len(),
                half: 1 - self.half.get(),
                service: 0,
                round: last.round + 1,
                filled: 0,
                slot: 0,
            });
        }

        /// Links the slots that take connections, those of each service in a ring.
        fn link(&mut self, number: u64) {
            for slot in 0..self.settings.backend_slots {
                let backend = self.backends.read(slot);
                let takes = backend.takes(backend.service);
                let ends = self.ends.read(backend.service);
                let goes_on = takes && ends.number == number;
                let (first, last) = if goes_on { (ends.first, ends.last) } else { (slot, slot) };
                self.ring.write(slot, last as u16);
                let further = Ends { number, first, last: slot };
                self.ends.write(backend.service, if takes { further } else { ends });
            }
        }

        /// Lets the backend whose turn it is try the next entry of its permutation.
        fn build_step(&mut self, build: Build) -> Build {
            let ends = self.ends.read(build.service);
            let slot = if build.filled == 0 { ends.last } else { build.slot };
            let build = Build { slot, ..build };
            let after = match ends.number == build.number {
                true => self.try_entry(build, ends),
                false => build.after(false, 0, true),
            };
            let half = self.half.get();
            self.half.set(if after.running { half } else { build.half });
            after
        }

        /// A backend goes on until it has found an entry; then it is the one before's turn, or the last one's.
        fn try_entry(&mut self, build: Build, ends: Ends) -> Build {
            let backend = self.backends.read(build.slot);
            let turn = self.turns.read(build.slot);
            let next = if turn.round == build.round { turn.next } else { backend.offset };
            let index = (build.half * build.services + build.service) * build.size + next;
            let entry = self.table.read(index);
            let fills = entry.round != build.round;
            let filled = Entry { round: build.round, backend: build.slot as u16 };
            self.table.write(index, if fills { filled } else { entry });
            let next = next + backend.skip;
            let next = if next >= build.size { next - build.size } else { next };
            self.turns.write(build.slot, Turn { round: build.round, next });
            let before = u32::from(self.ring.read(build.slot));
            build.after(fills, if build.slot == ends.first { ends.last } else { before }, false)
        }
    }
}

#[cfg(test)]
mod tests;

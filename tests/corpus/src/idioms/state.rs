//! What is done with state: every operation of every state object, packet sets, timers, commands.

use anabranch_nf::prelude::*;

/// Translates as a NAT does: a map into an allocator, a vector beside it.
#[network_function(ports(lan, wan))]
pub mod allocation {
    /// What the operator sets.
    pub struct Settings {
        /// Sessions at once.
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub sessions: u32,
        /// The public address.
        #[setting(default = "192.0.2.1")]
        pub public: Ipv4Addr,
        /// Silence after which a session ends.
        #[setting(default = 120, min = 1)]
        pub timeout_s: u64,
    }

    /// Why a packet is not forwarded.
    pub enum Reason {
        /// It is no TCP or UDP over IPv4.
        NotTranslated,
        /// Every port is in use.
        NoPort,
        /// Nobody inside has asked for it.
        Unsolicited,
    }

    pub struct Endpoint {
        address: Ipv4Addr,
        port: u16,
        protocol: u8,
    }

    pub struct Session {
        inside: Endpoint,
        packets: u64,
    }

    pub struct Nat {
        settings: Settings,
        #[capacity(settings.sessions)]
        by_inside: Map<Endpoint, u32>,
        #[capacity(settings.sessions)]
        #[expired(session_expired)]
        ports: Allocator<Endpoint>,
        #[capacity(settings.sessions)]
        sessions: Vector<Session>,
    }

    const FIRST_PORT: u32 = 1024;

    impl Nat {
        fn lifetime(&self) -> u64 {
            self.settings.timeout_s * 1_000_000_000
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if pkt.port() == LAN { self.outbound(pkt, cx) } else { self.inbound(pkt, cx) }
        }

        fn outbound(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let (Some(ip), Some(port)) = (pkt.ipv4(), pkt.src_port()) else {
                return Drop(Reason::NotTranslated);
            };
            let inside = Endpoint { address: ip.src(), port, protocol: ip.protocol() };
            let Some(index) = self.port_of(inside, cx) else {
                return Drop(Reason::NoPort);
            };
            self.sessions.update(index, |session| session.packets += 1);
            if let Some(mut ip) = pkt.ipv4_mut() {
                ip.set_src(self.settings.public);
            }
            pkt.set_src_port((FIRST_PORT + index) as u16);
            Forward(WAN)
        }

        fn port_of(&mut self, inside: Endpoint, cx: &mut Context) -> Option<u32> {
            let lifetime = self.lifetime();
            if let Some(index) = self.by_inside.get(&inside) {
                if self.ports.refresh(index, lifetime, cx) {
                    return Some(index);
                }
                self.by_inside.remove(&inside);
            }
            let index = self.ports.allocate(inside, lifetime, cx)?;
            if !self.by_inside.insert(inside, index) {
                self.ports.free(index);
                return None;
            }
            self.sessions.write(index, Session { inside, packets: 0 });
            Some(index)
        }

        fn inbound(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let Some(port) = pkt.dst_port() else { return Drop(Reason::NotTranslated) };
            let Some(index) = u32::from(port).checked_sub(FIRST_PORT) else {
                return Drop(Reason::Unsolicited);
            };
            if !self.ports.is_allocated(index, cx) {
                return Drop(Reason::Unsolicited);
            }
            let session = self.sessions.read(index);
            if let Some(mut ip) = pkt.ipv4_mut() {
                ip.set_dst(session.inside.address);
            }
            pkt.set_dst_port(session.inside.port);
            Forward(LAN)
        }

        fn session_expired(&mut self, index: u32, object: Endpoint, cx: &mut Context) {
            self.by_inside.remove(&object);
            log!(
                cx,
                debug,
                "session {} of {} port {} has expired",
                index,
                object.address,
                object.port
            );
        }
    }
}

/// Spreads connections over backends that come and go by command.
#[network_function(ports(clients, servers))]
pub mod balance {
    pub struct Settings {
        /// Backends at the start.
        #[setting(default = [])]
        pub backends: List<Backend>,
        /// How a backend is chosen.
        #[setting(default = Choice::Hash)]
        pub choice: Choice,
        /// Connections at once.
        #[setting(default = 1_024, min = 1)]
        pub connections: u32,
    }

    /// A server.
    pub struct Backend {
        /// Its address.
        pub address: Ipv4Addr,
        /// Its share.
        #[setting(default = 1, min = 1, max = 100)]
        pub weight: u16,
    }

    pub enum Choice {
        Hash,
        LeastConnections,
    }

    pub enum Command {
        /// Takes in a backend.
        AddBackend { address: Ipv4Addr },
        /// Takes out all backends.
        Clear,
    }

    pub enum Reason {
        NoBackend,
    }

    const PLACES: u32 = 16;

    fn check(settings: &Settings) -> Result<(), &'static str> {
        if settings.backends.len() > PLACES {
            return Err("at most 16 backends");
        }
        Ok(())
    }

    pub struct Balancer {
        settings: Settings,
        #[capacity(16)]
        addresses: Vector<Ipv4Addr>,
        #[capacity(16)]
        load: Vector<u32>,
        used: Cell<u32>,
        #[capacity(settings.connections)]
        connections: Map<(Ipv4Addr, u16), u32>,
    }

    #[opaque]
    fn hash(address: Ipv4Addr, port: u16) -> u32 {
        (u32::from(address) ^ u32::from(port)).wrapping_mul(0x9e37_79b9) >> 8
    }

    impl Balancer {
        fn init(&mut self, cx: &mut Context) {
            for backend in self.settings.backends.iter() {
                let index = self.used.get();
                self.addresses.write(index, backend.address);
                self.used.set(index + 1);
            }
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let used = self.used.get();
            let (Some(ip), Some(port)) = (pkt.ipv4(), pkt.src_port()) else {
                return Drop(Reason::NoBackend);
            };
            if used == 0 {
                return Drop(Reason::NoBackend);
            }
            let client = (ip.src(), port);
            let index = match self.connections.get(&client) {
                Some(index) => index,
                None => {
                    let index = self.chosen(client, used);
                    self.connections.insert(client, index);
                    self.load.update(index, |load| *load += 1);
                    index
                }
            };
            let address = self.addresses.read(index);
            if let Some(mut ip) = pkt.ipv4_mut() {
                ip.set_dst(address);
            }
            Forward(SERVERS)
        }

        fn chosen(&self, client: (Ipv4Addr, u16), used: u32) -> u32 {
            match self.settings.choice {
                Choice::Hash => hash(client.0, client.1) % used,
                Choice::LeastConnections => {
                    let mut best = 0;
                    for index in 1..used.min(PLACES) {
                        if self.load.read(index) < self.load.read(best) {
                            best = index;
                        }
                    }
                    best
                }
            }
        }

        fn control(&mut self, command: Command, cx: &mut Context) -> Result<(), &'static str> {
            match command {
                Command::AddBackend { address } => {
                    let index = self.used.get();
                    if index == self.addresses.len() {
                        return Err("there are 16 backends already");
                    }
                    self.addresses.write(index, address);
                    self.used.update(|used| *used += 1);
                    Ok(())
                }
                Command::Clear => {
                    self.used.set(0);
                    Ok(())
                }
            }
        }
    }
}

/// Limits the rate to each destination by a token bucket.
#[network_function(ports(lan, wan))]
pub mod buckets {
    pub struct Settings {
        /// Bytes a second.
        #[setting(default = 1_000_000, min = 1)]
        pub rate_bytes: u64,
        /// Bytes at once.
        #[setting(default = 64_000, min = 1)]
        pub burst_bytes: u64,
    }

    pub enum Reason {
        OverRate,
    }

    #[packet_set(ipv4(ipv4.dst), ipv6(ipv6.dst), port = wan, capacity = 65_536, expires_s = 60)]
    pub struct Bucket {
        tokens: u64,
        at: u64,
    }

    pub struct Policer {
        settings: Settings,
    }

    impl Policer {
        fn packet_set_opened(
            &mut self,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Result<Bucket, Verdict> {
            if self.settings.burst_bytes < u64::from(pkt.len()) {
                return Err(Drop(Reason::OverRate));
            }
            Ok(Bucket { tokens: self.settings.burst_bytes, at: cx.now() })
        }

        fn packet(&mut self, bucket: &mut Bucket, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let elapsed = cx.now().saturating_sub(bucket.at);
            let earned = u128::from(elapsed) * u128::from(self.settings.rate_bytes) / 1_000_000_000;
            let earned = earned.min(u128::from(self.settings.burst_bytes)) as u64;
            bucket.tokens = bucket.tokens.saturating_add(earned).min(self.settings.burst_bytes);
            bucket.at = cx.now();
            let Some(left) = bucket.tokens.checked_sub(u64::from(pkt.len())) else {
                return Drop(Reason::OverRate);
            };
            bucket.tokens = left;
            Forward(LAN)
        }

        fn orphan(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port().other())
        }
    }
}

/// Learns where Ethernet addresses are, and floods to those it does not know.
#[network_function(ports(..), layer = 2)]
pub mod learning {
    pub struct Settings {
        /// Addresses at once.
        #[setting(default = 4_096, min = 1)]
        pub addresses: u32,
        /// Silence after which an address is forgotten.
        #[setting(default = 300, min = 1)]
        pub ageing_s: u64,
    }

    pub enum Reason {
        /// It came in where it would go out.
        SamePort,
    }

    pub struct Place {
        port: Port,
        until: u64,
    }

    pub struct Bridge {
        settings: Settings,
        #[capacity(settings.addresses)]
        places: Map<MacAddr, Place>,
        flooded: Counter,
    }

    impl Bridge {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let (source, target) = (pkt.ethernet().src(), pkt.ethernet().dst());
            self.learn(source, pkt.port(), cx.now());
            match self.places.get(&target) {
                Some(place) if place.until > cx.now() => {
                    if place.port == pkt.port() {
                        return Drop(Reason::SamePort);
                    }
                    Forward(place.port)
                }
                _ => {
                    self.flooded.add(1);
                    Flood
                }
            }
        }

        fn learn(&mut self, address: MacAddr, port: Port, now: u64) {
            if address.is_multicast() {
                return;
            }
            let until = now + self.settings.ageing_s * 1_000_000_000;
            let known = self.places.update(&address, |place| {
                place.port = port;
                place.until = until;
            });
            if !known && self.places.len() < self.settings.addresses {
                self.places.insert(address, Place { port, until });
            }
        }
    }
}

/// Lets every connection send a fixed number of packets, and gives it a lifetime of its own.
#[network_function(ports(inside, outside))]
pub mod quota {
    pub struct Settings {
        /// Packets one connection may send.
        #[setting(default = 1_000, min = 1)]
        pub packets: u64,
        /// Which way new connections may be opened.
        #[setting(default = INSIDE)]
        pub opens: Port,
    }

    pub enum Reason {
        OverQuota,
        WrongWay,
    }

    pub enum Phase {
        New,
        Established,
        Closing { since: u64 },
    }

    #[packet_set(
        tcp(ip.src, ip.dst, tcp.src, tcp.dst),
        udp(ip.src, ip.dst, udp.src, udp.dst),
        icmp(ip.src, ip.dst, icmp.id),
        bidirectional,
        capacity = 1 << 16,
        expires_s = 60
    )]
    pub struct Connection {
        sent: u64,
        phase: Phase,
    }

    pub struct Quota {
        settings: Settings,
        closed: Counter,
    }

    impl Quota {
        fn packet_set_opened(
            &mut self,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Result<Connection, Verdict> {
            if pkt.port() != self.settings.opens {
                return Err(Drop(Reason::WrongWay));
            }
            Ok(Connection { sent: 0, phase: Phase::New })
        }

        fn packet(&mut self, set: &mut Connection, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            set.sent += 1;
            set.phase = Self::next(set.phase, pkt, cx);
            if let Phase::Closing { since } = set.phase
                && cx.now() - since > 1_000_000_000
            {
                cx.set_expiry(1_000_000);
            }
            if set.sent > self.settings.packets {
                return Drop(Reason::OverQuota);
            }
            Forward(pkt.port().other())
        }

        fn packet_set_full(
            &mut self,
            set: &Connection,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Verdict {
            if set.phase == Phase::New && pkt.udp().is_some() {
                return Forward(pkt.port().other());
            }
            Drop(Builtin::PacketSetsFull)
        }

        fn next(phase: Phase, pkt: &Packet, cx: &mut Context) -> Phase {
            match (phase, pkt.tcp()) {
                (_, Some(tcp)) if tcp.rst() || tcp.fin() => Phase::Closing { since: cx.now() },
                (Phase::New, _) => Phase::Established,
                (kept, _) => kept,
            }
        }

        fn packet_set_expired(&mut self, set: &Connection, cx: &mut Context) {
            if matches!(set.phase, Phase::Closing { .. }) {
                self.closed.add(1);
            }
        }
    }
}

/// Counts, keeps time, and sends a packet of its own now and then.
#[network_function(ports(left, right))]
pub mod watch {
    pub struct Tally {
        packets: u64,
        bytes: u64,
    }

    pub struct Watch {
        #[merge(both)]
        #[staleness_ms(100)]
        tally: Distributed<Tally>,
        last: Cell<u64>,
        #[capacity(64)]
        slots: Allocator<u32>,
        beats: Counter,
    }

    const BEACON: [u8; 60] = [0xff; 60];

    fn both(a: Tally, b: Tally) -> Tally {
        Tally { packets: a.packets + b.packets, bytes: a.bytes + b.bytes }
    }

    fn note(watch: &mut Watch, pkt: &Packet, cx: &Context) -> bool {
        let length = u64::from(pkt.len());
        watch.tally.update(|tally| {
            tally.packets += 1;
            tally.bytes += length;
        });
        watch.last.set(cx.now());
        watch.tally.read().packets % 2 == 0
    }

    impl Watch {
        fn init(&mut self, cx: &mut Context) {
            cx.set_timer(1_000_000_000, 7);
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            let even = note(self, pkt, cx);
            let slot = (cx.random() % 32) as u32;
            if even && self.slots.allocate_at(slot, pkt.len(), 5_000_000_000, cx) {
                self.slots.update(slot, |length| *length += 1);
            } else if let Some(found) =
                self.slots.allocate_within(32, 32, 2, 33, 9, 1_000_000_000, cx)
            {
                self.slots.set(found, slot);
            }
            match self.slots.get(slot, cx) {
                Some(length) if length > 1500 => Recirculate(LEFT),
                _ => Forward(pkt.port().other()),
            }
        }

        fn timer(&mut self, token: u64, cx: &mut Context) {
            if token == 7 {
                cx.emit(RIGHT, &BEACON);
                cx.set_timer(1_000_000_000, token);
            }
        }

        #[every_ms(100)]
        fn periodic(&mut self, cx: &mut Context) {
            self.beats.add(1);
            if cx.now() - self.last.get() > 10_000_000_000 {
                log!(cx, warn, "no packet since {} ns", self.last.get());
            }
        }

        fn shutdown(&mut self, cx: &mut Context) {
            log!(cx, info, "{} beats, {} slots", self.beats.read(), self.slots.len());
        }
    }
}

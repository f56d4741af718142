use anabranch_nf::prelude::*;

/// Translates. RFC 4787.
#[network_function(ports(lan, wan))]
pub mod nat {
    /// What the operator sets.
    pub struct Settings {
        /// Sessions at once.
        #[setting(default = 65_536, min = 1)]
        pub sessions: u32,
        /// Mode.
        #[setting(default = Mode::Strict)]
        pub mode: Mode,
        /// Address.
        #[setting(default = "192.0.2.1")]
        pub public: Ipv4Addr,
        /// Backends.
        #[setting(default = [])]
        pub backends: List<Backend>,
    }

    /// How strict.
    pub enum Mode {
        Strict,
        Loose,
    }

    pub struct Backend {
        pub address: Ipv4Addr,
        pub weight: u16,
    }

    fn check(settings: &Settings) -> Result<(), &'static str> {
        if settings.sessions == 3 {
            return Err("three is no number of sessions");
        }
        Ok(())
    }

    pub enum Reason {
        /// No room.
        TableFull,
        Unknown,
    }

    pub enum Command {
        /// Adds one.
        AddBackend {
            address: Ipv4Addr,
            #[setting(default = 1, max = 10)]
            weight: u16,
        },
        Clear,
    }

    pub struct Endpoint {
        address: Ipv4Addr,
        port: u16,
        protocol: u8,
    }

    pub struct Session {
        inside: Endpoint,
        seen: u64,
    }

    pub struct Pair<A, B> {
        a: A,
        b: B,
    }

    impl<A, B> Pair<A, B> {
        fn swapped(self) -> Pair<B, A> {
            Pair { a: self.b, b: self.a }
        }
    }

    pub struct Nat {
        settings: Settings,
        #[capacity(settings.sessions)]
        by_inside: Map<Endpoint, u32>,
        #[capacity(settings.sessions / 2 * 2)]
        sessions: Vector<Session>,
        #[capacity(u64::from(settings.sessions) * 2)]
        #[expired(gone)]
        ports: Allocator<Endpoint>,
        #[merge(sum)]
        #[staleness_ms(100)]
        load: Distributed<u64>,
        translated: Counter,
        last: Cell<Endpoint>,
        l3: L3,
    }

    fn sum(a: u64, b: u64) -> u64 {
        a + b
    }

    fn endpoint(pkt: &Packet) -> Option<Endpoint> {
        let ip = pkt.ipv4()?;
        Some(Endpoint { address: ip.src(), port: pkt.src_port()?, protocol: ip.protocol() })
    }

    fn touch(nat: &mut Nat, pkt: &mut Packet, cx: &mut Context) -> bool {
        nat.translated.add(1);
        pkt.set_src_port(7);
        cx.now() > 5
    }

    impl Nat {
        fn init(&mut self, cx: &mut Context) {
            self.translated.add(cx.now() / self.translated.read());
        }

        fn gone(&mut self, index: u32, object: Endpoint, cx: &mut Context) {
            self.by_inside.remove(&object);
            log!(cx, info, "gone {} {}", index, object.port / self.settings.backends.len() as u16);
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if self.l3.enabled()
                && let Some(verdict) = self.l3.receive(pkt, cx)
            {
                return verdict;
            }
            let Some(inside) = endpoint(pkt) else { return Drop(Reason::Unknown) };
            let index = match self.by_inside.get(&inside) {
                Some(index) if self.ports.refresh(index, 5_000_000_000, cx) => index,
                _ => {
                    let Some(index) = self.ports.allocate(inside, 5_000_000_000, cx) else {
                        return Drop(Reason::TableFull);
                    };
                    self.by_inside.insert(inside, index);
                    index
                }
            };
            self.sessions.update(index, |session| session.seen += 1);
            self.load.update(|load| *load <<= index);
            self.last.set(inside);
            if touch(self, pkt, cx) && matches!(self.settings.mode, Mode::Strict) {
                if let Some(mut ip) = pkt.ipv4_mut() {
                    ip.set_src(self.settings.public);
                }
            }
            Self::out(pkt)
        }

        fn out(pkt: &Packet) -> Verdict {
            if pkt.port() == LAN { Forward(WAN) } else { Forward(LAN) }
        }

        fn control(&mut self, command: Command, cx: &mut Context) -> Result<(), &'static str> {
            match command {
                Command::AddBackend { address, weight } => Err("no"),
                Command::Clear => Ok(()),
            }
        }
    }
}

/// Sets.
#[network_function(ports(lan, wan))]
pub mod quota {
    pub struct Settings {
        #[setting(default = 60)]
        pub timeout_s: u64,
    }
    #[packet_set(tcp(ip.src, ip.dst, tcp.src, tcp.dst), icmp(ip.src, ip.dst, icmp.id), ipv4(ipv4.src, ipv4.dst),
        bidirectional, port = lan, capacity = 65_536, expires_s = settings.timeout_s)]
    pub struct Source {
        sent: u64,
    }
    pub enum Reason {
        OverQuota,
    }
    pub struct Quota {
        settings: Settings,
    }
    impl Quota {
        fn packet_set_opened(
            &mut self,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Result<Source, Verdict> {
            Ok(Source { sent: 0 })
        }
        fn packet(&mut self, source: &mut Source, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            source.sent += 1;
            if source.sent > self.settings.timeout_s {
                return Drop(Reason::OverQuota);
            }
            Forward(pkt.port().other())
        }
    }
}

#[network_function(ports(..), layer = 2)]
pub mod nop {
    pub struct Nop {}
    impl Nop {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            Forward(pkt.port())
        }
    }
}

//! What is done with packets: views, rewrites, payloads, embedded packets.

use anabranch_nf::prelude::*;

/// Packets.
#[network_function(ports(left, right), layer = 2)]
pub mod packets {
    pub enum Reason {
        Short,
        Odd,
    }

    pub struct Look {
        seen: Counter,
    }

    /// An end of a session.
    pub struct Endpoint {
        address: Ipv4Addr,
        port: u16,
    }

    impl Endpoint {
        fn of_source(pkt: &Packet) -> Option<Self> {
            let ip = pkt.ipv4()?;
            Some(Endpoint { address: ip.src(), port: pkt.src_port()? })
        }
    }

    impl Look {
        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            self.seen.add(1);
            if cx.now() == 0 && pkt.payload().len() == 0 {
                return Drop(Reason::Short);
            }
            Forward(pkt.port().other())
        }
    }

    pub fn idiom_201(pkt: &mut Packet) -> u64 {
        u64::from(pkt.len()) + u64::from(pkt.port().index())
    }

    pub fn idiom_202(pkt: &mut Packet) -> u64 {
        u64::from(pkt.ethernet().ethertype())
    }

    pub fn idiom_203(pkt: &mut Packet) -> u64 {
        match pkt.ipv4() {
            Some(ip) => u64::from(u32::from(ip.src())) + u64::from(ip.ttl()),
            None => 0,
        }
    }

    pub fn idiom_204(pkt: &mut Packet) -> u64 {
        let Some(tcp) = pkt.tcp() else { return 0 };
        if tcp.syn() && !tcp.ack() { 1 } else { u64::from(tcp.flags()) }
    }

    pub fn idiom_205(pkt: &mut Packet) -> u64 {
        if let Some(ip) = pkt.ipv4()
            && let Some(udp) = pkt.udp()
        {
            u64::from(ip.total_len()) + u64::from(udp.dst())
        } else {
            7
        }
    }

    pub fn idiom_206(pkt: &mut Packet) -> u64 {
        if let Some(mut ip) = pkt.ipv4_mut() {
            ip.set_src(Ipv4Addr::new(203, 0, 113, 7));
            let ttl = ip.ttl();
            ip.set_ttl(ttl - 1);
        }
        pkt.ipv4().map_or(0, |ip| u64::from(ip.ttl()))
    }

    pub fn idiom_207(pkt: &mut Packet) -> u64 {
        pkt.set_src_port(4096);
        pkt.src_port().map_or(0, |port| u64::from(port))
    }

    pub fn idiom_208(pkt: &mut Packet) -> u64 {
        match Endpoint::of_source(pkt) {
            Some(Endpoint { address, port }) if address.is_private() => u64::from(port),
            Some(_) => 1,
            None => 2,
        }
    }

    pub fn idiom_209(pkt: &mut Packet) -> u64 {
        let payload = pkt.payload();
        if payload.starts_with(b"GET ") {
            1
        } else if payload.len() > 3 {
            u64::from(payload[3])
        } else {
            0
        }
    }

    pub fn idiom_210(pkt: &mut Packet) -> u64 {
        let payload = pkt.payload();
        let mut sum = 0;
        for i in 0..payload.len().min(16) {
            sum += u64::from(payload[i]);
        }
        sum
    }

    pub fn idiom_211(pkt: &mut Packet) -> u64 {
        let source = pkt.ethernet().src();
        let target = pkt.ethernet().dst();
        let mut frame = pkt.ethernet_mut();
        frame.set_dst(source);
        frame.set_src(target);
        pkt.ethernet().dst().is_multicast() as u64
    }

    pub fn idiom_212(pkt: &mut Packet) -> u64 {
        match (pkt.ipv4(), pkt.ipv6()) {
            (Some(ip), None) => u64::from(ip.protocol()),
            (None, Some(ip)) => u64::from(ip.hop_limit()),
            _ => 0,
        }
    }

    pub fn idiom_213(pkt: &mut Packet) -> u64 {
        let Some(arp) = pkt.arp() else { return u64::from(pkt.protocol()) };
        match arp.operation() {
            1 => u64::from(u32::from(arp.target_ip())),
            2 => u64::from(u32::from(arp.sender_ip())),
            _ => 0,
        }
    }

    pub fn idiom_214(pkt: &mut Packet) -> u64 {
        match pkt.icmpv4() {
            Some(icmp) if icmp.is_echo() => u64::from(icmp.id()),
            Some(icmp) if icmp.is_error() => u64::from(icmp.kind()),
            Some(_) => 3,
            None => 4,
        }
    }

    pub fn idiom_215(pkt: &mut Packet) -> u64 {
        let Some(inner) = pkt.embedded() else { return 0 };
        u64::from(inner.protocol()) + u64::from(inner.src_port())
    }

    pub fn idiom_216(pkt: &mut Packet) -> u64 {
        pkt.is_fragment() as u64 + pkt.is_first_fragment() as u64 * 2
    }

    pub fn idiom_217(pkt: &mut Packet) -> u64 {
        match pkt.vlan() {
            Some(tag) => u64::from(tag.id()) << 8 | u64::from(tag.priority()),
            None => 0,
        }
    }

    fn is_web(pkt: &Packet) -> bool {
        pkt.dst_port().is_some_and(|port| matches!(port, 80 | 443))
    }

    pub fn idiom_218(pkt: &mut Packet) -> u64 {
        is_web(pkt) as u64
    }

    pub fn idiom_219(pkt: &mut Packet) -> u64 {
        let key = (pkt.protocol(), pkt.src_port(), pkt.dst_port());
        match key {
            (6, Some(source), Some(target)) => u64::from(source.min(target)),
            (17, Some(source), _) => u64::from(source),
            _ => 0,
        }
    }

    pub fn idiom_220(pkt: &mut Packet) -> u64 {
        if let Some(mut ip) = pkt.ipv6_mut() {
            ip.set_hop_limit(9);
        }
        if let Some(mut tcp) = pkt.tcp_mut() {
            tcp.set_dst(8080);
        }
        pkt.dst_port().map_or(0, |port| u64::from(port))
    }
    fn sum(bytes: &[u8]) -> u64 {
        let mut total = 0;
        for byte in bytes {
            total = total * 7 + u64::from(*byte);
        }
        total
    }

    pub fn idiom_221(pkt: &mut Packet) -> u64 {
        let at = pkt.src_port().map_or(0, |port| port as usize % 16);
        u64::from(pkt.payload()[at]) << 8 | u64::from(pkt.payload()[9])
    }

    pub fn idiom_222(pkt: &mut Packet) -> u64 {
        let payload = pkt.payload();
        let word = &payload[1..3];
        let far = &payload[5..=9];
        u64::from(word[0]) << 16
            | u64::from(word[1]) << 8
            | word.len() as u64 * 1_000
            | far.len() as u64 * 100
    }

    pub fn idiom_223(pkt: &mut Packet) -> u64 {
        let kind = pkt.payload().get(2).map_or(256, |byte| u64::from(*byte));
        match pkt.payload().get(6) {
            Some(b'/') => kind,
            Some(byte) => kind + u64::from(*byte),
            None => 1_000,
        }
    }

    pub fn idiom_224(pkt: &mut Packet) -> u64 {
        let rest = &pkt.payload()[4..];
        let tail = &rest[2..];
        tail.starts_with(b"bc") as u64
            + u64::from(rest[0]) * 2
            + u64::from(tail[1]) * 512
            + tail.len() as u64 * 131_072
    }

    pub fn idiom_225(pkt: &mut Packet) -> u64 {
        sum(&pkt.payload()[2..6])
    }

    pub fn idiom_226(pkt: &mut Packet) -> u64 {
        let payload = pkt.payload();
        let mut counts = [0u8; 4];
        counts[payload[0] as usize % 6] += 1;
        counts[payload.len() - 1] = 9;
        u64::from(u16::from_be_bytes([payload[6], payload[7]])) + sum(&counts) * 65_536
    }

    /// What a cold function writes is there for who called it, however it was handed the packet.
    pub fn idiom_227(pkt: &mut Packet) -> u64 {
        let lost = hop(pkt);
        let (ttl, is_left) = rare(pkt, u64::from(pkt.len()));
        let again = if matches!(rare(pkt, u64::from(ttl)), (0, false)) { 0 } else { left_of(pkt) };
        u64::from(again) * 4 + u64::from(is_left) * 2 + u64::from(lost.is_some())
    }

    /// A name of its own, which is no packet.
    pub fn idiom_228(pkt: &mut Packet) -> u64 {
        let seen = hop(pkt).is_none();
        let pkt = pkt.len();
        counted(pkt) + u64::from(seen)
    }

    #[cold]
    fn hop(pkt: &mut Packet) -> Option<Verdict> {
        let Some(mut ip) = pkt.ipv4_mut() else { return Some(Drop(Reason::Odd)) };
        let ttl = ip.ttl();
        ip.set_ttl(ttl - 1);
        None
    }

    #[cold]
    fn rare(pkt: &mut Packet, by: u64) -> (u8, bool) {
        let is_left = pkt.port() == LEFT;
        if hop(pkt).is_some() {
            return (by as u8, is_left);
        }
        match pkt.ipv4() {
            Some(ip) => (ip.ttl(), is_left),
            None => (0, is_left),
        }
    }

    #[cold]
    fn left_of(pkt: &mut Packet) -> u8 {
        match pkt.ipv4() {
            Some(ip) => ip.ttl(),
            None => 0,
        }
    }

    #[cold]
    fn counted(pkt: u32) -> u64 {
        u64::from(pkt) * 2
    }

    /// A cookie, a text, a magic number: parts of a payload against bytes.
    pub fn idiom_229(pkt: &mut Packet) -> u64 {
        let payload = pkt.payload();
        let is_get = &payload[..4] == b"GET ";
        let is_other = payload[1..3] != [b'E', b'T'];
        let is_magic = MAGIC == payload[4..8] || payload == &MAGIC;
        u64::from(is_get) + u64::from(is_other) * 2 + u64::from(is_magic) * 4
    }

    const MAGIC: [u8; 4] = *b"/abc";

    pub fn idiom_230(pkt: &mut Packet) -> u64 {
        match (pkt.ipv4(), pkt.ipv6()) {
            (Some(ip), _) if ip.ttl() > 1 => u64::from(ip.ttl()),
            (Some(_), _) => 300,
            (_, Some(ip)) => u64::from(ip.hop_limit()),
            _ => 301,
        }
    }

    pub fn idiom_231(pkt: &mut Packet) -> u64 {
        let payload = pkt.payload();
        let mut at = 0;
        let mut words = 0;
        while at + 1 < payload.len() && words < 3 {
            let word = u16::from_be_bytes([payload[at], payload[at + 1]]);
            if word == 0x2f61 {
                break;
            }
            at += 2;
            words += 1;
        }
        words
    }

    pub fn idiom_232(pkt: &mut Packet) -> u64 {
        if let Some(udp) = pkt.udp()
            && udp.dst() == 53
            && let Some(&first) = pkt.payload().first()
        {
            return u64::from(first >> 4);
        }
        99
    }

    pub fn idiom_233(pkt: &mut Packet) -> u64 {
        match &pkt.payload()[..4] {
            b"GET " => 1,
            b"POST" => 2,
            _ => 3,
        }
    }

    pub fn idiom_234(pkt: &mut Packet) -> u64 {
        let dscp = pkt.ipv4().map(|ip| ip.dscp()).unwrap_or(0);
        if let Some(mut ip) = pkt.ipv4_mut() {
            ip.set_dscp(dscp | 0b1010);
        } else if let Some(mut ip) = pkt.ipv6_mut() {
            let ecn = ip.traffic_class() & 3;
            ip.set_traffic_class(10 << 2 | ecn);
        }
        u64::from(dscp)
    }

    /// Connections announce no larger segments than fit; what was announced, and what is now.
    pub fn idiom_235(pkt: &mut Packet) -> u64 {
        let Some(tcp) = pkt.tcp() else { return 0 };
        let announced = tcp.mss();
        if tcp.syn()
            && announced > 1_360
            && let Some(mut tcp) = pkt.tcp_mut()
        {
            tcp.set_mss(1_360);
        }
        if let Some(mut tcp) = pkt.tcp_mut() {
            let mss = tcp.mss();
            tcp.set_mss(mss.min(1_300));
        }
        u64::from(announced) << 16 | pkt.tcp().map_or(0, |tcp| u64::from(tcp.mss()))
    }

    /// A connection's sender has begun elsewhere: numbers move by as much, and a window is narrowed.
    pub fn idiom_236(pkt: &mut Packet) -> u64 {
        let moved = 0xffff_0123u32;
        if let Some(mut tcp) = pkt.tcp_mut() {
            let (sequence, window) = (tcp.sequence().wrapping_add(moved), tcp.window());
            tcp.set_sequence(sequence);
            if tcp.ack() {
                let acknowledgement = tcp.acknowledgement();
                tcp.set_acknowledgement(acknowledgement.wrapping_sub(moved));
            }
            if window > 16_384 {
                tcp.set_window(16_384);
            }
        }
        let left = pkt.tcp().map(|tcp| (tcp.sequence(), tcp.acknowledgement(), tcp.window()));
        left.map_or(0, |(sequence, acknowledgement, window)| {
            u64::from(sequence ^ acknowledgement) << 16 | u64::from(window)
        })
    }
}

//! A stateful firewall between two networks: inside may open, outside may answer.
//!
//! A TCP connection, a UDP flow or an ICMP echo, over IPv4 or IPv6, is opened by its first packet
//! from `inside`; from then on packets of the same addresses and ports pass in both directions until
//! it has been idle for its timeout. What comes from `outside` and belongs to none is dropped. A
//! packet that comes in on the side where its source address is not is dropped too.
//!
//! TCP is followed as in RFC 6146, section 3.5.2 (SYN, SYN-ACK, established, a FIN each way, RST),
//! with simultaneous open (RFC 5382, REQ-2) and recovery of half-open connections (RFC 9293, section
//! 3.5.1):
//!
//! ```text
//!   SYN →         SYN ACK ←          ACK →           FIN →, FIN ←
//! ──────▶ SynSent ───────▶ SynReceived ──▶ Established ──▶ FinInside, FinOutside ──▶ Closed
//!            half_open_timeout_s           established_timeout_s        closing_timeout_s
//!   RST of either side, in any state ──▶ Reset                          closing_timeout_s
//! ```
//!
//! After a RST packets still pass, and an ACK or data says that the connection goes on (RFC 6146, section
//! 3.5.2.2); after `closing_timeout_s` of silence it is forgotten: a forged RST costs an idle connection, never a
//! busy one. Segments whose flags no host
//! sends (SYN with FIN, none at all) and segments out of state are dropped with reasons of their own.
//! A connection that does not begin with a SYN is dropped, unless `loose` is set (after a restart).
//! The default timeouts are those that RFC 5382 (REQ-5: 2 h 4 min established, 4 min half-open and
//! closing), RFC 4787 (REQ-5: UDP 5 min, no less than 2) and RFC 5508 (REQ-2: echo 60 s) ask for.
//!
//! Passed both ways without state: ARP, IPv6 neighbour discovery and multicast listener discovery
//! that no router has forwarded (RFC 4890, section 4.4), so that the firewall can stand between
//! hosts; ICMP errors, without which path MTU discovery fails (RFC 4890, section 4.3.1), if
//! `allow_errors` is set and the packet they quote was sent by the host they are addressed to, which
//! is as much as can be told from the error alone. Redirects never pass. Fragments are put together first,
//! so that none hides what it carries (RFC 1858, RFC 3128).
//!
//! Not done: sequence numbers are not checked; a dropped packet of an open connection restarts its
//! timeout like any other; nothing outside may open (no published services) and no protocol that
//! opens connections of its own (FTP, SIP) is read; other protocols (ESP, GRE, SCTP) are dropped.

use anabranch_nf::prelude::*;

pub use firewall::Function;

/// Lets inside open connections and outside answer them: TCP by its states, UDP and ICMP echo by
/// timeouts, over IPv4 and IPv6 (RFC 6146, 5382, 4787, 5508).
#[network_function(ports(inside, outside), layer = 4)]
pub mod firewall {
    pub struct Settings {
        /// Connections at once, of IPv4 and of IPv6 each; more are dropped.
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub flows: u32,
        /// Seconds that a TCP connection may be idle before it is established.
        #[setting(default = 240, min = 1, max = 86_400)]
        pub half_open_timeout_s: u64,
        /// Seconds that an established TCP connection may be idle.
        #[setting(default = 7_440, min = 1, max = 2_246_400)]
        pub established_timeout_s: u64,
        /// Seconds that a TCP connection is remembered once both sides have closed it, or one has
        /// reset it.
        #[setting(default = 240, min = 1, max = 86_400)]
        pub closing_timeout_s: u64,
        /// Seconds that a UDP flow may be idle.
        #[setting(default = 300, min = 1, max = 86_400)]
        pub udp_timeout_s: u64,
        /// Seconds that an ICMP echo may be idle.
        #[setting(default = 60, min = 1, max = 86_400)]
        pub icmp_timeout_s: u64,
        /// Take up TCP connections from inside whose beginning was not seen.
        #[setting(default = false)]
        pub loose: bool,
        /// Pass ICMP errors that quote a packet of the host they are addressed to.
        #[setting(default = true)]
        pub allow_errors: bool,
    }

    pub enum Reason {
        /// Comes from outside, and inside has opened nothing that it could answer.
        Unsolicited,
        /// Begins a TCP connection without a SYN.
        NotSyn,
        /// TCP flags that no host sends.
        BadTcpFlags,
        /// Not what the connection's state allows to follow.
        OutOfState,
        /// Comes in on the side where its source address is not.
        WrongSide,
        /// An ICMP error that is not wanted, or quotes no packet of the host it is addressed to.
        UnwantedError,
    }

    // Two bytes, so that two IPv4 connections share a cache line.
    #[packet_set(
        tcp(ip.src, ip.dst, tcp.src, tcp.dst),
        udp(ip.src, ip.dst, udp.src, udp.dst),
        icmp(ip.src, ip.dst, icmp.id),
        bidirectional,
        capacity = settings.flows,
        expires_s = settings.udp_timeout_s
    )]
    pub struct Connection {
        state: State,
        /// The address inside is the lower one: the side that a packet's source must come from.
        inside_is_lower: bool,
    }

    /// Of a TCP connection; others stay `New`.
    pub enum State {
        New,
        SynSent,
        SynReceived,
        Established,
        FinInside,
        FinOutside,
        Closed,
        Reset,
    }

    /// What a segment says to the connection.
    pub enum Segment {
        Syn,
        SynAck,
        Ack,
        Fin,
        Rst,
        Bad,
    }

    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const ACK: u8 = 16;

    const ETHERTYPE_ARP: u16 = 0x0806;
    const TCP: u8 = 6;
    const NS_PER_S: u64 = 1_000_000_000;

    pub struct Firewall {
        settings: Settings,
    }

    impl Firewall {
        fn packet_set_opened(
            &mut self,
            pkt: &mut Packet,
            cx: &mut Context,
        ) -> Result<Connection, Verdict> {
            if pkt.port() == OUTSIDE {
                return Err(Drop(Reason::Unsolicited));
            }
            if let Some(tcp) = pkt.tcp() {
                match segment(tcp.flags()) {
                    Segment::Syn => {}
                    Segment::Bad => return Err(Drop(Reason::BadTcpFlags)),
                    Segment::Ack if self.settings.loose => {}
                    _ => return Err(Drop(Reason::NotSyn)),
                }
            } else if pkt.udp().is_none() {
                cx.set_expiry(self.settings.icmp_timeout_s * NS_PER_S);
            }
            Ok(Connection { state: State::New, inside_is_lower: inside_is_lower(pkt) })
        }

        fn packet(&mut self, set: &mut Connection, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if inside_is_lower(pkt) != set.inside_is_lower {
                return Drop(Reason::WrongSide);
            }
            if let Some(tcp) = pkt.tcp() {
                let flags = tcp.flags();
                if set.state != State::Established || flags & (SYN | ACK | FIN | RST) != ACK {
                    let from_inside = pkt.port() == INSIDE;
                    match next(set.state, segment(flags), from_inside) {
                        Ok(state) => self.enter(state, set, cx),
                        Err(reason) => return Drop(reason),
                    }
                }
            } else if pkt.udp().is_none() && is_echo_request(pkt) != (pkt.port() == INSIDE) {
                return Drop(Reason::OutOfState);
            }
            Forward(pkt.port().other())
        }

        fn enter(&self, state: State, set: &mut Connection, cx: &mut Context) {
            if state != set.state {
                set.state = state;
                cx.set_expiry(self.timeout_s(state) * NS_PER_S);
            }
        }

        fn timeout_s(&self, state: State) -> u64 {
            match state {
                State::New | State::SynSent | State::SynReceived => {
                    self.settings.half_open_timeout_s
                }
                State::Established | State::FinInside | State::FinOutside => {
                    self.settings.established_timeout_s
                }
                State::Closed | State::Reset => self.settings.closing_timeout_s,
            }
        }

        fn orphan(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if is_of_the_link(pkt) {
                return Forward(pkt.port().other());
            }
            if is_error(pkt) {
                return self.error(pkt);
            }
            Drop(Builtin::UnsupportedProtocol)
        }

        fn error(&self, pkt: &Packet) -> Verdict {
            if !self.settings.allow_errors || !quotes_its_addressee(pkt) {
                return Drop(Reason::UnwantedError);
            }
            Forward(pkt.port().other())
        }
    }

    /// Whether the address inside is lower than the one outside, if the packet comes from where its
    /// source is. Equal addresses say nothing, and never differ.
    fn inside_is_lower(pkt: &Packet) -> bool {
        let from_inside = pkt.port() == INSIDE;
        if let Some(ip) = pkt.ipv4() {
            let (src, dst) = (u32::from(ip.src()), u32::from(ip.dst()));
            return if from_inside { src < dst } else { dst < src };
        }
        if let Some(ip) = pkt.ipv6() {
            let (src, dst) = (u128::from(ip.src()), u128::from(ip.dst()));
            return if from_inside { src < dst } else { dst < src };
        }
        false
    }

    fn segment(flags: u8) -> Segment {
        match (flags & SYN != 0, flags & ACK != 0, flags & FIN != 0, flags & RST != 0) {
            (true, false, false, false) => Segment::Syn,
            (true, true, false, false) => Segment::SynAck,
            (false, true, false, false) => Segment::Ack,
            (false, true, true, false) => Segment::Fin,
            (false, _, false, true) => Segment::Rst,
            _ => Segment::Bad,
        }
    }

    /// The state after `segment`, or why it is not let through.
    fn next(state: State, segment: Segment, from_inside: bool) -> Result<State, Reason> {
        match segment {
            Segment::Bad => Err(Reason::BadTcpFlags),
            Segment::Rst => Ok(State::Reset),
            Segment::Syn => after_syn(state, from_inside),
            Segment::SynAck => after_syn_ack(state, from_inside),
            Segment::Ack => after_ack(state, from_inside),
            Segment::Fin => after_fin(state, from_inside),
        }
    }

    /// Outside opens nothing, but two hosts may open one connection at the same time.
    fn after_syn(state: State, from_inside: bool) -> Result<State, Reason> {
        match (state, from_inside) {
            (State::New | State::SynSent | State::Closed | State::Reset, true) => {
                Ok(State::SynSent)
            }
            (_, true) => Ok(state),
            (State::SynSent | State::SynReceived, false) => Ok(State::SynReceived),
            (_, false) => Err(Reason::OutOfState),
        }
    }

    /// Where one side has closed, it answers a SYN that opens the same again; that SYN may have been an old one.
    fn after_syn_ack(state: State, from_inside: bool) -> Result<State, Reason> {
        match (state, from_inside) {
            (State::SynSent | State::FinInside | State::FinOutside, false) => {
                Ok(State::SynReceived)
            }
            (State::New | State::SynSent, _) => Err(Reason::OutOfState),
            _ => Ok(state),
        }
    }

    /// An ACK in answer to a SYN comes from a host that still holds an earlier connection: the one
    /// inside will reset it.
    fn after_ack(state: State, from_inside: bool) -> Result<State, Reason> {
        match (state, from_inside) {
            (State::New | State::Reset, _) | (State::SynReceived, true) => Ok(State::Established),
            (State::SynSent, true) => Err(Reason::OutOfState),
            _ => Ok(state),
        }
    }

    fn after_fin(state: State, from_inside: bool) -> Result<State, Reason> {
        match (state, from_inside) {
            (State::New | State::SynSent, _) => Err(Reason::OutOfState),
            (State::Closed | State::Reset, _) => Ok(state),
            (State::FinOutside, true) | (State::FinInside, false) => Ok(State::Closed),
            (_, true) => Ok(State::FinInside),
            (_, false) => Ok(State::FinOutside),
        }
    }

    fn is_echo_request(pkt: &Packet) -> bool {
        pkt.icmpv4().is_some_and(|icmp| icmp.kind() == 8)
            || pkt.icmpv6().is_some_and(|icmp| icmp.kind() == 128)
    }

    /// ARP; router and neighbour solicitations and advertisements (hop limit 255) and multicast
    /// listener messages (hop limit 1), which no router can have forwarded.
    fn is_of_the_link(pkt: &Packet) -> bool {
        if pkt.ethernet().ethertype() == ETHERTYPE_ARP {
            return true;
        }
        let Some(ip) = pkt.ipv6() else { return false };
        let Some(icmp) = pkt.icmpv6() else { return false };
        match icmp.kind() {
            133..=136 => ip.hop_limit() == 255,
            130..=132 | 143 => ip.hop_limit() == 1,
            _ => false,
        }
    }

    fn is_error(pkt: &Packet) -> bool {
        pkt.icmpv4().is_some_and(|icmp| icmp.is_error())
            || pkt.icmpv6().is_some_and(|icmp| icmp.is_error())
    }

    /// Errors go to the sender of the packet that they quote.
    fn quotes_its_addressee(pkt: &Packet) -> bool {
        let Some(quoted) = pkt.embedded() else { return false };
        pkt.ipv4().is_some_and(|ip| ip.dst() == quoted.src())
            || pkt.ipv6().is_some_and(|ip| ip.dst() == quoted.src6())
    }
}

#[cfg(test)]
mod tests;

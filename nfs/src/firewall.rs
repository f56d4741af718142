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
//! After a RST packets still pass, but the connection is forgotten after `closing_timeout_s` of
//! silence: a forged RST costs an idle connection, never a busy one. Segments whose flags no host
//! sends (SYN with FIN, none at all) and segments out of state are dropped with reasons of their own.
//! A connection that does not begin with a SYN is dropped, unless `loose` is set (after a restart).
//! The default timeouts are those that RFC 5382 (REQ-5: 2 h 4 min established, 4 min half-open and
//! closing), RFC 4787 (REQ-5: UDP 5 min, no less than 2) and RFC 5508 (REQ-2: echo 60 s) ask for.
//!
//! Passed both ways without state: ARP, IPv6 neighbour discovery and multicast listener discovery
//! that no router has forwarded (RFC 4890, section 4.4), so that the firewall can stand between
//! hosts; ICMP errors, without which path MTU discovery fails (RFC 4890, section 4.3.1), if
//! `allow_errors` is set and the packet they quote was sent by the host they are addressed to, which
//! is as much as can be told from the error alone; and fragments but the first, which have no ports
//! and are worth nothing without it, unless `fragments = drop`.
//!
//! Not done: sequence numbers are not checked; a dropped packet of an open connection restarts its
//! timeout like any other; nothing outside may open (no published services) and no protocol that
//! opens connections of its own (FTP, SIP) is read; other protocols (ESP, GRE, SCTP) are dropped.

use anabranch_nf::prelude::*;

pub use firewall::Function;

/// Lets inside open connections and outside answer them: TCP by its states, UDP and ICMP echo by
/// timeouts, over IPv4 and IPv6 (RFC 6146, 5382, 4787, 5508).
#[network_function(ports(inside, outside))]
pub mod firewall {
    pub struct Settings {
        /// Connections at once, of IPv4 and of IPv6 each; more are dropped.
        #[setting(default = 65_536, min = 1, max = 16_777_216)]
        pub flows: u32,
        /// Seconds that a TCP connection may be idle before it is established.
        #[setting(default = 240, min = 1, max = 86_400)]
        pub half_open_timeout_s: u64,
        /// Seconds that an established TCP connection may be idle.
        #[setting(default = 7_440, min = 1, max = 2_592_000)]
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
        /// What becomes of fragments that have no ports.
        #[setting(default = Fragments::Pass)]
        pub fragments: Fragments,
    }

    pub enum Fragments {
        /// They pass, both ways.
        Pass,
        /// They are dropped.
        Drop,
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
        /// A fragment without ports, and these are not let through.
        Fragment,
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
            if pkt.is_fragment() && !pkt.is_first_fragment() {
                return self.fragment(pkt);
            }
            if is_error(pkt) {
                return self.error(pkt);
            }
            Drop(Builtin::UnsupportedProtocol)
        }

        /// A fragment that begins within the TCP header may overwrite flags that have passed (RFC
        /// 3128), and no host sends such.
        fn fragment(&self, pkt: &Packet) -> Verdict {
            let overlaps =
                pkt.ipv4().is_some_and(|ip| ip.protocol() == TCP && ip.fragment_offset() == 1);
            if overlaps || self.settings.fragments == Fragments::Drop {
                return Drop(Reason::Fragment);
            }
            Forward(pkt.port().other())
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

    fn after_syn_ack(state: State, from_inside: bool) -> Result<State, Reason> {
        match (state, from_inside) {
            (State::SynSent, false) => Ok(State::SynReceived),
            (State::New | State::SynSent, _) => Err(Reason::OutOfState),
            _ => Ok(state),
        }
    }

    /// An ACK in answer to a SYN comes from a host that still holds an earlier connection: the one
    /// inside will reset it.
    fn after_ack(state: State, from_inside: bool) -> Result<State, Reason> {
        match (state, from_inside) {
            (State::New, _) | (State::SynReceived, true) => Ok(State::Established),
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
mod tests {
    use super::firewall;
    use crate::frames::{arp, echo, error, ethernet, solicitation, tcp, udp};
    use anabranch_nf::packet::craft::{IcmpError, tcp_flags::*};
    use anabranch_runtime::testing::Harness;

    type Firewall = Harness<firewall::Function>;

    const INSIDE: u8 = 0;
    const OUTSIDE: u8 = 1;
    const SECOND: u64 = 1_000_000_000;
    /// Resolution of lifetimes.
    const TICK: u64 = 1 << 20;
    const HOST: &str = "10.0.0.1:5000";
    const SERVER: &str = "198.51.100.1:80";
    const HOST6: &str = "[2001:db8:1::1]:5000";
    const SERVER6: &str = "[2001:db8:2::1]:80";

    fn firewall(settings: &[&str]) -> Firewall {
        Harness::new(settings)
    }

    /// `Ok` where it leaves unchanged by the other port, else the reason.
    fn sent(firewall: &mut Firewall, port: u8, frame: &[u8]) -> Result<(), &'static str> {
        let outcome = firewall.send(port, frame);
        match outcome.dropped() {
            Some(reason) => Err(reason),
            None => {
                assert_eq!(outcome.forwarded(), [(1 - port, frame.to_vec())]);
                Ok(())
            }
        }
    }

    fn out(firewall: &mut Firewall, flags: u8) -> Result<(), &'static str> {
        sent(firewall, INSIDE, &tcp(HOST, SERVER, flags))
    }

    fn back(firewall: &mut Firewall, flags: u8) -> Result<(), &'static str> {
        sent(firewall, OUTSIDE, &tcp(SERVER, HOST, flags))
    }

    fn established(settings: &[&str]) -> Firewall {
        let mut firewall = firewall(settings);
        assert_eq!(out(&mut firewall, SYN), Ok(()));
        assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
        assert_eq!(out(&mut firewall, ACK), Ok(()));
        firewall
    }

    /// Whether an answer still passes just before `idle_s` have passed since the last packet, which
    /// was sent at `since_s`, and no longer when they have. The probe refreshes, so each is made in a
    /// firewall of its own.
    fn lives_for(make: impl Fn() -> Firewall, since_s: u64, idle_s: u64) {
        let mut before = make();
        before.at((since_s + idle_s) * SECOND - TICK);
        assert_eq!(back(&mut before, ACK), Ok(()), "still there");
        let mut after = make();
        after.at((since_s + idle_s) * SECOND + TICK);
        assert_eq!(back(&mut after, ACK), Err("unsolicited"), "gone");
    }

    #[test]
    fn inside_opens_and_outside_answers() {
        for (host, server) in [(HOST, SERVER), (SERVER, HOST), (HOST6, SERVER6), (SERVER6, HOST6)] {
            let mut firewall = firewall(&[]);
            let (there, back) = (udp(host, server), udp(server, host));
            assert_eq!(sent(&mut firewall, OUTSIDE, &back), Err("unsolicited"));
            assert_eq!(sent(&mut firewall, INSIDE, &there), Ok(()));
            assert_eq!(sent(&mut firewall, OUTSIDE, &back), Ok(()));
            assert_eq!(sent(&mut firewall, INSIDE, &there), Ok(()));
        }
    }

    #[test]
    fn only_the_same_ends_may_answer() {
        let mut firewall = firewall(&[]);
        assert_eq!(sent(&mut firewall, INSIDE, &udp(HOST, SERVER)), Ok(()));
        for (src, dst) in [
            ("198.51.100.2:80", HOST),
            ("198.51.100.1:81", HOST),
            (SERVER, "10.0.0.2:5000"),
            (SERVER, "10.0.0.1:5001"),
        ] {
            assert_eq!(sent(&mut firewall, OUTSIDE, &udp(src, dst)), Err("unsolicited"));
        }
        assert_eq!(sent(&mut firewall, OUTSIDE, &tcp(SERVER, HOST, SYN)), Err("unsolicited"));
    }

    #[test]
    fn a_source_on_the_wrong_side_is_dropped() {
        for (host, server) in [(HOST, SERVER), (SERVER, HOST), (HOST6, SERVER6)] {
            let mut firewall = firewall(&[]);
            assert_eq!(sent(&mut firewall, INSIDE, &udp(host, server)), Ok(()));
            assert_eq!(sent(&mut firewall, OUTSIDE, &udp(host, server)), Err("wrong-side"));
            assert_eq!(sent(&mut firewall, INSIDE, &udp(server, host)), Err("wrong-side"));
        }
    }

    #[test]
    fn a_connection_from_beginning_to_end() {
        let mut firewall = established(&[]);
        for _ in 0..3 {
            assert_eq!(out(&mut firewall, ACK | PSH), Ok(()));
            assert_eq!(back(&mut firewall, ACK), Ok(()));
        }
        assert_eq!(out(&mut firewall, FIN | ACK), Ok(()));
        assert_eq!(back(&mut firewall, ACK), Ok(()));
        assert_eq!(back(&mut firewall, FIN | ACK), Ok(()));
        assert_eq!(out(&mut firewall, ACK), Ok(()));
        assert_eq!(back(&mut firewall, SYN), Err("out-of-state"), "outside does not open");
        assert_eq!(out(&mut firewall, SYN), Ok(()), "inside may open the same again");
        assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
    }

    #[test]
    fn tcp_begins_with_a_syn_from_inside() {
        let mut firewall = firewall(&[]);
        assert_eq!(out(&mut firewall, ACK), Err("not-syn"));
        assert_eq!(out(&mut firewall, SYN | ACK), Err("not-syn"));
        assert_eq!(out(&mut firewall, FIN | ACK), Err("not-syn"));
        assert_eq!(out(&mut firewall, RST), Err("not-syn"));
        assert_eq!(back(&mut firewall, SYN), Err("unsolicited"));
        assert_eq!(firewall.table("Connection (IPv4)").used, 0);
    }

    #[test]
    fn loose_takes_up_what_runs_already() {
        let mut firewall = firewall(&["loose=true"]);
        assert_eq!(back(&mut firewall, ACK), Err("unsolicited"));
        assert_eq!(out(&mut firewall, RST), Err("not-syn"));
        assert_eq!(out(&mut firewall, ACK | PSH), Ok(()));
        assert_eq!(back(&mut firewall, ACK), Ok(()));
        assert_eq!(back(&mut firewall, FIN | ACK), Ok(()));
    }

    #[test]
    fn flags_that_no_host_sends_are_dropped() {
        let bad = [0, PSH, FIN, SYN | FIN, SYN | RST, SYN | FIN | ACK, FIN | RST | ACK, FIN | PSH];
        for flags in bad {
            let mut firewall = firewall(&["loose=true"]);
            assert_eq!(out(&mut firewall, flags), Err("bad-tcp-flags"), "{flags:#x}");
            let mut firewall = established(&[]);
            assert_eq!(out(&mut firewall, flags), Err("bad-tcp-flags"), "{flags:#x}");
            assert_eq!(back(&mut firewall, flags), Err("bad-tcp-flags"), "{flags:#x}");
        }
    }

    #[test]
    fn what_the_state_does_not_allow_is_dropped() {
        let mut firewall = firewall(&[]);
        assert_eq!(out(&mut firewall, SYN), Ok(()));
        assert_eq!(out(&mut firewall, ACK), Err("out-of-state"), "nothing to acknowledge yet");
        assert_eq!(back(&mut firewall, FIN | ACK), Err("out-of-state"));
        assert_eq!(back(&mut firewall, ACK), Ok(()), "of a half-open connection, to be reset");
        assert_eq!(out(&mut firewall, SYN), Ok(()), "again");
        assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
        assert_eq!(back(&mut firewall, SYN | ACK), Ok(()), "again");
        assert_eq!(out(&mut firewall, ACK), Ok(()));
        assert_eq!(back(&mut firewall, SYN), Err("out-of-state"));
    }

    #[test]
    fn both_sides_may_open_at_once() {
        let mut firewall = firewall(&[]);
        assert_eq!(out(&mut firewall, SYN), Ok(()));
        assert_eq!(back(&mut firewall, SYN), Ok(()));
        assert_eq!(out(&mut firewall, SYN | ACK), Ok(()));
        assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
        assert_eq!(out(&mut firewall, ACK), Ok(()));
    }

    #[test]
    fn a_half_open_connection_has_its_own_timeout() {
        for settings in [&[][..], &["half_open_timeout_s=10"]] {
            let idle_s = if settings.is_empty() { 240 } else { 10 };
            let syn_sent = || {
                let mut firewall = firewall(settings);
                assert_eq!(out(&mut firewall, SYN), Ok(()));
                firewall
            };
            lives_for(syn_sent, 0, idle_s);
            let syn_received = || {
                let mut firewall = syn_sent();
                firewall.at(SECOND);
                assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
                firewall
            };
            lives_for(syn_received, 1, idle_s);
        }
    }

    #[test]
    fn an_established_connection_lives_two_hours_and_four_minutes() {
        lives_for(|| established(&[]), 0, 7_440);
        lives_for(|| established(&["established_timeout_s=100"]), 0, 100);
        let half_closed = || {
            let mut firewall = established(&[]);
            assert_eq!(out(&mut firewall, FIN | ACK), Ok(()));
            firewall
        };
        lives_for(half_closed, 0, 7_440);
    }

    #[test]
    fn a_closed_or_reset_connection_is_soon_forgotten() {
        let closed = || {
            let mut firewall = established(&["closing_timeout_s=20"]);
            assert_eq!(out(&mut firewall, FIN | ACK), Ok(()));
            assert_eq!(back(&mut firewall, FIN | ACK), Ok(()));
            firewall
        };
        lives_for(closed, 0, 20);
        for from_inside in [true, false] {
            let reset = || {
                let mut firewall = established(&[]);
                let reset = if from_inside { out } else { back };
                assert_eq!(reset(&mut firewall, RST | ACK), Ok(()));
                firewall
            };
            lives_for(reset, 0, 240);
        }
    }

    #[test]
    fn a_forged_reset_does_not_cut_a_busy_connection() {
        let mut firewall = established(&[]);
        assert_eq!(back(&mut firewall, RST), Ok(()));
        for minute in 0..60 {
            firewall.at(minute * 60 * SECOND);
            assert_eq!(out(&mut firewall, ACK), Ok(()));
        }
        assert_eq!(out(&mut firewall, SYN), Ok(()), "and a real one makes way");
        assert_eq!(back(&mut firewall, SYN | ACK), Ok(()));
    }

    #[test]
    fn udp_lives_five_minutes_from_its_last_packet() {
        let probe = |at_ns: u64| {
            let mut firewall = firewall(&[]);
            assert_eq!(sent(&mut firewall, INSIDE, &udp(HOST6, SERVER6)), Ok(()));
            firewall.at(SECOND);
            assert_eq!(sent(&mut firewall, OUTSIDE, &udp(SERVER6, HOST6)), Ok(()));
            firewall.at(at_ns);
            sent(&mut firewall, OUTSIDE, &udp(SERVER6, HOST6))
        };
        assert_eq!(probe(301 * SECOND - TICK), Ok(()));
        assert_eq!(probe(301 * SECOND + TICK), Err("unsolicited"));
    }

    #[test]
    fn echoes_are_requested_inside_and_answered_outside() {
        for (host, peer) in [("10.0.0.1", "198.51.100.1"), ("2001:db8::1", "2001:db8:2::1")] {
            let mut firewall = firewall(&[]);
            assert_eq!(sent(&mut firewall, INSIDE, &echo(host, peer, false, 7)), Ok(()));
            let reply = echo(peer, host, true, 7);
            assert_eq!(sent(&mut firewall, OUTSIDE, &reply), Ok(()));
            let request = echo(peer, host, false, 7);
            assert_eq!(sent(&mut firewall, OUTSIDE, &request), Err("out-of-state"));
            let stranger = echo(peer, host, true, 8);
            assert_eq!(sent(&mut firewall, OUTSIDE, &stranger), Err("unsolicited"));
            firewall.at(61 * SECOND);
            assert_eq!(sent(&mut firewall, OUTSIDE, &reply), Err("unsolicited"));
        }
    }

    #[test]
    fn a_full_table_drops_new_connections_and_keeps_the_old() {
        let mut firewall = firewall(&["flows=2", "udp_timeout_s=10"]);
        let to = |n: u8| udp(HOST, &format!("198.51.100.{n}:53"));
        assert_eq!(sent(&mut firewall, INSIDE, &to(1)), Ok(()));
        assert_eq!(sent(&mut firewall, INSIDE, &to(2)), Ok(()));
        assert_eq!(sent(&mut firewall, INSIDE, &to(3)), Err("packet-sets-full"));
        assert_eq!(sent(&mut firewall, INSIDE, &to(2)), Ok(()));
        assert_eq!(sent(&mut firewall, INSIDE, &udp(HOST6, SERVER6)), Ok(()), "IPv6 has its own");
        firewall.at(11 * SECOND);
        assert_eq!(sent(&mut firewall, INSIDE, &to(3)), Ok(()));
        assert_eq!(firewall.table("Connection (IPv4)").used, 1);
    }

    #[test]
    fn hosts_find_each_other() {
        let mut firewall = firewall(&[]);
        for port in [INSIDE, OUTSIDE] {
            assert_eq!(sent(&mut firewall, port, &arp("10.0.0.1", "10.0.0.2")), Ok(()));
            let mut solicitation = solicitation("fe80::1", "fe80::2");
            assert_eq!(sent(&mut firewall, port, &solicitation), Ok(()));
            solicitation[14 + 7] = 254;
            let forwarded = sent(&mut firewall, port, &solicitation);
            assert_eq!(forwarded, Err("unsupported-protocol"), "a router has forwarded it");
        }
    }

    #[test]
    fn errors_pass_to_whom_they_concern() {
        for (host, server, router) in
            [(HOST, SERVER, "203.0.113.9"), (HOST6, SERVER6, "2001:db8:9::9")]
        {
            let mut firewall = firewall(&[]);
            let too_big = error(&udp(host, server), router, IcmpError::TooBig { mtu: 1_280 });
            assert_eq!(sent(&mut firewall, OUTSIDE, &too_big), Ok(()));
            let mut forged = too_big.clone();
            let source_of_quote = if host == HOST { 14 + 20 + 8 + 15 } else { 14 + 40 + 8 + 23 };
            forged[source_of_quote] ^= 2;
            assert_eq!(sent(&mut firewall, OUTSIDE, &forged), Err("unwanted-error"));
            let mut strict = Harness::new(&["allow_errors=false"]);
            assert_eq!(sent(&mut strict, OUTSIDE, &too_big), Err("unwanted-error"));
        }
    }

    /// `frame` as a fragment at `offset` (in units of 8 bytes), more following.
    fn fragment(mut frame: Vec<u8>, offset: u16) -> Vec<u8> {
        frame[20..22].copy_from_slice(&(0x2000 | offset).to_be_bytes());
        frame
    }

    #[test]
    fn first_fragments_have_ports_and_others_pass_or_not() {
        let mut firewall = firewall(&[]);
        let (first, later) = (fragment(udp(SERVER, HOST), 0), fragment(udp(SERVER, HOST), 100));
        assert_eq!(sent(&mut firewall, OUTSIDE, &first), Err("unsolicited"));
        assert_eq!(sent(&mut firewall, INSIDE, &udp(HOST, SERVER)), Ok(()));
        assert_eq!(sent(&mut firewall, OUTSIDE, &first), Ok(()));
        assert_eq!(sent(&mut firewall, OUTSIDE, &later), Ok(()));
        let overlapping = fragment(tcp(SERVER, HOST, SYN), 1);
        assert_eq!(sent(&mut firewall, OUTSIDE, &overlapping), Err("fragment"));
        let mut strict = Harness::new(&["fragments=drop"]);
        assert_eq!(sent(&mut strict, OUTSIDE, &later), Err("fragment"));
        assert_eq!(sent(&mut strict, INSIDE, &later), Err("fragment"));
    }

    #[test]
    fn other_protocols_and_malformed_packets_are_dropped() {
        let mut firewall = firewall(&[]);
        let mut gre = udp(HOST, SERVER);
        gre[23] = 47;
        assert_eq!(sent(&mut firewall, INSIDE, &gre), Err("unsupported-protocol"));
        let lldp = ethernet("02:00:00:00:00:01", "01:80:c2:00:00:0e");
        assert_eq!(sent(&mut firewall, OUTSIDE, &lldp), Err("unsupported-protocol"));
        let cut = &tcp(HOST, SERVER, SYN)[..40];
        assert_eq!(sent(&mut firewall, INSIDE, cut), Err("ipv4-total-length"));
    }
}

//! A router for IPv4 and IPv6, and nothing but that.
//!
//! Everything it does is done by `L3`: interfaces, routes and neighbours come from the operator's
//! configuration (`docs/l3.md`); ARP, neighbour discovery and echo are answered, hops counted,
//! packets held against the MTU, errors sent (RFC 1812, RFC 4861). It is the example of a function
//! that routes: others do their own work between `receive` and `forward`.

use anabranch_nf::prelude::*;

pub use router::Function;

/// Forwards IPv4 and IPv6 packets by their destination address (RFC 1812), between interfaces given
/// in the configuration.
#[network_function(ports(..))]
pub mod router {
    pub struct Router {
        l3: L3,
    }

    impl Router {
        fn init(&mut self, cx: &mut Context) {
            if !self.l3.enabled() {
                log!(cx, warn, "no interfaces are configured: nothing is forwarded");
            }
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if let Some(verdict) = self.l3.receive(pkt, cx) {
                return verdict;
            }
            self.l3.forward(pkt, cx)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::router;
    use crate::frames::{echo, udp};
    use anabranch_runtime::testing::{Arrived, Harness, Outcome, Sharing, SideBySide};

    const NETWORK: &str = r#"
        [interfaces.p0]
        mac = "02:00:00:00:00:02"
        addresses = ["10.0.0.1/24", "fd00::1/64"]
        [interfaces.p2]
        mac = "02:00:00:00:00:03"
        addresses = ["198.51.100.2/24"]
        [[routes]]
        to = "203.0.113.0/24"
        via = "198.51.100.1"
        [[neighbours]]
        address = "198.51.100.1"
        mac = "02:00:00:00:00:09"
    "#;

    fn harness(text: &str) -> Harness<router::Function> {
        let table = text.parse().expect("TOML");
        Harness::with_table(table).expect("a right configuration")
    }

    #[test]
    fn forwards_by_destination() {
        let mut router = harness(NETWORK);
        let outcome = router.send(0, &udp("10.0.0.7:5", "203.0.113.5:53"));
        let [(2, frame)] = outcome.forwarded() else { panic!("{outcome:?}") };
        assert_eq!(frame[..12], [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 3]);
        let outcome = router.send(0, &udp("10.0.0.7:5", "203.0.114.5:53"));
        assert_eq!(outcome.dropped(), Some("no-route"));
        assert_eq!(outcome.emitted().len(), 1, "network unreachable");
    }

    #[test]
    fn answers_for_itself() {
        let mut router = harness(NETWORK);
        for (host, own) in [("10.0.0.7", "198.51.100.2"), ("fd00::7", "fd00::1")] {
            let outcome = router.send(0, &echo(host, own, false, 7));
            assert_eq!(outcome.dropped(), Some("answered"));
            assert_eq!(outcome.emitted().len(), 1);
        }
    }

    #[test]
    fn asks_for_who_is_on_the_link() {
        let mut router = harness(NETWORK);
        let outcome = router.send(0, &udp("10.0.0.7:5", "198.51.100.77:53"));
        assert_eq!(outcome.dropped(), Some("neighbour-unresolved"));
        let [(2, request)] = outcome.emitted() else { panic!("{outcome:?}") };
        assert_eq!(request[12..14], [0x08, 0x06]);
    }

    /// Kinds of what was sent: each question an ARP packet, and to whom waits for the answer an error.
    fn kinds(outcome: &Outcome) -> Vec<(u8, [u8; 2])> {
        let kind = |(port, frame): &(u8, Vec<u8>)| (*port, [frame[12], frame[13]]);
        outcome.emitted().iter().map(kind).collect()
    }

    /// Three questions, and that nobody answered, before whatever comes later.
    const SILENCE: [(u8, [u8; 2]); 3] = [(2, [8, 6]), (2, [8, 6]), (0, [8, 0])];
    const LATER_NS: u64 = 10_000_000_000;

    #[test]
    fn asks_three_times_and_says_that_nobody_answers() {
        let mut router = harness(NETWORK);
        let first = router.send(0, &udp("10.0.0.7:5", "198.51.100.77:53"));
        assert_eq!(kinds(&first), [(2, [8, 6])]);
        router.at(LATER_NS);
        let later = router.send(0, &udp("10.0.0.7:5", "203.0.113.5:53"));
        assert_eq!(kinds(&later), SILENCE);
        assert_eq!(later.emitted()[2].1[34..36], [3, 1], "host unreachable");
    }

    #[test]
    fn workers_that_share_state_ask_as_one() {
        let packet = |dst, after_ns| {
            let bytes = udp("10.0.0.7:5", dst);
            Arrived { port: 0, after_ns, wire_len: bytes.len() as u32, bytes }
        };
        let packets = [packet("198.51.100.77:53", 0), packet("203.0.113.5:53", LATER_NS)];
        let table = NETWORK.parse().expect("TOML");
        for sharing in [Sharing::Locked, Sharing::Tracked] {
            let turns = [(0, vec![0]), (1, vec![1])];
            let run =
                SideBySide::take_turns::<router::Function>(sharing, &table, &packets, 2, &turns);
            assert_eq!(kinds(&run.done.outcomes[&1]), SILENCE, "{sharing:?}");
            let alone = run.replay::<router::Function>(&table, &packets);
            assert_eq!(run.done.outcomes, alone.outcomes, "{sharing:?}");
        }
    }

    #[test]
    fn says_so_when_it_has_no_interfaces() {
        let mut router = harness("");
        assert!(router.logged()[0].contains("no interfaces are configured"));
        let outcome = router.send(0, &udp("10.0.0.7:5", "203.0.113.5:53"));
        assert_eq!(outcome.dropped(), Some("no-route"));
    }

    #[test]
    fn mistakes_are_explained() {
        let table = NETWORK.replace("interfaces.p2", "interfaces.p7").parse().expect("TOML");
        let error = Harness::<router::Function>::with_table(table).err().expect("a mistake");
        assert!(error.contains("`p7` is no port of this run"), "{error}");
    }
}

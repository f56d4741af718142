//! What stands under the field in which an index comes back that was sent out in a packet.

use anabranch_analysis::{Budget, Source, paths_within};
use anabranch_plan::{ObjectMode, Options, Plan, Strategy, plan};
use anabranch_rss::Nic;

use super::{mode, planned, planned_with, why};

const FIELDS: &str = "#[capacity(512)] chain: Allocator<Ipv4Addr>, #[capacity(64)] other: Allocator<Ipv4Addr>,
    #[capacity(64)] answers: Map<u16, u32>, #[capacity(64)] few: Map<u8, u32>, #[capacity(64)] peers: Map<Ipv4Addr, u32>,";

/// A host is given a port for a `lifetime`, in which it `sends` to the outside; what comes from there is `counted`.
fn counting(lifetime: &str, [sends, counted]: [&str; 2]) -> Plan {
    let body = format!(
        "if pkt.port() == LAN {{
             let Some(index) = self.chain.allocate(src, {lifetime}, cx) else {{ return Drop(Reason::Refused) }};
             {sends}
             return Forward(WAN);
         }}
         {counted}"
    );
    planned(FIELDS, &body)
}

const SENDS: &str = "pkt.set_src_port(index as u16);";
const COUNTS: &str = "let had = self.answers.get(&dst_port).unwrap_or(0);
    if had > 9 { return Drop(Reason::Refused); }
    self.answers.insert(dst_port, had + 1);";

/// Ten packets to port 7 come while one host has it, then it is another's: on one core that one gets no answer. In
/// shards it was given another port, which nobody has sent to.
#[test]
fn what_is_counted_by_a_port_that_was_given_is_shared_with_the_ports() {
    let found = counting("1_000", [SENDS, COUNTS]);
    assert_eq!(["chain", "answers"].map(|name| mode(&found, name)), [ObjectMode::Shared; 2]);
    let why = why(&found, "answers");
    let says = "what `answers` holds is read at line 24 by `wan.tcp.dst`, in which an index of `chain` comes back \
                (line 21): it may be left of whoever had the index before";
    assert_eq!(why, says);
    // Some of its bits, and a key that it is a part of.
    let some = "let had = self.few.get(&(dst_port as u8)).unwrap_or(0);
        if had > 9 { return Drop(Reason::Refused); }
        self.few.insert(dst_port as u8, had + 1);";
    assert_eq!(mode(&counting("1_000", [SENDS, some]), "few"), ObjectMode::Shared);
    let moved = "pkt.set_src_port(self.settings.first + index as u16);";
    assert_eq!(mode(&counting("1_000", [moved, COUNTS]), "answers"), ObjectMode::Shared);
}

/// The same function, where it is not the port that the host was given, nor anything that is asked.
#[test]
fn what_is_counted_by_another_field_is_no_matter_of_the_ports() {
    for [sends, counted] in [
        ["pkt.set_src_port(80);", COUNTS],
        ["pkt.set_dst_port(index as u16);", COUNTS],
        ["pkt.set_src_port(index as u16); return Drop(Reason::Refused);", COUNTS],
        [
            SENDS,
            "let had = self.answers.get(&src_port).unwrap_or(0);
            if had > 9 { return Drop(Reason::Refused); }
            self.answers.insert(src_port, had + 1);",
        ],
        [SENDS, "self.answers.insert(dst_port, 1);"],
    ] {
        let found = counting("1_000", [sends, counted]);
        assert_eq!(
            found.strategy,
            Strategy::SharedNothing,
            "{sends} {counted}: {}",
            why(&found, "chain")
        );
    }
}

/// A port that is given for ever is nobody else's later, but somebody may have sent to it before: whose it comes to be
/// is another host than in a shard.
#[test]
fn what_is_written_before_a_port_is_given_is_shared() {
    let modes = |counted: &str| {
        let found = counting("u64::MAX", [SENDS, counted]);
        (["chain", "answers"].map(|name| mode(&found, name)), why(&found, "answers"))
    };
    let (shared, why) = modes(COUNTS);
    assert_eq!(shared, [ObjectMode::Shared; 2]);
    let says = "(line 21): line 26 may have written it before anybody had the index, as it has not asked `chain`";
    assert!(why.contains(says), "{why}");
    let asked = |pool: &str, port: &str| {
        modes(&format!(
            "let index = u32::from({port}.wrapping_sub(self.settings.first));
             if index >= self.settings.number {{ return Drop(Reason::Refused); }}
             let Some(inside) = self.{pool}.get(index, cx) else {{ return Drop(Reason::Refused) }};
             pkt.set_destination(inside, 80);
             {COUNTS}"
        ))
    };
    let (own, why) = asked("chain", "dst_port");
    assert_eq!(own, [ObjectMode::Steered, ObjectMode::Sharded], "{why}");
    for (pool, port) in [("other", "dst_port"), ("chain", "src_port")] {
        let (own, why) = asked(pool, port);
        assert_eq!(own, [ObjectMode::Shared; 2], "{pool} {port}");
        assert!(why.contains("as it has not asked `chain`"), "{why}");
    }
}

/// Whether the entry's own index is out is asked, not whether one is of which the entry has a part: of two hosts that
/// have ports of one block the first one's answers would count for the second's.
#[test]
fn who_asks_for_the_index_of_another_key_has_not_asked() {
    let found = |asked: &str, key: &str| {
        let body = format!(
            "let index = u32::from(dst_port.wrapping_sub(self.settings.first));
             if index >= self.settings.number {{ return Drop(Reason::Refused); }}
             let Some(inside) = self.chain.get({asked}, cx) else {{ return Drop(Reason::Refused) }};
             pkt.set_destination(inside, 80);
             let key = {key};
             let had = self.answers.get(&key).unwrap_or(0);
             if had > 9 {{ return Drop(Reason::Refused); }}
             self.answers.insert(key, had + 1);"
        );
        let found = counting("u64::MAX", [SENDS, &body]);
        ["chain", "answers"].map(|name| mode(&found, name))
    };
    assert_eq!(found("index", "dst_port"), [ObjectMode::Steered, ObjectMode::Sharded]);
    for key in ["dst_port & 0xff00", "dst_port ^ 1"] {
        assert_eq!(found("index", key), [ObjectMode::Shared; 2], "{key}");
    }
    // Nobody can tell in which shard that index was given.
    assert_eq!(found("index & 0xff", "dst_port")[0], ObjectMode::Shared);
}

/// What is made of the index and kept under it is sent out, or what stands there for good.
#[test]
fn what_is_kept_under_the_index_brings_it_back_as_well() {
    let found = |kept: &str, sends: &str| {
        let body = format!(
            "if pkt.port() == LAN {{
                 if let Some(index) = self.peers.get(&src) {{ {sends} return Forward(WAN); }}
                 let Some(index) = self.chain.allocate(src, u64::MAX, cx) else {{ return Drop(Reason::Refused) }};
                 self.peers.insert(src, index);
                 self.ports.write(index, {kept});
                 return Drop(Reason::Refused);
             }}
             {COUNTS}"
        );
        let found = planned(&format!("{FIELDS} #[capacity(512)] ports: Vector<u16>,"), &body);
        ["chain", "answers"].map(|name| mode(&found, name))
    };
    let sends = "pkt.set_src_port(self.ports.read(index));";
    assert_eq!(found("index as u16", sends), [ObjectMode::Shared; 2]);
    assert_ne!(found("7", sends), [ObjectMode::Shared; 2]);
    let listed = "#[capacity(512)] listed: Vector<u16>,";
    let init = "fn init(&mut self, cx: &mut Context) { self.listed.write(3, 4_000); }";
    let body = format!(
        "if pkt.port() == LAN {{
             let Some(index) = self.chain.allocate(src, u64::MAX, cx) else {{ return Drop(Reason::Refused) }};
             pkt.set_src_port(self.listed.read(index));
             return Forward(WAN);
         }}
         {COUNTS}"
    );
    let found = planned_with("", &format!("{FIELDS} {listed}"), init, &body, "e810");
    assert_eq!(["chain", "answers"].map(|name| mode(&found, name)), [ObjectMode::Shared; 2]);
}

/// A route may lead back to the port of arrival, unless it is asked.
#[test]
fn what_is_routed_may_come_back_where_it_came_from() {
    let modes = |first: &str| {
        let body = format!(
            "if pkt.port() == LAN {{
                 {first}
                 if src_port == 7 {{
                     let had = self.answers.get(&dst_port).unwrap_or(0);
                     if had > 9 {{ return Drop(Reason::Refused); }}
                     self.answers.insert(dst_port, had + 1);
                 }}
                 let Some(index) = self.chain.allocate(src, u64::MAX, cx) else {{ return Drop(Reason::Refused) }};
                 pkt.set_src_port(index as u16);
                 return self.l3.forward(pkt, cx);
             }}"
        );
        let found = planned(&format!("l3: L3, {FIELDS}"), &body);
        ["chain", "answers"].map(|name| mode(&found, name))
    };
    assert_eq!(modes(""), [ObjectMode::Shared; 2]);
    let asks = "if self.l3.leads_nowhere(pkt) { return Drop(Reason::Refused); }";
    assert_ne!(modes(asks), [ObjectMode::Shared; 2]);
}

/// A SYN proxy's number comes back as what is acknowledged.
#[test]
fn a_sequence_number_comes_back_acknowledged() {
    let found = |set: &str| {
        let body = format!(
            "if pkt.port() == LAN {{
                 let Some(index) = self.chain.allocate(src, u64::MAX, cx) else {{ return Drop(Reason::Refused) }};
                 if let Some(mut tcp) = pkt.tcp_mut() {{ tcp.{set}(index); }}
                 return Forward(WAN);
             }}
             let key = tcp.acknowledgement();
             let had = self.numbers.get(&key).unwrap_or(0);
             if had > 9 {{ return Drop(Reason::Refused); }}
             self.numbers.insert(key, had + 1);"
        );
        let found = planned(&format!("{FIELDS} #[capacity(64)] numbers: Map<u32, u32>,"), &body);
        why(&found, "chain")
    };
    assert!(
        found("set_sequence").contains("by `wan.tcp.acknowledgement`"),
        "{}",
        found("set_sequence")
    );
    assert!(
        !found("set_acknowledgement").contains("acknowledgement"),
        "{}",
        found("set_acknowledgement")
    );
}

/// The port is sent out by a later packet than the one that was given it.
#[test]
fn a_port_that_is_kept_is_sent_out_as_well() {
    let found = |sends: &str| {
        let body = format!(
            "if pkt.port() == LAN {{
                 if let Some(kept) = self.peers.get(&src) {{ {sends} return Forward(WAN); }}
                 let Some(index) = self.chain.allocate(src, u64::MAX, cx) else {{ return Drop(Reason::Refused) }};
                 self.peers.insert(src, index);
                 return Drop(Reason::Refused);
             }}
             {COUNTS}"
        );
        planned(FIELDS, &body)
    };
    assert_eq!(found("pkt.set_src_port(80);").strategy, Strategy::SharedNothing);
    let kept = found("pkt.set_src_port(kept as u16);");
    assert_eq!(["chain", "answers"].map(|name| mode(&kept, name)), [ObjectMode::Shared; 2]);
    assert!(why(&kept, "chain").contains("by `wan.tcp.dst`"), "{}", why(&kept, "chain"));
}

/// A flow of the outside finds what the one before has left, by the port that its host had.
#[test]
fn packet_sets_of_a_port_that_was_given_are_shared() {
    let planned = |sends: &str| {
        let text = format!(
            "#[network_function(ports(lan, wan))]
pub mod tested {{
    pub struct Settings {{}}
    pub enum Reason {{ Refused }}
    #[packet_set(tcp(tcp.dst), capacity = 64, expires_s = 60)]
    pub struct Flow {{ seen: u32 }}
    pub struct Tested {{ settings: Settings, #[capacity(64)] slots: Allocator<()> }}
    impl Tested {{
        fn packet_set_opened(&mut self, pkt: &mut Packet, cx: &mut Context) -> Result<Flow, Verdict> {{
            Ok(Flow {{ seen: 0 }})
        }}
        fn packet(&mut self, flow: &mut Flow, pkt: &mut Packet, cx: &mut Context) -> Verdict {{
            if pkt.port() == LAN {{
                let Some(slot) = self.slots.allocate((), 1_000, cx) else {{ return Drop(Reason::Refused) }};
                {sends}
                return Forward(WAN);
            }}
            flow.seen += 1;
            if flow.seen > 9 {{ return Drop(Reason::Refused); }}
            Forward(LAN)
        }}
    }}
}}"
        );
        let source = Source { text: &text, file: "tested.rs", line: 1 };
        let paths = paths_within(&source, Budget::for_accesses()).unwrap();
        plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap()
    };
    assert_eq!(planned("").strategy, Strategy::SharedNothing);
    let found = planned("pkt.set_src_port(slot as u16);");
    assert_eq!(mode(&found, "Flow"), ObjectMode::Shared);
    assert!(
        why(&found, "slots")
            .contains("by `wan.tcp.dst`, in which an index of `slots` comes back (line 15)")
    );
}

/// What stands under indices of one pool is no matter of another one that the same field leads to.
#[test]
fn two_pools_are_found_by_one_field() {
    let fields =
        "#[capacity(512)] chain: Allocator<Ipv4Addr>, #[capacity(512)] other: Allocator<Ipv4Addr>,";
    let takes = |pool: &str| {
        format!(
            "let Some(index) = self.{pool}.allocate(src, 1_000, cx) else {{ return Drop(Reason::Refused) }};
             pkt.set_src_port(self.settings.first + index as u16);"
        )
    };
    let body = format!(
        "if pkt.port() == LAN {{
             if ip.dscp() == 0 {{ {} }} else {{ {} }}
             return Forward(WAN);
         }}
         let index = u32::from(dst_port.wrapping_sub(self.settings.first));
         if index >= self.settings.number {{ return Drop(Reason::Refused); }}
         let found = if ip.dscp() == 0 {{ self.chain.get(index, cx) }} else {{ self.other.get(index, cx) }};
         let Some(inside) = found else {{ return Drop(Reason::Refused) }};
         pkt.set_destination(inside, 80);",
        takes("chain"),
        takes("other")
    );
    let found = planned(fields, &body);
    let modes = ["chain", "other"].map(|name| mode(&found, name));
    assert_eq!(modes, [ObjectMode::Steered; 2], "{}", why(&found, "chain"));
}

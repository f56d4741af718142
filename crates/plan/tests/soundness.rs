//! Packets that touch the same entry are steered to the same shard: entries told by hand, hashes
//! computed over frames; and shards that share nothing do what one instance does alone.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_analysis::{Budget, Source, paths_within};
use anabranch_nf::NetworkFunction;
use anabranch_nf::packet::MacAddr;
use anabranch_nf::packet::craft::{self, Echo, Link, Segment};
use anabranch_nf::prelude::network_function;
use anabranch_nfs::{firewall, nat, policer};
use anabranch_plan::{Options, Plan, PortClass, Steerer, check, plan};
use anabranch_rss::{Field, Key, Nic, toeplitz};
use anabranch_runtime::testing::Harness;

/// Has hosts that are listed send what they like, and others a number of packets.
#[network_function(ports(lan, wan))]
pub mod listed {
    /// What the operator sets.
    pub struct Settings {
        /// Hosts without a limit.
        #[setting(default = [])]
        pub allowed: List<Ipv4Addr>,
        /// Those over IPv6.
        #[setting(default = [])]
        pub allowed6: List<Ipv6Addr>,
        /// Networks without a limit.
        #[setting(default = [])]
        pub networks: List<Network>,
        /// Packets that another host may send.
        #[setting(default = 9)]
        pub packets: u32,
    }

    /// A network.
    pub struct Network {
        pub address: Ipv4Addr,
        pub mask: u32,
    }

    /// Why a packet is not forwarded.
    pub enum Reason {
        OverQuota,
    }

    /// The network function.
    pub struct Listed {
        settings: Settings,
        #[capacity(64)]
        hosts: Map<Ipv4Addr, u32>,
        #[capacity(64)]
        hosts6: Map<Ipv6Addr, u32>,
    }

    impl Listed {
        fn is_allowed(&self, address: Ipv4Addr) -> bool {
            for position in 0..self.settings.allowed.len() {
                if self.settings.allowed[position] == address {
                    return true;
                }
            }
            let mut inside = false;
            for network in self.settings.networks.iter() {
                if u32::from(address) & network.mask == u32::from(network.address) & network.mask {
                    inside = true;
                }
            }
            inside
        }

        fn is_allowed6(&self, address: Ipv6Addr) -> bool {
            for position in 0..self.settings.allowed6.len() {
                if self.settings.allowed6[position] == address {
                    return true;
                }
            }
            false
        }

        fn packet(&mut self, pkt: &mut Packet, cx: &mut Context) -> Verdict {
            if pkt.port() == WAN {
                return Forward(LAN);
            }
            let mut sent = 0;
            if let Some(ip) = pkt.ipv4() {
                if self.is_allowed(ip.src()) {
                    return Forward(WAN);
                }
                sent = self.hosts.get(&ip.src()).unwrap_or(0);
                self.hosts.insert(ip.src(), sent + 1);
            }
            if let Some(ip) = pkt.ipv6() {
                if self.is_allowed6(ip.src()) {
                    return Forward(WAN);
                }
                sent = self.hosts6.get(&ip.src()).unwrap_or(0);
                self.hosts6.insert(ip.src(), sent + 1);
            }
            if sent >= self.settings.packets {
                return Drop(Reason::OverQuota);
            }
            Forward(WAN)
        }
    }
}

const NICS: [&str; 4] = ["e810", "x710", "82599", "software"];

fn source_of<F: NetworkFunction>() -> Source<'static> {
    let source = F::SOURCE;
    Source { text: source.text, file: source.file, line: source.line }
}

fn planned<F: NetworkFunction>(nic: &str) -> Plan {
    let paths = paths_within(&source_of::<F>(), Budget::for_accesses()).unwrap();
    plan(&paths, &Options::new(Nic::named(nic).unwrap())).unwrap()
}

/// A packet by its fields, as a plan names them.
type Fields = BTreeMap<&'static str, u128>;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    /// Few values, far apart: pairs that share a field are common, and all bits are tried.
    fn value(&mut self, width: u32) -> u128 {
        nth_value(self.below(6), width)
    }
}

fn nth_value(nth: u64, width: u32) -> u128 {
    let wide = u128::from(nth + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    wide >> (128 - width)
}

/// The fields of a class, and a packet with random ones.
fn packet(class: &str, random: &mut Random) -> Fields {
    let mut fields = Fields::new();
    let v6 = class.starts_with("ipv6");
    for name in if v6 { ["ipv6.src", "ipv6.dst"] } else { ["ipv4.src", "ipv4.dst"] } {
        fields.insert(name, random.value(if v6 { 128 } else { 32 }));
    }
    let names: &[&str] = match class {
        name if name.contains("later") => &[],
        name if name.contains("tcp") => &["tcp.src", "tcp.dst"],
        name if name.contains("udp") => &["udp.src", "udp.dst"],
        name if name.contains("error") => {
            &["embedded.src_port", "embedded.dst_port", "embedded.id"]
        }
        name if name.contains("icmp") && v6 => &["icmpv6.id"],
        name if name.contains("icmp") => &["icmpv4.id"],
        _ => &[],
    };
    fields.extend(names.iter().map(|name| (*name, random.value(16))));
    if class.contains("error") {
        let quoted = if class.ends_with("of-icmp") { 1 } else { [6, 17][random.below(2) as usize] };
        fields.insert("embedded.protocol", quoted);
        fields.extend(["embedded.src", "embedded.dst"].map(|name| (name, random.value(32))));
    }
    fields
}

/// The entry of the indirection table that a plan steers a packet to.
fn entry(plan: &Plan, port: usize, class: &PortClass, fields: &Fields) -> u32 {
    if class.by == Steerer::OneShard {
        return 0;
    }
    let name = class.key_of.as_ref().unwrap_or(&plan.ports[port].port);
    let own = plan.ports.iter().find(|one| one.port == *name).unwrap();
    let key = Key::try_from(&unhex(&own.key)[..]).unwrap();
    let mut input = Vec::new();
    for part in &class.input {
        let bytes = usize::from(Field::named(&part.place).unwrap().width() / 8);
        let value = fields.get(part.field.as_str()).copied().unwrap_or(0);
        input.extend_from_slice(&value.to_be_bytes()[16 - bytes..]);
    }
    toeplitz(&key, &input) & (u32::MAX >> (32 - plan.index_bits))
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Checks random packets: those that touch one entry are in one shard. Returns how many pairs met.
fn meetings(
    plan: &Plan,
    touched: impl Fn(usize, &str, &Fields) -> Vec<String>,
) -> Result<usize, String> {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut shards: HashMap<String, (u32, String)> = HashMap::new();
    let mut met = 0;
    for _ in 0..20_000 {
        let port = random.below(plan.ports.len() as u64) as usize;
        let classes = &plan.ports[port].classes;
        let class = &classes[random.below(classes.len() as u64) as usize];
        let fields = packet(&class.class, &mut random);
        let shard = entry(plan, port, class, &fields);
        for touched in touched(port, &class.class, &fields) {
            let here = format!("{} of {} {fields:?}", class.class, plan.ports[port].port);
            let (known, who) = shards.entry(touched.clone()).or_insert((shard, here.clone()));
            if *known != shard {
                return Err(format!("{touched}: {who} in {known}, {here} in {shard}"));
            }
            met += 1;
        }
    }
    Ok(met - shards.len())
}

fn policed(port: usize, class: &str, fields: &Fields) -> Vec<String> {
    let dst = ["ipv4.dst", "ipv6.dst"].into_iter().find_map(|name| fields.get(name));
    match dst {
        Some(dst) if port == 1 && class.starts_with("ip") => vec![format!("{} {dst}", &class[..4])],
        _ => Vec::new(),
    }
}

fn sources(port: usize, class: &str, fields: &Fields) -> Vec<String> {
    let src = ["ipv4.src", "ipv6.src"].into_iter().find_map(|name| fields.get(name));
    match src {
        Some(src) if port == 0 && class.starts_with("ip") => vec![format!("{} {src}", &class[..4])],
        _ => Vec::new(),
    }
}

fn flows(_: usize, class: &str, fields: &Fields) -> Vec<String> {
    let version = &class[..4.min(class.len())];
    let protocol = ["tcp", "udp", "icmp"].into_iter().find(|name| class.contains(name));
    let Some(protocol) = protocol.filter(|_| !class.contains("error")) else { return Vec::new() };
    let get = |name: String| fields.get(name.as_str()).copied();
    let (Some(src), Some(dst)) = (get(format!("{version}.src")), get(format!("{version}.dst")))
    else {
        return Vec::new();
    };
    let id = get("icmpv4.id".to_owned()).or(get("icmpv6.id".to_owned()));
    let Some(src_port) = get(format!("{protocol}.src")).or(id) else { return Vec::new() };
    let dst_port = get(format!("{protocol}.dst")).unwrap_or(src_port);
    let ends = BTreeSet::from([(src, src_port), (dst, dst_port)]);
    vec![format!("{version} {protocol} {ends:?}")]
}

/// The inside endpoint at `lan`; at `wan` the value that the allocator has steered by.
fn endpoints(port: usize, class: &str, fields: &Fields) -> Vec<String> {
    let get = |name: &str| fields.get(name).copied();
    let quoted = get("embedded.protocol");
    let of_icmp = quoted == Some(1);
    if port == 1 {
        let value = match quoted {
            Some(_) if of_icmp => get("embedded.id"),
            Some(_) => get("embedded.src_port"),
            None => get("tcp.dst").or(get("udp.dst")).or(get("icmpv4.id")),
        };
        let v4 = class.starts_with("ipv4");
        return value.filter(|_| v4).map(|value| format!("value {value}")).into_iter().collect();
    }
    let protocol = match class {
        name if name.starts_with("ipv4-tcp") => 6,
        name if name.starts_with("ipv4-udp") => 17,
        _ => 1,
    };
    let (address, port, protocol) = match quoted {
        Some(protocol) if of_icmp => (get("embedded.dst"), get("embedded.id"), protocol),
        Some(protocol) => (get("embedded.dst"), get("embedded.dst_port"), protocol),
        None => {
            let port = get("tcp.src").or(get("udp.src")).or(get("icmpv4.id"));
            (get("ipv4.src"), port, protocol)
        }
    };
    match (address, port) {
        (Some(address), Some(port)) if class.starts_with("ipv4") => {
            vec![format!("inside {address} {port} {protocol}")]
        }
        _ => Vec::new(),
    }
}

#[test]
fn packets_that_touch_an_entry_are_in_its_shard_on_every_nic() {
    for nic in NICS {
        let policer = meetings(&planned::<policer::Function>(nic), policed).unwrap();
        let firewall = meetings(&planned::<firewall::Function>(nic), flows).unwrap();
        let nat = meetings(&planned::<nat::Function>(nic), endpoints).unwrap();
        assert!(policer.min(firewall).min(nat) > 2_000, "{policer} {firewall} {nat}");
    }
}

/// Edits that break a constraint are told by the check, and by packets; nothing else is refused.
#[test]
fn a_wrong_bit_of_a_key_is_found_by_algebra_and_by_packets() {
    let paths = paths_within(&source_of::<firewall::Function>(), Budget::for_accesses()).unwrap();
    let sound = plan(&paths, &Options::new(Nic::named("e810").unwrap())).unwrap();
    let mut refused = 0;
    for bit in (0..416).step_by(13) {
        let mut edited = sound.clone();
        let mut key = unhex(&edited.ports[0].key);
        key[bit / 8] ^= 0x80 >> (bit % 8);
        edited.ports[0].key = key.iter().map(|byte| format!("{byte:02x}")).collect();
        match (check(&paths, &edited), meetings(&edited, flows)) {
            (Ok(()), Ok(_)) => {}
            (Err(_), _) => refused += 1,
            (Ok(()), Err(pair)) => panic!("bit {bit}: the check says nothing, but {pair}"),
        }
    }
    assert!(refused > 10, "{refused}");
    let mut swapped = sound;
    swapped.ports[0].classes[0].input.swap(0, 2);
    assert!(check(&paths, &swapped).is_err());
    assert!(meetings(&swapped, flows).is_err());
}

fn frame(fields: &Fields, flags: u8, class: &str) -> Vec<u8> {
    let mac = |last| MacAddr::new(2, 0, 0, 0, 0, last);
    let link = Link { src: mac(1), dst: mac(2), tags: [None; 2] };
    let socket = |side: &str| -> SocketAddr {
        let get = |header: &str| {
            fields.iter().find(|(name, _)| **name == format!("{header}.{side}")).map(|(_, v)| *v)
        };
        let port = get("tcp").or(get("udp")).unwrap_or(0) as u16;
        match get("ipv4") {
            Some(address) => (Ipv4Addr::from_bits(address as u32), port).into(),
            None => (Ipv6Addr::from_bits(get("ipv6").unwrap_or(0)), port).into(),
        }
    };
    let mut out = vec![0; 200];
    let (src, dst) = (socket("src"), socket("dst"));
    let id = fields.get("icmpv4.id").or(fields.get("icmpv6.id")).copied().unwrap_or(0) as u16;
    let len = match class {
        name if name.ends_with("tcp") => {
            let segment = Segment { flags, ..Segment::default() };
            craft::tcp(&mut out, &link, src, dst, segment, b"")
        }
        name if name.ends_with("udp") => craft::udp(&mut out, &link, src, dst, b"anabranch"),
        _ => {
            let echo = Echo { is_reply: flags & 1 == 1, id, sequence: 1 };
            craft::echo(&mut out, &link, src.ip(), dst.ip(), echo, b"")
        }
    };
    out.truncate(len.unwrap());
    out
}

/// Every shard with an instance of its own against one instance for all.
fn differ<F: NetworkFunction>(plan: &Plan, settings: &[&str]) -> Option<String> {
    let mut random = Random(0xfeed_5eed_0bad_cafe);
    let mut alone = Harness::<F>::new(settings);
    let mut shards: HashMap<u32, Harness<F>> = HashMap::new();
    let classes = ["ipv4-tcp", "ipv4-udp", "ipv4-icmp", "ipv6-tcp", "ipv6-udp", "ipv6-icmp"];
    for number in 0..6_000u64 {
        let port = random.below(2) as usize;
        let class = classes[random.below(6) as usize];
        let steering = plan.ports[port].classes.iter().find(|one| one.class == class).unwrap();
        let fields = packet(class, &mut random);
        let flags = [0x02, 0x12, 0x10, 0x11, 0x04][random.below(5) as usize];
        let frame = frame(&fields, flags, class);
        let shard = entry(plan, port, steering, &fields);
        let own = shards.entry(shard).or_insert_with(|| Harness::new(settings));
        alone.at(number * 20_000_000);
        own.at(number * 20_000_000);
        let outcomes = [&mut alone, own].map(|harness| {
            let outcome = harness.send(port as u8, &frame);
            (outcome.forwarded().to_vec(), outcome.dropped())
        });
        if outcomes[0] != outcomes[1] {
            return Some(format!("packet {number}: {:?} and {:?}", outcomes[0].1, outcomes[1].1));
        }
    }
    assert!(shards.len() > 10, "{} shards", shards.len());
    None
}

#[test]
fn shards_that_share_nothing_do_what_one_instance_does() {
    let plan = planned::<firewall::Function>("e810");
    assert_eq!(differ::<firewall::Function>(&plan, &["flows=4096"]), None);
    let plan = planned::<policer::Function>("e810");
    let settings = ["rate_bps=8000", "burst_bytes=300", "destinations=64"];
    assert_eq!(differ::<policer::Function>(&plan, &settings), None);
}

/// Hosts are found in lists at any place, and nowhere.
#[test]
fn shards_that_search_lists_do_what_one_instance_does() {
    let v4 = |nth| Ipv4Addr::from_bits(nth_value(nth, 32) as u32);
    let v6 = |nth| Ipv6Addr::from_bits(nth_value(nth, 128));
    let settings = [
        format!("allowed=[\"10.0.0.1\", \"{}\", \"{}\"]", v4(1), v4(3)),
        format!("allowed6=[\"{}\", \"fe80::1\", \"{}\"]", v6(0), v6(5)),
        format!("networks=[{{address=\"{}\", mask={}}}]", v4(4), 0xff00_0000u32),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    for nic in NICS {
        let plan = planned::<listed::Function>(nic);
        assert!(meetings(&plan, sources).unwrap() > 2_000);
        assert_eq!(differ::<listed::Function>(&plan, &settings), None);
    }
    let mut other = planned::<listed::Function>("e810");
    other.ports = planned::<firewall::Function>("e810").ports;
    assert!(differ::<listed::Function>(&other, &settings).is_some());
}

#[test]
fn a_plan_for_another_function_is_seen_to_differ() {
    let mut plan = planned::<firewall::Function>("e810");
    plan.ports = planned::<policer::Function>("e810").ports;
    assert!(differ::<firewall::Function>(&plan, &["flows=4096"]).is_some());
}

//! Interfaces, routes and static neighbours, read from the operator's tables and held against each
//! other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use anabranch_packet::{MacAddr, Port};
use toml::{Table, Value};

use crate::l3::notation::{Name, Optional};
use crate::l3::prefix::Prefix;
use crate::l3::special;
use crate::settings::{Fields, List, nearest};

/// A port with addresses.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub name: String,
    pub port: Port,
    pub mac: MacAddr,
    /// Its addresses with the prefixes that are on-link; with an IPv6 address the link-local one
    /// too.
    pub addresses: Vec<Prefix>,
    /// Largest IP packet that the link carries, in bytes.
    pub mtu: u32,
    /// TCP connections over the link announce no larger segments than fit it.
    pub clamp_mss: bool,
    /// Takes frames for any station and packets with any header checksum.
    pub promiscuous: bool,
    /// Prefixes that are not ours, for which ARP and neighbour solicitations are answered.
    pub answer_for: Vec<Prefix>,
}

impl Interface {
    /// Whether `address` is one of its own.
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.address == address)
    }

    /// Whether the hosts at `address` are reached over its link without a router.
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.contains(address))
    }

    /// The addresses that mean all hosts of its link.
    pub fn broadcasts(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().flat_map(|own| own.broadcasts()).flatten()
    }

    /// Whether it answers solicitations of `address`.
    pub fn answers(&self, address: IpAddr) -> bool {
        self.has(address) || self.answer_for.iter().any(|prefix| prefix.contains(address))
    }

    /// The address to speak to `peer` from: one that shares a prefix with it, else the first that
    /// is not link-local, else the first of the same version.
    pub fn address_towards(&self, peer: IpAddr) -> Option<IpAddr> {
        let same = || self.addresses.iter().filter(|own| own.address.is_ipv4() == peer.is_ipv4());
        let near = same().find(|own| own.contains(peer));
        let wide = || same().find(|own| !special::is_link_local(own.address));
        near.or_else(wide).or_else(|| same().next()).map(|own| own.address)
    }
}

/// Where packets of a prefix go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub to: Prefix,
    /// The next router; `None`: the hosts themselves are on the link.
    pub via: Option<IpAddr>,
    pub port: Port,
}

/// A neighbour that need not be asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbour {
    pub address: IpAddr,
    pub mac: MacAddr,
    pub port: Port,
}

/// All that the operator configured.
#[derive(Clone, Debug, Default)]
pub(super) struct Configuration {
    pub interfaces: Vec<Interface>,
    pub routes: Vec<Route>,
    pub neighbours: Vec<Neighbour>,
}

/// The operator's tables that are of routing, and not among a function's own settings.
pub const TABLES: [&str; 3] = ["interfaces", "routes", "neighbours"];

impl Configuration {
    /// Reads `table`; the error lists every mistake, one a line.
    pub fn read(table: &Table, ports: &[String]) -> Result<Self, String> {
        let mut reader = Reader { ports, mistakes: Vec::new(), found: Self::default() };
        for name in table.keys().filter(|name| !TABLES.contains(&name.as_str())) {
            let hint = hint(name, TABLES.into_iter());
            reader.mistakes.push(format!("setting `{name}` does not exist; {hint}"));
        }
        reader.read_interfaces(table.get("interfaces"));
        reader.check_interfaces();
        reader.each(table.get("routes"), "routes", Reader::read_route);
        reader.each(table.get("neighbours"), "neighbours", Reader::read_neighbour);
        reader.check_duplicates();
        if reader.mistakes.is_empty() { Ok(reader.found) } else { Err(reader.mistakes.join("\n")) }
    }
}

fn hint<'c>(name: &str, candidates: impl Iterator<Item = &'c str> + Clone) -> String {
    match nearest(name, candidates.clone()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("there are: {}", candidates.collect::<Vec<_>>().join(", ")),
    }
}

/// The link-local address that `mac` makes (RFC 4291, appendix A).
fn link_local(mac: MacAddr) -> Prefix {
    let [a, b, c, d, e, f] = mac.octets();
    let id = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Prefix::v6(Ipv6Addr::from((0xfe80_u128 << 112) | u128::from(id)), 64)
}

struct Reader<'a> {
    ports: &'a [String],
    mistakes: Vec<String>,
    found: Configuration,
}

impl Reader<'_> {
    fn refuse<T>(&mut self, place: &str, why: &str) -> Option<T> {
        self.mistakes.push(format!("setting `{place}`: {why}"));
        None
    }

    fn read_interfaces(&mut self, value: Option<&Value>) {
        let Some(value) = value else { return };
        let Value::Table(interfaces) = value else {
            let why = "write a table for each interface, such as [interfaces.lan]";
            self.refuse::<()>("interfaces", why);
            return;
        };
        for (name, value) in interfaces {
            let interface = self.read_interface(name, value);
            self.found.interfaces.extend(interface);
        }
    }

    fn read_interface(&mut self, name: &str, value: &Value) -> Option<Interface> {
        let place = format!("interfaces.{name}");
        let Some(table) = value.as_table() else {
            return self.refuse(&place, &format!("write a table: [{place}]"));
        };
        let port = self.port(&place, name);
        let path = format!("{place}.");
        let mut fields = Fields::new(table, &path);
        let mac = fields.take::<MacAddr>("mac", None);
        let addresses = fields.take::<List<Prefix>>("addresses", None);
        let mtu = fields.take_within::<u32>("mtu", Some(1_500), Some(68), Some(65_535));
        let clamp_mss = fields.take("clamp_mss", Some(false));
        let promiscuous = fields.take("promiscuous", Some(false));
        let answer_for = fields.take::<List<Prefix>>("answer_for", Some(List::default()));
        self.mistakes.extend(fields.finish().0);
        let mac = mac?;
        if mac.is_multicast() || mac == MacAddr::ZERO {
            let why = format!("{mac} is no station's address; write one such as 02:00:00:00:00:01");
            return self.refuse(&format!("{path}mac"), &why);
        }
        let mut addresses: Vec<_> = addresses?.iter().collect();
        let automatic = link_local(mac);
        let given = addresses.iter().any(|own| own.address == automatic.address);
        if addresses.iter().any(|own| own.address.is_ipv6()) && !given {
            addresses.push(automatic);
        }
        Some(Interface {
            name: name.to_owned(),
            port: port?,
            mac,
            addresses,
            mtu: mtu?,
            clamp_mss: clamp_mss?,
            promiscuous: promiscuous?,
            answer_for: answer_for?.iter().collect(),
        })
    }

    fn port(&mut self, place: &str, name: &str) -> Option<Port> {
        let at = self.ports.iter().position(|port| port == name);
        let port = at.and_then(|at| u8::try_from(at).ok()).map(Port::new);
        port.or_else(|| {
            let hint = hint(name, self.ports.iter().map(String::as_str));
            self.refuse(place, &format!("`{name}` is no port of this run; {hint}"))
        })
    }

    fn check_interfaces(&mut self) {
        let mut seen = BTreeMap::new();
        let interfaces = self.found.interfaces.clone();
        for interface in &interfaces {
            let place = format!("interfaces.{}.answer_for", interface.name);
            for prefix in &interface.answer_for {
                if let Some(why) = why_not_answer_for(interface, *prefix) {
                    self.refuse::<()>(&place, &why);
                }
            }
            let place = format!("interfaces.{}.addresses", interface.name);
            for own in &interface.addresses {
                if let Some(why) = why_not_own(interface, *own, &interfaces) {
                    self.refuse::<()>(&place, &why);
                }
                // A link-local one may be had on each link.
                let link = special::is_link_local(own.address).then_some(interface.port);
                if let Some(other) = seen.insert((own.address, link), interface.name.clone()) {
                    let why = format!("{} is given twice, to `{other}` too", own.address);
                    self.refuse::<()>(&place, &why);
                }
            }
        }
    }

    /// Reads each table of the array `name` with `read`, which is told its place.
    fn each(
        &mut self,
        value: Option<&Value>,
        name: &str,
        read: fn(&mut Self, &str, &Table) -> Option<()>,
    ) {
        let Some(value) = value else { return };
        let tables = value.as_array().map(|all| all.iter().map(Value::as_table));
        let Some(tables) = tables.and_then(|all| all.collect::<Option<Vec<_>>>()) else {
            self.refuse::<()>(name, &format!("write a table for each, headed [[{name}]]"));
            return;
        };
        for (at, table) in tables.into_iter().enumerate() {
            read(self, &format!("{name}[{at}]"), table);
        }
    }

    fn read_route(&mut self, place: &str, table: &Table) -> Option<()> {
        let path = format!("{place}.");
        let mut fields = Fields::new(table, &path);
        let to = fields.take::<Prefix>("to", None);
        let via = fields.take("via", Some(Optional::<IpAddr>(None)));
        let port = fields.take("port", Some(Optional::<Name>(None)));
        self.mistakes.extend(fields.finish().0);
        let (to, via, name) = (to?, via?.0, port?.0);
        if let Some(why) = self.why_not_to(to) {
            return self.refuse(&format!("{path}to"), &why);
        }
        if via.is_some_and(|via| via.is_ipv4() != to.address.is_ipv4()) {
            let why = format!("it and {to} are of different versions of IP");
            return self.refuse(&format!("{path}via"), &why);
        }
        let port = self.port_towards(place, via, name)?;
        if let Some((via, why)) = via.and_then(|via| Some((via, self.why_no_neighbour(via, port)?)))
        {
            return self.refuse(
                &format!("{path}via"),
                &format!("{via} is {why}; write that of the next router"),
            );
        }
        let version = if to.address.is_ipv4() { "IPv4" } else { "IPv6" };
        let interface = self.found.interfaces.iter().find(|interface| interface.port == port)?;
        if interface.address_towards(to.address).is_none() {
            let name = interface.name.clone();
            let why = format!("interface `{name}` has no {version} address; give it one");
            return self.refuse(place, &why);
        }
        self.found.routes.push(Route { to, via, port });
        Some(())
    }

    fn why_not_to(&self, to: Prefix) -> Option<String> {
        if to != to.network() {
            return Some(format!("\"{to}\" has host bits set; write \"{}\"", to.network()));
        }
        let within = |special: &Prefix| to.length >= special.length && special.contains(to.address);
        if let Some(special) = special::not_forwardable().find(within) {
            return Some(format!("nothing is forwarded to {special}; leave the route out"));
        }
        let on_link = |own: &Prefix| own.network() == to;
        let interface = self.found.interfaces.iter().find(|at| at.addresses.iter().any(on_link))?;
        Some(format!("{to} is on the link of `{}` already; leave the route out", interface.name))
    }

    /// What else than a station at `port` has the address.
    fn why_no_neighbour(&self, address: IpAddr, port: Port) -> Option<&'static str> {
        let all = self.found.interfaces.iter();
        let mut near = all.filter(|at| at.port == port || !special::is_link_local(address));
        if near.clone().any(|interface| interface.has(address)) {
            return Some("our own address");
        }
        let is_broadcast = near.any(|interface| interface.broadcasts().any(|all| all == address));
        (is_broadcast || !special::is_host(address)).then_some("no host's address")
    }

    /// The port that leads to the neighbour `address`: as given, or whose link it is on.
    fn port_towards(
        &mut self,
        place: &str,
        address: Option<IpAddr>,
        given: Option<Name>,
    ) -> Option<Port> {
        if let Some(Name(name)) = given {
            let port = self.port(&format!("{place}.port"), &name)?;
            if self.found.interfaces.iter().any(|interface| interface.port == port) {
                return Some(port);
            }
            let why = format!("port `{name}` has no interface; add [interfaces.{name}]");
            return self.refuse(&format!("{place}.port"), &why);
        }
        let Some(address) = address else {
            return self.refuse(place, "give `via`, the next router, or `port`, where the link is");
        };
        if special::is_link_local(address) {
            return self.refuse(place, &format!("{address} is on every link: give `port` too"));
        }
        let found = self.found.interfaces.iter().find(|interface| interface.is_on_link(address));
        let Some(port) = found.map(|interface| interface.port) else {
            let why = format!("no interface has {address} on its link; give `port` too");
            return self.refuse(place, &why);
        };
        Some(port)
    }

    fn read_neighbour(&mut self, place: &str, table: &Table) -> Option<()> {
        let path = format!("{place}.");
        let mut fields = Fields::new(table, &path);
        let address = fields.take::<IpAddr>("address", None);
        let mac = fields.take::<MacAddr>("mac", None);
        let port = fields.take("port", Some(Optional::<Name>(None)));
        self.mistakes.extend(fields.finish().0);
        let (address, mac, name) = (address?, mac?, port?.0);
        if mac.is_multicast() || mac == MacAddr::ZERO {
            return self.refuse(&format!("{path}mac"), &format!("{mac} is no station's address"));
        }
        let port = self.port_towards(place, Some(address), name)?;
        if let Some(what) = self.why_no_neighbour(address, port) {
            return self.refuse(&format!("{path}address"), &format!("{address} is {what}"));
        }
        self.found.neighbours.push(Neighbour { address, mac, port });
        Some(())
    }

    fn check_duplicates(&mut self) {
        let mut seen = BTreeSet::new();
        for Route { to, .. } in &self.found.routes {
            if !seen.insert((to.address, to.length)) {
                let why = format!("setting `routes`: there are two routes to {to}; keep one");
                self.mistakes.push(why);
            }
        }
        let mut seen = BTreeSet::new();
        for Neighbour { address, port, .. } in &self.found.neighbours {
            if !seen.insert((address, port)) {
                let why = format!("setting `neighbours`: {address} is given twice; keep one");
                self.mistakes.push(why);
            }
        }
    }
}

fn why_not_answer_for(interface: &Interface, prefix: Prefix) -> Option<String> {
    if prefix != prefix.network() {
        return Some(format!("\"{prefix}\" has host bits set; write \"{}\"", prefix.network()));
    }
    let nobody = |special: &Prefix| special.contains(prefix.address);
    if special::not_forwardable().any(|special| nobody(&special)) {
        return Some(format!("{prefix} has no hosts' addresses; leave it out"));
    }
    // Its hosts would be asked for, and we would answer.
    let whole = |own: &&Prefix| prefix.length <= own.length && prefix.contains(own.address);
    let own = interface.addresses.iter().find(whole)?;
    Some(format!("{prefix} has all hosts of the link {}; write a part of it", own.network()))
}

fn why_not_own(interface: &Interface, own: Prefix, all: &[Interface]) -> Option<String> {
    let broadcast = own.broadcasts().is_some_and(|all| all.contains(&own.address));
    if broadcast || !special::is_host(own.address) {
        return Some(format!("{own} is no host's address; write one such as \"10.0.0.1/24\""));
    }
    if own.address.is_ipv6() && !special::is_link_local(own.address) && interface.mtu < 1_280 {
        return Some(format!("{own} needs an mtu of 1280 or more (RFC 8200)"));
    }
    let shared = |other: &&Interface| {
        let same = |theirs: &Prefix| theirs.network() == own.network();
        other.port != interface.port && other.addresses.iter().any(same)
    };
    let other = all.iter().find(shared).filter(|_| !special::is_link_local(own.address))?;
    Some(format!("{} is on the link of `{}` too; one prefix, one link", own.network(), other.name))
}

//! Under which settings a function is verified, and what of them is worth sending packets to.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use anabranch_analysis::Paths;
use anabranch_nf::NetworkFunction;
use anabranch_nf::settings::{Command as _, Setting, Settings as _};
use anabranch_packet::fuzzing::Seeds;
use anabranch_plan::Plan;
use anabranch_runtime::deployment::first_value;
use anabranch_runtime::instance::Making;

use crate::addresses::addresses;
use crate::examples::conversations;
use crate::generate::{HOSTS, ITSELF, LOW_PORTS, STATIONS, address, station};
use crate::program::{Allocated, HIGH_PORTS};

/// A function's settings, and what can be read off them.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The operator's settings.
    pub settings: toml::Table,
    /// Names of the ports.
    pub ports: Vec<String>,
    /// Addresses in the settings, set or by default, and in the source.
    pub known_addresses: Vec<IpAddr>,
    /// Small numbers in the settings that may be ports.
    pub known_ports: Vec<u16>,
    /// Addresses in the settings, each with a port beside it.
    pub known_ends: Vec<(IpAddr, u16)>,
    /// Seconds after which something ends, as settings have them.
    pub lifetimes_s: Vec<u64>,
    /// Payloads that the function looks into.
    pub known_payloads: Vec<&'static [u8]>,
    /// Commands that can be given.
    pub commands: Vec<Command>,
    /// What allocators give out, where packets bring it back.
    pub allocated: Option<Arc<Allocated>>,
    /// Settings that nobody has made: others will do.
    pub exemplary: Vec<String>,
    /// Settings that the operator has made.
    pub made: Vec<String>,
    /// Whether it can route, where it has interfaces.
    pub routes: bool,
    /// Whether packets come no faster than ICMP errors about each may be sent.
    pub is_paced: bool,
}

/// A command and its fields: name and kind, as the settings of the function describe them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    name: &'static str,
    fields: Vec<(&'static str, String)>,
}

impl Setup {
    /// `settings` of the function `N`; four ports where their number is open.
    pub fn new<N: NetworkFunction>(settings: toml::Table) -> Self {
        let ports = match N::PORTS {
            [] => (0..4).map(|port| format!("p{port}")).collect(),
            named => named.iter().map(|name| (*name).to_owned()).collect(),
        };
        let (mut known_addresses, mut known_ports) = (Vec::new(), Vec::new());
        let mut known_ends = Vec::new();
        for value in settings.values() {
            read(value, &mut known_addresses, &mut known_ports);
            read_ends(value, &mut known_ends);
        }
        known_addresses.extend(by_default(&settings, &N::Settings::schema()));
        let (ports_of_interest, payloads) = conversations(N::NAME);
        known_ports.extend(ports_of_interest);
        let commands = N::Command::schema().into_iter().map(Command::of).collect();
        Self {
            made: settings.keys().cloned().collect(),
            lifetimes_s: lifetimes_s(&settings, &N::Settings::schema()),
            settings,
            ports,
            known_addresses,
            known_ports,
            known_ends,
            known_payloads: payloads.to_vec(),
            commands,
            allocated: None,
            exemplary: Vec::new(),
            routes: false,
            is_paced: false,
        }
    }

    /// With the settings of `example` where `settings` has none.
    pub fn exemplified<N: NetworkFunction>(mut settings: toml::Table, example: &str) -> Self {
        let example: toml::Table = example.parse().unwrap_or_default();
        let mut exemplary = Vec::new();
        for (name, value) in example {
            if !settings.contains_key(&name) {
                exemplary.push(name.clone());
                settings.insert(name, value);
            }
        }
        let mut setup = Self::new::<N>(settings);
        setup.made.retain(|name| !exemplary.contains(name));
        Self { exemplary, ..setup }
    }

    /// As before, with what `plan` says of allocators, and the addresses that stand in the source.
    #[must_use]
    pub fn under<N: NetworkFunction>(mut self, plan: &Plan, paths: Option<&Paths>) -> Self {
        let steered = plan.steered.first();
        let port = steered.and_then(|one| self.ports.iter().position(|name| *name == one.port));
        let in_source = paths.map(addresses).unwrap_or_default().into_iter();
        let is_new = |one: &IpAddr| !self.known_addresses.contains(one);
        let in_source: Vec<IpAddr> = in_source.filter(is_new).collect();
        self.known_addresses.extend(in_source);
        let addresses = self.known_addresses.clone();
        self.routes = plan.objects.iter().any(|object| object.kind == "L3");
        let lends = steered.is_some_and(|one| one.lends);
        // Of what cannot be worked out no deployment is made.
        let firsts = plan.steered.iter();
        let firsts = firsts.filter_map(|one| first_value::<N>(one, &self.settings).ok());
        let first = firsts.fold(HIGH_PORTS, |first, one| one.clamp(0, first.into()) as u16);
        let allocated = |port| Arc::new(Allocated { port: port as u8, addresses, first, lends });
        self.allocated = port.map(allocated);
        self
    }

    /// As before, with other choices where the operator made none. `seed` 1: the defaults. `any_size`:
    /// numbers are drawn too, small ones, so that tables fill up.
    ///
    /// Of what was drawn and the function refuses, some stays as it was.
    #[must_use]
    pub fn varied<N: NetworkFunction>(&self, seed: u64, any_size: bool) -> Self {
        let mut varied = self.clone();
        if seed == 1 {
            return varied;
        }
        let mut chance = Seeds::new(seed);
        let mut made: Vec<&str> = Vec::new();
        let schema = N::Settings::schema();
        // Of three numbers so many are drawn: few, so that others matter, or all, so that what needs several
        // small tables at once comes about.
        let numbers = if any_size { [1, 1, 2, 3][chance.below(4)] } else { 0 };
        for setting in &schema {
            let value = drawn(setting, numbers, &schema, &mut chance);
            let is_number = matches!(value, Some(toml::Value::Integer(_)));
            let is_exemplary = self.exemplary.iter().any(|name| name == setting.name);
            let is_made = !self.is_open(setting.name) || is_exemplary && !is_number;
            if let (Some(value), false) = (value, is_made) {
                varied.settings.insert(setting.name.to_owned(), value);
                made.push(setting.name);
            }
        }
        if any_size {
            made.extend(varied.shorten(self, &mut chance));
            made.extend(varied.even(&schema, &mut Seeds::new(!seed)));
        }
        let mut again = made.len();
        while !varied.fits::<N>() && !made.is_empty() {
            let at = chance.below(made.len());
            let setting = schema.iter().find(|setting| setting.name == made[at]);
            let value = setting.and_then(|setting| drawn(setting, 3, &schema, &mut chance));
            if let (Some(value), 1..) = (value, again) {
                again -= 1;
                varied.settings.insert(made[at].to_owned(), value);
                continue;
            }
            let name = made.swap_remove(at);
            match self.settings.get(name) {
                Some(before) => varied.settings.insert(name.to_owned(), before.clone()),
                None => varied.settings.remove(name),
            };
        }
        varied.lifetimes_s = lifetimes_s(&varied.settings, &schema);
        varied
    }

    /// Lists of the example as `of` has them, each shorter or not, or none longer than one; the names of those
    /// that may be other than there.
    fn shorten<'n>(&mut self, of: &'n Self, chance: &mut Seeds) -> Vec<&'n str> {
        let lists = chance.below(3);
        let mut made = Vec::new();
        for name in &of.exemplary {
            let list = of.settings.get(name).and_then(toml::Value::as_array).cloned();
            let Some(mut list) = list else { continue };
            let all = if lists == 1 { list.len() } else { list.len().min(1) };
            if lists > 0 {
                list.truncate(chance.below(all + 1).max(usize::from(lists == 2)));
                made.push(name.as_str());
            }
            self.settings.insert(name.clone(), toml::Value::Array(list));
        }
        made
    }

    /// Now and then all lifetimes that the operator leaves open the same, so that what has begun together ends
    /// together; the names of those.
    fn even<'s>(&mut self, schema: &'s [Setting], chance: &mut Seeds) -> Vec<&'s str> {
        let timed = |setting: &&Setting| {
            setting.name.ends_with("_s") && setting.kind == "integer" && self.is_open(setting.name)
        };
        let timed: Vec<&Setting> = schema.iter().filter(timed).collect();
        if timed.len() < 2 || chance.below(6) > 0 {
            return Vec::new();
        }
        let limits = timed.iter().map(|setting| limits(setting));
        let least = limits.map(|(least, _)| least).max().unwrap_or(0);
        let seconds = least.saturating_add(chance.below(4) as i64);
        for setting in &timed {
            self.settings.insert(setting.name.to_owned(), toml::Value::Integer(seconds));
        }
        timed.iter().map(|setting| setting.name).collect()
    }

    /// The same with other lists, drawn from those of `of`, which the function may refuse.
    pub(crate) fn with_lists(&self, of: &Self, chance: &mut Seeds) -> Self {
        let mut other = self.clone();
        other.shorten(of, chance);
        other
    }

    /// The same with one number that the operator leaves open as small as the function accepts, or nearly so; half of
    /// the time with the others as `of` has them, so that they are no limit before it.
    pub(crate) fn cramped<N: NetworkFunction>(&self, of: &Self, chance: &mut Seeds) -> Self {
        let schema = N::Settings::schema();
        let is_number = |setting: &&Setting| {
            setting.kind == "integer" && self.is_open(setting.name) && !setting.name.ends_with("_s")
        };
        let numbers: Vec<&Setting> = schema.iter().filter(is_number).collect();
        let mut cramped = self.clone();
        if chance.below(2) == 0 {
            for setting in &numbers {
                match of.settings.get(setting.name) {
                    Some(value) => cramped.settings.insert(setting.name.to_owned(), value.clone()),
                    None => cramped.settings.remove(setting.name),
                };
            }
        }
        let more = chance.below(3) as i64;
        let Some(setting) = numbers.get(chance.below(numbers.len())) else { return cramped };
        let (least, most) = limits(setting);
        let others = numbers.iter().filter_map(|other| match cramped.settings.get(other.name) {
            Some(value) => value.as_integer(),
            None => other.default.as_deref().and_then(number),
        });
        let near = others.flat_map(|other| [other, other.saturating_add(1)]);
        let small: BTreeSet<i64> = near.chain([least, least.saturating_add(1)]).collect();
        for value in small.into_iter().filter(|value| (least..=most).contains(value)) {
            // Some numbers have to be even, or odd.
            for value in [value.saturating_add(2 * more), value] {
                let mut small = cramped.clone();
                let value = toml::Value::Integer(value.min(most));
                small.settings.insert(setting.name.to_owned(), value);
                if small.fits::<N>() {
                    return small;
                }
            }
        }
        cramped
    }

    /// As before, under a lock, where packets may be sent that sharding makes incomparable: other choices,
    /// small tables, endpoints that have not been given out.
    #[must_use]
    pub fn under_lock<N: NetworkFunction>(&self, seed: u64) -> Self {
        Self { allocated: None, ..self.varied::<N>(seed | 2, true) }
    }

    /// Whether the operator leaves the setting `name` open.
    pub(crate) fn is_open(&self, name: &str) -> bool {
        !self.made.iter().any(|made| made == name)
    }

    /// Whether the function has interfaces of its own.
    pub(crate) fn is_routed(&self) -> bool {
        self.settings.contains_key("interfaces")
    }

    /// Whether instances can be made with it.
    pub(crate) fn fits<N: NetworkFunction>(&self) -> bool {
        anabranch_runtime::instance::Instance::<N>::new(&self.making(1)).is_ok()
    }

    /// The same, where it can route half of the time with interfaces. With `any_order` nothing depends on the order
    /// of packets that share no shard: no neighbour is asked for, since a question is due once a second with
    /// whose packet comes first, and there are no more packets than ICMP errors may be sent.
    #[must_use]
    pub fn routed<N: NetworkFunction>(self, seed: u64, any_order: bool) -> Self {
        if !self.routes {
            return self;
        }
        let mut chance = Seeds::new(seed);
        let mut routed = self.clone();
        if !self.settings.contains_key("interfaces") {
            if chance.below(2) == 1 {
                return self;
            }
            let table = self.interfaces(&mut chance, any_order);
            routed.settings.extend(table.parse::<toml::Table>().unwrap_or_default());
            if !routed.fits::<N>() {
                return self;
            }
        }
        Self { is_paced: any_order, ..routed }
    }

    /// An interface for each port: its hosts on the link, some of them known.
    fn interfaces(&self, chance: &mut Seeds, all_known: bool) -> String {
        let mut text = String::new();
        for (port, name) in self.ports.iter().enumerate() {
            let (all, mtu) = (chance.below(4) > 0, [1_500, 1_500, 576][chance.below(3)]);
            let _ = write!(
                text,
                "[interfaces.{name}]\nmac = \"02:00:00:00:{port:02x}:00\"\npromiscuous = {all}\n\
                 addresses = [\"10.{port}.0.{ITSELF}/24\", \"fd00:{port:x}::{ITSELF:x}/64\"]\n"
            );
            if mtu < 1_280 {
                text.push_str("mtu = 1400\n");
            }
            let known = if all_known { HOSTS } else { chance.below(7) };
            for host in 1..=known {
                let mac = format!("mac = \"02:00:00:00:{port:02x}:{host:02x}\"\n");
                let _ = write!(text, "[[neighbours]]\naddress = \"10.{port}.0.{host}\"\n{mac}");
                if all_known {
                    let _ = write!(
                        text,
                        "[[neighbours]]\naddress = \"fd00:{port:x}::{host:x}\"\n{mac}"
                    );
                }
            }
        }
        text
    }

    /// How instances are made; hashes and chance are drawn from `seed`.
    pub fn making(&self, seed: u64) -> Making {
        let (settings, ports) = (self.settings.clone(), self.ports.clone());
        Making { seed, settings, ports, ..Making::default() }
    }
}

/// A value for a setting that is a choice, or with chance `numbers` in three a small number.
fn drawn(
    setting: &Setting,
    numbers: usize,
    schema: &[Setting],
    chance: &mut Seeds,
) -> Option<toml::Value> {
    if setting.kind == "boolean" {
        return Some(toml::Value::Boolean(chance.below(2) == 0));
    }
    if let Some(choices) = setting.kind.strip_prefix("one of ") {
        let choices: Vec<&str> = choices.split(", ").collect();
        let choice = choices.get(chance.below(choices.len()))?;
        return Some(toml::Value::String((*choice).to_owned()));
    }
    let is_number = setting.kind == "integer" && chance.below(3) < numbers;
    let (least, most) = limits(setting);
    // Small, or not far from what another setting has.
    let near = schema.get(chance.below(schema.len())).and_then(|other| other.default.as_deref());
    let from = match (chance.below(3), near.and_then(number)) {
        (0, Some(near)) => near,
        _ => least,
    };
    let range = if chance.below(2) == 0 { 4 } else { 48 };
    let value = from.saturating_add(chance.below(range) as i64).clamp(least, most);
    is_number.then_some(toml::Value::Integer(value))
}

fn number(text: &str) -> Option<i64> {
    text.replace('_', "").parse().ok()
}

/// The least and the greatest number that a setting may be.
fn limits(setting: &Setting) -> (i64, i64) {
    let limit = |text: &Option<String>| text.as_deref().and_then(number);
    (limit(&setting.min).unwrap_or(0), limit(&setting.max).unwrap_or(i64::MAX))
}

/// What settings whose names end in `_s` come to.
fn lifetimes_s(settings: &toml::Table, schema: &[Setting]) -> Vec<u64> {
    let timed = schema.iter().filter(|setting| setting.name.ends_with("_s"));
    let seconds = timed.filter_map(|setting| match settings.get(setting.name) {
        Some(value) => value.as_integer()?.try_into().ok(),
        None => setting.default.as_ref()?.replace('_', "").parse().ok(),
    });
    seconds.collect()
}

/// Addresses that settings have by default, where nobody has set them.
fn by_default(settings: &toml::Table, schema: &[Setting]) -> Vec<IpAddr> {
    let open = schema.iter().filter(|setting| !settings.contains_key(setting.name));
    let defaults = open.filter_map(|setting| setting.default.as_deref());
    defaults.filter_map(|text| text.trim_matches('"').parse().ok()).collect()
}

/// Collects addresses and numbers that may be ports.
fn read(value: &toml::Value, addresses: &mut Vec<IpAddr>, ports: &mut Vec<u16>) {
    match value {
        toml::Value::String(text) => addresses.extend(text.parse::<IpAddr>()),
        toml::Value::Integer(number) => {
            ports.extend(
                u16::try_from(*number).into_iter().filter(|port| (1..HIGH_PORTS).contains(port)),
            );
        }
        toml::Value::Array(all) => all.iter().for_each(|one| read(one, addresses, ports)),
        toml::Value::Table(table) => table.values().for_each(|one| read(one, addresses, ports)),
        _ => {}
    }
}

/// Collects the addresses that stand in one table with a port.
fn read_ends(value: &toml::Value, ends: &mut Vec<(IpAddr, u16)>) {
    match value {
        toml::Value::Array(all) => all.iter().for_each(|one| read_ends(one, ends)),
        toml::Value::Table(table) => {
            let (mut addresses, mut ports) = (Vec::new(), Vec::new());
            let named = table.iter().filter(|(name, _)| name.ends_with("port"));
            named.for_each(|(_, value)| read(value, &mut Vec::new(), &mut ports));
            table.values().for_each(|value| read(value, &mut addresses, &mut Vec::new()));
            let beside = |address: IpAddr| ports.iter().map(move |port| (address, *port));
            ends.extend(addresses.into_iter().flat_map(beside));
        }
        _ => {}
    }
}

impl Command {
    fn of((name, fields, _): (&'static str, Vec<Setting>, &'static str)) -> Self {
        let fields = fields.into_iter().map(|field| (field.name, field.kind)).collect();
        Self { name, fields }
    }

    /// The command with values drawn, mostly from what the settings hold: an address with the port beside it, so
    /// that what one command makes another finds.
    pub(crate) fn draw(&self, setup: &Setup, chance: &mut Seeds) -> String {
        let ends: Vec<&(IpAddr, u16)> =
            setup.known_ends.iter().filter(|(address, _)| self.is_about(*address)).collect();
        let end = ends.get(chance.below(ends.len())).filter(|_| chance.below(4) > 0);
        self.drawn(end.copied(), setup, chance)
    }

    /// Whether one of its fields is such an address.
    pub(crate) fn is_about(&self, address: IpAddr) -> bool {
        self.fields.iter().any(|(_, kind)| kind.as_str() == kind_of(address))
    }

    /// The command with values drawn, but for those of `end`.
    pub(crate) fn drawn(
        &self,
        end: Option<&(IpAddr, u16)>,
        setup: &Setup,
        chance: &mut Seeds,
    ) -> String {
        let fields = self.fields.iter().map(|(name, kind)| {
            let beside = end.and_then(|(address, port)| match (*name, kind.as_str()) {
                ("port", _) => Some(port.to_string()),
                (_, kind) => (kind == kind_of(*address)).then(|| address.to_string()),
            });
            let value = beside.unwrap_or_else(|| value(kind, setup, chance));
            format!(" {name}={value}")
        });
        let fields = fields.collect::<String>();
        format!("{}{fields}", self.name)
    }
}

/// What a setting that is such an address is called.
fn kind_of(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4 address" } else { "IPv6 address" }
}

/// A value for a field of a command: one of the settings', or one that packets of a program have too, so that the
/// command is about what they have left.
fn value(kind: &str, setup: &Setup, chance: &mut Seeds) -> String {
    let port = chance.below(setup.ports.len()) as u8;
    if let Some(choices) = kind.strip_prefix("one of ") {
        let choices: Vec<&str> = choices.split(", ").collect();
        return choices.get(chance.below(choices.len())).copied().unwrap_or_default().to_owned();
    }
    match kind {
        "IPv4 address" | "IPv6 address" => {
            let of_kind = |one: &&IpAddr| kind_of(**one) == kind;
            let known: Vec<&IpAddr> = setup.known_addresses.iter().filter(of_kind).collect();
            let at = chance.below(known.len());
            let known = known.get(at).filter(|_| chance.below(3) > 0);
            let host = address(port, 1 + chance.below(HOSTS) as u8, kind == "IPv4 address");
            known.map_or(host, |known| **known).to_string()
        }
        "Ethernet address" => station(port, chance.below(STATIONS) as u8).to_string(),
        "port number" => port.to_string(),
        "boolean" => (chance.below(2) == 0).to_string(),
        _ => match chance.below(3) {
            0 => chance.below(2).to_string(),
            1 => (1 + chance.below(LOW_PORTS)).to_string(),
            _ => {
                let at = chance.below(setup.known_ports.len());
                setup.known_ports.get(at).copied().unwrap_or(1).to_string()
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One number is as small as `init` accepts it, next to another where it has to be: few ports, while there is
    /// room for all else.
    #[test]
    fn what_is_cramped_has_little_room_of_one_kind() {
        let settings = crate::examples::example("nat").parse().unwrap();
        let setup = Setup::new::<anabranch_nfs::nat::Function>(settings);
        let number = |setup: &Setup, name: &str, default: i64| {
            setup.settings.get(name).and_then(toml::Value::as_integer).unwrap_or(default)
        };
        let mut chance = Seeds::new(1);
        let cramped: Vec<Setup> = (0..60)
            .map(|_| setup.cramped::<anabranch_nfs::nat::Function>(&setup, &mut chance))
            .collect();
        let ports = |setup: &Setup| {
            number(setup, "last_port", 65_535) - number(setup, "first_port", 1_024) + 1
        };
        let roomy = |setup: &&Setup| {
            number(setup, "sessions", 65_536) > 1_000 && number(setup, "hosts", 65_536) > 1_000
        };
        assert!(cramped.iter().filter(roomy).any(|setup| ports(setup) == 2));
        assert!(cramped.iter().any(|setup| number(setup, "peers", 65_536) == 1));
        assert!(cramped.iter().all(Setup::fits::<anabranch_nfs::nat::Function>));
    }

    #[test]
    fn most_commands_are_about_what_the_settings_name() {
        let settings = crate::examples::example("lb").parse().unwrap();
        let setup = Setup::new::<anabranch_nfs::lb::Function>(settings);
        assert_eq!(setup.known_ends.len(), 4 + 6, "services and backends");
        let named = |name| setup.commands.iter().find(|command| command.name == name).unwrap();
        let mut chance = Seeds::new(1);
        let (drain, drain6) = (named("drain-backend"), named("drain-backend6"));
        let drawn: Vec<String> = (0..100).map(|_| drain.draw(&setup, &mut chance)).collect();
        let known = drawn.iter().filter(|text| text.ends_with(" address=10.1.0.3 port=4")).count();
        assert!((5..50).contains(&known), "{drawn:?}");
        let drawn: Vec<String> = (0..100).map(|_| drain6.draw(&setup, &mut chance)).collect();
        assert!(drawn.contains(&"drain-backend6 address=fd00:1::3 port=4".to_owned()), "{drawn:?}");
        assert!(drawn.iter().all(|text| !text.contains("address=10.")), "{drawn:?}");
    }

    /// What a command ties, pins or bans is what packets of the program have.
    #[test]
    fn commands_are_about_hosts_that_send() {
        let setup = Setup::new::<anabranch_nfs::lb::Function>(toml::Table::new());
        let command = Command {
            name: "move",
            fields: vec![
                ("from", "IPv4 address".to_owned()),
                ("station", "Ethernet address".to_owned()),
                ("to", "one of inside, outside".to_owned()),
            ],
        };
        let mut chance = Seeds::new(1);
        let drawn: Vec<String> = (0..400).map(|_| command.draw(&setup, &mut chance)).collect();
        for (port, host) in [(0, 1), (0, 6), (1, 3)] {
            let text = format!(" from=10.{port}.0.{host} ");
            assert!(drawn.iter().any(|one| one.contains(&text)), "{text} of {drawn:?}");
        }
        assert!(drawn.iter().any(|one| one.contains(" station=02:00:00:00:01:03 to=inside")));
    }
}

//! How traffic is written: `flows=65536,zipf=1.1,…`.

use super::prefix::Prefix;
use super::spec::{Distribution, MAX_FLOWS, MAX_SIZE, Sizes, TrafficSpec};
use crate::spec::{SpecError, value};
use std::fmt;
use std::str::FromStr;

const KNOWN: &str = "flows, packets, uniform, zipf, mice, elephants, size, tcp, udp, handshake, rst, \
                     ipv6, reply, churn, rate, seed, inside, outside, hosts, servers, port, macs";

const DEFAULT_ELEPHANTS: f64 = 0.01;

impl FromStr for TrafficSpec {
    type Err = SpecError;

    /// Fails when an option is unknown or out of range, or when the options contradict each other.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut spec = Self::default();
        let options: Vec<&str> = text.split(',').filter(|option| !option.is_empty()).collect();
        for (at, option) in options.iter().enumerate() {
            if let Some(before) = options[..at].iter().find(|before| contradict(before, option)) {
                let text = format!("`{option}` does not go with `{before}`: give one of them");
                return Err(SpecError::Contradiction(text));
            }
            match option.split_once('=') {
                Some((name, text)) => spec.set(name, text)?,
                None => spec.set_word(option)?,
            }
        }
        spec.check()?;
        Ok(spec)
    }
}

impl TrafficSpec {
    fn set_word(&mut self, word: &str) -> Result<(), SpecError> {
        match word {
            "uniform" => self.distribution = Distribution::Uniform,
            "tcp" => self.tcp = 1.0,
            "udp" => self.tcp = 0.0,
            _ if KNOWN.split(", ").any(|known| known == word) => {
                return Err(SpecError::invalid(word, "", "the value is missing"));
            }
            _ => return Err(SpecError::unknown_option(word, KNOWN)),
        }
        Ok(())
    }

    fn set(&mut self, name: &str, text: &str) -> Result<(), SpecError> {
        let share = || value::decimal(name, text, 0.0..=1.0);
        match name {
            "flows" => self.flows = value::number_in(name, text, 1..=MAX_FLOWS)?,
            "packets" => self.packets = Some(value::number_in(name, text, 0..=u64::MAX)?),
            "zipf" | "mice" | "elephants" => self.set_distribution(name, text)?,
            "size" => self.sizes = sizes(text)?,
            "tcp" => self.tcp = share()?,
            "handshake" => self.handshake = value::parse(name, text, "write true or false")?,
            "rst" => self.rst = share()?,
            "ipv6" => self.ipv6 = share()?,
            "reply" => self.reply = share()?,
            "churn" => self.churn = value::decimal(name, text, 0.0..=1e9)?,
            "rate" => self.rate = value::number_in(name, text, 1..=1_000_000_000)?,
            "seed" => self.seed = value::number_in(name, text, 0..=u64::MAX)?,
            "inside" | "outside" => self.set_prefix(name, text)?,
            "hosts" => self.hosts = Some(value::number_in(name, text, 1..=MAX_FLOWS)?),
            "servers" => self.servers = Some(value::number_in(name, text, 1..=MAX_FLOWS)?),
            "port" => self.port = Some(value::number_in(name, text, 1..=u16::MAX)?),
            "uniform" | "udp" => {
                return Err(SpecError::invalid(name, text, "it takes no value: write it alone"));
            }
            "macs" => self.macs = value::number_in(name, text, 2..=MAX_FLOWS)?,
            _ => return Err(SpecError::unknown_option(name, KNOWN)),
        }
        Ok(())
    }

    fn set_distribution(&mut self, name: &str, text: &str) -> Result<(), SpecError> {
        if name == "zipf" {
            let exponent = value::decimal(name, text, 0.0..=10.0)?;
            self.distribution = Distribution::Zipf { exponent };
            return Ok(());
        }
        let given = value::decimal(name, text, 0.0..=1.0)?;
        let before = match self.distribution {
            Distribution::Mice { share, elephants } => (share, elephants),
            _ => (0.8, DEFAULT_ELEPHANTS),
        };
        let (share, elephants) = if name == "mice" { (given, before.1) } else { (before.0, given) };
        self.distribution = Distribution::Mice { share, elephants };
        Ok(())
    }

    fn set_prefix(&mut self, name: &str, text: &str) -> Result<(), SpecError> {
        let prefix: Prefix = value::parse(name, text, "write a prefix, such as 10.0.0.0/8")?;
        let place = match (name, prefix.is_ipv6()) {
            ("inside", false) => &mut self.inside,
            ("inside", true) => &mut self.inside6,
            (_, false) => &mut self.outside,
            (_, true) => &mut self.outside6,
        };
        *place = prefix;
        Ok(())
    }
}

/// Whether two options say the same thing, or two things of which only one can hold. Prefixes are given for each
/// version of IP.
fn contradict(one: &str, other: &str) -> bool {
    let is_distribution = |name| matches!(name, "uniform" | "zipf" | "mice" | "elephants");
    match [one, other].map(|option| option.split('=').next().unwrap_or(option)) {
        ["inside", "inside"] | ["outside", "outside"] => one.contains(':') == other.contains(':'),
        ["tcp" | "udp", "tcp" | "udp"] => true,
        ["mice", "elephants"] | ["elephants", "mice"] => false,
        [a, b] => a == b || is_distribution(a) && is_distribution(b),
    }
}

fn sizes(text: &str) -> Result<Sizes, SpecError> {
    if text == "imix" {
        return Ok(Sizes::Imix);
    }
    let size = |text| {
        let number = value::number_in("size", text, 60..=MAX_SIZE);
        number.map_err(|_| SpecError::invalid("size", text, "write 60 to 9216, 64-1500, or imix"))
    };
    match text.split_once('-') {
        Some((first, last)) => Ok(Sizes::Range(size(first)?, size(last)?)),
        None => Ok(Sizes::Fixed(size(text)?)),
    }
}

impl fmt::Display for TrafficSpec {
    /// Every option that has a value, so that the text reads back as the same specification.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flows={},{},size={}", self.flows, self.distribution, self.sizes)?;
        write!(f, ",tcp={},handshake={},rst={}", self.tcp, self.handshake, self.rst)?;
        write!(f, ",ipv6={},reply={},churn={}", self.ipv6, self.reply, self.churn)?;
        write!(f, ",rate={},seed={},macs={}", self.rate, self.seed, self.macs)?;
        write!(f, ",inside={},inside={}", self.inside, self.inside6)?;
        write!(f, ",outside={},outside={}", self.outside, self.outside6)?;
        let optional = [
            ("packets", self.packets),
            ("hosts", self.hosts.map(u64::from)),
            ("servers", self.servers.map(u64::from)),
            ("port", self.port.map(u64::from)),
        ];
        let mut given = optional.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given.try_for_each(|(name, value)| write!(f, ",{name}={value}"))
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { exponent } => write!(f, "zipf={exponent}"),
            Self::Mice { share, elephants } => write!(f, "mice={share},elephants={elephants}"),
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => size.fmt(f),
            Self::Imix => f.write_str("imix"),
            Self::Range(first, last) => write!(f, "{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TrafficSpec, String> {
        text.parse().map_err(|error: SpecError| error.to_string())
    }

    #[test]
    fn options_are_read_in_any_order() {
        let spec =
            parse("packets=9,elephants=0.1,mice=0.7,size=64-1500,udp,inside=fd01::/64").unwrap();
        assert_eq!(spec.distribution, Distribution::Mice { share: 0.7, elephants: 0.1 });
        assert_eq!((spec.packets(), spec.sizes, spec.tcp), (9, Sizes::Range(64, 1_500), 0.0));
        assert_eq!(spec.inside6.to_string(), "fd01::/64");
        assert_eq!(parse("").unwrap(), TrafficSpec::default());
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in ["flows=5,zipf=1.25", "mice=0.5,size=imix,port=9", "uniform,size=60,seed=7"] {
            let spec = parse(text).unwrap();
            assert_eq!(parse(&spec.to_string()), Ok(spec));
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        let error = |text| parse(text).unwrap_err();
        assert_eq!(error("uniform=3"), "uniform=3: it takes no value: write it alone");
        assert_eq!(error("udp=0.5"), "udp=0.5: it takes no value: write it alone");
        assert_eq!(error("flows=0"), "flows=0: out of range; write 1 to 16777216");
        assert!(error("flow=1").starts_with("unknown option `flow`; there are flows, packets,"));
        assert_eq!(error("zipf"), "zipf=: the value is missing");
        assert_eq!(error("port=70000"), "port=70000: out of range; write 1 to 65535");
        for (text, what) in [
            ("tcp,udp", "`udp` does not go with `tcp`: give one of them"),
            ("flows=3,flows=5", "`flows=5` does not go with `flows=3`: give one of them"),
            ("zipf=1,elephants=0.1", "`elephants=0.1` does not go with `zipf=1`: give one of them"),
            (
                "inside=10.0.0.0/8,inside=fd01::/64,inside=10.0.0.0/9",
                "`inside=10.0.0.0/9` does not go with `inside=10.0.0.0/8`: give one of them",
            ),
        ] {
            assert_eq!(error(text), what);
        }
        assert_eq!(error("size=10"), "size=10: write 60 to 9216, 64-1500, or imix");
        assert_eq!(error("size=1500-64"), "size=1500-64: write 60 to 9216, the smaller one first");
        assert_eq!(error("inside=10.0.0"), "inside=10.0.0: write a prefix, such as 10.0.0.0/8");
        assert_eq!(
            error("flows=70000,hosts=1"),
            "flows=70000 on hosts=1: a host has 64512 ports; give more hosts"
        );
        assert_eq!(
            error("flows=1000,inside=10.0.0.0/24,hosts=500"),
            "hosts=500: 10.0.0.0/24 has room for 253"
        );
        assert_eq!(
            error("churn=1000,rate=1000"),
            "churn=1000: at rate=1000 write 0 to 125, an eighth of the rate"
        );
    }
}

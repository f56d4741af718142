//! What traffic is asked for.

use super::prefix::Prefix;
use crate::spec::SpecError;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Ephemeral ports an inside host uses: 1,024 to 65,535.
pub(super) const PORTS_PER_HOST: u64 = 64_512;

/// The most flows at once.
pub const MAX_FLOWS: u32 = 1 << 24;

/// The longest data packets, in bytes.
pub(super) const MAX_SIZE: u32 = 9_216;

/// How packets spread over flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Each flow is as likely as any other.
    Uniform,
    /// The flow of rank `r` has weight `r^-exponent`.
    Zipf {
        /// 0 is uniform; measured traffic has about 1.
        exponent: f64,
    },
    /// Few flows carry most packets.
    Mice {
        /// Share of the packets that belong to elephants.
        share: f64,
        /// Share of the flows that are elephants.
        elephants: f64,
    },
}

/// Bytes of data packets, without frame check sequence. A packet whose headers alone are longer has
/// no payload and is that long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All alike.
    Fixed(u32),
    /// The simple IMIX: of 12 packets 7 of 64 bytes, 4 of 590 and 1 of 1,514.
    Imix,
    /// Any length from the first to the last, all equally likely.
    Range(u32, u32),
}

/// What traffic is asked for: `gen:flows=65536,zipf=1.1,…`.
///
/// | option | meaning | default |
/// |---|---|---|
/// | `flows=N` | flows at once, each with an inside address and port of its own | 1,000 |
/// | `packets=N` | packets in all | 4 × flows |
/// | `uniform`, `zipf=EXPONENT`, `mice=SHARE` | how packets spread over flows; `mice`: that share of them belongs to elephants | `uniform` |
/// | `elephants=SHARE` | share of the flows that are elephants | 0.01 |
/// | `size=64`, `size=imix`, `size=64-1500` | bytes of data packets, without frame check sequence | 64 |
/// | `tcp=SHARE`, `tcp`, `udp` | share of the flows that are TCP; the others are UDP | 0.8 |
/// | `handshake=BOOL` | TCP flows begin with SYN, SYN-ACK, ACK | true |
/// | `rst=SHARE` | share of the TCP flows that end with RST instead of FIN | 0 |
/// | `ipv6=SHARE` | share of the flows that are IPv6 | 0 |
/// | `reply=SHARE` | share of the data packets that come from outside; 0: only the inside sends | 0.5 |
/// | `churn=N` | flows per second that end, each replaced by a new one | 0 |
/// | `rate=N` | packets per second, which sets their times | 1,000,000 |
/// | `seed=N` | the same seed gives the same bytes | 1 |
/// | `inside=PREFIX`, `outside=PREFIX` | addresses; may be given for IPv4 and for IPv6 | 10.0.0.0/8, 198.18.0.0/15, fd00::/64, 2001:db8::/64 |
/// | `hosts=N`, `servers=N` | how many inside and outside addresses | flows / 16, flows (or as many as there are) |
/// | `port=N` | port of all servers | 443 or 80 (TCP), 7 (UDP, echo) |
/// | `macs=N` | stations, half of them inside | 2 |
///
/// A flow's first packet always comes from inside. Flows end by churn only.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficSpec {
    /// Flows at once.
    pub flows: u32,
    /// Packets in all; `None`: four times `flows`.
    pub packets: Option<u64>,
    /// How packets spread over flows.
    pub distribution: Distribution,
    /// Bytes of data packets.
    pub sizes: Sizes,
    /// Share of the flows that are TCP.
    pub tcp: f64,
    /// Whether TCP flows begin with a handshake.
    pub handshake: bool,
    /// Share of the TCP flows that end with RST.
    pub rst: f64,
    /// Share of the flows that are IPv6.
    pub ipv6: f64,
    /// Share of the data packets that come from outside.
    pub reply: f64,
    /// Flows replaced per second.
    pub churn: f64,
    /// Packets per second.
    pub rate: u64,
    /// Chooses among all traffic of this description.
    pub seed: u64,
    /// Inside IPv4 addresses.
    pub inside: Prefix,
    /// Outside IPv4 addresses.
    pub outside: Prefix,
    /// Inside IPv6 addresses.
    pub inside6: Prefix,
    /// Outside IPv6 addresses.
    pub outside6: Prefix,
    /// How many inside addresses; `None`: a sixteenth of `flows`.
    pub hosts: Option<u32>,
    /// How many outside addresses; `None`: as many as `flows`, or as there are.
    pub servers: Option<u32>,
    /// Port of all servers; `None`: by protocol.
    pub port: Option<u16>,
    /// Stations, half of them inside.
    pub macs: u32,
}

impl Default for TrafficSpec {
    fn default() -> Self {
        Self {
            flows: 1_000,
            packets: None,
            distribution: Distribution::Uniform,
            sizes: Sizes::Fixed(64),
            tcp: 0.8,
            handshake: true,
            rst: 0.0,
            ipv6: 0.0,
            reply: 0.5,
            churn: 0.0,
            rate: 1_000_000,
            seed: 1,
            inside: Prefix::v4(Ipv4Addr::new(10, 0, 0, 0), 8),
            outside: Prefix::v4(Ipv4Addr::new(198, 18, 0, 0), 15),
            inside6: Prefix::v6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0), 64),
            outside6: Prefix::v6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 64),
            hosts: None,
            servers: None,
            port: None,
            macs: 2,
        }
    }
}

impl TrafficSpec {
    /// Packets in all.
    pub fn packets(&self) -> u64 {
        self.packets.unwrap_or(4 * u64::from(self.flows))
    }

    /// Inside addresses in use.
    pub fn hosts(&self) -> u32 {
        let usual = self.flows.div_ceil(16);
        self.hosts.unwrap_or_else(|| fit(usual, [self.inside, self.inside6])).max(1)
    }

    /// Outside addresses in use.
    pub fn servers(&self) -> u32 {
        self.servers.unwrap_or_else(|| fit(self.flows, [self.outside, self.outside6])).max(1)
    }

    /// Checks that the parts go together.
    ///
    /// Fails when the flows do not fit the addresses and ports, when shares are no shares, or when
    /// flows change faster than packets come.
    pub fn check(&self) -> Result<(), SpecError> {
        if !(1..=MAX_FLOWS).contains(&self.flows) {
            return contradiction(format!("flows={}: write 1 to {MAX_FLOWS}", self.flows));
        }
        self.check_shares()?;
        self.check_sizes()?;
        self.check_addresses()?;
        if self.rate == 0 || self.macs < 2 {
            return contradiction("rate must be at least 1 and macs at least 2".to_owned());
        }
        // A flow that ends and the one that replaces it take at most six packets.
        let limit = self.rate as f64 / 8.0;
        if !(0.0..=limit).contains(&self.churn) {
            return contradiction(format!(
                "churn={}: at rate={} write 0 to {limit}, an eighth of the rate",
                self.churn, self.rate
            ));
        }
        Ok(())
    }

    fn check_shares(&self) -> Result<(), SpecError> {
        let (mut shares, mut exponent) = (vec![self.tcp, self.rst, self.ipv6, self.reply], 0.0);
        match self.distribution {
            Distribution::Uniform => {}
            Distribution::Zipf { exponent: given } => exponent = given,
            Distribution::Mice { share, elephants } => shares.extend([share, elephants]),
        }
        if !shares.iter().all(|share| (0.0..=1.0).contains(share)) {
            return contradiction("a share is out of range: write 0 to 1".to_owned());
        }
        if !(0.0..=10.0).contains(&exponent) {
            return contradiction(format!("zipf={exponent}: write 0 to 10"));
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), SpecError> {
        let (first, last) = match self.sizes {
            Sizes::Fixed(size) => (size, size),
            Sizes::Imix => return Ok(()),
            Sizes::Range(first, last) => (first, last),
        };
        if (60..=MAX_SIZE).contains(&first) && (first..=MAX_SIZE).contains(&last) {
            return Ok(());
        }
        contradiction(format!("size={first}-{last}: write 60 to {MAX_SIZE}, the smaller one first"))
    }

    fn check_addresses(&self) -> Result<(), SpecError> {
        let per_host = u64::from(self.flows).div_ceil(u64::from(self.hosts()));
        if per_host > PORTS_PER_HOST {
            return contradiction(format!(
                "flows={} on hosts={}: a host has {PORTS_PER_HOST} ports; give more hosts",
                self.flows,
                self.hosts()
            ));
        }
        for (name, count, prefixes) in [
            ("hosts", self.hosts(), [self.inside, self.inside6]),
            ("servers", self.servers(), [self.outside, self.outside6]),
        ] {
            if prefixes.map(|prefix| prefix.is_ipv6()) != [false, true] {
                return contradiction("an IPv4 prefix where an IPv6 one belongs, or so".to_owned());
            }
            let full = prefixes.into_iter().find(|prefix| u64::from(count) > prefix.hosts());
            if let Some(prefix) = full {
                let room = prefix.hosts();
                return contradiction(format!("{name}={count}: {prefix} has room for {room}"));
            }
        }
        Ok(())
    }
}

fn contradiction(text: String) -> Result<(), SpecError> {
    Err(SpecError::Contradiction(text))
}

fn fit(wanted: u32, prefixes: [Prefix; 2]) -> u32 {
    let room = prefixes.iter().map(Prefix::hosts).min().unwrap_or(1);
    u32::try_from(room).unwrap_or(u32::MAX).min(wanted)
}

//! What a port that routes takes its link to carry, by what its interface carries.

use anabranch_io::live::LiveSpec;
use toml::{Table, Value};

use crate::error::Error;

/// Largest IP packet of a link where nothing else is said.
const USUAL: i64 = 1_500;

/// Gives each of the `interfaces` in `settings` that names no MTU that of its port's interface, where this is less
/// than usual; `mtu` says what an interface carries.
///
/// # Errors
/// [`Error::Settings`]: an interface carries less than is set. What is longer would be dropped when it is sent, and
/// nobody told, so that path MTU discovery fails (RFC 1191, section 2).
pub(crate) fn fit(
    settings: &mut Table,
    specs: &[LiveSpec],
    ports: &[String],
    mtu: impl Fn(&LiveSpec) -> Option<usize>,
) -> Result<(), Error> {
    let Some(Value::Table(interfaces)) = settings.get_mut("interfaces") else { return Ok(()) };
    for (spec, port) in specs.iter().zip(ports) {
        let Some(Value::Table(interface)) = interfaces.get_mut(port) else { continue };
        let Some(carried) = mtu(spec).and_then(|mtu| i64::try_from(mtu).ok()) else { continue };
        let set = interface.get("mtu").map(Value::as_integer);
        match set {
            Some(Some(set)) if set > carried => {
                return Err(Error::Settings(format!(
                    "interfaces.{port}.mtu: {spec} carries {carried} bytes, and not {set}: write `mtu = {carried}`, \
                     or nothing"
                )));
            }
            // What is no number is for the function to refuse.
            Some(_) => {}
            None => {
                interface.insert("mtu".to_owned(), carried.min(USUAL).into());
            }
        }
    }
    Ok(())
}

/// The links of ports that route, while the run goes on.
pub(super) struct Links(Vec<Link>);

struct Link {
    port: String,
    spec: LiveSpec,
    /// Largest packet that hosts are told of.
    told: usize,
    /// Whether its interface carries less.
    is_short: bool,
}

impl Links {
    /// Those of `settings`, to which [`fit`] has given their MTUs, where their interfaces were there.
    pub(super) fn new(settings: &Table, specs: &[LiveSpec], ports: &[String]) -> Self {
        let interfaces = settings.get("interfaces").and_then(Value::as_table);
        let link = |(spec, port): (&LiveSpec, &String)| {
            // An interface that the run makes is there only now.
            let mtu = interfaces?.get(port)?.get("mtu").map_or(Some(USUAL), Value::as_integer)?;
            let told = usize::try_from(mtu).ok()?;
            Some(Link { port: port.clone(), spec: spec.clone(), told, is_short: false })
        };
        Self(specs.iter().zip(ports).filter_map(link).collect())
    }

    /// What is to be said of links whose interfaces have come to carry less than hosts are told, or carry it again.
    pub(super) fn look(&mut self, mtu: impl Fn(&LiveSpec) -> Option<usize>) -> Vec<String> {
        let changed = |link: &mut Link| {
            let Link { port, spec, told, is_short } = link;
            let carried = mtu(spec)?;
            if (carried < *told) == *is_short {
                return None;
            }
            *is_short = carried < *told;
            let told = *told;
            Some(match is_short {
                true => format!(
                    "port {port}: {spec} carries {carried} bytes now, and not {told}: longer packets are dropped \
                     (`packet-too-big`), and nobody is told; begin the run anew, or give it back its MTU"
                ),
                false => format!("port {port}: {spec} carries {told} bytes again"),
            })
        };
        self.0.iter_mut().filter_map(changed).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn fitted(line: &str, carried: Option<usize>) -> Result<Option<i64>, String> {
        let mut settings: Table =
            format!("[interfaces.wan]\n{line}\n[interfaces.other]").parse().unwrap();
        let specs: Vec<LiveSpec> =
            ["afpacket:eth1", "xdp:eth2"].iter().map(|text| text.parse().unwrap()).collect();
        let ports = ["lan".to_owned(), "wan".to_owned()];
        let mtu = |spec: &LiveSpec| if spec.interface == "eth2" { carried } else { Some(1) };
        fit(&mut settings, &specs, &ports, mtu).map_err(|error| error.to_string())?;
        Ok(settings["interfaces"]["wan"].get("mtu").and_then(Value::as_integer))
    }

    #[test]
    fn a_link_carries_no_more_than_its_interface() {
        assert_eq!(fitted("", Some(1_400)), Ok(Some(1_400)));
        assert_eq!(fitted("", Some(9_000)), Ok(Some(1_500)));
        assert_eq!(fitted("", None), Ok(None));
        assert_eq!(fitted("mtu = 1280", Some(1_400)), Ok(Some(1_280)));
        assert_eq!(fitted("mtu = 9000", Some(9_000)), Ok(Some(9_000)));
        assert_eq!(fitted("mtu = \"much\"", Some(1_400)), Ok(None));
        let why = fitted("mtu = 1500", Some(1_400)).unwrap_err();
        assert!(
            why.contains("interfaces.wan.mtu: xdp:eth2 carries 1400 bytes, and not 1500"),
            "{why}"
        );
    }

    #[test]
    fn a_link_that_comes_to_carry_less_is_told_of_once() {
        let settings: Table = "[interfaces.wan]\n[interfaces.lan]\nmtu = 68".parse().unwrap();
        let specs: Vec<LiveSpec> =
            ["afpacket:eth1", "xdp:eth2"].iter().map(|text| text.parse().unwrap()).collect();
        let mut links = Links::new(&settings, &specs, &["lan".to_owned(), "wan".to_owned()]);
        let mut said = |carried| links.look(|_| carried);
        assert!(said(Some(1_500)).is_empty() && said(None).is_empty());
        let [less] = &said(Some(1_400))[..] else { panic!("one link") };
        assert!(less.starts_with("port wan: xdp:eth2 carries 1400 bytes now, and not 1500"));
        assert!(said(Some(1_300)).is_empty() && said(None).is_empty());
        assert_eq!(said(Some(9_000)), ["port wan: xdp:eth2 carries 1500 bytes again"]);
        assert!(Links::new(&Table::new(), &specs, &["lan".to_owned()]).0.is_empty());
    }

    #[test]
    fn a_function_without_interfaces_is_a_wire() {
        let mut settings = Table::new();
        let specs = ["afpacket:eth1".parse().unwrap()];
        fit(&mut settings, &specs, &["lan".to_owned()], |_| Some(1_400)).unwrap();
        assert_eq!(settings, Table::new());
    }
}

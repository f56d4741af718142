//! How sources and sinks are written on the command line.
//!
//! | text | meaning |
//! |---|---|
//! | `FILE`, `pcap:FILE` | a capture file, pcap or pcapng, read as it is consumed |
//! | `mem:FILE`, `mem:FILE?loop=N`, `mem:FILE?for=10s` | a capture in memory, repeated N times or for a time |
//! | `gen:flows=65536,zipf=1.1,…` | generated traffic, see [`TrafficSpec`] |
//! | `null` | as a sink: packets are counted and discarded |
//! | `lan=…` | any of these, bound to a port by name |

mod error;
pub(crate) mod value;

pub use error::SpecError;

use crate::capture::CaptureFormat;
use crate::source::Repeat;
use crate::traffic::TrafficSpec;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where packets come from.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceSpec {
    /// A capture file.
    Capture(PathBuf),
    /// A capture that is read into memory and repeated.
    Memory {
        /// The capture.
        file: PathBuf,
        /// How often.
        repeat: Repeat,
    },
    /// Generated traffic.
    Traffic(Box<TrafficSpec>),
}

impl FromStr for SourceSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match split_kind(text) {
            (Some("pcap"), file) => Ok(Self::Capture(file_name(text, file)?)),
            (Some("mem"), rest) => parse_memory(text, rest),
            (Some("gen"), options) => Ok(Self::Traffic(Box::new(options.parse()?))),
            (None, "null") => Err(SpecError::NotASource),
            (None, file) => Ok(Self::Capture(file_name(text, file)?)),
            (Some(kind), _) => Err(SpecError::unknown_kind(text, kind, "pcap:, mem: or gen:")),
        }
    }
}

impl fmt::Display for SourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(file) => write!(f, "pcap:{}", file.display()),
            Self::Memory { file, repeat: Repeat::Times(times) } => {
                write!(f, "mem:{}?loop={times}", file.display())
            }
            Self::Memory { file, repeat: Repeat::For(time) } => {
                write!(f, "mem:{}?for={}ms", file.display(), time.as_millis())
            }
            Self::Traffic(spec) => write!(f, "gen:{spec}"),
        }
    }
}

fn parse_memory(text: &str, rest: &str) -> Result<SourceSpec, SpecError> {
    let (file, option) = rest.rsplit_once('?').unwrap_or((rest, "loop=1"));
    let file = file_name(text, file)?;
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let repeat = match name {
        "loop" => Repeat::Times(value::number_in(name, value, 1..=u64::MAX)?),
        "for" => Repeat::For(value::duration(name, value)?),
        _ => return Err(SpecError::unknown_option(name, "loop=N, for=10s")),
    };
    Ok(SourceSpec::Memory { file, repeat })
}

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkSpec {
    /// A capture file; its extension chooses the format.
    Capture(PathBuf),
    /// Counted and discarded.
    Null,
}

impl FromStr for SinkSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let file = match split_kind(text) {
            (None, "null") => return Ok(Self::Null),
            (Some("pcap") | None, file) => file_name(text, file)?,
            (Some(kind), _) => {
                return Err(SpecError::unknown_kind(text, kind, "pcap: or null"));
            }
        };
        match CaptureFormat::of_file_name(&file) {
            Some(_) => Ok(Self::Capture(file)),
            None => Err(SpecError::UnknownFormat { file }),
        }
    }
}

impl fmt::Display for SinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(file) => write!(f, "pcap:{}", file.display()),
            Self::Null => f.write_str("null"),
        }
    }
}

/// A source or sink and, where one is named, its port: `lan=FILE`.
///
/// A port's name has letters, digits, `-` and `_`. To name a file `a=b.pcap`, write
/// `pcap:a=b.pcap` or `./a=b.pcap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortBinding<S> {
    /// The port's name, as the network function declares it.
    pub port: Option<String>,
    /// What is bound to it.
    pub spec: S,
}

impl<S: FromStr<Err = SpecError>> FromStr for PortBinding<S> {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text.split_once('=') {
            Some((port, spec)) if is_port_name(port) => {
                Ok(Self { port: Some(port.to_owned()), spec: spec.parse()? })
            }
            Some(("", _)) => Err(SpecError::NoPort { spec: text.to_owned() }),
            Some((port, _)) if split_kind(port).0.is_none() && !port.contains('/') => {
                Err(SpecError::BadPort { port: port.to_owned(), spec: text.to_owned() })
            }
            _ => Ok(Self { port: None, spec: text.parse()? }),
        }
    }
}

impl<S: fmt::Display> fmt::Display for PortBinding<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.port {
            Some(port) => write!(f, "{port}={}", self.spec),
            None => self.spec.fmt(f),
        }
    }
}

fn is_port_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.is_empty() && text.bytes().all(allowed)
}

/// Splits `kind:rest`. Without a colon, or where what is before it cannot be a kind (`./a:b`), the
/// whole text is a file name.
fn split_kind(text: &str) -> (Option<&str>, &str) {
    match text.split_once(':') {
        Some((kind, rest)) if kind.bytes().all(|byte| byte.is_ascii_lowercase()) => {
            (Some(kind), rest)
        }
        _ => (None, text),
    }
}

fn file_name(text: &str, file: &str) -> Result<PathBuf, SpecError> {
    if file.is_empty() {
        return Err(SpecError::NoFile { spec: text.to_owned() });
    }
    if file == "-" {
        return Err(SpecError::Dash);
    }
    Ok(Path::new(file).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn memory(file: &str, repeat: Repeat) -> SourceSpec {
        SourceSpec::Memory { file: file.into(), repeat }
    }

    #[test]
    fn sources() {
        let parse = |text: &str| text.parse::<SourceSpec>().unwrap();
        assert_eq!(parse("a.pcap"), SourceSpec::Capture("a.pcap".into()));
        assert_eq!(parse("pcap:x:y?z"), SourceSpec::Capture("x:y?z".into()));
        assert_eq!(parse("/tmp/a:b.pcap"), SourceSpec::Capture("/tmp/a:b.pcap".into()));
        assert_eq!(parse("mem:a"), memory("a", Repeat::Times(1)));
        assert_eq!(parse("mem:a?loop=1_000"), memory("a", Repeat::Times(1_000)));
        assert_eq!(
            parse("mem:a?b?for=1.5s"),
            memory("a?b", Repeat::For(Duration::from_millis(1_500)))
        );
        let SourceSpec::Traffic(traffic) = parse("gen:flows=7,zipf=1.1") else { panic!() };
        assert_eq!(traffic.flows, 7);
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in ["pcap:a", "mem:a?loop=3", "mem:a?for=250ms"] {
            assert_eq!(text.parse::<SourceSpec>().unwrap().to_string(), text);
        }
        let generated: SourceSpec = "gen:flows=9,mice=0.8".parse().unwrap();
        assert_eq!(generated.to_string().parse::<SourceSpec>().unwrap(), generated);
        for text in ["null", "pcap:out.pcapng", "wan=pcap:x.pcap"] {
            assert_eq!(text.parse::<PortBinding<SinkSpec>>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn bindings_name_a_port() {
        let parse = |text: &str| text.parse::<PortBinding<SourceSpec>>().unwrap();
        assert_eq!(parse("lan=a.pcap").port.as_deref(), Some("lan"));
        assert_eq!(parse("lan=mem:a?loop=2").spec, memory("a", Repeat::Times(2)));
        assert_eq!(parse("gen:flows=5").port, None);
        assert_eq!(parse("mem:a?loop=2").port, None);
        assert_eq!(parse("pcap:a=b").spec, SourceSpec::Capture("a=b".into()));
        assert_eq!(parse("./a b=c").spec, SourceSpec::Capture("./a b=c".into()));
    }

    #[test]
    fn every_error_says_what_to_write() {
        let source = |text: &str| text.parse::<SourceSpec>().unwrap_err().to_string();
        assert_eq!(source("null"), "this is a sink; as a source give a capture, mem: or gen:");
        assert_eq!(
            source("foo:a"),
            "there is no kind `foo:`; write pcap:, mem: or gen: (a file whose name contains a \
             colon is written pcap:foo:a)"
        );
        assert_eq!(source("mem:"), "the file name is missing; write for example mem:FILE");
        assert_eq!(source("mem:a?x=1"), "unknown option `x`; there are loop=N, for=10s");
        assert_eq!(source("mem:a?loop=x"), "loop=x: write a whole number, such as 1000 or 1_000");
        assert_eq!(
            source("mem:a?for=3"),
            "for=3: write a time with its unit, such as 10s or 500ms"
        );
        let bound = "=a.pcap".parse::<PortBinding<SourceSpec>>().unwrap_err().to_string();
        assert_eq!(
            bound,
            "the port's name is missing before `=` (a file whose name begins so is written pcap:=a.pcap)"
        );
        for port in ["p<0>", "lan 1", "eth0.100", "größe"] {
            let spec = format!("{port}=in.pcap");
            let source = spec.parse::<PortBinding<SourceSpec>>().unwrap_err();
            let sink = spec.parse::<PortBinding<SinkSpec>>().unwrap_err();
            let said = format!(
                "`{port}` is no port's name: it has letters, digits, `-` and `_` (a file whose name has a `=` is \
                 written pcap:{spec})"
            );
            assert_eq!([source.to_string(), sink.to_string()], [said.clone(), said]);
        }
        let sink = |text: &str| text.parse::<SinkSpec>().unwrap_err().to_string();
        assert_eq!(
            sink("a.txt"),
            "a.txt: no capture format has this extension; write .pcap or .pcapng"
        );
        assert!(sink("mem:a").contains("write pcap: or null"));
    }
}

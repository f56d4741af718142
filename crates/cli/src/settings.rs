//! What the operator sets: the configuration file, `--set` over it, and timed `--control` commands.

use std::path::Path;

use anabranch_nf::settings::{set as set_one, set_twice};
use toml::Table;

use crate::error::Error;
use crate::store::Section;

/// What `config` (when there is one) says, with each `KEY=VALUE` of `set` over it: the function's settings, and
/// the store that keeps the state, where it names one.
///
/// Whether the NF knows the keys and accepts the values is for the NF to say.
///
/// # Errors
/// [`Error::Settings`], naming the file and line, or the option.
pub(crate) fn configuration(
    config: Option<&Path>,
    set: &[String],
) -> Result<(Table, Option<Section>), Error> {
    let mut table = match config {
        Some(path) => read(path)?,
        None => Table::new(),
    };
    if let Some(key) = set_twice(set.iter().map(String::as_str)) {
        return Err(Error::Settings(format!("--set {key}=…: `{key}` is set twice: set it once")));
    }
    for assignment in set {
        set_one(&mut table, assignment).map_err(|why| {
            match assignment.trim_start().starts_with("store") {
                // It may be that of a password.
                true => {
                    Error::Settings("--set store…: write it as --store, or in --config".to_owned())
                }
                false => Error::Settings(format!("--set {assignment}: {why}")),
            }
        })?;
    }
    let section = Section::take(&mut table)?;
    Ok((table, section))
}

/// The same for a command that keeps no state.
///
/// # Errors
/// As above.
pub(crate) fn settings(config: Option<&Path>, set: &[String]) -> Result<Table, Error> {
    configuration(config, set).map(|(table, _)| table)
}

/// Where settings are from that the function refuses; `None`: from the command line alone, whose words it quotes.
pub(crate) fn settings_from(config: Option<&Path>, set: &[String]) -> Option<String> {
    let over = if set.is_empty() { "" } else { ", with --set over it" };
    config.map(|file| format!("{}{over}", file.display()))
}

fn read(path: &Path) -> Result<Table, Error> {
    let text = crate::file::read(path)?;
    text.parse().map_err(|cause: toml::de::Error| {
        // Without the line itself: it may be that of a password.
        let before = cause.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Error::Settings(format!("{}, line {line}: {}", path.display(), plainly(cause.message())))
    })
}

/// What the parser says; of a number that no setting can hold, which it says by the types of its own text, what would
/// be one.
fn plainly(message: &str) -> String {
    if !message.starts_with("invalid type: integer") && message != "u64 value was too large" {
        return message.to_owned();
    }
    format!("a number does not fit: write one from {} to {}", i64::MIN, i64::MAX)
}

/// A command for the NF and when it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Nanoseconds after the first packet's arrival.
    pub at_ns: u64,
    /// The command, as in `add-backend address=10.0.0.1`.
    pub command: String,
}

/// Reads `at=TIME COMMAND`; without `at=`, the command is given before the first packet.
///
/// # Errors
/// [`Error::Settings`] for a time or a command that is missing or wrong.
pub(crate) fn control(text: &str) -> Result<Control, Error> {
    let wrong = |what: &str| {
        Error::Settings(format!(
            "--control \"{text}\": {what}; write for example \"at=1.5s add-backend \
             address=10.0.0.1\""
        ))
    };
    let (at_ns, command) = match text.trim().strip_prefix("at=") {
        None => (0, text.trim()),
        Some(rest) => {
            let (time, command) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let at_ns = duration_ns(time)
                .ok_or_else(|| wrong(&format!("`{time}` is no time in ns, us, ms, s or m")))?;
            (at_ns, command.trim())
        }
    };
    if command.is_empty() {
        return Err(wrong("the command is missing"));
    }
    let command = command.to_string();
    Ok(Control { at_ns, command })
}

/// A time as in `1.5s`, `200ms`, `10us`, `3ns`, `2m`; `None` when it is not one or is too long to
/// count in nanoseconds.
fn duration_ns(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.'))?;
    let (number, unit) = text.split_at(digits);
    let ns_per_unit = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        _ => return None,
    };
    let ns = number.parse::<f64>().ok()? * ns_per_unit;
    (ns < u64::MAX as f64).then_some(ns.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_wins_over_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nat.toml");
        std::fs::write(&path, "a = 1\nb = 2\n").unwrap();
        let table = settings(Some(&path), &["b=3".to_string()]).unwrap();
        assert_eq!((&table["a"], &table["b"]), (&1.into(), &3.into()));
    }

    #[test]
    fn a_setting_is_set_once() {
        let set = ["a=1", "b.c=2", " a =3"].map(str::to_owned);
        assert!(settings(None, &set[..2]).is_ok());
        let error = settings(None, &set).unwrap_err().to_string();
        assert_eq!(error, "--set a=…: `a` is set twice: set it once");
    }

    #[test]
    fn mistakes_name_their_place() {
        let error = settings(None, &["a".to_string()]).unwrap_err();
        assert!(error.to_string().starts_with("--set a: "), "{error}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nat.toml");
        assert!(settings(Some(&path), &[]).unwrap_err().to_string().contains("nat.toml"));
        std::fs::write(&path, [0x7f, b'E', b'L', b'F', 0xff]).unwrap();
        let error = settings(Some(&path), &[]).unwrap_err().to_string();
        assert!(error.ends_with("nat.toml: this is no TOML, which is text in UTF-8"), "{error}");
        std::fs::write(&path, "a = 1\nb = = 2\n").unwrap();
        let error = settings(Some(&path), &[]).unwrap_err().to_string();
        assert!(error.contains("nat.toml") && error.contains("line 2"), "{error}");
    }

    #[test]
    fn a_number_that_is_too_large_is_named_with_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nat.toml");
        for number in ["18446744073709551615", "-99999999999999999999", "0x1_FFFF_FFFF_FFFF_FFFF"] {
            std::fs::write(&path, format!("a = 1\nb = {number}\n")).unwrap();
            let error = settings(Some(&path), &[]).unwrap_err().to_string();
            let said =
                "nat.toml, line 2: a number does not fit: write one from -9223372036854775808 to";
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn commands_have_a_time() {
        let parsed = control("at=1.5s add-backend address=10.0.0.1").unwrap();
        assert_eq!(parsed.at_ns, 1_500_000_000);
        assert_eq!(parsed.command, "add-backend address=10.0.0.1");
        assert_eq!(control("flush").unwrap().at_ns, 0);
        for wrong in ["", "at=1.5s", "at=soon flush", "at=5 flush", "at=99999999999999m flush"] {
            assert!(matches!(control(wrong), Err(Error::Settings(_))), "{wrong}");
        }
    }

    #[test]
    fn durations_have_units() {
        for (text, ns) in
            [("3ns", 3), ("10us", 10_000), ("200ms", 200_000_000), ("2m", 120_000_000_000)]
        {
            assert_eq!(duration_ns(text), Some(ns));
        }
        assert_eq!(duration_ns("1.2.3s"), None);
    }
}

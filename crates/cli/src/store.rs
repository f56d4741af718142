//! Which store keeps the state of a run: the table `[store]` of a configuration file, and options over it.

use std::ops::RangeInclusive;

use anabranch_runtime::run::Keeping;
use anabranch_store::{Location, Policy, Settings};
use clap::ValueEnum as _;
use toml::{Table, Value};

use crate::arguments::{StoreArguments, WhenBehind, instance_name};
use crate::error::Error;
use crate::file;

/// Milliseconds from one flush to the next.
pub(crate) const FLUSH_MS: RangeInclusive<u64> = 1..=60_000;
/// Milliseconds after which a store is behind.
pub(crate) const BEHIND_MS: RangeInclusive<u64> = 1..=3_600_000;

/// The name of the table, which no network function has a setting of.
pub(crate) const TABLE: &str = "store";
const EXAMPLE: &str = "location = \"memory:DIRECTORY\"";

/// The table `[store]`. Messages say nothing of values: one may be an address with a password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    location: String,
    instance: Option<String>,
    flush_ms: Option<u64>,
    when_behind: Option<WhenBehind>,
    behind_ms: Option<u64>,
}

impl Section {
    /// Takes the table out of a configuration, in which the settings of the function are left; `None`: it has
    /// none.
    ///
    /// # Errors
    /// [`Error::Settings`], naming the key.
    pub(crate) fn take(configuration: &mut Table) -> Result<Option<Self>, Error> {
        let Some(table) = configuration.remove(TABLE) else { return Ok(None) };
        let read = match table {
            Value::Table(table) => Self::read(table),
            _ => Err(format!("it is one table: write [store] and below it {EXAMPLE}")),
        };
        read.map(Some).map_err(|why| Error::Settings(format!("[store]: {why}")))
    }

    fn read(table: Table) -> Result<Self, String> {
        let mut section = Self::default();
        for (key, value) in table {
            let wrong = |what: &str| Err(format!("{key}: write {what}"));
            match (key.as_str(), value) {
                ("location", Value::String(location)) => section.location = location,
                ("location", _) => return wrong("a store in quotes, as in \"memory:DIRECTORY\""),
                ("instance", Value::String(name)) => {
                    section.instance =
                        Some(instance_name(&name).map_err(|why| format!("{key}: {why}"))?);
                }
                ("instance", _) => return wrong("a name in quotes"),
                ("flush_ms", value) => {
                    section.flush_ms = Some(milliseconds(&key, &value, FLUSH_MS)?)
                }
                ("behind_ms", value) => {
                    section.behind_ms = Some(milliseconds(&key, &value, BEHIND_MS)?)
                }
                ("when_behind", value) => {
                    let word =
                        value.as_str().and_then(|word| WhenBehind::from_str(word, false).ok());
                    let Some(word) = word else { return wrong("\"keep-on\" or \"refuse-new\"") };
                    section.when_behind = Some(word);
                }
                _ => {
                    return Err(format!(
                        "there is no `{key}`; there are location, instance, flush_ms, when_behind and \
                         behind_ms, and settings of the function stand above the table"
                    ));
                }
            }
        }
        match section.location.is_empty() {
            true => Err(format!("name the store, as in {EXAMPLE}")),
            false => Ok(section),
        }
    }

    /// The store that it names.
    ///
    /// # Errors
    /// [`Error::Settings`].
    pub(crate) fn location(&self) -> Result<Location, Error> {
        self.location.parse().map_err(|why| Error::Settings(format!("[store]: {why}")))
    }
}

/// A number of milliseconds in this range.
fn milliseconds(key: &str, value: &Value, range: RangeInclusive<u64>) -> Result<u64, String> {
    let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
    let number = number.filter(|number| range.contains(number));
    number
        .ok_or_else(|| format!("{key}: write {} to {}, without quotes", range.start(), range.end()))
}

/// The store that is named on the command line.
///
/// # Errors
/// [`Error::Settings`].
pub(crate) fn location(named: &str) -> Result<Location, Error> {
    named.parse().map_err(|why| Error::Settings(format!("--store: {why}")))
}

/// How the state of a run is kept; `None`: it ends with the run.
///
/// # Errors
/// [`Error::Settings`] for a store that there is not, [`Error::Usage`] for options that say nothing without one
/// or together.
pub(crate) fn keeping(
    options: &StoreArguments,
    section: Option<Section>,
) -> Result<Option<Keeping>, Error> {
    let location = match (&options.store, &section) {
        (Some(named), _) => location(named)?,
        (None, Some(section)) => section.location()?,
        (None, None) => return options.given().map_or(Ok(None), |option| Err(without(option))),
    };
    // As whoever wrote them knows them.
    let names = match &section {
        Some(_) => ["behind_ms", "flush_ms"],
        None => ["--behind-ms", "--flush-ms"],
    };
    let section = section.unwrap_or_default();
    let instance = options.instance.clone().or(section.instance);
    let flush_ms = options.flush_ms.or(section.flush_ms).unwrap_or(1);
    let behind_ms = options.behind_ms.or(section.behind_ms).unwrap_or(1_000);
    let policy = match options.when_behind.or(section.when_behind) {
        None | Some(WhenBehind::KeepOn) => Policy::KeepOn,
        Some(WhenBehind::RefuseNew) => Policy::RefuseNew,
    };
    if policy == Policy::RefuseNew && behind_ms <= 2 * flush_ms {
        let [behind, flush] = names;
        return Err(Error::Settings(format!(
            "{behind} {behind_ms}: a change that waits for its flush is not behind: say more than twice \
             {flush}, which is {flush_ms}"
        )));
    }
    let (by_default, period_ns) = (Settings::default(), flush_ms * 1_000_000);
    let refresh_ns = by_default.refresh_ns.max(period_ns);
    let slow_ns = behind_ms * 1_000_000;
    let settings = Settings { period_ns, refresh_ns, policy, slow_ns, ..by_default };
    let instance = instance.unwrap_or_else(|| "main".to_owned());
    Ok(Some(Keeping { location, instance, settings, say: file::tell }))
}

fn without(option: &str) -> Error {
    Error::Usage(format!(
        "{option} says how state is kept: name the store, by --store or in the table [store] of --config"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> Result<Option<Section>, Error> {
        Section::take(&mut text.parse().unwrap())
    }

    #[test]
    fn options_win_over_the_table() {
        let text = "flows = 9\n[store]\nlocation = \"memory:a\"\ninstance = \"edge\"\nflush_ms = 5\n\
                    when_behind = \"refuse-new\"\nbehind_ms = 50\n";
        let mut table: Table = text.parse().unwrap();
        let section = Section::take(&mut table).unwrap();
        assert_eq!(table, "flows = 9".parse().unwrap(), "the function's");
        let options = StoreArguments::default();
        let kept = keeping(&options, section.clone()).unwrap().unwrap();
        assert_eq!((kept.location, kept.instance), (location("memory:a").unwrap(), "edge".into()));
        let Settings { period_ns, slow_ns, policy, .. } = kept.settings;
        assert_eq!((period_ns, slow_ns, policy), (5_000_000, 50_000_000, Policy::RefuseNew));
        let options = StoreArguments {
            store: Some("memory:b".to_owned()),
            flush_ms: Some(2),
            when_behind: Some(WhenBehind::KeepOn),
            ..options
        };
        let kept = keeping(&options, section).unwrap().unwrap();
        assert_eq!((kept.location, kept.instance), (location("memory:b").unwrap(), "edge".into()));
        let Settings { period_ns, slow_ns, policy, .. } = kept.settings;
        assert_eq!((period_ns, slow_ns, policy), (2_000_000, 50_000_000, Policy::KeepOn));
    }

    #[test]
    fn without_a_store_nothing_is_kept_and_no_option_says_how() {
        assert_eq!(section("flows = 9").unwrap(), None);
        assert!(keeping(&StoreArguments::default(), None).unwrap().is_none());
        let options = StoreArguments { flush_ms: Some(2), ..StoreArguments::default() };
        let error = keeping(&options, None).unwrap_err();
        assert!(matches!(&error, Error::Usage(why) if why.contains("--flush-ms")), "{error}");
    }

    #[test]
    fn mistakes_of_the_table_are_told() {
        for (text, hint) in [
            ("store = \"redis://:s3cret@h\"", "below it location = "),
            ("[[store]]\nlocation = \"memory\"", "below it location = "),
            ("[store]\ninstance = \"a\"", "name the store"),
            ("[store]\nlocation = [\"redis://:s3cret@h\"]", "location: write a store in quotes"),
            ("[store]\nlocation = \"memory\"\npublic = []", "no `public`; there are location"),
            ("[store]\nflush_ms = \"redis://:s3cret@h\"", "flush_ms: write 1 to 60000, without"),
            ("[store]\nlocation = \"memory\"\nflush_ms = 0", "flush_ms: write 1 to 60000"),
            ("[store]\nlocation = \"memory\"\nbehind_ms = -1", "behind_ms: write 1 to 3600000"),
            ("[store]\nlocation = \"memory\"\ninstance = \"\"", "instance: write a name"),
            ("[store]\nlocation = \"memory\"\ninstance = 1", "instance: write a name in quotes"),
            ("[store]\nlocation = \"memory\"\nwhen_behind = \"no\"", "\"refuse-new\""),
        ] {
            let error = section(text).unwrap_err().to_string();
            assert!(error.contains("[store]: ") && error.contains(hint), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        let named = section("[store]\nlocation = \"disk\"").unwrap();
        let error = keeping(&StoreArguments::default(), named).unwrap_err().to_string();
        assert!(error.contains("[store]: ") && error.contains("memory:DIRECTORY"), "{error}");
    }
}

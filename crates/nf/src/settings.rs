//! What the operator sets, read from TOML or `--set key=value`, with errors that say what, where
//! and what instead.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use anabranch_packet::{MacAddr, Port};
pub use toml::{Table, Value};

/// A struct of settings. `#[network_function]` implements it for the module's `Settings`.
pub trait Settings: Sized + Clone + Send + Sync + 'static {
    /// Every setting, in order.
    fn schema() -> Vec<Setting>;
    /// Takes the settings from `fields`; mistakes are left there. `None` only after a mistake.
    fn take(fields: &mut Fields<'_>) -> Option<Self>;
    /// Validation across settings: the module's `check`.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// Reads all of `table`.
    fn read(table: &Table) -> Result<Self, SettingErrors> {
        let mut fields = Fields::new(table, "");
        let settings = Self::take(&mut fields);
        let errors = fields.finish();
        match settings {
            Some(settings) if errors.0.is_empty() => match settings.check() {
                Ok(()) => Ok(settings),
                Err(why) => Err(SettingErrors(vec![why.to_owned()])),
            },
            _ => Err(errors),
        }
    }
}

/// The settings of an NF that has none.
#[derive(Clone, Copy, Debug)]
pub struct NoSettings;

impl Settings for NoSettings {
    fn schema() -> Vec<Setting> {
        Vec::new()
    }
    fn take(_: &mut Fields<'_>) -> Option<Self> {
        Some(Self)
    }
}

/// One setting, for help texts.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Setting {
    /// Name.
    pub name: &'static str,
    /// Type, in the operator's words.
    pub kind: String,
    /// Default, as it would be written; `None`: must be given.
    pub default: Option<String>,
    /// Smallest value allowed.
    pub min: Option<String>,
    /// Largest value allowed.
    pub max: Option<String>,
    /// What it does.
    pub help: &'static str,
    /// What stands in each table, of a list of tables.
    pub fields: Vec<Setting>,
}

/// Every mistake found in the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingErrors(pub Vec<String>);

impl fmt::Display for SettingErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for SettingErrors {}

/// A type that a setting can have.
pub trait SettingType: Sized + Clone + Send + Sync + 'static {
    /// The type in the operator's words.
    fn kind() -> String;
    /// Reads a value; the error says what was expected.
    fn from_toml(value: &Value) -> Result<Self, String>;
    /// The value as the operator would write it.
    fn to_text(&self) -> String;
    /// The least and the greatest value, of a type that is a number.
    fn limits() -> Option<[Self; 2]> {
        None
    }
    /// What stands in it, of a table or a list of tables.
    fn fields() -> Vec<Setting> {
        Vec::new()
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl SettingType for $integer {
            fn kind() -> String {
                "integer".to_owned()
            }
            fn from_toml(value: &Value) -> Result<Self, String> {
                let Value::Integer(number) = value else { return Err(expected("an integer", value) + number_alone(value)) };
                Self::try_from(*number).map_err(|_| {
                    let [least, most] = Self::limits().unwrap_or([Self::MIN, Self::MAX]).map(Some);
                    out_of_range(number, &least, &most)
                })
            }
            fn to_text(&self) -> String {
                self.to_string()
            }
            fn limits() -> Option<[Self; 2]> {
                // Integers of TOML end there.
                Some([Self::MIN, Self::try_from(i64::MAX).unwrap_or(Self::MAX)])
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, i32, i64, usize);

macro_rules! texts {
    ($($type:ty = $kind:literal, $example:literal;)*) => {$(
        impl SettingType for $type {
            fn kind() -> String {
                $kind.to_owned()
            }
            fn from_toml(value: &Value) -> Result<Self, String> {
                let Value::String(text) = value else { return Err(expected(concat!("an ", $kind, " such as \"", $example, "\""), value)) };
                text.parse().map_err(|_| format!("{text:?} is no {}; write one such as \"{}\"", $kind, $example))
            }
            fn to_text(&self) -> String {
                format!("\"{self}\"")
            }
        }
    )*};
}
texts! {
    Ipv4Addr = "IPv4 address", "192.0.2.1";
    Ipv6Addr = "IPv6 address", "2001:db8::1";
    MacAddr = "Ethernet address", "02:00:00:00:00:01";
}

impl SettingType for bool {
    fn kind() -> String {
        "boolean".to_owned()
    }
    fn from_toml(value: &Value) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| expected("true or false", value))
    }
    fn to_text(&self) -> String {
        self.to_string()
    }
}

/// What numbers of ports are called.
const PORT_NUMBER: &str = "port number";

impl SettingType for Port {
    fn kind() -> String {
        PORT_NUMBER.to_owned()
    }
    fn from_toml(value: &Value) -> Result<Self, String> {
        u8::from_toml(value).map(Self::new)
    }
    fn to_text(&self) -> String {
        self.index().to_string()
    }
}

fn out_of_range<T: SettingType>(
    value: impl fmt::Display,
    min: &Option<T>,
    max: &Option<T>,
) -> String {
    let range = match (min, max) {
        (Some(min), Some(max)) => format!("between {} and {}", min.to_text(), max.to_text()),
        (Some(min), None) => format!("at least {}", min.to_text()),
        (None, Some(max)) => format!("at most {}", max.to_text()),
        (None, None) => return format!("{value} is out of range"),
    };
    format!("{value} is out of range: write a value {range}")
}

pub(crate) fn expected(what: &str, found: &Value) -> String {
    // A line for each mistake.
    let shown = found.to_string().replace('\n', "\\n");
    format!("expected {what}, found {} `{shown}`", found.type_str())
}

/// Whether a text is a number with a unit, as `5m`.
pub fn has_unit(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.ends_with(|last: char| last.is_ascii_alphabetic())
}

/// What to write instead of a number with a unit.
fn number_alone(found: &Value) -> &'static str {
    if !found.as_str().is_some_and(has_unit) {
        return "";
    }
    ": write the number alone; its unit is at the end of the name (`_s`: seconds, `_bps`: bits a second)"
}

/// A list in the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(elements: Vec<T>) -> Self {
        Self(elements)
    }
}

#[allow(clippy::len_without_is_empty)]
impl<T: Copy> List<T> {
    /// Elements.
    #[inline]
    pub fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Element `index`.
    #[inline]
    pub fn get(&self, index: u32) -> Option<T> {
        self.0.get(index as usize).copied()
    }

    /// The elements in order.
    #[inline]
    pub fn iter(&self) -> std::iter::Copied<std::slice::Iter<'_, T>> {
        self.0.iter().copied()
    }
}

impl<'a, T: Copy> IntoIterator for &'a List<T> {
    type Item = T;
    type IntoIter = std::iter::Copied<std::slice::Iter<'a, T>>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: SettingType> SettingType for List<T> {
    fn kind() -> String {
        format!("list of {}", T::kind())
    }
    fn from_toml(value: &Value) -> Result<Self, String> {
        let Value::Array(elements) = value else {
            let instead = T::from_toml(value).map(|_| format!(": write [{value}]"));
            return Err(expected("a list in brackets", value) + &instead.unwrap_or_default());
        };
        let mut read = Vec::with_capacity(elements.len());
        let mut wrong = Vec::new();
        for (at, element) in elements.iter().enumerate() {
            match T::from_toml(element) {
                Ok(element) => read.push(element),
                Err(why) => wrong.extend(why.lines().map(|line| format!("element {at}: {line}"))),
            }
        }
        if wrong.is_empty() { Ok(Self(read)) } else { Err(wrong.join("\n")) }
    }
    fn to_text(&self) -> String {
        let elements: Vec<_> = self.0.iter().map(T::to_text).collect();
        format!("[{}]", elements.join(", "))
    }
    fn fields() -> Vec<Setting> {
        T::fields()
    }
}

/// Settings on their way out of a table: counts what was taken, gathers mistakes.
pub struct Fields<'t> {
    table: &'t Table,
    path: &'t str,
    /// What they are called in errors: `setting`, of a command `field`.
    called: &'static str,
    known: Vec<&'static str>,
    errors: Vec<String>,
}

impl<'t> Fields<'t> {
    /// The fields of `table`, which stands at `path` (empty for the outermost).
    pub fn new(table: &'t Table, path: &'t str) -> Self {
        Self { table, path, called: "setting", known: Vec::new(), errors: Vec::new() }
    }

    /// The fields of a command.
    fn of_command(table: &'t Table) -> Self {
        Self { called: "field", ..Self::new(table, "") }
    }

    /// Takes `name`, or `default` where the operator is silent.
    pub fn take<T: SettingType>(&mut self, name: &'static str, default: Option<T>) -> Option<T> {
        self.known.push(name);
        match (self.table.get(name).map(T::from_toml), default) {
            (Some(Ok(value)), _) => Some(value),
            (Some(Err(why)), _) => self.refuse(name, &why),
            (None, Some(default)) => Some(default),
            (None, None) => self.refuse(name, &format!("must be given ({})", T::kind())),
        }
    }

    /// As [`take`](Self::take), for a type with an order and a range.
    pub fn take_within<T: SettingType + PartialOrd>(
        &mut self,
        name: &'static str,
        default: Option<T>,
        min: Option<T>,
        max: Option<T>,
    ) -> Option<T> {
        // What its type cannot hold is outside the setting's own range, too.
        if let (Some(Value::Integer(number)), Some([least, most])) =
            (self.table.get(name), T::limits())
            && T::from_toml(&Value::Integer(*number)).is_err()
        {
            self.known.push(name);
            let why = out_of_range(number, &min.or(Some(least)), &max.or(Some(most)));
            return self.refuse(name, &why);
        }
        let value = self.take(name, default)?;
        let low = min.as_ref().is_some_and(|min| value < *min);
        let high = max.as_ref().is_some_and(|max| value > *max);
        if !low && !high {
            return Some(value);
        }
        self.refuse(name, &out_of_range(value.to_text(), &min, &max))
    }

    fn refuse<T>(&mut self, name: &str, why: &str) -> Option<T> {
        let each = why.lines().map(|line| format!("{} `{}{name}`: {line}", self.called, self.path));
        self.errors.extend(each);
        None
    }

    /// The mistakes, names that no setting has among them.
    pub fn finish(mut self) -> SettingErrors {
        for name in self.table.keys().filter(|name| !self.known.contains(&name.as_str())) {
            let nearest = nearest(name, self.known.iter().copied());
            let hint = match nearest {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None if self.known.is_empty() => "there are none: leave it out".to_owned(),
                None => format!("the {}s are: {}", self.called, self.known.join(", ")),
            };
            self.errors
                .push(format!("{} `{}{name}` does not exist; {hint}", self.called, self.path));
        }
        SettingErrors(self.errors)
    }
}

/// What is wrong with numbers of ports in `table`, where there are ports of these names only: a line for each.
pub fn ports_beyond(schema: &[Setting], table: &Table, names: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    for setting in schema {
        let Some(value) = table.get(setting.name) else { continue };
        let (place, kind) = (format!("setting `{}`", setting.name), &setting.kind);
        let elements = value.as_array().map(Vec::as_slice);
        for (at, element) in elements.unwrap_or(std::slice::from_ref(value)).iter().enumerate() {
            let which = elements.map(|_| format!("element {at}: ")).unwrap_or_default();
            if kind.ends_with(PORT_NUMBER)
                && let Some(number) = element.as_integer()
                && number >= names.len() as i64
            {
                let all = names.join(", ");
                wrong.push(format!(
                    "{place}: {which}there is no port {number}: numbered from 0 they are {all}"
                ));
            }
            if let Some(inner) = element.as_table() {
                let inner = ports_beyond(&setting.fields, inner, names);
                wrong.extend(inner.into_iter().map(|line| format!("{place}: {which}{line}")));
            }
        }
    }
    wrong
}

/// The candidate that `name` is probably a misspelling of.
pub fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let scored = candidates.map(|candidate| (edit_distance(name, candidate), candidate));
    let (distance, candidate) = scored.min()?;
    (distance <= 1 + name.len() / 4).then_some(candidate)
}

/// Levenshtein distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Puts `key=value` (the value in TOML, or bare text) into `table`; dots in the key descend.
pub fn set(table: &mut Table, assignment: &str) -> Result<(), String> {
    let Some((key, text)) = assignment.split_once('=') else {
        return Err(format!("`{assignment}` is no setting; write NAME=VALUE"));
    };
    let value = match toml_value(text.trim()) {
        Some(value) => value,
        None if text.trim().starts_with(['[', '{']) => return Err(unquoted(key, text.trim())),
        None if is_too_large(text.trim()) => {
            let most = i64::MAX;
            return Err(format!("`{key}`: {} is too large: numbers end at {most}", text.trim()));
        }
        None => Value::String(text.trim().to_owned()),
    };
    let mut at = table;
    let mut names = key.trim().split('.').peekable();
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            at.insert(name.to_owned(), value);
            return Ok(());
        }
        let inner = at.entry(name).or_insert_with(|| Value::Table(Table::new()));
        at = inner
            .as_table_mut()
            .ok_or_else(|| format!("setting `{name}` is no table, so `{key}` cannot be set"))?;
    }
    Ok(())
}

/// The key that two of these `key=value` set.
pub fn set_twice<'a>(assignments: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut known = std::collections::BTreeSet::new();
    let mut keys = assignments.filter_map(|one| Some(one.split_once('=')?.0.trim()));
    keys.find(|key| !known.insert(*key))
}

/// Of what TOML does not read: whether it is a number all the same.
fn is_too_large(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|first| matches!(first, '1'..='9'))
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn toml_value(text: &str) -> Option<Value> {
    format!("value = {text}").parse::<Table>().ok()?.remove("value")
}

/// What to write in place of a list or table that TOML cannot read: mostly the shell has taken the quotes, or
/// there were none.
fn unquoted(key: &str, text: &str) -> String {
    let places = |mark: char| ",[]{}=".contains(mark) || mark.is_whitespace();
    let mut quoted = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(places).unwrap_or(rest.len()));
        let is_name = after.trim_start().starts_with('=');
        let is_plain = word.is_empty() || is_name || toml_value(word).is_some();
        quoted += &if is_plain { word.to_owned() } else { format!("\"{word}\"") };
        let (mark, next) = after.split_at(after.chars().next().map_or(0, char::len_utf8));
        quoted += mark;
        rest = next;
    }
    let instead = match toml_value(&quoted) {
        Some(_) => format!("'{key}={quoted}'"),
        None => "for example 'NAME=[\"192.0.2.1\"]'".to_owned(),
    };
    format!(
        "in a list, addresses and words stand in quotes, and quotes in the shell's: write {instead}"
    )
}

/// A command from outside. `#[network_function]` implements it for the module's `Command`.
pub trait Command: Sized + Clone + Send + Sync + 'static {
    /// Every command with its fields.
    fn schema() -> Vec<(&'static str, Vec<Setting>, &'static str)>;
    /// The command of this name from its fields.
    fn take(name: &str, fields: &mut Fields<'_>) -> Option<Self>;

    /// Reads `name field=value …`.
    fn read(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let names: Vec<_> = Self::schema().into_iter().map(|(name, ..)| name).collect();
        if !names.contains(&name) {
            let instead = match nearest(name, names.iter().copied()) {
                Some(nearest) => format!("; did you mean `{nearest}`?"),
                None if names.is_empty() => ": this NF takes none".to_owned(),
                None => format!("; the commands are: {}", names.join(", ")),
            };
            return Err(format!("command `{name}` does not exist{instead}"));
        }
        let mut table = Table::new();
        let fields: Vec<&str> = words.collect();
        if let Some(twice) = set_twice(fields.iter().copied()) {
            return Err(format!("command `{name}`: `{twice}` is given twice: give it once"));
        }
        fields.iter().try_for_each(|word| set(&mut table, word))?;
        let mut fields = Fields::of_command(&table);
        let command = Self::take(name, &mut fields);
        let errors = fields.finish();
        match command {
            Some(command) if errors.0.is_empty() => Ok(command),
            _ => Err(format!("command `{name}`: {errors}")),
        }
    }
}

/// The command of an NF that takes none.
#[derive(Clone, Copy, Debug)]
pub enum NoCommand {}

impl Command for NoCommand {
    fn schema() -> Vec<(&'static str, Vec<Setting>, &'static str)> {
        Vec::new()
    }
    fn take(_: &str, _: &mut Fields<'_>) -> Option<Self> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Sample {
        flows: u32,
        address: Ipv4Addr,
        backends: List<Ipv4Addr>,
    }

    impl Settings for Sample {
        fn schema() -> Vec<Setting> {
            Vec::new()
        }
        fn take(fields: &mut Fields<'_>) -> Option<Self> {
            let flows = fields.take_within("flows", Some(10), Some(1), Some(100));
            let address = fields.take("address", None);
            let backends = fields.take("backends", Some(List::default()));
            Some(Self { flows: flows?, address: address?, backends: backends? })
        }
    }

    #[test]
    fn what_is_set_twice_is_found() {
        assert_eq!(set_twice(["a=1", "b.c=2", " a =3"].into_iter()), Some("a"));
        assert_eq!(set_twice(["a=1", "b.a=2", "a"].into_iter()), None);
    }

    fn read(assignments: &[&str]) -> Result<Sample, String> {
        let mut table = Table::new();
        assignments.iter().try_for_each(|one| set(&mut table, one))?;
        Sample::read(&table).map_err(|errors| errors.to_string())
    }

    #[test]
    fn reads_what_is_right() {
        let sample = read(&["address=192.0.2.1", "backends=[\"192.0.2.7\"]"]).unwrap();
        assert_eq!((sample.flows, sample.address), (10, Ipv4Addr::new(192, 0, 2, 1)));
        assert_eq!(sample.backends.get(0), Some(Ipv4Addr::new(192, 0, 2, 7)));
    }

    #[test]
    fn says_what_is_wrong_and_what_to_write() {
        for (assignments, words) in [
            (
                &["flow=3", "address=192.0.2.1"][..],
                "setting `flow` does not exist; did you mean `flows`?",
            ),
            (
                &["flows=101", "address=192.0.2.1"],
                "101 is out of range: write a value between 1 and 100",
            ),
            (&["flows=many", "address=192.0.2.1"], "expected an integer, found string"),
            (&["flows=5m", "address=192.0.2.1"], "found string `\"5m\"`: write the number alone"),
            (&["flows=3"], "setting `address`: must be given (IPv4 address)"),
            (
                &["flows=3", "address=192.0.2.1", "backends=192.0.2.7"],
                "expected a list in brackets, found string `\"192.0.2.7\"`: write [\"192.0.2.7\"]",
            ),
            (&["flows=3", "address=192.0.2.1", "backends=true"], "found boolean `true`"),
            (&["address=192.0.2"], "\"192.0.2\" is no IPv4 address; write one such as"),
            (&["nonsense"], "`nonsense` is no setting; write NAME=VALUE"),
            (&["flows=9223372036854775808"], "is too large: numbers end at 9223372036854775807"),
            (&["address=192.0.2.1", "backends=[3]"], "element 0: expected an IPv4 address"),
            (
                &["flows=-1", "address=192.0.2.1"],
                "-1 is out of range: write a value between 1 and 100",
            ),
            (
                &["backends=[192.0.2.1, 192.0.2.2]"],
                "write 'backends=[\"192.0.2.1\", \"192.0.2.2\"]'",
            ),
            (&["backends=[{ a = b, c = 1 }]"], "write 'backends=[{ a = \"b\", c = 1 }]'"),
            (&["backends=[192.0.2.1"], "write for example 'NAME=[\"192.0.2.1\"]'"),
        ] {
            let error = read(assignments).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    /// Each line is read by itself: a list of tables may have mistakes in several.
    #[test]
    fn every_mistake_in_a_list_is_told_with_its_place() {
        let places = |error: &str| -> Vec<String> {
            let place = |line: &str| line.split(": ").take(2).collect::<Vec<_>>().join(": ");
            error.lines().map(place).collect()
        };
        let wrong = "backends=[\"192.0.2\", \"192.0.2.1\", [\"a\", \"b\"], 3]";
        let error = read(&["address=192.0.2.1", wrong]).unwrap_err();
        let element = |at| format!("setting `backends`: element {at}");
        assert_eq!(places(&error), [element(0), element(2), element(3)], "{error}");
        let error = read(&["address=192.0.2.1", r#"backends=["a\nb"]"#]).unwrap_err();
        assert_eq!(places(&error), [element(0)], "{error}");
        let lists = toml_value("[[\"a\"], [3, true]]").unwrap();
        let error = List::<List<Ipv4Addr>>::from_toml(&lists).unwrap_err();
        let element = |one, two| format!("element {one}: element {two}");
        assert_eq!(places(&error), [element(0, 0), element(1, 0), element(1, 1)], "{error}");
    }

    #[test]
    fn an_unknown_command_is_told_what_there_is() {
        #[derive(Clone, Debug)]
        struct Sole;
        impl Command for Sole {
            fn schema() -> Vec<(&'static str, Vec<Setting>, &'static str)> {
                vec![("drain-backend", Vec::new(), "")]
            }
            fn take(_: &str, _: &mut Fields<'_>) -> Option<Self> {
                Some(Self)
            }
        }
        let said = |text: &str| Sole::read(text).map(|_| ()).unwrap_err();
        assert_eq!(
            said("drain-bakend"),
            "command `drain-bakend` does not exist; did you mean `drain-backend`?"
        );
        assert_eq!(said("foo"), "command `foo` does not exist; the commands are: drain-backend");
        let none = NoCommand::read("foo").unwrap_err();
        assert_eq!(none, "command `foo` does not exist: this NF takes none");
    }
}

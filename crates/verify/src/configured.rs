//! The values of settings, by the names that the analysis gives them.

use anabranch_nf::NetworkFunction;
use anabranch_nf::settings::{Setting, Settings as _};

use crate::passage::number;

/// The largest number that is written: tables are made as large as settings say.
const LARGEST: u128 = 1 << 16;

/// What settings a function has.
pub(crate) struct Configured {
    schema: Vec<Setting>,
}

impl Configured {
    pub(crate) fn of<N: NetworkFunction>() -> Self {
        Self { schema: N::Settings::schema() }
    }

    /// The setting `name`, as the operator or its default has it; of a list, `name.len`.
    pub(crate) fn value(&self, name: &str, settings: &toml::Table) -> Option<u128> {
        if let Some(list) = name.strip_suffix(".len") {
            let list = settings.get(list).and_then(toml::Value::as_array);
            return Some(list.map_or(0, Vec::len) as u128);
        }
        let schema = self.schema.iter().find(|setting| setting.name == name)?;
        let text = match settings.get(name) {
            Some(value) => value.to_string(),
            None => schema.default.clone()?,
        };
        if let Some(choices) = schema.kind.strip_prefix("one of ") {
            let plain = |text: &str| text.trim_matches('"').replace('_', "");
            let mut choices = choices.split(", ");
            let chosen = choices.position(|choice| plain(choice) == plain(&text));
            return chosen.map(|at| at as u128);
        }
        number(&text)
    }

    /// Whether the setting `name` is a number or a choice.
    pub(crate) fn is_scalar(&self, name: &str) -> bool {
        let kind = self.schema.iter().find(|setting| setting.name == name).map(|one| &one.kind);
        kind.is_some_and(|kind| {
            matches!(kind.as_str(), "boolean" | "integer") || kind.starts_with("one of ")
        })
    }

    /// The number `value` as the setting `name` is written; `None`: it is no number and no choice, or
    /// takes no such one.
    pub(crate) fn written(&self, name: &str, value: u128) -> Option<toml::Value> {
        let schema = self.schema.iter().find(|setting| setting.name == name)?;
        if let Some(choices) = schema.kind.strip_prefix("one of ") {
            let choice = choices.split(", ").nth(usize::try_from(value).ok()?)?;
            return Some(toml::Value::String(choice.to_owned()));
        }
        let bound = |text: &Option<String>| text.as_deref().and_then(number);
        let is_within = bound(&schema.min).is_none_or(|min| min <= value)
            && bound(&schema.max).is_none_or(|max| value <= max)
            && value <= LARGEST;
        match schema.kind.as_str() {
            "boolean" => Some(toml::Value::Boolean(value != 0)),
            "integer" if is_within => Some(toml::Value::Integer(value.try_into().ok()?)),
            _ => None,
        }
    }

    /// Element `position` of a list, `public[]`, or a field of it, `services[].port`.
    pub(crate) fn element(
        &self,
        name: &str,
        position: u128,
        settings: &toml::Table,
    ) -> Option<u128> {
        let (list, field) = name.split_once("[]")?;
        let element = settings.get(list)?.as_array()?.get(usize::try_from(position).ok()?)?;
        match field.strip_prefix('.') {
            Some(field) => number(&element.get(field)?.to_string()),
            None => number(&element.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &'static str, kind: &str, [min, max]: [Option<&str>; 2]) -> Setting {
        let [min, max] = [min, max].map(|text| text.map(str::to_owned));
        Setting {
            name,
            kind: kind.to_owned(),
            default: Some("8".to_owned()),
            min,
            max,
            help: "",
            fields: Vec::new(),
        }
    }

    /// What is written is read as it was; what a setting does not take is not written.
    #[test]
    fn numbers_and_choices_are_written_as_they_are_read() {
        let schema = vec![
            setting("size", "integer", [Some("2"), Some("1_000")]),
            setting("action", "one of forward, block", [None; 2]),
            setting("learns", "boolean", [None; 2]),
            setting("public", "list of IPv4 addresses", [None; 2]),
        ];
        let configured = Configured { schema };
        let read_again = |name: &str, value: u128| {
            let written = configured.written(name, value)?;
            let settings = toml::Table::from_iter([(name.to_owned(), written)]);
            configured.value(name, &settings)
        };
        for (name, value) in [("size", 2), ("size", 1_000), ("action", 1), ("learns", 1)] {
            assert_eq!(read_again(name, value), Some(value), "{name}");
        }
        for (name, value) in [("size", 1), ("size", 1_001), ("action", 2), ("public", 0)] {
            assert_eq!(configured.written(name, value), None, "{name}");
        }
        let scalar = ["size", "action", "learns", "public"].map(|name| configured.is_scalar(name));
        assert_eq!(scalar, [true, true, true, false]);
    }
}

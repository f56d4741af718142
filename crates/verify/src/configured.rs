//! The values of settings, by the names that the analysis gives them.

use anabranch_nf::NetworkFunction;
use anabranch_nf::settings::{Setting, Settings as _};

use crate::passage::number;

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

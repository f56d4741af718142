//! How addresses, prefixes and ports are written in the configuration.

use std::net::IpAddr;

use toml::Value;

use crate::l3::prefix::Prefix;
use crate::settings::{SettingType, expected};

/// The name of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(pub String);

/// What may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Optional<T>(pub Option<T>);

impl SettingType for Prefix {
    fn kind() -> String {
        "prefix".to_owned()
    }
    fn from_toml(value: &Value) -> Result<Self, String> {
        let text =
            value.as_str().ok_or_else(|| expected("a prefix such as \"10.0.0.0/24\"", value));
        text.and_then(Self::read)
    }
    fn to_text(&self) -> String {
        format!("\"{self}\"")
    }
}

impl SettingType for IpAddr {
    fn kind() -> String {
        "IP address".to_owned()
    }
    fn from_toml(value: &Value) -> Result<Self, String> {
        let text =
            value.as_str().ok_or_else(|| expected("an address such as \"10.0.0.1\"", value))?;
        let example = "write one such as \"10.0.0.1\" or \"2001:db8::1\"";
        text.parse().map_err(|_| format!("\"{text}\" is no IP address; {example}"))
    }
    fn to_text(&self) -> String {
        format!("\"{self}\"")
    }
}

impl SettingType for Name {
    fn kind() -> String {
        "name of a port".to_owned()
    }
    fn from_toml(value: &Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(|| expected("the name of a port", value));
        text.map(|text| Self(text.to_owned()))
    }
    fn to_text(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

impl<T: SettingType> SettingType for Optional<T> {
    fn kind() -> String {
        T::kind()
    }
    fn from_toml(value: &Value) -> Result<Self, String> {
        T::from_toml(value).map(|value| Self(Some(value)))
    }
    fn to_text(&self) -> String {
        self.0.as_ref().map_or_else(String::new, T::to_text)
    }
}

//! Defaults and bounds of settings.

use std::net::{Ipv4Addr, Ipv6Addr};

use syn::{Expr, Lit, LitInt, LitStr};

use super::Checker;
use crate::address::mac_octets;
use crate::declare::{Setting, SettingType, Settings};

/// Tables of the configuration file that are the operator's, whatever the function is.
const TABLES: [&str; 4] = ["store", "interfaces", "routes", "neighbours"];

impl Checker<'_> {
    /// In the file settings stand beside what is not the function's.
    pub(super) fn setting_names(&mut self, settings: &Settings) {
        for Setting { ident, .. } in &settings.fields {
            if TABLES.iter().any(|table| ident == table) {
                let what = format!("`{ident}` is a table of every configuration file");
                self.refuse(ident.span(), what, "choose another name");
            }
        }
    }

    pub(super) fn setting(&mut self, setting: &Setting) {
        for value in [&setting.default, &setting.min, &setting.max].into_iter().flatten() {
            match value {
                Expr::Lit(literal) => self.setting_literal(&setting.kind, &literal.lit),
                Expr::Array(array) if matches!(setting.kind, SettingType::List(_)) => {
                    array.elems.iter().for_each(|element| self.expr(element));
                }
                other => self.expr(other),
            }
        }
    }

    fn setting_literal(&mut self, kind: &SettingType, literal: &Lit) {
        match (kind, literal) {
            (_, Lit::Str(text)) => self.setting_text(kind, text),
            (SettingType::Integer { bits, signed }, Lit::Int(number)) => {
                self.setting_integer(*bits, *signed, number);
            }
            (_, other) => self.literal(other),
        }
        let fits = match literal {
            Lit::Int(_) => matches!(kind, SettingType::Integer { .. }),
            Lit::Bool(_) => matches!(kind, SettingType::Bool),
            _ => true,
        };
        if !fits {
            let instead = format!("write {}", example(kind));
            self.refuse(literal.span(), "this is no value of the setting's type", instead);
        }
    }

    /// Addresses may be written as the operator writes them.
    fn setting_text(&mut self, kind: &SettingType, text: &LitStr) {
        let value = text.value();
        let right = match kind {
            SettingType::Ipv4Addr => value.parse::<Ipv4Addr>().is_ok(),
            SettingType::Ipv6Addr => value.parse::<Ipv6Addr>().is_ok(),
            SettingType::MacAddr => mac_octets(&value).is_some(),
            _ => false,
        };
        if !right {
            let what = format!("\"{value}\" is no value of the setting's type");
            self.refuse(text.span(), what, format!("write {}", example(kind)));
        }
    }

    fn setting_integer(&mut self, bits: u32, signed: bool, number: &LitInt) {
        let width = if signed { bits - 1 } else { bits };
        let largest = u128::MAX >> (128 - width);
        if number.base10_parse::<u128>().is_ok_and(|value| value > largest) {
            let instead = format!("write at most {largest}, or a wider type");
            self.refuse(number.span(), "the value does not fit the setting's type", instead);
        }
    }
}

fn example(kind: &SettingType) -> &'static str {
    match kind {
        SettingType::Integer { .. } => "an integer: `1_000`",
        SettingType::Bool => "`true` or `false`",
        SettingType::Enum(_) => "a variant: `Type::Variant`",
        SettingType::Ipv4Addr => "an address: `\"192.0.2.1\"`",
        SettingType::Ipv6Addr => "an address: `\"2001:db8::1\"`",
        SettingType::MacAddr => "an address: `\"02:00:00:00:00:01\"`",
        SettingType::Port => "a port's constant: `LAN`",
        SettingType::List(_) => "a list: `[]`",
        SettingType::Struct(_) => "a struct: `Type { field: value }`",
    }
}

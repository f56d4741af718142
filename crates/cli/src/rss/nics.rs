//! `rss nics`: the models.

use std::fmt::Write;

use anabranch_rss::{HashInput, Hashing, KeyOrder, Nic};

use super::arguments::RssNicsArguments;
use super::text::indented;
use crate::error::Error;
use crate::file::print;
use crate::table::{Table, wrap};

/// Lists the models, or describes one.
///
/// # Errors
/// [`Error::Usage`] for an unknown model, [`Error::Output`].
pub(super) fn nics(arguments: &RssNicsArguments) -> Result<(), Error> {
    match &arguments.model {
        Some(name) => print(&description(super::nic(name)?)),
        None => print(&list()),
    }
}

fn list() -> String {
    let mut table = Table::new(&["model", "", ">key", ">table", "fields"]);
    for nic in Nic::ALL {
        table.row([
            nic.name.to_string(),
            nic.title.to_string(),
            format!("{} bytes", nic.key_len),
            nic.table_sizes.last().map(ToString::to_string).unwrap_or_default(),
            choice(nic).to_string(),
        ]);
    }
    table.render()
}

/// How free the choice of fields for TCP is.
fn choice(nic: &Nic) -> &'static str {
    match nic.hashing(anabranch_rss::Class::Ipv4Tcp) {
        Hashing::AnyOf(fields) if fields.len() > 4 => "any, MAC addresses too",
        Hashing::AnyOf(_) => "any of addresses and ports",
        Hashing::OneOf(lists) if lists.len() > 1 => "addresses, with or without ports",
        _ => "fixed",
    }
}

fn description(nic: &Nic) -> String {
    let sizes: Vec<String> = nic.table_sizes.iter().map(ToString::to_string).collect();
    let order = match nic.key_order {
        KeyOrder::Natural => "",
        KeyOrder::ReversedByDriver => "; the driver reverses its bytes",
    };
    let mut text = format!("{} ({})\n\n", nic.title, nic.name);
    let _ = writeln!(text, "Key:     {} bytes{order}", nic.key_len);
    let _ = writeln!(text, "Table:   {} entries", sizes.join(", "));
    text += &wrap("Source:  ", nic.source, 9);
    text += &wrap("Remarks: ", nic.remarks, 9);
    text += "\nClasses:\n";
    let mut table = Table::new(&["", ""]);
    for class in nic.classes() {
        table.row([class.to_string(), words(nic.hashing(class))]);
    }
    text + &indented(&table.render(), 2)
}

fn words(hashing: Hashing) -> String {
    let list = |fields: &&[anabranch_rss::Field]| HashInput::new(fields).to_string();
    match hashing {
        Hashing::AnyOf(fields) => format!("any of {}", list(&fields)),
        Hashing::OneOf(lists) => lists.iter().map(list).collect::<Vec<_>>().join(", or "),
        Hashing::QueueZero => "queue 0".to_string(),
        Hashing::Undocumented => "not documented".to_string(),
    }
}

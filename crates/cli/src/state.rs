//! `state show`: what a store has of a network function's state.

use std::collections::BTreeMap;

use anabranch_store::{Content, Kind, Location, view};
use serde_json::{Map, Value, json};

use crate::arguments::{StateArguments, StateCommand, StateShowArguments};
use crate::error::Error;
use crate::file::{print, tell};
use crate::library::Library;
use crate::run::to_json;
use crate::settings::configuration;
use crate::store;

/// What a line shows of an object that holds more.
const SHOWN: usize = 60;

pub(crate) fn run(library: &Library, arguments: &StateArguments) -> Result<(), Error> {
    let StateCommand::Show(arguments) = &arguments.command;
    library.find(&arguments.nf)?;
    let location = location(arguments)?;
    if location == Location::Memory {
        return Err(Error::Usage(
            "the store `memory` is in the process that runs and ends with it: nothing of it can be shown; one \
             that stays is memory:DIRECTORY"
                .to_owned(),
        ));
    }
    let mut driver = location.look().map_err(input)?;
    if let Some(remark) = driver.remark() {
        tell(remark);
    }
    let instance = arguments.instance.as_deref();
    let mut state = view::state(&mut *driver, &arguments.nf, instance).map_err(input)?;
    state.retain(|key, _| !key.id().starts_with('.'));
    if arguments.merged {
        let merged = view::merged(&state, |_, last| last);
        let named = view::named(&merged).into_iter();
        return show(arguments, named.map(|(name, (kind, one))| (name, kind, one)));
    }
    show(arguments, state.iter().map(|(key, one)| (key.to_string(), key.kind(), one)))
}

/// The store that is named, or that the configuration file names.
fn location(arguments: &StateShowArguments) -> Result<Location, Error> {
    if let Some(named) = &arguments.store {
        return store::location(named);
    }
    let Some(file) = &arguments.config else {
        let ways = "--store STORE, or --config FILE, in which a table [store] stands";
        return Err(Error::Usage(format!("which store? Name it by {ways}")));
    };
    match configuration(Some(file), &[])? {
        (_, Some(section)) => section.location(),
        (_, None) => Err(Error::Settings(format!(
            "{} has no table [store]: name the store by --store",
            file.display()
        ))),
    }
}

fn show<'a>(
    arguments: &StateShowArguments,
    objects: impl Iterator<Item = (String, Kind, &'a Content)>,
) -> Result<(), Error> {
    if arguments.json {
        let all: Map<String, Value> = objects
            .map(|(name, kind, one)| {
                (name, json!({"type": kind.word(), "content": view::json(one)}))
            })
            .collect();
        return print(&to_json(&all)?);
    }
    let lines: BTreeMap<String, String> = objects
        .map(|(name, kind, one)| {
            let text = view::json(one).to_string();
            let shown = match (text.len() > SHOWN, one.len()) {
                (false, _) => text,
                (true, 1) => format!("{}…", text.chars().take(SHOWN).collect::<String>()),
                (true, entries) => format!("{entries} entries"),
            };
            (name, format!("{kind}: {shown}"))
        })
        .collect();
    match lines.is_empty() {
        true => {
            let instance = arguments.instance.as_deref();
            let which = instance.map_or(String::new(), |name| format!(" by the instance `{name}`"));
            print(&format!("the store has no state of `{}`{which}\n", arguments.nf))
        }
        false => {
            let line = |(name, text): (&String, &String)| format!("{name}  {text}\n");
            print(&lines.iter().map(line).collect::<String>())
        }
    }
}

/// A store that cannot be had.
pub(crate) fn input(error: anabranch_store::Error) -> Error {
    Error::Input(error.to_string())
}

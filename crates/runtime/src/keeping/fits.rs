//! Whether a run can go on with what a store has: looked at before the run takes it over, so that one that cannot
//! leaves it to whoever writes it now, and once more when nobody else writes it.
//!
//! What is compared stands in the store as text, in the scope of what all have alike: how state is divided among
//! shards (`.division`), of what entries are made (`.types.X`), what `init` has read (`.made.X`, `.ports`), since what
//! it has made of that is written over by what is stored.

use std::collections::BTreeMap;

use anabranch_nf::NetworkFunction;
use anabranch_nf::settings::Settings as _;
use anabranch_nf::state::journal::Layout;
use anabranch_store::{Content, Driver, Key, Kind, Place, Scope, view};

use super::SETS_ONLY;
use crate::instance::Making;
use crate::run::RunError;
use crate::steer::digest;
use crate::upgrade::{NEW, others};

/// Id of the value that says how state is divided among shards.
pub(super) const DIVISION: &str = ".division";
/// What the ids of values begin with that say what `init` has read.
const MADE: &str = ".made.";
/// Id of the names of the ports, of a function that takes any.
const PORTS: &str = ".ports";
/// Longest that it is kept as it is written; of what is longer its digest is.
const LONGEST: usize = 65_536;
/// Characters of it that an error shows.
const SHOWN: usize = 200;

/// What stored state must fit.
pub(super) struct Fitting<'r> {
    /// Name of the instance.
    pub(super) instance: &'r str,
    /// How this run divides it.
    pub(super) division: Option<String>,
    /// What this run makes it with.
    pub(super) made: Vec<Made>,
    /// Of what its entries are made.
    pub(super) layouts: Vec<(&'static str, Layout)>,
}

/// Something that `init` reads.
pub(super) struct Made {
    pub(super) id: String,
    pub(super) text: String,
    grows: bool,
}

/// Whether what is under this key only describes the rest: of a run that ended before its first packet there is nothing
/// else, and it binds nobody.
pub(super) fn describes(key: &Key) -> bool {
    key.id().starts_with('.') && !key.id().starts_with(NEW)
}

/// What `init` reads: settings, and names of ports where they are the operator's.
pub(super) fn made_with<N: NetworkFunction>(making: &Making) -> Vec<Made> {
    let schema = N::Settings::schema();
    let setting = |&(name, grows): &(&str, bool)| {
        let default = || {
            let text = schema.iter().find(|setting| setting.name == name)?.default.clone()?;
            let read: toml::Table = format!("value = {text}").parse().ok()?;
            Some(read.get("value")?.to_string())
        };
        let value = making.settings.get(name).map(ToString::to_string).or_else(default)?;
        Some(Made { id: format!("{MADE}{name}"), text: short(value), grows })
    };
    let names = || format!("[{}]", making.ports.join(", "));
    let ports = || Made { id: PORTS.to_owned(), text: names(), grows: true };
    N::INITIAL.iter().filter_map(setting).chain(N::PORTS.is_empty().then(ports)).collect()
}

/// Whether a list is another one with more at its end.
fn is_longer(list: &str, other: &str) -> bool {
    let Some(common) = other.strip_suffix(']') else { return false };
    let more = list.strip_prefix(common);
    more.is_some_and(|more| more.starts_with(',') || common == "[")
}

/// The beginning of a text.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What is long, by its length and its digest.
fn short(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    format!("{} bytes, digest {:016x}", text.len(), digest(&text))
}

impl Fitting<'_> {
    /// Checks what there is before anything is taken over.
    ///
    /// # Errors
    /// As [`check`](Self::check), and when the store cannot be read.
    pub(super) fn look_ahead<N: NetworkFunction>(
        &self,
        driver: &mut dyn Driver,
    ) -> Result<(), RunError> {
        let keys = view::keys(driver, N::NAME, self.instance)?;
        if keys.iter().all(describes) {
            return Ok(());
        }
        let mut texts = Vec::new();
        for key in keys {
            let is_text = key.kind() == Kind::Value && describes(&key);
            let content = if is_text { view::read(driver, &key)? } else { None };
            texts.push((key, content));
        }
        self.check::<N>(texts.iter().map(|(key, content)| (key, content.as_ref())))
    }

    /// Checks what there is: keys, and what is under those that describe.
    ///
    /// # Errors
    /// [`RunError::StoreDivided`], [`RunError::StoreMade`], [`OtherLayout`](anabranch_store::Error::OtherLayout).
    pub(super) fn check<'s, N: NetworkFunction>(
        &self,
        state: impl Iterator<Item = (&'s Key, Option<&'s Content>)>,
    ) -> Result<(), RunError> {
        let common = Scope::new(N::NAME, self.instance, Place::Core(0))?;
        let (mut texts, mut in_shards, mut is_empty) = (BTreeMap::new(), false, true);
        for (key, content) in state {
            is_empty = false;
            in_shards |= matches!(key.place(), Place::Shard(_));
            if let Some(Content::Value(text)) = content
                && key.scope() == common
            {
                texts.insert(key.id(), String::from_utf8_lossy(text).into_owned());
            }
        }
        if is_empty {
            return Ok(());
        }
        self.check_division(texts.get(DIVISION).map(String::as_str), in_shards)?;
        self.check_made(&texts)?;
        for (object, layout) in &self.layouts {
            others(&common, object, layout, |key| texts.get(&key.id()).cloned())?;
        }
        Ok(())
    }

    /// What is stored must be divided as it is here: nothing says of a single entry in which shard it
    /// would be by other keys.
    fn check_division(&self, stored: Option<&str>, in_shards: bool) -> Result<(), RunError> {
        let here = self.division.as_deref();
        if stored == here && (stored.is_some() || !in_shards) {
            return Ok(());
        }
        let divided = |by: Option<&str>| match by {
            Some(by) => format!("divided by {by}"),
            None => "not divided among shards".to_owned(),
        };
        let (mut is_stored, mut advice) = (divided(stored), self.advice(stored));
        if stored.is_none() && in_shards {
            is_stored = "divided among shards, and what said by what is lost".to_owned();
            advice = "begin anew as another --instance";
        }
        Err(RunError::StoreDivided {
            instance: self.instance.to_owned(),
            stored: is_stored,
            here: divided(here),
            advice,
        })
    }

    /// What to do where state is divided otherwise.
    fn advice(&self, stored: Option<&str>) -> &'static str {
        match (stored, self.division.as_deref()) {
            (Some(text), None) if text.ends_with(SETS_ONLY) => {
                "run with two workers or more by the plan, or begin anew as another --instance"
            }
            (None, Some(text)) if text.ends_with(SETS_ONLY) => {
                "run with --workers 1, or with --strategy lock or transactional, or begin anew as \
                 another --instance"
            }
            (Some(_), None) => {
                "run with several workers by the plan, or give one the plan too, by --strategy \
                 shared-nothing"
            }
            (Some(_), Some(_)) => {
                "give the plan of then by --plan, or begin anew as another --instance"
            }
            (None, _) => {
                "run with --workers 1, or with --strategy lock or transactional, or begin anew as \
                 another --instance: one worker's state is in shards where it is told --strategy \
                 shared-nothing, and any number goes on with it"
            }
        }
    }

    /// What `init` reads must be what it read then, or a list that grows with more at its end, and no list that grows
    /// after it. Where nothing is said of it, a release before has written the state.
    fn check_made(&self, texts: &BTreeMap<String, String>) -> Result<(), RunError> {
        for (at, Made { id, text: here, grows }) in self.made.iter().enumerate() {
            let Some(stored) = texts.get(id).filter(|stored| *stored != here) else { continue };
            let follows = |made: &Made| {
                let is_setting = made.id.starts_with(MADE);
                made.grows && is_setting && texts.get(&made.id).is_some_and(|text| text != "[]")
            };
            let is_last = || !self.made[at + 1..].iter().any(follows);
            if *grows && is_longer(here, stored) && is_last() {
                continue;
            }
            let what = match id.strip_prefix(MADE) {
                Some(name) => format!("`{name}`"),
                None => "the ports, in the order of their numbers,".to_owned(),
            };
            return Err(RunError::StoreMade {
                instance: self.instance.to_owned(),
                what,
                stored: shown(stored),
                here: shown(here),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_longer_with_more_at_their_end() {
        for (list, other) in
            [("[1, 2]", "[1]"), ("[1]", "[]"), ("[{ a = [1] }, 2]", "[{ a = [1] }]")]
        {
            assert!(is_longer(list, other) && !is_longer(other, list), "{list} {other}");
        }
        for (list, other) in
            [("[12]", "[1]"), ("[2, 1]", "[1]"), ("2", "1"), ("[1]", "70000 bytes, digest 1")]
        {
            assert!(!is_longer(list, other), "{list} {other}");
        }
    }

    #[test]
    fn what_is_long_is_told_apart_and_shown_in_part() {
        let long = |last: char| format!("[{}{last}]", "é".repeat(LONGEST));
        assert_ne!(short(long('a')), short(long('b')));
        assert!(short(long('a')).starts_with("131075 bytes, digest "));
        assert_eq!(shown(&long('a')).chars().count(), SHOWN + 1);
    }
}

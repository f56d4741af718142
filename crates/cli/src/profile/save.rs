//! Settings as a file: what the operator wrote, with the values that have changed.

use toml::Table;
use toml::de::DeTable;

use super::recipe::Step;
use crate::store::TABLE;

/// `text`, which is the operator's configuration, with `settings` in it: what is not changed stands as it was, with
/// its comments and its `[store]`. Above it stands what the recipes that are `kept` changed.
pub(super) fn file(nf: &str, kept: &[Step], text: &str, settings: &Table) -> String {
    let mut head = format!("# Settings of {nf} with recipes of its profile.\n");
    // Where an earlier profile has written it, there is one such line.
    let text = text.strip_prefix(&head).unwrap_or(text);
    for Step { parameter, before, relaxes, .. } in kept {
        let relaxes = if relaxes.is_empty() { "nothing" } else { relaxes };
        head += &format!("# {parameter}: {before} before; relaxes: {relaxes}\n");
    }
    let written = text.parse::<Table>().unwrap_or_default();
    let mut wanted = settings.clone();
    wanted.extend(written.get_key_value(TABLE).map(|(key, store)| (key.clone(), store.clone())));
    let edited = edited(text, &written, &wanted);
    let is_right = |edited: &String| edited.parse::<Table>().is_ok_and(|table| table == wanted);
    // What cannot be changed where it stands (a table with a header of its own, say) is written anew.
    head + &edited.filter(is_right).unwrap_or_else(|| wanted.to_string())
}

/// `text`, in which `written` stands, with the values of `wanted` in place of others, and above them those that are
/// missing.
fn edited(text: &str, written: &Table, wanted: &Table) -> Option<String> {
    let parsed = DeTable::parse(text).ok()?;
    let (mut changes, mut missing) = (Vec::new(), String::new());
    for (key, value) in wanted.iter().filter(|(key, value)| written.get(*key) != Some(*value)) {
        match parsed.get_ref().iter().find(|(name, _)| name.get_ref() == key) {
            Some((_, old)) => changes.push((old.span(), value)),
            // Names of settings need no quotes.
            None => missing += &format!("{key} = {value}\n"),
        }
    }
    let mut edited = text.to_owned();
    changes.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    for (span, value) in changes {
        edited.get(span.clone())?;
        edited.replace_range(span, &value.to_string());
    }
    Some(missing + &edited)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "\
# balancer of site 3
connections = 4_096   # see ticket 17
services = [ { address = \"192.0.2.80\", port = 80 } ] # web

[[backends]]
address = \"10.0.0.1\" # first
port = 8080

[store]
location = \"redis://:secret@localhost\" # not ours
";

    fn step(parameter: &str, before: &str) -> Step {
        Step {
            parameter: parameter.to_owned(),
            line: None,
            before: before.to_owned(),
            after: String::new(),
            relaxes: "",
            effect: "",
            by: "setting",
        }
    }

    /// As a run has them: without the table of the store.
    fn settings(text: &str, changes: &str) -> Table {
        let mut settings: Table = text.parse().unwrap();
        settings.remove(TABLE);
        settings.extend(changes.parse::<Table>().unwrap());
        settings
    }

    #[test]
    fn what_the_operator_wrote_stays() {
        let kept = [step("connections", "4096")];
        let saved = file("lb", &kept, WRITTEN, &settings(WRITTEN, "connections = 8192\nudp_s = 7"));
        let head = "# Settings of lb with recipes of its profile.\n\
                    # connections: 4096 before; relaxes: nothing\nudp_s = 7\n";
        assert_eq!(saved, format!("{head}{}", WRITTEN.replace("4_096", "8192")));
        let again = file("lb", &kept, &saved, &settings(&saved, "udp_s = 8"));
        assert_eq!(again.matches("# Settings of lb").count(), 1, "{again}");
        assert!(again.contains("udp_s = 8\n# balancer of site 3"), "{again}");
    }

    #[test]
    fn the_file_has_the_settings_whatever_they_are() {
        for changes in [
            "backends = [{ address = \"10.0.0.9\", port = 1 }]",
            "services = []\nconnections = 1",
            "method = \"least \\\"x\\\"\"",
        ] {
            for text in [WRITTEN, "", "connections = 1", "# a comment without an end of line"] {
                let wanted = settings(text, changes);
                let mut read: Table = file("lb", &[], text, &wanted).parse().unwrap();
                assert_eq!(read.remove(TABLE).is_some(), text == WRITTEN);
                assert_eq!(read, wanted, "{changes} in {text}");
            }
        }
    }
}

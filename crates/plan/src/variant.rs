//! Keys and values with enums in them: which of their parts can be compared.
//!
//! A part of an enum's payload stands for something only while the enum is that variant. What is
//! known of an enum decides which parts a key has, so that the parts of two keys go together by
//! their names and not by their places.

use crate::touch::Part;

const UNKNOWN: Part = Part::Opaque("is of a variant that is not known");
pub(crate) const ABSENT: Part = Part::Opaque("is of another variant");

/// Hides the payloads of enums whose variant could be another for another packet. One that was read
/// from state is known where it was stored.
pub(crate) fn hide_unknown(parts: &mut [(String, Part)]) {
    let uncertain = |(name, part): &(String, Part)| {
        let prefix = name.strip_suffix("variant")?;
        let is_enum = prefix.is_empty() || prefix.ends_with('.');
        (is_enum && !is_certain(part)).then(|| prefix.to_owned())
    };
    let prefixes: Vec<String> = parts.iter().filter_map(uncertain).collect();
    for (name, part) in parts {
        let inside = |prefix: &String| {
            name.strip_prefix(prefix.as_str()).is_some_and(|rest| rest != "variant")
        };
        if prefixes.iter().any(inside) {
            *part = UNKNOWN;
        }
    }
}

fn is_certain(variant: &Part) -> bool {
    match variant {
        Part::Word(word) => word.iter().all(|sum| sum.bits.is_empty()),
        Part::Stored(_) => true,
        _ => false,
    }
}

/// The parts in the order of `names`, to which those that are new are added at the end.
pub(crate) fn aligned(parts: Vec<(String, Part)>, names: &mut Vec<String>) -> Vec<Part> {
    for (name, _) in &parts {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let of_name = |name: &String| {
        let found = parts.iter().find(|(own, _)| own == name);
        found.map_or(ABSENT, |(_, part)| part.clone())
    };
    names.iter().map(of_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(parts: &[(&str, Part)]) -> Vec<(String, Part)> {
        parts.iter().map(|(name, part)| ((*name).to_owned(), part.clone())).collect()
    }

    #[test]
    fn parts_go_together_by_name() {
        let mut names = Vec::new();
        let key = |variant: &str| named(&[("host.variant", Part::Rigid), (variant, Part::Rigid)]);
        assert_eq!(aligned(key("host.v4.0"), &mut names), [Part::Rigid, Part::Rigid]);
        assert_eq!(aligned(key("host.v6.0"), &mut names), [Part::Rigid, ABSENT, Part::Rigid]);
        assert_eq!(aligned(key("host.v4.0"), &mut names), [Part::Rigid, Part::Rigid, ABSENT]);
    }

    #[test]
    fn payloads_of_variants_that_are_not_known_are_hidden() {
        let other = Part::Opaque("is something else");
        let mut parts = named(&[
            ("port", Part::Rigid),
            ("host.variant", other.clone()),
            ("host.v4.0", Part::Rigid),
            ("peer.variant", Part::Word([].into())),
            ("peer.v4.0", Part::Rigid),
        ]);
        hide_unknown(&mut parts);
        let parts: Vec<Part> = parts.into_iter().map(|(_, part)| part).collect();
        let known = Part::Word([].into());
        assert_eq!(parts, [Part::Rigid, other, UNKNOWN, known, Part::Rigid]);
    }
}

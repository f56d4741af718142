//! Licences: what we build on may be built on by anybody.

use serde_json::Value;

/// Licences that a dependency may have, by their SPDX names.
const ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages in the answer of `cargo metadata` that no allowed licence covers.
pub fn check(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(is_allowed))
        .map(|package| {
            let licence = package["license"].as_str().unwrap_or("no licence");
            format!("{}: {licence} is not on the list", package["name"].as_str().unwrap_or("?"))
        })
        .collect()
}

/// Whether an SPDX expression can be met with allowed licences only. `OR` binds less than `AND`;
/// the old `MIT/Apache-2.0` is an `OR`.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let alternatives = split_outside(&expression, " OR ");
    if alternatives.len() > 1 {
        return alternatives.into_iter().any(is_allowed);
    }
    let parts = split_outside(&expression, " AND ");
    if parts.len() > 1 {
        return parts.into_iter().all(is_allowed);
    }
    let single = expression.trim();
    match single.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => is_allowed(inner),
        None => ALLOWED.contains(&single),
    }
}

/// `text` split at each `separator` that stands outside of brackets.
fn split_outside<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(separator) {
        let before = &text[..at];
        if before.matches('(').count() == before.matches(')').count() {
            parts.push(&text[start..at]);
            start = at + separator.len();
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_understood() {
        for allowed in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for refused in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND AGPL-3.0", "", "(GPL-2.0)"]
        {
            assert!(!is_allowed(refused), "{refused}");
        }
    }

    #[test]
    fn a_package_without_an_allowed_licence_is_found() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "free", "license": "MIT" },
            { "name": "closed", "license": null },
            { "name": "viral", "license": "AGPL-3.0" },
        ]});
        assert_eq!(check(&metadata).len(), 2);
    }
}

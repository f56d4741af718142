//! How a Rust name is written outside Rust.

/// `OverQuota` and `over_quota` as `over-quota`: the one spelling of reasons, commands and enum
/// values in tables, metrics, captures and on the command line.
pub fn kebab(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character == '_' {
            text.push('-');
        } else if character.is_uppercase() {
            if !text.is_empty() && !text.ends_with('-') {
                text.push('-');
            }
            text.extend(character.to_lowercase());
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::kebab;

    #[test]
    fn camel_and_snake_case_become_words() {
        assert_eq!(kebab("OverQuota"), "over-quota");
        assert_eq!(kebab("add_backend"), "add-backend");
        assert_eq!(kebab("Lan"), "lan");
    }
}

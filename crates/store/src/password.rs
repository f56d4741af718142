//! Passwords that stand in a file, not in an address: a command line is seen by everybody on the machine.

/// The password that a file holds, which an address names by `word`: its first line.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn of_file(word: &str, file: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("`{word}` {file} cannot be read: {error}"))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_string()),
        _ => Err(format!("`{word}` {file} has no first line")),
    }
}

/// The words of a query but for `password_file`, and the file that this names.
pub(crate) fn taken_out(query: &str) -> (String, Option<&str>) {
    let mut file = None;
    let others: Vec<&str> = query
        .split('&')
        .filter(|option| match option.strip_prefix("password_file=") {
            Some(name) => {
                file = Some(name);
                false
            }
            None => true,
        })
        .collect();
    (others.join("&"), file)
}

/// Whether it is as words behind the `?` are: anything else may be a part of a password, and is not said back.
pub(crate) fn is_word(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_password() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        let name = file.to_str().unwrap();
        let of_file = |file| of_file("password_file", file);
        assert!(of_file(name).unwrap_err().contains("cannot be read"));
        std::fs::write(&file, "\n").unwrap();
        assert!(of_file(name).unwrap_err().contains("no first line"));
        std::fs::write(&file, "s3c@ret/?\n").unwrap();
        assert_eq!(of_file(name).as_deref(), Ok("s3c@ret/?"));
    }

    #[test]
    fn other_words_stay() {
        let query = "timeout_ms=7&password_file=/run/pw&ca=x";
        assert_eq!(taken_out(query), ("timeout_ms=7&ca=x".to_string(), Some("/run/pw")));
        assert_eq!(taken_out(""), (String::new(), None));
    }
}

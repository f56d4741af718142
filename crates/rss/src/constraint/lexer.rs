//! Words of a constraint.

use std::ops::Range;

use super::ConstraintError;

/// A word or sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Letters, digits, `.`, `:` and `'`: a packet with its field, or a constant.
    Word,
    Equal,
    And,
    Or,
    Xor,
    Slash,
    Open,
    Close,
    /// After the last one.
    End,
}

/// A word or sign with its place.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Range<usize>,
}

const SIGNS: [(&str, Kind); 9] = [
    ("==", Kind::Equal),
    ("=", Kind::Equal),
    ("&&", Kind::And),
    ("||", Kind::Or),
    ("^", Kind::Xor),
    ("/", Kind::Slash),
    ("[", Kind::Open),
    ("]", Kind::Close),
    ("", Kind::End),
];

/// Cuts `text` into words and signs; the last one is [`Kind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, ConstraintError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let word = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
        let (kind, len) = if word > 0 {
            (Kind::Word, word)
        } else {
            sign(rest).ok_or_else(|| {
                let len = rest.chars().next().map_or(0, char::len_utf8);
                let message = "write `=`, `&&`, `||`, `^`, a packet's field or a constant";
                ConstraintError::new(text, at..at + len, message)
            })?
        };
        tokens.push(Token { kind, span: at..at + len });
        if kind == Kind::End {
            return Ok(tokens);
        }
        at += len;
    }
}

fn sign(rest: &str) -> Option<(Kind, usize)> {
    let signs = SIGNS.iter().filter(|(sign, _)| !sign.is_empty() || rest.is_empty());
    signs.copied().find(|(sign, _)| rest.starts_with(sign)).map(|(sign, kind)| (kind, sign.len()))
}

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | ':' | '\'' | '_')
}

//! Options of IPv4 (RFC 791, 3.1) and TCP (RFC 9293, 3.1), which are written alike.

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderOption<'a> {
    /// Its kind, with IPv4's copied bit and class.
    pub kind: u8,
    /// Its content, without kind and length.
    pub content: &'a [u8],
}

/// The options of a header; no-operations are skipped. Ends at the end-of-options mark, and at the
/// first option that does not fit.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    bytes: &'a [u8],
}

impl<'a> Options<'a> {
    /// Those between the fixed header and `header_len`; `rest` is what follows the fixed header.
    #[inline]
    pub(crate) fn of(rest: &'a [u8], header_len: u8, fixed_len: u8) -> Self {
        let len = usize::from(header_len.saturating_sub(fixed_len));
        Self { bytes: rest.get(..len).unwrap_or(rest) }
    }

    /// All of them as they lie in the header, with padding.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = HeaderOption<'a>;

    fn next(&mut self) -> Option<HeaderOption<'a>> {
        loop {
            match *self.bytes {
                [1, ref rest @ ..] => self.bytes = rest,
                [kind, len, ..] if kind != 0 => {
                    let content = self.bytes.get(2..usize::from(len))?;
                    self.bytes = self.bytes.get(usize::from(len)..)?;
                    return Some(HeaderOption { kind, content });
                }
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_until_the_end_mark_or_a_bad_length() {
        let tcp = [1, 2, 4, 5, 0xb4, 4, 2, 1, 0, 9, 9];
        let found: Vec<_> = Options::of(&tcp, 31, 20).map(|o| (o.kind, o.content)).collect();
        assert_eq!(found, [(2, &[5, 0xb4][..]), (4, &[][..])]);
        assert_eq!(Options::of(&tcp, 25, 20).count(), 1, "those within the header length only");
        for bad in [&[2, 0][..], &[2, 1], &[2, 9, 0], &[2]] {
            assert_eq!(Options::of(bad, 60, 20).next(), None);
        }
    }
}

//! Expressions in a plan: sums and products over settings, as an operator would work them out.

/// The value of `text`, such as `(settings.last_port - settings.first_port + 1)`; empty is 0. What
/// `value_of` does not know has none.
///
/// # Errors
/// What of it cannot be worked out.
pub fn evaluate(text: &str, value_of: &dyn Fn(&str) -> Option<i128>) -> Result<i128, String> {
    let mut reader = Reader { rest: text.trim(), value_of };
    if reader.rest.is_empty() {
        return Ok(0);
    }
    let value = reader.sum()?;
    match reader.rest {
        "" => Ok(value),
        rest => Err(format!("`{rest}` in `{text}` is no part of a sum")),
    }
}

struct Reader<'t> {
    rest: &'t str,
    value_of: &'t dyn Fn(&str) -> Option<i128>,
}

impl Reader<'_> {
    fn take(&mut self, symbol: char) -> bool {
        let rest = self.rest.strip_prefix(symbol).map(str::trim_start);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sum(&mut self) -> Result<i128, String> {
        let mut value = self.product()?;
        loop {
            value = match (self.take('+'), self.take('-')) {
                (true, _) => value.checked_add(self.product()?),
                (_, true) => value.checked_sub(self.product()?),
                _ => return Ok(value),
            }
            .ok_or("a sum is too large")?;
        }
    }

    fn product(&mut self) -> Result<i128, String> {
        let mut value = self.operand()?;
        while self.take('*') {
            value = value.checked_mul(self.operand()?).ok_or("a product is too large")?;
        }
        Ok(value)
    }

    fn operand(&mut self) -> Result<i128, String> {
        if self.take('(') {
            let value = self.sum()?;
            return if self.take(')') {
                Ok(value)
            } else {
                Err("a `(` without its `)`".to_owned())
            };
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        let number = match word.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        };
        number.or_else(|| (self.value_of)(word)).ok_or_else(|| match word {
            "" => "an operand is missing".to_owned(),
            _ => format!("the value of `{word}` is not known before the run"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<i128, String> {
        evaluate(text, &|name| match name {
            "settings.first" => Some(1_024),
            "settings.last" => Some(65_535),
            _ => None,
        })
    }

    #[test]
    fn sums_products_and_brackets() {
        assert_eq!(value("(settings.last - settings.first + 1)"), Ok(64_512));
        assert_eq!(value("2 * (3 + 0x10) - 1"), Ok(37));
        assert_eq!(value(""), Ok(0));
        assert_eq!(value("10 - 4 - 3"), Ok(3));
    }

    #[test]
    fn what_is_not_known_or_no_sum_is_said() {
        assert!(value("pool.ports").unwrap_err().contains("`pool.ports`"));
        assert!(value("1 +").unwrap_err().contains("missing"));
        assert!(value("(1").unwrap_err().contains("without"));
        assert!(value("1 ) 2").unwrap_err().contains(") 2"));
        assert!(value(&format!("{0} * {0} * {0}", u64::MAX)).unwrap_err().contains("too large"));
    }
}

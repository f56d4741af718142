//! Values of options.

use super::SpecError;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// A whole number within limits; `_` may group its digits.
pub(crate) fn number_in<T>(
    option: &str,
    text: &str,
    limits: RangeInclusive<T>,
) -> Result<T, SpecError>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    let digits = text.replace('_', "");
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(value) if limits.contains(&value) => Ok(value),
        // What the type cannot hold is out of range, too.
        Err(_) if !is_whole => {
            let expected = "write a whole number, such as 1000 or 1_000";
            Err(SpecError::invalid(option, text, expected))
        }
        _ => {
            let expected = format!("out of range; write {} to {}", limits.start(), limits.end());
            Err(SpecError::invalid(option, text, expected))
        }
    }
}

/// A decimal number within limits.
pub(crate) fn decimal(
    option: &str,
    text: &str,
    limits: RangeInclusive<f64>,
) -> Result<f64, SpecError> {
    match text.parse() {
        Ok(value) if limits.contains(&value) => Ok(value),
        _ => {
            let expected = format!("write a number from {} to {}", limits.start(), limits.end());
            Err(SpecError::invalid(option, text, expected))
        }
    }
}

/// Anything else that reads itself, such as an address.
pub(crate) fn parse<T: FromStr>(option: &str, text: &str, expected: &str) -> Result<T, SpecError> {
    text.parse().map_err(|_| SpecError::invalid(option, text, expected))
}

/// A time with its unit: `10s`, `1.5s`, `500ms`, `2m`.
pub(crate) fn duration(option: &str, text: &str) -> Result<Duration, SpecError> {
    let invalid =
        || SpecError::invalid(option, text, "write a time with its unit, such as 10s or 500ms");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_s = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return Err(invalid()),
    };
    let value: f64 = digits.parse().map_err(|_| invalid())?;
    Duration::try_from_secs_f64(value * unit_s).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let ms = |text| duration("for", text).map(|time| time.as_millis());
        assert_eq!(ms("10s"), Ok(10_000));
        assert_eq!(ms("2m"), Ok(120_000));
        assert_eq!(ms("1.5s"), Ok(1_500));
        assert_eq!(ms("250ms"), Ok(250));
        for wrong in ["", "s", "10", "-1s", "1e300h", "nans", "infs", "10 parsecs"] {
            assert!(ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_have_limits() {
        assert_eq!(number_in("flows", "65_536", 1..=100_000), Ok(65_536));
        let error = number_in("flows", "0", 1..=10).unwrap_err();
        assert_eq!(error.to_string(), "flows=0: out of range; write 1 to 10");
        let error = number_in::<u8>("x", "256", 1..=u8::MAX).unwrap_err();
        assert_eq!(error.to_string(), "x=256: out of range; write 1 to 255");
        for wrong in ["", "-1", "1.5", "many"] {
            let error = number_in::<u8>("x", wrong, 1..=9).unwrap_err();
            assert!(error.to_string().contains("write a whole number"), "{error}");
        }
        assert!(decimal("tcp", "1.1", 0.0..=1.0).is_err());
        assert!(decimal("tcp", "NaN", 0.0..=1.0).is_err());
    }
}

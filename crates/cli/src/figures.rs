//! Figures as a person reads them: thousands separated, three significant digits, units last.

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 seed`, `2 seeds`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {one}{plural}", thousands(count))
}

/// A number of bytes in the largest decimal unit that leaves at least one digit before the point.
pub(crate) fn bytes(count: u64) -> String {
    scaled(count as f64, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// A time given in nanoseconds.
pub(crate) fn nanoseconds(ns: u64) -> String {
    scaled(ns as f64, 1000.0, &["ns", "µs", "ms", "s"])
}

/// A time given in seconds.
pub(crate) fn seconds(s: f64) -> String {
    nanoseconds((s * 1e9) as u64)
}

/// A ratio (0 to 1) as a percentage; a part that is there never shows as nothing, nor a part that
/// is missing as everything.
pub(crate) fn percent(ratio: f64) -> String {
    match ratio * 100.0 {
        p if p > 0.0 && p < 0.05 => "<0.1 %".to_string(),
        p if (99.95..100.0).contains(&p) => ">99.9 %".to_string(),
        p => format!("{p:.1} %"),
    }
}

/// A rate with three significant digits: `0.125`, `4.61`, `21.3`, `148`.
pub(crate) fn rate(value: f64) -> String {
    let decimals = if value == 0.0 { 0 } else { decimals(value) };
    format!("{value:.decimals$}")
}

/// `part / whole`; an empty whole has no parts.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// `value` in the first of `units` (each `step` times the one before) in which it is below `step`.
fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    // 999.5 would be printed as 1000: it belongs to the next unit.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let decimals = if unit == 0 { 0 } else { decimals(value) };
    format!("{value:.decimals$} {}", units[unit])
}

/// Decimals that make three significant digits of a number below 1000.
fn decimals(value: f64) -> usize {
    match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        let cases =
            [(0, "0"), (999, "999"), (1000, "1,000"), (65_536, "65,536"), (1_234_567, "1,234,567")];
        for (count, text) in cases {
            assert_eq!(thousands(count), text);
        }
    }

    #[test]
    fn units_are_the_largest_that_fit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(8_400_000), "8.40 MB");
        assert_eq!(bytes(999_999), "1.00 MB");
        assert_eq!(nanoseconds(12_140), "12.1 µs");
        assert_eq!(nanoseconds(999_700), "1.00 ms");
        assert_eq!(seconds(0.91), "910 ms");
        assert_eq!(seconds(75.0), "75.0 s");
        assert_eq!(seconds(7500.0), "7500 s");
    }

    #[test]
    fn percentages_never_hide_a_part() {
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(percent(0.000_01), "<0.1 %");
        assert_eq!(percent(0.999_99), ">99.9 %");
        assert_eq!(percent(1.0), "100.0 %");
        assert_eq!(percent(ratio(1, 3)), "33.3 %");
        assert_eq!(percent(ratio(1, 0)), "0.0 %");
    }

    #[test]
    fn rates_have_three_digits() {
        assert_eq!(rate(0.0), "0");
        assert_eq!(rate(0.125), "0.125");
        assert_eq!(rate(4.6149), "4.61");
        assert_eq!(rate(21.26), "21.3");
        assert_eq!(rate(148.2), "148");
    }
}

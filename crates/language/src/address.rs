//! Hardware addresses as operators write them.

/// The octets of `02:00:00:00:00:01`; `None`: the text is no such address.
pub fn mac_octets(text: &str) -> Option<[u8; 6]> {
    let mut octets = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut octets {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(octets)
}

#[cfg(test)]
mod tests {
    use super::mac_octets;

    #[test]
    fn octets_are_six_pairs_of_digits() {
        assert_eq!(mac_octets("02:00:00:00:00:ff"), Some([2, 0, 0, 0, 0, 255]));
        for text in ["02:00:00:00:00", "2:0:0:0:0:1", "02:00:00:00:00:01:02", "02:00:00:00:00:zz"] {
            assert_eq!(mac_octets(text), None, "{text}");
        }
    }
}

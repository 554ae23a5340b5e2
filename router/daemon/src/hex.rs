//! Octets as text, two hexadecimal digits each.

/// The text.
pub(crate) fn of(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The octets; `None` if the text is something else.
pub(crate) fn octets(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().map(|digit| digit.to_digit(16));
    let digits: Vec<u8> = digits
        .map(|digit| digit.map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let octets = pairs.iter().map(|[high, low]| high << 4 | low);
    rest.is_empty().then(|| octets.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(octets(&of(&all)), Some(all));
        assert_eq!(octets("00fF"), Some(vec![0, 255]));
        for wrong in ["0", "0x", "+1", "é0"] {
            assert_eq!(octets(wrong), None, "{wrong}");
        }
    }
}

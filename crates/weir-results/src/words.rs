//! Formats counts for everything that weir prints.

/// Formats an integer with thousands separators: `52,031`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun, which is given in the singular: `1 connection`, `1,024 connections`.
pub fn counted(value: u64, noun: &str) -> String {
    format!("{} {}", count(value), plural(value, noun))
}

/// The noun in singular or plural, to match the count `value`.
pub fn plural(value: u64, noun: &str) -> String {
    if value == 1 {
        return noun.to_owned();
    }
    let is_vowel = |letter: char| "aeiou".contains(letter);
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(is_vowel) => format!("{stem}ies"),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_match_their_counts() {
        for (value, noun, expected) in [
            (1, "connection", "1 connection"),
            (0, "connection", "0 connections"),
            (2_000, "connection", "2,000 connections"),
            (1, "entry", "1 entry"),
            (2, "entry", "2 entries"),
            (2, "gateway", "2 gateways"),
            (3, "process", "3 processes"),
            (3, "scheduled request", "3 scheduled requests"),
        ] {
            assert_eq!(counted(value, noun), expected);
        }
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}

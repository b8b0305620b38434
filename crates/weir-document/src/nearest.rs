//! Finds the valid name that is most similar to an invalid one.

/// Returns the candidate that is most similar to `word`, if it is similar enough for a suggestion.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| is_near(*distance, &word, candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Whether a candidate is similar to `word`: at most a third of the letters differ, or the candidate begins with the
/// word (`rep` and `repeats`), or the word is the candidate with a suffix (`weir-gateway` and `weir`).
fn is_near(distance: usize, word: &str, candidate: &str) -> bool {
    let length = word.chars().count().max(candidate.chars().count());
    let begins = word.chars().count() >= 3 && candidate.to_lowercase().starts_with(word);
    let suffix = word.strip_prefix(candidate.to_lowercase().as_str());
    let extends =
        !candidate.is_empty() && suffix.is_some_and(|suffix| suffix.starts_with(['-', '_', '.', ' ']));
    distance * 3 <= length || begins || extends
}

/// The remedy for an unknown `word`: suggests the most similar valid name, or lists all of them.
pub(crate) fn remedy_for(word: &str, valid: &[String]) -> String {
    if let Some(near) = nearest(word, valid.iter().map(String::as_str)) {
        return format!("did you mean `{near}`?");
    }
    match valid {
        [] => "remove the field: no field is allowed here".to_owned(),
        [only] => format!("the only valid name here is `{only}`"),
        many => {
            let names: Vec<String> = many.iter().map(|name| format!("`{name}`")).collect();
            format!("valid names here: {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        let names = ["duration", "warmup", "repeats", "gateways"];
        assert_eq!(nearest("durations", names), Some("duration"));
        assert_eq!(nearest("Warm-up", names), Some("warmup"));
        assert_eq!(nearest("rep", names), Some("repeats"));
        assert_eq!(nearest("gatewyas", names), Some("gateways"));
        assert_eq!(nearest("warmup-time", names), Some("warmup"));
        assert_eq!(nearest("weir-gateway", ["envoy", "weir"]), Some("weir"));
        assert_eq!(nearest("weirdgateway", ["envoy", "weir"]), None);
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn remedies_list_the_choices() {
        let valid = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(remedy_for("opne", &valid(&["open", "closed"])), "did you mean `open`?");
        assert_eq!(remedy_for("xyz", &valid(&["open", "closed"])), "valid names here: `open`, `closed`");
        assert_eq!(remedy_for("xyz", &valid(&["open"])), "the only valid name here is `open`");
        assert_eq!(remedy_for("xyz", &[]), "remove the field: no field is allowed here");
    }
}

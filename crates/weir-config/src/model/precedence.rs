//! Which of several routes for the same requests has them.

/// A route's place among those that are as specific, as Gateway API tells: the resource that was made first, then the
/// order of names, then the order within the resource. What compares as less goes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence {
    /// When its resource was made, in seconds of Unix time; the greatest number where nobody knows.
    pub created_s: i64,
    /// `namespace/name` of its resource.
    pub resource: String,
    /// The position of its rule there, and of its match within the rule.
    pub position: (usize, usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_goes_before_names_and_names_before_positions() {
        let precedence = |created_s, resource: &str, position| Precedence {
            created_s,
            resource: resource.to_owned(),
            position,
        };
        let ordered = [
            precedence(1, "z/z", (9, 9)),
            precedence(2, "a-b/c", (0, 0)),
            precedence(2, "a/b", (0, 1)),
            precedence(2, "a/b", (1, 0)),
            precedence(i64::MAX, "a/a", (0, 0)),
        ];
        assert!(ordered.is_sorted());
    }
}

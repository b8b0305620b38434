//! Precedence among routes that match the same requests.

/// The precedence of a route among equally specific ones, as Gateway API defines it: the oldest resource first, then by
/// name, then by position in the resource. Lower values win.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence {
    /// When the Kubernetes resource that defines the route was created, in seconds of Unix time; `i64::MAX` if unknown.
    pub created_s: i64,
    /// `namespace/name` of the Kubernetes resource that defines the route.
    pub resource: String,
    /// The index of the rule in the resource, and the index of the match in the rule.
    pub position: (usize, usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_route_wins_then_name_then_position() {
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

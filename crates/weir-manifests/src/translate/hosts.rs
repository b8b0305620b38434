//! Compares hostnames of listeners and routes: `example.com`, or `*.example.com` for every name below it.

/// In the gateway model, the host of a listener without a hostname. It stands for every host.
pub(super) const EVERY: &str = "*";

/// Whether `wide` matches every host that `narrow` matches; `None` matches all hosts. Both must be in lower case.
pub(super) fn covers(wide: Option<&str>, narrow: &str) -> bool {
    match wide {
        None => true,
        Some(wide) if wide == narrow => true,
        Some(wide) => {
            let Some(suffix) = wide.strip_prefix('*').filter(|rest| rest.starts_with('.')) else {
                return false;
            };
            let narrow = narrow.strip_prefix('*').unwrap_or(narrow);
            narrow.len() > suffix.len() && narrow.ends_with(suffix)
        }
    }
}

/// The hostname for the hosts that both `listener` and `route` match; `None` if there are no such hosts.
pub(super) fn intersection(listener: Option<&str>, route: &str) -> Option<String> {
    if covers(listener, route) {
        return Some(route.to_owned());
    }
    listener.filter(|listener| covers(Some(route), listener)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_intersection_of_two_names_is_the_narrower_one() {
        let check = |listener: Option<&str>, route: &str, expected: Option<&str>| {
            assert_eq!(intersection(listener, route).as_deref(), expected, "{listener:?} {route}");
        };
        check(None, "a.test", Some("a.test"));
        check(None, "*.test", Some("*.test"));
        check(Some("a.test"), "a.test", Some("a.test"));
        check(Some("a.test"), "b.test", None);
        check(Some("a.test"), "*.test", Some("a.test"));
        check(Some("*.test"), "a.test", Some("a.test"));
        check(Some("*.test"), "b.a.test", Some("b.a.test"));
        check(Some("*.test"), "test", None);
        check(Some("*.test"), "atest", None);
        check(Some("*.test"), "*.a.test", Some("*.a.test"));
        check(Some("*.a.test"), "*.test", Some("*.a.test"));
        check(Some("*.a.test"), "*.b.test", None);
        check(Some("*.test"), "*.test", Some("*.test"));
    }
}

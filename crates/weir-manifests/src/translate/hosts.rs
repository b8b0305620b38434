//! Host names of listeners and routes: `example.com`, or `*.example.com` for every name below it.

/// Every host, where a listener of the model wants one.
pub(super) const EVERY: &str = "*";

/// Whether every host of `narrow` is one of `wide`, which is every host where it is `None`. Both are in small letters.
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

/// The hosts that both take; `None` where there are none.
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
    fn the_narrower_of_two_names_is_what_both_take() {
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

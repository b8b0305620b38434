//! Routes of the load: the names under which the results of requests are reported. Their number is limited.

use std::collections::HashMap;

use crate::spec::{ROUTE_NAME_BYTES_MAX, RequestSpec};

/// Maximum number of named routes. Requests of further routes share [`OTHER`].
pub(crate) const ROUTES_MAX: usize = 64;
/// The name of the route for all requests that belong to none of the first [`ROUTES_MAX`] routes.
pub(crate) const OTHER: &str = "other";
/// Assigns an index to each route, in the order in which routes first appear.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    names: Vec<String>,
    by_name: HashMap<String, u16>,
}

impl Routes {
    /// Returns the index of the route of a request, and adds the route if it is new.
    pub(crate) fn number(&mut self, spec: &RequestSpec) -> u16 {
        let derived;
        let name = match &spec.name {
            Some(given) => given.as_str(),
            None => {
                derived = derive(&spec.method, &spec.path);
                &derived
            }
        };
        if let Some(&number) = self.by_name.get(name) {
            return number;
        }
        if self.names.len() < ROUTES_MAX {
            return self.add(name);
        }
        match self.by_name.get(OTHER) {
            Some(&number) => number,
            None => self.add(OTHER),
        }
    }

    pub(crate) fn into_names(self) -> Vec<String> {
        self.names
    }

    fn add(&mut self, name: &str) -> u16 {
        let number = self.names.len() as u16;
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), number);
        number
    }
}

/// Derives a route name like `GET /users/:id` from method and path, without the query and with identifiers
/// replaced.
pub(crate) fn derive(method: &str, path: &str) -> String {
    let mut name = format!("{method} ");
    let (mut start, mut is_in_braces) = (0, false);
    // Within a placeholder, slashes and question marks are part of a file name.
    for (at, byte) in path.bytes().chain([b'?']).enumerate() {
        match byte {
            b'{' => is_in_braces = true,
            b'}' => is_in_braces = false,
            b'/' | b'?' if !is_in_braces || at == path.len() => {
                let segment = &path[start..at];
                name.push_str(if is_identifier(segment) { ":id" } else { segment });
                if byte == b'?' {
                    break;
                }
                name.push('/');
                start = at + 1;
            }
            _ => {}
        }
    }
    if name.len() > ROUTE_NAME_BYTES_MAX {
        let mut end = ROUTE_NAME_BYTES_MAX - 3;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        name.push_str("...");
    }
    name
}

/// Whether a path segment identifies one resource: a number, at least eight hexadecimal digits, or a UUID.
fn is_identifier(segment: &str) -> bool {
    let bytes = segment.as_bytes();
    let is_number = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    let is_hex = bytes.len() >= 8 && bytes.iter().all(u8::is_ascii_hexdigit);
    let is_uuid = bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    is_number || is_hex || is_uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_derived() {
        let check = |path: &str, expected: &str| assert_eq!(derive("GET", path), format!("GET {expected}"));
        check("/", "/");
        check("*", "*");
        check("/a/b/", "/a/b/");
        check("/users/42/posts/7?page=3", "/users/:id/posts/:id");
        check("/42", "/:id");
        check("/o/deadbeef01/x", "/o/:id/x");
        check("/o/dead/v2/beefbee", "/o/dead/v2/beefbee");
        check("/o/550E8400-e29b-41d4-a716-446655440000", "/o/:id");
        check("/o/550e8400-e29b-41d4-a716-44665544000g", "/o/550e8400-e29b-41d4-a716-44665544000g");
        check("/get/{1..50}?x={seq}", "/get/{1..50}");
        check("/{pick:dir/42/what?.txt}/1", "/{pick:dir/42/what?.txt}/:id");
        check("/unclosed/{a/5", "/unclosed/{a/5");
        let long = format!("/{}", "\u{e9}".repeat(300));
        let name = derive("GET", &long);
        assert!(name.len() <= ROUTE_NAME_BYTES_MAX && name.ends_with("\u{e9}..."), "{name}");
    }

    #[test]
    fn requests_of_one_name_share_a_route_and_routes_are_limited() {
        let spec = |method: &str, path: &str, name: Option<&str>| RequestSpec {
            method: method.into(),
            path: path.into(),
            name: name.map(str::to_owned),
            ..RequestSpec::default()
        };
        let mut routes = Routes::default();
        let numbers = [
            routes.number(&spec("GET", "/x/1", None)),
            routes.number(&spec("POST", "/x/1", None)),
            routes.number(&spec("GET", "/x/2?y", None)),
            routes.number(&spec("GET", "/z", Some("GET /x/:id"))),
            routes.number(&spec("GET", "/z", Some("mine"))),
        ];
        assert_eq!(numbers, [0, 1, 0, 0, 2]);
        for n in 3..500 {
            assert_eq!(routes.number(&spec("GET", &format!("/r{n}"), None)), n.min(64));
        }
        assert_eq!(routes.number(&spec("GET", "/x/9", None)), 0);
        let names = routes.into_names();
        assert_eq!((names.len(), names[64].as_str()), (ROUTES_MAX + 1, OTHER));
    }
}

//! Validation of paths in a configuration.

use std::fmt::Display;

use weir_document::Problem;

use super::{NormalTarget, PathParameters, PathProblem, PathRules, Unroutable};

/// Rejects a configured `path` that no request can have, whatever the [`PathRules`] are. `place` is the configuration
/// field, for messages.
pub(crate) fn check_path_of(place: &dyn Display, path: &str) -> Result<(), Problem> {
    let wrong = |message: String, remedy: String| Err(Problem::of(place.to_string(), message).help(remedy));
    if !path.starts_with('/') {
        return wrong(format!("`{path}` does not start with `/`"), format!("write `/{path}`"));
    }
    let Some((at, c)) = path.char_indices().find(|&(_, c)| !c.is_ascii_graphic() || c == '?' || c == '#')
    else {
        return check_normal(place, path, &PathRules::AS_SENT);
    };
    let without = format!("write `{}`", &path[..at]);
    match c {
        '?' => wrong(format!("`{path}` contains a query; this field matches only the path"), without),
        '#' => wrong(format!("`{path}` contains a fragment, which clients do not send"), without),
        _ => {
            let mut bytes = [0; 4];
            let encoded: String = c.encode_utf8(&mut bytes).bytes().map(|b| format!("%{b:02X}")).collect();
            let message = format!(
                "`{}` contains `{}`, which clients send percent-encoded",
                path.escape_debug(),
                c.escape_debug()
            );
            wrong(message, format!("write `{encoded}` instead"))
        }
    }
}

/// Rejects a configured `path` that no request can have after normalization by these rules.
pub(crate) fn check_normal(place: &dyn Display, path: &str, rules: &PathRules) -> Result<(), Problem> {
    let (message, remedy) = match NormalTarget::of(path, rules) {
        Ok(normal) if normal.as_str() == path && normal.path() == path => return Ok(()),
        Ok(normal) if normal.as_str() == path || rules.path_parameters == PathParameters::Strip => {
            let message = format!(
                "`{path}` matches no request: the gateway removes path parameters (`;` and what follows in the segment) before it matches routes"
            );
            (message, format!("write `{}`, or set `paths.path_parameters: keep`", normal.path()))
        }
        Ok(normal) => {
            let message = format!(
                "`{path}` is not in normal form and would match no request; the gateway normalizes request paths"
            );
            (message, format!("write `{}`", normal.as_str()))
        }
        Err(Unroutable::Redirect(target)) => {
            let message =
                format!("no request matches: `paths.escaped_slashes` redirects requests for `{path}`");
            (message, format!("write `{target}`"))
        }
        Err(Unroutable::Refused(problem)) => {
            let remedy = match problem {
                PathProblem::BadEscape => "write `%25` for a percent sign",
                PathProblem::EscapedSlash => "write `/`, or set `paths.escaped_slashes: keep`",
                PathProblem::Parameter | PathProblem::HiddenByParameter => {
                    "remove the parameters (`;` and the text after it), or set `paths.path_parameters: keep`"
                }
                PathProblem::HiddenDotSegment => "remove the dot segment (`.` or `..`)",
                PathProblem::Nul => "remove `%00`",
                PathProblem::NotAbsolute => "start the path with `/`",
            };
            (format!("requests for `{path}` get 400: {problem}"), remedy.to_owned())
        }
    };
    Err(Problem::of(place.to_string(), message).help(remedy))
}

//! The error for two datasets without a common load point: what differs, and what the user can do.

use super::CompareError;
use super::dataset::Series;
use super::difference::Difference;
use crate::points::axes::axes_words;

/// Maximum number of names that an error lists; the others are counted.
const NAMES_MAX: usize = 5;

/// A property of series, such as the load name. `remedy` is what the user can do if no value of this property occurs in
/// both A and B.
struct Aspect {
    name: &'static str,
    of: fn(&Series) -> String,
    remedy: &'static str,
}

/// Properties without a remedy on the command line come first, because the error shows only the first remedy that
/// applies.
const ASPECTS: [Aspect; 3] = [
    Aspect {
        name: "axes",
        of: |series| if series.axes.is_empty() { "none".into() } else { axes_words(&series.axes) },
        remedy: "the axes have no value in common; measure both sides with at least one common value",
    },
    Aspect {
        name: "loads",
        of: |series| series.load.clone(),
        remedy: "no load has the same name on both sides; measure both with the same load names",
    },
    Aspect {
        name: "gateways",
        of: |series| series.gateway.clone(),
        remedy: "gateways are matched by name; to compare different names, give one per side: A:old \
            B:new",
    },
];

/// Builds the error from the series of A and B, which have no load point in common.
pub(super) fn error(a: &[&Series], b: &[&Series], ignores_gateway: bool) -> CompareError {
    let aspects = ASPECTS.iter().filter(|aspect| !(ignores_gateway && aspect.name == "gateways"));
    let apart: Vec<(&Aspect, [Vec<String>; 2])> = aspects
        .map(|aspect| (aspect, [a, b].map(|side| distinct(side.iter().map(|series| (aspect.of)(series))))))
        .filter(|(_, [a, b])| !a.iter().any(|name| b.contains(name)))
        .collect();
    let Some((first, names)) = apart.first() else {
        let points = |side: &[&Series]| Some(few(&distinct(side.iter().map(|series| series.words())), "; "));
        let differ = vec![Difference { field: "points".into(), a: points(a), b: points(b) }];
        let remedy = "no combination of gateway, load and axis values exists on both sides; measure both with \
            the same scenario";
        return CompareError::NothingInCommon { differ, remedy };
    };
    let has_no_loads = |names: &Vec<String>| *names == [""];
    let remedy = match first.name {
        "loads" if names.iter().any(has_no_loads) => {
            "to compare a named load with the unnamed one, use --load NAME"
        }
        _ => first.remedy,
    };
    let said = |names: &[String]| Some(few(names, ", "));
    let differ =
        apart.iter().map(|(aspect, [a, b])| Difference { field: aspect.name.into(), a: said(a), b: said(b) });
    CompareError::NothingInCommon { differ: differ.collect(), remedy }
}

/// The first few of `names`, and the number of the others.
pub(super) fn few(names: &[impl AsRef<str>], between: &str) -> String {
    let called = |name: &str| if name.is_empty() { "unnamed" } else { name }.to_owned();
    let said: Vec<String> = names.iter().take(NAMES_MAX).map(|name| called(name.as_ref())).collect();
    match names.len() {
        0 => "none".into(),
        all if all > NAMES_MAX => format!("{} and {} more", said.join(between), all - NAMES_MAX),
        _ => said.join(between),
    }
}

fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handful_of_names_is_listed_and_the_rest_counted() {
        let names: Vec<String> = (1..=96).map(|at| at.to_string()).collect();
        assert_eq!(few(&names, ", "), "1, 2, 3, 4, 5 and 91 more");
        assert_eq!(few(&names[..5], "; "), "1; 2; 3; 4; 5");
        assert_eq!(few(&[""], ", "), "unnamed");
        assert_eq!(few(&names[..0], ", "), "none");
    }
}

//! The colours of gateways, and the data that the page script needs.

use serde::Serialize;
use weir_analysis::Summary;
use weir_analysis::sizing::InstanceType;
use weir_results::DIRECT;

/// Colours for gateways and parts without a fixed colour, in the order in which they are assigned.
const FREE_COLORS: [&str; 11] =
    ["amber", "violet", "brown", "teal", "red", "olive", "rose", "vermilion", "green", "blue", "pink"];

/// Data for the script of the page. The script draws charts and computes the number of instances.
#[derive(Serialize)]
pub(crate) struct Data<'a> {
    gateways: Vec<Colored<'a>>,
    sizing: Vec<InstanceType>,
}

/// A gateway and the name of its colour.
#[derive(Serialize)]
pub(crate) struct Colored<'a> {
    pub(crate) name: &'a str,
    pub(crate) color: &'static str,
}

/// Collects the data for the page script.
pub(crate) fn data(summary: &Summary, sizing: Vec<InstanceType>) -> Data<'_> {
    Data { gateways: colors(summary), sizing }
}

/// The ID of a load point's element in the page.
pub(crate) fn point_id(index: usize) -> String {
    format!("point-{index}")
}

/// A colour for each gateway. Gateways that weir knows have a fixed colour; the others get free colours in the order of
/// gateways.
pub(crate) fn colors(summary: &Summary) -> Vec<Colored<'_>> {
    let names: Vec<&str> = summary.gateways.iter().map(|gateway| gateway.name.as_str()).collect();
    let fixed = |name: &str| match name {
        "weir" => Some("blue"),
        "nginx" => Some("green"),
        "haproxy" => Some("vermilion"),
        "envoy" => Some("pink"),
        DIRECT => Some("grey"),
        _ => None,
    };
    let taken = distinct(&names, fixed);
    names.into_iter().zip(taken).map(|(name, color)| Colored { name, color }).collect()
}

/// A colour for each name: the colour that `own` returns, otherwise the next unused colour. Colours repeat if there are
/// too few.
pub(crate) fn distinct(names: &[&str], own: impl Fn(&str) -> Option<&'static str>) -> Vec<&'static str> {
    let owned: Vec<&str> = names.iter().filter_map(|name| own(name)).collect();
    let mut free = FREE_COLORS.iter().filter(|color| !owned.contains(*color)).cycle();
    names.iter().map(|name| own(name).or_else(|| free.next().copied()).unwrap_or("amber")).collect()
}

/// The name of the colour of a gateway.
pub(crate) fn color_of(summary: &Summary, gateway: &str) -> &'static str {
    colors(summary)
        .into_iter()
        .find(|colored| colored.name == gateway)
        .map_or("grey", |colored| colored.color)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_colour_take_those_that_nobody_has() {
        let own = |name: &str| match name {
            "a" => Some("violet"),
            "b" => Some("amber"),
            _ => None,
        };
        assert_eq!(distinct(&["a", "x", "b", "y"], own), ["violet", "brown", "amber", "teal"]);
        let many: Vec<String> = (0..FREE_COLORS.len()).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut colors = distinct(&many, own);
        colors.sort_unstable();
        colors.dedup();
        assert_eq!(colors.len(), FREE_COLORS.len());
        assert!(colors.iter().all(|color| crate::charts::svg::color_names().any(|known| known == *color)));
    }
}

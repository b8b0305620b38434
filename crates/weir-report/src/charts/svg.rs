//! SVG pictures for light and dark themes, as files or as parts of a page.

mod chart;
mod comparison;
mod heat;
mod symbol;

use std::fmt::Write as _;

pub(crate) use chart::{Layout, chart, panel};
pub(crate) use comparison::{Bar, bars, bars_alone, comparison};
pub(crate) use heat::{heat_map, heat_maps};

/// The palette: name, colour in the light theme, colour in the dark theme. The style of the page has the same
/// colours.
const PALETTE: [(&str, &str, &str); 12] = [
    ("blue", "#0072b2", "#56b4e9"),
    ("green", "#009e73", "#2fbf95"),
    ("vermilion", "#d55e00", "#f0803c"),
    ("pink", "#b8558f", "#e093c1"),
    ("amber", "#c98a00", "#e6b84c"),
    ("violet", "#6a51a3", "#a995e0"),
    ("brown", "#8c6d31", "#c5a468"),
    ("teal", "#2b8c9e", "#5cc3d6"),
    ("red", "#b2182b", "#f0606a"),
    ("olive", "#5f7a1e", "#a8c25a"),
    ("rose", "#e0789a", "#ffb3c7"),
    ("grey", "#7b828b", "#9aa1a9"),
];
/// Colours that do not stand for data: background, text, less important text, grid lines, and the background of the
/// warm-up.
const NEUTRAL: [(&str, &str, &str); 5] = [
    ("bg", "#ffffff", "#14171a"),
    ("ink", "#16191d", "#e8eaed"),
    ("soft", "#596069", "#a9b0b8"),
    ("line", "#dfe3e7", "#2f353b"),
    ("plain-bg", "#eef1f4", "#22272c"),
];
/// Approximate width of a character at a font size of 11 pixels.
const CHARACTER: f64 = 6.1;

/// An SVG picture that is being drawn.
pub(crate) struct Svg {
    width: f64,
    height: f64,
    label: String,
    body: String,
}

/// Which point of a text is at the given position: its start, middle or end.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty picture. Screen readers read `label`.
    pub(crate) fn new(width: f64, height: f64, label: &str) -> Self {
        Self { width, height, label: escape(label), body: String::new() }
    }

    /// Draws text that is centred vertically at `y`. The colour is given by the class.
    pub(crate) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let words = escape(words);
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.0}\" y=\"{:.0}\" class=\"t-{class}\"{anchor}>{words}</text>",
            y + 4.0
        );
    }

    /// Draws a filled rectangle. `said` is its tooltip.
    pub(crate) fn rectangle(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        class: &str,
        said: &str,
    ) {
        let _ = write!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" class=\"{class}\""
        );
        self.end("rect", said);
    }

    /// Draws a disc, or a ring if the class sets a stroke.
    pub(crate) fn circle(&mut self, (x, y): (f64, f64), radius: f64, class: &str, said: &str) {
        let _ = write!(self.body, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" class=\"{class}\"");
        self.end("circle", said);
    }

    /// Draws a path, given in SVG syntax.
    pub(crate) fn path(&mut self, steps: &str, class: &str, said: &str) {
        let _ = write!(self.body, "<path d=\"{steps}\" class=\"{class}\"");
        self.end("path", said);
    }

    /// Draws a straight line.
    pub(crate) fn line(&mut self, (x, y): (f64, f64), (to_x, to_y): (f64, f64), class: &str) {
        self.path(&format!("M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}"), class, "");
    }

    /// Draws a group that belongs to the legend entry with index `place`, so that the page can hide it.
    pub(crate) fn series(&mut self, place: usize, draw: impl FnOnce(&mut Self)) {
        let _ = writeln!(self.body, "<g data-series=\"{place}\">");
        draw(self);
        self.body.push_str("</g>\n");
    }

    fn end(&mut self, element: &str, said: &str) {
        if said.is_empty() {
            self.body.push_str("/>\n");
        } else {
            let _ = writeln!(self.body, "><title>{}</title></{element}>", escape(said));
        }
    }

    /// The picture as a file, with its own style and background.
    pub(crate) fn file(self) -> String {
        let Self { width, height, label, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} \
             {height:.0}\" role=\"img\" aria-label=\"{label}\">\n<style>{}</style>\n<rect width=\"100%\" height=\"100%\" \
             class=\"f-bg\"/>\n{body}</svg>\n",
            style()
        )
    }

    /// The picture as a part of a page that contains [`page_style`].
    pub(crate) fn inline(self) -> String {
        /// Minimum scale of a picture. On a narrower page the picture can be scrolled, so that its text stays readable.
        const LEAST_SCALE: f64 = 0.7;
        let Self { width, height, label, body } = self;
        format!(
            "<svg class=\"plot\" viewBox=\"0 0 {width:.0} {height:.0}\" style=\"min-width:{:.0}px\" role=\"img\" \
             aria-label=\"{label}\">\n{body}</svg>\n",
            width * LEAST_SCALE
        )
    }
}

/// CSS rules that are the same in all pictures: selector and declarations.
const RULES: [(&str, &str); 9] = [
    ("text", "font:11px system-ui,-apple-system,\"Segoe UI\",Roboto,sans-serif"),
    ("text.t-ink", "font-size:12px"),
    ("path", "fill:none;stroke-width:1.6;stroke-linejoin:round"),
    (".thin", "stroke-width:1"),
    (".dashed", "stroke-dasharray:5 3"),
    (".ring", "fill:none;stroke-width:1.4"),
    (".symbol", "stroke-width:1.2"),
    (".hover", "fill:transparent"),
    (".hover:hover", "fill:#80808026"),
];

/// The style of picture files. Class prefixes: `f-` sets the fill, `s-` sets the stroke, and `t-` is for text. The
/// colours follow the colour scheme of the system.
pub(crate) fn style() -> String {
    let of = |color: fn(&(&str, &'static str, &'static str)) -> &'static str| {
        rules("", |entry| color(entry).to_owned())
    };
    let shapes: String = RULES.iter().map(|(what, how)| format!("{what}{{{how}}}")).collect();
    format!("{shapes}{}@media(prefers-color-scheme:dark){{{}}}", of(|entry| entry.1), of(|entry| entry.2))
}

/// The style of the pictures in a page. They use the colours of the page and follow its theme.
pub(crate) fn page_style() -> String {
    let shapes: String = RULES.iter().map(|(what, how)| format!("svg.plot {what}{{{how}}}")).collect();
    format!("{shapes}{}", rules("svg.plot ", |entry| format!("var(--{})", entry.0)))
}

/// The CSS rules of all colours. Each selector begins with `before`.
fn rules(before: &str, color: impl Fn(&(&str, &'static str, &'static str)) -> String) -> String {
    let mut rules = String::new();
    for entry in PALETTE.iter().chain(&NEUTRAL) {
        let (name, color) = (entry.0, color(entry));
        let _ = write!(
            rules,
            "{before}.f-{name},{before}.t-{name}{{fill:{color}}}{before}.s-{name}{{stroke:{color}}}"
        );
    }
    rules
}

/// The names of all colours of the palette.
#[cfg(test)]
pub(crate) fn color_names() -> impl Iterator<Item = &'static str> {
    PALETTE.iter().map(|(name, _, _)| *name)
}

/// Escapes characters that XML interprets.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // The text of a tooltip has several lines, so line breaks are kept.
            '\n' => out.push('\n'),
            // XML allows no other control characters, not even in escaped form.
            other if other.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// Approximate width of a text at a font size of 11 pixels.
fn width_of(words: &str) -> f64 {
    words.chars().count() as f64 * CHARACTER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_the_pictures_have_the_same_colours() {
        let css = include_str!("../../assets/report.css");
        let (light, dark) = css.split_once("@media (prefers-color-scheme: dark)").unwrap();
        for (name, of_light, of_dark) in PALETTE.iter().chain(&NEUTRAL) {
            assert!(light.contains(&format!("--{name}: {of_light};")), "{name} in light");
            assert!(dark.contains(&format!("--{name}: {of_dark};")), "{name} in dark");
        }
    }

    /// Returns a colour in CIELAB coordinates as somebody with a colour vision deficiency sees it (Machado et al.,
    /// 2009).
    fn seen(color: &str, sight: [[f64; 3]; 3]) -> [f64; 3] {
        let linear = [1, 3, 5].map(|at| {
            let share = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        });
        let sum = |row: [f64; 3], of: [f64; 3]| row.iter().zip(of).map(|(a, b)| a * b).sum::<f64>();
        let [r, g, b] = sight.map(|row| sum(row, linear).clamp(0.0, 1.0));
        let root = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = root((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
        let y = root(0.2126 * r + 0.7152 * g + 0.0722 * b);
        let z = root((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn colours_are_apart_in_both_themes_and_the_first_for_colour_blind_eyes() {
        let all = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let no_red = [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]];
        let no_green = [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9690]];
        // Some readers cannot distinguish the colours. So lines also have different shapes.
        let check = |colors: &[&str], sight, least: f64| {
            for (at, one) in colors.iter().enumerate() {
                for other in &colors[at + 1..] {
                    let (a, b): ([f64; 3], [f64; 3]) = (seen(one, sight), seen(other, sight));
                    let apart = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                    assert!(apart > least, "{one} and {other}: {apart:.1}");
                }
            }
        };
        for is_dark in [false, true] {
            let of =
                |(_, light, dark): &(&str, &'static str, &'static str)| if is_dark { *dark } else { *light };
            let colors: Vec<&str> = PALETTE.iter().map(of).collect();
            check(&colors, all, 16.0);
            // The first four colours belong to gateways that weir knows. Colour-blind readers must distinguish them.
            for sight in [no_red, no_green] {
                check(&colors[..4], sight, 10.0);
            }
        }
    }

    #[test]
    fn words_are_no_markup() {
        let mut svg = Svg::new(10.0, 10.0, "a\"b");
        svg.text((0.0, 0.0), Anchor::Start, "ink", "</text><script>");
        svg.circle((1.0, 1.0), 2.0, "f-blue", "<b>\u{1}&");
        let file = svg.file();
        assert!(file.contains("aria-label=\"a&quot;b\""));
        assert!(file.contains(">&lt;/text&gt;&lt;script&gt;</text>"));
        assert!(file.contains("<title>&lt;b&gt; &amp;</title>"));
    }
}

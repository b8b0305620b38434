//! The page in a browser (headless Chromium): its content right after loading, and the functions of its script.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use weir_analysis::summarize;
use weir_results::{Cell, Run};

use crate::figures::{figure, figures, id, table};
use crate::fixture::{self, Scene};

fn chromium() -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let mut places = own.ancestors().map(|folder| folder.join("target/peers/bin/chromium-headless-shell"));
    places.find(|path| path.exists()).expect("no chromium-headless-shell; `make peers` fetches it")
}

/// Returns the document of `page` in the browser right after loading.
fn loaded(folder: &Path, page: &str) -> String {
    let mut command = Command::new(chromium());
    command.args(["--no-sandbox", "--disable-gpu", "--timeout=60000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.arg(format!("file://{}", folder.join(page).display())).env("HOME", folder);
    let output = command.output().expect("the browser starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The part of a page before its script.
fn seen(page: &str) -> &str {
    page.split_once("<script").map_or(page, |(seen, _)| seen)
}

fn written(run: &Run, cells: &[Cell]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let written =
        weir_report::write(run, cells, &summarize(run, cells), folder.path()).expect("a report").html;
    let page = std::fs::read_to_string(written).expect("the page");
    (folder, page)
}

/// Runs `steps` in the browser one after the other, before the page has loaded, and returns their results. Each
/// step is the body of a function in the page.
fn driven(folder: &Path, page: &str, steps: &[&str]) -> Vec<Value> {
    const TOOLS: &str = r##"
      const svgOf = (id, place = 0) => document.getElementById(id).querySelectorAll("svg.plot")[place];
      const tip = () => (document.querySelector(".tip").hidden ? null : document.querySelector(".tip").textContent);
      const point = (svg, x, y) => {
        svg.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: x, clientY: y }));
        return tip();
      };
      const pointAt = (svg, mark) => {
        const box = mark.getBoundingClientRect();
        return point(svg, (box.left + box.right) / 2, (box.top + box.bottom) / 2);
      };
      const key = (svg, key) => {
        svg.dispatchEvent(new KeyboardEvent("keydown", { bubbles: true, key }));
        return tip();
      };
      const choose = (id, value) => {
        const select = document.getElementById(id);
        select.value = value;
        select.dispatchEvent(new Event("change"));
      };
      const buttons = (id) => [...document.getElementById(id).querySelectorAll(".legend button")];
    "##;
    let functions: Vec<String> = steps.iter().map(|step| format!("() => {{ {step} }}")).collect();
    let driver = format!(
        "<pre id=\"shown\"></pre><script>{TOOLS} document.getElementById(\"shown\").textContent = \
         JSON.stringify([{}].map((step) => step()));</script></body>",
        functions.join(", ")
    );
    std::fs::write(folder.join("driven.html"), page.replace("</body>", &driver)).expect("a page");
    let document = loaded(folder, "driven.html");
    let shown = document.split("<pre id=\"shown\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let shown = shown.unwrap_or_default().replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {shown}"))
}

/// Whether each picture of the chart has marks in a colour of the palette, and not only scales.
fn has_marks(figure: &str) -> bool {
    const COLORS: [&str; 9] =
        ["blue", "green", "vermilion", "pink", "amber", "violet", "brown", "teal", "grey"];
    let is_drawn = |svg: &str| {
        let of = |kind: &str, color: &str| svg.contains(&format!("class=\"{kind}-{color}"));
        COLORS.iter().any(|color| of("f", color) || of("s", color) || of("ring s", color))
    };
    let pictures: Vec<&str> = figure.split("<svg ").skip(1).collect();
    !pictures.is_empty() && pictures.into_iter().all(is_drawn)
}

#[test]
fn charts_are_complete_before_the_script_runs() {
    for limits in [&[0.5][..], &[0.25, 0.5]] {
        let (run, cells) = fixture::run(Scene::Good, limits);
        let (folder, written) = written(&run, &cells);
        // Compare the page before its script runs with the page right after loading.
        let after = loaded(folder.path(), "report.html");
        let pages = [seen(&written), seen(&after)];
        for page in pages {
            let figures = figures(page);
            assert!(figures.len() >= 10, "{} figures", figures.len());
            for figure in figures {
                assert!(has_marks(figure), "no marks: {}", id(figure));
            }
        }
        assert_eq!(pages[0].matches("<path ").count(), pages[1].matches("<path ").count());
    }
}

#[test]
fn the_page_of_a_cell_has_all_charts_right_after_loading() {
    let (run, cells) = fixture::run(Scene::Single, &[0.5]);
    let (folder, _) = written(&run, &cells);
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(folder.path().join("cells")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    let page = loaded(folder.path(), pages[0].strip_prefix(folder.path()).unwrap().to_str().unwrap());
    assert_eq!(page.matches("<svg class=\"plot\"").count(), 10, "five charts of each of two loads");
}

#[test]
fn the_value_under_the_pointer_is_shown() {
    let (run, cells) = fixture::run(Scene::Good, &[0.25, 0.5]);
    let (folder, page) = written(&run, &cells);
    let shown = driven(
        folder.path(),
        &page,
        &[
            r##"const svg = svgOf("point-0-throughput-bars");
               return pointAt(svg, svg.querySelector("rect:has(title), [data-tip]"));"##,
            r##"const svg = svgOf("throughput-over-limits-data-cpus-full");
               return pointAt(svg, svg.querySelector("g[data-series='2'] circle"));"##,
            r##"const svg = svgOf("point-0-rate-per-s-repeat-1");
               const [box, next] = [3, 4].map((at) => svg.querySelectorAll(".hover")[at].getBoundingClientRect());
               // Near the start of the step from 3 s to 4 s.
               return point(svg, box.left + 0.1 * (next.left - box.left), (box.top + box.bottom) / 2);"##,
            r##"return [document.querySelectorAll("#point-0-rate-per-s-repeat-1 title").length,
                       document.querySelectorAll(".hover.on").length];"##,
            r##"return point(document.body, 0, 0);"##,
            r##"const map = svgOf("point-0-heat-repeat-1").querySelector("g.heat");
               const box = map.getBoundingClientRect();
               return point(svgOf("point-0-heat-repeat-1"), box.left + 2, box.bottom - 2);"##,
        ],
    );
    let text = |at: usize| shown[at].as_str().unwrap_or_else(|| panic!("nothing at {at}: {shown:?}"));
    assert!(text(0).starts_with("weir: 13,") && text(0).contains("/s ("), "{}", text(0));
    assert!(
        text(1).starts_with("nginx at limits.data.cpus = 0.25: 10,") && text(1).contains("\n3 repeats"),
        "{}",
        text(1)
    );
    let lines: Vec<&str> = text(2).lines().collect();
    assert!(lines.len() == 6 && lines[0] == "3.5 s" && lines[1].starts_with("weir: 12,"), "{lines:?}");
    assert_eq!(shown[3], json!([0, 1]), "no second tooltip by the browser, and one column is marked");
    assert_eq!(shown[4], Value::Null, "there is no tooltip outside charts");
    assert!(text(5).starts_with("0 to 1 s\n") && text(5).ends_with(" %"), "{}", text(5));
}

#[test]
fn arrow_keys_step_through_the_values() {
    let (run, cells) = fixture::run(Scene::Good, &[0.5]);
    let (folder, page) = written(&run, &cells);
    let steps = [
        r##"const svg = svgOf("point-0-throughput-bars"); svg.focus(); return [svg.tabIndex, tip()];"##,
        r##"return key(svgOf("point-0-throughput-bars"), "ArrowRight");"##,
        r##"return key(svgOf("point-0-throughput-bars"), "End");"##,
        r##"return key(svgOf("point-0-throughput-bars"), "Home");"##,
        r##"return key(svgOf("point-0-throughput-bars"), "Escape");"##,
        r##"return [key(svgOf("point-0-heat-repeat-1"), "End"), document.querySelector(".tip").getAttribute("role")];"##,
    ];
    let shown = driven(folder.path(), &page, &steps);
    let begins = |value: &Value, start: &str| {
        assert!(value.as_str().is_some_and(|text| text.starts_with(start)), "no {start}: {shown:?}");
    };
    assert_eq!(shown[0][0], 0);
    begins(&shown[0][1], "weir: ");
    begins(&shown[1], "envoy: ");
    begins(&shown[2], "direct: ");
    begins(&shown[3], "weir: ");
    assert_eq!(shown[4], Value::Null);
    begins(&shown[5][0], "11 to 12 s\n");
    assert_eq!(shown[5][1], "status", "screen readers read it");
}

#[test]
fn a_legend_entry_toggles_its_series_in_all_panels() {
    let (run, cells) = fixture::run_over(&[0.25, 0.5], &[4, 16]);
    let (folder, page) = written(&run, &cells);
    let chart = "throughput-over-limits-data-cpus-full";
    let off = format!(
        r##"const figure = document.getElementById("{chart}");
           const off = [...figure.querySelectorAll(".off")];
           return [buttons("{chart}")[1].textContent, buttons("{chart}")[1].getAttribute("aria-pressed"), off.length,
                   off.every((series) => getComputedStyle(series).display === "none")];"##
    );
    let click = format!(r##"buttons("{chart}")[1].click();"##);
    let second = format!("{click} {off}");
    let over_time = r##"buttons("point-0-rate-per-s-repeat-1")[1].click();
        const svg = svgOf("point-0-rate-per-s-repeat-1");
        return pointAt(svg, svg.querySelectorAll(".hover")[3]);"##;
    let shown = driven(folder.path(), &page, &[&off, &second, &second, over_time]);
    assert_eq!(shown[0], json!(["envoy", "true", 0, true]));
    assert_eq!(shown[1], json!(["envoy", "false", 2, true]), "one for each panel");
    assert_eq!(shown[2], json!(["envoy", "true", 0, true]));
    let text = shown[3].as_str().unwrap();
    assert!(text.contains("nginx: ") && !text.contains("envoy: "), "{text}");
}

#[test]
fn every_load_and_repeat_can_be_chosen() {
    let (run, cells) = fixture::run(Scene::Good, &[0.5]);
    let (folder, page) = written(&run, &cells);
    let shape = r##"const ids = [...document.querySelectorAll("#choice figure")].map((figure) => figure.id);
        const options = (id) => [...document.getElementById(id).options].map((option) => option.textContent);"##;
    let steps = [
        format!(r##"{shape} return [ids[0], options("time-point"), options("time-repeat")];"##),
        format!(
            r##"choose("time-repeat", "2"); choose("time-point", "point-1"); {shape}
               const svg = svgOf("point-1-p99-ns-repeat-2");
               return [ids, pointAt(svg, svg.querySelectorAll(".hover")[4]), buttons("point-1-p99-ns-repeat-2").length,
                       document.querySelectorAll("#choice button.data:not([hidden])").length];"##
        ),
        format!(r##"choose("time-point", "point-0"); choose("time-repeat", "1"); {shape} return ids[0];"##),
        format!(
            r##"choose("time-repeat", "2"); choose("time-repeat", "1"); {shape} return [ids[0], buttons(ids[0]).length];"##
        ),
    ];
    let shown = driven(folder.path(), &page, &steps.each_ref().map(String::as_str));
    let loads = ["full (closed, 10 connections)", "tail (open, 5,000/s, 64 connections)"];
    assert_eq!(shown[0], json!(["point-0-rate-per-s-repeat-1", loads, ["1", "2", "3"]]));
    let ids = ["rate-per-s", "p99-ns", "data-cores", "data-memory-bytes", "heat"]
        .map(|series| format!("point-1-{series}-repeat-2"));
    assert_eq!(shown[1][0], json!(ids));
    assert_eq!((&shown[1][2], &shown[1][3]), (&json!(5), &json!(5)));
    assert_eq!(shown[2], "point-0-rate-per-s-repeat-1");
    assert_eq!(shown[3], json!(["point-0-rate-per-s-repeat-1", 5]), "it is prepared once");
    // The table of values contains the same text as the tooltips.
    let rows = table(figure(&page, "point-1-p99-ns-repeat-2"));
    let words: Vec<&str> = shown[1][1].as_str().unwrap().lines().collect();
    assert_eq!(words[0], "4.5 s");
    for (word, (head, cell)) in words[1..].iter().zip(rows[0][1..].iter().zip(&rows[5][1..])) {
        let name = head.strip_suffix(", µs").expect("the unit");
        let micros: f64 = cell.parse().unwrap();
        let expected =
            if micros < 999.5 { format!("{micros:.0} µs") } else { format!("{:.2} ms", micros / 1e3) };
        assert_eq!(*word, format!("{name}: {expected}"));
    }
}

#[test]
fn the_values_of_a_chart_are_a_csv_file() {
    let (run, cells) = fixture::run(Scene::Good, &[0.5]);
    let (folder, page) = written(&run, &cells);
    let save = |id: &str| {
        format!(
            r##"let text;
               window.Blob = class {{ constructor(parts) {{ text = parts.join(""); }} }};
               URL.createObjectURL = () => "about:blank#";
               HTMLAnchorElement.prototype.click = function () {{ text = this.download + "\n" + text; }};
               document.querySelector("[id='{id}'] button.data").click();
               return text;"##
        )
    };
    let steps = ["point-0-rate-per-s-repeat-1", "point-0-heat-repeat-1", "point-0-throughput-bars"].map(save);
    let shown = driven(folder.path(), &page, &steps.each_ref().map(String::as_str));
    let lines = |at: usize| shown[at].as_str().unwrap().lines().collect::<Vec<_>>();
    assert_eq!(lines(0)[0], "point-0-rate-per-s-repeat-1.csv");
    assert_eq!(
        lines(0)[1],
        "\"time, s\",\"weir, 1/s\",\"envoy, 1/s\",\"nginx, 1/s\",\"haproxy, 1/s\",\"direct: invalid, 1/s\""
    );
    assert_eq!(lines(0).len(), 2 + 12);
    assert!(lines(0)[2].starts_with("0.5,2"), "{:?}", lines(0));
    assert_eq!(lines(1)[1], "gateway,\"from, s\",\"to, s\",\"latency low, ns\",\"latency high, ns\",share");
    // For one gateway and one second, the shares of all latency ranges add up to 1.
    let step = lines(1).into_iter().filter(|line| line.starts_with("nginx,3,4,"));
    let sum: f64 = step.map(|line| line.rsplit(',').next().unwrap().parse::<f64>().unwrap()).sum();
    assert!((sum - 1.0).abs() < 0.01, "{sum}");
    assert_eq!(lines(2)[1], "gateway,\"Throughput, 1/s\",low,high,valid");
}

#[test]
fn the_theme_is_chosen_by_a_button() {
    let (run, cells) = fixture::run(Scene::Single, &[0.5]);
    let (folder, page) = written(&run, &cells);
    let color = r##"const line = document.querySelector("svg.plot .s-blue");
        return [document.getElementById("theme").textContent, getComputedStyle(line).stroke];"##;
    let clicked = format!(r##"document.getElementById("theme").click(); {color}"##);
    let shown = driven(folder.path(), &page, &[color, &clicked]);
    assert_eq!(shown[0], json!(["Dark", "rgb(0, 114, 178)"]));
    assert_eq!(shown[1], json!(["Light", "rgb(86, 180, 233)"]));
}

#[test]
fn the_script_of_the_charts_stays_short() {
    let lines = include_str!("../../assets/charts.js").lines().count();
    assert!(lines < 300, "assets/charts.js has {lines} lines");
}

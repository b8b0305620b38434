//! The sliders of the HTML report give the same results as `weir size`. A headless browser opens the page and applies
//! a grid of settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json as value};
use weir_analysis::quantity::{count, money, percent, range, rate};

use crate::program::{finish, json, text, weir};
use crate::size::{filled, size};

/// One setting, as flags of `weir size` and as the URL fragment of the page.
struct Asked {
    flags: Vec<String>,
    address: String,
}

/// All combinations of rates, objectives and other flags. Together, their results cover each basis of a number (such as
/// `measured`), and each reason why `weir size` gives no number.
fn grid() -> Vec<Asked> {
    let objectives = [
        ("", ""),
        ("p99<20ms", "p99:20000000"),
        ("p99<5ms,errors<0.1%", "p99:5000000,errors:0.001"),
        ("p50<10ms", "p50:10000000"),
        ("p99.9<100ms,mean<12ms", "p999:100000000,mean:12000000"),
        ("max<10us", "max:10000"),
    ];
    let rest: [(&[&str], &str); 4] = [
        (&[], ""),
        (&["--max-cpu", "65%", "--price", "0.17/h", "--spare", "1"], "&cpu=0.65&price=0.17&spare=1"),
        (
            &["--max-cpu", "65%", "--extrapolate", "--growth", "30%/y", "--price", "0.013/core/h"],
            "&cpu=0.65&extrapolate=1&growth=0.3&price=0.013&per=core",
        ),
        (&["--max-cpu", "10%", "--growth", "150%/y", "--spare", "3"], "&cpu=0.1&growth=1.5&spare=3"),
    ];
    let mut all = Vec::new();
    for rate in ["10000", "123456.5"] {
        for (bounds, bounds_address) in objectives {
            for (more, more_address) in rest {
                let mut flags = vec!["--rate".to_owned(), format!("{rate}/s")];
                let mut address = format!("#rate={rate}");
                if !bounds.is_empty() {
                    flags.extend(["--objective".to_owned(), bounds.to_owned()]);
                    address.push_str(&format!("&objective={bounds_address}"));
                }
                flags.extend(more.iter().map(|flag| (*flag).to_owned()));
                address.push_str(more_address);
                all.push(Asked { flags, address });
            }
        }
    }
    all
}

/// A page with the report in a frame. It opens each fragment, then moves the first slider, and writes all results. This
/// happens before the load event of the outer page, so the dumped document contains the results.
const DRIVER: &str = r##"<!doctype html><meta charset="utf-8"><body>
<iframe id="page" src="report.html#rate=1"></iframe><pre id="shown"></pre>
<script>
const frame = document.getElementById("page");
const shown = (page) => {
  const section = page.document.getElementById("sizing");
  const cell = (cell) => [...cell.childNodes].map((node) => node.textContent).filter((text) => text).join("|");
  const words = (node) => (node.nodeName === "CODE" ? "`" + node.textContent + "`" : node.textContent);
  return {
    address: page.location.hash,
    asked: section.querySelector(".asked").textContent,
    rows: [...section.querySelector("tbody").rows].map((row) => [...row.cells].map(cell)),
    notes: [...section.querySelectorAll("li")].map((note) => [...note.childNodes].map(words).join("")),
    command: section.querySelector(".command").textContent,
  };
};
frame.addEventListener("load", () => {
  const page = frame.contentWindow;
  const at = (address) => {
    page.history.replaceState(null, "", address);
    page.dispatchEvent(new page.HashChangeEvent("hashchange"));
    return shown(page);
  };
  const all = ADDRESSES.map(at);
  const slider = page.document.querySelector("#sizing input[type=range]");
  slider.value = 700;
  slider.dispatchEvent(new page.Event("input"));
  all.push(shown(page));
  document.getElementById("shown").textContent = JSON.stringify(all);
});
</script>"##;

/// Headless Chromium, from `make peers`.
fn browser() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let mut places = own.ancestors().map(|folder| folder.join("target/peers/bin/chromium-headless-shell"));
    places.find(|path| path.exists()).expect("no chromium-headless-shell; `make peers` fetches it")
}

/// The document of the page at `url` after its load event.
fn document(folder: &Path, url: &str) -> String {
    let mut command = Command::new(browser());
    command.args([
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        "--timeout=90000",
        "--dump-dom",
    ]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display())).arg(url);
    command.current_dir(folder).env("HOME", folder);
    let output = finish(command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A row of the page's table. A bar separates the two lines of a cell.
fn row(offer: &Value, has_price: bool, has_growth: bool) -> Vec<String> {
    let words = |of: &Value| of.as_str().unwrap().to_owned();
    let number = |of: &Value| of.as_f64().unwrap();
    let span = |of: &Value, format: fn(f64) -> String| {
        let [value, low, high] = ["value", "low", "high"].map(|end| format(number(&of[end])));
        format!("{value}|{}", range(&value, &low, &high))
    };
    let instances = |of: &Value| {
        let [value, low, high] = ["value", "low", "high"].map(|end| count(of[end].as_u64().unwrap()));
        format!("{value}|{low} .. {high}")
    };
    let mut row = vec![words(&offer["gateway"]), words(&offer["setting"])];
    let width = 6 + 2 * usize::from(has_price) + 2 * usize::from(has_growth);
    if offer["outcome"] == "refused" {
        row.resize(width - 1, "–".into());
        row.push("no answer".into());
        return row;
    }
    let is_ceiling = offer["basis"] == "at-least";
    let carries = match is_ceiling {
        true => format!("≥ {}", rate(number(&offer["rate_per_s"]["low"]))),
        false => span(&offer["rate_per_s"], rate),
    };
    let needed = match is_ceiling {
        true => format!("≤ {}", count(offer["instances"]["high"].as_u64().unwrap())),
        false => instances(&offer["instances"]),
    };
    row.extend([carries, offer["cpu_share"].as_f64().map_or_else(|| "n/a".to_owned(), percent), needed]);
    row.extend(offer["later"].as_array().unwrap().iter().map(|later| instances(&later["instances"])));
    if has_price {
        row.extend(["per_month", "per_million"].map(|of| span(&offer["cost"][of], money)));
    }
    row.push(match offer["basis"].as_str().unwrap() {
        "at-least" => "measured, at least".into(),
        other => other.into(),
    });
    row
}

/// The notes below the table.
fn notes(offer: &Value) -> Vec<String> {
    let words = |of: &Value| of.as_str().unwrap().to_owned();
    let name = format!("{} ({})", words(&offer["gateway"]), words(&offer["setting"]));
    match offer["outcome"] == "refused" {
        true => vec![format!("{name}: {}: {}.", words(&offer["words"]), words(&offer["remedy"]))],
        false => offer["notes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|note| format!("{name}: {}.", words(note)))
            .collect(),
    }
}

/// Checks that the page shows the results of the command.
fn same(folder: &Path, flags: &[&str], shown: &Value, seen: &mut BTreeMap<String, u32>) {
    let sizing = json(&size(folder, &[flags, &["--json"]].concat()));
    let (has_price, has_growth) = (flags.contains(&"--price"), flags.contains(&"--growth"));
    let offers = sizing["offers"].as_array().unwrap();
    assert_eq!(offers.len(), 12, "{flags:?}");
    let rows: Vec<Vec<String>> = offers.iter().map(|offer| row(offer, has_price, has_growth)).collect();
    assert_eq!(shown["rows"], value!(rows), "{flags:?}");
    assert_eq!(shown["notes"], value!(offers.iter().flat_map(notes).collect::<Vec<_>>()), "{flags:?}");
    let printed = text(&size(folder, flags).stdout);
    let first = printed.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let asked = shown["asked"].as_str().unwrap();
    assert!(first.starts_with(&format!("{asked} for ")), "{first} is not {asked}");
    // The command on the page gives the same results.
    let command = shown["command"].as_str().unwrap().replace('\'', "");
    let words: Vec<&str> = command.split_whitespace().collect();
    assert_eq!(words[..2], ["weir", "size"], "{command}");
    let again = json(&size(folder, &[&words[3..], &["--json"]].concat()));
    assert_eq!(again["offers"], sizing["offers"], "{command}");
    for offer in offers {
        let kind = if offer["outcome"] == "refused" { &offer["why"] } else { &offer["basis"] };
        *seen.entry(kind.as_str().unwrap().to_owned()).or_default() += 1;
    }
}

#[test]
fn the_sliders_of_the_page_give_the_same_results_as_the_command() {
    let folder = filled();
    let path = folder.path();
    let report = finish(weir(path, &["report", "last", "--db", "weir.db", "--out", ".", "--format", "html"]));
    assert!(path.join("report.html").is_file(), "{}", text(&report.stderr));
    let grid = grid();
    let addresses: Vec<&str> = grid.iter().map(|asked| asked.address.as_str()).collect();
    std::fs::write(path.join("driver.html"), DRIVER.replace("ADDRESSES", &value!(addresses).to_string()))
        .unwrap();
    let url = |file: &str| format!("file://{}", path.join(file).display());
    let dumped = document(path, &url("driver.html"));
    let (_, rest) = dumped.split_once("<pre id=\"shown\">").unwrap_or_else(|| panic!("{dumped}"));
    let (shown, _) = rest.split_once("</pre>").unwrap();
    let shown =
        shown.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    let shown: Vec<Value> = serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {dumped}"));
    assert_eq!(shown.len(), grid.len() + 1);
    assert!(grid.len() >= 30);

    let mut seen = BTreeMap::new();
    for (asked, shown) in grid.iter().zip(&shown) {
        let flags: Vec<&str> = asked.flags.iter().map(String::as_str).collect();
        same(path, &flags, shown, &mut seen);
    }
    let kinds: Vec<&str> = seen.keys().map(String::as_str).collect();
    let refusals = ["borderline", "cpu-above", "never-met", "nothing-measured", "unknown"];
    let mut every = [&["at-least", "extrapolated", "measured", "searched"][..], &refusals].concat();
    every.sort();
    assert_eq!(kinds, every, "the grid lacks a kind of result");

    // After a slider moves, the address has its new value and all other values are unchanged.
    let moved = shown.last().unwrap();
    let address = moved["address"].as_str().unwrap();
    let rate = address.strip_prefix("#rate=").unwrap().split('&').next().unwrap();
    assert_ne!(rate, "123456.5");
    let flags = grid.last().unwrap().flags.iter().map(String::as_str).collect::<Vec<_>>();
    let rate = format!("{rate}/s");
    same(path, &[&["--rate", rate.as_str()], &flags[2..]].concat(), moved, &mut seen);

    // A link with a fragment opens the report with the settings in the fragment. Unlike above, the report is not in an
    // iframe.
    let shared = document(path, &url("report.html#rate=10000&objective=p99:20000000&price=0.17"));
    let (_, section) = shared.split_once("class=\"answer\"").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    for words in ["10,000/s, p99 at most 20.0 ms", ">4 .. 5<", ">496.40<"] {
        assert!(section.contains(words), "no {words:?} in {section}");
    }
}

//! The page works without a network, and does not execute code that is in the data.

use weir_analysis::summarize;

use crate::fixture::{self, Scene};

fn page(change: impl Fn(&mut weir_results::Run, &mut [weir_results::Cell])) -> String {
    let (mut run, mut cells) = fixture::run(Scene::Mixed, &[0.5]);
    change(&mut run, &mut cells);
    let summary = summarize(&run, &cells);
    weir_report::html(&run, &cells, &summary).expect("a page")
}

#[test]
fn a_page_loads_nothing() {
    let page = page(|_, _| {});
    for loads in
        ["src=", "url(", "@import", "http://", "https://", "fetch(", "XMLHttpRequest", "<link", "<iframe"]
    {
        assert!(!page.contains(loads), "the page has {loads}");
    }
    // Links lead only to files in the same folder and to places in the page.
    for link in page.split(" href=\"").skip(1) {
        assert!(link.starts_with("cells/") || link.starts_with('#'), "a link to {}", &link[..40]);
    }
    // The content security policy forbids the page to load anything, including pictures.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; \
                  form-action 'none'";
    assert!(page.contains(&format!("content=\"{policy}\"")));
}

#[test]
fn data_is_no_markup() {
    let evil = "</script><img src=x onerror=alert(1)>";
    let page = page(|run, cells| {
        run.question = evil.into();
        run.name = evil.into();
        for cell in cells.iter_mut().filter(|cell| cell.key.gateway == "nginx") {
            cell.key.gateway = evil.into();
            cell.unequal = vec![evil.into()];
        }
        for key in run.plan.iter_mut().filter(|key| key.gateway == "nginx") {
            key.gateway = evil.into();
        }
    });
    assert!(!page.contains("<img"), "an element from the data");
    assert_eq!(page.matches("</script>").count(), 2, "the data island and the page's script end once each");
}

#[test]
fn the_same_run_gives_the_same_page() {
    assert_eq!(page(|_, _| {}), page(|_, _| {}));
}

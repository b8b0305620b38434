//! Rates that are shares, and the second direct baseline (`twin`): parsing, planning and errors.

use weir_lab::{LabError, pilot_time, plan};

use crate::read;

const HEAD: &str = "name: x\ngateways: [weir]\n";
const LOADS: &str = "loads: { full: { model: closed } }\n";

#[track_caller]
fn said(text: &str, expected: &str) {
    let error: LabError = read(text).expect_err(expected);
    assert_eq!(format!("{error} | {}", error.remedy()), expected);
    assert!(error.is_wrong_use(), "{error:?}");
}

#[test]
fn invalid_shares_are_located() {
    let load = |rate: &str, expected: &str| {
        said(&format!("{HEAD}loads: {{ x: {{ model: open, rate: {rate} }} }}\n"), expected);
    };
    load("0%", "side.yaml:3:34: `0%` is not above zero | write a rate like 5000/s, 300/m, 30%");
    load("1001%", "side.yaml:3:34: `1001%` is more than 1000% | write a rate like 5000/s, 300/m, 30%");
    load(
        "5/s, of: least",
        "side.yaml:3:43: loads.x.of: `of` needs a rate that is a share, like 30%, but this rate is absolute | remove \
         `of`, or use a rate like 30%",
    );
    said(
        "name: x\ngateways: [{ name: prod, driver: remote, url: 'http://127.0.0.1:1' }]\n\
         loads: { x: { model: open, rate: 5% } }\n",
        "side.yaml:3:34: loads.x.rate: a share needs the capacity of the gateway, which weir does not measure \
         on remote gateways | use a rate like 500/s",
    );
    said(
        &format!("{HEAD}vary: {{ loads.full.of: [least] }}\n{LOADS}"),
        "side.yaml:3:24: `loads.full.of: \"least\"`: `loads.full.of` applies to the whole run and cannot vary | \
         use two loads, one with `of: least` and one with `of: greatest`",
    );
}

#[test]
fn a_closed_load_cannot_have_a_share() {
    said(
        &format!("{HEAD}loads: {{ x: {{ model: closed, rate: 5% }} }}\n"),
        "side.yaml:3:36: loads.x.rate: a closed load cannot have a rate | remove the rate, or use `model: open`",
    );
}

#[test]
fn every_block_has_a_twin_if_configured() {
    let text = format!("{HEAD}twin: true\nrepeats: 2\nvary: {{ limits.data.cpus: [0.25, 0.5] }}\n{LOADS}");
    let checked = read(&text).unwrap();
    let cells = plan::plan(&checked, 7).cells;
    let mut blocks: Vec<Vec<&str>> =
        cells.chunks(3).map(|block| block.iter().map(|key| key.gateway.as_str()).collect()).collect();
    blocks.iter_mut().for_each(|block| block.sort_unstable());
    assert_eq!(blocks, vec![["direct", "direct-twin", "weir"]; 4]);
    assert_eq!(pilot_time(&checked), weir_lab::TimeEstimate::default());
    said(
        &format!("name: x\ngateways: [direct-twin]\n{LOADS}"),
        "side.yaml:2:12: gateways[0]: `direct-twin` is the name of the second direct baseline (`twin: true`) | \
         choose another name",
    );
    said(
        &format!(
            "name: x\ngateways: [{{ name: prod, driver: remote, url: 'http://127.0.0.1:1' }}]\ntwin: true\n{LOADS}"
        ),
        "side.yaml:3:7: twin: the scenario has no direct baseline to repeat | add `direct` to a gateway, or \
         remove `twin`",
    );
}

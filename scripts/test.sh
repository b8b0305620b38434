#!/usr/bin/env bash
# Runs every test of the workspace. The peers are there already (make test fetches them first).
set -euo pipefail
cd "$(dirname "$0")/.."
# The measuring tools and the scripts: seconds, and they need nothing that is built.
python3 -m unittest discover -s bench
python3 -m unittest discover -s scripts
# This builds the programs too: both have integration tests. A `cargo build` before would compile half of it twice, since
# tests ask for more features of some dependencies.
scripts/times.py "make test: compiling" cargo test --workspace --features weir/services --locked --no-run
exec scripts/times.py "make test: running the tests" cargo test --workspace --features weir/services --locked --no-fail-fast

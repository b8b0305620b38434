#!/usr/bin/env bash
# Runs every test of the workspace. `make test` fetches the peers first.
set -euo pipefail
cd "$(dirname "$0")/.."
# Tests of benchmarks and scripts take seconds and need no build.
python3 -m unittest discover -s bench
python3 -m unittest discover -s scripts
# This also builds weir and weir-gateway, because both have integration tests. A separate `cargo build` would compile
# half of the packages twice: tests enable more features of some dependencies.
scripts/times.py "make test: compiling" cargo test --workspace --features weir/services --locked --no-run
exec scripts/times.py "make test: running the tests" cargo test --workspace --features weir/services --locked --no-fail-fast

#!/usr/bin/env bash
# Runs every test of the workspace. The peers are there already (make test fetches them first).
set -euo pipefail
cd "$(dirname "$0")/.."
# What the measuring tools know of theory: a second, and it needs nothing that is built.
python3 -m unittest discover -s bench
# Whether debug information is found beside a stripped binary.
python3 -m unittest discover -s scripts
# The programs first: end-to-end tests start weir-gateway from beside weir.
cargo build --locked -p weir -p weir-gateway
exec cargo test --workspace --locked --no-fail-fast

#!/usr/bin/env bash
# Runs every test of the workspace. The peers are there already (make test fetches them first).
set -euo pipefail
cd "$(dirname "$0")/.."
# The programs first: end-to-end tests start weir-gateway from beside weir.
cargo build --locked -p weir -p weir-gateway
exec cargo test --workspace --locked --no-fail-fast

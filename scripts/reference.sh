#!/usr/bin/env bash
# Generates the pages in docs/reference from the output of the programs. Tests compare the pages with this output.
set -euo pipefail
cd "$(dirname "$0")/.."
# The features of `make test`, so that nothing is compiled twice.
cargo build --workspace --bins --features weir/services --locked
programs="${CARGO_TARGET_DIR:-target}/debug"
mkdir -p docs/reference
while read -r program page file; do
    # If the program fails, the page does not change.
    "$programs/$program" reference "$page" > docs/reference/.new
    mv docs/reference/.new "docs/reference/$file"
done <<'PAGES'
weir scenario scenario.md
weir driver driver.md
weir service service.md
weir results results.md
weir cli weir.md
weir columns columns.md
weir run-metrics run-metrics.md
weir-gateway configuration gateway-configuration.md
weir-gateway cli weir-gateway.md
weir-gateway metrics gateway-metrics.md
weir-gateway access-log access-log.md
weir-gateway causes causes.md
PAGES

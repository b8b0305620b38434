#!/usr/bin/env bash
# Runs the quickstart. A complete report is a success, even with missed objectives or undecided results.
set -uo pipefail
cd "$(dirname "$0")/.."
target/release/weir run quickstart "$@"
status=$?
case "$status" in
    1) echo "The report is complete. An objective is missed, or a cell failed: see above." ;;
    4) echo "The report is complete. Some results are undecided on this host at this time: see the reasons above." ;;
    *) exit "$status" ;;
esac

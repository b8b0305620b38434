#!/usr/bin/env bash
# The main job on embedded defaults. A report that was made is a success, whatever it says.
set -uo pipefail
cd "$(dirname "$0")/.."
target/release/weir run quickstart "$@"
status=$?
if [ "$status" -eq 1 ]; then
    echo "The report was made; some of its figures do not count on this host at this time: the reasons stand above."
    exit 0
fi
exit "$status"

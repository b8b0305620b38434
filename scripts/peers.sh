#!/bin/sh
# Fetches the gateways and load tools that weir compares itself with, and unpacks them under target/peers.
# Without arguments what the tests need; `--all` adds the load tools to compare with; `--check` says what is there.
set -eu
command -v python3 >/dev/null || { echo "peers: python3 is missing; install Python 3" >&2; exit 1; }
exec python3 "$(dirname "$0")/peers.py" "$@"

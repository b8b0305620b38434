#!/bin/sh
# Fetches the gateways and load tools that weir is compared with, and unpacks them under target/peers.
# Default: the peers that tests need. `--all` adds load tools for comparisons; `--check` reports which peers exist.
set -eu
command -v python3 >/dev/null || { echo "peers: python3 is missing; install Python 3" >&2; exit 1; }
exec python3 "$(dirname "$0")/peers.py" "$@"

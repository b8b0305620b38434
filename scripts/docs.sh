#!/usr/bin/env bash
# Checks the pages, builds docs/ into target/book, and checks the links of the built book. mdBook is compiled once, into
# the cache folder of the peers.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.5.4
scripts/tidy.py links references summary blocks
mdbook=$(cd scripts && python3 -c 'import peers; print(peers.by_version())')/mdbook-$version
if [ ! -x "$mdbook/bin/mdbook" ]; then
  # Without `mdbook serve` and `watch`, which need many more packages.
  cargo install mdbook --version "=$version" --locked --no-default-features --features search --root "$mdbook"
fi
"$mdbook/bin/mdbook" build docs --dest-dir "$PWD/target/book"
python3 scripts/book.py --check target/book
echo "docs: target/book/index.html"

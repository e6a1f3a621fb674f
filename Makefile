# `make` lists the targets.

# Cargo features that only tests use.
TEST_FEATURES := --features testing

# The feature of reseq-connect for Kafka, unless Rust is older than its client needs: a sentence says so.
KAFKA = $(eval KAFKA := $$(shell scripts/kafka.sh --feature))$(KAFKA)

# The directory in which cargo builds. The first recipe that needs it asks cargo, once.
TARGET_DIR = $(eval TARGET_DIR := $$(shell scripts/target-dir.sh))$(TARGET_DIR)
RELEASE_DIR = $(or $(TARGET_DIR),$(error cargo does not say where it builds))/release
RESEQ = "$(RELEASE_DIR)/reseq"
RESEQ_BENCH = "$(RELEASE_DIR)/reseq-bench"

# The runs of `bench-security` and `bench-traces`: one message a request, at the same rate in all runs.
PAIRS_OF := --redis-tcp --in http --out http --rate 2000 --seconds 10 --warm-up 2000 $(BENCH_ARGS)

# Tests for `test-rights` and `test-newer`.
RIGHTS_TESTS := interfaces operations policies worker_api topics delivery_http journey rebalance
NEWER_TESTS := random_operations cluster wrong_types journey upgrades power_cut clocks

.DEFAULT_GOAL := help
# Run `setup` before the other targets, also with -j. Cargo runs in parallel by itself.
.NOTPARALLEL:
.PHONY: help setup setup-tests build build-bench demo run test quick torture torture-shares test-node test-connect test-recipes-connect test-rights test-newer build-node build-console check-console console-screenshots test-console bench bench-fast bench-keys drill-breaker bench-destinations bench-console bench-scripts bench-sparse bench-longest bench-shards bench-hostile bench-security bench-traces bench-peers bench-workers bench-rate dist release-check test-dist test-chart lint fmt deny sbom fuzz release-clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## Install redis-server if it is missing; check cargo
	@scripts/setup.sh

setup-tests: ## Install what tests need besides, if it is missing: promtool, Chromium, PostgreSQL, schemathesis, the Node.js client
	@scripts/setup.sh tests

build: ## Build the release: release/reseq in cargo's target directory (target/), line tables in reseq.debug
	RESEQ_BUILD="$$(scripts/version.sh)" cargo build --release --locked
	@scripts/split-debug.sh $(RESEQ)

build-node: ## Build the Node.js client; scripts in this folder can then import it as "reseq"
	@scripts/node-client.sh

build-console: ## Build the console (web/console/dist), which is committed and part of the program
	@scripts/console.sh build

check-console: ## Check that the build of the console is current
	@scripts/console.sh check

test-console: setup-tests build ## Test the console in Chromium
	RESEQ_BIN=$(RESEQ) npm test --silent --workspace web/console

console-screenshots: setup-tests build ## Draw the pictures of the console in the documentation
	RESEQ_BIN=$(RESEQ) scripts/console.sh screenshots

build-bench: build ## Build release/reseq-bench, which measures release/reseq
	cargo build --release --locked --package reseq-bench

demo: setup build ## Show parallel work in order, with processes killed (KILLS=0: kill none; DEMO_ARGS=...)
	$(RESEQ) demo $(if $(KILLS),--kills $(KILLS)) $(DEMO_ARGS)

run: setup build ## Start the service with an embedded Redis and reseq.example.toml
	$(RESEQ) serve --config reseq.example.toml

test: setup-tests ## Run all tests, four at a time: most of them mostly wait
	RUST_TEST_THREADS=$(or $(RUST_TEST_THREADS),4) cargo test --locked --no-fail-fast --workspace $(TEST_FEATURES)

quick: setup lint ## Check what takes less than a minute once it is built: lint, unit tests, a short run of the model
	RESEQ_MODEL_OPS=2000 cargo test --locked --no-fail-fast $(TEST_FEATURES) \
	  --workspace --lib --test quick --test scripts -- --skip interleavings --skip cluster

torture: setup ## Run a storm of faults, print a table (SEED=1 MINUTES=3 TOPOLOGY=all|single|sentinel|cluster DURABILITY=... BACKLOG=... TLS=1)
	TORTURE_SEED=$(SEED) TORTURE_MINUTES=$(or $(MINUTES),3) TORTURE_TOPOLOGY=$(TOPOLOGY) \
	  TORTURE_DURABILITY=$(DURABILITY) TORTURE_BACKLOG=$(BACKLOG) TORTURE_TLS=$(TLS) \
	  cargo test --locked --no-fail-fast $(TEST_FEATURES) --test torture -- --nocapture

torture-shares: setup ## Storms of moving clocks, a Redis that refuses, and places that run out; about an hour (FAULTS=1000 SEED=1)
	TORTURE_SEED=$(SEED) TORTURE_TOPOLOGY=$(TOPOLOGY) TORTURE_FAULTS=$(or $(FAULTS),1000) cargo test --locked $(TEST_FEATURES) \
	  --test torture clocks_move_and_places_run_out -- --nocapture

test-node: setup build build-node ## Kill pods, Redis, worker and receiver amid messages of the Node.js client (ROUNDS=10 MESSAGES=5000)
	RESEQ_BIN=$(RESEQ) STORM_ROUNDS=$(or $(ROUNDS),10) STORM_MESSAGES=$(or $(MESSAGES),5000) PROPERTY_RUNS=500 \
	  node --test --test-timeout=3600000 clients/node/test/*.test.mjs clients/nest/test/*.test.mjs clients/node/test/long/*.test.mjs

test-connect: setup-tests ## Kill connectors, pods, Redis, Postgres and Kafka while reseq-connect copies; up to an hour (KILLS=50)
	cargo build --locked --workspace $(TEST_FEATURES) --bin reseq
	jars=$$($(if $(KAFKA),scripts/kafka.sh,echo)) && RESEQ_TEST_KAFKA=$$jars RESEQ_CONNECT_KILLS=$(or $(KILLS),50) \
	  RESEQ_CONNECT_TRANSACTION_MB=1000 \
	  cargo test --locked --no-fail-fast --workspace $(TEST_FEATURES) $(addprefix --features ,$(KAFKA)) --test connect -- --test-threads 4

test-recipes-connect: setup-tests build ## Follow the pages on Kafka, Debezium Server and Camel, and kill them and Reseq meanwhile; some minutes (KILLS=4)
	cargo build --release --locked --package reseq-connect $(addprefix --features ,$(KAFKA))
	RESEQ_BIN=$(RESEQ) RESEQ_CONNECT_BIN="$(RELEASE_DIR)/reseq-connect" \
	  node scripts/recipes-connect.mjs $(if $(KAFKA),kafka) debezium camel

test-rights: setup-tests ## Run tests with a Redis user that has only the documented rights
	RESEQ_TEST_MINIMAL_RIGHTS=1 cargo test --locked --no-fail-fast $(TEST_FEATURES) \
	  --test service -- $(RIGHTS_TESTS)

test-newer: setup-tests ## Run tests on Redis 8 and Valkey (from Debian packages)
	@scripts/newer-servers.sh | while read -r server; do \
	  RESEQ_TEST_REDIS_SERVER=$$server cargo test --locked --no-fail-fast $(TEST_FEATURES) \
	    --test scripts --test service --test faults -- $(NEWER_TESTS) </dev/null || exit 1; done

bench: setup build-bench ## Measure throughput, latency and cost; draw the ramp into bench/ in cargo's target directory (BENCH_ARGS=...)
	$(RESEQ_BENCH) --warm-up 20000 --ramp 10,25,50,75,100 --svg "$(TARGET_DIR)/bench/ramp.svg" $(BENCH_ARGS)

bench-fast: setup build ## Run the demo ten times faster, three times, without kills
	@for run in 1 2 3; do $(RESEQ) demo --kills 0 --interval 25ms \
	  --work-min 50ms --work-max 100ms --messages 2000 || exit 1; done

bench-keys: setup ## Send a million messages on a million ordering keys; check that Redis is empty afterwards (COUNT=1000000)
	cargo run --release --locked --example million_keys $(COUNT)

drill-breaker: setup ## Let a receiver with 1,000 lanes refuse everything for a minute; count requests, check that lanes resume in order (DEAD_S=60)
	cargo run --release --locked --example breaker_drill $(DEAD_S)

bench-destinations: setup ## Define 100,000 destinations; measure the time and the cost of a change (COUNT=100000)
	cargo run --release --locked --example many_destinations $(COUNT)

bench-console: setup ## Measure what the open console asks of Redis, in one browser and in ten (COUNT=10000)
	cargo run --release --locked --example console_cost $(COUNT)

bench-scripts: setup ## Measure the CPU time of Redis per message and script (COUNT=100000)
	cargo run --release --locked --example script_costs $(COUNT)

bench-sparse: setup ## Measure what a message costs Redis that is alone in its destination (COUNT=20000)
	cargo run --release --locked --example sparse_costs $(COUNT)

bench-longest: setup ## Measure the longest Redis call of each operation with many messages waiting (COUNT=1000000)
	RESEQ_BOUNDS_TIMES=1 RESEQ_BOUNDS_WAITING=$(or $(COUNT),1000000) cargo test --release --locked $(TEST_FEATURES) \
	  --test service operations::bounds::no_call_holds_redis -- --nocapture --test-threads 1

bench-shards: setup ## Measure what a message costs the busiest of four primaries, without shards and with 16 (COUNT=100000)
	cargo run --release --locked --example shard_costs $(COUNT)

bench-hostile: setup build-bench ## Measure the latency of producers among 5,000 idle and 1,000 slow connections
	$(RESEQ_BENCH) --hostile $(BENCH_ARGS)

bench-security: setup build-bench ## Measure the CPU time a message that tokens and TLS cost (PAIRS=10)
	$(RESEQ_BENCH) pairs --count $(or $(PAIRS),10) --with --tokens --with --tls -- $(PAIRS_OF)

bench-traces: setup build-bench ## Measure the CPU time a message that traces cost, of 1 % and of all messages (PAIRS=10)
	$(RESEQ_BENCH) pairs --count $(or $(PAIRS),10) --with "--traces 0.01" --with "--traces 1" -- $(PAIRS_OF)

bench-peers: setup build-bench ## Compare Reseq with other systems on the same work (BENCH_ARGS=--quick)
	bench/setup.sh
	bench/run $(BENCH_ARGS)

bench-connect: setup-tests build ## Measure reseq-connect with Kafka and Postgres (BENCH_ARGS=--quick)
	cargo build --release --locked --package reseq-connect $(addprefix --features ,$(KAFKA))
	bench/setup.sh
	bench/connect $(BENCH_ARGS)

bench-workers: setup build build-node ## Compare the worker of the Node.js client with that of BullMQ (RUNS=3)
	cd bench/node && npm ci --ignore-scripts --no-audit --no-fund --silent
	node bench/node/workers.js --reseq $(RESEQ) --messages 50000 --serial 500 --runs $(or $(RUNS),3)

bench-rate: setup build ## Measure the rate of 20 processors' calls to one service, and what that costs a neighbour (BENCH_ARGS="--seconds 20")
	node bench/node/rate.js --reseq $(RESEQ) $(BENCH_ARGS)

# With Kafka both times, or cargo would check most dependencies twice. `make test` compiles without it.
lint: ## Check the formatting, run clippy
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets $(TEST_FEATURES) $(addprefix --features ,$(KAFKA)) -- -D warnings
	cargo check --locked --workspace $(addprefix --features ,$(KAFKA))

deny: ## Check dependencies with cargo-deny: licences, duplicates, sources, known vulnerabilities (needs github.com)
	@scripts/supply-chain.sh deny

sbom: ## List the dependencies of reseq for others: a CycloneDX file in sbom/ in cargo's target directory
	@scripts/supply-chain.sh sbom

fuzz: ## Fuzz the parsers of input, each for SECONDS=1200 (TARGETS="frames tokens")
	scripts/fuzz.sh $(or $(SECONDS),1200) $(TARGETS)

dist: ## Build the packages: programs, deb, rpm, npm, wheel, images, chart, in dist/ where cargo builds (MINISIGN_KEY=FILE)
	@packaging/dist.sh

release-check: ## Check that all that names the version names the same one
	@packaging/release-check.sh

test-dist: ## Install the packages of `make dist` as strangers would, and run them; up to an hour (QUICK=1: two minutes)
	@packaging/test-dist.sh $(if $(QUICK),--quick)

test-chart: ## Apply the chart to a real Kubernetes API server, and restart all roles under load
	@packaging/chart/test-apiserver.sh

release-clean: build ## Check that the release has no pause points and no planted bugs
	@test -f $(RESEQ) || { echo "there is no $(TARGET_DIR)/release/reseq"; exit 1; }
	@for name in RESEQ_PAUSE_SOCKET sender.accepted RESEQ_PLANTED_BUG RESEQ_PLANTED_SCRIPTS \
	  $$(grep -rhoE 'planted::is\("[a-z_]+"' src crates | cut -d '"' -f 2 | sort -u); do \
	  if grep -qaF $$name $(RESEQ); then echo "the release has $$name"; exit 1; fi; \
	done; echo "the release has no pause points and no planted bugs"

fmt: ## Format the code
	cargo fmt --all

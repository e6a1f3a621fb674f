# `make` lists what there is.

# What only tests are built with.
TEST_FEATURES := --features pause-points,planted-bugs,next-schema

# Where cargo puts what it builds. Cargo is asked once, by the first recipe that needs it.
TARGET_DIR = $(eval TARGET_DIR := $$(shell scripts/target-dir.sh))$(TARGET_DIR)
RESEQ = "$(or $(TARGET_DIR),$(error cargo does not say where it builds))/release/reseq"

# What is also run on newer servers.
RIGHTS_TESTS := doors steering policies worker_api topics delivery_http journey_order journey_faults hand_over
NEWER_TESTS := scripts_model scripts_cluster scripts_wrong_type journey_order journey_faults upgrades power_cut clocks

.DEFAULT_GOAL := help
# Setup comes before what needs it, also with -j; cargo is parallel by itself.
.NOTPARALLEL:
.PHONY: help setup build demo run test torture test-rights test-newer bench bench-fast bench-keys bench-destinations bench-scripts bench-longest bench-peers lint fmt release-clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## Install what is missing (redis-server), check the rest (cargo, node)
	@scripts/setup.sh

build: ## Build the release: target/release/reseq, or where cargo is set to build
	cargo build --release --locked

demo: setup build ## Show it: slow processing, order kept, pods killed (KILLS=0: none; DEMO_ARGS=...)
	$(RESEQ) demo $(if $(KILLS),--kills $(KILLS)) $(DEMO_ARGS)

run: setup build ## Start the service with an embedded Redis and reseq.example.toml
	$(RESEQ) serve --config reseq.example.toml

test: setup ## Run all tests
	cargo test --locked $(TEST_FEATURES)

torture: setup ## A storm of faults, then a table (SEED=1 MINUTES=3 TOPOLOGY=all|single|sentinel|cluster DURABILITY=... BACKLOG=...)
	TORTURE_SEED=$(SEED) TORTURE_MINUTES=$(or $(MINUTES),3) TORTURE_TOPOLOGY=$(TOPOLOGY) \
	  TORTURE_DURABILITY=$(DURABILITY) TORTURE_BACKLOG=$(BACKLOG) \
	  cargo test --locked $(TEST_FEATURES) --test torture -- --nocapture

test-rights: setup ## Run the tests of journeys with pods whose Redis user has the documented rights and no others
	RESEQ_TEST_MINIMAL_RIGHTS=1 cargo test --locked --no-fail-fast $(TEST_FEATURES) \
	  $(addprefix --test ,$(RIGHTS_TESTS))

test-newer: setup ## Run the tests of scripts and journeys on Redis 8 and Valkey (Debian's packages, unpacked)
	@scripts/newer-servers.sh | while read -r server; do \
	  RESEQ_TEST_REDIS_SERVER=$$server cargo test --locked --no-fail-fast $(TEST_FEATURES) \
	    $(addprefix --test ,$(NEWER_TESTS)) </dev/null || exit 1; done

bench: setup build ## Throughput, latency, cost; the ramp drawn into bench/ where cargo builds (BENCH_ARGS=...)
	$(RESEQ) bench --warm-up 20000 --ramp 10,25,50,75,100 --svg "$(TARGET_DIR)/bench/ramp.svg" $(BENCH_ARGS)

bench-fast: setup build ## The demo's case ten times faster, three runs, nothing killed
	@for run in 1 2 3; do $(RESEQ) demo --kills 0 --interval-ms 25 \
	  --work-min-ms 50 --work-max-ms 100 --messages 2000 || exit 1; done

bench-keys: setup ## A million messages on a million ordering keys; is Redis empty afterwards?
	cargo run --release --locked --example million_keys $(COUNT)

bench-destinations: setup ## 100,000 destinations: how fast they are defined and known, what a change costs
	cargo run --release --locked --example many_destinations $(COUNT)

bench-scripts: setup ## What the life of a message costs Redis, script by script
	cargo run --release --locked --example script_costs $(COUNT)

bench-longest: setup ## The longest call to Redis of each operation, with a million waiting (COUNT=1000000)
	RESEQ_BOUNDS_TIMES=1 RESEQ_BOUNDS_WAITING=$(or $(COUNT),1000000) cargo test --release --locked $(TEST_FEATURES) \
	  --test steering no_call_holds_redis -- --nocapture --test-threads 1

bench-peers: setup build ## The same work given to Reseq and to its peers (BENCH_ARGS=--quick)
	bench/setup.sh
	bench/run $(BENCH_ARGS)

lint: ## Check the formatting, and what clippy finds
	cargo fmt --check
	cargo clippy --locked --all-targets $(TEST_FEATURES) -- -D warnings
	cargo check --locked

release-clean: build ## Show that the release has no pause points and no planted bugs
	@test -f $(RESEQ) || { echo "there is no $(TARGET_DIR)/release/reseq"; exit 1; }
	@for name in RESEQ_PAUSE_SOCKET RESEQ_PLANTED_BUG sender.accepted accepted_when_sent; do \
	  if grep -qaF $$name $(RESEQ); then echo "the release has $$name"; exit 1; fi; \
	done; echo "the release has no pause points and no planted bugs"

fmt: ## Format the code
	cargo fmt

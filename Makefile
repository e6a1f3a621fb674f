# `make` lists what there is.

.DEFAULT_GOAL := help
# Setup comes before what needs it, also with -j; cargo is parallel by itself.
.NOTPARALLEL:
.PHONY: help setup build demo run test lint fmt

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## Install what is missing (redis-server), check the rest (cargo, node)
	@scripts/setup.sh

build: ## Build target/release/reseq
	cargo build --release --locked

demo: setup build ## Show it: slow processing, order kept, pods killed (KILLS=0: none; DEMO_ARGS=...)
	target/release/reseq demo $(if $(KILLS),--kills $(KILLS)) $(DEMO_ARGS)

run: setup build ## Start the service with an embedded Redis and reseq.example.toml
	target/release/reseq serve --config reseq.example.toml

test: setup ## Run all tests
	cargo test --locked

lint: ## Check the formatting, and what clippy finds
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings

fmt: ## Format the code
	cargo fmt

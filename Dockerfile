# syntax=docker/dockerfile:1

FROM rust:1-bookworm AS build
WORKDIR /build

# Only the dependencies, with an empty program: this layer is built again only when a manifest or the lock file
# changes. Cargo reads the manifests of the other members too, but builds nothing of them.
COPY Cargo.toml Cargo.lock ./
COPY crates/bench/Cargo.toml crates/bench/
COPY crates/testing/Cargo.toml crates/testing/
RUN mkdir src crates/bench/src crates/testing/src \
 && echo 'fn main() {}' | tee src/main.rs > crates/bench/src/main.rs \
 && touch src/lib.rs crates/testing/src/lib.rs \
 && cargo build --release --locked \
 && rm -r src

COPY src src
COPY lua lua
COPY web/api-docs web/api-docs
COPY web/console/dist web/console/dist
COPY scripts/split-debug.sh scripts/
# Cargo compares times, and the copied files can be older than the empty program. The line tables stay in
# this stage, in reseq.debug.
RUN touch src/main.rs src/lib.rs \
 && cargo build --release --locked \
 && scripts/split-debug.sh target/release/reseq

FROM debian:bookworm-slim
# Certificates for https:// receivers and transforms. No redis-server: a container's Redis is
# another container (set RESEQ_REDIS_URL), as its data must outlive this one.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /build/target/release/reseq /usr/local/bin/reseq
# A number, so that Kubernetes can see that it is not root (runAsNonRoot). The program writes no files: it
# runs with a read-only root file system and without capabilities.
USER 65532:65532
EXPOSE 8080
# `reseq` is process 1 here: SIGTERM reaches it, and it drains.
ENTRYPOINT ["reseq"]
CMD ["serve"]

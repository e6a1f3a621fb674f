# syntax=docker/dockerfile:1

FROM rust:1-bookworm AS build
WORKDIR /build

COPY Cargo.toml Cargo.lock ./
COPY src src
COPY crates crates
COPY lua lua
COPY web/api-docs web/api-docs
COPY web/console/dist web/console/dist
COPY scripts/split-debug.sh scripts/
# The caches keep what has been compiled for the next build. The line tables stay in this stage, in reseq.debug.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/build/target \
    cargo build --release --locked \
 && scripts/split-debug.sh target/release/reseq \
 && cp target/release/reseq target/release/reseq.debug /usr/local/bin/

FROM debian:bookworm-slim
# Certificates for https:// receivers and transforms. No redis-server: a container's Redis is
# another container (set RESEQ_REDIS_URL), as its data must outlive this one.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /usr/local/bin/reseq /usr/local/bin/reseq
# A number, so that Kubernetes can see that it is not root (runAsNonRoot). The program writes no files: it
# runs with a read-only root file system and without capabilities.
USER 65532:65532
EXPOSE 8080
# `reseq` is process 1 here: SIGTERM reaches it, and it drains.
ENTRYPOINT ["reseq"]
CMD ["serve"]

# Builds the image from the source. packaging/image/build.sh makes the same image without Docker, from programs.
#
# Tags can move. To pin the base image, look its digest up, compare it with a source that you trust, and give it:
#   docker buildx imagetools inspect rust:1.95.0-bookworm
#   docker build --build-arg RUST=rust:1.95.0-bookworm@sha256:... --tag reseq:0.1.0 .
ARG RUST=rust:1.95.0-bookworm
FROM ${RUST} AS build
WORKDIR /build

COPY Cargo.toml Cargo.lock LICENSE ./
COPY src src
COPY crates crates
COPY lua lua
COPY web/api-docs web/api-docs
COPY web/console/dist web/console/dist
COPY scripts/split-debug.sh scripts/
# The caches keep what has been compiled for the next build. The line tables stay in this stage, in *.debug.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/build/target \
    cargo build --release --locked \
 && cargo build --release --locked --package reseq-connect --features reseq-connect/kafka \
 && for program in reseq reseq-connect; do scripts/split-debug.sh target/release/$program \
 && cp target/release/$program target/release/$program.debug /usr/local/bin/ || exit 1; done
# The files of the image: the programs, their libraries with their licences, certificates for https:// receivers and
# transforms, and a user. No redis-server: a container's Redis is another container (set RESEQ_REDIS_URL), as its data
# must outlive this one.
RUN mkdir -p /image/usr/share/doc/reseq \
 && cp LICENSE /image/usr/share/doc/reseq/copyright \
 && cp --parents --dereference $(ldd /usr/local/bin/reseq /usr/local/bin/reseq-connect | grep -o '/[^ :]*' | sort -u) \
    /etc/ssl/certs/ca-certificates.crt /usr/share/doc/libc6/copyright /usr/share/doc/libgcc-s1/copyright \
    /usr/share/doc/ca-certificates/copyright /image \
 && echo 'hosts: files dns' >/image/etc/nsswitch.conf \
 && echo 'reseq:x:65532:65532::/:/sbin/nologin' >/image/etc/passwd \
 && echo 'reseq:x:65532:' >/image/etc/group

FROM scratch
COPY --from=build /image /
ENV PATH=/usr/local/bin
# A number, so that Kubernetes can see that it is not root (runAsNonRoot). The program writes no files: it
# runs with a read-only root file system and without capabilities.
USER 65532:65532
EXPOSE 8080
# Reseq waits up to two minutes for a Redis that loads its data.
HEALTHCHECK --interval=10s --timeout=5s --retries=3 --start-period=2m CMD ["/usr/local/bin/reseq", "health"]
# `reseq` is process 1 here: SIGTERM reaches it, and it drains.
ENTRYPOINT ["/usr/local/bin/reseq"]
CMD ["serve"]

#!/usr/bin/env bash
# Runs the images of build.sh with crun: read-only, as user 65532, without capabilities, on the network of this machine.
#
#   packaging/image/test.sh [--quick]    --quick: below 30 s, with a short demo and without a second build
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/../lib.sh"
hash crun jq curl socat redis-server 2>/dev/null || { say "installing crun, jq, curl, socat and redis-server" &&
  apt-get -qq -y install crun jq curl socat redis-server >/dev/null; } || die "install them, then run this test again"
[ "$(id -u)" = 0 ] || die "run this test as root: it mounts file systems"

work=$(mktemp -d) && chmod 755 "$work"
crun=(crun --root "$work/crun" --cgroup-manager=disabled)
# --one-file-system, in case that a mount is left.
trap '"${crun[@]}" delete --force serve; "${crun[@]}" delete --force demo; kill $(jobs -p) 2>/dev/null; wait
  rm -rf --one-file-system "$work"' EXIT
# within SECONDS COMMAND...: waits until the command succeeds.
within() {
  local end=$((SECONDS + $1))
  until "${@:2}" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || die "not within $1 s: ${*:2}"; sleep 0.1; done
}

# container NAME VARIANT VARIABLES ARGUMENT...: runs a container until it ends. VARIABLES: A=1,B=2. With entrypoint=FILE
# it runs that program of the image.
container() {
  mkdir -p "$work/$1"
  jq --arg root "$work/$2/root" --arg work "$work" --arg variables "$3" --arg arguments "${*:4}" \
    --arg entrypoint "${entrypoint:-}" '.config as $image | {
    ociVersion: "1.0.2", root: {path: $root, readonly: true},
    process: {user: {uid: 65532, gid: 65532}, cwd: "/", noNewPrivileges: true, capabilities: {},
      env: ($image.Env + ($variables / ",")),
      args: (if $entrypoint == "" then $image.Entrypoint else [$entrypoint] end + if $arguments == "" then $image.Cmd else $arguments / " " end)},
    mounts: ([{destination: "/proc", type: "proc"}, {destination: "/dev", type: "tmpfs"}] + if $image.Volumes then
      [{destination: "/tmp", type: "tmpfs"}, {destination: "/data", source: "\($work)/data", options: ["rbind"]}] else
      [{destination: "/etc/reseq.toml", source: "\($work)/reseq.toml", options: ["rbind", "ro"]}] end),
    linux: {namespaces: [{type: "pid"}, {type: "mount"}, {type: "ipc"}]}}' "$work/$2/image.json" >"$work/$1/config.json"
  # crun expects cgroup2, which this machine may not have.
  unshare --mount --cgroup bash -c 'mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"' - \
    "${crun[@]}" run --bundle "$work/$1" "$1"
}
# ready NAME: waits until the health check succeeds. stop NAME JOB: SIGTERM; the container must exit with 0.
ready() { within 60 "${crun[@]}" exec "$1" /usr/local/bin/reseq health --url "http://127.0.0.1:$http"; }
stop() { { "${crun[@]}" kill "$1" TERM && wait "$2"; } || die "$1 exits with $? after SIGTERM"; }

for variant in image demo; do
  archive=$DIST/reseq-$VERSION-$variant.tar image=$work/$variant
  mkdir -p "$image/root"
  tar -xf "$archive" -C "$image" || die "run packaging/image/build.sh first"
  tar -xf "$image/$(jq -r '.[0].Layers[0]' "$image/manifest.json")" -C "$image/root"
  cp "$image/$(jq -r '.[0].Config' "$image/manifest.json")" "$image/image.json"
  size=$(($(stat --format %s "$image/$(jq -r '.[0].Layers[0]' "$image/manifest.json")") / 1000))
  [ $variant = demo ] || [ $size -le "${RESEQ_IMAGE_KB_MAX:-22000}" ] ||
    die "the image has $size kB; a debug build needs more: RESEQ_IMAGE_KB_MAX=50000"
  [ -z "$(find "$image/root" -name '*sh' -o -perm /6000)" ] || die "$variant: has a shell or a setuid program"
  writable=$(setpriv --reuid 65532 --clear-groups find "$image/root" -writable -printf '%P\n' | sort | xargs)
  [ "$writable" = "$([ $variant = image ] || echo data tmp)" ] || die "$variant: the user can write to: $writable"
  sum=$(sha256sum "$DIST/reseq-$VERSION-$variant.cdx.json" | cut -d ' ' -f 1)
  jq -e --arg sum "sha256:$sum" '.config | .User == "65532:65532" and .Labels["reseq.sbom"] == $sum
    and .Healthcheck.Test[2] == "health"' "$image/image.json" >/dev/null || die "$variant: user, label or health check"
  say "ok: $variant: $size kB, no shell, the user can write to: ${writable:-nothing}"
done
grep -q "image: reseq:$VERSION\$" "$ROOT/docker-compose.yml" || die "docker-compose.yml has another version"

mkdir "$work/redis"
install -d -o 65532 -g 65532 -m 700 "$work/data"
redis=$((20000 + RANDOM % 12000)) http=$((redis + 1)) receiver=$((redis + 2))
redis-server --port "$redis" --bind 127.0.0.1 --dir "$work/redis" --appendonly yes >/dev/null &
within 60 redis-cli -p "$redis" ping
socat "TCP-LISTEN:$receiver,bind=127.0.0.1,reuseaddr,fork" \
  "SYSTEM:while read -r line; do sleep 0.2; echo \$line >>$work/received; echo OK; done" &
cat >"$work/reseq.toml" <<EOF
outgoing.allow = ["127.0.0.1:$receiver"]
destination = [{ name = "erp", url = "tcp://127.0.0.1:$receiver" }]
EOF
variables=RESEQ_CONFIG=/etc/reseq.toml,RESEQ_REDIS_URL=redis://127.0.0.1:$redis,RESEQ_HTTP_LISTEN=127.0.0.1:$http
[[ $(container serve image '' --version) == "reseq $VERSION"* ]] || die "--version does not print reseq $VERSION"
[ "$(entrypoint=/usr/local/bin/reseq-connect container connect image '' --version)" = "reseq-connect $VERSION" ] ||
  die "reseq-connect --version does not print its version"
container serve image "$variables" &
ready serve
for number in {1..10}; do curl -fsSo /dev/null -d "$number" "http://127.0.0.1:$http/v1/destinations/erp/messages"; done
within 20 test -s "$work/received"
stop serve $!
delivered=$(wc -l <"$work/received")
[ "$delivered" -lt 10 ] || die "all messages were delivered before SIGTERM, so this tests nothing"
container serve image "$variables" &
within 60 grep -qx 10 "$work/received"
stop serve $!
diff <(seq 10) "$work/received" >&2 || die "not each message once and in order"
say "ok: SIGTERM after $delivered of 10 messages: exits with 0; the next container delivers the others, in order"

curl=(curl -fsS -o "$work/answer" -H "authorization: Bearer a-token-for-this-test")
box=http://127.0.0.1:$http/v1/destinations/box
for round in 1 2; do
  container demo demo "RESEQ_AUTH_ADMIN_TOKEN=a-token-for-this-test,RESEQ_HTTP_LISTEN=0.0.0.0:$http" serve &
  ready demo
  [ $round = 2 ] || "${curl[@]}" -X PUT --json '{"delivery": {"kind": "pull"}}' "$box"
  "${curl[@]}" -d "$round" "$box/messages"
  "${curl[@]}" "$box/stats"
  stop demo $!
done
jq -e '.pending == 2' "$work/answer" >/dev/null || die "the demo has lost messages: $(cat "$work/answer")"
say "ok: demo serve: the messages in /data outlive the container"
short=()
[ "${1:-}" != --quick ] || short=(demo --messages 20 --kills 0 --interval 50ms)
container demo demo '' "${short[@]}" >"$work/report" || die "the demo fails"
grep '^Complete and in order: yes' "$work/report" || die "the demo is not in order: $(cat "$work/report")"
[ ${#short[@]} = 0 ] || exit 0

before=$(sha256sum "$DIST/reseq-$VERSION"-{image,demo}.tar)
"$ROOT/packaging/image/build.sh"
sha256sum --check --status <<<"$before" || die "a second build has other bytes"
say "ok: a second build has the same bytes"

#!/usr/bin/env bash
# Tests the deb in a Debian 12 with its own systemd and network. Needs root. --quick: only lintian and the units.
# shellcheck disable=SC2016
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
deb=$DIST/reseq_${VERSION}_amd64.deb
[ -f "$deb" ] || die "$deb is missing: run packaging/deb/build.sh"
[ "$(id -u)" = 0 ] || die "run this as root: it makes namespaces"
type lintian mmdebstrap systemd-analyze > /dev/null 2>&1 || {
  say "installing lintian, mmdebstrap and systemd with apt-get"
  apt-get install --yes --no-install-recommends lintian mmdebstrap systemd > /dev/null
}

work=$(mktemp -d)
cgroup=$work/cgroup/reseq-test-$$
passed=0 boot='' init=''
cleanup() {
  # When unshare ends, the kernel ends the system in its namespaces, with all mounts.
  if [ -n "$boot" ]; then { kill -KILL "$boot"; wait "$boot"; } 2> /dev/null || true; fi
  if mountpoint --quiet "$work/cgroup"; then
    for _ in $(seq 50); do find "$cgroup" -depth -type d -exec rmdir {} + 2> /dev/null && break; sleep 0.1; done
    umount "$work/cgroup"
  fi
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
check() { # SENTENCE COMMAND...: the sentence is true if the command succeeds
  local began=$SECONDS
  if ! "${@:2}" > "$work/output" 2>&1; then
    tail -n 30 "$work/output" >&2
    [ -z "$init" ] || inside journalctl --no-pager --lines 30 >&2
    die "not true: $1"
  fi
  passed=$((passed + 1))
  say "ok, $((SECONDS - began)) s: $1"
}
eventually() { for _ in {1..300}; do if "$@" 2> "$work/try"; then return; fi; sleep 0.2; done; cat "$work/try"; false; }

dpkg-deb --extract "$deb" "$work/deb"
check "lintian finds nothing" lintian --fail-on error,warning --allow-root "$deb"
check "systemd accepts the units" unshare --mount sh -c 'mount -t overlay overlay -o lowerdir="$0/deb/usr:/usr" /usr &&
  systemd-analyze verify reseq.service reseq@ingest.service reseq-connect@orders.service' "$work"
check "the exposure of the units is at most 1.2" systemd-analyze security --no-pager --root="$work/deb" --offline=true \
  --threshold=12 reseq.service reseq@ingest.service reseq-connect@orders.service
[ "${1:-}" != --quick ] || { echo "$passed passed, 0 failed"; exit; }

base=$TOOLS/debian-12-systemd.tar
if [ ! -f "$base" ]; then
  say "making $base"
  # The mirrors of this machine if it is a Debian 12, otherwise the public one.
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    grep bookworm > "$work/list" || echo "deb http://deb.debian.org/debian bookworm main" > "$work/list"
  # It keeps the packages that the deb depends on, because its network ends at its borders.
  mmdebstrap --mode=root --format=tar --variant=minbase --include=systemd-sysv,dbus --skip=cleanup/apt \
    --customize-hook='chroot "$1" sh -ec "apt-get clean; apt-get install -dy redis-tools ca-certificates"' \
    bookworm "$base.part" "$work/list" > "$work/output" 2>&1 || die "mmdebstrap failed: $(tail "$work/output")"
  mv "$base.part" "$base"
fi

say "booting Debian 12"
root=$work/root
mkdir "$root" "$work/cgroup"
tar --extract --file "$base" --directory "$root" --exclude './dev/*'
cp "$deb" "$root/root"
"$here/build.sh" "$VERSION+next" "$root/root" 2> /dev/null
mount -t cgroup2 none "$work/cgroup" && mkdir "$cgroup"
(
  echo $BASHPID > "$cgroup/cgroup.procs"
  exec unshare --pid --mount --uts --ipc --cgroup --net --fork --kill-child bash -ec '
    mount --bind "$0" "$0"
    cd "$0"
    mount -t proc proc proc
    mount -t sysfs -o ro sysfs sys
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    for folder in run tmp dev; do mount -t tmpfs tmpfs $folder; done
    chmod 755 run dev
    for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
    mkdir -p run/lock dev/pts dev/shm old
    mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
    ln -s pts/ptmx dev/ptmx
    ip link set lo up
    pivot_root . old
    umount --lazy /old
    mount --make-rshared /
    exec env -i container=lxc PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --show-status=0' "$root" > /dev/null 2>&1
) &
boot=$!
inside() {
  nsenter --target "$init" --mount --uts --ipc --net --pid --cgroup -- env -i HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
is_up() { init=$(cat /proc/$boot/task/$boot/children) && init=${init// /} && inside systemctl is-active basic.target; }
check "the system is up" eventually is_up
run() { inside sh -euc "$1"; }
admin() { inside reseq "$@" --token-file /etc/reseq/admin-token; }
pid() { inside systemctl show --property MainPID --value "$1"; }
waiting() { admin status --output json | grep -qE "\"pending\": ?$1\b"; }
restarted() { inside systemctl is-active "$1" && [ "$(pid "$1")" != "$2" ]; }
install() { inside apt-get install --yes "$@"; }

check "apt installs the deb" install "/root/reseq_${VERSION}_amd64.deb"
check "reseq-connect is there, and no copy of it runs" run 'reseq-connect --version; ls -d /etc/reseq/connect
  ! systemctl list-units --all | grep reseq-connect@'
check "the service is enabled, has sent READY and is healthy" run 'systemctl is-enabled reseq; systemctl is-active reseq
  reseq health'
check "the log does not contain the token" run '! journalctl | grep -F "$(cat /etc/reseq/admin-token)"'
check "only root can read the token, and only reseq its data" run '[ "$(stat -c %U:%a /etc/reseq/admin-token \
  /var/lib/reseq | xargs)" = "root:600 reseq:700" ]'
check "no Redis listens on port 6379" run '! grep -i ":18EB " /proc/net/tcp'
check "man pages and completions are there" run 'cd /usr/share; ls man/man1/reseq-serve.1.gz \
  bash-completion/completions/reseq zsh/vendor-completions/_reseq fish/vendor_completions.d/reseq.fish'
check "reseq demo keeps the order" inside setpriv --reuid=nobody --clear-groups reseq demo

echo '{"name":"erp", "url":"tcp://127.0.0.1:9001", "transform":{"kind":"jq", "expression":"."}}' > "$root/root/erp.json"
# Accepts each line, and writes it to standard output.
cat > "$root/root/receiver" << 'EOF'
$| = 1; $server = IO::Socket::INET->new(Listen => 9, LocalAddr => "127.0.0.1:9001", ReuseAddr => 1) or die;
while ($peer = $server->accept) { while (<$peer>) { print; print $peer "OK\n" } }
EOF
seq 1 100 > "$root/root/sent"
before=$(pid reseq)
check "a receiver on this machine is refused" run 'reseq destinations apply /root/erp.json \
  --token-file /etc/reseq/admin-token 2>&1 | grep refused_address'
run 'sed -i "s/^allow = .*/allow = [\"127.0.0.1:9001\"]/" /etc/reseq/reseq.toml'
check "systemctl reload succeeds" inside systemctl reload reseq
check "the new outgoing list allows the receiver" eventually admin destinations apply /root/erp.json
check "the process is the same" [ "$(pid reseq)" = "$before" ]
check "100 messages are accepted while their receiver is down" admin send --destination erp --file /root/sent
check "apt upgrades to a higher version" install "/root/reseq_$VERSION+next_amd64.deb"
check "the upgrade restarted the service" restarted reseq "$before"
check "the upgrade kept the changed configuration" run 'grep 9001 /etc/reseq/reseq.toml'
check "the messages wait" waiting 100
run 'systemd-run --quiet --property StandardOutput=append:/root/got perl -MIO::Socket::INET /root/receiver'
check "they arrive in order" eventually run 'cmp /root/sent /root/got'

run 'mkdir /run/systemd/system/reseq.service.d; cd /run/systemd/system/reseq.service.d
  printf "[Service]\nWatchdogSec=3s\n" > watchdog.conf; systemctl daemon-reload; systemctl restart reseq'
before=$(pid reseq) && sleep 5
check "the watchdog accepts a living service" [ "$(pid reseq)" = "$before" ]
run "kill -STOP $before"
check "the watchdog restarts a service that hangs" eventually restarted reseq "$before"

run 'systemctl disable --now reseq; echo RESEQ_REDIS_URL=unix:///run/redis/socket > /etc/default/reseq
  systemd-run --quiet --property User=reseq --property RuntimeDirectory=redis /usr/lib/reseq/bin/redis-server --port 0 \
    --unixsocket /run/redis/socket --dir /run/redis; truncate --size 0 /root/got' 2> /dev/null
check "one process for each role starts" inside systemctl enable --now reseq@ingest reseq@processor reseq@sender
admin destinations apply /root/erp.json > /dev/null
check "they accept messages" admin send --destination erp --file /root/sent
check "they deliver in order" eventually run 'cmp /root/sent /root/got'
before=$(pid reseq@sender)
check "apt installs the version again" install --reinstall "/root/reseq_$VERSION+next_amd64.deb"
check "that restarted the sender" restarted reseq@sender "$before"

run 'cp /usr/share/doc/reseq/reseq-connect.example.toml /etc/reseq/connect/orders.toml'
check "reseq-connect runs as its unit" inside systemctl enable --now reseq-connect@orders
check "it is alive and not ready: there is no Postgres" eventually run 'perl -MIO::Socket::INET -e "
  \$s = IO::Socket::INET->new(q(127.0.0.1:9464)) or exit 1; print \$s qq(GET /readyz HTTP/1.0\r\n\r\n); print <\$s>" |
  grep " 503 "'
check "apt removes the package and says what remains" run 'apt-get remove --yes reseq | grep "remain in /var"'
check "no process of it runs, and its data is there" run '! systemctl is-active reseq reseq@ingest reseq@processor \
  reseq@sender reseq-connect@orders && ls /var/lib/reseq/redis/* /etc/reseq/admin-token'
check "apt purges the package and says what it deletes" run 'apt-get purge --yes reseq | grep "Deleting /var/lib/reseq"'
check "nothing is left" run '! ls -d /var/lib/reseq /etc/reseq /etc/default/reseq /etc/systemd/system/*.wants/reseq*'
echo "$passed passed, 0 failed"

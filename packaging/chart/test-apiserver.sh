#!/usr/bin/env bash
# Applies the chart with all value files to a real API server, with PodSecurity "restricted" and the definitions of
# KEDA and the Prometheus operator. Then restarts all roles while messages flow (roll.py). Builds Kubernetes at first.
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=packaging/chart/tools.sh
. "$(dirname "$0")/tools.sh"

[ "$(id -u)" = 0 ] || die "run this as root: pods are started as other users, with a read-only root"
"$CHART/build.sh"
helm_tools
python_tools
kubernetes_tools
etcd_tools
crds
chart=$DIST/reseq-$VERSION.tgz
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
port() { "$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

say "starting etcd and kube-apiserver $KUBERNETES_VERSION"
etcd=http://127.0.0.1:$(port) peer=http://127.0.0.1:$(port) api=$(port)
"$ETCD" --data-dir "$work/etcd" --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
  --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer" \
  &>"$work/etcd.log" & pids+=($!)
openssl genrsa -out "$work/sa.key" 2048 2>/dev/null
echo "test,admin,admin,system:masters" >"$work/tokens.csv"
# ServiceAccount: nobody runs the controller that would create the default account.
"$KUBE/kube-apiserver" --etcd-servers="$etcd" --secure-port="$api" --bind-address=127.0.0.1 --cert-dir="$work/certs" \
  --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$work/sa.key" \
  --service-account-signing-key-file="$work/sa.key" --token-auth-file="$work/tokens.csv" --authorization-mode=RBAC \
  --service-cluster-ip-range=10.96.0.0/16 --disable-admission-plugins=ServiceAccount &>"$work/api.log" & pids+=($!)
export KUBECONFIG=$work/kubeconfig
kubectl() { "$KUBE/kubectl" "$@"; }
kubectl config set-cluster test --server="https://127.0.0.1:$api" --insecure-skip-tls-verify >/dev/null
kubectl config set-credentials admin --token=test >/dev/null
kubectl config set-context test --cluster=test --user=admin --namespace=messages >/dev/null
kubectl config use-context test >/dev/null
for _ in $(seq 240); do kubectl get --raw /readyz &>/dev/null && break; sleep 0.5; done
kubectl get --raw /readyz >/dev/null || { tail -n 20 "$work/api.log" >&2; die "the API server does not become ready"; }

kubectl create namespace messages >/dev/null
kubectl label namespace messages pod-security.kubernetes.io/{enforce,warn,audit}=restricted >/dev/null
for crd in $CRDS; do kubectl apply --server-side --filename "$crd" >/dev/null; done
for crd in scaledobjects.keda.sh {servicemonitors,podmonitors,prometheusrules}.monitoring.coreos.com; do
  kubectl wait --for=condition=Established "crd/$crd" >/dev/null
done
# The restricted profile must be in force, or the checks below would prove nothing.
kubectl run root --image=root &>"$work/refused" && die "PodSecurity does not refuse a pod without a security context"
grep -q 'violates PodSecurity "restricted' "$work/refused" || die "unexpected answer: $(cat "$work/refused")"

for values in "$CHART"/examples/*.yaml; do
  name=$(basename "$values" .yaml)
  "$HELM" template reseq "$chart" --namespace messages --values "$values" >"$work/$name.yaml"
  # PodSecurity refuses the pod of `helm test` if it is not restricted, and warns about the pods of workloads.
  kubectl apply --server-side --dry-run=server --warnings-as-errors --filename "$work/$name.yaml" >"$work/$name.applied"
  for action in install "upgrade --set shutdownMs=30000"; do
    # shellcheck disable=SC2086
    "$HELM" $action reseq "$chart" --namespace messages --values "$values" &>"$work/helm" || die "$(cat "$work/helm")"
    ! grep '^W[0-9]' "$work/helm" >&2 || die "helm $action: the API server warns about $name.yaml"
  done
  "$HELM" uninstall reseq --namespace messages >/dev/null
  say "$name: $(wc -l <"$work/$name.applied") resources applied, installed, upgraded and removed, without a warning"
done

programs=$(programs "$(uname -m)")
for example in minimal embedded; do
  say "rolling restart under load: $example.yaml"
  "$PYTHON" "$CHART/roll.py" "$HELM" "$chart" "$CHART/examples/$example.yaml" "$programs"/{reseq,redis-server} >&2
done
say "chart on an API server: ok"

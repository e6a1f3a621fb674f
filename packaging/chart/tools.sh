# The tools that check the chart, built from the Go proxy into $TOOLS once. Source it after packaging/lib.sh.
# shellcheck shell=bash disable=SC2034

export GOPATH=$TOOLS/go GOCACHE=$TOOLS/go-cache GOFLAGS=-modcacherw GOTOOLCHAIN=local CGO_ENABLED=0
CHART=$ROOT/packaging/chart

# module PATH@VERSION: prints the directory of a Go module.
module() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p'; }

# go_tool FILE MODULE PACKAGE [FLAGS]: builds in the directory of the module, because `go install` refuses modules with
# `replace`.
go_tool() {
  command -v go >/dev/null || die "Go is not installed: install Go 1.26 or later"
  [ -x "$1" ] && return
  say "building $(basename "$1")"
  go build -C "$(module "$2")" -trimpath "${@:4}" -o "$1" "$3"
}

helm_tools() {
  local minor rules=helm.sh/helm/v3/pkg/lint/rules.k8sVersion util=helm.sh/helm/v3/pkg/chartutil.k8sVersion
  minor=$(cut -d. -f2 <<<"$KUBERNETES_VERSION")
  HELM=$TOOLS/helm-$HELM_VERSION
  go_tool "$HELM" "helm.sh/helm/v3@$HELM_VERSION" ./cmd/helm \
    -ldflags "-s -w -X ${rules}Major=1 -X ${rules}Minor=$minor -X ${util}Major=1 -X ${util}Minor=$minor"
}

unittest_tools() {
  UNTT=$TOOLS/helm-unittest-$HELM_UNITTEST_VERSION
  go_tool "$UNTT" "github.com/helm-unittest/helm-unittest@$HELM_UNITTEST_VERSION" ./cmd/helm-unittest -ldflags "-s -w"
}

# A Python with PyYAML and kubernetes-validate.
python_tools() {
  local venv=$TOOLS/kubernetes-validate-$KUBERNETES_VALIDATE_VERSION
  PYTHON=$venv/bin/python
  [ -x "$venv/bin/kubernetes-validate" ] && return
  say "installing kubernetes-validate $KUBERNETES_VALIDATE_VERSION"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet "kubernetes-validate==$KUBERNETES_VALIDATE_VERSION"
}

# etcd from Debian: unpacked, not installed, so that no service starts.
etcd_tools() {
  ETCD=$TOOLS/etcd/usr/bin/etcd
  [ -x "$ETCD" ] && return
  say "fetching etcd from Debian"
  mkdir -p "$TOOLS/etcd"
  (cd "$TOOLS/etcd" && apt-get -qq download etcd-server && dpkg --extract etcd-server_*.deb . && rm etcd-server_*.deb)
}

# kube-apiserver and kubectl, as one program with two names. Kubernetes replaces its staging modules by local
# directories, which are not part of the module: replace them by their published versions.
kubernetes_tools() {
  local v=$KUBERNETES_VERSION dir module
  KUBE=$TOOLS/kubernetes-$v
  [ -x "$KUBE/kubectl" ] && return
  say "building kube-apiserver and kubectl $v (12 minutes of CPU time)"
  dir=$TOOLS/kubernetes-module
  rm -rf "$dir" "$KUBE" && mkdir -p "$dir" "$KUBE"
  cat >"$dir/main.go" <<'GO'
package main

import (
	"os"
	"strings"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if strings.HasSuffix(os.Args[0], "kubectl") {
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	}
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
GO
  module=$(module "k8s.io/kubernetes@$v")
  (
    cd "$dir" || exit
    cp "$module/go.mod" "$module/go.sum" .
    sed -i -E "s|^module .*|module kubernetes-for-tests|; s|(k8s.io/[a-z-]+) => ./staging.*|\1 => \1 v0${v#v1}|" go.mod
    go mod edit -require "k8s.io/kubernetes@$v"
    GOFLAGS="$GOFLAGS -mod=mod" go build -trimpath -o "$KUBE/kube-apiserver" -ldflags "-s -w \
      -X k8s.io/component-base/version.gitVersion=$v -X k8s.io/component-base/version.gitMajor=1 \
      -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$v")" .
  )
  ln -s kube-apiserver "$KUBE/kubectl"
}

# crds: the definitions of KEDA's and the Prometheus operator's resources, as YAML.
crds() {
  local keda operator
  keda=$(module "github.com/kedacore/keda/v2@$KEDA_VERSION")
  operator=$(module "github.com/prometheus-operator/prometheus-operator@$PROMETHEUS_OPERATOR_VERSION")
  CRDS="$keda/config/crd/bases/keda.sh_scaledobjects.yaml
    $operator/example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml
    $operator/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml
    $operator/example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"
}

#!/usr/bin/env bash
# usage: make/real/kubernetes.sh [DIR]
# A real Kubernetes API server with its store for `make test/real`, under DIR (default .real/kubernetes): kube-apiserver from the module proxy, etcd
# from Debian's package (unpacked, not installed). Needs Go, apt-get and dpkg-deb; ten minutes of CPU and 3 GB of build cache, once. What is there
# already is left alone. Nothing is started.
set -euo pipefail
cd "$(dirname "$0")/../.."
D=$(mkdir -p "${1:-.real/kubernetes}/bin" && cd "${1:-.real/kubernetes}" && pwd)
VERSION=1.36.3 STAGING=0.36.3
W=$(mktemp -d)
trap 'rm -rf "$W"' EXIT

if [ ! -x "$D/bin/etcd" ]; then
	(
		cd "$W"
		if ! apt-get download -q etcd-server >/dev/null 2>&1; then
			apt-get update -qq
			apt-get download -q etcd-server >/dev/null
		fi
		dpkg-deb -x etcd-server_*.deb etcd
		install -m 0755 etcd/usr/bin/etcd "$D/bin/etcd"
	)
fi

# The server's module replaces its parts by folders of its own repository; outside of it they are modules of the same release.
if [ ! -x "$D/bin/kube-apiserver" ]; then
	(
		mkdir "$W/apiserver" && cd "$W/apiserver"
		GOMOD=$(GOWORK=off go mod download -json "k8s.io/kubernetes@v$VERSION" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
		{
			printf 'module apiserver\n\ngo 1.26\n\ngodebug default=go1.26\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$VERSION"
			sed -nE "s#^[[:space:]]*(k8s.io/[a-z-]+) => ./staging.*#\t\1 => \1 v$STAGING#p" "$GOMOD"
			printf ')\n'
		} >go.mod
		printf '//go:build tools\n\npackage apiserver\n\nimport _ "k8s.io/kubernetes/cmd/kube-apiserver"\n' >tools.go
		printf 'package apiserver\n' >doc.go
		export GOWORK=off CGO_ENABLED=0
		nice -n 19 go mod tidy
		nice -n 19 go build -p "${BUILD_PARALLEL:-2}" -trimpath -ldflags '-s -w' -o "$D/bin/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
	)
fi
echo "ready: $D/bin/kube-apiserver, $D/bin/etcd; make test/real starts and ends both itself"

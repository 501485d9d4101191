#!/usr/bin/env bash
# usage: make/real/promtool.sh [DIR]
# Prometheus' promtool into DIR (default .real/promtool), from the module proxy and without service discovery, then what it says of the alert
# rules: `check rules`, and the unit tests in deploy/monitoring/alerts_test.yaml. Needs Go; minutes of CPU, once. With PROMTOOL=debian
# it is the older one of Debian's package (unpacked, not installed), at once.
set -euo pipefail
cd "$(dirname "$0")/../.."
D=$(mkdir -p "${1:-.real/promtool}/bin" && cd "${1:-.real/promtool}" && pwd)
VERSION=0.314.0

if [ ! -x "$D/bin/promtool" ]; then
	W=$(mktemp -d)
	trap 'rm -rf "$W"' EXIT
	(
		cd "$W"
		if [ "${PROMTOOL:-}" = debian ]; then
			if ! apt-get download -q prometheus >/dev/null 2>&1; then
				apt-get update -qq
				apt-get download -q prometheus >/dev/null
			fi
			dpkg-deb -x prometheus_*.deb prometheus
			install -m 0755 prometheus/usr/bin/promtool "$D/bin/promtool"
			exit 0
		fi
		export GOWORK=off CGO_ENABLED=0 GOFLAGS=-mod=mod
		go mod init promtool >/dev/null 2>&1
		go get "github.com/prometheus/prometheus/cmd/promtool@v$VERSION" >/dev/null 2>&1
		nice -n 19 go build -p "${BUILD_PARALLEL:-2}" -trimpath -ldflags '-s -w' -tags remove_all_sd -o "$D/bin/promtool" github.com/prometheus/prometheus/cmd/promtool
	)
fi
"$D/bin/promtool" check rules deploy/monitoring/alerts.yaml
"$D/bin/promtool" test rules deploy/monitoring/alerts_test.yaml

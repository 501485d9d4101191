#!/usr/bin/env bash
# Runs every fuzz target of the workspace for the given time.
set -euo pipefail
for_each=${1:-5s}
grep -rlE '^func Fuzz' --include='*_test.go' pkg services cmd integration | while read -r f; do
  for name in $(grep -oE '^func Fuzz[A-Za-z0-9_]+' "$f" | awk '{print $2}'); do
    echo "== $f $name"
    go test -run '^$' -fuzz "^$name\$" -fuzztime "$for_each" "./$(dirname "$f")"
  done
done

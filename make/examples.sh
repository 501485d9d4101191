#!/usr/bin/env bash
# Writes the expected canonical export of every example anew.
set -euo pipefail
for d in examples/*/; do
  tmp=$(mktemp -d)
  (cd "$d" && ../../bin/factmill run docs --schema schema.yaml --data "$tmp" >/dev/null && ../../bin/factmill export --canonical --data "$tmp" --output expected.jsonl.new && mv expected.jsonl.new expected.jsonl)
  rm -rf "$tmp"
  echo "$d: $(wc -l < "$d/expected.jsonl") rows"
done

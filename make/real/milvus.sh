#!/usr/bin/env bash
# usage: make/real/milvus.sh [up|down|stop|start] [DIR] [PORT]
# A real Milvus 2.3.5 for the conformance suite, under DIR (default .real/milvus), on 127.0.0.1:PORT (default 19630). Needs root, python3 with pip, Debian's
# socat, unshare and nsenter, curl; half a minute once. The server listens on every interface, so it gets a network namespace of its own and is
# bridged to the loopback. `up` begins with empty data; `down` ends what `up` started.
# `stop` kills the server as it is, and `start` starts it again with the data that it has; it returns when the server listens, which is long before it answers.
set -euo pipefail
cd "$(dirname "$0")/../.."
WHAT=${1:-up} D=$(mkdir -p "${2:-.real/milvus}" && cd "${2:-.real/milvus}" && pwd) PORT=${3:-19630}

down() {
	for f in "$D"/socat2.pid "$D"/socat1.pid "$D"/milvus.pid; do
		[ -e "$f" ] || continue
		P=$(cat "$f")
		kill "$P" 2>/dev/null || true
		for _ in $(seq 25); do kill -0 "$P" 2>/dev/null || break; sleep 0.2; done
		kill -9 "$P" 2>/dev/null || true
		rm -f "$f"
	done
}

if [ "$WHAT" = down ]; then
	down
	exit 0
fi

# serve starts the server and what bridges it.
serve() {
	unshare -n bash "$D/run/ns.sh" >>"$D/run/logs/out" 2>>"$D/run/logs/err" </dev/null &
	M=$!
	echo $M >"$D/milvus.pid"
	sleep 0.3
	nsenter -t $M -n socat "UNIX-LISTEN:$D/grpc.sock,fork,unlink-early" TCP:127.0.0.1:19530 >/dev/null 2>&1 </dev/null &
	echo $! >"$D/socat1.pid"
	socat "TCP-LISTEN:$PORT,bind=127.0.0.1,fork,reuseaddr" "UNIX-CONNECT:$D/grpc.sock" >/dev/null 2>&1 </dev/null &
	echo $! >"$D/socat2.pid"
}

case "$WHAT" in
stop)
	kill -9 "$(cat "$D/milvus.pid")"
	down
	exit 0
	;;
start)
	serve
	exit 0
	;;
esac

if ! command -v socat >/dev/null; then
	apt-get update -qq && apt-get install -y -qq socat >/dev/null
fi
if [ ! -x "$D/venv/bin/python" ] || [ ! -d "$D/venv/ok" ]; then
	python3 -m venv "$D/venv"
	"$D/venv/bin/pip" install -q milvus==2.3.5
	mkdir -p "$D/venv/ok"
fi
down
rm -rf "$D/run" && mkdir -p "$D/run/run" "$D/run/logs"
"$D/venv/bin/python" - "$D/run" <<'X'
# The package carries the server's binary and makes its configuration; nothing is started here.
import sys, milvus
s = milvus.MilvusServer(wait_for_started=False)
s.set_base_dir(sys.argv[1])
s.config.resolve()
milvus._initialize_data_files(sys.argv[1])
X
cat >"$D/run/ns.sh" <<X
ip link set lo up
cd $D/run
export LD_LIBRARY_PATH=$D/run/bin DEPLOY_MODE=STANDALONE METRICS_PORT=9091 MILVUS_RUN_DIR=$D/run/run
exec bin/milvus run standalone
X
serve
for _ in $(seq 600); do
	if nsenter -t $M -n curl -sf http://127.0.0.1:9091/healthz >/dev/null 2>&1; then
		echo "ready: FACTMILL_REAL_MILVUS=127.0.0.1:$PORT; make/real/milvus.sh down ends it"
		exit 0
	fi
	sleep 0.2
done
echo "Milvus is not healthy after two minutes: see $D/run/logs" >&2
down
exit 1

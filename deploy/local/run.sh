#!/usr/bin/env bash
# From a bare machine to a serving Tessera: installs what is missing, builds, starts the server (on the GPU where there
# is one, else on the CPU), embeds a page of real sentences with all-MiniLM-L6-v2 through it, prints the result and an
# excerpt of the metrics, and keeps serving until Ctrl-C.
#
#   deploy/local/run.sh [--once] [-- SERVER-FLAG...]
#
# --once stops the server after the job. TESSERA_PORT (default 7171) and TESSERA_METRICS_PORT (default 9171) choose the
# ports; 0 takes a free one. The server's log is build/local/server.log.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

keep_serving=true
while [ $# -gt 0 ]; do
  case "$1" in
    --once) keep_serving=false; shift ;;
    --) shift; break ;;
    *) echo "usage: $0 [--once] [-- SERVER-FLAG...]" >&2; exit 64 ;;
  esac
done

started=$SECONDS
deploy/local/setup.sh
echo "run: set-up took $((SECONDS - started)) s"

mkdir -p build/local
preset=cpu
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then preset=cuda; fi
started=$SECONDS
cmake --preset "$preset" -DTESSERA_REVISION="$(git rev-parse --short HEAD)" >build/local/cmake.log 2>&1 || {
  cat build/local/cmake.log >&2
  exit 1
}
grep 'Tessera:' build/local/cmake.log || true
cmake --build --preset "$preset" --target tessera-server tessera tessera-load
echo "run: the build took $((SECONDS - started)) s"
bin=build/$preset/bin

"$bin/tessera-server" --listen="127.0.0.1:${TESSERA_PORT:-7171}" \
  --metrics_address="127.0.0.1:${TESSERA_METRICS_PORT:-9171}" "$@" >build/local/serving.json 2>build/local/server.log &
server=$!
stop() {
  kill -TERM "$server" 2>/dev/null || true
  wait "$server" || true
}
trap stop EXIT

# The server says which ports it serves on in one line of JSON.
until grep -q '"serving"' build/local/serving.json; do
  kill -0 "$server" 2>/dev/null || { cat build/local/server.log >&2; exit 1; }
  sleep 0.05
done
port=$(sed -n 's/.*"grpc_port":\([0-9]*\).*/\1/p' build/local/serving.json)
metrics=http://127.0.0.1:$(sed -n 's/.*"metrics_port":\([0-9]*\).*/\1/p' build/local/serving.json)/metrics

"$bin/tessera" --target="127.0.0.1:$port" info
.venv/bin/python client/python/examples/minilm/main.py --target "127.0.0.1:$port" --metrics-url "$metrics"

echo
echo "Excerpt of $metrics:"
curl -s "$metrics" | grep -v ' 0$' | grep -E \
  '^(tessera_(batch_requests_(sum|count)|batches|tiles|flops|stage_seconds_(sum|count))|grpc_server_handled_total)' || true

if $keep_serving; then
  echo
  echo "Serving on 127.0.0.1:$port. Ctrl-C stops it."
  wait "$server"
fi

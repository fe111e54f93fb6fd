#!/usr/bin/env bash
# From a bare machine to a serving Tessera: installs what is missing, builds, starts the server (on the GPU where there
# is one, else on the CPU), embeds a page of real sentences with all-MiniLM-L6-v2 through it, prints the result and an
# excerpt of the metrics, and keeps serving until Ctrl-C.
#
#   deploy/local/run.sh [--once] [-- SERVER-FLAG...]
#
# --once stops the server after the job. Ports: TESSERA_PORT (default 7171), TESSERA_METRICS_PORT (default 9171).
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

port=${TESSERA_PORT:-7171}
metrics_port=${TESSERA_METRICS_PORT:-9171}

started=$SECONDS
deploy/local/setup.sh
echo "run: set-up took $((SECONDS - started)) s"

started=$SECONDS
preset=cpu
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then preset=cuda; fi
cmake --preset "$preset" -DTESSERA_REVISION="$(git rev-parse --short HEAD)" >"/tmp/tessera-cmake.$$" 2>&1 || {
  cat "/tmp/tessera-cmake.$$"; rm -f "/tmp/tessera-cmake.$$"; exit 1; }
grep 'Tessera:' "/tmp/tessera-cmake.$$" || true
rm -f "/tmp/tessera-cmake.$$"
cmake --build --preset "$preset" --target tessera-server tessera tessera-load
echo "run: build took $((SECONDS - started)) s"
bin=build/$preset/bin

"$bin/tessera-server" --listen="127.0.0.1:$port" --metrics-address="127.0.0.1:$metrics_port" "$@" &
server=$!
stop() {
  kill -TERM "$server" 2>/dev/null || true
  wait "$server" || true
}
trap stop EXIT
for _ in $(seq 100); do
  "$bin/tessera" --target="127.0.0.1:$port" health >/dev/null 2>&1 && break
  kill -0 "$server" 2>/dev/null || { echo "run: the server did not start" >&2; exit 1; }
  sleep 0.1
done

"$bin/tessera" --target="127.0.0.1:$port" info
.venv/bin/python client/python/examples/minilm/main.py --target "127.0.0.1:$port" \
  --metrics-url "http://127.0.0.1:$metrics_port/metrics"

echo
echo "Excerpt of http://127.0.0.1:$metrics_port/metrics:"
curl -s "http://127.0.0.1:$metrics_port/metrics" |
  grep -E '^tessera_(batch_requests_(sum|count)|batches_total|rejected_total|tiles_total|flops_total|stage_seconds_(sum|count)|inflight_bytes)|^grpc_server_handled_total' |
  grep -v -E ' 0$' || true

if $keep_serving; then
  echo
  echo "Serving on 127.0.0.1:$port. Ctrl-C stops it."
  wait "$server"
fi

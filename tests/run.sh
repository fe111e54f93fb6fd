#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test of the project. Needs no GPU and no network beyond the package
# registries; leaves no process behind.
#
#   tests/run.sh [STEP...]     default: every step, in this order
#     proto     lint of the protocol
#     includes  the include rules of docs/layers.md
#     unit      release build with the CUDA code compiled, all C++ tests
#     python    the Python client against a live server, types and lint
#     deploy    a real Prometheus against a server under load, the dashboard, manifests and other deployment files
#     go        the Go client: stubs up to date, format, vet, tests with the race detector against a live server
#     typescript  the TypeScript client: build, lint, tests against a live server
#     interop   grpcurl, ghz, old and new grpcio, gRPC's own health and reflection clients against a live server
#     job       the MiniLM job, once, through deploy/local/run.sh
#     asan      AddressSanitizer and UndefinedBehaviorSanitizer, all C++ tests
#     tsan      ThreadSanitizer, the tests that run threads
#     clang     clang build with lock annotations as errors, half a minute of fuzzing from the corpus, format
#   and, only where it is named:
#     java      the Java stubs and their golden vectors; needs a JDK 17 and Maven
#     tidy      clang-tidy over the sources that the clang step has built
#     image     builds the container image and runs it, as root; needs the unit step, takes minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-2}
# So that clones in different folders share what ccache holds.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

started=$SECONDS
deploy/local/setup.sh --test
echo "== set-up: $((SECONDS - started)) s"

quiet() {
  local log
  log=$(mktemp)
  "$@" >"$log" 2>&1 || { cat "$log"; rm -f "$log"; return 1; }
  grep -E 'Tessera:|warning:' "$log" || true
  rm -f "$log"
}

step_proto() { .tools/node_modules/.bin/buf lint proto; }

step_includes() { .venv/bin/python tests/includes/check.py; }

step_unit() {
  .venv/bin/python tests/golden/generate.py --check
  quiet cmake --preset cuda
  quiet cmake --build --preset cuda
  ctest --preset cuda
}

step_python() {
  TESSERA_SERVER=$PWD/build/cuda/bin/tessera-server .venv/bin/python -m pytest -q client/python/tests
  (cd client/python && ../../.venv/bin/python -m mypy --strict src && ../../.venv/bin/python -m ruff check .)
}

step_deploy() {
  deploy/local/setup.sh --deploy
  TESSERA_BIN=$PWD/build/cuda/bin .venv/bin/python -m pytest -q tests/deploy
  .venv/bin/python -m ruff check --config tests/deploy/ruff.toml tests/deploy deploy
}

step_image() {
  deploy/local/setup.sh --image
  TESSERA_BIN=$PWD/build/cuda/bin .venv/bin/python -m pytest -q -m image tests/deploy
}

# The server that the unit step has built.
live_server=${TESSERA_SERVER:-$PWD/build/cuda/bin/tessera-server}

step_go() {
  deploy/local/setup.sh --clients
  local stubs
  stubs=$(mktemp -d)
  (
    export TESSERA_SERVER=$live_server PATH=$PWD/.tools/go/root/bin:$PWD/.tools/go/bin:$PWD/.tools/node_modules/.bin:$PATH
    cd client/go
    buf generate --template buf.gen.yaml --output "$stubs" ../../proto
    diff -r "$stubs/tesserapb" tesserapb
    unformatted=$(gofmt -l .)
    [ -z "$unformatted" ] || { echo "not formatted: $unformatted"; exit 1; }
    go vet ./...
    go test -race -count=1 ./...
  )
  rm -rf "$stubs"
}

step_typescript() {
  deploy/local/setup.sh --clients
  (cd client/typescript && npm run --silent build && npm run --silent lint)
  TESSERA_SERVER=$live_server quiet npm test --prefix client/typescript
}

step_interop() {
  deploy/local/setup.sh --interop
  .venv/bin/python -m ruff check tests/interop
  TESSERA_SERVER=$live_server .tools/python/newest/bin/python -m pytest tests/interop
  local age
  for age in oldest newest; do
    TESSERA_SERVER=$live_server PYTHONPATH=client/python/src \
      ".tools/python/$age/bin/python" -m pytest client/python/tests/test_golden.py
  done
}

step_java() { TESSERA_SERVER=$live_server mvn --quiet --batch-mode --file client/java/pom.xml verify; }

step_job() { TESSERA_PORT=0 TESSERA_METRICS_PORT=0 deploy/local/run.sh --once; }

step_asan() {
  quiet cmake --preset asan
  quiet cmake --build --preset asan
  ctest --preset asan -LE slow
}

step_tsan() {
  quiet cmake --preset tsan
  quiet cmake --build --preset tsan
  ctest --preset tsan -LE slow
}

step_clang() {
  quiet cmake --preset thread-safety
  quiet cmake --build --preset thread-safety --target tessera-server tessera tessera-load
  quiet cmake --preset fuzz
  quiet cmake --build --preset fuzz --target codec_fuzzer
  local seeds
  seeds=$(mktemp -d)
  build/fuzz/bin/codec_fuzzer -max_total_time=30 -print_final_stats=1 "$seeds" proto/wire/fuzz/corpus 2>&1 | tail -n 8
  rm -rf "$seeds"
  git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-16 --dry-run --Werror
}

step_tidy() {
  # Of the sources, those that this build compiles: what needs CUDA is not among them.
  grep -o '"file": "[^"]*' build/thread-safety/compile_commands.json | sed "s|.*\"$PWD/||" |
    grep -E '^(kernels|server|client|proto)/' | grep -v -E '_test\.cc$|_bench\.cc$|/fuzz/' | sort -u |
    xargs -P "$(nproc)" -n 4 clang-tidy-16 -p build/thread-safety --quiet
}

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(proto includes unit python go typescript interop deploy job asan tsan clang)
for step in "${steps[@]}"; do
  echo "== $step"
  started=$SECONDS
  "step_$step"
  echo "== $step: $((SECONDS - started)) s"
done

#!/usr/bin/env bash
# Builds the CUDA kernels, checks them and measures them beside PyTorch, on a machine with a GPU. Needs nvcc 13, CMake,
# Abseil and a python3 that has PyTorch; no gRPC.
#
#   tests/gpu/run.sh [--unpacked FOLDER] [--out FOLDER] [--check-only] [--sanitize]
#
# --unpacked takes attention_check and libtessera_attention.so from FOLDER instead of building them.
# Writes check.log, bench.json and bench.md into --out, by default tests/gpu/results/latest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

out="$root/tests/gpu/results/latest"
unpacked=
check_only=false
sanitize=false
while [ $# -gt 0 ]; do
  case "$1" in
    --unpacked) unpacked=$(cd "$2" && pwd); shift ;;
    --out) out=$2; shift ;;
    --check-only) check_only=true ;;
    --sanitize) sanitize=true ;;
    *) echo "usage: $0 [--unpacked FOLDER] [--out FOLDER] [--check-only] [--sanitize]" >&2; exit 64 ;;
  esac
  shift
done
mkdir -p "$out"

if [ -n "$unpacked" ]; then
  binaries=$unpacked
  export LD_LIBRARY_PATH="$unpacked${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
else
  cmake -S "$root/tests/gpu/standalone" -B "$root/build/gpu" -G Ninja -DCMAKE_BUILD_TYPE=Release
  cmake --build "$root/build/gpu"
  binaries="$root/build/gpu/bin"
fi

# A kernel that hangs must not hold the machine.
for family in sm90a sm80 standard; do
  timeout 120 "$binaries/attention_check" "--family=$family" | tee "$out/check_$family.log"
done
if $sanitize; then
  for tool in memcheck racecheck; do
    timeout 300 compute-sanitizer --tool "$tool" --error-exitcode 1 "$binaries/attention_check" --small --cases=6 --seed=1 |
      tee "$out/$tool.log"
  done
fi
$check_only && exit 0
timeout 300 python3 "$root/tests/gpu/bench.py" "$binaries/libtessera_attention.so" --json "$out/bench.json" |
  tee "$out/bench.md"

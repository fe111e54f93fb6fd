#!/usr/bin/env bash
# Builds the CUDA kernels, checks them and measures them beside PyTorch, on a machine with a GPU. Needs nvcc 13, CMake,
# Abseil, GoogleTest and a python3 that has PyTorch; no gRPC.
#
#   tests/gpu/run.sh [--unpacked FOLDER] [--out FOLDER] [STEP...]     default: every step, in this order
#     instructions  tests of the instruction wrappers, tile layouts and tensor maps
#     check         attention_check, every kernel family; paged_check; which instructions the kernels consist of
#     sanitize      compute-sanitizer over the first and small cases of the second
#     bench         beside PyTorch's cuDNN and FlashAttention-2
#     decode        decoding over pages beside the same over contiguous K and V
#     article       standard attention against tiled, causal against full
#     traffic       the traffic model beside the hardware's counters
#
# --unpacked takes the programs from FOLDER instead of building them; a file `commit` there names what they were built from.
# Logs, JSON and Markdown go into --out, by default tests/gpu/results/latest.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

out="$here/results/latest"
unpacked=
steps=()
while [ $# -gt 0 ]; do
  case "$1" in
    --unpacked) unpacked=$(cd "$2" && pwd); shift ;;
    --out) out=$2; shift ;;
    instructions | check | sanitize | bench | decode | article | traffic) steps+=("$1") ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 64 ;;
  esac
  shift
done
[ ${#steps[@]} -gt 0 ] || steps=(instructions check sanitize bench decode article traffic)
mkdir -p "$out"

if [ -n "$unpacked" ]; then
  bin=$unpacked
  commit=$(cat "$unpacked/commit")
else
  cmake -S "$here/standalone" -B "$root/build/gpu" -G Ninja -DCMAKE_BUILD_TYPE=Release
  cmake --build "$root/build/gpu"
  bin="$root/build/gpu/bin"
  commit=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
fi
export LD_LIBRARY_PATH="$bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
echo "$(date -u +%F), commit $commit, $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader |
  head -n 1 | sed 's/, /, driver /')" | tee "$out/machine.txt"

# Runs the given command lines beside each other, each into a log of $out (their first word), and prints the logs; fails
# where one of them fails. A kernel that hangs must not hold the machine: each has 240 s.
together() {
  local line name failed=0 pids=()
  for line in "$@"; do
    name=${line%% *}
    # shellcheck disable=SC2086
    timeout 240 ${line#* } >"$out/$name.log" 2>&1 &
    pids+=($!)
  done
  for line in "$@"; do
    name=${line%% *}
    wait "${pids[0]}" || { echo "$name failed with status $?"; failed=1; }
    pids=("${pids[@]:1}")
    tail -n 20 "$out/$name.log"
  done
  return $failed
}

step_instructions() {
  together "instructions_test $bin/cuda_instructions_test"
}

step_check() {
  together "check_sm90a $bin/attention_check --family=sm90a" \
    "check_sm80 $bin/attention_check --family=sm80" \
    "check_standard $bin/attention_check --family=standard" \
    "check_paged $bin/paged_check" \
    "sass python3 $here/instructions.py $bin/attention_check $bin/paged_check"
}

step_sanitize() {
  local tool="compute-sanitizer --error-exitcode 1 --tool" small="$bin/attention_check --small --seed=1"
  together "memcheck_instructions $tool memcheck $bin/cuda_instructions_test" \
    "memcheck_sm90a $tool memcheck $small --cases=8 --family=sm90a" \
    "memcheck_sm80 $tool memcheck $small --cases=12 --family=sm80" \
    "memcheck_standard $tool memcheck $small --cases=8 --family=standard" \
    "memcheck_paged $tool memcheck $bin/paged_check --small --seed=1 --cases=24" \
    "racecheck_paged $tool racecheck $bin/paged_check --small --seed=1 --cases=6" \
    "racecheck_sm90a $tool racecheck $small --cases=3 --family=sm90a" \
    "racecheck_sm80 $tool racecheck $small --cases=3 --family=sm80" \
    "racecheck_standard $tool racecheck $small --cases=1 --family=standard"
}

measure() {
  timeout 300 python3 "$here/$1.py" "$2" --json "$out/$1.json" | tee "$out/$1.md"
}
step_bench() { measure bench "$bin/libtessera_attention.so"; }
step_decode() { measure decode "$bin/libtessera_attention.so"; }
step_article() { measure article "$bin/libtessera_attention.so"; }
step_traffic() { measure traffic "$bin/attention_profile"; }

failed=()
for step in "${steps[@]}"; do
  echo "== $step"
  started=$SECONDS
  "step_$step" || failed+=("$step")
  echo "== $step: $((SECONDS - started)) s"
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}"
  exit 1
fi

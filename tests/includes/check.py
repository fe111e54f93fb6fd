"""Checks the include rules: which folder may include what. docs/layers.md explains them.

Every source folder has an entry in RULES; an include of the project, or of a library named in LIBRARIES, that its entry
does not allow is an error, as is a source file that no entry covers. Standard and system headers are free.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Prefixes of third-party includes, by the name that the rules use.
LIBRARIES = {
    "absl/": "absl",
    "grpc": "grpc",
    "google/protobuf/": "proto",
    "google/rpc/": "proto",
    "tessera/v1/": "proto",
    "prometheus/": "prometheus",
    "civetweb.h": "prometheus",
    "hwy/": "highway",
    "cuda": "cuda",
    "spdlog/": "spdlog",
    "nlohmann/": "json",
    "gtest/": "gtest",
    "gmock/": "gtest",
    "benchmark/": "benchmark",
    "cblas.h": "blas",
}

# Longest matching folder wins. Each may also include itself. Tests and benches may add gtest, benchmark and the
# backends that they compare with.
RULES = {
    "proto/wire": {"absl", "grpc", "proto"},
    "kernels": {"absl"},
    "kernels/reference": {"absl", "kernels/*.h"},
    "kernels/standard": {"absl", "highway", "kernels/*.h", "kernels/cpu"},
    "kernels/cpu": {"absl", "highway", "kernels/*.h"},
    "kernels/cuda": {"absl", "cuda", "kernels/*.h"},
    "kernels/cuda/ptx": {"cuda"},
    "kernels/cuda/tile": {"cuda", "kernels/cuda/ptx"},
    "server/clock": {"absl"},
    "server/memory": {"absl", "server/clock"},
    "server/scheduler": {"absl", "server/clock", "server/cache"},
    "server/request": {"absl", "kernels/*.h", "server/memory", "server/scheduler"},
    "server/device": {"absl", "kernels/*.h", "kernels/cpu", "server/clock", "server/memory"},
    "server/device/cuda": {"absl", "cuda", "kernels/*.h", "kernels/cuda", "server/device", "server/memory"},
    "server/engine": {"absl", "kernels/*.h", "server/clock", "server/memory", "server/scheduler", "server/request", "server/device"},
    "server/metrics": {"absl", "prometheus"},
    "server/rpc": {"absl", "grpc", "proto", "proto/wire", "kernels/*.h", "server/clock", "server/memory", "server/scheduler", "server/request", "server/metrics"},
    "server": {"*"},
    "client/cpp/tessera": {"absl", "grpc", "proto", "proto/wire"},
    "client/cpp/flags": set(),
    "client/cpp/cli": {"absl", "grpc", "proto", "client/cpp/flags", "client/cpp/tessera"},
    "client/cpp/load": {"absl", "grpc", "proto", "proto/wire", "json", "client/cpp/flags", "client/cpp/tessera"},
    "tests": {"*"},
}
TEST_FILE = re.compile(r"(_test|_bench|_fuzz)\.(cc|h|cu)$|_test_|/fuzz/|/testing/")
TEST_EXTRA = {"gtest", "benchmark", "blas", "highway", "json"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def source_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if re.search(r"\.(h|cc|cu|cuh)$", name)]


def rule_for(name: str) -> str | None:
    folders = [folder for folder in RULES if name.startswith(folder + "/")]
    return max(folders, key=len) if folders else None


def allowed(include: str, folder: str, rules: set[str], test: bool) -> bool:
    if "*" in rules or include.startswith(folder + "/"):
        return True
    first = include.split("/")[0]
    if first in {"kernels", "server", "client", "tests"} or include.startswith("proto/"):
        parent = include.rsplit("/", 1)[0]
        if parent == "kernels" and "kernels/*.h" in rules:
            return True
        if test and parent == "tests/random":
            return True
        if test and folder.startswith("kernels") and first == "kernels":
            return True
        return any(include.startswith(rule + "/") for rule in rules)
    for prefix, library in LIBRARIES.items():
        if include.startswith(prefix):
            return library in rules or (test and library in TEST_EXTRA)
    return True


def main() -> int:
    errors = []
    files = source_files()
    for name in files:
        folder = rule_for(name)
        if folder is None:
            errors.append(f"{name}: no include rule covers this folder")
            continue
        test = bool(TEST_FILE.search(name))
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match and not allowed(match[1], folder, RULES[folder], test):
                errors.append(f"{name}:{number}: {folder}/ may not include {match[1]}")
    for error in errors:
        print(error)
    print(f"{len(files)} files, {len(errors)} broken include rules")
    return 1 if errors or not files else 0


if __name__ == "__main__":
    sys.exit(main())

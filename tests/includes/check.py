"""Checks the include rules: which folder may include what. docs/layers.md explains them.

Every source folder has an entry in RULES; an include of the project, or of a library named in LIBRARIES, that its entry
does not allow is an error, as are a quoted include of neither, a source file that no entry covers, and Abseil in a
kernel that nvcc compiles. Standard and system headers, in angle brackets, are free.
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
    "openssl/": "openssl",
}

# The longest matching folder's entry counts, for the file that includes as for the one that is included: an entry does
# not reach into folders that have one of their own. Each may also include itself. Tests, their fakes and benches may add
# gtest, benchmark, the backends that they compare with, and what is in their own folder's testing/.
RULES = {
    "proto/wire": {"absl", "grpc", "proto"},
    "kernels": {"absl"},
    "kernels/reference": {"absl", "kernels"},
    "kernels/standard": {"absl", "highway", "kernels", "kernels/cpu"},
    "kernels/cpu": {"absl", "highway", "kernels"},
    "kernels/testing": {"absl", "kernels", "kernels/reference"},
    "kernels/cuda": {"absl", "cuda", "kernels", "kernels/cuda/ptx", "kernels/cuda/tile"},
    "kernels/cuda/ptx": {"cuda"},
    "kernels/cuda/tile": {"cuda", "kernels/cuda/ptx"},
    "server/clock": {"absl"},
    "server/cache": {"absl", "server/clock"},
    "server/credentials": {"absl", "openssl"},
    "server/process": {"absl", "grpc", "json", "proto", "server/clock", "spdlog"},
    "server/memory": {"absl", "server/clock"},
    "server/region": {"absl"},
    "server/scheduler": {"absl", "server/clock"},
    "server/request": {"absl", "kernels", "server/cache", "server/clock", "server/memory", "server/scheduler"},
    "server/device": {"absl", "kernels", "server/clock", "server/memory", "server/region"},
    "server/device/cuda": {"absl", "cuda", "kernels", "kernels/cuda", "server/device", "server/memory", "server/region"},
    "server/device/cuda/testing": {"absl", "kernels", "kernels/cpu", "kernels/cuda", "server/device", "server/device/cuda", "server/memory"},
    "server/engine": {"absl", "kernels", "server/clock", "server/memory", "server/scheduler", "server/request", "server/device"},
    "server/metrics": {"absl", "prometheus"},
    "server/rpc": {"absl", "grpc", "proto", "proto/wire", "kernels", "server/cache", "server/clock", "server/credentials", "server/memory", "server/region", "server/scheduler", "server/request", "server/metrics"},
    "server/config": {"absl", "kernels", "server/engine", "server/memory", "server/process", "server/region", "server/request", "server/rpc", "server/scheduler"},
    "server": {"*"},
    "client/cpp/tessera": {"absl", "grpc", "proto", "proto/wire"},
    "client/cpp/flags": {"absl", "client/cpp/tessera"},
    "client/cpp/cli": {"absl", "grpc", "proto", "client/cpp/flags", "client/cpp/tessera"},
    "client/cpp/load": {"absl", "grpc", "proto", "proto/wire", "json", "client/cpp/flags", "client/cpp/tessera"},
    "tests": {"*"},
}
TEST_FILE = re.compile(r"(_test|_bench|_fuzz)\.(cc|h|cu)$|_test_|/fake_|/fuzz/|/testing/")
TEST_EXTRA = {"gtest", "benchmark", "blas", "highway", "json"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def source_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if re.search(r"\.(h|cc|cu|cuh)$", name)]


def rule_for(name: str) -> str | None:
    folders = [folder for folder in RULES if name.startswith(folder + "/")]
    folder = max(folders, key=len, default=None)
    # All of server is open to the files that assemble it, but not to a folder that has been given no entry.
    return None if folder == "server" and name.count("/") > 1 else folder


def includes(name: str) -> list[tuple[int, str, bool]]:
    """(line, path, in quotes) of each include of a file. Quotes are for the project and its libraries."""
    found = []
    for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
        if match := INCLUDE.match(line):
            found.append((number, match[2], match[1] == '"'))
    return found


def allowed(include: str, quoted: bool, folder: str, rules: set[str], test: bool) -> bool:
    if "*" in rules:
        return True
    first = include.split("/")[0]
    if first in {"kernels", "server", "client", "tests", "proto"}:
        if test and include.startswith("tests/random/"):
            return True
        if test and folder.startswith(("kernels", "server/device")) and first == "kernels":
            return True
        target = rule_for(include)
        return target == folder or target in rules or (test and target == folder + "/testing")
    for prefix, library in LIBRARIES.items():
        if include.startswith(prefix):
            return library in rules or (test and library in TEST_EXTRA)
    return not quoted


def abseil_below(name: str, files: set[str]) -> str | None:
    """A file that `name` includes, at any depth, and that includes Abseil."""
    seen, ahead = {name}, [name]
    while ahead:
        file = ahead.pop()
        for _, include, _ in includes(file):
            if include.startswith("absl/"):
                return file
            if include in files and include not in seen:
                seen.add(include)
                ahead.append(include)
    return None


def main() -> int:
    errors = []
    files = source_files()
    for name in files:
        folder = rule_for(name)
        if folder is None:
            errors.append(f"{name}: no include rule covers this folder")
            continue
        test = bool(TEST_FILE.search(name))
        for number, include, quoted in includes(name):
            if not allowed(include, quoted, folder, RULES[folder], test):
                errors.append(f"{name}:{number}: {folder}/ may not include {include}")
        if name.startswith("kernels/") and name.endswith(".cu") and (culprit := abseil_below(name, set(files))):
            errors.append(f"{name}: nvcc compiles it, but {culprit} includes Abseil")
    for error in errors:
        print(error)
    print(f"{len(files)} files, {len(errors)} broken include rules")
    return 1 if errors or not files else 0


if __name__ == "__main__":
    sys.exit(main())

"""Generates tessera.v1 from the repository's proto/ when the package is built or installed, editable or not."""

from __future__ import annotations

import importlib.resources
from pathlib import Path

from setuptools import setup
from setuptools.command.egg_info import egg_info

HERE = Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
SOURCE = HERE / "src"
STUBS = SOURCE / "tessera" / "v1"


def generate_stubs() -> None:
    """Writes src/tessera/v1. Without the repository around (in a source distribution) the stubs are already there."""
    if not PROTO.is_dir():
        if not (STUBS / "attention_pb2.py").is_file():
            raise SystemExit(f"neither {PROTO} nor generated stubs in {STUBS}")
        return
    from grpc_tools import protoc

    STUBS.mkdir(parents=True, exist_ok=True)
    (STUBS / "__init__.py").write_text('"""Messages of the protocol, generated from proto/tessera/v1."""\n')
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    files = sorted(str(path) for path in (PROTO / "tessera" / "v1").glob("*.proto"))
    outputs = [f"--python_out={SOURCE}", f"--pyi_out={SOURCE}"]
    if protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", *outputs, *files]) != 0:
        raise SystemExit("protoc failed")


class EggInfoWithStubs(egg_info):
    """Every way to build or install runs egg_info first, and it already wants the packages' folders."""

    def run(self) -> None:
        generate_stubs()
        super().run()


setup(cmdclass={"egg_info": EggInfoWithStubs})

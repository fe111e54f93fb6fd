"""Certificates made on the spot by the program openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class Pair:
    certificate: Path
    private_key: Path

    def replace(self, other: Pair) -> None:
        """Puts the other's contents into this one's files, each in one step."""
        for mine, new in ((self.certificate, other.certificate), (self.private_key, other.private_key)):
            replace(mine, new.read_text())


class Authority:
    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self._folder = folder
        self._issued = 0
        self.certificate = folder / "ca.crt"
        _openssl("req", "-x509", *_NEW_KEY, "-days", "1", "-subj", f"/CN={name}",
                 "-keyout", folder / "ca.key", "-out", self.certificate)  # fmt: skip

    def issue(self) -> Pair:
        """For 127.0.0.1, good for servers and clients."""
        self._issued += 1
        request, extensions = self._folder / "request", self._folder / "extensions"
        pair = Pair(self._folder / f"{self._issued}.crt", self._folder / f"{self._issued}.key")
        extensions.write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        _openssl("req", "-new", *_NEW_KEY, "-subj", "/CN=test", "-keyout", pair.private_key, "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._folder / "ca.key",
                 "-CAcreateserial", "-days", "1", "-extfile", extensions, "-out", pair.certificate)  # fmt: skip
        return pair


def replace(path: Path, contents: str) -> None:
    """In one step."""
    new = path.with_name(path.name + ".new")
    new.write_text(contents)
    new.rename(path)


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

"""Both clients against a server that asks for certificates and tokens."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import tessera
from certificates import Authority, Pair, replace
from live_server import LiveServer
from tessera.connections import Connections
from test_client import TRANSPORTS

Q = np.ones((4, 2, 16), np.float32)


def token_line(tenant: str, token: str) -> str:
    return f"{tenant} {hashlib.sha256(token.encode()).hexdigest()}\n"


class Secured:
    """A server that knows the tenant "ours" by the token "old", with its files and those of its clients."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.authority = Authority(folder / "authority", "test CA")
        self.other_authority = Authority(folder / "other", "another test CA")
        self.pair = Pair(folder / "server.crt", folder / "server.key")
        self.pair.replace(self.authority.issue())
        self.client_ca = folder / "client_ca.crt"
        shutil.copy(self.authority.certificate, self.client_ca)
        self.tokens = folder / "tokens"
        self.tokens.write_text(token_line("ours", "old"))
        self.own = Pair(folder / "own.crt", folder / "own.key")
        self.own.replace(self.authority.issue())
        self.roots = folder / "roots.crt"
        shutil.copy(self.authority.certificate, self.roots)
        self.token = folder / "token"
        self.token.write_text("old\n")
        self.process = LiveServer(
            binary,
            f"--tls_certificate={self.pair.certificate}",
            f"--tls_private_key={self.pair.private_key}",
            f"--tls_client_ca={self.client_ca}",
            f"--token_file={self.tokens}",
        )
        self.target = self.process.target

    def tls(self, **changes: Any) -> tessera.Tls:
        files = {"ca": self.roots, "certificate": self.own.certificate, "private_key": self.own.private_key}
        return tessera.Tls(**(files | changes))

    def client(self, **settings: Any) -> tessera.Client:
        mine: dict[str, Any] = {"tls": self.tls(), "token_file": self.token}
        return tessera.Client(self.target, **(mine | settings))

    def await_taken(self, kind: str, times: int) -> None:
        """Until the server has taken changed files so often."""
        sample = f'tessera_credential_reloads_total{{kind="{kind}",result="taken"}} {times}'
        wait_until(lambda: sample in urllib.request.urlopen(self.process.metrics_url).read().decode())


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def secured(server_binary: str, tmp_path: Path) -> Iterator[Secured]:
    made = Secured(server_binary, tmp_path)
    with made.process:
        yield made


@TRANSPORTS
def test_both_clients_call(secured: Secured, transport: dict[str, Any]) -> None:
    with secured.client(**transport) as client:
        np.testing.assert_allclose(client.attend(Q, Q, Q).o, Q, rtol=1e-5)

    async def scenario() -> None:
        async with tessera.AsyncClient(secured.target, tls=secured.tls(), token="old", **transport) as client:
            np.testing.assert_allclose((await client.attend(Q, Q, Q)).o, Q, rtol=1e-5)

    asyncio.run(scenario())


@TRANSPORTS
def test_refusals_say_why(secured: Secured, transport: dict[str, Any]) -> None:
    for settings, error in (
        ({"token_file": None}, tessera.UnauthenticatedError),
        ({"token_file": None, "token": "unknown"}, tessera.UnauthenticatedError),
        ({"tenant": "theirs"}, tessera.PermissionDeniedError),
        ({"tls": secured.tls(ca=secured.other_authority.certificate), "timeout": 3.0}, tessera.Error),
        ({"tls": secured.tls(certificate=None, private_key=None), "timeout": 3.0}, tessera.Error),
    ):
        with secured.client(**settings, **transport) as client, pytest.raises(error) as raised:
            client.attend(Q, Q, Q)
        assert isinstance(
            raised.value,
            (
                tessera.UnauthenticatedError,
                tessera.PermissionDeniedError,
                tessera.UnavailableError,
                tessera.DeadlineExceededError,
            ),
        )


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("secret secret")
    for settings in (
        {"token": "secret"},
        {"tls": True, "token": "secret", "token_file": bad},
        {"tls": True, "token": "secret secret"},
        {"tls": True, "token_file": bad},
        {"tls": True, "token_file": tmp_path / "none"},
        {"tls": tessera.Tls(ca=bad)},
        {"tls": tessera.Tls(ca=tmp_path / "none")},
        {"tls": True, "credentials": grpc.ssl_channel_credentials()},
    ):
        for make in (tessera.Client, tessera.AsyncClient):
            with pytest.raises(ValueError, match=r"token|PEM|read|exclude") as raised:
                make("localhost:1", **settings)
            assert "secret" not in str(raised.value)
    with pytest.raises(ValueError, match="go together"):
        tessera.Tls(certificate=bad)


def test_certificate_and_key_are_of_one_pair(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority", "test CA")
    own, other = authority.issue(), authority.issue()
    for make in (tessera.Client, tessera.AsyncClient, tessera.RegionSession):
        with pytest.raises(ValueError, match="is no key of"):
            make("localhost:1", tls=tessera.Tls(certificate=own.certificate, private_key=other.private_key))
    tessera.Client("localhost:1", tls=tessera.Tls(certificate=own.certificate, private_key=own.private_key)).close()


class Load:
    """Calls of one client without a pause until the block is left, none of which may fail."""

    def __init__(self, client: tessera.Client) -> None:
        self._client = client
        self._stop = threading.Event()
        self._calls = 0
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._client.attend(Q, Q, Q)
                self._calls += 1
        except BaseException as failure:
            self._failure = failure

    def await_call(self) -> None:
        before = self._calls
        wait_until(lambda: self._failure is not None or self._calls > before + 1)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._failure is None


@TRANSPORTS
def test_certificates_rotate_without_a_failed_call(secured: Secured, transport: dict[str, Any]) -> None:
    both = secured.authority.certificate.read_text() + secured.other_authority.certificate.read_text()
    replace(secured.client_ca, both)
    replace(secured.roots, both)
    secured.await_taken("certificate", 1)
    old = Pair(secured.own.certificate.with_name("old.crt"), secured.own.private_key.with_name("old.key"))
    old.replace(secured.own)
    old_tls = secured.tls(certificate=old.certificate, private_key=old.private_key)
    with secured.client(**transport) as client, Load(client) as load:
        secured.pair.replace(secured.other_authority.issue())
        secured.own.replace(secured.other_authority.issue())
        secured.await_taken("certificate", 2)
        load.await_call()
        replace(secured.client_ca, secured.other_authority.certificate.read_text())
        secured.await_taken("certificate", 3)

        def refused() -> bool:
            with secured.client(tls=old_tls, timeout=3.0) as strange:
                try:
                    strange.server_info()
                except tessera.Error:
                    return True
                return False

        wait_until(refused)
        load.await_call()
        # The client connects anew with the new certificate once it has looked, which the server asks for by now.
        with secured.client() as newcomer:
            newcomer.server_info()


def test_token_rotates_without_a_failed_call(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tessera.security.LOOK_SECONDS", 0.0)
    with secured.client() as client, Load(client) as load:
        replace(secured.tokens, token_line("ours", "old") + token_line("ours", "new"))
        secured.await_taken("tokens", 1)
        replace(secured.token, "new\n")
        load.await_call()
        replace(secured.tokens, token_line("ours", "new"))
        secured.await_taken("tokens", 2)
        load.await_call()


class TestConnections:
    """Channels are numbers here."""

    @staticmethod
    def make(monkeypatch: pytest.MonkeyPatch) -> tuple[Connections[int], dict[str, Any]]:
        files: dict[str, Any] = {"stamp": 0, "good": True}

        def connect() -> list[int]:
            if not files["good"]:
                raise ValueError
            return [10 * files["stamp"], 10 * files["stamp"] + 1]

        monkeypatch.setattr("tessera.connections.LOOK_SECONDS", 0.0)
        return Connections(connect, lambda: files["stamp"]), files

    def test_calls_that_begin_after_a_change_get_new_channels(self, monkeypatch: pytest.MonkeyPatch) -> None:
        connections, files = self.make(monkeypatch)
        first, second = connections.take(), connections.take()
        assert first is second
        assert first.channels == [0, 1]
        files["stamp"] = 1
        third = connections.take()
        assert third.channels == [10, 11]
        assert connections.all() == [0, 1, 10, 11]
        connections.give_back(first)
        assert connections.idle() == []
        connections.give_back(second)
        assert connections.idle() == [0, 1]
        assert connections.idle() == []
        connections.give_back(third)
        assert connections.idle() == []
        assert connections.all() == [10, 11]

    def test_bad_files_leave_the_old_channels(self, monkeypatch: pytest.MonkeyPatch) -> None:
        connections, files = self.make(monkeypatch)
        files.update(stamp=1, good=False)
        assert connections.take().channels == [0, 1]
        files["good"] = True
        assert connections.take().channels == [10, 11]

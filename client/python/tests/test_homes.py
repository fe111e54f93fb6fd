"""Sequences whose server is not the one that is asked: three real servers that know each other."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

import tessera
from live_server import LiveServer
from tessera.homes import NO_SERVER_ID, Homes, server_id

PROFILE = "name=small,layers=1,kv_heads=1,head_dim=16,dtype=float32,page_tokens=8,pages=64"
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


def free_address(host: str) -> str:
    with socket.socket() as held:
        held.bind((host, 0))
        return f"{host}:{held.getsockname()[1]}"


@pytest.fixture(scope="module")
def servers(server_binary: str) -> Iterator[list[LiveServer]]:
    addresses = [free_address(host) for host in HOSTS]
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                LiveServer(
                    server_binary,
                    f"--kv_profiles={PROFILE}",
                    f"--advertise={address}",
                    f"--peers={','.join(addresses)}",
                    listen=address,
                )
            )
            for address in addresses
        ]


def append(sequence: tessera.ResidentSequence, value: float) -> float:
    """Appends a row of `value`; the mean of all rows so far, which a query of zeros comes to."""
    row = np.full((1, 1, 16), value, np.float32)
    return float(sequence.extend(0, np.zeros_like(row), row, row)[0, 0, 0])


def kept(server: LiveServer) -> int:
    with urllib.request.urlopen(server.metrics_url, timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("tessera_kv_sequences{"):
                return int(float(line.rpartition(" ")[2]))
    raise AssertionError("no tessera_kv_sequences")


def test_ids_are_fnv1a() -> None:
    assert server_id("a").hex() == "8cec01864cdc63af"
    assert server_id("foobar").hex() == "e86739f771419485"


def test_a_handle_is_taken_up_through_any_server(servers: list[LiveServer]) -> None:
    with tessera.Client(servers[2].target) as maker:
        made = maker.create_sequences("small")[0]
        assert made.handle.startswith(server_id(servers[2].target))
        assert append(made, 1) == 1
        with tessera.Client(servers[0].target) as client, client.attach_sequence(made.handle) as sequence:
            assert sequence.profile == made.profile
            assert append(sequence, 2) == 1.5
            with sequence.fork() as fork:
                assert append(fork, 3) == 2
                assert kept(servers[2]) == 2
                assert kept(servers[0]) == 0
            sequence.truncate(1)
            assert sequence.info().lengths == [1]
            here = client.create_sequences("small")[0]
            rows = np.zeros((1, 1, 16), np.float32)
            with pytest.raises(ValueError, match="one server"):
                client.extend([tessera.Step(each, 0, rows) for each in (here, sequence)])
            with client.extend_stream(sequence) as stream:
                assert stream.submit([tessera.Step(sequence, 0, rows, rows, rows)]).result().lengths == [2]
            with client.extend_stream() as stream:
                error = stream.submit([tessera.Step(sequence, 0, rows)]).exception()
                assert isinstance(error, tessera.NotFoundError)
                assert error.redirect == servers[2].target
            here.release()
        assert kept(servers[2]) == 0
        with pytest.raises(tessera.NotFoundError):
            made.info()


@pytest.mark.parametrize("first", ["info", "extend", "truncate", "fork", "release"])
def test_every_call_follows_a_redirect(servers: list[LiveServer], first: str) -> None:
    with tessera.Client(servers[1].target) as maker, tessera.Client(servers[0].target) as client:
        made = maker.create_sequences("small")[0]
        assert append(made, 1) == 1
        sequence = tessera.ResidentSequence(client, made.handle, made.profile)
        if first == "extend":
            assert append(sequence, 3) == 2
        elif first == "truncate":
            sequence.truncate(0)
        elif first == "fork":
            sequence.fork().release()
        elif first == "info":
            assert sequence.info().lengths == [1]
        sequence.release()
        assert kept(servers[1]) == 0


def test_sequences_are_spread_by_every_address(servers: list[LiveServer]) -> None:
    target = f"ipv4:{','.join(server.target for server in servers)}"
    with tessera.Client(target, every_address=True, connections=1) as client:
        # Until all are connected, those that are have all of them.
        sequences: list[tessera.ResidentSequence] = []
        while not all(kept(server) for server in servers):
            sequences += client.create_sequences("small")
        before = [kept(server) for server in servers]
        sequences += [client.create_sequences("small")[0] for _ in range(60)]
        assert all(12 <= kept(server) - one <= 28 for server, one in zip(servers, before))
        for round in range(1, 4):
            for number, sequence in enumerate(sequences):
                assert append(sequence, number) == pytest.approx(number)
                assert sequence.info().lengths == [round]
        for sequence in sequences:
            sequence.release()
    assert [kept(server) for server in servers] == [0, 0, 0]


def test_servers_without_a_name_keep_no_sequences_for_every_address(server_binary: str) -> None:
    with LiveServer(server_binary, f"--kv_profiles={PROFILE}") as server:
        with tessera.Client(server.target) as client, client.create_sequences("small")[0] as sequence:
            assert sequence.handle.startswith(NO_SERVER_ID)
        with (
            tessera.Client(server.target, every_address=True) as client,
            pytest.raises(tessera.FailedPreconditionError, match="every_address"),
        ):
            client.create_sequences("small")


class Connection:
    def __init__(self, address: str) -> None:
        self.address = address
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_a_redirect_names_a_host_and_a_port() -> None:
    homes = Homes(Connection)
    for wrong in ("", "host", "unix:path", "dns:///host:1", "a:1,b:1", "host:1x", "a b:1"):
        with pytest.raises(tessera.InternalError):
            homes.follow(wrong)
    homes.follow("host:1")
    found = homes.of(server_id("host:1") + bytes(24))
    assert found is not None
    homes.follow("host:1")
    assert homes.of(server_id("host:1")) is found
    homes.close()
    assert found.closed
    with pytest.raises(tessera.CancelledError):
        homes.follow("host:2")

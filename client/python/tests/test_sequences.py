"""Resident sequences against the real server, every answer against the definition in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import reference
import tessera
from live_server import LiveServer
from tessera.v1 import attention_pb2, tensor_pb2

LAYERS, KV_HEADS, Q_HEADS, HEAD_DIM = 2, 2, 6, 16
PROFILE = f"name=small,layers={LAYERS},kv_heads={KV_HEADS},head_dim={HEAD_DIM},dtype=float32,page_tokens=8,pages=24"


@pytest.fixture(scope="module")
def keeper(server_binary: str) -> Iterator[LiveServer]:
    with LiveServer(server_binary, f"--kv_profiles={PROFILE}") as started:
        yield started


def test_the_server_lists_its_profiles(keeper: LiveServer) -> None:
    with tessera.Client(keeper.target) as client:
        (profile,) = client.server_info().cache_profiles
    assert (profile.name, profile.layers, profile.kv_heads, profile.pages) == ("small", LAYERS, KV_HEADS, 24)


class Local:
    """The rows of a sequence, kept here as well."""

    def __init__(self) -> None:
        self.k = [np.empty((0, KV_HEADS, HEAD_DIM), np.float32) for _ in range(LAYERS)]
        self.v = [rows.copy() for rows in self.k]

    def cut(self, length: int) -> Local:
        other = Local()
        other.k = [rows[:length] for rows in self.k]
        other.v = [rows[:length] for rows in self.v]
        return other


def make(rng: np.random.Generator, tokens: int, heads: int) -> npt.NDArray[np.float32]:
    return rng.standard_normal((tokens, heads, HEAD_DIM)).astype(np.float32)


def check(local: Local, layer: int, q: npt.NDArray[Any], o: npt.NDArray[Any]) -> None:
    header = attention_pb2.AttendHeader(
        q_heads=Q_HEADS,
        kv_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        q_lengths=[len(q)],
        kv_lengths=[len(local.k[layer])],
        options=tensor_pb2.AttentionOptions(mask=tensor_pb2.Mask(kind=tensor_pb2.MASK_KIND_CAUSAL)),
    )
    expected, _ = reference.attend(header, q, local.k[layer], local.v[layer])
    np.testing.assert_allclose(o, expected, atol=1e-5)


def extend(rng: np.random.Generator, sequence: tessera.ResidentSequence, local: Local, layer: int, tokens: int) -> None:
    q, k, v = make(rng, tokens, Q_HEADS), make(rng, tokens, KV_HEADS), make(rng, tokens, KV_HEADS)
    o = sequence.extend(layer, q, k, v)
    local.k[layer] = np.concatenate([local.k[layer], k])
    local.v[layer] = np.concatenate([local.v[layer], v])
    check(local, layer, q, o)


def test_prefill_decode_fork_and_rollback(keeper: LiveServer, rng: np.random.Generator) -> None:
    with tessera.Client(keeper.target) as client, client.create_sequences("small")[0] as trunk:
        assert trunk.profile.layers == LAYERS
        assert trunk.profile.dtype == "float32"
        assert trunk.profile.kv_dtype == "float32"
        local = Local()
        for tokens in (11, 1, 1, 6):
            for layer in range(LAYERS):
                extend(rng, trunk, local, layer, tokens)
        with trunk.fork() as whole, trunk.fork(9) as part:
            forks = [(whole, local.cut(19)), (part, local.cut(9)), (trunk, local)]
            for sequence, rows in forks:
                extend(rng, sequence, rows, 1, 2)
            whole.truncate(13)
            extend(rng, whole, forks[0][1].cut(13), 0, 1)
        info = trunk.info()
        assert info.lengths == [19, 21]
        assert info.pages == 3
        assert 0 < info.expires_in <= trunk.profile.lease


def test_many_steps_in_one_call(keeper: LiveServer, rng: np.random.Generator) -> None:
    with tessera.Client(keeper.target) as client:
        sequences = client.create_sequences("small", 3)
        steps = [
            tessera.Step(sequence, layer, make(rng, n, Q_HEADS), make(rng, n, KV_HEADS), make(rng, n, KV_HEADS))
            for n, sequence in enumerate(sequences, 1)
            for layer in range(LAYERS)
        ]
        answer = client.extend(steps, return_lse=True)
        assert answer.lengths == [1, 1, 2, 2, 3, 3]
        assert answer.lse is not None
        for step, o, lse in zip(steps, answer.o, answer.lse):
            rows = Local()
            rows.k[0], rows.v[0] = np.asarray(step.k), np.asarray(step.v)
            check(rows, 0, np.asarray(step.q), o)
            assert lse.shape == o.shape[:2]
        q = make(rng, 2, Q_HEADS)
        np.testing.assert_array_equal(sequences[0].extend(0, q).shape, q.shape)  # reads only
        for sequence in sequences:
            sequence.release()
            sequence.release()


def test_a_stream_takes_steps_ahead_of_their_answers(keeper: LiveServer, rng: np.random.Generator) -> None:
    local = [Local(), Local()]
    sent = []
    with tessera.Client(keeper.target) as client, client.extend_stream() as stream:
        sequences = client.create_sequences("small", 2)
        for tokens in (5, 1, 1, 3, 1):
            for layer in range(LAYERS):
                for sequence, rows in zip(sequences, local):
                    q, k, v = make(rng, tokens, Q_HEADS), make(rng, tokens, KV_HEADS), make(rng, tokens, KV_HEADS)
                    rows.k[layer] = np.concatenate([rows.k[layer], k])
                    rows.v[layer] = np.concatenate([rows.v[layer], v])
                    pending = stream.submit([tessera.Step(sequence, layer, q, k, v)], return_lse=True)
                    sent.append((rows.cut(len(rows.k[layer])), layer, q, pending))
        for rows, layer, q, pending in sent:
            answer = pending.result()
            assert answer.lengths == [len(rows.k[layer])]
            assert answer.lse is not None
            assert answer.lse[0].shape == q.shape[:2]
            check(rows, layer, q, answer.o[0])
        sequences[0].release()
        gone = stream.submit([tessera.Step(sequences[0], 0, make(rng, 1, Q_HEADS))])
        assert isinstance(gone.exception(), tessera.NotFoundError)
        sequences[1].release()


def test_a_stream_ends_with_its_client(keeper: LiveServer, rng: np.random.Generator) -> None:
    client = tessera.Client(keeper.target)
    stream = client.extend_stream()
    (sequence,) = client.create_sequences("small")
    step = tessera.Step(sequence, 0, make(rng, 1, Q_HEADS))
    assert stream.submit([step]).result().lengths == [0]
    withdrawn = stream.submit([step])
    withdrawn.cancel()
    assert withdrawn.done()
    sequence.release()
    client.close()
    assert isinstance(stream.submit([step]).exception(), tessera.CancelledError)
    stream.close()
    with pytest.raises(tessera.CancelledError):
        client.extend_stream()


def test_failures_have_classes(keeper: LiveServer, rng: np.random.Generator) -> None:
    with tessera.Client(keeper.target) as client, tessera.Client(keeper.target, tenant="other") as other:
        with pytest.raises(tessera.InvalidArgumentError, match="profile"):
            client.create_sequences("no such")
        with client.create_sequences("small")[0] as mine:
            theirs = tessera.ResidentSequence(other, mine.handle, mine.profile)
            with pytest.raises(tessera.NotFoundError):
                theirs.info()
            with pytest.raises(tessera.InvalidArgumentError):
                mine.truncate(1)
            full = make(rng, 24 * 8, KV_HEADS)
            mine.extend(0, make(rng, 1, Q_HEADS), full, full)
            one = make(rng, 1, KV_HEADS)
            with client.create_sequences("small")[0] as late, pytest.raises(tessera.ResourceExhaustedError):
                late.extend(0, make(rng, 1, Q_HEADS), one, one)
        with pytest.raises(tessera.NotFoundError):
            mine.info()


def test_arguments_that_cannot_be_right(keeper: LiveServer, rng: np.random.Generator) -> None:
    q, k = make(rng, 1, Q_HEADS), make(rng, 1, KV_HEADS)
    with tessera.Client(keeper.target) as client, client.create_sequences("small")[0] as sequence:
        for layer, arrays, names in (
            (0, (q, k), "k and v"),
            (0, (q, k, k[:, :1]), "v has 1 heads"),
            (0, (q, k, k[:0]), "same shape"),
            (0, (q[:, :5],), "multiple"),
            (0, (q[:, :, :8],), "q is"),
            (0, (q.astype(np.float16),), "dtype"),
            (2, (q,), "layer"),
        ):
            with pytest.raises(ValueError, match=names):
                sequence.extend(layer, *arrays)
        with pytest.raises(ValueError, match="no steps"):
            client.extend([])

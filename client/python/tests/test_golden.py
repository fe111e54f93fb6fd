"""The vectors of tests/golden, shared with the clients of the other languages; its README.md says what they hold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import reference
import tessera
from live_server import LiveServer
from tessera.call import AttendCall
from tessera.transport import ATTEND
from tessera.v1 import attention_pb2
from test_client import TRANSPORTS

VECTORS = Path(__file__).parents[3] / "tests" / "golden" / "vectors"
MANIFEST = json.loads((VECTORS / "manifest.json").read_text())
EACH_CASE = pytest.mark.parametrize("case", MANIFEST["cases"], ids=lambda case: case["name"])


def request_of(case: dict[str, Any]) -> attention_pb2.AttendRequest:
    return attention_pb2.AttendRequest.FromString((VECTORS / f"{case['name']}.request").read_bytes())


def arguments(case: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What to give to attend: q, k, v, and the options."""
    request = request_of(case)
    dtype = reference.ELEMENTS[request.header.dtype]
    arrays = [
        np.frombuffer(data, dtype).reshape(-1, heads, case["head_dim"])
        for data, heads in ((request.q, case["q_heads"]), (request.k, case["kv_heads"]), (request.v, case["kv_heads"]))
    ]
    options = {name: case[name] for name in ("q_lengths", "kv_lengths", "scale", "softcap", "return_lse")}
    options["causal"] = case["mask"] == "causal"
    if case["mask"] == "window":
        options["window"] = (case["window_left"], case["window_right"])
    return arrays, options


def assert_agrees(actual: Any, expected: Any, atol: float, rtol: float) -> None:
    np.testing.assert_allclose(actual.astype(np.float64).reshape(-1), expected, rtol=rtol, atol=atol)


def test_there_are_cases() -> None:
    assert len(MANIFEST["cases"]) >= 10
    assert len(MANIFEST["refused"]) >= 10


@EACH_CASE
def test_request_means_the_same(case: dict[str, Any]) -> None:
    arrays, options = arguments(case)
    ours = attention_pb2.AttendRequest.FromString(AttendCall(*arrays, **options).serialize())
    golden = request_of(case)
    assert (ours.q, ours.k, ours.v) == (golden.q, golden.k, golden.v)
    # Defaults may be left out or spelt out.
    golden.header.kv_lengths[:] = case["kv_lengths"]
    golden.header.options.priority = ours.header.options.priority
    assert ours.header == golden.header


@TRANSPORTS
@EACH_CASE
def test_live_answer(live: LiveServer, transport: dict[str, Any], case: dict[str, Any]) -> None:
    arrays, options = arguments(case)
    with tessera.Client(live.target, **transport) as client:
        result = client.attend(*arrays, **options)
    expected = np.fromfile(VECTORS / f"{case['name']}.expected", "<f8")
    assert len(expected) == case["o_elements"] + case["lse_elements"]
    assert_agrees(result.o, expected[: case["o_elements"]], case["atol"], case["rtol"])
    if case["return_lse"]:
        assert result.lse is not None
        assert_agrees(result.lse, expected[case["o_elements"] :], case["lse_atol"], case["lse_rtol"])


@pytest.mark.parametrize("case", MANIFEST["refused"], ids=lambda case: case["name"])
def test_live_refusal(live: LiveServer, case: dict[str, Any]) -> None:
    with grpc.insecure_channel(live.target) as channel:
        attend: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(ATTEND)
        with pytest.raises(grpc.RpcError) as raised:
            attend((VECTORS / f"{case['name']}.request").read_bytes(), timeout=10)
    status: Any = raised.value
    assert status.code().name == case["code"]
    assert re.search(rf"\b{case['names']}\b", status.details())

"""grpcurl knows nothing of Tessera but what the server's reflection says."""

from __future__ import annotations

import json
import math
import subprocess
from typing import Any

import grpc

from json_call import TOOLS, attend_request, decode, encode

INVALID_ARGUMENT = grpc.StatusCode.INVALID_ARGUMENT.value[0]


def grpcurl(*arguments: str, data: str | None = None) -> subprocess.CompletedProcess[str]:
    flags = ["-plaintext", "-max-time", "20", *(["-d", "@"] if data is not None else [])]
    return subprocess.run(
        [str(TOOLS / "grpcurl"), *flags, *arguments], input=data, capture_output=True, text=True, timeout=30
    )


def answers(*arguments: str, data: str = "{}") -> list[dict[str, Any]]:
    """The messages that a call is answered with."""
    done = grpcurl(*arguments, data=data)
    assert done.returncode == 0, done.stderr
    messages, text = [], done.stdout.strip()
    while text:
        message, end = json.JSONDecoder().raw_decode(text)
        messages.append(message)
        text = text[end:].strip()
    return messages


def assert_mean(o: list[float], lse: list[float]) -> None:
    assert o == [2.0] * 8
    assert len(lse) == 1
    assert math.isclose(lse[0], math.log(2), rel_tol=1e-6)


def test_list(target: str) -> None:
    services = grpcurl(target, "list").stdout.split()
    assert {"tessera.v1.AttentionService", "tessera.v1.ServerService", "grpc.health.v1.Health"} <= set(services)
    assert grpcurl(target, "list", "tessera.v1.AttentionService").stdout.split() == [
        "tessera.v1.AttentionService.Attend",
        "tessera.v1.AttentionService.AttendStream",
    ]


def test_describe(target: str) -> None:
    method = grpcurl(target, "describe", "tessera.v1.AttentionService.AttendStream").stdout
    assert "rpc AttendStream ( stream .tessera.v1.AttendStreamRequest )" in method
    message = grpcurl(target, "describe", "tessera.v1.AttendHeader").stdout
    assert ".tessera.v1.DataType dtype = 1;" in message
    assert "repeated uint32 kv_lengths = 6;" in message


def test_attend(target: str) -> None:
    (answer,) = answers(target, "tessera.v1.AttentionService/Attend", data=json.dumps(attend_request()))
    assert_mean(decode(answer["o"]), decode(answer["lse"]))


def test_attend_stream(target: str) -> None:
    """A call in two chunks, the later one first, and one between them that fails without harm to it."""
    request = attend_request()
    payload = [value for name in ("q", "k", "v") for value in decode(request[name])]
    messages = [
        {"id": 7, "header": request["header"], "payload_offset": 80, "payload": encode(payload[20:])},
        {"id": 8, "header": {**request["header"], "head_dim": 12}},
        {"id": 7, "payload": encode(payload[:20])},
    ]
    data = "\n".join(map(json.dumps, messages))
    by_id = {answer["id"]: answer for answer in answers(target, "tessera.v1.AttentionService/AttendStream", data=data)}
    assert by_id["8"]["status"]["code"] == INVALID_ARGUMENT
    assert "head_dim" in by_id["8"]["status"]["message"]
    result = decode(by_id["7"]["payload"])
    assert_mean(result[:8], result[8:])


def test_server_service(target: str) -> None:
    (info,) = answers(target, "tessera.v1.ServerService/GetServerInfo")
    assert info["backend"] == "cpu"
    assert int(info["limits"]["max_message_bytes"]) > 0
    (plan,) = answers(target, "tessera.v1.ServerService/PlanTiles", data='{"head_dim": 128}')
    assert plan["tile"] == 128
    assert int(plan["total_bytes"]) == 2 * (4 * 128 * 128 + 128 * 128) + 8 * 128


def test_refusal(target: str) -> None:
    request = attend_request()
    request["header"]["head_dim"] = 12
    done = grpcurl(target, "tessera.v1.AttentionService/Attend", data=json.dumps(request))
    assert done.returncode == 64 + INVALID_ARGUMENT
    assert "Code: InvalidArgument" in done.stderr
    assert "head_dim" in done.stderr

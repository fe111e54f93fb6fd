"""Generates text with SmolLM2-135M-Instruct, its keys and values kept by a Tessera server, and checks the result.

    smollm.py flag --scales FILE      measures scales for fp8, writes them, and prints the server's --kv_profiles
    smollm.py run --target HOST:PORT --scales FILE

Exits with 1 where a token differs from those of the same model with attention computed here, unless the two tie (their
logits are no further apart than KINDS says), or where rounding costs more than it may.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import calibration
import comparison
import greedy
import tessera
import weights
from comparison import Check
from decoder import Decoder
from gguf import Gguf
from llama import Llama
from local_attention import LocalAttention
from remote_attention import RemoteAttention, check_profile
from rounding import Rounding
from tokenizer import Tokenizer

QUESTIONS = [
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Explain in a few words why the sky is blue, and why sunsets are red.",
    "List three colours.",
    "What is 7 times 8?",
]
SEED = 20250207


@dataclass(frozen=True)
class Kind:
    """A profile, what may pass for a tie there (comparison.same_tokens) and what its rounding may cost
    (comparison.RoundingError). `least_agreeing` is of trained weights: random ones hardly prefer any token, so that how
    many agree says no more than the logits' error.
    """

    dtype: str
    kv_dtype: str
    tie: float
    mean_error: float
    least_agreeing: float


KINDS = {
    "decode_float32": Kind("float32", "float32", 1e-4, 1e-4, 1.0),
    "decode_float16": Kind("float16", "float16", 0.02, 0.005, 0.98),
    "decode_bfloat16": Kind("bfloat16", "bfloat16", 0.1, 0.04, 0.94),
    "decode_float8": Kind("float16", "float8_e4m3", 0.1, 0.2, 0.85),
}


@dataclass(frozen=True)
class Job:
    model: Llama
    tokenizer: Tokenizer | None
    prompts: list[list[int]]


def load(arguments: argparse.Namespace) -> Job:
    if not arguments.random:
        file = Gguf(arguments.gguf or weights.installed_file())
        tokenizer = Tokenizer(file.metadata)
        return Job(Llama(weights.from_gguf(file)), tokenizer, [tokenizer.chat(question) for question in QUESTIONS])
    model = Llama(weights.random(weights.RANDOM_SHAPE, SEED))
    rng = np.random.default_rng(SEED)
    return Job(model, None, [rng.integers(model.shape.vocabulary, size=n).tolist() for n in (37, 5, 1, 64, 150)])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    flag = commands.add_parser("flag")
    flag.add_argument("--pages", type=int, default=256, help="of each profile, 64 tokens each")
    run = commands.add_parser("run")
    run.add_argument("--target", required=True, help="host:port of the server")
    run.add_argument(
        "--profile", action="append", choices=KINDS, help="of the server, several if given again; default: all"
    )
    run.add_argument("--tokens", type=int, default=32, help="after each prompt")
    run.add_argument("--chunk", type=int, default=11, help="tokens of a prefill at a time")
    run.add_argument("--width", type=int, default=4, help="beams")
    run.add_argument("--guesses", type=int, default=4, help="tokens guessed ahead")
    for command in (flag, run):
        command.add_argument("--scales", type=Path, help="file of fp8 scales; without it they are 1")
        command.add_argument(
            "--gguf", type=Path, help="the model's file, where the package that has it is not installed"
        )
        command.add_argument("--random", action="store_true", help="random weights of another shape")
    return parser.parse_args()


def profiles_flag(job: Job, scales: Path | None, pages: int) -> str:
    shape = job.model.shape
    profiles = []
    for name, kind in KINDS.items():
        fields = {
            "name": name,
            "layers": shape.layers,
            "kv_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "dtype": kind.dtype,
            "pages": pages,
        }
        if kind.kv_dtype != kind.dtype:
            fields["kv_dtype"] = kind.kv_dtype
            if scales is not None:
                fields["kv_scales"] = scales.resolve()
        profiles.append(",".join(f"{key}={value}" for key, value in fields.items()))
    return "--kv_profiles=" + ";".join(profiles)


def run_profile(
    job: Job, client: tessera.Client, name: str, task: comparison.Task, exact: greedy.Generated, scales: Path | None
) -> list[Check]:
    kind, shape = KINDS[name], job.model.shape
    with client.create_sequences(name)[0] as sequence:
        check_profile(sequence.profile, shape, max(map(len, task.prompts)) + task.tokens)
    used = None
    if scales is not None and kind.kv_dtype == "float8_e4m3":
        used = calibration.read(scales, (shape.layers, shape.kv_heads))
    here = Decoder(job.model, LocalAttention(shape, Rounding(kind.dtype, kind.kv_dtype, used)))
    stream = RemoteAttention(client, name)
    there = Decoder(job.model, stream)
    try:
        together = Decoder(job.model, RemoteAttention(client, name, together=True))
        checks = comparison.same_tokens(here, there, together, task, kind.tie)
        cost = comparison.rounding_error(exact, there, task)
    finally:
        stream.close()
    least_agreeing = kind.least_agreeing if job.tokenizer is not None else 0.0
    checks.append(
        Check(
            cost.mean <= kind.mean_error and cost.agreeing >= least_agreeing * cost.tokens,
            f"against float32 throughout: logits' error {cost.mean:.1e} of their deviation, at most {kind.mean_error} "
            f"(the largest one {cost.largest:.1e}); {cost.agreeing} of {cost.tokens} tokens agree, at least "
            f"{least_agreeing:.0%}",
        )
    )
    checks.append(
        Check(stream.batched > 0, f"{stream.calls} calls over the stream, {stream.batched} shared their batches")
    )
    return checks


def run(job: Job, arguments: argparse.Namespace) -> bool:
    task = comparison.Task(job.prompts, arguments.tokens, arguments.chunk, arguments.width, arguments.guesses)
    started = time.perf_counter()
    plain = Decoder(job.model, LocalAttention(job.model.shape, Rounding("float32", "float32")))
    exact = greedy.generate(plain, task.prompts, task.tokens, chunk=max(map(len, task.prompts)))
    seconds = time.perf_counter() - started
    if job.tokenizer is not None:
        for question, tokens in zip(QUESTIONS, exact.tokens):
            print(f"{question}\n    {job.tokenizer.decode(tokens)!r}")
    shape = job.model.shape
    print(
        f"{shape.layers} layers, {shape.q_heads}/{shape.kv_heads} heads, head_dim {shape.head_dim}, vocabulary "
        f"{shape.vocabulary}; all here, in float32: {seconds:.1f} s"
    )
    good = True
    with tessera.Client(arguments.target) as client:
        info = client.server_info()
        print(f"tessera {info.version} ({info.backend})")
        for name in arguments.profile or list(KINDS):
            started = time.perf_counter()
            checks = run_profile(job, client, name, task, exact, arguments.scales)
            print(f"{name}: {time.perf_counter() - started:.1f} s")
            for check in checks:
                print(f"  {'ok  ' if check.good else 'FAIL'} {check.claim}")
            good &= all(check.good for check in checks)
    return good


def main() -> int:
    arguments = parse_arguments()
    job = load(arguments)
    if arguments.command == "flag":
        if arguments.scales is not None:
            calibration.write(calibration.measure(job.model, job.prompts), arguments.scales)
        print(profiles_flag(job, arguments.scales, arguments.pages))
        return 0
    return 0 if run(job, arguments) else 1


if __name__ == "__main__":
    sys.exit(main())

"""examples/decode: the same tokens through a server as here, with random weights and with those of SmolLM2-135M."""

from __future__ import annotations

import importlib.metadata
import struct
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import beams
import calibration
import comparison
import greedy
import llama
import local_attention
import rounding
import speculative
import tessera
import tokenizer
import weights
from decoder import Decoder
from gguf import Gguf
from live_server import LiveServer
from local_attention import LocalAttention, LocalSequence
from remote_attention import RemoteAttention, check_profile
from rounding import Rounding

SHAPE = weights.Shape(layers=3, q_heads=8, kv_heads=2, head_dim=32, hidden=256, feed_forward=512, vocabulary=4096)
TASK = comparison.Task(
    prompts=[part.tolist() for part in np.split(np.random.default_rng(5).integers(4096, size=60), [23, 30, 31])],
    tokens=16,
    chunk=7,
    width=3,
    guesses=4,
)
# What may pass for a tie (comparison.same_tokens; which elements of o round the other way depends on the machine), and
# what rounding may cost: mean error of logits, in units of their deviation, and the share of tokens that agree.
KINDS = {
    "float32": ("float32", "float32", 0.0, 1e-6, 1.0),
    "float16": ("float16", "float16", 0.02, 2e-3, 0.95),
    "bfloat16": ("bfloat16", "bfloat16", 0.1, 1.5e-2, 0.9),
    "float8": ("float16", "float8_e4m3", 0.02, 0.1, 0.7),
}


@pytest.fixture(scope="module")
def model() -> llama.Llama:
    return llama.Llama(weights.random(SHAPE, seed=3, dtype=np.float64))


@pytest.fixture(scope="module")
def exact(model: llama.Llama) -> greedy.Generated:
    return greedy.generate(Decoder(model, Plain()), TASK.prompts, TASK.tokens, chunk=100)


class Plain(LocalAttention):
    """float32 on the wire, as close to no rounding as the wire knows."""

    def __init__(self) -> None:
        super().__init__(SHAPE, Rounding("float32", "float32"))


@pytest.fixture(scope="module")
def scales(model: llama.Llama, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decode") / "scales"
    calibration.write(calibration.measure(model, TASK.prompts), path)
    return path


@pytest.fixture(scope="module")
def keeper(server_binary: str, scales: Path) -> Iterator[LiveServer]:
    shape = f"layers={SHAPE.layers},kv_heads={SHAPE.kv_heads},head_dim={SHAPE.head_dim},page_tokens=8,pages=64"
    profiles = [f"name={name},{shape},dtype={dtype}" for name, (dtype, *_) in KINDS.items()]
    profiles[-1] += f",kv_dtype=float8_e4m3,kv_scales={scales}"
    with LiveServer(server_binary, "--kv_profiles=" + ";".join(profiles)) as started:
        yield started


@pytest.mark.parametrize("name", KINDS)
def test_same_tokens_as_here(
    keeper: LiveServer, model: llama.Llama, exact: greedy.Generated, scales: Path, name: str
) -> None:
    dtype, kv_dtype, tie, mean_error, least_agreeing = KINDS[name]
    read = calibration.read(scales, (SHAPE.layers, SHAPE.kv_heads)) if name == "float8" else None
    here = Decoder(model, LocalAttention(SHAPE, Rounding(dtype, kv_dtype, read)))
    with tessera.Client(keeper.target) as client:
        with client.create_sequences(name)[0] as sequence:
            check_profile(sequence.profile, SHAPE, 64)
            assert sequence.profile.kv_dtype == kv_dtype
            with pytest.raises(ValueError, match="the model has"):
                check_profile(sequence.profile, weights.RANDOM_SHAPE, 64)
        stream = RemoteAttention(client, name)
        there = Decoder(model, stream)
        together = Decoder(model, RemoteAttention(client, name, together=True))
        checks = comparison.same_tokens(here, there, together, TASK, tie)
        cost = comparison.rounding_error(exact, there, TASK)
        stream.close()
    with urllib.request.urlopen(keeper.metrics_url, timeout=10) as response:
        assert f'tessera_kv_pages{{profile="{name}",state="used"}} 0\n' in response.read().decode()
    print(name, *checks, cost, sep="\n")
    assert all(check.good for check in checks)
    assert cost.mean <= mean_error
    assert cost.agreeing >= least_agreeing * cost.tokens


def test_tokens_are_worth_comparing(
    model: llama.Llama, exact: greedy.Generated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They depend on single keys, and no two logits are so close that rounding in float32 could swap them."""
    attend = local_attention.attend

    def forget(q: local_attention.Rows, k: local_attention.Rows, v: local_attention.Rows) -> local_attention.Rows:
        return attend(q, k, np.where(np.arange(len(v))[:, None, None] == 7, 0, v))

    monkeypatch.setattr(local_attention, "attend", forget)
    wrong = greedy.generate(Decoder(model, Plain()), TASK.prompts, TASK.tokens, chunk=100)
    assert all(a != b for a, b in zip(wrong.tokens, exact.tokens))
    assert comparison.margin(exact) > 1e-4
    assert len({token for tokens in exact.tokens for token in tokens}) > TASK.tokens


def test_guesses_that_are_right_save_steps(model: llama.Llama, exact: greedy.Generated) -> None:
    prompt, tokens = TASK.prompts[0], exact.tokens[0]

    def knowing(so_far: Sequence[int]) -> Sequence[int]:
        return [*prompt, *tokens][len(so_far) : len(so_far) + 4]

    result = speculative.generate(Decoder(model, Plain()), prompt, TASK.tokens, knowing, chunk=100)
    assert result.tokens == tokens
    assert result.accepted == result.guessed
    assert result.steps == 3  # 15 tokens after the first, 5 a step


def test_a_tie_of_beams_is_in_units_of_the_logits() -> None:
    logits = np.tile([-3.0, 3.0], (1, 6, 1))  # whose standard deviation is 3
    assert comparison.beams_tie(greedy.Generated([[1] * 6], logits), 0, length=4, tie=0.1) == pytest.approx(0.1 * 4 * 3)


def test_beams_whose_fork_fails_leave_no_sequence(model: llama.Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    fork = LocalSequence.fork
    forks: list[LocalSequence] = []
    released: list[LocalSequence] = []

    def fork_twice(sequence: LocalSequence) -> LocalSequence:
        if len(forks) == 2:
            raise RuntimeError("no room")
        forks.append(fork(sequence))
        return forks[-1]

    monkeypatch.setattr(LocalSequence, "fork", fork_twice)
    monkeypatch.setattr(LocalSequence, "release", lambda sequence: released.append(sequence))
    with pytest.raises(RuntimeError, match="no room"):
        beams.search(Decoder(model, Plain()), TASK.prompts[0], 2, width=4, chunk=100)
    assert len(forks) == 2
    assert {id(each) for each in forks} < {id(each) for each in released}


def test_wrong_guesses_are_of_the_vocabulary() -> None:
    answer = [0, 7] * 50  # of a vocabulary of 8
    guesses = speculative.mostly_knowing([], answer, len(answer), seed=1)([])
    wrong = sum(guess != token for guess, token in zip(guesses, answer))
    assert 20 <= wrong <= 46
    assert all(0 <= guess < 8 for guess in guesses)


def nearest(dtype: type, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ties to even, from a list of all that dtype can represent: astype of some types rounds to float32 first."""
    width = np.dtype(dtype).itemsize
    patterns = np.arange(2 ** (8 * width - 1), dtype=f"u{width}")  # of what is not negative: they rise with the value
    with np.errstate(invalid="ignore"):  # signalling NaN are among them
        values = patterns.view(dtype).astype(np.float64)
    values = values[np.isfinite(values)]
    above = np.searchsorted(values, np.abs(x)).clip(1)
    distance = (np.abs(x) - values[above - 1]) - (values[above] - np.abs(x))
    up = (distance > 0) | ((distance == 0) & (above % 2 == 0))
    rounded: npt.NDArray[np.float64] = np.copysign(values[above - 1 + up], x)
    return rounded


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16), ("float8_e4m3", ml_dtypes.float8_e4m3fn)],
)
def test_rounding(name: str, dtype: type, rng: np.random.Generator) -> None:
    x = np.concatenate([rng.standard_normal(5000) * 2.0 ** rng.integers(-12, 7, 5000), np.arange(17) / 1024, [0.0]])
    halves = 1 + 2.0 ** -np.arange(2, 12)
    x = np.concatenate([x, halves, halves + 2.0**-40, halves - 2.0**-40])  # the last two are halves in float32
    np.testing.assert_array_equal(rounding.to(name, x), nearest(dtype, x))
    assert rounding.to("float8_e4m3", [-1e9]) == [-448]


@pytest.mark.parametrize("alignment", [None, 64])
def test_quantized_tensors_are_read(tmp_path: Path, alignment: int | None) -> None:
    """A file of one Q4_1 and one Q8_0 tensor, a row of 32 elements each."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    def place(name: str, kind: int, offset: int) -> bytes:
        return text(name) + struct.pack("<IQQIQ", 2, 32, 1, kind, offset)

    aligned = alignment or 32
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 1 if alignment is None else 2)
    if alignment is not None:
        head += text("general.alignment") + struct.pack("<II", 4, alignment)
    head += text("some.words") + struct.pack("<IIQ", 9, 8, 2)
    head += text("a") + text("b") + place("four", 3, 0) + place("eight", 8, aligned)
    head += bytes(-len(head) % aligned)
    four = np.array([0.5, -1.0], "<f2").tobytes() + bytes(range(0, 256, 16))
    eight = np.array([0.25], "<f2").tobytes() + np.arange(-16, 16, dtype=np.int8).tobytes()
    path = tmp_path / "small.gguf"
    path.write_bytes(head + four + bytes(aligned - len(four)) + eight)
    file = Gguf(path)
    assert file.metadata["some.words"] == ["a", "b"]
    np.testing.assert_array_equal(file.tensor("four"), [[-1.0] * 16 + [0.5 * i - 1 for i in range(16)]])
    np.testing.assert_array_equal(file.tensor("eight"), [[0.25 * i for i in range(-16, 16)]])


@pytest.fixture(scope="module")
def installed() -> Gguf:
    try:
        return Gguf(weights.installed_file())
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the weights of SmolLM2-135M-Instruct are not installed")


def test_the_tokenizer_knows_all_text(installed: Gguf) -> None:
    known = tokenizer.Tokenizer(installed.metadata)
    for text in ("It's 7 times 80, isn't it?", "  two\n\n\tlines  ", "Tæssera ÷ 日本 🙂 a_b"):
        assert known.decode(known.encode(text)) == text
    assert known.encode("The capital of France") == [known.id(token) for token in ("The", "Ġcapital", "Ġof", "ĠFrance")]


def test_a_real_model_answers(installed: Gguf, server_binary: str) -> None:
    known = tokenizer.Tokenizer(installed.metadata)
    real = llama.Llama(weights.from_gguf(installed))
    shape = real.shape
    profile = (
        f"name=real,layers={shape.layers},kv_heads={shape.kv_heads},head_dim={shape.head_dim},dtype=float16,pages=2"
    )
    with LiveServer(server_binary, f"--kv_profiles={profile}") as server, tessera.Client(server.target) as client:
        decoder = Decoder(real, RemoteAttention(client, "real", together=True))
        answer = greedy.generate(decoder, [known.chat("What is the capital of France?")], 8, chunk=20)
    assert known.decode(answer.tokens[0]) == "The capital of France is Paris.<|im_end|>"

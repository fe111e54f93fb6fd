"""The example: its tokenizer, its reading of the metrics, and its pipeline against the fake server."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np
import pytest

import batch_size
import local
import tessera
from fake_server import FakeServer
from model import MiniLM, installed_files
from remote import RemoteEmbedder
from wordpiece import WordPiece

VOCABULARY = ["[UNK]", "[CLS]", "[SEP]", "cafe", "##s", "un", "##want", "##ed", ",", "'", "runn", "a", "b"]


@pytest.fixture
def tokenizer(tmp_path: Path) -> WordPiece:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(VOCABULARY))
    return WordPiece(path, max_tokens=6)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Cafés", ["cafe", "##s"]),
        ("UNwanted,\tcafe", ["un", "##want", "##ed", ","]),  # cut to four and the two marks
        ("a'b", ["a", "'", "b"]),
        ("running a", ["[UNK]", "a"]),
        ("a\u200bb" + "\x00", ["[UNK]"]),
        ("a" * 101, ["[UNK]"]),
        ("  ", []),
    ],
)
def test_tokens(tokenizer: WordPiece, text: str, pieces: list[str]) -> None:
    assert [VOCABULARY[i] for i in tokenizer.encode(text)] == ["[CLS]", *pieces, "[SEP]"]


def test_batch_size_adds_up_label_sets() -> None:
    exposition = """# TYPE tessera_batch_requests histogram
tessera_batch_requests_bucket{device="0",le="1"} 3
tessera_batch_requests_sum{device="0"} 90
tessera_batch_requests_count{device="0"} 9
tessera_batch_requests_sum{device="1"} 1e+1
tessera_batch_requests_count{device="1"} 1
tessera_batch_tokens_sum 12345
tessera_stage_seconds_sum{stage="queue"} 40
tessera_stage_seconds_sum{stage="compute"} 2
tessera_stage_seconds_sum{stage="send"} 7
"""
    batches = batch_size.parse(exposition)
    assert batches == batch_size.Batches(100, 10, queue=40, compute=2)
    assert batches.since(batch_size.Batches(20, 2, 0, 0)).mean == 10
    assert batches.wait == pytest.approx(2)  # 0.4 s of 0.2 s each
    assert batch_size.parse("").mean == batch_size.parse("").wait == 0


def installed() -> bool:
    try:
        return installed_files().is_dir()
    except importlib.metadata.PackageNotFoundError:
        return False


@pytest.mark.skipif(not installed(), reason="examples/minilm/requirements.txt is not installed")
def test_remote_embeddings_are_the_local_ones(server: FakeServer) -> None:
    model = MiniLM(installed_files())
    tokenizer = WordPiece(installed_files() / "vocab.txt", max_tokens=model.max_tokens)
    sentences = [tokenizer.encode(text) for text in ("Good morning!", "The train leaves at six.", "Rain, again.", "")]
    expected = local.embed(model, sentences)
    with tessera.Client(server.target) as client:
        result = RemoteEmbedder(client, model, group=2).embed(sentences)
    assert np.sum(result.embeddings * expected, axis=1).min() > 0.99999
    assert result.calls == len(sentences) * model.layers
    assert 2 <= result.max_in_flight <= len(sentences)
    # Different sentences are apart, so that the agreement above says something.
    assert (expected @ expected.T)[0, 1] < 0.7

"""Embeds a page with all-MiniLM-L6-v2, its attention done by a Tessera server, and checks the result.

As for a search index, every sentence of the page becomes a text to embed, and so does every passage of a dozen
consecutive sentences. All are in flight at once.

Exits with 1 where the embeddings differ from those computed here, the local model from its published results, or the
server did not batch.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import batch_size
import local
import tessera
from model import Floats, MiniLM, installed_files
from remote import RemoteEmbedder
from wordpiece import WordPiece

LEAST_COSINE = 0.99999
# Where requests waited, in the mean, for three batches for each request in one: batches grow with what waits, and a
# server that keeps up with its caller has nothing to batch.
LEAST_MEAN_BATCH = 4.0

# Cosines of the first three sentences of sentences.txt, as the documentation of sentence-transformers prints them.
PUBLISHED = np.array([[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]], np.float32)
PUBLISHED_SENTENCES = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
PUBLISHED_DIGIT = 1e-4


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True, help="host:port of the server")
    parser.add_argument("--metrics-url", help="of the server's metrics; without it the batch size is not checked")
    parser.add_argument(
        "--sentences", type=Path, default=Path(__file__).parent / "sentences.txt", help="one sentence a line"
    )
    parser.add_argument("--passage", type=int, default=12, help="sentences of a passage; a third of them begin another")
    parser.add_argument("--pairs", type=int, default=10, help="nearest pairs to print")
    parser.add_argument(
        "--connections", type=int, default=1, help="on one, calls arrive closest together and batch best; default 1"
    )
    parser.add_argument("--group", type=int, default=16, help="answers to go on with at a time, at least")
    return parser.parse_args()


def passages(sentences: list[str], length: int) -> list[str]:
    """Overlapping runs of `length` sentences."""
    starts = range(0, len(sentences) - length + 1, max(1, length // 3))
    return [" ".join(sentences[start : start + length]) for start in starts]


def nearest_pairs(embeddings: Floats, count: int) -> list[tuple[float, int, int]]:
    cosines = embeddings @ embeddings.T
    rows, columns = np.triu_indices(len(embeddings), k=1)
    order = np.argsort(-cosines[rows, columns])[:count]
    return [(float(cosines[rows[n], columns[n]]), int(rows[n]), int(columns[n])) for n in order]


def check(good: bool, claim: str) -> bool:
    print(f"{'ok  ' if good else 'FAIL'} {claim}")
    return good


def main() -> int:
    arguments = parse_arguments()
    files = installed_files()
    model = MiniLM(files)
    tokenizer = WordPiece(files / "vocab.txt", max_tokens=model.max_tokens)
    sentences = [line for line in arguments.sentences.read_text(encoding="utf-8").splitlines() if line.strip()]
    texts = sentences + passages(sentences, arguments.passage)
    ids = [tokenizer.encode(text) for text in texts]
    tokens = sum(map(len, ids))

    three = local.embed(model, [tokenizer.encode(sentence) for sentence in PUBLISHED_SENTENCES])
    published_error = float(np.abs(three @ three.T - PUBLISHED).max())
    started = time.perf_counter()
    expected = local.embed(model, ids)
    local_seconds = time.perf_counter() - started

    before = batch_size.read(arguments.metrics_url) if arguments.metrics_url else None
    with tessera.Client(arguments.target, connections=arguments.connections) as client:
        info = client.server_info()
        started = time.perf_counter()
        embedded = RemoteEmbedder(client, model, group=arguments.group).embed(ids)
        seconds = time.perf_counter() - started
    cosine = np.sum(embedded.embeddings * expected, axis=1)

    print(f"Nearest of {len(sentences)} sentences:")
    for similarity, i, j in nearest_pairs(embedded.embeddings[: len(sentences)], arguments.pairs):
        print(f"  {similarity:.3f}  {sentences[i]}\n         {sentences[j]}")
    print(
        f"{len(sentences)} sentences and {len(texts) - len(sentences)} passages, {min(map(len, ids))} to "
        f"{max(map(len, ids))} tokens long, {tokens} in all; "
        f"{embedded.calls} attention calls to tessera {info.version} ({info.backend}), "
        f"{embedded.max_in_flight} in flight at most; {seconds:.2f} s (all in numpy: {local_seconds:.2f} s)"
    )
    good = check(
        published_error < PUBLISHED_DIGIT,
        f"local model against its published cosines: largest difference {published_error:.1e}",
    )
    good &= check(
        bool(cosine.min() >= LEAST_COSINE),
        f"cosine of server's and local embeddings: least {cosine.min():.7f}, must be {LEAST_COSINE}",
    )
    if before is not None:
        batches = batch_size.read(arguments.metrics_url).since(before)
        good &= check(
            batches.mean > LEAST_MEAN_BATCH or batches.wait < 3 * batches.mean,
            f"mean batch: {batches.requests:.0f} requests in {batches.batches:.0f} batches, {batches.mean:.1f} each, "
            f"must be above {LEAST_MEAN_BATCH:.0f} where requests wait for 3 times as many ({batches.wait:.1f})",
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

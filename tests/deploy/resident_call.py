"""One sequence kept by a server that asks for a certificate and a token, two steps long, checked against numpy.

resident_call.py TARGET FOLDER

What to show the server is in FOLDER: ca.crt, client.crt, client.key, token. Its profile "kept" has 2 heads of 16
floats.
"""

import pathlib
import sys

import numpy as np
import tessera


def attention(q, k, v):
    """Causal, the last row of q standing at the last key."""
    scores = np.einsum("qhd,khd->hqk", q.astype(np.float64), k) / np.sqrt(q.shape[-1])
    scores[:, np.triu(np.ones(scores.shape[1:], bool), 1 + len(k) - len(q))] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)


def main(target: str, folder: pathlib.Path) -> None:
    tls = tessera.Tls(ca=folder / "ca.crt", certificate=folder / "client.crt", private_key=folder / "client.key")
    q, k, v = np.random.default_rng(0).standard_normal((3, 9, 2, 16), dtype=np.float32)
    with tessera.Client(target, tls=tls, token_file=folder / "token") as client:
        (sequence,) = client.create_sequences("kept", 1)
        sequence.extend(0, q[:8], k[:8], v[:8])
        decoded = sequence.extend(0, q[8:], k[8:], v[8:])
        sequence.release()
    np.testing.assert_allclose(decoded, attention(q[8:], k, v), rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))

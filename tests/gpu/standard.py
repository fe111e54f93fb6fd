"""Attention as it is defined, in PyTorch."""

import math


def standard(q, k, v, causal, dtype):
    """Materialised attention of [tokens, heads, d], in `dtype`, the softmax in at least fp32."""
    import torch
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    q, k, v = (t.to(dtype).transpose(0, 1) for t in (q, k, v))
    scores = (q @ k.transpose(1, 2)).to(wide) / math.sqrt(q.shape[2])
    if causal:
        rows, keys = scores.shape[1:]
        hidden = torch.ones(rows, keys, device=q.device).tril(keys - rows) == 0
        scores = scores.masked_fill(hidden, -math.inf)
    weights = torch.softmax(scores, 2).nan_to_num()
    return (weights.to(dtype) @ v).transpose(0, 1)

"""Byte-level byte-pair encoding, as GPT-2 and SmolLM have it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_DIGIT = re.compile(r"(\d)")
# GPT-2's pieces. `re` has no classes of letters: [^\W\d_] are those.
_PIECE = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def _printable() -> dict[int, str]:
    """Bytes as characters that vocabularies are written in: printable ones stand for themselves."""
    kept = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in kept]
    return {byte: chr(byte) for byte in kept} | {byte: chr(256 + i) for i, byte in enumerate(others)}


class Tokenizer:
    def __init__(self, metadata: Mapping[str, Any]) -> None:
        """From a GGUF file's metadata. ValueError for a tokenizer of another kind."""
        if (metadata["tokenizer.ggml.model"], metadata["tokenizer.ggml.pre"]) != ("gpt2", "smollm"):
            raise ValueError("the tokenizer is not SmolLM's")
        self._tokens: list[str] = metadata["tokenizer.ggml.tokens"]
        self._ids = {token: i for i, token in enumerate(self._tokens)}
        self._ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(metadata["tokenizer.ggml.merges"])}
        self._characters = _printable()
        self._bytes = {character: byte for byte, character in self._characters.items()}

    def id(self, token: str) -> int:
        """Of a token as the vocabulary spells it, such as "<|im_end|>"."""
        return self._ids[token]

    def encode(self, text: str) -> list[int]:
        ids = []
        for part in filter(None, _DIGIT.split(text)):
            for piece in _PIECE.findall(part):
                ids += [self._ids[token] for token in self._merge(piece)]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        characters = "".join(self._tokens[i] for i in ids)
        return bytes(self._bytes[character] for character in characters).decode(errors="replace")

    def chat(self, question: str) -> list[int]:
        """A question put to the assistant, whose answer comes next."""
        start, end = self.id("<|im_start|>"), self.id("<|im_end|>")
        system = "system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        ids = []
        for message in (system, "user\n" + question):
            ids += [start, *self.encode(message), end, *self.encode("\n")]
        return [*ids, start, *self.encode("assistant\n")]

    def _merge(self, piece: str) -> list[str]:
        parts = [self._characters[byte] for byte in piece.encode()]
        while len(parts) > 1:
            ranks = [self._ranks.get(pair, len(self._ranks)) for pair in zip(parts, parts[1:])]
            at = min(range(len(ranks)), key=ranks.__getitem__)
            if ranks[at] == len(self._ranks):
                break
            parts[at : at + 2] = ["".join(parts[at : at + 2])]
        return parts

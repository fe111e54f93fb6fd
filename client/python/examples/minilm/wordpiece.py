"""BERT's uncased tokenizer: words and punctuation, lower case without accents, cut into pieces of the vocabulary."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

_LONGEST_WORD = 100  # characters; longer words are unknown


class WordPiece:
    def __init__(self, vocabulary: Path, *, max_tokens: int) -> None:
        """`vocabulary` has one piece a line; a piece's id is its line. Sentences are cut to `max_tokens`."""
        self._ids = {piece: i for i, piece in enumerate(vocabulary.read_text(encoding="utf-8").splitlines())}
        self._max_tokens = max_tokens

    def encode(self, text: str) -> list[int]:
        pieces = [piece for word in _words(text) for piece in self._pieces(word)]
        kept = ["[CLS]", *pieces[: self._max_tokens - 2], "[SEP]"]
        return [self._ids[piece] for piece in kept]

    def _pieces(self, word: str) -> list[str]:
        """The longest piece that starts the word, then the longest that goes on, ..."""
        if len(word) > _LONGEST_WORD:
            return ["[UNK]"]
        pieces = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self._ids), None)
            if end is None:
                return ["[UNK]"]
            pieces.append(prefix + word[start:end])
            start = end
        return pieces


def _words(text: str) -> Iterator[str]:
    word = ""
    for character in unicodedata.normalize("NFD", text.lower()):
        category = unicodedata.category(character)
        if category == "Mn" or (category in ("Cc", "Cf") and not character.isspace()):
            continue
        if character.isspace() or _stands_alone(character):
            if word:
                yield word
            word = ""
            if not character.isspace():
                yield character
        else:
            word += character
    if word:
        yield word


def _stands_alone(character: str) -> bool:
    """Punctuation, which here includes every ASCII symbol, and Chinese characters."""
    code = ord(character)
    ascii_symbol = code < 128 and not character.isalnum() and character.isprintable() and character != " "
    ideograph = 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0x20000 <= code <= 0x2EBEF
    return ascii_symbol or ideograph or unicodedata.category(character).startswith("P")

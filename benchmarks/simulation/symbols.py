"""Texts of symbols: every character is a token.

Owns the alphabet and a tokenizer for it, as fast as a simulation of a million prompts needs one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from runtime.tokenizer import Tokenizer
from sgdsl.machine import Piece

FIRST = 0x4E00
NUM_SYMBOLS = 1 << 15
"""Characters from FIRST on: none of them is a surrogate, all take two bytes in UTF-16."""

END = NUM_SYMBOLS
"""The token that ends a text; nobody draws it, outputs end by their lengths."""


def random_text(generator: np.random.Generator, length: int) -> str:
    codes = generator.integers(FIRST, FIRST + NUM_SYMBOLS, size=length, dtype=np.uint16)
    return codes.astype("<u2").tobytes().decode("utf-16-le")


class SymbolTokenizer(Tokenizer):
    """No border between texts ever changes a token, and none can be healed."""

    def __init__(self) -> None:
        self.eos_token_ids = frozenset({END})
        self.bos_token_ids: list[int] = []
        self._described = "symbols"
        self.token_bytes = [chr(FIRST + each).encode() for each in range(NUM_SYMBOLS)] + [None]

    def encode(self, text: str) -> list[int]:
        codes = np.frombuffer(text.encode("utf-16-le"), dtype="<u2").astype(np.int64) - FIRST
        tokens: list[int] = codes.tolist()
        return tokens

    def encode_pieces(self, pieces: Sequence[Piece], **_: bool) -> list[int]:
        return self.encode("".join(piece.text for piece in pieces))

    def continue_with(
        self, tokens: Sequence[int], pieces: Sequence[Piece]
    ) -> tuple[int, list[int]]:
        return len(tokens), self.encode_pieces(pieces)

    def healable(self, *_: object) -> int:
        return 0


class NoGrammars:
    """Stands where the programs look for grammars: nothing here is constrained."""

    def matcher(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a simulated request has no constraint")


def lengths(
    generator: np.random.Generator, *, mean: float, sigma: float, least: int, most: int
) -> Iterable[int]:
    """Log-normal lengths with this mean, without end."""
    shift = np.log(mean) - sigma**2 / 2
    while True:
        drawn = np.exp(generator.normal(shift, sigma, size=1024))
        yield from np.clip(drawn, least, most).astype(int).tolist()

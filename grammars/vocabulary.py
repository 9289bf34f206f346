"""A tokenizer's tokens as bytes. Owns which of them can be written, and their bitmask rows.

It must not know where the bytes come from (the runtime reads a tokenizer's own tables) nor what a
grammar is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from grammars.errors import GrammarError
from grammars.trie import Int32, Trie

BITS_PER_WORD = 32

BANDS = (8, 16)
"""Tokens are walked in bands of their lengths: up to 8 bytes, up to 16, longer. A counter is
clamped to the length of a band, so that only the few long tokens are walked again when it is below
theirs."""


class Vocabulary:
    """The tokens of a tokenizer: `tokens[i]` is what token i writes.

    None stands for a special or added token, which is never allowed inside a constraint; so is a
    token of no bytes. `eos_token_ids` are the stop tokens: allowed exactly where the text is
    complete.
    """

    def __init__(self, tokens: Sequence[bytes | None], *, eos_token_ids: Collection[int]) -> None:
        self.size = len(tokens)
        self.eos_token_ids = tuple(sorted(set(eos_token_ids)))
        for token_id in self.eos_token_ids:
            if not 0 <= token_id < self.size:
                raise GrammarError(
                    f"eos_token_ids has {token_id!r}, but the vocabulary has the tokens 0 to "
                    f"{self.size - 1}; give ids within it"
                )
        stops = set(self.eos_token_ids)
        self._tokens = tuple(
            token if token and index not in stops else None for index, token in enumerate(tokens)
        )
        written = {index: token for index, token in enumerate(self._tokens) if token}
        if not written:
            raise GrammarError("the vocabulary has no token that writes bytes; give at least one")
        self.alphabet = _byte_mask({byte for token in written.values() for byte in token})
        """The bytes (bit b set for byte b) that occur in a token: no others can be written."""
        self.single_bytes = _byte_mask(token[0] for token in written.values() if len(token) == 1)
        """The bytes that have a token of their own."""
        self.trie = Trie(list(written), list(written.values()))
        self.longest = self.trie.longest
        """The most bytes that one token writes."""
        self.bands = tuple(_bands(written))
        """The same tokens in disjoint tries by their length, the shortest first."""

    @property
    def num_words(self) -> int:
        """The int32 words of a bitmask row: bit i % 32 of word i // 32 is token i."""
        return -(-self.size // BITS_PER_WORD)

    @property
    def is_complete(self) -> bool:
        """Whether each byte that occurs has a token of its own: what bytes write, tokens can."""
        return self.alphabet == self.single_bytes

    def token_bytes(self, token_id: int) -> bytes | None:
        """What the token writes; None for one that is never allowed inside a constraint."""
        return self._tokens[token_id]

    def beginnings(self, data: bytes) -> list[int]:
        """The lengths of the tokens that `data` begins with, ascending."""
        found, node = [], 0
        for length, byte in enumerate(data, 1):
            node = self.child.get(node * 256 + byte, 0)
            if not node:
                break
            if self.token_at[node] >= 0:
                found.append(length)
        return found

    def num_longest(self, data: bytes) -> int:
        """The tokens of `data` when the longest is taken at each place, which is a bound of the
        fewest. The vocabulary is complete.
        """
        number = at = 0
        while at < len(data):
            found = self.beginnings(data[at:])
            assert found, "each byte of a complete vocabulary has a token"
            at += found[-1]
            number += 1
        return number

    @cached_property
    def child(self) -> dict[int, int]:
        """(node of the trie * 256 + byte) -> child, for walks in Python."""
        return self.trie.child_of()

    @cached_property
    def token_at(self) -> list[int]:
        """The lowest token that ends at each node of the trie, or -1."""
        return self.trie.token_at()

    def pack(self, token_ids: NDArray[np.integer] | Sequence[int]) -> Int32:
        """The bitmask row in which exactly these tokens are set. # int32 [num_words]"""
        allowed = np.zeros(self.size, dtype=bool)
        allowed[np.asarray(token_ids, dtype=np.int64)] = True
        return self.pack_flags(allowed)

    def pack_flags(self, allowed: NDArray[np.bool_]) -> Int32:
        """The bitmask row of one flag for each token. # bool [size] -> int32 [num_words]"""
        row = np.zeros(self.num_words * (BITS_PER_WORD // 8), dtype=np.uint8)
        packed = np.packbits(allowed, bitorder="little")
        row[: len(packed)] = packed
        return row.view(np.int32)

    def unpack(self, row: Int32) -> Int32:
        """The tokens that are set in a bitmask row, ascending. # int32 [num set]"""
        bits = np.unpackbits(row.view(np.uint8), bitorder="little", count=self.size)
        return np.flatnonzero(bits).astype(np.int32)

    def count(self, row: Int32) -> int:
        """How many tokens are set in a bitmask row."""
        return int.from_bytes(row.tobytes(), "little").bit_count()

    @cached_property
    def stop_row(self) -> Int32:
        """The bitmask row of the stop tokens alone."""
        return self.pack(self.eos_token_ids)


def _bands(written: dict[int, bytes]) -> Iterable[Trie]:
    """One trie for each band that has tokens."""
    limits = [0, *BANDS, max(map(len, written.values()))]
    for shorter, longest in pairwise(limits):
        band = {i: token for i, token in written.items() if shorter < len(token) <= longest}
        if band:
            yield Trie(list(band), list(band.values()))


def _byte_mask(members: Iterable[int]) -> int:
    mask = 0
    for byte in set(members):
        mask |= 1 << byte
    return mask

"""A tokenizer of merges for tests: byte-pair encoding as its definition has it."""

from __future__ import annotations

import random
from itertools import pairwise

from grammars import Vocabulary
from tests.grammars.vocabularies import FRAGMENTS


class MergeTokenizer:
    """The 256 bytes and `num_merges` merges of random neighbours, most of them inside of
    `FRAGMENTS`, some over any border: nothing splits the text beforehand.
    """

    def __init__(self, *, num_merges: int, seed: int) -> None:
        rng = random.Random(seed)
        self._id_of = {bytes([byte]): byte for byte in range(256)}
        self._rank: dict[tuple[bytes, bytes], int] = {}
        while len(self._rank) < num_merges:
            text = b"".join(rng.choice(FRAGMENTS + [b"\xe6\x97\xa5", b"a"]) for _ in range(2))
            parts = self._merged(text)
            at = rng.randrange(len(parts))
            pair = parts[at : at + 2]
            if len(pair) == 2 and pair[0] + pair[1] not in self._id_of:
                self._rank[pair[0], pair[1]] = len(self._rank)
                self._id_of[pair[0] + pair[1]] = len(self._id_of)
        self.stop = len(self._id_of)
        self.vocabulary = Vocabulary([*self._id_of, None], eos_token_ids=[self.stop])

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return [self._id_of[part] for part in self._merged(text.encode())]

    def _merged(self, data: bytes) -> list[bytes]:
        """The merge of the lowest rank, the leftmost first, until there is none."""
        parts = [bytes([byte]) for byte in data]
        while True:
            pairs = [
                (rank, at)
                for at, pair in enumerate(pairwise(parts))
                if (rank := self._rank.get(pair)) is not None
            ]
            if not pairs:
                return parts
            _, at = min(pairs)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]

"""Where a gen stands: which tokens may come next, behind all that it has written.

Owns what decides a mask: the constraint's matcher, the literal that is spelled again, how much is
written and how often each token was. It moves on by tokens, and a fork of it does so without
touching it: so it is known what may come behind a guess before the guess is drawn. It must not know
of text, stop strings, sequences or models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from copy import copy

import numpy as np
from numpy.typing import NDArray

from grammars import Matcher
from runtime.tokenizer import Tokenizer

Int32 = NDArray[np.int32]


class Frontier:
    """`limit`: tokens that may be written behind `prefix`, the bytes that the first tokens spell
    again (the last of them may go on beyond it); `matcher` knows both already. `min_tokens`: so
    many come before a token of `stop_ids` may.

    Where it is *open*, no mask holds: what the model draws from all tokens is taken if the
    constraint allows it, and is the end if not.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        matcher: Matcher | None,
        prefix: bytes,
        limit: int,
        min_tokens: int,
        stop_ids: Collection[int],
    ) -> None:
        self.matcher = matcher
        self.num_written = 0  # tokens that went beyond the prefix
        self.counts: Counter[int] = Counter()
        self.is_void = False  # its mask could not be made
        self._tokenizer = tokenizer
        self._rest = prefix  # what of it is still to be spelled
        self._limit = limit
        self._min_tokens = min_tokens
        self._stop_ids = stop_ids

    def fork(self) -> Frontier:
        """Another one at the same place."""
        found = copy(self)
        found.counts = self.counts.copy()
        if self.matcher is not None:
            found.matcher = self.matcher.fork()
        return found

    @property
    def is_healing(self) -> bool:
        return bool(self._rest)

    @property
    def is_masked(self) -> bool:
        """Whether some tokens may not come next."""
        if self.matcher is not None:
            return not self.is_open
        return self.is_healing or self.is_short

    @property
    def is_open(self) -> bool:
        """Whether a token that the constraint does not allow would end the output: that is
        complete, and not empty. (A model that begins with a blank does not mean the empty text.)
        """
        return (
            self.matcher is not None
            and self.matcher.is_complete
            and self.num_written > 0
            and not self.is_short
        )

    @property
    def is_short(self) -> bool:
        """No end may come yet. What spells the prefix again neither counts nor ends anything."""
        return not self.is_healing and self.num_written < self._min_tokens

    @property
    def is_over(self) -> bool:
        """Whether nothing is drawn any more: nothing can follow, or nothing may."""
        if self.matcher is not None:
            return self.matcher.is_final or self.matcher.remaining == 0
        return self.num_written >= self._limit

    @property
    def num_left(self) -> int:
        """Tokens that may still be drawn, at most."""
        if self.matcher is not None:
            return self.matcher.remaining
        return self._limit - self.num_written + len(self._rest)

    def narrow(self, row: Int32) -> None:
        """row: int32 [num_words], as the matcher fills it, or all bits; clears those of tokens that
        healing does not spell and of ends that would come too early.
        """
        if self.matcher is None and self._rest:
            row[:] = self._tokenizer.vocabulary.pack(self._tokenizer.spelling(self._rest))
        if self.is_short:
            allowed = row.copy()
            forbid(row, self._stop_ids)
            if self.matcher is not None and not row.any():
                row[:] = allowed  # a finished grammar ends before min_tokens: nothing else can come

    def forced_token(self) -> int | None:
        """The only token that may come, where the constraint leaves but one."""
        matcher = self.matcher
        if matcher is None or self.is_open:
            return None
        whole = matcher.whole_mask()
        if whole is not None and whole.num_allowed > 1 + self.is_short * len(self._stop_ids):
            return None
        row = np.empty(self._tokenizer.vocabulary.num_words, dtype=np.int32)
        matcher.fill_bitmask(row)
        self.narrow(row)
        return _only_bit(row)

    def prepare(self) -> None:
        """Have the mask at hand. Raises CompileBudgetError where it costs more than a step may."""
        if self.matcher is not None and not self.is_open:
            self.matcher.whole_mask()

    def goes_on_with(self, token: int) -> bool:
        """Whether the token may come next and is not the end of the output."""
        if token in self._stop_ids and not self.is_healing:
            return False
        if self.matcher is not None:
            return self.matcher.allows(token)
        return self._spells(self._tokenizer.token_bytes[token] or b"")

    def _spells(self, data: bytes) -> bool:
        """Whether the bytes are the beginning of what is to be spelled, or go on beyond it."""
        return not self._rest or (
            bool(data) and (self._rest.startswith(data) or data.startswith(self._rest))
        )

    def advance(self, token: int) -> None:
        """The token has come, and all of it stands."""
        self.take(token)
        self.wrote(token, self._tokenizer.token_bytes[token] or b"")

    def take(self, token: int) -> None:
        """The token is one that may come; `wrote` says what stands of it."""
        if self.matcher is not None:
            self.matcher.accept_token(token)
            return
        data = self._tokenizer.token_bytes[token] or b""
        assert self._spells(data), "a healed token spells what it replaces"

    def wrote(self, token: int, data: bytes) -> bytes:
        """`data`: what stands of the token's bytes. Returns what of it is new text."""
        skipped = min(len(self._rest), len(data))
        self._rest = self._rest[skipped:]
        self.num_written += len(data) > skipped or not skipped
        self.counts[token] += 1
        return data[skipped:]


def _only_bit(row: Int32) -> int | None:
    """The one bit that is set; None where there is another, or none."""
    words = np.flatnonzero(row)
    if len(words) != 1:
        return None
    word = int(row[words[0]]) & 0xFFFFFFFF
    return None if word & (word - 1) else 32 * int(words[0]) + word.bit_length() - 1


def forbid(row: Int32, token_ids: Collection[int]) -> None:
    """Clear these tokens' bits."""
    for token in token_ids:
        row[token >> 5] &= ~np.int32(np.uint32(1 << (token & 31)).view(np.int32))

"""Text to tokens and back, at the borders that matter.

Owns the tokenizer as the engine needs it: special tokens only from templates, canonical borders
between what the model wrote and what the program writes, and how far a literal's end may be healed.
Knows no model and no sequence.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as FastTokenizer

from grammars import Vocabulary
from runtime.constants import Constants
from runtime.models import BrokenModelError, ModelError
from runtime.tokens import encoding, token_bytes
from sgdsl.chat import ChatTemplate
from sgdsl.machine import Piece, Spelling

BORDER_TOKENS = 8
"""How far back a border is re-split; text that hangs together for longer is cut where it stands."""


class Tokenizer:
    """`backend` is a transformers tokenizer with a fast (Rust) core; `vocab_size` the model's.

    token_bytes[i]: the bytes that token i stands for, None for special and unused ones.
    """

    def __init__(
        self,
        backend: Any,
        *,
        vocab_size: int,
        eos_token_ids: Iterable[int],
        chat_template: ChatTemplate,
    ) -> None:
        if getattr(backend, "backend_tokenizer", None) is None:
            raise ModelError(
                f"the tokenizer is a {type(backend).__name__}, which has no tables to read; "
                "choose a model with a tokenizer.json"
            )
        described = backend.backend_tokenizer.to_str()
        core = FastTokenizer.from_str(described)
        core.no_padding()
        core.no_truncation()
        self.chat_template = chat_template
        self.eos_token_ids = frozenset(eos_token_ids)
        known = token_bytes(core)
        if len(known) > vocab_size:
            raise BrokenModelError(
                f"the tokenizer has {len(known)} tokens, but the model only {vocab_size}; use the "
                "tokenizer files that belong to this model"
            )
        self.token_bytes = known + [None] * (vocab_size - len(known))
        self.bos_token_ids = _leading_tokens(backend)
        self._described = sha256(described.encode()).hexdigest()
        self._special_ids = {
            added.content: token_id
            for token_id, added in core.get_added_tokens_decoder().items()
            if added.special
        }
        longest_first = sorted(self._special_ids, key=len, reverse=True)
        self._special_pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._encoding = encoding(core)
        for part in (self._encoding.begins, self._encoding.within):
            part.encode_special_tokens = True  # special tokens in plain text are plain text
        self._constants = Constants(self._encoding.within)

    @cached_property
    def fingerprint(self) -> str:
        """The same for tokenizers that split every text in the same way."""
        leading, ends = self.bos_token_ids, sorted(self.eos_token_ids)
        told = f"{self._described} {len(self.token_bytes)} {leading} {ends}"
        return sha256(told.encode()).hexdigest()[:32]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.token_bytes, eos_token_ids=sorted(self.eos_token_ids))

    @cached_property
    def _sorted(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """All tokens' bytes in order, and the tokens that they belong to."""
        pairs = sorted((data, token) for token, data in enumerate(self.token_bytes) if data)
        return [data for data, _ in pairs], np.array([token for _, token in pairs])

    @property
    def start_token_id(self) -> int:
        """What stands before a text that has no prompt."""
        return self.bos_token_ids[-1] if self.bos_token_ids else min(self.eos_token_ids)

    @property
    def _prefixes(self) -> bool:
        """Whether a text that begins is split otherwise than one that follows."""
        return self._encoding.begins is not self._encoding.within

    @property
    def is_exact(self) -> bool:
        """Whether encoding leaves every text as it is."""
        return self._encoding.is_exact

    def encode(self, text: str) -> list[int]:
        """Tokens of a plain text by itself; with the dummy prefix of a tokenizer that has one."""
        return list(self._encoding.begins.encode(text, add_special_tokens=False).ids)

    def encode_within(self, text: str) -> list[int]:
        """Tokens of plain text that follows other text."""
        return list(self._encoding.within.encode(text, add_special_tokens=False).ids)

    def encode_pieces(self, pieces: Sequence[Piece], *, begins: bool = True) -> list[int]:
        """Tokens of adjoining pieces; plain text is joined over the borders between them.

        `begins`: they are the beginning of a text (or of what the tokenizer takes for one).
        """
        ids: list[int] = []
        plain = ""
        for piece in pieces:
            end = 0
            for found in self._special_pattern.finditer(piece.text) if piece.special else ():
                plain += piece.text[end : found.start()]
                ids += self.encode(plain) if begins else self.encode_within(plain)
                ids.append(self._special_ids[found.group()])
                plain, end, begins = "", found.end(), self._encoding.prefixes_segments
            rest = piece.text[end:]
            if not plain and not (begins and self._prefixes):
                known, rest = self._constants.split(rest)
                ids += known
            plain += rest
        return ids + (self.encode(plain) if begins else self.encode_within(plain))

    def knows(self, spelling: Spelling) -> bool:
        """Whether these are tokens of this tokenizer, as far as they tell by themselves."""
        size = len(self.token_bytes)
        return (
            spelling.tokenizer == self.fingerprint
            and 0 <= spelling.taken <= BORDER_TOKENS
            and all(0 <= token < size for token in spelling.tokens)
        )

    def decode(self, ids: Iterable[int]) -> bytes:
        """The bytes of these tokens; special ones have none."""
        return b"".join([self.token_bytes[token] or b"" for token in ids])

    def continue_with(
        self, tokens: Sequence[int], pieces: Sequence[Piece]
    ) -> tuple[int, list[int]]:
        """How `tokens` go on when `pieces` follow: keep so many of them, then the given ones.

        The border is split as the tokenizer would split the joined text: the fewest last tokens are
        taken back whose first one stays what it was (so that what lies before it stays too).
        """
        if not tokens:
            return 0, self.bos_token_ids + self.encode_pieces(pieces)
        for width in range(1, min(BORDER_TOKENS, len(tokens)) + 1):
            keep = len(tokens) - width
            if self.token_bytes[tokens[keep]] is None:  # special: a border by itself
                return self._rejoined(tokens, keep + 1, pieces) or self._added(tokens, pieces)
            joined = self._rejoined(tokens, keep, pieces)
            if joined is None:
                continue
            if keep == 0 or (width > 1 and joined[1][:1] == [tokens[keep]]):
                return joined
        return self._added(tokens, pieces)

    def _rejoined(
        self, tokens: Sequence[int], keep: int, pieces: Sequence[Piece]
    ) -> tuple[int, list[int]] | None:
        """None when the cut would be inside a character, or the tokenizer would change the text."""
        if keep == len(tokens):
            begins = self._encoding.prefixes_segments  # what stands before is a special token
            return keep, self.encode_pieces(pieces, begins=begins)
        tail = self.decode(tokens[keep:])
        try:
            joined = [Piece(tail.decode("utf-8")), *pieces]
        except UnicodeDecodeError:
            return None
        following = self.encode_pieces(joined, begins=False)
        return (keep, following) if self.decode(following).startswith(tail) else None

    def _added(self, tokens: Sequence[int], pieces: Sequence[Piece]) -> tuple[int, list[int]]:
        return len(tokens), self.encode_pieces(pieces, begins=False)

    def healable(self, tokens: Sequence[int], num_bytes: int) -> int:
        """How many last tokens together are the beginning of a longer token, within the last
        `num_bytes` bytes: those that healing takes back. At least one token always stays.
        """
        best, data = 0, b""
        for count in range(1, min(BORDER_TOKENS, len(tokens) - 1) + 1):
            data = (self.token_bytes[tokens[-count]] or b"") + data
            if self.token_bytes[tokens[-count]] is None or len(data) > num_bytes:
                break
            found, texts = self._beginning_with(data), self._sorted[0]
            if found.stop > found.start and texts[found.stop - 1] != data:
                best = count
        return best

    def spelling(self, data: bytes) -> NDArray[np.int64]:
        """Tokens that spell `data` or a beginning of it, or that begin with all of it."""
        texts, tokens = self._sorted
        found = [tokens[self._beginning_with(data)]]
        for size in range(1, len(data)):
            start, end = (search(texts, data[:size]) for search in (bisect_left, bisect_right))
            found.append(tokens[start:end])
        return np.concatenate(found)

    def _beginning_with(self, data: bytes) -> slice:
        """Where the tokens that begin with `data` stand in the order."""
        texts, _ = self._sorted
        stem = data.rstrip(b"\xff")  # the next text that does not begin with it
        beyond = stem[:-1] + bytes([stem[-1] + 1]) if stem else None
        end = len(texts) if beyond is None else bisect_left(texts, beyond)
        return slice(bisect_left(texts, data), end)


def _leading_tokens(backend: Any) -> list[int]:
    """What the tokenizer itself puts before every text, for instance a BOS token."""
    alone = list(backend("")["input_ids"])
    return alone[: alone.index(backend.eos_token_id)] if backend.eos_token_id in alone else alone

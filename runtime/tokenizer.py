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
from typing import Any

from tokenizers import Tokenizer as FastTokenizer

from grammars import Vocabulary
from runtime.tokens import token_bytes
from sgdsl.chat import ChatTemplate
from sgdsl.machine import Piece

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
        core = FastTokenizer.from_str(backend.backend_tokenizer.to_str())
        core.no_padding()
        core.no_truncation()
        self.chat_template = chat_template
        self.eos_token_ids = frozenset(eos_token_ids)
        known = token_bytes(core)
        self.token_bytes = known + [None] * (vocab_size - len(known))
        self.bos_token_ids = _leading_tokens(backend)
        self._special_ids = {
            added.content: token_id
            for token_id, added in core.get_added_tokens_decoder().items()
            if added.special
        }
        longest_first = sorted(self._special_ids, key=len, reverse=True)
        self._special_pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        core.encode_special_tokens = True  # special tokens in plain text are plain text
        self._core = core

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.token_bytes, eos_token_ids=sorted(self.eos_token_ids))

    @cached_property
    def _by_bytes(self) -> list[tuple[bytes, int]]:
        return sorted((data, token) for token, data in enumerate(self.token_bytes) if data)

    @property
    def start_token_id(self) -> int:
        """What stands before a text that has no prompt."""
        return self.bos_token_ids[-1] if self.bos_token_ids else min(self.eos_token_ids)

    def encode(self, text: str) -> list[int]:
        """Tokens of a plain text."""
        return list(self._core.encode(text, add_special_tokens=False).ids)

    def encode_pieces(self, pieces: Sequence[Piece]) -> list[int]:
        """Tokens of adjoining pieces; plain text is joined over the borders between them."""
        ids: list[int] = []
        plain = ""
        for piece in pieces:
            end = 0
            for found in self._special_pattern.finditer(piece.text) if piece.special else ():
                plain += piece.text[end : found.start()]
                ids += self.encode(plain)
                ids.append(self._special_ids[found.group()])
                plain, end = "", found.end()
            plain += piece.text[end:]
        return ids + self.encode(plain)

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
        """None when the cut would be inside a character."""
        try:
            tail = self.decode(tokens[keep:]).decode("utf-8")
        except UnicodeDecodeError:
            return None
        return keep, self.encode_pieces([Piece(tail), *pieces])

    def _added(self, tokens: Sequence[int], pieces: Sequence[Piece]) -> tuple[int, list[int]]:
        return len(tokens), self.encode_pieces(pieces)

    def healable(self, tokens: Sequence[int]) -> int:
        """How many last tokens together are the beginning of a longer token: those that healing
        takes back. At least one token always stays.
        """
        best, data = 0, b""
        for count in range(1, min(BORDER_TOKENS, len(tokens) - 1) + 1):
            own = self.token_bytes[tokens[-count]]
            if not own:
                break
            data = own + data
            if self._begins_longer_token(data):
                best = count
        return best

    def _begins_longer_token(self, data: bytes) -> bool:
        index = bisect_right(self._by_bytes, (data, len(self.token_bytes)))
        return index < len(self._by_bytes) and self._by_bytes[index][0].startswith(data)

    def spelling(self, data: bytes) -> list[int]:
        """Tokens that spell `data` or a beginning of it, or that begin with all of it."""
        found: list[int] = []
        for size in range(1, len(data)):
            start = bisect_left(self._by_bytes, (data[:size], -1))
            for own, token in self._by_bytes[start:]:
                if own != data[:size]:
                    break
                found.append(token)
        start = bisect_left(self._by_bytes, (data, -1))
        for own, token in self._by_bytes[start:]:
            if not own.startswith(data):
                break
            found.append(token)
        return found


def _leading_tokens(backend: Any) -> list[int]:
    """What the tokenizer itself puts before every text, for instance a BOS token."""
    alone = list(backend("")["input_ids"])
    return alone[: alone.index(backend.eos_token_id)] if backend.eos_token_id in alone else alone

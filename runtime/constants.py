"""The tokens of what a program writes in every run: computed once, not once a row.

Owns those tokens, and the question how much of a text no following text can change. Knows no
sequence and no special token.
"""

from __future__ import annotations

from collections import OrderedDict

from tokenizers import Tokenizer as FastTokenizer

from runtime.tokens import Part, parts_of

SHORTEST = 64
"""Characters; what is shorter is tokenised as fast as it is looked up."""

MAX_TEXTS = 256
MAX_CHARS = 4_000_000
MAX_SEEN = 4096


class Constants:
    """`core` splits plain text. Texts are kept from the second time on that they come: what comes
    once is a row's own.
    """

    def __init__(self, core: FastTokenizer) -> None:
        self._core = core
        self._splits_locally = _splits_locally(core)
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._known: OrderedDict[str, tuple[list[int], str]] = OrderedDict()
        self._num_chars = 0

    def split(self, text: str) -> tuple[list[int], str]:
        """The tokens of a beginning of `text` that stay whatever follows it, and the rest of it;
        no tokens where nothing is known.
        """
        if not self._splits_locally or len(text) < SHORTEST:
            return [], text
        known = self._known.get(text)
        if known is not None:
            self._known.move_to_end(text)
            return known
        key = hash(text)
        if key not in self._seen:
            self._seen[key] = None
            if len(self._seen) > MAX_SEEN:
                self._seen.popitem(last=False)
            return [], text
        found = self._known[text] = self._computed(text)
        self._num_chars += len(text)
        while len(self._known) > MAX_TEXTS or self._num_chars > MAX_CHARS:
            self._num_chars -= len(self._known.popitem(last=False)[0])
        return found

    def _computed(self, text: str) -> tuple[list[int], str]:
        pre_tokenizer = self._core.pre_tokenizer
        assert pre_tokenizer is not None, "who splits locally has a pre-tokenizer"
        words = pre_tokenizer.pre_tokenize_str(text)
        cut = words[-1][1][0]  # the last word may go on in what follows
        tokens = self._encode(text[:cut])
        if tokens + self._encode(text[cut:]) != self._encode(text):
            return [], text
        return tokens, text[cut:]

    def _encode(self, text: str) -> list[int]:
        return list(self._core.encode(text, add_special_tokens=False).ids)


def _splits_locally(core: FastTokenizer) -> bool:
    """Whether a text's words, but for its last one, are the same whatever follows it, and are words
    by themselves too: byte-level BPE whose patterns are read from left to right and look at most
    one character ahead. Not so where the text is rewritten first, where tokens are added that the
    patterns do not know, and where a pattern looks behind or for the text's end.
    """
    added = core.get_added_tokens_decoder().values()
    parts = parts_of(core.pre_tokenizer)
    return (
        core.normalizer is None
        and any(part["type"] == "ByteLevel" for part in parts)
        and all(map(_is_local, parts))
        and all(token.special for token in added)
    )


def _is_local(part: Part) -> bool:
    if part["type"] == "ByteLevel":
        return not part["add_prefix_space"]
    if part["type"] == "Split":
        pattern = next(iter(part["pattern"].values()))
        return part["behavior"] == "Isolated" and not any(
            sign in pattern for sign in ("(?<", "\\b", "\\B", "\\A", "\\z", "\\Z", "\\G", "^(", "$")
        )
    return part["type"] in {"Sequence", "Digits"}

"""Forced bytes as tokens. Owns how many of them are sure to be split as the whole text will be.

Text that a grammar forces need not be sampled: its tokens can be appended at once. But they must be
the tokens that the tokenizer makes of the finished text, and what follows is not known yet.

The first token of the finished text that reaches beyond the known part begins somewhere: at its
end, or at a place from which some legal token reaches beyond it. Up to that place the finished text
is split as the text up to there is by itself, since merges decide locally. So the known text is
split up to each of these places, and what all of them have in common is sure.
What a tokenizer cuts a text into before it merges is decided from the left, but for runs of white
space, whose last one belongs to the word that follows, and of digits, which may be counted from
their end. So a run at the end of the known text is left open as a whole.
Source: Berglund, van der Merwe, "Formalizing BPE tokenization", 2023 (a prefix of a tokenization is
the tokenization of that prefix).

It must not know of grammars and matchers: it is told where such tokens may begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grammars.vocabulary import Vocabulary

Tokenize = Callable[[str], Sequence[int]]
"""Text to tokens, as the tokenizer splits it inside of a text: nothing is added or normalised."""

CONTEXT_BYTES = 64
"""Known text that is split along with the forced one: a tokenizer's rules look back a few words."""

DIGITS = "0123456789"

MAX_CONTEXT_BYTES = 512
"""Where the known text offers no place to begin within these, nothing is jumped."""


def sure_tokens(
    known: bytes,
    forced: bytes,
    *,
    tokenize: Tokenize,
    vocabulary: Vocabulary,
    exceeding: Callable[[bytes], list[int]],
) -> list[int]:
    """The tokens of `forced` behind `known` that stay, whatever follows.

    `exceeding(text)`: the places in a text that ends where `forced` does, from which a token may
    reach beyond it. Empty where the finished text may have no border of tokens between the two,
    where that is inside of a character, or where `tokenize` changes the text.
    """
    start = _recent(known, vocabulary)
    if start is None or not forced or _character_start(known, len(known)) < len(known):
        return []
    whole, border = known[start:] + forced, len(known) - start
    ends = _character_ends(whole, [*exceeding(whole), len(whole)], vocabulary)
    ends |= {_run_start(whole, end) for end in ends}
    if min(ends) <= border:
        return []
    sure: list[int] | None = None
    for end in sorted(ends):
        tokens = _exact_tokens(whole[:end], tokenize, vocabulary)
        if tokens is None:
            return []
        sure = tokens if sure is None else _common(sure, tokens)
    return _behind(border, sure or [], vocabulary)


def _recent(known: bytes, vocabulary: Vocabulary) -> int | None:
    """Where to begin: a place in front of the last CONTEXT_BYTES that no token can span.

    So every way to split the text has a border there. None when there is no such place near.
    """
    latest = len(known) - CONTEXT_BYTES
    earliest = max(0, len(known) - MAX_CONTEXT_BYTES)
    reach: dict[int, int] = {}
    for place in range(latest, earliest, -1):
        for start in range(max(0, place - vocabulary.longest), place):
            if start not in reach:
                lengths = vocabulary.beginnings(known[start : start + vocabulary.longest])
                reach[start] = start + max(lengths, default=0)
            if reach[start] > place:
                break
        else:
            return place
    return None if earliest else 0


def _character_ends(whole: bytes, ends: list[int], vocabulary: Vocabulary) -> set[int]:
    """The places of `ends`; for each that is inside of a character, those in front of it where the
    token may begin that has the character's first byte.
    """
    found: set[int] = set()
    while ends:
        end = ends.pop()
        first = _character_start(whole, end)
        if first == end:
            found.add(end)
            continue
        ends += [
            start
            for start in range(max(0, first - vocabulary.longest), first + 1)
            if any(start + n > first for n in vocabulary.beginnings(whole[start:end]))
        ]
    return found


def _character_start(data: bytes, end: int) -> int:
    """Where the character begins that `end` cuts in two; `end` itself when it cuts none."""
    for start in range(end - 1, max(end - 4, -1), -1):
        lead = data[start]
        if lead & 0xC0 != 0x80:
            length = 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
            return start if start + length > end else end
    return end


def _run_start(data: bytes, end: int) -> int:
    """Where the white space, or the digits, begin that stand in front of `end`; `end` itself when
    none do. A single space is never split otherwise.
    """
    text = data[:end].decode(errors="replace")
    run = text[len(text.rstrip()) :] or text[len(text.rstrip(DIGITS)) :]
    return end if run == " " else end - len(run.encode())


def _exact_tokens(data: bytes, tokenize: Tokenize, vocabulary: Vocabulary) -> list[int] | None:
    """The tokens of a text; None when they are not exactly that text."""
    try:
        tokens = list(tokenize(data.decode()))
    except UnicodeDecodeError:
        return None
    written = [vocabulary.token_bytes(token_id) for token_id in tokens]
    is_exact = None not in written and b"".join(part or b"" for part in written) == data
    return tokens if is_exact else None


def _common(left: list[int], right: list[int]) -> list[int]:
    """The tokens that both begin with."""
    size = 0
    while size < min(len(left), len(right)) and left[size] == right[size]:
        size += 1
    return left[:size]


def _behind(border: int, tokens: list[int], vocabulary: Vocabulary) -> list[int]:
    """The tokens from `border` bytes on; none when one of them spans it."""
    end = 0
    for index, token_id in enumerate(tokens):
        if end == border:
            return tokens[index:]
        end += len(vocabulary.token_bytes(token_id) or b"")
    return []

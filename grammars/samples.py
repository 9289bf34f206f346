"""Texts of a language, for people to look at. Owns the walks that find them.

A walk draws what comes next among what can be completed, prefers bytes that can be read, and once
it is long enough takes the shortest way to the end: so it always ends, and always with a text.
It must not know what the constraint was written in.
"""

from __future__ import annotations

import random
from collections import Counter

from grammars.algebra import Algebra
from grammars.completion import Completions
from grammars.derive import arms, step
from grammars.errors import CompileBudgetError
from grammars.expr import ALL_BYTES, Expr
from grammars.spelling import UNREACHABLE, Spelling
from grammars.vocabulary import Vocabulary

EXTRA_BYTES = (0, 6, 16, 32, 64)
"""How much longer than the shortest text the walks become before they turn to the end."""

TRIES = 10
"""Walks for each sample: small languages give the same text again."""

STOPS = 0.5
"""How likely a walk ends where it may."""

_VOWELS = b"aeiou"
_CONSONANTS = b"bcdfghjklmnpqrstvwxyz"


def sample(
    algebra: Algebra, start: Expr, count: int, *, vocabulary: Vocabulary, seed: int = 0
) -> list[str]:
    """Up to `count` different texts of `start`, the shortest first; fewer where there are fewer,
    or where the algebra's budget ends. All can be written in `vocabulary`.
    """
    walks = _Walks(algebra, seed)
    spell = Completions(algebra, vocabulary).spell
    found: dict[bytes, None] = {}
    try:
        for round_ in range(TRIES * count):
            if len(found) == count:
                break
            text = walks.draw(start, EXTRA_BYTES[round_ % len(EXTRA_BYTES)], is_first=not round_)
            if text is not None and spell(text).cost < UNREACHABLE:
                found[text] = None
    except (CompileBudgetError, RecursionError):
        pass  # what was found is enough to look at
    return [text.decode() for text in found]


def byte_vocabulary() -> Vocabulary:
    """The vocabulary in which every byte is a token."""
    return Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[])


class ByteCompletions(Completions):
    """Completions byte by byte, which are texts even where parts must not repeat."""

    def __init__(self, algebra: Algebra) -> None:
        super().__init__(algebra, byte_vocabulary())

    def ending(self, here: Expr) -> bytes | None:
        """The shortest way from here to the end of a text that is known; None when there is none.

        One that is written as it is, whatever may not be repeated (see `noting`).
        """
        found = self.settled(here)
        return _written(found) if found.cost < UNREACHABLE and found.is_sure else None


def _written(spelling: Spelling) -> bytes:
    found = bytearray()
    while spelling.rest is not None:
        found.append(spelling.byte)
        spelling = spelling.rest
    return bytes(found)


class _Walks:
    """Walks that remember which ways they took, so that later ones take others."""

    def __init__(self, algebra: Algebra, seed: int) -> None:
        self._algebra = algebra
        self._completions = ByteCompletions(algebra)
        self._random = random.Random(seed)
        self._taken: Counter[tuple[Expr, Expr]] = Counter()
        self._written: Counter[tuple[Expr, int]] = Counter()

    def draw(self, start: Expr, extra: int, *, is_first: bool) -> bytes | None:
        """One text, of about `extra` bytes more than the shortest; None when there is none."""
        shortest = self._completions.ending(start)
        if is_first or shortest is None:
            return shortest
        text = bytearray()
        here = start
        while len(text) < len(shortest) + extra:
            if here.nullable and self._random.random() < STOPS and len(text) > extra // 2:
                return bytes(text)
            byte = self._next(here, text)
            if byte is None:
                return bytes(text) if here.nullable else None
            text.append(byte)
            here = step(self._algebra, here, byte)
        ending = self._completions.ending(here)
        return None if ending is None else bytes(text) + ending

    def _next(self, here: Expr, text: bytearray) -> int | None:
        """The next byte; None where the text ends, or is no beginning of one: what it may not
        repeat (see `noting`) is known only when it is written.
        """
        options = [
            (mask, rest)
            for mask, rest in arms(self._algebra, here)
            if rest.is_open or self._completions.is_alive(rest)
        ]
        if not options:
            return None
        before = text[-1] if text else 0
        weights = []
        for mask, rest in options:
            liking = max(weight for weight, bytes_ in _liked(before) if bytes_ & mask)
            weights.append(liking / (1 + self._taken[here, rest]) if rest is not here else liking)
        ((mask, rest),) = self._random.choices(options, weights)
        self._taken[here, rest] += 1
        byte = self._choose(here, mask, before)
        self._written[here, byte] += 1
        return byte

    def _choose(self, here: Expr, mask: int, before: int) -> int:
        """A byte of a set: a class as it is liked, and of that one that was not written here."""
        classes = [(weight, bytes_ & mask) for weight, bytes_ in _liked(before) if bytes_ & mask]
        ((_, chosen),) = self._random.choices(classes, [weight for weight, _ in classes])
        members = [byte for byte in range(256) if chosen >> byte & 1]
        fewest = min(self._written[here, byte] for byte in members)
        return self._random.choice([b for b in members if self._written[here, b] == fewest])


def _set(members: bytes) -> int:
    return sum(1 << byte for byte in members)


_LETTERS = _set(_VOWELS + _CONSONANTS)
_UPPER = _set((_VOWELS + _CONSONANTS).upper())
_DIGITS = _set(b"0123456789")
_CLOSING = _set(b"\"}], '")
_MARKS = _set(bytes(range(0x21, 0x7F))) & ~(_LETTERS | _UPPER | _DIGITS | _CLOSING | _set(b"\\"))
_SEEN = _LETTERS | _UPPER | _DIGITS | _CLOSING | _MARKS
_OTHERS = ALL_BYTES & ~_SEEN

Liking = list[tuple[float, int]]


def _likings(vowels: float, consonants: float) -> Liking:
    """How much each class of bytes is liked: what is read easily, then what closes."""
    return [
        (vowels, _set(_VOWELS)),
        (consonants, _set(_CONSONANTS)),
        (4.0, _DIGITS),
        (2.0, _CLOSING),
        (1.5, _UPPER),
        (0.3, _MARKS),
        (0.002, _OTHERS),
    ]


_AFTER_VOWEL, _AFTER_OTHERS = _likings(2.0, 8.0), _likings(8.0, 4.0)


def _liked(before: int) -> Liking:
    """Vowels and consonants in turn, so that words can be spoken."""
    return _AFTER_VOWEL if before in _VOWELS else _AFTER_OTHERS

"""Where a pattern is first found in a text that grows.

Owns the search that ends an output at a pattern: it is told characters as they are written, and
looks at each of them once. All places at which a match may have begun are one state, the derivative
of `.*pattern`, so that no pattern makes it look back. Only when a match has ended, the way back to
its beginning is walked, with the reversed pattern.

A match is what `re.search(pattern, text)` finds as soon as it finds something: the text up to there
is the whole text, so that `$` and a look-ahead at the pattern's end see nothing behind it.

It must not know of tokens, nor of what a found pattern is good for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from grammars import regex
from grammars.algebra import Algebra
from grammars.budget import Budget, Limits, too_deep_is_over_budget
from grammars.charset import ANY, utf8
from grammars.constraint import Regex
from grammars.derive import has_string, walk
from grammars.errors import CompileBudgetError, EmptyLanguageError, GrammarError, UnsupportedError
from grammars.expr import Expr
from grammars.regex_looks import look, looks_beyond
from grammars.regex_lowering import lower_full
from grammars.regex_tree import (
    NOTHING,
    Alt,
    Chars,
    Look,
    Loop,
    Seq,
    Tree,
    any_of,
    any_text,
    sequence,
)

COMPILE = Limits(10_000, 0.5, 8 << 20)
"""What a pattern may cost before it is first used."""

LAZY = Limits(4_000, 0.5, 16 << 20)
"""What a call may cost that looks at what was just written; and what the states may keep."""

BACK = Limits(200_000, 1.0, 16 << 20)
"""What the way back from a match may cost, which is walked once."""

MAX_KNOWN = 64
"""Patterns that are kept, with their states."""

MAX_OPEN = 32
"""Places that are followed at once to tell what can be shown; beyond, nothing more is shown."""


class Found(NamedTuple):
    """A match is `text[start:end]` of all that was told."""

    start: int
    end: int


class Searched:
    """A pattern that is ready to be searched for, shared by all who do. Thread-safe.

    Raises GrammarError or UnsupportedError with the column, for a pattern that is malformed or not
    supported; EmptyLanguageError when it is never found; GrammarError when it matches the empty
    text, which is found everywhere.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = Regex(pattern).pattern
        self._lock = threading.Lock()
        self._tree = regex.parse(pattern)
        if self._tree.facts.behind:
            raise UnsupportedError(
                "a look-behind of more than one character cannot be searched for backwards; look "
                "at one character, or make what stands before a part of the pattern"
            )
        self._lower()

    def _lower(self) -> None:
        """The first states, made within the budget of a compile."""
        self._algebra = Algebra(budget=Budget(*COMPILE))
        with too_deep_is_over_budget(self._algebra.budget):
            self.start = self._lowered(Seq((any_text(), self._tree)))
            if not has_string(self._algebra, self.start):
                raise EmptyLanguageError(
                    f"the pattern {self.pattern[:80]!r} is never found: nothing is written yet "
                    "behind the place where it ends; leave a look-ahead out"
                )
            if self.start.nullable:
                raise GrammarError(
                    f"the pattern {self.pattern[:80]!r} matches the empty text, which is found "
                    "before anything is written; make it ask for a character"
                )
            back = _reversed(self._tree)
            self._back = self._lowered(Seq((back, Chars(ANY))))
            self._back_whole = self._lowered(back)
            self.open_start = self._lowered(_without_looks(self._tree))

    @property
    def is_worn(self) -> bool:
        """Whether its states take so much that whoever begins should begin anew."""
        return 2 * self._algebra.budget.num_bytes > LAZY.max_bytes

    def _lowered(self, tree: Tree) -> Expr:
        return lower_full(self._algebra, tree, utf8)

    @contextmanager
    def _step(self, limits: Limits) -> Iterator[None]:
        with self._lock, too_deep_is_over_budget(self._algebra.budget):
            budget = self._algebra.budget
            if budget.num_bytes > limits.max_bytes:  # a call's few steps may never come to look
                raise CompileBudgetError(
                    f"the pattern {self.pattern[:80]!r} takes more than {limits.max_bytes >> 20} "
                    "MiB for what may still become a match; bound its repetitions more tightly"
                )
            budget.allow(*limits)
            yield

    def advance(self, node: Expr, text: str) -> tuple[Expr, int | None]:
        """The state after `text`, or after its first characters with which a match ends: how many
        they are.
        """
        with self._step(LAZY):
            for place, char in enumerate(text, 1):
                node = walk(self._algebra, node, _bytes(char))
                if node.nullable:
                    return node, place
        return node, None

    def start_of(self, text: str) -> int:
        """Where the longest match that ends with `text` begins."""
        found = None
        with self._step(BACK):
            node, whole = self._back, self._back_whole
            for place in range(len(text) - 1, -1, -1):
                data = _bytes(text[place])
                node, whole = walk(self._algebra, node, data), walk(self._algebra, whole, data)
                if node.nullable:
                    found = place + 1
                if node is whole is self._algebra.empty:
                    break
            else:
                found = 0 if whole.nullable else found
        assert found is not None, "a match that ends begins"
        return found

    def follow(self, places: dict[Expr, int], char: str) -> dict[Expr, int]:
        """Where matches may have begun, by what is left of them, after one more character."""
        with self._step(LAZY):
            after: dict[Expr, int] = {}
            for node, start in places.items():
                rest = walk(self._algebra, node, _bytes(char))
                if rest is not self._algebra.empty:
                    after[rest] = min(start, after.get(rest, start))
            return after


class Search:
    """One text that is searched as it is written. Both methods raise CompileBudgetError when the
    pattern costs more than one call may.
    """

    __slots__ = ("_held_from", "_node", "_num_followed", "_num_told", "_places", "_searched")

    def __init__(self, searched: Searched) -> None:
        self._searched = searched
        self._node = searched.start
        self._num_told = 0
        self._places: dict[Expr, int] = {}
        self._num_followed = 0
        self._held_from: int | None = None

    def find(self, text: str) -> Found | None:
        """`text`: all that is written, the same as before and what came since. Where the pattern is
        found, if it is found now; it is asked no more after that.
        """
        told, self._num_told = self._num_told, len(text)
        self._node, place = self._searched.advance(self._node, text[told:])
        if place is None:
            return None
        end = told + place
        return Found(self._searched.start_of(text[:end]), end)

    def num_settled(self, text: str) -> int:
        """How many first characters of all that is written no match that may still end reaches
        into.
        """
        while self._num_followed < len(text) and self._held_from is None:
            place = self._num_followed
            self._places.setdefault(self._searched.open_start, place)
            self._places = self._searched.follow(self._places, text[place])
            self._num_followed += 1
            if len(self._places) > MAX_OPEN:
                self._held_from = min(self._places.values())
        if self._held_from is not None:
            return self._held_from
        return min(self._places.values(), default=len(text))


_known: OrderedDict[str, Searched] = OrderedDict()
_known_lock = threading.Lock()


def searched(pattern: str) -> Searched:
    """The pattern, read once; anew when its states take too much. Raises as `Searched` does."""
    with _known_lock:
        found = _known.get(pattern)
        if found is not None and not found.is_worn:
            _known.move_to_end(pattern)
            return found
    made = Searched(pattern)
    with _known_lock:
        _known[pattern] = made
        while len(_known) > MAX_KNOWN:
            _known.popitem(last=False)
    return made


def _bytes(char: str) -> bytes:
    """In UTF-8; a lone surrogate stands for a byte that is no text, and is shown as U+FFFD."""
    return b"\xef\xbf\xbd" if "\ud800" <= char <= "\udfff" else char.encode()


def _reversed(tree: Tree) -> Tree:
    """What matches the reversed texts, with what stands ahead behind and the other way round."""
    match tree:
        case Seq(items=items):
            return sequence([_reversed(item) for item in reversed(items)])
        case Alt(options=options):
            return any_of([_reversed(option) for option in options])
        case Loop():
            return Loop(_reversed(tree.body), tree.low, tree.high, tree.column)
        case Look():
            body = _reversed(tree.body)
            made = look(body, tree.column, is_ahead=not tree.is_ahead, negated=tree.negated)
            if looks_beyond(made):
                raise UnsupportedError(
                    "a look-ahead that looks behind its own start cannot be searched for; part the "
                    "two conditions",
                    tree.column,
                )
            return made
        case _:
            return tree


def _without_looks(tree: Tree) -> Tree:
    """What matches at least as much."""
    match tree:
        case Seq(items=items):
            return sequence([_without_looks(item) for item in items])
        case Alt(options=options):
            return any_of([_without_looks(option) for option in options])
        case Loop():
            return Loop(_without_looks(tree.body), tree.low, tree.high, tree.column)
        case Look():
            return NOTHING
        case _:
            return tree

"""Parts of what a tree matches: the empty text, the others, those that begin or end in given
characters. Owns the surgery on trees; every part is a tree again, and is made once.

It must not know of expressions.
"""

from __future__ import annotations

from functools import lru_cache

from grammars.charset import intersect, invert
from grammars.regex_tree import (
    ANYTHING,
    NOTHING,
    Alt,
    Chars,
    Look,
    Loop,
    Seq,
    Tree,
    any_of,
    sequence,
)

KEPT_SETS = 1024
"""Sets that are kept when they are worked out: those of Unicode have hundreds of ranges."""

common = lru_cache(maxsize=KEPT_SETS)(intersect)
others = lru_cache(maxsize=KEPT_SETS)(invert)


class Parts:
    """The parts of the trees of one pattern. A part that matches nothing is None."""

    def __init__(self) -> None:
        self._loops: dict[tuple[Tree, int, int | None], Tree] = {(ANYTHING.body, 0, None): ANYTHING}
        self._nothing: dict[Tree, Tree | None] = {}
        self._something: dict[Tree, Tree | None] = {}
        self._halved: dict[Seq, tuple[Tree, Tree]] = {}
        self._edged: dict[tuple[Tree, Chars, bool], Tree | None] = {}

    def loop(self, body: Tree, low: int, high: int | None) -> Tree:
        """`low` to `high` times the body."""
        if high == 0:
            return NOTHING
        if low == 1 == high:
            return body
        key = (body, low, high)
        if key not in self._loops:
            self._loops[key] = Loop(body, low, high, 0)
        return self._loops[key]

    def fewer(self, tree: Loop) -> Tree:
        """The rounds after a first one."""
        return self.loop(
            tree.body, max(tree.low - 1, 0), None if tree.high is None else tree.high - 1
        )

    # -- by width ----------------------------------------------------------------------------

    def nothing(self, tree: Tree) -> Tree | None:
        """Where `tree` matches the empty text: NOTHING, or its conditions."""
        if tree.facts.low:
            return None
        if tree not in self._nothing:
            self._nothing[tree] = self._nothing_of(tree)
        return self._nothing[tree]

    def _nothing_of(self, tree: Tree) -> Tree | None:
        if not tree.facts.looks:
            return NOTHING
        if isinstance(tree, Seq):
            parts = [self.nothing(item) for item in tree.items]
            kept = [part for part in parts if part is not None and part is not NOTHING]
            return sequence(kept) if None not in parts else None
        if isinstance(tree, Alt):
            options = [self.nothing(option) for option in tree.options]
            return NOTHING if NOTHING in options else _any(options)
        if isinstance(tree, Loop):
            return self.nothing(tree.body) if tree.low else NOTHING
        assert isinstance(tree, Look), "a character takes something"
        return tree

    def something(self, tree: Tree) -> Tree | None:
        """What `tree` matches but the empty text."""
        if tree.facts.high == 0:
            return None
        if tree.facts.low:
            return tree
        if tree not in self._something:
            self._something[tree] = self._something_of(tree)
        return self._something[tree]

    def _something_of(self, tree: Tree) -> Tree | None:
        if isinstance(tree, Alt):
            return _any([self.something(option) for option in tree.options])
        if isinstance(tree, Seq):
            first, rest = self._halves(tree)
            return _any(
                [
                    _both(self.something(first), rest),
                    _both(self.nothing(first), self.something(rest)),
                ]
            )
        assert isinstance(tree, Loop), "characters are never empty, conditions always"
        return self.rounds(tree)

    def rounds(self, tree: Loop) -> Tree | None:
        """A repetition of one round at least that takes something, and first.

        Rounds that take nothing repeat a condition that held before: they count, and no more.
        """
        first, empty = self.something(tree.body), self.nothing(tree.body)
        if empty is NOTHING:
            return _both(first, self.fewer(self._from_none(tree)))
        options = [_both(first, self.fewer(tree))]
        if empty is not None and tree.low > 1:
            filled = self.loop(tree.body, 0, tree.low - 2)
            options.append(_both(_both(empty, first), filled))
        return _any(options)

    def _from_none(self, tree: Loop) -> Loop:
        made = self.loop(tree.body, 0, tree.high)
        return made if isinstance(made, Loop) else tree

    def _halves(self, tree: Seq) -> tuple[Tree, Tree]:
        """A sequence in two: what is made of halves does not nest as deep as it is long."""
        if tree not in self._halved:
            if len(tree.items) == 1:
                return tree.items[0], NOTHING
            middle = len(tree.items) // 2
            self._halved[tree] = sequence(tree.items[:middle]), sequence(tree.items[middle:])
        return self._halved[tree]

    # -- by the first or the last character --------------------------------------------------

    def edged(self, tree: Tree, chars: Chars, *, is_last: bool) -> Tree | None:
        """What `tree` matches with its first (or last) character among `chars`; `tree` itself
        where that is all.
        """
        key = (tree, chars, is_last)
        if key not in self._edged:
            self._edged[key] = self._edged_of(tree, chars, is_last=is_last)
        return self._edged[key]

    def _edged_of(self, tree: Tree, chars: Chars, *, is_last: bool) -> Tree | None:
        if isinstance(tree, Chars):
            kept = common(tree.ranges, chars.ranges)
            return tree if kept == tree.ranges else Chars(kept) if kept else None
        if isinstance(tree, Alt):
            options = [self.edged(option, chars, is_last=is_last) for option in tree.options]
            return tree if options == [*tree.options] else _any(options)
        if tree.facts.high == 0:
            return None
        if isinstance(tree, Loop):
            edge = self.edged(tree.body, chars, is_last=is_last)
            if edge is tree.body and tree.facts.low:
                return tree
            free = tree if tree.body.facts.low else self._from_none(tree)
            rounds = self.fewer(free)
            return _both(rounds, edge) if is_last else _both(edge, rounds)
        assert isinstance(tree, Seq), "conditions take nothing"
        left, right = self._halves(tree)
        near, far = (right, left) if is_last else (left, right)
        edge, beyond = self.edged(near, chars, is_last=is_last), self.nothing(near)
        if edge is near and beyond is None:
            return tree
        inner = self.edged(far, chars, is_last=is_last) if beyond is not None else None
        if is_last:
            return _any([_both(far, edge), _both(inner, beyond)])
        return _any([_both(edge, far), _both(beyond, inner)])


def _any(options: list[Tree | None]) -> Tree | None:
    """Any of the options that match something."""
    found = [option for option in options if option is not None]
    return any_of(found) if found else None


def _both(first: Tree | None, second: Tree | None) -> Tree | None:
    """One after the other, where both match something."""
    if first is None or second is None:
        return None
    parts = [part for part in (first, second) if part is not NOTHING]
    return sequence(parts)

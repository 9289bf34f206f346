"""How dear finishing can be at most, without a look at how texts fit together. Owns these bounds.

The cost of a state is that of its witness, whose tokens may reach over the borders of its parts; so
it is spelled anew for whatever follows. The bound is the sum over the parts, each spelled by
itself: it is known as soon as the parts' are. Never below the cost (see `Completions.spelling`): of
any part, the cheapest string before a tail takes at most the tokens of the part and of the tail.
It must not know of masks and matchers.
"""

from __future__ import annotations

from grammars.completion import Completions
from grammars.expr import ByteSet, Concat, Expr, Literal, Ref, Repeat, Union, Words
from grammars.spelling import UNREACHABLE

MAX_NESTED = 64
"""References that are followed inside of each other; a deeper one is spelled (as an array is long,
so many may stand in a chain).
"""


TRIED_OPTIONS = 4
"""Alternatives that are looked at: any of them gives a bound."""


class CostBounds:
    """Upper bounds of what `completions` says of the cost; UNREACHABLE where none is known."""

    def __init__(self, completions: Completions) -> None:
        self._completions = completions
        self._known: dict[Expr, int] = {}
        self._num_nested = 0

    def bound(self, node: Expr) -> int:
        """The cost of finishing is at most this."""
        spine: list[Concat] = []
        while (found := self._seen(node)) is None and isinstance(node, Concat) and not node.notes:
            spine.append(node)
            node = node.tail
        if found is None:
            found = self._known[node] = self._of_part(node)
        for cell in reversed(spine):
            total = self.bound(cell.head) + found
            found = self._known[cell] = min(total, UNREACHABLE)
        return found

    def _seen(self, node: Expr) -> int | None:
        """The bound, where it or the cost was asked for before."""
        found = self._known.get(node)
        return self._completions.known_cost(node) if found is None else found

    def _of_part(self, node: Expr) -> int:
        if node.nullable:
            return 0
        vocabulary = self._completions.vocabulary
        if node.notes or not vocabulary.is_complete:
            return self._completions.cost(node)
        if isinstance(node, ByteSet):
            return 1
        if isinstance(node, Literal):
            return vocabulary.num_longest(node.data)
        if isinstance(node, Union):
            return min(map(self.bound, node.options[:TRIED_OPTIONS]))
        if isinstance(node, Repeat):
            return min(node.low * self.bound(node.body), UNREACHABLE)
        if isinstance(node, Words):
            return min(map(len, node.table[node.first : node.last])) - node.depth
        if isinstance(node, Ref) and self._num_nested < MAX_NESTED:
            self._num_nested += 1
            try:
                return self.bound(node.rules.least(node.key))
            finally:
                self._num_nested -= 1
        return self._completions.cost(node)

"""How long the texts of an expression can be, from its structure alone.

No state is visited: a far bound costs what a near one does. Recursion has no longest text, since
whoever refers vouches that a byte is written before a reference comes back to itself.
It must not know of tokens or front ends.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from grammars.algebra import Algebra
from grammars.expr import (
    ByteSet,
    Complement,
    Concat,
    Empty,
    Expr,
    Intersection,
    Literal,
    Ref,
    Repeat,
    Union,
    Words,
)


class Extent(NamedTuple):
    """The bytes of the longest text, infinite where there is none; not `is_exact`: at most that."""

    longest: float
    is_exact: bool


def extent(algebra: Algebra, node: Expr) -> Extent:
    """How long the texts of `node` can be; every reference inside of it is unfolded.

    Raises CompileBudgetError where there are more of them than the algebra's budget has steps.
    """
    known: dict[Expr, Extent] = {}
    is_open: set[Expr] = set()
    pending = [node]
    while pending:  # no recursion: chains of thousands of parts are common
        here = pending[-1]
        parts = _parts(here)
        if here not in is_open and here not in known:
            algebra.budget.spend()
            is_open.add(here)
            pending += [part for part in parts if part not in known and part not in is_open]
            continue
        pending.pop()
        if here not in known:
            is_open.discard(here)
            # A part that is still open comes back to itself.
            known[here] = _of(here, [known.get(part, _ENDLESS) for part in parts])
    return known[node]


_ENDLESS = Extent(math.inf, is_exact=True)


def _parts(node: Expr) -> tuple[Expr, ...]:
    if isinstance(node, Concat):
        return (node.head, node.tail)
    if isinstance(node, Union | Intersection):
        return node.options
    if isinstance(node, Repeat):
        return (node.body,)
    if isinstance(node, Ref) and not node.notes:
        return (node.rules.unfold(node.key),)
    return ()


def _of(node: Expr, inside: list[Extent]) -> Extent:
    longest = 0.0
    is_sure = node.plain and not isinstance(node, Empty)  # that a text is in it
    is_exact = is_sure and not node.notes and all(part.is_exact for part in inside)
    is_endless = any(part.is_exact and part.longest == math.inf for part in inside)
    if isinstance(node, ByteSet):
        longest = 1
    elif isinstance(node, Literal):
        longest = len(node.data)
    elif isinstance(node, Words):
        longest = max(map(len, node.table[node.first : node.last])) - node.depth
    elif isinstance(node, Concat):
        longest = inside[0].longest + inside[1].longest
    elif isinstance(node, Union):
        longest = max(part.longest for part in inside)
    elif isinstance(node, Repeat):
        rounds = math.inf if node.high is None else node.high
        longest = rounds * inside[0].longest if inside[0].longest > 0 else 0
    elif isinstance(node, Intersection):
        longest = min(part.longest for part in inside)
    elif isinstance(node, Complement):
        longest = math.inf
    elif isinstance(node, Ref):  # what remembers (see `noting`) is known only as it is written
        longest = inside[0].longest if inside else math.inf
    # What is remembered takes away a few texts of endlessly many.
    return Extent(longest, is_exact or (is_sure and is_endless))

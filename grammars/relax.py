"""Far bounds inside intersections. Owns when a bound may be left out, and of what.

Inside an intersection a counter cannot be clamped: whether x{m,n} and a pattern have a string in
common may depend on n. But a bound that is far does not matter: a string of at most n bytes cannot
use more than n rounds, so if some string of x{m,} is that short, it is one of x{m,n} too. So the
states of "this pattern, in at most 2,000 characters" share their witnesses, and their masks, with
those of the pattern alone, until the end comes near.
It must not know of tokens.
"""

from __future__ import annotations

from grammars.algebra import Algebra
from grammars.expr import NEAR, Concat, Expr, Intersection, Repeat, Union

Relaxed = tuple[Expr, int]
"""An expression without far bounds, and the lowest of those left out: its strings of at most that
many bytes are strings of the original."""

UNBOUNDED = 1 << 30


def relax(algebra: Algebra, node: Expr, least: int = NEAR) -> Relaxed:
    """`node` without the upper bounds of `least` or more that stand inside intersections."""
    if node.plain or not node.counts:
        return node, UNBOUNDED
    spine: list[Expr] = []
    rest = node
    while isinstance(rest, Concat) and not rest.plain:
        spine.append(rest.head)
        rest = rest.tail
    result, room = _relax_one(algebra, rest, least)
    for head in reversed(spine):
        relaxed, bound = _relax_one(algebra, head, least)
        result, room = algebra.concat(relaxed, result), min(room, bound)
    return result, room


def _relax_one(algebra: Algebra, node: Expr, least: int) -> Relaxed:
    if not isinstance(node, Intersection) or not node.counts:
        return node, UNBOUNDED
    parts = [_loosen(algebra, option, least) for option in node.options]
    return algebra.intersection([part for part, _ in parts]), min(bound for _, bound in parts)


def _loosen(algebra: Algebra, node: Expr, least: int) -> Relaxed:
    """A part of an intersection without its far bounds."""
    if not node.counts:
        return node, UNBOUNDED
    if isinstance(node, Concat):
        head, bound = _loosen(algebra, node.head, least)
        tail, other = _loosen(algebra, node.tail, least)
        return algebra.concat(head, tail), min(bound, other)
    if isinstance(node, Union):
        parts = [_loosen(algebra, option, least) for option in node.options]
        return algebra.union([part for part, _ in parts]), min(bound for _, bound in parts)
    if isinstance(node, Repeat) and node.high is not None and node.high >= least:
        if not node.body.nullable:
            return algebra.repeat(node.body, node.low, None), node.high
    return node, UNBOUNDED

"""The part of a state that a mask can depend on. Owns the clamping of counters.

One token writes at most `longest` bytes, so it cannot tell x{m,n} from x{m,m+longest+1} when n is
larger: not by what it may write, and not by the cheapest completion, which takes m rounds. Masks
are cached under the clamped expression; `.{0,5000}` then has few masks instead of five thousand.
Inside an intersection or a complement a far bound can decide emptiness: those stay as they are.
It must not know of tokens beyond the length of the longest.
"""

from __future__ import annotations

from grammars.algebra import Algebra
from grammars.expr import Concat, Expr, Repeat, Union


def clamp(algebra: Algebra, node: Expr, longest: int) -> Expr:
    """An expression with the same mask and costs as `node` for tokens of at most `longest` bytes,
    equal for as many states as possible.
    """
    if not node.counts:
        return node
    spine: list[Concat] = []
    rest = node
    while isinstance(rest, Concat) and rest.counts and longest not in rest.clamped:
        spine.append(rest)
        rest = rest.tail
    result = _clamp_one(algebra, rest, longest)
    for cell in reversed(spine):
        result = algebra.concat(_clamp_one(algebra, cell.head, longest), result)
        cell.clamped = {**cell.clamped, longest: result}
    return result


def _clamp_one(algebra: Algebra, node: Expr, longest: int) -> Expr:
    if not node.counts:
        return node
    found = node.clamped.get(longest)
    if found is None:
        found = _clamped(algebra, node, longest)
        node.clamped = {**node.clamped, longest: found}
    return found


def _clamped(algebra: Algebra, node: Expr, longest: int) -> Expr:
    if isinstance(node, Concat):
        return clamp(algebra, node, longest)
    if isinstance(node, Union):
        return algebra.union([_clamp_one(algebra, o, longest) for o in node.options])
    if isinstance(node, Repeat):
        high = node.high
        if high is not None:
            high = min(high, node.low + longest + 1)
        return algebra.repeat(_clamp_one(algebra, node.body, longest), node.low, high)
    return node

"""Derivatives: what remains of an expression after a first byte. Owns the rules, one per operator.

`arms(node)` is a disjoint partition of the first bytes that are possible: ((byte set, rest), ...),
computed once per expression by composing its parts' partitions. No rest is EMPTY; under an
intersection or complement a rest may still denote no string (see `completion`). What is noted (see
`noting`) is noted by `step` alone.

It must not know of tokens, tables or budgets beyond those of the algebra.
Source: Owens, Reppy, Turon, "Regular-expression derivatives re-examined", 2009 (classes of bytes
instead of single bytes).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable

from grammars.algebra import Algebra
from grammars.expr import (
    Arms,
    ByteSet,
    Complement,
    Concat,
    Expr,
    Intersection,
    Literal,
    Ref,
    Repeat,
    Union,
    Words,
)
from grammars.noting import noted

BYTES_PER_ARM = 130
"""A pair and its set of bytes."""


def arms(algebra: Algebra, node: Expr) -> Arms:
    """The first bytes of `node`, partitioned: ((byte set, what remains), ...), disjoint."""
    if node.arms is None:
        algebra.budget.spend()
        found = _RULES[type(node)](algebra, node) if type(node) in _RULES else ()
        algebra.budget.spend(0, BYTES_PER_ARM * len(found))
        node.arms = found
    return node.arms


def step(algebra: Algebra, node: Expr, byte: int) -> Expr:
    """What remains of `node` after `byte`, which is noted; EMPTY when it cannot start with it."""
    rest = _after(algebra, node, byte)
    return noted(algebra, rest, byte) if rest.is_open else rest


def _after(algebra: Algebra, node: Expr, byte: int) -> Expr:
    """What remains, with nothing noted yet. A state that notes is new with every byte, so only the
    arm that is asked for is made.
    """
    if node.arms is None and node.is_open:
        if isinstance(node, Concat):
            left = _after(algebra, node.head, byte)
            rest = algebra.concat(left, node.tail)
            if not node.head.nullable:
                return rest
            return algebra.union([rest, _after(algebra, node.tail, byte)])
        if isinstance(node, Union):
            return algebra.union([_after(algebra, option, byte) for option in node.options])
        if isinstance(node, Intersection):
            return algebra.intersection([_after(algebra, option, byte) for option in node.options])
    for mask, rest in arms(algebra, node):
        if mask >> byte & 1:
            return rest
    return algebra.empty


def walk(algebra: Algebra, node: Expr, data: bytes) -> Expr:
    """What remains of `node` after all of `data`."""
    for byte in data:
        node = step(algebra, node, byte)
        if node is algebra.empty:
            break
    return node


def matches(algebra: Algebra, node: Expr, data: bytes) -> bool:
    """Whether `data` is in `node`."""
    return walk(algebra, node, data).nullable


def has_string(algebra: Algebra, node: Expr) -> bool:
    """Whether any string is in `node`: a search over its derivatives where it is not plain.

    Breadth first, since a short string is found long before a far bound is counted down.
    """
    seen = {node}
    pending = deque([node])
    while pending:
        here = pending.popleft()
        if here.nullable or (here.plain and here is not algebra.empty):
            return True
        for _, rest in arms(algebra, here):
            if rest not in seen:
                algebra.budget.spend()
                seen.add(rest)
                pending.append(rest)
    return False


def _byte_set(algebra: Algebra, node: ByteSet) -> Arms:
    return ((node.mask, algebra.epsilon),)


def _literal(algebra: Algebra, node: Literal) -> Arms:
    return ((1 << node.data[0], algebra.literal(node.data[1:])),)


def _words(algebra: Algebra, node: Words) -> Arms:
    """One arm per next byte: the table is sorted, so each is a slice."""
    table, depth = node.table, node.depth
    assert isinstance(table, tuple), "a word table is immutable"
    first = node.first + node.nullable
    found = []
    while first < node.last:
        byte = table[first][depth]
        bound = table[first][:depth] + bytes([byte + 1]) if byte < 255 else None
        last = node.last if bound is None else bisect_left(table, bound, first, node.last)
        found.append((1 << byte, algebra.words_slice(table, first, last, depth + 1)))
        first = last
    return _join(algebra, found)


def _concat(algebra: Algebra, node: Concat) -> Arms:
    """The head's arms before the tail; and the tail's own while the heads before it may be empty.

    A loop and not a recursion: a chain of a thousand optional parts must not be a thousand deep.
    """
    if not node.head.nullable:  # what is disjoint stays so
        tail = node.tail
        begun = [(mask, algebra.concat(left, tail)) for mask, left in arms(algebra, node.head)]
        return _join(algebra, begun)
    found: list[tuple[int, Expr]] = []
    rest: Expr = node
    while isinstance(rest, Concat) and (rest.arms is None or rest is node):
        head, tail = rest.head, rest.tail
        found += [(mask, algebra.concat(left, tail)) for mask, left in arms(algebra, head)]
        if not head.nullable:
            return _disjoint(algebra, found)
        rest = tail
    return _disjoint(algebra, found + list(arms(algebra, rest)))


def _union(algebra: Algebra, node: Union) -> Arms:
    return _disjoint(algebra, [arm for option in node.options for arm in arms(algebra, option)])


def _repeat(algebra: Algebra, node: Repeat) -> Arms:
    high = None if node.high is None else node.high - 1
    again = algebra.repeat(node.body, max(node.low - 1, 0), high)
    found = [(mask, algebra.concat(rest, again)) for mask, rest in arms(algebra, node.body)]
    return _join(algebra, found)


def _intersection(algebra: Algebra, node: Intersection) -> Arms:
    """The product of the options' partitions."""
    cells: list[tuple[int, tuple[Expr, ...]]] = [(algebra.alphabet, ())]
    for option in node.options:
        cells = [
            (mask & common, (*rests, rest))
            for mask, rests in cells
            for common, rest in arms(algebra, option)
            if mask & common
        ]
        algebra.budget.spend(len(cells))
    return _join(algebra, [(mask, algebra.intersection(rests)) for mask, rests in cells])


def _complement(algebra: Algebra, node: Complement) -> Arms:
    """The body's partition with complemented rests; any string may follow a byte it lacks."""
    others = algebra.alphabet
    found = []
    for mask, rest in arms(algebra, node.body):
        others &= ~mask
        found.append((mask, algebra.complement(rest)))
    if others:
        found.append((others, algebra.full))
    return _join(algebra, found)


def _ref(algebra: Algebra, node: Ref) -> Arms:
    return arms(algebra, node.rules.unfold(node.key))


def _join(algebra: Algebra, found: Iterable[tuple[int, Expr]]) -> Arms:
    """Arms that are disjoint already, with those of one rest made one."""
    by_rest: dict[Expr, int] = {}
    for mask, rest in found:
        if rest is not algebra.empty:
            by_rest[rest] = by_rest.get(rest, 0) | mask
    return tuple((mask, rest) for rest, mask in by_rest.items())


def _disjoint(algebra: Algebra, found: list[tuple[int, Expr]]) -> Arms:
    """Overlapping arms made disjoint: where byte sets overlap, the rests are alternatives."""
    cells: list[tuple[int, list[Expr]]] = []
    seen = 0
    for mask, rest in found:
        left = mask
        if left & seen:
            for index in range(len(cells)):
                whole, rests = cells[index]
                common = whole & left
                if not common:
                    continue
                if common == whole:
                    rests.append(rest)
                else:
                    cells[index] = (whole & ~common, rests)
                    cells.append((common, [*rests, rest]))
                left &= ~common
                if not left:
                    break
        if left:
            cells.append((left, [rest]))
        seen |= mask
    return _join(
        algebra,
        [(mask, rs[0] if len(rs) == 1 else algebra.union(rs)) for mask, rs in cells],
    )


_RULES: dict[type[Expr], Callable[..., Arms]] = {
    ByteSet: _byte_set,
    Literal: _literal,
    Words: _words,
    Concat: _concat,
    Union: _union,
    Repeat: _repeat,
    Intersection: _intersection,
    Complement: _complement,
    Ref: _ref,
}

"""Expressions with references, taken apart at their left end. Owns how that is done.

Every reference of a grammar stands for texts of at least one byte; what may be empty is optional
where it is used. So the left end of an expression shows in its own operators.
It must not know of grammars.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from grammars.algebra import Algebra
from grammars.derive import arms
from grammars.expr import Concat, Expr, Ref, Repeat, Union

Split = tuple[Expr, dict[Hashable, Expr]]
"""What begins with none of some references; and by such a reference, what follows it."""


def nonempty(algebra: Algebra, node: Expr) -> Expr:
    """The strings of `node` but the empty one."""
    if not node.nullable:
        return node
    if isinstance(node, Concat):
        options = []
        rest: Expr = node
        while isinstance(rest, Concat):
            options.append(algebra.concat(nonempty(algebra, rest.head), rest.tail))
            rest = rest.tail
        return algebra.union([*options, nonempty(algebra, rest)])
    if isinstance(node, Union):
        return algebra.union([nonempty(algebra, option) for option in node.options])
    if isinstance(node, Repeat):
        return algebra.concat(nonempty(algebra, node.body), _again(algebra, node))
    found = arms(algebra, node)
    return algebra.union([algebra.concat(algebra.byte_set(mask), rest) for mask, rest in found])


def corners(node: Expr) -> dict[Hashable, None]:
    """The keys of the references that a string of `node` may begin with, in a fixed order."""
    found: dict[Hashable, None] = {}
    seen = {node}
    pending = [node]
    while pending:
        here = pending.pop()
        below: list[Expr] = []
        if isinstance(here, Ref):
            found[here.key] = None
        elif isinstance(here, Concat):
            below = [here.head, here.tail] if here.head.nullable else [here.head]
        elif isinstance(here, Union):
            below = list(here.options)
        elif isinstance(here, Repeat):
            below = [here.body]
        pending += [part for part in below if part not in seen]
        seen.update(below)
    return found


def split(algebra: Algebra, node: Expr, keys: Collection[Hashable]) -> Split:
    """The strings of `node` but the empty one, by whether they begin with a reference of `keys`."""
    if not any(key in keys for key in corners(node)):
        return nonempty(algebra, node), {}
    if isinstance(node, Ref):
        return algebra.empty, {node.key: algebra.epsilon}
    if isinstance(node, Repeat):
        return _joined(algebra, [(split(algebra, node.body, keys), _again(algebra, node))])
    if isinstance(node, Union):
        return _joined(
            algebra, [(split(algebra, option, keys), algebra.epsilon) for option in node.options]
        )
    found = []
    rest: Expr = node
    while isinstance(rest, Concat):
        found.append((split(algebra, rest.head, keys), rest.tail))
        if not rest.head.nullable:
            return _joined(algebra, found)
        rest = rest.tail
    return _joined(algebra, [*found, (split(algebra, rest, keys), algebra.epsilon)])


def _again(algebra: Algebra, node: Repeat) -> Expr:
    """What may follow the first round that is not empty."""
    high = None if node.high is None else node.high - 1
    return algebra.repeat(node.body, 0 if node.body.nullable else max(node.low - 1, 0), high)


def _joined(algebra: Algebra, found: list[tuple[Split, Expr]]) -> Split:
    """One split of several, each before what follows it."""
    bases = [algebra.concat(base, after) for (base, _), after in found]
    follow: dict[Hashable, list[Expr]] = {}
    for (_, rests), after in found:
        for key, rest in rests.items():
            follow.setdefault(key, []).append(algebra.concat(rest, after))
    return algebra.union(bases), {key: algebra.union(rests) for key, rests in follow.items()}

"""States that remember what was written. Owns how that is kept exact where it is written, and left
out where only a mask is asked for.

That no name comes twice, and no two items are equal, no finite automaton can tell: which of them
come later depends on what was written. So the reference behind such a part notes it, byte by byte
(`noted`), and what follows excludes it. A walk of the vocabulary cannot afford that, a state for
each text; and it need not. What is excluded is decided where a part begins, so a mask is right
without the notes up to the end of the part that is being written, and from there into the next one
as long as that has room: as long as it cannot be ended within the token, and is part of a string or
number that may go on in very many ways. So states are *loosened* for masks: their notes are left
out, and a part that begins after an unknown one is *pending*: it cannot be passed. What comes of a
token that would pass it, or goes on into one without room, is *unsure*: such tokens are few, and
each is looked at by itself, with the notes (see `mask_store`).

Visible references (those not inside of others) are those of parts that have begun.
It must not know what is noted, nor why.
"""

from __future__ import annotations

from collections.abc import Callable

from grammars.algebra import Algebra
from grammars.expr import ByteSet, Complement, Concat, Expr, Intersection, Ref, Repeat, Union

WIDE = 10
"""Bytes of a repetition that has room: digits are enough."""

ROUNDS = 6
"""Rounds that it may still take: 10^6 ways, far more than parts that are remembered."""

SLACK = 8
"""Tokens by which what is not known may lengthen a part that began within a token: it differs from
all others after ROUNDS bytes, each a token at worst. A matcher that is near the end of its budget
does not count on it (see `matcher`)."""

DEPTH = 2
"""References that are followed to find room: a value, and what it is made of."""


def noted(algebra: Algebra, node: Expr, byte: int) -> Expr:
    """The state with `byte` noted by all that is visible."""

    def change(part: Expr) -> Expr | None:
        if not part.is_open:
            return part
        return part.noting.noted(part.key, byte) if isinstance(part, Ref) and part.noting else None

    return _changed(algebra, node, change) if node.is_open else node


def loosened(algebra: Algebra, node: Expr) -> Expr:
    """The state without its notes: the same mask, shared by all that were written differently."""
    if not node.notes:
        return node
    if node.loose is None:

        def change(part: Expr) -> Expr | None:
            if not part.notes:
                return part
            return part.noting.loosened(part.key) if isinstance(part, Ref) and part.noting else None

        node.loose = _changed(algebra, begun(algebra, node), change)
    return node.loose


def begun(algebra: Algebra, node: Expr) -> Expr:
    """The state with the part unfolded that begins right here: what it excludes is known."""
    if isinstance(node, Concat):
        return algebra.concat(begun(algebra, node.head), node.tail)
    if isinstance(node, Intersection) and node.notes:
        return algebra.intersection([begun(algebra, option) for option in node.options])
    if isinstance(node, Ref) and node.noting and node.noting.begins(node.key):
        return node.rules.unfold(node.key)
    if isinstance(node, Repeat) and node.notes:
        assert (node.low, node.high) == (0, 1), "what is visible is there once at most"
        return algebra.optional(begun(algebra, node.body))
    return node


def _changed(algebra: Algebra, node: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """`node` with its visible parts changed: those for which `change` gives None, in theirs."""
    heads: list[Expr] = []
    changed = change(node)
    while changed is None and isinstance(node, Concat):
        heads.append(_changed(algebra, node.head, change))
        node = node.tail
        changed = change(node)
    if changed is None:
        changed = _changed_parts(algebra, node, change)
    for head in reversed(heads):
        changed = algebra.concat(head, changed)
    return changed


def _changed_parts(algebra: Algebra, node: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    if isinstance(node, Union):
        return algebra.union([_changed(algebra, option, change) for option in node.options])
    if isinstance(node, Intersection):
        return algebra.intersection([_changed(algebra, option, change) for option in node.options])
    assert isinstance(node, Repeat) and node.high == 1, "what is visible is there once at most"
    return algebra.repeat(_changed(algebra, node.body, change), node.low, 1)


def is_decided_by_notes(node: Expr) -> bool:
    """Whether a state that does not look alive may be, depending on what was written."""
    return node.pending or (node.notes and not node.plain)


def has_ref(node: Expr) -> bool:
    """Whether a reference stands in it."""
    if isinstance(node, Concat):
        return has_ref(node.head) or has_ref(node.tail)
    if isinstance(node, Union | Intersection):
        return any(map(has_ref, node.options))
    if isinstance(node, Repeat | Complement):
        return has_ref(node.body)
    return isinstance(node, Ref)


def has_room(node: Expr, depth: int = DEPTH) -> bool:
    """Whether a part can go on in very many ways from here: a wide repetition stands in front of
    what cannot be passed. References are followed `depth` deep.
    """
    while isinstance(node, Concat):
        if _has_room(node.head, depth):
            return True
        if isinstance(node.head, Ref) and node.head.pending:
            return False
        node = node.tail
    return _has_room(node, depth)


def _has_room(node: Expr, depth: int) -> bool:
    if isinstance(node, Union):
        return any(has_room(option, depth) for option in node.options)
    if isinstance(node, Intersection) and node.pending:  # what is excluded is finite
        kept = [option for option in node.options if not isinstance(option, Complement)]
        return len(kept) == 1 and has_room(kept[0], depth)
    if isinstance(node, Ref):
        is_followed = not node.is_open if node.pending else depth > 0 and not node.notes
        return is_followed and has_room(node.rules.unfold(node.key), depth - (not node.pending))
    if not isinstance(node, Repeat):
        return isinstance(node, Concat) and has_room(node, depth)
    if node.high is not None and node.high < ROUNDS:
        return node.high == 1 and has_room(node.body, depth)
    return _num_first(node.body) >= WIDE


def _num_first(node: Expr) -> int:
    """Single bytes that a string may be."""
    if isinstance(node, ByteSet):
        return node.mask.bit_count()
    if isinstance(node, Union):
        return sum(map(_num_first, node.options))
    return 0

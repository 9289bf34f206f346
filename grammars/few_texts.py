"""The texts of a small language, listed. Owns the search for them.

It must not know what the texts mean.
"""

from __future__ import annotations

from grammars.algebra import Algebra
from grammars.derive import arms, has_string
from grammars.expr import Expr


def few_texts(algebra: Algebra, node: Expr, most: int) -> list[bytes] | None:
    """All texts of `node`, when they are `most` at most and no search misses one; else None.

    In depth, so that the search of a large language ends as soon as it has found too many: every
    start of a text that is still pending leads to one at least, and no two to the same.
    """
    found: list[bytes] = []
    pending: list[tuple[Expr, bytes]] = [(node, b"")]
    steps = 0
    while pending:
        here, text = pending.pop()
        steps += 1
        if here.nullable:
            found.append(text)
        if len(found) + len(pending) > most or steps > 64 * most or len(text) > 16 * most:
            return None
        for mask, rest in arms(algebra, here):
            if rest.pending:  # what follows depends on what is written (see `noting`)
                return None
            if not (rest.plain or has_string(algebra, rest)):
                continue
            if mask.bit_count() > most:
                return None
            pending += [(rest, text + bytes([b])) for b in range(256) if mask >> b & 1]
    return found

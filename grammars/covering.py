"""References of which one has all strings of another. Owns which of them are left out of a union.

It must not know what is counted.
"""

from __future__ import annotations

from collections.abc import Hashable

from grammars.expr import Expr, Rank, Ref


def without_covered(options: list[Expr]) -> list[Expr]:
    """The options without the references of which another has all strings: where what counts may
    be left uncounted, too, the states would otherwise be as many as the counts.
    """
    ranked: dict[Hashable, list[tuple[Rank, Expr]]] = {}
    for option in options:
        if isinstance(option, Ref) and option.rank is not None:
            ranked.setdefault((option.rules, option.rank.others), []).append((option.rank, option))
    covered: set[Expr] = set()
    for refs in ranked.values():
        for rank, option in refs if len(refs) > 1 else ():
            if any(other is not option and _covers(more, rank) for more, other in refs):
                covered.add(option)
    return [option for option in options if option not in covered] if covered else options


def _covers(more: Rank, rank: Rank) -> bool:
    return all(high >= low for high, low in zip(more.counts, rank.counts, strict=True))

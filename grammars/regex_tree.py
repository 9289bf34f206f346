"""What a pattern says, as a tree over code points. Owns the tree and the two dialects' differences.

It must not know of the text of a pattern, nor of expressions.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammars.charset import Ranges


@dataclass(frozen=True, slots=True)
class Chars:
    """One code point of `ranges`."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Seq:
    """All items, one after another."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    """Any of the options."""

    options: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """`low` to `high` (None: unbounded) times the body."""

    body: Tree
    low: int
    high: int | None
    column: int


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place: "start", "end", or "line_end" (`$` of `re`: the end, or before a final newline)."""

    kind: str
    column: int


Tree = Chars | Seq | Alt | Loop | Anchor


@dataclass(frozen=True)
class Dialect:
    """What differs between the two syntaxes."""

    name: str
    ascii_classes: bool
    dollar: str
    line_ends: Ranges


PYTHON = Dialect("python", ascii_classes=False, dollar="line_end", line_ends=((10, 10),))
ECMA = Dialect(
    "ecma", ascii_classes=True, dollar="end", line_ends=((10, 10), (13, 13), (0x2028, 0x2029))
)


def whole(tree: Tree) -> Tree | None:
    """What stands between `^` and `$`, where a pattern begins and ends with them."""
    if not isinstance(tree, Seq) or len(tree.items) < 2:
        return None
    first, *inner, last = tree.items
    if first == Anchor("start", _column(first)) and last == Anchor("end", _column(last)):
        return inner[0] if len(inner) == 1 else Seq(tuple(inner))
    return None


def _column(tree: Tree) -> int:
    return tree.column if isinstance(tree, Anchor) else -1


def span(tree: Tree) -> tuple[int, int | None]:
    """The fewest and the most code points (None: unbounded) that a tree without anchors takes."""
    if isinstance(tree, Chars):
        return 1, 1
    if isinstance(tree, Anchor):
        return 0, 0
    if isinstance(tree, Loop):
        least, most = span(tree.body)
        return least * tree.low, None if most is None or tree.high is None else most * tree.high
    parts = [span(part) for part in (tree.items if isinstance(tree, Seq) else tree.options)]
    lows, highs = [low for low, _ in parts], [high for _, high in parts]
    bounded = [high for high in highs if high is not None]
    if isinstance(tree, Seq):
        return sum(lows), sum(bounded) if len(bounded) == len(highs) else None
    return min(lows), max(bounded) if len(bounded) == len(highs) else None

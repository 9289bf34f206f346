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

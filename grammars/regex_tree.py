"""What a pattern says, as a tree over code points. Owns the tree, what is known of its parts, and
the two dialects' differences.

`^`, `$`, `\\b` and the like are look-arounds too: `^` says "no character before", `$` of `re` says
"at most a newline ahead". So the lowering knows one kind of condition instead of six.
It must not know of the text of a pattern, nor of expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from grammars.charset import ANY, Ranges, normalized

UNBOUNDED = 1 << 60
"""A width or a distance without a limit."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a tree without looking into it again. Distances count code points.

    `low`, `high`: how many it takes. `ahead`: how many beyond its end may decide whether it
    matches. `near`: 1 when the one before its start may. `behind`: how many before its start
    matter to look-behinds of more than one character. `depth`: trees in one another.
    """

    low: int = 0
    high: int = 0
    ahead: int = 0
    near: int = 0
    behind: int = 0
    looks: bool = False
    depth: int = 1

    @property
    def closed(self) -> bool:
        """Whether what it matches does not depend on what stands around it."""
        return not (self.ahead or self.near or self.behind)


@dataclass(frozen=True, slots=True, eq=False)
class Chars:
    """One code point of `ranges`."""

    ranges: Ranges
    facts: Facts = field(init=False, repr=False, default=Facts(1, 1))


@dataclass(frozen=True, slots=True, eq=False)
class Seq:
    """All items, one after another."""

    items: tuple[Tree, ...]
    facts: Facts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", _seq_facts([item.facts for item in self.items]))


@dataclass(frozen=True, slots=True, eq=False)
class Alt:
    """Any of the options, in the order in which `re` tries them."""

    options: tuple[Tree, ...]
    facts: Facts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = [option.facts for option in self.options]
        facts = Facts(
            low=min(part.low for part in parts),
            high=max(part.high for part in parts),
            ahead=max(part.ahead for part in parts),
            near=max(part.near for part in parts),
            behind=max(part.behind for part in parts),
            looks=any(part.looks for part in parts),
            depth=1 + max(part.depth for part in parts),
        )
        object.__setattr__(self, "facts", facts)


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """`low` to `high` (None: unbounded) times the body; `greedy`: as many as can be, first."""

    body: Tree
    low: int
    high: int | None
    column: int
    greedy: bool = True
    facts: Facts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        body = self.body.facts
        most = UNBOUNDED if self.high is None and body.high else (self.high or 0) * body.high
        facts = Facts(
            low=min(self.low * body.low, UNBOUNDED),
            high=min(most, UNBOUNDED),
            ahead=body.ahead,
            near=body.near,
            behind=body.behind,
            looks=body.looks,
            depth=1 + body.depth,
        )
        object.__setattr__(self, "facts", facts)


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """A condition on what stands ahead of a place, or behind it: the body matches there (or, when
    `negated`, it does not). It takes nothing.
    """

    body: Tree
    is_ahead: bool
    negated: bool
    column: int
    facts: Facts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        body = self.body.facts
        if self.is_ahead:
            ahead, near, behind = min(body.high + body.ahead, UNBOUNDED), body.near, body.behind
        elif isinstance(self.body, Chars):
            ahead, near, behind = 0, 1, 0
        else:
            before = max(body.near, body.behind)
            ahead, near, behind = body.ahead, 0, min(body.high + before, UNBOUNDED)
        facts = Facts(ahead=ahead, near=near, behind=behind, looks=True, depth=1 + body.depth)
        object.__setattr__(self, "facts", facts)

    @property
    def is_near(self) -> bool:
        """Whether one neighbouring character decides."""
        return isinstance(self.body, Chars)


Tree = Chars | Seq | Alt | Loop | Look


def _seq_facts(parts: list[Facts]) -> Facts:
    ahead = near = behind = low = high = 0
    for part in parts:
        near = max(near, part.near - low)
        behind = max(behind, distance_left(part.behind, low))
        low, high = min(low + part.low, UNBOUNDED), min(high + part.high, UNBOUNDED)
    after = 0
    for part in reversed(parts):
        ahead = max(ahead, distance_left(part.ahead, after))
        after = min(after + part.low, UNBOUNDED)
    looks = any(part.looks for part in parts)
    depth = 1 + _row_depth(parts)
    return Facts(low, high, ahead=ahead, near=near, behind=behind, looks=looks, depth=depth)


def _row_depth(parts: list[Facts]) -> int:
    """What a row of trees adds to the stack: the deepest of them; rows of conditions and of what
    may be empty, which are gone through inside of one another until a character is taken; long
    look-aheads, for each of which all that comes after it is.
    """
    deepest = row = run = long = 0  # run: of neighbours without look-around, which are one part
    for part in parts:
        run = max(run, part.depth)
        deepest = max(deepest, row + run)
        if part.low:
            row = 0
        if part.looks:
            row, run = row + run * (part.low == 0), 0
        long += part.ahead > 1
    return deepest + 2 * long


def distance_left(distance: int, taken: int) -> int:
    """What is left of a distance when `taken` characters of it are known to be there."""
    return UNBOUNDED if distance == UNBOUNDED else max(distance - taken, 0)


NOTHING = Seq(())
"""The empty text."""

NEVER = Chars(())
"""No text at all."""

ANYTHING = Loop(Chars(ANY), 0, None, 0)
"""What follows all that a look-ahead asks. It is not written, but looked at: see `regex_plain`."""


# -- making trees --------------------------------------------------------------------------------


def sequence(items: Sequence[Tree]) -> Tree:
    """All of `items`, one after another."""
    if not items:
        return NOTHING
    return items[0] if len(items) == 1 else Seq(tuple(items))


def any_of(options: Sequence[Tree]) -> Tree:
    """Any of `options`, at least one; single characters become one set."""
    if len(options) == 1:
        return options[0]
    if all(isinstance(option, Chars) for option in options):
        ranges = [pair for option in options if isinstance(option, Chars) for pair in option.ranges]
        return Chars(normalized(ranges))
    return Alt(tuple(options))


def any_text() -> Tree:
    """Every text."""
    return Loop(Chars(ANY), 0, None, 0)


# -- dialects ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dialect:
    """What differs between the two syntaxes."""

    name: str
    line_ends: Ranges


PYTHON = Dialect("python", line_ends=((10, 10),))
ECMA = Dialect("ecma", line_ends=((10, 10), (13, 13), (0x2028, 0x2029)))


# -- what others ask -----------------------------------------------------------------------------


def whole(tree: Tree) -> Tree | None:
    """What stands between `^` and `$`, where a pattern begins and ends with them."""
    if not isinstance(tree, Seq) or len(tree.items) < 2:
        return None
    first, *inner, last = tree.items
    if _is_edge(first, is_ahead=False) and _is_edge(last, is_ahead=True):
        return sequence(inner)
    return None


def _is_edge(tree: Tree, *, is_ahead: bool) -> bool:
    """Whether a tree says that no character stands there."""
    if not isinstance(tree, Look) or tree.is_ahead != is_ahead or not tree.negated:
        return False
    return isinstance(tree.body, Chars) and tree.body.ranges == ANY


def span(tree: Tree) -> tuple[int, int | None]:
    """The fewest and the most code points (None: unbounded) that a tree takes."""
    facts = tree.facts
    return facts.low, None if facts.high == UNBOUNDED else facts.high

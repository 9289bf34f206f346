"""From a pattern's tree to a byte-level expression. Owns the meaning of anchors.

A tree without anchors is lowered part by part. Where anchors stand inside, every part is lowered
for the context it stands in (is it at the text's start? what follows it?) and for what it takes of
the text (nothing, or something), so `(^a|b)c?$` and `^(|.*)$` mean exactly what they say.
It must not know of tokens or of JSON Schema.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

from grammars.algebra import Algebra, literal_bytes
from grammars.charset import ANY, Encoder
from grammars.derive import arms, matches
from grammars.errors import UnsupportedError
from grammars.expr import Expr
from grammars.regex_tree import Alt, Anchor, Chars, Loop, Seq, Tree

MAX_ANCHORED = 40
"""Parts of one sequence that hold anchors; each costs stack, and one text has one start and end."""


MANY_WORDS = 8
"""So many literal alternatives are searched in a table instead of one by one."""


class Takes(Enum):
    """How much of the text a part takes."""

    NOTHING = 0
    SOMETHING = 1


class After(Enum):
    """What follows a part up to the text's end."""

    NOTHING = 0
    NEWLINE = 1  # exactly one, where `$` of `re` holds too
    MORE = 2


def lower_full(algebra: Algebra, tree: Tree, encode: Encoder) -> Expr:
    """The texts that the whole of the pattern matches (`re.fullmatch`)."""
    return _Lowering(algebra, encode).whole(tree)


def lower_search(algebra: Algebra, tree: Tree, encode: Encoder) -> Expr:
    """The texts in which the pattern matches somewhere (JSON Schema's `pattern`)."""
    anything = Loop(Chars(ANY), 0, None, 0)
    return _Lowering(algebra, encode).whole(Seq((anything, tree, anything)))


@lru_cache(maxsize=4096)
def has_anchor(tree: Tree) -> bool:
    """Whether an anchor stands anywhere inside."""
    if isinstance(tree, Seq):
        return any(has_anchor(item) for item in tree.items)
    if isinstance(tree, Alt):
        return any(has_anchor(option) for option in tree.options)
    return has_anchor(tree.body) if isinstance(tree, Loop) else isinstance(tree, Anchor)


class _Lowering:
    def __init__(self, algebra: Algebra, encode: Encoder) -> None:
        self.algebra = algebra
        self.encode = encode
        self.newline = encode(algebra, ((10, 10),))
        self.sets: dict[object, Expr] = {}
        self.contextual: dict[tuple[Tree, bool, After, Takes], Expr] = {}

    def whole(self, tree: Tree) -> Expr:
        if not has_anchor(tree):
            return self.plain(tree)
        return self.algebra.union(self.placed(tree, True, After.NOTHING, takes) for takes in Takes)

    # -- without anchors ---------------------------------------------------------------------

    def plain(self, tree: Tree) -> Expr:
        """The texts of a tree that holds no anchor."""
        algebra = self.algebra
        if isinstance(tree, Chars):
            if tree.ranges not in self.sets:
                self.sets[tree.ranges] = self.encode(algebra, tree.ranges)
            return self.sets[tree.ranges]
        if isinstance(tree, Seq):
            return algebra.sequence([self.plain(item) for item in tree.items])
        if isinstance(tree, Alt):
            return self.any_of([self.plain(option) for option in tree.options])
        assert isinstance(tree, Loop), "anchors are lowered in their context"
        return algebra.repeat(self.plain(tree.body), tree.low, tree.high)

    def any_of(self, options: list[Expr]) -> Expr:
        """Any of the options; the literal ones, when they are many, as a table of words."""
        literals = {data for option in options if (data := literal_bytes(option)) is not None}
        if len(literals) < MANY_WORDS:
            return self.algebra.union(options)
        others = [option for option in options if literal_bytes(option) is None]
        return self.algebra.union([*others, self.algebra.words(literals)])

    # -- with anchors ------------------------------------------------------------------------

    def placed(self, tree: Tree, at_start: bool, after: After, takes: Takes) -> Expr:
        """The texts of `tree` in its context that take nothing, or something."""
        key = (tree, at_start, after, takes)
        if key not in self.contextual:
            self.contextual[key] = self._placed(tree, at_start, after, takes)
        return self.contextual[key]

    def _placed(self, tree: Tree, at_start: bool, after: After, takes: Takes) -> Expr:
        algebra = self.algebra
        if not has_anchor(tree):
            return self.restricted(self.plain(tree), takes)
        if isinstance(tree, Anchor):
            holds = {
                "start": at_start,
                "end": after is After.NOTHING,
                "line_end": after is not After.MORE,
            }[tree.kind]
            return algebra.epsilon if holds and takes is Takes.NOTHING else algebra.empty
        if isinstance(tree, Alt):
            return algebra.union(self.placed(o, at_start, after, takes) for o in tree.options)
        if isinstance(tree, Loop):
            return self.placed_loop(tree, at_start, after, takes)
        assert isinstance(tree, Seq), "every other tree has been seen"
        first, rest = self.split(tree)
        if takes is Takes.NOTHING:
            return algebra.concat(
                self.placed(first, at_start, after, takes),
                self.placed(rest, at_start, after, takes),
            )
        nothing, something = Takes.NOTHING, Takes.SOMETHING
        options = [
            algebra.concat(
                self.placed(first, at_start, after, something),
                self.placed(rest, False, after, nothing),
            )
        ]
        for first_takes in (nothing, something):
            remains = self.placed(rest, at_start and first_takes is nothing, after, something)
            if remains is algebra.empty:
                continue
            head = self.placed(first, at_start, After.MORE, first_takes)
            options.append(algebra.concat(head, remains))
            if after is After.NOTHING and matches(algebra, remains, b"\n"):
                head = self.placed(first, at_start, After.NEWLINE, first_takes)
                options.append(algebra.concat(head, self.newline))
        return algebra.union(options)

    def split(self, tree: Seq) -> tuple[Tree, Tree]:
        """A sequence's first part (its items up to an anchored one, or that one) and the rest."""
        items = tree.items
        anchored = [index for index, item in enumerate(items) if has_anchor(item)]
        if len(anchored) > MAX_ANCHORED:
            raise UnsupportedError(
                f"the pattern has more than {MAX_ANCHORED} anchored parts in one sequence, "
                "which is not supported; write the anchors once",
                _column(items[anchored[0]]),
            )
        cut = max(anchored[0], 1)
        first = items[0] if cut == 1 else Seq(items[:cut])
        return first, items[cut] if len(items) == cut + 1 else Seq(items[cut:])

    def placed_loop(self, tree: Loop, at_start: bool, after: After, takes: Takes) -> Expr:
        if tree.high == 0:
            return self.restricted(self.algebra.epsilon, takes)
        if tree.high != 1:
            raise UnsupportedError(
                f"an anchor inside a repetition at column {tree.column} is not supported yet; "
                "move the anchor out of it",
                tree.column,
            )
        body = self.placed(tree.body, at_start, after, takes)
        skipped = tree.low == 0 and takes is Takes.NOTHING
        return self.algebra.union([body, self.algebra.epsilon]) if skipped else body

    def restricted(self, whole: Expr, takes: Takes) -> Expr:
        """`whole` without its empty text, or with nothing but it."""
        algebra = self.algebra
        if takes is Takes.NOTHING:
            return algebra.epsilon if whole.nullable else algebra.empty
        if not whole.nullable:
            return whole
        return algebra.union(
            algebra.concat(algebra.byte_set(mask), rest) for mask, rest in arms(algebra, whole)
        )


def _column(tree: Tree) -> int | None:
    """Where the first anchor of a tree stands."""
    if isinstance(tree, Anchor):
        return tree.column
    parts: tuple[Tree, ...] = ()
    if isinstance(tree, Seq):
        parts = tree.items
    elif isinstance(tree, Alt):
        parts = tree.options
    elif isinstance(tree, Loop):
        parts = (tree.body,)
    return next((_column(part) for part in parts if has_anchor(part)), None)

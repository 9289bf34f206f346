"""Look-arounds and places, in the simplest form that says the same. Owns what each place means.

One neighbouring character often decides: `(?![a-z]+)` is `(?![a-z])`, `(?!^)` is a look-behind. The
lowering has a cheap way for those. It must not know of the text of a pattern.
"""

from __future__ import annotations

import re

from grammars.charset import ANY, Ranges, invert
from grammars.regex_tree import (
    ECMA,
    NEVER,
    NOTHING,
    Alt,
    Chars,
    Dialect,
    Look,
    Loop,
    Seq,
    Tree,
    any_of,
    sequence,
)

_NO_TEXT_NO_BORDER = re.fullmatch(r"\B", "") is None
"""Before Python 3.14, `\\B` does not hold in the empty text."""


def look(body: Tree, column: int, *, is_ahead: bool, negated: bool) -> Tree:
    """The condition that `body` matches ahead of a place, or up to it (or does not)."""
    body = _trimmed(body, is_ahead=is_ahead)
    if body.facts.high == 0:  # nothing is taken: the same condition ahead and behind
        if not body.facts.looks:
            return NEVER if negated else NOTHING
        if isinstance(body, Look):
            flipped = body.negated != negated
            return Look(body.body, is_ahead=body.is_ahead, negated=flipped, column=column)
        is_ahead = True
    if not is_ahead and body.facts.ahead:
        return _behind_and_ahead(body, column, negated=negated)
    return Look(body, is_ahead=is_ahead, negated=negated, column=column)


def _trimmed(tree: Tree, *, is_ahead: bool) -> Tree:
    """A look-around's body without what does not matter at its far end: further repetitions."""
    if isinstance(tree, Loop):
        if tree.low == 0:
            return NOTHING
        once = _trimmed(tree.body, is_ahead=is_ahead)
        return once if tree.low == 1 else Loop(tree.body, tree.low, tree.low, tree.column)
    if isinstance(tree, Alt):
        options = [_trimmed(option, is_ahead=is_ahead) for option in tree.options]
        free = any(o.facts.high == 0 and not o.facts.looks for o in options)
        return NOTHING if free else any_of(options)
    if isinstance(tree, Seq):
        items = list(tree.items if is_ahead else reversed(tree.items))
        while items:
            items[-1] = _trimmed(items[-1], is_ahead=is_ahead)
            if items[-1] is not NOTHING:
                break
            items.pop()
        return sequence(items if is_ahead else items[::-1])
    return tree


def _behind_and_ahead(body: Tree, column: int, *, negated: bool) -> Tree:
    """A look-behind whose body ends in a look-ahead (`(?<=foo\\b)`): both at this place.

    What cannot be parted stays as it is (see `looks_beyond`).
    """
    if isinstance(body, Alt):
        parts = [look(o, column, is_ahead=False, negated=negated) for o in body.options]
        return sequence(parts) if negated else any_of(parts)
    if isinstance(body, Seq) and body.items[-1].facts.high == 0:
        behind = look(sequence([*body.items[:-1]]), column, is_ahead=False, negated=negated)
        ahead = look(body.items[-1], column, is_ahead=True, negated=negated)
        return any_of([behind, ahead]) if negated else sequence([behind, ahead])
    return Look(body, is_ahead=False, negated=negated, column=column)


def looks_beyond(tree: Tree) -> bool:
    """Whether a look-behind at the top of a tree depends on what comes after its place."""
    if isinstance(tree, Look):
        return not tree.is_ahead and tree.body.facts.ahead > 0
    parts = tree.items if isinstance(tree, Seq) else tree.options if isinstance(tree, Alt) else ()
    return any(looks_beyond(part) for part in parts)


# -- places --------------------------------------------------------------------------------------


def text_start(column: int) -> Tree:
    """`\\A`: no character before."""
    return Look(Chars(ANY), is_ahead=False, negated=True, column=column)


def text_end(column: int) -> Tree:
    """`\\Z`: no character ahead."""
    return Look(Chars(ANY), is_ahead=True, negated=True, column=column)


def line_start(column: int, dialect: Dialect) -> Tree:
    """`^` with the flag m: no character before but a line's end."""
    return Look(Chars(invert(dialect.line_ends)), is_ahead=False, negated=True, column=column)


def line_end(column: int, dialect: Dialect) -> Tree:
    """`$` with the flag m: no character ahead but a line's end."""
    return Look(Chars(invert(dialect.line_ends)), is_ahead=True, negated=True, column=column)


def dollar(column: int, dialect: Dialect) -> Tree:
    """`$` without the flag m: for `re` also before a newline that ends the text."""
    if dialect is ECMA:
        return text_end(column)
    newline = Loop(Chars(((10, 10),)), 0, 1, column)
    return Look(Seq((newline, text_end(column))), is_ahead=True, negated=False, column=column)


def word_border(column: int, dialect: Dialect, *, word: Ranges, negated: bool) -> Tree:
    """`\\b`: a character of `word` on one side and none on the other. `\\B`: both or neither."""
    options: list[Tree] = []
    for before in (True, False):
        after = before if negated else not before
        sides = [
            Look(Chars(word), is_ahead=False, negated=not before, column=column),
            Look(Chars(word), is_ahead=True, negated=not after, column=column),
        ]
        options.append(Seq(tuple(sides)))
    border = any_of(options)
    if not negated or dialect is ECMA or not _NO_TEXT_NO_BORDER:
        return border
    some = [
        Look(Chars(ANY), is_ahead=is_ahead, negated=False, column=column)
        for is_ahead in (False, True)
    ]
    return Seq((any_of(some), border))

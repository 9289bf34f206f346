"""What look-around asks at a place. Owns its meaning.

* A look-ahead of one character waits for what takes the next one, and narrows its set.
* A look-behind of one character is decided by the *cell* that the last one lies in: all characters
  are parted into cells that no look-behind of the pattern tells apart.
* A long look-behind runs along from the start of the text as a language, `.*X`: it holds where that
  may end. A long look-ahead is a language of all the text that follows.

It must not know how a place goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from grammars.charset import ANY
from grammars.derive import arms, step
from grammars.expr import Expr
from grammars.regex_parts import common, others
from grammars.regex_places import Asked, Before, First, Place, Todo, Todos, place
from grammars.regex_plain import Plain
from grammars.regex_tree import ANYTHING, Alt, Chars, Look, Loop, Seq, Tree, any_text


class Conditions:
    """The look-arounds of one pattern. `text_at(place)`: all that may follow a place."""

    def __init__(
        self, plain: Plain, tree: Tree, todos: Todos, text_at: Callable[[Place], Expr]
    ) -> None:
        self._plain = plain
        self._algebra = plain.algebra
        self._todos = todos
        self._text_at = text_at
        behind = [look for look in looks_of(tree) if not look.is_ahead]
        self.cells = _cells(behind)
        """The sets that `Before.cell` counts, from 1 on."""
        self._long = [look for look in behind if not look.is_near]
        self._from_start: list[Expr] = []
        self._from_later: list[Expr] = []
        self._firsts: dict[tuple[First | None, Look], First | None] = {}
        self._holds: dict[tuple[Look, int], bool] = {}

    def begin(self) -> Before:
        """The start of the text."""
        for look in self._long[len(self._from_start) :]:
            language = self._language(look)
            self._from_start.append(language)
            self._from_later.append(self._after_any(language))
        return Before(0, tuple(self._from_start))

    # -- one character -----------------------------------------------------------------------

    def narrowed(self, asked: Asked, look: Look) -> Asked | None:
        """What is asked of what follows, and a short look-ahead; None: nothing can follow."""
        key = (asked.first, look)
        if key not in self._firsts:
            self._firsts[key] = self._narrowed(asked.first, look)
        first = self._firsts[key]
        return None if first is None else replace(asked, first=first)

    def _narrowed(self, first: First | None, look: Look) -> First | None:
        assert isinstance(look.body, Chars), "the condition is about one character"
        chars = others(look.body.ranges) if look.negated else look.body.ranges
        may_end = look.negated
        if first is not None:
            chars, may_end = common(first.chars.ranges, chars), may_end and first.may_end
        return First(Chars(chars), may_end) if chars or may_end else None

    def holds_behind(self, look: Look, before: Before) -> bool:
        """Whether a look-behind, short or long, holds."""
        if not isinstance(look.body, Chars):
            return self._state(look, before).nullable != look.negated
        key = (look, before.cell)
        if key not in self._holds:
            last = self.cells[before.cell - 1].ranges if before.cell else ()
            self._holds[key] = bool(common(last, look.body.ranges)) != look.negated
        return self._holds[key]

    # -- many characters ---------------------------------------------------------------------

    def ahead(self, look: Look, before: Before) -> Expr:
        """What a long look-ahead asks of all the text that follows."""
        body = self._todos.parts(look.body, self._todos.one(ANYTHING, None))
        text = self._text_at(place(body, before))
        return self._algebra.complement(text) if look.negated else text

    def behind(self, rest: Todo | None, before: Before) -> Expr | None:
        """What a long look-behind at the start of `rest` asks of the text up to there; None where
        there is none, or it is not all that `rest` asks of that text.
        """
        if rest is None or not isinstance(rest.tree, Look) or rest.tree not in self._long:
            return None
        if rest.rest is not None and (rest.rest.near or rest.rest.behind):
            return None
        state = self._state(rest.tree, before)
        return self._algebra.complement(state) if rest.tree.negated else state

    def states(self, before: Before) -> tuple[Expr, ...]:
        """How far the long look-behinds have come."""
        return before.states or tuple(self._from_later)

    def _state(self, look: Look, before: Before) -> Expr:
        return self.states(before)[self._long.index(look)]

    def _language(self, look: Look) -> Expr:
        """The texts up to a place where the body of a long look-behind matches."""
        assert not look.body.facts.ahead, "the parser refuses a look-behind that looks beyond"
        todo = self._todos.one(any_text(), self._todos.parts(look.body, None))
        return self._text_at(place(todo, Before(0, tuple(self._from_start))))

    def _after_any(self, language: Expr) -> Expr:
        """What is left of a language after a character. Which one does not matter where this is
        asked: all that is looked at comes later.
        """
        char = self._plain.chars(ANY)
        while not char.nullable and char is not self._algebra.empty:
            mask, char = arms(self._algebra, char)[0]
            language = step(self._algebra, language, (mask & -mask).bit_length() - 1)
        return language


def looks_of(tree: Tree) -> Iterator[Look]:
    """The look-arounds inside, those of a body before the one around it."""
    if not tree.facts.looks:
        return
    if isinstance(tree, Seq | Alt):
        for part in tree.items if isinstance(tree, Seq) else tree.options:
            yield from looks_of(part)
    elif isinstance(tree, Loop | Look):
        yield from looks_of(tree.body)
        if isinstance(tree, Look):
            yield tree


def _cells(looks: Iterable[Look]) -> list[Chars]:
    """All characters, parted by the sets of short look-behinds."""
    cells = [ANY]
    for chars in {look.body.ranges: None for look in looks if isinstance(look.body, Chars)}:
        parted = [common(cell, side) for cell in cells for side in (chars, others(chars))]
        cells = [cell for cell in parted if cell]
    return [Chars(cell) for cell in cells]

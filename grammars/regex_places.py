"""Places of a pattern: what is still to be matched, what stands before, what is asked of what
follows. Owns when two places are the same.

What does not matter any more is left out, so that the places of a pattern are finitely many, and
few. It must not know how a place goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from grammars.expr import Expr
from grammars.regex_tree import Chars, Seq, Tree, distance_left, sequence


@dataclass(frozen=True, slots=True, eq=False)
class Todo:
    """A tree to be matched, and what comes after it (None: the end of the text).

    `looping`: a round of a repetition is under way, so the same place may come again. `near` and
    `behind` say how far back its look-behinds look (see `Facts`).
    """

    tree: Tree
    rest: Todo | None
    looping: bool
    near: int
    behind: int


@dataclass(frozen=True, slots=True)
class Before:
    """What is known of the text before a place.

    `cell`: where its last character lies (see `Conditions`), 0 at the start. `states`: how far each
    long look-behind has come, as what is left of its language; nothing where none matters, or none
    can look further back than what comes next.
    """

    cell: int = 0
    states: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class First:
    """The characters that the next one may be, and whether the text may end instead."""

    chars: Chars
    may_end: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What look-ahead asks of the text that follows. `rest`: to be in a language, which the next
    `reach` characters decide.
    """

    first: First | None = None
    rest: Expr | None = None
    reach: int = 0


FREE = Asked()


@dataclass(frozen=True, slots=True)
class Place:
    """A place of the pattern in its context."""

    todo: Todo | None
    before: Before
    asked: Asked = FREE


class Todos:
    """Makes what is to be done, each once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Tree, Todo | None, bool], Todo] = {}
        self._groups: dict[Seq, tuple[Tree, ...]] = {}

    def one(self, tree: Tree, rest: Todo | None, *, looping: bool = False) -> Todo:
        """`tree`, then `rest`. `looping`: `tree` is what remains of a repetition."""
        looping = looping or (rest is not None and rest.looping)
        key = (tree, rest, looping)
        if key not in self._known:
            facts = tree.facts
            near, behind = facts.near, facts.behind
            if rest is not None:
                near = max(near, distance_left(rest.near, facts.low))
                behind = max(behind, distance_left(rest.behind, facts.low))
            self._known[key] = Todo(tree, rest, looping, near, behind)
        return self._known[key]

    def parts(self, tree: Tree, rest: Todo | None) -> Todo | None:
        """The same, a sequence part by part; neighbours without look-around are one part."""
        if not isinstance(tree, Seq):
            return self.one(tree, rest)
        if tree not in self._groups:
            groups: list[Tree] = []
            for looks, run in groupby(tree.items, key=lambda item: item.facts.looks):
                items = tuple(run)
                groups += items if looks else [sequence(items)]
            self._groups[tree] = tuple(groups)
        for item in reversed(self._groups[tree]):
            rest = self.one(item, rest)
        return rest


def place(todo: Todo | None, before: Before, asked: Asked = FREE) -> Place:
    """The place, without what does not matter of what stands before."""
    cell = before.cell if todo is not None and todo.near else 0
    states = before.states if todo is not None and todo.behind else ()
    return Place(todo, Before(cell, states), asked)

"""How a place of a pattern goes on: some text, and the place after it. Owns the walk through the
tree.

What is not bound to what stands around it is taken in one step, however long it is. Only where a
long look-around sees a part of it, it is taken character by character.
It must not know what a condition means (that is `regex_conditions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from grammars.expr import Expr
from grammars.regex_conditions import Conditions
from grammars.regex_meet import Splits, meet
from grammars.regex_parts import Parts, common
from grammars.regex_places import FREE, Asked, Before, Place, Todo, Todos, place
from grammars.regex_plain import Plain, any_option
from grammars.regex_tree import Alt, Chars, Look, Loop, Seq, Tree, distance_left

Step = tuple[Expr, Place | None]
"""Some text and the place after it; None: the end of the text."""


class Steps:
    """The steps of the places of one pattern. `text_at(place)`: all that may follow a place."""

    def __init__(self, plain: Plain, tree: Tree, text_at: Callable[[Place], Expr]) -> None:
        self._algebra = plain.algebra
        self._plain = plain
        self._text_at = text_at
        self._todos = Todos()
        self._conditions = Conditions(plain, tree, self._todos, text_at)
        self._parts = Parts()
        self._splits = Splits(plain.algebra)
        self._known: dict[Place, tuple[Step, ...]] = {}
        self._closed: dict[Tree, Expr] = {}

    def begin(self, tree: Tree) -> Place:
        """The place before all of the pattern."""
        before = self._conditions.begin()
        return place(self._todos.parts(tree, None), before)

    def steps(self, here: Place) -> tuple[Step, ...]:
        """All ways on."""
        if here not in self._known:
            self._algebra.budget.spend()
            self._known[here] = tuple(dict.fromkeys(self._steps(here)))
        return self._known[here]

    def _steps(self, here: Place) -> Iterable[Step]:
        """Passes conditions and goes into sequences; a loop, since these may be long."""
        while True:
            todo, before, asked = here.todo, here.before, here.asked
            if todo is None:
                may_end = asked.first is None or asked.first.may_end
                ends = may_end and (asked.rest is None or asked.rest.nullable)
                return [(self._algebra.epsilon, None)] if ends else []
            if asked.rest is not None and not todo.looping:
                text = self._text_at(place(todo, before, Asked(asked.first)))
                return [(meet(self._algebra, asked.rest, text), None)]
            tree = todo.tree
            if isinstance(tree, Look | Loop):
                self._algebra.budget.at_column(tree.column)
            if tree.facts.closed:
                return self._taken(todo, before, asked)
            if isinstance(tree, Seq):
                here = place(self._todos.parts(tree, todo.rest), before, asked)
            elif isinstance(tree, Look):
                passed = self._passed(tree, todo, before, asked)
                if not isinstance(passed, Place):
                    return passed
                here = passed
            elif isinstance(tree, Alt):
                return self._any_option(tree, todo.rest, before, asked)
            else:
                assert isinstance(tree, Loop), "characters are closed"
                return self._rounds(tree, todo.rest, before, asked)

    def _at(self, todo: Todo | None, before: Before, asked: Asked) -> tuple[Step, ...]:
        return self.steps(place(todo, before, asked))

    # -- conditions, options, rounds ---------------------------------------------------------

    def _passed(
        self, look: Look, todo: Todo, before: Before, asked: Asked
    ) -> Place | Iterable[Step]:
        """The place behind a condition; or what follows, where that settles it."""
        conditions, algebra, rest = self._conditions, self._algebra, todo.rest
        if not look.is_ahead:
            return place(rest, before, asked) if conditions.holds_behind(look, before) else []
        if look.is_near:
            narrowed = conditions.narrowed(asked, look)
            return [] if narrowed is None else place(rest, before, narrowed)
        ahead = conditions.ahead(look, before)
        if ahead is algebra.empty:
            return []
        if ahead is algebra.full:
            return place(rest, before, asked)
        if not todo.looping:
            text = self._text_at(place(rest, before, asked))
            return [(meet(algebra, ahead, text), None)]
        both = ahead if asked.rest is None else algebra.intersection([ahead, asked.rest])
        reach = max(look.facts.ahead, asked.reach)
        return place(rest, before, replace(asked, rest=both, reach=reach))

    def _any_option(
        self, tree: Alt, rest: Todo | None, before: Before, asked: Asked
    ) -> Iterable[Step]:
        found: list[Step] = []
        for option in tree.options:
            found += self._at(self._todos.parts(option, rest), before, asked)
        return found

    def _rounds(
        self, tree: Loop, rest: Todo | None, before: Before, asked: Asked
    ) -> Iterable[Step]:
        """A round that takes something, or the end of the repetition."""
        body, parts, todos = tree.body, self._parts, self._todos
        if body.facts.high == 0 or tree.high == 0:  # a condition: once is as good as often
            return self._at(todos.parts(body, rest) if tree.low else rest, before, asked)
        found: list[Step] = []
        if tree.low == 0:
            found += self._at(rest, before, asked)
        if tree.high == 1:
            found += self._at(todos.parts(body, rest), before, asked)
            return found
        some, none = parts.something(body), parts.nothing(body)
        if some is not None:
            again = todos.one(parts.fewer(tree), rest, looping=True)
            found += self._at(todos.parts(some, again), before, asked)
        if tree.low and none is not None:  # rounds that take nothing fill the count
            filled = todos.one(parts.loop(body, 0, tree.low - 1), rest)
            found += self._at(todos.parts(none, filled), before, asked)
        return found

    # -- text --------------------------------------------------------------------------------

    def _taken(self, todo: Todo, before: Before, asked: Asked) -> Iterable[Step]:
        """The steps over a tree that means the same wherever it stands."""
        tree, rest, parts = todo.tree, todo.rest, self._parts
        near, behind = (rest.near, rest.behind) if rest is not None else (0, 0)
        if asked is FREE and not (todo.looping or near or behind):
            return [(self._text(tree), place(rest, before))]
        found: list[Step] = []
        if parts.nothing(tree) is not None:
            found += self._at(rest, before, asked)
        some = parts.something(tree)
        if some is not None and asked.first is not None:
            some = parts.edged(some, asked.first.chars, is_last=False)
        if some is None:
            return found
        asked = replace(asked, first=None)
        verdict = self._conditions.behind(rest, before)
        if asked.reach > some.facts.low or (behind and verdict is None):
            found += self._opened(some, todo, before, asked)
            return found
        ends = [(some, place(rest, Before()))]
        if verdict is not None and rest is not None:
            ends = [(some, place(rest.rest, Before()))]
        elif near:
            cells = enumerate(self._conditions.cells, 1)
            last = [(parts.edged(some, cell, is_last=True), index) for index, cell in cells]
            ends = [(end, place(rest, Before(index))) for end, index in last if end is not None]
        for end, after in ends:
            text = self._text(end)
            for language in (asked.rest, verdict):
                text = text if language is None else meet(self._algebra, text, language)
            found.append((text, after))
        return found

    def _opened(self, tree: Tree, todo: Todo, before: Before, asked: Asked) -> Iterable[Step]:
        """Such a tree, part by part, since a long look-around sees but a part of it."""
        rest = todo.rest
        if isinstance(tree, Chars):
            return self._one(tree, rest, before, asked)
        if isinstance(tree, Alt):
            return self._any_option(tree, rest, before, asked)
        if isinstance(tree, Loop):
            return self._rounds(tree, rest, before, asked)
        assert isinstance(tree, Seq), "conditions are not closed"
        if tree.facts.looks:
            return self._at(self._todos.parts(tree, rest), before, asked)
        for item in reversed(tree.items):  # a repetition here may be what remains of one
            rest = self._todos.one(item, rest, looping=isinstance(item, Loop))
        return self._at(rest, before, asked)

    def _one(self, chars: Chars, rest: Todo | None, before: Before, asked: Asked) -> Iterable[Step]:
        """One character, with all that looks at it."""
        algebra = self._algebra
        near, behind = (rest.near, rest.behind) if rest is not None else (0, 0)
        states = self._conditions.states(before) if behind else ()
        far = algebra.full if asked.rest is None else asked.rest
        for index, cell in enumerate(self._conditions.cells, 1) if near else [(0, chars)]:
            char = self._plain.chars(common(chars.ranges, cell.ranges))
            for (*ends, end), text in self._splits.split(char, (*states, far)).items():
                if end is not algebra.empty:
                    reach = distance_left(asked.reach, 1)
                    following = FREE if end is algebra.full else Asked(None, end, reach)
                    yield text, place(rest, Before(index, tuple(ends)), following)

    def _text(self, tree: Tree) -> Expr:
        """The texts of a tree that means the same wherever it stands."""
        if not tree.facts.looks:
            return self._plain.text(tree)
        if tree not in self._closed:
            self._closed[tree] = self._text_of(tree)
        return self._closed[tree]

    def _text_of(self, tree: Tree) -> Expr:
        if isinstance(tree, Loop):
            return self._algebra.repeat(self._text(tree.body), tree.low, tree.high)
        if isinstance(tree, Alt):
            return any_option(self._algebra, [self._text(option) for option in tree.options])
        return self._text_at(place(self._todos.parts(tree, None), Before()))

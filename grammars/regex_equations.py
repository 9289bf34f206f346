"""All that may follow each place of a pattern. Owns the equations between places and who is alive.

The text after a place is, of any of its steps, the step's text and what follows the place after it:
a system of equations. Places that can come again, inside of repetitions, become references to their
equation; the others are written out. A place that leads to no end is left out, so that every
reference has a text (see `expr.Rules`).
It must not know what a step means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

from grammars.derive import has_string
from grammars.errors import UnsupportedError
from grammars.expr import Expr
from grammars.regex_conditions import looks_of
from grammars.regex_places import Place
from grammars.regex_plain import Plain
from grammars.regex_steps import Step, Steps
from grammars.regex_tree import Tree

MAX_PLACES = 2_000
"""Places inside of repetitions with look-around; each costs about a tenth of a millisecond."""

System = dict[Place, tuple[Step, ...]]


class Equations:
    """The texts of one pattern. Its references are unfolded here (`expr.Rules`)."""

    def __init__(self, plain: Plain, tree: Tree) -> None:
        self._algebra = plain.algebra
        self._tree = tree
        self._steps = Steps(plain, tree, self.text_at)
        self._texts: dict[Place, Expr] = {}
        self._equations: System = {}
        self._shortest: dict[Place, Step] = {}
        self._alive: dict[Expr, bool] = {}

    def text(self) -> Expr:
        """The texts of the whole pattern."""
        return self.text_at(self._steps.begin(self._tree))

    def text_at(self, here: Place) -> Expr:
        """The texts that may follow a place, to the end."""
        if here not in self._texts:
            self._solve(here)
        return self._texts[here]

    # -- what references ask -----------------------------------------------------------------

    def unfold(self, key: Hashable) -> Expr:
        """The expression that `key` stands for."""
        assert isinstance(key, Place), "a reference of this pattern"
        return self._algebra.union(self._joined(step) for step in self._equations[key])

    def least(self, key: Hashable) -> Expr:
        """The step by which it was found to lead to an end: those of a cycle were not."""
        assert isinstance(key, Place), "a reference of this pattern"
        return self._joined(self._shortest[key])

    def _joined(self, step: Step) -> Expr:
        text, after = step
        return text if after is None else self._algebra.concat(text, self._texts[after])

    # -- solving -----------------------------------------------------------------------------

    def _solve(self, start: Place) -> None:
        system = self._explore(start)
        loops = any(here.todo is not None and here.todo.looping for here in system)
        has_text = self._has_text if loops else self._may_have_text
        shortest = self._prove(system, has_text)
        self._texts.update(dict.fromkeys(system, self._algebra.empty))
        for here, step in shortest.items():
            self._equations[here] = tuple(
                step for step in system[here] if self._leads_on(step, shortest, has_text)
            )
            if here.todo is not None and here.todo.looping:
                self._shortest[here] = step
                may_end = self._may_end(here, system)
                self._texts[here] = self._algebra.ref(self, here, nullable=may_end)
        written = [here for here in shortest if here not in self._shortest]
        for here in _inner_first(written, self._equations):
            self._texts[here] = self.unfold(here)

    def _leads_on(
        self, step: Step, alive: dict[Place, Step], has_text: Callable[[Expr], bool]
    ) -> bool:
        text, after = step
        if not has_text(text):
            return False
        return after is None or after in alive or has_text(self._texts[after])

    def _may_end(self, here: Place, system: System) -> bool:
        """Whether the empty text may follow. A round of a repetition takes something, so that no
        place comes again before that.
        """
        if here not in system:
            return self._texts[here].nullable
        return any(
            text.nullable and (after is None or self._may_end(after, system))
            for text, after in system[here]
        )

    def _explore(self, start: Place) -> System:
        """Every place that can be reached and has no text yet, with its steps."""
        found: System = {}
        pending = [start]
        num_looping = 0
        while pending:
            here = pending.pop()
            if here in found or here in self._texts:
                continue
            num_looping += here.todo is not None and here.todo.looping
            if num_looping > MAX_PLACES:
                column = next(looks_of(self._tree)).column
                raise UnsupportedError(
                    f"the pattern has look-around (the first at column {column}) in a repetition "
                    f"that takes more than {MAX_PLACES} places to follow, which is not supported; "
                    "make its bounds smaller",
                    column,
                )
            found[here] = self._steps.steps(here)
            pending += [after for _, after in found[here] if after is not None]
        return found

    def _prove(self, system: System, has_text: Callable[[Expr], bool]) -> dict[Place, Step]:
        """The places that lead to an end, each with a step towards one, nearest first."""
        before: dict[Place, list[tuple[Place, Step]]] = {}
        ready: deque[tuple[Place, Step]] = deque()
        for here, steps in system.items():
            for step in steps:
                after = step[1]
                if after is None or after not in system:
                    ready.append((here, step))
                else:
                    before.setdefault(after, []).append((here, step))
        proven: dict[Place, Step] = {}
        while ready:
            here, step = ready.popleft()
            if here not in proven and self._leads_on(step, proven, has_text):
                proven[here] = step
                ready.extend(before.get(here, []))
        return proven

    def _may_have_text(self, text: Expr) -> bool:
        """Good enough where no reference hangs on it: who asks for the whole finds out."""
        return text is not self._algebra.empty

    def _has_text(self, text: Expr) -> bool:
        if text.plain:
            return text is not self._algebra.empty
        if text not in self._alive:
            self._alive[text] = has_string(self._algebra, text)
        return self._alive[text]


def _inner_first(places: list[Place], system: System) -> list[Place]:
    """`places`, each behind those of them that it leads to."""
    order: dict[Place, None] = {}
    entered: set[Place] = set()
    todo = set(places)
    pending = list(places)
    while pending:
        here = pending[-1]
        if here in entered:
            order.setdefault(pending.pop())
            continue
        entered.add(here)
        pending += [
            after
            for _, after in system[here]
            if after is not None and after in todo and after not in entered
        ]
    return list(order)

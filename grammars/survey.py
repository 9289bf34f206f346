"""Everything that a schema may come to. Owns which operands can be reached, which of them have a
value, and the size of the smallest.

All of a schema is read when it is compiled, so what is not supported is refused then; how it is
written is worked out when it is needed. An operand without a value is left out of all that may come
before it, so a state from which nothing can be completed is never entered. Sizes are the least
solution of their equations, by relaxation; the smallest value of an operand is made of parts that
are smaller, so recursion ends.
It must not know how a form is written.
Source: D. Knuth, "A generalization of Dijkstra's algorithm", 1977.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Protocol

from grammars.budget import Budget, at_pointer
from grammars.expr import Expr
from grammars.shapes import NOTHING, Operand, place_of

MAX_DEPTH = 8
"""Parts of parts whose values are listed."""

FewValues = frozenset[Hashable] | None
"""Values, as they are compared (see `json_values.value_key`); None where they are many."""


class Form(Protocol):
    """The values of one shape: what they consist of, and how they are written."""

    def children(self) -> Iterator[Operand]:
        """The operands of its parts."""
        ...

    def weight(self) -> float:
        """The size of the smallest, by the sizes of its parts as they are known; or infinite."""
        ...

    def blame(self) -> Iterator[Operand]:
        """The parts that it cannot do without."""
        ...

    def few_values(self) -> FewValues:
        """All that it may come to, where they are few; None for many, or where it is not seen."""
        ...

    def lower(self) -> Expr:
        """The texts of all of them."""
        ...


class Survey:
    """Finds all that can be reached from an operand. `forms_of` gives the alternatives of one."""

    def __init__(self, forms_of: Callable[[Operand], list[Form]], budget: Budget) -> None:
        self._forms_of = forms_of
        self._budget = budget
        self._forms: dict[Operand, list[Form]] = {}
        self._weights: dict[Operand, float] = {}
        self._users: dict[Operand, list[Operand]] = {}
        self._final: dict[Operand, list[tuple[Form, float]]] = {}
        self._few: dict[Operand, FewValues] = {}
        self._depth = 0

    def weigh(self, operand: Operand) -> float:
        """The size of the smallest value, infinite where none is known."""
        return self._weights.get(operand, math.inf)

    def few_values(self, operand: Operand) -> FewValues:
        """The values that an operand has, and perhaps others, where they are few; None for many,
        and where that is not seen. Asked for when all that it is made of was reached.
        """
        if operand not in self._few:
            self._budget.spend()
            if self._depth == MAX_DEPTH:
                return None
            self._few[operand] = None  # in a recursion
            self._depth += 1
            found = [form.few_values() for form in self._forms[operand]]
            self._depth -= 1
            known = [values for values in found if values is not None]
            if len(known) == len(found):
                self._few[operand] = frozenset().union(*known)
        return self._few[operand]

    def forms(self, operand: Operand) -> list[Form]:
        """The alternatives of an operand that have a value."""
        return [form for form, size in self._sized(operand) if size < math.inf]

    def least(self, operand: Operand) -> Form:
        """The alternative with the smallest value."""
        return min(self._sized(operand), key=lambda sized: sized[1])[0]

    def _sized(self, operand: Operand) -> list[tuple[Form, float]]:
        """The alternatives with their final sizes."""
        if operand not in self._final:
            self._final[operand] = [(form, form.weight()) for form in self._forms[operand]]
        return self._final[operand]

    def reach(self, root: Operand) -> None:
        """Reads all that can be reached from `root`, and weighs it."""
        found = [root]
        pending = [root]
        self._users.setdefault(root, [])
        while pending:
            operand = pending.pop()
            self._budget.at = at_pointer(place_of(operand))
            self._budget.spend()
            self._forms[operand] = self._forms_of(operand)
            for form in self._forms[operand]:
                for child in form.children():
                    if child not in self._users:
                        self._users[child] = []
                        found.append(child)
                        pending.append(child)
                    self._users[child].append(operand)
        self._relax(reversed(found))

    def _relax(self, operands: Iterator[Operand]) -> None:
        """Lowers sizes until none can be lower; what is used by others is looked at first."""
        waiting = deque(operands)
        is_waiting = set(waiting)
        while waiting:
            operand = waiting.popleft()
            is_waiting.discard(operand)
            self._budget.at = at_pointer(place_of(operand))
            self._budget.spend()
            size = min((form.weight() for form in self._forms[operand]), default=math.inf)
            if size < self.weigh(operand):
                self._weights[operand] = size
                for user in self._users[operand]:
                    if user not in is_waiting:
                        is_waiting.add(user)
                        waiting.append(user)

    def blame(self, root: Operand) -> str:
        """The place of what makes an operand unsatisfiable."""
        seen: set[Operand] = set()
        here = root
        while here not in seen:
            seen.add(here)
            parts = (part for form in self._forms[here] for part in form.blame())
            dead = (
                part
                for part in parts
                if part in self._forms and part != NOTHING and self.weigh(part) == math.inf
            )
            here = next(dead, here)
        return place_of(here)

"""Free text around calls, as references. Owns the states: where a trigger stands, and the calls so
far.

A state that must still see a call knows the nearest one, so nothing is entered that cannot be
finished: not where a vocabulary lacks the bytes of a tag, nor where a content has no text.
It must not know of tags; a call is an expression.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from grammars.algebra import Algebra
from grammars.charset import Ranges, invert, normalized, utf8
from grammars.derive import has_string
from grammars.expr import Expr
from grammars.trigger_automaton import TriggerAutomaton


class Place(NamedTuple):
    """The key of a state: what the automaton has read, and how many calls count."""

    state: int
    calls: int


class FreeText:
    """The states; see `expr.Rules`. `calls[i]` is what must follow when trigger i is completed."""

    def __init__(
        self,
        algebra: Algebra,
        automaton: TriggerAutomaton,
        calls: Sequence[Expr],
        *,
        min_calls: int,
        max_calls: int | None,
        ends_after_call: bool,
    ) -> None:
        self._algebra = algebra
        self._automaton = automaton
        self._calls = [call if has_string(algebra, call) else algebra.empty for call in calls]
        self._min_calls = min_calls
        self._max_calls = max_calls
        self._ends_after_call = ends_after_call
        self._moves = [self._ranges_of(moves) for moves in automaton.moves]
        self._nearest = self._ways_to_calls()
        self.start = self._at(Place(0, 0))

    # -- references --------------------------------------------------------------------------------

    def unfold(self, key: Hashable) -> Expr:
        """Free text from a state on: the end, or a character and what may follow it."""
        assert isinstance(key, Place), "every state is a place"
        algebra = self._algebra
        options: list[Expr] = [algebra.epsilon] if key.calls >= self._min_calls else []
        for after, ranges in self._moves[key.state]:
            options.append(algebra.concat(utf8(algebra, ranges), self._after(key, after)))
        return algebra.union(options)

    def least(self, key: Hashable) -> Expr:
        """The nearest calls, as many as are missing."""
        assert isinstance(key, Place), "every state is a place"
        algebra = self._algebra
        missing = self._min_calls - key.calls
        here, anew = self._nearest[key.state], self._nearest[0]
        assert here is not None and anew is not None, "a state without a way on is not referred to"
        return algebra.concat(here, algebra.repeat(anew, missing - 1, missing - 1))

    def _at(self, place: Place) -> Expr:
        """A state where it is used; EMPTY where no call is in reach and one is missing."""
        missing = self._min_calls - place.calls
        if missing > 0 and self._nearest[place.state] is None:
            return self._algebra.empty
        if missing > 1 and self._nearest[0] is None:
            return self._algebra.empty
        return self._algebra.ref(self, place, nullable=missing <= 0)

    def _after(self, place: Place, state: int) -> Expr:
        """What may follow once the automaton is in `state`."""
        if state not in self._automaton.completed:
            return self._at(Place(state, place.calls))
        if place.calls == self._max_calls:
            return self._algebra.empty
        call = self._calls[self._automaton.completed[state]]
        counts = self._min_calls if self._max_calls is None else self._max_calls
        after = self._at(Place(0, min(place.calls + 1, counts)))
        return self._algebra.concat(call, self._algebra.epsilon if self._ends_after_call else after)

    # -- ahead of time -----------------------------------------------------------------------------

    def _ranges_of(self, moves: dict[str, int]) -> list[tuple[int, Ranges]]:
        """The characters that lead to each state; those that lead nowhere lead back to state 0."""
        codes: dict[int, list[tuple[int, int]]] = {}
        for char, state in moves.items():
            codes.setdefault(state, []).append((ord(char), ord(char)))
        back = invert(normalized((ord(char), ord(char)) for char in moves))
        return [(0, back), *((state, normalized(those)) for state, those in codes.items())]

    def _ways_to_calls(self) -> list[Expr | None]:
        """From each state of the automaton, the shortest way to a call, and that call."""
        algebra = self._algebra
        found: list[Expr | None] = [None] * len(self._moves)
        before: list[list[tuple[int, Ranges]]] = [[] for _ in self._moves]
        pending: deque[tuple[int, Expr]] = deque()
        for state, moves in enumerate(self._moves):
            if state in self._automaton.completed:
                call = self._calls[self._automaton.completed[state]]
                if call is not algebra.empty:
                    pending.append((state, call))
                continue  # nothing goes on from here
            for after, ranges in moves:
                before[after].append((state, ranges))
        while pending:
            state, way = pending.popleft()
            for earlier, ranges in before[state]:
                char = utf8(algebra, ranges)
                if found[earlier] is None and char is not algebra.empty:
                    found[earlier] = algebra.concat(char, way)
                    pending.append((earlier, algebra.concat(char, way)))
        return found

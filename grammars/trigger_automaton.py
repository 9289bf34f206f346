"""Where triggers are completed in a text. Owns the automaton, over characters.

Source: A. Aho, M. Corasick, "Efficient string matching: an aid to bibliographic search", 1975.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


class TriggerAutomaton:
    """A state is the longest beginning of a trigger that the text ends with; 0 is the empty one.

    `moves[state]` has the state after each character that leads anywhere but to state 0;
    `completed[state]` the index of the trigger that ends there. No trigger stands in another, so
    there is one at most, and nothing goes on from there.
    """

    def __init__(self, triggers: Sequence[str]) -> None:
        self.moves: list[dict[str, int]] = [{}]
        self.completed: dict[int, int] = {}
        for index, trigger in enumerate(triggers):
            state = 0
            for char in trigger:
                if char not in self.moves[state]:
                    self.moves[state][char] = len(self.moves)
                    self.moves.append({})
                state = self.moves[state][char]
            self.completed[state] = index
        self._link()

    def _link(self) -> None:
        """Fills in where a state goes on as a shorter one would; level by level, so that the
        shorter one is complete."""
        pending = deque((state, 0) for state in self.moves[0].values())
        while pending:
            state, shorter = pending.popleft()
            pending += [
                (after, self.moves[shorter].get(c, 0)) for c, after in self.moves[state].items()
            ]
            self.moves[state] = self.moves[shorter] | self.moves[state]

"""States that follow each other while no byte of a set is told from another. Owns their chains.

In a host name, an identifier, a string with a length and a pattern, nearly every byte leads from a
state to the same next one, and from there on again. What a token of such bytes leads to is then
told by its length, which is known without a walk (see `char_walks`): a chain is a run of a set of
bytes, but one that is found among states and not in how an expression is written.
It must not know of tries and masks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grammars.common_sets import set_within, steps_of
from grammars.derive import arms
from grammars.expr import Expr
from grammars.states import DEAD, StateTable
from grammars.trie import Int32


class Chain:
    """What follows a state after 0, 1, 2, ... bytes of a set: `steps` are those of the set."""

    def __init__(self, states: StateTable, first: Sequence[int], inside: int) -> None:
        self._states = states
        self._inside = inside
        self._found = list(first)
        self.steps = steps_of(inside)

    @property
    def second(self) -> int:
        """The state after one byte of the set."""
        return self._found[1]

    def after(self, most: int) -> Int32 | None:
        """The states after 0 to `most` bytes of the set, DEAD where there is none. None where it
        matters which bytes of it they are. # int32 [most + 1]
        """
        while len(self._found) <= most:
            following = self._next(self._found[-1])
            if following is None:
                return None
            self._found.append(following)
        return np.array(self._found[: most + 1], dtype=np.int32)

    def _next(self, state_id: int) -> int | None:
        if state_id == DEAD or state_id == self._found[-2]:
            return state_id
        algebra = self._states.completions.algebra
        for mask, rest in arms(algebra, self._states.node(state_id)):
            if mask & self._inside == self._inside:
                return self._states.id_of(rest)
            if mask & self._inside:
                return None
        return DEAD


class Chains:
    """The chains of the states of one table."""

    def __init__(self, states: StateTable) -> None:
        self._states = states
        self._known: dict[int, Chain | None] = {DEAD: None}

    def forget(self) -> None:
        """The ids of states are no longer valid."""
        self._known = {DEAD: None}

    def drop(self, state_id: int) -> None:
        """The chain from this state has turned out to end too soon."""
        self._known[state_id] = None

    def find(self, state_id: int) -> Chain | None:
        """The chain from a state, if there is one of many bytes."""
        if state_id not in self._known:
            self._known[state_id] = self._found(state_id)
        return self._known[state_id]

    def _found(self, state_id: int) -> Chain | None:
        """By the widest of its arms; where the next state's is wider, the chain begins there."""
        widest, rest = self._widest(self._states.node(state_id))
        inside = set_within(widest)
        if not inside or self._widest(rest)[0] != widest:
            return None
        following = self._states.id_of(rest)
        return None if following == DEAD else Chain(self._states, [state_id, following], inside)

    def _widest(self, node: Expr) -> tuple[int, Expr]:
        algebra = self._states.completions.algebra
        found = arms(algebra, node)
        return max(found, key=lambda arm: arm[0].bit_count(), default=(0, algebra.empty))

"""A language's states and the bytes between them. Owns exploring and counting them.

Decoding never builds an automaton; this one is for people who want to see what a constraint allows,
so it is explored up to a bound. Derivatives make it deterministic: each text has one path.
It must not know what the constraint was written in, nor how an automaton is drawn.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from grammars.completion import Completions
from grammars.derive import arms, step
from grammars.errors import CompileBudgetError
from grammars.expr import Arms, Expr
from grammars.noting import loosened

MAX_NOTED = 2_000
"""States that remember what was written (see `noting`): new with every byte, and slow to make."""

Edge = tuple[int, int]
"""A set of bytes (bit b is set for byte b), and the state after any of them."""


@dataclass(frozen=True)
class Automaton:
    """States from 0, the start, on. `edges[s]` are disjoint; from every state a text can be
    completed. `is_whole`: no state was left out; else the last states have no edges yet.
    `is_endless`: it was seen that there are infinitely many texts.
    """

    edges: tuple[tuple[Edge, ...], ...]
    accepting: tuple[bool, ...]
    is_whole: bool
    is_endless: bool = False

    def __len__(self) -> int:
        return len(self.edges)

    def order(self) -> list[int] | None:
        """The states so that edges lead forward; None where they go round: then there are
        infinitely many texts, since every state can be completed.
        """
        entering = [0] * len(self)
        for edges in self.edges:
            for _, target in edges:
                entering[target] += 1
        ready = deque(state for state, count in enumerate(entering) if count == 0)
        found: list[int] = []
        while ready:
            state = ready.popleft()
            found.append(state)
            for _, target in self.edges[state]:
                entering[target] -= 1
                if entering[target] == 0:
                    ready.append(target)
        return found if len(found) == len(self) else None

    def num_texts(self, order: list[int], most: int) -> int:
        """How many texts there are, or `most` where there are more. `order`: see there."""
        counts = [0] * len(self)
        for state in reversed(order):
            count = int(self.accepting[state])
            for mask, target in self.edges[state]:
                count += mask.bit_count() * counts[target]
            counts[state] = min(count, most)
        return counts[0]

    def longest(self, order: list[int]) -> int:
        """The bytes of the longest text. `order`: see there."""
        lengths = [-math.inf] * len(self)
        for state in reversed(order):
            least = 0 if self.accepting[state] else -math.inf
            lengths[state] = max((1 + lengths[t] for _, t in self.edges[state]), default=least)
        return int(lengths[0])

    def shortest(self) -> int | None:
        """The bytes of the shortest text; None where the states that are known do not tell."""
        seen = {0}
        level = [0]
        length = 0
        while level:
            if any(self.accepting[state] for state in level):
                return length
            reached = dict.fromkeys(t for state in level for _, t in self.edges[state])
            level = [state for state in reached if state not in seen]
            seen.update(level)
            length += 1
        return None


def explore(completions: Completions, start: Expr, *, max_states: int) -> Automaton:
    """The states from `start`, which is alive, breadth first; up to `max_states` of them, and as
    far as the algebra's budget goes.
    """
    exploring = _Exploring(completions, start, max_states)
    is_whole = True
    try:
        is_whole = exploring.run()
    except (CompileBudgetError, RecursionError):
        is_whole = False
    nodes, edges = exploring.nodes, exploring.edges
    edges += [()] * (len(nodes) - len(edges))
    accepting = tuple(node.nullable for node in nodes)
    return Automaton(tuple(edges), accepting, is_whole, exploring.is_endless)


class _Exploring:
    """The states and edges that are known by now."""

    def __init__(self, completions: Completions, start: Expr, max_states: int) -> None:
        self._completions = completions
        self._algebra = completions.algebra
        self._max_states = max_states
        self._ids = {start: 0}
        self.nodes = [start]
        self.edges: list[tuple[Edge, ...]] = []
        self.is_endless = False

    def run(self) -> bool:
        """Explores; returns whether all states were found."""
        is_whole = True
        while len(self.edges) < len(self.nodes) and not self.is_endless:
            leaving: list[Edge] = []
            for mask, rest in self._successors(self.nodes[len(self.edges)]):
                if rest not in self._ids:
                    if not self._completions.is_alive(rest):
                        continue
                    if len(self.nodes) >= self._room(rest):
                        is_whole = False
                        continue
                    self._ids[rest] = len(self.nodes)
                    self.nodes.append(rest)
                leaving.append((mask, self._ids[rest]))
            self.edges.append(tuple(leaving))
        return is_whole and not self.is_endless

    def _room(self, node: Expr) -> int:
        return min(self._max_states, MAX_NOTED) if node.notes else self._max_states

    def _successors(self, node: Expr) -> Arms:
        """The states after `node`; one for each byte where it is noted (see `noting`)."""
        masks: dict[Expr, int] = {}
        for mask, rest in arms(self._algebra, node):
            if not rest.is_open:
                masks[rest] = masks.get(rest, 0) | mask
                continue
            if node.is_open and loosened(self._algebra, rest) is loosened(self._algebra, node):
                # One byte passes no border of parts, so this part may go on for ever; and what
                # must not be repeated is finite.
                self.is_endless = True
            for byte in range(256):
                if mask >> byte & 1:
                    after = step(self._algebra, node, byte)
                    masks[after] = masks.get(after, 0) | 1 << byte
        return tuple(
            (mask, rest) for rest, mask in masks.items() if rest is not self._algebra.empty
        )

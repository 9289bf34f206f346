"""A language's states and the bytes between them. Owns exploring and counting them.

Decoding never builds an automaton; this one is for people who want to see what a constraint allows,
so it is explored up to a bound. Derivatives make it deterministic: each text has one path.
It must not know what the constraint was written in, nor how an automaton is drawn.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from grammars.completion import Completions
from grammars.derive import arms
from grammars.errors import CompileBudgetError
from grammars.expr import Expr

Edge = tuple[int, int]
"""A set of bytes (bit b is set for byte b), and the state after any of them."""


@dataclass(frozen=True)
class Automaton:
    """States from 0, the start, on. `edges[s]` are disjoint; from every state a text can be
    completed. `is_whole`: no state was left out; else the last states have no edges yet.
    """

    edges: tuple[tuple[Edge, ...], ...]
    accepting: tuple[bool, ...]
    is_whole: bool

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
        lengths = [0] * len(self)
        for state in reversed(order):
            lengths[state] = max((1 + lengths[t] for _, t in self.edges[state]), default=0)
        return lengths[0]

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
    ids = {start: 0}
    nodes = [start]
    edges: list[tuple[Edge, ...]] = []
    is_whole = True
    try:
        while len(edges) < len(nodes):
            leaving: list[Edge] = []
            for mask, rest in arms(completions.algebra, nodes[len(edges)]):
                if rest not in ids:
                    if not completions.is_alive(rest):
                        continue
                    if len(nodes) >= max_states:
                        is_whole = False
                        continue
                    ids[rest] = len(nodes)
                    nodes.append(rest)
                leaving.append((mask, ids[rest]))
            edges.append(tuple(leaving))
    except (CompileBudgetError, RecursionError):
        is_whole = False
    edges += [()] * (len(nodes) - len(edges))
    return Automaton(tuple(edges), tuple(node.nullable for node in nodes), is_whole)

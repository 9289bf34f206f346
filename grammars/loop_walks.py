"""What the inside of a loop reaches, kept. Owns the walks of heads, also across grammars.

Two grammars have no expression in common, but mostly the same inside of a string. So a walk is kept
under the head's structure, with its states numbered by themselves and a text that leads to each: in
another grammar, these texts are derived again, a few dozen bytes instead of a walk of the trie.
It must not know what follows a loop.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grammars.derive import walk
from grammars.expr import ByteSet, Concat, Epsilon, Expr, Literal, Repeat, Union
from grammars.states import DEAD, StateTable
from grammars.trie import Int32, Trie

MAX_KEPT = 32
"""Walks by expression, and by structure; each takes 2 to 4 bytes for every node of a trie: about
400 KB for 50,000 tokens."""

MAX_NODES = 500
"""Parts of a head that is compared by its structure."""


@dataclass(frozen=True)
class Inside:
    """The states inside of a head after each node of a trie (at the root, that of the head), and
    those states.
    """

    after: Int32
    states: list[tuple[int, Expr]]


@dataclass(frozen=True)
class _Walk:
    """The states after each node, numbered from 1 (0: dead), and a text that leads to each."""

    numbers: NDArray[np.uint16]
    texts: tuple[bytes, ...]


class LoopWalks:
    """The kept walks of one table of states."""

    def __init__(self) -> None:
        self._by_head: OrderedDict[tuple[Expr, Trie], Inside] = OrderedDict()
        self._by_structure: OrderedDict[tuple[Hashable, Trie], _Walk] = OrderedDict()

    def forget_ids(self) -> None:
        """The ids of states are no longer valid."""
        self._by_head.clear()

    def get(self, head: Expr, trie: Trie, states: StateTable) -> Inside | None:
        """What a walk of such a head found, if one was kept."""
        found = self._by_head.get((head, trie))
        if found is not None:
            self._by_head.move_to_end((head, trie))
            return found
        kept = self._by_structure.get((structure(head), trie))
        if kept is None:
            return None
        algebra = states.completions.algebra
        ids = [states.id_of(walk(algebra, head, text)) for text in kept.texts]
        after = np.array([DEAD, *ids], dtype=np.int32)[kept.numbers]
        return self._put(head, trie, Inside(after, [(i, states.node(i)) for i in ids]))

    def keep(self, head: Expr, trie: Trie, inside: Int32, states: StateTable) -> Inside:
        """Keeps what a walk found: the states after each node."""
        key = structure(head)
        ids, first, numbers = np.unique(inside, return_index=True, return_inverse=True)
        alive = ids != DEAD
        if key is not None and len(ids) < 1 << 16:
            texts = tuple(trie.text_of(node) for node in first[alive].tolist())
            numbers = numbers + bool(alive[0])
            self._by_structure[key, trie] = _Walk(numbers.astype(np.uint16), texts)
            while len(self._by_structure) > MAX_KEPT:
                self._by_structure.popitem(last=False)
        reached = [(i, states.node(i)) for i in ids[alive].tolist()]
        return self._put(head, trie, Inside(inside, reached))

    def _put(self, head: Expr, trie: Trie, inside: Inside) -> Inside:
        self._by_head[head, trie] = inside
        while len(self._by_head) > MAX_KEPT:
            self._by_head.popitem(last=False)
        return inside


def structure(node: Expr) -> Hashable:
    """What an expression is made of, equal for equal ones of any algebra; None where it is large,
    or of parts that are no mere repetitions and choices of bytes.
    """
    numbers: dict[Expr, int] = {}
    parts: list[Hashable] = []

    def number(part: Expr) -> int | None:
        if part in numbers:
            return numbers[part]
        made = _shallow(part, number)
        if made is None or len(parts) >= MAX_NODES:
            return None
        numbers[part] = len(parts)
        parts.append(made)
        return numbers[part]

    return None if number(node) is None else tuple(parts)


def _shallow(node: Expr, number: Callable[[Expr], int | None]) -> Hashable:
    """One part, with its own parts by their numbers."""
    if isinstance(node, ByteSet):
        return node.mask
    if isinstance(node, Literal):
        return node.data
    if isinstance(node, Epsilon):
        return ()
    if isinstance(node, Concat):
        below = [number(node.head), number(node.tail)]
        return None if None in below else ("concat", *below)
    if isinstance(node, Union):
        below = [number(option) for option in node.options]
        return None if None in below else ("union", *below)
    if isinstance(node, Repeat):
        body = number(node.body)
        return None if body is None else ("repeat", body, node.low, node.high)
    return None

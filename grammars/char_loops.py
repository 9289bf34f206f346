"""States that are runs of characters. Owns when a state is one, and what it becomes inside.

See `char_walks` for what a run is, and why its inside need not be walked state by state.
It must not know of masks and budgets.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grammars.algebra import Algebra
from grammars.char_walks import BORDER, BROKEN, CharWalk
from grammars.common_sets import mask_of, set_within, steps_of
from grammars.completion import Completions
from grammars.cost_bounds import CostBounds
from grammars.derive import arms
from grammars.expr import Arms, Concat, Expr, Repeat
from grammars.noting import ROUNDS, has_ref, has_room
from grammars.spelling import UNREACHABLE
from grammars.states import members
from grammars.trie import Int32, Trie

WIDE = 16
"""First bytes of an x whose runs are walked apart; a narrower one reaches little."""

MAX_UNSURE = 2
"""Bytes with which both an x and what follows its run may begin: from each, all is walked."""

MAX_PARTS = 254
"""Beginnings of strings of x; they are numbered in a byte."""

MAX_KEPT_BYTES = 48 << 20
"""What the walks take that are kept: one of 50,000 tokens about 1 MB."""


@dataclass(frozen=True)
class CharBody:
    """An x of which no string begins with another. `parts[p]`: what remains of it after beginning
    p + 1 (see `char_walks`); `steps` are its steps, but for the first bytes of `unsure`.
    """

    body: Expr
    parts: Sequence[Expr]
    steps: NDArray[np.uint8]
    unsure: int


@dataclass(frozen=True)
class CharLoop:
    """A state `x{low,high} . tail` (`high=None`: no bound), and the arms of its tail.

    Bytes with which both x and the tail begin (a backslash: any character may be escaped) are
    `x.unsure`: what they lead to is no part of the run. `stride` is that of its codes (see
    `char_walks`).
    """

    x: CharBody
    stride: int
    low: int
    high: int | None
    tail: Expr
    leaving: Arms

    @property
    def is_even(self) -> bool:
        """Whether no count matters: at any border the state is the same."""
        return self.low == 0 and self.high is None

    @property
    def room(self) -> NDArray[np.bool_]:
        """For which codes the run is long enough. # [number of codes]"""
        number = (len(self.x.parts) + 1) * self.stride
        if self.high is None:
            return np.ones(number, dtype=bool)
        part, count = np.divmod(np.arange(number), self.stride)
        found: NDArray[np.bool_] = count + (part > 0) <= self.high
        return found

    def bound(self, bounds: CostBounds) -> int:
        """The cost of finishing anywhere inside is at most this."""
        begun = max(map(bounds.bound, self.x.parts), default=0)
        rounds = self.low * bounds.bound(self.x.body) if self.low else 0
        return min(begun + rounds + bounds.bound(self.tail), UNREACHABLE)

    def has_room(self, code: int) -> bool:
        """Whether the run is long enough for a code."""
        part, count = divmod(code, self.stride)
        return self.high is None or count + (part > 0) <= self.high

    def after(self, algebra: Algebra, count: int, byte: int) -> Expr:
        """The state after so many strings of x, which there is room for, and one of the bytes that
        are not sure.
        """
        found = arms(algebra, self.state(algebra, count))
        return next((rest for mask, rest in found if mask >> byte & 1), algebra.empty)

    def state(self, algebra: Algebra, code: int) -> Expr:
        """The state at a code for which there is room."""
        part, count = divmod(code, self.stride)
        taken = count + (part > 0)
        high = None if self.high is None else self.high - taken
        rest = algebra.concat(
            algebra.repeat(self.x.body, max(self.low - taken, 0), high), self.tail
        )
        return algebra.concat(self.x.parts[part - 1], rest) if part else rest

    def costs(self, completions: Completions, codes: Iterable[int]) -> Int32:
        """The cost of finishing at each of these codes, by code; UNREACHABLE elsewhere, and where
        the run is too short for a code.
        """
        found = np.full((len(self.x.parts) + 1) * self.stride, UNREACHABLE, dtype=np.int32)
        known: dict[tuple[int, int], int] = {}
        end = completions.spelling(self.tail)
        for code in codes:
            part, count = divmod(code, self.stride)
            taken = count + (part > 0)
            if self.high is not None and taken > self.high:
                continue
            key = part, max(self.low - taken, 0)
            cost = known.get(key)
            if cost is None:
                begun = self.x.parts[part - 1] if part else completions.algebra.epsilon
                cost = known[key] = completions.cost_of_run(begun, self.x.body, key[1], end)
            found[code] = cost
        return found


class CharLoops:
    """Finds the runs among states, and keeps their walks, also across grammars."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[Expr, int], CharBody | None] = {}
        self._walks: OrderedDict[tuple[bytes, Trie], CharWalk] = OrderedDict()
        self._num_bytes = 0

    def forget(self) -> None:
        """Keep no expression."""
        self._bodies.clear()

    @property
    def is_half_full(self) -> bool:
        """Whether the walks that are kept take half of what they may."""
        return 2 * self._num_bytes > MAX_KEPT_BYTES

    def walk(self, steps: NDArray[np.uint8], trie: Trie) -> CharWalk:
        """The walks of a trie for any x with these steps."""
        key = steps.tobytes(), trie
        found = self._walks.get(key)
        if found is not None:
            self._walks.move_to_end(key)
            return found
        inside = set_within(mask_of(steps[BORDER] == BORDER))
        base = self._walks.get((steps_of(inside).tobytes(), trie))
        found = self._walks[key] = CharWalk(steps, trie, base)
        self._num_bytes += found.num_bytes
        while self._num_bytes > MAX_KEPT_BYTES and len(self._walks) > 1:
            self._num_bytes -= self._walks.popitem(last=False)[1].num_bytes
        return found

    def find(self, algebra: Algebra, node: Expr, longest: int) -> CharLoop | None:
        """The run that a state is, if it is one; tokens have at most `longest` bytes.

        None where many bytes may both stay in the run and leave it. None also where what cannot be
        passed (see `noting`) comes near.
        """
        head, tail = (node.head, node.tail) if isinstance(node, Concat) else (node, algebra.epsilon)
        if not isinstance(head, Repeat) or head.high == 1:
            return None
        if tail.pending:
            is_near = head.high is not None and head.high <= longest + ROUNDS
            if is_near or not has_room(node):
                return None
        leaving = arms(algebra, tail)
        outside = 0
        for mask, _ in leaving:
            outside |= mask
        body = self._body(algebra, head.body, outside)
        if body is None:
            return None
        return CharLoop(body, longest + 1, head.low, head.high, tail, leaving)

    def _body(self, algebra: Algebra, body: Expr, outside: int) -> CharBody | None:
        """The x of a run that the bytes `outside` may leave."""
        if not body.plain or body.nullable or body.notes:
            return None
        first = 0
        for mask, _ in arms(algebra, body):
            first |= mask
        key = body, first & outside
        if key[1].bit_count() > MAX_UNSURE or (first & ~outside).bit_count() < WIDE:
            return None
        if key not in self._bodies:
            found = None if has_ref(body) else _char_body(algebra, *key)
            self._bodies[key] = found
        return self._bodies[key]


def _char_body(algebra: Algebra, body: Expr, unsure: int) -> CharBody | None:
    """An x, with its states numbered in the order in which bytes come upon them: two of the same
    strings have the same steps.
    """
    numbers: dict[Expr, int] = {algebra.epsilon: BORDER}
    parts: list[Expr] = []
    rows = [np.full(256, BROKEN, dtype=np.uint8)]
    pending = [body]
    for node in pending:  # it grows on the way
        row = np.full(256, BROKEN, dtype=np.uint8)
        for mask, rest in sorted(arms(algebra, node), key=lambda arm: arm[0] & -arm[0]):
            kept = mask & ~unsure if node is body else mask
            if rest not in numbers:
                if rest.nullable or rest is body or not rest.plain or len(parts) == MAX_PARTS:
                    return None
                numbers[rest] = len(parts) + 2
                parts.append(rest)
                pending.append(rest)
            row[members(kept)] = numbers[rest]
        rows.append(row)
    return CharBody(body, parts, np.stack(rows), unsure)

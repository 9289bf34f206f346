"""Which tokens may follow a state, and what finishing after each costs. Owns the masks.

It must not know of matchers and their budgets; a mask answers for every budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from grammars.completion import Completions
from grammars.cost_bounds import CostBounds
from grammars.expr import Expr
from grammars.row_table import RowTable
from grammars.spelling import UNREACHABLE
from grammars.states import StateTable, present
from grammars.trie import Int32, Trie
from grammars.trie_walk import Reached, Run, TrieWalks, WideRun
from grammars.vocabulary import BITS_PER_WORD, Vocabulary

UNSURE = UNREACHABLE + 1
"""Stands for the cost of a token of which it is not known whether it is allowed."""

BYTES_PER_MASK = 500
"""What a mask takes beside its arrays, about."""


class BandMask:
    """The tokens of one band that are allowed in a state, by the cost of finishing after them.

    `row` has a bit for each; `dearest` is the highest cost among them, -1 when there is none.
    `stretch` is the longest witness that was needed (see `Completions.stretch`). `unsure` are other
    tokens, of which only what was written tells whether they are allowed; `crossing` are allowed
    ones that go on into a part of which it tells the cost (see `noting`).
    """

    __slots__ = ("_costs", "_token_ids", "crossing", "dearest", "row", "stretch", "unsure")

    def __init__(
        self,
        *,
        row: Int32,
        token_ids: NDArray[np.integer],
        costs: Int32,
        stretch: int = 0,
        unsure: tuple[int, ...] = (),
        crossing: tuple[int, ...] = (),
    ) -> None:
        self.row = row
        self.stretch = stretch
        self.unsure = unsure
        self.crossing = crossing
        self.dearest = int(costs.max(initial=-1))
        self._token_ids: NDArray[np.integer] | None = None
        if len(costs) and costs.min() != self.dearest:
            self._token_ids = _compact(token_ids, len(row) * BITS_PER_WORD)
            self._costs = _compact(costs, self.dearest)

    @property
    def num_bytes(self) -> int:
        """What it keeps in memory, about."""
        lists = 0 if self._token_ids is None else self._token_ids.nbytes + self._costs.nbytes
        named = 8 * (len(self.unsure) + len(self.crossing))
        return BYTES_PER_MASK + self.row.nbytes + lists + named

    def affordable(self, cost: int) -> NDArray[np.integer]:
        """The ids of the tokens after which finishing costs at most `cost`, when not all do."""
        if self._token_ids is None:
            return np.zeros(0, dtype=np.uint16)
        return self._token_ids[self._costs <= cost]


def _compact(numbers: NDArray[np.integer], highest: int) -> NDArray[np.integer]:
    """The same numbers (none of them negative) in two bytes each where they fit."""
    return numbers.astype(np.uint16 if highest < 1 << 16 else np.uint32)


class RunMask:
    """The tokens that stay inside of a wide run: as a `BandMask`, but all runs of one x have the
    same lists.
    """

    __slots__ = ("_costs", "_missing", "_walk", "dearest", "row")

    unsure: tuple[int, ...] = ()
    crossing: tuple[int, ...] = ()

    def __init__(self, run: WideRun, completions: Completions) -> None:
        self._walk, self._missing = run.walk, run.missing
        self._costs = run.loop.costs(completions, run.walk.codes_but(run.missing))
        possible = self._costs < UNREACHABLE
        self.dearest = int(self._costs.max(initial=-1, where=possible))
        self.row = run_row(run, possible, completions.vocabulary)

    @property
    def num_bytes(self) -> int:
        """What it keeps in memory that others do not, about."""
        own_row = self.row.nbytes if len(self._missing) else 0
        return BYTES_PER_MASK + self._costs.nbytes + self._missing.nbytes + own_row

    def affordable(self, cost: int) -> NDArray[np.integer]:
        """The ids of the tokens after which finishing costs at most `cost`."""
        fits = (self._costs <= cost)[self._walk.whole.codes]
        fits[self._missing] = False
        return self._walk.whole_ids[fits]


def run_row(run: WideRun, possible: NDArray[np.bool_], vocabulary: Vocabulary) -> Int32:
    """The row of the codes that are possible, one of a few, without what is missing."""
    walk, key = run.walk, possible.tobytes()
    found = walk.rows.get(key)
    if found is None:
        found = walk.rows[key] = vocabulary.pack(walk.whole_ids[possible[walk.whole.codes]])
    if len(run.missing):
        found = found & ~vocabulary.pack(walk.whole_ids[run.missing])
    return found


class BoundedPart:
    """Allowed tokens, after each of which finishing costs at most `dearest`; that is all."""

    __slots__ = ("dearest", "row")

    unsure: tuple[int, ...] = ()
    crossing: tuple[int, ...] = ()

    def __init__(self, row: Int32, dearest: int) -> None:
        self.row = row
        self.dearest = dearest

    def affordable(self, cost: int) -> NDArray[np.integer]:
        """Not known: whoever asks needs the mask with its costs."""
        raise AssertionError(f"a bounded mask does not know what costs at most {cost}")


MaskPart = BandMask | RunMask | BoundedPart

MAX_KEPT_IDS = 1_024
"""Allowed tokens that are kept as a list beside their bits: 4 KiB. More are no sparse set."""


class Mask:
    """All tokens that are allowed in a state: those of its bands, and the stop tokens where the
    state is complete.

    Where it `is_bounded`, `dearest` is but a bound of the highest cost, and no cost is known. `row`
    is row `row_id` of `table.rows` for as long as the mask lives (`row_id` is None when the table
    was full, and the row its own). # row: int32 [num_words]
    """

    __slots__ = (
        "_ids",
        "_vocabulary",
        "bands",
        "crossing",
        "dearest",
        "is_bounded",
        "num_allowed",
        "row",
        "row_id",
        "table",
        "unsure",
    )

    def __init__(
        self,
        bands: Sequence[MaskPart],
        vocabulary: Vocabulary,
        *,
        is_complete: bool,
        table: RowTable,
    ) -> None:
        self.bands = bands
        self._vocabulary = vocabulary
        self.dearest = max(band.dearest for band in bands)
        self.is_bounded = any(isinstance(band, BoundedPart) for band in bands)
        self.unsure = tuple(chain.from_iterable(band.unsure for band in bands))
        self.crossing = tuple(chain.from_iterable(band.crossing for band in bands))
        self.table = table
        self.row_id = table.claim()
        self.row: Int32 = (
            np.empty(vocabulary.num_words, dtype=np.int32)
            if self.row_id is None
            else table.rows[self.row_id]
        )
        self.row[:] = bands[0].row
        for band in bands[1:]:
            self.row |= band.row
        if is_complete:
            self.row |= vocabulary.stop_row
        self.row.flags.writeable = False
        self.num_allowed = vocabulary.count(self.row)
        self._ids: Int32 | None = None

    def __del__(self) -> None:
        row_id = getattr(self, "row_id", None)
        if row_id is not None:
            self.table.give_back(row_id)

    @property
    def num_bytes(self) -> int:
        """What it keeps in memory beyond its bands, about."""
        return BYTES_PER_MASK + self.row.nbytes + (4 * self.num_allowed if self._is_sparse else 0)

    @property
    def _is_sparse(self) -> bool:
        return self.num_allowed <= MAX_KEPT_IDS

    @property
    def token_ids(self) -> Int32:
        """The ids of the allowed tokens, ascending; made once where they are few."""
        if self._ids is not None:
            return self._ids
        found = self._vocabulary.unpack(self.row)
        if self._is_sparse:
            found.flags.writeable = False
            self._ids = found
        return found

    def affordable_row(self, cost: int) -> Int32:
        """The row of the tokens after which finishing costs at most `cost`; no stop tokens."""
        cheap = [band.row for band in self.bands if band.dearest <= cost]
        some = [band.affordable(cost) for band in self.bands if band.dearest > cost]
        row = self._vocabulary.pack(np.concatenate(some)) if some else np.zeros_like(self.row)
        for part in cheap:
            row |= part
        return row


def compute_band(node: Expr, trie: Trie, *, states: StateTable, walks: TrieWalks) -> BandMask:
    """The allowed tokens of one band, from one walk of its trie."""
    reached = walks.after_tokens(node, trie)
    return _listed(node, reached, reached.all_runs(), trie=trie, states=states)


def compute_parts(
    node: Expr, trie: Trie, *, states: StateTable, walks: TrieWalks
) -> list[MaskPart]:
    """The same as parts: each run that is wide is one of them, and all else."""
    reached = walks.after_tokens(node, trie)
    runs, wide = list(reached.runs), list[MaskPart]()
    for run in reached.wide_runs:
        if run.loop.tail.pending and not node.pending:
            runs.append(run.listed())
        else:
            wide.append(RunMask(run, states.completions))
    return [*wide, _listed(node, reached, runs, trie=trie, states=states)]


def compute_bounded(
    node: Expr, trie: Trie, *, states: StateTable, walks: TrieWalks, bounds: CostBounds
) -> BoundedPart | None:
    """The same without the costs, but for a bound. None where only they tell what is allowed, or
    only what was written does.
    """
    reached = walks.after_tokens(node, trie)
    state_ids = present(reached.states)
    if not states.unsure.isdisjoint(state_ids):
        return None
    found = [bounds.bound(states.node(state_id)) for state_id in state_ids]
    tokens = [reached.tokens]
    for loop, _, inside, codes in reached.runs:
        kept = inside[loop.room[codes]]
        tokens.append(kept)
        found += [loop.bound(bounds)] if len(kept) else []
    vocabulary = states.completions.vocabulary
    row = vocabulary.pack(trie.token_ids[np.concatenate(tokens)])
    for run in reached.wide_runs:
        part = run_row(run, run.loop.room, vocabulary)
        row |= part
        found += [run.loop.bound(bounds)] if part.any() else []
    dearest = max(found, default=-1)
    return BoundedPart(row, dearest) if dearest < UNREACHABLE else None


def _listed(
    node: Expr, reached: Reached, runs: Sequence[Run], *, trie: Trie, states: StateTable
) -> BandMask:
    """What is reached from `node`, also inside of `runs`, with the cost of finishing after each
    token.
    """
    completions = states.completions
    cost_of = np.zeros(len(states), dtype=np.int32)
    is_crossing = np.zeros(len(states), dtype=bool)
    stretch = 0
    for state_id in present(reached.states):
        if state_id in states.unsure:
            cost_of[state_id] = UNSURE
            continue
        following = states.node(state_id)
        cost_of[state_id] = completions.cost(following)
        is_crossing[state_id] = following.pending and not node.pending
        stretch = max(stretch, completions.stretch(following))
    tokens, costs = [reached.tokens], [cost_of[reached.states]]
    crossing = [is_crossing[reached.states]]
    for loop, walk, inside, codes in runs:
        tokens.append(inside)
        costs.append(loop.costs(completions, walk.present(codes))[codes])
        crossing.append(np.full(len(inside), loop.tail.pending and not node.pending))
        stretch = max(stretch, completions.stretch(loop.tail))
    token_ids = trie.token_ids[np.concatenate(tokens)]
    all_costs = np.concatenate(costs)
    possible = all_costs < UNREACHABLE
    unsure = token_ids[all_costs == UNSURE]
    crossing_ids = token_ids[np.concatenate(crossing) & possible]
    if not possible.all():
        token_ids, all_costs = token_ids[possible], all_costs[possible]
    return BandMask(
        row=completions.vocabulary.pack(token_ids),
        token_ids=token_ids,
        costs=all_costs,
        stretch=stretch,
        unsure=tuple(unsure.tolist()),
        crossing=tuple(crossing_ids.tolist()),
    )

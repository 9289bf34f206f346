"""What runs of characters reach in a trie, whatever their number. Owns the walks that count.

A *run* is `x{m,n}` with an x whose strings are told apart as they come: no string of x begins with
another. (The characters of a JSON string are the case that matters; most tokens are made of them.)
Then a text inside of the run is so many whole strings of x, and the beginning of one more. Neither
depends on m, n and what follows the run: a walk of the trie finds both once for all of them, and
for all grammars that have such an x. What a mask asks of a run is then a look at numbers.

A *code* says where in a run a text stands: `part * stride + count`, where part 0 is the border
between two strings of x, others number the beginnings, and count is that of whole strings.
It must not know of expressions, costs and masks.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from grammars.trie import Int32, Trie, ranges

Ids = NDArray[np.integer]

BROKEN, BORDER = 0, 1
"""Rows of a table of steps: no beginning of a string of x, and the border between two."""

MAX_KEPT_BELOW = 128
"""Walks below places that are no borders of the walk from the root: of a few hundred nodes."""

MOST = 8
"""What lies below some nodes is most of all when so many times what is left out is not more."""


class Below(NamedTuple):
    """What lies below some nodes of a trie, each at a border: in the run, and next to it.

    `tokens`: indices of the tokens inside, with their `codes`. `exits`: the nodes behind a border
    whose byte no string of x begins with, and the number of whole strings before each.
    """

    tokens: Ids
    codes: Int32
    exits: Ids
    counts: Int32


class CharWalk:
    """The walks of one trie for one x, given by its steps.

    `steps[p, b]`: where byte b leads from p: BROKEN, BORDER (a string of x is whole), or the
    beginnings of one from 2 on. # uint8 [num parts + 1, 256]
    """

    def __init__(self, steps: NDArray[np.uint8], trie: Trie, base: CharWalk | None = None) -> None:
        """`base`: that of a set of bytes each of which is a string of x, if there is one."""
        self._steps = steps
        self._trie = trie
        self.stride = trie.longest + 1
        self.num_codes = (len(steps) - 1) * self.stride
        self._part: NDArray[np.uint8] = np.zeros(trie.num_nodes, dtype=np.uint8)
        self._part[0] = BORDER
        small = np.uint8 if trie.longest < 1 << 8 else np.int32
        self._count: Ids = np.zeros(trie.num_nodes, dtype=small)
        exits = self._from_root() if base is None else self._from_base(base)
        ends = trie.node_in_order
        part = self._part[ends]
        codes = (part.astype(np.int32) - 1) * self.stride + self._count[ends]
        codes[part == BROKEN] = -1
        self._codes: Int32 = codes
        self._exits = exits[np.argsort(trie.first_below[exits])]
        self._exit_places = trie.first_below[self._exits]
        self._exit_counts: Int32 = self._count[trie.parent[self._exits]].astype(np.int32)
        self._kept: OrderedDict[bytes, Below] = OrderedDict()
        self.rows: dict[bytes, Int32] = {}
        """For whoever makes bitmask rows of `whole`: those of some of its codes. There are as many
        as a run that ends within a token has lengths."""
        self.num_bytes = 2 * trie.num_nodes + 18 * len(codes) + 20 * len(exits)
        """What it keeps, about."""

    def _from_root(self) -> Ids:
        """Fills in where in a string of x each node stands, and the whole strings before; the nodes
        that lie next to the run.
        """
        trie = self._trie
        steps = self._steps.ravel()
        exits = []
        first, last = 0, 1
        while first < last:  # the nodes of a level between the first and the last alive
            low = int(trie.first_child[first])
            high = int(trie.first_child[last - 1] + trie.num_children[last - 1])
            above = trie.parent[low:high]
            before = self._part[above]
            reached = steps[before.astype(np.intp) * 256 + trie.edge_byte[low:high]]
            self._part[low:high] = reached
            self._count[low:high] = self._count[above] + (reached == BORDER)
            exits.append(((reached == BROKEN) & (before == BORDER)).nonzero()[0] + low)
            alive = reached.nonzero()[0]
            first, last = (low + int(alive[0]), low + int(alive[-1]) + 1) if len(alive) else (0, 0)
        return np.concatenate(exits)

    def _from_base(self, base: CharWalk) -> Ids:
        """The same, but only behind what lies next to the run of `base`."""
        trie = self._trie
        self._part[:], self._count[:] = base._part, base._count
        nodes, count = base._exits, base._exit_counts
        part = np.full(len(nodes), BORDER, dtype=np.uint8)
        exits = []
        while len(nodes):
            after = self._steps[part, trie.edge_byte[nodes]]
            exits.append(nodes[(after == BROKEN) & (part == BORDER)])
            alive = after.nonzero()[0]
            nodes, part = nodes[alive], after[alive]
            count = count[alive] + (part == BORDER)
            self._part[nodes], self._count[nodes] = part, count
            number = trie.num_children[nodes]
            nodes = ranges(trie.first_child[nodes], trie.first_child[nodes] + number)
            part, count = part.repeat(number), count.repeat(number)
        return np.concatenate(exits)

    @cached_property
    def whole(self) -> Below:
        """What lies below the root."""
        inside = (self._codes >= 0).nonzero()[0]
        return Below(
            self._trie.in_order[inside], self._codes[inside], self._exits, self._exit_counts
        )

    @cached_property
    def whole_ids(self) -> Ids:
        """The ids of the tokens of `whole`."""
        ids = self._trie.token_ids[self.whole.tokens]
        return ids.astype(np.uint16 if ids.max(initial=0) < 1 << 16 else np.uint32)

    @cached_property
    def _whole_numbers(self) -> NDArray[np.intp]:
        """How many tokens of `whole` have each code. # [num_codes]"""
        return np.bincount(self.whole.codes, minlength=self.num_codes)

    def codes_but(self, missing: Ids) -> list[int]:
        """The codes that occur in `whole` without these of its places (see `missing_below`)."""
        left = self._whole_numbers - np.bincount(
            self.whole.codes[missing], minlength=self.num_codes
        )
        found: list[int] = left.nonzero()[0].tolist()
        return found

    def present(self, codes: Int32) -> list[int]:
        """Those that occur, each once, ascending."""
        found: list[int] = np.bincount(codes, minlength=self.num_codes).nonzero()[0].tolist()
        return found

    @cached_property
    def _inside_before(self) -> Int32:
        """For each place in the trie's order, how many tokens of `whole` come before it."""
        before = np.zeros(len(self._codes) + 1, dtype=np.int32)
        np.cumsum(self._codes >= 0, out=before[1:])
        return before

    def missing_below(self, nodes: Ids) -> Ids | None:
        """The places in `whole` of what is not below these nodes (none below another), where
        they are borders of the walk from the root and most of it is; None elsewhere.
        """
        if len(nodes) == 1 and not nodes[0]:
            return np.zeros(0, dtype=np.intp)
        if (self._part[nodes] != BORDER).any():
            return None
        trie = self._trie
        first = np.sort(trie.first_below[nodes] + trie.num_at[nodes])
        last = np.sort(trie.last_below[nodes])
        before, end = self._inside_before, len(self._codes)
        gaps = before[np.append(0, last)], before[np.append(first, end)]
        if MOST * int((gaps[1] - gaps[0]).sum()) > len(self.whole.tokens):
            return None
        return ranges(*gaps)

    def exits_below(self, nodes: Ids) -> tuple[Ids, Int32]:
        """The exits below borders of the walk from the root, with counts from 0 at each."""
        trie = self._trie
        first, last = trie.first_below[nodes] + trie.num_at[nodes], trie.last_below[nodes]
        first = np.searchsorted(self._exit_places, first)
        last = np.searchsorted(self._exit_places, last)
        outside = ranges(first, last)
        offset = self._count[nodes].astype(np.int32)
        return self._exits[outside], self._exit_counts[outside] - offset.repeat(last - first)

    def below(self, nodes: Ids) -> Below:
        """What lies below nodes that are not below each other, with counts from 0 at each."""
        if len(nodes) == 1 and not nodes[0]:
            return self.whole
        is_known = self._part[nodes] == BORDER
        if is_known.all():
            return self._sliced(nodes)
        others = nodes[~is_known]
        key = others.astype(np.int32).tobytes()
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._walked(others)
            if len(self._kept) > MAX_KEPT_BELOW:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        if not is_known.any():
            return found
        parts = zip(found, self._sliced(nodes[is_known]), strict=True)
        return Below(*(np.concatenate(pair) for pair in parts))

    def _sliced(self, nodes: Ids) -> Below:
        """Below borders of the walk from the root: the same, but for the counts."""
        trie = self._trie
        first, last = trie.first_below[nodes] + trie.num_at[nodes], trie.last_below[nodes]
        offset = self._count[nodes].astype(np.int32)
        places = ranges(first, last)
        codes = self._codes[places]
        inside = (codes >= 0).nonzero()[0]
        codes = codes - offset.repeat(last - first)
        return Below(trie.in_order[places[inside]], codes[inside], *self.exits_below(nodes))

    def _walked(self, nodes: Ids) -> Below:
        """Below other nodes: level by level."""
        trie = self._trie
        part = np.full(len(nodes), BORDER, dtype=np.uint8)
        count = np.zeros(len(nodes), dtype=np.int32)
        inside: list[tuple[Ids, Int32]] = []
        outside: list[tuple[Ids, Int32]] = []
        while len(nodes):
            number = trie.num_children[nodes]
            children = ranges(trie.first_child[nodes], trie.first_child[nodes] + number)
            before, count = part.repeat(number), count.repeat(number)
            part = self._steps[before, trie.edge_byte[children]]
            is_exit = (part == BROKEN) & (before == BORDER)
            outside.append((children[is_exit], count[is_exit]))
            alive = part.nonzero()[0]
            nodes, part = children[alive], part[alive]
            count = count[alive] + (part == BORDER)
            inside.append((nodes, (part.astype(np.int32) - 1) * self.stride + count))
        ends = [np.concatenate(column) for column in zip(*inside, strict=True)]
        exits = [np.concatenate(column) for column in zip(*outside, strict=True)]
        tokens, codes = trie.tokens_at(ends[0], ends[1])
        return Below(tokens, codes, exits[0], exits[1])

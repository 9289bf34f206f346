"""The masks of one vocabulary, each computed once. Owns the bounds on what is kept.

One table of states and one cache serve all grammars of a compiler, so what they take does not grow
with the number of grammars. It must not know what a constraint is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

import numpy as np

from grammars.algebra import Algebra
from grammars.charset import ANY, json_text
from grammars.clamp import clamp
from grammars.completion import Completions
from grammars.cost_bounds import CostBounds
from grammars.derive import walk
from grammars.expr import NEAR, Expr
from grammars.masks import (
    BYTES_PER_MASK,
    BandMask,
    Mask,
    MaskPart,
    compute_band,
    compute_bounded,
    compute_parts,
)
from grammars.noting import loosened
from grammars.prelude import prelude
from grammars.relax import relax
from grammars.row_table import RowTable
from grammars.spelling import UNREACHABLE, Spelling
from grammars.states import DEAD, StateTable
from grammars.trie import Int32, Trie
from grammars.trie_walk import TrieWalks
from grammars.vocabulary import Vocabulary

MAX_KEPT_STATES = 16_384
"""Rows of 1 KiB, so 16 MiB between two walks."""

MAX_HELD_BYTES = 64 << 20
"""What the grammars of those states may take together: they are not given up before the states."""

LOOK_EVERY = 16
"""Walks between two looks at that: it is a sum over all of these grammars."""


class Sized(Protocol):
    """Something that knows how many bytes it keeps."""

    @property
    def num_bytes(self) -> int: ...


EXACT = "exact"
"""In the keys of masks with costs, where one without is kept as well."""

BYTES_PER_ENTRY = 200
"""What an entry of the cache takes beside the mask."""


class MaskCache:
    """Masks by key, least recently used first; bounded in bytes. Thread-safe.

    Keys are the serial numbers of expressions, never expressions: those would keep their grammars.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._kept: OrderedDict[Hashable, Sized] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Sized | None:
        """What is kept under `key`, if it is here."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: Hashable, made: Sized) -> None:
        """Keeps `made`, and as many of the others as there is room for."""
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = made
            self._num_bytes += made.num_bytes + BYTES_PER_ENTRY
            while self._num_bytes > self._max_bytes and len(self._kept) > 1:
                dropped = self._kept.popitem(last=False)[1]
                self._num_bytes -= dropped.num_bytes + BYTES_PER_ENTRY


class MaskStore:
    """Computes masks for the states of any grammar in `vocabulary`. Thread-safe."""

    def __init__(self, vocabulary: Vocabulary, *, max_bytes: int) -> None:
        self.vocabulary = vocabulary
        self._cache = MaskCache(max_bytes)
        self._rows = RowTable(
            vocabulary.num_words, max_rows=max_bytes // (BYTES_PER_MASK + 4 * vocabulary.num_words)
        )
        self._states = StateTable()
        self._walks = TrieWalks(self._states)
        self._lock = Lock()
        self._num_walks = 0
        self._begin()

    def _begin(self) -> None:
        """Makes what all masks need, and those of JSON strings: here, and not while a row waits."""
        alphabet = self.vocabulary.alphabet
        algebra = Algebra(alphabet, prelude=prelude(alphabet))
        quote = algebra.literal(b'"')
        inside = algebra.repeat(json_text(algebra, ANY), 0, None)
        completions = Completions(algebra, self.vocabulary)
        for begun in (quote, algebra.epsilon):
            self.mask(algebra.sequence([begun, inside, quote]), completions)
        self._walks.begin([self.vocabulary.trie, *self.vocabulary.bands])

    def known(self, node: Expr) -> Mask | None:
        """What `bounded` gives, if it is known already."""
        loose = node.loose if node.notes else node
        if loose is None:
            return None
        clamped = loose.clamped.get(self.vocabulary.longest) if loose.counts else loose
        found = None if clamped is None else self._cache.get(clamped.serial)
        if isinstance(found, Mask) and found.unsure:
            found = self._cache.get((node.serial, found.unsure))
        return found if isinstance(found, Mask) else None

    def mask(self, node: Expr, completions: Completions) -> Mask:
        """The mask of a state; `completions` are those of its grammar, which the caller guards."""
        shared = self._shared_mask(node, completions)
        if not shared.unsure:
            return shared
        key = (node.serial, shared.unsure)
        found = self._cache.get(key)
        if not isinstance(found, Mask):
            found = self._checked(shared, node, completions)
            self._cache.put(key, found)
        return found

    def bounded(self, node: Expr, completions: Completions, bounds: CostBounds) -> Mask:
        """The mask, maybe with a bound instead of costs (`Mask.is_bounded`): known sooner."""
        if node.notes:
            return self.mask(node, completions)
        node = clamp(completions.algebra, node, self.vocabulary.longest)
        found = self._cache.get(node.serial)
        if isinstance(found, Mask):
            return found
        if _counts_apart(completions.algebra, node):
            return self.mask(node, completions)
        with self._deriving(completions):
            part = compute_bounded(
                node, self.vocabulary.trie, states=self._states, walks=self._walks, bounds=bounds
            )
        if part is None:
            return self.mask(node, completions)
        made = Mask([part], self.vocabulary, is_complete=node.nullable, table=self._rows)
        part.row = made.row
        self._cache.put(node.serial, made)
        return made

    def _shared_mask(self, node: Expr, completions: Completions) -> Mask:
        """What all states allow that differ in what was written alone."""
        algebra = completions.algebra
        node = clamp(algebra, loosened(algebra, node), self.vocabulary.longest)
        key: Hashable = node.serial
        found = self._cache.get(key)
        if isinstance(found, Mask) and found.is_bounded:
            key = node.serial, EXACT
            found = self._cache.get(key)
        if isinstance(found, Mask):
            return found
        with self._deriving(completions):
            bands = self._bands(node, algebra)
        made = Mask(bands, self.vocabulary, is_complete=node.nullable, table=self._rows)
        self._cache.put(key, made)
        return made

    def _checked(self, shared: Mask, node: Expr, completions: Completions) -> Mask:
        """The mask with those of its unsure tokens that what was written allows: few, and looked at
        one by one.
        """
        algebra, excess = completions.algebra, completions.excess(node)
        costs: dict[int, int] = {}
        for token_id in shared.unsure:
            data = self.vocabulary.token_bytes(token_id)
            assert data is not None, "masks are made of tokens that write bytes"
            following = walk(algebra, node, data)
            if following is not algebra.empty and completions.is_alive(following):
                cost = completions.cost(following)
                if cost < UNREACHABLE:
                    costs[token_id] = max(cost - excess, 0)
        if not costs:
            return shared
        band = BandMask(
            row=self.vocabulary.pack(list(costs)),
            token_ids=np.array(list(costs)),
            costs=np.array(list(costs.values()), dtype=np.int32),
        )
        bands = [*shared.bands, band]
        return Mask(bands, self.vocabulary, is_complete=node.nullable, table=self._rows)

    def completion_after(self, node: Expr, data: bytes, completions: Completions) -> Spelling:
        """The completion after a token (of these bytes) from which the mask has its cost.

        A mask is taken from a state that tokens cannot tell from `node`; what follows there may be
        another expression than what follows `node`, with another, dearer witness of its own.
        """
        algebra = completions.algebra
        node = clamp(algebra, loosened(algebra, node), self.vocabulary.longest)
        if _counts_apart(algebra, node):
            trie = next(trie for trie in self.vocabulary.bands if len(data) <= trie.longest)
            with self._deriving(completions):
                node, _ = self._band(clamp(algebra, node, trie.longest), trie)
        return completions.spelling(walk(algebra, node, data))

    def successors(self, node: Expr, completions: Completions) -> tuple[list[Expr], Int32]:
        """The states that tokens lead to from `node`, and for each token of the vocabulary's trie
        which of them it leads to, counted from 1 (0: it is not allowed). # int32 [num tokens]
        """
        trie = self.vocabulary.trie
        with self._deriving(completions):
            reached = self._walks.states_after_tokens(node, trie)
            found = np.bincount(reached, minlength=len(self._states))
            found[DEAD] = 0
            ids = found.nonzero()[0]
            nodes = [self._states.node(state_id) for state_id in ids.tolist()]
        place = np.zeros(len(found), dtype=np.int32)
        place[ids] = np.arange(1, len(ids) + 1)
        which: Int32 = place[reached]
        return nodes, which

    @contextmanager
    def _deriving(self, completions: Completions) -> Iterator[None]:
        """The table of states, for the expressions that `completions` know."""
        with self._lock:
            states = self._states
            self._num_walks += 1
            is_due = self._num_walks % LOOK_EVERY == 0
            is_heavy = is_due and states.held_bytes(beside=completions) > MAX_HELD_BYTES
            if states.num_known > MAX_KEPT_STATES or is_heavy:
                states.clear()
                self._walks.forget_ids()
            self._states.derive_with(completions)
            yield

    def _bands(self, node: Expr, algebra: Algebra) -> list[MaskPart]:
        """The parts of a mask. Where no counter stands inside of an intersection, all tokens are
        walked together.
        """
        if not _counts_apart(algebra, node):
            trie = self.vocabulary.trie
            return compute_parts(node, trie, states=self._states, walks=self._walks)
        bands = self.vocabulary.bands
        return [self._band(clamp(algebra, node, trie.longest), trie)[1] for trie in bands]

    def _band(self, node: Expr, trie: Trie) -> tuple[Expr, BandMask]:
        """One band's part, shared by all states that its tokens cannot tell apart; and the one it
        is taken from.

        A bound that is still far after any token is left out; what was found without it holds when
        its witnesses are short enough for what then remains.
        """
        relaxed, room = relax(self._states.completions.algebra, node, trie.longest + NEAR)
        if relaxed is not node:
            shared = self._exact_band(relaxed, trie)
            if shared.stretch <= room - trie.longest:
                return relaxed, shared
        return node, self._exact_band(node, trie)

    def _exact_band(self, node: Expr, trie: Trie) -> BandMask:
        found = self._cache.get((node.serial, trie))
        if isinstance(found, BandMask):
            return found
        made = compute_band(node, trie, states=self._states, walks=self._walks)
        self._cache.put((node.serial, trie), made)
        return made


def _counts_apart(algebra: Algebra, node: Expr) -> bool:
    """Whether a far bound stands inside of an intersection, so that each band has its own."""
    return relax(algebra, node)[0] is not node

"""One step's ragged input: who computes which tokens, and where their KV goes.

Owns the arrays of a step (numpy, FlashInfer's names). Built from grants; knows neither queues nor
tensors, so that every executor, the fake one of the tests included, reads the same thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence as List
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from runtime.sequence import Sequence

Int32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Grant:
    """`num_tokens` tokens from `start` on, given to a sequence in this step. The last of them are
    the `draft`: guesses of what comes behind the known tokens, which are in this step only.
    """

    sequence: Sequence
    start: int
    num_tokens: int
    draft: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        return self.start + self.num_tokens

    @property
    def samples(self) -> bool:
        """This grant closes the gap of a sequence that wants its next token."""
        sequence, known_end = self.sequence, self.end - len(self.draft)
        return sequence.wants_sample and known_end == len(sequence.tokens) + (
            sequence.next_row >= 0
        )

    @property
    def draws_next(self) -> bool:
        """What this grant draws, or has drawn, is the sequence's next token still: since it was
        granted the sequence has come to no other end, nor lost what was computed of it.
        """
        sequence = self.sequence
        return (
            sequence.wants_sample
            and sequence.stale_from is None
            and bool(sequence.pages)
            and self.end - len(self.draft) == len(sequence.tokens)
        )

    @property
    def scored_at(self) -> range:
        """Places, among what is computed of the sequence, behind which something is scored."""
        sequence, last = self.sequence, len(self.sequence.tokens) - 1
        if sequence.tree is not None:
            return range(max(last, self.start), self.end)
        if sequence.score_from is None:
            return range(0)
        return range(max(sequence.score_from - 1, self.start), min(self.end, last))


@dataclass(frozen=True, slots=True)
class Batch:
    """A ragged batch of `num_tokens` tokens in `num_rows` rows.

    token_ids, positions, slots: [num_tokens]; a slot is page * page_size + offset. A token id below
    zero, -1 - i, stands for what row i of the step before has drawn. qo_indptr:
    [num_rows + 1] rows' borders in the tokens. kv_indptr: [num_rows + 1] their borders in
    kv_indices, the concatenated page tables. last_page_len: [num_rows] slots in use of the last
    page. kv_lens: [num_rows] tokens in its pages that a row attends to. sample_at, score_at:
    indices into the tokens whose logits are needed; score_targets: the token ids that are scored
    there, those of one place from score_indptr on. sampled: the grants behind sample_at, in order;
    one with a draft draws behind each of its tokens, too.

    trees: of each row that is no chain, for every token the place in the row of the one that it
    follows, -1 if that is none of this step. Such a token attends to its line of these, to itself,
    and to as many tokens as come before them in the row's pages, as they are before the step. What
    no later step needs has no slot: -1.
    """

    grants: List[Grant]
    page_size: int
    token_ids: Int32
    positions: Int32
    slots: Int32
    qo_indptr: Int32
    kv_indptr: Int32
    kv_indices: Int32
    last_page_len: Int32
    kv_lens: Int32
    sample_at: Int32
    score_at: Int32
    score_indptr: Int32
    score_targets: Int32
    sampled: List[Grant] = field(default_factory=list)
    trees: Mapping[int, Int32] = field(default_factory=dict)  # by row

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_rows(self) -> int:
        return len(self.grants)

    def pages(self, row: int) -> Int32:
        return self.kv_indices[self.kv_indptr[row] : self.kv_indptr[row + 1]]

    def draws(self) -> Iterator[tuple[Grant, slice]]:
        """The grants that draw, and which of the drawn tokens are theirs."""
        end = 0
        for grant in self.sampled:
            begin, end = end, end + 1 + len(grant.draft)
            yield grant, slice(begin, end)


@dataclass(frozen=True, slots=True)
class Row:
    """A grant's tokens. places: where in the sequence's pages their KV is stored, or -1. kv_len,
    parents: see `Batch`; a chain has no parents.
    """

    token_ids: List[int]
    positions: Iterable[int]
    places: Iterable[int]
    kv_len: int
    parents: Int32 | None = None


def _chain(grant: Grant) -> Row:
    sequence, places = grant.sequence, range(grant.start, grant.end)
    known = sequence.tokens[grant.start : grant.end]
    if grant.end > len(sequence.tokens) and sequence.next_row >= 0:
        known.append(-1 - sequence.next_row)
    return Row([*known, *grant.draft], places, places, grant.end)


def _tree(grant: Grant) -> Row:
    """The end of the tokens, if that is granted too, and nodes of the tree behind them."""
    sequence, tree = grant.sequence, grant.sequence.tree
    assert tree is not None, "nothing but a tree is behind the tokens"
    start, num_tokens = grant.start, len(sequence.tokens)
    first, end = max(0, start - num_tokens), grant.end - num_tokens
    chain = range(start, num_tokens)
    positions = [*chain, *(num_tokens + depth for depth in tree.depths[first:end])]
    follows = [place - 1 for place in chain]
    follows += [num_tokens + parent for parent in tree.parents[first:end]]
    # Later nodes go on from the path to the last one.
    path = {-1} if end == len(tree) else set(tree.path_to(end - 1))
    stored = [num_tokens + tree.depths[node] if node in path else -1 for node in range(first, end)]
    return Row(
        token_ids=[*sequence.tokens[start:], *tree.tokens[first:end]],
        positions=positions,
        places=[*chain, *stored],
        kv_len=positions[0],
        parents=np.maximum(np.asarray(follows, dtype=np.int32) - start, -1),
    )


def build_batch(grants: List[Grant], page_size: int) -> Batch:
    """Lay the grants out as one ragged batch; each sequence has the pages for its grant."""
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    kv_indices: list[int] = []
    sample_at: list[int] = []
    score_at: list[int] = []
    score_indptr = [0]
    score_targets: list[int] = []
    sampled: list[Grant] = []
    trees: dict[int, Int32] = {}
    kv_lens: list[int] = []
    qo_indptr, kv_indptr = [0], [0]
    for grant in grants:
        sequence, first = grant.sequence, len(token_ids)
        beyond = grant.end - len(grant.draft) > len(sequence.tokens)
        in_tree = beyond and sequence.tree is not None
        row = _tree(grant) if in_tree else _chain(grant)
        if row.parents is not None:
            trees[len(kv_lens)] = row.parents
        token_ids += row.token_ids
        positions += row.positions
        for place in row.places:
            page = sequence.pages[place // page_size] if place >= 0 else -1
            slots.append(page * page_size + place % page_size if place >= 0 else -1)
        kv_indices += sequence.pages[: -(-row.kv_len // page_size)]
        kv_lens.append(row.kv_len)
        qo_indptr.append(len(token_ids))
        kv_indptr.append(len(kv_indices))
        for place in grant.scored_at:
            score_at.append(first + place - grant.start)
            score_targets += sequence.targets(place)
            score_indptr.append(len(score_targets))
        if grant.samples:
            sample_at += range(len(token_ids) - 1 - len(grant.draft), len(token_ids))
            sampled.append(grant)
    lens = np.asarray(kv_lens, dtype=np.int32)
    return Batch(
        grants=grants,
        page_size=page_size,
        token_ids=np.asarray(token_ids, dtype=np.int32),
        positions=np.asarray(positions, dtype=np.int32),
        slots=np.asarray(slots, dtype=np.int32),
        qo_indptr=np.asarray(qo_indptr, dtype=np.int32),
        kv_indptr=np.asarray(kv_indptr, dtype=np.int32),
        kv_indices=np.asarray(kv_indices, dtype=np.int32),
        last_page_len=(lens - 1) % page_size + 1,
        kv_lens=lens,
        sample_at=np.asarray(sample_at, dtype=np.int32),
        score_at=np.asarray(score_at, dtype=np.int32),
        score_indptr=np.asarray(score_indptr, dtype=np.int32),
        score_targets=np.asarray(score_targets, dtype=np.int32),
        sampled=sampled,
        trees=trees,
    )
